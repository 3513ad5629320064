package payclient_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// fuzzNamespace derives the one identity that all answers of the fuzz target are about.
var fuzzNamespace = uuid.MustParse("6f2c1a5e-0d3b-4c7e-9a51-2b8d4e6f7a90")

func fuzzReference() string {
	return attempt.DeriveIdentity(fuzzNamespace, "", wireIntent("1001").Slot(), 1).Reference
}

// fuzzPay pays with a provider that answers with these bytes, whatever they are, and then ends the connection.
func fuzzPay(t *testing.T, raw []byte) (payclient.Result, error) {
	t.Helper()
	p, err := standard.New(standard.Config{Token: payclient.NewSecret(wireToken), NoLookup: true})
	if err != nil {
		t.Fatal(err)
	}
	client, err := payclient.New(payclient.Config{
		Provider: p, Store: new(attempt.Memory), BaseURL: "https://provider.test", DeriveFrom: fuzzNamespace, Retries: -1,
		Breaker: payclient.BreakerConfig{FailurePercent: -1},
		Transport: wireStranger(func(q *http.Request) (*http.Response, error) {
			if trace := httptrace.ContextClientTrace(q.Context()); trace != nil {
				trace.GetConn("")
				trace.GotConn(httptrace.GotConnInfo{})
			}
			return fuzzRead(raw, q)
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return client.Pay(t.Context(), wireIntent("1001"))
}

// fuzzRead reads an answer as net/http's transport does: informational ones are skipped.
func fuzzRead(raw []byte, q *http.Request) (*http.Response, error) {
	r := bufio.NewReader(bytes.NewReader(raw))
	for range 10 {
		resp, err := http.ReadResponse(r, q)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
	}
	return nil, errors.New("too many informational answers")
}

// strictAnswer is what a second, independent reader makes of the bytes of an answer.
type strictAnswer struct {
	status int
	whole  bool // framed by a length or by chunks, and complete
	end    int  // where it ends
	body   []byte
}

// readStrictAnswer reads by hand: the status line, header lines, and a body whose end is stated. It shares nothing with
// net/http, and is as lenient as RFC 9112 allows in what does not matter.
func readStrictAnswer(raw []byte) strictAnswer {
	at := 0
	line := func() (string, bool) {
		n := bytes.IndexByte(raw[at:], '\n')
		if n < 0 {
			return "", false
		}
		text := strings.TrimSuffix(string(raw[at:at+n]), "\r")
		at += n + 1
		return text, true
	}
	for {
		first, ok := line()
		if !ok {
			return strictAnswer{}
		}
		_, rest, _ := strings.Cut(first, " ")
		code, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
		status, err := strconv.Atoi(code)
		if err != nil {
			return strictAnswer{}
		}
		length, chunked := -1, false
		for {
			field, ok := line()
			if !ok {
				return strictAnswer{}
			}
			if field == "" {
				break
			}
			name, value, _ := strings.Cut(field, ":")
			value = strings.Trim(value, " \t")
			switch strings.ToLower(name) {
			case "content-length":
				if length, err = strconv.Atoi(value); err != nil {
					return strictAnswer{}
				}
			case "transfer-encoding":
				chunked = strings.EqualFold(value, "chunked")
			}
		}
		if status >= 100 && status <= 199 && status != 101 {
			continue
		}
		a := strictAnswer{status: status}
		switch {
		case chunked:
			for {
				size, ok := line()
				if !ok {
					return a
				}
				size, _, _ = strings.Cut(size, ";")
				n, err := strconv.ParseInt(strings.TrimSpace(size), 16, 32)
				if err != nil || n < 0 || at+int(n) > len(raw) {
					return a
				}
				if n == 0 {
					break
				}
				a.body = append(a.body, raw[at:at+int(n)]...)
				at += int(n)
				if end, ok := line(); !ok || end != "" {
					return a
				}
			}
			for { // trailers, and the line after them
				trailer, ok := line()
				if !ok {
					return a
				}
				if trailer == "" {
					break
				}
			}
			a.whole, a.end = true, at
		case length >= 0 && at+length <= len(raw):
			a.whole, a.body, a.end = true, raw[at:at+length], at+length
		}
		return a
	}
}

// strictObject reads exactly one JSON object: valid UTF-8, no name twice at any depth, nothing behind it.
func strictObject(body []byte) (map[string]json.RawMessage, bool) {
	if !utf8.Valid(body) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if !namesOnce(d) {
		return nil, false
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, false
	}
	var m map[string]json.RawMessage
	if err := json.Unmarshal(body, &m); err != nil || m == nil {
		return nil, false
	}
	return m, true
}

// namesOnce reads one value and tells whether every object in it has each name once.
func namesOnce(d *json.Decoder) bool {
	t, err := d.Token()
	if err != nil {
		return false
	}
	switch t {
	case json.Delim('{'):
		seen := map[string]bool{}
		for d.More() {
			name, err := d.Token()
			text, ok := name.(string)
			if err != nil || !ok || seen[text] || !namesOnce(d) {
				return false
			}
			seen[text] = true
		}
		_, err = d.Token()
		return err == nil
	case json.Delim('['):
		for d.More() {
			if !namesOnce(d) {
				return false
			}
		}
		_, err = d.Token()
		return err == nil
	}
	return true
}

func (a strictAnswer) approves(reference string) bool {
	m, ok := strictObject(a.body)
	if !ok || !a.whole || a.status != 200 && a.status != 201 {
		return false
	}
	text := func(name string) string {
		var s string
		if json.Unmarshal(m[name], &s) != nil {
			return ""
		}
		return s
	}
	return text("status") == "succeeded" && text("merchant_reference") == reference && text("id") != "" &&
		string(m["amount"]) == strconv.Itoa(wireMinor) && strings.EqualFold(text("currency"), wireCode)
}

// FuzzAnswer feeds bytes as an answer. Approved is told only if a second reader, written here, finds an approval of exactly
// this payment in them; an end without money only if it finds a whole answer with a JSON object; and no beginning of an
// answer decides anything.
func FuzzAnswer(f *testing.F) {
	reference := fuzzReference()
	good := `{"id":"ch_1","status":"succeeded","amount":54890,"currency":"TRY","merchant_reference":"` + reference + `"}`
	failed := strings.Replace(good, "succeeded", "failed", 1)
	with := func(head, body string) string {
		return head + "\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
	}
	created := "HTTP/1.1 201 Created"
	for _, seed := range []string{
		with(created, good), with("HTTP/1.0 200 OK", good), with("HTTP/2.0 201 X", good), with("HTTP/1.1 202 Accepted", good),
		with("HTTP/1.1 103 Early\r\n\r\n"+created, good),
		"HTTP/1.1 103 Early\r\nLink: <x>\r\n\r\n" + with(created, good),
		created + "\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n" + good[:5] + "\r\n" + strconv.FormatInt(int64(len(good)-5), 16) + ";x=y\r\n" + good[5:] + "\r\n0\r\nT: x\r\n\r\n",
		created + "\r\nTransfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(int64(len(good)), 16) + "\r\n" + good + "\r\n",
		created + "\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + strconv.FormatInt(int64(len(good)), 16) + "\r\n" + good + "\r\n0\r\n\r\n",
		created + "\r\n\r\n" + good, "HTTP/2.0 201 X\r\n\r\n" + good, "HTTP/1.0 201 X\r\nTransfer-Encoding: chunked\r\n\r\n" + good,
		created + "\r\nContent-Length: 20\r\n\r\n" + good, created + "\r\nContent-Length: 999\r\n\r\n" + good,
		created + "\nContent-Length: " + strconv.Itoa(len(good)) + "\n\n" + good,
		with(created, failed), with("HTTP/1.1 402 X", `{"code":"card_declined","merchant_reference":"`+reference+`"}`),
		with("HTTP/1.1 402 X", `{"code":"card_declined"}`), with("HTTP/1.1 401 X", `{"code":"no"}`), with("HTTP/1.1 401 X", "<html>"),
		with("HTTP/1.1 422 X", `{"code":"key_reused"}`), with("HTTP/1.1 409 X", `{"code":"running"}`), with("HTTP/1.1 500 X", "{}"),
		with(created, good+good), with(created, good+"x"), with(created, good+" \n"), with(created, "\xef\xbb\xbf"+good), with(created, "null"),
		with(created, "["+good+"]"), with(created, strings.Replace(good, "}", `,"status":"failed"}`, 1)),
		with(created, strings.Replace(failed, "}", `,"STATUS":"succeeded"}`, 1)), with(created, strings.Replace(failed, "}", `,"ſtatus":"succeeded"}`, 1)),
		with(created, strings.Replace(good, "status", `st\u0061tus`, 1)), with(created, strings.Replace(good, "54890", "5489e1", 1)),
		with(created, strings.Replace(good, "54890", "54890.0", 1)), with(created, strings.Replace(good, "54890", `"54890"`, 1)),
		with(created, strings.Replace(good, "TRY", "try", 1)), with(created, strings.Replace(good, "ch_1", "", 1)),
		with(created, strings.Replace(good, reference, "ord-\xff", 1)), with(created, strings.Replace(good, `"ch_1"`, `"ch_1","x":{"a":1,"a":2}`, 1)),
		"HTTP/1.1 302 X\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 204 X\r\n\r\n", "HTTP/1.1 101 X\r\n\r\n" + good, "HTTP/1.1 000 X\r\nContent-Length: 0\r\n\r\n",
		"", "\r\n", "HTTP/1.1", "garbage",
	} {
		f.Add([]byte(seed), uint16(len(seed)-1))
	}
	f.Fuzz(func(t *testing.T, raw []byte, cut uint16) {
		strict := readStrictAnswer(raw)
		res, err := fuzzPay(t, raw)
		if err != nil {
			t.Fatalf("error %v: the request may have left", err)
		}
		switch {
		case res.Outcome == payclient.Approved && !strict.approves(reference):
			t.Fatalf("approved by %q", raw)
		case res.Outcome != payclient.Approved && strict.approves(reference) && plainAnswer(raw):
			t.Fatalf("%v (%s) for the approval %q: %s", res.Outcome, res.Reason, raw, res.Attempt.Answer.Detail)
		case res.Moved == payclient.MovedNo && !strict.refuses():
			t.Fatalf("%v, no money moved, by %q", res.Outcome, raw)
		case res.Moved == payclient.MovedYes && !strict.whole:
			t.Fatalf("%v, money moved, by %q", res.Outcome, raw)
		}
		if strict.whole && int(cut) < strict.end {
			part, err := fuzzPay(t, raw[:cut])
			if err != nil || part.Moved != payclient.MovedMaybe {
				t.Fatalf("%v moved=%v, %v; by the first %d bytes of %q", part.Outcome, part.Moved, err, cut, raw)
			}
		}
	})
}

// refuses tells whether the bytes are a whole answer of a kind that may end a payment without money.
func (a strictAnswer) refuses() bool {
	m, ok := strictObject(a.body)
	if !ok || !a.whole {
		return false
	}
	switch {
	case a.status == 200 || a.status == 201:
		return string(m["status"]) != "" && string(m["amount"]) == strconv.Itoa(wireMinor)
	case a.status >= 400 && a.status <= 499:
		return m["code"] != nil || m["type"] != nil
	}
	return false
}

// plainAnswer tells whether nothing in the bytes makes an approval doubtful that the second reader does not look at.
func plainAnswer(raw []byte) bool {
	head, _, _ := bytes.Cut(raw, []byte("{"))
	return bytes.HasPrefix(head, []byte("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: ")) &&
		bytes.Count(head, []byte("\r\n")) == 4 && bytes.Count(raw, []byte(":")) == 7 && len(raw) < 300 &&
		!bytes.ContainsFunc(raw, func(r rune) bool { return r == '\\' || r >= 0x7f })
}

// The fuzz target's own readers must agree with the approval that everybody knows, or it proves nothing.
func TestFuzzAnswerSeesApprovals(t *testing.T) {
	body := `{"id":"ch_1","status":"succeeded","amount":54890,"currency":"TRY","merchant_reference":"` + fuzzReference() + `"}`
	raw := []byte("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	res, err := fuzzPay(t, raw)
	if err != nil || res.Outcome != payclient.Approved || res.Reference != fuzzReference() {
		t.Errorf("%v (%s), %v; want approved", res.Outcome, res.Reason, err)
	}
	if !readStrictAnswer(raw).approves(fuzzReference()) || !plainAnswer(raw) {
		t.Error("the second reader does not see the approval")
	}
	if readStrictAnswer(raw[:len(raw)-1]).whole {
		t.Error("the second reader takes a cut answer for whole")
	}
}

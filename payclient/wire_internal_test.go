package payclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"text/template"
	"time"
	"unicode/utf8"

	"github.com/chargeonce/chargeonce/attempt"
)

var wireNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// What a Retry-After may say, RFC 9110 section 10.2.3, and what it should not (S08).
var retryAfters = []struct {
	text string
	date string // the answer's own Date; empty: none
	want time.Duration
}{
	{"", "", 0},
	{"0", "", 0},
	{"1", "", time.Second},
	{"120", "", 2 * time.Minute},
	{"007", "", 7 * time.Second},
	{"86400", "", 24 * time.Hour},
	{"86401", "", 24 * time.Hour},
	{"9223372037", "", 24 * time.Hour},
	{"99999999999999999999999", "", 24 * time.Hour},
	{"-1", "", 0},
	{"+1", "", 0},
	{"1.5", "", 0},
	{"1e3", "", 0},
	{"0x10", "", 0},
	{"1 ", "", 0},
	{"1, 2", "", 0},
	{"١", "", 0},
	{"soon", "", 0},
	{"Sun, 01 Mar 2026 12:00:30 GMT", "", 30 * time.Second},
	{"Sunday, 01-Mar-26 12:00:30 GMT", "", 30 * time.Second}, // the obsolete forms must be read as well
	{"Sun Mar  1 12:00:30 2026", "", 30 * time.Second},
	{"Sun, 01 Mar 2026 11:59:30 GMT", "", 0},
	{"Sun, 01 Mar 2026 12:00:30 CET", "", 0},
	{"Mon, 01 Mar 2027 12:00:00 GMT", "", 24 * time.Hour},
	{"2026-03-01T12:00:30Z", "", 0},
	// The provider's clock runs an hour ahead, or behind: the difference is what it asked for.
	{"Sun, 01 Mar 2026 13:00:30 GMT", "Sun, 01 Mar 2026 13:00:00 GMT", 30 * time.Second},
	{"Sun, 01 Mar 2026 11:00:30 GMT", "Sun, 01 Mar 2026 11:00:00 GMT", 30 * time.Second},
	{"Sun, 01 Mar 2026 12:00:30 GMT", "yesterday", 30 * time.Second},
	{"Mon, 01 Jan 9999 00:00:00 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", 24 * time.Hour}, // beyond what a Duration holds
}

func TestRetryAfter(t *testing.T) {
	for _, c := range retryAfters {
		h := http.Header{"Retry-After": {c.text}}
		if c.date != "" {
			h.Set("Date", c.date)
		}
		if got := retryAfter(h, wireNow); got != c.want {
			t.Errorf("Retry-After %q with Date %q: %s, want %s", c.text, c.date, got, c.want)
		}
	}
	if got := retryAfter(http.Header{}, wireNow); got != 0 {
		t.Errorf("no header: %s", got)
	}
}

// Whatever it says: never negative, never above the cap; and what is written in either form is read back.
func FuzzRetryAfter(f *testing.F) {
	for _, c := range retryAfters {
		f.Add(c.text, c.date, int64(30))
	}
	f.Fuzz(func(t *testing.T, text, date string, seconds int64) {
		h := http.Header{"Retry-After": {text}, "Date": {date}}
		if got := retryAfter(h, wireNow); got < 0 || got > maxRetryAfter {
			t.Errorf("Retry-After %q with Date %q: %s", text, date, got)
		}
		seconds = max(0, seconds) % int64(maxRetryAfter/time.Second+1)
		want := time.Duration(seconds) * time.Second
		for _, written := range []string{fmt.Sprint(seconds), wireNow.Add(want).Format(http.TimeFormat)} {
			if got := retryAfter(http.Header{"Retry-After": {written}}, wireNow); got != want {
				t.Errorf("Retry-After %q: %s, want %s", written, got, want)
			}
		}
	})
}

func TestRedact(t *testing.T) {
	const secret = "tok_wire_0123456789abcdef"
	quoted := `{"number":"n","cvc":"12\3"}`
	for _, c := range []struct{ text, secret, want string }{
		{"", secret, ""},
		{"Card declined.", secret, "Card declined."},
		{"no such source: " + secret, secret, "no such source: [redacted]"},
		{secret + secret, secret, "[redacted][redacted]"},
		{"cut: " + secret[:12] + `": unexpected end`, secret, `cut: [redacted]": unexpected end`},
		{"short: abc", "abc", "short: abc"}, // three letters would spoil every text
		{"short: abcd", "abcd", "short: [redacted]"},
		{"raw " + quoted, quoted, "raw [redacted]"},
		{fmt.Sprintf("once %q", quoted), quoted, `once "[redacted]"`},
		{fmt.Sprintf("twice %q", fmt.Sprintf("%q", quoted)), quoted, `twice "\"[redacted]\""`},
		{"card 4111111111111111 refused", "", "card [digits] refused"},
		{"card 4111 1111 1111 1111 refused", "", "card [digits] refused"},
		{"card 4111-1111-1111-1111 refused", "", "card [digits] refused"},
		{"card 4111\t1111\n1111 1111 refused", "", "card [digits] refused"},
		{"card 4111\u00a01111\u00a01111\u00a01111", "", "card [digits]"},
		{"PAN4111111111111111", "", "PAN[digits]"},
		{"pan_4111111111111111,exp=1230", "", "pan_[digits],exp=1230"},
		{"call 555 0100 until 12:30", "", "call 555 0100 until 12:30"},
		{"amount 54890", "", "amount 54890"},
		{"a\x00b\r\nc\u2028d", "", "a b  c d"},
		{"tok\u00a0wire\u00a0x", "tok\u00a0wire\u00a0x", "[redacted]"},
		{"tok\x00wire", "tok wire", "[redacted]"},
		{"bad \xff\xfe utf8", "", "bad \uFFFD utf8"},
		{strings.Repeat("ä", 150), "", strings.Repeat("ä", 98) + "…"},
	} {
		got := redact(c.text, c.secret)
		if got != c.want {
			t.Errorf("%q without %q: %q, want %q", c.text, c.secret, got, c.want)
		}
	}
}

// Whatever a provider says: never longer than the limit, one line of valid UTF-8, no run of twelve digits, nothing of a
// secret longer than a shred.
func FuzzRedact(f *testing.F) {
	f.Add("declined: tok_0123456789abcdef", "tok_0123456789abcdef")
	f.Add("4111 1111 1111 1111", "")
	f.Add(`"{\"source\":\"tok_`, "tok_")
	f.Add(strings.Repeat("x", 195)+"secret-word", "secret-word")
	f.Add("\xff\x00…", "\"")
	f.Fuzz(func(t *testing.T, text, secret string) {
		got := redact(text, secret)
		if len(got) > maxDetail {
			t.Errorf("%d bytes, want at most %d", len(got), maxDetail)
		}
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\r\n\x00\u2028\u2029\u00a0") {
			t.Errorf("%q is not one line of valid UTF-8", got)
		}
		digits := 0
		for _, r := range got {
			switch {
			case r >= '0' && r <= '9':
				digits++
			case r != ' ' && r != '-':
				digits = 0
			}
			if digits >= 12 {
				t.Fatalf("%q holds twelve digits in a row", got)
			}
		}
		for _, mark := range []string{"[redacted]", "[digits]"} {
			got = strings.ReplaceAll(got, mark, "\x00") // a mark is no shred of a secret
		}
		if n := len(secret); n >= 4 && utf8.ValidString(text) && utf8.ValidString(secret) && strings.Contains(got, secret[:min(n, shortSecret)]) {
			t.Errorf("%q holds the secret %q", got, secret)
		}
	})
}

// Ids are kept whole or not at all; a URL must be one that a payer can be sent to.
func TestCleanerIDsAndLinks(t *testing.T) {
	const source, token = "tok_wire_0123456789", "sk_wire_abcdefgh"
	c := cleaner{
		source: attempt.Token(source),
		credentials: credentialsIn(http.Header{
			"Authorization": {"Bearer " + token}, "X-Api-Key": {"key-9876543210"}, "Idempotency-Key": {`"0190b6c8-7a12-7123"`},
			"Accept": {"application/json"},
		}, "Idempotency-Key", nil),
	}
	for id, fit := range map[string]bool{
		"ch_1": true, "8515131751004933": true, "0190b6c8-7a12-7123-8123-123456789012": true, "ch_0000000000000001": true,
		"a/b.c~d": true, "0190b6c8-7a12-7123": true, "application/json": true,
		strings.Repeat("x", maxID): true, strings.Repeat("x", maxID+1): false, "a\nb": false, "a\xffb": false, "a\u00a0b": false,
		source: false, "ch_" + source: false, token: false, "Bearer " + token: false, "key-9876543210": false,
	} {
		if got := c.id(id); got != fit {
			t.Errorf("id %q fit: %t, want %t", id, got, fit)
		}
	}
	for link, fit := range map[string]bool{
		"https://psp.test/3ds?t=1234567890123456": true, "http://127.0.0.1/x": true,
		"javascript:alert(1)": false, "/relative": false, "https://": false, "https://psp.test/\n": false, "%": false, "": false,
		"https://psp.test/?source=" + source: false, "https://psp.test/?t=" + token: false,
		"https://psp.test/" + strings.Repeat("x", maxURL): false,
	} {
		if got := c.link(link); got != link && got != "" || (got == link) != fit && link != "" {
			t.Errorf("link %q: %q, want it kept: %t", link, got, fit)
		}
	}
	if got := c.text("token " + token + " for " + source + ", key-9876543210"); got != "token [redacted] for [redacted], [redacted]" {
		t.Errorf("text: %q", got)
	}
}

// A secret cannot be printed, whatever is tried.
func TestSecretPrintedEveryWay(t *testing.T) {
	const canary = "sk_canary_4f9a"
	s := NewSecret(canary)
	type shown struct{ S Secret }
	type hidden struct{ s Secret }
	var out bytes.Buffer
	for _, v := range []any{
		s, &s, shown{s}, &shown{s}, hidden{s}, &hidden{s}, []Secret{s}, map[string]Secret{"s": s}, [1]*Secret{&s}, any(s),
		struct{ Inner any }{s}, fmt.Errorf("bad credential: %v", s), errors.Join(fmt.Errorf("%s", s)),
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p", "%U", "%c", "%t", "%e", "% x", "%10.3v"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		b, err := json.Marshal(v)
		fmt.Fprintln(&out, string(b), err)
		for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(handler).Info("x", "v", v, slog.Group("g", "v", v))
		}
	}
	if err := template.Must(template.New("").Parse("{{.S}} {{printf \"%#v\" .S}}")).Execute(&out, shown{s}); err != nil {
		t.Error(err)
	}
	text, err := s.MarshalText()
	fmt.Fprintln(&out, string(text), err, s.LogValue())
	for _, trace := range []string{canary, canary[3:], fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), fmt.Sprintf("% x", canary), fmt.Sprint([]byte(canary))} {
		if strings.Contains(out.String(), trace) {
			t.Errorf("the output holds %q", trace)
		}
	}
	if s.Reveal() != canary || s.IsZero() || !(Secret{}).IsZero() || (Secret{}).Reveal() != "" {
		t.Error("Reveal or IsZero is wrong")
	}
	if fmt.Sprint(s) != hiddenSecret {
		t.Errorf("printed as %q", fmt.Sprint(s))
	}
}

// The recorder sets the two hooks that are evidence and no other: WroteHeaders and WroteRequest prove nothing (F38, F39),
// and Got1xxResponse would take the bound off a flood of them (F66).
func TestRecorderHooksF38F39F66(t *testing.T) {
	trace := reflect.ValueOf(*new(recorder).watch())
	for i := range trace.NumField() {
		name := trace.Type().Field(i).Name
		if set, want := !trace.Field(i).IsNil(), name == "GetConn" || name == "GotConn"; set != want {
			t.Errorf("%s set: %t, want %t", name, set, want)
		}
	}
	r := new(recorder)
	r.claimUntil = time.Now().Add(time.Hour)
	hooks := r.watch()
	if r.provesNotSent() {
		t.Error("no hook has fired: nothing is proven")
	}
	hooks.GetConn("")
	if !r.provesNotSent() {
		t.Error("asked for a connection and had none: nothing can have left")
	}
}

// The client's own transport takes half of the provider's idle time-out, F13.
func TestClientTransportF13(t *testing.T) {
	p := wireAdapter{Capabilities{Name: "x", IdleTimeout: 30 * time.Second}}
	c, err := New(Config{Provider: p, Store: new(attempt.Memory), BaseURL: "https://provider.test", MaxConcurrent: 9})
	if err != nil {
		t.Fatal(err)
	}
	tr, ok := c.transport.(*http.Transport)
	if !ok || tr.IdleConnTimeout != 15*time.Second || tr.MaxConnsPerHost != 9 {
		t.Errorf("transport %+v, want 15 s of idling and 9 connections", c.transport)
	}
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// wireAdapter is an adapter that is never asked for anything but what it can do.
type wireAdapter struct{ caps Capabilities }

func (a wireAdapter) Capabilities() Capabilities                              { return a.caps }
func (wireAdapter) ChargeBody(attempt.Attempt) ([]byte, error)                { return nil, errors.New("unused") }
func (wireAdapter) AppendSource(dst []byte, _ attempt.Source) ([]byte, error) { return dst, nil }
func (wireAdapter) ChargeRequest(attempt.Attempt) Request                     { return Request{} }
func (wireAdapter) ReadCharge(Response) Reply                                 { return Reply{} }
func (wireAdapter) LookupRequest(string, string) Request                      { return Request{} }
func (wireAdapter) ReadLookup(Response) LookupPage                            { return LookupPage{} }

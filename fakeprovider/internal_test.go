package fakeprovider

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func inboundCharge(p *Provider, key, ref string) *inbound {
	in := &inbound{
		method: "POST", path: "/v1/charges",
		header: http.Header{"Authorization": {"Bearer x"}, "Idempotency-Key": {`"` + key + `"`}},
		body:   []byte(`{"amount":1000,"currency":"EUR","source":"tok_visa","merchant_reference":"` + ref + `"}`),
	}
	in.look(&p.config)
	return in
}

func serveOnce(p *Provider, key, ref string) answer {
	x := p.arrive(inboundCharge(p, key, ref), choice{})
	defer x.leave() // or Close would wait for it
	return x.finish()
}

// F: finished keys are cleaned up, and cleaning up is not forgetting that they
// were seen.
func TestFFinishedKeysAreCleanedUp(t *testing.T) {
	now := time.Unix(1e9, 0)
	p := New(Config{KeyRetention: time.Hour, Now: func() time.Time { return now }})
	for i := range 3000 {
		serveOnce(p, fmt.Sprint("key-", i), "r")
		now = now.Add(time.Second) // so 3,600 keys at most are alive
	}
	now = now.Add(time.Hour)
	for i := range 1500 {
		serveOnce(p, fmt.Sprint("later-", i), "r")
	}
	alive := 0
	for n := uint32(1); int(n) <= p.keys.list.len(); n++ {
		if p.keys.list.at(n).state != keyFree {
			alive++
		}
	}
	if alive != 1500 || p.keys.list.len() > 3500 {
		t.Errorf("%d keys alive in %d places", alive, p.keys.list.len())
	}
	if n := p.DistinctKeys(); n != 4500 {
		t.Errorf("%d distinct keys", n)
	}
	if a := serveOnce(p, "key-7", "r"); a.status != 201 || a.replayed {
		t.Errorf("a forgotten key: %d replayed=%t", a.status, a.replayed)
	}
	if n := p.DistinctKeys(); n != 4500 {
		t.Errorf("%d distinct keys after one came back", n)
	}
	if n := len(p.Charges()); n != 4501 {
		t.Errorf("%d charges", n)
	}
}

// Keys whose hashes collide stay apart, whichever of them goes first.
func TestCollidingKeys(t *testing.T) {
	for _, gone := range []uint32{1, 2, 3} {
		p := New(Config{})
		var k keyring
		k.reset()
		for _, key := range []string{"a", "b", "c"} {
			k.insert(7, keyEntry{key: key, client: 1, state: keyDone})
		}
		// remove finds the chain by the key's own hash: give the three that.
		e := k.list.at(gone)
		delete(k.byHash, 7)
		k.byHash[keyHash(p.seed, 1, e.key)] = 3
		h := keyHash(p.seed, 1, e.key)
		name := e.key
		k.remove(p.seed, gone)
		for _, key := range []string{"a", "b", "c"} {
			if found := k.find(h, 1, key) != 0; found == (key == name) {
				t.Errorf("without %s: found %s: %t", name, key, found)
			}
		}
	}
}

func TestShelfNumbers(t *testing.T) {
	var s shelf
	s.reset("ch_")
	for range 2000 {
		s.list.add(record{})
	}
	for id, n := range map[string]uint32{
		"ch_000001": 1, "ch_002000": 2000, "ch_002001": 0, "ch_000000": 0, "ch_1": 0, "re_000001": 0, "ch_": 0, "": 0,
		"ch_+00001": 0, "ch_0000001": 0, "ch_99999999999": 0,
	} {
		if got := s.number(id); got != n {
			t.Errorf("%s is number %d, want %d", id, got, n)
		}
	}
	for n, id := range map[uint32]string{1: "ch_000001", 999999: "ch_999999", 1000000: "ch_1000000"} {
		if got := s.id(n); got != id {
			t.Errorf("number %d is %s, want %s", n, got, id)
		}
	}
}

func TestMemConn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pair := func() (net.Conn, net.Conn) {
			a, b := memPipe("client", "server")
			return a, b
		}
		check := func(what string, err, target error) {
			t.Helper()
			if !errors.Is(err, target) {
				t.Errorf("%s: %v, want %v", what, err, target)
			}
		}
		buf := make([]byte, 10)

		a, b := pair()
		big := bytes.Repeat([]byte("x"), 3*streamSize)
		go func() { // more than the buffer holds: blocks until it is read
			_, err := a.Write(big)
			check("write", err, nil)
			a.Close()
		}()
		got, err := io.ReadAll(b)
		if len(got) != len(big) || err != nil {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
		_, err = b.Write(buf)
		check("write to a closed end", err, syscall.EPIPE)
		check("second close", a.Close(), net.ErrClosed)
		_, err = a.Read(buf)
		check("read after close", err, net.ErrClosed)
		_, err = a.Write(buf)
		check("write after close", err, net.ErrClosed)

		a, b = pair()
		_, err = a.Write([]byte("last words"))
		check("last words", err, nil)
		check("set linger", a.(*memConn).SetLinger(0), nil)
		a.Close()
		n, err := b.Read(buf)
		if n != 10 || err != nil {
			t.Errorf("what had arrived: %d, %v", n, err)
		}
		_, err = b.Read(buf)
		check("read after reset", err, syscall.ECONNRESET)
		var op *net.OpError
		if !errors.As(err, &op) || op.Error() != "read tcp server->client: read: connection reset by peer" {
			t.Errorf("reset: %v", err)
		}

		a, b = pair()
		b.(*memConn).CloseWrite()
		_, err = a.Read(buf)
		check("half-closed", err, io.EOF)
		_, err = a.Write(buf)
		check("the other half", err, nil)

		a, _ = pair()
		start := time.Now()
		check("set deadline", a.SetDeadline(start.Add(time.Minute)), nil)
		_, err = a.Read(buf)
		check("read deadline", err, os.ErrDeadlineExceeded)
		synctest.Wait() // the write's timer is due at the same moment
		_, err = a.Write(buf)
		check("write deadline", err, os.ErrDeadlineExceeded)
		if d := time.Since(start); d != time.Minute {
			t.Errorf("deadline after %s", d)
		}
		check("no read deadline", a.SetReadDeadline(time.Time{}), nil)
		check("set a past deadline", a.SetWriteDeadline(time.Now().Add(-1)), nil)
		_, err = a.Write(buf)
		check("past deadline", err, os.ErrDeadlineExceeded)
		check("set read deadline", a.SetReadDeadline(time.Now().Add(time.Second)), nil)
		check("move it", a.SetReadDeadline(time.Now().Add(time.Hour)), nil) // the first timer has to be gone
		start = time.Now()
		_, err = a.Read(buf)
		check("moved deadline", err, os.ErrDeadlineExceeded)
		if d := time.Since(start); d != time.Hour {
			t.Errorf("moved deadline after %s", d)
		}

		a, b = pair() // a blocked writer wakes when the reader goes
		wrote := make(chan error)
		go func() {
			_, err := a.Write(big)
			wrote <- err
		}()
		synctest.Wait()
		b.Close()
		check("blocked write", <-wrote, syscall.EPIPE)
		if n, err := a.Read(nil); n != 0 || err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("empty read: %d, %v", n, err)
		}
	})
}

func FuzzScanObject(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"a":1}`, `{"a":{"b":[1,2,{"c":"\u00e9"}]},"d":null}`, `{"a":1,"a":2}`, `{"a":1}{`, `[1]`, `{"a":01}`, `{"a":"\x"}`,
		"{\"a\":\"\xff\"}", `{"a":tru}`, ` { "a" : -1.5e+3 , "b":false } `, `{"a":"b`, `{"a"}`, `{,}`, `{"a":1,}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		members, err := scanObject(b)
		if err != nil {
			return
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatalf("%q was taken: %v", b, err)
		}
		if len(m) != len(members) {
			t.Fatalf("%q: %d members, encoding/json has %d", b, len(members), len(m))
		}
		for _, member := range members {
			if string(bytes.TrimSpace(m[member.name])) != string(member.raw) {
				t.Fatalf("%q: %q is %q, encoding/json has %q", b, member.name, member.raw, m[member.name])
			}
		}
		again, err := scanObject(appendMembers(nil, members))
		if err != nil || !slices.EqualFunc(members, again, func(a, b member) bool { return a.name == b.name && string(a.raw) == string(b.raw) }) {
			t.Fatalf("%q does not survive writing: %v", b, err)
		}
	})
}

func FuzzParseKey(f *testing.F) {
	for _, s := range []string{`"a"`, `a`, `""`, `"a\"b"`, `"a\\"`, `"a\`, ` "x" `, "\"\x7f\"", `"a";b`, `"é"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := parseKey([]string{s}, false)
		if err != nil || key == "" {
			return
		}
		// RFC 9651 section 4.1.6: what was parsed can be written, and reads
		// as the same.
		written := `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
		for i := range len(key) {
			if key[i] < 0x20 || key[i] > 0x7e {
				t.Fatalf("%q gave %q", s, key)
			}
		}
		again, err := parseKey([]string{written}, false)
		if len(written) <= 257 && (err != nil || again != key) {
			t.Fatalf("%q gave %q, which reads as %q, %v", s, key, again, err)
		}
	})
}

func FuzzParseFault(f *testing.F) {
	for _, d := range catalogue {
		f.Add(d.Name)
	}
	f.Add("slow:5s+cut-body:30")
	f.Add("reply:422:{%22a%22:1}+header:A=b")
	f.Add("flip:1s:failed+retry-after-date:-5s")
	f.Fuzz(func(t *testing.T, s string) {
		plan, err := parsePlan(Fault(s))
		if err != nil {
			return
		}
		if plan.bookAfter < 0 || plan.slow < 0 || plan.frameD < 0 || plan.hide < 0 {
			t.Fatalf("%q waits a negative time", s)
		}
		if plan.end != endAnswer && plan.frame != frameWhole {
			t.Fatalf("%q frames an answer that never comes", s)
		}
		if again, err := parsePlan(Fault(s).And(Answer)); err != nil || again.end != plan.end {
			t.Fatalf("%q joined with nothing: %v", s, err)
		}
	})
}

// The package documentation lists every part of a fault as Catalogue does.
func TestDocListsCatalogue(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, f := range Catalogue() {
		name := f.Name
		switch {
		case strings.HasPrefix(f.Arg, "["):
			name += "[:" + strings.Trim(f.Arg, "[]") + "]"
		case f.Arg != "":
			name += ":" + f.Arg
		}
		what := f.What
		if f.Covers != "" {
			what += " (" + f.Covers + ")"
		}
		fmt.Fprintf(&table, "//\t%-26s %s\n", name, what)
	}
	if !strings.Contains(string(doc), table.String()) {
		t.Errorf("doc.go lacks this table:\n%s", table.String())
	}
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"0", "946684800", "-1", "2000-01-01T00:00:00Z", "2000-01-01T02:00:00.5+02:00", "1677-01-01T00:00:00Z", "x", "1e3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		nanos, err := parseTime(s)
		if err != nil {
			return
		}
		again, err := parseTime(unix(nanos).Format(time.RFC3339Nano))
		if err != nil || again != nanos {
			t.Fatalf("%q is %d, written and read again %d, %v", s, nanos, again, err)
		}
	})
}

func FuzzWebhookKey(f *testing.F) {
	for _, s := range []string{"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "whsec_", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "whsec_c2hvcnQ=", "whsec_%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		key, err := webhookKey(s)
		if err != nil {
			if rest, ok := strings.CutPrefix(s, "whsec_"); ok && len(rest) > 8 && strings.Contains(err.Error(), rest) {
				t.Fatalf("the error shows the secret: %v", err)
			}
			return
		}
		again, err := webhookKey("whsec_" + base64.StdEncoding.EncodeToString(key))
		if err != nil || !bytes.Equal(key, again) {
			t.Fatalf("%q does not survive writing: %v", s, err)
		}
	})
}

// resetsOnRead is the body of a request, before which the books are replaced.
type resetsOnRead struct {
	io.Reader
	p    *Provider
	once bool
}

func (r *resetsOnRead) Read(b []byte) (int, error) {
	if !r.once {
		r.once = true
		if err := r.p.Reset(); err != nil {
			return 0, err
		}
	}
	return r.Reader.Read(b)
}

// Books that are replaced while a request is under way book nothing of it: it means the others.
func TestBooksReplacedUnderARequest(t *testing.T) {
	p := New(Config{})
	body := `{"amount":1000,"currency":"EUR","source":"tok_visa","merchant_reference":"r"}`
	r := httptest.NewRequest(http.MethodPost, booksPath+p.ID()+"/v1/charges", &resetsOnRead{Reader: strings.NewReader(body), p: p})
	r.ContentLength = int64(len(body))
	r.Header.Set("Authorization", "Bearer x")
	r.Header.Set("Idempotency-Key", `"k"`)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if w.Code != http.StatusGone || !strings.Contains(w.Body.String(), "other_books") || len(p.Charges()) != 0 {
		t.Errorf("%d %s, %d charges; want that these are other books", w.Code, w.Body, len(p.Charges()))
	}
}

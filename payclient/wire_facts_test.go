package payclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/internal/wiretest"
	"github.com/chargeonce/chargeonce/payclient"
)

// The tests in this file are about net/http and encoding/json, not about this package: each holds a fact that the payment
// path is built around. One that turns red after an upgrade of Go means that the path has to be looked at again.

// factPost makes a POST as most programs do.
func factPost(t *testing.T, url string, key ...string) *http.Request {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"merchant_reference":"r"}`))
	if err != nil {
		t.Fatal(err)
	}
	if key != nil {
		q.Header["Idempotency-Key"] = key
	}
	return q
}

// factServer answers the first request of every connection and closes it on the second, until only answers are left.
func factServer(t *testing.T, closing int32) *wiretest.Server {
	var closed atomic.Int32
	return wiretest.Listen(t, func(c *wiretest.Conn) {
		for n := 1; ; n++ {
			q, ok := c.Request()
			if !ok {
				return
			}
			if n > 1 && closed.Add(1) <= closing {
				c.Cut()
				return
			}
			c.Say(wireApprove(q))
		}
	})
}

func factRead(t *testing.T, resp *http.Response, err error) error {
	t.Helper()
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return err
}

// net/http sends a keyed POST again by itself if its body can be rewound, and only then: F01, F04, F05, F10.
func TestGoF01F04F05F10SilentResends(t *testing.T) {
	for _, f := range []struct {
		name     string
		key      []string
		noGet    bool
		requests int // on the wire, for one RoundTrip
		fails    bool
	}{
		{"keyed and rewindable", []string{`"K1"`}, false, 2, false},
		{"an empty slice is a key, and no header", []string{}, false, 2, false},
		{"no key", nil, false, 1, true},
		{"keyed, GetBody nil", []string{`"K1"`}, true, 1, true},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			server := factServer(t, 1)
			transport := payclient.NewTransport(payclient.TransportConfig{})
			resp, err := transport.RoundTrip(factPost(t, server.URL()))
			if err := factRead(t, resp, err); err != nil {
				t.Fatal(err)
			}
			q := factPost(t, server.URL(), f.key...)
			if f.noGet {
				q.GetBody = nil
			}
			resp, err = transport.RoundTrip(q)
			if err := factRead(t, resp, err); (err != nil) != f.fails {
				t.Errorf("error %v, want one: %t", err, f.fails)
			}
			if n := len(server.Requests()) - 1; n != f.requests {
				t.Errorf("%d requests on the wire, want %d", n, f.requests)
			}
			transport.CloseIdleConnections()
			server.Drained()
		})
	}
}

// http.Client turns a POST into a GET that keeps the key, and repeats it whole for 307: F14, F15.
func TestGoF14F15ClientFollowsRedirects(t *testing.T) {
	for status, line := range map[int]string{302: "GET / HTTP/1.1", 307: "POST / HTTP/1.1"} {
		target := wiretest.Listen(t, func(c *wiretest.Conn) {
			if _, ok := c.Request(); ok {
				c.Say(wiretest.Answer(200, "application/json", "{}"))
			}
		})
		first := wiretest.Listen(t, func(c *wiretest.Conn) {
			if _, ok := c.Request(); ok {
				c.Say(wiretest.Answer(status, "text/plain", "", "Location: "+target.URL()+"/"))
			}
		})
		transport := payclient.NewTransport(payclient.TransportConfig{})
		resp, err := (&http.Client{Transport: transport}).Do(factPost(t, first.URL(), `"K1"`))
		if err := factRead(t, resp, err); err != nil {
			t.Fatal(err)
		}
		got := target.Requests()
		if len(got) != 1 || got[0].Line != line || len(got[0].Header("Idempotency-Key")) != 1 {
			t.Errorf("%d: the other host got %v, want %s with the key", status, got, line)
		}
		transport.CloseIdleConnections()
		first.Drained()
		target.Drained()
	}
}

// A Proxy function that fails and a header that is refused call no hook: F22, F24.
func TestGoF22F24NoHookFires(t *testing.T) {
	for name, spoil := range map[string]func(*http.Transport, *http.Request){
		"Proxy fails": func(tr *http.Transport, _ *http.Request) {
			tr.Proxy = func(*http.Request) (*url.URL, error) { return nil, errors.New("no proxy today") }
		},
		"line break in a header": func(_ *http.Transport, q *http.Request) { q.Header.Set("X", "a\nb") },
		"context done": func(_ *http.Transport, q *http.Request) {
			ctx, cancel := context.WithCancel(q.Context())
			cancel()
			*q = *q.WithContext(ctx)
		},
	} {
		var asked atomic.Int32
		q := factPost(t, "http://"+refused)
		q = q.WithContext(httptrace.WithClientTrace(q.Context(), &httptrace.ClientTrace{GetConn: func(string) { asked.Add(1) }}))
		tr := payclient.NewTransport(payclient.TransportConfig{})
		spoil(tr, q)
		resp, err := tr.RoundTrip(q)
		if err := factRead(t, resp, err); err == nil {
			t.Errorf("%s: no error", name)
		}
		if asked.Load() != 0 {
			t.Errorf("%s: GetConn fired: the client need not look at it first any more", name)
		}
	}
}

// Over HTTP/1.1 a context's cause is the error, and neither Canceled nor DeadlineExceeded: F51, F53, F54.
func TestGoF51F53F54ErrorsOfDeadlines(t *testing.T) {
	t.Parallel()
	silent := wiretest.Listen(t, func(c *wiretest.Conn) {
		if _, ok := c.Request(); ok {
			c.Hang()
		}
	})
	odd := errors.New("odd")
	for name, f := range map[string]struct {
		ctx                 func(context.Context) (context.Context, context.CancelFunc)
		header              time.Duration
		deadline, canceled  bool
		isOdd, timeoutError bool
	}{
		"deadline": {func(p context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(p, 50*time.Millisecond)
		}, 0, true, false, false, true},
		"deadline with a cause": {func(p context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(p, 50*time.Millisecond, odd)
		}, 0, false, false, true, false},
		"ResponseHeaderTimeout": {func(p context.Context) (context.Context, context.CancelFunc) {
			return context.WithCancel(p)
		}, 50 * time.Millisecond, true, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := f.ctx(t.Context())
			defer cancel()
			transport := payclient.NewTransport(payclient.TransportConfig{ResponseHeaderTimeout: f.header})
			resp, err := transport.RoundTrip(factPost(t, silent.URL()).WithContext(ctx))
			err = factRead(t, resp, err)
			if got := errors.Is(err, context.DeadlineExceeded); got != f.deadline {
				t.Errorf("Is DeadlineExceeded %t, want %t: %v", got, f.deadline, err)
			}
			if got := errors.Is(err, context.Canceled); got != f.canceled {
				t.Errorf("Is Canceled %t, want %t: %v", got, f.canceled, err)
			}
			if got := errors.Is(err, odd); got != f.isOdd {
				t.Errorf("Is the cause %t, want %t: %v", got, f.isOdd, err)
			}
			if got := os.IsTimeout(err); got != f.timeoutError {
				t.Errorf("IsTimeout %t, want %t: %v", got, f.timeoutError, err)
			}
		})
	}
}

// A streaming decoder takes an answer whose last chunk is missing; reading to the end does not: F59. Without a length nobody
// notices: F60.
func TestGoF59F60TruncationByFraming(t *testing.T) {
	t.Parallel()
	body := `{"status":"succeeded"}`
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		q, ok := c.Request()
		if !ok {
			return
		}
		if strings.HasSuffix(q.Target(), "/chunks") {
			c.Say(chunkedHead + wiretest.Chunk(body))
		} else {
			c.Say(wiretest.Head("HTTP/1.1 201 Created") + body[:10])
		}
		c.Cut()
	})
	transport := payclient.NewTransport(payclient.TransportConfig{})
	get := func(path string) io.ReadCloser {
		resp, err := transport.RoundTrip(factPost(t, server.URL()+path))
		if err != nil {
			t.Fatal(err)
		}
		return resp.Body
	}
	streamed, read, unframed := get("/chunks"), get("/chunks"), get("/")
	defer func() { _, _, _ = streamed.Close(), read.Close(), unframed.Close() }()
	var v struct{ Status string }
	if err := json.NewDecoder(streamed).Decode(&v); err != nil || v.Status != "succeeded" {
		t.Errorf("decoded %v, %v; want it to succeed", v, err)
	}
	if _, err := io.ReadAll(read); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read: %v, want an unexpected end", err)
	}
	if b, err := io.ReadAll(unframed); err != nil || string(b) != body[:10] {
		t.Errorf("unframed: %q, %v; want a clean end", b, err)
	}
	server.Drained()
}

// What encoding/json forgives: F73, F74, F75.
func TestGoF73F74F75EncodingJSON(t *testing.T) {
	type charge struct {
		Status string `json:"status"`
		Amount int64  `json:"amount"`
	}
	read := func(text string) (c charge, err error) { err = json.Unmarshal([]byte(text), &c); return }
	for _, text := range []string{
		`{"status":"declined","STATUS":"approved"}`, `{"status":"declined","ſtatus":"approved"}`, `{"status":"declined","status":"approved"}`,
	} {
		if c, err := read(text); err != nil || c.Status != "approved" {
			t.Errorf("%s: %v, %v; want the last to win", text, c, err)
		}
	}
	if c, err := read("null"); err != nil || c != (charge{}) {
		t.Errorf("null: %v, %v; want nothing", c, err)
	}
	var c charge
	if err := json.NewDecoder(strings.NewReader(`{"status":"approved"}{"status":"declined"}`)).Decode(&c); err != nil || c.Status != "approved" {
		t.Errorf("two values: %v, %v; want the first", c, err)
	}
	for _, text := range []string{`{"amount":1e3}`, `{"amount":12.0}`, `{"amount":"12"}`} {
		if _, err := read(text); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

// HTTP/1.1 trims the blanks at a header value's ends: one stored key, another one on the wire (F97). Inner tabs and bytes
// over 0x7f go through (F98).
func TestGoF97F98HeaderValues(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, approveAll)
	transport := payclient.NewTransport(payclient.TransportConfig{})
	for value, want := range map[string]string{" K1 ": "K1", "K\t1": "K\t1", "Kü1": "Kü1"} {
		resp, err := transport.RoundTrip(factPost(t, server.URL(), value))
		if err := factRead(t, resp, err); err != nil {
			t.Fatal(err)
		}
		all := server.Requests()
		if got := all[len(all)-1].Header("Idempotency-Key"); len(got) != 1 || got[0] != want {
			t.Errorf("%q arrived as %q, want %q", value, got, want)
		}
	}
	transport.CloseIdleConnections()
	server.Drained()
}

// The Transport gives the TLS error where http.Client gives http.ErrSchemeMismatch: F33.
func TestGoF33SchemeMismatch(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, func(c *wiretest.Conn) { c.Say(wiretest.Answer(400, "text/plain", "bad")) })
	transport := payclient.NewTransport(payclient.TransportConfig{})
	resp, err := transport.RoundTrip(factPost(t, "https://"+server.Addr()))
	if err := factRead(t, resp, err); err == nil || errors.Is(err, http.ErrSchemeMismatch) {
		t.Errorf("RoundTrip: %v, want an error that is not http.ErrSchemeMismatch", err)
	}
	resp, err = (&http.Client{Transport: transport}).Do(factPost(t, "https://"+server.Addr()))
	if err := factRead(t, resp, err); !errors.Is(err, http.ErrSchemeMismatch) {
		t.Errorf("Client: %v, want http.ErrSchemeMismatch", err)
	}
	server.Drained()
}

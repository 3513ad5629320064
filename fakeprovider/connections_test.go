package fakeprovider_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

// replayable is a request that net/http may send again by itself (F01): the
// key's header is there and the body can be read anew.
func replayable(t *testing.T, base, key, ref string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", base+"/v1/charges", strings.NewReader(payment(ref, "tok_visa")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer secret")
	req.Header.Set("Idempotency-Key", `"`+key+`"`)
	return req
}

// F01, C12: a kept connection is closed after the request was read and booked;
// net/http sends again, and one call is two requests.
func TestC12TransportResends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		defer bank.Close()
		c := call(t, bank.Transport())
		bank.Always(fakeprovider.Match{Reused: true}, fakeprovider.LoseAnswer)
		want(t, "a GET opens the connection", c.find("r"), "200")
		got := 0
		req := replayable(t, "http://bank", "k", "r")
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { got++ }}))
		want(t, "the call", c.send(req), "201 replayed")
		want(t, "GotConn", got, 2)
		want(t, "requests", len(bank.Requests("r")), 3)
		want(t, "charges", charges(bank), 1)

		req = replayable(t, "http://bank", "k2", "r2")
		req.GetBody = nil // F10
		want(t, "without GetBody", c.send(req), "error: EOF")
		want(t, "requests", len(bank.Requests("k2")), 1)
	})
}

// F03: all warm connections at once; one call makes six requests.
func TestF03AllWarmConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		defer bank.Close()
		tr := bank.Transport()
		tr.MaxIdleConnsPerHost = 5
		c := call(t, tr)
		bank.Always(fakeprovider.Lookups, fakeprovider.Slow(time.Second))
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { c.find("x") })
		}
		wg.Wait()
		synctest.Wait()
		bank.Always(fakeprovider.Match{Reused: true}, fakeprovider.Close)
		want(t, "the call", c.send(replayable(t, "http://bank", "k", "r")), "201")
		want(t, "requests", len(bank.Requests("k")), 6)
	})
}

// F69: the second payment gets the first one's answer.
func TestF69Desync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, over := range []string{"Transport", "RoundTrip"} {
			bank := fakeprovider.New(fakeprovider.Config{})
			defer bank.Close()
			var rt http.RoundTripper = bank.Transport()
			if over == "RoundTrip" {
				rt = bank
			}
			c := call(t, rt)
			bank.Script(fakeprovider.ExtraAnswer)
			first := c.pay("k1", "r1", "tok_visa")
			synctest.Wait()
			second := c.pay("k2", "r2", "tok_visa")
			want(t, over+": first", first.field("merchant_reference"), "r1")
			want(t, over+": second", second.field("merchant_reference"), "r1")
			want(t, over+": second's charge", charges(bank, "r2"), 1)
			synctest.Wait()
			want(t, over+": third", c.pay("k2", "r2", "tok_visa").field("merchant_reference"), "r2")
		}
	})
}

// F47: a 401 before the body is read, over a real socket.
func TestF47EarlyAnswer(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	srv := httptest.NewServer(bank)
	defer srv.Close()
	defer bank.Close()
	c := call(t, http.DefaultTransport)
	c.base = srv.URL
	bank.Script(fakeprovider.Early(401))
	want(t, "early", c.pay("k", "r", "tok_visa"), "401")
	want(t, "the body was not read", bank.Requests()[0].Body, "")
	want(t, "the next", c.pay("k", "r", "tok_visa"), "201")
}

// C14: half the body is read, then the connection is reset.
func TestC14HalfTheBody(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	srv := httptest.NewServer(bank)
	defer srv.Close()
	defer bank.Close()
	c := call(t, http.DefaultTransport)
	c.base = srv.URL
	bank.Script("read:30")
	want(t, "reset", c.pay("k", "r", "tok_visa").err != nil, true)
	want(t, "what arrived", bank.Requests()[0].Body, payment("r", "tok_visa")[:30])
	want(t, "charges", charges(bank), 0)
}

// All hooks in their order, compared with net/http's own Transport.
func TestHooksAlike(t *testing.T) {
	play := func(t *testing.T, transport func(*fakeprovider.Provider) http.RoundTripper) (seen []string) {
		synctest.Test(t, func(t *testing.T) {
			bank := fakeprovider.New(fakeprovider.Config{})
			defer bank.Close()
			rt := transport(bank)
			var mu sync.Mutex
			hook := func(name string) {
				mu.Lock()
				defer mu.Unlock()
				seen = append(seen, name)
			}
			trace := &httptrace.ClientTrace{
				GetConn: func(h string) { hook("GetConn " + h) },
				GotConn: func(i httptrace.GotConnInfo) {
					text := "GotConn"
					if i.Reused {
						text += " reused"
					}
					if i.WasIdle {
						text += " idle " + i.IdleTime.String()
					}
					hook(text + " " + i.Conn.RemoteAddr().String())
				},
				PutIdleConn:          func(err error) { hook("PutIdleConn") },
				GotFirstResponseByte: func() { hook("GotFirstResponseByte") },
				Got1xxResponse:       nil,
				WroteHeaderField:     func(k string, _ []string) {},
				WroteHeaders:         func() { hook("WroteHeaders") },
				WroteRequest: func(i httptrace.WroteRequestInfo) {
					text := "WroteRequest"
					if i.Err != nil {
						text += " " + i.Err.Error()
					}
					hook(text)
				},
			}
			ctx := httptrace.WithClientTrace(t.Context(), trace)
			post := func(change func(*http.Request)) {
				req := replayable(t, "https://bank:8443", "k", "r").WithContext(ctx)
				req.GetBody = nil
				change(req)
				r := call(t, rt).send(req)
				synctest.Wait()
				hook(r.String())
				time.Sleep(time.Second)
			}
			nothing := func(*http.Request) {}
			post(nothing)
			post(nothing)
			bank.Script(fakeprovider.Status(204), fakeprovider.Empty)
			post(nothing)
			post(nothing)
			post(func(r *http.Request) { r.Close = true })
			post(nothing)
			bank.Script(fakeprovider.Close)
			post(nothing)
			post(func(r *http.Request) { r.Header["Bad\n"] = []string{"x"} })
			post(func(r *http.Request) { r.Header["X-Bad"] = []string{"a\nb"} })
			post(func(r *http.Request) { r.Method = "P OST" })
			post(func(r *http.Request) { r.URL.Scheme = "ftp" })
			post(func(r *http.Request) { r.URL.Host = "" })
			post(func(r *http.Request) { r.ContentLength = 1000 })
			post(func(r *http.Request) {
				done, cancel := context.WithCancelCause(ctx)
				cancel(errors.New("the cause"))
				*r = *r.WithContext(done)
			})
			bank.Script(fakeprovider.RefuseDial)
			bank.CloseIdleConnections()
			if tr, ok := rt.(interface{ CloseIdleConnections() }); ok {
				tr.CloseIdleConnections()
			}
			post(nothing)
			bank.Script(fakeprovider.Hang)
			post(func(r *http.Request) {
				late, cancel := context.WithCancelCause(ctx)
				time.AfterFunc(time.Minute, func() { cancel(errors.New("the cause")) }) // F53
				*r = *r.WithContext(late)
			})
		})
		return seen
	}
	real := play(t, func(p *fakeprovider.Provider) http.RoundTripper { return p.Transport() })
	memory := play(t, func(p *fakeprovider.Provider) http.RoundTripper { return p.RoundTripper() })
	if !slices.Equal(real, memory) {
		t.Errorf("hooks differ\nTransport:\n  %s\nRoundTrip:\n  %s", strings.Join(real, "\n  "), strings.Join(memory, "\n  "))
	}
	if len(real) < 40 {
		t.Errorf("only %d hooks seen", len(real))
	}
}

// A body that is not read to its end ends the connection, as F90 has it.
func TestUnreadBodyEndsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		defer bank.Close()
		for _, rt := range []http.RoundTripper{bank.Transport(), bank.RoundTripper()} {
			if err := bank.Reset(); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				resp, err := rt.RoundTrip(replayable(t, "http://bank", "k", "r"))
				if err != nil {
					t.Fatal(err)
				}
				if i > 0 {
					if _, err := io.Copy(io.Discard, resp.Body); err != nil {
						t.Error(err)
					}
				}
				resp.Body.Close()
				synctest.Wait()
			}
			var reused []bool
			for _, r := range bank.Requests() {
				reused = append(reused, r.Reused)
			}
			want(t, "reused", reused, "[false false true]")
		}
	})
}

// F56: bytes that have arrived are readable although the call was cancelled;
// Read and Close may meet.
func TestCloseWakesReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		defer bank.Close()
		for _, rt := range []http.RoundTripper{bank.Transport(), bank.RoundTripper()} {
			bank.Script(fakeprovider.StallBody(10))
			resp, err := rt.RoundTrip(replayable(t, "http://bank", "k", "r")) //nolint:bodyclose // closed below, while it is read
			if err != nil {
				t.Fatal(err)
			}
			read := make(chan error)
			go func() {
				_, err := io.ReadAll(resp.Body)
				read <- err
			}()
			synctest.Wait()
			resp.Body.Close()
			if err := <-read; err == nil {
				t.Error("a closed body was read to its end")
			}
			_, err = resp.Body.Read(make([]byte, 1))
			want(t, "read after close", err, "http: read on closed response body")
		}
	})
}

// F66: a client that looks at informational answers bounds them itself.
func TestF66FloodWithHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		defer bank.Close()
		for _, rt := range []http.RoundTripper{bank.Transport(), bank.RoundTripper()} {
			bank.Script(fakeprovider.Flood1xx)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			var n atomic.Int64 // a Transport reads on for a moment after the call
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
				Got1xxResponse: func(int, textproto.MIMEHeader) error { n.Add(1); return nil },
			})
			r := call(t, rt).send(replayable(t, "http://bank", "k", "r").WithContext(ctx))
			want(t, "the deadline ends it", r.err, context.DeadlineExceeded)
			want(t, "more than the header limit", n.Load() > 11_000, true)
			cancel()
		}
	})
}

// Close ends what hangs, on all ways in, and no goroutine is left: the bubble
// would say so.
func TestCloseEndsWhatHangs(t *testing.T) {
	for _, f := range []fakeprovider.Fault{
		fakeprovider.Hang, fakeprovider.Slow(time.Hour), fakeprovider.BookAfter(time.Hour), fakeprovider.StallBody(5),
		fakeprovider.Drip(time.Hour), fakeprovider.ExtraAnswer, fakeprovider.Flood1xx, fakeprovider.HangDial, fakeprovider.Answer,
	} {
		synctest.Test(t, func(t *testing.T) {
			bank := fakeprovider.New(fakeprovider.Config{})
			var wg sync.WaitGroup
			for _, rt := range []http.RoundTripper{bank.Transport(), bank.RoundTripper()} {
				bank.Script(f)
				wg.Go(func() { call(t, rt).pay("k", "r", "tok_visa") })
				if f == fakeprovider.Flood1xx {
					wg.Wait() // ends by the header limit
				}
				synctest.Wait()
			}
			if err := bank.Close(); err != nil {
				t.Errorf("%s: %v", f, err)
			}
			wg.Wait()
		})
	}
}

// Over HTTP/2 a fault below HTTP is a reset stream (F76).
func TestF76HTTP2ResetStream(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	srv := httptest.NewUnstartedServer(bank)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	defer bank.Close()
	c := call(t, srv.Client().Transport)
	c.base = srv.URL
	bank.Script(fakeprovider.LoseAnswer)
	if r := c.pay("k", "r", "tok_visa"); r.err == nil || !strings.Contains(r.err.Error(), "INTERNAL_ERROR") {
		t.Errorf("lose-answer over HTTP/2: %s", r)
	}
	want(t, "the same key", c.pay("k", "r", "tok_visa"), "201 replayed")
}

// A reset reaches a TLS client as one.
func TestResetUnderTLS(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	srv := httptest.NewTLSServer(bank)
	defer srv.Close()
	defer bank.Close()
	c := call(t, srv.Client().Transport)
	c.base = srv.URL
	bank.Script(fakeprovider.Reset, fakeprovider.NoLength(30)) // F44, F60
	if r := c.pay("k", "r", "tok_visa"); r.err == nil || !strings.Contains(r.err.Error(), "connection reset") {
		t.Errorf("reset under TLS: %s", r)
	}
	want(t, "cut without a trace", len(c.pay("k", "r", "tok_visa").body), 30)
}

func TestResponderAndClient(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	bank.Script(fakeprovider.Redirect(302, "http://other.invalid/"))
	resp, err := bank.Client().Do(replayable(t, "http://bank", "k", "r"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	want(t, "the client follows nothing", resp.StatusCode, 302)
	resp, err = bank.Responder()(replayable(t, "http://bank", "k", "r")) //nolint:bodyclose // closed below
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	want(t, "responder", resp.StatusCode, 201)
}

//nolint:bodyclose // policies and round trippers are no answers, and readAnswer closes those
package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
)

// What failsafehttp of failsafe-go v0.9.8 and its adaptive limiter do, by number: the reasons for which the payment path uses
// neither. One that turns red after an upgrade has a reason less. They stand here because the module itself must not import them.

// stub answers in place of a transport.
type stub func(*http.Request) (*http.Response, error)

func (s stub) RoundTrip(q *http.Request) (*http.Response, error) { return s(q) }

func said(status int, body io.Reader, fields ...string) *http.Response {
	r := &http.Response{StatusCode: status, Header: make(http.Header), Body: io.NopCloser(body)}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return r
}

func factPost(ctx context.Context, t *testing.T, url, body string) *http.Request {
	t.Helper()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// readAnswer reads an answer to its end and closes it, as a careful caller does.
func readAnswer(resp *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(resp.Body)
	return string(b), errors.Join(err, resp.Body.Close())
}

// busy is a server that answers 503, 503, 200 and so on, and counts its connections.
func busy(t *testing.T) (url string, opened, requests *atomic.Int32) {
	t.Helper()
	opened, requests = new(atomic.Int32), new(atomic.Int32)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		if requests.Add(1)%3 != 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = io.WriteString(w, "a body")
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return server.URL, opened, requests
}

func retries() failsafe.Policy[*http.Response] {
	return failsafehttp.NewRetryPolicyBuilder().ReturnLastFailure().Build()
}

// whole reads an answer's body inside of the policies, bounded, and hands its bytes on.
func whole(next http.RoundTripper) http.RoundTripper {
	return stub(func(q *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(q)
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return nil, err
		}
		resp.Body = io.NopCloser(bytes.NewReader(b))
		return resp, nil
	})
}

// S01, S04: the answer of an attempt that is repeated is neither read nor closed, and its connection is lost until the context
// ends; reading inside of the policies cures it.
func TestFailsafeS01S04RetriedAnswersAreLeftOpen(t *testing.T) {
	for _, c := range []struct {
		name   string
		inside bool
		opened int32
	}{{"as it is", false, 11}, {"read inside", true, 1}} {
		url, opened, _ := busy(t)
		transport := &http.Transport{}
		var rt http.RoundTripper = transport
		if c.inside {
			rt = whole(rt)
		}
		rt = failsafehttp.NewRoundTripper(rt, retries())
		ctx, cancel := context.WithCancel(t.Context())
		for range 5 {
			if text, err := readAnswer(rt.RoundTrip(factPost(ctx, t, url, "{}"))); err != nil || text != "a body" {
				t.Fatalf("%s: %q, %v", c.name, text, err)
			}
		}
		if n := opened.Load(); n != c.opened {
			t.Errorf("%s: %d connections for 15 requests, they used to be %d", c.name, n, c.opened)
		}
		cancel()
		transport.CloseIdleConnections()
	}
}

// S02, S04: so with one connection allowed, the second attempt waits for the one that its first attempt holds.
func TestFailsafeS02S04AttemptsStarveEachOther(t *testing.T) {
	for _, inside := range []bool{false, true} {
		url, _, requests := busy(t)
		transport := &http.Transport{MaxConnsPerHost: 1}
		var rt http.RoundTripper = transport
		if inside {
			rt = whole(rt)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if !inside {
			ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond) // is waited for
		}
		_, err := readAnswer(failsafehttp.NewRoundTripper(rt, retries()).RoundTrip(factPost(ctx, t, url, "{}")))
		cancel()
		if n := requests.Load(); inside && (err != nil || n != 3) || !inside && (!errors.Is(err, context.DeadlineExceeded) || n != 1) {
			t.Errorf("read inside %t: %d requests, %v", inside, n, err)
		}
		transport.CloseIdleConnections()
	}
}

// S03: without ReturnLastFailure the answer is dropped, and the error prints all of it, cookies included.
func TestFailsafeS03TheErrorPrintsTheAnswer(t *testing.T) {
	rt := failsafehttp.NewRoundTripper(stub(func(*http.Request) (*http.Response, error) {
		return said(503, strings.NewReader("x"), "Set-Cookie", "session=of-the-merchant"), nil
	}), failsafehttp.NewRetryPolicyBuilder().Build())
	resp, err := rt.RoundTrip(factPost(t.Context(), t, "http://provider.test", "{}"))
	if resp != nil || err == nil || !strings.Contains(err.Error(), "session=of-the-merchant") {
		t.Errorf("%v, %v", resp, err)
	}
}

// stalling is a body that takes its time.
type stalling struct {
	ctx  context.Context
	wait time.Duration
	text io.Reader
}

func (s *stalling) Read(p []byte) (int, error) {
	select {
	case <-time.After(s.wait):
		return s.text.Read(p)
	case <-s.ctx.Done():
		return 0, s.ctx.Err()
	}
}

// S05, S13: the time-out ends at the headers: a body that stalls is read for as long as it likes; but it is no more cut off early.
func TestFailsafeS05S13TimeoutsEndAtTheHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := failsafehttp.NewRoundTripper(stub(func(q *http.Request) (*http.Response, error) {
			return said(200, &stalling{q.Context(), 750 * time.Millisecond, strings.NewReader("a body")}), nil
		}), timeout.New[*http.Response](200*time.Millisecond))
		began := time.Now()
		text, err := readAnswer(rt.RoundTrip(factPost(t.Context(), t, "http://provider.test", "{}")))
		if err != nil || text != "a body" || time.Since(began) != 1500*time.Millisecond {
			t.Errorf("%q, %v after %s of 200 ms", text, err, time.Since(began))
		}
	})
}

// S06: any error is retried, and 429 and 5xx but 501, for a POST without a key as well.
func TestFailsafeS06WhatIsRetried(t *testing.T) {
	attempts := func(answer func() (*http.Response, error)) (n int) {
		rt := failsafehttp.NewRoundTripper(stub(func(*http.Request) (*http.Response, error) { n++; return answer() }), retries())
		_, _ = readAnswer(rt.RoundTrip(factPost(t.Context(), t, "http://provider.test", "{}"))) // only the count is of interest
		return n
	}
	var retried []int
	for status := 200; status < 600; status++ {
		if attempts(func() (*http.Response, error) { return said(status, strings.NewReader("")), nil }) > 1 {
			retried = append(retried, status)
		}
	}
	var want []int
	for status := 500; status < 600; status++ {
		if status != 501 {
			want = append(want, status)
		}
	}
	if want = append([]int{429}, want...); !slices.Equal(retried, want) {
		t.Errorf("retried %v", retried)
	}
	for _, err := range []error{errors.New("anything"), io.ErrUnexpectedEOF, context.DeadlineExceeded} {
		if n := attempts(func() (*http.Response, error) { return nil, err }); n != 3 {
			t.Errorf("%v: %d attempts, they used to be 3", err, n)
		}
	}
}

// S07: a certificate that nobody knows is dialled three times, in either form.
func TestFailsafeS07UnknownCertificatesAreRetried(t *testing.T) {
	for _, form := range []string{"RoundTripper", "Request"} {
		var opened atomic.Int32
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				opened.Add(1)
			}
		}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		q := factPost(t.Context(), t, server.URL, "{}")
		var err error
		if form == "Request" {
			_, err = failsafehttp.NewRequest(q, &http.Client{Transport: &http.Transport{}}, retries()).Do() //nolint:bodyclose // there is none
		} else {
			_, err = failsafehttp.NewRoundTripper(&http.Transport{}, retries()).RoundTrip(q) //nolint:bodyclose // there is none
		}
		server.Close()
		if err == nil || !strings.Contains(err.Error(), "unknown authority") || opened.Load() != 3 {
			t.Errorf("%s: %v after %d dials, they used to be 3", form, err, opened.Load())
		}
	}
}

// S08: of Retry-After only whole seconds count, only with 429 and 503, without a bound, and the deadline is not looked at.
func TestFailsafeS08RetryAfter(t *testing.T) {
	for _, c := range []struct {
		status   int
		after    string
		took     time.Duration
		attempts int
	}{
		{503, "2", 2 * time.Second, 2},
		{429, "2", 2 * time.Second, 2},
		{500, "2", 0, 2},
		{503, "1.5", 0, 2},
		{503, "Sat, 01 Jan 2000 00:00:30 GMT", 0, 2}, // the bubble's clock is at 00:00:00
		{503, "0", 0, 2},
		{503, "-1", 0, 2},
		{503, "9223372037", 0, 2},
		{503, "60", 10 * time.Second, 1}, // the deadline
	} {
		synctest.Test(t, func(t *testing.T) {
			attempts, began := 0, time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			rt := failsafehttp.NewRoundTripper(stub(func(*http.Request) (*http.Response, error) {
				if attempts++; attempts == 1 {
					return said(c.status, strings.NewReader(""), "Retry-After", c.after), nil
				}
				return said(200, strings.NewReader("")), nil
			}), retries())
			_, err := readAnswer(rt.RoundTrip(factPost(ctx, t, "http://provider.test", "{}")))
			if attempts != c.attempts || time.Since(began) != c.took || (err == nil) != (c.attempts == 2) {
				t.Errorf("%d with %q: %d attempts in %s, %v; want %d in %s", c.status, c.after, attempts, time.Since(began), err, c.attempts, c.took)
			}
		})
	}
}

// S10: each attempt has a body of its own; but a Request that is done twice sends an empty one the second time.
func TestFailsafeS10TheSecondDoIsEmpty(t *testing.T) {
	var bodies []string
	client := &http.Client{Transport: stub(func(q *http.Request) (*http.Response, error) {
		b, err := io.ReadAll(q.Body)
		bodies = append(bodies, string(b))
		return said(503, strings.NewReader("")), err
	})}
	r := failsafehttp.NewRequest(factPost(t.Context(), t, "http://provider.test", "{}"), client, retries())
	for range 2 {
		if _, err := readAnswer(r.Do()); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(bodies, []string{"{}", "{}", "{}", "", "", ""}) {
		t.Errorf("sent %q", bodies)
	}
}

// closing is a body that counts how often it is closed.
type closing struct {
	io.Reader
	closed int
}

func (c *closing) Close() error { c.closed++; return nil }

// S11: as a RoundTripper it puts another body into the caller's request, and does not close the caller's.
func TestFailsafeS11TheCallersRequestChanges(t *testing.T) {
	own := &closing{Reader: strings.NewReader("{}")}
	q := factPost(t.Context(), t, "http://provider.test", "")
	q.Body = own
	rt := failsafehttp.NewRoundTripper(stub(func(q *http.Request) (*http.Response, error) {
		return said(200, strings.NewReader("")), q.Body.Close()
	}), retries())
	if _, err := readAnswer(rt.RoundTrip(q)); err != nil {
		t.Fatal(err)
	}
	if q.Body == io.ReadCloser(own) || own.closed != 0 {
		t.Errorf("the same body: %t, closed %d times", q.Body == io.ReadCloser(own), own.closed)
	}
}

// S22: a bulkhead's permit is returned with the headers, while the body is still unread.
func TestFailsafeS22PermitsEndAtTheHeaders(t *testing.T) {
	one := bulkhead.New[*http.Response](1)
	rt := failsafehttp.NewRoundTripper(stub(func(*http.Request) (*http.Response, error) { return said(200, strings.NewReader("a body")), nil }), one)
	resp, err := rt.RoundTrip(factPost(t.Context(), t, "http://provider.test", "{}"))
	if !one.TryAcquirePermit() {
		t.Error("the permit is held until the body is closed now")
	}
	if text, err := readAnswer(resp, err); err != nil || text != "a body" {
		t.Errorf("%q, %v", text, err)
	}
}

// S23: an adaptive limiter looks at how long it took, not at how it went: a provider that refuses at once is given more. What was
// cancelled is not counted.
func TestFailsafeS23LimitersLikeFailures(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			const callers, rounds = 20, 150
			limiter := adaptivelimiter.NewBuilder[any]().WithLimits(1, 200, callers).Build()
			refused := errors.New("connection refused")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range rounds {
				done := make(chan error, callers)
				inside, stop := make(chan bool, callers), make(chan bool)
				calling, giveUp := context.WithCancel(ctx)
				for range callers {
					go func() {
						done <- failsafe.With[any](limiter).WithContext(calling).Run(func() error { inside <- true; <-stop; return refused })
					}()
				}
				synctest.Wait()
				if cancelled {
					giveUp()
				}
				time.Sleep(10 * time.Millisecond) // the bubble's: all of them fail as soon
				close(stop)
				for range callers {
					if err := <-done; err == nil {
						t.Error("a call that failed has succeeded")
					}
				}
				giveUp()
			}
			if got := limiter.Limit(); !cancelled && got <= callers || cancelled && got != callers {
				t.Errorf("cancelled %t: after %d failures the limit is %d, of %d", cancelled, callers*rounds, got, callers)
			}
		})
	}
}

package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/reconcile/webhook"
)

func TestForgedAndMalformedRequestsChangeNothing(t *testing.T) {
	r := newRig(t)
	a := r.start()
	body := succeeded("evt_1", "ch_1", a)
	good := func() http.Header { return signedHeader(secretText, "evt_1", r.clock(), body) }
	with := func(name string, values ...string) http.Header {
		h := good()
		h[name] = values
		return h
	}
	ago := func(d time.Duration) http.Header { return signedHeader(secretText, "evt_1", r.clock().Add(-d), body) }
	var want webhook.Counts
	for _, tt := range []struct {
		what   string
		header http.Header
		body   []byte
		status int
		counts *uint64
	}{
		{"no headers", nil, body, 400, &want.Malformed},
		{"another secret", signedHeader(otherText, "evt_1", r.clock(), body), body, 401, &want.Forged},
		{"another body", good(), succeeded("evt_1", "ch_2", a), 401, &want.Forged},
		{"another id", with("Webhook-Id", "evt_2"), body, 401, &want.Forged},
		{"two ids", with("Webhook-Id", "evt_1", "evt_2"), body, 400, &want.Malformed},
		{"two signatures in two headers", with("Webhook-Signature", wrongSignature, good().Get("Webhook-Signature")), body, 400, &want.Malformed},
		{"a later timestamp", with("Webhook-Timestamp", signedHeader(secretText, "x", r.clock().Add(time.Second), nil).Get("Webhook-Timestamp")), body, 401, &want.Forged},
		{"old", ago(5*time.Minute + time.Second), body, 400, &want.Stale},
		{"in the future", ago(-5*time.Minute - time.Second), body, 400, &want.Stale},
		{"old and of another secret", signedHeader(otherText, "evt_1", r.clock().Add(-time.Hour), body), body, 401, &want.Forged},
		{"no body", good(), nil, 401, &want.Forged},
	} {
		t.Run(tt.what, func(t *testing.T) {
			r.want(tt.status, r.post(tt.header, tt.body))
			*tt.counts++
			r.untouched(a)
			if d := r.last(); d.Err == nil || d.EventID != "" || d.Notice != (attempt.Notice{}) {
				t.Errorf("told %+v", d)
			}
		})
	}
	if got := r.handler.Counts(); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	r.want(200, r.post(good(), body)) // and the same is taken as it should be
	r.is(a.ID, attempt.StatusApproved, 2)
}

func TestMethods(t *testing.T) {
	r := newRig(t)
	a := r.start()
	body := succeeded("evt_1", "ch_1", a)
	for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "post", "CONNECT", "TRACE"} {
		req := r.request(signedHeader(secretText, "evt_1", r.clock(), body), bytes.NewReader(body))
		req.Method = method
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, req)
		if w.Code != 405 || w.Header().Get("Allow") != "POST" {
			t.Errorf("%s: %d %v", method, w.Code, w.Header())
		}
	}
	r.untouched(a)
	if n := r.handler.Counts().WrongMethod; n != 9 {
		t.Errorf("counted %d", n)
	}
}

// unsized hides a body's length, as a chunked request does.
type unsized struct{ io.Reader }

func TestBodies(t *testing.T) {
	const limit = 64 << 10
	r := newRig(t)
	a := r.start()
	padded := func(n int) []byte { // an event of n bytes
		body := succeeded("evt_1", "ch_1", a)
		return append(body, bytes.Repeat([]byte(" "), n-len(body))...)
	}
	send := func(body []byte, hide bool, change func(*http.Request)) int {
		var reader io.Reader = bytes.NewReader(body)
		if hide {
			reader = unsized{reader}
		}
		req := r.request(signedHeader(secretText, "evt_1", r.clock(), body), reader)
		if change != nil {
			change(req)
		}
		return r.do(r.handler, req)
	}
	r.want(413, send(padded(limit+1), false, nil))
	r.want(413, send(padded(limit+1), true, nil))
	r.want(413, send(padded(limit), false, func(req *http.Request) { req.ContentLength = 1 << 40 }))
	r.want(400, send(nil, false, func(req *http.Request) { req.Body = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)) }))
	r.untouched(a)
	if c := r.handler.Counts(); c.TooLarge != 3 || c.Malformed != 1 {
		t.Errorf("counted %+v", c)
	}
	r.want(200, send(padded(limit), true, func(req *http.Request) { // the content's type says nothing of who sent it
		req.Header.Set("Content-Type", "text/plain; charset=utf-16")
	}))
	r.is(a.ID, attempt.StatusApproved, 2)

	small := r.endpoint(func(c *webhook.Config) { c.MaxBody = 10 })
	if got := r.do(small, r.request(nil, strings.NewReader("12345678901"))); got != 413 {
		t.Errorf("over a limit of its own: %d", got)
	}
}

func TestAnEventIsOnlyReadWhenItIsProved(t *testing.T) {
	r := newRig(t)
	h := r.endpoint(func(c *webhook.Config) {
		c.Read = func([]byte) (attempt.Notice, error) {
			t.Error("read")
			return attempt.Notice{}, nil
		}
	})
	body := []byte("{}")
	for _, header := range []http.Header{nil, signedHeader(otherText, "evt_1", epoch, body), signedHeader(secretText, "evt_1", epoch.Add(-time.Hour), body)} {
		if got := r.do(h, r.request(header, bytes.NewReader(body))); got < 400 {
			t.Errorf("answered %d", got)
		}
	}
}

func TestEventsAboutNoCharge(t *testing.T) {
	r := newRig(t)
	a := r.start()
	for range 2 {
		r.want(200, r.deliver("evt_1", payload("evt_1", "payout.paid", "po_1", a.Reference, "succeeded", price)))
	}
	r.untouched(a)
	if c := r.handler.Counts(); c != (webhook.Counts{Ignored: 2}) {
		t.Errorf("counted %+v", c)
	}
}

func TestUnreadablePayloads(t *testing.T) {
	onStores(t, func(t *testing.T, open func(func() time.Time) attempt.Store) {
		r := newRigOn(t, open)
		a := r.start()
		r.want(200, r.deliver("evt_1", []byte("no json: 4111111111111111")))
		r.want(200, r.deliver("evt_1", []byte("no json: 4111111111111111"))) // delivered again
		r.want(200, r.deliver("evt_2", payload("evt_2", "charge.succeeded", "", a.Reference, "succeeded", price)))
		r.want(200, r.deliver("evt_3", payload("evt_3", "charge.succeeded", "ch_1", a.Reference, "wonderful", price)))
		r.want(200, r.deliver("evt_4", payload("evt_4", "charge.card 4111 1111 1111 1111", "ch_1", a.Reference, "succeeded", price)))
		r.is(a.ID, attempt.StatusPrepared, 1)
		if c := r.handler.Counts(); c != (webhook.Counts{Unreadable: 4, Seen: 1}) {
			t.Errorf("counted %+v", c)
		}
		all := r.orphans()
		if len(all) != 4 || all[0].EventID != "evt_1" || all[0].Why != webhook.WhyUnreadable || all[0].Size != 25 || len(all[0].SHA256) != 64 ||
			!all[0].At.Equal(epoch) {
			t.Errorf("listed %+v", all)
		}
		for _, n := range r.notes() {
			if bytes.Contains(n.Data, []byte("4111")) || bytes.Contains(n.Data, []byte("json:")) {
				t.Errorf("kept %s", n.Data)
			}
		}
		// A later release can read it, and the provider delivers it again.
		r.want(200, r.deliver("evt_3", succeeded("evt_3", "ch_1", a)))
		r.is(a.ID, attempt.StatusApproved, 2)
		if left := r.orphans(); len(left) != 3 {
			t.Errorf("left %+v", left)
		}
	})
}

func TestAReaderThatPanicsHasNotReadIt(t *testing.T) {
	r := newRig(t)
	h := r.endpoint(func(c *webhook.Config) {
		c.Read = func(p []byte) (attempt.Notice, error) { panic(string(p)) }
	})
	body := []byte("tok_secret")
	r.want(200, r.do(h, r.request(signedHeader(secretText, "evt_1", r.clock(), body), bytes.NewReader(body))))
	if d := r.last(); d.Result != webhook.Unreadable || d.Err == nil || strings.Contains(d.Err.Error(), "tok_secret") {
		t.Errorf("told %+v", d)
	}
	if len(r.orphans()) != 1 {
		t.Error("not listed")
	}
}

type verifierFunc func(http.Header, []byte, time.Time) (string, error)

func (f verifierFunc) Verify(h http.Header, body []byte, now time.Time) (string, error) {
	return f(h, body, now)
}

func TestVerifiersOfAdapters(t *testing.T) {
	own := func(v verifierFunc) func(*webhook.Config) {
		return func(c *webhook.Config) { c.Secrets, c.Verifier = nil, v }
	}
	unread := func(c *webhook.Config) {
		c.Read = func([]byte) (attempt.Notice, error) { return attempt.Notice{}, errors.New("no") }
	}
	for _, tt := range []struct {
		what   string
		verify verifierFunc
		change func(*webhook.Config)
		status int
		want   webhook.Result
		id     string
	}{
		{"tells the id", func(http.Header, []byte, time.Time) (string, error) { return "own_1", nil }, nil, 200, webhook.Stored, "own_1"},
		{"knows no id: the payload's", func(http.Header, []byte, time.Time) (string, error) { return "", nil }, nil, 200, webhook.Stored, "evt_1"},
		{"knows no id, and the payload cannot be read: its digest", func(http.Header, []byte, time.Time) (string, error) { return "", nil }, unread, 200, webhook.Unreadable, "sha256:"},
		{"tells an id that cannot be kept", func(http.Header, []byte, time.Time) (string, error) { return "a\nb", nil }, nil, 400, webhook.Malformed, ""},
		{"fails somehow", func(http.Header, []byte, time.Time) (string, error) { return "own_1", errors.New("x") }, nil, 401, webhook.Forged, ""},
		{"says stale", func(http.Header, []byte, time.Time) (string, error) {
			return "own_1", fmt.Errorf("x: %w", webhook.ErrStale)
		}, nil, 400, webhook.Stale, ""},
		{"panics", func(http.Header, []byte, time.Time) (string, error) { panic("secret") }, nil, 401, webhook.Forged, ""},
	} {
		t.Run(tt.what, func(t *testing.T) {
			r := newRig(t)
			a := r.start()
			changes := []func(*webhook.Config){own(func(h http.Header, body []byte, now time.Time) (string, error) {
				if h.Get("X-Own") != "1" || len(body) == 0 || !now.Equal(epoch) {
					t.Errorf("asked with %v, %d bytes, %s", h, len(body), now)
				}
				return tt.verify(h, body, now)
			})}
			if tt.change != nil {
				changes = append(changes, tt.change)
			}
			h := r.endpoint(changes...)
			r.want(tt.status, r.do(h, r.request(http.Header{"X-Own": {"1"}}, bytes.NewReader(succeeded("evt_1", "ch_1", a)))))
			d := r.last()
			if d.Result != tt.want || d.EventID != tt.id && !(tt.id == "sha256:" && strings.HasPrefix(d.EventID, tt.id)) {
				t.Errorf("told %s of %q, want %s of %q", d.Result, d.EventID, tt.want, tt.id)
			}
			if tt.status >= 400 {
				r.untouched(a)
			}
			if d.Err != nil && strings.Contains(d.Err.Error(), "secret") {
				t.Errorf("told %v", d.Err)
			}
		})
	}
	t.Run("no id anywhere", func(t *testing.T) {
		r := newRig(t)
		a := r.start()
		h := r.endpoint(own(func(http.Header, []byte, time.Time) (string, error) { return "", nil }))
		r.want(200, r.do(h, r.request(nil, bytes.NewReader(succeeded("", "ch_1", a)))))
		r.is(a.ID, attempt.StatusPrepared, 1) // nothing could tell it from the same event again
		if o := r.orphans(); len(o) != 1 || o[0].Why != webhook.WhyUnreadable {
			t.Errorf("listed %+v", o)
		}
	})
}

func TestLogAndObserver(t *testing.T) {
	var log strings.Builder
	r := newRig(t)
	r.handler = r.endpoint(func(c *webhook.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, nil)) // from Info on
	})
	a := r.start()
	r.claim(a.ID)
	lines := func() []string {
		text := strings.TrimSuffix(log.String(), "\n")
		log.Reset()
		if text == "" {
			return nil
		}
		return strings.Split(text, "\n")
	}
	expect := func(parts ...string) {
		t.Helper()
		got := lines()
		if len(got) != 1 {
			t.Fatalf("logged %q", got)
		}
		for _, part := range parts {
			if !strings.Contains(got[0], part) {
				t.Errorf("logged %s, without %s", got[0], part)
			}
		}
		if strings.Contains(got[0], "tok_") || strings.Contains(got[0], secretText) {
			t.Errorf("logged %s", got[0])
		}
	}
	body := succeeded("evt_1", "ch_1", a)
	forged := func() int { return r.post(signedHeader(otherText, "evt_1", r.clock(), body), body) }

	r.want(401, forged())
	expect("level=WARN", "result=forged", "not signed by the provider")
	for range 100 { // a flood
		r.want(401, forged())
	}
	if got := lines(); got != nil {
		t.Errorf("logged %q", got)
	}
	r.after(time.Minute)
	r.want(401, forged())
	expect("level=WARN", "result=forged")

	r.want(200, r.deliver("evt_1", body))
	expect("level=INFO", "result=stored", "event=evt_1", "type=charge.succeeded", "charge=ch_1", "attempt="+a.ID, "order=1001", "status=approved")
	if d := r.last(); d.Result != webhook.Stored || d.Attempt.Status != attempt.StatusApproved || d.Notice.Charge.ID != "ch_1" {
		t.Errorf("told %+v", d)
	}
	r.want(200, r.deliver("evt_1", body)) // again: of no interest
	if got := lines(); got != nil {
		t.Errorf("logged %q", got)
	}
	r.want(200, r.deliver("evt_2", []byte("tok_visa")))
	expect("level=ERROR", "result=unreadable", "event=evt_2")
	r.want(200, r.deliver("evt_3", payload("evt_3", "charge.succeeded", "ch_9", "another-shop-7", "succeeded", price)))
	expect("level=WARN", "result=orphan", "why=not_ours", "reference=another-shop-7")

	r.want(200, r.deliver("evt_4", succeeded("evt_4", "ch_2", a)))
	got := lines()
	if len(got) != 2 || !strings.Contains(got[1], "level=ERROR") || !strings.Contains(got[1], "money that should not be there") ||
		!strings.Contains(got[1], "duty=review") || !strings.Contains(got[1], "second_charge") {
		t.Errorf("logged %q", got)
	}
	if d := r.last(); len(d.Duties) != 1 || d.Duties[0].ChargeID != "ch_2" {
		t.Errorf("told %+v", d)
	}

	r.store.failWith(func(*attempt.Step) error { return attempt.ErrUnavailable })
	r.want(503, r.deliver("evt_5", succeeded("evt_5", "ch_3", a)))
	expect("level=ERROR", "result=not_stored", "store unavailable")
}

// What a delivery waits for is bounded, and ends with the request.
func TestADeliveryWaitsForTheStoreOnlySoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		a := r.start()
		stuck := r.endpoint(func(c *webhook.Config) { c.Store = stuckStore{r.store} })
		body := succeeded("evt_1", "ch_1", a)
		request := func() *http.Request {
			return r.request(signedHeader(secretText, "evt_1", r.clock(), body), bytes.NewReader(body))
		}
		began := time.Now()
		r.want(503, r.do(stuck, request()))
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("waited for %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		r.want(503, r.do(stuck, request().WithContext(ctx)))
		if took := time.Since(began); took != time.Second {
			t.Errorf("waited for %s, although nobody waited for the answer", took)
		}
		r.untouched(a)
	})
}

// stuckStore takes as long as it may.
type stuckStore struct{ attempt.Store }

func (stuckStore) Apply(ctx context.Context, _ ...*attempt.Step) error {
	<-ctx.Done()
	return fmt.Errorf("%w: %w", attempt.ErrUnavailable, ctx.Err())
}

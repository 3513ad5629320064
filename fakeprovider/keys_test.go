package fakeprovider_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

// F: two clients may use the same key.
func TestFKeysArePerClient(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{Tokens: map[string]string{"a": "shop A", "b": "shop B"}})
	a, b := call(t, bank), call(t, bank)
	a.token, b.token = "a", "b"
	want(t, "A pays", a.pay("k", "r", "tok_visa"), "201")
	want(t, "B pays with the same key", b.pay("k", "r", "tok_visa"), "201")
	want(t, "A again", a.pay("k", "r", "tok_visa"), "201 replayed")
	want(t, "charges", charges(bank, "r"), 2)
	want(t, "keys", bank.DistinctKeys(), 2)
	want(t, "A finds its own", a.find("r").ids(), "ch_000001")
	want(t, "B finds its own", b.find("r").ids(), "ch_000002")
	want(t, "B reads A's charge", b.do("GET", "/v1/charges/ch_000001", "", ""), "404")
	want(t, "B refunds A's charge", b.refund("k2", "rr", "ch_000001", 1).field("code"), "charge_not_found")
	if got := bank.Charges("r"); got[0].Client != "shop A" || got[1].Client != "shop B" {
		t.Errorf("clients %q and %q", got[0].Client, got[1].Client)
	}
	stranger := call(t, bank)
	stranger.token = "c"
	want(t, "an unknown token", stranger.pay("k", "r", "tok_visa"), "401")
}

// F: 50 parallel equal requests make one charge and 50 consistent answers;
// one atomic insert decides between first requests.
func TestF50ParallelEqualRequests(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	srv := httptest.NewServer(bank)
	defer srv.Close()
	defer bank.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: 50}
	defer transport.CloseIdleConnections()
	for name, rt := range map[string]http.RoundTripper{"socket": transport, "memory": bank.RoundTripper()} {
		c := call(t, rt)
		c.base = srv.URL
		answers := make([]reply, 50)
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range answers {
			wg.Go(func() {
				<-start
				answers[i] = c.pay("k-"+name, "r-"+name, "tok_visa")
			})
		}
		close(start)
		wg.Wait()
		first := 0
		for _, a := range answers {
			if a.status == 201 && !a.replayed {
				first++
			}
			if a.status != 201 || a.body != answers[0].body {
				t.Errorf("%s: %s %q beside %q", name, a, a.body, answers[0].body)
			}
		}
		want(t, name+": first answers", first, 1)
		want(t, name+": charges", charges(bank, "r-"+name), 1)
		want(t, name+": requests", len(bank.Requests("r-"+name)), 50)
	}
}

// F: while the first of them runs, the other 49 are told so.
func TestF50ParallelWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		defer bank.Close()
		c := call(t, bank)
		var mu sync.Mutex
		counts := map[string]int{}
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				a := c.pay("k", "r", "tok_slow_5s")
				mu.Lock()
				defer mu.Unlock()
				counts[a.String()]++
			})
		}
		wg.Wait()
		want(t, "answers", counts, map[string]int{"201": 1, "409": 49})
		want(t, "afterwards", c.pay("k", "r", "tok_slow_5s"), "201 replayed")
		want(t, "charges", charges(bank), 1)
	})
}

// F: the fingerprint is over method, path and body; P8: 422.
func TestFFingerprint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		defer bank.Close()
		c := call(t, bank)
		want(t, "first", c.pay("k", "r", "tok_visa"), "201")
		want(t, "another body", c.pay("k", "r2", "tok_visa").field("code"), "idempotency_key_reused")
		want(t, "one blank more", c.do("POST", "/v1/charges", `"k"`, payment("r", "tok_visa")+" "), "422")
		want(t, "another path", c.do("POST", "/v1/refunds", `"k"`, payment("r", "tok_visa")), "422")
		want(t, "a body that is no JSON", c.do("POST", "/v1/charges", `"k"`, "{"), "422")
		want(t, "the first again", c.pay("k", "r", "tok_visa"), "201 replayed")

		bank.ScriptFor(fakeprovider.Match{Key: "slow"}, fakeprovider.Slow(time.Hour))
		go c.pay("slow", "r3", "tok_visa")
		synctest.Wait()
		want(t, "running", c.pay("slow", "r3", "tok_visa"), "409")
		want(t, "another body while running", c.pay("slow", "r4", "tok_visa"), "422")
		want(t, "charges", charges(bank), 2)
	})
}

// F: declines are stored with the key; P9.
func TestFDeclinesAreStored(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	first := c.pay("k", "r", "tok_insufficient_funds")
	want(t, "decline", first, "402")
	want(t, "content type", first.header.Get("Content-Type"), "application/problem+json")
	want(t, "code", first.field("code"), "card_declined")
	want(t, "decline code", first.field("decline_code"), "insufficient_funds")
	want(t, "reference", first.field("merchant_reference"), "r")
	again := c.pay("k", "r", "tok_insufficient_funds")
	want(t, "again", again, "402 replayed")
	want(t, "the same bytes", again.body, first.body)
	want(t, "another card, another key", c.pay("k2", "r", "tok_visa"), "201")
	want(t, "charges", charges(bank, "r"), 1)
	want(t, "declines", len(bank.Declines("r")), 1)
	want(t, "a search shows both", c.find("r").ids(), "ch_000001 ch_000002")
}

func TestKeepSuccessesRunsDeclinesAgain(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{Keep: fakeprovider.KeepSuccesses})
	c := call(t, bank)
	bank.Script(fakeprovider.Decline("do_not_honor"))
	want(t, "declined", c.pay("k", "r", "tok_visa"), "402")
	want(t, "executed again", c.pay("k", "r", "tok_visa"), "201")
	want(t, "kept", c.pay("k", "r", "tok_visa"), "201 replayed")
	want(t, "charges", charges(bank), 1)
}

// C17: mode A pins the 500, mode B forgets it.
func TestC17PinnedAndForgotten500(t *testing.T) {
	modeA, modeB := fakeprovider.Fault("book+status:500+pin"), fakeprovider.Fault("book+status:500+forget")
	keepAll := fakeprovider.Config{Keep: fakeprovider.KeepAll}
	for _, test := range []struct {
		name    string
		config  fakeprovider.Config
		fault   fakeprovider.Fault
		answers []string
		charges int
	}{
		{"A", fakeprovider.Config{}, modeA, []string{"500", "500 replayed", "500 replayed"}, 1},
		{"A by configuration", keepAll, "book+status:500", []string{"500", "500 replayed"}, 1},
		{"A before the charge", keepAll, "status:500", []string{"500", "500 replayed"}, 0},
		{"B", fakeprovider.Config{}, modeB, []string{"500", "201"}, 2},
		{"default", fakeprovider.Config{}, "book+status:500", []string{"500", "201 replayed"}, 1},
		{"before the charge", fakeprovider.Config{}, "status:500", []string{"500", "201"}, 1},
	} {
		bank := fakeprovider.New(test.config)
		c := call(t, bank)
		bank.Script(test.fault)
		for i, a := range test.answers {
			want(t, test.name, c.pay("k", "r", "tok_visa"), a)
			_ = i
		}
		want(t, test.name+": charges", charges(bank, "r"), test.charges)
		want(t, test.name+": keys", bank.DistinctKeys(), 1)
	}
}

// A fault that leaves no answer has none to pin.
func TestPinWithoutAnswer(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	bank.Script(fakeprovider.Close.And(fakeprovider.Pin), fakeprovider.LoseAnswer.And(fakeprovider.Pin))
	want(t, "not booked", c.pay("k", "r", "tok_visa"), "error: EOF")
	want(t, "booked", c.pay("k", "r", "tok_visa"), "error: EOF")
	want(t, "replayed", c.pay("k", "r", "tok_visa"), "201 replayed")
}

// F: running keys have a lock time-out, so that a crash does not lock them for
// ever.
func TestFLockTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{LockTimeout: 30 * time.Second})
		c := call(t, bank)
		bank.Script(fakeprovider.Crash)
		want(t, "the worker dies", c.pay("k", "r", "tok_visa").err != nil, true)
		time.Sleep(30*time.Second - 1)
		want(t, "still locked", c.pay("k", "r", "tok_visa"), "409")
		time.Sleep(time.Nanosecond)
		want(t, "freed", c.pay("k", "r", "tok_visa"), "201")
		want(t, "charges", charges(bank), 1)

		bank.Script(fakeprovider.Book.And(fakeprovider.Crash))
		c.pay("k2", "r2", "tok_visa")
		want(t, "charged before the worker died", charges(bank, "r2"), 1)
		time.Sleep(30 * time.Second)
		want(t, "executed again", c.pay("k2", "r2", "tok_visa"), "201")
		want(t, "a double charge", charges(bank, "r2"), 2)
	})
}

// F, P8, C04: finished keys expire; the same key is then a new request.
func TestFFinishedKeysExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		c := call(t, bank)
		want(t, "first", c.pay("k", "r", "tok_visa"), "201")
		time.Sleep(24*time.Hour - 1)
		want(t, "just in time", c.pay("k", "r", "tok_visa"), "201 replayed")
		time.Sleep(time.Nanosecond)
		want(t, "too late", c.pay("k", "r", "tok_visa"), "201")
		want(t, "charges", charges(bank, "r"), 2)
		want(t, "keys", bank.DistinctKeys(), 1)
	})
}

func TestKeyRetentionNone(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{KeyRetention: -1})
	c := call(t, bank)
	want(t, "first", c.pay("k", "r", "tok_visa"), "201")
	want(t, "second", c.pay("k", "r", "tok_visa"), "201")
	want(t, "charges", charges(bank, "r"), 2)
}

// C04: a clock of the books that jumps.
func TestC04ClockOfTheBooks(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	bank := fakeprovider.New(fakeprovider.Config{Now: func() time.Time { return now }})
	c := call(t, bank)
	want(t, "created", c.pay("k", "r", "tok_visa").field("created"), "2026-01-01T00:00:00Z")
	now = now.Add(-2 * time.Hour)
	want(t, "backwards", c.pay("k", "r", "tok_visa"), "409") // the first request ends in the future
	now = now.Add(27 * time.Hour)
	want(t, "a day later", c.pay("k", "r", "tok_visa"), "201")
}

// What is due at the same moment is booked in the order of arrival.
func TestBookedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		defer bank.Close()
		c := call(t, bank)
		bank.Always(fakeprovider.Match{}, fakeprovider.BookAfter(time.Minute))
		for _, ref := range []string{"a", "b", "c"} {
			go c.pay("k-"+ref, ref, "tok_visa")
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		refs := ""
		for _, charge := range bank.Charges() {
			refs += charge.Reference
		}
		want(t, "order", refs, "abc")
	})
}

func TestKeySyntax(t *testing.T) {
	long := strings.Repeat("k", 255)
	for _, test := range []struct{ header, strict, raw string }{
		{`"abc"`, "201", "201"},
		{`abc`, "idempotency_key_malformed", "201"},
		{``, "idempotency_key_missing", "idempotency_key_missing"},
		{`""`, "idempotency_key_malformed", "idempotency_key_malformed"},
		{`"abc`, "idempotency_key_malformed", "idempotency_key_malformed"},
		{`"a"b"`, "idempotency_key_malformed", "idempotency_key_malformed"},
		{`"a", "b"`, "idempotency_key_malformed", "idempotency_key_malformed"},
		{`"a";p=1`, "idempotency_key_malformed", "idempotency_key_malformed"},
		{`"a\"b\\c"`, "201", "201"},
		{`"a\nb"`, "idempotency_key_malformed", "idempotency_key_malformed"},
		{`"a\`, "idempotency_key_malformed", "idempotency_key_malformed"},
		{"\"a\tb\"", "idempotency_key_malformed", "idempotency_key_malformed"},
		{"\"\u00e9\"", "idempotency_key_malformed", "idempotency_key_malformed"},
		{` "abc" `, "201", "201"},
		{`"` + long + `"`, "201", "201"},
		{`"` + long + `k"`, "idempotency_key_malformed", "idempotency_key_malformed"},
		{long + "k", "idempotency_key_malformed", "idempotency_key_malformed"},
	} {
		for _, raw := range []bool{false, true} {
			bank := fakeprovider.New(fakeprovider.Config{AcceptRawKeys: raw})
			r := call(t, bank).do("POST", "/v1/charges", test.header, payment("r", "tok_visa"))
			expected := test.strict
			if raw {
				expected = test.raw
			}
			if expected == "201" {
				want(t, test.header, r, expected)
				continue
			}
			want(t, test.header, r.status, 400)
			want(t, test.header, r.field("code"), expected)
			want(t, test.header+": charges", charges(bank), 0)
		}
	}
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	c.do("POST", "/v1/charges", `"a\"b"`, payment("r", "tok_visa"))
	got := bank.Requests()[0]
	want(t, "parsed key", got.Key, `a"b`)
	want(t, "raw key", got.RawKey, `"a\"b"`)

	req, err := http.NewRequest("POST", "http://bank/v1/charges", strings.NewReader(payment("r", "tok_visa")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer x"}, "Idempotency-Key": {`"a"`, `"b"`}}
	want(t, "two header lines", c.send(req).field("code"), "idempotency_key_malformed")
}

func TestIgnoreKeysChargesTwice(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{IgnoreKeys: true})
	c := call(t, bank)
	want(t, "with a key", c.pay("k", "r", "tok_visa"), "201")
	want(t, "the same key", c.pay("k", "r", "tok_visa"), "201")
	want(t, "without", c.do("POST", "/v1/charges", "", payment("r", "tok_visa")), "201")
	want(t, "charges", charges(bank, "r"), 3)
}

// P1 as the provider's side of it: times, answers and books.
func TestP1Timeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		defer bank.Close()
		for _, rt := range []http.RoundTripper{bank.RoundTripper(), bank.Transport()} {
			if err := bank.Reset(); err != nil {
				t.Fatal(err)
			}
			bank.Script(fakeprovider.Slow(5 * time.Second))
			c := call(t, rt)
			short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			req, err := http.NewRequestWithContext(short, "POST", "http://bank/v1/charges", strings.NewReader(payment("r", "tok_visa")))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Authorization": {"Bearer secret"}, "Idempotency-Key": {`"k"`}}
			want(t, "send 1", c.send(req).err, context.DeadlineExceeded)
			cancel()
			want(t, "booked at once", charges(bank), 1)
			time.Sleep(time.Second)
			want(t, "send 2", c.pay("k", "r", "tok_visa"), "409")
			time.Sleep(1500 * time.Millisecond)
			want(t, "send 3", c.pay("k", "r", "tok_visa"), "201 replayed")
			want(t, "charges", charges(bank, "r"), 1)
			want(t, "keys", bank.DistinctKeys(), 1)
			bodies := []string{}
			for _, r := range bank.Requests("r") {
				bodies = append(bodies, r.Body+r.RawKey)
			}
			want(t, "byte-equal", len(slices.Compact(bodies)), 1)
		}
	})
}

// P2, R1: booked 15 s after the request, whether or not anybody waits; the key
// is locked until then.
func TestP2BooksLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		defer bank.Close()
		bank.Script(fakeprovider.BookAfter(15 * time.Second))
		for _, rt := range []http.RoundTripper{bank.RoundTripper(), bank.Transport()} {
			if err := bank.Reset(); err != nil {
				t.Fatal(err)
			}
			c := call(t, rt)
			bank.Script(fakeprovider.BookAfter(15 * time.Second))
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			req, err := http.NewRequestWithContext(ctx, "POST", "http://bank/v1/charges", strings.NewReader(payment("r", "tok_visa")))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{"Authorization": {"Bearer secret"}, "Idempotency-Key": {`"k"`}}
			want(t, "time-out", c.send(req).err, context.DeadlineExceeded)
			cancel()
			for range 3 {
				time.Sleep(time.Second)
				want(t, "locked", c.pay("k", "r", "tok_visa"), "409")
				want(t, "nothing yet", charges(bank), 0)
				want(t, "nothing to find", c.find("r").ids(), "")
			}
			time.Sleep(9*time.Second - 1)
			want(t, "a moment before", charges(bank), 0)
			time.Sleep(time.Nanosecond)
			want(t, "booked", charges(bank), 1)
			want(t, "found", c.find("r").ids(), "ch_000001")
			want(t, "replayed", c.pay("k", "r", "tok_visa"), "201 replayed")
			want(t, "charges", charges(bank), 1)
		}
	})
}

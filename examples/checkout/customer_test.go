package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
)

// Two clicks at once: one call sends, the other is told that the payment is being verified, and clicks after that are told what
// became of it.
func TestDoubleClick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.order(oneMug)
		var mu sync.Mutex
		answers := map[int]int{}
		var clicks sync.WaitGroup
		for range 5 {
			clicks.Go(func() {
				status, _ := r.do("POST", "/orders/"+id+"/pay", `{"source":"tok_slow_1s"}`)
				mu.Lock()
				defer mu.Unlock()
				answers[status]++
			})
		}
		clicks.Wait()
		if answers[http.StatusOK] != 1 || answers[http.StatusAccepted] != 4 {
			t.Errorf("answers by status: %v, want 200 once and 202 for the others", answers)
		}
		r.pay(id, "tok_slow_1s", http.StatusOK)
		r.wantBooks(1, 0)
		if n := r.bank.RequestCount(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

// The provider does not answer in time, and the customer tries again: the same key, and the charge that was made meanwhile (P4).
func TestTryAgainButton(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.order(oneMug)
		first := r.pay(id, "tok_book_after_15s", http.StatusAccepted)
		r.want(id, StatePending, "Your payment is being verified.")
		r.pay(id, "tok_visa", http.StatusConflict) // another card (P3)
		pass(8 * time.Second)
		second := r.pay(id, "tok_book_after_15s", http.StatusOK)
		if first.Attempt != second.Attempt || r.bank.DistinctKeys() != 1 {
			t.Errorf("attempts %s and %s, %d keys, want one of each", first.Attempt, second.Attempt, r.bank.DistinctKeys())
		}
		r.wantBooks(1, 0)
	})
}

// A declined card is told again without a request, unless the customer asks for it knowing of the decline; another card is a new
// payment (P9).
func TestDeclinedCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.order(oneMug)
		v := r.pay(id, "tok_insufficient_funds", http.StatusPaymentRequired)
		if v.State != StateOpen || v.Decline != "insufficient_funds" || v.Attempt == "" {
			t.Errorf("declined: %+v", v)
		}
		r.want(id, StateOpen, "Your card was declined.")
		r.pay(id, "tok_insufficient_funds", http.StatusPaymentRequired)
		if n := r.bank.RequestCount(); n != 1 {
			t.Errorf("%d requests after the same card again, want 1", n)
		}
		again := `{"source":"tok_insufficient_funds","again":"` + v.Attempt + `"}`
		if status, _ := r.do("POST", "/orders/"+id+"/pay", again); status != http.StatusPaymentRequired {
			t.Errorf("again: %d", status)
		}
		r.do("POST", "/orders/"+id+"/pay", again) // delivered twice
		if n := r.bank.RequestCount(); n != 2 {
			t.Errorf("%d requests after asking for it once more, want 2", n)
		}
		r.pay(id, "tok_visa", http.StatusOK)
		r.pay(id, "tok_mastercard", http.StatusConflict)
		r.want(id, StateConfirmed, "Paid.")
		r.wantBooks(1, 0)
	})
}

// A card that was started and never sent gives way to another one; an old request for it charges nothing, and the customer may
// come back to it knowing what happened since.
func TestBackToTheFirstCard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.order(oneMug)
		if _, _, err := r.startPayment(t.Context(), id, attempt.Token("tok_visa"), ""); err != nil { // and the process ends
			t.Fatal(err)
		}
		r.pay(id, "tok_declined", http.StatusPaymentRequired)
		r.pay(id, "tok_visa", http.StatusConflict)
		r.wantBooks(0, 0)
		newest := r.want(id, StateOpen, "Your card was declined.").Attempt
		if status, v := r.do("POST", "/orders/"+id+"/pay", `{"source":"tok_visa","again":"`+newest+`"}`); status != http.StatusOK {
			t.Errorf("again: %d %+v", status, v)
		}
		r.wantBooks(1, 0)
	})
}

// The customer leaves the bank's page half-way and takes another card: the first payment is voided, and the second one pays.
func TestAnotherCardInsteadOfConfirming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.order(oneMug)
		if v := r.pay(id, "tok_requires_action", http.StatusAccepted); v.NextAction == "" || !strings.HasPrefix(v.Message, "Please confirm") {
			t.Errorf("the customer is sent nowhere: %+v", v)
		}
		pass(time.Minute)
		r.pay(id, "tok_visa", http.StatusOK)
		r.wantBooks(1, 0)
		if d := r.bank.Declines(); len(d) != 1 || d[0].DeclineCode != "voided" {
			t.Errorf("the first payment: %+v, want it voided", d)
		}
		pass(5 * time.Minute)
		r.want(id, StateConfirmed, "Paid.")
	})
}

// The order runs out of time while the customer is at the bank: the payment is voided, not only forgotten.
func TestTimeoutVoidsWhatIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.order(oneMug)
		r.pay(id, "tok_requires_action", http.StatusAccepted)
		pass(DefaultTimings.Order + 5*time.Second)
		r.want(id, StateCancelled, "Cancelled. Nothing was charged.")
		if d := r.bank.Declines(); len(d) != 1 || d[0].DeclineCode != "voided" {
			t.Errorf("the payment: %+v, want it voided", d)
		}
	})
}

// No connection: the request never left, the customer is told so, and may click again.
func TestProviderUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.order(oneMug)
		r.bank.ClearFaults()
		r.bank.Always(fakeprovider.Any, "refuse-dial")
		if v := r.pay(id, "tok_visa", http.StatusServiceUnavailable); v.Message != "Nothing was charged by this request. Please try again." {
			t.Errorf("answer: %+v", v)
		}
		r.want(id, StatePending, "Waiting for your payment.")
		r.bank.ClearFaults()
		r.pay(id, "tok_mastercard", http.StatusOK) // what never left may be replaced by another card
		r.wantBooks(1, 0)
	})
}

// The customer's browser goes away while the payment is sent: it is brought to its end all the same.
func TestBrowserGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.order(oneMug)
		ctx, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		req := httptest.NewRequestWithContext(ctx, "POST", "/orders/"+id+"/pay", strings.NewReader(`{"source":"tok_slow_2s"}`))
		r.Handler().ServeHTTP(httptest.NewRecorder(), req)
		r.want(id, StateConfirmed, "Paid.")
		r.wantBooks(1, 0)
	})
}

// The provider tells later that the payment has succeeded; nobody asks for it.
func TestWebhookConfirms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, "answer")
		id := r.order(oneMug)
		r.pay(id, "tok_pending_then_succeeded_90s", http.StatusAccepted) // the first question would come after 2 min
		pass(92 * time.Second)
		r.want(id, StateConfirmed, "Paid.")
		if n := len(r.bank.Requests()); n > 2 {
			t.Errorf("%d requests, want the payment and one question at its end", n)
		}
	})
}

// The process ends between the commit and the send: whoever clicks next sends the attempt that is there.
func TestRestartBeforeTheSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.order(oneMug)
		_, started, err := r.startPayment(t.Context(), id, attempt.Token("tok_visa"), "")
		if err != nil {
			t.Fatal(err)
		}
		r.want(id, StatePending, "Waiting for your payment.")
		r.stop()
		r.open()
		if v := r.pay(id, "tok_visa", http.StatusOK); v.Attempt != started.AttemptID {
			t.Errorf("attempt %s was sent, want %s", v.Attempt, started.AttemptID)
		}
		r.wantBooks(1, 0)
	})
}

// The very first process dies before its order learns that it was paid, and before its relay has run.
func TestOutcomeBeforeTheFirstRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.stop()
		r.file = filepath.Join(t.TempDir(), "shop.db")
		deaf, err := Open(t.Context(), r.config())
		if err != nil {
			t.Fatal(err)
		}
		o, err := deaf.CreateOrder(t.Context(), []Line{{"mug", 1}})
		if err != nil {
			t.Fatal(err)
		}
		_, started, err := deaf.startPayment(t.Context(), o.ID, attempt.Token("tok_visa"), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := deaf.client.Send(t.Context(), started.AttemptID, attempt.Token("tok_visa")); err != nil {
			t.Fatal(err)
		}
		if err := deaf.Close(); err != nil {
			t.Fatal(err)
		}
		r.open()
		pass(3 * time.Second)
		r.want(o.ID, StateConfirmed, "Paid.")
	})
}

// The payment is known to the store, and the shop down until the reservation is over and the last print sold to somebody else:
// the order is cancelled and the money goes back.
func TestSoldOutBeforeThePaymentWasKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		late := r.order(`{"sku":"print","quantity":1}`)
		_, started, err := r.startPayment(t.Context(), late, attempt.Token("tok_visa"), "")
		if err != nil {
			t.Fatal(err)
		}
		r.stop()
		deaf, err := Open(t.Context(), r.config()) // it pays, and dies before the order learns of it
		if err != nil {
			t.Fatal(err)
		}
		if _, err := deaf.client.Send(t.Context(), started.AttemptID, attempt.Token("tok_visa")); err != nil {
			t.Fatal(err)
		}
		if _, err := deaf.CreateOrder(t.Context(), []Line{{"print", 1}}); err == nil {
			t.Error("a print that is reserved is sold again")
		}
		time.Sleep(DefaultTimings.Reservation + time.Second)
		o, err := deaf.CreateOrder(t.Context(), []Line{{"print", 1}})
		if err != nil {
			t.Fatal(err)
		}
		if err := deaf.Close(); err != nil {
			t.Fatal(err)
		}
		r.open()
		r.pay(o.ID, "tok_mastercard", http.StatusOK)
		pass(5 * time.Minute)
		r.want(late, StateCancelled, "Cancelled. Your payment was given back.")
		r.want(o.ID, StateConfirmed, "Paid.")
		r.wantStock("print", 0, 0)
		r.wantBooks(2, 1)
	})
}

// Money turns up on an attempt that was given up, after the customer has paid by another card: it is given back, and the order
// stays confirmed (R9).
func TestLateMoneyBesideAPaidOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.reopen(func(c *Config) {
			c.Timings = Timings{Order: 2 * time.Hour, Reservation: 3 * time.Hour, ProviderHold: 4 * time.Hour}
			c.Every = 10 * time.Second
		})
		id := r.order(oneMug)
		r.pay(id, "tok_book_after_35m", http.StatusAccepted)
		pass(33 * time.Minute)
		r.want(id, StateOpen, "Waiting for your payment.")
		r.pay(id, "tok_visa", http.StatusOK)
		pass(90 * time.Minute)
		r.want(id, StateConfirmed, "Paid.")
		r.wantBooks(2, 1)
		r.wantStock("mug", 19, 19)
	})
}

// The shop's file was lost after a payment, and the order is made anew: the event about the first charge waits for its attempt,
// and is adopted when that is there.
func TestEventBeforeItsAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, "answer")
		namespace := uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
		r.reopen(func(c *Config) { c.Payments.DeriveFrom = namespace })
		slot := attempt.Slot{Order: "1001", Purpose: attempt.PurposeCharge}
		identity := attempt.DeriveIdentity(namespace, "", slot, 1)
		req := httptest.NewRequestWithContext(t.Context(), "POST", "https://provider.example/v1/charges", strings.NewReader(
			`{"amount":1200,"currency":"EUR","source":"tok_visa","merchant_reference":"`+identity.Reference+`"}`))
		req.Header = http.Header{
			"Authorization": {"Bearer test"}, "Idempotency-Key": {`"` + identity.Key + `"`}, "Content-Type": {"application/json"},
		}
		resp, err := r.bank.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusCreated {
			t.Fatalf("charge: %v %v", resp, err)
		}
		_ = resp.Body.Close()
		pass(time.Second)

		r.bank.ClearFaults()
		r.bank.Always(fakeprovider.Any, "status:503") // the event is all that can be learnt
		if id := r.order(oneMug); id != slot.Order {
			t.Fatalf("order %s", id)
		}
		r.pay(slot.Order, "tok_visa", http.StatusOK)
		r.wantBooks(1, 0)
	})
}

// An operator cancels an order behind the shop's back.
func TestOperatorCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.order(oneMug)
		r.pay(id, "tok_pending", http.StatusAccepted)
		if _, err := r.client.CancelOrder(t.Context(), attempt.Slot{Order: id}, "fraud"); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		r.want(id, StateCancelled, "Cancelled. Nothing was charged.")
		r.wantStock("mug", 20, 20)

		confirmed := r.order(oneMug) // the money goes back, and somebody has to see to the goods
		r.pay(confirmed, "tok_visa", http.StatusOK)
		if _, err := r.client.CancelOrder(t.Context(), attempt.Slot{Order: confirmed}, "fraud"); err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Second)
		r.want(confirmed, StateConfirmed, "Your order was paid, and money was given back.")
		r.wantBooks(1, 1)

		fresh := r.order(oneMug)
		if _, err := r.client.CancelOrder(t.Context(), attempt.Slot{Order: fresh}, "fraud"); err != nil {
			t.Fatal(err)
		}
		r.pay(fresh, "tok_visa", http.StatusGone)
		r.wantBooks(1, 1)
	})
}

func TestRequestsThatAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		id := r.order(oneMug)
		paid := r.order(oneMug)
		r.pay(paid, "tok_visa", http.StatusOK)
		requests := r.bank.RequestCount()
		for _, tt := range []struct {
			method, path, body string
			want               int
			message            string
		}{
			{"POST", "/orders", `{"items":[]}`, 400, "not an order that can be made: 0 items"},
			{"POST", "/orders", `{"items":[{"sku":"mug","quantity":0}]}`, 400, "not an order that can be made: 0 of"},
			{"POST", "/orders", `{"items":[{"sku":"mug","quantity":-1}]}`, 400, "not an order that can be made: -1 of"},
			{"POST", "/orders", `{"items":[{"sku":"mug","quantity":1},{"sku":"mug","quantity":1}]}`, 400, `not an order that can be made: "mug" is there twice`},
			{"POST", "/orders", `{"items":[{"sku":"car","quantity":1}]}`, 400, `not an order that can be made: there is no "car"`},
			{"POST", "/orders", `{"items":[{"sku":"print","quantity":2}]}`, 409, "not enough in stock: print"},
			{"POST", "/orders", `{"items":[{"sku":"mug","quantity":1}],"total":1}`, 400, "The request cannot be read"},
			{"POST", "/orders", `{"items":[{"sku":"mug","quantity":1}]}{}`, 400, "The request cannot be read"},
			{"POST", "/orders", `{"items":[{"sku":"` + strings.Repeat("x", maxBody) + `","quantity":1}]}`, 400, "The request cannot be read"},
			{"GET", "/orders/1", "", 404, "there is no such order"},
			{"GET", "/orders/0" + id, "", 404, "there is no such order"},
			{"GET", "/orders/" + id + "%20", "", 404, "there is no such order"},
			{"POST", "/orders/1/pay", `{"source":"tok_visa"}`, 404, "there is no such order"},
			{"POST", "/orders/1/cancel", "", 404, "there is no such order"},
			{"POST", "/orders/" + id + "/pay", `{"source":""}`, 400, "This is no card"},
			{"POST", "/orders/" + id + "/pay", `{"source":"4111111111111111"}`, 400, "This is no card"},
			{"POST", "/orders/" + id + "/pay", `{"source":"tok_visa","amount":1}`, 400, "The request cannot be read"},
			{"POST", "/orders/" + paid + "/cancel", "", 409, "Paid. Your order is confirmed."},
		} {
			if status, v := r.do(tt.method, tt.path, tt.body); status != tt.want || !strings.HasPrefix(v.Message, tt.message) {
				t.Errorf("%s %s %.80s: %d %q, want %d %q", tt.method, tt.path, tt.body, status, v.Message, tt.want, tt.message)
			}
		}
		if n := r.bank.RequestCount(); n != requests {
			t.Errorf("%d requests reached the provider", n-requests)
		}
		r.want(id, StateOpen, "Waiting for your payment.")
		r.wantStock("mug", 19, 18)

		foreign := httptest.NewRequestWithContext(t.Context(), "POST", "/orders/"+id+"/pay", strings.NewReader(`{"source":"tok_visa"}`))
		foreign.Header.Set("Sec-Fetch-Site", "cross-site")
		w := httptest.NewRecorder()
		r.Handler().ServeHTTP(w, foreign)
		if w.Code != http.StatusForbidden {
			t.Errorf("another site's page may pay: %d", w.Code)
		}
	})
}

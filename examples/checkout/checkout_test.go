package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
)

// The order runs out of time while the payment is unknown, and the provider books it later: the order stays cancelled, and the
// money goes back once, by a refund with its own key whose own lost answer is cleared up like a charge's.
func TestS1LatePaymentIsRefunded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.reopen(func(c *Config) { c.Every = 10 * time.Second })
		id := r.order(oneMug)
		r.wantStock("mug", 20, 19)
		r.pay(id, "tok_book_after_20m", http.StatusAccepted)
		pass(14 * time.Minute)
		r.want(id, StatePending, "Your payment is being verified.")

		pass(2 * time.Minute)
		r.want(id, StateCancelled, "Cancelled. Should your payment still go through, it is given back.")
		r.wantStock("mug", 20, 20)
		r.wantBooks(0, 0)
		if v := r.pay(id, "tok_visa", http.StatusGone); v.Message != "Cancelled. Should your payment still go through, it is given back." {
			t.Errorf("nobody knows what became of the first card, and the customer is told: %+v", v)
		}

		// The refund is made and its answer lost, and nobody can be asked about it.
		refunds := fakeprovider.Match{Path: "/v1/refunds"}
		r.bank.ScriptFor(refunds, "lose-answer+webhook-lost")
		r.bank.Always(refunds, "status:500")
		r.bank.Always(fakeprovider.Match{Method: "GET", Path: "/v1/refunds"}, "status:503")
		pass(30 * time.Minute)
		r.wantBooks(1, 1)
		r.want(id, StateCancelled, "Cancelled. Your payment is being given back.")
		if v := r.slotOf(id); len(v.Refunds) != 1 || v.Refunds[0].Status.Final() {
			t.Errorf("refunds: %+v, want one that is open", v.Refunds)
		}

		r.bank.ClearFaults()
		pass(time.Hour)
		r.want(id, StateCancelled, "Cancelled. Your payment was given back.")
		r.wantBooks(1, 1)
		if v := r.slotOf(id); len(v.Attempts) != 1 || len(v.Refunds) != 1 || v.Attempts[0].Key == v.Refunds[0].Key {
			t.Errorf("%d attempts and %d refunds, want one of each, each with its own key", len(v.Attempts), len(v.Refunds))
		}
		r.pay(id, "tok_visa", http.StatusGone)
		r.wantBooks(1, 1)
	})
}

// Success is told by the answer, by two deliveries of an event, by the relay and by whoever asks: the order is confirmed once,
// the goods leave the stock once, and nothing is given back.
func TestS2SuccessToldTwiceIsNoRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, "webhook-twice")
		id := r.order(`{"sku":"shirt","quantity":3}`)
		r.pay(id, "tok_visa", http.StatusOK)
		r.want(id, StateConfirmed, "Paid.")
		pass(10 * time.Minute)
		if d := r.bank.Webhooks(); len(d) != 2 || d[0].Status != http.StatusOK || d[1].Status != http.StatusOK {
			t.Errorf("%d deliveries, want 2 that are acknowledged: %+v", len(d), d)
		}
		events, err := r.store.Events(t.Context(), r.slotOf(id).Attempts[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events { // a relay that was interrupted tells everything again
			if err := r.learn(t.Context(), e); err != nil {
				t.Error(err)
			}
		}
		r.pay(id, "tok_visa", http.StatusOK)
		r.want(id, StateConfirmed, "Paid.")
		r.wantStock("shirt", 7, 7)
		r.wantBooks(1, 0)
	})
}

// Time-out and approval come at the same moment, in many ways: every order ends confirmed and paid, or cancelled with its money
// given back.
func TestS3TimeoutAndApprovalAtOnce(t *testing.T) {
	orders := 300 // of the client alone there are a thousand, in its own tests
	if testing.Short() {
		orders = 100
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRigWith(t, "webhook-lost")
		r.addStock("mug", orders)
		var customers sync.WaitGroup
		for i := range orders {
			id := r.order(oneMug)
			o, err := readOrder(t.Context(), r.store, id)
			if err != nil {
				t.Fatal(err)
			}
			customers.Go(func() {
				time.Sleep(time.Until(o.PayBy))
				if err := r.cancelLateOnce(t.Context()); err != nil {
					t.Error(err)
				}
			})
			customers.Go(func() {
				// The call begins so that its answer comes when the order's time is over, for some a millisecond before or after.
				const takes = 2 * time.Second
				around := [...]time.Duration{0, 0, -time.Millisecond, 0, time.Millisecond}[i%5]
				time.Sleep(time.Until(o.PayBy) - takes + around)
				source := "tok_slow_2s" // charged at once, told at the last moment
				if i%2 == 1 {
					source = "tok_book_after_2s" // charged at the last moment
				}
				if i%3 == 0 {
					customers.Go(func() { // and the customer gives up in that very moment
						time.Sleep(takes)
						r.do("POST", "/orders/"+id+"/cancel", "")
					})
				}
				status, v := r.do("POST", "/orders/"+id+"/pay", `{"source":"`+source+`"}`)
				if (status == http.StatusOK) != (v.State == StateConfirmed) {
					t.Errorf("order %s: answered %d %+v", id, status, v)
				}
			})
			if i%10 == 9 {
				time.Sleep(time.Second) // about ten orders run out of time at once
			}
		}
		customers.Wait()
		pass(10 * time.Minute)

		ends := map[string]int{}
		for i := range orders {
			id := fmt.Sprint(1001 + i)
			o, err := readOrder(t.Context(), r.store, id)
			if err != nil {
				t.Fatal(err)
			}
			ends[string(o.State)+" "+o.Why]++
			var references []string
			for _, a := range r.slotOf(id).Attempts {
				references = append(references, a.Reference)
			}
			charges, refunds := 0, 0
			if len(references) > 0 {
				charges, refunds = r.charged(references...)
			}
			paid := o.State == StateConfirmed && charges == 1 && refunds == 0
			givenBack := o.State == StateCancelled && charges == refunds && charges <= 1
			if !paid && !givenBack {
				t.Errorf("order %s ended as %s with %d charges and %d refunds", id, o.State, charges, refunds)
			}
		}
		t.Logf("ends: %v", ends)
		confirmed := ends[string(StateConfirmed)+" "]
		if confirmed < orders/20 || ends["cancelled not paid in time"] < orders/20 || ends["cancelled cancelled by the customer"] < orders/200 {
			t.Errorf("ends: %v: this is no race", ends)
		}
		stock := 20 + orders - confirmed
		r.wantStock("mug", stock, stock)
	})
}

// What contradicts is refused at the start: an order must be over before its goods are let go, and those before the provider
// gives the payment up.
func TestS5Timings(t *testing.T) {
	payments := attempt.Schedule{First: 2 * time.Minute}
	for _, tt := range []struct {
		name    string
		timings Timings
		want    []string
	}{
		{"default", DefaultTimings, nil},
		{"order times out while it is paid", Timings{2 * time.Minute, 20 * time.Minute, time.Hour}, []string{"order time-out (2m0s)"}},
		{"goods are let go first", Timings{20 * time.Minute, 20 * time.Minute, time.Hour}, []string{"stock reservation (20m0s)"}},
		{"the provider gives up first", Timings{15 * time.Minute, 20 * time.Minute, 18 * time.Minute}, []string{"provider's own hold (18m0s)"}},
		{"everything", Timings{time.Minute, time.Second, 0}, []string{"order time-out", "stock reservation", "provider's own hold"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.timings.Validate(payments)
			if (err == nil) != (len(tt.want) == 0) {
				t.Fatalf("error %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name %q", err, want)
				}
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		cfg := newRig(t).config()
		cfg.Timings = Timings{Order: time.Hour, Reservation: time.Minute, ProviderHold: 2 * time.Hour}
		if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "timings: the order time-out (1h0m0s) must be shorter") {
			t.Errorf("the shop opens with contradicting timings: %v", err)
		}
	})
}

// The order is cancelled before anything was paid, or with an attempt prepared; the message to pay comes afterwards: nothing
// is sent.
func TestS6CancelledBeforeThePayment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		never := r.order(oneMug)
		if status, v := r.do("POST", "/orders/"+never+"/cancel", ""); status != http.StatusOK || v.Message != "Cancelled. Nothing was charged." {
			t.Errorf("cancel: %d %+v", status, v)
		}
		r.pay(never, "tok_visa", http.StatusGone)

		prepared := r.order(oneMug)
		_, started, err := r.startPayment(t.Context(), prepared, attempt.Token("tok_visa"), "")
		if err != nil {
			t.Fatal(err)
		}
		pass(DefaultTimings.Order + 2*time.Second)
		r.want(prepared, StateCancelled, "Cancelled. Nothing was charged.")
		if _, err := r.client.Send(t.Context(), started.AttemptID, attempt.Token("tok_visa")); !errors.Is(err, attempt.ErrCancelled) {
			t.Errorf("send after the order was cancelled: %v", err)
		}
		r.pay(prepared, "tok_visa", http.StatusGone)
		if n := r.bank.RequestCount(); n != 0 {
			t.Errorf("%d requests, want none", n)
		}
		r.wantStock("mug", 20, 20)
	})
}

func (r *rig) addStock(sku string, n int) {
	r.t.Helper()
	if err := r.change("UPDATE shop_items SET stock = stock + $1 WHERE sku = $2", n, sku); err != nil {
		r.t.Fatal(err)
	}
}

// change changes the shop's tables behind its back.
func (r *rig) change(statement string, args ...any) error {
	return r.store.InTx(context.Background(), execute(statement, args...))
}

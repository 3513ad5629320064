package batch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// S6: a row of an order that was cancelled, before or after it was sent, is refused and nothing is sent for it; where money
// of it may have moved the row is open.
func TestARowOfACancelledOrderIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first := b.run("1,1.00,EUR,tok_never_arrives\n2,1.00,EUR,tok_declined\n")
		b.want(first, first.Do(t.Context(), t.Context()), "1 unknown timeout, 2 declined")
		time.Sleep(time.Minute) // in the bubble: the run is over
		for _, order := range []string{"1", "2", "3"} {
			cancel := attempt.Cancel{Slot: attempt.Slot{Order: order}.WithDefaults(), Who: "a test", Why: "out of time"}
			if err := b.store.Apply(t.Context(), &attempt.Step{Slot: cancel.Slot, Do: cancel.Do}); err != nil {
				t.Fatal(err)
			}
		}
		sent := b.bank.Ledger().RequestCount
		again := b.run("1,1.00,EUR,tok_never_arrives\n2,1.00,EUR,tok_declined\n3,1.00,EUR,tok_visa\n")
		b.want(again, again.Do(t.Context(), t.Context()),
			"1 refused (existing) order_cancelled, 2 refused (existing) order_cancelled, 3 refused order_cancelled")
		if n := b.bank.Ledger().RequestCount - sent; n != 0 {
			t.Errorf("%d requests left for cancelled orders", n)
		}
		for i, open := range []bool{true, false, false} {
			r := again.results[i]
			if r.Open() != open || r.Payment != nil || (r.Standing != nil) != (i < 2) || r.Message == "" {
				t.Errorf("row %d: open %t, want %t; %+v", i+1, r.Open(), open, r)
			}
		}
	})
}

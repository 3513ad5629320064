package payclient_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// Whoever waits for a store that takes no outcome is told which attempts wait, and what the store says; also after giving up.
func TestC06WhatIsNotRecordedIsListed(t *testing.T) {
	var healed atomic.Bool
	aCase(t, fakeprovider.Config{}, standard.Config{}, func(cfg *payclient.Config) {
		cfg.Store = losesOutcomes(cfg.Store, &healed)
	}, func(s *shop) {
		wants := func(orders ...string) {
			t.Helper()
			got := s.client.NotRecorded()
			if len(got) != len(orders) {
				t.Fatalf("%d not recorded, want %v: %+v", len(got), orders, got)
			}
			for i, n := range got {
				a := s.attempts(order(orders[i]))[0]
				if n.Slot != a.Slot || n.AttemptID != a.ID || !errors.Is(n.Err, errDiskFull) || n.Refund != (attempt.RefundOf{}) {
					t.Errorf("%+v, want attempt %s of order %s and %v", n, a.ID, orders[i], errDiskFull)
				}
			}
		}
		wants()
		s.pay(order("1001"))
		first := s.client.NotRecorded()[0].Since
		time.Sleep(time.Second) // in the bubble
		s.pay(with(order("1002"), "tok_declined"))
		wants("1001", "1002")
		if again := s.client.NotRecorded()[0].Since; !again.Equal(first) || time.Since(first) < 15*time.Second {
			t.Errorf("waits since %s, then since %s; want when the store failed first", first, again)
		}

		healed.Store(true)
		time.Sleep(5 * time.Second) // in the bubble: it is tried every second
		wants()

		healed.Store(false)
		s.pay(order("1003"))
		over, end := context.WithCancel(context.Background())
		end()
		if err := s.client.Close(over); err == nil {
			t.Error("Close reports no outcome that is not stored")
		}
		time.Sleep(time.Minute) // in the bubble: nobody tries any more
		wants("1003")
	})
}

package reconcile_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/reconcile"
)

// The provider books after 15 s, when the caller has given up: the provider is asked in vain first, and approved then.
func TestR1BookedAfterTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, scenario)
		var vain int
		s.watch(s.reconciler(func(c *reconcile.Config) {
			c.Observer.Recorded = func(_ context.Context, _, after attempt.Attempt, _ []attempt.Duty) {
				if after.Status == attempt.StatusUnknown {
					vain++
				}
			}
		}))
		res := s.unknown(s.with("1001", "tok_book_after_15s"))
		s.until(14 * time.Second)
		s.want(res.AttemptID, attempt.StatusUnknown, s.attempt(res.AttemptID).Reason)
		s.until(22 * time.Second)
		a := s.want(res.AttemptID, attempt.StatusApproved, "")
		if vain == 0 {
			t.Error("the provider was not asked in vain before it had booked")
		}
		if charges := s.Charges("1001"); len(charges) != 1 || charges[0].ID != a.ChargeID {
			t.Errorf("approved with %s, the provider holds %+v", a.ChargeID, charges)
		}
	})
}

// The request is lost on its way: asked several times, given up 40 s after the last send and no sooner, and then payable
// with a new key.
func TestR2NeverBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, scenario, func(c *payclient.Config) { c.Retries = -1 })
		s.Bank.Script(fakeprovider.NeverArrives)
		s.watch(s.reconciler())
		res := s.unknown(s.Intent("1002"))
		last := s.attempt(res.AttemptID).LastPossibleSend()
		time.Sleep(time.Until(last.Add(40*time.Second - time.Millisecond)))
		s.want(res.AttemptID, attempt.StatusUnknown, attempt.ReasonTimeout)
		time.Sleep(time.Until(last.Add(42 * time.Second)))
		s.want(res.AttemptID, attempt.StatusAbandoned, attempt.ReasonNotFound)
		if n := s.lookups(res.AttemptID)[attempt.LookupNone]; n < 3 {
			t.Errorf("asked %d times, want several", n)
		}
		again := s.pay(s.Intent("1002"))
		if again.Outcome != payclient.Approved || again.Key == res.Key {
			t.Errorf("paying again: %s with key %s, the old one was %s", again.Outcome, again.Key, res.Key)
		}
		s.WantCharges("1002", 1)
	})
}

// One pass by hand finds what the caller did not wait for.
func TestR3OnePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, func(c *payclient.Config) {
			c.SendTimeout, c.CallTimeout, c.MinAge = 300*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
			c.FirstWait, c.Retries = 50*time.Millisecond, -1
		})
		res := s.unknown(s.with("1003", "tok_book_after_1s"))
		time.Sleep(10 * time.Second)
		report := s.once(s.reconciler())
		s.want(res.AttemptID, attempt.StatusApproved, "")
		if report.Taken != 1 || report.Asked != 1 || report.Approved != 1 || report.Open != 0 {
			t.Errorf("report: %+v", report)
		}
		s.WantCharges("1003", 1)
	})
}

// R2 with the shipped times: half an hour, in no time.
func TestR4DefaultTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{})
		s.Bank.Always(fakeprovider.Match{}, fakeprovider.NeverArrives)
		s.watch(s.reconciler())
		res := s.unknown(s.Intent("1004"))
		last := s.attempt(res.AttemptID).LastPossibleSend()
		time.Sleep(time.Until(last.Add(30*time.Minute - time.Second)))
		if a := s.attempt(res.AttemptID); a.Status != attempt.StatusUnknown {
			t.Fatalf("%s before half an hour has passed", a.Status)
		}
		time.Sleep(5 * time.Second)
		s.want(res.AttemptID, attempt.StatusAbandoned, attempt.ReasonNotFound)
	})
}

// C45: lookups fail for 30 h; nothing closes by age.
func TestR5LookupsFailForThirtyHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, func(c *payclient.Config) { c.Breaker.FailurePercent = -1 })
		s.Bank.Script(fakeprovider.LoseAnswer)
		s.Bank.Always(fakeprovider.Lookups, fakeprovider.Status(503))
		res, err := s.Client.Pay(t.Context(), s.with("1005", "tok_pending"))
		if err != nil || !res.Open() {
			t.Fatalf("%+v, %v", res, err)
		}
		id := res.AttemptID
		s.watch(s.reconciler())
		for hour := range 30 {
			s.until(time.Duration(hour+1) * time.Hour)
			if a := s.attempt(id); a.Status != attempt.StatusUnknown || a.NextCheckAt.IsZero() {
				t.Fatalf("after %d h: %s, next look %s", hour+1, a.Status, a.NextCheckAt)
			}
		}
		s.Bank.ClearFaults()
		if err := s.Bank.Settle("ch_000001", fakeprovider.Succeeded); err != nil {
			t.Fatal(err)
		}
		s.until(60 * time.Hour)
		s.want(id, attempt.StatusApproved, "")
		s.WantCharges("1005", 1)
	})
}

// C42: the provider's search shows nothing for the first 20 s.
func TestR6SearchLag(t *testing.T) {
	for name, fault := range map[string]fakeprovider.Fault{"empty": "", "not found": fakeprovider.Status(404), "null": `set:data=null`} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{SearchLag: 20 * time.Second}, scenario, func(c *payclient.Config) { c.Retries = -1 })
				s.Bank.Script(fakeprovider.LoseAnswer)
				if fault != "" {
					s.Bank.Always(fakeprovider.Lookups, fault)
				}
				s.watch(s.reconciler())
				res := s.unknown(s.Intent("1006"))
				s.until(19 * time.Second)
				s.want(res.AttemptID, attempt.StatusUnknown, attempt.ReasonConnectionLost)
				s.Bank.ClearFaults()
				s.until(31 * time.Second)
				s.want(res.AttemptID, attempt.StatusApproved, "")
				s.WantCharges("1006", 1)
			})
		})
	}
}

// Two reconcilers and a returning customer at once: one verdict, one charge, no error to anyone.
func TestR7TwoReconcilersAndTheCustomer(t *testing.T) {
	for _, token := range []string{"tok_book_after_15s", "tok_never_arrives", "tok_declined"} {
		t.Run(token, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, scenario)
				fail := func(c *reconcile.Config) {
					c.Observer.Failed = func(_ context.Context, a attempt.Attempt, err error) { t.Errorf("attempt %s: %v", a.ID, err) }
					c.Lease, c.AskTimeout = 4*time.Second, 2*time.Second // so short that they meet
				}
				s.watch(s.reconciler(fail))
				s.watch(s.reconciler(fail))
				var customers sync.WaitGroup
				for range 3 {
					customers.Go(func() {
						for time.Since(s.began) < 100*time.Second {
							_, err := s.Client.Pay(t.Context(), s.with("1007", token))
							if err != nil && !errors.Is(err, attempt.ErrNotPaid) {
								t.Errorf("customer: %v", err)
							}
							time.Sleep(700 * time.Millisecond)
						}
					})
				}
				customers.Wait()
				ends := make(map[attempt.Status]int)
				for a, err := range s.Store.List(t.Context(), attempt.Filter{Order: "1007"}) {
					if err != nil {
						t.Fatal(err)
					}
					ends[a.Status]++
					final := 0
					for _, e := range s.events(a.ID) {
						if e.Final() {
							final++
						}
					}
					if final > 1 {
						t.Errorf("attempt %s has ended %d times", a.ID, final)
					}
					if len(a.Duties) > 0 {
						t.Errorf("duties: %+v", a.Duties)
					}
				}
				want := map[string]int{"tok_book_after_15s": 1}[token]
				if n := len(s.Charges("1007")); n != want || ends[attempt.StatusApproved] != want {
					t.Errorf("%d charges and %v, want %d of each", n, ends, want)
				}
			})
		})
	}
}

// The customer tries again at minute 29: giving up counts from the last send.
func TestR8RetriedAtTheLastMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{})
		s.Bank.Always(fakeprovider.Match{}, fakeprovider.NeverArrives)
		s.watch(s.reconciler())
		res := s.unknown(s.Intent("1008"))
		s.until(29 * time.Minute)
		s.unknown(s.Intent("1008"))
		again := s.attempt(res.AttemptID).LastPossibleSend()
		if since := again.Sub(s.began); since < 29*time.Minute {
			t.Fatalf("the last send was %s after the beginning", since)
		}
		for time.Now().Before(again.Add(30*time.Minute - time.Second)) {
			s.want(res.AttemptID, attempt.StatusUnknown, attempt.ReasonTimeout)
			time.Sleep(30 * time.Second)
		}
		time.Sleep(time.Until(again.Add(30*time.Minute + 5*time.Second)))
		s.want(res.AttemptID, attempt.StatusAbandoned, attempt.ReasonNotFound)
	})
}

// Abandoned at half an hour, the charge appears five minutes later, another card has paid meanwhile: the late money goes back
// once, under a key of its own, and the history tells it.
func TestR9LateMoney(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, func(c *payclient.Config) {
			c.Retries = -1
		})
		s.Bank.Script(fakeprovider.BookAfter(35 * time.Minute))
		s.watch(s.reconciler())
		res := s.unknown(s.Intent("1009"))
		s.until(31 * time.Minute)
		s.want(res.AttemptID, attempt.StatusAbandoned, attempt.ReasonNotFound)
		other := s.pay(s.with("1009", "tok_mastercard"))
		if other.Outcome != payclient.Approved {
			t.Fatalf("another card: %s (%s)", other.Outcome, other.Reason)
		}
		s.until(3 * time.Hour)
		a := s.attempt(res.AttemptID)
		if len(a.Duties) != 1 || a.Duties[0].Kind != attempt.DutyRefund || a.Duties[0].How != attempt.HowRefunded {
			t.Fatalf("duties: %+v", a.Duties)
		}
		refunds := s.Bank.Refunds()
		if len(refunds) != 1 || refunds[0].Charge != a.Duties[0].ChargeID || refunds[0].Amount != a.Amount.Minor() {
			t.Fatalf("refunds: %+v", refunds)
		}
		s.wantRefundInHistory(a, other.Key)
		if got := s.attempt(other.AttemptID); got.Status != attempt.StatusApproved || len(got.Duties) != 0 {
			t.Errorf("the other card's: %s, %+v", got.Status, got.Duties)
		}
	})
}

// wantRefundInHistory looks for the one refund of an attempt in the slot and in both histories.
func (s *shop) wantRefundInHistory(a attempt.Attempt, otherKeys ...string) {
	s.t.Helper()
	view, err := s.Store.Slot(s.t.Context(), a.Slot)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(view.Refunds) != 1 {
		s.t.Fatalf("%d refund attempts, want 1", len(view.Refunds))
	}
	refund := view.Refunds[0]
	if refund.Status != attempt.StatusApproved || !strings.HasPrefix(refund.Refund.ID, attempt.DutyRefundPrefix) {
		s.t.Errorf("refund: %s, id %s", refund.Status, refund.Refund.ID)
	}
	for _, key := range append(otherKeys, a.Key) {
		if key == refund.Key {
			s.t.Error("the refund went out under a charge's key")
		}
	}
	told := false
	for _, e := range s.events(a.ID) {
		told = told || e.What == attempt.WhatRefunded
	}
	if !told || len(s.events(refund.ID)) < 2 {
		s.t.Errorf("history: %+v and %+v", s.events(a.ID), s.events(refund.ID))
	}
}

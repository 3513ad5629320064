package reconcile_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/reconcile"
)

// refunds matches the requests that make refunds.
var refunds = fakeprovider.Match{Path: "/v1/refunds"}

func (s *shop) cancel(order string) payclient.Result {
	s.t.Helper()
	res, err := s.Client.CancelOrder(s.t.Context(), attempt.Slot{Order: order}.WithDefaults(), "out of time")
	if err != nil {
		s.t.Fatal(err)
	}
	return res
}

// The order is cancelled while the payment is unknown, and the provider approves it later: it stays cancelled, and one refund
// goes out under a key of its own, also where the refund's answer is lost.
func TestS1CancelledThenApproved(t *testing.T) {
	for name, fault := range map[string]fakeprovider.Fault{
		"answered": fakeprovider.Answer, "answer lost": fakeprovider.LoseAnswer, "request lost": fakeprovider.NeverArrives,
		"booked late": fakeprovider.BookAfter(20 * time.Minute),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, func(c *payclient.Config) { c.Retries = -1 })
				s.watch(s.reconciler())
				s.Bank.ScriptFor(fakeprovider.Match{Path: "/v1/charges"}, fakeprovider.BookAfter(10*time.Minute))
				s.Bank.ScriptFor(refunds, fault)
				res := s.unknown(s.Intent("2001"))
				s.until(5 * time.Minute)
				if cancelled := s.cancel("2001"); cancelled.Moved != payclient.MovedMaybe {
					t.Fatalf("cancelled: moved %s (%s)", cancelled.Moved, cancelled.Reason)
				}
				s.until(6 * time.Hour)
				a := s.want(res.AttemptID, attempt.StatusApproved, "")
				if told := a.Tell(time.Now()); told.Moved != attempt.MovedNo || !told.NotPaid {
					t.Errorf("told %+v after the money went back", told)
				}
				if made := s.Bank.Refunds(); len(made) != 1 || made[0].Amount != a.Amount.Minor() {
					t.Errorf("refunds: %+v", made)
				}
				s.wantRefundInHistory(a)
				if _, err := s.Client.Pay(t.Context(), s.Intent("2001")); err == nil {
					t.Error("a cancelled order took a payment")
				}
				s.WantCharges("2001", 1)
			})
		})
	}
}

// Time-out and approval arrive at the same moment: never paid and cancelled without a refund.
func TestS3CancelAndApprovalMeet(t *testing.T) {
	for n := range 40 {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, fakeprovider.Config{}, scenario)
			s.watch(s.reconciler())
			at := 15*time.Second + time.Duration(n)*100*time.Millisecond
			s.Bank.ScriptFor(fakeprovider.Match{Path: "/v1/charges"}, fakeprovider.BookAfter(15*time.Second))
			res := s.unknown(s.Intent("2003"))
			s.until(at)
			s.cancel("2003")
			s.until(time.Hour)
			a := s.want(res.AttemptID, attempt.StatusApproved, "")
			if c, _ := a.Charge(a.ChargeID); c.Refunded != a.Amount.Minor() || len(s.Bank.Refunds()) != 1 {
				t.Errorf("cancelled at %s: refunded %d, refunds %+v, duties %+v", at, c.Refunded, s.Bank.Refunds(), a.Duties)
			}
		})
	}
}

// A refund that the provider refuses, at once or after days, leaves the duty open, visible, and to a person.
func TestS4RefundRefused(t *testing.T) {
	for token, wait := range map[string]time.Duration{"tok_refund_declined": time.Hour, "tok_refund_pending_then_failed_72h": 100 * time.Hour} {
		t.Run(token, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{})
				s.watch(s.reconciler(func(c *reconcile.Config) { c.Every = time.Minute }))
				res := s.pay(s.with("2004", token))
				if res.Outcome != payclient.Approved {
					t.Fatalf("%s (%s)", res.Outcome, res.Reason)
				}
				s.cancel("2004")
				s.until(wait)
				s.wantReview(res.AttemptID)
				health, err := reconcile.ReadHealth(t.Context(), s.Store)
				if err != nil || health.Duties[attempt.DutyReview] != 1 {
					t.Errorf("health: %+v, %v", health, err)
				}
				s.until(wait + 400*time.Hour)
				s.wantReview(res.AttemptID)
				view, err := s.Store.Slot(t.Context(), attempt.Slot{Order: "2004"}.WithDefaults())
				if err != nil || len(view.Refunds) != 1 {
					t.Errorf("%d refund attempts, %v: a refused refund is not tried again without a person", len(view.Refunds), err)
				}
			})
		})
	}
}

func (s *shop) wantReview(id string) {
	s.t.Helper()
	a := s.attempt(id)
	if d, owed := a.OpenDuty(); !owed || d.Kind != attempt.DutyReview || len(a.Duties) != 1 {
		s.t.Fatalf("duties: %+v, want one open review", a.Duties)
	}
	for _, e := range s.events(id) {
		if e.What == attempt.WhatResolved && e.Who == reconcile.PolicyName {
			return
		}
	}
	s.t.Errorf("the policy's decision is not in the history: %+v", s.events(id))
}

// lateMoney makes an attempt that was abandoned and is charged afterwards.
func (s *shop) lateMoney(order string, booked time.Duration) payclient.Result {
	s.t.Helper()
	s.Bank.ScriptFor(fakeprovider.Match{Path: "/v1/charges"}, fakeprovider.BookAfter(booked))
	return s.unknown(s.Intent(order))
}

func oneSend(c *payclient.Config) { c.Retries = -1 }

func TestPolicyKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend)
		s.watch(s.reconciler(func(c *reconcile.Config) { c.Policy.LateMoney = reconcile.LateKeep }))
		res := s.lateMoney("2010", 35*time.Minute)
		s.until(3 * time.Hour)
		a := s.want(res.AttemptID, attempt.StatusAbandoned, attempt.ReasonNotFound)
		if len(a.Duties) != 1 || a.Duties[0].How != attempt.HowKept {
			t.Fatalf("duties: %+v", a.Duties)
		}
		if told := a.Tell(time.Now()); told.Outcome != attempt.Approved {
			t.Errorf("told %+v", told)
		}
		if made := s.Bank.Refunds(); len(made) != 0 {
			t.Errorf("refunds: %+v", made)
		}
	})
}

// What was paid on a cancelled order is not kept, whatever the policy says of late money.
func TestPolicyKeepsNothingOfACancelledOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend)
		s.watch(s.reconciler(func(c *reconcile.Config) { c.Policy.LateMoney = reconcile.LateKeep }))
		res := s.lateMoney("2011", 35*time.Minute)
		s.until(32 * time.Minute)
		s.want(res.AttemptID, attempt.StatusAbandoned, attempt.ReasonNotFound)
		s.cancel("2011")
		s.until(6 * time.Hour)
		if a := s.attempt(res.AttemptID); len(s.Bank.Refunds()) != 1 {
			t.Errorf("refunds: %+v, duties: %+v", s.Bank.Refunds(), a.Duties)
		}
	})
}

// Under the policy of review a person decides, and what the person decides is done and not asked again.
func TestPolicyReviewThenAPersonRefunds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend)
		s.watch(s.reconciler(func(c *reconcile.Config) { c.Policy.LateMoney = reconcile.LateReview }))
		res := s.lateMoney("2012", 35*time.Minute)
		s.until(3 * time.Hour)
		s.wantReview(res.AttemptID)
		if made := s.Bank.Refunds(); len(made) != 0 {
			t.Fatalf("refunds: %+v", made)
		}
		schedule := s.Client.Schedule()
		decision := attempt.Resolve{ID: res.AttemptID, Who: "support", Schedule: &schedule, Resolution: attempt.Resolution{
			Kind: attempt.ResolvedRefund, ChargeID: s.attempt(res.AttemptID).Duties[0].ChargeID, Why: "the payer has called",
		}}
		if err := s.Store.Apply(t.Context(), decision.Step()); err != nil {
			t.Fatal(err)
		}
		s.until(5 * time.Hour)
		a := s.attempt(res.AttemptID)
		if len(s.Bank.Refunds()) != 1 || a.Duties[0].How != attempt.HowRefunded {
			t.Errorf("refunds: %+v, duties: %+v", s.Bank.Refunds(), a.Duties)
		}
	})
}

// A charge that the provider has taken back is not refunded on top of that.
func TestNoRefundOfAReversedCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend, func(c *payclient.Config) { c.RefundGrace = 24 * time.Hour })
		s.watch(s.reconciler())
		res := s.lateMoney("2013", 35*time.Minute)
		s.until(3 * time.Hour)
		a := s.attempt(res.AttemptID)
		if d, owed := a.OpenDuty(); !owed || d.Kind != attempt.DutyRefund || len(s.Bank.Refunds()) != 0 {
			t.Fatalf("within the grace: duties %+v, refunds %+v", a.Duties, s.Bank.Refunds())
		}
		if err := s.Bank.Settle(a.Charges[0].ID, fakeprovider.Failed); err != nil {
			t.Fatal(err)
		}
		s.until(72 * time.Hour)
		if made := s.Bank.Refunds(); len(made) != 0 {
			t.Errorf("refunded all the same: %+v", made)
		}
		if d, owed := s.attempt(res.AttemptID).OpenDuty(); !owed || d.Kind != attempt.DutyReview {
			t.Errorf("duties: %+v", s.attempt(res.AttemptID).Duties)
		}
	})
}

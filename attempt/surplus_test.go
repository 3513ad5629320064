package attempt_test

import (
	"errors"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Timelines of money that should not be there: each was a way to give back what was kept, to keep what was surplus, or to
// forget it.

func (s *shop) payDuty() attempt.Decision {
	s.t.Helper()
	return s.refund(attempt.Refund{AttemptID: s.nth(1).ID, ChargeID: "ch_1", ID: attempt.DutyRefundPrefix + "ch_1"})
}

func (s *shop) decideAs(kind attempt.ResolutionKind) {
	s.t.Helper()
	if _, err := s.resolve(1, 0, attempt.Resolution{Kind: kind, ChargeID: "ch_1"}); err != nil {
		s.t.Fatal(err)
	}
}

// A reconciler has read an open duty; before it pays, a person decides to keep the money.
func TestSurplus_KeptBeforeItIsPaid(t *testing.T) {
	s := open(t)
	situations["late money"](s)
	s.decideAs(attempt.ResolvedKeep)
	if d := s.payDuty(); !errors.Is(d.Err, attempt.ErrNotRefundable) {
		t.Fatalf("kept money was given back: %+v", d)
	}
	// The other way round: while a refund may be giving it back, it cannot be kept.
	s = open(t)
	situations["late money"](s)
	if d := s.payDuty(); d.Kind != attempt.DecidedSend {
		t.Fatalf("%+v", d)
	}
	s.now = s.now.Add(time.Minute)
	if _, err := s.resolve(1, 0, attempt.Resolution{Kind: attempt.ResolvedKeep, ChargeID: "ch_1"}); !errors.Is(err, attempt.ErrNotResolvable) {
		t.Errorf("kept while it goes back: %v", err)
	}
}

// The order was paid by another card since: what came late cannot be its payment too.
func TestSurplus_KeptBesideAnotherPayment(t *testing.T) {
	for _, other := range []string{"in flight", "unknown", "approved"} {
		s := open(t)
		situations["abandoned"](s)
		d := s.pay(wants{source: mastercard, asked: true})
		if d.Kind != attempt.DecidedSend {
			t.Fatalf("%+v", d)
		}
		switch other {
		case "unknown":
			s.end(2, attempt.Send{})
		case "approved":
			c := attempt.Charge{ID: "ch_2", Status: attempt.ChargeSucceeded, Amount: asked}
			s.end(2, attempt.Send{Answer: attempt.Answer{Verdict: attempt.Charged}, Charge: &c})
		}
		s.webhook(1, held)
		if _, err := s.resolve(1, 0, attempt.Resolution{Kind: attempt.ResolvedKeep, ChargeID: "ch_1"}); !errors.Is(err, attempt.ErrNotResolvable) {
			t.Errorf("kept beside another that is %s: %v", other, err)
		}
	}
}

// Late money was kept as the order's payment, and then the order is cancelled.
func TestSurplus_KeptThenCancelled(t *testing.T) {
	s := open(t)
	situations["late money"](s)
	s.decideAs(attempt.ResolvedKeep)
	s.cancel()
	a := s.nth(1)
	if told := a.Tell(s.now); told.Reason != attempt.ReasonRefundOwed || told.Moved != attempt.MovedYes || a.NextCheckAt.IsZero() {
		t.Fatalf("told %+v: %+v", told, a)
	}
	d := s.payDuty()
	s.refunded(d, back("re_1", attempt.ChargeSucceeded, asked.Minor()))
	a = s.nth(1)
	if told := a.Tell(s.now); !told.NotPaid || told.Moved != attempt.MovedNo || told.Reason != attempt.ReasonRefunded {
		t.Errorf("after the refund, told %+v: %+v", told, a.Duties)
	}
}

// Late money was kept, and the host has given it back by a refund of its own.
func TestSurplus_KeptThenRefunded(t *testing.T) {
	s := open(t)
	situations["late money"](s)
	s.decideAs(attempt.ResolvedKeep)
	d := s.refund(attempt.Refund{AttemptID: s.nth(1).ID, ID: "return-1"})
	s.refunded(d, back("re_1", attempt.ChargeSucceeded, asked.Minor()))
	if told := s.nth(1).Tell(s.now); !told.NotPaid || told.Reason != attempt.ReasonRefunded {
		t.Errorf("told %+v", told)
	}
	if d := s.pay(wants{source: mastercard}); !errors.Is(d.Err, attempt.ErrRefunded) {
		t.Errorf("paying again: %+v", d)
	}
}

// A second charge is not final when the first one approves: somebody looks until it is.
func TestSurplus_SecondChargePending(t *testing.T) {
	s := open(t)
	s.pay(wants{})
	s.end(1, attempt.Send{})
	schedule := &attempt.Schedule{Rule: *usualRule}
	second := attempt.Charge{ID: "ch_2", Status: attempt.ChargePending, Amount: asked}
	a := s.record(s.nth(1).ID, schedule, attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: attempt.LookupFound, AskedAt: s.now, Charges: []attempt.Charge{held, second}}, true)
	if d, owed := a.OpenDuty(); a.Status != attempt.StatusApproved || a.NextCheckAt.IsZero() || !owed || d.Why != attempt.WhyLatePending {
		t.Fatalf("%+v", a)
	}
	s.now = a.NextCheckAt
	second.Status = attempt.ChargeSucceeded
	a = s.record(a.ID, schedule, attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: attempt.LookupFound, AskedAt: s.now, Charges: []attempt.Charge{held, second}}, true)
	if d, owed := a.OpenDuty(); !owed || d.Why != attempt.WhySecondCharge || len(a.Duties) != 2 {
		t.Errorf("%+v", a.Duties)
	}
	// One that fails is nothing.
	second.Status = attempt.ChargeFailed
	s = open(t)
	s.pay(wants{})
	s.end(1, attempt.Send{})
	s.webhook(1, held, attempt.Charge{ID: "ch_2", Status: attempt.ChargePending, Amount: asked})
	s.webhook(1, second)
	if d, owed := s.nth(1).OpenDuty(); owed {
		t.Errorf("still owed: %+v", d)
	}
}

// A duty that was found by whoever has no schedule is paid all the same.
func TestSurplus_FoundWithoutSchedule(t *testing.T) {
	s := open(t)
	situations["abandoned"](s)
	a := s.nth(1)
	a = s.record(a.ID, &attempt.Schedule{WatchFor: -1}, attempt.Evidence{Kind: attempt.EvidenceTime}, true)
	if !a.NextCheckAt.IsZero() {
		t.Fatalf("still watched until %s", a.NextCheckAt)
	}
	a = s.record(a.ID, nil, attempt.Evidence{Kind: attempt.EvidenceSettlement, Charges: []attempt.Charge{held}}, false)
	if !a.NextCheckAt.Equal(s.now) {
		t.Errorf("the duty is due at %s", a.NextCheckAt)
	}
}

// The provider has declined a refund, and a person has decided that it is to be tried once more.
func TestSurplus_RefundedAgainByDecision(t *testing.T) {
	s := open(t)
	situations["late money"](s)
	d := s.payDuty()
	s.record(d.Attempt.ID, nil, attempt.Evidence{Kind: attempt.EvidenceSends, Fence: 1, Sends: []attempt.Send{{
		Kept: true, Answer: attempt.Answer{Verdict: attempt.Refused, Reason: attempt.ReasonDeclined},
	}}}, false)
	s.now = s.now.Add(time.Minute)
	if again := s.payDuty(); again.Kind != attempt.DecidedTell || again.Attempt.ID != d.Attempt.ID {
		t.Fatalf("sent again by itself: %+v", again)
	}
	s.decideAs(attempt.ResolvedReview)
	if again := s.payDuty(); !errors.Is(again.Err, attempt.ErrNotRefundable) {
		t.Fatalf("under review: %+v", again)
	}
	s.decideAs(attempt.ResolvedRefund)
	if again := s.payDuty(); again.Kind != attempt.DecidedSend || again.Attempt.ID == d.Attempt.ID {
		t.Errorf("decided: %+v", again)
	}
}

// Events of one charge delivered in the wrong order look like a reversal. The provider is asked at once, and is right.
func TestSurplus_ReversedByHearsay(t *testing.T) {
	s := open(t)
	s.pay(wants{})
	s.end(1, attempt.Send{})
	schedule := &attempt.Schedule{Rule: *usualRule}
	for _, c := range []attempt.Charge{held, {ID: "ch_1", Status: attempt.ChargeFailed, Amount: asked}} {
		s.now = s.now.Add(time.Second)
		s.record(s.nth(1).ID, schedule, attempt.Evidence{Kind: attempt.EvidenceWebhook, Charges: []attempt.Charge{c}}, false)
	}
	if a := s.nth(1); a.Charges[0].Status != attempt.ChargeReversed || !a.NextCheckAt.Equal(s.now) {
		t.Fatalf("asked at %s: %+v", a.NextCheckAt, a.Charges)
	}
	s.now = s.now.Add(time.Second)
	a := s.record(s.nth(1).ID, schedule, attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: attempt.LookupFound, AskedAt: s.now, Charges: []attempt.Charge{held}}, true)
	if d, owed := a.OpenDuty(); owed || a.Charges[0].Status != attempt.ChargeSucceeded {
		t.Errorf("%+v, %+v", a.Charges, d)
	}
}

// All money of the order's payment went back, and other money is there: nobody is told that none moved.
func TestSurplus_ToldAsLongAsAnythingIsThere(t *testing.T) {
	s := open(t)
	situations["second charge"](s)
	s.cancel()
	s.refunded(s.payDuty(), back("re_1", attempt.ChargeSucceeded, asked.Minor()))
	if told := s.nth(1).Tell(s.now); told.Moved != attempt.MovedYes || told.Reason != attempt.ReasonReviewOwed || !told.Open() {
		t.Errorf("told %+v", told)
	}

	s = open(t)
	situations["abandoned"](s)
	s.pay(wants{source: mastercard, asked: true})
	c := attempt.Charge{ID: "ch_2", Status: attempt.ChargeSucceeded, Amount: asked}
	s.end(2, attempt.Send{Answer: attempt.Answer{Verdict: attempt.Charged}, Charge: &c})
	s.webhook(1, held)
	s.refunded(s.refund(attempt.Refund{AttemptID: s.nth(2).ID, ID: "all"}), back("re_2", attempt.ChargeSucceeded, asked.Minor()))
	c1 := s.cancel()
	if a, _ := c1.View.Standing(); a.ID != s.nth(1).ID {
		t.Errorf("attempt %d speaks for the slot: %+v", a.Ordinal, a)
	}
}

// A person has decided to do nothing about money that is there. It is there.
func TestSurplus_Dismissed(t *testing.T) {
	for _, name := range []string{"late money", "cancelled with money"} {
		s := open(t)
		situations[name](s)
		s.decideAs(attempt.ResolvedDismiss)
		if told := s.nth(1).Tell(s.now); !told.NotPaid || told.Moved != attempt.MovedYes || told.Open() {
			t.Errorf("%s: told %+v", name, told)
		}
	}
}

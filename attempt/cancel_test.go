package attempt_test

import (
	"errors"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

func (s *shop) slot() attempt.Slot {
	return attempt.Slot{Order: "1001", Purpose: attempt.PurposeCharge}
}

func (s *shop) cancel() *attempt.Cancel {
	s.t.Helper()
	c := &attempt.Cancel{Slot: s.slot(), Who: "a host", Why: "out of time", Schedule: &attempt.Schedule{Rule: *usualRule}}
	if err := s.store.Apply(s.t.Context(), c.Step()); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// refusedAsCancelled pays in every way and wants each to be refused, with nothing sent.
func (s *shop) refusedAsCancelled(id string) {
	s.t.Helper()
	calls := []wants{{}, {startOnly: true}, {source: mastercard}, {amount: 1500}}
	if id != "" {
		calls = append(calls, wants{id: id})
	}
	for _, w := range calls {
		d := s.pay(w)
		var cancelled *attempt.CancelledError
		if d.Kind != attempt.DecidedRefuse || !errors.Is(d.Err, attempt.ErrCancelled) || !errors.As(d.Err, &cancelled) {
			s.t.Fatalf("%+v: decided %d, %v", w, d.Kind, d.Err)
		}
		if id != "" && cancelled.Attempt.ID != id {
			s.t.Errorf("%+v: the error carries attempt %q", w, cancelled.Attempt.ID)
		}
	}
}

// S6: the order is cancelled before any attempt exists; a queued payment message arrives afterwards.
func TestCancel_S6_BeforeAnyAttempt(t *testing.T) {
	s := open(t)
	if c := s.cancel(); c.Before || c.View.ClosedAt.IsZero() {
		t.Fatalf("%+v", c)
	}
	s.refusedAsCancelled("")
	s.count(0)
	if c := s.cancel(); !c.Before {
		t.Error("cancelled twice")
	}
	// Another purpose of the same order is another slot.
	v, err := s.store.Slot(t.Context(), attempt.Slot{Order: "1001", Purpose: "deposit"})
	if err != nil || !v.ClosedAt.IsZero() {
		t.Errorf("the deposit is closed too: %s, %v", v.ClosedAt, err)
	}
}

// S6: the order is cancelled while an attempt is prepared.
func TestCancel_S6_Prepared(t *testing.T) {
	s := open(t)
	d := s.pay(wants{startOnly: true})
	s.cancel()
	a := s.nth(1)
	if a.Status != attempt.StatusAbandoned || a.Reason != attempt.ReasonOrderCancelled || !a.NextCheckAt.IsZero() || a.UnwantedAt.IsZero() {
		t.Errorf("%+v", a)
	}
	if told := a.Tell(s.now); !told.NotPaid || told.Moved != attempt.MovedNo {
		t.Errorf("told %+v", told)
	}
	s.refusedAsCancelled(d.Attempt.ID)
}

// S1: the order is cancelled while the payment is unknown; the money turns up later, by whatever way.
func TestCancel_S1_MoneyLater(t *testing.T) {
	s := open(t)
	d := s.pay(wants{})
	s.end(1, attempt.Send{})
	s.cancel()
	s.refusedAsCancelled(d.Attempt.ID)
	if told := s.nth(1).Tell(s.now); told.Outcome != attempt.UnknownOutcome || told.Moved != attempt.MovedMaybe {
		t.Errorf("while nobody knows, told %+v", told)
	}
	s.webhook(1, attempt.Charge{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: asked})
	s.owesRefund(1, attempt.WhyUnwanted)
	s.refusedAsCancelled(d.Attempt.ID)
}

// The mark and the approval see each other, whichever is written second.
func TestCancel_S3_InFlight(t *testing.T) {
	approval := attempt.Send{
		Answer: attempt.Answer{Verdict: attempt.Charged}, Kept: true,
		Charge: &attempt.Charge{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: asked},
	}
	for _, first := range []string{"approval", "mark"} {
		s := open(t)
		s.pay(wants{})
		if first == "approval" {
			s.end(1, approval)
			s.cancel()
		} else {
			s.cancel()
			s.end(1, approval)
		}
		s.owesRefund(1, attempt.WhyUnwanted)
	}
}

// owesRefund wants the n-th attempt to owe exactly one refund, due at once, and to be told so.
func (s *shop) owesRefund(n int, why string) {
	s.t.Helper()
	a := s.nth(n)
	if len(a.Duties) != 1 || a.Duties[0].Kind != attempt.DutyRefund || a.Duties[0].Why != why || !a.Duties[0].MetAt.IsZero() {
		s.t.Fatalf("duties %+v", a.Duties)
	}
	if told := a.Tell(s.now); told.Outcome != attempt.UnknownOutcome || told.Moved != attempt.MovedYes || told.Reason != attempt.ReasonRefundOwed {
		s.t.Errorf("told %+v", told)
	}
}

// A charge of a cancelled order that differs from what was asked is surplus too, and the attempt ends when it has gone back.
func TestCancel_DifferentCharge(t *testing.T) {
	s := open(t)
	s.pay(wants{})
	s.end(1, attempt.Send{
		Answer: attempt.Answer{Verdict: attempt.Violated, Reason: attempt.ReasonMismatch, MoneyMoved: true},
		Charge: &attempt.Charge{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: lessMoney},
	})
	s.cancel()
	a := s.nth(1)
	if d, owed := a.OpenDuty(); !owed || d.Kind != attempt.DutyRefund || a.NextCheckAt.After(s.now) {
		t.Fatalf("%+v", a)
	}
	d := s.refund(attempt.Refund{AttemptID: a.ID, ChargeID: "ch_1", ID: attempt.DutyRefundPrefix + "ch_1"})
	if d.Kind != attempt.DecidedSend || d.Attempt.Amount != lessMoney {
		t.Fatalf("decided %+v", d)
	}
	s.refunded(d, attempt.Charge{ID: "re_1", Status: attempt.ChargeSucceeded, Amount: lessMoney})
	a = s.nth(1)
	if a.Status != attempt.StatusAbandoned || a.Reason != attempt.ReasonRefunded || a.Duties[0].How != attempt.HowRefunded {
		t.Errorf("%s (%s), duties %+v", a.Status, a.Reason, a.Duties)
	}
	if told := a.Tell(s.now); !told.NotPaid || told.Moved != attempt.MovedNo {
		t.Errorf("told %+v", told)
	}
}

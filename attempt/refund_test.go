package attempt_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// refund decides once for a refund, as a client's call does at first.
func (s *shop) refund(r attempt.Refund) attempt.Decision {
	s.t.Helper()
	st := &attempt.Start{
		Refund: r, Provider: s.provider, ProviderAccount: s.account, Environment: s.environment, Digester: s.digester, Resend: s.resend,
		Claim: claimLasts, SendSpan: 3 * time.Second, FirstCheck: firstCheck, Who: "test",
	}
	st.New = func(int) (attempt.Attempt, error) {
		s.started++
		a := newAttempt(50 + s.started)
		a.Version = 0
		a.Refund, _, a.Amount = st.RefundIntent()
		return a, nil
	}
	if err := s.store.Apply(s.t.Context(), st.Step()); err != nil {
		return attempt.Decision{Kind: attempt.DecidedRefuse, Err: err}
	}
	return st.Decision
}

// refunded records that the sending of a refund was answered with what the provider holds of it now.
func (s *shop) refunded(d attempt.Decision, c attempt.Charge) {
	s.t.Helper()
	s.record(d.Attempt.ID, nil, attempt.Evidence{Kind: attempt.EvidenceSends, Fence: d.Attempt.Fence, KeepsAnswers: true, Sends: []attempt.Send{{
		Answer: attempt.Answer{Verdict: attempt.Charged}, Charge: &c,
	}}}, false)
}

func back(id string, status attempt.ChargeStatus, minor int64) attempt.Charge {
	return attempt.Charge{ID: id, Status: status, Amount: amountOf(minor, "EUR")}
}

// paidShop is an order that was paid by charge ch_1.
func paidShop(t *testing.T) (*shop, attempt.Attempt) {
	t.Helper()
	s := open(t)
	s.pay(wants{})
	s.end(1, attempt.Send{Answer: attempt.Answer{Verdict: attempt.Charged}, Kept: true, Charge: &held})
	return s, s.nth(1)
}

// left returns how much of ch_1 is left, as the store says.
func (s *shop) left() int64 {
	s.t.Helper()
	v, err := s.store.Slot(s.t.Context(), s.slot())
	if err != nil {
		s.t.Fatal(err)
	}
	return v.Left(v.Attempts[0], "ch_1").Minor()
}

// Two refunds that are both wanted have keys of their own, and together never take more than came in.
func TestRefund_SumsUnderOneLock(t *testing.T) {
	s, a := paidShop(t)
	first := s.refund(attempt.Refund{AttemptID: a.ID, ID: "r1", Amount: amountOf(500, "EUR")})
	if first.Kind != attempt.DecidedSend || first.Attempt.Refund.ChargeID != "ch_1" || first.Attempt.Slot != a.Slot || s.left() != 1499 {
		t.Fatalf("decided %+v, %d left", first, s.left())
	}
	second := s.refund(attempt.Refund{AttemptID: a.ID, ID: "r2", Amount: amountOf(500, "EUR")})
	if second.Kind != attempt.DecidedSend || second.Attempt.Key == first.Attempt.Key || s.left() != 999 {
		t.Fatalf("decided %+v, %d left", second, s.left())
	}
	var tooMuch *attempt.RefundError
	if d := s.refund(attempt.Refund{AttemptID: a.ID, ID: "r3", Amount: amountOf(1000, "EUR")}); !errors.As(d.Err, &tooMuch) || tooMuch.Left.Minor() != 999 {
		t.Fatalf("above what is left: %+v", d)
	}
	s.refunded(first, back("re_1", attempt.ChargeSucceeded, 500))
	if c := s.nth(1).Charges[0]; c.Refunded != 500 || s.left() != 999 {
		t.Errorf("%d refunded, %d left", c.Refunded, s.left())
	}
	// One that is pending keeps what it takes; one that fails gives it free again.
	s.refunded(second, back("re_2", attempt.ChargePending, 500))
	if s.left() != 999 || s.stored(second.Attempt.ID).Status != attempt.StatusUnknown {
		t.Errorf("%d left while one is pending", s.left())
	}
	s.record(second.Attempt.ID, nil, attempt.Evidence{Kind: attempt.EvidenceWebhook, KeepsAnswers: true, Charges: []attempt.Charge{back("re_2", attempt.ChargeFailed, 500)}}, false)
	if a := s.stored(second.Attempt.ID); s.left() != 1499 || a.Status != attempt.StatusDeclined {
		t.Errorf("%d left after one failed: %s", s.left(), a.Status)
	}
	if told := s.nth(1).Tell(s.now); told.Outcome != attempt.Approved {
		t.Errorf("the charge is told as %+v", told)
	}
	// All that is left, in full.
	rest := s.refund(attempt.Refund{AttemptID: a.ID, ID: "r4"})
	if rest.Attempt.Amount.Minor() != 1499 {
		t.Fatalf("the rest: %+v", rest)
	}
	s.refunded(rest, back("re_4", attempt.ChargeSucceeded, 1499))
	if told := s.nth(1).Tell(s.now); !told.NotPaid || told.Reason != attempt.ReasonRefunded || told.Moved != attempt.MovedNo {
		t.Errorf("given back in full, told %+v", told)
	}
	if d := s.refund(attempt.Refund{AttemptID: a.ID, ID: "r5"}); !errors.Is(d.Err, attempt.ErrRefunded) {
		t.Errorf("nothing is left: %+v", d)
	}
	for _, w := range []wants{{}, {source: mastercard}, {startOnly: true}} {
		if d := s.pay(w); !errors.Is(d.Err, attempt.ErrRefunded) {
			t.Errorf("paying again %+v: %+v", w, d)
		}
	}
}

// The same refund asked for again is the same refund, whatever has become of it.
// A refund that was proven and is told with another amount afterwards, by an answer that was mixed up on its way, frees nothing
// for another one: of the two amounts the larger counts. Found by simulation.
func TestRefund_AnotherAmountToldLaterFreesNothing(t *testing.T) {
	for _, otherCurrency := range []bool{false, true} {
		anotherAmountToldLater(t, otherCurrency)
	}
}

func anotherAmountToldLater(t *testing.T, otherCurrency bool) {
	t.Helper()
	s, a := paidShop(t)
	d := s.refund(attempt.Refund{AttemptID: a.ID, ID: "r1"})
	s.record(d.Attempt.ID, nil, attempt.Evidence{Kind: attempt.EvidenceWebhook, Charges: []attempt.Charge{back("re_1", attempt.ChargeSucceeded, 1999)}}, false)
	wrong := back("re_1", attempt.ChargeSucceeded, 1)
	if otherCurrency {
		wrong.Amount = amountOf(1999, "USD")
	}
	s.record(d.Attempt.ID, nil, attempt.Evidence{Kind: attempt.EvidenceSends, Fence: d.Attempt.Fence, KeepsAnswers: true, Sends: []attempt.Send{{
		Answer: attempt.Answer{Verdict: attempt.Violated, Reason: attempt.ReasonMismatch, MoneyMoved: true}, Charge: &wrong,
	}}}, false)
	if c := s.nth(1).Charges[0]; c.Refunded != 1999 || s.left() != 0 {
		t.Errorf("%d refunded, %d left; want the whole 1999 refunded", c.Refunded, s.left())
	}
	if again := s.refund(attempt.Refund{AttemptID: a.ID, ID: "r2"}); again.Kind != attempt.DecidedRefuse {
		t.Errorf("another refund was decided: %+v", again)
	}
}

func TestRefund_Again(t *testing.T) {
	s, a := paidShop(t)
	r := attempt.Refund{AttemptID: a.ID, ID: "r1", Amount: amountOf(500, "EUR")}
	first := s.refund(r)
	if d := s.refund(r); d.Kind != attempt.DecidedTell || d.Attempt.ID != first.Attempt.ID {
		t.Fatalf("in flight: %+v", d)
	}
	other := r
	other.Amount = amountOf(400, "EUR")
	if d := s.refund(other); !errors.Is(d.Err, attempt.ErrConflict) {
		t.Errorf("another amount: %+v", d)
	}
	s.record(first.Attempt.ID, nil, attempt.Evidence{Kind: attempt.EvidenceSends, Fence: 1, Sends: []attempt.Send{{}}}, false)
	resumed := s.refund(r)
	if resumed.Kind != attempt.DecidedSend || resumed.Attempt.ID != first.Attempt.ID || resumed.Attempt.Key != first.Attempt.Key {
		t.Fatalf("after a lost answer: %+v", resumed)
	}
	s.refunded(resumed, back("re_1", attempt.ChargeSucceeded, 500))
	for _, again := range []attempt.Refund{r, {AttemptID: a.ID, ID: "r1"}} {
		if d := s.refund(again); d.Kind != attempt.DecidedTell || d.Attempt.Status != attempt.StatusApproved {
			t.Errorf("after it was made: %+v", d)
		}
	}
	if d := s.refund(other); !errors.Is(d.Err, attempt.ErrConflict) {
		t.Errorf("another amount after it was made: %+v", d)
	}

	// A refund that was declined is told as declined again, unless asked for in so many words.
	declined := s.refund(attempt.Refund{AttemptID: a.ID, ID: "r2"})
	s.record(declined.Attempt.ID, nil, attempt.Evidence{Kind: attempt.EvidenceSends, Fence: 1, Sends: []attempt.Send{{
		Kept: true, Answer: attempt.Answer{Verdict: attempt.Refused, Reason: attempt.ReasonDeclined},
	}}}, false)
	if d := s.refund(attempt.Refund{AttemptID: a.ID, ID: "r2"}); d.Kind != attempt.DecidedTell || d.Attempt.ID != declined.Attempt.ID {
		t.Errorf("declined: %+v", d)
	}
	if d := s.refund(attempt.Refund{AttemptID: a.ID, ID: "r2", Again: declined.Attempt.ID}); d.Kind != attempt.DecidedSend || d.Attempt.ID == declined.Attempt.ID {
		t.Errorf("declined and asked for again: %+v", d)
	}
}

// What cannot be given back.
func TestRefund_NotRefundable(t *testing.T) {
	s, a := paidShop(t)
	for name, r := range map[string]attempt.Refund{
		"no such charge":   {AttemptID: a.ID, ChargeID: "ch_9", ID: "r1"},
		"another currency": {AttemptID: a.ID, ID: "r1", Amount: foreign},
		"more than it is":  {AttemptID: a.ID, ID: "r1", Amount: amountOf(2000, "EUR")},
	} {
		if d := s.refund(r); !errors.Is(d.Err, attempt.ErrNotRefundable) || !strings.Contains(d.Err.Error(), "nothing was sent") {
			t.Errorf("%s: %v", name, d.Err)
		}
	}
	if d := s.refund(attempt.Refund{AttemptID: "unknown", ID: "r1"}); !errors.Is(d.Err, attempt.ErrNotFound) {
		t.Errorf("no such attempt: %v", d.Err)
	}
	made := s.refund(attempt.Refund{AttemptID: a.ID, ID: "r1", Amount: amountOf(5, "EUR")})
	if d := s.refund(attempt.Refund{AttemptID: made.Attempt.ID, ID: "r1"}); !errors.Is(d.Err, attempt.ErrNotFound) {
		t.Errorf("a refund of a refund: %v", d.Err)
	}
	if err := s.store.Apply(t.Context(), s.call(wants{id: made.Attempt.ID}).Step()); !errors.Is(err, attempt.ErrInvalidIntent) {
		t.Errorf("sent like a payment: %v", err)
	}

	pending := open(t)
	situations["pending"](pending)
	if d := pending.refund(attempt.Refund{AttemptID: pending.nth(1).ID, ChargeID: "ch_1", ID: "r1"}); !errors.Is(d.Err, attempt.ErrNotRefundable) {
		t.Errorf("not final: %v", d.Err)
	}
	var two *attempt.RefundError
	late := open(t)
	situations["late money"](late)
	late.webhook(1, attempt.Charge{ID: "ch_2", Status: attempt.ChargeSucceeded, Amount: asked})
	if d := late.refund(attempt.Refund{AttemptID: late.nth(1).ID, ID: "r1"}); !errors.As(d.Err, &two) || two.ChargeID != "" {
		t.Errorf("one of two charges: %v", d.Err)
	}
}

// R9, S1: a duty is paid once, under an id that follows from the charge, and met by whichever refund takes the last of it.
func TestRefund_Duty(t *testing.T) {
	duty := func(s *shop) attempt.Decision {
		return s.refund(attempt.Refund{AttemptID: s.nth(1).ID, ChargeID: "ch_1", ID: attempt.DutyRefundPrefix + "ch_1"})
	}
	s := open(t)
	situations["late money"](s)
	partly := s.refund(attempt.Refund{AttemptID: s.nth(1).ID, ID: "by hand", Amount: amountOf(999, "EUR")})
	first := duty(s)
	if first.Kind != attempt.DecidedSend || first.Attempt.Amount.Minor() != 1000 {
		t.Fatalf("what is left: %+v", first)
	}
	if d := duty(s); d.Kind != attempt.DecidedTell || d.Attempt.ID != first.Attempt.ID {
		t.Fatalf("twice: %+v", d)
	}
	s.refunded(first, back("re_1", attempt.ChargeSucceeded, 1000))
	s.owesRefund(1, attempt.WhyLateMoney)
	// The one by hand fails: the duty is not met, and its rest goes back under a further number.
	s.refunded(partly, back("re_2", attempt.ChargeFailed, 999))
	s.owesRefund(1, attempt.WhyLateMoney)
	rest := duty(s)
	if rest.Kind != attempt.DecidedSend || rest.Attempt.Amount.Minor() != 999 || rest.Attempt.Refund.ID == first.Attempt.Refund.ID {
		t.Fatalf("the rest: %+v", rest)
	}
	s.refunded(rest, back("re_3", attempt.ChargeSucceeded, 999))
	a := s.nth(1)
	if d, owed := a.OpenDuty(); owed || a.Duties[0].How != attempt.HowRefunded {
		t.Fatalf("still owed: %+v", d)
	}
	if d := duty(s); d.Kind != attempt.DecidedTell {
		t.Errorf("after it was met: %+v", d)
	}
	// A refund that comes back days later opens the duty again (C47).
	s.now = s.now.Add(24 * time.Hour)
	s.record(rest.Attempt.ID, nil, attempt.Evidence{Kind: attempt.EvidenceLookup, AskedAt: s.now, Lookup: attempt.LookupFound, Charges: []attempt.Charge{back("re_3", attempt.ChargeFailed, 999)}}, false)
	s.owesRefund(1, attempt.WhyLateMoney)
	if d, owed := s.stored(rest.Attempt.ID).OpenDuty(); !owed || d.Kind != attempt.DutyReview {
		t.Errorf("the refund that came back: %+v", d)
	}
}

// Money that leaves by a refund that had ended without any is for a person to see.
func TestRefund_LateMoney(t *testing.T) {
	s, a := paidShop(t)
	d := s.refund(attempt.Refund{AttemptID: a.ID, ID: "r1"})
	s.record(d.Attempt.ID, nil, attempt.Evidence{Kind: attempt.EvidenceSends, Fence: 1, Sends: []attempt.Send{{
		Kept: true, Answer: attempt.Answer{Verdict: attempt.Refused, Reason: attempt.ReasonDeclined},
	}}}, false)
	s.record(d.Attempt.ID, nil, attempt.Evidence{Kind: attempt.EvidenceWebhook, Charges: []attempt.Charge{back("re_1", attempt.ChargeSucceeded, 1999)}}, false)
	r := s.stored(d.Attempt.ID)
	if duty, owed := r.OpenDuty(); !owed || duty.Kind != attempt.DutyReview || r.Status != attempt.StatusDeclined {
		t.Errorf("%+v", r)
	}
	if s.left() != 0 || s.nth(1).Charges[0].Refunded != 1999 {
		t.Errorf("%d left", s.left())
	}
}

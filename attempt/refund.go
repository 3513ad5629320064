package attempt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/money"
)

// MaxRefundIDLength bounds a refund's id, in bytes.
const MaxRefundIDLength = 300

// DutyRefundPrefix begins the ids of the refunds that pay a duty: what follows is the provider's id of the charge, so that
// whoever finds the surplus money, and however often, it goes back once.
const DutyRefundPrefix = "duty:"

// dutyRefundID returns the n-th id of the refunds that pay a duty about a charge, from 1: "duty:ch_1", "duty2:ch_1".
func dutyRefundID(chargeID string, n int) string {
	if n <= 1 {
		return DutyRefundPrefix + chargeID
	}
	return fmt.Sprintf("duty%d:%s", n, chargeID)
}

// PaysDuty tells whether the attempt is one that pays a duty about the charge that it gives back.
func (a Attempt) PaysDuty() bool {
	number, chargeID, ok := strings.Cut(a.Refund.ID, ":")
	return ok && chargeID == a.Refund.ChargeID && strings.Trim(strings.TrimPrefix(number, "duty"), "0123456789") == "" && strings.HasPrefix(number, "duty")
}

// RefundOf says what an attempt gives back; the zero RefundOf is that of a charge. A refund is an attempt of its own, with
// a key, a reference and a history, in the slot of the charge attempt that it belongs to: one lock covers all money of an
// order. Of one AttemptID and ID at most one refund attempt is live.
type RefundOf struct {
	AttemptID string `json:"attempt_id"` // the charge attempt
	ChargeID  string `json:"charge_id"`  // the provider's charge whose money goes back
	ID        string `json:"id"`         // the caller's, or DutyRefundPrefix and the charge's id
}

// IsRefund tells whether the attempt gives money back.
func (a Attempt) IsRefund() bool { return a.Refund.AttemptID != "" }

// Refund is what is to be given back.
type Refund struct {
	// AttemptID is the attempt that the money came in by.
	AttemptID string
	// ChargeID is the provider's id of the charge. Empty: the one that the attempt holds; an attempt that holds several
	// needs it.
	ChargeID string
	// ID tells one refund of an attempt from another, so that the same refund, asked for twice, is made once: a return's
	// number, for instance. 1 to 300 bytes.
	//
	// DutyRefundPrefix and the ChargeID make the refund that pays a duty: of all that is left, once.
	ID string
	// Amount is how much. Zero: all that is left of the charge.
	Amount money.Amount
	// Again asks for a new attempt although an equal one was declined: the id of the refund's newest attempt.
	Again string
}

// Validate reports every part that cannot name a refund.
func (r Refund) Validate() error {
	errs := []error{
		validText("attempt", r.AttemptID, 1, MaxOrderLength),
		validText("refund id", r.ID, 1, MaxRefundIDLength),
		validText("charge id", r.ChargeID, 0, MaxRefundIDLength),
	}
	if r.Amount.Valid() && r.Amount.Minor() <= 0 {
		errs = append(errs, fmt.Errorf("amount: %s is not positive", r.Amount))
	}
	return errors.Join(errs...)
}

// Left returns how much of a provider's charge can still be given back: its amount less the refunds that were made and
// those that are not final, those whose money may be on its way after their end among them. The Amount is not valid where
// the attempt holds no such charge, or one that has not succeeded or of which no amount is known.
func (v View) Left(charge Attempt, chargeID string) money.Amount {
	c, ok := charge.Charge(chargeID)
	if !ok || c.Status != ChargeSucceeded || !c.Amount.Valid() {
		return money.Amount{}
	}
	left := c.Amount.Minor() - c.Refunded
	for _, r := range v.Refunds {
		if r.Refund.ChargeID == chargeID {
			left -= r.mayStillLeave()
		}
	}
	amount, err := money.New(max(left, 0), c.Amount.Currency())
	if err != nil { // a currency that was withdrawn since: what came in may go back
		amount, _ = money.Restore(max(left, 0), c.Amount.Currency())
	}
	return amount
}

// mayStillLeave returns how much of a refund's money may leave and is not counted as refunded.
func (a *Attempt) mayStillLeave() int64 {
	if a.Status.Live() && a.Status != StatusApproved {
		return a.Amount.Minor() - min(a.paidOut(a.Refund.ChargeID, a.Amount.Currency()), a.Amount.Minor())
	}
	var pending int64
	for _, c := range a.Charges {
		if c.Status == ChargePending && c.Amount.Valid() {
			pending += c.Amount.Minor()
		}
	}
	return pending
}

// paidOut returns how much the refund has given back of a charge, in minor units: what the provider says, whatever the
// status of the attempt.
func (a *Attempt) paidOut(chargeID, currency string) (minor int64) {
	if a.Refund.ChargeID != chargeID {
		return 0
	}
	for _, c := range a.Charges {
		if c.Status != ChargeSucceeded {
			continue
		}
		var made int64
		if c.Amount.Valid() && c.Amount.Currency() == currency {
			made = c.Amount.Minor()
		}
		if c.ID == a.ChargeID {
			made = max(made, a.Amount.Minor()) // it was proven to be that much: another amount told later frees nothing
		}
		minor += made
	}
	return minor
}

// refundsOf returns the attempts of one refund, oldest first.
func (v View) refundsOf(attemptID, id string) []Attempt {
	var of []Attempt
	for _, r := range v.Refunds {
		if r.Refund.AttemptID == attemptID && r.Refund.ID == id {
			of = append(of, r)
		}
	}
	return of
}

// withRefund returns the charge attempt of a refund after that has changed, and whether the change concerns it: how much of
// its money went back, and the duties that come with it.
func (v View) withRefund(refund *Attempt, now time.Time) (charge Attempt, duties []Duty, changed bool) {
	charge, ok := v.Find(refund.Refund.AttemptID)
	if !ok {
		return charge, nil, false
	}
	i := slices.IndexFunc(charge.Charges, func(c Charge) bool { return c.ID == refund.Refund.ChargeID })
	if i < 0 {
		return charge, nil, false
	}
	var total int64
	for n := range v.Refunds {
		r := &v.Refunds[n]
		if r.ID == refund.ID {
			continue
		}
		total += r.paidOut(refund.Refund.ChargeID, charge.Charges[i].Amount.Currency())
	}
	total += refund.paidOut(refund.Refund.ChargeID, charge.Charges[i].Amount.Currency())
	if total == charge.Charges[i].Refunded {
		return charge, nil, false
	}
	charge.Charges = slices.Clone(charge.Charges)
	charge.Charges[i].Refunded = total
	charge, duties = Next(charge, Evidence{Kind: EvidenceTime, At: now})
	return charge, duties, true
}

// withCharge adds the write of the charge attempt to that of its refund, if the refund's change concerns it.
func (v View) withCharge(writes []Write, refund *Attempt, schedule *Schedule, who string) []Write {
	charge, duties, changed := v.withRefund(refund, v.Now)
	if !changed {
		return writes
	}
	old, _ := v.Find(charge.ID)
	if schedule != nil {
		schedule.plan(&charge, v.Now, false)
	}
	return append(writes, change(old.Version, old.Status, &charge, WhatRefunded, who, v.Now, nil, duties))
}

// refundedInFull tells whether nothing of the charge is left.
func (c Charge) refundedInFull() bool {
	return c.Status == ChargeSucceeded && c.Amount.Valid() && c.Amount.Minor() > 0 && c.Refunded >= c.Amount.Minor()
}

// refund decides for a refund: like a payment of its own among the attempts of that refund, and never of more than is left.
func (s *Start) refund(v View) ([]Write, error) {
	charge, ok := v.Find(s.Refund.AttemptID)
	if !ok || charge.IsRefund() {
		return nil, fmt.Errorf("attempt %s: %w", s.Refund.AttemptID, ErrNotFound)
	}
	if !s.ours(charge) {
		return s.refuse(charge, &ConflictError{Attempt: charge, Differs: "provider"})
	}
	own := v
	s.refundID = s.Refund.ID
	own.Attempts, own.Refunds = v.refundsOf(charge.ID, s.refundID), nil
	if err := s.completeRefund(charge, own.Attempts); err != nil {
		return s.refuse(charge, err)
	}
	paysDuty := s.Refund.ID == dutyRefundID(s.refundCharge, 1)
	if paysDuty {
		// A duty is paid once; what another refund has left open by failing later is paid under a further number.
		for n := 2; own.paid() && v.Left(charge, s.refundCharge).Minor() > 0; n++ {
			s.refundID = dutyRefundID(s.refundCharge, n)
			own.Attempts = v.refundsOf(charge.ID, s.refundID)
			if err := s.completeRefund(charge, own.Attempts); err != nil {
				return s.refuse(charge, err)
			}
		}
	}
	s.Intent.Again = s.Refund.Again
	if paysDuty {
		if err := s.dutyIsOpen(charge, own); err != nil {
			return s.refuse(charge, err)
		}
	}
	if live, ok := own.Live(); ok {
		if live.Status == StatusApproved {
			if differs := s.differs(live); differs != "" {
				return s.refuse(live, &ConflictError{Attempt: live, Differs: differs})
			}
			return s.tell(live)
		}
		return s.withLive(own, live)
	}
	if owing, owed := owing(own); owed { // the money of an ended refund may have left: nothing more does
		return s.tell(owing)
	}
	if stood, ok := s.answeredBefore(own.Attempts); ok {
		return s.tell(stood)
	}
	return s.begin(own, nil)
}

// dutyIsOpen says why a refund that pays a duty is not made: there is no such duty any more, because a person has decided
// otherwise, say. One that may have been sent goes on all the same. A decline stands until somebody has decided anew.
func (s *Start) dutyIsOpen(charge Attempt, own View) error {
	if live, ok := own.Live(); ok && live.Status != StatusPrepared {
		return nil
	}
	i := slices.IndexFunc(charge.Duties, func(d Duty) bool {
		return d.Kind == DutyRefund && d.ChargeID == s.refundCharge && d.MetAt.IsZero()
	})
	if i < 0 {
		if c, _ := charge.Charge(s.refundCharge); c.refundedInFull() {
			return &RefundError{Attempt: charge, ChargeID: s.refundCharge, Left: s.whole.Left(charge, s.refundCharge), Err: ErrRefunded}
		}
		return &RefundError{Attempt: charge, ChargeID: s.refundCharge, Left: s.whole.Left(charge, s.refundCharge),
			Err: fmt.Errorf("%w: no refund duty about it is open", ErrNotRefundable)}
	}
	if n := len(own.Attempts); n > 0 && charge.Duties[i].DecidedAt.After(own.Attempts[n-1].UpdatedAt) {
		s.Intent.Again = own.Attempts[n-1].ID
	}
	return nil
}

// paid tells whether the live attempt of a refund is approved.
func (v View) paid() bool {
	live, ok := v.Live()
	return ok && live.Status == StatusApproved
}

// completeRefund fills in what the caller has left open: the charge, and the amount.
func (s *Start) completeRefund(charge Attempt, before []Attempt) error {
	s.refundCharge, s.Intent.Amount = s.Refund.ChargeID, s.Refund.Amount
	if len(before) > 0 {
		newest := before[len(before)-1]
		if s.refundCharge == "" {
			s.refundCharge = newest.Refund.ChargeID
		}
		if !s.Intent.Amount.Valid() && (newest.Status.Live() || newest.Status == StatusDeclined) {
			s.Intent.Amount = newest.Amount
		}
	}
	if s.refundCharge == "" {
		held := 0
		for _, c := range charge.Charges {
			if c.Status == ChargeSucceeded {
				s.refundCharge = c.ID
				held++
			}
		}
		if charge.ChargeID != "" {
			s.refundCharge = charge.ChargeID
		} else if held != 1 {
			return &RefundError{Attempt: charge, Err: fmt.Errorf("%w: the attempt holds %d charges, name one", ErrNotRefundable, held)}
		}
	}
	if !s.Intent.Amount.Valid() {
		s.Intent.Amount = s.whole.Left(charge, s.refundCharge)
	}
	return nil
}

// RefundIntent returns what a refund gives back, completed by what the slot holds: to be called by New.
func (s *Start) RefundIntent() (of RefundOf, charge Attempt, amount money.Amount) {
	charge, _ = s.whole.Find(s.Refund.AttemptID)
	return RefundOf{AttemptID: s.Refund.AttemptID, ChargeID: s.refundCharge, ID: s.refundID}, charge, s.Intent.Amount
}

// refundable says why a new refund cannot be made after these writes, which end others; nil: it can.
func (s *Start) refundable(before []Write) *RefundError {
	v := s.whole
	charge, _ := v.Find(s.Refund.AttemptID)
	v.Refunds = slices.DeleteFunc(slices.Clone(v.Refunds), func(r Attempt) bool {
		return slices.ContainsFunc(before, func(w Write) bool { return w.Attempt.ID == r.ID })
	})
	left := v.Left(charge, s.refundCharge)
	e := &RefundError{Attempt: charge, ChargeID: s.refundCharge, Left: left}
	c, known := charge.Charge(s.refundCharge)
	switch {
	case !known:
		e.Err = fmt.Errorf("%w: the attempt holds no such charge", ErrNotRefundable)
	case c.refundedInFull():
		e.Err = ErrRefunded
	case !left.Valid():
		e.Err = fmt.Errorf("%w: the charge is %s", ErrNotRefundable, c.Status)
	case left.Minor() == 0:
		e.Err = fmt.Errorf("%w: refunds that are not final take all that is left", ErrNotRefundable)
	case s.Intent.Amount.Currency() != left.Currency():
		e.Err = fmt.Errorf("%w: %s asked for, the charge is in %s", ErrNotRefundable, s.Intent.Amount, left.Currency())
	case s.Intent.Amount.Minor() > left.Minor():
		e.Err = fmt.Errorf("%w: %s asked for", ErrNotRefundable, s.Intent.Amount)
	default:
		return nil
	}
	return e
}

// RefundError says that a refund cannot be made. Nothing was stored or sent.
type RefundError struct {
	Attempt  Attempt      // the charge attempt
	ChargeID string       // empty: none was named, and there is not exactly one
	Left     money.Amount // what can still be given back of the charge; not valid where there is no such charge
	Err      error        // ErrRefunded or ErrNotRefundable, with its reason
}

func (e *RefundError) Error() string {
	text := fmt.Sprintf("refund of attempt %s", e.Attempt.ID)
	if e.ChargeID != "" {
		text += ", charge " + e.ChargeID
	}
	text += ": " + e.Err.Error()
	if e.Left.Valid() {
		text += fmt.Sprintf(" (%s is left)", e.Left)
	}
	return text + "; nothing was sent"
}

// Unwrap returns the reason.
func (e *RefundError) Unwrap() error { return e.Err }

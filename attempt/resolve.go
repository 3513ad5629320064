package attempt

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ResolutionKind says what was decided about an attempt where evidence alone decides nothing.
type ResolutionKind string

// What a person, or a policy that the host has set, may decide.
const (
	// ResolvedCharged: the provider holds the charge ChargeID for the attempt's amount. Only for an attempt that is open and
	// holds no charge, or for one that has ended without money, which then owes a refund.
	ResolvedCharged ResolutionKind = "charged"
	// ResolvedNotCharged: the provider holds nothing and will not. Only for an open attempt without a charge.
	ResolvedNotCharged ResolutionKind = "not_charged"
	// ResolvedAskAgain: the provider is asked on, although asking had ended.
	ResolvedAskAgain ResolutionKind = "ask_again"
	// ResolvedRefund: the money of ChargeID goes back.
	ResolvedRefund ResolutionKind = "refund"
	// ResolvedReview: a person looks at ChargeID before its money goes back.
	ResolvedReview ResolutionKind = "review"
	// ResolvedKeep: the money of ChargeID stays, as the order's payment.
	ResolvedKeep ResolutionKind = "keep"
	// ResolvedDismiss: there is nothing to do about ChargeID.
	ResolvedDismiss ResolutionKind = "dismiss"
	// ResolvedCancelled stands in the history of a cancelled order's attempts, with the reason. It is decided by Cancel alone.
	ResolvedCancelled ResolutionKind = "cancelled"
)

// Resolution is a decision about an attempt: evidence like any other, an event in its history and never an edit.
type Resolution struct {
	Kind     ResolutionKind `json:"kind"`
	ChargeID string         `json:"charge_id,omitempty"`
	Why      string         `json:"why"`             // required
	Proof    string         `json:"proof,omitempty"` // where the evidence is kept: a ticket, a letter
}

// Resolve is the step that adds a person's or a policy's decision to an attempt.
type Resolve struct {
	ID         string
	Version    int // the version that the decision was taken on; zero: whatever is there
	Who        string
	Resolution Resolution
	Schedule   *Schedule

	Attempt Attempt // after it, or as it stands where the decision was refused
	Duties  []Duty
}

// ErrNewerEvidence: the attempt has changed since the decision was taken. Nothing was changed.
var ErrNewerEvidence = errors.New("the attempt has changed since")

// ErrNotResolvable: the decision is not open in the attempt's state. Nothing was changed.
var ErrNotResolvable = errors.New("cannot be decided")

// Step returns the step to apply.
func (r *Resolve) Step() *Step { return &Step{ID: r.ID, Do: r.Do} }

// Do is the Do of the step. It fails with [ErrNewerEvidence] or [ErrNotResolvable].
func (r *Resolve) Do(v View) ([]Write, error) {
	before, ok := v.Find(r.ID)
	if !ok {
		return nil, fmt.Errorf("attempt %s: %w", r.ID, ErrNotFound)
	}
	r.Attempt = before
	if r.Version != 0 && r.Version != before.Version {
		return nil, fmt.Errorf("attempt %s: %w: it is at version %d, the decision was taken on %d", r.ID, ErrNewerEvidence, before.Version, r.Version)
	}
	if err := r.Resolution.allowed(before, v); err != nil {
		return nil, fmt.Errorf("attempt %s: %w", r.ID, err)
	}
	e := Evidence{Kind: EvidenceDecision, At: v.Now, Resolution: &r.Resolution}
	if r.Resolution.Kind == ResolvedCharged {
		e.Charges = []Charge{{ID: r.Resolution.ChargeID, Status: ChargeSucceeded, Amount: before.Amount}}
	}
	r.Attempt, r.Duties = Next(before, e)
	if r.Schedule != nil {
		r.Schedule.plan(&r.Attempt, v.Now, false)
	}
	if r.Resolution.Kind == ResolvedAskAgain {
		r.Attempt.NextCheckAt = v.Now
	}
	writes := []Write{change(before.Version, before.Status, &r.Attempt, WhatResolved, r.Who, v.Now, &e, r.Duties)}
	if before.IsRefund() {
		writes = v.withCharge(writes, &r.Attempt, nil, r.Who)
	}
	return writes, nil
}

// allowed says why the decision is not open; nil: it is.
func (r Resolution) allowed(a Attempt, v View) error {
	no := func(format string, args ...any) error {
		return fmt.Errorf("%w as %s: %s; nothing was changed", ErrNotResolvable, r.Kind, fmt.Sprintf(format, args...))
	}
	if r.Why == "" {
		return no("a reason is required")
	}
	if err := errors.Join(validWhy("reason", r.Why, 1), validWhy("proof", r.Proof, 0), validText("charge id", r.ChargeID, 0, MaxRefundIDLength)); err != nil {
		return no("%v", err)
	}
	if until := a.ClaimedUntil(v.Now); !until.IsZero() {
		return no("somebody may be sending it until %s", until.Format("15:04:05Z"))
	}
	duty := slices.ContainsFunc(a.Duties, func(d Duty) bool { return d.ChargeID == r.ChargeID && d.MetAt.IsZero() })
	switch r.Kind {
	case ResolvedCharged:
		switch {
		case r.ChargeID == "":
			return no("the provider's charge id is required")
		case a.Status == StatusPrepared || a.Status == StatusApproved:
			return no("it is %s", a.Status)
		case !a.holdsNothing():
			return no("it holds charge %s, which the provider tells about", a.Charges[0].ID)
		}
	case ResolvedNotCharged, ResolvedAskAgain:
		switch {
		case a.Status == StatusPrepared:
			return no("nothing of it can have left: send it, or cancel the order")
		case a.Status.Final():
			return no("it is %s", a.Status)
		case r.Kind == ResolvedNotCharged && !a.holdsNothing():
			return no("it holds charge %s, which the provider tells about", a.Charges[0].ID)
		}
	case ResolvedRefund, ResolvedReview, ResolvedKeep, ResolvedDismiss:
		if !duty {
			return no("it has no open duty about charge %q", r.ChargeID)
		}
		c, _ := a.Charge(r.ChargeID)
		if (r.Kind == ResolvedRefund || r.Kind == ResolvedKeep) && c.Status != ChargeSucceeded {
			return no("charge %s is %s", c.ID, c.Status)
		}
		if r.Kind == ResolvedKeep {
			if why := a.notKeepable(r.ChargeID, v); why != "" {
				return no("%s", why)
			}
		}
		if r.Kind == ResolvedDismiss && !a.Status.Final() && c.Status != ChargeReversed {
			return no("its money is there: refund it or keep it")
		}
		if r.Kind == ResolvedRefund && a.IsRefund() {
			return no("it is a refund itself")
		}
	default:
		return no("not known")
	}
	return nil
}

// notKeepable says why the money of a charge cannot stay as the order's payment; empty: it can.
func (a *Attempt) notKeepable(chargeID string, v View) string {
	if a.IsRefund() || !a.UnwantedAt.IsZero() || !v.ClosedAt.IsZero() {
		return "a refund's money, and that of a cancelled order, is not a payment"
	}
	if a.Status == StatusApproved {
		return "the order is paid by charge " + a.ChargeID
	}
	if slices.ContainsFunc(a.Duties, func(d Duty) bool { return d.How == HowKept && d.ChargeID != chargeID }) {
		return "another charge of it is the order's payment"
	}
	for i := range v.Attempts {
		other := &v.Attempts[i]
		if other.ID != a.ID && (other.Status.Live() && other.Status != StatusPrepared || other.keeps()) {
			return "attempt " + other.ID + " has paid the order, or may have"
		}
	}
	for i := range v.Refunds {
		if r := &v.Refunds[i]; r.Refund.ChargeID == chargeID && r.mayStillLeave() > 0 {
			return "refund " + r.ID + " may be giving it back"
		}
	}
	return ""
}

// resolve applies a decision to what is known, before it is folded.
func (a *Attempt) resolve(r *Resolution, e Evidence) {
	switch r.Kind {
	case ResolvedAskAgain:
		a.AskingEndedAt = time.Time{}
	case ResolvedRefund, ResolvedReview, ResolvedKeep, ResolvedDismiss:
		a.Duties = slices.Clone(a.Duties)
		for i := range a.Duties {
			d := &a.Duties[i]
			if d.ChargeID != r.ChargeID || !d.MetAt.IsZero() {
				continue
			}
			switch r.Kind {
			case ResolvedRefund:
				d.Kind, d.DecidedAt = DutyRefund, e.At
			case ResolvedReview:
				d.Kind, d.DecidedAt = DutyReview, e.At
			case ResolvedKeep:
				d.MetAt, d.How = e.At, HowKept
			default:
				d.MetAt, d.How = e.At, HowDismissed
			}
		}
	}
}

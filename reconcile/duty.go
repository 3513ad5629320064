package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/chargeonce/chargeonce/attempt"
)

// PolicyName is who decides, in an attempt's history, where a policy does and no person.
const PolicyName = "policy"

// owing is a refund duty to be met, or, without one, a charge of a cancelled order that is not final and to be cancelled.
type owing struct {
	attempt attempt.Attempt
	duty    attempt.Duty
	site    *siteInPass
}

// owedBy returns the refund duties of an attempt whose grace is over, and what is to be cancelled at the provider.
func owedBy(rec *attempt.Record, s *siteInPass) (owed []owing) {
	if rec.Attempt.IsRefund() {
		return nil // nothing gives back what a refund has given
	}
	pending := slices.ContainsFunc(rec.Attempt.Charges, func(c attempt.Charge) bool { return c.Status == attempt.ChargePending })
	if !rec.Attempt.UnwantedAt.IsZero() && rec.Attempt.Status == attempt.StatusUnknown && pending && s.voider != nil {
		owed = append(owed, owing{attempt: rec.Attempt, site: s})
	}
	for _, d := range rec.Attempt.Duties {
		if d.Kind == attempt.DutyRefund && d.MetAt.IsZero() && !rec.Now.Before(d.OpenedAt.Add(s.schedule.Grace)) {
			owed = append(owed, owing{attempt: rec.Attempt, duty: d, site: s})
		}
	}
	return owed
}

// pay meets duties.
func (p *pass) pay(ctx context.Context, owed []owing) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(p.r.cfg.Concurrency, len(owed)) {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(owed) {
					return
				}
				p.meet(ctx, &owed[i])
			}
		})
	}
	workers.Wait()
}

// meet does with a duty what the policy says, or a person has decided.
func (p *pass) meet(ctx context.Context, o *owing) {
	if o.duty.ChargeID == "" {
		p.void(ctx, o)
		return
	}
	what, err := p.policyFor(ctx, o)
	if err != nil {
		p.failed(ctx, &o.attempt, fmt.Errorf("read what was decided about charge %s: %w", o.duty.ChargeID, err))
		return
	}
	switch what {
	case LateKeep:
		if open := p.decide(ctx, o, attempt.ResolvedKeep, "late money is kept"); !open {
			p.refund(ctx, o) // it cannot be the order's payment: another attempt is, or may be
		}
	case LateReview:
		p.decide(ctx, o, attempt.ResolvedReview, "surplus money is looked at by a person")
	default:
		p.refund(ctx, o)
	}
}

// void cancels what is not final of a cancelled order. Where that is not possible, the attempt is asked about as any other.
func (p *pass) void(ctx context.Context, o *owing) {
	if p.turnedAway(o.site) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.r.cfg.AskTimeout)
	defer cancel()
	if err := contained(func() error { return o.site.voider.VoidUnwanted(ctx, o.attempt) }); err != nil && ctx.Err() == nil {
		p.r.sawNotAsked(ctx, &o.attempt, err)
	}
}

// policyFor returns what is to become of the money of a duty. A person's decision to give it back goes before the policy.
func (p *pass) policyFor(ctx context.Context, o *owing) (LateMoney, error) {
	policy := p.r.cfg.Policy.LateMoney
	late := o.duty.Why == attempt.WhyLateMoney || o.duty.Why == attempt.WhyUnwanted
	switch {
	case policy == LateRefund || !late: // only a decision makes a refund duty of any other
		return LateRefund, nil
	case policy == LateKeep && (o.duty.Why != attempt.WhyLateMoney || !o.attempt.UnwantedAt.IsZero() || o.duty.Amount != o.attempt.Amount):
		return LateRefund, nil // no payment of this order; another amount is for a person to keep
	}
	events, err := p.r.cfg.Store.Events(ctx, o.attempt.ID)
	if err != nil {
		return "", err
	}
	for i := len(events) - 1; i >= 0; i-- {
		e := events[i].Evidence
		if e != nil && e.Resolution != nil && e.Resolution.ChargeID == o.duty.ChargeID {
			if e.Resolution.Kind == attempt.ResolvedRefund {
				return LateRefund, nil
			}
			break
		}
	}
	return policy, nil
}

// refund gives the money back, or goes on doing so.
func (p *pass) refund(ctx context.Context, o *owing) {
	c, _ := o.attempt.Charge(o.duty.ChargeID)
	if c.Status != attempt.ChargeSucceeded || p.turnedAway(o.site) {
		p.count(func(r *Report) { r.Refunds.Waiting++ })
		return
	}
	if o.site.refunder == nil {
		p.decide(ctx, o, attempt.ResolvedReview, "refunds cannot be made here")
		return
	}
	refund, err := p.refundDuty(ctx, o)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		p.decide(ctx, o, attempt.ResolvedReview, "refunds cannot be made here")
		return
	case errors.Is(err, attempt.ErrRefunded), errors.Is(err, attempt.ErrNotRefundable):
		// Nothing is left, or not yet: the attempt knows why, or the next look will tell it.
		p.count(func(r *Report) { r.Refunds.Waiting++ })
		return
	case err != nil && ctx.Err() != nil:
		p.count(func(r *Report) { r.Refunds.Waiting++ })
		return
	case err != nil:
		p.failed(ctx, &o.attempt, fmt.Errorf("refund charge %s: %w", o.duty.ChargeID, err))
		return
	}
	if p.r.cfg.Observer.Refunded != nil {
		p.r.tell(ctx, func() { p.r.cfg.Observer.Refunded(ctx, o.attempt, refund, o.duty) })
	}
	switch refund.Status {
	case attempt.StatusApproved:
		p.count(func(r *Report) { r.Refunds.Made++ })
	case attempt.StatusDeclined, attempt.StatusRejected:
		p.count(func(r *Report) { r.Refunds.Refused++ })
		p.decide(ctx, o, attempt.ResolvedReview, fmt.Sprintf("refund %s was refused: %s", refund.ID, refund.Reason))
	default:
		p.count(func(r *Report) { r.Refunds.Waiting++ })
		if at := refund.NextCheckAt; !at.IsZero() && at.After(refund.UpdatedAt) {
			p.dueIn(at.Sub(refund.UpdatedAt))
		}
	}
}

func (p *pass) refundDuty(ctx context.Context, o *owing) (refund attempt.Attempt, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.r.cfg.AskTimeout)
	defer cancel()
	err = contained(func() (err error) {
		refund, err = o.site.refunder.RefundDuty(ctx, o.attempt, o.duty)
		return err
	})
	return refund, err
}

// decide adds a policy's decision to the history of an attempt. One on an attempt that has changed is taken anew at the next
// look. open is false where the decision is not open in the attempt's state.
func (p *pass) decide(ctx context.Context, o *owing, kind attempt.ResolutionKind, why string) (open bool) {
	res := &attempt.Resolve{
		ID: o.attempt.ID, Who: PolicyName, Schedule: &o.site.schedule,
		Resolution: attempt.Resolution{Kind: kind, ChargeID: o.duty.ChargeID, Why: why},
	}
	if kind == attempt.ResolvedKeep { // money is kept only on what is known of it
		res.Version = o.attempt.Version
	}
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	err := p.r.cfg.Store.Apply(storing, res.Step())
	switch {
	case errors.Is(err, attempt.ErrNotResolvable):
		return false
	case errors.Is(err, attempt.ErrNewerEvidence):
		return true
	case err != nil:
		p.failed(ctx, &o.attempt, fmt.Errorf("store the policy's decision about charge %s: %w", o.duty.ChargeID, err))
		return true
	}
	p.count(func(r *Report) {
		if kind == attempt.ResolvedKeep {
			r.Kept++
		} else {
			r.Reviewed++
		}
	})
	p.r.sawDecision(ctx, &res.Attempt, o.duty, res.Resolution)
	return true
}

package payclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// voidTries is how often the provider is asked to cancel one charge in one call: asking twice does no harm.
const voidTries = 2

// void cancels the charges of an attempt that are not final at the provider, under a claim, so that nobody sends meanwhile;
// until then at the latest. tried is false where there is nothing to cancel, or somebody else holds the claim. A confirmed void is
// recorded as a decline; whatever else came of it is asked for by reference, and recorded. The error is of the store only.
func (c *Client) void(ctx context.Context, a attempt.Attempt, until time.Time) (tried bool, err error) {
	if c.can.voider == nil || a.Place() != c.Place() || time.Until(until) < c.cfg.SendTimeout/3 || ctx.Err() != nil {
		return false, nil
	}
	began := time.Now()
	claim := &attempt.Void{ID: a.ID, Who: c.cfg.Who, Claim: c.claimFor(), FirstCheck: c.cfg.MinAge}
	if err := c.cfg.Store.Apply(ctx, claim.Step()); err != nil {
		return false, fmt.Errorf("attempt %s: claim it to cancel its charge: %w", a.ID, err)
	}
	if !claim.Granted {
		return false, nil
	}
	claimUntil := began.Add(c.claimFor())
	rec := &attempt.Record{ID: a.ID, Who: c.cfg.Who, Schedule: c.schedule, Evidence: attempt.Evidence{
		Kind: attempt.EvidenceSends, Fence: claim.Attempt.Fence, KeepsAnswers: c.caps.Key.KeepsEveryAnswer,
	}}
	all := true
	for _, held := range claim.Attempt.Charges {
		if held.Status != attempt.ChargePending {
			continue
		}
		failed, answer, ok := c.voidCharge(ctx, &claim.Attempt, held.ID, until, claimUntil)
		if !ok {
			all = false
			continue
		}
		rec.Evidence.Charges, rec.Evidence.Answer = append(rec.Evidence.Charges, failed), &answer
	}
	if err := c.record(ctx, rec, &claim.Attempt, latest(claimUntil, time.Now().Add(time.Second))); err != nil {
		return true, err
	}
	if !all && c.canAsk(&a) {
		_, err = c.askAndRecord(ctx, rec.Attempt, rec.Now, until)
	}
	return true, err
}

// VoidUnwanted cancels at the provider what is not final of a cancelled order's attempt, where the provider can: a payer who was
// left half-way in 3-D Secure, say, must not finish it. Whatever comes of it is recorded. Of any other attempt it does nothing.
// The error says that the store could not be written, or [ErrNotAsked] that nobody here can cancel it.
func (c *Client) VoidUnwanted(ctx context.Context, a attempt.Attempt) error {
	if a.UnwantedAt.IsZero() || a.IsRefund() {
		return nil
	}
	if c.can.voider == nil || a.Place() != c.Place() {
		return fmt.Errorf("attempt %s: %w to cancel its charge", a.ID, ErrNotAsked)
	}
	if err := c.begin(); err != nil {
		return fmt.Errorf("attempt %s: %w: %w", a.ID, ErrNotAsked, err)
	}
	defer c.pending.Done()
	_, err := c.void(ctx, a, time.Now().Add(c.cfg.CallTimeout))
	return err
}

// voidCharge asks the provider to cancel one charge. ok: it has confirmed that the charge has failed.
func (c *Client) voidCharge(ctx context.Context, a *attempt.Attempt, id string, until, claimUntil time.Time) (failed attempt.Charge, answer attempt.Answer, ok bool) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for range voidTries {
		q := &asking{client: c, request: c.can.voider.VoidRequest(*a, id), claimUntil: claimUntil}
		if q.err = sendable(q.request); q.err == nil {
			q.run(ctx)
		}
		if q.err != nil {
			if q.notMade || ctx.Err() != nil || errors.Is(q.err, errClaimOver) {
				return failed, answer, false
			}
			continue
		}
		clean := q.clean()
		reply := readVoid(c.can.voider, q.response)
		if IsUnavailable(q.response.StatusCode) {
			continue
		}
		failed, _, ok = chargeOf(reply.Charge, questionAbout(a), clean)
		ok = ok && reply.Verdict == attempt.Charged && failed.ID == id && failed.Status == attempt.ChargeFailed
		answer = attempt.Answer{
			Verdict: attempt.Refused, Reason: attempt.ReasonVoided, StatusCode: q.response.StatusCode,
			RequestID: clean.requestID(reply.RequestID), DeclineCode: failed.DeclineCode, ChargeID: failed.ID,
		}
		return failed, answer, ok
	}
	return failed, answer, false
}

// readVoid reads an answer with the adapter. One that panics has read nothing.
func readVoid(v Voider, r Response) (reply Reply) {
	defer func() {
		if recover() != nil {
			reply = Reply{}
		}
	}()
	return v.ReadVoid(r)
}

// voidFirst cancels a charge that waits for the payer where another source or amount is refused because of it: the payer has
// turned to another card, and left the first one half-way. It tells whether the slot is to be decided about anew.
func (c *Client) voidFirst(ctx context.Context, s *starting, d attempt.Decision) bool {
	var conflict *attempt.ConflictError
	switch {
	case s.voided || s.ID != "" || c.can.voider == nil || d.Attempt.NextAction() == "":
		return false
	case !errors.As(d.Err, &conflict) || d.Attempt.IsRefund():
		return false
	}
	s.voided = true
	tried, err := c.void(ctx, d.Attempt, time.Now().Add(c.cfg.CallTimeout))
	return tried && err == nil
}

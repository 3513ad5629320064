package payclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Refund gives money of a charge back. A refund is an attempt of its own, with its own key, and is treated as a payment is:
// it may be asked for again, by whoever and after whatever crash, and is made once; one whose answer is lost is unknown, and
// settled by calling again or by asking; one that the provider has refused is Declined, and told again unless
// [attempt.Refund].Again asks for a new one. What has not come to an end counts as given back: all refunds of a charge
// together are never above it, however many are asked for at once.
//
// The Result tells of the refund: Approved means that the provider holds it, Result.ChargeID is the provider's id of it. A
// refund that the provider reports as pending is an UnknownOutcome, and may fail days later.
//
// An error means that this call sent nothing:
//
//   - [attempt.RefundError]: the charge cannot be given back, or not so much of it ([attempt.ErrNotRefundable]), or nothing
//     is left of it ([attempt.ErrRefunded]). The Result tells of the charge attempt.
//   - [attempt.ErrConflict]: the refund with this id is of another amount or charge, or the charge belongs to another
//     provider, account or environment.
//   - [attempt.ErrNotFound]: there is no such charge attempt.
//   - [attempt.ErrNotPaid]: nothing was sent under the refund attempt, or it ended without money; the error's Reason says why.
//   - [attempt.ErrUnavailable], [attempt.ErrInvalidIntent]: as for Pay.
//   - [errors.ErrUnsupported]: the provider's adapter cannot refund.
//
// ctx bounds the sending, as for Pay.
func (c *Client) Refund(ctx context.Context, r attempt.Refund) (Result, error) {
	if c.can.refunder == nil {
		return Result{}, fmt.Errorf("refund %s of attempt %s: %w by the adapter %s; nothing was sent", r.ID, r.AttemptID, errors.ErrUnsupported, c.caps.Name)
	}
	if err := r.Validate(); err != nil {
		return Result{}, fmt.Errorf("%w: %w; nothing was stored or sent", attempt.ErrInvalidIntent, err)
	}
	s := c.start(attempt.Intent{}, c.claimFor())
	s.Refund = r
	return c.pay(ctx, s)
}

// newRefund makes the next attempt of a refund.
func (c *Client) newRefund(s *starting, ordinal int) (attempt.Attempt, error) {
	of, charge, amount := s.RefundIntent()
	// Its own slot, for ids that are derived. No payment has a purpose with a NUL byte.
	slot := attempt.Slot{Account: charge.Slot.Account, Order: charge.ID, Purpose: "refund\x00" + of.ID}
	identity, err := c.newIdentity(slot, ordinal)
	if err != nil {
		return attempt.Attempt{}, err
	}
	a := attempt.Attempt{
		ID: identity.ID, Key: identity.Key, Reference: identity.Reference,
		Slot: charge.Slot, Ordinal: ordinal, Amount: amount, Refund: of,
		Provider: s.Provider, ProviderAccount: s.ProviderAccount, Environment: s.Environment,
	}
	if err := c.render(&a, s); err != nil {
		return attempt.Attempt{}, err
	}
	return a, nil
}

func (c *Client) refundBody(a attempt.Attempt) ([]byte, error) {
	if c.can.refunder == nil {
		return nil, errors.ErrUnsupported
	}
	body, err := c.can.refunder.RefundBody(a)
	if err == nil && bytes.IndexByte(body, 0) >= 0 {
		err = errors.New("refund: rendered with a NUL byte")
	}
	return body, err
}

// Refunds tells how the refunds of a charge attempt stand, from the store alone, oldest first. [attempt.ErrNotFound] where
// there is no such attempt.
func (c *Client) Refunds(ctx context.Context, attemptID string) ([]Result, error) {
	view, charge, err := c.slotOf(ctx, attemptID)
	if err != nil {
		return nil, fmt.Errorf("refunds of attempt %s: %w", attemptID, err)
	}
	var all []Result
	for i := range view.Refunds {
		if view.Refunds[i].Refund.AttemptID == charge.ID {
			r := resultOf(&view.Refunds[i], view.Now)
			r.Existing = true
			all = append(all, r)
		}
	}
	return all, nil
}

// slotOf reads an attempt together with all of its slot.
func (c *Client) slotOf(ctx context.Context, id string) (attempt.View, attempt.Attempt, error) {
	a, err := c.cfg.Store.Attempt(ctx, id)
	if err != nil {
		return attempt.View{}, a, err
	}
	view, err := c.cfg.Store.Slot(ctx, a.Slot)
	if err != nil {
		return view, a, err
	}
	if known, ok := view.Find(id); ok {
		a = known
	}
	return view, a, nil
}

// RefundDuty gives back what a refund duty of a charge attempt asks for: all that is left of the charge, under the refund id
// [attempt.DutyRefundPrefix] and the charge's id, so that whoever finds the duty, and however often, it is paid once. It asks
// the provider first, where that can be asked, and refunds only a charge that it reports as succeeded; the answer is recorded.
// A refund that is under way already is resumed.
//
// It returns the refund attempt. Beside the errors of [Client.Refund], which it shares, [ErrNotAsked] says that the provider did
// not confirm the charge now, which may be otherwise later, and [attempt.ErrNotRefundable] that the charge is not, or no
// longer, one that succeeded. Nothing was sent then.
func (c *Client) RefundDuty(ctx context.Context, a attempt.Attempt, d attempt.Duty) (attempt.Attempt, error) {
	r := attempt.Refund{AttemptID: a.ID, ChargeID: d.ChargeID, ID: attempt.DutyRefundPrefix + d.ChargeID}
	if d.Kind != attempt.DutyRefund || d.ChargeID == "" {
		return attempt.Attempt{}, fmt.Errorf("%w: attempt %s: a duty of kind %q about charge %q is not for giving money back; nothing was sent",
			attempt.ErrInvalidIntent, a.ID, d.Kind, d.ChargeID)
	}
	if c.can.refunder != nil && a.Place() == c.Place() && c.caps.Lookup.ByReference {
		if err := c.askBeforeRefund(ctx, r); err != nil {
			return attempt.Attempt{}, err
		}
	}
	res, err := c.Refund(ctx, r)
	if !res.Attempt.IsRefund() {
		return attempt.Attempt{}, err
	}
	return res.Attempt, err
}

// askBeforeRefund asks whether a charge is still one that succeeded, unless a refund of it may have been sent.
func (c *Client) askBeforeRefund(ctx context.Context, r attempt.Refund) error {
	if err := c.begin(); err != nil {
		return fmt.Errorf("refund %s of attempt %s: %w", r.ID, r.AttemptID, err)
	}
	defer c.pending.Done()
	view, charge, err := c.slotOf(ctx, r.AttemptID)
	if err != nil {
		return fmt.Errorf("refund %s of attempt %s: %w; nothing was sent", r.ID, r.AttemptID, err)
	}
	for _, known := range view.Refunds {
		own := known.Refund.AttemptID == r.AttemptID && known.Refund.ChargeID == r.ChargeID && known.PaysDuty()
		if own && (known.Status == attempt.StatusSending || known.Status == attempt.StatusUnknown) {
			return nil
		}
	}
	l, err := c.askAndPlan(ctx, charge, view.Now, time.Now().Add(c.cfg.CallTimeout), true)
	if err != nil {
		return fmt.Errorf("refund %s: %w; nothing was sent", r.ID, err)
	}
	i := slices.IndexFunc(l.Charges, func(held attempt.Charge) bool { return held.ID == r.ChargeID })
	switch {
	case i < 0:
		return &notConfirmedError{r, strings.TrimSpace(l.Answer.String() + " " + l.Detail)}
	case l.Charges[i].Status != attempt.ChargeSucceeded:
		return &attempt.RefundError{Attempt: charge, ChargeID: r.ChargeID,
			Err: fmt.Errorf("%w: the provider reports the charge as %s", attempt.ErrNotRefundable, l.Charges[i].Status)}
	}
	return nil
}

// notConfirmedError says that the provider did not confirm a charge that is to be given back.
type notConfirmedError struct {
	refund attempt.Refund
	answer string
}

func (e *notConfirmedError) Error() string {
	return fmt.Sprintf("refund %s of attempt %s: the provider does not confirm the charge now (%s); nothing was sent",
		e.refund.ID, e.refund.AttemptID, e.answer)
}

// Is matches [ErrNotAsked]: later it may be otherwise.
func (e *notConfirmedError) Is(target error) bool { return target == ErrNotAsked }

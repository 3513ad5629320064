package payclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// CancelOrder cancels an order: its slot takes no payment any more, for ever, also where none was ever started. That is
// stored first; from then on nothing is sent there, [Client.Pay] and the like fail with [attempt.ErrCancelled], and what was
// only prepared has ended. A call in progress ends as it would. Then the provider is asked about what may have been sent, and
// where it can, charges that are not final are cancelled there. A question that fails changes nothing.
//
// The error says that the order is not known to be cancelled. Without one it is, and Result.Moved tells about its money:
//
//   - MovedNo: none. Of an order that was never paid for, the Result has the reason order_cancelled and no attempt.
//   - MovedMaybe: some may have moved; reconciliation will tell. Result.Open is true.
//   - MovedYes: it is there, and owed back: an open duty, reason refund_owed, for whoever reconciles or [Client.RefundDuty].
//
// Cancelling again changes nothing and asks anew. why is kept and shown, at most 500 bytes; it must hold nothing secret.
func (c *Client) CancelOrder(ctx context.Context, slot attempt.Slot, why string) (Result, error) {
	if err := c.begin(); err != nil {
		return Result{}, err
	}
	defer c.pending.Done()
	step, err := c.cancelling(slot, why)
	if err != nil {
		return Result{}, err
	}
	if err := c.cfg.Store.Apply(ctx, step.Step()); err != nil {
		return Result{}, fmt.Errorf("order %s: cancel: %w", step.Slot, err)
	}
	c.sawCancelled(ctx, step)
	until := time.Now().Add(c.cfg.CallTimeout)
	var notRecorded []error
	for _, a := range step.View.Attempts {
		open := a.Status == attempt.StatusUnknown || a.Status == attempt.StatusSending
		if !open || !a.ClaimedUntil(step.View.Now).IsZero() || a.Place() != c.Place() {
			continue // settled, being sent at this moment, or at another provider
		}
		if c.canAsk(&a) {
			_, err := c.askAndRecord(ctx, a, step.View.Now, until)
			notRecorded = append(notRecorded, err)
		}
		_, err := c.void(ctx, a, until)
		notRecorded = append(notRecorded, err)
	}
	view, err := c.cfg.Store.Slot(ctx, step.Slot)
	if err != nil {
		view = step.View // cancelled it is: that much is stored
	}
	r := tellSlot(view)
	r.RecordErr = errors.Join(notRecorded...)
	return r, nil
}

// CancelOrderTx is CancelOrder inside the host's own transaction, so that the order's slot closes with the order's own change.
// tx comes from the store that the client uses. It asks nobody and cancels nothing at the provider: an open attempt is left
// to reconciliation, or to a call of CancelOrder after the commit.
func (c *Client) CancelOrderTx(ctx context.Context, tx attempt.Tx, slot attempt.Slot, why string) (Result, error) {
	if err := c.begin(); err != nil {
		return Result{}, err
	}
	defer c.pending.Done()
	step, err := c.cancelling(slot, why)
	if err != nil {
		return Result{}, err
	}
	if err := tx.ApplyTx(ctx, step.Step()); err != nil {
		return Result{}, fmt.Errorf("order %s: cancel: %w", step.Slot, err)
	}
	return tellSlot(step.View), nil
}

func (c *Client) cancelling(slot attempt.Slot, why string) (*attempt.Cancel, error) {
	step := &attempt.Cancel{Slot: slot.WithDefaults(), Who: c.cfg.Who, Why: why, Schedule: c.schedule}
	if err := step.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w; the order is not cancelled", attempt.ErrInvalidIntent, err)
	}
	return step, nil
}

// tellSlot tells of a slot that has an attempt, or is closed.
func tellSlot(v attempt.View) Result {
	standing, ok := v.Standing()
	if !ok {
		return Result{Moved: MovedNo, Reason: attempt.ReasonOrderCancelled, Existing: true, notPaid: true, CancelledAt: v.ClosedAt}
	}
	r := resultOf(&standing, v.Now)
	r.Existing = true
	return r
}

func (c *Client) sawCancelled(ctx context.Context, step *attempt.Cancel) {
	if step.Before {
		return
	}
	for i := range step.View.Attempts {
		a := &step.View.Attempts[i]
		var opened []attempt.Duty
		for _, d := range a.Duties {
			if d.OpenedAt.Equal(step.View.Now) {
				opened = append(opened, d)
			}
		}
		c.sawRecord(ctx, a, opened)
	}
}

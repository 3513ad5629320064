package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
)

// Settle brings an order in line with what is known of its payment, and with the clock. It is the one place where orders end,
// whoever calls: the customer's request, the relay of outcomes, the time-out. Called again it finds nothing to do, so that an
// outcome that is told twice, or late, has no second effect.
func (s *Shop) Settle(ctx context.Context, id string) (o Order, err error) {
	err = s.store.InTx(ctx, func(ctx context.Context, tx tx) error {
		if o, err = takeOrder(ctx, tx, id); err != nil {
			return err
		}
		return s.settleTx(ctx, tx, &o)
	})
	return o, err
}

// settleTx decides on what the store holds in this very transaction. The order of a cancelled slot is cancelled in the same
// commit, so a payment that this sees as approved is the order's, and one that is approved later sees the closed slot and is
// given back: whichever comes first, paid is confirmed and cancelled is refunded.
func (s *Shop) settleTx(ctx context.Context, tx tx, o *Order) error {
	if o.State.final() {
		return nil
	}
	now := time.Now()
	res, err := s.client.StatusTx(ctx, tx.Attempts(), o.slot())
	none := errors.Is(err, attempt.ErrNotFound)
	switch {
	case err != nil && !none:
		return err
	case !res.CancelledAt.IsZero():
		return s.cancel(ctx, tx, o, "cancelled by the operator") // with the command line's cancel, say
	case res.Outcome == payclient.Approved:
		return s.confirm(ctx, tx, o, now)
	case !now.Before(o.PayBy):
		return s.cancel(ctx, tx, o, "not paid in time")
	case none:
		return nil
	case o.State == StatePending && res.Attempt.Status.Final() && !res.Open():
		return o.setState(ctx, tx, StateOpen) // declined, or never arrived: another card may be tried
	case o.State == StateOpen && res.Attempt.Status.Live():
		return o.setState(ctx, tx, StatePending)
	}
	return nil
}

// confirm takes the goods of a paid order from the stock. Where its reservation ran out while nobody could learn that it was
// paid, they may be gone: then the order is cancelled, and the money goes back.
func (s *Shop) confirm(ctx context.Context, tx tx, o *Order, now time.Time) error {
	switch err := checkStock(ctx, tx, *o, now); {
	case errors.Is(err, errNoStock):
		return s.cancel(ctx, tx, o, "sold out before the payment was known")
	case err != nil:
		return err
	}
	err := tx.Exec(ctx, `UPDATE shop_items SET stock = stock - l.quantity FROM shop_lines l
		WHERE l.sku = shop_items.sku AND l.order_id = $1`, o.ID)
	if err != nil {
		return err
	}
	return o.setState(ctx, tx, StateConfirmed)
}

// cancel ends an order and closes its slot in the same commit: nothing is sent for it any more, and what was sent is owed back.
func (s *Shop) cancel(ctx context.Context, tx tx, o *Order, why string) error {
	if _, err := s.client.CancelOrderTx(ctx, tx.Attempts(), o.slot(), why); err != nil {
		return err
	}
	return o.setState(ctx, tx, StateCancelled, why)
}

// CancelOrder cancels an order for the customer. One that is paid, though nobody has told the shop so far, is confirmed instead
// and refused with errConfirmed.
func (s *Shop) CancelOrder(ctx context.Context, id string) (o Order, err error) {
	err = s.store.InTx(ctx, func(ctx context.Context, tx tx) error {
		if o, err = takeOrder(ctx, tx, id); err != nil {
			return err
		}
		if err := s.settleTx(ctx, tx, &o); err != nil || o.State.final() {
			return err
		}
		return s.cancel(ctx, tx, &o, "cancelled by the customer")
	})
	switch {
	case err != nil:
		return Order{}, err
	case o.State == StateConfirmed:
		return o, errConfirmed
	}
	s.askAboutCancelled(ctx, o)
	s.awaitOthers(ctx, o)
	return o, nil
}

// awaitOthers waits a moment for another process that has learnt of the cancellation and voids the payment, so that the customer
// is told how that ended.
func (s *Shop) awaitOthers(ctx context.Context, o Order) {
	for range 40 {
		res, err := s.client.Status(ctx, o.slot())
		if err != nil || !res.Open() || res.Attempt.ClaimedUntil(time.Now()).IsZero() {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
}

// askAboutCancelled asks the provider what became of a cancelled order's payment, and voids one that the payer has not
// finished. It may fail: the order is cancelled all the same, and the reconciler goes on asking.
func (s *Shop) askAboutCancelled(ctx context.Context, o Order) {
	res, err := s.client.CancelOrder(ctx, o.slot(), o.Why)
	if err = errors.Join(err, res.RecordErr); err != nil {
		s.log.WarnContext(ctx, "the provider was not asked about a cancelled order; the reconciler will", "order", o.ID, "error", err)
	}
}

// relayOutcomes learns from the store what becomes of each attempt, at least once, also of those that ended while the shop
// was not running.
func (s *Shop) relayOutcomes(ctx context.Context) error {
	return attempt.Relay(ctx, s.store, relayName, s.learn, attempt.RelayOptions{
		Every: s.every,
		Failed: func(e attempt.Event, err error) {
			s.log.Error("an outcome did not reach its order; it will be told again", "attempt", e.AttemptID, "error", err)
		},
	})
}

// learn takes one change of an attempt to its order.
func (s *Shop) learn(ctx context.Context, e attempt.Event) error {
	if !e.To.Final() && e.What != attempt.WhatCancelled {
		return nil // no end, no news
	}
	a, err := s.store.Attempt(ctx, e.AttemptID)
	if err != nil {
		return err
	}
	o, err := s.Settle(ctx, a.Slot.Order)
	if errors.Is(err, errNoOrder) {
		s.log.Warn("an attempt of no order of ours", "attempt", a.ID, "order", a.Slot.Order)
		return nil
	}
	switch {
	case err != nil || e.What != attempt.WhatCancelled:
		return err
	case o.State == StateConfirmed:
		s.log.Error("a confirmed order was cancelled by an operator: its money goes back, stop the goods", "order", o.ID)
	case !a.Status.Final():
		s.askAboutCancelled(ctx, o)
	}
	return nil
}

// cancelLate cancels orders that were not paid in time, until ctx ends.
func (s *Shop) cancelLate(ctx context.Context) error {
	ticker := time.NewTicker(s.every)
	defer ticker.Stop()
	for {
		if err := s.cancelLateOnce(ctx); err != nil && ctx.Err() == nil {
			s.log.ErrorContext(ctx, "orders that were not paid in time wait to be cancelled", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// cancelLateOnce settles all orders whose time is over. One that fails does not hold up the others.
func (s *Shop) cancelLateOnce(ctx context.Context) error {
	var late string
	err := s.store.Get(ctx, into{&late}, `SELECT coalesce(string_agg(CAST(id AS text), ' '), '') FROM (SELECT id FROM shop_orders
		WHERE state IN ('open', 'payment pending') AND pay_by <= $1 ORDER BY pay_by LIMIT 1000) AS late`, time.Now().UnixMilli())
	errs := []error{err}
	for _, id := range strings.Fields(late) {
		_, err := s.Settle(ctx, id)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

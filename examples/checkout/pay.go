package main

import (
	"context"
	"errors"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
)

// PayOrder pays an order. It may be called again, twice at once, with the same card and with another one, before and after
// whatever crash: the order is charged at most once.
//
// The error is one of the order's (errNoOrder), of the intent's (attempt.ErrInvalidIntent), or one that payclient.Client.Pay
// tells. Order and Result hold beside it what is known.
func (s *Shop) PayOrder(ctx context.Context, id string, source attempt.Source, again string) (Order, payclient.Result, error) {
	o, res, err := s.startPayment(ctx, id, source, again)
	switch {
	case err == nil && o.State == StateCancelled:
		res, err = s.client.Status(ctx, o.slot()) // what is told of it may still be "perhaps"
		return o, res, errors.Join(&attempt.CancelledError{Slot: o.slot()}, err)
	case err == nil:
		// Committed. Should the process end here, the attempt is there for whoever pays the order next.
		res, err = s.client.Send(ctx, res.AttemptID, source)
	case errors.Is(err, attempt.ErrConflict) && res.Reason != attempt.ReasonInFlight:
		// Another card was used before, and it is not known what became of that. The order is pending already; Pay asks the
		// provider, voids what the payer has left half-way, and pays by this card if nothing stands in the way any more.
		res, err = s.client.Pay(ctx, intentOf(o, source, again))
	}
	if err != nil && o.ID == "" {
		return o, res, err
	}
	// What was learnt reaches the order by the relay in any case; this only spares the customer the wait.
	settled, settleErr := s.Settle(ctx, id)
	if settleErr != nil {
		s.log.WarnContext(ctx, "the order will learn of its payment by the relay", "order", id, "error", settleErr)
		return o, res, err
	}
	if settled.State == StateCancelled && res.Open() {
		s.askAboutCancelled(ctx, settled)
	}
	return settled, res, err
}

// startPayment stores an attempt to pay and the order's move to "payment pending" in one commit. If the order is over, it is
// cancelled here and nothing is started.
func (s *Shop) startPayment(ctx context.Context, id string, source attempt.Source, again string) (o Order, res payclient.Result, err error) {
	err = s.store.InTx(ctx, func(ctx context.Context, tx tx) error {
		if o, err = takeOrder(ctx, tx, id); err != nil {
			return err
		}
		if err := s.settleTx(ctx, tx, &o); err != nil || o.State == StateCancelled {
			return err
		}
		if res, err = s.client.StartTx(ctx, tx.Attempts(), intentOf(o, source, again)); err != nil {
			return err
		}
		return s.settleTx(ctx, tx, &o) // "payment pending", if it was open
	})
	return o, res, err
}

// intentOf says how an order is to be paid. The amount is always the order's, never the request's.
func intentOf(o Order, source attempt.Source, again string) attempt.Intent {
	return attempt.Intent{Order: o.ID, Amount: o.Total, Source: source, Description: "Order " + o.ID, Again: again}
}

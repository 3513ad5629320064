package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Timings are how long things wait for each other. Each must be over before the next one is.
type Timings struct {
	// Order is how long an order may wait for its payment. Then it is cancelled.
	Order time.Duration
	// Reservation is how long an order's goods are kept for it. Once it is over, they may be sold to others.
	Reservation time.Duration
	// ProviderHold is how long the provider keeps a payment open that the payer has not finished, as its documentation says.
	ProviderHold time.Duration
}

// DefaultTimings fit a shop with cards.
var DefaultTimings = Timings{Order: 15 * time.Minute, Reservation: 20 * time.Minute, ProviderHold: time.Hour}

// Validate holds the one line of time: a whole call < order time-out < reservation < the provider's hold.
//
// An order that timed out before the call that pays it has ended would never be paid. Goods that are let go while the order may
// still be confirmed would be sold twice. And a payment that the provider gives up while the order waits for it would leave the
// payer with a page that leads nowhere.
func (t Timings) Validate(payments attempt.Schedule) error {
	var errs []error
	for _, pair := range []struct {
		shorter, longer string
		short, long     time.Duration
	}{
		// The first question comes after the longest call, see payclient.Config.MinAge.
		{"the first question about a payment", "the order time-out", payments.First, t.Order},
		{"the order time-out", "the stock reservation", t.Order, t.Reservation},
		{"the stock reservation", "the provider's own hold", t.Reservation, t.ProviderHold},
	} {
		if pair.short >= pair.long {
			errs = append(errs, fmt.Errorf("timings: %s (%s) must be shorter than %s (%s)", pair.shorter, pair.short, pair.longer, pair.long))
		}
	}
	return errors.Join(errs...)
}

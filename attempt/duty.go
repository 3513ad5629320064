package attempt

import (
	"time"

	"github.com/chargeonce/chargeonce/money"
)

// DutyKind says what is owed.
type DutyKind string

// What may be owed after an attempt's end.
const (
	DutyRefund DutyKind = "refund" // money that is surely surplus goes back
	DutyReview DutyKind = "review" // a person must look before anything is done
)

// Duty is something still owed. An open duty blocks its slot: no new attempt starts there.
type Duty struct {
	Kind     DutyKind     `json:"kind"`
	ChargeID string       `json:"charge_id"`
	Amount   money.Amount `json:"amount,omitzero"` // what the provider holds
	Why      string       `json:"why"`
	OpenedAt time.Time    `json:"opened_at"`
	MetAt    time.Time    `json:"met_at,omitzero"` // zero: open
	How      string       `json:"how,omitempty"`   // how it was met
	// DecidedAt is when a person or a policy decided its kind; that does not change by itself any more. Zero: nobody has.
	DecidedAt time.Time `json:"decided_at,omitzero"`
}

// How a duty was met.
const (
	HowRefunded  = "refunded"  // nothing of the charge is left
	HowGone      = "gone"      // the charge failed, or the provider took it back
	HowKept      = "kept"      // the money stays as the order's payment
	HowDismissed = "dismissed" // a person has looked, and nothing is to be done
)

// Why a duty was opened.
const (
	WhyLateMoney    = "late_money"    // a charge on an attempt that had ended without money
	WhySecondCharge = "second_charge" // beside the one that approved the attempt
	WhyDifferent    = "different"     // another amount or currency than was asked for
	WhyReversed     = "reversed"      // the provider took a charge back that had succeeded
	WhyNobodySent   = "nobody_sent"   // money on a prepared attempt, of which no request can have left as far as known
	WhyUnwanted     = "unwanted"      // money of an order that was cancelled
	WhyLatePending  = "late_pending"  // a charge that is not final, on an attempt that had ended without money
)

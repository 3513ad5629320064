package batch

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
)

// Outcome is what became of a row.
type Outcome string

// The outcomes of a row. The first four are the payment's own.
const (
	Approved  Outcome = "approved"
	Declined  Outcome = "declined"
	Unknown   Outcome = "unknown"            // money may have moved; run again, or ask later
	Violation Outcome = "contract_violation" // moved says whether money may be involved
	Refused   Outcome = "refused"            // the row itself: malformed, or at odds with what was paid before. This run sent nothing
	NotSent   Outcome = "not_sent"           // no money moved, and nothing was sent; run again
)

// Reasons of a row besides those of package attempt, [Malformed] and [Duplicate].
const (
	Conflict         = "conflict"          // another payment of the order, with another amount or source, is not settled, or stands in the file
	AlreadyPaid      = "already_paid"      // the order was paid with another amount or source
	Cancelled        = "order_cancelled"   // the order was cancelled: nothing is sent for it any more
	Refunded         = "refunded"          // the order was paid and the money given back in full
	InvalidIntent    = "invalid_intent"    // cannot be a new payment: a withdrawn currency, for instance
	Elsewhere        = "provider_changed"  // a payment of the order may have been made at another provider, account or environment
	StoreUnavailable = "store_unavailable" // the store failed; where the row is unknown, nobody could read how it stands, see [Result.Unread]
	Stopped          = "stopped"           // the run was stopped before the row's turn
	Interrupted      = "interrupted"       // the run was told to end before the row's turn
)

// Result is what became of one row.
type Result struct {
	Line     int
	LastLine int
	Slot     attempt.Slot
	Amount   money.Amount // zero where it could not be read
	Currency string       // also where the amount could not be read; empty where it could not either
	Outcome  Outcome
	Moved    attempt.Moved
	Reason   string
	Problems []Problem // of a row that was refused as it stood in the file
	Message  string    // for a person, where the rest does not say it

	// Existing: this run neither sent nor asked (see [Asked]), the result is that of earlier sends.
	Existing bool
	// KnownBefore: the payment, or the one that stands in the row's way, was in the store when the run began. With Existing
	// it is told as it stood; without, this run has gone on with what an earlier one had begun.
	KnownBefore bool
	// Payment is the attempt that the result tells of; nil where there is none.
	Payment *payclient.Result
	// Standing is the order's other payment, for whose sake the row is refused as [Conflict] or [AlreadyPaid], or the order's
	// payment where it is refused as [Cancelled] or [Refunded]; else nil.
	Standing *payclient.Result

	unsent bool // this run sent nothing: it says nothing about the provider
}

// Open tells whether money may have moved and it is not settled: under the row, or under the payment of its order that is
// in conflict with it.
func (r Result) Open() bool {
	return r.Outcome == Unknown || (r.Outcome == Violation || r.Outcome == Refused) && r.Moved != attempt.MovedNo
}

// Unread tells whether the row is unknown only because the store could not be read: this run has sent nothing for it, and nobody
// can say whether another has.
func (r Result) Unread() bool {
	return r.Outcome == Unknown && r.Reason == StoreUnavailable && r.Payment == nil
}

// refusedRow tells of a row that the reader refused.
func refusedRow(e *RowError) Result {
	return Result{
		Line: e.Line, LastLine: e.LastLine, Slot: e.Slot, Amount: e.Amount, Currency: e.Currency, Outcome: Refused, Moved: attempt.MovedNo,
		Reason: e.Why, Problems: e.Problems, Message: messageOf(e.Problems),
	}
}

// resultOf tells of a row by what the client returned.
func resultOf(row Row, p payclient.Result, err error) Result {
	r := Result{
		Line: row.Line, LastLine: row.Line, Slot: row.Intent.Slot(), Amount: row.Intent.Amount, Currency: row.Intent.Amount.Currency(),
	}
	if p.AttemptID != "" {
		r.Payment = &p
	}
	var notPaid *attempt.NotPaidError
	var conflict *attempt.ConflictError
	var paid *attempt.PaidError
	switch {
	case err == nil:
		r.tell(p)
		r.Existing = p.Existing
		return r
	case errors.As(err, &notPaid):
		r.Outcome, r.Moved, r.Reason = NotSent, attempt.MovedNo, string(notPaid.Reason)
		if notPaid.Err != nil {
			r.Message = HideCards(notPaid.Err.Error())
		}
		return r
	case errors.As(err, &conflict) && conflict.Differs == "provider" && p.Attempt.Amount == row.Intent.Amount:
		// The row is refused here, but it is the order's own payment that is open: whether it was paid nobody knows.
		r.tell(p)
		r.Reason, r.Existing = Elsewhere, true
	case errors.As(err, &conflict):
		// Nothing was sent for the row, but its order may be paid already, by the payment that stands.
		r.standsAgainst(Conflict)
		if p.Open() {
			r.Moved = p.Moved
		}
	case errors.As(err, &paid):
		r.standsAgainst(AlreadyPaid)
	case errors.Is(err, attempt.ErrCancelled):
		// Of what was sent before the order was cancelled money may have moved, or is owed back.
		r.standsAgainst(Cancelled)
		if r.Standing != nil && p.Open() {
			r.Moved = p.Moved
		}
	case errors.Is(err, attempt.ErrRefunded):
		r.standsAgainst(Refunded)
	case errors.Is(err, attempt.ErrInvalidIntent):
		r.Outcome, r.Moved, r.Reason = Refused, attempt.MovedNo, InvalidIntent
		r.Problems = problemsOf(err)
		r.Message = messageOf(r.Problems)
		return r
	default:
		r.Outcome, r.Moved, r.Reason = Unknown, attempt.MovedMaybe, StoreUnavailable
	}
	r.Message = HideCards(strings.TrimPrefix(err.Error(), fmt.Sprintf("order %s: ", r.Slot)))
	return r
}

// standsAgainst refuses the row for the sake of a payment that stands: none of that is the row's own.
func (r *Result) standsAgainst(reason string) {
	r.Outcome, r.Moved, r.Reason = Refused, attempt.MovedNo, reason
	r.Payment, r.Standing = nil, r.Payment
	r.Existing = r.Standing != nil
}

// problemsOf writes the errors of a check in package attempt as the reader writes its own.
func problemsOf(err error) (problems []Problem) {
	text := strings.TrimPrefix(err.Error(), attempt.ErrInvalidIntent.Error()+": ")
	text = strings.TrimSuffix(text, "; nothing was stored or sent")
	for line := range strings.SplitSeq(HideCards(text), "\n") {
		field, reason, ok := strings.Cut(line, ": ")
		if !ok || columnOf(field) < 0 {
			field, reason = "", line
		}
		problems = append(problems, Problem{field, reason})
	}
	return problems
}

func messageOf(problems []Problem) string {
	texts := make([]string, len(problems))
	for i, p := range problems {
		texts[i] = p.String()
	}
	return strings.Join(texts, "; ")
}

// tell takes over the payment's own outcome.
func (r *Result) tell(p payclient.Result) {
	r.Moved, r.Reason = p.Moved, string(p.Reason)
	switch p.Outcome {
	case payclient.Approved:
		r.Outcome = Approved
	case payclient.Declined:
		r.Outcome = Declined
	case payclient.ContractViolation:
		r.Outcome = Violation
	default:
		r.Outcome = Unknown
		if !p.Open() { // told of an attempt that ended without money, or that nobody has sent
			r.Outcome = NotSent
		}
	}
	switch {
	case p.RecordErr != nil:
		r.Message = HideCards(p.RecordErr.Error())
	case r.Outcome != Approved:
		r.Message = p.Attempt.Answer.Detail
	}
}

// inFlightUntil returns when the claim of somebody else ends that stands between the row and its payment, by the store's
// clock; zero where none does.
func inFlightUntil(p payclient.Result, err error, now time.Time) time.Time {
	var conflict *attempt.ConflictError
	switch {
	case errors.As(err, &conflict):
		return conflict.Attempt.ClaimedUntil(now)
	case err == nil && p.Existing && p.Attempt.Status == attempt.StatusSending:
		return p.Attempt.ClaimedUntil(now)
	}
	return time.Time{}
}

// ProviderFault tells whether the provider's configuration or credentials are at fault, so that every other row would meet
// the same.
func (r Result) ProviderFault() bool {
	kind, _ := lasting(r)
	return kind == StopProvider
}

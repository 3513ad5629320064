package attempt

import (
	"errors"
	"fmt"
	"time"
)

// The errors to decide by. An error from a client call means that this call sent nothing.
var (
	// ErrNotFound: the store holds no such attempt.
	ErrNotFound = errors.New("attempt not found")
	// ErrUnavailable: the store could not be read or written; nobody knows how the payment stands. Nothing was sent.
	ErrUnavailable = errors.New("store unavailable")
	// ErrAlreadyPaid: the slot was paid by another intent; the error carries the attempt that paid it.
	ErrAlreadyPaid = errors.New("already paid")
	// ErrConflict: another amount or source while an attempt may have been sent; see ConflictError.
	ErrConflict = errors.New("another payment of this order is not settled")
	// ErrNotPaid: the attempt ended without money, or was not sent; see NotPaidError.
	ErrNotPaid = errors.New("not paid")
	// ErrCancelled: the order was cancelled; see CancelledError.
	ErrCancelled = errors.New("the order was cancelled")
	// ErrRefunded: the money was given back in full. Paying again needs another order or purpose.
	ErrRefunded = errors.New("refunded in full")
	// ErrNotRefundable: the charge cannot be given back, or not so much of it; see RefundError.
	ErrNotRefundable = errors.New("not refundable")
	// ErrSeen: the step was marked to happen once, and has happened. Nothing was changed; it is no failure.
	ErrSeen = errors.New("happened before")
	// ErrInvalidIntent: the intent cannot be paid as it stands. Nothing was stored or sent.
	ErrInvalidIntent = errors.New("invalid intent")
	// ErrInTx: a store call was made inside the store's own transaction. Nothing was stored or sent.
	ErrInTx = errors.New("store called inside its own transaction")
	// ErrNotDurable: the store cannot promise that a committed row survives. Nothing was stored or sent.
	ErrNotDurable = errors.New("store is not durable")
)

// PaidError says that the slot was paid by another attempt than the one asked for.
type PaidError struct {
	Attempt Attempt // the one that paid
}

func (e *PaidError) Error() string {
	return fmt.Sprintf("order %s: %v: %s by attempt %s; nothing was sent", e.Attempt.Slot, ErrAlreadyPaid, e.Attempt.Amount, e.Attempt.ID)
}

// Is matches [ErrAlreadyPaid].
func (e *PaidError) Is(target error) bool { return target == ErrAlreadyPaid }

// CancelledError says that the order was cancelled: nothing is sent for it any more. It says nothing about money that may have
// moved before: that is what the Attempt, or the client's Status, tells.
type CancelledError struct {
	Slot    Slot
	At      time.Time
	Attempt Attempt // the one that speaks for the slot; zero: there is none
}

func (e *CancelledError) Error() string {
	text := fmt.Sprintf("order %s: %v at %s", e.Slot, ErrCancelled, e.At.Format(time.RFC3339))
	if e.Attempt.ID != "" {
		text += fmt.Sprintf(": attempt %s is %s", e.Attempt.ID, e.Attempt.Status)
		switch e.Attempt.Tell(e.At).Reason {
		case ReasonRefunded:
			text += ", its money was given back"
		case ReasonRefundOwed:
			text += ", its money is owed back"
		}
	}
	return text + "; nothing was sent"
}

// Is matches [ErrCancelled].
func (e *CancelledError) Is(target error) bool { return target == ErrCancelled }

// RefundedError says that the slot was paid and that the money was given back in full.
type RefundedError struct {
	Attempt Attempt // the one that had paid
}

func (e *RefundedError) Error() string {
	return fmt.Sprintf("order %s: %v: attempt %s; nothing was sent, paying again needs another order or purpose", e.Attempt.Slot, ErrRefunded, e.Attempt.ID)
}

// Is matches [ErrRefunded].
func (e *RefundedError) Is(target error) bool { return target == ErrRefunded }

var errRefundDiffers = errors.New("another refund has this id")

// ConflictError says that an attempt for another amount, source or provider may have been sent and is not settled: "a
// previous payment is being verified". This call sent nothing.
type ConflictError struct {
	Attempt Attempt // the one that is open
	Differs string  // what the intent has otherwise: "amount", "source", "provider"
}

func (e *ConflictError) Error() string {
	if e.Attempt.IsRefund() {
		return fmt.Sprintf("refund %q of attempt %s: %v: it was asked for with another %s, attempt %s is %s; nothing was sent",
			e.Attempt.Refund.ID, e.Attempt.Refund.AttemptID, errRefundDiffers, e.Differs, e.Attempt.ID, e.Attempt.Status)
	}
	return fmt.Sprintf("order %s: %v: attempt %s is %s and has another %s; nothing was sent",
		e.Attempt.Slot, ErrConflict, e.Attempt.ID, e.Attempt.Status, e.Differs)
}

// Is matches [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// NotPaidError says that an attempt was not sent, or ended without money. No money moved under it, and none will before
// it is sent again.
type NotPaidError struct {
	Attempt Attempt
	Reason  Reason
	Err     error // why it was not sent; nil where the attempt ended
}

func (e *NotPaidError) Error() string {
	text := fmt.Sprintf("order %s: %v", e.Attempt.Slot, ErrNotPaid)
	end := "; no money moved under attempt " + e.Attempt.ID
	if e.Attempt.IsRefund() {
		text = fmt.Sprintf("refund %q of attempt %s: not made", e.Attempt.Refund.ID, e.Attempt.Refund.AttemptID)
		end = "; no money went back under attempt " + e.Attempt.ID
	}
	if e.Reason != "" {
		text += " (" + string(e.Reason) + ")"
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text + end
}

// Is matches [ErrNotPaid].
func (e *NotPaidError) Is(target error) bool { return target == ErrNotPaid }

// Unwrap returns why the attempt was not sent.
func (e *NotPaidError) Unwrap() error { return e.Err }

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Asker asks one place about attempts: a client of package payclient is one. It must be safe for concurrent use. What it may
// also be, a [Lister] or a [Refunder], is used where it is.
type Asker interface {
	// Place is where it asks: it is given attempts of that place only. It never changes.
	Place() attempt.Place
	// Schedule says when attempts of the place are looked at. It never changes.
	Schedule() attempt.Schedule
	// Ask asks about an attempt, a refund too, and returns the answer as evidence of the kind [attempt.EvidenceLookup]. asked
	// is a time by the store's clock before the question. A question that left and failed is evidence of that; an error says
	// that none left, and that nothing was learnt.
	Ask(ctx context.Context, a attempt.Attempt, asked time.Time) (attempt.Evidence, error)
}

// Lister is an [Asker] that can list what the provider holds, which costs less than many questions.
type Lister interface {
	// ListCharges yields what the provider made in [from, to) by its own clock, the charges of others and of other programs
	// among them. After an error it yields no more. errors.ErrUnsupported: there is no such listing.
	ListCharges(ctx context.Context, from, to time.Time) iter.Seq2[attempt.Notice, error]
}

// Refunder is an [Asker] that can give money back.
type Refunder interface {
	// RefundDuty gives back what is left of the charge of an open refund duty, once, however often it is called and by
	// whomever, and returns the attempt that does. It does not do so where the provider says that the charge has not
	// succeeded. An error says that no money left by this call: attempt.ErrRefunded, attempt.ErrNotRefundable,
	// errors.ErrUnsupported, or a reason to try again later.
	RefundDuty(ctx context.Context, a attempt.Attempt, d attempt.Duty) (attempt.Attempt, error)
}

// Voider is an [Asker] that can cancel what is not final at the provider.
type Voider interface {
	// VoidUnwanted cancels what is not final of a cancelled order's attempt, and records what came of it. An error says that
	// it was not tried, or could not be recorded.
	VoidUnwanted(ctx context.Context, a attempt.Attempt) error
}

// panicError says that an adapter has panicked. The value may hold anything, a secret too, and is told only where the runtime
// made it; the stack names no values.
type panicError struct {
	value string
	stack []byte
}

func (e *panicError) Error() string { return "panic: " + e.value }

// contained calls f and turns a panic of it into an error: one adapter's mistake about one answer must not end the process
// that looks after everybody's payments.
func contained(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e := &panicError{value: fmt.Sprintf("a %T", p), stack: debug.Stack()}
			if runtimeError, ok := errors.AsType[runtime.Error](asError(p)); ok {
				e.value = runtimeError.Error()
			}
			err = e
		}
	}()
	return f()
}

func asError(p any) error {
	err, _ := p.(error)
	return err
}

package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Health tells from the store alone whether payments are settled: what is open, what is owed, and whether a reconciler works.
type Health struct {
	At time.Time // when, by the store's clock

	// Open counts the attempts that have not ended, refunds among them, by status.
	Open map[attempt.Status]int
	// OldestOpen is the one, sending or unknown, that may have been sent longest ago and of which nobody knows whether the
	// provider holds it. Neither those that wait for the provider or the payer (Pending) nor those that wait for a person
	// (AskingEnded) are among these.
	OldestOpen Oldest
	// OldestPrepared has waited longest to be sent, since it was made.
	OldestPrepared Oldest
	// Pending counts the open ones of which the provider holds a charge that is not final, or not as it should be.
	Pending       int
	OldestPending Oldest
	// AskingEnded counts those that are not asked about any more: a person must decide.
	AskingEnded int

	// Duties counts the open duties by kind.
	Duties     map[attempt.DutyKind]int
	OldestDuty map[attempt.DutyKind]Oldest

	// Overdue counts the attempts, open or owing, whose look was due at this time and that no reconciler has taken.
	Overdue       int
	OldestOverdue Oldest
}

// Oldest names what has waited longest; the zero Oldest is nothing.
type Oldest struct {
	AttemptID string
	Slot      attempt.Slot
	Since     time.Time     // by the store's clock
	Age       time.Duration // at the time of the Health; never negative
}

// ReadHealth reads it. It costs as much as reading the attempts that are open or owe something, however many others there
// are. An error is the store's: then nothing is known.
func ReadHealth(ctx context.Context, store attempt.Store) (Health, error) {
	view, err := store.Slot(ctx, attempt.Slot{}) // of a slot that nobody can have: the store's clock
	if err != nil {
		return Health{}, fmt.Errorf("read the health: %w", err)
	}
	h := Health{
		At: view.Now, Open: make(map[attempt.Status]int),
		Duties: make(map[attempt.DutyKind]int), OldestDuty: make(map[attempt.DutyKind]Oldest),
	}
	for a, err := range store.List(ctx, attempt.Filter{Open: true}) {
		if err != nil {
			return Health{}, fmt.Errorf("read the health: %w", err)
		}
		h.addOpen(&a)
	}
	for a, err := range store.List(ctx, attempt.Filter{Owing: true}) {
		if err != nil {
			return Health{}, fmt.Errorf("read the health: %w", err)
		}
		h.addOwing(&a)
	}
	return h, nil
}

func (h *Health) addOpen(a *attempt.Attempt) {
	h.Open[a.Status]++
	h.addDue(a)
	since := a.LastPossibleSend()
	if since.IsZero() {
		since = a.CreatedAt
	}
	switch {
	case a.Status == attempt.StatusPrepared:
		h.OldestPrepared = h.older(h.OldestPrepared, a, a.CreatedAt)
	case !a.AskingEndedAt.IsZero():
		h.AskingEnded++
	case waits(a):
		h.Pending++
		h.OldestPending = h.older(h.OldestPending, a, since)
	default:
		h.OldestOpen = h.older(h.OldestOpen, a, since)
	}
}

// waits tells whether the provider holds a charge that is not a failed one: somebody else has to act.
func waits(a *attempt.Attempt) bool {
	for _, c := range a.Charges {
		if c.Status != attempt.ChargeFailed {
			return true
		}
	}
	return false
}

func (h *Health) addOwing(a *attempt.Attempt) {
	for _, d := range a.Duties {
		if d.MetAt.IsZero() {
			h.Duties[d.Kind]++
			h.OldestDuty[d.Kind] = h.older(h.OldestDuty[d.Kind], a, d.OpenedAt)
		}
	}
	if a.Status.Final() { // the others were counted with the open ones
		h.addDue(a)
	}
}

func (h *Health) addDue(a *attempt.Attempt) {
	if !a.NextCheckAt.IsZero() && a.NextCheckAt.Before(h.At) {
		h.Overdue++
		h.OldestOverdue = h.older(h.OldestOverdue, a, a.NextCheckAt)
	}
}

// older returns the older one of what is known and of an attempt that waits since then.
func (h *Health) older(known Oldest, a *attempt.Attempt, since time.Time) Oldest {
	if known.AttemptID != "" && !since.Before(known.Since) {
		return known
	}
	return Oldest{AttemptID: a.ID, Slot: a.Slot, Since: since, Age: max(h.At.Sub(since), 0)}
}

package attempt

import (
	"context"
	"iter"
	"time"
)

// Store keeps attempts durably. It holds no rule about payments: it loads a slot's attempts, runs a [Step] on them and
// writes what the step decided. A store is correct when attempt/storetest says so. All methods are safe for concurrent
// use, by several processes where the store can be shared.
type Store interface {
	// Apply runs each step once, atomically and on its own: all that one step writes, events included, is committed
	// together or not at all, and no other step on the same slot runs between its load and its commit. Steps given
	// together, and steps of concurrent callers, may share a commit; one step's failure never takes another's down.
	//
	// A nil error means that every step's writes are durable. Otherwise each step's Err says what became of it, and the
	// error returned joins them (for a single step it is the step's Err). A step whose Do failed has that error; where
	// the store failed, the error matches [ErrUnavailable], and the step may have been written all the same only if the
	// connection was lost in the commit.
	//
	// When Apply returns, with whatever result, no step's Do runs any more and none will.
	//
	// A step with Outcome set goes before others, and waits for the store as long as ctx allows; any other step gives up
	// after the store's own limit (5 s) with ErrUnavailable.
	Apply(ctx context.Context, steps ...*Step) error

	// Attempt returns one attempt. It fails with [ErrNotFound] or [ErrUnavailable].
	Attempt(ctx context.Context, id string) (Attempt, error)

	// Slot returns the slot's attempts, oldest first, and the present by the store's clock. A slot that the store has
	// never seen has no attempts; that is no error.
	Slot(ctx context.Context, slot Slot) (View, error)

	// Events returns an attempt's events by version. It fails with [ErrNotFound] for an attempt that does not exist.
	Events(ctx context.Context, id string) ([]Event, error)

	// List yields attempts in the order of their creation. After an error it yields no more.
	List(ctx context.Context, filter Filter) iter.Seq2[Attempt, error]

	// TakeDue returns attempts whose NextCheckAt has come, oldest first, at most limit, and moves their NextCheckAt on by
	// lease in the same transaction, so that no other reconciler takes them meanwhile. It changes nothing else: no
	// version, no event. The cost follows the number of open attempts, not of all.
	TakeDue(ctx context.Context, limit int, lease time.Duration) (View, error)

	// Close waits for steps under way and releases the store. Steps given afterwards fail with ErrUnavailable.
	Close() error
}

// Filter selects attempts for [Store.List]; the zero Filter selects all.
type Filter struct {
	Open     bool     // only those that are prepared, sending or unknown
	Statuses []Status // only these, if any
	Order    string   // only this order, if not empty
	Limit    int      // at most this many; zero: no limit
}

// Selects tells whether the filter lets an attempt through, its limit aside.
func (f Filter) Selects(a Attempt) bool {
	if f.Open && a.Status.Final() {
		return false
	}
	if f.Order != "" && a.Slot.Order != f.Order {
		return false
	}
	if len(f.Statuses) == 0 {
		return true
	}
	for _, s := range f.Statuses {
		if s == a.Status {
			return true
		}
	}
	return false
}

// View is what a step sees: attempts, and the present by the store's clock, UTC, cut to microseconds.
type View struct {
	Now time.Time
	// Latest is the latest time that the store knows of, from its clock or from what it holds; zero: none. Now before it
	// means that the clock was set back, so that no age can be told.
	Latest   time.Time
	Attempts []Attempt // the slot's, oldest first
}

// Live returns the slot's live attempt.
func (v View) Live() (Attempt, bool) {
	for i := len(v.Attempts) - 1; i >= 0; i-- {
		if v.Attempts[i].Status.Live() {
			return v.Attempts[i], true
		}
	}
	return Attempt{}, false
}

// Find returns the attempt with that id.
func (v View) Find(id string) (Attempt, bool) {
	for _, a := range v.Attempts {
		if a.ID == id {
			return a, true
		}
	}
	return Attempt{}, false
}

// Step is one atomic change of a slot. It is used once.
type Step struct {
	Slot Slot   // the slot that the step works on, if ID is empty
	ID   string // an attempt of that slot; [ErrNotFound] if there is none

	// Fresh and Guess are what the caller believes the slot holds: nothing yet, or exactly this attempt at this version
	// among others that the step does not look at. A store may run Do on that belief and write under a guard (no such
	// slot; ID and Version unchanged) instead of loading first; when the guard fails it loads and runs Do again.
	Fresh bool
	Guess *Attempt

	Outcome bool // records an outcome: must not be lost, see [Store.Apply]

	// Do decides what to write. It is pure but for variables of its own, and may run several times: the last run is the
	// one that counts. It must not call the store. Writing nothing is no error.
	Do func(View) ([]Write, error)

	Err error // set by Apply
}

// Write is one attempt's new state and the event that tells of it. Version 1 is inserted; any other replaces the version
// before it. The attempt is the step's: a store that keeps it keeps a copy.
type Write struct {
	Attempt *Attempt
	Event   Event
}

// change makes the write that takes an attempt from one version and status to the next: it counts the version and tells the
// event.
func change(version int, from Status, after *Attempt, what What, who string, now time.Time, e *Evidence, duties []Duty) Write {
	after.Version = version + 1
	if now.After(after.UpdatedAt) { // it never goes back, even where the clock does
		after.UpdatedAt = now
	}
	return Write{Attempt: after, Event: Event{
		AttemptID: after.ID, Version: after.Version, What: what, From: from, To: after.Status,
		At: now, Who: who, Evidence: e, Duties: duties,
	}}
}

// Tx is a transaction of the host's that a store takes part in. Each store makes it from its own kind of transaction.
type Tx interface {
	// ApplyTx runs a step inside the transaction and nowhere else: it is durable when the host commits. It never makes
	// the transaction fail because of what the slot holds.
	ApplyTx(ctx context.Context, step *Step) error
}

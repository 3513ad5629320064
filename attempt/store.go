package attempt

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/chargeonce/chargeonce/money"
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

	// TakeDue returns attempts, refunds among them, whose NextCheckAt has come, oldest first, at most limit, and moves their
	// NextCheckAt on by lease in the same transaction, so that no other reconciler takes them meanwhile. It changes nothing
	// else: no version, no event. With places it takes only attempts that belong to one of them. The cost follows the number
	// of open attempts, not of all.
	TakeDue(ctx context.Context, limit int, lease time.Duration, places ...Place) (View, error)

	// Briefs returns what is needed to recognise attempts by their ids, and attempts that a charge with one of the ids has
	// approved; in any order, and nothing for an id that is not known. At most 1,000 ids are given at once.
	Briefs(ctx context.Context, ids, chargeIDs []string) ([]Brief, error)

	// Sent yields, in any order and each once, the approved attempts of a place, refunds among them, that were sent from one
	// time to another, both included: what a report of that time should have. It is a method of its own because a report is
	// held against every attempt of its time: it reads no more of them than it yields, and asks for no index, which every
	// payment would have to write. What becomes approved, or is sent again, while it runs may be missing. After an error it
	// yields no more.
	Sent(ctx context.Context, place Place, from, to time.Time) iter.Seq2[Sent, error]

	// Notes returns what steps have kept with Step.Once, by id.
	Notes(ctx context.Context, filter NoteFilter) ([]Note, error)

	Outbox

	// Close waits for steps under way and releases the store. Steps given afterwards fail with ErrUnavailable.
	Close() error
}

// Filter selects attempts for [Store.List]; the zero Filter selects all.
type Filter struct {
	Open     bool     // only those that are prepared, sending or unknown
	Owing    bool     // only those with an open duty
	Statuses []Status // only these, if any
	Order    string   // only this order, if not empty
	Limit    int      // at most this many; zero: no limit
}

// Selects tells whether the filter lets an attempt through, its limit aside.
func (f Filter) Selects(a Attempt) bool {
	if f.Open && a.Status.Final() || f.Owing && !a.owes() {
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
	ClosedAt time.Time // when the slot was closed because the order was cancelled; zero: it takes payments
	Attempts []Attempt // the slot's payments, oldest first
	Refunds  []Attempt // and the refunds of those, oldest first
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

// Find returns the attempt with that id, a payment or a refund.
func (v View) Find(id string) (Attempt, bool) {
	for _, a := range v.Attempts {
		if a.ID == id {
			return a, true
		}
	}
	for _, a := range v.Refunds {
		if a.ID == id {
			return a, true
		}
	}
	return Attempt{}, false
}

// Add puts an attempt of the slot among the payments or the refunds: how a store fills a view.
func (v *View) Add(a Attempt) {
	if a.IsRefund() {
		v.Refunds = append(v.Refunds, a)
		return
	}
	v.Attempts = append(v.Attempts, a)
}

// Standing returns the payment that speaks for a slot: the live one, unless nothing of it has left, or is left, and another
// owes something; else one that owes something, or whose money stays; else the newest. ok is false where there is none.
func (v View) Standing() (a Attempt, ok bool) {
	a = v.standing()
	return a, a.ID != ""
}

func (v View) standing() Attempt {
	live, ok := v.Live()
	given := ok && live.Status == StatusApproved && live.Tell(v.Now).NotPaid // its money is gone
	if ok && live.Status != StatusPrepared && !given {
		return live
	}
	if owing, owed := owing(v); owed {
		return owing
	}
	if kept, ok := kept(v); ok {
		return kept
	}
	if ok {
		return live
	}
	if n := len(v.Attempts); n > 0 {
		return v.Attempts[n-1]
	}
	return Attempt{}
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

	// Once makes the step happen once: what it names is kept in the step's own commit, and a step that names the same ends
	// with [ErrSeen] and changes nothing. A step with neither Slot nor ID and no Do keeps only that: something that concerns
	// no attempt, as far as known. A later step of the same name that has an attempt happens all the same, and the note
	// then belongs to that attempt.
	Once *Once

	// Do decides what to write. It is pure but for variables of its own, and may run several times: the last run is the
	// one that counts. It must not call the store. Writing nothing is no error.
	Do func(View) ([]Write, error)

	Err error // set by Apply
}

// Decide runs the step on what its slot holds and checks what it wants to write, see [CheckWrites]: for stores. Its error is
// always a [StepError], also where Do has panicked.
func (s *Step) Decide(slot Slot, v View) (writes []Write, err error) {
	defer func() {
		if p := recover(); p != nil {
			writes, err = nil, &StepError{Err: fmt.Errorf("the step panicked: %v", p), Panicked: p}
		}
	}()
	writes, err = s.Do(v)
	if err == nil {
		err = CheckWrites(slot, v, writes)
	}
	if err != nil {
		return nil, &StepError{Err: err}
	}
	return writes, nil
}

// StepError is an error that a step has brought about itself: nothing was written for it, and other steps are not concerned.
type StepError struct {
	Err      error
	Panicked any // what Do panicked with, to be passed on to the caller whose step it is
}

func (e *StepError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *StepError) Unwrap() error { return e.Err }

// Write is one attempt's new state and the event that tells of it. Version 1 is inserted; any other replaces the version
// before it. The attempt is the step's: a store that keeps it keeps a copy.
type Write struct {
	Attempt *Attempt
	Event   Event

	// Closing closes the slot instead; Attempt and Event are empty then. A slot that was never seen is made by it.
	Closing *Closing
}

// Once names something that counts once, such as a webhook event by its id.
type Once struct {
	Scope string // what the id is unique in, such as the webhook's provider account
	ID    string
	Data  []byte // kept with it, at most 64 KiB; must hold nothing secret
}

// Note is what a step has kept with [Step].Once.
type Note struct {
	Once
	AttemptID string    // empty: no attempt was concerned
	At        time.Time // by the store's clock, UTC
}

// NoteFilter selects notes for [Store.Notes].
type NoteFilter struct {
	Scope     string
	Orphans   bool   // only those that concern no attempt
	AttemptID string // only this attempt's, if not empty
	After     string // only ids after this one: how to read on
	Limit     int    // at most this many; zero: 1,000
}

// Brief is what is needed to recognise an attempt.
type Brief struct {
	ID        string
	Reference string
	Slot      Slot
	Place     Place
	Amount    money.Amount
	Status    Status
	ChargeID  string // the charge that approved it
	Refund    RefundOf
}

// Sent is an attempt's id and when it was sent last, or stored if that is not known; UTC.
type Sent struct {
	ID string
	At time.Time
}

// Sent returns when the attempt was sent, as [Store].Sent tells it.
func (a *Attempt) Sent() Sent {
	if a.LastSentAt.IsZero() {
		return Sent{a.ID, a.CreatedAt}
	}
	return Sent{a.ID, a.LastSentAt}
}

// Brief returns the attempt's brief.
func (a *Attempt) Brief() Brief {
	return Brief{
		ID: a.ID, Reference: a.Reference, Slot: a.Slot, Place: a.Place(), Amount: a.Amount, Status: a.Status,
		ChargeID: a.ChargeID, Refund: a.Refund,
	}
}

// IDOf returns the id of the attempt that a reference of ours belongs to: its last 36 characters. Whether there is such an
// attempt, and whether the reference is really its own, is for the store to tell.
func IDOf(reference string) (id string, ok bool) {
	n := len(reference) - idLength
	if n < 0 {
		return "", false
	}
	id = reference[n:]
	for i := range len(id) {
		c := id[i]
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (c == '-') || !dash && !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return "", false
		}
	}
	return id, true
}

const idLength = 36 // of a UUID as text, RFC 9562 section 4

// Outbox is what a store offers to relays: for each relay that was added, every event of every attempt stands there from the
// commit of its own change until it was delivered.
type Outbox interface {
	// AddRelay makes sure that events stand in the outbox for the relay from now on. Adding it again changes nothing.
	AddRelay(ctx context.Context, relay string) error
	// RemoveRelay forgets the relay and all that stands in the outbox for it.
	RemoveRelay(ctx context.Context, relay string) error
	// TakeUndelivered returns undelivered events of at most limit attempts, those first whose first undelivered event is
	// oldest; of each attempt all, by version. For the time of lease no other caller gets events of these attempts.
	TakeUndelivered(ctx context.Context, relay string, limit int, lease time.Duration) ([]Event, error)
	// Delivered takes an attempt's events up to a version out of the relay's outbox. again is when others of it may be
	// taken: zero means at once.
	Delivered(ctx context.Context, relay, attemptID string, version int, again time.Duration) error
	// Lag tells how far a relay is behind.
	Lag(ctx context.Context, relay string) (RelayLag, error)
}

// RelayLag tells how far a relay is behind.
type RelayLag struct {
	Events int       // undelivered
	Oldest time.Time // when the oldest of them happened, by the store's clock; zero: none
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

package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

// eventOf is what makes a step happen once in these rules.
func eventOf(id string) *attempt.Once {
	return &attempt.Once{Scope: "webhook", ID: id, Data: []byte("told by " + id + " \x00\xff")}
}

// counts is a step that counts one on an attempt, once.
func counts(id string, once *attempt.Once) (*attempt.Step, *changer) {
	c := &changer{id: id, change: func(a *attempt.Attempt) { a.Asks++ }}
	step := c.step()
	step.Once = once
	return step, c
}

// wantNotes checks all that the filter selects.
func wantNotes(t *testing.T, store attempt.Store, f attempt.NoteFilter, want ...attempt.Note) {
	t.Helper()
	got, err := store.Notes(context.Background(), f)
	if err != nil || len(got) != len(want) {
		t.Errorf("%+v: %d notes, want %d: %v", f, len(got), len(want), err)
		return
	}
	for i, n := range got {
		w := want[i]
		if n.Scope != w.Scope || n.ID != w.ID || n.AttemptID != w.AttemptID || !bytes.Equal(n.Data, w.Data) {
			t.Errorf("%+v: note %d is %q %q of attempt %q with %q, want %q %q of %q with %q",
				f, i, n.Scope, n.ID, n.AttemptID, n.Data, w.Scope, w.ID, w.AttemptID, w.Data)
		}
		if now := now(context.Background(), t, store); n.At.IsZero() || n.At.After(now) || n.At.Location() != now.Location() {
			t.Errorf("%+v: note %d is of %s, now is %s", f, i, n.At, now)
		}
	}
}

func noteOf(once *attempt.Once, attemptID string) attempt.Note {
	return attempt.Note{Once: *once, AttemptID: attemptID}
}

func once(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	a := start(ctx, t, store, slot("1001"), to(attempt.StatusSending))
	all := attempt.NoteFilter{Scope: "webhook"}
	apply := func(what string, step *attempt.Step, want error) {
		t.Helper()
		if err := store.Apply(ctx, step); !errors.Is(err, want) || !errors.Is(step.Err, want) || want == nil && err != nil {
			t.Fatalf("%s: %v, the step's %v, want %v", what, err, step.Err, want)
		}
	}
	step, c := counts(a.ID, eventOf("1"))
	apply("the first time", step, nil)
	known := c.got
	wantNotes(t, store, all, noteOf(eventOf("1"), a.ID))
	for _, believed := range []bool{false, true} {
		step, _ = counts(a.ID, eventOf("1"))
		if believed {
			step.Guess = &known
		}
		apply("once more", step, attempt.ErrSeen)
		if errors.Is(step.Err, attempt.ErrUnavailable) {
			t.Errorf("what was seen is no failure of the store: %v", step.Err)
		}
	}
	wantSlot(t, store, a.Slot, known)
	wantVersions(ctx, t, store, a.ID, 2)

	// Another id, another scope; from memory, which is right or wrong.
	stale := known
	for _, o := range []*attempt.Once{eventOf("2"), {Scope: "webhook of another account", ID: "1"}} {
		step, c = counts(a.ID, o)
		step.Guess = &known
		if o.ID == "1" {
			step.Guess = &stale
		}
		apply("another", step, nil)
		known = c.got
	}
	if known.Asks != 3 {
		t.Errorf("counted %d, want 3", known.Asks)
	}
	wantSlot(t, store, a.Slot, known)
	wantNotes(t, store, all, noteOf(eventOf("1"), a.ID), noteOf(eventOf("2"), a.ID))

	// What fails has not happened, and happens the next time.
	why := errors.New("why not")
	for _, guess := range []*attempt.Attempt{nil, &known} {
		step, _ = counts(a.ID, eventOf("3"))
		step.Guess = guess
		do := step.Do
		step.Do = func(v attempt.View) ([]attempt.Write, error) {
			w, _ := do(v)
			return w, why
		}
		apply("a step that fails", step, why)
	}
	step, _ = counts("01890000-0000-7000-8000-000000000000", eventOf("3"))
	apply("a step without an attempt", step, attempt.ErrNotFound)
	step, _ = counts("01890000-0000-7000-8000-000000000000", eventOf("1"))
	apply("a step without an attempt, of an event that was seen", step, attempt.ErrNotFound)
	wantNotes(t, store, all, noteOf(eventOf("1"), a.ID), noteOf(eventOf("2"), a.ID))
	step, c = counts(a.ID, eventOf("3"))
	apply("a step that failed before", step, nil)
	known = c.got

	// One that writes nothing has happened too; so has one that starts.
	nothing := &attempt.Step{ID: a.ID, Once: eventOf("4"), Do: func(attempt.View) ([]attempt.Write, error) { return nil, nil }}
	apply("a step that writes nothing", nothing, nil)
	for _, fresh := range []bool{true, false} {
		b := &starter{slot: slot("1002")}
		begins := b.step()
		begins.Fresh, begins.Once = fresh, eventOf("5")
		want := attempt.ErrSeen
		if fresh {
			want = nil
		}
		apply("a start", begins, want)
	}
	wantSlot(t, store, a.Slot, known)

	// Two in one call are one after the other.
	x, _ := counts(a.ID, eventOf("6"))
	y, _ := counts(a.ID, eventOf("6"))
	z, _ := counts(a.ID, eventOf("7"))
	if err := store.Apply(ctx, x, y, z); !errors.Is(err, attempt.ErrSeen) || (x.Err == nil) == (y.Err == nil) || z.Err != nil {
		t.Errorf("together: %v and %v, beside them %v", x.Err, y.Err, z.Err)
	}
	if after, err := store.Attempt(ctx, a.ID); err != nil || after.Asks != known.Asks+2 {
		t.Errorf("counted %d, want %d: %v", after.Asks, known.Asks+2, err)
	}
}

func orphans(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	a := start(ctx, t, store, slot("1001"), to(attempt.StatusSending))
	for _, id := range []string{"1", "2"} {
		for n, want := range []error{nil, attempt.ErrSeen} {
			step := &attempt.Step{Once: eventOf(id)}
			if err := store.Apply(ctx, step); !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("an event without attempt, %d times before: %v, want %v", n, err, want)
			}
		}
	}
	none := attempt.NoteFilter{Scope: "webhook", Orphans: true}
	wantNotes(t, store, none, noteOf(eventOf("1"), ""), noteOf(eventOf("2"), ""))

	// A failing step does not take the orphan's place.
	why := errors.New("why not")
	failing := &attempt.Step{ID: a.ID, Once: eventOf("1"), Do: func(attempt.View) ([]attempt.Write, error) { return nil, why }}
	wantError(t, "failing step", store.Apply(ctx, failing), why)
	wantNotes(t, store, none, noteOf(eventOf("1"), ""), noteOf(eventOf("2"), ""))

	// Its attempt has come.
	later := eventOf("1")
	later.Data = []byte("told again")
	step, c := counts(a.ID, later)
	step.Guess = &a
	if err := store.Apply(ctx, step); err != nil {
		t.Fatalf("the event's attempt: %v", err)
	}
	wantSlot(t, store, a.Slot, c.got)
	if c.got.Asks != 1 {
		t.Errorf("counted %d, want 1", c.got.Asks)
	}
	wantNotes(t, store, none, noteOf(eventOf("2"), ""))
	wantNotes(t, store, attempt.NoteFilter{Scope: "webhook"}, noteOf(later, a.ID), noteOf(eventOf("2"), ""))
	again, _ := counts(a.ID, eventOf("1"))
	for _, step := range []*attempt.Step{again, {Once: eventOf("1")}} {
		wantError(t, "once more", store.Apply(ctx, step), attempt.ErrSeen)
	}
	wantVersions(ctx, t, store, a.ID, 2)
	wantNotes(t, store, attempt.NoteFilter{Scope: "webhook", AttemptID: a.ID}, noteOf(later, a.ID))
}

func onceAtOnce(t *testing.T, s *suite) {
	onceOnHandles(t, s.empty(t))
}

func onceOnTwoHandles(t *testing.T, s *suite) {
	open := s.database(t)
	onceOnHandles(t, closing(t, open(t)), closing(t, open(t)))
}

// onceOnHandles tells each of some events many times at once, turn by turn on each handle: to its attempt, to another one,
// and to none.
func onceOnHandles(t *testing.T, handles ...attempt.Store) {
	t.Helper()
	ctx, store := t.Context(), handles[0]
	const events, tellers = 12, 8
	var attempts [2]attempt.Attempt
	for i := range attempts {
		attempts[i] = start(ctx, t, store, slot(fmt.Sprint(i)), to(attempt.StatusSending))
	}
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for e := range events {
		for n := range tellers {
			a := attempts[n%2]
			step, _ := counts(a.ID, eventOf(fmt.Sprint(e)))
			switch n % 4 {
			case 1:
				step.Guess = &a
			case 2:
				step = &attempt.Step{Once: eventOf(fmt.Sprint(e))}
			}
			wg.Go(func() {
				<-gate
				if err := handles[n%len(handles)].Apply(ctx, step); err != nil && !errors.Is(err, attempt.ErrSeen) {
					t.Errorf("event %d: %v", e, err)
				}
			})
		}
	}
	close(gate)
	wg.Wait()
	counted := 0
	for _, a := range attempts {
		after, err := store.Attempt(ctx, a.ID)
		if err != nil {
			t.Error(err)
		}
		notes, err := store.Notes(ctx, attempt.NoteFilter{Scope: "webhook", AttemptID: a.ID})
		if err != nil || len(notes) != after.Asks {
			t.Errorf("%d events are noted as those of attempt %s, %d have counted: %v", len(notes), a.ID, after.Asks, err)
		}
		counted += after.Asks
	}
	if counted != events {
		t.Errorf("%d events have counted, want %d", counted, events)
	}
}

func transactionOnce(t *testing.T, s *suite) {
	store := s.empty(t)
	a := start(t.Context(), t, store, slot("1001"), to(attempt.StatusSending))
	undone := errors.New("undo it")
	all := attempt.NoteFilter{Scope: "webhook"}
	sl := slot("cancelled")
	err := s.inTx(store, func(ctx context.Context, tx attempt.Tx) error {
		step, _ := counts(a.ID, eventOf("1"))
		if err := errors.Join(tx.ApplyTx(ctx, step), tx.ApplyTx(ctx, &attempt.Step{Once: eventOf("2")}), tx.ApplyTx(ctx, closes(sl))); err != nil {
			return err
		}
		return undone
	})
	wantError(t, "a transaction that is rolled back", err, undone)
	wantNotes(t, store, all)
	wantSlot(t, store, a.Slot, a)
	if v, err := store.Slot(t.Context(), sl); err != nil || !v.ClosedAt.IsZero() {
		t.Errorf("a slot is closed by a transaction that was rolled back: %v", err)
	}
	var counted *changer
	err = s.inTx(store, func(ctx context.Context, tx attempt.Tx) error {
		var step, again *attempt.Step
		step, counted = counts(a.ID, eventOf("1"))
		again, _ = counts(a.ID, eventOf("1"))
		if err := errors.Join(tx.ApplyTx(ctx, step), tx.ApplyTx(ctx, &attempt.Step{Once: eventOf("2")}), tx.ApplyTx(ctx, closes(sl))); err != nil {
			return err
		}
		wantError(t, "once more in the transaction", tx.ApplyTx(ctx, again), attempt.ErrSeen) // and that does it no harm
		wantError(t, "and its Err", again.Err, attempt.ErrSeen)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantNotes(t, store, all, noteOf(eventOf("1"), a.ID), noteOf(eventOf("2"), ""))
	wantSlot(t, store, a.Slot, counted.got)
	wantClosed(t, store, sl)
}

func notes(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	a := start(ctx, t, store, slot("1001"), nil)
	var steps []*attempt.Step
	var all []attempt.Note
	keep := func(scope, id, attemptID string, data []byte) {
		o := &attempt.Once{Scope: scope, ID: id, Data: data}
		steps = append(steps, &attempt.Step{ID: attemptID, Once: o})
		all = append(all, noteOf(o, attemptID))
	}
	for i := range 1003 {
		id := ""
		if i%3 == 0 {
			id = a.ID
		}
		keep("webhook", fmt.Sprint("evt_", i*7919%1003), id, []byte(fmt.Sprint("event ", i)))
	}
	keep("webhook", "Z", "", nil)
	keep("webhook", "\u00fc' \\ %", a.ID, bytes.Repeat([]byte{0, 1, 0xff, '"'}, 16<<10))
	keep("webhook2", "evt_1", a.ID, []byte("another scope"))
	keep("", "evt_1", "", []byte("no scope"))
	if err := store.Apply(ctx, steps...); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b attempt.Note) int { return bytes.Compare([]byte(a.ID), []byte(b.ID)) })
	for _, f := range []attempt.NoteFilter{
		{Scope: "webhook"}, {Scope: "webhook", Limit: 5}, {Scope: "webhook", Limit: 2000}, {Scope: "webhook", After: "evt_5", Limit: 30},
		{Scope: "webhook", After: "evt_5x"}, {Scope: "webhook", After: "\u00fc' \\ %"}, {Scope: "webhook2"}, {}, {Scope: "unknown"},
		{Scope: "webhook", Orphans: true, Limit: 40}, {Scope: "webhook", Orphans: true, After: "evt_9"},
		{Scope: "webhook", AttemptID: a.ID, Limit: 7}, {Scope: "webhook", AttemptID: a.ID, After: "evt_99"},
		{Scope: "webhook", AttemptID: "unknown"}, {Scope: "webhook", AttemptID: a.ID, Orphans: true},
	} {
		limit := f.Limit
		if limit == 0 {
			limit = 1000
		}
		var want []attempt.Note
		for _, n := range all {
			if n.Scope == f.Scope && n.ID > f.After && (!f.Orphans || n.AttemptID == "") && (f.AttemptID == "" || n.AttemptID == f.AttemptID) && len(want) < limit {
				want = append(want, n)
			}
		}
		wantNotes(t, store, f, want...)
	}
	// Page by page.
	seen := 0
	for f := (attempt.NoteFilter{Scope: "webhook", Limit: 100}); seen <= 1005; {
		page, err := store.Notes(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		if seen += len(page); len(page) < f.Limit {
			break
		}
		f.After = page[len(page)-1].ID
	}
	if seen != 1005 {
		t.Errorf("page by page there are %d notes, want 1005", seen)
	}
}

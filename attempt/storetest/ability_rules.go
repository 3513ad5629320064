package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

func clockBackwards(t *testing.T, s *suite) {
	clock := time.Date(2026, 10, 25, 2, 59, 0, 123456789, time.FixedZone("summer", 7200))
	store := closing(t, s.clock(t, func() time.Time { return clock }))
	ctx := t.Context()
	cut := func() time.Time { return clock.UTC().Truncate(time.Microsecond) }

	first := start(ctx, t, store, slot("1001"), nil)
	if !first.CreatedAt.Equal(cut()) {
		t.Errorf("created at %s, the clock says %s", first.CreatedAt, cut())
	}
	clock = clock.Add(-48 * time.Hour)
	second := start(ctx, t, store, slot("1002"), nil)
	if !second.CreatedAt.Equal(cut()) || !now(ctx, t, store).Equal(cut()) {
		t.Errorf("created at %s, the clock says %s", second.CreatedAt, cut())
	}
	first = change(ctx, t, store, first.ID, to(attempt.StatusSending))
	wantVersions(ctx, t, store, first.ID, 2)
	wantSlot(t, store, first.Slot, first)
	if got := ids(collect(t, store.List(ctx, attempt.Filter{}))); !slices.Equal(got, []string{first.ID, second.ID}) {
		t.Errorf("the list follows the clock: %v", got)
	}
	// What is due follows the clock as it is now.
	if v, err := store.TakeDue(ctx, 10, time.Hour); err != nil || len(v.Attempts) != 0 {
		t.Errorf("%d due, %v", len(v.Attempts), err)
	}
	clock = second.NextCheckAt
	v, err := store.TakeDue(ctx, 10, time.Hour)
	if err != nil || !slices.Equal(ids(v.Attempts), []string{second.ID}) || !v.Now.Equal(cut()) {
		t.Errorf("due %v at %s, %v", ids(v.Attempts), v.Now, err)
	}
	events, err := store.Events(ctx, first.ID)
	if err != nil || len(events) != 2 || !events[1].At.Before(events[0].At) {
		t.Errorf("events %+v, %v: want the clock's times, in the order of versions", events, err)
	}
}

func reopened(t *testing.T, s *suite) {
	ctx := t.Context()
	open := s.database(t)
	store := open(t)
	f := &filler{}
	base := now(ctx, t, store)
	full := start(ctx, t, store, slot("1001"), func(a *attempt.Attempt) { f.attempt(a); a.Status = attempt.StatusSending })
	var event attempt.Event
	c := &changer{id: full.ID,
		change: func(a *attempt.Attempt) {
			f.attempt(a)
			a.Status, a.NextCheckAt = attempt.StatusUnknown, base.Add(-time.Minute)
		},
		event: func(e *attempt.Event) { f.event(e); event = *e },
	}
	if err := store.Apply(ctx, c.guess(full)); err != nil {
		t.Fatal(err)
	}
	full = c.got
	declined := start(ctx, t, store, slot("1002"), nil)
	declined = change(ctx, t, store, declined.ID, to(attempt.StatusDeclined))
	charge := paid(ctx, t, store, slot("1003"), 1000)
	if err := store.AddRelay(ctx, "host"); err != nil {
		t.Fatal(err)
	}
	back := refund(ctx, t, store, charge, "1", 100)
	seen, _ := counts(charge.ID, eventOf("1"))
	if err := store.Apply(ctx, closes(slot("never seen")), &attempt.Step{ID: charge.ID, Once: eventOf("1")}); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	store = closing(t, open(t))
	wantMoney(t, store, []attempt.Attempt{charge}, []attempt.Attempt{back})
	wantClosed(t, store, slot("never seen"))
	wantNotes(t, store, attempt.NoteFilter{Scope: "webhook"}, noteOf(eventOf("1"), charge.ID))
	wantError(t, "an event seen before", store.Apply(ctx, seen), attempt.ErrSeen)
	wantTaken(t, store, "host", 10, time.Hour, "1003 1")
	wantSlot(t, store, full.Slot, full)
	wantSlot(t, store, declined.Slot, declined)
	wantVersions(ctx, t, store, full.ID, 2)
	events, err := store.Events(ctx, full.ID)
	if err != nil || len(events) != 2 {
		t.Fatal(len(events), err)
	}
	wantSame(t, "event", events[1], event)
	second := &starter{slot: full.Slot}
	if err := store.Apply(ctx, second.step()); err != nil || second.started {
		t.Errorf("the live attempt was forgotten: started %v, %v", second.started, err)
	}
	if v, err := store.TakeDue(ctx, 10, time.Hour); err != nil || !slices.Equal(ids(v.Attempts), []string{full.ID}) {
		t.Errorf("due %v, %v", ids(v.Attempts), err)
	}
}

func twoHandles(t *testing.T, s *suite) {
	ctx := t.Context()
	open := s.database(t)
	a, b := closing(t, open(t)), closing(t, open(t))
	startOnHandles(t, a, b)
	takeOnHandles(t, a, b)

	// What one has written the other sees, and does not overwrite.
	known := start(ctx, t, a, slot("1002"), nil)
	newer := change(ctx, t, b, known.ID, to(attempt.StatusSending))
	c := &changer{id: known.ID, change: to(attempt.StatusUnknown)}
	if err := a.Apply(ctx, c.guess(known)); err != nil {
		t.Fatal(err)
	}
	if c.got.Version != newer.Version+1 {
		t.Errorf("version %d after %d", c.got.Version, newer.Version)
	}
	wantSlot(t, b, known.Slot, c.got)

	// Both at once, on the same attempts.
	done := make(chan error, 2)
	for _, store := range []attempt.Store{a, b} {
		go func() {
			for range 50 {
				c := &changer{id: known.ID, change: func(a *attempt.Attempt) { a.Asks++ }}
				if err := store.Apply(ctx, c.step()); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	wantVersions(ctx, t, a, known.ID, c.got.Version+100)
}

func transaction(t *testing.T, s *suite) {
	store := s.empty(t)
	sl := slot("1001")
	undone := errors.New("undo it")
	began := &starter{slot: sl}
	err := s.inTx(store, func(ctx context.Context, tx attempt.Tx) error {
		if err := tx.ApplyTx(ctx, began.step()); err != nil || !began.started {
			return fmt.Errorf("ApplyTx: started %v, %w", began.started, err)
		}
		return undone
	})
	wantError(t, "a transaction that is rolled back", err, undone)
	wantSlot(t, store, sl)

	var inside attempt.Attempt
	err = s.inTx(store, func(ctx context.Context, tx attempt.Tx) error {
		began = &starter{slot: sl}
		if err := tx.ApplyTx(ctx, began.step()); err != nil || !began.started {
			return fmt.Errorf("ApplyTx: started %v, %w", began.started, err)
		}
		c := &changer{id: began.got.ID, change: to(attempt.StatusSending)}
		step := c.guess(began.got)
		if err := tx.ApplyTx(ctx, step); err != nil || step.Err != nil {
			return fmt.Errorf("ApplyTx: %w, %w", err, step.Err)
		}
		inside = c.got
		if v, err := store.Slot(t.Context(), sl); err != nil || len(v.Attempts) != 0 {
			return fmt.Errorf("outside %d attempts are seen before the commit: %w", len(v.Attempts), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantSlot(t, store, sl, inside)
	wantVersions(t.Context(), t, store, inside.ID, 2)
	if v, err := store.TakeDue(t.Context(), 1, time.Hour); err != nil || len(v.Attempts) != 0 {
		t.Errorf("%d due, %v", len(v.Attempts), err)
	}
}

func transactionDuplicate(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	a := start(ctx, t, store, slot("1001"), nil)
	why := errors.New("why not")
	other := &starter{slot: slot("1002")}
	err := s.inTx(store, func(ctx context.Context, tx attempt.Tx) error {
		again := &starter{slot: a.Slot}
		step := again.step()
		step.Fresh = true
		if err := tx.ApplyTx(ctx, step); err != nil || again.started || again.got.ID != a.ID {
			return fmt.Errorf("the duplicate: started %v, attempt %s, %w", again.started, again.got.ID, err)
		}
		// A step that fails, is refused or finds nothing leaves the transaction as it was.
		failing := &attempt.Step{Slot: slot("1003"), Do: func(attempt.View) ([]attempt.Write, error) { return nil, why }}
		wantError(t, "failing step", tx.ApplyTx(ctx, failing), why)
		wantError(t, "its Err", failing.Err, why)
		beside := &attempt.Step{Slot: a.Slot, Do: func(v attempt.View) ([]attempt.Write, error) {
			return []attempt.Write{begin(mint(a.Slot, 2, v.Now), v.Now)}, nil
		}}
		if err := tx.ApplyTx(ctx, beside); err == nil {
			t.Error("a second live attempt was written")
		}
		missing := &changer{id: "01890000-0000-7000-8000-000000000000"}
		wantError(t, "unknown attempt", tx.ApplyTx(ctx, missing.step()), attempt.ErrNotFound)
		return tx.ApplyTx(ctx, other.step())
	})
	if err != nil {
		t.Fatal(err)
	}
	wantSlot(t, store, a.Slot, a)
	wantSlot(t, store, other.slot, other.got)
	wantSlot(t, store, slot("1003"))
}

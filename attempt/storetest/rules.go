package storetest

import (
	"errors"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

var rules = []rule{
	{"start twice", "a restart must find the first attempt, not pay again", "", startTwice},
	{"not found", "an unknown id must be told from a store that cannot be read", "", notFound},
	{"closed", "a store that is closed must not pretend to know anything", "", closed},
}

func startTwice(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	for _, believed := range []bool{false, true} {
		sl := slot("1001")
		if believed {
			sl = slot("1002")
		}
		first, second := &starter{slot: sl}, &starter{slot: sl}
		a, b := first.step(), second.step()
		if believed {
			a, b = first.fresh(), second.fresh()
		}
		if err := store.Apply(ctx, a); err != nil {
			t.Fatal(err)
		}
		if err := store.Apply(ctx, b); err != nil {
			t.Fatal(err)
		}
		if !first.started || second.started || first.got.ID != second.got.ID {
			t.Errorf("first started %v, second %v: attempts %s and %s", first.started, second.started, first.got.ID, second.got.ID)
		}
		v, err := store.Slot(ctx, sl)
		if err != nil || len(v.Attempts) != 1 {
			t.Errorf("the slot holds %d attempts: %v", len(v.Attempts), err)
		}
	}
}

func notFound(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	const id = "01890000-0000-7000-8000-000000000000"
	_, err := store.Attempt(ctx, id)
	wantError(t, "Attempt", err, attempt.ErrNotFound)
	_, err = store.Events(ctx, id)
	wantError(t, "Events", err, attempt.ErrNotFound)
	err = store.Apply(ctx, &attempt.Step{ID: id, Do: func(attempt.View) ([]attempt.Write, error) {
		t.Error("Do was run for an attempt that does not exist")
		return nil, nil
	}})
	wantError(t, "Apply", err, attempt.ErrNotFound)
	v, err := store.Slot(ctx, slot("1001"))
	if err != nil || len(v.Attempts) != 0 || v.Now.IsZero() {
		t.Errorf("Slot of a slot never seen: %+v, %v", v, err)
	}
}

func closed(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.open(t)
	a := start(ctx, t, store, slot("1001"), nil)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	_, err := store.Attempt(ctx, a.ID)
	wantError(t, "Attempt", err, attempt.ErrUnavailable)
	_, err = store.Events(ctx, a.ID)
	wantError(t, "Events", err, attempt.ErrUnavailable)
	_, err = store.Slot(ctx, a.Slot)
	wantError(t, "Slot", err, attempt.ErrUnavailable)
	_, err = store.TakeDue(ctx, 10, 0)
	wantError(t, "TakeDue", err, attempt.ErrUnavailable)
	wantError(t, "Apply", store.Apply(ctx, (&starter{slot: a.Slot}).step()), attempt.ErrUnavailable)
	n := 0
	for _, err := range store.List(ctx, attempt.Filter{}) {
		wantError(t, "List", err, attempt.ErrUnavailable)
		n++
	}
	if n != 1 {
		t.Errorf("List yielded %d times, want one error", n)
	}
}

func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: error %v, want one that matches %q", what, got, want)
	}
}

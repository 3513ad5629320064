package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

func clockSetBack(t *testing.T, s *suite) {
	var micros atomic.Int64
	set := func(at time.Time) { micros.Store(at.UnixMicro()) }
	told := time.Date(2026, 10, 25, 2, 59, 0, 0, time.UTC)
	set(told)
	store := closing(t, s.clock(t, func() time.Time { return time.UnixMicro(micros.Load()) }))
	a := start(t.Context(), t, store, slot("1001"), func(a *attempt.Attempt) { a.NextCheckAt = told.Add(-24 * time.Hour) })
	wantTimes(t, s, store, a, told, told)

	back := told.Add(-3 * time.Hour)
	set(back)
	wantTimes(t, s, store, a, back, told)
	// A clock that has caught up is as good as before.
	later := told.Add(time.Microsecond)
	set(later)
	wantTimes(t, s, store, a, later, later)

	if s.has(Database) {
		latestIsShared(t, s)
	} else {
		t.Logf("LEFT OUT: the latest time after reopening: %s", s.without[Database])
	}
}

// latestIsShared stands for a clock that was set back between two handles, or while none was open: what one has written
// is later than what the others' clock tells.
func latestIsShared(t *testing.T, s *suite) {
	ctx := t.Context()
	open := s.database(t)
	first, second := open(t), closing(t, open(t))
	told := now(ctx, t, first).Add(3 * time.Hour)
	a := start(ctx, t, first, slot("1001"), nil)
	ahead := &attempt.Step{ID: a.ID, Do: func(v attempt.View) ([]attempt.Write, error) {
		after := v.Attempts[0]
		return []attempt.Write{put(a, &after, attempt.WhatLearnt, told)}, nil
	}}
	if err := first.Apply(ctx, ahead); err != nil {
		t.Fatal(err)
	}
	seen := func(what string, store attempt.Store, sl attempt.Slot) {
		t.Helper()
		if v, err := store.Slot(ctx, sl); err != nil || !v.Now.Before(v.Latest) || v.Latest.Before(told) {
			t.Errorf("%s: now %s, latest %s, want at least %s: %v", what, v.Now, v.Latest, told, err)
		}
	}
	seen("another handle that has read it", second, a.Slot)
	seen("and another slot", second, slot("1002"))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	seen("reopened", closing(t, open(t)), slot("1002"))
}

func clockRuns(t *testing.T, s *suite) {
	base := time.Date(2026, 10, 25, 2, 59, 0, 0, time.UTC)
	var ticks atomic.Int64
	store := closing(t, s.clock(t, func() time.Time { return base.Add(time.Duration(ticks.Add(1)) * time.Microsecond) }))
	ctx := t.Context()
	var wrong atomic.Int64
	check := func(v attempt.View) {
		if v.Now.Before(v.Latest) {
			wrong.Add(1)
		}
	}
	known := start(ctx, t, store, slot("shared"), nil)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 50 {
				fresh := &starter{slot: slot(fmt.Sprint(n, " ", i))}
				c := &changer{id: known.ID, change: func(a *attempt.Attempt) { a.Asks++ }}
				for _, step := range []*attempt.Step{{Slot: fresh.slot, Fresh: true, Do: fresh.do}, c.step(), c.guess(known)} {
					do := step.Do
					step.Do = func(v attempt.View) ([]attempt.Write, error) { check(v); return do(v) }
					if err := store.Apply(ctx, step); err != nil {
						t.Error(err)
						return
					}
				}
				v, err := store.Slot(ctx, known.Slot)
				if err != nil {
					t.Error(err)
					return
				}
				check(v)
				if v, err = store.TakeDue(ctx, 10, time.Hour); err != nil {
					t.Error(err)
					return
				}
				check(v)
			}
		})
	}
	wg.Wait()
	if n := wrong.Load(); n > 0 {
		t.Errorf("%d views tell of a clock that was set back", n)
	}
}

// wantTimes checks a view of each kind that the store gives. a is due, and stays so.
func wantTimes(t *testing.T, s *suite, store attempt.Store, a attempt.Attempt, now, latest time.Time) {
	t.Helper()
	ctx := t.Context()
	check := func(view string, v attempt.View) {
		t.Helper()
		if !v.Now.Equal(now) || !v.Latest.Equal(latest) || v.Latest.Location() != time.UTC {
			t.Errorf("%s: now %s, latest %s, want %s and %s", view, v.Now, v.Latest, now, latest)
		}
	}
	steps := map[string]func() *attempt.Step{
		"a slot":       func() *attempt.Step { return &attempt.Step{Slot: a.Slot} },
		"an empty one": func() *attempt.Step { return &attempt.Step{Slot: slot("never seen")} },
		"fresh":        func() *attempt.Step { return &attempt.Step{Slot: slot("never seen"), Fresh: true} },
		"an id":        func() *attempt.Step { return &attempt.Step{ID: a.ID} },
		"a guess":      func() *attempt.Step { return &attempt.Step{ID: a.ID, Guess: &a} },
	}
	for name, step := range steps {
		views := 0
		doing := func() *attempt.Step {
			step := step()
			step.Do = func(v attempt.View) ([]attempt.Write, error) {
				views++
				check(name, v)
				return nil, nil
			}
			return step
		}
		if err := store.Apply(ctx, doing()); err != nil || views == 0 {
			t.Errorf("%s: %d views, %v", name, views, err)
		}
		if !s.has(Transactions) {
			continue
		}
		views = 0
		err := s.inTx(store, func(ctx context.Context, tx attempt.Tx) error { return tx.ApplyTx(ctx, doing()) })
		if err != nil || views == 0 {
			t.Errorf("%s, in a transaction: %d views, %v", name, views, err)
		}
	}
	v, err := store.Slot(ctx, a.Slot)
	if err != nil {
		t.Fatal(err)
	}
	check("Slot", v)
	if v, err = store.TakeDue(ctx, 1, -24*time.Hour); err != nil || len(v.Attempts) == 0 {
		t.Fatalf("%d due: %v", len(v.Attempts), err)
	}
	check("TakeDue", v)
}

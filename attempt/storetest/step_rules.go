package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

func staleGuess(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	old := start(ctx, t, store, slot("1001"), to(attempt.StatusSending))
	change(ctx, t, store, old.ID, func(a *attempt.Attempt) { a.Reason = "learnt meanwhile" })
	c := &changer{id: old.ID, change: func(a *attempt.Attempt) { a.Asks++ }}
	step := c.guess(old)
	if err := store.Apply(ctx, step); err != nil || step.Err != nil {
		t.Fatal(err, step.Err)
	}
	if n := len(c.seen); n == 0 || c.seen[n-1] != 2 {
		t.Errorf("Do ran on versions %v, want 2 last", c.seen)
	}
	if c.got.Reason != "learnt meanwhile" || c.got.Version != 3 {
		t.Errorf("version %d, reason %q: what was learnt meanwhile is gone", c.got.Version, c.got.Reason)
	}
	wantSlot(t, store, old.Slot, c.got)
	wantVersions(ctx, t, store, old.ID, 3)

	// A guess at an attempt that is not the slot's only one.
	ended := start(ctx, t, store, slot("1002"), nil)
	ended = change(ctx, t, store, ended.ID, to(attempt.StatusDeclined))
	live := start(ctx, t, store, slot("1002"), nil)
	c = &changer{id: ended.ID, change: func(a *attempt.Attempt) { a.Reason = "late news" }}
	if err := store.Apply(ctx, c.guess(ended)); err != nil {
		t.Fatal(err)
	}
	wantSlot(t, store, slot("1002"), c.got, live)
}

func guessOfLeased(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	past := now(ctx, t, store).Add(-time.Hour)
	known := start(ctx, t, store, slot("1001"), func(a *attempt.Attempt) { a.Status, a.NextCheckAt = attempt.StatusSending, past })
	v, err := store.TakeDue(ctx, 1, time.Hour)
	if err != nil || len(v.Attempts) != 1 {
		t.Fatalf("%d due: %v", len(v.Attempts), err)
	}
	c := &changer{id: known.ID, change: to(attempt.StatusUnknown)}
	if err := store.Apply(ctx, c.guess(known)); err != nil {
		t.Fatal(err)
	}
	after, err := store.Attempt(ctx, known.ID)
	if err != nil || !after.NextCheckAt.Equal(v.Attempts[0].NextCheckAt) {
		t.Errorf("due at %s, leased until %s: %v", after.NextCheckAt, v.Attempts[0].NextCheckAt, err)
	}
	if v, err := store.TakeDue(ctx, 1, time.Hour); err != nil || len(v.Attempts) != 0 {
		t.Errorf("taken twice: %v", err)
	}
}

func falseGuess(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	other := start(ctx, t, store, slot("1001"), nil)
	ghost := mint(slot("1002"), 1, other.CreatedAt)
	ghost.Version = 1
	c := &changer{id: ghost.ID}
	wantError(t, "guess of an attempt that is not there", store.Apply(ctx, c.guess(ghost)), attempt.ErrNotFound)
	wantSlot(t, store, slot("1002"))

	// Fresh, where the slot has a history without a live attempt.
	ended := change(ctx, t, store, other.ID, to(attempt.StatusDeclined))
	next := &starter{slot: other.Slot}
	step := next.step()
	step.Fresh = true
	if err := store.Apply(ctx, step); err != nil {
		t.Fatal(err)
	}
	if next.got.Ordinal != 2 {
		t.Errorf("ordinal %d, want 2", next.got.Ordinal)
	}
	wantSlot(t, store, other.Slot, ended, next.got)
}

func decisionNotToWrite(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	a := start(ctx, t, store, slot("1001"), nil)
	b := change(ctx, t, store, a.ID, to(attempt.StatusSending))
	for name, step := range map[string]*attempt.Step{
		"fresh": {Slot: a.Slot, Fresh: true}, "guess": {ID: a.ID, Guess: &a},
	} {
		for _, fail := range []error{nil, errors.New("not this time")} {
			var seen attempt.View
			step := *step
			step.Do = func(v attempt.View) ([]attempt.Write, error) { seen = v; return nil, fail }
			if err := store.Apply(ctx, &step); !errors.Is(err, fail) {
				t.Errorf("%s: error %v, want %v", name, err, fail)
			}
			if len(seen.Attempts) != 1 || seen.Attempts[0].Version != b.Version {
				t.Errorf("%s, error %v: decided on %+v, stored is version %d", name, fail, seen.Attempts, b.Version)
			}
		}
	}
}

func failedStep(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	a := start(ctx, t, store, slot("1001"), nil)
	why := errors.New("why not")
	steps := map[string]*attempt.Step{
		"started": {Slot: slot("1002")}, "started fresh": {Slot: slot("1003"), Fresh: true},
		"changed": {ID: a.ID}, "changed from memory": {ID: a.ID, Guess: &a, Outcome: true},
	}
	for name, step := range steps {
		step.Do = func(v attempt.View) ([]attempt.Write, error) {
			if step.ID != "" {
				after := a
				return []attempt.Write{put(a, &after, attempt.WhatLearnt, v.Now)}, why
			}
			return []attempt.Write{begin(mint(step.Slot, 1, v.Now), v.Now)}, why
		}
		err := store.Apply(ctx, step)
		if !errors.Is(err, why) || !errors.Is(step.Err, why) || errors.Is(err, attempt.ErrUnavailable) {
			t.Errorf("%s: error %v, step's %v, want only %v", name, err, step.Err, why)
		}
	}
	wantSlot(t, store, a.Slot, a)
	wantSlot(t, store, slot("1002"))
	wantSlot(t, store, slot("1003"))
	wantVersions(ctx, t, store, a.ID, 1)
}

func oneFails(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	why := errors.New("why not")
	bad := func() *attempt.Step {
		return &attempt.Step{Slot: slot("bad"), Do: func(attempt.View) ([]attempt.Write, error) { return nil, why }}
	}
	good := []*starter{{slot: slot("1001")}, {slot: slot("1002")}, {slot: slot("1003")}}
	missing := &attempt.Step{ID: "01890000-0000-7000-8000-000000000000", Do: (&changer{}).do}
	failing := bad()
	steps := []*attempt.Step{good[0].step(), failing, good[1].step(), missing, good[2].step()}
	err := store.Apply(ctx, steps...)
	if !errors.Is(err, why) || !errors.Is(err, attempt.ErrNotFound) {
		t.Errorf("error %v, want both failures", err)
	}
	wantError(t, "the failing step", failing.Err, why)
	wantError(t, "the step without attempt", missing.Err, attempt.ErrNotFound)
	for i, g := range good {
		if steps[2*i].Err != nil || !g.started {
			t.Errorf("step %d: %v", i, steps[2*i].Err)
		}
		wantSlot(t, store, g.slot, g.got)
	}

	// And of concurrent callers.
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			if i%3 == 0 {
				if err := store.Apply(ctx, bad()); !errors.Is(err, why) {
					t.Errorf("failing step: %v", err)
				}
				return
			}
			b := &starter{slot: slot(fmt.Sprint("beside ", i))}
			if err := store.Apply(ctx, b.step()); err != nil || !b.started {
				t.Errorf("step beside failing ones: %v", err)
			}
		})
	}
	wg.Wait()
}

func refusedWrites(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	a := start(ctx, t, store, slot("1001"), to(attempt.StatusSending))
	end := start(ctx, t, store, slot("1002"), nil)
	end = change(ctx, t, store, end.ID, to(attempt.StatusApproved))
	for name, spoil := range map[string]func(w *attempt.Write){
		"another key":          func(w *attempt.Write) { w.Attempt.Key += "x" },
		"another reference":    func(w *attempt.Write) { w.Attempt.Reference += "x" },
		"another amount":       func(w *attempt.Write) { w.Attempt.Amount = amounts[0] },
		"another source":       func(w *attempt.Write) { w.Attempt.Source.Sum += "x" },
		"another provider":     func(w *attempt.Write) { w.Attempt.Provider += "x" },
		"another slot":         func(w *attempt.Write) { w.Attempt.Slot.Order = "1003" },
		"a version left out":   func(w *attempt.Write) { w.Attempt.Version++; w.Event.Version++ },
		"the same version":     func(w *attempt.Write) { w.Attempt.Version--; w.Event.Version-- },
		"an event of another":  func(w *attempt.Write) { w.Event.AttemptID = end.ID },
		"an event that is off": func(w *attempt.Write) { w.Event.To = attempt.StatusApproved },
	} {
		for _, believed := range []bool{false, true} {
			step := &attempt.Step{ID: a.ID, Do: func(v attempt.View) ([]attempt.Write, error) {
				before, _ := v.Find(a.ID)
				after := before
				w := put(before, &after, attempt.WhatLearnt, v.Now)
				spoil(&w)
				return []attempt.Write{w}, nil
			}}
			if believed {
				step.Guess = &a
			}
			if err := store.Apply(ctx, step); err == nil {
				t.Errorf("%s was written", name)
			}
		}
	}
	undo := &changer{id: end.ID, change: to(attempt.StatusUnknown)}
	if err := store.Apply(ctx, undo.guess(end)); err == nil {
		t.Error("an end was undone")
	}
	wantSlot(t, store, a.Slot, a)
	wantSlot(t, store, end.Slot, end)
	wantVersions(ctx, t, store, a.ID, 1)
}

func stepsTogether(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	if err := store.Apply(ctx); err != nil {
		t.Errorf("no steps: %v", err)
	}
	// The same slot twice in one call: the second sees the first.
	first, second := &starter{slot: slot("1001")}, &starter{slot: slot("1001")}
	a, b := first.step(), second.step()
	a.Fresh, b.Fresh = true, true
	if err := store.Apply(ctx, a, b); err != nil {
		t.Fatal(err)
	}
	if first.started == second.started || first.got.ID != second.got.ID {
		t.Errorf("started %v and %v, attempts %s and %s", first.started, second.started, first.got.ID, second.got.ID)
	}
	known := first.got
	wantSlot(t, store, known.Slot, known)
	x, y := &changer{id: known.ID, change: func(a *attempt.Attempt) { a.Asks++ }}, &changer{id: known.ID, change: func(a *attempt.Attempt) { a.Asks++ }}
	if err := store.Apply(ctx, x.guess(known), y.guess(known)); err != nil {
		t.Fatal(err)
	}
	got, err := store.Attempt(ctx, known.ID)
	if err != nil || got.Asks != 2 || got.Version != 3 {
		t.Errorf("%d asks at version %d, want 2 at 3: %v", got.Asks, got.Version, err)
	}
	wantVersions(ctx, t, store, known.ID, 3)

	// Many.
	const n = 400
	many := make([]*starter, n)
	steps := make([]*attempt.Step, n)
	for i := range many {
		many[i] = &starter{slot: slot(fmt.Sprint("many ", i))}
		steps[i] = many[i].step()
		steps[i].Fresh = i%2 == 0
	}
	if err := store.Apply(ctx, steps...); err != nil {
		t.Fatal(err)
	}
	for _, m := range many {
		if !m.started {
			t.Errorf("%s was not started", m.slot)
		}
	}
	if got := len(collect(t, store.List(ctx, attempt.Filter{}))); got != n+1 {
		t.Errorf("%d attempts, want %d", got, n+1)
	}
}

func outcomesFirst(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	a := start(ctx, t, store, slot("1001"), to(attempt.StatusSending))
	var mu sync.Mutex
	var order []string
	step := func(name string, outcome bool, ended func(attempt.View) ([]attempt.Write, error)) *attempt.Step {
		return &attempt.Step{ID: a.ID, Outcome: outcome, Do: func(v attempt.View) ([]attempt.Write, error) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, name)
			return ended(v)
		}}
	}
	nothing := func(attempt.View) ([]attempt.Write, error) { return nil, nil }
	outcome := &changer{id: a.ID, change: to(attempt.StatusApproved)}
	if err := store.Apply(ctx, step("start", false, nothing), step("outcome", true, outcome.do), step("start", false, nothing)); err != nil {
		t.Fatal(err)
	}
	if want := []string{"outcome", "start", "start"}; !slices.Equal(order, want) {
		t.Errorf("ran in the order %v, want %v", order, want)
	}
}

func panickingStep(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	a := start(ctx, t, store, slot("1001"), nil)
	for name, step := range map[string]*attempt.Step{
		"loaded": {ID: a.ID}, "from memory": {ID: a.ID, Guess: &a, Outcome: true}, "fresh": {Slot: slot("1002"), Fresh: true},
	} {
		step.Do = func(attempt.View) ([]attempt.Write, error) { panic("a bug") }
		func() {
			defer func() {
				if p := recover(); p != "a bug" {
					t.Errorf("%s: recovered %v, want the step's own panic", name, p)
				}
			}()
			err := store.Apply(ctx, step)
			t.Errorf("%s: Apply returned %v", name, err)
		}()
	}
	wantSlot(t, store, a.Slot, a)
	start(ctx, t, store, slot("1002"), nil) // the store goes on
}

func noRunAfterReturn(t *testing.T, s *suite) {
	store := s.empty(t)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			var returned atomic.Bool
			b := &starter{slot: slot(fmt.Sprint(i))}
			step := b.step()
			step.Fresh = i%2 == 0
			step.Do = func(v attempt.View) ([]attempt.Write, error) {
				if returned.Load() {
					t.Error("Do ran after Apply had returned")
				}
				if i%4 == 0 {
					cancel() // the caller gives up while its step runs
				}
				return b.do(v)
			}
			err := store.Apply(ctx, step)
			returned.Store(true)
			cancel()
			if err != nil && !errors.Is(err, attempt.ErrUnavailable) {
				t.Errorf("Apply: %v", err)
			}
			v, readErr := store.Slot(context.Background(), b.slot)
			if readErr != nil || (err == nil) != (len(v.Attempts) == 1) {
				t.Errorf("Apply said %v, and the slot holds %d attempts: %v", err, len(v.Attempts), readErr)
			}
		})
	}
	wg.Wait()
}

func notFound(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	const id = "01890000-0000-7000-8000-000000000000"
	for _, id := range []string{id, "", "no id", "' OR 1=1 --", "\U0001F600"} {
		_, err := store.Attempt(ctx, id)
		wantError(t, "Attempt", err, attempt.ErrNotFound)
		_, err = store.Events(ctx, id)
		wantError(t, "Events", err, attempt.ErrNotFound)
	}
	err := store.Apply(ctx, &attempt.Step{ID: id, Do: func(attempt.View) ([]attempt.Write, error) {
		t.Error("Do ran for an attempt that does not exist")
		return nil, nil
	}})
	wantError(t, "Apply", err, attempt.ErrNotFound)
	if errors.Is(err, attempt.ErrUnavailable) {
		t.Errorf("Apply: %v claims that the store is unavailable", err)
	}
	v, err := store.Slot(ctx, slot("1001"))
	if err != nil || len(v.Attempts) != 0 || v.Now.IsZero() {
		t.Errorf("a slot never seen: %+v, %v", v, err)
	}
}

func closed(t *testing.T, s *suite) {
	store := s.open(t)
	a := start(t.Context(), t, store, slot("1001"), nil)
	for range 2 {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	wantNothing(t, t.Context(), store, a)
}

func cancelled(t *testing.T, s *suite) {
	store := s.empty(t)
	a := start(t.Context(), t, store, slot("1001"), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantNothing(t, ctx, store, a)
	_, err := store.Attempt(ctx, a.ID)
	wantError(t, "Attempt", err, context.Canceled)
	wantError(t, "Apply", store.Apply(ctx, (&starter{slot: slot("1002")}).step()), context.Canceled)
	wantSlot(t, store, a.Slot, a)
	wantSlot(t, store, slot("1002"))
}

// wantNothing checks that a store which cannot be asked says so to every question.
func wantNothing(t *testing.T, ctx context.Context, store attempt.Store, a attempt.Attempt) {
	t.Helper()
	_, err := store.Attempt(ctx, a.ID)
	wantError(t, "Attempt", err, attempt.ErrUnavailable)
	_, err = store.Events(ctx, a.ID)
	wantError(t, "Events", err, attempt.ErrUnavailable)
	_, err = store.Slot(ctx, a.Slot)
	wantError(t, "Slot", err, attempt.ErrUnavailable)
	_, err = store.TakeDue(ctx, 10, time.Hour)
	wantError(t, "TakeDue", err, attempt.ErrUnavailable)
	_, err = store.TakeDue(ctx, 10, time.Hour, a.Place())
	wantError(t, "TakeDue of a place", err, attempt.ErrUnavailable)
	_, err = store.Briefs(ctx, []string{a.ID}, []string{"ch_1"})
	wantError(t, "Briefs", err, attempt.ErrUnavailable)
	_, err = store.Notes(ctx, attempt.NoteFilter{Scope: "webhook"})
	wantError(t, "Notes", err, attempt.ErrUnavailable)
	wantError(t, "AddRelay", store.AddRelay(ctx, "host"), attempt.ErrUnavailable)
	_, err = store.TakeUndelivered(ctx, "host", 1, time.Hour)
	wantError(t, "TakeUndelivered", err, attempt.ErrUnavailable)
	wantError(t, "Delivered", store.Delivered(ctx, "host", a.ID, 1, 0), attempt.ErrUnavailable)
	_, err = store.Lag(ctx, "host")
	wantError(t, "Lag", err, attempt.ErrUnavailable)
	wantError(t, "RemoveRelay", store.RemoveRelay(ctx, "host"), attempt.ErrUnavailable)
	c := &changer{id: a.ID}
	once := &attempt.Step{Once: &attempt.Once{Scope: "webhook", ID: "evt_1"}}
	for _, step := range []*attempt.Step{(&starter{slot: a.Slot}).step(), c.step(), c.guess(a), once} {
		wantError(t, "Apply", store.Apply(ctx, step), attempt.ErrUnavailable)
		wantError(t, "the step", step.Err, attempt.ErrUnavailable)
	}
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

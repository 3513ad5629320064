package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

func startTwice(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	for i, believed := range []bool{false, true} {
		sl := slot(fmt.Sprint(1001 + i))
		first, second := &starter{slot: sl}, &starter{slot: sl}
		for _, begin := range []*starter{first, second} {
			step := begin.step()
			step.Fresh = believed
			if err := store.Apply(ctx, step); err != nil || step.Err != nil {
				t.Fatal(err, step.Err)
			}
		}
		if !first.started || second.started || first.got.ID != second.got.ID {
			t.Errorf("fresh %v: first started %v, second %v: attempts %s and %s", believed, first.started, second.started, first.got.ID, second.got.ID)
		}
		wantSlot(t, store, sl, first.got)
	}
}

func startAtOnce(t *testing.T, s *suite) {
	startOnHandles(t, s.empty(t))
}

// startOnHandles starts one slot fifty times at once, turn by turn on each handle.
func startOnHandles(t *testing.T, handles ...attempt.Store) {
	t.Helper()
	const callers = 50
	begun := make([]*starter, callers)
	errs := make([]error, callers)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		begun[i] = &starter{slot: slot("1001")}
		wg.Go(func() {
			step := begun[i].step()
			step.Fresh = i%3 != 0
			<-gate
			errs[i] = handles[i%len(handles)].Apply(t.Context(), step)
		})
	}
	close(gate)
	wg.Wait()
	var winner *starter
	for i, b := range begun {
		if errs[i] != nil {
			t.Errorf("caller %d: %v", i, errs[i])
		}
		if b.started && winner != nil {
			t.Errorf("two callers started: attempts %s and %s", winner.got.ID, b.got.ID)
		}
		if b.started {
			winner = b
		}
	}
	if winner == nil {
		t.Fatal("nobody started")
	}
	for i, b := range begun {
		if b.got.ID != winner.got.ID {
			t.Errorf("caller %d was given attempt %q, not %s", i, b.got.ID, winner.got.ID)
		}
	}
	wantSlot(t, handles[0], slot("1001"), winner.got)
}

func oneLive(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	a := start(ctx, t, store, slot("1001"), nil)
	for _, fresh := range []bool{false, true} {
		step := &attempt.Step{Slot: a.Slot, Fresh: fresh, Do: func(v attempt.View) ([]attempt.Write, error) {
			return []attempt.Write{begin(mint(a.Slot, 2, v.Now), v.Now)}, nil
		}}
		if err := store.Apply(ctx, step); err == nil {
			t.Errorf("fresh %v: a second live attempt was written", fresh)
		}
		wantSlot(t, store, a.Slot, a)
	}
	approved := change(ctx, t, store, a.ID, to(attempt.StatusApproved))
	second := &starter{slot: a.Slot}
	if err := store.Apply(ctx, second.step()); err != nil || second.started {
		t.Errorf("an approved attempt does not hold its slot: started %v, %v", second.started, err)
	}
	wantSlot(t, store, a.Slot, approved)

	// An end without money frees the slot.
	b := start(ctx, t, store, slot("1002"), nil)
	for n, end := range []attempt.Status{attempt.StatusDeclined, attempt.StatusAbandoned, attempt.StatusDeclined} {
		ended := &changer{id: b.ID, change: to(end)}
		step := ended.step()
		if n > 0 { // both ways: from memory and loaded
			step = ended.guess(b)
		}
		if err := store.Apply(ctx, step); err != nil {
			t.Fatal(err)
		}
		b = start(ctx, t, store, b.Slot, nil)
		if b.Ordinal != n+2 {
			t.Errorf("the next attempt is number %d, want %d", b.Ordinal, n+2)
		}
	}
}

func supersede(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	old := start(ctx, t, store, slot("1001"), nil)
	var ended, began attempt.Attempt
	replace := func(fail error) func(attempt.View) ([]attempt.Write, error) {
		return func(v attempt.View) ([]attempt.Write, error) {
			before, ok := v.Live()
			if !ok {
				return nil, errors.New("no live attempt")
			}
			ended = before
			to(attempt.StatusAbandoned)(&ended)
			began = mint(before.Slot, len(v.Attempts)+1, v.Now)
			a, b := put(before, &ended, attempt.WhatSuperseded, v.Now), begin(began, v.Now)
			ended, began = *a.Attempt, *b.Attempt
			return []attempt.Write{a, b}, fail
		}
	}
	if err := store.Apply(ctx, &attempt.Step{Slot: old.Slot, Do: replace(errors.New("changed my mind"))}); err == nil {
		t.Error("the step's error was swallowed")
	}
	wantSlot(t, store, old.Slot, old)
	if err := store.Apply(ctx, &attempt.Step{Slot: old.Slot, Do: replace(nil)}); err != nil {
		t.Fatal(err)
	}
	wantSlot(t, store, old.Slot, ended, began)
	wantVersions(ctx, t, store, ended.ID, 2)
	wantVersions(ctx, t, store, began.ID, 1)

	// Many at once: each ends the one before it, and the chain has no fork.
	const callers = 20
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			err := store.Apply(ctx, &attempt.Step{Slot: old.Slot, Do: func(v attempt.View) ([]attempt.Write, error) {
				live, _ := v.Live()
				end := live
				to(attempt.StatusAbandoned)(&end)
				return []attempt.Write{
					put(live, &end, attempt.WhatSuperseded, v.Now), begin(mint(live.Slot, len(v.Attempts)+1, v.Now), v.Now),
				}, nil
			}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	v, err := store.Slot(ctx, old.Slot)
	if err != nil || len(v.Attempts) != callers+2 {
		t.Fatalf("the slot holds %d attempts, want %d: %v", len(v.Attempts), callers+2, err)
	}
	for i, a := range v.Attempts {
		if a.Ordinal != i+1 || a.Status.Live() != (i == callers+1) {
			t.Errorf("attempt %d has ordinal %d and is %s", i+1, a.Ordinal, a.Status)
		}
	}
}

func slotsByteByByte(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	slots := []attempt.Slot{
		{Order: "1001", Purpose: "charge"}, {Order: "1001 ", Purpose: "charge"}, {Order: "1001", Purpose: "Charge"},
		{Order: "1001", Purpose: "deposit"}, {Account: "a", Order: "1001", Purpose: "charge"},
		{Account: "A", Order: "1001", Purpose: "charge"}, {Account: "a1001", Order: "1001", Purpose: "charge"},
		{Account: "1001", Order: "a", Purpose: "charge"}, {Order: "01001", Purpose: "charge"}, {Order: "1001.0", Purpose: "charge"},
		{Order: "caf\u00e9", Purpose: "charge"}, {Order: "cafe\u0301", Purpose: "charge"}, // the same text, composed otherwise
		{Order: "stra\u00dfe", Purpose: "charge"}, {Order: "strasse", Purpose: "charge"},
		{Order: "%", Purpose: "charge"}, {Order: "_001", Purpose: "charge"}, {Order: `10'01"\`, Purpose: "charge"},
		{Order: "\U0001F6D2", Purpose: "charge"},
	}
	started := make([]attempt.Attempt, len(slots))
	for i, sl := range slots {
		started[i] = start(ctx, t, store, sl, nil)
	}
	for i, sl := range slots {
		wantSlot(t, store, sl, started[i])
		found := collect(t, store.List(ctx, attempt.Filter{Order: sl.Order}))
		for _, a := range found {
			if a.Slot.Order != sl.Order {
				t.Errorf("List of order %q gave %q", sl.Order, a.Slot.Order)
			}
		}
		if !slices.ContainsFunc(found, func(a attempt.Attempt) bool { return a.ID == started[i].ID }) {
			t.Errorf("List of order %q does not hold its attempt", sl.Order)
		}
	}
}

// wantSlot checks that the slot holds exactly these payments, and no refund.
func wantSlot(t *testing.T, store attempt.Store, sl attempt.Slot, want ...attempt.Attempt) {
	t.Helper()
	v, err := store.Slot(context.Background(), sl)
	if err != nil {
		t.Fatalf("slot %s: %v", sl, err)
	}
	if len(v.Refunds) > 0 {
		t.Errorf("slot %s holds %d refunds", sl, len(v.Refunds))
	}
	wantAttempts(t, store, "slot "+sl.String(), v.Attempts, want...)
}

// wantAttempts checks that these attempts were found, in a view and each by its id.
func wantAttempts(t *testing.T, store attempt.Store, where string, got []attempt.Attempt, want ...attempt.Attempt) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d attempts, want %d", where, len(got), len(want))
	}
	for i, a := range got {
		wantSame(t, fmt.Sprintf("%s: attempt %d", where, i+1), a, want[i])
		one, err := store.Attempt(context.Background(), a.ID)
		if err != nil {
			t.Errorf("%s: attempt %s: %v", where, a.ID, err)
			continue
		}
		wantSame(t, "attempt "+a.ID, one, want[i])
	}
}

package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

func due(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	base := now(ctx, t, store)
	at := func(order string, status attempt.Status, due time.Time) attempt.Attempt {
		return start(ctx, t, store, slot(order), func(a *attempt.Attempt) { a.Status, a.NextCheckAt = status, due })
	}
	third := at("1001", attempt.StatusUnknown, base.Add(-1*time.Minute))
	first := at("1002", attempt.StatusSending, base.Add(-365*24*time.Hour))
	at("1003", attempt.StatusUnknown, base.Add(time.Hour)) // not yet
	second := at("1004", attempt.StatusPrepared, base.Add(-2*time.Minute))
	at("1005", attempt.StatusUnknown, time.Time{}) // never
	change(ctx, t, store, at("1006", attempt.StatusUnknown, base.Add(-time.Minute)).ID, to(attempt.StatusApproved))
	change(ctx, t, store, at("1007", attempt.StatusUnknown, base.Add(-time.Minute)).ID, to(attempt.StatusDeclined))
	watched := at("1008", attempt.StatusUnknown, base.Add(-time.Minute))
	watched = change(ctx, t, store, watched.ID, func(a *attempt.Attempt) {
		a.Status, a.NextCheckAt = attempt.StatusAbandoned, base.Add(-30*time.Second) // ended, and still watched
	})
	fromMemory := at("1009", attempt.StatusSending, base.Add(-time.Minute))
	ended := &changer{id: fromMemory.ID, change: to(attempt.StatusApproved)}
	if err := store.Apply(ctx, ended.guess(fromMemory)); err != nil {
		t.Fatal(err)
	}

	for _, limit := range []int{0, -1} {
		if v, err := store.TakeDue(ctx, limit, time.Hour); err != nil || len(v.Attempts) != 0 {
			t.Errorf("limit %d: %d taken, %v", limit, len(v.Attempts), err)
		}
	}
	for _, want := range [][]attempt.Attempt{{first, second}, {third, watched}, {}} {
		v, err := store.TakeDue(ctx, 2, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(ids(v.Attempts), ids(want)) {
			t.Fatalf("took %v, want %v", ids(v.Attempts), ids(want))
		}
		for i, a := range v.Attempts {
			leased := v.Now.Add(time.Hour)
			if !a.NextCheckAt.Equal(leased) {
				t.Errorf("leased until %s, want %s", a.NextCheckAt, leased)
			}
			w := want[i]
			w.NextCheckAt = a.NextCheckAt
			wantSame(t, "taken attempt", a, w)
			wantSlot(t, store, a.Slot, w)
		}
	}
}

func dueByPlace(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	base := now(ctx, t, store)
	places := []attempt.Place{
		{Provider: "test"}, {Provider: "test", Account: "a"}, {Provider: "test", Environment: "a"}, {Provider: "Test"},
		{Provider: `it's "\ \u00fc \U0001F4B3`, Account: "%", Environment: "_"},
	}
	at := make(map[attempt.Place][]attempt.Attempt)
	for n := range 3 {
		for i, p := range places {
			at[p] = append(at[p], start(ctx, t, store, slot(fmt.Sprint(n, " ", i)), func(a *attempt.Attempt) {
				a.Provider, a.ProviderAccount, a.Environment = p.Provider, p.Account, p.Environment
				a.NextCheckAt = base.Add(time.Duration(n-5) * time.Minute)
			}))
		}
	}
	take := func(limit int, places ...attempt.Place) []string {
		t.Helper()
		v, err := store.TakeDue(ctx, limit, time.Hour, places...)
		if err != nil {
			t.Fatal(err)
		}
		return ids(v.Attempts)
	}
	want := func(what string, got []string, want ...attempt.Attempt) {
		t.Helper()
		if !slices.Equal(got, ids(want)) {
			t.Fatalf("%s: took %v, want %v", what, got, ids(want))
		}
	}
	want("a place where nothing is", take(10, attempt.Place{Provider: "a"}))
	want("one place", take(2, places[0]), at[places[0]][:2]...)
	want("the rest of it", take(10, places[0]), at[places[0]][2:]...)
	want("two places, and one of them twice", take(3, places[1], places[4], places[1]), at[places[1]][0], at[places[4]][0], at[places[1]][1])
	for _, a := range at[places[2]] {
		wantSlot(t, store, a.Slot, a) // left as it was
	}
	want("everywhere", take(4), at[places[2]][0], at[places[3]][0], at[places[2]][1], at[places[3]][1])
}

func dueByOne(t *testing.T, s *suite) {
	takeOnHandles(t, s.empty(t))
}

// takeOnHandles lets many reconcilers take what is due, turn by turn on each handle.
func takeOnHandles(t *testing.T, handles ...attempt.Store) {
	t.Helper()
	ctx, store := t.Context(), handles[0]
	past := now(ctx, t, store).Add(-time.Minute)
	const n, takers = 120, 8
	for i := range n {
		start(ctx, t, store, slot(fmt.Sprint("due ", i)), func(a *attempt.Attempt) { a.NextCheckAt = past })
	}
	var mu sync.Mutex
	taken := make(map[string]int)
	var wg sync.WaitGroup
	for i := range takers {
		wg.Go(func() {
			for {
				v, err := handles[i%len(handles)].TakeDue(ctx, 7, time.Hour)
				if err != nil {
					t.Error(err)
					return
				}
				if len(v.Attempts) == 0 {
					return
				}
				mu.Lock()
				for _, a := range v.Attempts {
					taken[a.ID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(taken) != n {
		t.Errorf("%d attempts were taken, want %d", len(taken), n)
	}
	for id, times := range taken {
		if times != 1 {
			t.Errorf("attempt %s was taken %d times", id, times)
		}
	}
}

func lease(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	past := now(ctx, t, store).Add(-time.Minute)
	a := start(ctx, t, store, slot("1001"), func(a *attempt.Attempt) { a.NextCheckAt = past })
	v, err := store.TakeDue(ctx, 1, time.Hour)
	if err != nil || len(v.Attempts) != 1 {
		t.Fatalf("%d due: %v", len(v.Attempts), err)
	}
	wantVersions(ctx, t, store, a.ID, 1) // no version, no event
	got, err := store.Attempt(ctx, a.ID)
	if err != nil || !got.UpdatedAt.Equal(a.UpdatedAt) {
		t.Errorf("updated at %s, want %s: %v", got.UpdatedAt, a.UpdatedAt, err)
	}
	// A lease that is over is taken again, and a customer's step never waits for one.
	for range 3 {
		v, err := store.TakeDue(ctx, 1, time.Hour)
		if err != nil || len(v.Attempts) != 0 {
			t.Fatalf("taken under a lease: %v", err)
		}
		change(ctx, t, store, a.ID, func(a *attempt.Attempt) { a.NextCheckAt = past })
		v, err = store.TakeDue(ctx, 1, -time.Minute) // over at once
		if err != nil || len(v.Attempts) != 1 {
			t.Fatalf("%d due: %v", len(v.Attempts), err)
		}
		v, err = store.TakeDue(ctx, 1, time.Hour)
		if err != nil || len(v.Attempts) != 1 {
			t.Fatalf("%d due after the lease: %v", len(v.Attempts), err)
		}
	}
}

package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// closes is the step that closes a slot and does nothing else.
func closes(sl attempt.Slot) *attempt.Step {
	return &attempt.Step{Slot: sl, Do: func(v attempt.View) ([]attempt.Write, error) {
		return []attempt.Write{{Closing: &attempt.Closing{At: v.Now, Who: "who \u00fc", Why: "why '\"\\"}}}, nil
	}}
}

// wantClosed checks that a slot is closed, as the store tells it and as steps see it, and returns since when.
func wantClosed(t *testing.T, store attempt.Store, sl attempt.Slot) time.Time {
	t.Helper()
	v, err := store.Slot(t.Context(), sl)
	if err != nil || v.ClosedAt.IsZero() || v.ClosedAt.After(v.Now) || v.ClosedAt.Location() != time.UTC {
		t.Errorf("slot %s: closed at %s, now %s: %v", sl, v.ClosedAt, v.Now, err)
	}
	steps := []*attempt.Step{{Slot: sl}, {Slot: sl, Fresh: true}}
	for _, a := range v.Attempts {
		steps = append(steps, &attempt.Step{ID: a.ID})
	}
	for i, step := range steps {
		var seen time.Time
		step.Do = func(v attempt.View) ([]attempt.Write, error) { seen = v.ClosedAt; return nil, nil }
		if err := store.Apply(t.Context(), step); err != nil || !seen.Equal(v.ClosedAt) {
			t.Errorf("slot %s: step %d sees it closed at %s, want %s: %v", sl, i, seen, v.ClosedAt, err)
		}
	}
	return v.ClosedAt
}

func closedSlot(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	never, held := slot("never seen"), slot("held")
	a := start(ctx, t, store, held, to(attempt.StatusSending))
	why := errors.New("why not")
	failing := closes(never)
	do := failing.Do
	failing.Do = func(v attempt.View) ([]attempt.Write, error) {
		w, _ := do(v)
		return w, why
	}
	wantError(t, "failing step", store.Apply(ctx, failing), why)
	if v, err := store.Slot(ctx, never); err != nil || !v.ClosedAt.IsZero() {
		t.Errorf("a step that failed has closed the slot: %v", err)
	}

	guessed := closes(held)
	guessed.Slot, guessed.ID, guessed.Guess = attempt.Slot{}, a.ID, &a
	for sl, step := range map[attempt.Slot]*attempt.Step{never: closes(never), held: guessed, slot("fresh"): closes(slot("fresh"))} {
		step.Fresh = sl.Order == "fresh"
		if err := store.Apply(ctx, step); err != nil {
			t.Fatal(err)
		}
		at := wantClosed(t, store, sl)
		for _, fresh := range []bool{false, true} {
			again := closes(sl)
			again.Fresh = fresh
			if err := store.Apply(ctx, again); err == nil {
				t.Errorf("slot %s was closed twice", sl)
			}
			if err := store.Apply(ctx, &attempt.Step{Slot: sl, Fresh: fresh, Do: func(v attempt.View) ([]attempt.Write, error) {
				b := mint(sl, next(v), v.Now)
				to(attempt.StatusDeclined)(&b)
				return []attempt.Write{begin(b, v.Now)}, nil
			}}); err == nil {
				t.Errorf("slot %s: an attempt was started although it is closed", sl)
			}
		}
		if again := wantClosed(t, store, sl); !again.Equal(at) {
			t.Errorf("slot %s: closed at %s, and then at %s", sl, at, again)
		}
	}
	wantSlot(t, store, never)
	wantSlot(t, store, held, a)
	wantVersions(ctx, t, store, a.ID, 1) // closing alone is no change of an attempt

	// What is there already goes on: evidence comes, money goes back.
	a = change(ctx, t, store, a.ID, func(a *attempt.Attempt) {
		to(attempt.StatusApproved)(a)
		a.UnwantedAt, a.ChargeID = a.CreatedAt, "ch_1"
		a.Charges = []attempt.Charge{{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: a.Amount}}
	})
	back := refund(ctx, t, store, a, "1", a.Amount.Minor())
	wantMoney(t, store, []attempt.Attempt{a}, []attempt.Attempt{back})
	wantClosed(t, store, held)
	if v, err := store.Slot(ctx, slot("another")); err != nil || !v.ClosedAt.IsZero() {
		t.Errorf("another slot is closed too: %v", err)
	}
}

// cancelledOrders closes slots with attempts, in one commit with the marks on those.
func cancelledOrders(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	prepared := start(ctx, t, store, slot("prepared"), nil)
	ended := start(ctx, t, store, slot("two"), nil)
	ended = change(ctx, t, store, ended.ID, to(attempt.StatusDeclined))
	approved := paid(ctx, t, store, slot("two"), 500)
	for _, sl := range []attempt.Slot{prepared.Slot, ended.Slot, slot("none")} {
		c := &attempt.Cancel{Slot: sl, Who: "host", Why: "the customer has cancelled"}
		if err := store.Apply(ctx, c.Step()); err != nil || c.Before {
			t.Fatalf("cancel %s: %v, before %v", sl, err, c.Before)
		}
		at := wantClosed(t, store, sl)
		wantSlot(t, store, sl, c.View.Attempts...)
		for _, a := range c.View.Attempts {
			if !a.UnwantedAt.Equal(at) {
				t.Errorf("slot %s was closed at %s, attempt %s is unwanted at %s", sl, at, a.ID, a.UnwantedAt)
			}
		}
		again := &attempt.Cancel{Slot: sl}
		if err := store.Apply(ctx, again.Step()); err != nil || !again.Before {
			t.Errorf("cancel %s again: %v, before %v", sl, err, again.Before)
		}
	}
	for id, want := range map[string]attempt.Status{
		prepared.ID: attempt.StatusAbandoned, ended.ID: attempt.StatusDeclined, approved.ID: attempt.StatusApproved,
	} {
		a, err := store.Attempt(ctx, id)
		if _, owes := a.OpenDuty(); err != nil || a.Status != want || owes != (id == approved.ID) {
			t.Errorf("attempt %s is %s, want %s; owes %v: %v", id, a.Status, want, owes, err)
		}
	}
	// What was known before says nothing any more.
	c := &changer{id: prepared.ID, change: to(attempt.StatusSending)}
	if err := store.Apply(ctx, c.guess(prepared)); err == nil {
		t.Error("an attempt of a cancelled order was sent, on a guess")
	}
}

func cancelAtOnce(t *testing.T, s *suite) {
	cancelOnHandles(t, s.empty(t))
}

func cancelOnTwoHandles(t *testing.T, s *suite) {
	open := s.database(t)
	cancelOnHandles(t, closing(t, open(t)), closing(t, open(t)))
}

// cancelOnHandles cancels orders while they are started and while their outcomes come.
func cancelOnHandles(t *testing.T, handles ...attempt.Store) {
	t.Helper()
	ctx, store := t.Context(), handles[0]
	const orders = 40
	known := make([]attempt.Attempt, orders)
	for i := range orders {
		if i%2 == 0 {
			known[i] = start(ctx, t, store, slot(fmt.Sprint(i)), func(a *attempt.Attempt) { a.Status = attempt.StatusSending })
		}
	}
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range orders {
		sl := slot(fmt.Sprint(i))
		cancel := &attempt.Cancel{Slot: sl}
		race := []*attempt.Step{cancel.Step()}
		if a := known[i]; a.ID != "" {
			outcome := &attempt.Record{ID: a.ID, Evidence: attempt.Evidence{
				Kind: attempt.EvidenceWebhook, Charges: []attempt.Charge{{ID: "ch_" + a.ID, Status: attempt.ChargeSucceeded, Amount: a.Amount}},
			}}
			race = append(race, outcome.Step(&a))
		} else {
			for _, fresh := range []bool{false, true} {
				b := &starter{slot: sl}
				race = append(race, &attempt.Step{Slot: sl, Fresh: fresh, Do: func(v attempt.View) ([]attempt.Write, error) {
					if !v.ClosedAt.IsZero() {
						return nil, nil
					}
					return b.do(v)
				}})
			}
		}
		for n, step := range race {
			wg.Go(func() {
				<-gate
				if err := handles[(i+n)%len(handles)].Apply(ctx, step); err != nil {
					t.Errorf("order %d, step %d: %v", i, n, err)
				}
			})
		}
	}
	close(gate)
	wg.Wait()
	for i := range orders {
		v, err := store.Slot(ctx, slot(fmt.Sprint(i)))
		if err != nil || v.ClosedAt.IsZero() {
			t.Errorf("order %d is not closed: %v", i, err)
		}
		for _, a := range v.Attempts {
			if a.UnwantedAt.IsZero() {
				t.Errorf("order %d: attempt %s, %s, was written beside the cancellation", i, a.ID, a.Status)
			}
			if _, owes := a.OpenDuty(); a.Status == attempt.StatusApproved && !owes {
				t.Errorf("order %d: the money of attempt %s is not owed back", i, a.ID)
			}
		}
		if known[i].ID != "" && (len(v.Attempts) != 1 || v.Attempts[0].Status != attempt.StatusApproved) {
			t.Errorf("order %d: the outcome is lost", i)
		}
	}
}

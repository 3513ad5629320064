package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// paid writes an approved attempt whose charge is of that many cents.
func paid(ctx context.Context, t *testing.T, store attempt.Store, sl attempt.Slot, cents int64) attempt.Attempt {
	t.Helper()
	amount, err := money.New(cents, "EUR")
	if err != nil {
		t.Fatal(err)
	}
	a := start(ctx, t, store, sl, func(a *attempt.Attempt) { a.Amount, a.Status = amount, attempt.StatusSending })
	return change(ctx, t, store, a.ID, func(a *attempt.Attempt) {
		to(attempt.StatusApproved)(a)
		a.ChargeID = "ch_" + a.ID
		a.Charges = []attempt.Charge{{ID: a.ChargeID, Status: attempt.ChargeSucceeded, Amount: amount}}
	})
}

// gives is the start of a refund, by the rules of attempt.
func gives(charge attempt.Attempt, id string, cents int64) *attempt.Start {
	amount, err := money.New(cents, "EUR")
	if err != nil {
		panic(err)
	}
	s := &attempt.Start{
		Refund:   attempt.Refund{AttemptID: charge.ID, ID: id, Amount: amount},
		Provider: charge.Provider, ProviderAccount: charge.ProviderAccount, Environment: charge.Environment,
		Claim: 15 * time.Second, SendSpan: 10 * time.Second, FirstCheck: time.Minute, PreparedAfter: time.Hour,
	}
	s.New = func(ordinal int) (attempt.Attempt, error) {
		of, _, amount := s.RefundIntent()
		a := mint(charge.Slot, ordinal, time.Time{})
		a.Refund, a.Amount = of, amount
		return a, nil
	}
	return s
}

// refund starts a refund and returns it.
func refund(ctx context.Context, t *testing.T, store attempt.Store, charge attempt.Attempt, id string, cents int64) attempt.Attempt {
	t.Helper()
	s := gives(charge, id, cents)
	if err := store.Apply(ctx, s.Step()); err != nil {
		t.Fatalf("refund %s: %v", id, err)
	}
	if s.Decision.Kind != attempt.DecidedSend || s.Decision.Existing {
		t.Fatalf("refund %s: decided %d: %v", id, s.Decision.Kind, s.Decision.Err)
	}
	return s.Decision.Attempt
}

// wantMoney checks the payments and the refunds of a slot, as the store tells them and as steps see them.
func wantMoney(t *testing.T, store attempt.Store, payments, refunds []attempt.Attempt) {
	t.Helper()
	sl := payments[0].Slot
	v, err := store.Slot(context.Background(), sl)
	if err != nil {
		t.Fatal(err)
	}
	wantAttempts(t, store, "payments of slot "+sl.String(), v.Attempts, payments...)
	wantAttempts(t, store, "refunds of slot "+sl.String(), v.Refunds, refunds...)
	steps := []*attempt.Step{{Slot: sl}}
	for _, a := range slices.Concat(payments, refunds) {
		steps = append(steps, &attempt.Step{ID: a.ID})
	}
	for i, step := range steps {
		step.Do = func(v attempt.View) ([]attempt.Write, error) {
			if got, want := slices.Concat(ids(v.Attempts), []string{"and"}, ids(v.Refunds)), slices.Concat(ids(payments), []string{"and"}, ids(refunds)); !slices.Equal(got, want) {
				t.Errorf("step %d sees %v, want %v", i, got, want)
			}
			return nil, nil
		}
		if err := store.Apply(context.Background(), step); err != nil {
			t.Error(err)
		}
	}
}

func refundsBeside(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	charge := paid(ctx, t, store, slot("1001"), 1000)
	const id = "return \u00fc \U0001F4E6 ' \" \\ %s"
	first := refund(ctx, t, store, charge, id, 300)
	if first.Refund.ID != id || first.Refund.AttemptID != charge.ID || first.Refund.ChargeID != charge.ChargeID {
		t.Fatalf("refund of %+v", first.Refund)
	}
	second := refund(ctx, t, store, charge, "2", 200)
	if first.Ordinal != 2 || second.Ordinal != 3 {
		t.Errorf("refunds have the ordinals %d and %d, want 2 and 3: one count for all of a slot", first.Ordinal, second.Ordinal)
	}
	wantMoney(t, store, []attempt.Attempt{charge}, []attempt.Attempt{first, second})
	if got := ids(collect(t, store.List(ctx, attempt.Filter{Order: charge.Slot.Order}))); !slices.Equal(got, []string{charge.ID, first.ID, second.ID}) {
		t.Errorf("List gives %v", got)
	}

	// A refund that is declined may be made again, under a key of its own.
	first = change(ctx, t, store, first.ID, to(attempt.StatusDeclined))
	again := gives(charge, id, 300)
	again.Refund.Again = first.ID
	if err := store.Apply(ctx, again.Step()); err != nil || again.Decision.Kind != attempt.DecidedSend {
		t.Fatalf("again: decided %d, %v, %v", again.Decision.Kind, again.Decision.Err, err)
	}
	third := again.Decision.Attempt
	wantMoney(t, store, []attempt.Attempt{charge}, []attempt.Attempt{first, second, third})

	// All that a refund holds comes back, and changes.
	f := &filler{}
	third = change(ctx, t, store, third.ID, func(a *attempt.Attempt) { f.attempt(a); a.Status = attempt.StatusUnknown })
	wantMoney(t, store, []attempt.Attempt{charge}, []attempt.Attempt{first, second, third})
	wantVersions(ctx, t, store, third.ID, 2)

	// It is due like any other.
	past := now(ctx, t, store).Add(-time.Minute)
	second = change(ctx, t, store, second.ID, func(a *attempt.Attempt) { a.NextCheckAt = past })
	third = change(ctx, t, store, third.ID, func(a *attempt.Attempt) { a.NextCheckAt = past.Add(-time.Hour) })
	v, err := store.TakeDue(ctx, 10, time.Hour)
	if err != nil || !slices.Equal(ids(v.Attempts), []string{third.ID, second.ID}) || len(v.Refunds) != 0 {
		t.Errorf("due %v and %v, want the refunds among the attempts: %v", ids(v.Attempts), ids(v.Refunds), err)
	}

	// A live refund does not hold the slot, and a payment does not hold up a refund.
	late := start(ctx, t, store, slot("1002"), to(attempt.StatusSending))
	late = change(ctx, t, store, late.ID, func(a *attempt.Attempt) {
		to(attempt.StatusDeclined)(a)
		a.Charges = []attempt.Charge{{ID: "ch_late", Status: attempt.ChargeSucceeded, Amount: a.Amount}}
	})
	back := refund(ctx, t, store, late, "late", late.Amount.Minor())
	next := start(ctx, t, store, late.Slot, nil)
	wantMoney(t, store, []attempt.Attempt{late, next}, []attempt.Attempt{back})
	beside := &starter{slot: late.Slot}
	if err := store.Apply(ctx, beside.step()); err != nil || beside.started {
		t.Errorf("two payments of a slot: started %v, %v", beside.started, err)
	}
	back = change(ctx, t, store, back.ID, to(attempt.StatusApproved))
	next = change(ctx, t, store, next.ID, to(attempt.StatusSending))
	wantMoney(t, store, []attempt.Attempt{late, next}, []attempt.Attempt{back})
}

func refundsRefused(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	charge, other := paid(ctx, t, store, slot("1001"), 1000), paid(ctx, t, store, slot("1002"), 1000)
	live := refund(ctx, t, store, charge, "1", 100)
	for name, spoil := range map[string]func(a *attempt.Attempt){
		"a second live attempt of a refund": func(*attempt.Attempt) {},
		"of an attempt of another slot":     func(a *attempt.Attempt) { a.Refund.AttemptID = other.ID },
		"of an attempt that is not there":   func(a *attempt.Attempt) { a.Refund.AttemptID = live.Key },
		"of a refund":                       func(a *attempt.Attempt) { a.Refund.AttemptID = live.ID },
		"an ordinal that is taken":          func(a *attempt.Attempt) { a.Refund.ID, a.Ordinal = "2", 2 },
	} {
		err := store.Apply(ctx, &attempt.Step{ID: charge.ID, Do: func(v attempt.View) ([]attempt.Write, error) {
			a := mint(charge.Slot, next(v), v.Now)
			a.Refund = live.Refund
			spoil(&a)
			return []attempt.Write{begin(a, v.Now)}, nil
		}})
		if err == nil {
			t.Errorf("%s was written", name)
		}
	}
	for name, spoil := range map[string]func(a *attempt.Attempt){
		"another id":      func(a *attempt.Attempt) { a.Refund.ID = "2" },
		"another charge":  func(a *attempt.Attempt) { a.Refund.ChargeID = "ch_2" },
		"another attempt": func(a *attempt.Attempt) { a.Refund.AttemptID = other.ID },
		"no refund":       func(a *attempt.Attempt) { a.Refund = attempt.RefundOf{} },
	} {
		for _, step := range []*attempt.Step{(&changer{id: live.ID, change: spoil}).step(), (&changer{id: live.ID, change: spoil}).guess(live)} {
			if err := store.Apply(ctx, step); err == nil {
				t.Errorf("a refund became %s", name)
			}
		}
	}
	wantMoney(t, store, []attempt.Attempt{charge}, []attempt.Attempt{live})
	wantSlot(t, store, other.Slot, other)
}

// refundAndCharge lets a step change a refund together with the attempt that it gives back.
func refundAndCharge(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	charge := paid(ctx, t, store, slot("1001"), 1000)
	part := refund(ctx, t, store, charge, "1", 400)
	made := func(fail error) *attempt.Step {
		return &attempt.Step{ID: part.ID, Outcome: true, Do: func(v attempt.View) ([]attempt.Write, error) {
			r, _ := v.Find(part.ID)
			c, ok := v.Find(charge.ID)
			if !ok {
				return nil, errors.New("the charge is not in the view")
			}
			before, was := r, c
			to(attempt.StatusApproved)(&r)
			c.Charges = slices.Clone(c.Charges)
			c.Charges[0].Refunded += r.Amount.Minor()
			a, b := put(before, &r, attempt.WhatLearnt, v.Now), put(was, &c, attempt.WhatRefunded, v.Now)
			if fail == nil {
				part, charge = r, c
			}
			return []attempt.Write{a, b}, fail
		}}
	}
	why := errors.New("why not")
	wantError(t, "failing step", store.Apply(ctx, made(why)), why)
	wantMoney(t, store, []attempt.Attempt{charge}, []attempt.Attempt{part})
	if err := store.Apply(ctx, made(nil)); err != nil {
		t.Fatal(err)
	}
	wantMoney(t, store, []attempt.Attempt{charge}, []attempt.Attempt{part})
	wantVersions(ctx, t, store, charge.ID, 3)
	wantVersions(ctx, t, store, part.ID, 2)

	// A guess of a refund says nothing of its charge: what counts is decided with it.
	rest := refund(ctx, t, store, charge, "2", 600)
	found := false
	c := &changer{id: rest.ID, change: to(attempt.StatusUnknown)}
	step := c.guess(rest)
	step.Do = func(v attempt.View) ([]attempt.Write, error) {
		_, found = v.Find(charge.ID)
		return c.do(v)
	}
	if err := store.Apply(ctx, step); err != nil || !found {
		t.Errorf("a guess of a refund: decided with its charge: %v, %v", found, err)
	}
	wantMoney(t, store, []attempt.Attempt{charge}, []attempt.Attempt{part, c.got})
}

func refundsAtOnce(t *testing.T, s *suite) {
	refundOnHandles(t, s.empty(t))
}

func refundsOnTwoHandles(t *testing.T, s *suite) {
	open := s.database(t)
	refundOnHandles(t, closing(t, open(t)), closing(t, open(t)))
}

// refundOnHandles gives one charge back in many parts at once, each of them asked for twice, turn by turn on each handle.
func refundOnHandles(t *testing.T, handles ...attempt.Store) {
	t.Helper()
	ctx := t.Context()
	const callers, cents, part = 48, 1000, 150
	charge := paid(ctx, t, handles[0], slot("1001"), cents)
	starts := make([]*attempt.Start, callers)
	gate := make(chan struct{})
	var wg sync.WaitGroup
	for i := range callers {
		starts[i] = gives(charge, fmt.Sprint("part ", i/2), part)
		wg.Go(func() {
			<-gate
			if err := handles[i%len(handles)].Apply(ctx, starts[i].Step()); err != nil {
				t.Errorf("caller %d: %v", i, err)
			}
		})
	}
	close(gate)
	wg.Wait()
	keys := make(map[string]string) // by refund id
	began := 0
	for i, s := range starts {
		d := s.Decision
		if d.Kind == attempt.DecidedSend && !d.Existing {
			began++
		}
		if refused := (*attempt.RefundError)(nil); errors.As(d.Err, &refused) {
			continue
		}
		if key, known := keys[s.Refund.ID]; d.Err != nil || known && key != d.Attempt.Key {
			t.Errorf("caller %d, %s: decided %d, key %s beside %s: %v", i, s.Refund.ID, d.Kind, d.Attempt.Key, key, d.Err)
		}
		keys[s.Refund.ID] = d.Attempt.Key
	}
	v, err := handles[0].Slot(ctx, charge.Slot)
	if err != nil {
		t.Fatal(err)
	}
	if most := cents / part; len(v.Refunds) != most || began != most || len(keys) != most {
		t.Errorf("%d refunds of %d, %d were begun and %d told of, want %d each of a charge of %d", len(v.Refunds), part, began, len(keys), most, cents)
	}
}

package storetest

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// The suite's own steps write plain states, so that a store is tested apart from the state machine's rules.

func slot(order string) attempt.Slot {
	return attempt.Slot{Order: order, Purpose: attempt.PurposeCharge}
}

// mint returns a new attempt, prepared and not yet written.
func mint(slot attempt.Slot, ordinal int, now time.Time) attempt.Attempt {
	identity, err := attempt.NewIdentity("T-")
	if err != nil {
		panic(err)
	}
	return attempt.Attempt{
		ID: identity.ID, Key: identity.Key, Reference: identity.Reference,
		Slot: slot, Ordinal: ordinal, Amount: money.MustParse("12.50", "EUR"),
		Source: attempt.Digest{Sum: "source"}, Provider: "test",
		Status: attempt.StatusPrepared, CreatedAt: now, NextCheckAt: now.Add(time.Hour),
	}
}

// next is the ordinal of the slot's next attempt: payments and refunds are counted together.
func next(v attempt.View) int { return len(v.Attempts) + len(v.Refunds) + 1 }

// put is the write that takes an attempt from one state to the next. It sets version and time in after.
func put(before attempt.Attempt, after *attempt.Attempt, what attempt.What, now time.Time) attempt.Write {
	after.Version = before.Version + 1
	after.UpdatedAt = now
	return attempt.Write{Attempt: after, Event: attempt.Event{
		AttemptID: after.ID, Version: after.Version, What: what, From: before.Status, To: after.Status, At: now,
	}}
}

// begin is the first write of an attempt.
func begin(a attempt.Attempt, now time.Time) attempt.Write {
	return put(attempt.Attempt{Status: attempt.StatusPrepared}, &a, attempt.WhatStarted, now)
}

// starter starts an attempt in its slot unless there is a live one, and tells which one it is.
type starter struct {
	slot   attempt.Slot
	change func(*attempt.Attempt) // of the new attempt

	got     attempt.Attempt
	started bool
}

func (s *starter) do(v attempt.View) ([]attempt.Write, error) {
	s.started = false
	if live, ok := v.Live(); ok {
		s.got = live
		return nil, nil
	}
	a := mint(s.slot, next(v), v.Now)
	if s.change != nil {
		s.change(&a)
	}
	w := begin(a, v.Now)
	s.got, s.started = *w.Attempt, true
	return []attempt.Write{w}, nil
}

func (s *starter) step() *attempt.Step { return &attempt.Step{Slot: s.slot, Do: s.do} }

// start writes a new attempt and returns it.
func start(ctx context.Context, t *testing.T, store attempt.Store, slot attempt.Slot, change func(*attempt.Attempt)) attempt.Attempt {
	t.Helper()
	s := &starter{slot: slot, change: change}
	if err := store.Apply(ctx, s.step()); err != nil {
		t.Fatalf("start %s: %v", slot, err)
	}
	if !s.started {
		t.Fatalf("start %s: found the live attempt %s", slot, s.got.ID)
	}
	return s.got
}

// changer changes one attempt.
type changer struct {
	id     string
	change func(*attempt.Attempt)
	event  func(*attempt.Event)

	got  attempt.Attempt
	seen []int // the versions on which Do ran
}

func (c *changer) do(v attempt.View) ([]attempt.Write, error) {
	before, ok := v.Find(c.id)
	if !ok {
		return nil, fmt.Errorf("attempt %s is not among the %d of its slot", c.id, len(v.Attempts))
	}
	c.seen = append(c.seen, before.Version)
	after := before
	if c.change != nil {
		c.change(&after)
	}
	w := put(before, &after, attempt.WhatLearnt, v.Now)
	if c.event != nil {
		c.event(&w.Event)
	}
	c.got = *w.Attempt
	return []attempt.Write{w}, nil
}

func (c *changer) step() *attempt.Step { return &attempt.Step{ID: c.id, Do: c.do} }

// guess is the step from memory.
func (c *changer) guess(a attempt.Attempt) *attempt.Step {
	return &attempt.Step{ID: c.id, Guess: &a, Outcome: true, Do: c.do}
}

// change changes an attempt and returns its new state.
func change(ctx context.Context, t *testing.T, store attempt.Store, id string, f func(*attempt.Attempt)) attempt.Attempt {
	t.Helper()
	c := &changer{id: id, change: f}
	if err := store.Apply(ctx, c.step()); err != nil {
		t.Fatalf("change %s: %v", id, err)
	}
	return c.got
}

func to(s attempt.Status) func(*attempt.Attempt) {
	return func(a *attempt.Attempt) {
		a.Status = s
		if s.Final() {
			a.NextCheckAt = time.Time{}
		}
	}
}

// now is the present by the store's clock.
func now(ctx context.Context, t *testing.T, store attempt.Store) time.Time {
	t.Helper()
	v, err := store.Slot(ctx, slot("never seen"))
	if err != nil {
		t.Fatal(err)
	}
	return v.Now
}

// collect reads a list to its end.
func collect(t *testing.T, list iter.Seq2[attempt.Attempt, error]) []attempt.Attempt {
	t.Helper()
	var all []attempt.Attempt
	for a, err := range list {
		if err != nil {
			t.Errorf("List: %v", err)
			return all
		}
		all = append(all, a)
	}
	return all
}

func ids(attempts []attempt.Attempt) []string {
	all := make([]string, 0, len(attempts))
	for _, a := range attempts {
		all = append(all, a.ID)
	}
	return all
}

// wantSame compares two structs and names the fields that differ.
func wantSame[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if a, b := g.Field(i).Interface(), w.Field(i).Interface(); !reflect.DeepEqual(a, b) {
			a, b := show(a, b)
			t.Errorf("%s: %s is %s, want %s", what, g.Type().Field(i).Name, a, b)
		}
	}
}

// show prints two values that differ, of long ones the place where they begin to.
func show(a, b any) (string, string) {
	print := func(v any) string {
		if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && !p.IsNil() {
			v = p.Elem().Interface()
		}
		return fmt.Sprintf("%+v", v)
	}
	x, y := print(a), print(b)
	const before, length = 100, 300
	if len(x) <= length && len(y) <= length {
		return x, y
	}
	from := 0
	for from < min(len(x), len(y)) && x[from] == y[from] {
		from++
	}
	from = max(0, from-before)
	return fmt.Sprintf("...%q...", x[from:min(len(x), from+length)]), fmt.Sprintf("...%q...", y[from:min(len(y), from+length)])
}

// wantVersions checks that an attempt's events are its versions 1 to n, each going on where the one before ended.
func wantVersions(ctx context.Context, t *testing.T, store attempt.Store, id string, n int) {
	t.Helper()
	a, err := store.Attempt(ctx, id)
	if err != nil || a.Version != n {
		t.Errorf("attempt %s is at version %d, want %d: %v", id, a.Version, n, err)
	}
	events, err := store.Events(ctx, id)
	if err != nil || len(events) != n {
		t.Errorf("attempt %s has %d events, want %d: %v", id, len(events), n, err)
	}
	for i, e := range events {
		if e.AttemptID != id || e.Version != i+1 || i > 0 && e.From != events[i-1].To {
			t.Errorf("event %d of attempt %s: attempt %s, version %d, from %s to %s", i+1, id, e.AttemptID, e.Version, e.From, e.To)
		}
	}
}

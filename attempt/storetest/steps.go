package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// The suite's own steps write plain states, so that a store is tested without the state machine's rules.

func slot(order string) attempt.Slot {
	return attempt.Slot{Order: order, Purpose: attempt.PurposeCharge}
}

// mint returns a new attempt of a slot, prepared and not yet written.
func mint(slot attempt.Slot, ordinal int, now time.Time) attempt.Attempt {
	identity, err := attempt.NewIdentity("T-")
	if err != nil {
		panic(err)
	}
	return attempt.Attempt{
		ID: identity.ID, Key: identity.Key, Reference: identity.Reference,
		Slot: slot, Ordinal: ordinal, Amount: money.MustParse("12.50", "EUR"),
		Source: attempt.Digest{Sum: "source"}, Provider: "test",
		Status: attempt.StatusPrepared, Version: 1, CreatedAt: now, UpdatedAt: now, NextCheckAt: now.Add(time.Hour),
	}
}

// put is the write that takes an attempt from one state to the next.
func put(before, after attempt.Attempt, what attempt.What, now time.Time) attempt.Write {
	after.Version = before.Version + 1
	after.UpdatedAt = now
	return attempt.Write{Attempt: &after, Event: attempt.Event{
		AttemptID: after.ID, Version: after.Version, What: what, From: before.Status, To: after.Status, At: now,
	}}
}

// starter starts an attempt in its slot unless there is a live one, and tells which one it was.
type starter struct {
	slot   attempt.Slot
	change func(*attempt.Attempt) // of the new attempt

	got     attempt.Attempt
	started bool
	runs    int
}

func (s *starter) do(v attempt.View) ([]attempt.Write, error) {
	s.runs++
	s.started = false
	if live, ok := v.Live(); ok {
		s.got = live
		return nil, nil
	}
	a := mint(s.slot, len(v.Attempts)+1, v.Now)
	if s.change != nil {
		s.change(&a)
	}
	w := put(attempt.Attempt{Status: attempt.StatusPrepared}, a, attempt.WhatStarted, v.Now)
	s.got, s.started = *w.Attempt, true
	return []attempt.Write{w}, nil
}

func (s *starter) step() *attempt.Step { return &attempt.Step{Slot: s.slot, Do: s.do} }

func (s *starter) fresh() *attempt.Step {
	return &attempt.Step{Slot: s.slot, Fresh: true, Do: s.do}
}

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
	what   attempt.What
	change func(*attempt.Attempt)

	got  attempt.Attempt
	seen []int // the versions that Do was run on
}

func (c *changer) do(v attempt.View) ([]attempt.Write, error) {
	before, ok := v.Find(c.id)
	if !ok {
		return nil, fmt.Errorf("attempt %s is not among the %d of its slot", c.id, len(v.Attempts))
	}
	c.seen = append(c.seen, before.Version)
	after := before
	c.change(&after)
	what := c.what
	if what == "" {
		what = attempt.WhatLearnt
	}
	w := put(before, after, what, v.Now)
	c.got = *w.Attempt
	return []attempt.Write{w}, nil
}

func (c *changer) step() *attempt.Step { return &attempt.Step{ID: c.id, Do: c.do} }

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

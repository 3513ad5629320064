package reconcile_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/reconcile"
)

// witness is an asker that answers as it is told, and keeps its own books of what the rule for abandoning needs: it shares no
// code with what it judges.
type witness struct {
	schedule attempt.Schedule
	answer   func() attempt.LookupAnswer
	nones    []time.Time // when questions were asked, by the store's clock, whose answer was none
}

func (w *witness) Place() attempt.Place       { return backlogPlace }
func (w *witness) Schedule() attempt.Schedule { return w.schedule }

func (w *witness) Ask(_ context.Context, a attempt.Attempt, asked time.Time) (attempt.Evidence, error) {
	e := attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: w.answer(), AskedAt: asked}
	switch e.Lookup {
	case attempt.LookupNone:
		e.Rule = &w.schedule.Rule
		w.nones = append(w.nones, asked)
	case attempt.LookupFound:
		e.Charges = []attempt.Charge{{ID: "ch_1", Status: attempt.ChargePending, Amount: a.Amount}}
	}
	return e, nil
}

// holds tells whether an attempt may be abandoned now: the time since the last moment at which a request may have left, and two
// answers that found nothing, asked later than that and the lag, and the lag apart.
func (w *witness) holds(last, now time.Time) bool {
	rule := w.schedule.Rule
	if now.Sub(last) < rule.After {
		return false
	}
	for i, first := range w.nones {
		if !first.After(last.Add(rule.Lag)) || first.After(now) {
			continue
		}
		for _, second := range w.nones[i+1:] {
			if second.Sub(first) >= rule.Lag && !second.After(now) {
				return true
			}
		}
	}
	return false
}

// Whatever the order of answers, times, claims and steps of the clock: an attempt is not abandoned unless all conditions hold,
// and it is abandoned in bounded time when the provider keeps on saying that it holds nothing.
func TestAbandonedOnlyByTheRule(t *testing.T) {
	rapid.Check(t, abandonedOnlyByTheRule)
}

func abandonedOnlyByTheRule(t *rapid.T) {
	// The store's clock is drawn, and the microseconds that the test takes pass on it too: the reconciler counts those.
	drawn, began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Now()
	clock := func() time.Time { return drawn.Add(time.Since(began)) }
	pass := func(d time.Duration) { drawn = drawn.Add(d) }
	passTo := func(at time.Time) { pass(max(at.Sub(clock()), 0)) }
	store := &attempt.Memory{Now: clock}
	lag := time.Duration(rapid.IntRange(0, 20).Draw(t, "lag")) * time.Minute
	after := lag + time.Duration(rapid.IntRange(3, 60).Draw(t, "after"))*time.Minute
	w := &witness{schedule: attempt.Schedule{
		First: 2 * time.Minute, Rule: attempt.AbandonRule{After: after, Lag: lag, PreparedAfter: 24 * time.Hour},
	}}
	r, err := reconcile.New(reconcile.Config{Store: store, Askers: []reconcile.Asker{w}})
	if err != nil {
		t.Fatal(err)
	}
	slot := attempt.Slot{Order: "1", Purpose: attempt.PurposeCharge}
	identity, err := attempt.NewIdentity("")
	if err != nil {
		t.Fatal(err)
	}
	change := func(what attempt.What, do func(a attempt.Attempt, now time.Time) attempt.Attempt) {
		err := store.Apply(t.Context(), &attempt.Step{Slot: slot, Do: func(v attempt.View) ([]attempt.Write, error) {
			a := attempt.Attempt{
				ID: identity.ID, Key: identity.Key, Reference: identity.Reference, Slot: slot, Ordinal: 1,
				Amount: money.MustParse("1.00", "EUR"), Provider: backlogPlace.Provider, ProviderAccount: backlogPlace.Account,
				Environment: backlogPlace.Environment, Status: attempt.StatusPrepared, CreatedAt: v.Now,
			}
			from := a.Status
			if known, ok := v.Find(identity.ID); ok {
				a, from = known, known.Status
			}
			a = do(a, v.Now)
			a.Version++
			return []attempt.Write{{Attempt: &a, Event: attempt.Event{
				AttemptID: a.ID, Version: a.Version, What: what, From: from, To: a.Status, At: v.Now,
			}}}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	current := func() attempt.Attempt {
		a, err := store.Attempt(t.Context(), identity.ID)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	// The witness's books: when a request may have left last, and which claims have no recorded end.
	var last time.Time
	claims := make(map[int]time.Time)
	lastPossible := func() time.Time {
		at := last
		for _, until := range claims {
			if until.After(at) {
				at = until
			}
		}
		return at
	}
	claim := func() {
		change(attempt.WhatClaimed, func(a attempt.Attempt, now time.Time) attempt.Attempt {
			a = a.Grant(now, 15*time.Second, 2*time.Minute)
			claims[a.Fence] = now.Add(15 * time.Second)
			return a
		})
	}
	end := func(fence int) {
		rec := attempt.Record{ID: identity.ID, Schedule: &w.schedule, Evidence: attempt.Evidence{
			Kind: attempt.EvidenceSends, Fence: fence, Sends: []attempt.Send{{Answer: attempt.Answer{Verdict: attempt.Lost, Reason: attempt.ReasonTimeout}}},
		}}
		before := current()
		if err := store.Apply(t.Context(), rec.Step(&before)); err != nil {
			t.Fatal(err)
		}
		at := rec.Now
		if before.UpdatedAt.After(at) {
			at = before.UpdatedAt
		}
		if until := claims[fence]; until.Before(at) {
			at = until
		}
		if at.After(last) {
			last = at
		}
		delete(claims, fence)
	}
	look := func() {
		if _, err := r.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a := current(); a.Status == attempt.StatusAbandoned && !w.holds(lastPossible(), clock()) {
			t.Fatalf("abandoned at %s: last possible send %s, answers of none asked at %v, rule %+v", clock(), lastPossible(), w.nones, w.schedule.Rule)
		}
	}
	claim()
	for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
		a := current()
		if a.Status.Final() {
			break
		}
		switch what := rapid.IntRange(0, 9).Draw(t, fmt.Sprint("step ", i)); what {
		case 0: // the customer comes back
			if a.ClaimedUntil(clock()).IsZero() && a.AskingEndedAt.IsZero() && len(a.Charges) == 0 {
				claim()
			}
		case 1: // a sender's end is recorded, however late
			for _, c := range a.Claims {
				end(c.Fence)
				break
			}
		case 2: // the clock is set back
			pass(-time.Duration(rapid.IntRange(1, 90).Draw(t, "back")) * time.Minute)
		case 3, 4:
			pass(time.Duration(rapid.IntRange(1, 3600).Draw(t, "seconds")) * time.Second)
		case 5: // as due
			passTo(a.NextCheckAt)
		default:
			answers := []attempt.LookupAnswer{attempt.LookupNone, attempt.LookupNone, attempt.LookupNone, attempt.LookupUnreadable, attempt.LookupNotAsked}
			w.answer = func() attempt.LookupAnswer { return rapid.SampledFrom(answers).Draw(t, "answer") }
			if rapid.Bool().Draw(t, "wait") {
				passTo(a.NextCheckAt)
			}
			look()
		}
	}
	// From here on the provider holds nothing and says so, and the clock goes on.
	if a := current(); a.Status.Final() || !a.AskingEndedAt.IsZero() {
		return
	}
	passTo(current().UpdatedAt)
	w.answer = func() attempt.LookupAnswer { return attempt.LookupNone }
	deadline := lastPossible().Add(max(after, lag) + 2*lag + 48*time.Hour)
	if least := clock().Add(48*time.Hour + 2*lag); deadline.Before(least) {
		deadline = least
	}
	for !current().Status.Final() && clock().Before(deadline) && current().AskingEndedAt.IsZero() {
		passTo(current().NextCheckAt)
		look()
	}
	if a := current(); a.AskingEndedAt.IsZero() && a.Status != attempt.StatusAbandoned {
		t.Fatalf("still %s at %s: last possible send %s, nones %v, %+v", a.Status, clock(), lastPossible(), a.NoneAskedAt, w.schedule.Rule)
	}
}

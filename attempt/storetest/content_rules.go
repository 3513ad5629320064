package storetest

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

func gaplessVersions(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	a := start(ctx, t, store, slot("1001"), to(attempt.StatusSending))
	const callers = 40
	states := []attempt.Status{attempt.StatusUnknown, attempt.StatusSending}
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			c := &changer{id: a.ID, change: func(a *attempt.Attempt) { a.Asks++; a.Status = states[i%2] }}
			step := c.step()
			if i%2 == 0 {
				step = c.guess(a) // true for one of them at most
			}
			if err := store.Apply(ctx, step); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantVersions(ctx, t, store, a.ID, callers+1)
	if after, err := store.Attempt(ctx, a.ID); err != nil || after.Asks != callers {
		t.Errorf("%d of %d changes are in the attempt: %v", after.Asks, callers, err)
	}
}

func wholeAttempt(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	f := &filler{}
	// Twice: everything set when the attempt is made, and everything set anew by a change.
	full := start(ctx, t, store, slot("1001"), func(a *attempt.Attempt) { f.attempt(a); a.Status = attempt.StatusSending })
	wantSlot(t, store, full.Slot, full)
	for range 3 {
		full = change(ctx, t, store, full.ID, func(a *attempt.Attempt) { f.attempt(a); a.Status = attempt.StatusUnknown })
		wantSlot(t, store, full.Slot, full)
	}
	c := &changer{id: full.ID, change: func(a *attempt.Attempt) { f.attempt(a); a.Status = attempt.StatusUnknown }}
	if err := store.Apply(ctx, c.guess(full)); err != nil {
		t.Fatal(err)
	}
	full = c.got
	wantSlot(t, store, full.Slot, full)

	// A change of one thing leaves the others as they were.
	partly := []func(*attempt.Attempt){
		func(a *attempt.Attempt) { a.Body, a.BodyDigest = []byte("another\x00body"), "another" },
		func(a *attempt.Attempt) { a.Fence++ },
		func(a *attempt.Attempt) { a.Claims = nil },
		func(a *attempt.Attempt) { a.Answer = attempt.Answer{} },
		func(a *attempt.Attempt) { a.Charges, a.ChargeID = nil, "" },
		func(a *attempt.Attempt) { a.Refusal = attempt.Refusal{} },
		func(a *attempt.Attempt) { a.NoneAskedAt = nil },
		func(a *attempt.Attempt) { a.Asks++ },
		func(a *attempt.Attempt) { a.Duties = nil },
		func(a *attempt.Attempt) { a.NextCheckAt = time.Time{} },
		func(a *attempt.Attempt) { a.AskingEndedAt = time.Time{} },
		func(a *attempt.Attempt) { a.UnwantedAt = time.Time{} },
		func(a *attempt.Attempt) { a.Body, a.BodyDigest = nil, "" },
		func(a *attempt.Attempt) { a.FirstClaimAt = time.Time{} },
		func(a *attempt.Attempt) { a.Status, a.Reason = attempt.StatusApproved, "" },
	}
	for i, f := range partly {
		c := &changer{id: full.ID, change: f}
		step := c.step()
		if i%2 == 0 {
			step = c.guess(full)
		}
		if err := store.Apply(ctx, step); err != nil {
			t.Fatal(err)
		}
		full = c.got
		wantSlot(t, store, full.Slot, full)
	}
	wantSame(t, "List", collect(t, store.List(ctx, attempt.Filter{}))[0], full)
}

// eachField sets one field at a time, of an attempt that has nothing else.
func eachField(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	f := &filler{}
	fields := reflect.TypeFor[attempt.Attempt]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		only := func(a *attempt.Attempt) {
			full := *a
			f.attempt(&full)
			full.Status = attempt.StatusUnknown
			reflect.ValueOf(a).Elem().Field(i).Set(reflect.ValueOf(full).Field(i))
		}
		bare := func(a *attempt.Attempt) {
			*a = attempt.Attempt{ID: a.ID, Slot: a.Slot, Ordinal: a.Ordinal, Status: attempt.StatusSending}
		}
		made := start(ctx, t, store, slot("made with "+name), func(a *attempt.Attempt) { bare(a); only(a) })
		wantSlot(t, store, made.Slot, made)

		for _, believed := range []bool{false, true} {
			a := start(ctx, t, store, slot(fmt.Sprint("changed ", name, believed)), bare)
			for _, change := range []func(*attempt.Attempt){only, nil, func(a *attempt.Attempt) {
				was := *a
				bare(a) // and taken away again
				a.Version, a.Key, a.Reference, a.Amount, a.Source, a.Status = was.Version, was.Key, was.Reference, was.Amount, was.Source, was.Status
				a.Description, a.Provider, a.ProviderAccount, a.Environment, a.CreatedAt = was.Description, was.Provider, was.ProviderAccount, was.Environment, was.CreatedAt
			}} {
				c := &changer{id: a.ID, change: change}
				step := c.step()
				if believed {
					step = c.guess(a)
				}
				if err := store.Apply(ctx, step); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				a = c.got
				wantSlot(t, store, a.Slot, a)
			}
		}
	}
}

func wholeEvent(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	a := start(ctx, t, store, slot("1001"), to(attempt.StatusSending))
	f := &filler{}
	var want []attempt.Event
	for _, kind := range []attempt.EvidenceKind{
		attempt.EvidenceSends, attempt.EvidenceLookup, attempt.EvidenceWebhook, attempt.EvidenceSettlement, attempt.EvidenceTime,
		attempt.EvidenceDecision, "",
	} {
		var e attempt.Event
		change := &changer{id: a.ID, event: func(v *attempt.Event) {
			f.event(v)
			if v.Evidence.Kind = kind; kind == "" {
				v.Evidence, v.Duties, v.Who = nil, nil, ""
			}
			e = *v
		}}
		if err := store.Apply(ctx, change.step()); err != nil {
			t.Fatal(err)
		}
		want = append(want, e)
	}
	got, err := store.Events(ctx, a.ID)
	if err != nil || len(got) != len(want)+1 {
		t.Fatalf("%d events, want %d: %v", len(got), len(want)+1, err)
	}
	for i, w := range want {
		g := got[i+1]
		what := fmt.Sprintf("event %d", g.Version)
		if (g.Evidence == nil) != (w.Evidence == nil) {
			t.Errorf("%s: evidence %v, want %v", what, g.Evidence, w.Evidence)
		} else if w.Evidence != nil {
			wantSame(t, "evidence of "+what, *g.Evidence, *w.Evidence)
		}
		g.Evidence, w.Evidence = nil, nil
		wantSame(t, what, g, w)
	}
}

func nothingStaysNothing(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	bare := start(ctx, t, store, slot("1001"), func(a *attempt.Attempt) {
		*a = attempt.Attempt{ID: a.ID, Slot: a.Slot, Ordinal: a.Ordinal, Status: attempt.StatusPrepared}
	})
	wantSlot(t, store, bare.Slot, bare)
	c := &changer{id: bare.ID, event: func(e *attempt.Event) { e.Evidence = &attempt.Evidence{At: e.At} }}
	if err := store.Apply(ctx, c.step()); err != nil {
		t.Fatal(err)
	}
	wantSlot(t, store, bare.Slot, c.got)
	events, err := store.Events(ctx, bare.ID)
	if err != nil || len(events) != 2 {
		t.Fatalf("%d events: %v", len(events), err)
	}
	if events[0].Evidence != nil || events[1].Evidence == nil {
		t.Errorf("evidence %v and %v, want none and an empty one", events[0].Evidence, events[1].Evidence)
	} else {
		wantSame(t, "evidence", *events[1].Evidence, attempt.Evidence{At: events[1].At})
	}
}

func microsecondsUTC(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	check := func(what string, at time.Time) {
		t.Helper()
		if at.Location() != time.UTC || at.Nanosecond()%1000 != 0 || at.IsZero() {
			t.Errorf("%s: %s is not UTC with microseconds", what, at)
		}
	}
	elsewhere := time.FixedZone("elsewhere", 3*3600+1800)
	var seen time.Time
	at := time.Date(2026, 3, 29, 2, 30, 0, 123456000, elsewhere)
	a := start(ctx, t, store, slot("1001"), func(a *attempt.Attempt) {
		seen = a.CreatedAt
		a.FirstClaimAt, a.NextCheckAt, a.LastSentAt = at, at, at
	})
	check("the clock a step sees", seen)
	check("the clock of Slot", now(ctx, t, store))
	v, err := store.TakeDue(ctx, 10, time.Hour)
	if err != nil || len(v.Attempts) != 1 {
		t.Fatalf("%d due: %v", len(v.Attempts), err)
	}
	check("the clock of TakeDue", v.Now)
	check("the lease", v.Attempts[0].NextCheckAt)
	got, err := store.Attempt(ctx, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	check("CreatedAt", got.CreatedAt)
	check("UpdatedAt", got.UpdatedAt)
	if !got.FirstClaimAt.Equal(at) || !got.LastSentAt.Equal(at) {
		t.Errorf("%s and %s, want %s", got.FirstClaimAt, got.LastSentAt, at)
	}
	events, err := store.Events(ctx, a.ID)
	if err != nil || len(events) != 1 {
		t.Fatal(len(events), err)
	}
	check("an event's time", events[0].At)
}

func longHistory(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	a := start(ctx, t, store, slot("1001"), func(a *attempt.Attempt) { a.Body = bytes.Repeat([]byte("0123456789abcdef"), 16<<10) })
	const versions, sends = 300, 500
	var detail string
	for i := range versions {
		c := &changer{id: a.ID, change: func(a *attempt.Attempt) { a.Asks++; a.Answer.Detail = strings.Repeat("é", i) }}
		c.event = func(e *attempt.Event) {
			e.Evidence = &attempt.Evidence{Kind: attempt.EvidenceSends, Fence: i}
			if i == versions-1 {
				detail = strings.Repeat("a long answer, ", 10_000)
				for n := range sends {
					e.Evidence.Sends = append(e.Evidence.Sends, attempt.Send{Took: time.Duration(n), Answer: attempt.Answer{StatusCode: n}})
				}
				e.Evidence.Answer = &attempt.Answer{Detail: detail}
			}
		}
		if err := store.Apply(ctx, c.guess(a)); err != nil {
			t.Fatal(err)
		}
		a = c.got
	}
	wantVersions(ctx, t, store, a.ID, versions+1)
	wantSlot(t, store, a.Slot, a)
	events, err := store.Events(ctx, a.ID)
	if err != nil || len(events) != versions+1 {
		t.Fatal(len(events), err)
	}
	last := events[versions].Evidence
	if len(last.Sends) != sends || last.Sends[sends-1].StatusCode != sends-1 || last.Answer.Detail != detail {
		t.Errorf("the last event holds %d sends, want %d", len(last.Sends), sends)
	}

	// A slot that was tried again and again.
	for n := range 30 {
		change(ctx, t, store, start(ctx, t, store, slot("1002"), nil).ID, to(attempt.StatusDeclined))
		if v, err := store.Slot(ctx, slot("1002")); err != nil || len(v.Attempts) != n+1 {
			t.Fatalf("%d attempts, want %d: %v", len(v.Attempts), n+1, err)
		}
	}
}

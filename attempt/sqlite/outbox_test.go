package sqlite

import (
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// While nobody listens no trigger stands in a payment's way.
func TestOutboxCostsNothingWithoutRelays(t *testing.T) {
	s := testStore(t, testFile(t), Options{})
	want := func(when string, want int64) {
		t.Helper()
		var n int64
		err := sqlSession{ctx: t.Context(), db: s.reads}.query1("SELECT count(*) FROM sqlite_schema WHERE type = 'trigger'", func(row []driver.Value) error {
			n = row[0].(int64)
			return nil
		})
		if err != nil || n != want {
			t.Errorf("%s: %d triggers, want %d: %v", when, n, want, err)
		}
	}
	ctx := t.Context()
	want("at first", 0)
	if err := errors.Join(s.AddRelay(ctx, "a"), s.AddRelay(ctx, "b"), s.AddRelay(ctx, "a")); err != nil {
		t.Fatal(err)
	}
	want("two relays", 1)
	if err := s.RemoveRelay(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	want("one relay", 1)
	if err := errors.Join(s.RemoveRelay(ctx, "b"), s.RemoveRelay(ctx, "b")); err != nil {
		t.Fatal(err)
	}
	want("none", 0)
	start(t, s, "1001")
}

// A damaged event holds back what follows it in its own attempt, and nobody else.
func TestUndeliveredBesideDamage(t *testing.T) {
	clock := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := testStore(t, testFile(t), Options{Now: func() time.Time { return clock }})
	ctx := t.Context()
	if err := s.AddRelay(ctx, "host"); err != nil {
		t.Fatal(err)
	}
	bad, good := start(t, s, "bad"), start(t, s, "good")
	for _, a := range []attempt.Attempt{bad, good} {
		outcome := approves(a)
		if err := s.Apply(ctx, outcome.Step(&a)); err != nil {
			t.Fatal(err)
		}
	}
	damage := func(text string) {
		t.Helper()
		if err := s.write.with(func(r *rawSession) error { return r.exec1(text, bad.ID) }); err != nil {
			t.Fatal(err)
		}
	}
	take := func(want ...string) error {
		t.Helper()
		events, err := s.TakeUndelivered(ctx, "host", 10, time.Minute)
		var got []string
		for _, e := range events {
			got = append(got, map[string]string{bad.ID: "bad ", good.ID: "good "}[e.AttemptID]+string(e.What))
		}
		if strings.Join(got, ", ") != strings.Join(want, ", ") {
			t.Errorf("given %q, want %q", got, want)
		}
		clock = clock.Add(time.Hour)
		return err
	}
	damage("UPDATE chargeonce_events SET evidence = '{' WHERE attempt_id = ? AND version = 2")
	if err := take("bad started_claimed", "good started_claimed", "good learnt"); err != nil {
		t.Error(err)
	}
	damage("DELETE FROM chargeonce_events WHERE attempt_id = ? AND version = 1")
	if err := take("good started_claimed", "good learnt"); err != nil {
		t.Error(err)
	}
	if err := s.Delivered(ctx, "host", good.ID, 2, 0); err != nil {
		t.Fatal(err)
	}
	if err := take(); !errors.Is(err, attempt.ErrUnavailable) || !strings.Contains(err.Error(), bad.ID) {
		t.Errorf("damage alone: %v", err)
	}
}

// The outbox's row of a relay that nobody asks for is one commit with the change: a step that fails half-way leaves none.
func TestOutboxIsAllOrNothing(t *testing.T) {
	s, f := faultyStore(t, testFile(t))
	if err := s.AddRelay(t.Context(), "host"); err != nil {
		t.Fatal(err)
	}
	a := start(t, s, "1001")
	for n := 1; ; n++ {
		left := n
		f.fault = failStatements(&left)
		outcome := approves(a)
		err := s.Apply(t.Context(), outcome.Step(&a))
		f.fault = nil
		want := 1
		if err == nil {
			want = 2
		}
		if lag, lagErr := s.Lag(t.Context(), "host"); lagErr != nil || lag.Events != want {
			t.Errorf("statement %d failed (%v): behind by %d events, want %d: %v", n, err, lag.Events, want, lagErr)
		}
		if err == nil {
			return
		}
	}
}

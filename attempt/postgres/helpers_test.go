package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/jackc/pgx/v5"
)

// testURL is that of the server for tests, which ./scripts/test starts.
func testURL(t testing.TB) string {
	t.Helper()
	url := os.Getenv("CHARGEONCE_TEST_POSTGRES")
	if url == "" {
		// Said aloud, and a failure in CI.
		t.Skip("SKIPPED: no PostgreSQL: ./scripts/test starts one, or set CHARGEONCE_TEST_POSTGRES to the URL of a server")
	}
	return url
}

var schemas atomic.Int64

// testSchema makes a schema of the test's own.
func testSchema(t testing.TB) string {
	t.Helper()
	schema := fmt.Sprintf("test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), schemas.Add(1))
	if _, err := Migrate(t.Context(), testURL(t), MigrateOptions{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin(t, "DROP SCHEMA "+schema+" CASCADE") })
	return schema
}

// admin runs statements on a connection of its own.
func admin(t testing.TB, statements ...string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	for _, s := range statements {
		if _, err := c.Exec(ctx, s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func openTest(t testing.TB, schema string, opts Options) *Store {
	t.Helper()
	opts.Schema = schema
	s, err := Open(t.Context(), testURL(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// testStore is a store in a schema of its own, closed at the end.
func testStore(t testing.TB, opts Options) *Store {
	t.Helper()
	s := openTest(t, testSchema(t), opts)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// starting is a step that starts a claimed attempt in a slot without a live one, and where to find what it came to.
type starting struct {
	attempt.Step
	got   attempt.Attempt
	began bool
	runs  int
}

func slotOf(order string) attempt.Slot { return attempt.Slot{Order: order}.WithDefaults() }

func starts(order string) *starting {
	s := &starting{Step: attempt.Step{Slot: slotOf(order), Fresh: true}}
	s.Do = func(v attempt.View) ([]attempt.Write, error) {
		s.runs++
		s.began = false
		if live, ok := v.Live(); ok {
			s.got = live
			return nil, nil
		}
		id, err := attempt.NewIdentity("t-")
		if err != nil {
			return nil, err
		}
		s.began = true
		s.got = attempt.Attempt{
			ID: id.ID, Key: id.Key, Reference: id.Reference, Slot: s.Slot, Ordinal: len(v.Attempts) + 1,
			Amount: money.MustParse("12.50", "EUR"), Source: attempt.Digest{Sum: "source"}, Provider: "test",
			Status: attempt.StatusPrepared, Version: 1, CreatedAt: v.Now, UpdatedAt: v.Now,
		}.Grant(v.Now, 15*time.Second, 2*time.Minute)
		return []attempt.Write{{Attempt: &s.got, Event: attempt.Event{
			AttemptID: s.got.ID, Version: 1, What: attempt.WhatStartedClaimed, From: attempt.StatusPrepared, To: s.got.Status, At: v.Now,
		}}}, nil
	}
	return s
}

// start stores a claimed attempt.
func start(t testing.TB, s *Store, order string) attempt.Attempt {
	t.Helper()
	step := starts(order)
	if err := s.Apply(t.Context(), &step.Step); err != nil || !step.began {
		t.Fatalf("start %s: began %v, %v", order, step.began, err)
	}
	return step.got
}

// approves is the outcome of a claim.
func approves(a attempt.Attempt) *attempt.Record {
	return &attempt.Record{ID: a.ID, Evidence: attempt.Evidence{
		Kind: attempt.EvidenceSends, Fence: a.Fence, Sends: []attempt.Send{{
			Charge: &attempt.Charge{ID: "ch_" + a.ID, Status: attempt.ChargeSucceeded, Amount: a.Amount},
			Answer: attempt.Answer{Verdict: attempt.Charged, StatusCode: 201},
		}},
	}}
}

// wantOne checks that the slot holds one attempt, with that status and that many events.
func wantOne(t testing.TB, s *Store, order string, status attempt.Status, events int) attempt.Attempt {
	t.Helper()
	v, err := s.Slot(context.Background(), slotOf(order))
	if err != nil || len(v.Attempts) != 1 {
		t.Errorf("order %s has %d attempts, want 1: %v", order, len(v.Attempts), err)
		return attempt.Attempt{}
	}
	a := v.Attempts[0]
	got, err := s.Events(context.Background(), a.ID)
	if err != nil || len(got) != events || a.Version != events || a.Status != status {
		t.Errorf("order %s is %s at version %d with %d events, want %s and %d: %v", order, a.Status, a.Version, len(got), status, events, err)
	}
	for i, e := range got {
		if e.Version != i+1 {
			t.Errorf("order %s: event %d is of version %d", order, i+1, e.Version)
		}
	}
	return a
}

func wantError(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: error %v, want one that matches %q", what, got, want)
	}
}

// withOptions is the server's URL with settings for each connection.
func withOptions(t testing.TB, settings ...string) string {
	t.Helper()
	text := testURL(t)
	mark := "?"
	if strings.Contains(text, "?") {
		mark = "&"
	}
	return text + mark + "options=" + strings.ReplaceAll(url.QueryEscape("-c "+strings.Join(settings, " -c ")), "+", "%20")
}

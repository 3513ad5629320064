package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/jackc/pgx/v5"
)

// A server that takes what it is asked and does not answer keeps nobody waiting without limit, whatever the caller's context allows.
// Once it answers again, the store goes on.
func TestAServerThatDoesNotAnswer(t *testing.T) {
	s := testStore(t, Options{patience: 300 * time.Millisecond})
	a := start(t, s, "1001")
	if err := s.AddRelay(t.Context(), "host"); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	tx, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"slots", "attempts", "events", "notes", "outbox", "relays"} {
		if _, err := tx.Exec(t.Context(), "LOCK TABLE "+s.opts.Schema+".chargeonce_"+table+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			t.Fatal(err)
		}
	}
	var calls sync.WaitGroup
	for name, call := range map[string]func(context.Context) error{
		"Attempt":         func(ctx context.Context) error { _, err := s.Attempt(ctx, a.ID); return err },
		"Slot":            func(ctx context.Context) error { _, err := s.Slot(ctx, a.Slot); return err },
		"Events":          func(ctx context.Context) error { _, err := s.Events(ctx, a.ID); return err },
		"Briefs":          func(ctx context.Context) error { _, err := s.Briefs(ctx, []string{a.ID}, nil); return err },
		"Notes":           func(ctx context.Context) error { _, err := s.Notes(ctx, attempt.NoteFilter{Scope: "w"}); return err },
		"TakeDue":         func(ctx context.Context) error { _, err := s.TakeDue(ctx, 1, time.Hour); return err },
		"TakeUndelivered": func(ctx context.Context) error { _, err := s.TakeUndelivered(ctx, "host", 1, time.Hour); return err },
		"Delivered":       func(ctx context.Context) error { return s.Delivered(ctx, "host", a.ID, 1, 0) },
		"Lag":             func(ctx context.Context) error { _, err := s.Lag(ctx, "host"); return err },
		"List": func(ctx context.Context) error {
			for _, err := range s.List(ctx, attempt.Filter{Open: true}) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := call(ctx)
			if !errors.Is(err, attempt.ErrUnavailable) || ctx.Err() != nil {
				t.Errorf("%s: %v, want that there is no answer", name, err)
			}
		})
	}
	calls.Wait()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 20 { // what was begun at the server ends in its own time
		if _, err = s.Attempt(t.Context(), a.ID); err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("after that: %v", err)
	}
	wantOne(t, s, "1001", attempt.StatusSending, 1)
}

package storetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// told is an event as "order version", to compare.
func told(ctx context.Context, t *testing.T, store attempt.Store, events []attempt.Event) []string {
	t.Helper()
	texts := make([]string, 0, len(events))
	for _, e := range events {
		a, err := store.Attempt(ctx, e.AttemptID)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, fmt.Sprint(a.Slot.Order, " ", e.Version))
	}
	return texts
}

// wantTaken takes what is undelivered and compares it.
func wantTaken(t *testing.T, store attempt.Store, relay string, limit int, lease time.Duration, want ...string) {
	t.Helper()
	events, err := store.TakeUndelivered(t.Context(), relay, limit, lease)
	if err != nil {
		t.Fatalf("relay %s: %v", relay, err)
	}
	if got := told(t.Context(), t, store, events); !slices.Equal(got, want) {
		t.Fatalf("relay %s is given %q, want %q", relay, got, want)
	}
}

func deliver(t *testing.T, store attempt.Store, relay string, a attempt.Attempt, version int, again time.Duration) {
	t.Helper()
	if err := store.Delivered(t.Context(), relay, a.ID, version, again); err != nil {
		t.Fatal(err)
	}
}

func wantLag(t *testing.T, store attempt.Store, relay string, events int, oldest time.Time) {
	t.Helper()
	lag, err := store.Lag(t.Context(), relay)
	if err != nil || lag.Events != events || !lag.Oldest.Equal(oldest) || lag.Oldest.Location() != time.UTC {
		t.Errorf("relay %s is behind by %d events since %s, want %d since %s: %v", relay, lag.Events, lag.Oldest, events, oldest, err)
	}
}

// happened is a change whose event is of that time.
func happened(ctx context.Context, t *testing.T, store attempt.Store, id string, at time.Time) {
	t.Helper()
	c := &changer{id: id, event: func(e *attempt.Event) { e.At = at }}
	if err := store.Apply(ctx, c.step()); err != nil {
		t.Fatal(err)
	}
}

func outbox(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	base := now(ctx, t, store)
	add := func(relay string) {
		t.Helper()
		if err := store.AddRelay(ctx, relay); err != nil {
			t.Fatal(err)
		}
	}
	a, b, c := start(ctx, t, store, slot("a"), nil), start(ctx, t, store, slot("b"), nil), start(ctx, t, store, slot("c"), nil)
	add("host")
	wantLag(t, store, "host", 0, time.Time{})
	wantTaken(t, store, "host", 10, time.Hour) // from now on
	minute := func(n int) time.Time { return base.Add(time.Duration(n) * time.Minute) }
	happened(ctx, t, store, b.ID, minute(-30))
	happened(ctx, t, store, a.ID, minute(-20))
	happened(ctx, t, store, c.ID, minute(-25))
	happened(ctx, t, store, c.ID, minute(-40)) // the clock was set back: it is the attempt's first event that counts
	add("mail \u00fc'")
	add("host") // changes nothing
	happened(ctx, t, store, b.ID, minute(-10))
	wantLag(t, store, "host", 5, minute(-40))
	wantLag(t, store, "mail \u00fc'", 1, minute(-10))

	for _, limit := range []int{0, -1} {
		wantTaken(t, store, "host", limit, time.Hour)
	}
	wantTaken(t, store, "host", 2, time.Hour, "b 2", "b 3", "c 2", "c 3")
	wantTaken(t, store, "host", 2, time.Hour, "a 2")
	wantTaken(t, store, "host", 2, time.Hour)
	wantTaken(t, store, "mail \u00fc'", 2, time.Hour, "b 3") // no relay takes another's

	// Those of an attempt that is taken wait for those before.
	happened(ctx, t, store, c.ID, minute(-5))
	happened(ctx, t, store, a.ID, minute(-4))
	wantTaken(t, store, "host", 10, time.Hour)
	deliver(t, store, "host", c, 2, 0)
	wantTaken(t, store, "host", 10, time.Hour, "c 3", "c 4")
	deliver(t, store, "host", c, 3, time.Hour)
	wantTaken(t, store, "host", 10, time.Hour)
	deliver(t, store, "host", c, 3, -time.Minute) // once more, and the wait is over
	wantTaken(t, store, "host", 10, -time.Minute, "c 4")
	wantTaken(t, store, "host", 10, time.Hour, "c 4") // the lease was over at once
	deliver(t, store, "host", c, 4, 0)
	deliver(t, store, "host", a, 1, 0) // nothing of it, and the lease is over
	wantTaken(t, store, "host", 10, time.Hour, "a 2", "a 3")
	deliver(t, store, "host", a, 3, 0)
	deliver(t, store, "host", b, 3, 0)
	wantLag(t, store, "host", 0, time.Time{})
	wantLag(t, store, "mail \u00fc'", 3, minute(-10)) // and delivers none for another

	// They are the events as they were written.
	f := &filler{}
	full := &changer{id: a.ID, event: f.event}
	if err := store.Apply(ctx, full.step()); err != nil {
		t.Fatal(err)
	}
	events, err := store.TakeUndelivered(ctx, "host", 1, time.Hour)
	if err != nil || len(events) != 1 {
		t.Fatalf("%d events: %v", len(events), err)
	}
	written, err := store.Events(ctx, a.ID)
	if err != nil {
		t.Fatal(err)
	}
	wantSame(t, "event", events[0], written[len(written)-1])

	if err := store.RemoveRelay(ctx, "host"); err != nil {
		t.Fatal(err)
	}
	_, err = store.TakeUndelivered(ctx, "host", 1, time.Hour)
	wantError(t, "TakeUndelivered of a relay that was removed", err, attempt.ErrNotFound)
	wantError(t, "Delivered", store.Delivered(ctx, "host", a.ID, 1, 0), attempt.ErrNotFound)
	_, err = store.Lag(ctx, "host")
	wantError(t, "Lag", err, attempt.ErrNotFound)
	if err := store.RemoveRelay(ctx, "host"); err != nil {
		t.Errorf("removed twice: %v", err)
	}
	happened(ctx, t, store, b.ID, minute(-3))
	add("host")
	wantLag(t, store, "host", 0, time.Time{}) // nothing of before comes back
	happened(ctx, t, store, b.ID, minute(-2))
	wantTaken(t, store, "host", 10, time.Hour, "b 5")
	wantLag(t, store, "mail \u00fc'", 6, minute(-10))

	// What a failed step would have told is told to nobody.
	failed := &attempt.Step{ID: b.ID, Do: func(v attempt.View) ([]attempt.Write, error) {
		w, _ := (&changer{id: b.ID}).do(v)
		return w, fmt.Errorf("why not")
	}}
	if err := store.Apply(ctx, failed); err == nil {
		t.Error("the step's error was swallowed")
	}
	wantLag(t, store, "host", 1, minute(-2))
	// Money gives its change of a refund too, and the closing of a slot is no event.
	charge := paid(ctx, t, store, slot("d"), 100)
	refund(ctx, t, store, charge, "1", 50)
	if err := store.Apply(ctx, closes(charge.Slot)); err != nil {
		t.Fatal(err)
	}
	wantTaken(t, store, "host", 10, time.Hour, "d 1", "d 2", "d 1")
}

func outboxLease(t *testing.T, s *suite) {
	var clock atomic.Pointer[time.Time]
	set := func(at time.Time) { clock.Store(&at) }
	base := time.Date(2026, 10, 25, 2, 59, 0, 0, time.UTC)
	set(base)
	store := closing(t, s.clock(t, func() time.Time { return *clock.Load() }))
	ctx := t.Context()
	if err := store.AddRelay(ctx, "host"); err != nil {
		t.Fatal(err)
	}
	a := start(ctx, t, store, slot("a"), nil)
	wantTaken(t, store, "host", 10, time.Minute, "a 1")
	set(base.Add(30 * time.Second))
	b := start(ctx, t, store, slot("b"), nil)
	change(ctx, t, store, a.ID, nil)
	wantTaken(t, store, "host", 10, time.Minute, "b 1")
	set(base.Add(time.Minute - time.Microsecond))
	wantTaken(t, store, "host", 10, time.Minute)
	set(base.Add(time.Minute))
	wantTaken(t, store, "host", 10, time.Hour, "a 1", "a 2")
	deliver(t, store, "host", a, 1, 10*time.Minute)
	set(base.Add(2 * time.Minute))
	change(ctx, t, store, a.ID, nil)
	wantTaken(t, store, "host", 10, time.Hour, "b 1")
	deliver(t, store, "host", b, 1, 0)
	set(base.Add(11*time.Minute - time.Microsecond))
	wantTaken(t, store, "host", 10, time.Hour)
	set(base.Add(11 * time.Minute))
	wantTaken(t, store, "host", 10, time.Hour, "a 2", "a 3")
	wantLag(t, store, "host", 2, base.Add(30*time.Second))
}

func outboxByOne(t *testing.T, s *suite) {
	relayOnHandles(t, s.empty(t))
}

func outboxOnTwoHandles(t *testing.T, s *suite) {
	open := s.database(t)
	first, second := closing(t, open(t)), closing(t, open(t))
	relayOnHandles(t, first, second)

	// A handle that has never heard of a relay fills its outbox all the same.
	start(t.Context(), t, second, slot("before"), nil)
	if err := first.AddRelay(t.Context(), "added elsewhere"); err != nil {
		t.Fatal(err)
	}
	start(t.Context(), t, second, slot("after"), nil)
	wantTaken(t, first, "added elsewhere", 10, time.Hour, "after 1")
}

// relayOnHandles delivers what others write meanwhile, turn by turn on each handle.
func relayOnHandles(t *testing.T, handles ...attempt.Store) {
	t.Helper()
	relayWhile(t, handles, func(ctx context.Context, n int) error {
		b := &starter{slot: slot(fmt.Sprint(n))}
		store := handles[n%len(handles)]
		if err := store.Apply(ctx, b.step()); err != nil {
			return err
		}
		for range 3 {
			c := &changer{id: b.got.ID}
			if err := store.Apply(ctx, c.step()); err != nil {
				return err
			}
		}
		return nil
	}, 4)
}

// transactionRelayed commits late what others have long gone past.
func transactionRelayed(t *testing.T, s *suite) {
	store := s.empty(t)
	relayWhile(t, []attempt.Store{store}, func(ctx context.Context, n int) error {
		b := &starter{slot: slot(fmt.Sprint(n))}
		if n%3 != 0 {
			return store.Apply(ctx, b.step())
		}
		return s.inTx(store, func(ctx context.Context, tx attempt.Tx) error {
			if err := tx.ApplyTx(ctx, b.step()); err != nil {
				return err
			}
			for range 100 {
				runtime.Gosched() // so that others come in between, where there is room
			}
			return nil
		})
	}, 1)
}

// relayWhile lets writers write, each of them so many events at a time, and relays deliver meanwhile: each event is delivered
// once, in the order of its attempt, and none is left out.
func relayWhile(t *testing.T, handles []attempt.Store, write func(ctx context.Context, n int) error, each int) {
	t.Helper()
	ctx, store := t.Context(), handles[0]
	if err := store.AddRelay(ctx, "host"); err != nil {
		t.Fatal(err)
	}
	const writers, times, relays = 6, 10, 3
	var mu sync.Mutex
	versions := make(map[string][]int)
	relay := func(store attempt.Store) (taken int) {
		events, err := store.TakeUndelivered(ctx, "host", 3, time.Hour)
		if err != nil {
			t.Error(err)
			return 0
		}
		for _, e := range events {
			mu.Lock()
			versions[e.AttemptID] = append(versions[e.AttemptID], e.Version)
			mu.Unlock()
		}
		for range 20 {
			runtime.Gosched() // telling the host takes its time
		}
		for i, e := range events {
			if i+1 == len(events) || events[i+1].AttemptID != e.AttemptID {
				if err := store.Delivered(ctx, "host", e.AttemptID, e.Version, 0); err != nil {
					t.Error(err)
				}
			}
		}
		return len(events)
	}
	var wrote, relayed sync.WaitGroup
	var ended atomic.Bool
	for w := range writers {
		wrote.Go(func() {
			for i := range times {
				if err := write(ctx, w*times+i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for r := range relays {
		relayed.Go(func() {
			for {
				last := ended.Load()
				if relay(handles[r%len(handles)]) == 0 && last {
					return
				}
			}
		})
	}
	wrote.Wait()
	ended.Store(true)
	relayed.Wait()
	for relay(store) > 0 { // what one relay had taken when the others saw nothing left
	}
	if len(versions) != writers*times {
		t.Errorf("events of %d attempts were delivered, want %d", len(versions), writers*times)
	}
	for id, got := range versions {
		for i, v := range got {
			if v != i+1 || len(got) != each {
				t.Errorf("of attempt %s the versions %v were delivered, want 1 to %d", id, got, each)
				break
			}
		}
	}
	wantLag(t, store, "host", 0, time.Time{})
}

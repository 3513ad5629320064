package attempt_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// office is a store in a bubble, with a host that is told of events and notes what it was told.
type office struct {
	t     *testing.T
	store *attempt.Memory

	mu      sync.Mutex
	got     []string // "attempt version", as accepted
	running map[string]int
	failed  []error

	// does is what the host does with an event beside noting it; nil: nothing.
	does func(context.Context, attempt.Event) error
}

func inOffice(t *testing.T, f func(*testing.T, *office)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, &office{t: t, store: new(attempt.Memory), running: map[string]int{}})
	})
}

// hear is the relays' func. It sees to it that no attempt's events are delivered at the same time.
func (o *office) hear(ctx context.Context, e attempt.Event) (err error) {
	o.mu.Lock()
	if o.running[e.AttemptID]++; o.running[e.AttemptID] > 1 {
		o.t.Errorf("attempt %s: two calls at a time", short(e.AttemptID))
	}
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.running[e.AttemptID]--
		if p := recover(); p != nil {
			panic(p)
		}
		if err == nil {
			o.got = append(o.got, fmt.Sprint(short(e.AttemptID), " ", e.Version))
		}
	}()
	if o.does != nil {
		return o.does(ctx, e)
	}
	return nil
}

// short is the number that an attempt of these tests has.
func short(id string) string { return strings.TrimLeft(id[len(id)-12:], "0") }

func (o *office) accepted() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.got)
}

// of returns the versions of an attempt that were accepted.
func (o *office) of(n int) (versions []int) {
	for _, text := range o.accepted() {
		id, version, _ := strings.Cut(text, " ")
		if id == strconv.Itoa(n) {
			v, _ := strconv.Atoi(version)
			versions = append(versions, v)
		}
	}
	return versions
}

func (o *office) failures() []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.failed)
}

// open starts a relay and returns what ends it: cancel, and then its error.
func (o *office) open(name string, options attempt.RelayOptions) (end func() error) {
	o.t.Helper()
	return o.openFrom(o.store, name, o.hear, options)
}

func (o *office) openFrom(
	store attempt.Store, name string, f func(context.Context, attempt.Event) error, options attempt.RelayOptions,
) (end func() error) {
	o.t.Helper()
	ctx, cancel := context.WithCancel(o.t.Context())
	options.Failed = func(_ attempt.Event, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.failed = append(o.failed, err)
	}
	ended := make(chan error, 1)
	var running atomic.Int64 // this relay's own calls
	counted := func(ctx context.Context, e attempt.Event) error {
		running.Add(1)
		defer running.Add(-1)
		return f(ctx, e)
	}
	go func() { ended <- attempt.Relay(ctx, store, name, counted, options) }()
	synctest.Wait()
	return func() error {
		o.t.Helper()
		cancel()
		err := <-ended
		if n := running.Load(); n > 0 {
			o.t.Errorf("the relay has ended, and %d calls run", n)
		}
		return err
	}
}

// start stores attempt n.
func (o *office) start(n int) attempt.Attempt {
	o.t.Helper()
	a := newAttempt(n)
	a.Slot.Order, a.Ordinal = strconv.Itoa(n), 1
	step := &attempt.Step{Slot: a.Slot, Do: func(v attempt.View) ([]attempt.Write, error) {
		return []attempt.Write{{Attempt: &a, Event: attempt.Event{AttemptID: a.ID, Version: 1, What: attempt.WhatStarted, To: a.Status, At: v.Now}}}, nil
	}}
	if err := o.store.Apply(o.t.Context(), step); err != nil {
		o.t.Fatal(err)
	}
	return a
}

// learn adds a version to attempt n.
func (o *office) learn(n int, charges ...attempt.Charge) {
	o.t.Helper()
	r := attempt.Record{ID: newAttempt(n).ID, Evidence: attempt.Evidence{Kind: attempt.EvidenceWebhook, Charges: charges}}
	if err := o.store.Apply(o.t.Context(), r.Step(nil)); err != nil {
		o.t.Error(err)
	}
}

// locked looks at, or changes, what the test shares with the relays.
func (o *office) locked(f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f()
}

func (o *office) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (o *office) want(want ...string) {
	o.t.Helper()
	got := o.accepted()
	if len(got) == 0 && len(want) == 0 {
		return
	}
	slices.Sort(got) // attempts have no order among each other
	if !slices.Equal(got, want) {
		o.t.Errorf("accepted %q, want %q", got, want)
	}
}

// lag checks how many events the relay is behind.
func (o *office) lag(name string, want int) {
	o.t.Helper()
	if lag, err := o.store.Lag(o.t.Context(), name); err != nil || lag.Events != want {
		o.t.Errorf("relay %s is behind by %+v, want %d: %v", name, lag, want, err)
	}
}

func upTo(n int) (versions []int) {
	for v := range n {
		versions = append(versions, v+1)
	}
	return versions
}

func TestRelayTellsOfFinalOutcomes(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		var finals []string
		o.does = func(_ context.Context, e attempt.Event) error {
			if e.Final() {
				finals = append(finals, fmt.Sprint(short(e.AttemptID), " ", e.To))
			}
			return nil
		}
		end := o.open("host", attempt.RelayOptions{})
		o.start(1)
		o.learn(1, attempt.Charge{ID: "ch_0", Status: attempt.ChargePending, Amount: asked})
		o.wait(time.Second)
		o.learn(1, paidNotice().Charge)
		o.learn(1, attempt.Charge{ID: "ch_2", Status: attempt.ChargeSucceeded, Amount: asked}) // an end ends once
		o.wait(time.Second)
		o.want("1 1", "1 2", "1 3", "1 4")
		if !slices.Equal(finals, []string{"1 approved"}) {
			t.Errorf("final: %q", finals)
		}
		o.lag("host", 0)
		if err := end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// What happened before a relay was added for the first time is not its business; what happened while it did not run, is.
func TestRelayAddedLate(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		o.start(1)
		o.learn(1)
		end := o.open("host", attempt.RelayOptions{})
		o.learn(1)
		o.start(2)
		o.wait(time.Second)
		o.want("1 3", "2 1")
		if err := end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		o.learn(1)
		o.lag("host", 1)
		end = o.open("host", attempt.RelayOptions{})
		o.wait(0)
		o.want("1 3", "1 4", "2 1")
		var mail []string
		second := o.openFrom(o.store, "mail", func(_ context.Context, e attempt.Event) error {
			mail = append(mail, fmt.Sprint(short(e.AttemptID), " ", e.Version))
			return nil
		}, attempt.RelayOptions{})
		o.wait(time.Second)
		o.want("1 3", "1 4", "2 1") // from now on
		o.learn(2)
		o.wait(time.Second)
		o.want("1 3", "1 4", "2 1", "2 2")
		if !slices.Equal(mail, []string{"2 2"}) {
			t.Errorf("the second relay was told %q", mail)
		}
		_, _ = end(), second()
	})
}

// A func that fails, or panics, is called again with the same event, ever more rarely, and holds back its own attempt only.
func TestRelayAFailureHoldsBackItsOwnAttempt(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"error": func(context.Context) error { return errors.New("no") },
		"panic": func(context.Context) error { panic("no") },
		"hangs until its context ends": func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inOffice(t, func(t *testing.T, o *office) {
				broken := true
				var calls []time.Duration
				began := time.Now()
				o.does = func(ctx context.Context, e attempt.Event) error {
					if short(e.AttemptID) != "1" || e.Version < 2 {
						return nil
					}
					fails := false
					o.locked(func() {
						calls = append(calls, time.Since(began))
						fails = broken
					})
					if fails {
						return fail(ctx)
					}
					return nil
				}
				end := o.open("host", attempt.RelayOptions{Lease: 10 * time.Second})
				o.start(1)
				for n := 2; n <= 30; n++ { // more than are delivered at a time
					o.start(n)
				}
				o.learn(1)
				o.learn(1)
				o.wait(time.Second)
				for n := 2; n <= 30; n++ {
					o.learn(n)
				}
				o.wait(time.Second)
				for n := 2; n <= 30; n++ {
					if got := o.of(n); !slices.Equal(got, upTo(2)) {
						t.Errorf("attempt %d: accepted %v", n, got)
					}
				}
				if got := o.of(1); !slices.Equal(got, upTo(1)) {
					t.Errorf("attempt 1: accepted %v", got)
				}
				o.wait(3 * time.Hour)
				var seen []time.Duration
				o.locked(func() { seen = slices.Clone(calls) })
				gaps := make([]time.Duration, 0, len(seen))
				for i := 1; i < len(seen); i++ {
					gaps = append(gaps, (seen[i] - seen[i-1]).Round(15*time.Second))
				}
				if n := len(seen); n < 12 || n > 16 || gaps[len(gaps)-1] < time.Hour || gaps[len(gaps)-1] > time.Hour+15*time.Second {
					t.Errorf("called %d times in 3 h, the gaps are %v", n, gaps)
				}
				if len(o.failures()) != len(seen) {
					t.Errorf("told of %d failures of %d calls", len(o.failures()), len(seen))
				}
				o.locked(func() { broken = false })
				o.wait(2 * time.Hour)
				if got := o.of(1); !slices.Equal(got, upTo(3)) {
					t.Errorf("attempt 1: accepted %v", got)
				}
				o.lag("host", 0)
				// The next failure is the first in a row.
				o.locked(func() { broken = true })
				o.learn(1)
				o.wait(15 * time.Second)
				o.locked(func() { broken = false })
				o.wait(15 * time.Second)
				if got := o.of(1); !slices.Equal(got, upTo(4)) {
					t.Errorf("attempt 1: accepted %v", got)
				}
				_ = end()
			})
		})
	}
}

// A call that ends when its context does has ended before another process may tell the same.
func TestRelayCallsEndBeforeTheirLease(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		o.does = func(ctx context.Context, e attempt.Event) error {
			if e.Version == 3 {
				<-ctx.Done()
				return ctx.Err()
			}
			time.Sleep(time.Second)
			return nil
		}
		var ends []func() error
		for range 3 {
			ends = append(ends, o.open("host", attempt.RelayOptions{Lease: 10 * time.Second}))
		}
		for n := range 20 {
			o.start(n + 1)
			o.learn(n + 1)
			o.learn(n + 1)
		}
		o.wait(10 * time.Minute)
		for n := range 20 {
			if got := o.of(n + 1); !slices.Equal(got, upTo(2)) {
				t.Errorf("attempt %d: accepted %v", n+1, got)
			}
		}
		for _, end := range ends {
			_ = end()
		}
	})
}

// Where more attempts fail than are delivered at a time, those behind them are delivered all the same.
func TestRelayManyFailuresHoldNobodyBack(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		o.does = func(_ context.Context, e attempt.Event) error {
			if n, _ := strconv.Atoi(short(e.AttemptID)); n <= 500 {
				return errors.New("no")
			}
			return nil
		}
		if err := o.store.AddRelay(t.Context(), "host"); err != nil {
			t.Fatal(err)
		}
		for n := range 510 {
			o.start(n + 1)
		}
		end := o.open("host", attempt.RelayOptions{})
		o.wait(0)
		if got := len(o.accepted()); got != 10 {
			t.Errorf("accepted %d events at once, want 10", got)
		}
		_ = end()
	})
}

// Any number of relays of one name: each event once, in order.
func TestRelayTwoOfOneName(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		o.does = func(context.Context, attempt.Event) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		}
		var ends []func() error
		for range 3 {
			ends = append(ends, o.open("host", attempt.RelayOptions{}))
		}
		for n := range 40 {
			o.start(n + 1)
		}
		for range 9 {
			for n := range 40 {
				o.learn(n + 1)
			}
			o.wait(350 * time.Millisecond)
		}
		o.wait(time.Minute)
		for n := range 40 {
			if got := o.of(n + 1); !slices.Equal(got, upTo(10)) {
				t.Errorf("attempt %d: accepted %v", n+1, got)
			}
		}
		for _, end := range ends {
			if err := end(); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if f := o.failures(); len(f) > 0 {
			t.Errorf("failures: %v", f)
		}
	})
}

// An end in the middle of a call waits for the call. What it has accepted is not told again; what it has not, is.
func TestRelayEndsWithItsContext(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		stubborn := true
		o.does = func(ctx context.Context, e attempt.Event) error {
			if e.Version == 2 {
				<-ctx.Done()
				if !stubborn {
					return ctx.Err()
				}
				time.Sleep(time.Second) // it goes on to its end
			}
			return nil
		}
		end := o.open("host", attempt.RelayOptions{})
		o.start(1)
		o.learn(1)
		o.learn(1)
		o.wait(2 * time.Second)
		began := time.Now()
		if err := end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("ended after %s", took)
		}
		o.want("1 1", "1 2")
		o.lag("host", 1)

		o.learn(1) // version 4
		o.start(2)
		o.learn(2)
		stubborn = false
		end = o.open("host", attempt.RelayOptions{})
		o.wait(0) // nothing waits for a lease of the relay before
		if err := end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		o.lag("host", 1)
		if f := o.failures(); len(f) > 0 {
			t.Errorf("its own end is no failure: %v", f)
		}
		o.does = nil
		end = o.open("host", attempt.RelayOptions{})
		o.wait(0)
		_ = end()
		if one, two := o.of(1), o.of(2); !slices.Equal(one, upTo(4)) || !slices.Equal(two, upTo(2)) {
			t.Errorf("accepted %v and %v", one, two)
		}
	})
}

// A process that freezes loses its lease: the others go on, from the first event that nobody has accepted.
func TestRelayLeaseExpires(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		// A call that outlasts its lease: its own process tells nothing else of the attempt meanwhile.
		frozen := make(chan struct{})
		var told []int
		freezing := o.openFrom(o.store, "host", func(_ context.Context, e attempt.Event) error {
			o.locked(func() { told = append(told, e.Version) })
			if e.Version == 2 {
				<-frozen // whatever its context says
			}
			return nil
		}, attempt.RelayOptions{Lease: 10 * time.Second, Every: 10 * time.Millisecond})
		o.start(1)
		o.learn(1)
		o.learn(1)
		o.wait(time.Minute) // and it hangs in version 2
		if !slices.Equal(told, upTo(2)) {
			t.Errorf("the frozen one was told %v", told)
		}
		other := o.open("host", attempt.RelayOptions{Lease: 10 * time.Second})
		o.wait(12 * time.Second)
		o.want("1 1", "1 2", "1 3")
		close(frozen)
		o.wait(time.Minute)
		if !slices.Equal(told, upTo(2)) { // it does not go on with what others have taken
			t.Errorf("the frozen one was told %v", told)
		}
		o.lag("host", 0)
		_, _ = other(), freezing()
	})
}

// A long history is taken anew before its lease ends, so that no two relays tell it.
func TestRelayAHistoryLongerThanItsLease(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		o.does = func(context.Context, attempt.Event) error {
			time.Sleep(3 * time.Second)
			return nil
		}
		if err := o.store.AddRelay(t.Context(), "host"); err != nil {
			t.Fatal(err)
		}
		o.start(1)
		for range 19 {
			o.learn(1)
		}
		first := o.open("host", attempt.RelayOptions{Lease: 10 * time.Second})
		second := o.open("host", attempt.RelayOptions{Lease: 10 * time.Second})
		o.wait(5 * time.Minute)
		if got := o.of(1); !slices.Equal(got, upTo(20)) {
			t.Errorf("accepted %v", got)
		}
		_, _ = first(), second()
	})
}

func TestRelayRemoved(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		o.does = func(context.Context, attempt.Event) error {
			time.Sleep(5 * time.Second)
			return nil
		}
		end := o.open("host", attempt.RelayOptions{})
		mail := 0
		other := o.openFrom(o.store, "mail", func(context.Context, attempt.Event) error {
			mail++
			return nil
		}, attempt.RelayOptions{})
		o.start(1)
		o.wait(2 * time.Second) // it is in its call
		if err := o.store.RemoveRelay(t.Context(), "host"); err != nil {
			t.Fatal(err)
		}
		o.learn(1)
		o.wait(time.Minute)
		if err := end(); !errors.Is(err, attempt.ErrNotFound) || !strings.Contains(err.Error(), "host") {
			t.Errorf("ended with %v", err)
		}
		o.want("1 1") // the call that was running
		if mail != 2 {
			t.Errorf("the other relay was told %d times", mail)
		}
		if f := o.failures(); len(f) > 0 {
			t.Errorf("failures: %v", f)
		}
		_ = other()
	})
}

// A store that fails for a while: nothing is lost, and the func may be told again what it has accepted.
func TestRelayWhileTheStoreIsDown(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		store := &flakyOutbox{Memory: o.store}
		end := o.openFrom(store, "host", o.hear, attempt.RelayOptions{Lease: 10 * time.Second})
		store.set(errors.New("down"), false)
		o.start(1)
		o.wait(10 * time.Second)
		o.want()
		if n := len(o.failures()); n < 9 || n > 11 {
			t.Errorf("told of %d failures in 10 s", n)
		}
		store.set(nil, true) // it gives, and does not learn what was delivered
		o.wait(2 * time.Second)
		o.want("1 1")
		store.set(nil, false)
		o.wait(10 * time.Second)
		o.want("1 1", "1 1")
		o.lag("host", 0)
		if err := end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Run("from the start", func(t *testing.T) {
		store := &flakyOutbox{Memory: new(attempt.Memory), down: attempt.ErrUnavailable}
		err := attempt.Relay(t.Context(), store, "host", func(context.Context, attempt.Event) error { return nil })
		if !errors.Is(err, attempt.ErrUnavailable) {
			t.Errorf("ended with %v", err)
		}
	})
}

// flakyOutbox is a store whose outbox fails.
type flakyOutbox struct {
	*attempt.Memory
	mu    sync.Mutex
	down  error
	deaf  bool
	stuck bool // gives nothing before the caller gives up
}

func (s *flakyOutbox) set(down error, deaf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.deaf = down, deaf
}

func (s *flakyOutbox) state() (down error, deaf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down, s.deaf
}

func (s *flakyOutbox) AddRelay(ctx context.Context, relay string) error {
	if down, _ := s.state(); down != nil {
		return down
	}
	return s.Memory.AddRelay(ctx, relay)
}

func (s *flakyOutbox) TakeUndelivered(ctx context.Context, relay string, limit int, lease time.Duration) ([]attempt.Event, error) {
	if down, _ := s.state(); down != nil {
		return nil, down
	}
	if s.stuck {
		<-ctx.Done()
		return nil, attempt.ErrUnavailable
	}
	return s.Memory.TakeUndelivered(ctx, relay, limit, lease)
}

func (s *flakyOutbox) Delivered(ctx context.Context, relay, attemptID string, version int, again time.Duration) error {
	if down, deaf := s.state(); down != nil || deaf {
		return attempt.ErrUnavailable
	}
	return s.Memory.Delivered(ctx, relay, attemptID, version, again)
}

func TestRelayEndsWhileTheStoreIsStuck(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		end := o.openFrom(&flakyOutbox{Memory: o.store, stuck: true}, "host", o.hear, attempt.RelayOptions{})
		if err := end(); !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		if f := o.failures(); len(f) > 0 {
			t.Errorf("its own end is no failure: %v", f)
		}
	})
}

// Options that make no sense are the defaults, not a loop without a wait.
func TestRelayOptions(t *testing.T) {
	inOffice(t, func(t *testing.T, o *office) {
		calls := 0
		o.does = func(context.Context, attempt.Event) error {
			o.locked(func() { calls++ })
			return errors.New("no")
		}
		end := o.open("host", attempt.RelayOptions{Every: -1, Lease: -1, Retry: -1, Attempts: -1})
		o.start(1)
		o.wait(time.Minute)
		_ = end()
		if calls < 5 || calls > 7 { // after 0 (or 1), 1, 3, 7, 15, 31 s
			t.Errorf("called %d times in a minute", calls)
		}
	})
	inOffice(t, func(t *testing.T, o *office) { // a wait so long that it doubles beyond what a Duration holds
		calls := 0
		o.does = func(context.Context, attempt.Event) error {
			o.locked(func() { calls++ })
			return errors.New("no")
		}
		end := o.open("host", attempt.RelayOptions{Retry: 365 * 24 * time.Hour, Every: time.Minute})
		o.start(1)
		o.wait(48*time.Hour + 5*time.Minute)
		_ = end()
		if calls < 46 || calls > 49 {
			t.Errorf("called %d times in two days, want once an hour", calls)
		}
	})
}

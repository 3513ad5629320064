package attempt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// RelayOptions sets up a relay. The zero RelayOptions are the defaults.
type RelayOptions struct {
	// Every is how long the relay waits when nothing is left to deliver. Zero: 1 s.
	Every time.Duration
	// Lease is how long one call of the func may take before another process's relay of the same name may deliver the same
	// events. Zero: 1 min.
	Lease time.Duration
	// Retry is the wait after the func has failed, for the attempt concerned; it doubles with each failure in a row, up to
	// an hour. Zero: 1 s.
	Retry time.Duration
	// Attempts is of how many attempts events are delivered at the same time. Zero: 8.
	Attempts int
	// Failed is told of each failure of the func or the store; nil: nobody is.
	Failed func(e Event, err error)
}

// Relay tells a func of every change of every attempt, from the moment on at which a relay of that name was first added to
// the store: how a host learns of final outcomes, see [Event.Final]. It returns when ctx ends, with ctx's error, or at once
// where the store does not take the relay.
//
// Each event is delivered at least once, and the events of one attempt one after another in the order of their versions, also
// with several relays of the same name, in whatever processes, as long as no call takes longer than the lease. An event that
// commits late is delivered late and not skipped. A func that fails, or panics, is called again with the same event after a
// while; it holds back the events of that attempt and no others. What ctx's end interrupts is delivered again.
func Relay(ctx context.Context, store Store, name string, f func(context.Context, Event) error, options ...RelayOptions) error {
	r := relay{store: store, name: name, f: f, failures: map[string]int{}}
	if len(options) > 0 {
		r.RelayOptions = options[0]
	}
	r.Every, r.Lease, r.Retry = orElse(r.Every, time.Second), orElse(r.Lease, time.Minute), orElse(r.Retry, time.Second)
	if r.Attempts <= 0 {
		r.Attempts = 8
	}
	if err := store.AddRelay(ctx, name); err != nil {
		return fmt.Errorf("relay %q: %w", name, err)
	}
	for {
		if delivered := r.round(ctx); delivered {
			continue
		}
		timer := time.NewTimer(r.Every)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

type relay struct {
	RelayOptions
	store Store
	name  string
	f     func(context.Context, Event) error

	mu       sync.Mutex
	failures map[string]int // in a row, by attempt
}

// round delivers what is undelivered. It returns whether anything was: then there may be more.
func (r *relay) round(ctx context.Context) bool {
	events, err := r.store.TakeUndelivered(ctx, r.name, r.Attempts, r.Lease)
	if err != nil {
		r.failed(Event{}, err)
		return false
	}
	var each sync.WaitGroup
	var progress atomic.Bool
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].AttemptID == events[0].AttemptID {
			n++
		}
		of := events[:n]
		events = events[n:]
		each.Go(func() {
			if r.deliver(ctx, of) {
				progress.Store(true)
			}
		})
	}
	each.Wait()
	return progress.Load() && ctx.Err() == nil
}

// deliver delivers the events of one attempt, until one fails.
func (r *relay) deliver(ctx context.Context, events []Event) (delivered bool) {
	id := events[0].AttemptID
	began := time.Now()
	for i, e := range events {
		err := ctx.Err()
		if err == nil {
			err = r.call(ctx, e)
		}
		if err != nil {
			wait := time.Duration(0)
			if ctx.Err() == nil {
				r.failed(e, err)
				wait = r.wait(id)
			}
			r.done(ctx, id, e.Version-1, wait)
			return i > 0
		}
		r.mu.Lock()
		delete(r.failures, id)
		r.mu.Unlock()
		rest := r.Lease - time.Since(began)
		last := i == len(events)-1
		if last || rest < r.Lease/2 {
			r.done(ctx, id, e.Version, 0)
		}
		if !last && rest < r.Lease/2 { // the next call might outlast the lease: take them anew
			return true
		}
	}
	return true
}

// call calls the func. One that panics has failed.
func (r *relay) call(ctx context.Context, e Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return r.f(ctx, e)
}

// wait returns how long to wait after one more failure in a row.
func (r *relay) wait(id string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.failures[id]
	r.failures[id] = n + 1
	return min(r.Retry<<min(n, 12), time.Hour)
}

func (r *relay) done(ctx context.Context, id string, version int, again time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := r.store.Delivered(ctx, r.name, id, version, again); err != nil {
		r.failed(Event{AttemptID: id, Version: version}, errors.Join(errors.New("delivered, and will be delivered again"), err))
	}
}

func (r *relay) failed(e Event, err error) {
	if r.Failed != nil {
		r.Failed(e, err)
	}
}

// Final tells whether the event brought the attempt to its end.
func (e Event) Final() bool { return e.To.Final() && !e.From.Final() }

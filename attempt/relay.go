package attempt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// RelayOptions sets up a relay. The zero RelayOptions are the defaults.
type RelayOptions struct {
	// Every is how long the relay waits before it looks again when nothing more was left to deliver. Zero: 1 s.
	Every time.Duration
	// Lease is how long one call of the func may take before another process's relay of the same name may deliver the same
	// events. The context of a call ends when three quarters of it have passed. Zero: 1 min.
	Lease time.Duration
	// Retry is the wait after the func has failed, for the attempt concerned; it doubles with each failure in a row, up to
	// an hour. Zero: 1 s.
	Retry time.Duration
	// Attempts is of how many attempts events are delivered at the same time. Zero: 8.
	Attempts int
	// Failed is told of each failure of the func, with the event, and of the store, with what is known of it; nil: nobody is.
	// It may be called by several goroutines at a time.
	Failed func(e Event, err error)
}

// Relay tells a func of every change of every attempt, from the moment on at which a relay of that name was first added to
// the store: how a host learns of final outcomes, see [Event.Final]. It returns when ctx ends, with ctx's error, and no call of
// the func is running then; at once, where the store does not take the relay; and with [ErrNotFound], once the relay was
// removed from the store.
//
// A host calls store.AddRelay itself before it takes the first payment, or what happens before the first Relay starts is not told.
//
// Each event is delivered at least once, and the events of one attempt one after another in the order of their versions, also
// with several relays of the same name, in whatever processes, as long as no call takes longer than the lease. An event that
// commits late is delivered late and not skipped. A func that fails, or panics, is called again with the same event after a
// while; it holds back the events of that attempt and no others. What ctx's end interrupts is delivered again.
func Relay(ctx context.Context, store Store, name string, f func(context.Context, Event) error, options ...RelayOptions) error {
	r := relay{store: store, name: name, f: f, failures: map[string]int{}, busy: map[string]bool{}}
	if len(options) > 0 {
		r.RelayOptions = options[0]
	}
	r.RelayOptions = r.withDefaults()
	r.slots = make(chan struct{}, r.Attempts)
	if err := store.AddRelay(ctx, name); err != nil {
		return fmt.Errorf("relay %q: %w", name, err)
	}
	defer r.calls.Wait()
	for {
		more, err := r.round(ctx)
		if err != nil {
			return err
		}
		if more {
			continue
		}
		timer := time.NewTimer(r.Every)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (o RelayOptions) withDefaults() RelayOptions {
	set := func(d *time.Duration, zero time.Duration) {
		if *d <= 0 {
			*d = zero
		}
	}
	set(&o.Every, time.Second)
	set(&o.Lease, time.Minute)
	set(&o.Retry, time.Second)
	if o.Attempts <= 0 {
		o.Attempts = 8
	}
	return o
}

type relay struct {
	RelayOptions
	store Store
	name  string
	f     func(context.Context, Event) error

	calls sync.WaitGroup
	slots chan struct{} // one is taken for each attempt whose events are being delivered

	mu       sync.Mutex
	failures map[string]int // in a row, by attempt
	busy     map[string]bool
}

// round begins to deliver what is undelivered, of as many attempts as there are slots free: a call that takes long holds back
// nothing but its own attempt. more says that there may be more. It fails where ctx has ended or the relay is no more.
func (r *relay) round(ctx context.Context) (more bool, err error) {
	free, err := r.take(ctx)
	if err != nil {
		return false, err
	}
	began := time.Now()
	events, err := r.store.TakeUndelivered(ctx, r.name, free, r.Lease)
	attempts := 0
	for len(events) > 0 && err == nil {
		n := 1
		for n < len(events) && events[n].AttemptID == events[0].AttemptID {
			n++
		}
		of := events[:n]
		events = events[n:]
		if !r.begin(of[0].AttemptID) {
			r.done(ctx, of[0].AttemptID, of[0].Version-1, 0) // a call outlasts its lease here: another process may go on
			continue
		}
		attempts++
		r.calls.Go(func() {
			defer r.release(1)
			defer r.end(of[0].AttemptID)
			r.deliver(ctx, of, began)
		})
	}
	r.release(free - attempts)
	switch {
	case errors.Is(err, ErrNotFound):
		return false, fmt.Errorf("relay %q: removed: %w", r.name, err)
	case err != nil && ctx.Err() == nil:
		r.failed(Event{}, err)
	}
	return attempts == free, nil
}

// take waits for a free slot and takes all that are free.
func (r *relay) take(ctx context.Context) (free int, err error) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	for free = 1; free < r.Attempts; free++ {
		select {
		case r.slots <- struct{}{}:
		default:
			return free, nil
		}
	}
	return free, nil
}

func (r *relay) release(slots int) {
	for range slots {
		<-r.slots
	}
}

// begin tells whether nobody in this process delivers the attempt's events.
func (r *relay) begin(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy[id] {
		return false
	}
	r.busy[id] = true
	return true
}

func (r *relay) end(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.busy, id)
}

// deliver delivers the events of one attempt, leased since began, until one fails.
func (r *relay) deliver(ctx context.Context, events []Event, began time.Time) {
	id := events[0].AttemptID
	usable := r.Lease - r.Lease/4 // the rest is for telling the store
	for i, e := range events {
		err := ctx.Err()
		if err == nil {
			err = r.call(ctx, e, usable-time.Since(began))
		}
		if err != nil {
			wait := time.Duration(0)
			if ctx.Err() == nil {
				r.failed(e, err)
				wait = r.wait(id)
			}
			r.done(ctx, id, e.Version-1, wait)
			return
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
			return
		}
	}
}

// call calls the func. One that panics has failed.
func (r *relay) call(ctx context.Context, e Event, limit time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
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
	return min(min(r.Retry, time.Hour)<<min(n, 12), time.Hour)
}

func (r *relay) done(ctx context.Context, id string, version int, again time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := r.store.Delivered(ctx, r.name, id, version, again)
	if err != nil && !errors.Is(err, ErrNotFound) { // a relay that was removed: the next round sees it
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

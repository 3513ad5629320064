package payclient

import (
	"context"
	"sync"
	"time"
)

// detached is a context for storing an outcome: it has the parent's values and a deadline of its own, and the parent's
// cancellation does not reach it. Its timer starts when somebody waits for it, which a store that is not busy never does.
type detached struct {
	parent context.Context
	until  time.Time

	mu    sync.Mutex
	done  chan struct{} // guarded by mu, like timer
	timer *time.Timer
}

// Deadline implements [context.Context].
func (d *detached) Deadline() (time.Time, bool) { return d.until, true }

// Value implements [context.Context].
func (d *detached) Value(key any) any { return d.parent.Value(key) }

// Err implements [context.Context].
func (d *detached) Err() error {
	if time.Now().Before(d.until) {
		return nil
	}
	return context.DeadlineExceeded
}

// Done implements [context.Context].
func (d *detached) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		done := make(chan struct{})
		d.done = done
		d.timer = time.AfterFunc(time.Until(d.until), func() { close(done) })
	}
	return d.done
}

// release stops the timer. Whoever still waits on Done waits in vain: only the store did.
func (d *detached) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
}

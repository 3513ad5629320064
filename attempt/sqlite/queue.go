package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// queue holds what waits for the writer. It has no goroutine of its own: one of the waiting calls leads. It takes all that
// is pending into one transaction, commits, wakes those whose items are done, and when its own are, hands the lead to the
// next one waiting. So a lone caller pays for no switch, and while one commit is under way the next batch gathers.
type queue struct {
	mu       sync.Mutex
	led      bool    // a call leads
	outcomes []*item // waiting, oldest first; they go before the others
	others   []*item // waiting, oldest first
	closed   bool
	idle     chan struct{} // of a closed queue: closed when nobody leads any more
}

// item is one step, or other work that writes, on its way through the queue.
type item struct {
	call *call
	step *attempt.Step       // nil for work
	work func(session) error // in the batch's transaction
	belief

	written  effects // of the last run of the step
	err      error
	panicked any // what the step panicked with
}

func (i *item) outcome() bool { return i.step != nil && i.step.Outcome }

// call is one caller that waits for its items.
type call struct {
	ctx   context.Context
	since time.Time
	alone bool      // needs the writer for itself
	wake  chan bool // has room for one: true, the call leads; false, its items are done
	left  int       // items that are not done; under the queue's lock
	leads bool      // under the queue's lock
	first item
}

func newCall(ctx context.Context) *call {
	c := &call{ctx: ctx, since: time.Now(), wake: make(chan bool, 1)}
	c.first.call = c
	return c
}

var errClosed = fmt.Errorf("%w: closed", attempt.ErrUnavailable)

// enter puts a call's items into the queue and waits until they are done or the call leads.
func (q *queue) enter(c *call, items []*item) (leads bool) {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		for _, i := range items {
			i.err = errClosed
		}
		return false
	}
	c.left = len(items)
	for _, i := range items {
		if i.outcome() {
			q.outcomes = append(q.outcomes, i)
		} else {
			q.others = append(q.others, i)
		}
	}
	if !q.led {
		q.led, c.leads = true, true
		q.mu.Unlock()
		return true
	}
	q.mu.Unlock()
	return q.wait(c)
}

func (q *queue) wait(c *call) (leads bool) {
	limit := time.NewTimer(lockLimit)
	defer limit.Stop()
	done, late := c.ctx.Done(), limit.C
	for {
		var left int
		select {
		case leads := <-c.wake:
			return leads
		case <-done:
			done = nil
			leads, left = q.expire(c, true, c.ctx.Err())
		case <-late:
			late = nil
			leads, left = q.expire(c, false, errLate)
		}
		if leads || left == 0 {
			return leads
		}
	}
}

var errLate = fmt.Errorf("waited %s for the writer", lockLimit)

// expire takes a call's items out of the queue, the outcomes among them only if all are meant. Those that somebody is
// writing already stay, their end is near.
func (q *queue) expire(c *call, all bool, why error) (leads bool, left int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	drop := func(i *item) bool {
		if i.call != c {
			return false
		}
		i.err = fmt.Errorf("%w: %w", attempt.ErrUnavailable, why)
		c.left--
		return true
	}
	if all {
		q.outcomes = slices.DeleteFunc(q.outcomes, drop)
	}
	q.others = slices.DeleteFunc(q.others, drop)
	return c.leads, c.left
}

// take takes what is to be written next, at most n items: outcomes first, then others up to one that needs the writer for
// itself.
func (q *queue) take(n int) []*item {
	q.mu.Lock()
	defer q.mu.Unlock()
	outcomes := min(n, len(q.outcomes))
	others := 0
	for outcomes+others < n && others < len(q.others) && !q.others[others].call.alone {
		others++
	}
	if outcomes+others == 0 {
		return nil
	}
	taken := slices.Concat(q.outcomes[:outcomes], q.others[:others])
	q.outcomes = slices.Delete(q.outcomes, 0, outcomes)
	q.others = slices.Delete(q.others, 0, others)
	return taken
}

// takeAlone takes the item of a leading call that needs the writer for itself. It fails if the item has expired.
func (q *queue) takeAlone(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	had := len(q.others)
	q.others = slices.DeleteFunc(q.others, func(i *item) bool { return i.call == c })
	return len(q.others) < had
}

// done says that items are written or have failed, and wakes the calls that have none left.
func (q *queue) done(items []*item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, i := range items {
		c := i.call
		if c.left--; c.left == 0 && !c.leads {
			c.wake <- false
		}
	}
}

// pending tells whether a call has items that are not done.
func (q *queue) pending(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return c.left > 0
}

func (q *queue) outcomesWait() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.outcomes) > 0
}

// handOver gives the lead to the next call waiting, or to nobody.
func (q *queue) handOver(c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.leads = false
	var next *call
	switch {
	case len(q.outcomes) > 0:
		next = q.outcomes[0].call
	case len(q.others) > 0:
		next = q.others[0].call
	default:
		q.led = false
		if q.closed {
			close(q.idle)
		}
		return
	}
	next.leads = true
	next.wake <- true
}

// close lets nothing more in and waits for what is inside. It returns false if the queue was closed before.
func (q *queue) close() bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	q.closed, q.idle = true, make(chan struct{})
	if !q.led {
		close(q.idle)
	}
	q.mu.Unlock()
	<-q.idle
	return true
}

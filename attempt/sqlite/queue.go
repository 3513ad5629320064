package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// queue holds the steps that wait for the writer. There is no goroutine of its own: one of the waiting calls leads. It takes
// all that is pending into one transaction, commits, wakes those whose steps are done, and when its own are, hands the lead
// to the next one waiting. So a lone caller pays for no switch, and while one commit is under way the next batch gathers.
type queue struct {
	mu       sync.Mutex
	led      bool    // a call leads
	outcomes []*item // waiting, oldest first; they go first
	others   []*item // waiting, oldest first
	closed   bool
	idle     chan struct{} // closed when a closed queue has nobody leading
}

// item is one step, or other work that writes, on its way through the queue.
type item struct {
	call *call
	step *attempt.Step // nil for work
	belief
	work func(session) error // in the batch's transaction

	written  []attempt.Write // by the last run of the step
	err      error
	panicked any
}

func (i *item) outcome() bool { return i.step != nil && i.step.Outcome }

// call is one caller that waits for its items.
type call struct {
	ctx   context.Context
	alone bool // needs the writer for itself: InTx

	// Under the queue's lock:
	left  int  // items that are not done
	leads bool // this call leads

	wake chan struct{} // has room for one: all items are done, or the call leads
	own  [1]*item
	one  item
}

// newCall returns a call with room for one item.
func newCall(ctx context.Context) *call {
	c := &call{ctx: ctx, wake: make(chan struct{}, 1)}
	c.one.call = c
	c.own[0] = &c.one
	return c
}

// enter puts items into the queue and waits until they are done or the call leads; leads says which.
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
	}
	leads = c.leads
	q.mu.Unlock()
	if leads {
		return true
	}
	return q.wait(c)
}

var errClosed = fmt.Errorf("%w: closed", attempt.ErrUnavailable)

func (q *queue) wait(c *call) (leads bool) {
	limit := time.NewTimer(lockLimit)
	defer limit.Stop()
	done, late := c.ctx.Done(), limit.C
	for {
		select {
		case <-c.wake:
		case <-done:
			done = nil
			q.expire(c, true, c.ctx.Err())
		case <-late:
			late = nil
			q.expire(c, false, errLate)
		}
		q.mu.Lock()
		leads, left := c.leads, c.left
		q.mu.Unlock()
		if leads || left == 0 {
			return leads
		}
	}
}

var errLate = fmt.Errorf("waited %s for the writer", lockLimit)

// expire takes a call's waiting items out of the queue, the outcomes among them only if asked to. Those that are being
// written already stay.
func (q *queue) expire(c *call, outcomes bool, why error) {
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
	if outcomes {
		q.outcomes = slices.DeleteFunc(q.outcomes, drop)
	}
	q.others = slices.DeleteFunc(q.others, drop)
}

// batchLimit bounds a batch, so that an outcome which comes meanwhile does not wait for long.
const batchLimit = 256

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
	batch := slices.Concat(q.outcomes[:outcomes], q.others[:others])
	q.outcomes = slices.Delete(q.outcomes, 0, outcomes)
	q.others = slices.Delete(q.others, 0, others)
	return batch
}

// done says that items are written or have failed, and wakes the calls that have none left.
func (q *queue) done(items []*item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, i := range items {
		c := i.call
		if c.left--; c.left == 0 && !c.leads {
			c.signal()
		}
	}
}

func (c *call) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// pending tells whether a call has items that are not done.
func (q *queue) pending(c *call) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return c.left > 0
}

// handOver gives the lead to the next call waiting, or to nobody.
func (q *queue) handOver(c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.leads = false
	switch {
	case len(q.outcomes) > 0:
		q.appoint(q.outcomes[0].call)
	case len(q.others) > 0:
		q.appoint(q.others[0].call)
	default:
		q.led = false
		if q.closed {
			close(q.idle)
		}
	}
}

func (q *queue) appoint(c *call) {
	c.leads = true
	c.signal()
}

// close lets no more items in and waits for those inside. It returns false if the queue was closed before.
func (q *queue) close() bool {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return false
	}
	q.closed = true
	q.idle = make(chan struct{})
	if !q.led {
		close(q.idle)
	}
	q.mu.Unlock()
	<-q.idle
	return true
}

// leave takes the item of a call that had the writer for itself out of the queue.
func (q *queue) leave(c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.others = slices.DeleteFunc(q.others, func(i *item) bool { return i.call == c })
	c.left = 0
}

func (q *queue) waitingOutcomes() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.outcomes) > 0
}

package postgres

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// lane is the way of one kind of steps to the database: outcomes have one, all others another, each with connections of its
// own. A step that finds a connection free goes at once and alone. In a crowd a queue forms, and whoever gets free takes all of it
// that can go together. Of one slot one step is under way at a time.
type lane struct {
	work func(items []*item) // tries each once
	pool *pool

	mu      sync.Mutex
	width   int // how many may work
	free    int // how many more may
	here    int // items under way
	busy    map[string]struct{}
	pending []*item // oldest first
	usual   float64 // size of the last batches, the newer the more it counts
	hurries bool    // a look at who has waited for long is ahead
	closed  bool
	idle    sync.WaitGroup // those who work
}

// A batch is bounded, so that what comes meanwhile does not wait for long.
const (
	batchLimit  = 64 // steps on belief: one statement for all, with an advisory lock for each that starts a slot
	loadedLimit = 32 // steps that are loaded: some statements for each, and the slots are held for two round trips

	// crowd is from how many steps on in a lane they are worth more together than at once: then the next batch gathers while one is under
	// way, until there is enough for another beside it. A row costs a batch of 64 a fifth of what it costs alone.
	crowd    = 16
	gathered = 32
	// crowded is the size of batches, on the average of the last few, that tells a crowd although few are in the lane at this moment.
	crowded = 4
	// patience is how long anyone waits for others to come: what is under way may hang.
	patience = 10 * time.Millisecond
)

// item is one step on its way through a lane.
type item struct {
	s      *Store
	step   *attempt.Step
	call   *call
	key    string // of one key one item is under way at a time
	belief belief

	loaded  bool // not on belief any more
	alone   bool // not together with others any more: a batch with it has failed
	maybe   effects
	inDoubt bool // maybe may have been written: look for it first

	again    bool // not done: to be tried again
	err      error
	panicked any
}

// call is one caller that waits for items.
type call struct {
	done  chan struct{} // has room for one
	since time.Time     // when it came
	until time.Time     // when it stops waiting; zero: never
	left  int           // items under way; under the lane's lock
}

func newLane(width int, p *pool, work func([]*item)) *lane {
	return &lane{work: work, pool: p, width: width, free: width, busy: make(map[string]struct{})}
}

// try tries each item once, unless ctx or the time for waiting ends before its turn comes: then it has that error.
func (l *lane) try(ctx context.Context, until time.Time, items []*item) {
	c := &call{done: make(chan struct{}, 1), since: time.Now(), until: until, left: len(items)}
	for _, i := range items {
		i.call, i.again, i.err, i.panicked = c, false, nil, nil
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		for _, i := range items {
			i.err = errClosed
		}
		return
	}
	l.pending = append(l.pending, items...)
	var mine []*item
	if l.mayBegin() {
		l.free--
		l.idle.Add(1)
		if l.crowd() {
			l.gather()
		}
		if mine = l.take(); mine == nil {
			l.free++
			l.idle.Done()
		}
	} else {
		l.hurry()
	}
	l.mu.Unlock()
	if mine != nil {
		l.lead(mine, true)
	}
	select {
	case <-c.done: // as it is after its own lead
		return
	default:
	}
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		late = timer.C
	}
	for {
		select {
		case <-c.done:
			return
		case <-ctx.Done():
			if l.drop(c, ctx.Err()) {
				return
			}
			<-c.done // those that are under way have their end
			return
		case <-late:
			late = nil
			if l.drop(c, errLate) {
				return
			}
		}
	}
}

var errLate = fmt.Errorf("waited %s for the database", waitLimit)

// drop takes a call's items that nobody works on out of the queue. It returns whether none is left.
func (l *lane) drop(c *call, why error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = slices.DeleteFunc(l.pending, func(i *item) bool {
		if i.call != c {
			return false
		}
		i.err = fmt.Errorf("%w: %w", attempt.ErrUnavailable, why)
		c.left--
		return true
	})
	return c.left == 0
}

// take takes what can go next together with the first: all that are on belief, or all that have to be loaded. l.mu is held.
func (l *lane) take() []*item {
	var taken []*item
	most := batchLimit
	rest := l.pending[:0:0]
	for _, i := range l.pending {
		_, busy := l.busy[i.key]
		fits := len(taken) == 0 || len(taken) < most && i.loaded == taken[0].loaded && !i.alone
		if busy || !fits {
			rest = append(rest, i)
			continue
		}
		l.busy[i.key] = struct{}{}
		taken = append(taken, i)
		switch {
		case i.alone:
			most = 1
		case i.loaded:
			most = loadedLimit
		}
	}
	if taken != nil {
		l.usual += (float64(len(taken)) - l.usual) / 4
		l.pending = rest
		l.here += len(taken)
	}
	return taken
}

// mayBegin tells whether one more may work beside those who do. l.mu is held.
func (l *lane) mayBegin() bool {
	return l.free == l.width || l.free > 0 && (!l.crowd() || len(l.pending) >= gathered)
}

// crowd tells whether many come. l.mu is held.
func (l *lane) crowd() bool { return l.here+len(l.pending) > crowd || l.usual >= crowded }

// gather lets those come who are about to, as long as some do: the callers of a batch go on all at once when it is done, and the first
// of them would set out without the others. l.mu is held, and given up meanwhile.
func (l *lane) gather() {
	for n := -1; n < len(l.pending) && len(l.pending) < batchLimit; {
		n = len(l.pending)
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
}

// hurry sees to it that nobody waits for a crowd to gather any longer than patience, while connections are free. l.mu is held.
func (l *lane) hurry() {
	if l.hurries || l.free == 0 {
		return
	}
	l.hurries = true
	time.AfterFunc(patience, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.hurries = false
		if len(l.pending) == 0 || l.free == l.width { // whoever begins takes what there is
			return
		}
		if time.Since(l.pending[0].call.since) >= patience {
			l.usual = 0 // no crowd whose batches are done soon
			l.beside(func() bool { return l.free > 0 })
		}
		if len(l.pending) > 0 {
			l.hurry()
		}
	})
}

// beside lets others work beside those who do, as long as one more may and there is something to do. l.mu is held, and somebody works.
func (l *lane) beside(may func() bool) {
	for may() {
		more := l.take()
		if more == nil {
			return
		}
		l.free--
		l.idle.Add(1)
		go l.lead(more, false)
	}
}

// lead works as long as there is something to do. inline: on a caller's goroutine, which goes on with its own when its first
// batch is done.
func (l *lane) lead(batch []*item, inline bool) {
	defer l.idle.Done()
	returned := false
	defer func() {
		if returned {
			return
		}
		// A Do has ended the goroutine: runtime.Goexit, as t.FailNow calls it. Nothing was written, nobody else is to wait for ever, and
		// which one it was shows where each goes alone.
		for _, i := range batch {
			i.again, i.alone = len(batch) > 1, true
			i.err = fmt.Errorf("%w: a step ended the goroutine that wrote it", attempt.ErrUnavailable)
		}
		if next := l.settle(batch); next != nil {
			l.idle.Add(1)
			go l.lead(next, false)
		}
	}()
	for batch != nil {
		l.work(batch)
		next := l.settle(batch)
		if inline && next != nil {
			l.idle.Add(1)
			go l.lead(next, false)
			next = nil
		}
		batch = next
	}
	returned = true
}

// settle tells the callers of a batch that it was tried, and takes the next one. Without one there is room for another to work.
func (l *lane) settle(batch []*item) (next []*item) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, i := range batch {
		delete(l.busy, i.key)
		l.here--
		if i.call.left--; i.call.left == 0 {
			i.call.done <- struct{}{}
		}
	}
	if next = l.take(); next == nil {
		l.free++
		return nil
	}
	l.beside(l.mayBegin) // what had to wait for a key, or is to go by itself
	return next
}

// close lets nothing more in and waits for what is under way.
func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.idle.Wait()
	l.pool.close()
}

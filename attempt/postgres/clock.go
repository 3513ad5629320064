package postgres

import (
	"sync"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// clock tells the server's time without asking: from the answers of the server, which all say when they were made, and
// from how long ago that was by this machine's monotonic clock. What it tells is never later than the server's clock and
// never goes back, unless the server's clock was set back by more than a little. How this machine's own clock is set plays
// no part.
type clock struct {
	now func() time.Time // nil but in tests: the store's clock, instead of the server's

	mu     sync.Mutex
	server time.Time // the server's time, not later than
	heard  time.Time // this moment of the local clock, whose monotonic reading counts
	latest time.Time // the latest time known: told, or found in the database
}

const (
	// within is what two readings of the server's clock may differ by without anybody having set it. A time that was told
	// from memory and is further off than that when its statement runs is not written; see stale.
	within = 500 * time.Millisecond
	// drift is how much faster than the server's this machine's clock may run, as one part in so many: three times what NTP
	// corrects at most (500 ppm would be its limit; clocks that are kept run within 100 ppm).
	drift = 3000
	// outdated is after how long without an answer nothing is told from memory.
	outdated = 10 * time.Minute
)

// guess is the server's time as far as it is known without asking. c.mu is held.
func (c *clock) guess(local time.Time) time.Time {
	since := local.Sub(c.heard)
	return c.server.Add(since - since/drift)
}

// answered notes a time that the server has told in answer to a question that was sent at asked and is answered now.
func (c *clock) answered(server, asked time.Time) {
	if c.now != nil || server.IsZero() {
		return
	}
	local := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	tooLate := !c.heard.IsZero() && c.guess(local).After(server.Add(local.Sub(asked)))
	if c.heard.IsZero() || tooLate || !c.guess(local).After(server) {
		c.server, c.heard = server, local
	}
}

// present is the time now, and the latest time known. known is false where that would be a guess.
func (c *clock) present() (now, latest time.Time, known bool) {
	if c.now != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		now = c.now().UTC().Truncate(time.Microsecond)
		c.sawLocked(now)
		return now, c.latest, true
	}
	local := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard.IsZero() || local.Sub(c.heard) > outdated {
		return time.Time{}, time.Time{}, false
	}
	now = c.forward(c.guess(local).UTC().Truncate(time.Microsecond), c.latest)
	c.sawLocked(now)
	return now, c.latest, true
}

// forward is now, or a latest time that is only a little later.
func (c *clock) forward(now, latest time.Time) time.Time {
	if c.now == nil && latest.After(now) && latest.Sub(now) <= within {
		return latest
	}
	return now
}

// known returns the latest time known before a question is asked.
func (c *clock) known() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest
}

// saw notes a time that was told somewhere.
func (c *clock) saw(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sawLocked(t)
}

func (c *clock) sawLocked(t time.Time) {
	if t.After(c.latest) {
		c.latest = t
	}
}

// view is what a step sees that finds this slot at that time of the server's. before is the latest time that was known
// before the server was asked, so that now is earlier only where a clock was set back.
func (c *clock) view(slot slotRow, found []attempt.Attempt, server, before time.Time) attempt.View {
	v := attempt.View{ClosedAt: slot.closedAt}
	latest := before
	for i := range found {
		if found[i].UpdatedAt.After(latest) {
			latest = found[i].UpdatedAt
		}
		v.Add(found[i])
	}
	if slot.closedAt.After(latest) {
		latest = slot.closedAt
	}
	v.Now, v.Latest = c.at(server, latest)
	return v
}

// at is a time of the server's, and the latest time known with it.
func (c *clock) at(server, latest time.Time) (now, newest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil { // asked last, so that others were not told a later time before
		c.sawLocked(latest)
		now = c.now().UTC().Truncate(time.Microsecond)
		c.sawLocked(now)
		return now, c.latest
	}
	now = c.forward(server, latest)
	if now.After(latest) {
		latest = now
	}
	c.sawLocked(latest)
	return now, latest
}

// param is the store's own clock as statements take it: NULL where the server's is meant.
func (c *clock) param() any {
	if c.now == nil {
		return nil
	}
	now, _, _ := c.present()
	return now
}

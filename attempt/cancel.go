package attempt

import (
	"slices"
	"time"
)

// Closing says that an order was cancelled: its slot takes no payment any more, for ever.
type Closing struct {
	At  time.Time // by the store's clock, UTC
	Who string
	Why string
}

// Cancel closes a slot and marks its attempts as unwanted, in one commit, even where there is no attempt: from then on
// nothing is sent there and nothing started. Prepared attempts end as abandoned. Money that an attempt of the slot holds, or
// turns out to hold later, is owed back.
type Cancel struct {
	Slot     Slot
	Who      string
	Why      string
	Schedule *Schedule

	View View // the slot after it, once Apply has returned nil
	// Before says that the slot was closed already; nothing has changed then.
	Before bool
}

// Step returns the step to apply.
func (c *Cancel) Step() *Step { return &Step{Slot: c.Slot, Do: c.Do} }

// Do is the Do of the step.
func (c *Cancel) Do(v View) ([]Write, error) {
	c.View, c.Before = v, !v.ClosedAt.IsZero()
	if c.Before {
		return nil, nil
	}
	writes := []Write{{Closing: &Closing{At: v.Now, Who: c.Who, Why: c.Why}}}
	c.View.ClosedAt = v.Now
	c.View.Attempts = slices.Clone(v.Attempts)
	for i := range c.View.Attempts {
		before, after := v.Attempts[i], &c.View.Attempts[i]
		after.UnwantedAt = v.Now
		had := len(after.Duties)
		if before.Status == StatusPrepared {
			after.end(StatusAbandoned, ReasonOrderCancelled)
		}
		after.openDuties(v.Now)
		opened := slices.Clone(after.Duties[had:])
		if c.Schedule != nil {
			c.Schedule.plan(after, v.Now, false)
		}
		writes = append(writes, change(before.Version, before.Status, after, WhatCancelled, c.Who, v.Now, nil, opened))
	}
	return writes, nil
}

package attempt

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// MaxWhyLength bounds a reason that a person or a host gives, in bytes.
const MaxWhyLength = 500

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

// Validate reports a slot that is none, and a reason that cannot be kept: too long, not plain text, or with a card number.
func (c *Cancel) Validate() error {
	return errors.Join(c.Slot.Validate(), validWhy("why", c.Why, 0))
}

// validWhy reports a text of a person's that cannot be kept and shown.
func validWhy(field, text string, least int) error {
	if holdsCard(text) {
		return fmt.Errorf("%s: holds what looks like a card number", field)
	}
	return validText(field, text, least, MaxWhyLength)
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
	why := &Evidence{Kind: EvidenceDecision, At: v.Now, Resolution: &Resolution{Kind: ResolvedCancelled, Why: c.Why}}
	c.View.Attempts = slices.Clone(v.Attempts)
	for i := range c.View.Attempts {
		before, after := v.Attempts[i], &c.View.Attempts[i]
		after.UnwantedAt = v.Now
		had := len(after.Duties)
		if before.Status == StatusPrepared {
			after.end(StatusAbandoned, ReasonOrderCancelled)
		}
		after.openDuties(v.Now)
		after.planDuty(v.Now)
		opened := slices.Clone(after.Duties[had:])
		if c.Schedule != nil {
			c.Schedule.plan(after, v.Now, false)
		}
		writes = append(writes, change(before.Version, before.Status, after, WhatCancelled, c.Who, v.Now, why, opened))
	}
	return writes, nil
}

package payclient

import (
	"cmp"
	"slices"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// NotRecorded is evidence about an attempt that the store has not taken.
type NotRecorded struct {
	AttemptID string
	// Slot is the order's; of a refund, that of its charge.
	Slot attempt.Slot
	// Refund is the refund that the attempt is; zero for a payment.
	Refund attempt.RefundOf
	// Since is when the store failed to take it first, by this machine's clock.
	Since time.Time
	// Err is what the store said last.
	Err error
}

// NotRecorded lists the attempts of which evidence was received that is not known to be stored: what the client still tries
// to store, and, once [Client.Close] has given up, what it has left. Whatever callers were told of these, the store holds the
// attempts as open, and whoever pays or reconciles next asks again or sends again under the same key. One entry for each
// attempt, the longest waiting first; empty nearly always. It is safe for concurrent use, also after Close.
func (c *Client) NotRecorded() []NotRecorded {
	c.mu.Lock()
	defer c.mu.Unlock()
	byAttempt := make(map[string]NotRecorded, len(c.notRecorded))
	for _, n := range c.notRecorded {
		known, ok := byAttempt[n.AttemptID]
		if ok && known.Since.Before(n.Since) {
			n.Since = known.Since
		}
		byAttempt[n.AttemptID] = *n
	}
	all := make([]NotRecorded, 0, len(byAttempt))
	for _, n := range byAttempt {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b NotRecorded) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.AttemptID, b.AttemptID))
	})
	return all
}

// keep notes that evidence is not recorded, with what the store said.
func (c *Client) keep(rec *attempt.Record, known *attempt.Attempt, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.notRecorded[rec]
	if n == nil {
		n = &NotRecorded{AttemptID: known.ID, Slot: known.Slot, Refund: known.Refund, Since: time.Now()}
		if c.notRecorded == nil {
			c.notRecorded = make(map[*attempt.Record]*NotRecorded)
		}
		c.notRecorded[rec] = n
	}
	n.Err = err
}

// drop notes that it is.
func (c *Client) drop(rec *attempt.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.notRecorded, rec)
}

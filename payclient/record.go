package payclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/chance"
)

// recordSends stores the end of a claim with the log of its sends. It returns the attempt as stored and the time by the
// store's clock; with an error the attempt as it will be once the write, which goes on, succeeds.
func (c *Client) recordSends(s *sending, rec *attempt.Record) (*attempt.Attempt, time.Time, error) {
	rec.ID, rec.Who, rec.Schedule = s.a.ID, c.cfg.Who, c.schedule
	rec.Evidence.Kind, rec.Evidence.Fence, rec.Evidence.Sends = attempt.EvidenceSends, s.a.Fence, s.log
	rec.Evidence.KeepsAnswers = c.caps.Key.KeepsEveryAnswer
	rec.Evidence.Overdue = past(s.claimUntil, time.Now())
	err := c.record(s.ctx, rec, s.a, latest(s.claimUntil, time.Now().Add(time.Second)))
	if err == nil {
		return &rec.Attempt, rec.Now, nil
	}
	now := s.claimed.Add(time.Since(s.began))
	e := rec.Evidence
	e.At = now
	after, _ := attempt.Next(*s.a, e)
	return &after, now, err
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// record stores evidence, detached from the caller's cancellation. It waits until then at the latest; if the store has
// not taken the evidence by then, storing goes on behind the call until it succeeds or the client is closed.
func (c *Client) record(ctx context.Context, rec *attempt.Record, known *attempt.Attempt, until time.Time) error {
	// One try in the foreground, which is nearly always all that is needed.
	try := &detached{parent: context.WithoutCancel(ctx), until: until}
	err := c.cfg.Store.Apply(try, rec.Step(known))
	try.release()
	if err == nil {
		c.sawRecord(ctx, &rec.Attempt, rec.Duties)
		return nil
	}
	if errors.Is(err, attempt.ErrInTx) || errors.Is(err, attempt.ErrNotFound) {
		return err // no repetition can help
	}
	stored := make(chan struct{})
	background := *rec // the caller may go on with its own
	c.keep(&background, known, err)
	c.pending.Add(1)
	go func() {
		defer c.pending.Done()
		c.recordUntilStored(context.WithoutCancel(ctx), &background, known, stored)
	}()
	c.sawNotRecorded(ctx, known, err) // with the storing on its way: an observer may panic
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-stored:
		rec.Attempt, rec.Duties, rec.Now = background.Attempt, background.Duties, background.Now
		return nil
	case <-timer.C:
	case <-c.closing.Done():
	}
	return fmt.Errorf("attempt %s: outcome not recorded: %w", known.ID, err)
}

// recordUntilStored tries until the store has taken the evidence or the client gives up. A repeated write does no harm:
// the end of a claim counts once.
func (c *Client) recordUntilStored(ctx context.Context, rec *attempt.Record, known *attempt.Attempt, stored chan<- struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.closing, cancel)()
	wait := 10 * time.Millisecond
	for {
		timer := time.NewTimer(wait + chance.Below(wait))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		err := c.cfg.Store.Apply(ctx, rec.Step(known))
		if err == nil {
			c.drop(rec)
			close(stored)
			c.sawRecord(ctx, &rec.Attempt, rec.Duties)
			return
		}
		if ctx.Err() == nil { // else what it says is that it was given up
			c.keep(rec, known, err)
		}
		c.sawNotRecorded(ctx, known, err)
		wait = min(2*wait, time.Second) // well under what RecordTimeout leaves
	}
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// waitLimit is how long a step that records no outcome waits for the database or for others' transactions.
const waitLimit = 5 * time.Second

// statementLimit is how long one statement of the store's own may take before its connection is given up.
const statementLimit = waitLimit

// Apply implements [attempt.Store]. A step's Do may run on the goroutine of any caller.
//
// Steps on slots that are new, and steps whose Guess is true, take one round trip, others two. No step waits on the server for a
// lock: where another transaction holds the slot it is tried again after a moment.
func (s *Store) Apply(ctx context.Context, steps ...*attempt.Step) error {
	if err := s.writable(ctx); err != nil {
		for _, step := range steps {
			step.Err = err
		}
		return attempt.JoinStepErrors(steps)
	}
	all := make([]*item, 0, len(steps))
	for _, outcome := range [...]bool{true, false} {
		first := len(all)
		for _, step := range steps {
			if step.Outcome == outcome {
				i := &item{s: s, step: step}
				i.belief = s.believe(step)
				i.loaded = i.belief.kind == notOnBelief
				i.key = keyOf(step)
				all = append(all, i)
			}
		}
		if len(all) > first {
			s.finish(ctx, outcome, all[first:])
		}
	}
	for _, i := range all {
		if i.panicked != nil {
			panic(i.panicked)
		}
	}
	return attempt.JoinStepErrors(steps)
}

// keyOf is the same for steps that would hold each other up.
func keyOf(step *attempt.Step) string {
	slot := step.Slot
	switch {
	case step.Guess != nil:
		slot = step.Guess.Slot
	case step.ID != "":
		return step.ID
	case step.Do == nil && step.Once != nil: // only keeps a note
		return "\x00" + step.Once.Scope + "\x00" + step.Once.ID
	}
	return slot.Order + "\x00" + slot.Account + "\x00" + slot.Purpose
}

// usable tells whether a call may be made with this context.
func (s *Store) usable(ctx context.Context) error {
	if s.ended.Load() {
		return fmt.Errorf("%w: closed", attempt.ErrUnavailable)
	}
	return s.unavailable(ctx.Err())
}

// writable tells whether a call that writes may be made with this context.
func (s *Store) writable(ctx context.Context) error {
	if s.opts.ReadOnly {
		return fmt.Errorf("%w: opened with ReadOnly; nothing was stored", attempt.ErrUnavailable)
	}
	return s.usable(ctx)
}

// finish tries items until each is done, or there is no time left.
func (s *Store) finish(ctx context.Context, outcome bool, items []*item) {
	l, until := s.others, time.Now().Add(waitLimit)
	if outcome {
		l, until = s.outcomes, time.Time{}
	}
	for tries := 0; len(items) > 0; tries++ {
		l.try(ctx, until, items)
		left := make([]*item, 0, len(items))
		for _, i := range items {
			if i.again {
				left = append(left, i)
				continue
			}
			i.step.Err = s.unavailableUnlessOwn(i.err)
		}
		if items = left; len(items) == 0 {
			return
		}
		err := error(nil)
		if !until.IsZero() && !time.Now().Before(until) {
			err = errLate
		} else {
			err = sleep(ctx, pause(tries, items[0].err))
		}
		if err != nil {
			for _, i := range items {
				i.step.Err = s.unavailable(both(err, i.err))
			}
			return
		}
	}
}

// both is err with what the last try came to, in one line.
func both(err, last error) error {
	if last == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, last)
}

// unavailableUnlessOwn leaves a step's own error as it is.
func (s *Store) unavailableUnlessOwn(err error) error {
	if own := (*attempt.StepError)(nil); errors.As(err, &own) {
		return own.Err
	}
	return s.unavailable(err)
}

// pause is how long to wait before the next try: a moment where somebody else is about to end, longer where the server is away.
func pause(tries int, err error) time.Duration {
	if err == nil && tries == 0 {
		return 0
	}
	most := 250 * time.Millisecond
	if err == nil || errors.Is(err, errHeld) {
		most = 10 * time.Millisecond
	}
	d := min(time.Millisecond<<min(tries, 10), most)
	return d/2 + rand.N(d)
}

// work tries items that go together once each.
func (s *Store) work(p *pool, outcome bool) func([]*item) {
	return func(items []*item) {
		ctx, cancel := context.WithTimeout(context.Background(), timeFor(items))
		defer cancel()
		if items[0].loaded {
			s.tryLoaded(ctx, p, outcome, items)
			return
		}
		s.tryOnBelief(ctx, p, outcome, items)
	}
}

// timeFor is how long a try may take: as long as somebody waits for it, but long enough to come to an end.
func timeFor(items []*item) time.Duration {
	longest := time.Second
	for _, i := range items {
		if i.call.until.IsZero() {
			return statementLimit
		}
		longest = max(longest, time.Until(i.call.until))
	}
	return longest
}

// verdict sets what became of a try.
func (i *item) verdict(err error) {
	own := (*attempt.StepError)(nil)
	switch {
	case err == nil:
		return
	case errors.As(err, &own):
		i.err, i.panicked = own, own.Panicked
	case errors.Is(err, attempt.ErrNotDurable):
		i.err = err
	case errors.Is(err, errHeld), passing(err):
		i.again, i.err = true, err
	default:
		i.err = err
	}
}

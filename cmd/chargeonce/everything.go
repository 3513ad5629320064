package main

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// everything is a store in which all that is open or owed is due, once: behind what is due anyway come the others. Nobody is
// kept from looking at those at the same time, which does no harm: a question changes nothing, and a refund is made once.
type everything struct {
	attempt.Store

	next func() (attempt.Attempt, error, bool)
	stop func()
	done bool
	seen map[string]bool
}

// TakeDue implements [attempt.Store]. It is called by one goroutine.
func (e *everything) TakeDue(ctx context.Context, limit int, lease time.Duration, places ...attempt.Place) (attempt.View, error) {
	v, err := e.Store.TakeDue(ctx, limit, lease, places...)
	if err != nil || e.done {
		return v, err
	}
	if e.seen == nil {
		e.seen = make(map[string]bool)
		e.next, e.stop = iter.Pull2(e.others(context.WithoutCancel(ctx)))
	}
	for _, a := range v.Attempts {
		e.seen[a.ID] = true
	}
	for len(v.Attempts) < limit {
		a, err, ok := e.next()
		if err != nil || !ok {
			e.end()
			return v, err
		}
		if e.seen[a.ID] || !slices.Contains(places, a.Place()) || !a.ClaimedUntil(v.Now).IsZero() {
			continue
		}
		e.seen[a.ID] = true
		v.Attempts = append(v.Attempts, a)
	}
	return v, nil
}

func (e *everything) others(ctx context.Context) iter.Seq2[attempt.Attempt, error] {
	return func(yield func(attempt.Attempt, error) bool) {
		for _, filter := range []attempt.Filter{{Open: true}, {Owing: true}} {
			for a, err := range e.Store.List(ctx, filter) {
				if err == nil && a.Status == attempt.StatusPrepared {
					continue // nothing to ask, and nothing but time ends it
				}
				if !yield(a, err) || err != nil {
					return
				}
			}
		}
	}
}

// end gives up what was not looked at.
func (e *everything) end() {
	e.done = true
	if e.stop != nil {
		e.stop()
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

var (
	errDead   = errors.New("the process is dead")
	errOutage = errors.New("no connection to the database")
	errHost   = errors.New("the host is busy")
	errLost   = errors.New("the connection to the database was lost in the commit")
)

// tap is the store itself, and writes down every change that is committed.
type tap struct {
	attempt.Store
	w *world

	mu sync.Mutex // one Apply after another, so that the order of what is written down is that of the commits
}

func (t *tap) Apply(ctx context.Context, steps ...*attempt.Step) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := make([]*attempt.Step, len(steps))
	seen := make([]struct {
		now    time.Time
		writes []attempt.Write
	}, len(steps))
	for i, s := range steps {
		step := *s
		if s.Do != nil {
			step.Do = func(v attempt.View) ([]attempt.Write, error) {
				writes, err := s.Do(v)
				seen[i].now, seen[i].writes = v.Now, writes
				return writes, err
			}
		}
		own[i] = &step
	}
	err := t.Store.Apply(ctx, own...)
	now := time.Now()
	for i, s := range steps {
		s.Err = own[i].Err
		if s.Err != nil {
			continue
		}
		for _, w := range seen[i].writes {
			if w.Closing != nil {
				t.w.closed(s.Slot, closed{at: now, store: seen[i].now})
				continue
			}
			t.w.wrote(write{at: now, store: seen[i].now, attempt: *w.Attempt, event: w.Event})
		}
	}
	return err
}

// link is an instance's way to the store.
type link struct {
	attempt.Store
	of *instance
}

// enter lets an operation of the instance begin: not while it stands still, not once it is dead, and not while it cannot reach
// the store. An outcome waits for the store as long as ctx allows, anything else for 5 s.
func (l *link) enter(ctx context.Context, outcome bool, operation, about string) error {
	of := l.of
	of.thaw(operation, about)
	if of.dead() {
		return fmt.Errorf("%w: %w", attempt.ErrUnavailable, errDead)
	}
	d := of.w.dice
	if of.w.isCalm() {
		return nil // none of what follows happens any more
	}
	what := of.name + operation + about
	if most := of.w.profile.storeLatency; most > 0 {
		wait(ctx, d.between(0, most, "store latency", what, d.next("store", what)))
	}
	if late := of.w.profile.outcomesLate; outcome && late > 0 && d.chance(late, "outcome late", what, d.next("outcome late", what)) {
		of.w.count("outcome stored about when its claim ends")
		of.stall()
		wait(ctx, d.between(13*time.Second, 20*time.Second, "outcome late for", what, d.next("outcome late for", what)))
	}
	patience := time.Now().Add(5 * time.Second)
	for of.w.storeOut(of) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("%w: %w", attempt.ErrUnavailable, err)
		}
		if !outcome && !time.Now().Before(patience) {
			return fmt.Errorf("%w: %w", attempt.ErrUnavailable, errOutage)
		}
		of.w.count("store out of reach")
		of.stall()
		wait(ctx, d.between(200*time.Millisecond, 300*time.Millisecond, "store wait", what, d.next("store wait", what)))
	}
	if of.dead() {
		return fmt.Errorf("%w: %w", attempt.ErrUnavailable, errDead)
	}
	return nil
}

func (l *link) Apply(ctx context.Context, steps ...*attempt.Step) error {
	fail := func(err error) error {
		for _, s := range steps {
			s.Err = err
		}
		return attempt.JoinStepErrors(steps)
	}
	name := steps[0].Slot.Order + steps[0].ID
	if err := l.enter(ctx, steps[0].Outcome, "apply ", name); err != nil {
		return fail(err)
	}
	w, of := l.of.w, l.of
	var kinds []string
	own := make([]*attempt.Step, len(steps))
	for i, s := range steps {
		step := *s
		if s.Do != nil {
			step.Do = func(v attempt.View) ([]attempt.Write, error) {
				writes, err := s.Do(v)
				if err != nil || len(writes) == 0 {
					return writes, err
				}
				kind := kindOf(writes)
				kinds = append(kinds, kind)
				if of.crash("before "+kind, s.Slot.Order+s.ID) {
					return nil, fmt.Errorf("%w: %w", attempt.ErrUnavailable, errDead)
				}
				return writes, nil
			}
		}
		own[i] = &step
	}
	if w.storeFault("fails", name, w.profile.storeFails) {
		of.stall()
		return fail(fmt.Errorf("%w: %w", attempt.ErrUnavailable, errOutage))
	}
	err := l.Store.Apply(ctx, own...)
	for i, s := range steps {
		s.Err = own[i].Err
	}
	for _, kind := range kinds {
		if of.crash("after "+kind, name) {
			return fail(fmt.Errorf("%w: %w", attempt.ErrUnavailable, errDead))
		}
	}
	if of.dead() {
		return fail(fmt.Errorf("%w: %w", attempt.ErrUnavailable, errDead))
	}
	if len(kinds) > 0 && w.storeFault("loses", name, w.profile.storeLoses) {
		w.count("commit whose answer was lost")
		of.stall()
		return fail(fmt.Errorf("%w: %w", attempt.ErrUnavailable, errLost))
	}
	return err
}

// kindOf names what a step writes.
func kindOf(writes []attempt.Write) string {
	if writes[0].Closing != nil {
		return "cancel"
	}
	e, refund := writes[0].Event, ""
	if writes[0].Attempt.IsRefund() {
		refund = "refund's "
	}
	if e.What != attempt.WhatLearnt || e.Evidence == nil {
		return refund + string(e.What)
	}
	return refund + string(e.Evidence.Kind)
}

func (l *link) Attempt(ctx context.Context, id string) (attempt.Attempt, error) {
	if err := l.enter(ctx, false, "attempt ", id); err != nil {
		return attempt.Attempt{}, err
	}
	return l.Store.Attempt(ctx, id)
}

func (l *link) Slot(ctx context.Context, slot attempt.Slot) (attempt.View, error) {
	if err := l.enter(ctx, false, "slot ", slot.Order); err != nil {
		return attempt.View{}, err
	}
	return l.Store.Slot(ctx, slot)
}

func (l *link) Events(ctx context.Context, id string) ([]attempt.Event, error) {
	if err := l.enter(ctx, false, "events ", id); err != nil {
		return nil, err
	}
	return l.Store.Events(ctx, id)
}

func (l *link) TakeDue(ctx context.Context, limit int, lease time.Duration, places ...attempt.Place) (attempt.View, error) {
	if err := l.enter(ctx, false, "due", ""); err != nil {
		return attempt.View{}, err
	}
	return l.Store.TakeDue(ctx, limit, lease, places...)
}

func (l *link) Notes(ctx context.Context, f attempt.NoteFilter) ([]attempt.Note, error) {
	if err := l.enter(ctx, false, "notes", ""); err != nil {
		return nil, err
	}
	return l.Store.Notes(ctx, f)
}

func (l *link) Briefs(ctx context.Context, ids, chargeIDs []string) ([]attempt.Brief, error) {
	if err := l.enter(ctx, false, "briefs", ""); err != nil {
		return nil, err
	}
	return l.Store.Briefs(ctx, ids, chargeIDs)
}

func (l *link) Sent(ctx context.Context, place attempt.Place, from, to time.Time) iter.Seq2[attempt.Sent, error] {
	return func(yield func(attempt.Sent, error) bool) {
		if err := l.enter(ctx, false, "sent", ""); err != nil {
			yield(attempt.Sent{}, err)
			return
		}
		for sent, err := range l.Store.Sent(ctx, place, from, to) {
			if !yield(sent, err) {
				return
			}
		}
	}
}

func (l *link) List(ctx context.Context, filter attempt.Filter) iter.Seq2[attempt.Attempt, error] {
	return func(yield func(attempt.Attempt, error) bool) {
		if err := l.enter(ctx, false, "list", ""); err != nil {
			yield(attempt.Attempt{}, err)
			return
		}
		for a, err := range l.Store.List(ctx, filter) {
			if !yield(a, err) {
				return
			}
		}
	}
}

func (l *link) TakeUndelivered(ctx context.Context, relay string, limit int, lease time.Duration) ([]attempt.Event, error) {
	if err := l.enter(ctx, false, "undelivered", ""); err != nil {
		return nil, err
	}
	return l.Store.TakeUndelivered(ctx, relay, limit, lease)
}

func (l *link) Delivered(ctx context.Context, relay, attemptID string, version int, again time.Duration) error {
	if err := l.enter(ctx, false, "delivered ", attemptID); err != nil {
		return err
	}
	return l.Store.Delivered(ctx, relay, attemptID, version, again)
}

// Close is none of an instance's business.
func (l *link) Close() error { return nil }

// wait waits, but not longer than ctx.
func wait(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

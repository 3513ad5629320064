package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Apply implements [attempt.Store]. Do runs on the goroutine of whichever caller leads the batch.
func (s *Store) Apply(ctx context.Context, steps ...*attempt.Step) error {
	if err := s.usable(ctx); err != nil {
		for _, step := range steps {
			step.Err = err
		}
		return attempt.JoinStepErrors(steps)
	}
	c := newCall(ctx)
	items := c.own[:0]
	for i, step := range steps {
		if i == 0 {
			c.one.step = step
			items = append(items, &c.one)
			continue
		}
		items = append(items, &item{call: c, step: step})
	}
	s.run(c, items)
	for _, i := range items {
		if i.panicked != nil {
			panic(i.panicked)
		}
		i.step.Err = i.err
	}
	return attempt.JoinStepErrors(steps)
}

// usable tells whether a call may be made with this context.
func (s *Store) usable(ctx context.Context) error {
	if ctx.Value(inTxKey{s}) != nil {
		return attempt.ErrInTx
	}
	if err := ctx.Err(); err != nil {
		return s.unavailable(err)
	}
	return nil
}

// run waits until the items are done, leading the queue when it is this call's turn.
func (s *Store) run(c *call, items []*item) {
	if !s.queue.enter(c, items) {
		return
	}
	defer s.queue.handOver(c)
	for s.queue.pending(c) {
		s.batch(c)
	}
}

// batch runs all that is pending in one transaction. It returns without having done anything if the leading call's own
// items expire while it waits for another process's lock.
func (s *Store) batch(c *call) {
	if err := s.lock(c); err != nil {
		if s.queue.pending(c) {
			s.fail(s.queue.take(), err)
		}
		return
	}
	items := s.queue.take()
	if len(items) == 0 {
		if err := s.write.rollback(); err != nil {
			_ = s.write.drop()
		}
		return
	}
	finished := false
	defer func() {
		if !finished { // a Do ended the goroutine
			_ = s.write.rollback()
			s.fail(items, errors.New("a step ended the goroutine that ran it"))
		}
	}()
	err := s.write.with(context.Background(), func(r *rawSession) error {
		for _, i := range items {
			if err := s.runItem(r, i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		_ = s.write.rollback()
	} else {
		err = s.write.commit()
	}
	if err != nil {
		for _, i := range items {
			s.runAlone(i, errors.Is(err, errCommit))
		}
	}
	finished = true
	s.queue.done(items)
}

// lock begins a transaction, polling while another process holds the lock. The leading call's items expire meanwhile as
// those of any other call do.
func (s *Store) lock(c *call) error {
	var start time.Time
	retried := false
	for {
		err := s.write.begin(context.WithoutCancel(c.ctx))
		switch {
		case err == nil:
			return nil
		case !isBusy(err):
			_ = s.write.drop()
			if retried {
				return err
			}
			retried = true
			continue
		}
		if start.IsZero() {
			start = time.Now()
		}
		if sleep(c.ctx, pollPause()) != nil {
			s.queue.expire(c, true, c.ctx.Err())
		} else if time.Since(start) >= lockLimit {
			s.queue.expire(c, false, errLate)
		}
		if !s.queue.pending(c) {
			return err
		}
	}
}

func (s *Store) fail(items []*item, err error) {
	for _, i := range items {
		i.err = s.unavailable(err)
	}
	s.queue.done(items)
}

// runAlone runs one item of a failed batch in a transaction of its own.
func (s *Store) runAlone(i *item, readBack bool) {
	limit := lockLimit
	if i.outcome() {
		limit = 0
	}
	for try := 0; ; try++ {
		i.err = nil
		err := s.write.transaction(i.call.ctx, limit, func(tx session) error {
			if readBack && len(i.written) > 0 {
				if stood, err := isWritten(tx, i.written); err != nil || stood {
					return err
				}
			}
			return s.runItem(tx, i)
		})
		if err == nil {
			return
		}
		readBack = errors.Is(err, errCommit)
		if !readBack || try > 0 {
			i.err = s.unavailable(err)
			return
		}
	}
}

// isWritten tells whether the events of these writes are in the database, exactly as they were to be written.
func isWritten(tx session, writes []attempt.Write) (bool, error) {
	for _, w := range writes {
		found := false
		want := &encoder{}
		want.event(w.Event)
		if want.err != nil {
			return false, want.err
		}
		err := tx.query(stmtEvents, func(row []driver.Value) error {
			found = found || slices.Equal(row, want.values[1:])
			return nil
		}, w.Attempt.ID)
		if err != nil || !found {
			return false, err
		}
	}
	return true, nil
}

// runItem runs one item in the transaction. The error returned is the database's; what the step itself makes of it is the
// item's.
func (s *Store) runItem(tx session, i *item) error {
	if i.step == nil {
		return i.work(tx)
	}
	i.written = nil
	writes, err := s.runStep(tx, i.step, &i.panicked)
	var failed *stepError
	if errors.As(err, &failed) {
		i.err = failed.err
		return nil
	}
	i.written = writes
	return err
}

// stepError is an error that a step has brought about itself: it wrote nothing, and others are not concerned.
type stepError struct{ err error }

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// runStep runs a step: on what its caller believes, if that holds, else on what it finds.
func (s *Store) runStep(tx session, step *attempt.Step, panicked *any) ([]attempt.Write, error) {
	slot := step.Slot
	if step.ID != "" {
		id, found, err := one(tx, stmtSlotOf, step.ID)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, &stepError{fmt.Errorf("attempt %s: %w", step.ID, attempt.ErrNotFound)}
		}
		return s.runFound(tx, step, id, panicked)
	}
	id, found, err := one(tx, stmtSlotByName, slot.Order, slot.Account, slot.Purpose)
	if err != nil {
		return nil, err
	}
	if !found {
		id = 0
	}
	return s.runFound(tx, step, id, panicked)
}

// runFound runs a step on the slot with that number, 0 for one that is not there yet.
func (s *Store) runFound(tx session, step *attempt.Step, number int64, panicked *any) ([]attempt.Write, error) {
	slot := step.Slot
	var before []attempt.Attempt
	if number != 0 {
		var err error
		if before, err = attemptsOf(tx, number); err != nil {
			return nil, err
		}
		if step.ID != "" && len(before) > 0 {
			slot = before[0].Slot
		}
	}
	writes, err := decide(step, attempt.View{Now: s.present(), Attempts: before}, slot, panicked)
	if err != nil {
		return nil, err
	}
	return writes, writeAll(tx, slot, number, before, writes)
}

func decide(step *attempt.Step, v attempt.View, slot attempt.Slot, panicked *any) (writes []attempt.Write, err error) {
	defer func() {
		if p := recover(); p != nil {
			*panicked = p
			err = &stepError{fmt.Errorf("step panicked: %v", p)}
		}
	}()
	writes, err = step.Do(v)
	if err == nil {
		err = attempt.CheckWrites(slot, v.Attempts, writes)
	}
	if err != nil {
		return nil, &stepError{err}
	}
	return writes, nil
}

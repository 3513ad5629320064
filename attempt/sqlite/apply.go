package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"runtime"
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
			c.one.step, c.one.belief = step, s.believe(step)
			items = append(items, &c.one)
			continue
		}
		items = append(items, &item{call: c, step: step, belief: s.believe(step)})
	}
	s.run(c, items)
	for _, i := range items {
		i.belief.free()
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
			s.fail(s.queue.take(batchLimit), err)
		}
		return
	}
	var items []*item
	finished := false
	defer func() {
		if !finished { // a Do ended the goroutine
			_ = s.write.rollback()
			s.fail(items, errors.New("a step ended the goroutine that ran it"))
		}
	}()
	yields := 0
	err := s.write.with(context.Background(), func(r *rawSession) error {
		for {
			more := s.queue.take(batchLimit - len(items))
			if len(more) == 0 && yields < 2 && len(items) < s.write.last {
				yields++
				runtime.Gosched()
				continue
			}
			if len(more) == 0 {
				return nil
			}
			items = append(items, more...)
			for _, i := range more {
				if err := s.runItem(r, i); err != nil {
					return err
				}
			}
		}
	})
	s.write.last = len(items)
	switch {
	case err != nil || len(items) == 0:
		_ = s.write.rollback()
	default:
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
		want := &encoder{text: new(jsonText)}
		want.event(&w.Event)
		if want.err != nil {
			return false, want.err
		}
		err := tx.query(stmtEvents, func(row []driver.Value) error {
			found = found || sameRow(row, want.args[1:])
			return nil
		}, w.Attempt.ID)
		if err != nil || !found {
			return false, err
		}
	}
	return true, nil
}

func sameRow(row []driver.Value, want []driver.NamedValue) bool {
	return slices.EqualFunc(row, want, func(v driver.Value, w driver.NamedValue) bool { return v == w.Value })
}

// runItem runs one item in the transaction. The error returned is the database's; what the step itself makes of it is the
// item's.
func (s *Store) runItem(tx session, i *item) error {
	if i.step == nil {
		return i.work(tx)
	}
	i.written = nil
	writes, err := s.runStep(tx, i.step, &i.belief)
	if failed := (*stepError)(nil); errors.As(err, &failed) {
		i.err, i.panicked = failed.err, failed.panicked
		return nil
	}
	i.written = writes
	return err
}

// stepError is an error that a step has brought about itself: it wrote nothing, and others are not concerned.
type stepError struct {
	err      error
	panicked any // what Do panicked with, to be passed on to the caller whose step it is
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// runStep runs a step: on what its caller believes, written under a guard, or else on what it finds.
func (s *Store) runStep(tx session, step *attempt.Step, b *belief) ([]attempt.Write, error) {
	if held, err := b.write(tx); held || err != nil {
		return b.writes, err
	}
	slot, before, err := find(tx, step)
	if err != nil {
		return nil, err
	}
	writes, err := decide(step, slot.name, attempt.View{Now: s.present(), Attempts: before})
	if err != nil || len(writes) == 0 {
		return nil, err
	}
	rows, err := encodeAll(before, writes)
	if err != nil {
		return nil, err
	}
	defer freeAll(rows)
	return writes, slot.write(tx, before, rows)
}

// belief is a step decided on what its caller believes that the slot holds. It is made before the step's turn comes, on
// the caller's goroutine, so that whoever leads has only to write it.
type belief struct {
	made   bool // something is to be written on belief
	slot   attempt.Slot
	writes []attempt.Write // one
	row    row
}

// believe runs a step on its caller's belief. A decision not to write has no guard that could tell whether the belief was
// true, nor has an error: then the step has to be run on what is really there.
func (s *Store) believe(step *attempt.Step) (b belief) {
	var known []attempt.Attempt
	b.slot = step.Slot
	switch {
	case step.Fresh && step.ID == "":
	case step.Guess != nil && (step.ID == "" || step.ID == step.Guess.ID):
		known = []attempt.Attempt{*step.Guess}
		b.slot = step.Guess.Slot
	default:
		return belief{}
	}
	writes, err := decide(step, b.slot, attempt.View{Now: s.present(), Attempts: known})
	if err != nil || len(writes) != 1 || known != nil && writes[0].Attempt.ID != known[0].ID {
		return belief{}
	}
	var old *attempt.Attempt
	if known != nil {
		old = &known[0]
	}
	if b.row, err = encode(&writes[0], old); err != nil {
		return belief{}
	}
	b.made, b.writes = true, writes
	return b
}

// write writes what was decided on belief, if the belief holds.
func (b *belief) write(tx session) (held bool, err error) {
	switch {
	case !b.made:
		return false, nil
	case b.row.old == nil:
		slot := slotRow{name: b.slot}
		return slot.insertFirst(tx, b.row)
	}
	return updateGuessed(tx, b.row)
}

func (b *belief) free() {
	if b.made {
		b.made = false
		b.row.free()
	}
}

// find loads what a step works on. A slot that is not there yet has the number 0.
func find(tx session, step *attempt.Step) (slot slotRow, before []attempt.Attempt, err error) {
	slot.name = step.Slot
	if step.ID == "" {
		slot.number, _, err = one(tx, stmtSlotByName, slot.name.Order, slot.name.Account, slot.name.Purpose)
	} else {
		slot.number, _, err = one(tx, stmtSlotOf, step.ID)
		if err == nil && slot.number == 0 {
			err = &stepError{err: fmt.Errorf("attempt %s: %w", step.ID, attempt.ErrNotFound)}
		}
	}
	if err != nil || slot.number == 0 {
		return slot, nil, err
	}
	before, err = attemptsOf(tx, slot.number)
	if step.ID != "" && len(before) > 0 {
		slot.name = before[0].Slot
	}
	return slot, before, err
}

// decide calls the step and checks what it wants to write.
func decide(step *attempt.Step, slot attempt.Slot, v attempt.View) (writes []attempt.Write, err error) {
	defer func() {
		if p := recover(); p != nil {
			writes, err = nil, &stepError{err: fmt.Errorf("the step panicked: %v", p), panicked: p}
		}
	}()
	writes, err = step.Do(v)
	if err == nil {
		err = attempt.CheckWrites(slot, v.Attempts, writes)
	}
	if err != nil {
		return nil, &stepError{err: err}
	}
	return writes, nil
}

// encodeAll makes the rows of all that a step writes.
func encodeAll(before []attempt.Attempt, writes []attempt.Write) ([]row, error) {
	rows := make([]row, 0, len(writes))
	for i := range writes {
		var old *attempt.Attempt
		for k := range before {
			if before[k].ID == writes[i].Attempt.ID {
				old = &before[k]
			}
		}
		for k := range i { // written twice by one step
			if writes[k].Attempt.ID == writes[i].Attempt.ID {
				old = &writes[k].Attempt
			}
		}
		r, err := encode(&writes[i], old)
		if err != nil {
			freeAll(rows)
			return nil, &stepError{err: err}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func freeAll(rows []row) {
	for _, r := range rows {
		r.free()
	}
}

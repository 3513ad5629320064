package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Apply implements [attempt.Store]. A step's Do may run on the goroutine of any caller that leads a batch.
func (s *Store) Apply(ctx context.Context, steps ...*attempt.Step) error {
	if err := s.writable(ctx); err != nil {
		for _, step := range steps {
			step.Err = err
		}
		return attempt.JoinStepErrors(steps)
	}
	c := newCall(ctx)
	var few [1]*item
	items := few[:0]
	for n, step := range steps {
		i := &c.first
		if n > 0 {
			i = &item{call: c}
		}
		i.step, i.belief = step, s.believe(step)
		items = append(items, i)
	}
	s.run(c, items)
	for _, i := range items {
		i.belief.free()
		i.step.Err = i.err
	}
	for _, i := range items {
		if i.panicked != nil {
			panic(i.panicked)
		}
	}
	return attempt.JoinStepErrors(steps)
}

// usable tells whether a call may be made with this context.
func (s *Store) usable(ctx context.Context) error {
	if ctx.Value(inTxKey{s}) != nil {
		return attempt.ErrInTx
	}
	return s.unavailable(ctx.Err())
}

// writable tells whether a call that writes may be made with this context.
func (s *Store) writable(ctx context.Context) error {
	if s.readOnly {
		return s.unavailable(errors.New("opened with ReadOnly; nothing was stored"))
	}
	return s.usable(ctx)
}

// run waits until a call's items are done, and leads the queue when it is the call's turn.
func (s *Store) run(c *call, items []*item) {
	if !s.queue.enter(c, items) {
		return
	}
	defer s.queue.handOver(c)
	for s.queue.pending(c) {
		s.batch(c)
	}
}

// batchLimit bounds a batch, so that an outcome which comes meanwhile does not wait for long.
const batchLimit = 256

// batch runs all that is pending in one transaction. It returns without having done anything if the leading call's own
// items expire while it waits for another process's lock.
func (s *Store) batch(c *call) {
	if err := s.lock(c, s.write.begin); err != nil {
		if s.queue.pending(c) {
			s.fail(s.queue.take(batchLimit), err)
		}
		return
	}
	var items []*item
	finished := false
	defer func() {
		if !finished { // a Do has ended the goroutine: runtime.Goexit, as t.FailNow calls it
			s.write.drop()
			s.fail(items, errors.New("a step ended the goroutine that wrote it"))
		}
	}()
	err := s.write.with(func(r *rawSession) error {
		for {
			more := s.more(items)
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
	case err != nil:
		s.write.drop()
	case len(items) == 0:
		s.write.rollback()
	default:
		err = s.write.commit()
	}
	if err != nil {
		slices.SortStableFunc(items, func(a, b *item) int { return order(a) - order(b) })
		for ; len(items) > 0; items = items[1:] {
			s.runAlone(items[0], errors.Is(err, errCommit))
			s.queue.done(items[:1])
		}
	}
	finished = true
	s.queue.done(items)
}

// order puts outcomes before others.
func order(i *item) int {
	if i.outcome() {
		return 0
	}
	return 1
}

// more takes what has come since the batch began. Where the batch before had more in it, it lets those whom that one has
// woken come in first with what they do next: they are ready to run, and a commit is worth more than their turn.
func (s *Store) more(items []*item) []*item {
	for range 3 {
		if more := s.queue.take(batchLimit - len(items)); len(more) > 0 || len(items) >= s.write.last {
			return more
		}
		runtime.Gosched()
	}
	return nil
}

// lock begins a transaction, polling while another process holds the lock. The leading call's items expire meanwhile, as
// those of any other call do.
func (s *Store) lock(c *call, begin func() error) error {
	for tries := 1; ; {
		err := begin()
		switch {
		case err == nil:
			return nil
		case isBusy(err):
			if s.onBusy != nil {
				s.onBusy()
			}
			if sleep(c.ctx, pollPause()) != nil {
				s.queue.expire(c, true, c.ctx.Err())
			} else if time.Since(c.since) >= lockLimit {
				s.queue.expire(c, false, errLate)
			}
		case tries == 2 || errors.Is(err, errMoved):
			return err
		default:
			s.write.drop() // perhaps it is the connection that is broken
			tries++
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

// runAlone runs one item of a failed batch in a transaction of its own. After a commit that failed nobody knows whether it
// took effect, so what was written is looked for first.
func (s *Store) runAlone(i *item, readBack bool) {
	limit := lockLimit
	if i.outcome() {
		limit = 0
	}
	for range 2 {
		i.err, i.panicked = nil, nil
		err := s.write.transaction(i.call.ctx, limit, func(tx session) error {
			if readBack {
				if there, err := areWritten(tx, i.written); err != nil || there {
					return err
				}
			}
			return s.runItem(tx, i)
		})
		if err == nil {
			return
		}
		i.err = s.unavailable(err)
		if readBack = errors.Is(err, errCommit); !readBack {
			return
		}
	}
}

// areWritten tells whether what a step was to write is in the database, exactly so. What it has written is there as a whole or
// not at all: its events tell that, or else its closing, or else its note.
func areWritten(tx session, done effects) (there bool, err error) {
	var closing *attempt.Closing
	for n := range done.writes {
		if closing = done.writes[n].Closing; closing == nil {
			return eventsAreWritten(tx, done.writes)
		}
	}
	switch {
	case closing != nil:
		err = tx.query(stmtClosing, func(row []driver.Value) error {
			there = slices.Equal(row, []driver.Value{micros(closing.At), closing.Who, closing.Why})
			return nil
		}, done.slot.Order, done.slot.Account, done.slot.Purpose)
	case done.note != nil:
		there, err = noteIsWritten(tx, done.note)
	}
	return there, err
}

func eventsAreWritten(tx session, writes []attempt.Write) (bool, error) {
	for n := range writes {
		if writes[n].Closing != nil {
			continue
		}
		want := encoder{text: new(jsonText)}
		want.event(&writes[n].Event)
		if want.err != nil {
			return false, want.err
		}
		there := false
		err := tx.query(stmtEvents, func(row []driver.Value) error {
			there = there || slices.EqualFunc(row, want.args[1:], func(v driver.Value, w driver.NamedValue) bool { return v == w.Value })
			return nil
		}, writes[n].Attempt.ID)
		if err != nil || !there {
			return false, err
		}
	}
	return true, nil
}

// runItem runs one item in a transaction. The error returned is the database's, after which the transaction is lost; what
// goes wrong with the item alone is the item's error.
func (s *Store) runItem(tx session, i *item) error {
	if i.step == nil {
		return i.work(tx)
	}
	i.written = effects{}
	done, err := s.runStep(tx, i.step, &i.belief)
	if failed := (*attempt.StepError)(nil); errors.As(err, &failed) {
		i.err, i.panicked = failed.Err, failed.Panicked
		return nil
	}
	i.written = done
	return err
}

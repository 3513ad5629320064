package sqlite

import (
	"context"
	"database/sql/driver"
	"iter"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

func (s *Store) reading(ctx context.Context) (session, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	return sqlSession{ctx: ctx, db: s.reads}, nil
}

// Attempt implements [attempt.Store].
func (s *Store) Attempt(ctx context.Context, id string) (attempt.Attempt, error) {
	r, err := s.reading(ctx)
	if err != nil {
		return attempt.Attempt{}, err
	}
	var a attempt.Attempt
	found := false
	err = r.query(stmtAttempt, func(row []driver.Value) error {
		found = true
		a, _, err = decodeAttempt(row)
		return err
	}, id)
	switch {
	case err != nil:
		return attempt.Attempt{}, s.unavailable(err)
	case !found:
		return attempt.Attempt{}, notFound(id)
	}
	return a, nil
}

// Slot implements [attempt.Store].
func (s *Store) Slot(ctx context.Context, slot attempt.Slot) (attempt.View, error) {
	r, err := s.reading(ctx)
	if err != nil {
		return attempt.View{}, err
	}
	v := attempt.View{Now: s.present()}
	n, err := number(r, stmtSlotByName, slot.Order, slot.Account, slot.Purpose)
	if err == nil && n != 0 {
		v.Attempts, err = attemptsOf(r, n)
	}
	if err != nil {
		return attempt.View{}, s.unavailable(err)
	}
	return v, nil
}

// Events implements [attempt.Store].
func (s *Store) Events(ctx context.Context, id string) ([]attempt.Event, error) {
	r, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	var events []attempt.Event
	err = r.query(stmtEvents, func(row []driver.Value) error {
		e, err := decodeEvent(id, row)
		events = append(events, e)
		return err
	}, id)
	if err != nil {
		return nil, s.unavailable(err)
	}
	if len(events) == 0 {
		return nil, notFound(id)
	}
	return events, nil
}

// listPage is how many attempts List reads at a time: no transaction stays open while the caller works.
const listPage = 200

// List implements [attempt.Store]. It sees attempts that are created while it runs.
func (s *Store) List(ctx context.Context, filter attempt.Filter) iter.Seq2[attempt.Attempt, error] {
	return func(yield func(attempt.Attempt, error) bool) {
		n, last := 0, int64(0)
		for {
			r, err := s.reading(ctx)
			if err != nil {
				yield(attempt.Attempt{}, err)
				return
			}
			var page []attempt.Attempt
			read := 0
			err = r.query1(selectAttempts+"WHERE a.seq > ? ORDER BY a.seq LIMIT ?", func(row []driver.Value) error {
				a, seq, err := decodeAttempt(row)
				if err != nil {
					return err
				}
				read++
				last = seq
				if filter.Selects(a) {
					page = append(page, a)
				}
				return nil
			}, last, int64(listPage))
			for _, a := range page {
				if !yield(a, nil) {
					return
				}
				if n++; n == filter.Limit {
					return
				}
			}
			if err != nil {
				yield(attempt.Attempt{}, s.unavailable(err))
				return
			}
			if read < listPage {
				return
			}
		}
	}
}

// TakeDue implements [attempt.Store].
func (s *Store) TakeDue(ctx context.Context, limit int, lease time.Duration) (attempt.View, error) {
	if err := s.usable(ctx); err != nil {
		return attempt.View{}, err
	}
	var v attempt.View
	if limit <= 0 {
		return attempt.View{Now: s.present()}, nil
	}
	c := newCall(ctx)
	c.first.work = func(tx session) error {
		var err error
		v, err = s.takeDue(tx, limit, lease)
		return err
	}
	s.run(c, []*item{&c.first})
	if c.first.err != nil {
		return attempt.View{}, c.first.err
	}
	return v, nil
}

func (s *Store) takeDue(tx session, limit int, lease time.Duration) (attempt.View, error) {
	v := attempt.View{Now: s.present()}
	var ids []string
	err := tx.query(stmtDue, func(row []driver.Value) error {
		d := &decoder{values: row}
		ids = append(ids, d.text("id"))
		return d.err
	}, v.Now.UnixMicro(), int64(limit))
	if err != nil {
		return v, err
	}
	next := v.Now.Add(lease).Truncate(time.Microsecond)
	for _, id := range ids {
		err := tx.query(stmtAttempt, func(row []driver.Value) error {
			a, _, err := decodeAttempt(row)
			a.NextCheckAt = next
			v.Attempts = append(v.Attempts, a)
			return err
		}, id)
		if err != nil {
			return v, err
		}
		if _, err := tx.exec(stmtPostpone, next.UnixMicro(), id); err != nil {
			return v, err
		}
	}
	return v, nil
}

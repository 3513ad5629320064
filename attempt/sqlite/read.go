package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/chargeonce/chargeonce/attempt"
)

func (s *Store) reading(ctx context.Context) (session, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	return sqlSession{ctx: ctx, db: s.reads, prepared: &s.prepared}, nil
}

// read runs f where the driver's rows are read as they are: database/sql between costs as much as SQLite itself where rows are
// many and short.
func (s *Store) read(ctx context.Context, f func(session) error) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	conn, err := s.reads.Conn(ctx)
	if err != nil {
		return s.unavailable(err)
	}
	err = conn.Raw(func(c any) error { return f(&passingSession{rawSession{conn: c.(driver.Conn)}, ctx}) })
	return s.unavailable(errors.Join(err, conn.Close()))
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
	s.clock.saw(a.UpdatedAt)
	return a, nil
}

// Slot implements [attempt.Store].
func (s *Store) Slot(ctx context.Context, slot attempt.Slot) (attempt.View, error) {
	r, err := s.reading(ctx)
	if err != nil {
		return attempt.View{}, err
	}
	row, found, err := slotWith(r, stmtSlot, slot.Order, slot.Account, slot.Purpose)
	if err != nil {
		return attempt.View{}, s.unavailable(err)
	}
	return s.clock.view(row, found), nil
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

package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// TakeDue implements [attempt.Store]. A damaged attempt does not stop the others: it is put off as they are, and only
// when nothing else is due its error is returned.
func (s *Store) TakeDue(ctx context.Context, limit int, lease time.Duration) (attempt.View, error) {
	if err := s.usable(ctx); err != nil {
		return attempt.View{}, err
	}
	var v attempt.View
	var broken error
	c := newCall(ctx)
	c.first.work = func(tx session) (err error) {
		v, broken, err = s.takeDue(tx, max(limit, 0), lease)
		return err
	}
	s.run(c, []*item{&c.first})
	switch {
	case c.first.err != nil:
		return attempt.View{}, c.first.err
	case broken != nil && len(v.Attempts) == 0:
		return attempt.View{}, s.unavailable(broken)
	}
	return v, nil
}

func (s *Store) takeDue(tx session, limit int, lease time.Duration) (v attempt.View, broken, err error) {
	v.Now, v.Latest = s.clock.present()
	var ids []string
	err = tx.query(stmtDue, func(row []driver.Value) error {
		d := decoder{values: row}
		ids = append(ids, d.text("id"))
		return d.err
	}, v.Now.UnixMicro(), int64(limit))
	if err != nil {
		return v, nil, err
	}
	next := v.Now.Add(lease).Truncate(time.Microsecond)
	for _, id := range ids {
		err := tx.query(stmtAttempt, func(row []driver.Value) error {
			a, _, err := decodeAttempt(row)
			if err != nil {
				broken = errors.Join(broken, err)
				return nil
			}
			a.NextCheckAt = next
			v.Attempts = append(v.Attempts, a)
			s.clock.saw(a.UpdatedAt)
			if a.UpdatedAt.After(v.Latest) {
				v.Latest = a.UpdatedAt
			}
			return nil
		}, id)
		if err != nil {
			return v, nil, err
		}
		if _, err := tx.exec(stmtPostpone, next.UnixMicro(), id); err != nil {
			return v, nil, err
		}
	}
	return v, broken, nil
}

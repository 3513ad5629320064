package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// TakeDue implements [attempt.Store]. A damaged attempt does not stop the others: it is put off as they are, and only
// when nothing else is due its error is returned.
func (s *Store) TakeDue(ctx context.Context, limit int, lease time.Duration, places ...attempt.Place) (attempt.View, error) {
	var v attempt.View
	var broken error
	err := s.writing(ctx, func(tx session) (err error) {
		v, broken, err = s.takeDue(tx, max(limit, 0), lease, places)
		return err
	})
	switch {
	case err != nil:
		return attempt.View{}, err
	case broken != nil && len(v.Attempts) == 0:
		return attempt.View{}, s.unavailable(broken)
	}
	return v, nil
}

func (s *Store) takeDue(tx session, limit int, lease time.Duration, places []attempt.Place) (v attempt.View, broken, err error) {
	v.Now, v.Latest = s.clock.present()
	ids, err := dueIDs(tx, v.Now, limit, places)
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

// dueIDs returns the ids of what is due, oldest first.
func dueIDs(tx session, now time.Time, limit int, places []attempt.Place) (ids []string, err error) {
	each := func(row []driver.Value) error {
		d := decoder{values: row}
		ids = append(ids, d.text("id"))
		return d.err
	}
	if len(places) == 0 {
		err = tx.query(stmtDue, each, now.UnixMicro(), int64(limit))
		return ids, err
	}
	args := []driver.Value{now.UnixMicro()}
	for _, p := range places {
		args = append(args, p.Provider, p.Account, p.Environment)
	}
	err = tx.query1(selectDueIn(len(places)), each, append(args, int64(limit))...)
	return ids, err
}

// selectDueIn is selectDue for so many places.
func selectDueIn(places int) string {
	return selectDue + " AND (provider, provider_account, environment) IN (VALUES (?, ?, ?)" + strings.Repeat(", (?, ?, ?)", places-1) + ")" + orderDue
}

package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"iter"
	"slices"

	"github.com/chargeonce/chargeonce/attempt"
)

// listPage is how many attempts List reads at a time: no transaction stays open while its caller works.
const listPage = 200

// List implements [attempt.Store]. It reads page by page, so it may or may not see what changes while it runs. Its cost
// follows the attempts of the order, or the number of those that are open or owe something, where the filter is for those;
// else the number of all.
func (s *Store) List(ctx context.Context, filter attempt.Filter) iter.Seq2[attempt.Attempt, error] {
	return func(yield func(attempt.Attempt, error) bool) {
		next := s.pages(filter)
		for n := 0; ; {
			r, err := s.reading(ctx)
			if err != nil {
				yield(attempt.Attempt{}, err)
				return
			}
			page, more, err := next(r)
			s.clock.sawAttempts(page)
			for _, a := range page {
				if !filter.Selects(a) {
					continue
				}
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
			if !more {
				return
			}
		}
	}
}

// page reads the next attempts, in the order of their creation. With an error it returns those before it.
type page func(r session) (read []attempt.Attempt, more bool, err error)

func (s *Store) pages(filter attempt.Filter) page {
	onlyOpen := filter.Open || len(filter.Statuses) > 0 && !slices.ContainsFunc(filter.Statuses, attempt.Status.Final)
	switch {
	case filter.Order != "":
		return numbered("SELECT a.seq FROM chargeonce_slots s JOIN chargeonce_attempts a ON a.slot = s.id WHERE s.order_id = ?"+
			" ORDER BY a.seq", filter.Order)
	case onlyOpen:
		return numbered("SELECT seq FROM chargeonce_attempts INDEXED BY chargeonce_open WHERE " + isOpen + " ORDER BY seq")
	case filter.Owing:
		return numbered(selectOwing)
	}
	return scanned(filter.Statuses)
}

// numbered pages through attempts whose places a query finds at once.
func numbered(query string, args ...driver.Value) page {
	var left []int64
	found := false
	return func(r session) ([]attempt.Attempt, bool, error) {
		if !found {
			err := r.query1(query, func(row []driver.Value) error {
				d := decoder{values: row}
				left = append(left, d.int64("seq"))
				return d.err
			}, args...)
			if err != nil {
				return nil, false, err
			}
			found = true
		}
		n := min(listPage, len(left))
		places, err := json.Marshal(left[:n])
		if err != nil || n == 0 {
			return nil, false, err
		}
		left = left[n:]
		read, _, err := attempts(r, "WHERE a.seq IN (SELECT value FROM json_each(?)) ORDER BY a.seq", string(places))
		return read, len(left) > 0, err
	}
}

// scanned pages through all attempts that have one of the statuses, or any if there are none.
func scanned(statuses []attempt.Status) page {
	last, condition := int64(0), ""
	var args []driver.Value
	if len(statuses) > 0 {
		names, err := json.Marshal(statuses)
		if err != nil { // no status has this name, so no attempt has it either
			return func(session) ([]attempt.Attempt, bool, error) { return nil, false, err }
		}
		condition = "a.status IN (SELECT value FROM json_each(?)) AND "
		args = append(args, string(names))
	}
	return func(r session) ([]attempt.Attempt, bool, error) {
		read, seq, err := attempts(r, "WHERE "+condition+"a.seq > ? ORDER BY a.seq LIMIT ?", append(args, last, int64(listPage))...)
		last = seq
		return read, len(read) == listPage, err
	}
}

// attempts reads the attempts that a condition selects, and the place of the last one.
func attempts(r session, condition string, args ...driver.Value) (read []attempt.Attempt, last int64, err error) {
	err = r.query1(selectAttempts+condition, func(row []driver.Value) error {
		a, seq, err := decodeAttempt(row)
		if err == nil {
			read, last = append(read, a), seq
		}
		return err
	}, args...)
	return read, last, err
}

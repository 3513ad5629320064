package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// sentPage is how many places in the order of creation Sent looks at in one statement, so that none keeps the log from being
// brought into the file for long.
const sentPage = 10_000

// Sent implements [attempt.Store]. Its cost follows the number of all attempts, at about a microsecond for each.
func (s *Store) Sent(ctx context.Context, place attempt.Place, from, to time.Time) iter.Seq2[attempt.Sent, error] {
	return func(yield func(attempt.Sent, error) bool) {
		found := make([]attempt.Sent, 0, sentPage)
		last, err := s.lastPlace(ctx)
		for at := int64(0); at < last && err == nil; at += sentPage {
			found = found[:0]
			err = s.read(ctx, func(r session) error {
				return r.query(stmtSent, func(row []driver.Value) error {
					d := decoder{values: row}
					found = append(found, attempt.Sent{ID: d.text("id"), At: d.time("last_sent_at")})
					return d.err
				}, at, at+sentPage, place.Provider, place.Account, place.Environment, ceilMicros(from), to.UnixMicro())
			})
			for _, sent := range found {
				if !yield(sent, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(attempt.Sent{}, err)
		}
	}
}

// ceilMicros is the first microsecond that is not before a time.
func ceilMicros(t time.Time) int64 {
	n := t.UnixMicro()
	if time.UnixMicro(n).Before(t) {
		n++
	}
	return n
}

// lastPlace is the place of the newest attempt.
func (s *Store) lastPlace(ctx context.Context) (last int64, err error) {
	err = s.read(ctx, func(r session) error {
		return r.query1("SELECT coalesce(max(seq), 0) FROM chargeonce_attempts", func(row []driver.Value) error {
			d := decoder{values: row}
			last = d.int64("seq")
			return d.err
		})
	})
	return last, err
}

// Briefs implements [attempt.Store].
func (s *Store) Briefs(ctx context.Context, ids, chargeIDs []string) ([]attempt.Brief, error) {
	var found []attempt.Brief
	err := s.read(ctx, func(r session) (err error) {
		found, err = briefs(r, nil, stmtBriefs, ids)
		if err == nil {
			found, err = briefs(r, found, stmtBriefsOfCharges, chargeIDs)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// briefs adds the briefs that a statement selects by ids.
func briefs(r session, found []attempt.Brief, s statement, ids []string) ([]attempt.Brief, error) {
	found = slices.Grow(found, len(ids))
	var odd []string
	var columns [briefColumnCount]string
	add := func() error {
		b, err := decodeBrief(&columns)
		found = append(found, b)
		return err
	}
	err := byIDs(r, s, ids, func(row []driver.Value) error {
		text, ok := row[0].(string)
		if !ok {
			return fmt.Errorf("%v is no attempt", row[0])
		}
		left := text
		for i := range columns {
			columns[i], left, ok = strings.Cut(left, briefEnd)
			if last := i == len(columns)-1; ok == last { // a column has one in it
				id, _, _ := strings.Cut(text, briefEnd)
				odd = append(odd, id)
				return nil
			}
		}
		return add()
	})
	if err != nil {
		return nil, err
	}
	err = byIDs(r, stmtOddBriefs, odd, func(row []driver.Value) error {
		for i := range columns {
			columns[i] = fmt.Sprint(row[i])
		}
		return add()
	})
	return found, err
}

func byIDs(r session, s statement, ids []string, row func([]driver.Value) error) error {
	if len(ids) == 0 {
		return nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	return r.query(s, row, string(list))
}

// decodeBrief reads what selectBriefs selects.
func decodeBrief(c *[briefColumnCount]string) (b attempt.Brief, err error) {
	b.ID, b.Reference = c[0], c[1]
	b.Slot = attempt.Slot{Account: c[2], Order: c[3], Purpose: c[4]}
	b.Place = attempt.Place{Provider: c[5], Account: c[6], Environment: c[7]}
	minor, err := strconv.ParseInt(c[8], 10, 64)
	if err != nil {
		return attempt.Brief{}, damaged(b.ID, fmt.Errorf("column amount: %w", err))
	}
	decimals, err := strconv.ParseInt(c[10], 10, 64)
	if err != nil {
		return attempt.Brief{}, damaged(b.ID, fmt.Errorf("column decimals: %w", err))
	}
	var d decoder
	b.Amount = d.restore(minor, c[9], decimals)
	if b.Status, err = attempt.ParseStatus(c[11]); err != nil {
		d.fail("status", "%w", err)
	}
	b.ChargeID = c[12]
	b.Refund = attempt.RefundOf{AttemptID: c[13], ChargeID: c[14], ID: c[15]}
	if d.err != nil {
		return attempt.Brief{}, damaged(b.ID, d.err)
	}
	return b, nil
}

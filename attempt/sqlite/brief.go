package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"iter"
	"slices"
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
	if len(ids) == 0 {
		return found, nil
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	found = slices.Grow(found, len(ids))
	err = r.query(s, func(row []driver.Value) error {
		b, err := decodeBrief(row)
		found = append(found, b)
		return err
	}, string(list))
	return found, err
}

func decodeBrief(row []driver.Value) (b attempt.Brief, err error) {
	d := &decoder{values: row}
	b.ID, b.Reference = d.text("id"), d.text("reference")
	b.Slot = attempt.Slot{Account: d.text("account"), Order: d.text("order_id"), Purpose: d.text("purpose")}
	b.Place = attempt.Place{Provider: d.text("provider"), Account: d.text("provider_account"), Environment: d.text("environment")}
	b.Amount = d.amount()
	b.Status, b.ChargeID = d.status("status"), d.text("charge_id")
	b.Refund = attempt.RefundOf{AttemptID: d.text("refund_of"), ChargeID: d.text("refund_charge"), ID: d.text("refund_id")}
	if d.err != nil {
		return attempt.Brief{}, damaged(b.ID, d.err)
	}
	return b, nil
}

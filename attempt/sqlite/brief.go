package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"slices"

	"github.com/chargeonce/chargeonce/attempt"
)

// Briefs implements [attempt.Store].
func (s *Store) Briefs(ctx context.Context, ids, chargeIDs []string) ([]attempt.Brief, error) {
	r, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	found, err := briefs(r, nil, stmtBriefs, ids)
	if err == nil {
		found, err = briefs(r, found, stmtBriefsOfCharges, chargeIDs)
	}
	if err != nil {
		return nil, s.unavailable(err)
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

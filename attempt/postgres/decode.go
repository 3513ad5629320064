package postgres

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// decoder reads columns one after another, as whatever driver gives them, and keeps the first error.
type decoder struct {
	values []any
	at     int
	err    error
}

func (d *decoder) next() any {
	if d.at >= len(d.values) {
		d.fail("", "the row has only %d columns", len(d.values))
		return nil
	}
	d.at++
	return d.values[d.at-1]
}

func (d *decoder) fail(column string, format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("column %s: %w", column, fmt.Errorf(format, args...))
	}
}

func (d *decoder) isNull() bool { return d.at < len(d.values) && d.values[d.at] == nil }

func (d *decoder) text(column string) string {
	switch v := d.next().(type) {
	case string:
		return v
	case []byte:
		return string(v)
	default:
		d.fail(column, "%T is no text", v)
		return ""
	}
}

// optional is a text, empty for NULL.
func (d *decoder) optional(column string) string {
	if d.isNull() {
		d.at++
		return ""
	}
	return d.text(column)
}

func (d *decoder) int64(column string) int64 {
	switch v := d.next().(type) {
	case int64:
		return v
	case int32:
		return int64(v)
	case int16:
		return int64(v)
	default:
		d.fail(column, "%T is no number", v)
		return 0
	}
}

func (d *decoder) count(column string) int {
	v := d.int64(column)
	if v < 0 || v > math.MaxInt32 {
		d.fail(column, "%d is no count", v)
	}
	return int(v)
}

func (d *decoder) bool(column string) bool {
	v, ok := d.next().(bool)
	if !ok {
		d.fail(column, "no boolean")
	}
	return v
}

func (d *decoder) time(column string) time.Time {
	switch v := d.next().(type) {
	case nil:
		return time.Time{}
	case time.Time:
		return v.UTC()
	default:
		d.fail(column, "%T is no time", v)
		return time.Time{}
	}
}

func (d *decoder) bytes(column string) []byte {
	switch v := d.next().(type) {
	case nil:
		return nil
	case []byte:
		return v
	default:
		d.fail(column, "%T is no bytes", v)
		return nil
	}
}

func (d *decoder) status(column string) attempt.Status {
	s, err := attempt.ParseStatus(d.text(column))
	if err != nil {
		d.fail(column, "%w", err)
	}
	return s
}

func (d *decoder) json(column string, v any) {
	if d.isNull() {
		d.at++
		return
	}
	if err := json.Unmarshal([]byte(d.text(column)), v); err != nil {
		d.fail(column, "%w", err)
	}
}

func (d *decoder) amount() money.Amount {
	minor, currency, decimals := d.int64("amount"), d.text("currency"), d.int64("decimals")
	if currency == "" && minor == 0 {
		return money.Amount{}
	}
	a, err := money.Restore(minor, currency)
	if err != nil {
		d.fail("currency", "%w", err)
		return a
	}
	if known, _ := money.Decimals(currency); int64(known) != decimals {
		d.fail("decimals", "%s was written with %d decimals and has %d", currency, decimals, known)
	}
	return a
}

func (d *decoder) slot() attempt.Slot {
	return attempt.Slot{Account: d.text("account"), Order: d.text("order_id"), Purpose: d.text("purpose")}
}

// slotRow is a slot and the number of its row, 0 where there is none yet.
type slotRow struct {
	name     attempt.Slot
	number   int64
	closedAt time.Time
}

// decodeSlot reads the columns of the slot that stand behind the attempt's seq, which says whether there is an attempt.
func decodeSlot(row []any) (slotRow, bool, error) {
	d := decoder{values: row, at: 1}
	s := slotRow{number: d.int64("id"), closedAt: d.time("closed_at"), name: d.slot()}
	return s, row[0] != nil, d.err
}

// decodeAttempt reads an attempt with the columns of its slot. seq is its place in the order of creation.
func decodeAttempt(row []any) (a attempt.Attempt, seq int64, err error) {
	d := &decoder{values: row}
	seq = d.int64("seq")
	d.at += 2 // the slot's number and closing
	a.Slot = d.slot()
	a.ID = d.text("id")
	a.Ordinal = d.count("ordinal")
	a.Key, a.Reference = d.text("idempotency_key"), d.text("reference")
	a.Amount = d.amount()
	a.Source = attempt.Digest{KeyID: d.text("source_key"), Sum: d.text("source_digest")}
	a.Description, a.Provider = d.text("description"), d.text("provider")
	a.ProviderAccount, a.Environment = d.text("provider_account"), d.text("environment")
	a.CreatedAt = d.time("created_at")

	a.Status, a.Reason = d.status("status"), attempt.Reason(d.text("reason"))
	a.Version, a.UpdatedAt = d.count("version"), d.time("updated_at")
	d.json("claims", &a.Claims)
	a.NextCheckAt = d.time("next_check_at")

	a.Body, a.BodyDigest = d.bytes("body"), d.text("body_digest")
	a.Fence, a.FirstClaimAt = d.count("fence"), d.time("first_claim_at")

	a.Sends, a.MaybeSends, a.LastSentAt = d.count("sends"), d.count("maybe_sends"), d.time("last_sent_at")
	d.json("answer", &a.Answer)
	d.json("charges", &a.Charges)
	a.ChargeID = d.text("charge_id")

	d.json("refusal", &a.Refusal)
	d.json("none_asked_at", &a.NoneAskedAt)
	a.Asks, a.AskingEndedAt = d.count("asks"), d.time("asking_ended_at")
	d.json("duties", &a.Duties)
	d.count("duties_open")
	a.UnwantedAt = d.time("unwanted_at")
	a.Refund = attempt.RefundOf{AttemptID: d.optional("refund_of"), ChargeID: d.text("refund_charge"), ID: d.text("refund_id")}
	if d.err != nil {
		return attempt.Attempt{}, seq, damaged(a.ID, d.err)
	}
	return a, seq, nil
}

// decodeEvent reads an event's version and eventColumns.
func decodeEvent(id string, row []any) (attempt.Event, error) {
	d := &decoder{values: row}
	v := attempt.Event{AttemptID: id, Version: d.count("version"), What: attempt.What(d.text("what"))}
	v.From, v.To = d.status("from_status"), d.status("to_status")
	v.At, v.Who = d.time("at"), d.text("who")
	d.json("evidence", &v.Evidence)
	if v.Evidence != nil {
		v.Evidence.At = v.At
	}
	d.json("duties", &v.Duties)
	if d.err != nil {
		return attempt.Event{}, damaged(id, fmt.Errorf("event %d: %w", v.Version, d.err))
	}
	return v, nil
}

func damaged(id string, err error) error {
	return fmt.Errorf("attempt %s is damaged: %w", id, err)
}

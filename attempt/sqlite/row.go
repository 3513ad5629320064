package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// never is the due time of an attempt that is not to be looked at again.
const never = math.MaxInt64

// due returns the key under which an attempt stands in chargeonce_open, and whether it stands there at all.
func due(a attempt.Attempt) (int64, bool) {
	if a.NextCheckAt.IsZero() {
		return never, !a.Status.Final()
	}
	return a.NextCheckAt.UnixMicro(), true
}

// micros is a time as it is stored.
func micros(t time.Time) driver.Value {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// encoder turns values into columns, and keeps the first error.
type encoder struct {
	values []driver.Value
	err    error
}

func (e *encoder) add(v ...driver.Value) { e.values = append(e.values, v...) }

// json adds a JSON text, NULL where there is nothing to keep.
func (e *encoder) json(column string, keep bool, v any) {
	if !keep {
		e.add(nil)
		return
	}
	text, err := json.Marshal(v)
	if err != nil && e.err == nil {
		e.err = fmt.Errorf("column %s: %w", column, err)
	}
	e.add(string(text))
}

func (e *encoder) fixed(a attempt.Attempt, slot int64) {
	decimals, _ := money.Decimals(a.Amount.Currency())
	e.add(a.ID, slot, int64(a.Ordinal), a.Key, a.Reference, a.Amount.Minor(), a.Amount.Currency(), int64(decimals),
		a.Source.KeyID, a.Source.Sum, a.Description, a.Provider, a.ProviderAccount, a.Environment, micros(a.CreatedAt))
}

func (e *encoder) changing(a attempt.Attempt) {
	var body driver.Value
	if len(a.Body) > 0 {
		body = a.Body
	}
	e.add(body, a.BodyDigest, a.Status.String(), string(a.Reason), int64(a.Version), micros(a.UpdatedAt), int64(a.Fence))
	e.json("claims", len(a.Claims) > 0, a.Claims)
	e.add(micros(a.FirstClaimAt), int64(a.Sends), int64(a.MaybeSends), micros(a.LastSentAt))
	e.json("refusal", a.Refusal != attempt.Refusal{}, a.Refusal)
	e.json("answer", a.Answer != attempt.Answer{}, a.Answer)
	e.json("charges", len(a.Charges) > 0, a.Charges)
	e.add(a.ChargeID)
	e.json("none_asked_at", len(a.NoneAskedAt) > 0, a.NoneAskedAt)
	e.add(int64(a.Asks), micros(a.NextCheckAt), micros(a.AskingEndedAt))
	e.json("duties", len(a.Duties) > 0, a.Duties)
}

func (e *encoder) event(v attempt.Event) {
	e.add(v.AttemptID, int64(v.Version), string(v.What), v.From.String(), v.To.String(), micros(v.At), v.Who)
	e.json("evidence", v.Evidence != nil, v.Evidence)
	e.json("duties", len(v.Duties) > 0, v.Duties)
}

// decoder reads columns one after another, and keeps the first error.
type decoder struct {
	values []driver.Value
	at     int
	err    error
}

func (d *decoder) next() driver.Value {
	d.at++
	return d.values[d.at-1]
}

func (d *decoder) fail(column string, format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("column %s: %w", column, fmt.Errorf(format, args...))
	}
}

func (d *decoder) text(column string) string {
	v, ok := d.next().(string)
	if !ok {
		d.fail(column, "%v is no text", d.values[d.at-1])
	}
	return v
}

func (d *decoder) int64(column string) int64 {
	v, ok := d.next().(int64)
	if !ok {
		d.fail(column, "%v is no number", d.values[d.at-1])
	}
	return v
}

func (d *decoder) count(column string) int {
	v := d.int64(column)
	if v < 0 || v > math.MaxInt32 {
		d.fail(column, "%d is no count", v)
	}
	return int(v)
}

func (d *decoder) time(column string) time.Time {
	if d.next() == nil {
		return time.Time{}
	}
	d.at--
	return time.UnixMicro(d.int64(column)).UTC()
}

func (d *decoder) blob(column string) []byte {
	switch v := d.next().(type) {
	case nil:
		return nil
	case []byte:
		return v
	default:
		d.fail(column, "%T is no blob", v)
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
	if d.next() == nil {
		return
	}
	d.at--
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

// decodeAttempt reads a row of selectAttempts. seq is the row's place in the order of creation.
func decodeAttempt(row []driver.Value) (a attempt.Attempt, seq int64, err error) {
	d := &decoder{values: row}
	seq = d.int64("seq")
	a.Slot = attempt.Slot{Account: d.text("account"), Order: d.text("order_id"), Purpose: d.text("purpose")}
	a.ID = d.text("id")
	d.next() // slot
	a.Ordinal = d.count("ordinal")
	a.Key, a.Reference = d.text("idempotency_key"), d.text("reference")
	a.Amount = d.amount()
	a.Source = attempt.Digest{KeyID: d.text("source_key"), Sum: d.text("source_digest")}
	a.Description, a.Provider = d.text("description"), d.text("provider")
	a.ProviderAccount, a.Environment = d.text("provider_account"), d.text("environment")
	a.CreatedAt = d.time("created_at")

	a.Body, a.BodyDigest = d.blob("body"), d.text("body_digest")
	a.Status, a.Reason = d.status("status"), attempt.Reason(d.text("reason"))
	a.Version, a.UpdatedAt, a.Fence = d.count("version"), d.time("updated_at"), d.count("fence")
	d.json("claims", &a.Claims)
	a.FirstClaimAt, a.Sends, a.MaybeSends = d.time("first_claim_at"), d.count("sends"), d.count("maybe_sends")
	a.LastSentAt = d.time("last_sent_at")
	d.json("refusal", &a.Refusal)
	d.json("answer", &a.Answer)
	d.json("charges", &a.Charges)
	a.ChargeID = d.text("charge_id")
	d.json("none_asked_at", &a.NoneAskedAt)
	a.Asks, a.NextCheckAt, a.AskingEndedAt = d.count("asks"), d.time("next_check_at"), d.time("asking_ended_at")
	d.json("duties", &a.Duties)
	if d.err != nil {
		return attempt.Attempt{}, seq, damaged(a.ID, d.err)
	}
	return a, seq, nil
}

func decodeEvent(id string, row []driver.Value) (attempt.Event, error) {
	d := &decoder{values: row}
	v := attempt.Event{AttemptID: id, Version: d.count("version"), What: attempt.What(d.text("what"))}
	v.From, v.To = d.status("from_status"), d.status("to_status")
	v.At, v.Who = d.time("at"), d.text("who")
	v.Evidence = d.evidence("evidence", v.At)
	d.json("duties", &v.Duties)
	if d.err != nil {
		return attempt.Event{}, damaged(id, fmt.Errorf("event %d: %w", v.Version, d.err))
	}
	return v, nil
}

func damaged(id string, err error) error {
	return fmt.Errorf("attempt %s is damaged: %w", id, err)
}

func (d *decoder) evidence(column string, at time.Time) *attempt.Evidence {
	var stored *struct {
		attempt.Evidence
		Lookup lookupAnswer `json:"lookup"`
	}
	d.json(column, &stored)
	if stored == nil {
		return nil
	}
	e := stored.Evidence
	e.Lookup, e.At = attempt.LookupAnswer(stored.Lookup), at
	return &e
}

// lookupAnswer reads what attempt.LookupAnswer writes.
type lookupAnswer attempt.LookupAnswer

func (l *lookupAnswer) UnmarshalText(text []byte) error {
	for _, known := range []attempt.LookupAnswer{
		attempt.LookupUnreadable, attempt.LookupFound, attempt.LookupNone, attempt.LookupNotAsked,
	} {
		if known.String() == string(text) {
			*l = lookupAnswer(known)
			return nil
		}
	}
	return fmt.Errorf("lookup answer %q is not known", text)
}

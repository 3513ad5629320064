package sqlite

import (
	"bytes"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// micros is a time as it is stored.
func micros(t time.Time) driver.Value {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// blob is bytes as they are stored, NULL where there are none.
func blob(b []byte) driver.Value {
	if len(b) == 0 {
		return nil
	}
	return b
}

// encoder turns values into the arguments of a statement, and keeps the first error.
type encoder struct {
	args []driver.NamedValue
	text *jsonText
	err  error
}

func (e *encoder) add(values ...driver.Value) {
	for _, v := range values {
		e.args = append(e.args, driver.NamedValue{Ordinal: len(e.args) + 1, Value: v})
	}
}

func (e *encoder) fail(column string, err error) {
	if err != nil && e.err == nil {
		e.err = fmt.Errorf("column %s: %w", column, err)
	}
}

// addJSON adds a JSON text, NULL where there is nothing to keep.
func (e *encoder) addJSON(column string, keep bool, v any) {
	if !keep {
		e.add(nil)
		return
	}
	text, err := json.Marshal(v)
	e.fail(column, err)
	e.add(string(text))
}

// addText is addJSON for what jsonText can write.
func addText[T any](e *encoder, column string, keep bool, v T, write func(*jsonText, T)) {
	if !keep || !handWritten {
		e.addJSON(column, keep, v)
		return
	}
	e.text.b, e.text.err = e.text.b[:0], nil
	write(e.text, v)
	e.fail(column, e.text.err)
	e.add(string(e.text.b))
}

// slotArg is where fixed leaves room for the number of the slot.
const slotArg = 0

func (e *encoder) fixed(a *attempt.Attempt) {
	decimals, _ := money.Decimals(a.Amount.Currency())
	e.add(nil, a.ID, int64(a.Ordinal), a.Key, a.Reference, a.Amount.Minor(), a.Amount.Currency(), int64(decimals),
		a.Source.KeyID, a.Source.Sum, a.Description, a.Provider, a.ProviderAccount, a.Environment, micros(a.CreatedAt))
}

func (e *encoder) state(a *attempt.Attempt) {
	e.add(a.Status.String(), string(a.Reason), int64(a.Version), micros(a.UpdatedAt))
	addText(e, "claims", len(a.Claims) > 0, a.Claims, appendClaims)
	e.add(micros(a.NextCheckAt))
}

func (e *encoder) claim(a *attempt.Attempt) {
	e.add(blob(a.Body), a.BodyDigest, int64(a.Fence), micros(a.FirstClaimAt))
}

// sameClaim tells whether the columns of claim are the same for both.
func sameClaim(a, b *attempt.Attempt) bool {
	return a.Fence == b.Fence && a.FirstClaimAt.Equal(b.FirstClaimAt) && a.BodyDigest == b.BodyDigest && bytes.Equal(a.Body, b.Body)
}

func (e *encoder) result(a *attempt.Attempt) {
	e.add(int64(a.Sends), int64(a.MaybeSends), micros(a.LastSentAt))
	addText(e, "answer", a.Answer != attempt.Answer{}, &a.Answer, appendAnswer)
	addText(e, "charges", len(a.Charges) > 0, a.Charges, appendCharges)
	e.add(a.ChargeID)
}

func noResult(a *attempt.Attempt) bool {
	return a.Sends == 0 && a.MaybeSends == 0 && a.LastSentAt.IsZero() && a.Answer == attempt.Answer{} &&
		len(a.Charges) == 0 && a.ChargeID == ""
}

func (e *encoder) rare(a *attempt.Attempt) {
	e.addJSON("refusal", a.Refusal != attempt.Refusal{}, &a.Refusal)
	e.addJSON("none_asked_at", len(a.NoneAskedAt) > 0, a.NoneAskedAt)
	e.add(int64(a.Asks), micros(a.AskingEndedAt))
	e.addJSON("duties", len(a.Duties) > 0, a.Duties)
	open := 0
	for i := range a.Duties {
		if a.Duties[i].MetAt.IsZero() {
			open++
		}
	}
	live := int64(0)
	if a.IsRefund() && a.Status.Live() {
		live = 1
	}
	e.add(int64(open), micros(a.UnwantedAt), live)
}

func noneRare(a *attempt.Attempt) bool {
	return a.Refusal == attempt.Refusal{} && len(a.NoneAskedAt) == 0 && a.Asks == 0 && a.AskingEndedAt.IsZero() &&
		len(a.Duties) == 0 && a.UnwantedAt.IsZero()
}

// write makes the arguments of the statement that writes an attempt, and says which one that is.
func (e *encoder) write(a, old *attempt.Attempt) (s statement) {
	switch {
	case old == nil && noResult(a) && noneRare(a) && !a.IsRefund():
		s = stmtInsertStarted
		e.fixed(a)
		e.state(a)
		e.claim(a)
	case old == nil:
		s = stmtInsertAttempt
		e.fixed(a)
		e.state(a)
		e.claim(a)
		e.result(a)
		e.rare(a)
		e.add(a.Refund.AttemptID, a.Refund.ChargeID, a.Refund.ID)
	case sameClaim(a, old) && noneRare(a) && noneRare(old) && !a.IsRefund():
		s = stmtUpdateResult
		e.state(a)
		e.result(a)
	default:
		s = stmtUpdateAttempt
		e.state(a)
		e.claim(a)
		e.result(a)
		e.rare(a)
	}
	if old != nil {
		e.add(a.ID, int64(old.Version), micros(old.NextCheckAt))
	}
	return s
}

func (e *encoder) event(v *attempt.Event) {
	e.add(v.AttemptID, int64(v.Version), string(v.What), v.From.String(), v.To.String(), micros(v.At), v.Who)
	addText(e, "evidence", v.Evidence != nil, v.Evidence, appendEvidence)
	e.addJSON("duties", len(v.Duties) > 0, v.Duties)
}

// row is a write in the form in which statements take it.
type row struct {
	*attempt.Write
	old  *attempt.Attempt // the state it replaces; nil: a new attempt
	stmt statement
	*arguments
}

// started is 1 for a new attempt, else 0.
func (r row) started() int {
	if r.old == nil {
		return 1
	}
	return 0
}

// arguments are those of the statement that writes the attempt, and of stmtInsertEvent.
type arguments struct {
	attempt, event []driver.NamedValue
	text           jsonText
}

var spareArguments = sync.Pool{New: func() any {
	return &arguments{
		attempt: make([]driver.NamedValue, 0, len(allColumns)),
		event:   make([]driver.NamedValue, 0, 9),
		text:    jsonText{b: make([]byte, 0, 1024)},
	}
}}

// free gives the row's arguments back. The row is not used afterwards.
func (r row) free() {
	clear(r.attempt[:cap(r.attempt)]) // what they point to is the caller's
	clear(r.event[:cap(r.event)])
	spareArguments.Put(r.arguments)
}

// encode makes the row of a write that replaces old, or is an attempt's first where old is nil.
func encode(w *attempt.Write, old *attempt.Attempt) (row, error) {
	r := row{Write: w, old: old, arguments: spareArguments.Get().(*arguments)}
	a := encoder{args: r.attempt[:0], text: &r.text}
	r.stmt = a.write(w.Attempt, old)
	v := encoder{args: r.event[:0], text: &r.text}
	v.event(&w.Event)
	r.attempt, r.event = a.args, v.args
	if err := errors.Join(a.err, v.err); err != nil {
		r.free()
		return row{}, fmt.Errorf("attempt %s cannot be stored: %w", w.Attempt.ID, err)
	}
	return r, nil
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
	return d.restore(d.int64("amount"), d.text("currency"), d.int64("decimals"))
}

// restore makes an amount of its columns.
func (d *decoder) restore(minor int64, currency string, decimals int64) money.Amount {
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

// slotColumns are those of the slot that selected has after seq: its number and its closing.
const slotColumns = 2

// decodeAttempt reads a row of selectAttempts. seq is the row's place in the order of creation.
func decodeAttempt(row []driver.Value) (a attempt.Attempt, seq int64, err error) {
	d := &decoder{values: row}
	seq = d.int64("seq")
	d.at += slotColumns
	a.Slot = attempt.Slot{Account: d.text("account"), Order: d.text("order_id"), Purpose: d.text("purpose")}
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

	a.Body, a.BodyDigest = d.blob("body"), d.text("body_digest")
	a.Fence, a.FirstClaimAt = d.count("fence"), d.time("first_claim_at")

	a.Sends, a.MaybeSends, a.LastSentAt = d.count("sends"), d.count("maybe_sends"), d.time("last_sent_at")
	d.json("answer", &a.Answer)
	d.json("charges", &a.Charges)
	a.ChargeID = d.text("charge_id")

	d.json("refusal", &a.Refusal)
	d.json("none_asked_at", &a.NoneAskedAt)
	a.Asks, a.AskingEndedAt = d.count("asks"), d.time("asking_ended_at")
	d.json("duties", &a.Duties)
	d.next() // how many of them are open
	a.UnwantedAt = d.time("unwanted_at")
	d.next() // whether it is a live refund
	a.Refund = attempt.RefundOf{AttemptID: d.text("refund_of"), ChargeID: d.text("refund_charge"), ID: d.text("refund_id")}
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

package postgres

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// encoder turns values into the arguments of a statement, and keeps the first error. What it adds are strings, int64s,
// bools, times, bytes and nil, which every driver takes.
type encoder struct {
	args []any
	err  error
}

func (e *encoder) fail(err error) {
	if err != nil && e.err == nil {
		e.err = err
	}
}

// text adds texts. PostgreSQL keeps no byte 0 in a text, and only UTF-8.
func (e *encoder) text(values ...string) {
	for _, v := range values {
		if !storable(v) {
			e.fail(fmt.Errorf("%q is no text that PostgreSQL can store", v))
		}
		e.args = append(e.args, v)
	}
}

func storable(text string) bool { return utf8.ValidString(text) && strings.IndexByte(text, 0) < 0 }

func (e *encoder) number(values ...int) {
	for _, v := range values {
		e.args = append(e.args, int64(v))
	}
}

func (e *encoder) time(t time.Time) { e.args = append(e.args, instant(t)) }

// instant is a time as it is stored, NULL where there is none.
func instant(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Truncate(time.Microsecond)
}

// id adds an attempt's id, NULL for none.
func (e *encoder) id(id string) {
	if id == "" {
		e.args = append(e.args, nil)
		return
	}
	if !isID(id) {
		e.fail(fmt.Errorf("%q is no id of an attempt", id))
	}
	e.args = append(e.args, id)
}

// isID tells whether an attempt can have that id: a UUID in its one way of writing it.
func isID(id string) bool {
	_, ok := attempt.IDOf(id)
	return ok && len(id) == 36
}

// json adds a JSON text, NULL where there is nothing to keep.
func (e *encoder) json(keep bool, v any) {
	if !keep {
		e.args = append(e.args, nil)
		return
	}
	text, err := json.Marshal(v)
	e.fail(err)
	e.args = append(e.args, string(text))
}

func (e *encoder) bytes(b []byte) {
	if len(b) == 0 {
		e.args = append(e.args, nil)
		return
	}
	e.args = append(e.args, b)
}

func (e *encoder) slot(s attempt.Slot) { e.text(s.Order, s.Account, s.Purpose) }

func (e *encoder) fixed(a *attempt.Attempt) {
	decimals, _ := money.Decimals(a.Amount.Currency())
	e.id(a.ID)
	e.number(a.Ordinal)
	e.text(a.Key, a.Reference)
	e.args = append(e.args, a.Amount.Minor())
	e.text(a.Amount.Currency())
	e.number(decimals)
	e.text(a.Source.KeyID, a.Source.Sum, a.Description, a.Provider, a.ProviderAccount, a.Environment)
	e.time(a.CreatedAt)
}

func (e *encoder) state(a *attempt.Attempt) {
	e.text(a.Status.String(), string(a.Reason))
	e.number(a.Version)
	e.time(a.UpdatedAt)
	e.json(len(a.Claims) > 0, a.Claims)
	e.time(a.NextCheckAt)
}

func (e *encoder) claim(a *attempt.Attempt) {
	e.bytes(a.Body)
	e.text(a.BodyDigest)
	e.number(a.Fence)
	e.time(a.FirstClaimAt)
}

// sameClaim tells whether the columns of claim are the same for both.
func sameClaim(a, b *attempt.Attempt) bool {
	return a.Fence == b.Fence && a.FirstClaimAt.Equal(b.FirstClaimAt) && a.BodyDigest == b.BodyDigest && bytes.Equal(a.Body, b.Body)
}

func (e *encoder) result(a *attempt.Attempt) {
	e.number(a.Sends, a.MaybeSends)
	e.time(a.LastSentAt)
	e.json(a.Answer != attempt.Answer{}, &a.Answer)
	e.json(len(a.Charges) > 0, a.Charges)
	e.text(a.ChargeID)
}

func noResult(a *attempt.Attempt) bool {
	return a.Sends == 0 && a.MaybeSends == 0 && a.LastSentAt.IsZero() && a.Answer == attempt.Answer{} &&
		len(a.Charges) == 0 && a.ChargeID == ""
}

func (e *encoder) rare(a *attempt.Attempt) {
	e.json(a.Refusal != attempt.Refusal{}, &a.Refusal)
	e.json(len(a.NoneAskedAt) > 0, a.NoneAskedAt)
	e.number(a.Asks)
	e.time(a.AskingEndedAt)
	e.json(len(a.Duties) > 0, a.Duties)
	open := 0
	for i := range a.Duties {
		if a.Duties[i].MetAt.IsZero() {
			open++
		}
	}
	e.number(open)
	e.time(a.UnwantedAt)
}

func noneRare(a *attempt.Attempt) bool {
	return a.Refusal == attempt.Refusal{} && len(a.NoneAskedAt) == 0 && a.Asks == 0 && a.AskingEndedAt.IsZero() &&
		len(a.Duties) == 0 && a.UnwantedAt.IsZero()
}

func (e *encoder) refund(a *attempt.Attempt) {
	e.id(a.Refund.AttemptID)
	e.text(a.Refund.ChargeID, a.Refund.ID)
}

// event adds eventColumns.
func (e *encoder) event(v *attempt.Event) {
	e.text(string(v.What), v.From.String(), v.To.String())
	e.time(v.At)
	e.text(v.Who)
	e.json(v.Evidence != nil, v.Evidence)
	e.json(len(v.Duties) > 0, v.Duties)
}

func (e *encoder) guard(old *attempt.Attempt) {
	e.number(old.Version)
	e.time(old.NextCheckAt)
}

// live tells whether an attempt holds its slot.
func live(a *attempt.Attempt) bool { return a.Status.Live() && !a.IsRefund() }

// frees tells whether a makes room in the slot that old held.
func frees(a, old *attempt.Attempt) bool { return live(old) && !live(a) }

// kind is a statement that writes on belief.
type kind uint8

const (
	notOnBelief kind = iota
	writesFirst
	writesResult
	writesUpdate
)

// onBelief makes the arguments of the statement that writes an attempt which replaces old, or is a slot's first one where old is
// nil, decided at that time (zero: whenever). lock is that of the slot's name.
func onBelief(w *attempt.Write, old *attempt.Attempt, decided time.Time, lock int64) (kind, []any, error) {
	a := w.Attempt
	var e encoder
	var k kind
	switch {
	case old == nil && noResult(a) && noneRare(a) && !a.IsRefund():
		k = writesFirst
		e.args = make([]any, 0, len(firstInput)+1)
		e.args = append(e.args, lock)
		e.time(decided)
		e.slot(a.Slot)
		if live(a) {
			e.id(a.ID)
		} else {
			e.id("")
		}
		e.fixed(a)
		e.state(a)
		e.claim(a)
	case old == nil:
		return notOnBelief, nil, nil
	default:
		k = writesUpdate
		if !frees(a, old) && sameClaim(a, old) && noneRare(a) && noneRare(old) {
			k = writesResult
		}
		e.args = make([]any, 0, len(updateInput)+1)
		e.next(k, a, old, decided)
	}
	e.event(&w.Event)
	return k, e.args, e.cannot(a)
}

// next adds what resultInput or updateInput have before the event.
func (e *encoder) next(k kind, a, old *attempt.Attempt, decided time.Time) {
	e.time(decided)
	e.guard(old)
	if k == writesUpdate {
		e.args = append(e.args, frees(a, old))
	}
	e.id(a.ID)
	e.state(a)
	if k == writesResult {
		e.result(a)
		return
	}
	e.claim(a)
	e.result(a)
	e.rare(a)
}

func (e *encoder) cannot(a *attempt.Attempt) error {
	if e.err == nil {
		return nil
	}
	return fmt.Errorf("attempt %s cannot be stored: %w", a.ID, e.err)
}

// insertArgs are those of statements.insert.
func insertArgs(w *attempt.Write) ([]any, error) {
	e := encoder{args: make([]any, 0, len(insertInput))}
	a := w.Attempt
	e.slot(a.Slot)
	e.fixed(a)
	e.state(a)
	e.claim(a)
	e.result(a)
	e.rare(a)
	e.refund(a)
	e.event(&w.Event)
	return e.args, e.cannot(a)
}

// replaceArgs are those of statements.replace.
func replaceArgs(w *attempt.Write, old *attempt.Attempt) ([]any, error) {
	e := encoder{args: make([]any, 0, len(updateInput))}
	e.next(writesUpdate, w.Attempt, old, time.Time{})
	e.event(&w.Event)
	return e.args, e.cannot(w.Attempt)
}

var errShape = errors.New("the arguments do not fit the columns")

// arrays turns the arguments of many rows into one array for each column.
func arrays(in []column, rows [][]any) ([]any, error) {
	out := make([]any, len(in), len(in)+1)
	for c, col := range in {
		var err error
		switch col.passed() {
		case "text":
			out[c], err = array[string](rows, c)
		case "bigint":
			out[c], err = array[int64](rows, c)
		case "boolean":
			out[c], err = array[bool](rows, c)
		case "timestamptz":
			out[c], err = array[time.Time](rows, c)
		case "bytea":
			all := make([][]byte, len(rows))
			for i, r := range rows {
				all[i], _ = r[c].([]byte)
			}
			out[c] = all
		default:
			err = errShape
		}
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", col.name, err)
		}
	}
	return out, nil
}

func array[T any](rows [][]any, c int) ([]*T, error) {
	all, values := make([]*T, len(rows)), make([]T, len(rows))
	for i, r := range rows {
		if r[c] == nil {
			continue
		}
		v, ok := r[c].(T)
		if !ok {
			return nil, fmt.Errorf("%w: %T", errShape, r[c])
		}
		values[i] = v
		all[i] = &values[i]
	}
	return all, nil
}

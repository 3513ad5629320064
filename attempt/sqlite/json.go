package sqlite

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// handWritten tells whether jsonText knows every field of what it writes. Where somebody has added one, encoding/json does
// the work again, so that nothing is lost meanwhile; a test then asks for the field here.
var handWritten = jsonFields[attempt.Claim]() == "fence until" &&
	jsonFields[attempt.Charge]() == "id status amount,omitzero decline_code,omitempty next_action,omitempty seen_at,omitzero"+
		" answered,omitempty changed_at,omitzero refunded,omitempty failed_first,omitempty" &&
	jsonFields[attempt.Answer]() == "verdict reason,omitempty status_code,omitempty request_id,omitempty code,omitempty"+
		" decline_code,omitempty charge_id,omitempty detail,omitempty money_moved,omitempty replayed,omitempty" &&
	jsonFields[attempt.Send]() == "started_at,omitzero took,omitempty kept,omitempty charge,omitempty Answer" &&
	jsonFields[attempt.Evidence]() == "kind fence,omitempty sends,omitempty overdue,omitempty lookup,omitzero asked_at,omitzero"+
		" charges,omitempty answer,omitempty resolution,omitempty"

// jsonFields lists the fields that encoding/json writes of a struct.
func jsonFields[T any]() string {
	var names []string
	for t, i := reflect.TypeFor[T](), 0; i < t.NumField(); i++ {
		name := t.Field(i).Tag.Get("json")
		if name == "" {
			name = t.Field(i).Name
		}
		if name != "-" {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// jsonText writes what encoding/json would, for the values that every payment stores: that was a tenth of what a payment
// cost.
type jsonText struct {
	b   []byte
	err error
}

func (j *jsonText) fail(err error) {
	if err != nil && j.err == nil {
		j.err = err
	}
}

// name begins a field; the first of an object follows its "{".
func (j *jsonText) name(name string) {
	if j.b[len(j.b)-1] != '{' {
		j.b = append(j.b, ',')
	}
	j.b = append(j.b, '"')
	j.b = append(j.b, name...)
	j.b = append(j.b, '"', ':')
}

func (j *jsonText) string(name, s string) {
	j.name(name)
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			text, err := json.Marshal(s) // escapes and whatever is not ASCII are the library's business
			j.fail(err)
			j.b = append(j.b, text...)
			return
		}
	}
	j.b = append(j.b, '"')
	j.b = append(j.b, s...)
	j.b = append(j.b, '"')
}

// text, number and true leave out what is empty; number0 does not.

func (j *jsonText) text(name, s string) {
	if s != "" {
		j.string(name, s)
	}
}

func (j *jsonText) number(name string, n int64) {
	if n != 0 {
		j.number0(name, n)
	}
}

func (j *jsonText) number0(name string, n int64) {
	j.name(name)
	j.b = strconv.AppendInt(j.b, n, 10)
}

func (j *jsonText) true(name string, v bool) {
	if v {
		j.name(name)
		j.b = append(j.b, "true"...)
	}
}

func (j *jsonText) time(name string, t time.Time) {
	j.name(name)
	j.b = append(j.b, '"')
	b, err := t.AppendText(j.b)
	j.fail(err)
	j.b = append(b, '"')
}

func (j *jsonText) amount(name string, a money.Amount) {
	if !a.IsZero() {
		j.string(name, a.String())
	}
}

func list[T any](j *jsonText, values []T, one func(*jsonText, *T)) {
	j.b = append(j.b, '[')
	for i := range values {
		if i > 0 {
			j.b = append(j.b, ',')
		}
		one(j, &values[i])
	}
	j.b = append(j.b, ']')
}

func appendClaim(j *jsonText, c *attempt.Claim) {
	j.b = append(j.b, '{')
	j.number0("fence", int64(c.Fence))
	j.time("until", c.Until)
	j.b = append(j.b, '}')
}

func appendClaims(j *jsonText, claims []attempt.Claim)    { list(j, claims, appendClaim) }
func appendCharges(j *jsonText, charges []attempt.Charge) { list(j, charges, appendCharge) }

func appendCharge(j *jsonText, c *attempt.Charge) {
	j.b = append(j.b, '{')
	j.string("id", c.ID)
	j.string("status", c.Status.String())
	j.amount("amount", c.Amount)
	j.text("decline_code", c.DeclineCode)
	j.text("next_action", c.NextAction)
	if !c.SeenAt.IsZero() {
		j.time("seen_at", c.SeenAt)
	}
	j.true("answered", c.Answered)
	if !c.ChangedAt.IsZero() {
		j.time("changed_at", c.ChangedAt)
	}
	j.number("refunded", c.Refunded)
	j.true("failed_first", c.FailedFirst)
	j.b = append(j.b, '}')
}

func appendAnswer(j *jsonText, a *attempt.Answer) {
	j.b = append(j.b, '{')
	j.answer(a)
	j.b = append(j.b, '}')
}

func (j *jsonText) answer(a *attempt.Answer) {
	j.string("verdict", a.Verdict.String())
	j.text("reason", string(a.Reason))
	j.number("status_code", int64(a.StatusCode))
	j.text("request_id", a.RequestID)
	j.text("code", a.Code)
	j.text("decline_code", a.DeclineCode)
	j.text("charge_id", a.ChargeID)
	j.text("detail", a.Detail)
	j.true("money_moved", a.MoneyMoved)
	j.true("replayed", a.Replayed)
}

func appendSend(j *jsonText, s *attempt.Send) {
	j.b = append(j.b, '{')
	if !s.StartedAt.IsZero() {
		j.time("started_at", s.StartedAt)
	}
	j.number("took", int64(s.Took))
	j.true("kept", s.Kept)
	if s.Charge != nil {
		j.name("charge")
		appendCharge(j, s.Charge)
	}
	j.answer(&s.Answer)
	j.b = append(j.b, '}')
}

func appendEvidence(j *jsonText, e *attempt.Evidence) {
	j.b = append(j.b, '{')
	j.string("kind", string(e.Kind))
	j.number("fence", int64(e.Fence))
	if len(e.Sends) > 0 {
		j.name("sends")
		list(j, e.Sends, appendSend)
	}
	j.true("overdue", e.Overdue)
	if e.Lookup != 0 {
		j.string("lookup", e.Lookup.String())
	}
	if !e.AskedAt.IsZero() {
		j.time("asked_at", e.AskedAt)
	}
	if len(e.Charges) > 0 {
		j.name("charges")
		list(j, e.Charges, appendCharge)
	}
	if e.Answer != nil {
		j.name("answer")
		appendAnswer(j, e.Answer)
	}
	if e.Resolution != nil { // rare
		j.name("resolution")
		text, err := json.Marshal(e.Resolution)
		j.fail(err)
		j.b = append(j.b, text...)
	}
	j.b = append(j.b, '}')
}

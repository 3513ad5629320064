package events

import (
	"context"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Schema is the number of the schema that [Record] is. Fields, and values of what and reason, may be added under the same
// number; one that is removed, or means something else, makes another.
const Schema = 1

// Reader reads attempts; every [attempt.Store] is one. A replica may be one too: where it does not show an event's change yet
// the event is delivered again later.
type Reader interface {
	// Attempt returns one attempt. It fails with [attempt.ErrNotFound] or [attempt.ErrUnavailable].
	Attempt(ctx context.Context, id string) (attempt.Attempt, error)
}

// Record is what the targets tell of an event. Its JSON is a contract: every field is always there, and what was written can be
// read back into it.
type Record struct {
	Schema int `json:"schema"`

	// The event. AttemptID and Version name it: an attempt's versions count from 1 without gaps.
	AttemptID string         `json:"attempt_id"`
	Version   int            `json:"version"`
	What      attempt.What   `json:"what"`
	From      attempt.Status `json:"from"`
	To        attempt.Status `json:"to"`
	Final     bool           `json:"final"`  // it brought the attempt to its end
	At        time.Time      `json:"at"`     // by the store's clock, RFC 3339 in UTC, to the microsecond
	Duties    []Duty         `json:"duties"` // opened by it; never null

	// What the attempt is for.
	Order       string    `json:"order"`
	Account     string    `json:"account"`
	Purpose     string    `json:"purpose"`
	Refund      *RefundOf `json:"refund"`       // null: a charge; else the amount is what goes back
	Amount      string    `json:"amount"`       // in major units, as text
	AmountMinor int64     `json:"amount_minor"` // the same in minor units of ISO 4217
	Currency    string    `json:"currency"`

	// How the attempt stood when the event was delivered: at this version, not below that of the event.
	AttemptVersion int            `json:"attempt_version"`
	Status         attempt.Status `json:"status"`
	Outcome        string         `json:"outcome"` // approved, declined, unknown, contract_violation; not_paid: prepared, abandoned, or given back
	Moved          string         `json:"moved"`   // no, maybe, yes: what to decide by
	Reason         attempt.Reason `json:"reason"`
	Open           bool           `json:"open"`      // it still waits for evidence
	ChargeID       string         `json:"charge_id"` // the provider's, of the charge that approved it; empty: none
}

// Duty is something that is owed since the event.
type Duty struct {
	Kind        attempt.DutyKind `json:"kind"` // refund, review
	Why         string           `json:"why"`
	ChargeID    string           `json:"charge_id"`
	Amount      string           `json:"amount"` // what the provider holds, in major units; empty: not known
	AmountMinor int64            `json:"amount_minor"`
	Currency    string           `json:"currency"`
}

// RefundOf says which money a refund gives back.
type RefundOf struct {
	ID        string `json:"id"`         // the caller's; "duty:" and the charge's id: it pays a duty
	AttemptID string `json:"attempt_id"` // of the charge
	ChargeID  string `json:"charge_id"`  // the provider's
}

const notPaid = "not_paid"

// RecordOf makes the record of an event. It fails where the attempt cannot be read, or only as it was before the event.
func RecordOf(ctx context.Context, attempts Reader, e attempt.Event) (Record, error) {
	a, err := attempts.Attempt(ctx, e.AttemptID)
	if err != nil {
		return Record{}, fmt.Errorf("read the attempt of an event: %w", err)
	}
	if a.Version < e.Version {
		return Record{}, fmt.Errorf("read the attempt of an event: attempt %s is at version %d, the event at %d: %w",
			e.AttemptID, a.Version, e.Version, attempt.ErrUnavailable)
	}
	slot := a.Slot.WithDefaults()
	told := a.Tell(e.At)
	r := Record{
		Schema: Schema, AttemptID: e.AttemptID, Version: e.Version, What: e.What, From: e.From, To: e.To, Final: e.Final(),
		At: e.At.UTC().Truncate(time.Microsecond), Duties: make([]Duty, 0, len(e.Duties)),
		Order: slot.Order, Account: slot.Account, Purpose: slot.Purpose,
		Amount: a.Amount.Decimal(), AmountMinor: a.Amount.Minor(), Currency: a.Amount.Currency(),
		AttemptVersion: a.Version, Status: a.Status, Outcome: told.Outcome.String(), Moved: told.Moved.String(), Reason: told.Reason,
		Open: told.Open(), ChargeID: a.ChargeID,
	}
	if told.NotPaid {
		r.Outcome = notPaid
	}
	if a.IsRefund() {
		r.Refund = &RefundOf{ID: a.Refund.ID, AttemptID: a.Refund.AttemptID, ChargeID: a.Refund.ChargeID}
	}
	for _, d := range e.Duties {
		duty := Duty{Kind: d.Kind, Why: d.Why, ChargeID: d.ChargeID}
		if d.Amount.Valid() {
			duty.Amount, duty.AmountMinor, duty.Currency = d.Amount.Decimal(), d.Amount.Minor(), d.Amount.Currency()
		}
		r.Duties = append(r.Duties, duty)
	}
	return r, nil
}

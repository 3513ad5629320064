package main

import (
	"slices"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// attemptRecord is the JSON of one attempt: a contract. Fields may be added, none is removed or changes its meaning.
// Times are RFC 3339 in UTC, null where there is none yet.
type attemptRecord struct {
	ID              string         `json:"id"`
	Order           string         `json:"order"`
	Account         string         `json:"account"`
	Purpose         string         `json:"purpose"`
	Ordinal         int            `json:"ordinal"` // 1 for the first attempt of its order
	Status          attempt.Status `json:"status"`
	Outcome         string         `json:"outcome"` // approved, declined, unknown, contract_violation; not_paid: prepared or abandoned
	Moved           attempt.Moved  `json:"moved"`
	Reason          attempt.Reason `json:"reason"`
	Open            bool           `json:"open"` // money may have moved and it is not settled
	Key             string         `json:"key"`
	Reference       string         `json:"reference"`
	Provider        string         `json:"provider"`
	ProviderAccount string         `json:"provider_account"`
	Environment     string         `json:"environment"`
	ProviderID      string         `json:"provider_id"`  // the provider's id of the charge
	Amount          string         `json:"amount"`       // major units, as text
	AmountMinor     int64          `json:"amount_minor"` // the same in minor units of ISO 4217
	Currency        string         `json:"currency"`
	Description     string         `json:"description"`
	DeclineCode     string         `json:"decline_code"`
	StatusCode      int            `json:"status_code"` // of the provider's last answer; 0: none
	Code            string         `json:"code"`        // the provider's, of that answer
	Detail          string         `json:"detail"`      // what was wrong with that answer
	RequestID       string         `json:"request_id"`
	NextAction      string         `json:"next_action"`
	Sends           int            `json:"sends"` // requests made, those proven not to have left included
	CreatedAt       *time.Time     `json:"created_at"`
	UpdatedAt       *time.Time     `json:"updated_at"`
	LastSentAt      *time.Time     `json:"last_sent_at"`  // no request can have left later
	NextCheckAt     *time.Time     `json:"next_check_at"` // when the provider is to be asked
	Version         int            `json:"version"`
	Charges         []chargeRecord `json:"charges"` // of a refund: the provider's refunds
	Duties          []dutyRecord   `json:"duties"`
	Events          []eventRecord  `json:"events,omitempty"` // of show and export

	Kind          string        `json:"kind"`   // charge; refund: gives money of a charge back, its amount is what goes out
	Refund        *refundRecord `json:"refund"` // null: a charge
	UnwantedAt    *time.Time    `json:"unwanted_at"`
	AskingEndedAt *time.Time    `json:"asking_ended_at"` // the provider is not asked any more: a person has to decide
	Owes          string        `json:"owes"`            // the kinds of the open duties: refund, review; empty: nothing
}

// refundRecord says what a refund gives back.
type refundRecord struct {
	ID        string `json:"id"`         // the caller's; "duty:" and the charge's id: it pays a duty
	AttemptID string `json:"attempt_id"` // the charge's attempt
	ChargeID  string `json:"charge_id"`
}

// The kinds of attempts.
const (
	kindCharge = "charge"
	kindRefund = "refund"
)

type chargeRecord struct {
	ID          string               `json:"id"`
	Status      attempt.ChargeStatus `json:"status"`
	Amount      string               `json:"amount"`
	AmountMinor int64                `json:"amount_minor"`
	Currency    string               `json:"currency"`
	DeclineCode string               `json:"decline_code,omitempty"`
	NextAction  string               `json:"next_action,omitempty"`
	SeenAt      *time.Time           `json:"seen_at"`

	Refunded      string `json:"refunded"` // given back by our refunds, in major units
	RefundedMinor int64  `json:"refunded_minor"`
}

type dutyRecord struct {
	Kind        attempt.DutyKind `json:"kind"` // refund, review
	Why         string           `json:"why"`
	ChargeID    string           `json:"charge_id"`
	Amount      string           `json:"amount"`
	AmountMinor int64            `json:"amount_minor"`
	Currency    string           `json:"currency"`
	OpenedAt    *time.Time       `json:"opened_at"`
	MetAt       *time.Time       `json:"met_at"` // null: still owed
	How         string           `json:"how"`    // how it was met: refunded, gone, kept, dismissed; empty: still owed
}

type eventRecord struct {
	Version  int             `json:"version"`
	What     attempt.What    `json:"what"`
	From     attempt.Status  `json:"from"`
	To       attempt.Status  `json:"to"`
	At       *time.Time      `json:"at"`
	Who      string          `json:"who"`
	Evidence *evidenceRecord `json:"evidence,omitempty"`
	Duties   []dutyRecord    `json:"duties,omitempty"`
}

type evidenceRecord struct {
	Kind    attempt.EvidenceKind `json:"kind"`
	Sends   []sendRecord         `json:"sends,omitempty"`
	Lookup  string               `json:"lookup,omitempty"` // found, none, unreadable, not_asked
	AskedAt *time.Time           `json:"asked_at,omitempty"`
	Charges []chargeRecord       `json:"charges,omitempty"`
	Answer  *answerRecord        `json:"answer,omitempty"`

	Decision *decisionRecord `json:"decision,omitempty"` // a person's, or a policy's
}

type decisionRecord struct {
	As       attempt.ResolutionKind `json:"as"`
	ChargeID string                 `json:"charge_id,omitempty"`
	Reason   string                 `json:"reason"`
	Evidence string                 `json:"evidence,omitempty"` // where it is kept
}

type sendRecord struct {
	StartedAt *time.Time    `json:"started_at"`
	TookMS    float64       `json:"took_ms"`
	Charge    *chargeRecord `json:"charge,omitempty"`
	answerRecord
}

type answerRecord struct {
	Verdict     attempt.Verdict `json:"verdict"`
	Reason      attempt.Reason  `json:"reason,omitempty"`
	StatusCode  int             `json:"status_code,omitempty"`
	RequestID   string          `json:"request_id,omitempty"`
	Code        string          `json:"code,omitempty"`
	DeclineCode string          `json:"decline_code,omitempty"`
	ChargeID    string          `json:"charge_id,omitempty"`
	Detail      string          `json:"detail,omitempty"`
	Replayed    bool            `json:"replayed,omitempty"`
}

// notPaid is the outcome of attempts that have none: no money moved, and none will before they are sent.
const notPaid = "not_paid"

func attemptRecordOf(a attempt.Attempt, now time.Time) attemptRecord {
	told := a.Tell(now)
	r := attemptRecord{
		ID: a.ID, Order: a.Slot.Order, Account: a.Slot.Account, Purpose: a.Slot.Purpose, Ordinal: a.Ordinal,
		Status: a.Status, Outcome: told.Outcome.String(), Moved: told.Moved, Reason: told.Reason, Open: told.Open(),
		Key: a.Key, Reference: a.Reference, Provider: a.Provider, ProviderAccount: a.ProviderAccount, Environment: a.Environment,
		ProviderID: chargeIDOf(a), Amount: a.Amount.Decimal(), AmountMinor: a.Amount.Minor(), Currency: a.Amount.Currency(),
		Description: a.Description, DeclineCode: a.Answer.DeclineCode, StatusCode: a.Answer.StatusCode, Code: a.Answer.Code, Detail: a.Answer.Detail, RequestID: a.Answer.RequestID,
		NextAction: a.NextAction(), Sends: a.Sends, CreatedAt: timeOf(a.CreatedAt), UpdatedAt: timeOf(a.UpdatedAt),
		LastSentAt: timeOf(a.LastSentAt), NextCheckAt: timeOf(a.NextCheckAt), Version: a.Version,
		Charges: chargeRecords(a.Charges), Duties: dutyRecords(a.Duties),
		Kind: kindCharge, UnwantedAt: timeOf(a.UnwantedAt), AskingEndedAt: timeOf(a.AskingEndedAt), Owes: strings.Join(owed(a), ","),
	}
	if a.IsRefund() {
		r.Kind, r.Refund = kindRefund, &refundRecord{ID: a.Refund.ID, AttemptID: a.Refund.AttemptID, ChargeID: a.Refund.ChargeID}
	}
	if told.NotPaid {
		r.Outcome = notPaid
	}
	if r.DeclineCode == "" {
		r.DeclineCode = a.Refusal.Answer.DeclineCode
	}
	return r
}

// owed names the kinds of an attempt's open duties, each once.
func owed(a attempt.Attempt) []string {
	var kinds []string
	for _, d := range a.Duties {
		if d.MetAt.IsZero() && !slices.Contains(kinds, string(d.Kind)) {
			kinds = append(kinds, string(d.Kind))
		}
	}
	return kinds
}

// chargeIDOf returns the charge that stands for the attempt at the provider, as far as one is known.
func chargeIDOf(a attempt.Attempt) string {
	switch {
	case a.ChargeID != "":
		return a.ChargeID
	case len(a.Charges) > 0:
		return a.Charges[0].ID
	}
	return a.Answer.ChargeID
}

func eventRecords(events []attempt.Event) []eventRecord {
	records := make([]eventRecord, len(events))
	for i, e := range events {
		records[i] = eventRecord{Version: e.Version, What: e.What, From: e.From, To: e.To, At: timeOf(e.At), Who: e.Who}
		if e.Evidence != nil {
			records[i].Evidence = evidenceRecordOf(*e.Evidence)
		}
		if len(e.Duties) > 0 {
			records[i].Duties = dutyRecords(e.Duties)
		}
	}
	return records
}

func evidenceRecordOf(e attempt.Evidence) *evidenceRecord {
	r := &evidenceRecord{Kind: e.Kind, AskedAt: timeOf(e.AskedAt)}
	if e.Kind == attempt.EvidenceLookup {
		r.Lookup = e.Lookup.String()
	}
	for _, s := range e.Sends {
		send := sendRecord{
			StartedAt: timeOf(s.StartedAt), TookMS: float64(s.Took.Microseconds()) / 1000, answerRecord: answerRecordOf(s.Answer),
		}
		if s.Charge != nil {
			c := chargeRecordOf(*s.Charge)
			send.Charge = &c
		}
		r.Sends = append(r.Sends, send)
	}
	if len(e.Charges) > 0 {
		r.Charges = chargeRecords(e.Charges)
	}
	if e.Answer != nil {
		a := answerRecordOf(*e.Answer)
		r.Answer = &a
	}
	if d := e.Resolution; d != nil {
		r.Decision = &decisionRecord{As: d.Kind, ChargeID: d.ChargeID, Reason: d.Why, Evidence: d.Proof}
	}
	return r
}

func answerRecordOf(a attempt.Answer) answerRecord {
	return answerRecord{
		Verdict: a.Verdict, Reason: a.Reason, StatusCode: a.StatusCode, RequestID: a.RequestID, Code: a.Code,
		DeclineCode: a.DeclineCode, ChargeID: a.ChargeID, Detail: a.Detail, Replayed: a.Replayed,
	}
}

// chargeRecords and dutyRecords return no nil, so that JSON has an array also where there is nothing in it.
func chargeRecords(charges []attempt.Charge) []chargeRecord {
	records := make([]chargeRecord, len(charges))
	for i, c := range charges {
		records[i] = chargeRecordOf(c)
	}
	return records
}

func chargeRecordOf(c attempt.Charge) chargeRecord {
	amount, minor, currency := amountOf(c.Amount)
	r := chargeRecord{
		ID: c.ID, Status: c.Status, Amount: amount, AmountMinor: minor, Currency: currency,
		DeclineCode: c.DeclineCode, NextAction: c.NextAction, SeenAt: timeOf(c.SeenAt), RefundedMinor: c.Refunded,
	}
	if refunded := refundedOf(c); refunded.Valid() {
		r.Refunded = refunded.Decimal()
	}
	return r
}

// refundedOf returns how much of a charge was given back; not valid where the charge's amount is not known.
func refundedOf(c attempt.Charge) money.Amount {
	if !c.Amount.Valid() {
		return money.Amount{}
	}
	refunded, err := money.Restore(c.Refunded, c.Amount.Currency())
	if err != nil { // more than an amount can be
		return money.Amount{}
	}
	return refunded
}

func dutyRecords(duties []attempt.Duty) []dutyRecord {
	records := make([]dutyRecord, len(duties))
	for i, d := range duties {
		amount, minor, currency := amountOf(d.Amount)
		records[i] = dutyRecord{
			Kind: d.Kind, Why: d.Why, ChargeID: d.ChargeID, Amount: amount, AmountMinor: minor, Currency: currency,
			OpenedAt: timeOf(d.OpenedAt), MetAt: timeOf(d.MetAt), How: d.How,
		}
	}
	return records
}

func amountOf(a money.Amount) (decimal string, minor int64, currency string) {
	return a.Decimal(), a.Minor(), a.Currency()
}

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

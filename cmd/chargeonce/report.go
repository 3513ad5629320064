package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/internal/batch"
	"github.com/chargeonce/chargeonce/payclient"
)

// payRecord is the JSON of one row of pay: a contract. Fields may be added, none is removed or changes its meaning.
type payRecord struct {
	File        string `json:"file"`
	Line        int    `json:"line"`
	Order       string `json:"order"`
	Account     string `json:"account"`
	Purpose     string `json:"purpose"`
	Amount      string `json:"amount"`       // major units, as text; empty where the row's could not be read
	AmountMinor *int64 `json:"amount_minor"` // the same in minor units of ISO 4217
	Currency    string `json:"currency"`     // empty where the row's could not be read

	Outcome  batch.Outcome   `json:"outcome"`
	Moved    payclient.Moved `json:"moved"`
	Reason   string          `json:"reason"`
	Message  string          `json:"message"`
	Problems []problemRecord `json:"problems,omitempty"`
	// Existing: this run neither sent nor asked, the row is told as the database has it. KnownBefore: the payment, or the
	// standing one, was in the database when the run began. Both: told from an earlier run; only KnownBefore: begun by an
	// earlier run, sent or asked about by this one; only Existing: paid by a run beside this one; none: begun by this run, or
	// nothing was begun.
	Existing    bool `json:"existing"`
	KnownBefore bool `json:"known_before"`

	// Standing is the order's other attempt, for whose sake the row is refused (conflict, already_paid), or the order's attempt
	// where the order was cancelled or its money given back (order_cancelled, refunded), as attempts list has it; else null. Of
	// a conflict, and of a cancelled order, the row's moved is that of it as long as it is open.
	Standing *attemptRecord `json:"standing"`

	ID          string `json:"id"` // of the row's own attempt; empty: there is none
	Key         string `json:"key"`
	Reference   string `json:"reference"`
	ProviderID  string `json:"provider_id"` // the provider's id of the charge
	StatusCode  int    `json:"status_code"` // of the provider's last answer; 0: none
	Code        string `json:"code"`        // the provider's, of that answer
	Detail      string `json:"detail"`      // what was wrong with that answer
	RequestID   string `json:"request_id"`
	DeclineCode string `json:"decline_code"`
	Sends       int    `json:"sends"` // under the attempt so far, earlier runs included
	Replayed    bool   `json:"replayed"`
	NextAction  string `json:"next_action"` // the URL where the payer must act

	// Where the attempt belongs. It is never sent or replaced elsewhere.
	Provider        string `json:"provider"`
	ProviderAccount string `json:"provider_account"`
	Environment     string `json:"environment"`
}

type problemRecord struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

func payRecordOf(file string, r batch.Result) payRecord {
	rec := payRecord{
		File: file, Line: r.Line, Order: r.Slot.Order, Account: r.Slot.Account, Purpose: r.Slot.Purpose,
		Amount: r.Amount.Decimal(), Currency: r.Currency,
		Outcome: r.Outcome, Moved: r.Moved, Reason: r.Reason, Message: r.Message, Existing: r.Existing,
		KnownBefore: r.KnownBefore,
	}
	if r.Amount.Valid() {
		minor := r.Amount.Minor()
		rec.AmountMinor = &minor
	}
	for _, p := range r.Problems {
		rec.Problems = append(rec.Problems, problemRecord(p))
	}
	if r.Standing != nil {
		standing := attemptRecordOf(r.Standing.Attempt, time.Now())
		rec.Standing = &standing
	}
	if p := r.Payment; p != nil {
		rec.ID, rec.Key, rec.Reference, rec.ProviderID = p.AttemptID, p.Key, p.Reference, p.ChargeID
		rec.StatusCode, rec.Code, rec.Detail = p.StatusCode, p.Code, p.Attempt.Answer.Detail
		rec.RequestID, rec.DeclineCode = p.RequestID, p.DeclineCode
		rec.Provider, rec.ProviderAccount, rec.Environment = p.Attempt.Provider, p.Attempt.ProviderAccount, p.Attempt.Environment
		rec.Sends, rec.Replayed, rec.NextAction = p.Sends, p.Replayed, p.NextAction
	}
	return rec
}

var payColumns = []column{
	{name: "LINE", width: 5, right: true}, {name: "ORDER", width: 14}, {name: "AMOUNT", width: 14, right: true},
	{name: "OUTCOME", width: 9}, {name: "CHARGE", width: 10}, {name: "DETAIL"},
}

func payCells(r batch.Result) []string {
	amount := ""
	if r.Amount.Valid() {
		amount = r.Amount.String()
	}
	charge := ""
	if r.Payment != nil {
		charge = r.Payment.ChargeID
	}
	return []string{linesOf(r), r.Slot.String(), amount, string(r.Outcome), charge, payDetail(r)}
}

// linesOf names the lines of the file on which a row stands.
func linesOf(r batch.Result) string {
	if r.LastLine > r.Line {
		return fmt.Sprintf("%d-%d", r.Line, r.LastLine)
	}
	return strconv.Itoa(r.Line)
}

// payDetail says why a row is what it is: whether money moved where the outcome does not say it, the reason, the provider's
// answer, and what else a person needs.
func payDetail(r batch.Result) string {
	var parts []string
	switch {
	case r.Outcome == batch.Violation, r.Outcome == batch.Unknown && r.Moved != payclient.MovedMaybe, r.Outcome == batch.Refused && r.Open():
		parts = append(parts, "moved="+r.Moved.String())
	}
	if r.Outcome != batch.Declined && !strings.HasPrefix(r.Message, strings.ReplaceAll(r.Reason, "_", " ")) {
		parts = append(parts, r.Reason)
	}
	if p := r.Payment; p != nil {
		switch r.Outcome {
		case batch.Declined:
			parts = append(parts, p.DeclineCode)
		case batch.Violation, batch.Unknown:
			if p.StatusCode != 0 {
				parts = append(parts, strconv.Itoa(p.StatusCode), p.Code)
			}
		}
		parts = append(parts, p.NextAction)
	}
	detail := strings.Join(nonEmpty(parts), ", ")
	if r.Message != "" && detail != "" {
		detail += ": "
	}
	detail += r.Message
	switch {
	case r.Outcome == batch.Refused: // the message names the payment that stands
		return detail
	case r.Existing && r.Reason != batch.Elsewhere:
		parts = []string{detail, "from an earlier run"}
	case r.KnownBefore && !r.Existing:
		parts = []string{detail, "begun by an earlier run"}
	default:
		return detail
	}
	return strings.Join(nonEmpty(parts), ", ")
}

// waitText says what a run waits for.
func waitText(w batch.Wait) string {
	seconds := func() string { return fmt.Sprintf("%.0f s", max(w.For.Seconds(), 1)) }
	switch w.Kind {
	case batch.WaitClaim:
		return fmt.Sprintf("order %s: waiting for an earlier run's claim to end (%s)", w.Slot, seconds())
	case batch.WaitBeside:
		return fmt.Sprintf("order %s: waiting for the claim of a run beside this one to end (at most %s)", w.Slot, seconds())
	case batch.WaitProvider:
		return fmt.Sprintf("order %s: waiting for the provider (%s so far)", w.Slot, seconds())
	case batch.WaitSettle:
		return fmt.Sprintf("order %s: unknown so far, the provider is asked about it (for up to %s)", w.Slot, seconds())
	}
	return fmt.Sprintf("the provider fails too often: nothing is sent (for %s, then one payment is tried)", seconds())
}

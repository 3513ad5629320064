package main

import (
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/chargeonce/chargeonce/internal/batch"
	"github.com/chargeonce/chargeonce/payclient"
)

// payRecord is the JSON of one row of pay. Fields may be added, none is removed or changes its meaning.
type payRecord struct {
	File        string `json:"file"`
	Line        int    `json:"line"`
	Order       string `json:"order"`
	Account     string `json:"account"`
	Purpose     string `json:"purpose"`
	Amount      string `json:"amount"`       // major units, as text; empty where the row's could not be read
	AmountMinor *int64 `json:"amount_minor"` // the same in minor units of ISO 4217
	Currency    string `json:"currency"`

	Outcome  batch.Outcome   `json:"outcome"`
	Moved    payclient.Moved `json:"moved"`
	Reason   string          `json:"reason"`
	Message  string          `json:"message"`
	Problems []problemRecord `json:"problems,omitempty"`
	Existing bool            `json:"existing"` // this run sent nothing: told from earlier sends

	ID          string `json:"id"` // of the attempt; empty: there is none
	Key         string `json:"key"`
	Reference   string `json:"reference"`
	ProviderID  string `json:"provider_id"` // the provider's id of the charge
	StatusCode  int    `json:"status_code"`
	RequestID   string `json:"request_id"`
	DeclineCode string `json:"decline_code"`
	Sends       int    `json:"sends"` // under the attempt so far, earlier runs included
	Replayed    bool   `json:"replayed"`
	NextAction  string `json:"next_action"` // the URL where the payer must act
}

type problemRecord struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

func payRecordOf(file string, r batch.Result) payRecord {
	rec := payRecord{
		File: file, Line: r.Line, Order: r.Slot.Order, Account: r.Slot.Account, Purpose: r.Slot.Purpose,
		Amount: r.Amount.Decimal(), Currency: r.Amount.Currency(),
		Outcome: r.Outcome, Moved: r.Moved, Reason: r.Reason, Message: r.Message, Existing: r.Existing,
	}
	if r.Amount.Valid() {
		minor := r.Amount.Minor()
		rec.AmountMinor = &minor
	}
	for _, p := range r.Problems {
		rec.Problems = append(rec.Problems, problemRecord(p))
	}
	if p := r.Payment; p != nil {
		rec.ID, rec.Key, rec.Reference, rec.ProviderID = p.AttemptID, p.Key, p.Reference, p.ChargeID
		rec.StatusCode, rec.RequestID, rec.DeclineCode = p.StatusCode, p.RequestID, p.DeclineCode
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
	if r.Payment != nil && r.Outcome != batch.Refused {
		charge = r.Payment.ChargeID
	}
	return []string{strconv.Itoa(r.Line), r.Slot.String(), amount, words(r.Outcome), charge, payDetail(r)}
}

func payDetail(r batch.Result) string {
	detail := r.Reason
	add := func(text string) {
		if text != "" && text != detail {
			if detail != "" {
				detail += ": "
			}
			detail += text
		}
	}
	if p := r.Payment; p != nil {
		if r.Outcome == batch.Declined {
			detail = ""
			add(p.DeclineCode)
		}
		add(p.NextAction)
	}
	add(r.Message)
	if r.Existing {
		if detail != "" {
			detail += ", "
		}
		detail += "from an earlier run"
	}
	return detail
}

// progress shows on a terminal how far a run has come, on one line that is overwritten.
type progress struct {
	to io.Writer // nil: nobody is watching

	mu    sync.Mutex
	shown time.Time
	on    bool
}

func (p *progress) show(t *totals) {
	if p.to == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.shown) >= 100*time.Millisecond {
		p.shown, p.on = now, true
		_, _ = fmt.Fprintf(p.to, "\r\x1b[K%s", t.line())
	}
}

// clear takes the line away, before something else is written.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.on {
		p.on = false
		_, _ = fmt.Fprint(p.to, "\r\x1b[K")
	}
}

// Write implements io.Writer for talk that comes while the progress is shown.
func (p *progress) behind(to io.Writer) io.Writer { return talk{p, to} }

type talk struct {
	p  *progress
	to io.Writer
}

func (t talk) Write(b []byte) (int, error) {
	t.p.clear()
	return t.to.Write(b)
}

package attempt

import (
	"fmt"
	"slices"
	"time"
)

// Verdict is what one send tells about itself. The zero Verdict is [Lost]: a send about which nothing is known may have
// been executed.
type Verdict uint8

// The verdicts.
const (
	Lost        Verdict = iota // no usable answer: the provider may have executed it
	NotSent                    // proof that no complete request can have left
	Charged                    // the provider holds the charge named in Charge
	Refused                    // definite business refusal: a decline
	Rejected                   // refused as malformed or unauthorised: this request was not executed
	Running                    // the key's first request is still being worked on
	Unavailable                // an answer that decides nothing: 408, 425, 429, 5xx
	Violated                   // an answer outside the contract: unreadable, or about something else
	KeyReused                  // the provider knows this key with another body
)

var verdictNames = [...]string{
	Lost: "lost", NotSent: "not_sent", Charged: "charged", Refused: "refused", Rejected: "rejected", Running: "running",
	Unavailable: "unavailable", Violated: "violated", KeyReused: "key_reused",
}

// String returns the verdict's name.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// MarshalText writes the verdict's name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads the verdict's name.
func (v *Verdict) UnmarshalText(text []byte) error {
	i := slices.Index(verdictNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("verdict %q: want one of %v", text, verdictNames)
	}
	*v = Verdict(i)
	return nil
}

// Answer is what was last heard from the provider about an attempt, for support and logs. Its texts are redacted.
type Answer struct {
	Verdict     Verdict `json:"verdict"`
	Reason      Reason  `json:"reason,omitempty"`
	StatusCode  int     `json:"status_code,omitempty"`
	RequestID   string  `json:"request_id,omitempty"`
	Code        string  `json:"code,omitempty"`
	DeclineCode string  `json:"decline_code,omitempty"`
	ChargeID    string  `json:"charge_id,omitempty"`   // also of a charge that is not ours
	Detail      string  `json:"detail,omitempty"`      // what was wrong with the answer, field by field
	MoneyMoved  bool    `json:"money_moved,omitempty"` // an approval, but not of what was asked
	Replayed    bool    `json:"replayed,omitempty"`    // the provider said that it repeats an earlier answer
}

// Send is the record of one HTTP request that may have carried an attempt to the provider.
type Send struct {
	StartedAt time.Time     `json:"started_at,omitzero"` // by the sender's clock; not used for any decision
	Took      time.Duration `json:"took,omitempty"`      // nanoseconds

	// Kept says that the provider keeps this refusal under the key, so that no other send under it can have ended otherwise.
	Kept   bool    `json:"kept,omitempty"`
	Charge *Charge `json:"charge,omitempty"` // with Charged; with Violated where the charge is ours and differs
	Answer
}

// Answered tells whether the provider answered at all.
func (s Send) Answered() bool { return s.Verdict != Lost && s.Verdict != NotSent }

// maybeExecuted tells whether the provider may have executed the send in a way that no charge we know of accounts for.
func (s Send) maybeExecuted() bool {
	switch s.Verdict {
	case NotSent, Refused, Rejected:
		return false
	case Charged, Violated:
		return s.Charge == nil
	}
	return true
}

package attempt

import (
	"fmt"
	"slices"
	"time"

	"github.com/chargeonce/chargeonce/money"
)

// ChargeStatus is what the provider says of a charge it holds. The zero value is [ChargePending].
type ChargeStatus uint8

// The states of a provider's charge.
const (
	ChargePending   ChargeStatus = iota // not final: being worked on, waiting for the payer, or authorised only
	ChargeSucceeded                     // the money is ours
	ChargeFailed                        // final, and no money moved
	ChargeReversed                      // it had succeeded, and the provider took the money back
)

var chargeStatusNames = [...]string{"pending", "succeeded", "failed", "reversed"}

// String returns the status's name.
func (s ChargeStatus) String() string {
	if int(s) < len(chargeStatusNames) {
		return chargeStatusNames[s]
	}
	return fmt.Sprintf("charge_status(%d)", uint8(s))
}

// MarshalText writes the status's name.
func (s ChargeStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the status's name.
func (s *ChargeStatus) UnmarshalText(text []byte) error {
	i := slices.Index(chargeStatusNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("charge status %q: want one of %v", text, chargeStatusNames)
	}
	*s = ChargeStatus(i)
	return nil
}

// Charge is a charge that the provider holds under our reference.
type Charge struct {
	ID          string       `json:"id"`
	Status      ChargeStatus `json:"status"`
	Amount      money.Amount `json:"amount,omitzero"`
	DeclineCode string       `json:"decline_code,omitempty"`
	NextAction  string       `json:"next_action,omitempty"` // the URL where the payer must act
	SeenAt      time.Time    `json:"seen_at,omitzero"`      // when it was first learnt of, by the store's clock
	Answered    bool         `json:"answered,omitempty"`    // the answer to one of our sends held it

	// ChangedAt is when its status was last learnt to be another, by the store's clock; zero: it never was.
	ChangedAt time.Time `json:"changed_at,omitzero"`
	// Refunded is how much of it our refunds have given back, in minor units.
	Refunded int64 `json:"refunded,omitempty"`

	// FailedFirst: it was known as failed before it was known as succeeded.
	FailedFirst bool `json:"failed_first,omitempty"`
}

// statusSince returns when the status was learnt.
func (c Charge) statusSince() time.Time { return later(c.SeenAt, c.ChangedAt) }

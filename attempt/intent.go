package attempt

import (
	"errors"
	"fmt"

	"github.com/chargeonce/chargeonce/money"
)

// MaxDescriptionLength bounds an intent's description, in bytes.
const MaxDescriptionLength = 500

// Intent is what is to be paid. The slot it names is paid at most once, however often the intent is given.
//
// Everything in it but the Source is stored, sent and shown: it must hold no card details. A Description with a card number
// is refused, and so is a token that is one. Account, Order and Purpose are not looked at: a merchant's own order number may
// have 16 digits, and one in ten of those has the check digit of a card number.
type Intent struct {
	Account string // the merchant in whose name we charge; empty where there is one
	Order   string // the order's id: stable across restarts and reruns, never a line number
	Purpose string // "charge" unless said; another purpose is another payment of the same order
	Amount  money.Amount
	Source  Source

	// Description is shown to the payer where the provider does so. It plays no part in telling intents apart.
	Description string

	// Again asks for a new attempt although an equal one was declined: the id of the slot's newest attempt, as the caller
	// has seen it. Any other id has no effect, so that a message delivered twice asks once.
	Again string
}

// Slot returns the slot that the intent wants to pay.
func (i Intent) Slot() Slot {
	return Slot{Account: i.Account, Order: i.Order, Purpose: i.Purpose}.WithDefaults()
}

// Validate reports everything that forbids a new attempt. It is no ground to refuse news of a stored one.
func (i Intent) Validate() error {
	return errors.Join(i.Slot().Validate(), i.validatePayment())
}

func (i Intent) validatePayment() error {
	return errors.Join(
		i.Source.Validate(),
		i.validateAmount(),
		i.validateDescription(),
	)
}

// validateDescription keeps card numbers out of a text that is stored, sent and shown.
func (i Intent) validateDescription() error {
	if holdsCard(i.Description) {
		return errors.New("description: holds what looks like a card number")
	}
	return validText("description", i.Description, 0, MaxDescriptionLength)
}

func (i Intent) validateAmount() error {
	switch {
	case !i.Amount.Valid():
		return errors.New("amount: missing")
	case i.Amount.Minor() <= 0:
		return fmt.Errorf("amount: %s is not positive", i.Amount)
	}
	if since, gone := money.Withdrawn(i.Amount.Currency()); gone {
		return fmt.Errorf("amount: %s: %w since %s", i.Amount, money.ErrWithdrawnCurrency, since)
	}
	return nil
}

package attempt_test

import (
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// A description is stored, sent and shown: a card number in it is refused, and not repeated in the refusal.
func TestDescriptionsHoldNoCardNumber(t *testing.T) {
	for text, holds := range map[string]bool{
		"card 4111 1111 1111 1111":            true,
		"4111-1111-1111-1111 exp 12/30":       true,
		"paid with 4111111111111111.":         true,
		"invoice 12 4111 1111 1111 1111":      true,
		"3782 822463 10005":                   true,
		"order 2024-0001 of 12 pieces":        false,
		"tracking 4111111111111112":           false, // its check digit is wrong
		"8515131751004933":                    false, // no card begins with 8
		"call +90 212 555 12 34, 10:30-11:45": false,
	} {
		i := attempt.Intent{Order: "1001", Amount: money.MustParse("1", "EUR"), Source: attempt.Token("tok_visa"), Description: text}
		err := i.Validate()
		if (err != nil) != holds {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "1111") {
			t.Errorf("the refusal repeats it: %v", err)
		}
	}
}

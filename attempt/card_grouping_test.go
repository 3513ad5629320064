package attempt_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

func described(text string) error {
	return attempt.Intent{Order: "1001", Amount: money.MustParse("1", "EUR"), Source: attempt.Token("tok_visa"), Description: text}.Validate()
}

func saysCard(err error) bool { return err != nil && strings.Contains(err.Error(), "card number") }

// A card number is one whatever stands between its digits, and in whatever script they are.
func TestDescriptionsHoldNoCardNumberHoweverWritten(t *testing.T) {
	for text, holds := range map[string]bool{
		"4111.1111.1111.1111":                     true,
		"4111/1111/1111/1111":                     true,
		"4111, 1111, 1111, 1111":                  true,
		"4111\u00a01111\u00a01111\u00a01111":      true,
		"4111\u200b1111\u200b1111\u200b1111":      true,
		"4111\u2060 1111-1111.1111":               true,
		"4_1_1_1_1_1_1_1_1_1_1_1_1_1_1_1":         true,
		"４１１１１１１１１１１１１１１１":                        true,
		"٤١١١ ١١١١ ١١١١ ١١١١":                     true,
		"PAN4111111111111111":                     true,
		"card:4111111111111111exp1230":            true,
		"%B4111111111111111^NAME^2912":            true,
		";4111111111111111=29121010000?":          true,
		"12/30 4111-1111-1111-1111 12/30":         true,
		"3782.822463.10005":                       true,
		"6304000000000000000":                     true, // 19 digits
		"4222222222222":                           true, // 13
		"at 10:30 for 5.5 to 4111 1111 1111 1111": true,

		"63040000000000000000":               false, // 20 digits
		"4111x1111x1111x1111":                false, // letters bound a number
		"4111.1111.1111.1112":                false,
		"8515.1317.5100.4933":                false,
		"stay 2026-03-01 12:00:08":           false, // by the digits alone a card number
		"stay 2026-03-01 12:00:08, 548.90":   false,
		"+49 30 1234 5678, 31.12.2026 10:00": false,
		"0190b6c8-7a12-7123-8123-4111111111": false,
		"":                                   false,
		"four 4 one 1 one 1":                 false,
	} {
		if err := described(text); saysCard(err) != holds {
			t.Errorf("%q: %v", text, err)
		} else if err != nil && strings.Contains(err.Error(), "1111") {
			t.Errorf("the refusal repeats it: %v", err)
		}
	}
}

// A token is a card number only as a whole, or where one of its words is one.
func TestTokensThatAreCardNumbers(t *testing.T) {
	for token, is := range map[string]bool{
		"tok_4111111111111111":       true,
		"PAN 4111111111111111":       true,
		"card:4111111111111111":      true,
		"4111111111111111_1":         true,
		"4111.1111.1111.1111":        true,
		"4111\u200b1111 1111/1111":   true,
		"４１１１１１１１１１１１１１１１":           true,
		`{"pan":"4111111111111111"}`: true,
		"a_378282246310005_b":        true,
		"4111111111111111 ":          true,

		"tok_4111111111111112":                 false,
		"tok_visa":                             false,
		"pm4111111111111111":                   false, // a word with letters
		"4111111111111111f00d":                 false,
		"b6c84111111111111111":                 false,
		"4111111111111111é":                    false,
		"41111111-1111-1111-1111-111111111111": false,
		"0190b6c8-7a12-7123-8123-123456789012": false,
		"tok-4111-1111-1111-1111":              false, // no word of it
		"7992739871310007":                     false,
		"8515131751004933":                     false,
		"9999999999999995":                     false,
		"0000000000000000":                     false,
		"1111111111111117":                     false,
		"tok_1111111111111117":                 false,
		"63040000000000000000":                 false,
	} {
		if err := attempt.Token(token).Validate(); (err != nil) != is || err != nil && !saysCard(err) {
			t.Errorf("%q: %v", token, err)
		} else if err != nil && strings.Contains(err.Error(), "1111") {
			t.Errorf("the refusal repeats it: %v", err)
		}
		if err := attempt.Sensitive(token).Validate(); err != nil {
			t.Errorf("%q as sensitive details: %v", token, err)
		}
	}
}

// Every number with a right check digit is found in every grouping; with a wrong one in none.
func TestCardNumbersAreFoundInEveryGrouping(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		number := cardNumber(r)
		wrong := number[:len(number)-1] + string('0'+(number[len(number)-1]-'0'+1)%10)
		mark := []string{"", " ", "-", ".", "/", " / ", "\u00a0", "\u200b", "^", "=", ", "}[r.IntN(11)]
		group := func(n string) string { return n[:4] + mark + n[4:9] + mark + n[9:] }
		for text, is := range map[string]bool{group(number): true, group(wrong): false} {
			if !is && mark != "" {
				text = wrong // some of the groups may be another card's number
			}
			if err := described("paid by card:" + text + "exp"); saysCard(err) != is {
				t.Fatalf("seed %d: a description with %q: %v", seed, text, err)
			}
			if err := attempt.Token(text).Validate(); saysCard(err) != is {
				t.Fatalf("seed %d: the token %q: %v", seed, text, err)
			}
		}
		for _, token := range []string{"tok_" + number, number + " x"} {
			if err := attempt.Token(token).Validate(); !saysCard(err) {
				t.Fatalf("seed %d: the token %q: %v", seed, token, err)
			}
		}
	}
}

// cardNumber draws one of 13 to 19 digits and finds its check digit by trying: the sum of the digits, every second one from
// the right doubled and its own digits added, must be a multiple of ten (ISO/IEC 7812-1, annex B).
func cardNumber(r *rand.Rand) string {
	number := fmt.Sprint(2 + r.IntN(5))
	for range 11 + r.IntN(7) {
		number += fmt.Sprint(r.IntN(10))
	}
	for check := range 10 {
		sum, whole := 0, fmt.Sprint(number, check)
		for i := range whole {
			d := int(whole[len(whole)-1-i] - '0')
			if i%2 == 1 {
				d *= 2
			}
			sum += d/10 + d%10
		}
		if sum%10 == 0 {
			return whole
		}
	}
	panic("no check digit")
}

// The look costs nothing that a payment would notice.
func TestValidatingAllocatesNothing(t *testing.T) {
	for _, token := range []string{"tok_visa", "0190b6c8-7a12-7123-8123-123456789012", "tok_8515131751004933"} {
		i := attempt.Intent{
			Order: "1001", Amount: money.MustParse("1", "EUR"), Source: attempt.Token(token),
			Description: "Order 2026-0001 of 2026-03-01 10:30, 3 pieces",
		}
		if n := testing.AllocsPerRun(100, func() {
			if err := i.Validate(); err != nil {
				t.Error(err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", token, n)
		}
	}
}

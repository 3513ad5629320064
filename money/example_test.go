package money_test

import (
	"errors"
	"fmt"

	"github.com/chargeonce/chargeonce/money"
)

// A price comes as text and goes to the provider in minor units. What can be
// read in two ways is refused, with the reason.
func Example() {
	price, err := money.Parse("548.90", "TRY")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(price, "is", price.Minor(), "on the wire")

	for _, text := range []string{"1,234.56", "5.001"} {
		_, err = money.Parse(text, "TRY")
		fmt.Println(err)
	}
	// Output:
	// 548.90 TRY is 54890 on the wire
	// money: parse "1,234.56" in TRY: not a plain decimal number: want only the digits 0 to 9 and at most one '.', without sign, spaces or grouping
	// money: parse "5.001" in TRY: too many decimals: want at most 2 decimals
}

// The exponent is the currency's: yen have no decimals, dinars have three.
func ExampleDecimals() {
	for _, code := range []string{"JPY", "EUR", "KWD", "XYZ"} {
		n, ok := money.Decimals(code)
		fmt.Println(code, n, ok)
	}
	// Output:
	// JPY 0 true
	// EUR 2 true
	// KWD 3 true
	// XYZ 0 false
}

// Bulgaria pays in euro now. No new payment is made in leva, but the refund of
// an old one can still be read.
func ExampleRestore() {
	_, err := money.New(1956, "BGN")
	since, _ := money.Withdrawn("BGN")
	fmt.Println(errors.Is(err, money.ErrWithdrawnCurrency), since)

	stored, err := money.Restore(1956, "BGN")
	fmt.Println(stored, err)
	// Output:
	// true 2026-01-01
	// 19.56 BGN <nil>
}

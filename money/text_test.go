package money_test

import (
	"errors"
	"testing"

	"github.com/chargeonce/chargeonce/money"

	"pgregory.net/rapid"
)

func TestUnmarshalTextReadsOnlyWhatMarshalTextWrites(t *testing.T) {
	for _, c := range []struct {
		text string
		err  error
	}{
		{"548.90 TRY", nil},
		{"80 JPY", nil},
		{"35.200 KWD", nil},
		{"0.00 EUR", nil},
		{"-0.01 EUR", nil},
		{"-92233720368547758.08 EUR", nil},
		{"92233720368547758.07 EUR", nil},
		{"19.56 BGN", nil}, // withdrawn, still readable

		{"", money.ErrSyntax},
		{"EUR", money.ErrSyntax},
		{"5.00EUR", money.ErrSyntax},
		{"5 EUR", money.ErrSyntax},   // written under another exponent, or by another hand
		{"5.0 EUR", money.ErrSyntax}, //
		{"-0.00 EUR", money.ErrSyntax},
		{"-0 JPY", money.ErrSyntax},
		{"--1 JPY", money.ErrSyntax},
		{"- 1 JPY", money.ErrUnknownCurrency},
		{"+1 JPY", money.ErrSyntax},
		{"-.50 EUR", money.ErrSyntax},
		{"-05.00 EUR", money.ErrSyntax},
		{"5.00 eur", money.ErrSyntax}, // case was normalised when it was made
		{"5.00\tEUR", money.ErrSyntax},
		{" EUR", money.ErrSyntax},
		{"5.00  EUR", money.ErrUnknownCurrency},
		{"5.00 EUR ", money.ErrUnknownCurrency},
		{" 5.00 EUR", money.ErrUnknownCurrency},
		{"EUR 5.00", money.ErrUnknownCurrency},
		{"5.00 XYZ", money.ErrUnknownCurrency},
		{"1 XAU", money.ErrNoMinorUnit},
		{"5.000 EUR", money.ErrTooManyDecimals},
		{"5.00 JPY", money.ErrTooManyDecimals},
		{"92233720368547758.08 EUR", money.ErrOverflow},
		{"-92233720368547758.09 EUR", money.ErrOverflow},
	} {
		before := money.MustParse("1", "CHF")
		a := before
		err := a.UnmarshalText([]byte(c.text))
		if c.err != nil {
			if !errors.Is(err, c.err) || a != before {
				t.Errorf("%q: %v, %v; want %v and nothing changed", c.text, a, err, c.err)
			}
			continue
		}
		if err != nil || a.String() != c.text {
			t.Errorf("%q: %v, %v", c.text, a, err)
		}
	}
}

func TestTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := must(money.New(rapid.Int64().Draw(t, "minor"), drawCode(t)))
		text, err := a.MarshalText()
		if err != nil || string(text) != a.String() {
			t.Fatalf("%v: %s, %v", a, text, err)
		}
		var again money.Amount
		if err := again.UnmarshalText(text); err != nil || again != a {
			t.Fatalf("%s: %v, %v", text, again, err)
		}
	})
}

func FuzzUnmarshalText(f *testing.F) {
	for _, s := range []string{"548.90 TRY", "80 JPY", "-0.01 EUR", "5 EUR", "-92233720368547758.08 EUR", "1.00 BGN", "1 XAU", " ", "-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var a money.Amount
		if err := a.UnmarshalText([]byte(in)); err != nil {
			if a.Valid() {
				t.Fatalf("%q: %v beside %v", in, a, err)
			}
			return
		}
		if out, err := a.MarshalText(); err != nil || string(out) != in {
			t.Fatalf("%q was read as %s, %v", in, out, err)
		}
	})
}

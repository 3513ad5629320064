package money_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/money"

	oracle "github.com/bojanz/currency"
	"pgregory.net/rapid"
)

type parseCase struct {
	decimal, currency string
	minor             int64
	text              string // what it prints
	err               error
}

func (c parseCase) check(t *testing.T) {
	t.Helper()
	got, err := money.Parse(c.decimal, c.currency)
	if c.err != nil {
		if !errors.Is(err, c.err) || got != (money.Amount{}) {
			t.Errorf("Parse(%q, %q) = %v, %v; want %v", c.decimal, c.currency, got, err, c.err)
		}
		return
	}
	if err != nil || got.Minor() != c.minor || got.String() != c.text {
		t.Errorf("Parse(%q, %q) = %d, %q, %v; want %d, %q", c.decimal, c.currency, got.Minor(), got, err, c.minor, c.text)
	}
}

// Amounts as shops and files have them. Float arithmetic makes 1998, 819, 114
// and 434 of the first four; a dropped comma makes 80000 of 800,00.
func TestC35AmountsAsText(t *testing.T) {
	for _, c := range []parseCase{
		{"19.99", "EUR", 1999, "19.99 EUR", nil},
		{"8.20", "EUR", 820, "8.20 EUR", nil},
		{"1.15", "EUR", 115, "1.15 EUR", nil},
		{"4.35", "EUR", 435, "4.35 EUR", nil},
		{"1,234.56", "EUR", 0, "", money.ErrSyntax},
		{"1.234,56", "EUR", 0, "", money.ErrSyntax},
		{"800,00", "EUR", 0, "", money.ErrSyntax},
		{"0.10", "EUR", 10, "0.10 EUR", nil},
		{"1.70", "EUR", 170, "1.70 EUR", nil},
		{"1e3", "EUR", 0, "", money.ErrSyntax},
		{"١٢", "EUR", 0, "", money.ErrSyntax},
		{"+5", "EUR", 0, "", money.ErrSyntax},
		{" 5.00 ", "EUR", 0, "", money.ErrSyntax},
		{"5.001", "EUR", 0, "", money.ErrTooManyDecimals},
		{"92233720368547758.08", "EUR", 0, "", money.ErrOverflow},
		{"-1.00", "EUR", 0, "", money.ErrSyntax},
		{"0.00", "EUR", 0, "0.00 EUR", nil}, // not positive: refused as a payment, not as text
	} {
		c.check(t)
	}
}

// Not every currency has two decimals. That the last digit of dinars must be 0
// is a rule of providers, not of the currency: 35.205 KWD is money.
func TestC36ExponentsOfTheCurrency(t *testing.T) {
	for _, c := range []parseCase{
		{"80", "JPY", 80, "80 JPY", nil},
		{"35.200", "KWD", 35200, "35.200 KWD", nil},
		{"35.205", "KWD", 35205, "35.205 KWD", nil},
		{"1.00", "JPY", 0, "", money.ErrTooManyDecimals},
		{"12.34", "JPY", 0, "", money.ErrTooManyDecimals},
		{"5", "XYZ", 0, "", money.ErrUnknownCurrency},
		{"10.00", "eur", 1000, "10.00 EUR", nil},
	} {
		c.check(t)
	}
	lower, upper := money.MustParse("10.00", "eur"), money.MustParse("10", "EUR")
	if lower != upper || lower.Currency() != "EUR" {
		t.Errorf("%v != %v: the case of the code is normalised once", lower, upper)
	}
}

var parseCases = []parseCase{
	{"548.90", "TRY", 54890, "548.90 TRY", nil},
	{"5", "EUR", 500, "5.00 EUR", nil},
	{"5.5", "EUR", 550, "5.50 EUR", nil},
	{"0", "JPY", 0, "0 JPY", nil},
	{"0.05", "EUR", 5, "0.05 EUR", nil},
	{"0.001", "KWD", 1, "0.001 KWD", nil},
	{"1.2345", "CLF", 12345, "1.2345 CLF", nil},
	{"92233720368547758.07", "EUR", 9223372036854775807, "92233720368547758.07 EUR", nil},
	{"9223372036854775807", "JPY", 9223372036854775807, "9223372036854775807 JPY", nil},
	{"9223372036854775808", "JPY", 0, "", money.ErrOverflow},
	{"92233720368547759", "EUR", 0, "", money.ErrOverflow},
	{"18446744073709551617", "JPY", 0, "", money.ErrOverflow}, // 1 modulo 2^64
	{"184467440737095516.17", "EUR", 0, "", money.ErrOverflow},
	{"100000000000000000000000000000000000000", "EUR", 0, "", money.ErrOverflow},

	{"", "EUR", 0, "", money.ErrSyntax},
	{".", "EUR", 0, "", money.ErrSyntax},
	{".5", "EUR", 0, "", money.ErrSyntax},
	{"5.", "EUR", 0, "", money.ErrSyntax},
	{"5.", "JPY", 0, "", money.ErrSyntax},
	{"1.2.3", "EUR", 0, "", money.ErrSyntax},
	{"1..2", "EUR", 0, "", money.ErrSyntax},
	{"007.00", "EUR", 0, "", money.ErrSyntax},
	{"000000001999", "EUR", 0, "", money.ErrSyntax},
	{"00.50", "EUR", 0, "", money.ErrSyntax},
	{"00", "JPY", 0, "", money.ErrSyntax},
	{"-0", "EUR", 0, "", money.ErrSyntax},
	{"1_000", "EUR", 0, "", money.ErrSyntax},
	{"1 000.00", "EUR", 0, "", money.ErrSyntax},
	{"1\u00a0000.00", "EUR", 0, "", money.ErrSyntax},
	{"1'000.00", "CHF", 0, "", money.ErrSyntax},
	{"５.00", "EUR", 0, "", money.ErrSyntax}, // full-width 5
	{"0x10", "EUR", 0, "", money.ErrSyntax},
	{"1E2", "EUR", 0, "", money.ErrSyntax},
	{"NaN", "EUR", 0, "", money.ErrSyntax},
	{"Inf", "EUR", 0, "", money.ErrSyntax},
	{"5.00\n", "EUR", 0, "", money.ErrSyntax},
	{"\ufeff5.00", "EUR", 0, "", money.ErrSyntax},
	{"5.00 EUR", "EUR", 0, "", money.ErrSyntax},
	{"€5.00", "EUR", 0, "", money.ErrSyntax},
	{"5.00\x00", "EUR", 0, "", money.ErrSyntax},

	{"5.000", "EUR", 0, "", money.ErrTooManyDecimals}, // zeros too: 5.000 is five thousand somewhere
	{"1.234", "EUR", 0, "", money.ErrTooManyDecimals},
	{"1.2345", "KWD", 0, "", money.ErrTooManyDecimals},
	{"0.0", "JPY", 0, "", money.ErrTooManyDecimals},
}

func TestParse(t *testing.T) {
	for _, c := range parseCases {
		c.check(t)
	}
}

func TestRestoreDecimalIsAsStrictAsParse(t *testing.T) {
	for _, c := range parseCases {
		got, err := money.RestoreDecimal(c.decimal, c.currency)
		if !errors.Is(err, c.err) || err == nil && (got.Minor() != c.minor || got.String() != c.text) {
			t.Errorf("RestoreDecimal(%q, %q) = %v, %v", c.decimal, c.currency, got, err)
		}
	}
}

func TestErrorNamesTheTextAndWhatWasExpected(t *testing.T) {
	for _, c := range []struct{ decimal, currency, want string }{
		{"5.001", "eur", `money: parse "5.001" in EUR: too many decimals: want at most 2 decimals`},
		{"1.00", "JPY", `money: parse "1.00" in JPY: too many decimals: want no decimals and no '.'`},
		{"1,00", "EUR", `money: parse "1,00" in EUR: not a plain decimal number: want only the digits 0 to 9 and at most one '.', without sign, spaces or grouping`},
		{"07", "EUR", `money: parse "07" in EUR: not a plain decimal number: want no zeros in front`},
		{"", "EUR", `money: parse "" in EUR: not a plain decimal number: want a number like 5.00, not an empty text`},
		{"5", "XYZ", `money: parse "XYZ": unknown currency: want three letters of an ISO 4217 code`},
		{"5", "bgn", `money: parse "BGN": withdrawn currency: want a current code, this one ended 2026-01-01`},
		{"5", "XAU", `money: parse "XAU": currency without minor unit: want a currency with a minor unit`},
		{"١٢\n", "EUR", `money: parse "\u0661\u0662\n" in EUR: not a plain decimal number: want only the digits 0 to 9 and at most one '.', without sign, spaces or grouping`},
	} {
		err := parseErr(c.decimal, c.currency)
		if err == nil || err.Error() != c.want {
			t.Errorf("Parse(%q, %q):\n got %v\nwant %s", c.decimal, c.currency, err, c.want)
		}
		if e, ok := errors.AsType[*money.Error](err); !ok || e.Op != "parse" || e.Want == "" || e.Err == nil {
			t.Errorf("Parse(%q, %q): %#v", c.decimal, c.currency, err)
		}
	}
	for _, err := range []error{parseErr(strings.Repeat("9", 1<<20)+"x", "EUR"), parseErr("1", strings.Repeat("é", 1<<20))} {
		if n := len(err.Error()); n > 300 {
			t.Errorf("an error of %d bytes", n)
		}
	}
}

func TestMustParsePanicsWithTheError(t *testing.T) {
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, money.ErrTooManyDecimals) {
			t.Errorf("recovered %v", err)
		}
	}()
	money.MustParse("0.001", "EUR")
}

// drawCode draws a code that a new payment may use.
func drawCode(t *rapid.T) string {
	return rapid.SampledFrom(oracle.GetCurrencyCodes()).Draw(t, "code")
}

// Whatever number of minor units: the text is the oracle's, and back it is the same.
func TestPrintedTextIsTheOraclesAndParses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		code, minor := drawCode(t), rapid.Int64().Draw(t, "minor")
		a, err := money.New(minor, code)
		if err != nil {
			t.Fatal(err)
		}
		want, err := oracle.NewAmountFromInt64(minor, code)
		if err != nil {
			t.Fatal(err)
		}
		if a.Decimal() != want.Number() || a.String() != want.String() {
			t.Fatalf("%d %s prints %q, the oracle's %q", minor, code, a, want)
		}
		if minor < 0 {
			return
		}
		if again, err := money.Parse(a.Decimal(), code); err != nil || again != a {
			t.Fatalf("%q parses to %v, %v", a, again, err)
		}
	})
}

// Whatever text: what we accept, the oracle accepts and reads as the same number.
func TestAcceptedTextMeansWhatTheOracleReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		code := drawCode(t)
		text := rapid.StringMatching(`[0-9]{0,19}(\.[0-9]{0,5})?`).Draw(t, "text")
		a, err := money.Parse(text, code)
		if err != nil {
			return
		}
		want, err := oracle.NewAmount(text, code)
		if err != nil {
			t.Fatalf("Parse(%q, %s) = %v, the oracle: %v", text, code, a, err)
		}
		if n, err := want.Int64(); err != nil || n != a.Minor() {
			t.Fatalf("Parse(%q, %s) = %d minor units, the oracle has %d, %v", text, code, a.Minor(), n, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, c := range parseCases {
		f.Add(c.decimal, c.currency)
	}
	f.Fuzz(func(t *testing.T, decimal, code string) {
		a, err := money.Parse(decimal, code)
		if err != nil {
			if _, ok := errors.AsType[*money.Error](err); !ok || a.Valid() || len(err.Error()) > 600 {
				t.Fatalf("Parse(%q, %q) = %v, %v", decimal, code, a, err)
			}
			return
		}
		if !a.Valid() || a.Minor() < 0 || a.Currency() != strings.ToUpper(code) {
			t.Fatalf("Parse(%q, %q) = %v", decimal, code, a)
		}
		if again, err := money.Parse(a.Decimal(), a.Currency()); err != nil || again != a {
			t.Fatalf("%q prints %q, which parses to %v, %v", decimal, a, again, err)
		}
		if !strings.HasPrefix(a.Decimal(), decimal) {
			t.Fatalf("%q prints %q: digits were lost", decimal, a)
		}
		if n, err := money.New(a.Minor(), code); err != nil || n != a {
			t.Fatalf("New(%d, %q) = %v, %v", a.Minor(), code, n, err)
		}
	})
}

func TestParseAndDecimalAllocateLittle(t *testing.T) {
	var a money.Amount
	var err error
	var text string
	for _, code := range []string{"TRY", "try"} {
		if n := testing.AllocsPerRun(100, func() { a, err = money.Parse("548.90", code) }); n != 0 || err != nil {
			t.Errorf("Parse in %s: %v allocations, %v", code, n, err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { text = a.Decimal() }); n > 1 || text != "548.90" {
		t.Errorf("Decimal %q: %v allocations", text, n)
	}
	if n := testing.AllocsPerRun(100, func() { text = a.String() }); n > 1 || text != "548.90 TRY" {
		t.Errorf("String %q: %v allocations", text, n)
	}
}

var (
	sinkAmount money.Amount
	sinkText   string
)

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if sinkAmount, err = money.Parse("548.90", "TRY"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecimal(b *testing.B) {
	a := money.MustParse("548.90", "TRY")
	b.ReportAllocs()
	for b.Loop() {
		sinkText = a.Decimal()
	}
}

package money_test

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"github.com/chargeonce/chargeonce/money"

	"pgregory.net/rapid"
)

func TestAddSubAtTheEdges(t *testing.T) {
	const lo, hi = math.MinInt64, math.MaxInt64
	for _, c := range []struct {
		a, b     int64
		add, sub bool // fits
	}{
		{1, 2, true, true}, {0, 0, true, true},
		{hi - 1, 1, true, true}, {lo + 1, -1, true, true}, {hi - 1, -1, true, true}, {lo + 1, 1, true, true}, // the last number that fits
		{hi, 1, false, true}, {hi, 0, true, true}, {hi, -1, true, false}, {hi, hi, false, true},
		{lo, 1, true, false}, {lo, 0, true, true}, {lo, -1, false, true}, {lo, lo, false, true},
		{0, lo, true, false}, {-1, lo, false, true}, {1, lo, true, false}, {hi, lo, true, false}, {lo, hi, true, false},
	} {
		a, b := must(money.New(c.a, "EUR")), must(money.New(c.b, "EUR"))
		sum, err := a.Add(b)
		if c.add != (err == nil) || err == nil && sum.Minor() != c.a+c.b || err != nil && !errors.Is(err, money.ErrOverflow) {
			t.Errorf("%v + %v = %v, %v", a, b, sum, err)
		}
		diff, err := a.Sub(b)
		if c.sub != (err == nil) || err == nil && diff.Minor() != c.a-c.b || err != nil && !errors.Is(err, money.ErrOverflow) {
			t.Errorf("%v - %v = %v, %v", a, b, diff, err)
		}
	}
}

func TestMixedCurrenciesAreRefused(t *testing.T) {
	a, b := money.MustParse("5", "EUR"), money.MustParse("5", "USD")
	sum, add := a.Add(b)
	diff, sub := a.Sub(b)
	_, cmp := a.Cmp(b)
	for op, err := range map[string]error{"add": add, "subtract": sub, "compare": cmp} {
		if !errors.Is(err, money.ErrCurrencyMismatch) {
			t.Fatalf("%s: %v", op, err)
		}
		if want := `money: ` + op + ` "5.00 EUR, 5.00 USD": currencies differ: want one currency`; err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	if sum.Valid() || diff.Valid() {
		t.Errorf("%v, %v beside errors", sum, diff)
	}
}

// Arithmetic is that of the integers, or an error where int64 ends.
func TestArithmeticIsExactOrRefused(t *testing.T) {
	minor := rapid.OneOf(rapid.Int64(), rapid.Int64Range(math.MaxInt64-3, math.MaxInt64), rapid.Int64Range(math.MinInt64, math.MinInt64+3))
	rapid.Check(t, func(t *rapid.T) {
		code := drawCode(t)
		x, y := minor.Draw(t, "x"), minor.Draw(t, "y")
		a, b := must(money.New(x, code)), must(money.New(y, code))
		exact := func(name string, got money.Amount, err error, want *big.Int) {
			switch {
			case !want.IsInt64():
				if !errors.Is(err, money.ErrOverflow) || got.Valid() {
					t.Fatalf("%s: %v, %v; exactly %v", name, got, err, want)
				}
			case err != nil || got != must(money.New(want.Int64(), code)):
				t.Fatalf("%s: %v, %v; exactly %v", name, got, err, want)
			}
		}
		sum, err := a.Add(b)
		exact("add", sum, err, new(big.Int).Add(big.NewInt(x), big.NewInt(y)))
		if back, err2 := b.Add(a); back != sum || (err2 == nil) != (err == nil) {
			t.Fatalf("%v + %v is not %v + %v", a, b, b, a)
		}
		diff, err := a.Sub(b)
		exact("subtract", diff, err, new(big.Int).Sub(big.NewInt(x), big.NewInt(y)))
		if order, err := a.Cmp(b); err != nil || order != big.NewInt(x).Cmp(big.NewInt(y)) {
			t.Fatalf("%v to %v: %d, %v", a, b, order, err)
		}
	})
}

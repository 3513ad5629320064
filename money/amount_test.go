package money_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/chargeonce/chargeonce/money"
)

func TestZeroAmountIsNoAmount(t *testing.T) {
	var none money.Amount
	nothing := money.MustParse("0.00", "EUR")
	if none.Valid() || !none.IsZero() || none.Minor() != 0 || none.Currency() != "" || none.Decimal() != "" || none.String() != "no amount" {
		t.Errorf("the zero Amount: %+v, %q, %q", none, none.Decimal(), none)
	}
	if !nothing.Valid() || nothing.IsZero() || nothing == none {
		t.Errorf("0.00 EUR is an amount: %+v", nothing)
	}
	_, add := none.Add(nothing)
	_, sub := nothing.Sub(none)
	_, both := none.Add(none)
	_, cmp := none.Cmp(none)
	_, text := none.MarshalText()
	for i, err := range []error{add, sub, both, cmp, text} {
		if !errors.Is(err, money.ErrNoAmount) {
			t.Errorf("%d: %v, want ErrNoAmount", i, err)
		}
	}
}

func TestDecimalHasExactlyTheDigitsOfTheExponent(t *testing.T) {
	for _, c := range []struct {
		minor    int64
		currency string
		want     string
	}{
		{54890, "TRY", "548.90"}, {80, "JPY", "80"}, {35200, "KWD", "35.200"}, {12345, "CLF", "1.2345"},
		{0, "EUR", "0.00"}, {0, "JPY", "0"}, {0, "KWD", "0.000"}, {0, "UYW", "0.0000"},
		{1, "EUR", "0.01"}, {10, "EUR", "0.10"}, {99, "EUR", "0.99"}, {100, "EUR", "1.00"}, {1, "KWD", "0.001"}, {999, "KWD", "0.999"},
		{-1, "EUR", "-0.01"}, {-100, "EUR", "-1.00"}, {-5, "JPY", "-5"}, {-1234, "KWD", "-1.234"},
		{math.MaxInt64, "EUR", "92233720368547758.07"}, {math.MinInt64, "EUR", "-92233720368547758.08"},
		{math.MinInt64, "JPY", "-9223372036854775808"}, {math.MaxInt64, "UYW", "922337203685477.5807"},
	} {
		a, err := money.New(c.minor, c.currency)
		if err != nil || a.Decimal() != c.want || a.Minor() != c.minor || a.Currency() != c.currency {
			t.Errorf("New(%d, %s) = %+v, %v; prints %q, want %q", c.minor, c.currency, a, err, a.Decimal(), c.want)
		}
		if got := fmt.Sprint(a); got != c.want+" "+c.currency {
			t.Errorf("prints %q", got)
		}
	}
}

func TestAmountIsComparable(t *testing.T) {
	seen := map[money.Amount]bool{money.MustParse("5", "eur"): true}
	for _, a := range []money.Amount{money.MustParse("5.00", "EUR"), must(money.New(500, "Eur")), must(money.Restore(500, "EUR"))} {
		if !seen[a] {
			t.Errorf("%v is not equal to 5.00 EUR", a)
		}
	}
	for _, a := range []money.Amount{money.MustParse("5.00", "USD"), money.MustParse("5.01", "EUR"), money.MustParse("500", "JPY")} {
		if seen[a] {
			t.Errorf("%v is equal to 5.00 EUR", a)
		}
	}
}

func TestJSON(t *testing.T) {
	type order struct {
		Total   money.Amount           `json:"total"`
		Fee     money.Amount           `json:"fee,omitzero"`
		ByRoute map[money.Amount]int64 `json:"by_route,omitempty"`
	}
	in := order{Total: money.MustParse("548.90", "TRY"), ByRoute: map[money.Amount]int64{money.MustParse("80", "JPY"): 1}}
	b, err := json.Marshal(in)
	if err != nil || string(b) != `{"total":"548.90 TRY","by_route":{"80 JPY":1}}` {
		t.Fatalf("%s, %v", b, err)
	}
	var out order
	if err := json.Unmarshal(b, &out); err != nil || out.Total != in.Total || out.Fee.Valid() || out.ByRoute[money.MustParse("80", "JPY")] != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	if b, err := json.Marshal(order{}); !errors.Is(err, money.ErrNoAmount) {
		t.Errorf("a forgotten amount became %s, %v", b, err)
	}
	for _, bad := range []string{`{"total":548.90}`, `{"total":"548.90"}`, `{"total":""}`, `{"total":{}}`} {
		if err := json.Unmarshal([]byte(bad), &out); err == nil {
			t.Errorf("%s was read as %v", bad, out.Total)
		}
	}
}

func must(a money.Amount, err error) money.Amount {
	if err != nil {
		panic(err)
	}
	return a
}

package settlement

import (
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/money"
)

// Where a line stands is not part of what it says; everything else is.
func TestDigest(t *testing.T) {
	line := func() Line {
		return Line{
			File: "f", Number: 4, Kind: KindCharge, Type: "sale", ID: "ch_1", Reference: "r_1",
			Gross: money.MustParse("10.00", "EUR"), Fee: money.MustParse("0.39", "EUR"), Net: money.MustParse("9.61", "EUR"),
			Created: time.Date(2026, 3, 28, 10, 0, 0, 0, time.UTC),
		}
	}
	digests := map[string]string{}
	for what, change := range map[string]func(*Line){
		"nothing":   func(*Line) {},
		"kind":      func(l *Line) { l.Kind = KindFee },
		"type":      func(l *Line) { l.Type = "Sale" },
		"id":        func(l *Line) { l.ID = "ch_2" },
		"reference": func(l *Line) { l.Reference = "r_2" },
		"shifted":   func(l *Line) { l.ID, l.Reference = "ch_1r", "_1" },
		"gross":     func(l *Line) { l.Gross = money.MustParse("10.01", "EUR") },
		"sign": func(l *Line) {
			l.Gross = money.MustParse("10.00", "EUR")
			l.Gross, _ = l.Gross.Sub(money.MustParse("20.00", "EUR"))
		},
		"currency": func(l *Line) { l.Gross = money.MustParse("10.00", "USD") },
		"fee":      func(l *Line) { l.Fee = money.MustParse("0.40", "EUR") },
		"no fee":   func(l *Line) { l.Fee = money.Amount{} },
		"net":      func(l *Line) { l.Net = money.MustParse("9.60", "EUR") },
		"created":  func(l *Line) { l.Created = l.Created.Add(1) },
		"no time":  func(l *Line) { l.Created = time.Time{} },
	} {
		l := line()
		change(&l)
		d := l.Digest()
		if other, ok := digests[d]; ok {
			t.Errorf("%s and %s have one digest", what, other)
		}
		digests[d] = what
	}
	l := line()
	l.File, l.Number, l.Local = "g", 5, LocalDoubled
	if digests[l.Digest()] != "nothing" {
		t.Error("the place of a line is part of its digest")
	}
}

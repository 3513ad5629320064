package settlement

import (
	"maps"
	"slices"
	"time"
)

// Builtin returns the profile of that name that comes with the package, and false if there is none.
func Builtin(name string) (Profile, bool) {
	profile, ok := builtin[name]
	if !ok {
		return Profile{}, false
	}
	return profile(), true
}

// BuiltinNames returns the names of the profiles that come with the package, sorted.
func BuiltinNames() []string { return slices.Sorted(maps.Keys(builtin)) }

var builtin = map[string]func() Profile{"fake": Fake}

// Fake returns the profile of the fake provider's report.
func Fake() Profile {
	return Profile{
		Name:          "fake",
		Encoding:      UTF8,
		Delimiter:     ",",
		Quotes:        QuotesRFC4180,
		PreambleLines: 2,
		Columns: Columns{
			ID: "id", Reference: "reference", Type: "type", Gross: AmountColumn{Column: "gross"}, Fees: []string{"fee"},
			Net: AmountColumn{Column: "net"}, Currency: "currency", Created: []string{"created"},
		},
		Required: []string{"id", "reference", "created"},
		Types:    map[string]Type{"charge": {Kind: KindCharge}, "refund": {Kind: KindRefund}},
		Amounts:  Amounts{Unit: UnitMajor, DecimalMark: ".", Negative: NegativeMinus},
		FeeSign:  FeeDeducted,
		Times:    Times{Layouts: []string{time.RFC3339}, Zone: ZoneOffset},
		Trailer:  &Trailer{Marker: "TOTAL", Fields: []string{"", "count", "", "gross", "fee", "net", "currency", ""}},
	}
}

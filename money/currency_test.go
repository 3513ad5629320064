package money_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/money"

	oracle "github.com/bojanz/currency"
)

// differences are the codes for which the oracle (CLDR 49, exponents from ISO
// 4217) and our table disagree, each with the reason. There is none today; one
// that appears after an update of either side is explained here or is a bug.
var differences = map[string]string{}

func TestExponentsAgreeWithTheOracle(t *testing.T) {
	theirs := oracle.GetCurrencyCodes()
	ours := slices.Collect(money.Currencies())
	for _, code := range theirs {
		if differences[code] != "" {
			continue
		}
		want, _ := oracle.GetDigits(code)
		if got, ok := money.Decimals(code); !ok || got != int(want) {
			t.Errorf("%s: Decimals = %d, %v; the oracle says %d", code, got, ok, want)
		}
		if !slices.Contains(ours, code) {
			t.Errorf("%s: the oracle knows it, a new payment may not use it", code)
		}
	}
	for _, code := range ours {
		if !slices.Contains(theirs, code) && differences[code] == "" {
			t.Errorf("%s: a new payment may use it, the oracle does not know it", code)
		}
	}
	for code, reason := range differences {
		want, known := oracle.GetDigits(code)
		if got, ok := money.Decimals(code); ok == known && got == int(want) {
			t.Errorf("%s: no longer differs: drop %q", code, reason)
		}
	}
}

// List One of 2026-09-17 has 178 codes: 17, 139, 7 and 2 with a minor unit of
// 0, 2, 3 and 4, and 13 without.
func TestTableHasTheCountsOfListOne(t *testing.T) {
	counts := map[int]int{}
	for code := range money.Currencies() {
		n, ok := money.Decimals(code)
		if !ok {
			t.Errorf("%s: current, but without exponent", code)
		}
		counts[n]++
	}
	for n, want := range map[int]int{0: 17, 2: 139, 3: 7, 4: 2} {
		if counts[n] != want {
			t.Errorf("%d codes with %d decimals, List One has %d", counts[n], n, want)
		}
		delete(counts, n)
	}
	if len(counts) != 0 {
		t.Errorf("exponents that List One does not have: %v", counts)
	}
}

// Pinned by hand: where a wrong exponent would be likeliest and dearest, and
// where other tables (CLDR for display, providers) differ from ISO 4217.
func TestExponentsPinned(t *testing.T) {
	for code, want := range map[string]int{
		"TRY": 2, "EUR": 2, "USD": 2, "JPY": 0, "KRW": 0, "VND": 0, "CLP": 0, "PYG": 0,
		"KWD": 3, "BHD": 3, "OMR": 3, "JOD": 3, "TND": 3, "LYD": 3, "IQD": 3,
		"CLF": 4, "UYW": 4, "UYI": 0, "UGX": 0, "ISK": 0, "CVE": 2, "IDR": 2, "HUF": 2,
		"TWD": 2, "MRU": 2, "MGA": 2, "AFN": 2, "COP": 2, "XAF": 0, "XPF": 0, "XCG": 2, "ZWG": 2, "XAD": 2,
	} {
		if got, ok := money.Decimals(code); !ok || got != want {
			t.Errorf("Decimals(%s) = %d, %v; want %d", code, got, ok, want)
		}
	}
}

func TestCodesWithoutMinorUnitAreNoMoney(t *testing.T) {
	codes := strings.Fields("XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX")
	if len(codes) != 13 {
		t.Fatal("List One has 13 of them")
	}
	for _, code := range codes {
		_, parse := money.Parse("1", code)
		_, fresh := money.New(1, code)
		_, restore := money.Restore(1, code)
		text := new(money.Amount).UnmarshalText([]byte("1 " + code))
		for _, err := range []error{parse, fresh, restore, text} {
			if !errors.Is(err, money.ErrNoMinorUnit) {
				t.Errorf("%s: %v, want ErrNoMinorUnit", code, err)
			}
		}
		if n, ok := money.Decimals(code); ok || n != 0 {
			t.Errorf("Decimals(%s) = %d, %v", code, n, ok)
		}
	}
}

func TestWithdrawnCodesAreReadableButNotChargeable(t *testing.T) {
	date := regexp.MustCompile(`^20\d\d-(0[1-9]|1[0-2])(-[0-3]\d)?$`)
	for code, want := range map[string]struct{ since, one string }{
		"BGN": {"2026-01-01", "1.00"}, "ANG": {"2025-03-31", "1.00"}, "ZWL": {"2024-09-01", "1.00"},
		"SLL": {"2024-01-01", "1.00"}, "HRK": {"2023-01-01", "1.00"}, "CUC": {"2021-07-01", "1.00"},
		"VEF": {"2018-08", "1.00"}, "MRO": {"2017-12", "1.00"}, "STD": {"2017-12", "1.00"}, "BYR": {"2017-01", "1"},
		"LTL": {"2014-12", "1.00"}, "USS": {"2014-03", "1.00"}, "LVL": {"2014-01", "1.00"}, "ZMK": {"2012-12", "1.00"},
	} {
		since, ok := money.Withdrawn(strings.ToLower(code))
		if !ok || since != want.since || !date.MatchString(since) {
			t.Errorf("Withdrawn(%s) = %q, %v; want %q", code, since, ok, want.since)
		}
		for what, err := range map[string]error{"Parse": parseErr("1", code), "New": newErr(1, code)} {
			if !errors.Is(err, money.ErrWithdrawnCurrency) {
				t.Errorf("%s in %s: %v, want ErrWithdrawnCurrency", what, code, err)
			} else if !strings.Contains(err.Error(), want.since) {
				t.Errorf("%s in %s: %q does not say since when", what, code, err)
			}
		}
		old, err := money.RestoreDecimal("1", code)
		if err != nil || old.Decimal() != want.one {
			t.Errorf("RestoreDecimal(1, %s) = %v, %v", code, old, err)
		}
		again, err := money.Restore(old.Minor(), strings.ToLower(code))
		if err != nil || again != old {
			t.Errorf("Restore(%d, %s) = %v, %v", old.Minor(), code, again, err)
		}
		var read money.Amount
		if err := read.UnmarshalText([]byte(want.one + " " + code)); err != nil || read != old {
			t.Errorf("UnmarshalText(%s %s) = %v, %v", want.one, code, read, err)
		}
		if slices.Contains(slices.Collect(money.Currencies()), code) {
			t.Errorf("Currencies offers %s", code)
		}
	}
	for code := range money.Currencies() {
		if since, ok := money.Withdrawn(code); ok {
			t.Errorf("%s is current and withdrawn since %s", code, since)
		}
	}
}

// The codes that took the place of withdrawn ones, and both Venezuelan ones.
func TestSuccessorsAreCurrent(t *testing.T) {
	for _, code := range strings.Fields("EUR XCG ZWG SLE CUP VES VED MRU STN BYN ZMW") {
		if _, err := money.New(1, code); err != nil {
			t.Error(err)
		}
	}
}

func TestCurrenciesAreSortedAndAccepted(t *testing.T) {
	codes := slices.Collect(money.Currencies())
	if !slices.IsSorted(codes) || len(slices.Compact(slices.Clone(codes))) != len(codes) {
		t.Errorf("not sorted or not unique: %v", codes)
	}
	for _, code := range codes {
		if _, err := money.New(1, code); err != nil {
			t.Error(err)
		}
	}
	for range money.Currencies() {
		break // an iterator that ignores the end of the loop would panic here
	}
}

func TestUnknownCurrencyIsRefused(t *testing.T) {
	for _, code := range []string{
		"", "E", "EU", "EURO", "XYZ", "€", "EU€", " EUR", "EUR ", "E R", "978", "ЕUR", // the last has a Cyrillic letter
		"\u212aWD", "kr", "TL", "eu\x00", "DEM", "XFU",
	} {
		_, restore := money.Restore(500, code)
		_, decimal := money.RestoreDecimal("5", code)
		for _, err := range []error{parseErr("5", code), newErr(500, code), restore, decimal} {
			if !errors.Is(err, money.ErrUnknownCurrency) {
				t.Errorf("%q: %v, want ErrUnknownCurrency", code, err)
			}
		}
		if n, ok := money.Decimals(code); ok {
			t.Errorf("Decimals(%q) = %d: never assume one", code, n)
		}
		if since, ok := money.Withdrawn(code); ok {
			t.Errorf("Withdrawn(%q) = %s", code, since)
		}
	}
}

func parseErr(decimal, code string) error {
	a, err := money.Parse(decimal, code)
	if err != nil && a.Valid() {
		panic("an amount beside an error")
	}
	return err
}

func newErr(minor int64, code string) error {
	a, err := money.New(minor, code)
	if err != nil && a.Valid() {
		panic("an amount beside an error")
	}
	return err
}

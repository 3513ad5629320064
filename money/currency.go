package money

import (
	"iter"
	"maps"
	"slices"
)

// Decimals returns the number of decimals of a currency, its ISO 4217 exponent,
// and false for a code that is unknown or has no minor unit. Withdrawn codes
// have the exponent they had. The case of the code does not matter.
func Decimals(currency string) (n int, ok bool) {
	c, ok := lookup(currency)
	if !ok || c.decimals == noMinorUnit {
		return 0, false
	}
	return int(c.decimals), true
}

// Withdrawn returns since when a code may not be used for a new payment, and
// false if it may or was never known. The date is ISO 8601 and names the first
// day without the code ("2026-01-01") where an amendment of ISO 4217 gives the
// day, else the month of withdrawal as ISO 4217 List Three gives it ("2017-12").
// No clock is read: a code is withdrawn if the table of this release says so.
func Withdrawn(currency string) (since string, ok bool) {
	c, ok := lookup(currency)
	if !ok || c.withdrawn == "" {
		return "", false
	}
	return c.withdrawn, true
}

// Currencies yields, in alphabetical order, the codes that a new payment may
// use: those that Parse and New accept. Whether a provider takes one is for its
// adapter to say.
func Currencies() iter.Seq[string] { return slices.Values(currentCodes) }

// currencyInfo is one row of the table.
type currencyInfo struct {
	code      string
	decimals  int8
	withdrawn string // empty if current
}

const noMinorUnit = -1

var (
	table        = buildTable()
	currentCodes = buildCurrentCodes()
)

func buildCurrentCodes() []string {
	var codes []string
	for c := range maps.Values(table) {
		if c.withdrawn == "" && c.decimals != noMinorUnit {
			codes = append(codes, c.code)
		}
	}
	slices.Sort(codes)
	return codes
}

// lookup is the one place where the case of a code is normalised. Only ASCII
// letters are folded, so that no look-alike becomes a currency.
func lookup(code string) (currencyInfo, bool) {
	if len(code) != 3 {
		return currencyInfo{}, false
	}
	key := [3]byte{code[0], code[1], code[2]}
	for i, c := range key {
		if 'a' <= c && c <= 'z' {
			key[i] = c - 'a' + 'A'
		}
	}
	c, ok := table[key]
	return c, ok
}

// known finds the currency of an amount that exists already.
func known(op, code string) (currencyInfo, error) {
	c, ok := lookup(code)
	if !ok {
		return c, &Error{Op: op, Text: bounded(code), Want: "three letters of an ISO 4217 code", Err: ErrUnknownCurrency}
	}
	if c.decimals == noMinorUnit {
		return c, &Error{Op: op, Text: c.code, Currency: c.code, Want: "a currency with a minor unit", Err: ErrNoMinorUnit}
	}
	return c, nil
}

// current finds the currency of a new payment.
func current(op, code string) (currencyInfo, error) {
	c, err := known(op, code)
	if err == nil && c.withdrawn != "" {
		err = &Error{Op: op, Text: c.code, Currency: c.code, Want: "a current code, this one ended " + c.withdrawn, Err: ErrWithdrawnCurrency}
	}
	return c, err
}

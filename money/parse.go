package money

import (
	"math"
	"strconv"
)

// Parse reads an amount in major units for a new payment: "548.90", "80".
//
// The text is ASCII digits with at most one '.', at least one digit on each
// side of it, and at most as many decimals as the currency has; fewer are
// filled up ("5.5" EUR is 5.50 EUR), more are refused even if they are zeros.
// Sign, exponent, grouping, spaces and other digits than 0 to 9 are refused.
// So are zeros in front ("007.00"): that is how fixed-width fields write minor
// units, and to read those as major units would charge a hundredfold. "0.00"
// parses: that a payment is positive is checked where payments are.
//
// The case of the currency code is normalised. Unknown codes, codes without a
// minor unit and withdrawn codes are refused.
//
// An error is an [*Error] and matches one of [ErrSyntax], [ErrTooManyDecimals],
// [ErrOverflow], [ErrUnknownCurrency], [ErrNoMinorUnit], [ErrWithdrawnCurrency].
func Parse(decimal, currency string) (Amount, error) {
	const op = "parse"
	c, err := current(op, currency)
	if err != nil {
		return Amount{}, err
	}
	return parse(op, decimal, c)
}

// RestoreDecimal reads an amount in major units as it was stored or as a
// provider answered it. It is Parse but for withdrawn codes, which it accepts.
func RestoreDecimal(decimal, currency string) (Amount, error) {
	const op = "restore"
	c, err := known(op, currency)
	if err != nil {
		return Amount{}, err
	}
	return parse(op, decimal, c)
}

// MustParse is Parse for tests and constants. It panics where Parse fails.
func MustParse(decimal, currency string) Amount {
	a, err := Parse(decimal, currency)
	if err != nil {
		panic(err)
	}
	return a
}

func parse(op, decimal string, c currencyInfo) (Amount, error) {
	minor, want, err := scan(decimal, int(c.decimals), math.MaxInt64)
	if err != nil {
		return Amount{}, &Error{Op: op, Text: bounded(decimal), Currency: c.code, Want: want, Err: err}
	}
	return Amount{int64(minor), c.code}, nil
}

// scan reads unsigned decimal text as minor units of a currency with that many
// decimals. On failure err is a sentinel and want says what was expected.
func scan(text string, decimals int, limit uint64) (minor uint64, want string, err error) {
	dot := -1
	for i := range len(text) {
		switch c := text[i]; {
		case '0' <= c && c <= '9':
		case c == '.' && dot < 0:
			dot = i
		default:
			return 0, "only the digits 0 to 9 and at most one '.', without sign, spaces or grouping", ErrSyntax
		}
	}
	whole, fraction := text, ""
	if dot >= 0 {
		whole, fraction = text[:dot], text[dot+1:]
	}
	switch {
	case text == "":
		return 0, "a number like 5.00, not an empty text", ErrSyntax
	case whole == "" || dot >= 0 && fraction == "":
		return 0, "a digit on both sides of the '.'", ErrSyntax
	case len(whole) > 1 && whole[0] == '0':
		return 0, "no zeros in front", ErrSyntax
	case len(fraction) > decimals:
		return 0, wantDecimals(decimals), ErrTooManyDecimals
	}
	for _, part := range [...]string{whole, fraction} {
		for i := range len(part) {
			d := uint64(part[i] - '0')
			if minor > (limit-d)/10 {
				return 0, wantRange, ErrOverflow
			}
			minor = minor*10 + d
		}
	}
	for range decimals - len(fraction) {
		if minor > limit/10 {
			return 0, wantRange, ErrOverflow
		}
		minor *= 10
	}
	return minor, "", nil
}

const wantRange = "minor units that fit in an int64"

func wantDecimals(n int) string {
	switch n {
	case 0:
		return "no decimals and no '.'"
	case 1:
		return "at most 1 decimal"
	}
	return "at most " + strconv.Itoa(n) + " decimals"
}

package money

import (
	"math"
	"strings"
)

// MarshalText returns the text of String, "548.90 TRY". The zero Amount is
// [ErrNoAmount]: a field that may hold none is tagged json:",omitzero".
func (a Amount) MarshalText() ([]byte, error) {
	if !a.Valid() {
		return nil, &Error{Op: "marshal", Text: a.String(), Want: "an amount", Err: ErrNoAmount}
	}
	return a.appendText(make([]byte, 0, maxText)), nil
}

// UnmarshalText reads what MarshalText wrote and nothing else: one space, the
// code in upper case, every decimal of the currency, a '-' only in front of a
// negative amount. So text and Amount are one to one, and a text written under
// another exponent is an error rather than another amount. Withdrawn codes are
// accepted. On an error, an [*Error], a is left as it was.
func (a *Amount) UnmarshalText(text []byte) error {
	const op = "unmarshal"
	in := string(text)
	decimal, code, ok := strings.Cut(in, " ")
	if !ok {
		return &Error{Op: op, Text: bounded(in), Want: "a decimal, one space and a code, like 5.00 EUR", Err: ErrSyntax}
	}
	c, err := known(op, code)
	if err != nil {
		return err
	}
	fail := func(err error, want string) error {
		return &Error{Op: op, Text: bounded(in), Currency: c.code, Want: want, Err: err}
	}
	digits, negative := strings.CutPrefix(decimal, "-")
	limit := uint64(math.MaxInt64)
	if negative {
		limit++
	}
	u, want, err := scan(digits, int(c.decimals), limit)
	if err != nil {
		return fail(err, want)
	}
	read := Amount{int64(u), c.code}
	if negative {
		read.minor = int64(-u)
	}
	if canonical := read.String(); canonical != in {
		return fail(ErrSyntax, canonical)
	}
	*a = read
	return nil
}

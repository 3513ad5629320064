package money

import (
	"errors"
	"strconv"
	"strings"
)

// The reasons an [*Error] gives. None of them says anything about a payment:
// nothing is sent by this package.
var (
	// ErrSyntax: the text is not a plain decimal number.
	ErrSyntax = errors.New("not a plain decimal number")
	// ErrTooManyDecimals: more decimals than the currency has. Nothing is rounded.
	ErrTooManyDecimals = errors.New("too many decimals")
	// ErrOverflow: the minor units do not fit in an int64.
	ErrOverflow = errors.New("out of range")
	// ErrUnknownCurrency: not a code of ISO 4217, or one withdrawn before this
	// package's table begins.
	ErrUnknownCurrency = errors.New("unknown currency")
	// ErrNoMinorUnit: a code of ISO 4217 that has no minor unit, such as XAU, XDR,
	// XTS or XXX. No amount can be given in it.
	ErrNoMinorUnit = errors.New("currency without minor unit")
	// ErrWithdrawnCurrency: a code that a new payment may not use any more. An old
	// payment in it is read with Restore.
	ErrWithdrawnCurrency = errors.New("withdrawn currency")
	// ErrCurrencyMismatch: two amounts of different currencies.
	ErrCurrencyMismatch = errors.New("currencies differ")
	// ErrNoAmount: the zero Amount where an amount is needed.
	ErrNoAmount = errors.New("no amount")
)

// Error says what was refused and why. Every error of this package is one; use
// errors.Is with the sentinels above to decide.
type Error struct {
	Op       string // "parse", "new", "restore", "unmarshal", "marshal", "add", "subtract", "compare"
	Text     string // what was refused as it was given, cut after 40 bytes; two amounts where there are two
	Currency string // the code in upper case; empty if it was not recognised
	Want     string // what was expected
	Err      error  // one of the sentinels
}

// Error returns one line of ASCII, whatever the text was.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("money: ")
	b.WriteString(e.Op)
	b.WriteByte(' ')
	b.WriteString(strconv.QuoteToASCII(e.Text))
	if e.Currency != "" && e.Currency != e.Text {
		b.WriteString(" in ")
		b.WriteString(e.Currency)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	b.WriteString(": want ")
	b.WriteString(e.Want)
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// bounded cuts foreign text to a length fit for a log line. The copy keeps an
// error from holding the whole input in memory.
func bounded(s string) string {
	const limit = 40
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return strings.Clone(s)
}

package money

import "strconv"

// Amount is an amount of money: int64 minor units and an ISO 4217 code. It is a
// value: copy it, compare it with ==, use it as a map key.
//
// The zero Amount is no amount at all, not nothing to pay: it has no currency,
// [Amount.Valid] is false, it cannot be added to, compared in size or marshaled.
// 0.00 EUR is a valid Amount. So is a negative one (a difference, a line of a
// settlement report): that a payment is positive is checked where payments are.
type Amount struct {
	minor    int64
	currency string // upper case, from the table; empty in the zero Amount only
}

// New returns minor units of a currency for a new payment. It normalises the
// case of the code and refuses, with an [*Error], unknown codes, codes without
// a minor unit and withdrawn codes.
func New(minor int64, currency string) (Amount, error) {
	c, err := current("new", currency)
	if err != nil {
		return Amount{}, err
	}
	return Amount{minor, c.code}, nil
}

// Restore returns minor units of a currency as they were stored or as a
// provider answered them. It is New but for withdrawn codes, which it accepts.
func Restore(minor int64, currency string) (Amount, error) {
	c, err := known("restore", currency)
	if err != nil {
		return Amount{}, err
	}
	return Amount{minor, c.code}, nil
}

// Minor returns the number of minor units: 54890 for 548.90 TRY, 80 for 80 JPY.
func (a Amount) Minor() int64 { return a.minor }

// Currency returns the ISO 4217 code in upper case, empty for the zero Amount.
func (a Amount) Currency() string { return a.currency }

// Valid reports whether a is an amount, that is, not the zero Amount.
func (a Amount) Valid() bool { return a.currency != "" }

// IsZero reports whether a is the zero Amount, as encoding/json's omitzero
// asks. It is false for 0.00 EUR: whether nothing is to be paid is Minor() == 0.
func (a Amount) IsZero() bool { return a == Amount{} }

// Decimal returns the amount in major units with exactly the decimals of its
// currency, a '.' and no grouping: "548.90", "80", "35.200", "-0.05". It is
// empty for the zero Amount, so that no amount can be mistaken for 0.
func (a Amount) Decimal() string {
	if !a.Valid() {
		return ""
	}
	var buf [maxText]byte
	return string(a.appendDecimal(buf[:0]))
}

// String returns Decimal and Currency with one space between: "548.90 TRY". It
// is "no amount" for the zero Amount.
func (a Amount) String() string {
	if !a.Valid() {
		return "no amount"
	}
	var buf [maxText]byte
	return string(a.appendText(buf[:0]))
}

// maxText holds the longest text of an Amount: sign, 19 digits, '.', space, code.
const maxText = 32

func (a Amount) appendText(b []byte) []byte {
	b = a.appendDecimal(b)
	b = append(b, ' ')
	return append(b, a.currency...)
}

func (a Amount) appendDecimal(b []byte) []byte {
	u := uint64(a.minor)
	if a.minor < 0 {
		b = append(b, '-')
		u = -u // right for the smallest int64 too
	}
	var buf [20]byte
	digits := strconv.AppendUint(buf[:0], u, 10)

	c, _ := lookup(a.currency)
	decimals := int(c.decimals)
	whole := len(digits) - decimals
	if whole > 0 {
		b = append(b, digits[:whole]...)
		digits = digits[whole:]
	} else {
		b = append(b, '0')
	}
	if decimals == 0 {
		return b
	}
	b = append(b, '.')
	for range decimals - len(digits) {
		b = append(b, '0')
	}
	return append(b, digits...)
}

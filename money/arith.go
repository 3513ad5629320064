package money

import (
	"cmp"
	"math"
)

// Add returns a + b. The error is an [*Error] and matches [ErrNoAmount] if one
// of them is the zero Amount, [ErrCurrencyMismatch] if their currencies differ,
// [ErrOverflow] if the sum does not fit in an int64 of minor units.
func (a Amount) Add(b Amount) (Amount, error) {
	if err := sameCurrency("add", a, b); err != nil {
		return Amount{}, err
	}
	if b.minor > 0 && a.minor > math.MaxInt64-b.minor || b.minor < 0 && a.minor < math.MinInt64-b.minor {
		return Amount{}, operands("add", a, b, ErrOverflow, wantRange)
	}
	return Amount{a.minor + b.minor, a.currency}, nil
}

// Sub returns a - b, which may be negative. Its errors are those of Add.
func (a Amount) Sub(b Amount) (Amount, error) {
	if err := sameCurrency("subtract", a, b); err != nil {
		return Amount{}, err
	}
	if b.minor < 0 && a.minor > math.MaxInt64+b.minor || b.minor > 0 && a.minor < math.MinInt64+b.minor {
		return Amount{}, operands("subtract", a, b, ErrOverflow, wantRange)
	}
	return Amount{a.minor - b.minor, a.currency}, nil
}

// Cmp returns -1 if a is less than b, 0 if they are equal, +1 if a is greater.
// The error is an [*Error] and matches [ErrNoAmount] or [ErrCurrencyMismatch];
// the int means nothing then. To ask only whether two amounts are the same, in
// currency too, use ==.
func (a Amount) Cmp(b Amount) (int, error) {
	if err := sameCurrency("compare", a, b); err != nil {
		return 0, err
	}
	return cmp.Compare(a.minor, b.minor), nil
}

func sameCurrency(op string, a, b Amount) error {
	switch {
	case !a.Valid() || !b.Valid():
		return operands(op, a, b, ErrNoAmount, "two amounts")
	case a.currency != b.currency:
		return operands(op, a, b, ErrCurrencyMismatch, "one currency")
	}
	return nil
}

func operands(op string, a, b Amount, err error, want string) error {
	return &Error{Op: op, Text: a.String() + ", " + b.String(), Want: want, Err: err}
}

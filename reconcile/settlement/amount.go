package settlement

import (
	"bytes"
	"fmt"
	"math"

	"github.com/chargeonce/chargeonce/money"
)

// amountStyle reads amounts in the one style that a profile declares.
type amountStyle struct {
	unit     Unit
	mark     byte // zero: none
	group    []byte
	negative Negative
	plus     bool
}

func newAmountStyle(a Amounts) amountStyle {
	s := amountStyle{unit: a.Unit, group: []byte(a.GroupingMark), negative: a.Negative, plus: a.Plus}
	if a.DecimalMark != "" {
		s.mark = a.DecimalMark[0]
	}
	return s
}

// parse reads an amount in units of 10^-decimals. What is wrong with the text is told in reason, empty if nothing is.
func (s *amountStyle) parse(text []byte, decimals int) (minor int64, reason string) {
	digits, negative := s.sign(text)
	var v uint64
	whole, fraction, group := 0, -1, -1 // digits before the mark, behind it, and since the last grouping mark; -1: no such
	for i := 0; i < len(digits); {
		c := digits[i]
		if d := uint64(c - '0'); c >= '0' && c <= '9' {
			if v > (math.MaxInt64-d)/10 {
				return 0, "out of range"
			}
			v = v*10 + d
			switch {
			case fraction >= 0:
				fraction++
			default:
				if whole == 1 && v < 10 {
					return 0, "zeros in front: want none"
				}
				whole++
				if group >= 0 {
					group++
				}
			}
			i++
			continue
		}
		switch {
		case s.mark != 0 && c == s.mark && fraction < 0 && whole > 0 && (group < 0 || group == 3):
			fraction, group = 0, -1
			i++
		case len(s.group) > 0 && fraction < 0 && (group == 3 || group < 0 && whole > 0 && whole <= 3) && bytes.HasPrefix(digits[i:], s.group):
			group = 0
			i += len(s.group)
		default:
			return 0, s.want(decimals)
		}
	}
	switch {
	case whole == 0, fraction == 0, group >= 0 && group != 3:
		return 0, s.want(decimals)
	case fraction > decimals:
		return 0, tooManyDecimals(decimals)
	}
	if s.unit == UnitMajor {
		for range decimals - max(fraction, 0) {
			if v > math.MaxInt64/10 {
				return 0, "out of range"
			}
			v *= 10
		}
	}
	if negative {
		return -int64(v), ""
	}
	return int64(v), ""
}

// sign takes the sign off.
func (s *amountStyle) sign(text []byte) (digits []byte, negative bool) {
	n := len(text)
	if n == 0 {
		return text, false
	}
	switch {
	case s.negative == NegativeMinus && text[0] == '-':
		return text[1:], true
	case s.negative == NegativeTrailingMinus && text[n-1] == '-':
		return text[:n-1], true
	case s.negative == NegativeParentheses && text[0] == '(' && text[n-1] == ')':
		return text[1 : n-1], true
	case s.plus && text[0] == '+':
		return text[1:], false
	}
	return text, false
}

// want describes the style.
func (s *amountStyle) want(decimals int) string {
	text := "want digits only"
	if s.unit == UnitMajor {
		text = "want digits"
		if len(s.group) > 0 {
			text += fmt.Sprintf(", in groups of three by %+q or not grouped", string(s.group))
		}
		if decimals > 0 {
			text += fmt.Sprintf(", at most %d of them behind %q", decimals, string(s.mark))
		} else {
			text += " and no decimals"
		}
	}
	switch s.negative {
	case NegativeMinus:
		text += "; negative as -1"
	case NegativeTrailingMinus:
		text += "; negative as 1-"
	case NegativeParentheses:
		text += "; negative as (1)"
	case NegativeNone:
		text += "; no sign"
	}
	return text
}

func tooManyDecimals(decimals int) string {
	if decimals == 0 {
		return "the currency has no decimals"
	}
	return fmt.Sprintf("more decimals than the currency has (%d)", decimals)
}

// currency is what is known of the currency of a line.
type currency struct {
	code     string
	decimals int // in the report
	scale    int // decimals of the report minus those of ISO 4217
}

// findCurrency looks a code up. The decimals are the provider's where the profile declares them.
func (a Amounts) findCurrency(code string) (currency, error) {
	zero, err := money.Restore(0, code)
	if err != nil {
		return currency{}, err
	}
	c := currency{code: zero.Currency()}
	iso, _ := money.Decimals(c.code)
	c.decimals = iso
	if n, ok := a.Decimals[c.code]; ok {
		c.decimals = n
	}
	c.scale = c.decimals - iso
	return c, nil
}

// minor turns an amount of the report into minor units of ISO 4217.
func (c *currency) minor(v int64) (minor int64, reason string) {
	for range c.scale {
		if v%10 != 0 {
			return 0, "not a whole number of " + c.code + "'s minor units"
		}
		v /= 10
	}
	for range -c.scale {
		if v > math.MaxInt64/10 || v < math.MinInt64/10 {
			return 0, "out of range"
		}
		v *= 10
	}
	return v, ""
}

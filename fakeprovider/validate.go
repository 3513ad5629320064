package fakeprovider

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// wanted is what a request asks for.
type wanted struct {
	amount      int64
	currency    [3]byte
	source      string
	reference   string
	description string
	reason      string // refunds
	charge      uint32 // refunds
	chargeID    string
}

// read takes the request's fields, or says what is wrong with one.
func (x *exchange) read(w *wanted, kind uint8) (answer, bool) {
	in, p := x.in, x.p
	ref := func(a answer) (answer, bool) { return a, false }
	if in.bodyErr != nil {
		return ref(problem(probMalformed, detail(in.bodyErr.Error())))
	}
	if in.members == nil || isForm(in.header) {
		return ref(problem(probMalformed, detail("want application/json")))
	}
	more := text("merchant_reference", in.reference)
	currency := ""
	for _, m := range in.members {
		var err error
		switch m.name {
		case "amount":
			w.amount, err = parseAmount(m.raw)
			if err != nil {
				return ref(problem(probAmount, more))
			}
		case "currency":
			currency, err = unquote(m.raw)
		case "source":
			if w.source = in.source; w.source == "" {
				w.source, err = unquote(m.raw)
			}
		case "merchant_reference":
			if w.reference = in.reference; w.reference == "" {
				w.reference, err = unquote(m.raw)
			}
		case "description":
			w.description, err = unquote(m.raw)
		case "reason":
			w.reason, err = unquote(m.raw)
		case "charge":
			w.chargeID, err = unquote(m.raw)
		}
		if err != nil {
			return ref(problem(probField, detail(m.name+" must be a string"), more))
		}
	}
	switch {
	case w.amount <= 0:
		return ref(problem(probAmount, more))
	case !validReference(w.reference):
		return ref(problem(probReference))
	case len(w.source) > 255, len(w.description) > 1000, len(w.reason) > 255:
		return ref(problem(probField, detail("a text is too long"), more))
	case len(currency) != 3:
		return ref(problem(probCurrency, more))
	}
	copy(w.currency[:], currency)
	if !p.currency[w.currency] {
		return ref(problem(probCurrency, more))
	}
	if kind == kindCharge && !knownSource(w.source) {
		return ref(problem(probSource, more))
	}
	return answer{}, true
}

// parseAmount takes a JSON integer: no fraction, no exponent, no string.
func parseAmount(raw []byte) (int64, error) {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err == nil && n > 999_999_999_999 {
		err = strconv.ErrRange
	}
	return n, err
}

func validReference(s string) bool {
	if s == "" || len(s) > 255 || !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f {
			return false
		}
	}
	return true
}

// knownSource takes every token: nobody has to register one before a test.
func knownSource(s string) bool {
	return strings.HasPrefix(s, "tok_") && len(s) > 4
}

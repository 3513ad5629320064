package attempt

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// PurposeCharge is the purpose of a slot whose intent names none.
const PurposeCharge = "charge"

// Limits of the texts a slot is made of, in bytes.
const (
	MaxOrderLength   = 200
	MaxAccountLength = 100
	MaxPurposeLength = 100
)

// Slot names the thing that may be paid once: an order of an account, for one purpose. Two intents with the same slot
// compete for the same payment; two slots never do, whatever else they have in common. Slots are compared byte by byte.
type Slot struct {
	Account string // the merchant in whose name we charge; empty where there is one
	Order   string
	Purpose string // "charge" unless said
}

// String writes the slot for people: "1001", "shop-a/1001", "1001 (deposit)".
func (s Slot) String() string {
	text := s.Order
	if s.Account != "" {
		text = s.Account + "/" + text
	}
	if s.Purpose != PurposeCharge && s.Purpose != "" {
		text += " (" + s.Purpose + ")"
	}
	return text
}

// WithDefaults fills in the default purpose.
func (s Slot) WithDefaults() Slot {
	if s.Purpose == "" {
		s.Purpose = PurposeCharge
	}
	return s
}

// Validate reports every part that cannot name a slot: empty order, a text too long, not valid UTF-8, or with control
// characters, or outer spaces or invisible characters, which would make two slots of one order.
func (s Slot) Validate() error {
	return errors.Join(
		validText("order", s.Order, 1, MaxOrderLength),
		validText("account", s.Account, 0, MaxAccountLength),
		validText("purpose", s.Purpose, 0, MaxPurposeLength),
	)
}

// invisible tells whether nobody sees the character at the end of a text: spaces, and format characters such as the byte
// order mark that stands at the beginning of some files.
func invisible(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) }

func validText(field, text string, least, most int) error {
	if len(text) < least {
		return fmt.Errorf("%s: empty, want a text of 1 to %d bytes", field, most)
	}
	if len(text) > most {
		return fmt.Errorf("%s: %d bytes long, want at most %d", field, len(text), most)
	}
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && size == 1 {
				return fmt.Errorf("%s: not valid UTF-8 at byte %d", field, i)
			}
			if r >= 0x80 && r < 0xa0 {
				return fmt.Errorf("%s: control character at byte %d", field, i)
			}
			i += size
			continue
		}
		if c < ' ' || c == 0x7f {
			return fmt.Errorf("%s: control character at byte %d", field, i)
		}
		i++
	}
	if strings.TrimFunc(text, invisible) != text {
		return fmt.Errorf("%s: starts or ends with a space or an invisible character", field)
	}
	return nil
}

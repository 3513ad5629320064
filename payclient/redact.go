package payclient

import (
	"strings"
	"unicode/utf8"

	"github.com/chargeonce/chargeonce/attempt"
)

// maxDetail bounds a text of the provider's that is kept for support, in bytes.
const maxDetail = 200

// cleaner redacts the provider's texts of one exchange: what was sent in it above all.
type cleaner struct {
	source attempt.Source
}

func (c cleaner) text(text string) string {
	if text == "" {
		return ""
	}
	return redact(text, c.source.Reveal())
}

// redact makes a text of the provider's fit to be stored and logged: short, one line of valid UTF-8, without the secrets
// named and without anything that could be a card number (12 digits or more in a row, spaces and hyphens aside).
func redact(text string, secrets ...string) string {
	if text == "" {
		return ""
	}
	for _, s := range secrets {
		if len(s) >= 4 {
			text = strings.ReplaceAll(text, s, "[redacted]")
		}
	}
	text = maskDigits(strings.ToValidUTF8(text, "\uFFFD"))
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxDetail {
		cut := maxDetail
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	return text
}

// maskDigits replaces runs of 12 to 19 or more digits, as in a card number, however they are grouped. A run inside a
// longer word of letters and digits (an id, a UUID) is left alone.
func maskDigits(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		if !isDigit(text[i]) || i > 0 && isLetter(text[i-1]) {
			b.WriteByte(text[i])
			i++
			continue
		}
		end, digits := i, 0
		for j := i; j < len(text) && (isDigit(text[j]) || text[j] == ' ' || text[j] == '-'); j++ {
			if isDigit(text[j]) {
				digits++
				end = j + 1
			}
		}
		if digits >= 12 {
			b.WriteString("[digits]")
		} else {
			b.WriteString(text[i:end])
		}
		i = end
	}
	return b.String()
}

func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }

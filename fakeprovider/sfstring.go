package fakeprovider

import (
	"errors"
	"strings"
)

var errKeySyntax = errors.New("the Idempotency-Key must be one String of RFC 9651, in double quotes")

// parseKey reads the Idempotency-Key fields of a request as one Item whose
// value is a String (RFC 9651 section 3.3.3, parameters not taken). With raw
// a value that does not begin with a quote is the key as it stands.
func parseKey(values []string, raw bool) (string, error) {
	if len(values) == 0 {
		return "", nil
	}
	// Several field lines are one value joined by commas (RFC 9110 section
	// 5.2), and a list is no Item.
	if len(values) > 1 {
		return "", errKeySyntax
	}
	s := strings.Trim(values[0], " ")
	if s == "" {
		return "", nil
	}
	if s[0] != '"' {
		if !raw || len(s) > 255 {
			return "", errKeySyntax
		}
		return s, nil
	}
	if len(s) < 2 {
		return "", errKeySyntax
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			if i != len(s)-1 || i == 1 || i > 256 {
				return "", errKeySyntax
			}
			if b.Len() > 0 {
				return b.String(), nil
			}
			return s[1:i], nil
		case c == '\\':
			if b.Len() == 0 {
				b.WriteString(s[1:i])
			}
			i++
			if i >= len(s) || s[i] != '"' && s[i] != '\\' {
				return "", errKeySyntax
			}
			b.WriteByte(s[i])
		case c < 0x20 || c > 0x7e:
			return "", errKeySyntax
		default:
			if b.Len() > 0 {
				b.WriteByte(c)
			}
		}
	}
	return "", errKeySyntax
}

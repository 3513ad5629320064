package payclient

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/chargeonce/chargeonce/attempt"
)

// Limits of the provider's texts that are kept, in bytes: words for support, ids, and the URL where the payer must act.
const (
	maxDetail = 200
	maxID     = 200
	maxURL    = 2000
)

// cleaner redacts the provider's texts of one exchange: what was sent in it above all.
type cleaner struct {
	source      attempt.Source
	credentials []string // of the request's header
}

// secrets yields what must not be kept: the source, and the credentials.
func (c cleaner) secrets(yield func(string) bool) {
	if !yield(c.source.Reveal()) {
		return
	}
	for _, v := range c.credentials {
		if !yield(v) {
			return
		}
	}
}

// credentialsIn appends the values of the headers that hold credentials by their name, and what is behind the scheme in
// them (RFC 9110 section 11.4). The key's header holds none.
func credentialsIn(header http.Header, keyHeader string, credentials []string) []string {
	for name, values := range header {
		if name == keyHeader || !holdsCredentials(name) {
			continue
		}
		for _, v := range values {
			if _, behind, ok := strings.Cut(v, " "); ok {
				credentials = append(credentials, behind)
			}
			credentials = append(credentials, v)
		}
	}
	return credentials
}

var credentialNames = []string{"Auth", "Key", "Token", "Secret", "Password", "Signature", "Cookie"}

func holdsCredentials(name string) bool {
	switch name {
	case "Authorization":
		return true
	case "Content-Type", "Accept":
		return false
	}
	return slices.ContainsFunc(credentialNames, func(part string) bool { return strings.Contains(name, part) })
}

// text makes words of the provider's fit to be kept.
func (c cleaner) text(text string) string {
	if text == "" {
		return ""
	}
	return redact(text, slices.Collect(c.secrets)...)
}

// id tells whether an id of the provider's may be kept as it is. Ids are compared and searched for, so they are never
// altered: not even where one looks like a card number, as those of several providers do.
func (c cleaner) id(text string) bool {
	return len(text) <= maxID && isPlain(text) && c.harmless(text)
}

// isPlain tells whether a text is valid UTF-8 without control characters.
func isPlain(text string) bool {
	if all(text, &plainBytes) {
		return true
	}
	return utf8.ValidString(text) && !strings.ContainsFunc(text, isControl)
}

// requestID keeps a request id, or what can be kept of it.
func (c cleaner) requestID(text string) string {
	if c.id(text) {
		return text
	}
	return c.text(text)
}

// link returns a URL of the provider's, or nothing where it is none that a payer could be sent to, or holds a secret.
func (c cleaner) link(text string) string {
	if text == "" || len(text) > maxURL || strings.ContainsFunc(text, isControl) || !c.harmless(text) {
		return ""
	}
	if u, err := url.Parse(text); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return ""
	}
	return text
}

func (c cleaner) harmless(text string) bool {
	if text == "" {
		return true
	}
	for secret := range c.secrets {
		if strip(text, secret) != text {
			return false
		}
	}
	return true
}

// redact makes a text of the provider's fit to be stored and logged: at most maxDetail bytes, one line of valid UTF-8,
// without the secrets named and without anything that could be a card number (12 digits or more in a row, spaces and
// hyphens aside).
func redact(text string, secrets ...string) string {
	if text == "" {
		return ""
	}
	stripAll := func() {
		for _, s := range secrets {
			text = strip(text, s)
		}
	}
	stripAll()
	text = strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
	stripAll() // what was no secret before may be one now
	text = maskDigits(text)
	const ellipsis = "…"
	if len(text) > maxDetail {
		cut := maxDetail - len(ellipsis)
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + ellipsis
	}
	return text
}

// isControl also tells blanks of other widths, so that they separate digits as a space does.
func isControl(r rune) bool {
	return r < ' ' || r >= 0x7f && r <= 0xa0 || r == '\u2028' || r == '\u2029' || r == '\u202f' || r == '\u2009'
}

// shortSecret is from how many bytes on a piece of a secret is taken for one: adapters quote the beginning of an answer, and
// may cut a secret in two.
const shortSecret = 8

// strip takes a secret out of a text, also as quoted text writes it, and also where only its beginning is there.
func strip(text, secret string) string {
	if len(secret) < 4 {
		return text
	}
	if !all(secret, &bareBytes) {
		quoted := strconv.Quote(secret)
		quoted = quoted[1 : len(quoted)-1]
		twice := strconv.Quote(quoted)
		text = stripExactly(text, twice[1:len(twice)-1])
		text = stripExactly(text, quoted)
	}
	return stripExactly(text, secret)
}

func stripExactly(text, secret string) string {
	begin := secret[:min(len(secret), shortSecret)]
	i := strings.Index(text, begin)
	if i < 0 {
		return text
	}
	var b strings.Builder
	for i >= 0 {
		b.WriteString(text[:i])
		b.WriteString("[redacted]")
		n := 0
		for n < len(secret) && i+n < len(text) && text[i+n] == secret[n] {
			n++
		}
		text = text[i+n:]
		i = strings.Index(text, begin)
	}
	b.WriteString(text)
	return b.String()
}

// maskDigits replaces runs of 12 digits and more, as in a card number, however they are grouped.
func maskDigits(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); {
		if !isDigit(text[i]) {
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

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

package payclient

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

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
	return c.details().redact(text, slices.Collect(c.secrets))
}

// details takes a sensitive source apart. A token is worth nothing in parts.
func (c cleaner) details() details {
	if !c.source.IsSensitive() {
		return details{}
	}
	return detailsOf(c.source.Reveal())
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
	return !c.source.IsSensitive() || c.details().harmless(text)
}

// redact makes a text of the provider's fit to be stored and logged: at most maxDetail bytes, one line of valid UTF-8,
// without the secrets named and without anything that could be a card number (12 digits or more with no letter between
// them).
func redact(text string, secrets ...string) string { return details{}.redact(text, secrets) }

// redact also leaves out the words and numbers of the details.
func (d details) redact(text string, secrets []string) string {
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
	text = d.stripWords(d.maskDigits(text))
	if d.numberIn(text) { // with letters between its digits
		text = redacted
	}
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

// What stands where something was taken out.
const (
	redacted = "[redacted]"
	masked   = "[digits]"
)

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
		b.WriteString(redacted)
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

// fewestDigits is from how many digits on a number is taken for that of a card or an account.
const fewestDigits = 12

// maskDigits replaces runs of 12 digits and more, as in a card number, in whatever script they are written and whatever
// but a letter stands between them. Addresses in the errors of package net stay, for whoever has to find the fault.
func (d details) maskDigits(text string) string {
	if strings.IndexFunc(text, unicode.IsDigit) < 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if !unicode.IsDigit(r) {
			b.WriteString(text[i : i+size])
			i += size
			continue
		}
		end, digits := i, 0
		for j, r := range text[i:] {
			if unicode.IsLetter(r) {
				break
			}
			if unicode.IsDigit(r) {
				digits++
				end = i + j + utf8.RuneLen(r)
			}
		}
		if run := text[i:end]; digits < fewestDigits || isAddress(run) && !d.numberIn(run) {
			b.WriteString(run)
		} else {
			b.WriteString(masked)
		}
		i = end
	}
	return b.String()
}

// isAddress tells whether a text is an IPv4 address, with or without a port, or a connection's two ends as package net
// writes them: "10.0.0.1:43210->10.0.0.2:443".
func isAddress(text string) bool {
	from, to, two := strings.Cut(text, "->")
	return isEnd(from) && (!two || isEnd(to))
}

func isEnd(text string) bool {
	if end, err := netip.ParseAddrPort(text); err == nil {
		return end.Addr().Is4()
	}
	address, err := netip.ParseAddr(text)
	return err == nil && address.Is4()
}

// details are the parts of a sensitive source that would give it away. The provider, which was sent them, may repeat each
// one by itself.
type details struct {
	words   map[rune][]string // folded, by their first letter
	numbers []string          // in ASCII digits
}

// shortestWord is from how many letters on a word of the details is kept out of texts: a card's security code has three.
// Out of ids and links, which cannot be altered, only those are kept that are not there by chance: shortSecret.
const shortestWord = 3

// commonWords are in details and in answers alike, and give nothing away. Callers decide by codes such as "card_declined",
// and the payer acts at mastercard's own hosts too.
var commonWords = []string{"true", "false", "null", "card", "credit", "debit", "visa", "mastercard", "amex", "maestro"}

func detailsOf(source string) details {
	d := details{words: make(map[rune][]string)}
	for _, value := range valuesOf(source) {
		for word := range strings.FieldsFuncSeq(value, func(r rune) bool { return !isWordRune(r) }) {
			word = strings.Map(fold, word)
			first, _ := utf8.DecodeRuneInString(word)
			if utf8.RuneCountInString(word) >= shortestWord && !slices.Contains(commonWords, word) && !slices.Contains(d.words[first], word) {
				d.words[first] = append(d.words[first], word)
			}
		}
		for run := range strings.FieldsFuncSeq(value, unicode.IsLetter) {
			d.addNumbers(strings.FieldsFunc(run, func(r rune) bool { return !unicode.IsDigit(r) }))
		}
	}
	return d
}

// valuesOf returns the strings and numbers of one JSON value, names of members aside; of anything else the whole.
func valuesOf(source string) []string {
	var values []string
	decoder := jsontext.NewDecoder(strings.NewReader(source), jsontext.AllowDuplicateNames(true))
	for {
		token, err := decoder.ReadToken()
		_, read := decoder.StackIndex(0)
		switch {
		case errors.Is(err, io.EOF) && read == 1:
			return values
		case err != nil || read > 1:
			return []string{source}
		}
		within, n := decoder.StackIndex(decoder.StackDepth())
		if isName := within == '{' && n%2 == 1; !isName && (token.Kind() == '"' || token.Kind() == '0') {
			values = append(values, token.String())
		}
	}
}

// addNumbers adds the numbers that groups of digits make: one of enough digits as it is, shorter ones together.
func (d *details) addNumbers(groups []string) {
	for first := range groups {
		var number string
		last := first
		for ; last < len(groups) && len(number) < fewestDigits; last++ {
			number += digitsOf(groups[last])
		}
		// Groups in the middle of a number that begin with zeros are in too many ids.
		middle := first > 0 && last > first+1 && number[0] == '0'
		if len(number) >= fewestDigits && !middle {
			d.numbers = append(d.numbers, number)
		}
	}
}

// harmless tells whether an id or a link holds none of the numbers, in whatever form, and none of the long words.
func (d details) harmless(text string) bool {
	for _, form := range []string{text, unescape(text)} {
		if d.numberIn(form) {
			return false
		}
		for i := range form {
			if d.wordAt(form[i:], false) > 0 {
				return false
			}
		}
	}
	return true
}

// stripWords takes the words out of a text, also where only the beginning of a long one is there.
func (d details) stripWords(text string) string {
	if len(d.words) == 0 {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		_, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case strings.HasPrefix(text[i:], redacted):
			n = len(redacted)
		case strings.HasPrefix(text[i:], masked):
			n = len(masked)
		default:
			if word := d.wordAt(text[i:], true); word > 0 {
				b.WriteString(redacted)
				i += word
				continue
			}
		}
		b.WriteString(text[i : i+n])
		i += n
	}
	return b.String()
}

// wordAt returns how many bytes a word takes that a text begins with. In an altered text also the beginning of a long word
// is one, since adapters cut texts; of an id or a link, which are whole, eight letters or digits may be there by chance.
func (d details) wordAt(text string, altered bool) (longest int) {
	first, _ := utf8.DecodeRuneInString(text)
	for _, word := range d.words[fold(first)] {
		n, letters := 0, 0
		for _, want := range word {
			r, size := utf8.DecodeRuneInString(text[n:])
			if size == 0 || fold(r) != want {
				break
			}
			n += size
			letters++
		}
		whole := letters == utf8.RuneCountInString(word)
		if altered && whole || letters >= shortSecret && (altered || whole) {
			longest = max(longest, n)
		}
	}
	return longest
}

// numberIn tells whether one of the numbers is in a text, whatever stands between its digits.
func (d details) numberIn(text string) bool {
	if len(d.numbers) == 0 {
		return false
	}
	digits := digitsOf(text)
	return slices.ContainsFunc(d.numbers, func(number string) bool { return strings.Contains(digits, number) })
}

// isWordRune tells what words are made of. Marks are parts of letters: without them a name in Devanagari is only shreds.
func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// fold makes one of the ways to write a letter or a digit: small and large ones, those with a dot and without, full width
// and half.
func fold(r rune) rune {
	if unicode.IsDigit(r) {
		return digitOf(r)
	}
	if r >= 'Ａ' && r <= 'ｚ' {
		r -= 'Ａ' - 'A'
	}
	return unicode.ToLower(unicode.ToUpper(r))
}

// digitOf returns the ASCII digit of the same value. In every script the ten stand in ascending order, and nothing but more
// such tens beside them (The Unicode Standard, section 4.6).
func digitOf(r rune) rune {
	zero := r
	for unicode.IsDigit(zero - 1) {
		zero--
	}
	return '0' + (r-zero)%10
}

// digitsOf returns a text's digits and nothing else of it.
func digitsOf(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsDigit(r) {
			return -1
		}
		return digitOf(r)
	}, text)
}

// unescape decodes what is percent-encoded in a URL, also where other parts are wrong: they are read by others than us.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' && i+3 <= len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				c = byte(n)
				i += 2
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

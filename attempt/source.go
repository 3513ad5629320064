package attempt

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxSourceLength bounds a payment source, in bytes.
const MaxSourceLength = 4096

// Source is what pays: a provider's token, or sensitive details such as a card. It is held in memory only, cannot be
// printed, and is never stored; the store keeps a [Digest] of it.
type Source struct {
	reveal    func() string
	sensitive bool
}

// Token is a source that is worthless without the merchant's credentials: a provider's token for a card or account.
func Token(token string) Source {
	return Source{reveal: func() string { return token }}
}

// Sensitive is a source that is worth stealing, such as card details in the form that the provider's adapter reads. Its
// digest must be keyed: a client without a digest key refuses it before anything is stored or sent.
func Sensitive(details string) Source {
	return Source{reveal: func() string { return details }, sensitive: true}
}

// Reveal returns the source itself, for the adapter that writes it into a request. The result must not be stored or logged.
func (s Source) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// IsSensitive tells whether the source's digest must be keyed.
func (s Source) IsSensitive() bool { return s.sensitive }

// IsZero tells whether no source was given.
func (s Source) IsZero() bool { return s.Reveal() == "" }

// Validate reports a source that is missing, too long, or holds a control character; and a token that is a card number or
// has one for a whole word, as "tok_4111111111111111". Digits in a word with letters, as in hexadecimal tokens, are none.
func (s Source) Validate() error {
	text := s.Reveal()
	switch {
	case text == "":
		return errors.New("source: empty, want a payment source")
	case len(text) > MaxSourceLength:
		return fmt.Errorf("source: %d bytes long, want at most %d", len(text), MaxSourceLength)
	case !s.sensitive && isCardToken(text):
		return errors.New("source: is or holds what looks like a card number, want a token; card details are given with attempt.Sensitive")
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError }):
		return errors.New("source: control character or invalid UTF-8")
	}
	return nil
}

// Card numbers have 13 to 19 digits.
const (
	minCardDigits = 13
	maxCardDigits = 19
)

// digits are those of one number, as far as it can be a card's.
type digits struct {
	read [maxCardDigits]byte
	n    int // more than are held: the number is too long
}

func (d *digits) add(digit byte) {
	if d.n < maxCardDigits {
		d.read[d.n] = digit
	}
	d.n++
}

// looksLikeCard tells whether the digits are a card number's: as many, beginning as those of the card schemes do (2 to 6),
// with a right check digit, ISO/IEC 7812-1.
func (d *digits) looksLikeCard() bool {
	if d.n < minCardDigits || d.n > maxCardDigits || d.read[0] < 2 || d.read[0] > 6 {
		return false
	}
	sum := 0
	for i, digit := range d.read[:d.n] {
		n := int(digit)
		if (d.n-i)%2 == 0 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// isCardToken tells whether a token is a card number, whatever but letters stands between its digits, or has one for a
// whole word.
func isCardToken(token string) bool {
	if !mayHoldCard(token) {
		return false
	}
	var whole, word digits
	letters, lettersInWord := false, false
	for _, r := range token {
		switch digit, ok := digitOf(r); {
		case ok:
			whole.add(digit)
			word.add(digit)
		case unicode.IsLetter(r):
			letters, lettersInWord = true, true
		default:
			if !lettersInWord && word.looksLikeCard() {
				return true
			}
			word, lettersInWord = digits{}, false
		}
	}
	return !letters && whole.looksLikeCard() || !lettersInWord && word.looksLikeCard()
}

// holdsCard tells whether a text holds what looks like a card number among other words: digits in one group, or in groups
// with anything but letters between them.
func holdsCard(text string) bool {
	if !mayHoldCard(text) {
		return false
	}
	inGroup := false
	for i, r := range text {
		_, isDigit := digitOf(r)
		if isDigit && !inGroup && beginsWithCard(text[i:]) {
			return true
		}
		inGroup = isDigit
	}
	return false
}

// shortestGroup is how many digits the groups of printed card numbers have at least. Shorter ones are those of dates, times
// and telephone numbers, which have a right check digit once in ten times; but one and the same mark between all the
// groups is not how these are written.
const shortestGroup = 3

// beginsWithCard tells whether one or several of the groups of digits that a text begins with make a card number.
func beginsWithCard(text string) bool {
	var number digits
	between, sinceGroup, inGroup := "", 0, 0
	short, mixed := false, false
	for i, r := range text {
		digit, isDigit := digitOf(r)
		if !isDigit && inGroup > 0 { // the group's end
			short = short || inGroup < shortestGroup
			if number.looksLikeCard() && !(short && mixed) {
				return true
			}
			sinceGroup, inGroup = i, 0
		}
		switch {
		case unicode.IsLetter(r) || number.n > maxCardDigits:
			return false
		case !isDigit:
			continue
		case inGroup == 0 && number.n > 0:
			mark := text[sinceGroup:i]
			mixed = mixed || between != "" && mark != between
			between = mark
		}
		number.add(digit)
		inGroup++
	}
	return inGroup > 0 && number.looksLikeCard() && !(mixed && (short || inGroup < shortestGroup))
}

// mayHoldCard tells whether there are digits enough: in nearly all texts there are not.
func mayHoldCard(text string) bool {
	n := 0
	for _, r := range text {
		if unicode.IsDigit(r) {
			n++
		}
	}
	return n >= minCardDigits
}

// digitOf returns the value of a decimal digit of any script. The ten of a script stand in ascending order, and nothing but
// more such tens beside them (The Unicode Standard, section 4.6).
func digitOf(r rune) (value byte, ok bool) {
	if r < utf8.RuneSelf {
		return byte(r - '0'), r >= '0' && r <= '9'
	}
	if !unicode.IsDigit(r) {
		return 0, false
	}
	zero := r
	for unicode.IsDigit(zero - 1) {
		zero--
	}
	return byte((r - zero) % 10), true
}

const hiddenSource = "[source]"

// Format prints a placeholder, whatever the verb.
func (Source) Format(w fmt.State, _ rune) { _, _ = w.Write([]byte(hiddenSource)) }

// LogValue logs a placeholder.
func (Source) LogValue() slog.Value { return slog.StringValue(hiddenSource) }

// MarshalText writes a placeholder.
func (Source) MarshalText() ([]byte, error) { return []byte(hiddenSource), nil }

// BodyDigest digests a whole request body under the key with that id, so that a later send can be compared with the first.
func (d Digester) BodyDigest(keyID string, body []byte) (string, error) {
	k, ok := d.key(keyID)
	if !ok {
		return "", fmt.Errorf("digest key %q: %w", keyID, ErrDigestKeyMissing)
	}
	return digestText(k, "body\x00", body), nil
}

// Digest is what is stored of a source: enough to see that it is the same one again, useless to pay with.
type Digest struct {
	KeyID string // which digest key made it; empty: SHA-256 without a key, for tokens only
	Sum   string // 64 hexadecimal digits
}

// DigestKey is a secret under which sources are digested (HMAC-SHA-256). Its id is stored beside each digest so that keys
// can be changed: a former key must stay configured as long as its attempts may be sent again.
type DigestKey struct {
	ID     string
	Secret []byte
}

// Format prints the id only, whatever the verb.
func (k DigestKey) Format(w fmt.State, _ rune) { _, _ = fmt.Fprintf(w, "digest key %q", k.ID) }

// LogValue logs the id only.
func (k DigestKey) LogValue() slog.Value { return slog.StringValue(k.ID) }

// MarshalText writes the id only.
func (k DigestKey) MarshalText() ([]byte, error) { return []byte(k.ID), nil }

// Digester digests sources under the current key and recognises those digested under a former one.
// The zero Digester has no key and takes tokens only. It is safe for concurrent use.
type Digester struct {
	keys []heldKey // the current one first
}

// heldKey keeps a secret where nothing that prints values by reflection can see it.
type heldKey struct {
	id     string
	secret func() []byte
}

// ErrDigestKeyMissing says that a source cannot be compared or taken because a digest key is not configured.
// Nothing was sent.
var ErrDigestKeyMissing = errors.New("digest key not configured")

// MinDigestSecret is the least length of a digest key's secret, in bytes (RFC 2104 section 3: the hash's length).
const MinDigestSecret = 32

// NewDigester checks the keys: the first is the current one, the others are former ones.
func NewDigester(keys ...DigestKey) (Digester, error) {
	var errs []error
	seen := make(map[string]bool)
	for _, k := range keys {
		if k.ID == "" || len(k.ID) > 40 || strings.ContainsFunc(k.ID, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			errs = append(errs, fmt.Errorf("digest key %q: the id must be 1 to 40 printable ASCII characters", k.ID))
		}
		if seen[k.ID] {
			errs = append(errs, fmt.Errorf("digest key %q: given twice", k.ID))
		}
		seen[k.ID] = true
		if len(k.Secret) < MinDigestSecret {
			errs = append(errs, fmt.Errorf("digest key %q: the secret has %d bytes, want at least %d", k.ID, len(k.Secret), MinDigestSecret))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Digester{}, err
	}
	var d Digester
	for _, k := range keys {
		secret := slices.Clone(k.Secret)
		d.keys = append(d.keys, heldKey{id: k.ID, secret: func() []byte { return secret }})
	}
	return d, nil
}

// Digest digests a source under the current key. It fails with [ErrDigestKeyMissing] for a sensitive source without one.
func (d Digester) Digest(s Source) (Digest, error) {
	if len(d.keys) > 0 {
		return digestUnder(d.keys[0], s), nil
	}
	if s.sensitive {
		return Digest{}, fmt.Errorf("source: sensitive details need a keyed digest: %w", ErrDigestKeyMissing)
	}
	return digestUnder(heldKey{}, s), nil
}

// Same tells whether a source is the one that was digested. known is false, and so is same, when the digest's key is not
// configured any more: then nobody can tell.
func (d Digester) Same(stored Digest, s Source) (same, known bool) {
	k, ok := d.key(stored.KeyID)
	if !ok {
		return false, false
	}
	if stored.KeyID == "" && s.sensitive {
		return false, true
	}
	return hmac.Equal([]byte(digestUnder(k, s).Sum), []byte(stored.Sum)), true
}

// key returns the key with that id; the empty id is the digest without a key.
func (d Digester) key(id string) (heldKey, bool) {
	if id == "" {
		return heldKey{}, true
	}
	for _, k := range d.keys {
		if k.id == id {
			return k, true
		}
	}
	return heldKey{}, false
}

func digestUnder(k heldKey, s Source) Digest {
	// The kind is part of what is digested, so that a token is never taken for card details of the same spelling.
	kind := "token\x00"
	if s.sensitive {
		kind = "sensitive\x00"
	}
	return Digest{KeyID: k.id, Sum: digestText(k, kind, s.Reveal())}
}

// digestText writes SHA-256 of kind and data in hexadecimal, or HMAC-SHA-256 where there is a key.
func digestText[T string | []byte](k heldKey, kind string, data T) string {
	if k.id != "" {
		mac := hmac.New(sha256.New, k.secret())
		mac.Write([]byte(kind))
		mac.Write([]byte(data))
		return hex.EncodeToString(mac.Sum(nil))
	}
	var room [512]byte // tokens and their requests are short: nothing of them leaves the stack
	sum := sha256.Sum256(append(append(room[:0], kind...), data...))
	var digits [2 * sha256.Size]byte
	hex.Encode(digits[:], sum[:])
	return string(digits[:])
}

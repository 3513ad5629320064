package webhook

import (
	"crypto/hmac"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/signing"
)

// DefaultTolerance is how far an event's timestamp may be from the present, to either side. The specification names no
// number; this is the one of its reference libraries.
const DefaultTolerance = 5 * time.Minute

// The headers of an event, Standard Webhooks 1.0.0, "Webhook headers", in the spelling of [http.Header].
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

const (
	maxSignatures = 4096 // bytes of the header: more than forty signatures
	maxTimestamp  = 12   // digits
)

// Standard verifies events as Standard Webhooks 1.0.0 signs them
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md): HMAC-SHA256 over id,
// timestamp and raw body, under any of several secrets so that a secret can be replaced without losing an event. Signatures of
// other versions, the asymmetric v1a among them, are passed over.
type Standard struct {
	keys      func() [][]byte // where nothing that prints values by reflection can see them
	tolerance time.Duration
}

// NewStandard returns a verifier for events signed under one of the secrets, whose timestamps are at most a tolerance away
// from the present, to either side; zero: [DefaultTolerance]. It reports every mistake at once.
func NewStandard(tolerance time.Duration, secrets ...Secret) (*Standard, error) {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(secrets) == 0 {
		fail("Secrets: none, want at least one")
	}
	keys, mistakes := signing.Keys(secrets)
	errs = append(errs, mistakes...)
	switch {
	case tolerance < 0:
		fail("Tolerance: %s is negative", tolerance)
	case tolerance == 0:
		tolerance = DefaultTolerance
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Standard{keys: func() [][]byte { return keys }, tolerance: tolerance}, nil
}

// Verify implements [Verifier]. Each of the three headers must be there exactly once. An id that holds a full stop is refused:
// the specification asks senders for ids without, because what is signed could then be read in two ways.
func (s *Standard) Verify(header http.Header, body []byte, now time.Time) (eventID string, err error) {
	id, err := only(header, headerID, attempt.MaxNoticeIDLength, func(c byte) bool { return c > ' ' && c < 0x7f && c != '.' })
	if err != nil {
		return "", err
	}
	timestamp, err := only(header, headerTimestamp, maxTimestamp, func(c byte) bool { return c >= '0' && c <= '9' })
	if err != nil {
		return "", err
	}
	signatures, err := only(header, headerSignature, maxSignatures, func(c byte) bool { return c >= ' ' && c < 0x7f })
	if err != nil {
		return "", err
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil {
		return "", fmt.Errorf("%s: %w", headerTimestamp, ErrMalformed)
	}
	if !s.signed(id, timestamp, body, signatures) {
		return "", ErrForged
	}
	// Only now: a request that nobody has signed is forged, whenever it says it was made.
	if age := now.Sub(time.Unix(seconds, 0)); age > s.tolerance || age < -s.tolerance {
		return "", ErrStale
	}
	return id, nil
}

// only returns the header's only value, not empty and made of allowed bytes.
func only(header http.Header, name string, most int, allowed func(byte) bool) (string, error) {
	values := header[name]
	if len(values) != 1 {
		return "", fmt.Errorf("%s: there %d times, want once: %w", name, len(values), ErrMalformed)
	}
	value := values[0]
	if len(value) == 0 || len(value) > most {
		return "", fmt.Errorf("%s: %d bytes long, want 1 to %d: %w", name, len(value), most, ErrMalformed)
	}
	for i := range len(value) {
		if !allowed(value[i]) {
			return "", fmt.Errorf("%s: unexpected character at byte %d: %w", name, i, ErrMalformed)
		}
	}
	return value, nil
}

// signed tells whether one of the signatures, which a space separates, is that of one of the keys. It looks at all of them,
// and at their text, so that there is one spelling of a signature only.
func (s *Standard) signed(id, timestamp string, body []byte, signatures string) bool {
	good := false
	for _, key := range s.keys() {
		want := []byte(signing.Sign(key, id, timestamp, body))
		for signature := range strings.SplitSeq(signatures, " ") {
			if hmac.Equal([]byte(signature), want) {
				good = true
			}
		}
	}
	return good
}

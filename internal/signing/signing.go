// Package signing is what sender and receiver of Standard Webhooks 1.0.0 share: the secret, which cannot be printed, and the
// signature (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
package signing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
)

// Secret is a signing secret that cannot be printed, logged or marshalled by accident.
type Secret struct {
	reveal func() string
}

// NewSecret hides a signing secret as it is shown: whsec_ and the base64 of 24 to 64 bytes.
func NewSecret(text string) Secret { return Secret{reveal: func() string { return text }} }

const hiddenSecret = "[secret]"

// Format prints a placeholder, whatever the verb.
func (Secret) Format(w fmt.State, _ rune) { _, _ = w.Write([]byte(hiddenSecret)) }

// LogValue logs a placeholder.
func (Secret) LogValue() slog.Value { return slog.StringValue(hiddenSecret) }

// MarshalText writes a placeholder.
func (Secret) MarshalText() ([]byte, error) { return []byte(hiddenSecret), nil }

// Of a symmetric key: Standard Webhooks 1.0.0, "Signature scheme".
const (
	secretPrefix = "whsec_"
	minSecret    = 24
	maxSecret    = 64
)

// key returns the key that the secret stands for. Its errors show nothing of it.
func (s Secret) key() ([]byte, error) {
	if s.reveal == nil || s.reveal() == "" {
		return nil, errors.New("empty")
	}
	text, ok := strings.CutPrefix(s.reveal(), secretPrefix)
	if !ok {
		return nil, fmt.Errorf("does not start with %s", secretPrefix)
	}
	// Line breaks, which the decoder passes over, come of copying and would come into a configuration only by mistake.
	if strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("holds a line break")
	}
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("what follows %s is no base64", secretPrefix)
	}
	if len(key) < minSecret || len(key) > maxSecret {
		return nil, fmt.Errorf("stands for %d bytes, want %d to %d", len(key), minSecret, maxSecret)
	}
	return key, nil
}

// Keys returns the keys that secrets stand for, and the mistake of each that stands for none or was given twice.
func Keys(secrets []Secret) (keys [][]byte, mistakes []error) {
	fail := func(format string, args ...any) { mistakes = append(mistakes, fmt.Errorf(format, args...)) }
	for i, s := range secrets {
		key, err := s.key()
		if err != nil {
			fail("Secrets[%d]: %w", i, err)
			continue
		}
		for _, other := range keys {
			if hmac.Equal(other, key) {
				fail("Secrets[%d]: given twice", i)
			}
		}
		keys = append(keys, key)
	}
	return keys, mistakes
}

// Sign returns an entry of the signature header: HMAC-SHA256 over id, timestamp and raw body.
func Sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

package events

import (
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

// NewSecret hides a signing secret as Standard Webhooks writes it: whsec_ and the base64 of 24 to 64 bytes.
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
	if strings.ContainsAny(text, "\r\n") { // the decoder passes over them
		return nil, errors.New("holds a line break")
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

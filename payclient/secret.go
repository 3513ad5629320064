package payclient

import (
	"fmt"
	"log/slog"
)

// Secret is a credential that cannot be printed, logged or marshalled by accident. Reveal is the only way to it, so that a
// search for Reveal finds every place where a secret is used.
type Secret struct {
	reveal func() string
}

// NewSecret hides a credential.
func NewSecret(text string) Secret { return Secret{reveal: func() string { return text }} }

// Reveal returns the credential.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// IsZero tells whether there is none.
func (s Secret) IsZero() bool { return s.Reveal() == "" }

const hiddenSecret = "[secret]"

// Format prints a placeholder, whatever the verb.
func (Secret) Format(w fmt.State, _ rune) { _, _ = w.Write([]byte(hiddenSecret)) }

// LogValue logs a placeholder.
func (Secret) LogValue() slog.Value { return slog.StringValue(hiddenSecret) }

// MarshalText writes a placeholder.
func (Secret) MarshalText() ([]byte, error) { return []byte(hiddenSecret), nil }

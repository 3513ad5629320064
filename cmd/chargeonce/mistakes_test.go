package main

import (
	"errors"
	"testing"
)

// Code 4 sends a person to the provider's address and credentials; a mistake in any other setting is one of the settings.
func TestWhoseMistakeItIs(t *testing.T) {
	standard := func(more ...string) map[string]string {
		env := map[string]string{
			"CHARGEONCE_PROVIDER": "standard", "CHARGEONCE_URL": "https://provider.example", "CHARGEONCE_STANDARD_TOKEN": "tok",
		}
		for i := 0; i < len(more); i += 2 {
			env[more[i]] = more[i+1]
		}
		return env
	}
	for _, c := range []struct {
		name string
		env  map[string]string
		want int
	}{
		{"nothing", standard(), exitOK},
		{"no provider", nil, exitProvider},
		{"no address", standard("CHARGEONCE_URL", ""), exitProvider},
		{"no token", standard("CHARGEONCE_STANDARD_TOKEN", ""), exitProvider},
		{"a token that is none", standard("CHARGEONCE_STANDARD_TOKEN", "two words"), exitProvider},
		{"an address in the clear", standard("CHARGEONCE_URL", "http://provider.example"), exitProvider},
		{"keys that the provider forgets at once", standard("CHARGEONCE_STANDARD_KEY_RETENTION", "1s"), exitProvider},
		{"timings", standard("CHARGEONCE_TIMINGS_SEND_TIMEOUT", "20s"), exitUsage},
		{"timings of the fake provider", map[string]string{"CHARGEONCE_PROVIDER": "fake", "CHARGEONCE_TIMINGS_MIN_AGE": "1s"}, exitUsage},
		{"timings, and no provider", map[string]string{"CHARGEONCE_TIMINGS_MIN_AGE": "1s"}, exitUsage},
		{"timings, and no token", standard("CHARGEONCE_TIMINGS_MIN_AGE", "1s", "CHARGEONCE_STANDARD_TOKEN", ""), exitUsage},
		{"the breaker", standard("CHARGEONCE_BREAKER_PERIOD", "1ms"), exitUsage},
		{"a prefix", standard("CHARGEONCE_REFERENCE_PREFIX", "a b"), exitUsage},
		{"a digest key", standard("CHARGEONCE_DIGEST_KEY", "k1:AAAA"), exitUsage},
		{"a retention and a margin that do not fit each other",
			standard("CHARGEONCE_STANDARD_KEY_RETENTION", "2h", "CHARGEONCE_TIMINGS_RETENTION_MARGIN", "3h"), exitUsage},
		{"giving up before the provider must show a charge", standard("CHARGEONCE_STANDARD_LOOKUP_LAG", "2h", "CHARGEONCE_TIMINGS_ABANDON_AFTER", "1h"), exitUsage},
	} {
		s, err := resolve(given{flag: func(string) (string, bool) { return "", false }, env: func(name string) (string, bool) {
			value, ok := c.env[name]
			return value, ok
		}})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		err = s.mistakes()
		if got := codeOf(err); got != c.want {
			t.Errorf("%s: code %d, want %d: %v", c.name, got, c.want, err)
		}
		var exit *exitError
		if err != nil && !errors.As(err, &exit) {
			t.Errorf("%s: %v ends no command", c.name, err)
		}
	}
}

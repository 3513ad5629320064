package providertest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
)

func capabilitiesConstant(t *testing.T, s *suite) error {
	var f findings
	other := s.New(t)
	for range 3 {
		if got := s.provider.Capabilities(); got != s.caps {
			f.addf("Capabilities: %+v, and before %+v", got, s.caps)
		}
		if got := other.Capabilities(); got != s.caps {
			f.addf("Capabilities of another one configured alike: %+v, and before %+v", got, s.caps)
		}
		// Work must not change them either.
		if _, err := s.render(other, s.attemptOf(s.intent("tok")), s.Source("tok")); err != nil {
			f.addf("%w", err)
		}
		other.ReadCharge(payclient.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: []byte("{}")})
	}
	return f.err()
}

// Bounds of what a declaration can mean: a year is the longest that a provider is known to keep keys (Worldpay, 365 days),
// and a lag of more than a day would never let an attempt be abandoned on the day it was made.
const (
	mostRetention = 366 * 24 * time.Hour
	mostLag       = 24 * time.Hour
)

func capabilitiesConsistent(_ *testing.T, s *suite) error {
	var f findings
	caps, key := s.caps, s.caps.Key
	if caps.Name == "" || strings.ToLower(caps.Name) != caps.Name {
		f.addf("Name: %q, want lower case", caps.Name)
	}
	if key.Header == "" && key != (payclient.KeyCapability{}) {
		f.addf("Key: %+v, and no header that carries one", key)
	}
	if key.Header != "" && key.Header != http.CanonicalHeaderKey(key.Header) {
		f.addf("Key.Header: %q, want the canonical form %q", key.Header, http.CanonicalHeaderKey(key.Header))
	}
	if notForAdapters(key.Header) || key.Header == "Authorization" || key.Header == "Content-Type" {
		f.addf("Key.Header: %q has another meaning", key.Header)
	}
	if key.KeepsEveryAnswer && key.Retention <= 0 {
		f.addf("Key: answers are kept, but not for how long: nothing would ever be sent again")
	}
	if key.Retention > mostRetention {
		f.addf("Key.Retention: %s, want at most a year", key.Retention)
	}
	if caps.Lookup.ByReference && caps.Lookup.Lag <= 0 {
		f.addf("Lookup.Lag: %s, want the worst known time for which a charge may be missing", caps.Lookup.Lag)
	}
	if caps.Lookup.Lag > mostLag {
		f.addf("Lookup.Lag: %s, want at most a day; a provider that hides charges longer cannot be asked", caps.Lookup.Lag)
	}
	if caps.IdleTimeout < 0 {
		f.addf("IdleTimeout: %s", caps.IdleTimeout)
	}
	err := payclient.Config{Provider: s.provider, Store: new(attempt.Memory), BaseURL: "https://provider.example"}.Validate()
	if err != nil {
		f.addf("a client with nothing but defaults: %w", err)
	}
	return f.err()
}

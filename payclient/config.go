package payclient

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/chargeonce/chargeonce/attempt"
)

// Config configures a [Client]. Zero means the default named at each field, negative means none where that makes sense.
// [New] reports every mistake at once.
type Config struct {
	// Provider is the adapter of the payment provider. Required.
	Provider Provider
	// Store keeps the attempts. Required. It must be durable: a store that forgets is a way to pay twice.
	Store attempt.Store
	// BaseURL is the provider's address: https, or http to this machine. Required.
	BaseURL string
	// Transport sends. Nil: NewTransport with the limits that follow from this Config. One that is not an *http.Transport
	// must call the httptrace hooks of the request's context as that does, or every failure counts as "may have been sent".
	Transport http.RoundTripper

	// ProviderAccount and Environment are stored with each attempt, and an attempt of others is never sent, asked about or
	// replaced here: what may have been charged at one place must not be charged at another. ProviderAccount is the merchant
	// account whose credentials the Provider has. Empty: the credentials themselves stand for it (Capabilities.CredentialID),
	// so that new credentials are another account. Name the account before changing them.
	ProviderAccount string
	// Environment names the place. Empty: the address in BaseURL. Where a provider has only moved, name the old address.
	Environment string

	// DigestKeys are the keys under which payment sources are digested: the current one first, then former ones, which stay
	// as long as their attempts are open. Without any, only tokens are taken.
	DigestKeys []attempt.DigestKey
	// ReferencePrefix goes before the attempt's id in the merchant reference.
	ReferencePrefix string
	// DeriveFrom derives ids, keys and references from this namespace and the slot instead of drawing them, so that after a
	// lost store the rerun of a slot's first attempt meets the provider's replay. Zero: drawn. It protects where the rerun's request
	// is answered by that replay: one that is refused before (credentials that have expired meanwhile, for instance) ends the attempt
	// without money, and what the lost store's life had charged is found by webhooks and settlement only.
	DeriveFrom uuid.UUID

	// SendTimeout bounds one request, from the wait for a connection to the last byte of the answer. Zero: 3 s.
	SendTimeout time.Duration
	// CallTimeout bounds a call's sending, waits included; more than SendTimeout. Zero: 10 s.
	CallTimeout time.Duration
	// Retries is how often a request may be repeated in a call, where it may be repeated at all. Zero: 3. Negative: never.
	Retries int
	// FirstWait is the wait before the first repetition; each further wait is half as long again, up to MaxWait, plus up to
	// 20 % by chance. Zero: 1 s.
	FirstWait time.Duration
	// MaxWait is the longest wait of our own; Retry-After may ask for more. Zero: 5 s.
	MaxWait time.Duration
	// RecordTimeout is how long storing the outcome may take before another caller may take the attempt over; a claim lasts
	// CallTimeout and RecordTimeout. Zero: 5 s.
	RecordTimeout time.Duration

	// MinAge is when an open attempt is first due to be asked about, counted from its claim (attempt.Store.TakeDue); at least
	// CallTimeout. Zero: 2 min.
	MinAge time.Duration
	// AbandonAfter is the least time since the last possible send after which an attempt that the provider does not know is
	// given up; more than MinAge and than the provider's lag. Zero: the larger of 30 min and three lags. Negative: never.
	AbandonAfter time.Duration
	// PreparedAfter is when a started attempt that nobody sends is given up. Zero: 24 h.
	PreparedAfter time.Duration
	// AskWaits are the times between the questions about an open attempt, after the first; the last one repeats. Nil: 1 m, 5 m,
	// 15 m, 1 h, 3 h, 6 h, 12 h, 24 h.
	AskWaits []time.Duration
	// AskFor is after how long, counted from the last possible send, asking ends and a person has to decide. Zero: 7 days.
	AskFor time.Duration
	// WatchFor is how long an attempt that has ended without money is still asked about, where one of its requests may have
	// been executed. Zero: 30 days. Negative: not at all.
	WatchFor time.Duration
	// RefundGrace is how long surplus money stays before it is given back by a reconciler. Zero: at once.
	RefundGrace time.Duration
	// RetentionMargin is taken off the provider's key retention, for clocks that differ and requests under way.
	// Zero: a tenth of the retention, at most 1 h.
	RetentionMargin time.Duration

	// MaxConcurrent bounds the requests under way at once; more wait for their turn, within their send's time. Zero: 256.
	MaxConcurrent int
	// Breaker stops sending while the provider fails.
	Breaker BreakerConfig

	// MaxAnswer bounds an answer's body, in bytes; a longer one is unreadable. Zero: 256 KiB.
	MaxAnswer int64

	// Who names this instance in events.
	Who string
	// Logger gets warnings about payments that are not settled and evidence that could not be stored. Nil: none.
	Logger *slog.Logger
	// Observer is told of sends and results.
	Observer Observer
}

// BreakerConfig configures the circuit breaker. Failures are refused connections, timeouts, lost and unreadable answers and
// 5xx; declines, 4xx and cancelled calls are not. While it is open nothing is sent, and calls say so.
type BreakerConfig struct {
	// FailurePercent opens the breaker. Zero: 10. Negative: no breaker.
	FailurePercent int
	// MinRequests is how many requests within Period it takes to judge. Zero: 100.
	MinRequests int
	// Period is over how long failures are counted. Zero: 1 min.
	Period time.Duration
	// OpenFor is how long it stays open before one request is let through. Zero: 15 s.
	OpenFor time.Duration
}

func (c Config) withDefaults() Config {
	c.Environment = orDefault(c.Environment, place(c.BaseURL))
	c.SendTimeout = orDefault(c.SendTimeout, 3*time.Second)
	c.CallTimeout = orDefault(c.CallTimeout, 10*time.Second)
	c.Retries = orDefault(c.Retries, 3)
	c.FirstWait = orDefault(c.FirstWait, time.Second)
	c.MaxWait = orDefault(c.MaxWait, 5*time.Second)
	c.RecordTimeout = orDefault(c.RecordTimeout, 5*time.Second)
	c.MinAge = orDefault(c.MinAge, 2*time.Minute)
	c.PreparedAfter = orDefault(c.PreparedAfter, 24*time.Hour)
	c.AskFor = orDefault(c.AskFor, attempt.DefaultAskFor)
	c.MaxConcurrent = orDefault(c.MaxConcurrent, 256)
	c.MaxAnswer = orDefault(c.MaxAnswer, 256<<10)
	c.Breaker.FailurePercent = orDefault(c.Breaker.FailurePercent, 10)
	c.Breaker.MinRequests = orDefault(c.Breaker.MinRequests, 100)
	c.Breaker.Period = orDefault(c.Breaker.Period, time.Minute)
	c.Breaker.OpenFor = orDefault(c.Breaker.OpenFor, 15*time.Second)
	if c.Provider != nil {
		caps := c.Provider.Capabilities()
		c.ProviderAccount = orDefault(c.ProviderAccount, caps.CredentialID)
		c.AbandonAfter = orDefault(c.AbandonAfter, max(30*time.Minute, 3*caps.Lookup.Lag))
		c.RetentionMargin = orDefault(c.RetentionMargin, min(caps.Key.Retention/10, time.Hour))
	}
	return c
}

// Validate reports every mistake in the configuration at once, relations between fields included. Nothing is sent while
// there is one. New calls it.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if c.Store == nil {
		fail("Store: missing; without a store no key can be kept")
	}
	if c.Provider == nil {
		fail("Provider: missing")
	} else {
		errs = append(errs, c.validateProvider(c.Provider.Capabilities())...)
	}
	if c.BaseURL == "" {
		fail("BaseURL: missing, want https://host[:port][/path]")
	} else if _, err := parseBaseURL(c.BaseURL); err != nil {
		fail("BaseURL: %w", err)
	}
	if _, err := attempt.NewDigester(c.DigestKeys...); err != nil {
		fail("DigestKeys: %w", err)
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"SendTimeout", c.SendTimeout}, {"CallTimeout", c.CallTimeout}, {"FirstWait", c.FirstWait}, {"MaxWait", c.MaxWait},
		{"RecordTimeout", c.RecordTimeout}, {"MinAge", c.MinAge}, {"PreparedAfter", c.PreparedAfter},
		{"RetentionMargin", c.RetentionMargin}, {"AskFor", c.AskFor}, {"RefundGrace", c.RefundGrace}, {"Breaker.Period", c.Breaker.Period}, {"Breaker.OpenFor", c.Breaker.OpenFor},
	} {
		if f.value < 0 {
			fail("%s: %s is negative", f.name, f.value)
		}
	}
	if c.CallTimeout <= c.SendTimeout {
		fail("CallTimeout: %s, want more than SendTimeout (%s)", c.CallTimeout, c.SendTimeout)
	}
	if c.MinAge < c.CallTimeout {
		fail("MinAge: %s, want at least CallTimeout (%s), or the provider is asked while the call still sends", c.MinAge, c.CallTimeout)
	}
	for i, wait := range c.AskWaits {
		if wait <= 0 {
			fail("AskWaits: the wait number %d is %s, want more than nothing", i+1, wait)
		}
	}
	if c.AskFor <= c.AbandonAfter {
		fail("AskFor: %s, want more than AbandonAfter (%s), or nothing is ever abandoned", c.AskFor, c.AbandonAfter)
	}
	if c.AbandonAfter > 0 && c.AbandonAfter <= c.MinAge {
		fail("AbandonAfter: %s, want more than MinAge (%s)", c.AbandonAfter, c.MinAge)
	}
	if c.RecordTimeout > time.Hour {
		fail("RecordTimeout: %s, want at most 1h: a dead sender's attempt waits that long", c.RecordTimeout)
	}
	if c.Breaker.Period > 0 && c.Breaker.Period < time.Second {
		fail("Breaker.Period: %s, want at least 1s", c.Breaker.Period)
	}
	if c.MaxWait < c.FirstWait {
		fail("MaxWait: %s, want at least FirstWait (%s)", c.MaxWait, c.FirstWait)
	}
	if c.MaxConcurrent < 0 {
		fail("MaxConcurrent: %d is negative", c.MaxConcurrent)
	}
	if c.MaxAnswer < 1<<10 {
		fail("MaxAnswer: %d bytes, want at least 1024", c.MaxAnswer)
	}
	if c.Breaker.FailurePercent > 100 {
		fail("Breaker.FailurePercent: %d, want at most 100", c.Breaker.FailurePercent)
	}
	if c.Breaker.MinRequests < 0 {
		fail("Breaker.MinRequests: %d is negative", c.Breaker.MinRequests)
	}
	if strings.ContainsFunc(c.ReferencePrefix, notKeyByte) {
		fail("ReferencePrefix: %q, want letters, digits, '-' and '_'", c.ReferencePrefix)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("payclient configuration; nothing was sent:\n%w", err)
	}
	return nil
}

// place names where a base URL leads: host, port and path.
func place(base string) string {
	u, err := parseBaseURL(base)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host) + strings.TrimSuffix(u.EscapedPath(), "/")
}

// idLength is the length of a UUID in its text form.
const idLength = 36

func (c Config) validateProvider(caps Capabilities) (errs []error) {
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf("Provider: "+format, args...)) }
	if caps.Name == "" || strings.ContainsFunc(caps.Name, notKeyByte) {
		fail("name %q, want letters, digits, '-' and '_'", caps.Name)
	}
	key := caps.Key
	if key.Header != "" && key.Header != http.CanonicalHeaderKey(key.Header) {
		fail("key header %q, want its canonical form %q", key.Header, http.CanonicalHeaderKey(key.Header))
	}
	if key.MaxLength > 0 && key.MaxLength < idLength {
		fail("takes keys of at most %d characters, ours have %d", key.MaxLength, idLength)
	}
	if n := len(c.ReferencePrefix) + idLength; caps.Reference.MaxLength > 0 && caps.Reference.MaxLength < n {
		fail("takes references of at most %d characters, ours have %d with the prefix %q", caps.Reference.MaxLength, n, c.ReferencePrefix)
	}
	if key.Retention > 0 && key.Header == "" {
		fail("declares how long keys are kept, and no key")
	}
	if key.KeepsEveryAnswer && key.Header == "" {
		fail("declares answers kept under a key, and no key")
	}
	if key.KeepsEveryAnswer && key.Retention-c.RetentionMargin <= c.CallTimeout {
		fail("keeps keys for %s less a margin of %s, which is not longer than one call (CallTimeout %s)", key.Retention, c.RetentionMargin, c.CallTimeout)
	}
	if caps.Lookup.Lag < 0 || key.Retention < 0 {
		fail("declares a negative time")
	}
	_, lacking := abilitiesOf(c.Provider, caps)
	errs = append(errs, lacking...)
	if c.AbandonAfter > 0 && c.AbandonAfter <= caps.Lookup.Lag {
		fail("may hide a charge for %s, AbandonAfter (%s) must be longer", caps.Lookup.Lag, c.AbandonAfter)
	}
	return errs
}

func notKeyByte(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}

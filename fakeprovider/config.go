package fakeprovider

import "time"

// Config sets a Provider up. The zero value is a well-behaved provider of the
// standard API; a zero field means its default, a negative number means none.
type Config struct {
	// Tokens maps bearer tokens to client names. Keys, charges and lookups are
	// per client. Nil: every non-empty token is a client of its own.
	Tokens map[string]string

	// AcceptRawKeys also takes an Idempotency-Key without quotes, as most
	// providers in the field do, instead of answering 400.
	AcceptRawKeys bool

	// IgnoreKeys makes the charges and refunds API keyless: a key is neither
	// needed nor looked at, a second POST is a second charge.
	IgnoreKeys bool

	// Keep says which answers are stored under a key. Zero: KeepAnswers.
	Keep Keep

	// KeyRetention is how long an answer stays under its key, counted from
	// the end of the first request; the same key is a new request afterwards.
	// Zero: 24h. Negative: answers are forgotten at once.
	KeyRetention time.Duration

	// LockTimeout frees a key whose request never ended (fault "crash"), so
	// that it does not stay locked for ever. Zero: 1m.
	LockTimeout time.Duration

	// SearchLag hides a charge or refund from searches and listings for this
	// long after it was made. Reading it by its id is not delayed. Zero: none.
	SearchLag time.Duration

	// UniqueReferences refuses a second charge with a merchant_reference that
	// the client has already used, with 409 and code duplicate_reference.
	// By default duplicates are made, so that a test sees double charges.
	UniqueReferences bool

	// Currencies limits what is accepted. Nil: every current ISO 4217 code.
	Currencies []string

	// MaxBody bounds a request's body in bytes; more is answered with 413.
	// Zero: 64 KiB.
	MaxBody int

	// RecordRequests is how many of the latest requests the ledger keeps in
	// full, bodies included, and how many of the latest webhook deliveries. Counters go on for ever. Zero: 1000. Negative:
	// none.
	RecordRequests int

	// Orders sets up the keyless order API.
	Orders OrdersConfig

	// Webhook says where to tell what became of charges and refunds. Zero:
	// nowhere.
	Webhook WebhookConfig

	// Script is in force from the start, and again after Reset. New panics on
	// a Fault that ParseFault refuses, Open returns the error.
	Script Script

	// Strict, usually the test itself, makes a POST that no script covers
	// fail aloud, naming the step that came closest; Close then also reports
	// the steps nobody used. Nil: unscripted requests are answered normally.
	Strict TB

	// Now is the clock of the books: expiry, lag, created dates. Nil:
	// time.Now. Waiting always uses the time package.
	Now func() time.Time
}

// TB is the part of testing.TB that Config.Strict needs.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Keep says which answers a key remembers.
type Keep int

const (
	// KeepAnswers stores every answer the provider itself gave, approvals and
	// declines alike. Answers put in by a fault (status, reply, ...) are not
	// the provider's own: what it would have said is stored instead, unless
	// the fault says "pin" or "forget".
	KeepAnswers Keep = iota
	// KeepAll stores injected answers with a status of 500 and more as well:
	// the same 500 comes back until the key expires.
	KeepAll
	// KeepSuccesses stores 2xx only; anything else is executed again.
	KeepSuccesses
)

// OrdersConfig sets up the keyless order API under /v1/orders.
type OrdersConfig struct {
	// Services by number. Nil: service 1 takes 10 to 10000 at a price of 1.
	Services map[int]Service
	// Balance is what a client may spend in all, in minor units. Zero: no
	// limit. Negative: nothing.
	Balance int64
	// Lookup allows GET /v1/orders?merchant_reference=R. Many panels have no
	// such thing; without it the answer is 404.
	Lookup bool
}

// Service is one thing an order panel sells.
type Service struct {
	Min, Max int   // quantity, both inclusive
	Price    int64 // per piece, in minor units
}

func (c Config) withDefaults() Config {
	if c.KeyRetention == 0 {
		c.KeyRetention = 24 * time.Hour
	}
	c.KeyRetention = max(c.KeyRetention, 0)
	if c.LockTimeout <= 0 {
		c.LockTimeout = time.Minute
	}
	c.SearchLag = max(c.SearchLag, 0)
	if c.MaxBody <= 0 {
		c.MaxBody = 64 << 10
	}
	if c.RecordRequests == 0 {
		c.RecordRequests = 1000
	}
	c.RecordRequests = max(c.RecordRequests, 0)
	if c.Orders.Services == nil {
		c.Orders.Services = map[int]Service{1: {Min: 10, Max: 10000, Price: 1}}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

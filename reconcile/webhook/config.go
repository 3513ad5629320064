package webhook

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// DefaultMaxBody bounds an event's body, in bytes. Standard Webhooks 1.0.0 recommends senders to stay below 20 kB.
const DefaultMaxBody = 64 << 10

// Client is whose payments the events are about; *payclient.Client is one.
type Client interface {
	Place() attempt.Place
	Schedule() attempt.Schedule
	KeepsAnswers() bool
}

// Config sets up a [Handler]. Store, Client, Read and one of Secrets and Verifier are required.
type Config struct {
	Store attempt.Store

	// Client is whose payments the events are about. It says Place, Schedule and KeepsAnswers; where there is no client, they
	// are given on their own.
	Client Client
	// Place is where the events come from: they count for attempts of that place and no others. It is the client's Place.
	Place attempt.Place

	// Secrets are those under which the provider signs as Standard Webhooks says: the current one, and during a replacement
	// the former or the next.
	Secrets []Secret
	// Tolerance is how far an event's timestamp may be from the present, to either side. Zero: 5 min.
	Tolerance time.Duration
	// Verifier proves events in another way, instead of Secrets and Tolerance.
	Verifier Verifier

	// Read reads a payload that the provider has signed. It fails with [attempt.ErrNoCharge] for an event that is about no
	// charge and no refund. Any other error means that the payload cannot be read; it is logged, and must hold nothing of it.
	// The notice's ID may be empty where the verifier tells the event's id.
	Read func(payload []byte) (attempt.Notice, error)

	// KeepsAnswers says that the provider keeps every answer under the key, so that a charge that failed speaks for every
	// send of its attempt.
	KeepsAnswers bool
	// Schedule plans when an attempt is looked at after an event. It is the client's Schedule.
	Schedule attempt.Schedule

	// MaxBody bounds a body, in bytes. Zero: 64 KiB.
	MaxBody int64
	// Who is said to have brought the evidence. Empty: "webhook".
	Who string
	// Now is the clock that timestamps are compared with. Nil: time.Now.
	Now func() time.Time
	// Logger logs what somebody has to see: orphans, unreadable and stale events, what was not stored, duties. Nil: nothing is.
	Logger   *slog.Logger
	Observer Observer
}

// New returns the handler of an endpoint, or every mistake in the Config.
func New(cfg Config) (*Handler, error) {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if cfg.Store == nil {
		fail("Store: missing")
	}
	if cfg.Client != nil {
		if cfg.Place != (attempt.Place{}) || cfg.KeepsAnswers {
			fail("Place, KeepsAnswers: given beside Client, which says them")
		}
		cfg.Place, cfg.Schedule, cfg.KeepsAnswers = cfg.Client.Place(), cfg.Client.Schedule(), cfg.Client.KeepsAnswers()
	}
	if cfg.Place.Provider == "" {
		fail("Client: missing, or Place: names no provider")
	}
	if cfg.Read == nil {
		fail("Read: missing")
	}
	switch {
	case cfg.MaxBody < 0:
		fail("MaxBody: %d is negative", cfg.MaxBody)
	case cfg.MaxBody == 0:
		cfg.MaxBody = DefaultMaxBody
	}
	verifier, err := cfg.verifier()
	if err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	if cfg.Who == "" {
		cfg.Who = "webhook"
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Secrets, cfg.Verifier = nil, verifier
	return &Handler{cfg: cfg, scope: scopeOf(cfg.Place)}, nil
}

func (cfg *Config) verifier() (Verifier, error) {
	if cfg.Verifier == nil {
		return NewStandard(cfg.Tolerance, cfg.Secrets...)
	}
	if len(cfg.Secrets) > 0 || cfg.Tolerance != 0 {
		return nil, errors.New("Verifier: given beside Secrets or Tolerance, which only the standard one reads")
	}
	return cfg.Verifier, nil
}

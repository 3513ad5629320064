package payclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Place returns where the attempts of this client belong: only those it sends and asks about.
func (c *Client) Place() attempt.Place {
	return attempt.Place{Provider: c.caps.Name, Account: c.cfg.ProviderAccount, Environment: c.cfg.Environment}
}

// Schedule returns when attempts of this client are to be looked at, as its Config and its provider's Capabilities say.
func (c *Client) Schedule() attempt.Schedule { return *c.schedule }

// KeepsAnswers tells whether the provider keeps every answer under the key, as its Capabilities say: a charge that failed then
// speaks for every send of its attempt.
func (c *Client) KeepsAnswers() bool { return c.caps.Key.KeepsEveryAnswer }

func scheduleOf(cfg Config, caps Capabilities) *attempt.Schedule {
	return &attempt.Schedule{
		First: cfg.MinAge, Waits: cfg.AskWaits, AskFor: cfg.AskFor, WatchFor: cfg.WatchFor, Grace: cfg.RefundGrace,
		Rule:      attempt.AbandonRule{After: max(cfg.AbandonAfter, 0), Lag: caps.Lookup.Lag, PreparedAfter: cfg.PreparedAfter},
		CannotAsk: !caps.Lookup.ByReference, LateApprovals: caps.LateApprovals,
	}
}

// ErrNotAsked says that a question did not leave: the breaker is open, too many requests are under way, the client is closed,
// the attempt belongs elsewhere, or the provider cannot be asked. It says nothing about the payment.
var ErrNotAsked = errors.New("not asked")

// Ask asks the provider about an attempt, a refund too, and returns what it said as evidence; recording it is the caller's
// business. asked is a time by the store's clock before the question. A question that left and had no usable answer is
// evidence of that; an error, always [ErrNotAsked], says that none left.
//
// It shares the client's breaker and its bound on requests under way, so that asking never becomes the outage.
func (c *Client) Ask(ctx context.Context, a attempt.Attempt, asked time.Time) (attempt.Evidence, error) {
	if a.Place() != c.Place() {
		return attempt.Evidence{}, fmt.Errorf("attempt %s: %w: it belongs to %+v", a.ID, ErrNotAsked, a.Place())
	}
	if !c.canAsk(&a) {
		return attempt.Evidence{}, fmt.Errorf("attempt %s: %w: the provider cannot be asked by reference", a.ID, ErrNotAsked)
	}
	if err := c.begin(); err != nil {
		return attempt.Evidence{}, fmt.Errorf("attempt %s: %w: %w", a.ID, ErrNotAsked, err)
	}
	defer c.pending.Done()
	l := c.find(ctx, questionAbout(&a), time.Now().Add(c.cfg.CallTimeout))
	if l.notMade {
		return attempt.Evidence{}, fmt.Errorf("attempt %s: %w: %s", a.ID, ErrNotAsked, l.Detail)
	}
	return c.evidence(l, asked), nil
}

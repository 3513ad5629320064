package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Config configures a [Reconciler]. Zero means the default named at each field. [New] reports every mistake at once.
type Config struct {
	// Store holds the attempts. Required.
	Store attempt.Store
	// Askers ask about the attempts, one for each place. Attempts of other places are left alone. Required.
	Askers []Asker

	// Concurrency is how many questions, or refunds, are under way at once, over all askers. Zero: 8.
	Concurrency int
	// Batch is how many attempts are taken from the store at once. Zero: 200.
	Batch int
	// Lease is for how long no other reconciler takes what this one has taken; after a crash it waits that long. At least twice
	// AskTimeout: what can no longer be answered within it is left. Zero: 2 min.
	Lease time.Duration
	// AskTimeout bounds one question, and one refund. Zero: 30 s.
	AskTimeout time.Duration
	// Every is how long Run waits when nothing is known to be due sooner, plus up to a fifth by chance. Zero: 10 s.
	Every time.Duration

	// ListFrom is how many due attempts of one asker make it list what the provider holds instead of asking about each. What
	// the listing does not show is asked about all the same: a listing proves no absence. Zero: 50. Negative: never.
	ListFrom int
	// ListBatch is how many attempts are taken at once where listing pays; they are held in memory, and are leased for 10 min
	// at least. Zero: 10,000.
	ListBatch int
	// ListMargin is how much is listed before the first and after the last possible send. Zero: 5 min.
	ListMargin time.Duration

	// Policy says what becomes of surplus money.
	Policy Policy

	// Also are run once in each pass, before it: what the host wants done as regularly, such as adopting webhook events that
	// had come before their attempt. One that fails or panics stops nothing.
	Also []func(ctx context.Context) error

	// Who names this instance in events. Empty: "reconciler".
	Who string
	// Logger gets a line for each attempt that has ended, each duty, and each failure. Nil: none.
	Logger *slog.Logger
	// Observer is told what happens.
	Observer Observer
}

// Policy says what becomes of surplus money: of a refund duty whose grace (attempt.Schedule) is over.
type Policy struct {
	// LateMoney is for money that turned up after its attempt had ended without it, or on a cancelled order. Empty: LateRefund.
	LateMoney LateMoney
}

// LateMoney says what becomes of money that came too late. Whatever it says, a person's decision about a charge goes first.
type LateMoney string

// What may become of money that came too late.
const (
	// LateRefund gives it back. A refund that the provider refuses is left to a person.
	LateRefund LateMoney = "refund"
	// LateReview leaves it to a person.
	LateReview LateMoney = "review"
	// LateKeep keeps it as the order's payment. Money of a cancelled order, another amount than was asked for, money of an order
	// that another attempt has paid or may have, and any that a person has decided to give back, is given back all the same.
	LateKeep LateMoney = "keep"
)

// Defaults of a Config.
const (
	DefaultConcurrency = 8
	DefaultBatch       = 200
	DefaultLease       = 2 * time.Minute
	DefaultAskTimeout  = 30 * time.Second
	DefaultEvery       = 10 * time.Second
	DefaultListFrom    = 50
	DefaultListBatch   = 10_000
	DefaultListMargin  = 5 * time.Minute
)

// leastListLease is the shortest lease of a batch that is listed: some hundred pages, and as many commits.
const leastListLease = 10 * time.Minute

func (c Config) withDefaults() Config {
	c.Concurrency = cmp.Or(c.Concurrency, DefaultConcurrency)
	c.Batch = cmp.Or(c.Batch, DefaultBatch)
	c.Lease = cmp.Or(c.Lease, DefaultLease)
	c.AskTimeout = cmp.Or(c.AskTimeout, DefaultAskTimeout)
	c.Every = cmp.Or(c.Every, DefaultEvery)
	c.ListFrom = cmp.Or(c.ListFrom, DefaultListFrom)
	c.ListBatch = cmp.Or(c.ListBatch, DefaultListBatch)
	c.ListMargin = cmp.Or(c.ListMargin, DefaultListMargin)
	c.Policy.LateMoney = cmp.Or(c.Policy.LateMoney, LateRefund)
	c.Who = cmp.Or(c.Who, "reconciler")
	return c
}

// Validate reports every mistake in the configuration at once, the askers' schedules included. New calls it.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Store == nil {
		fail("Store: missing")
	}
	if len(c.Askers) == 0 {
		fail("Askers: none; nothing could be asked about")
	}
	places := make(map[attempt.Place]int)
	for i, a := range c.Askers {
		if missing(a) {
			fail("Askers: number %d is nil", i+1)
			continue
		}
		if first, twice := places[a.Place()]; twice {
			fail("Askers: numbers %d and %d ask the same place, %+v", first, i+1, a.Place())
		} else {
			places[a.Place()] = i + 1
		}
		for _, err := range scheduleMistakes(a.Schedule()) {
			fail("Askers: number %d (%s): %w", i+1, a.Place().Provider, err)
		}
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"Lease", c.Lease}, {"AskTimeout", c.AskTimeout}, {"Every", c.Every}, {"ListMargin", c.ListMargin}} {
		if f.value < 0 {
			fail("%s: %s is negative", f.name, f.value)
		}
	}
	if c.Lease < 2*c.AskTimeout {
		fail("Lease: %s, want at least twice AskTimeout (%s), or others ask while a question is under way", c.Lease, c.AskTimeout)
	}
	for _, f := range []struct {
		name  string
		value int
	}{{"Concurrency", c.Concurrency}, {"Batch", c.Batch}, {"ListBatch", c.ListBatch}} {
		if f.value < 0 {
			fail("%s: %d is negative", f.name, f.value)
		}
	}
	switch c.Policy.LateMoney {
	case LateRefund, LateReview, LateKeep:
	default:
		fail("Policy.LateMoney: %q, want %s, %s or %s", c.Policy.LateMoney, LateRefund, LateReview, LateKeep)
	}
	for i, f := range c.Also {
		if f == nil {
			fail("Also: number %d is nil", i+1)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("reconcile configuration; nobody was asked:\n%w", err)
	}
	return nil
}

// missing tells whether there is no asker behind the interface.
func missing(a Asker) bool {
	if a == nil {
		return true
	}
	v := reflect.ValueOf(a)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// scheduleMistakes holds the one line of time: first question < abandoning < the end of asking, and abandoning later than a
// charge may be hidden.
func scheduleMistakes(s attempt.Schedule) (errs []error) {
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, f := range []struct {
		name  string
		value time.Duration
	}{
		{"First", s.First}, {"AskFor", s.AskFor}, {"Grace", s.Grace},
		{"Rule.After", s.Rule.After}, {"Rule.Lag", s.Rule.Lag}, {"Rule.PreparedAfter", s.Rule.PreparedAfter},
	} {
		if f.value < 0 {
			fail("schedule: %s: %s is negative", f.name, f.value)
		}
	}
	for i, wait := range s.Waits {
		if wait <= 0 {
			fail("schedule: the wait number %d is %s, want more than nothing", i+1, wait)
		}
	}
	after, askFor := s.Rule.After, cmp.Or(s.AskFor, attempt.DefaultAskFor)
	switch {
	case s.CannotAsk:
	case after <= 0: // nothing is abandoned without a person
		if s.First >= askFor {
			fail("schedule: the first question (%s) comes after asking has ended (%s)", s.First, askFor)
		}
	default:
		if after <= s.First {
			fail("schedule: abandons after %s, want more than the time to the first question (%s)", after, s.First)
		}
		if after <= s.Rule.Lag {
			fail("schedule: abandons after %s, want more than a charge may be hidden for (%s)", after, s.Rule.Lag)
		}
		if askFor <= after {
			fail("schedule: asks for %s, want more than the time to abandoning (%s), or nothing is ever abandoned", askFor, after)
		}
	}
	return errs
}

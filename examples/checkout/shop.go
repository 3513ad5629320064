package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/reconcile"
	"github.com/chargeonce/chargeonce/reconcile/webhook"
)

// Config sets up a Shop. DB, Payments, WebhookSecret and ReadEvent are required.
type Config struct {
	// DB is where the shop's tables and the attempts are: the name of a SQLite file, or the URL of a PostgreSQL database.
	DB string
	// Payments says how to pay, but for the Store, which is the Shop's own. Its Who names this instance in all histories.
	Payments payclient.Config
	// WebhookSecret is what the provider signs its events with, and ReadEvent reads them.
	WebhookSecret string
	ReadEvent     func(payload []byte) (attempt.Notice, error)
	// Timings are how long things wait for each other. Zero: DefaultTimings.
	Timings Timings
	// Every is how often the background work looks whether there is something to do. Zero: 1 s.
	Every time.Duration
	// Log gets what somebody should see. Nil: nothing is logged.
	Log *slog.Logger
}

// Shop takes orders and has them paid. It is safe for concurrent use.
type Shop struct {
	store   storage
	client  *payclient.Client
	events  *webhook.Handler
	asking  *reconcile.Reconciler
	timings Timings
	every   time.Duration
	log     *slog.Logger
}

// relayName names the shop's outbox in the store. It must never change: what stands there is addressed to this name.
const relayName = "checkout"

// Open opens the shop, or says everything that forbids it. Close ends it.
func Open(ctx context.Context, cfg Config) (s *Shop, err error) {
	if cfg.Timings == (Timings{}) {
		cfg.Timings = DefaultTimings
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s = &Shop{timings: cfg.Timings, every: cmp.Or(cfg.Every, time.Second), log: cfg.Log}
	if s.store, err = openStorage(ctx, cfg.DB); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
			s = nil
		}
	}()
	// Before anything can be paid: from here on no outcome is missed.
	if err := s.store.AddRelay(ctx, relayName); err != nil {
		return s, err
	}

	cfg.Payments.Store, cfg.Payments.Logger = s.store, cfg.Log
	if s.client, err = payclient.New(cfg.Payments); err != nil {
		return s, err
	}
	if err := cfg.Timings.Validate(s.client.Schedule()); err != nil {
		return s, err
	}
	if s.events, err = webhook.New(webhook.Config{
		Store: s.store, Client: s.client,
		Secrets: []webhook.Secret{webhook.NewSecret(cfg.WebhookSecret)},
		Read:    cfg.ReadEvent, Logger: cfg.Log, Who: cfg.Payments.Who,
	}); err != nil {
		return s, err
	}
	s.asking, err = reconcile.New(reconcile.Config{
		Store: s.store, Askers: []reconcile.Asker{s.client}, Logger: cfg.Log,
		Who:   cfg.Payments.Who,
		Every: s.every, // a pass that finds nothing costs one read of an index
		Also:  []func(context.Context) error{s.adopt},
	})
	return s, err
}

// adopt makes evidence of events that came before their attempt was stored.
func (s *Shop) adopt(ctx context.Context) error {
	_, err := s.events.Adopt(ctx)
	return err
}

// Work does what has to be done in the background, until ctx ends: it asks the provider about what is open and gives back what
// is owed, learns the outcomes, and cancels orders that were not paid in time. Any number of processes may do so at once. It
// returns why it ended: a shop must not go on without it.
func (s *Shop) Work(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var all sync.WaitGroup
	for _, f := range []func(context.Context) error{s.asking.Run, s.relayOutcomes, s.cancelLate} {
		all.Go(func() { end(f(ctx)) })
	}
	all.Wait()
	return context.Cause(ctx)
}

// ClosePayments waits until every payment under way is stored. Requests that come later are refused.
func (s *Shop) ClosePayments(ctx context.Context) error { return s.client.Close(ctx) }

// Close closes the database. Nothing may use the shop any more.
func (s *Shop) Close() error { return s.store.Close() }

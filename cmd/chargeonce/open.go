package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/internal/batch"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// The providers.
const (
	providerFake     = "fake"     // a fake provider inside this process
	providerStandard = "standard" // the standard charges API
)

// fakeAdapter is the standard adapter under a name of its own, so that no attempt of the fake provider is ever taken for one
// of a real provider.
type fakeAdapter struct{ *standard.Provider }

// Capabilities implements [payclient.Provider].
func (a fakeAdapter) Capabilities() payclient.Capabilities {
	caps := a.Provider.Capabilities()
	caps.Name = providerFake
	return caps
}

// fakeLag is how long a charge of the fake provider may be missing from its lookups: none is, so the least time there is.
const fakeLag = time.Millisecond

// adapter makes the provider's adapter.
func (s settings) adapter() (payclient.Provider, error) {
	switch s.provider {
	case providerFake:
		p, err := standard.New(standard.Config{Token: payclient.NewSecret("fake"), LookupLag: fakeLag})
		return fakeAdapter{p}, err
	case providerStandard:
		c := s.standard
		return standard.New(standard.Config{
			Token: c.token, KeyRetention: c.keyRetention, KeepsSuccessesOnly: c.successesOnly, NoKeys: c.noKeys,
			LookupLag: c.lookupLag, NoLookup: c.noLookup, IdleTimeout: c.idleTimeout,
		})
	}
	return nil, errors.New("no provider: --provider fake needs nothing, --provider standard needs --url and CHARGEONCE_STANDARD_TOKEN")
}

// clientConfig is the client's configuration, every time in it said.
func (s settings) clientConfig(adapter payclient.Provider, baseURL string) payclient.Config {
	caps := adapter.Capabilities()
	t := s.timings
	if t.abandonAfter == 0 {
		t.abandonAfter = max(30*time.Minute, 3*caps.Lookup.Lag)
	}
	if t.retentionMargin == 0 {
		t.retentionMargin = min(caps.Key.Retention/10, time.Hour)
	}
	if t.retries == 0 {
		t.retries = -1
	}
	breaker := s.breaker
	if breaker.FailurePercent == 0 {
		breaker.FailurePercent = -1
	}
	environment := s.environment
	switch {
	case environment != "":
	case s.provider == providerFake: // its address is another one in each run, and its books are not read yet: see atBooks
		environment = environmentWithoutID
	default:
		environment = addressOf(baseURL)
	}
	return payclient.Config{
		Provider: adapter, BaseURL: baseURL, ProviderAccount: orElse(s.providerAccount, caps.CredentialID), Environment: environment,
		DigestKeys: s.digestKeys, ReferencePrefix: s.referencePrefix, DeriveFrom: s.deriveFrom,
		SendTimeout: t.send, CallTimeout: t.call, Retries: t.retries, FirstWait: t.firstWait, MaxWait: t.maxWait,
		RecordTimeout: t.record, MinAge: t.minAge, AbandonAfter: t.abandonAfter, PreparedAfter: t.preparedAfter,
		AskWaits: t.askWaits, AskFor: t.askFor, WatchFor: t.watchFor, RefundGrace: t.refundGrace,
		RetentionMargin: t.retentionMargin, MaxConcurrent: max(s.concurrency, 256), Breaker: breaker, Who: s.whoami(),
	}
}

// addressOf is what stands for the environment where none is named: host, port and path of a base URL, as package payclient
// has it.
func addressOf(baseURL string) string {
	u, err := url.Parse(baseURL)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host) + strings.TrimSuffix(u.EscapedPath(), "/")
}

// whoami names this instance in the history.
func (s settings) whoami() string {
	if s.who != "" {
		return s.who
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return fmt.Sprintf("chargeonce@%s:%d", host, os.Getpid())
}

// check reports everything that is wrong with provider and timings, before anything is opened.
func (s settings) check() error {
	if s.providerUnknown {
		return nil // told where it was read
	}
	var errs []error
	if s.provider == providerStandard && s.standard.token.IsZero() {
		errs = append(errs, errors.New("standard: no token; set CHARGEONCE_STANDARD_TOKEN, or standard.token_file in the config file"))
		s.standard.token = payclient.NewSecret("missing") // for the checks below only
	}
	adapter, err := s.adapter()
	if err != nil {
		return errors.Join(append(errs, inOwnWords(err))...)
	}
	address := s.url
	if s.provider == providerFake {
		if s.url != "" {
			errs = append(errs, errors.New("--url: --provider fake brings its own address, --url is for --provider standard"))
		}
		address = "http://127.0.0.1"
		if strings.HasPrefix(s.environment, environmentOfBooks) {
			errs = append(errs, s.checkBooks())
		}
	}
	cfg := s.clientConfig(adapter, address)
	cfg.Store = new(attempt.Memory) // only to be checked: nothing is kept in it
	return errors.Join(append(errs, inOwnWords(cfg.Validate()))...)
}

// connection is a client, and what it needs to be there as long as it is used.
type connection struct {
	*payclient.Client
	config payclient.Config
	close  func() error
	// asked is told of each question about a payment, if it is set; before anybody asks.
	asked func(reference string, answer attempt.LookupAnswer)
}

// connect makes the client. For the fake provider it starts one inside this process, on the loopback, with its ledger
// in a file.
func (a *app) connect(ctx context.Context, s settings, store attempt.Store, talk slog.Handler) (*connection, error) {
	adapter, err := s.adapter()
	if err != nil {
		return nil, err
	}
	c := &connection{close: func() error { return nil }}
	address := s.url
	if s.provider == providerFake {
		if s.environment != "" {
			if err := s.checkBooks(); err != nil {
				return nil, usage(err)
			}
		}
		server, err := a.startFake(ctx, s, store)
		if err != nil {
			return nil, err
		}
		address, c.close = "http://"+server.address, server.end
		if s, err = s.atBooks(server.id); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	c.config = s.clientConfig(adapter, address)
	c.config.Store = store
	c.config.Observer.Asked = func(ctx context.Context, reference string, answer attempt.LookupAnswer, took time.Duration) {
		batch.Asked(ctx, reference, answer, took)
		if c.asked != nil {
			c.asked(reference, answer)
		}
	}
	if talk != nil {
		c.config.Logger = slog.New(talk)
	}
	if c.Client, err = payclient.New(c.config); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// The environment of payments to the fake provider.
const (
	environmentOfBooks   = "fake-" // goes before the id of its books: other books are another place
	environmentWithoutID = "test"  // of books that an earlier release has begun, which have no id
)

// atBooks returns the settings with the environment of the fake provider's books, which is their id. Any other name is refused,
// for with it all books would be one place: some would be asked about payments that only others know, and be believed. Books without
// an id, which only an earlier release has begun, have the name that is given, as they had there.
func (s settings) atBooks(id string) (settings, error) {
	environment := environmentWithoutID
	if id != "" {
		environment = environmentOfBooks + id
	}
	foreign := id != "" || strings.HasPrefix(s.environment, environmentOfBooks)
	if s.environment != "" && s.environment != environment && foreign {
		return s, s.otherBooks(environment)
	}
	s.environment = orElse(s.environment, environment)
	return s, nil
}

func (s settings) otherBooks(these string) error {
	return fmt.Errorf("environment %s: not that of the fake provider whose books are in %s (%s), and a fake provider has no other: nothing was sent. Leave it out; to get to another fake provider, %s",
		quoted(s.environment), s.fakeLedgerFile(), these, toOtherBooks)
}

// checkBooks reports that the environment which is named is of other books than those in the file, before anything is opened.
func (s settings) checkBooks() error {
	id, err := fakeprovider.ReadID(s.fakeLedgerFile())
	if errors.Is(err, fs.ErrNotExist) {
		return s.otherBooks("which are not there yet")
	}
	if err == nil {
		_, err = s.atBooks(id)
	}
	return err
}

// atBooksFound is atBooks for who asks no provider: the books are looked at only, and must be there to name the environment.
func (s settings) atBooksFound() (settings, error) {
	if s.provider != providerFake || s.environment != "" {
		return s, nil // checked already
	}
	id, err := fakeprovider.ReadID(s.fakeLedgerFile())
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("there are no books of a fake provider in %s: %s", s.fakeLedgerFile(), toOtherBooks)
	}
	if err != nil {
		return s, err
	}
	return s.atBooks(id)
}

// toOtherBooks says how a command gets to the fake provider that has a payment.
const toOtherBooks = "start the command in the folder it was paid in, or name the file in CHARGEONCE_FAKE_LEDGER (fake_ledger in the config file)"

// fakeServer is a fake provider inside this process.
type fakeServer struct {
	address string
	id      string // of its books
	end     func() error
}

// startFake starts the fake provider. Where another process has the ledger, it waits for it. A new one knows nothing of what is in
// the store, and that is told.
func (a *app) startFake(ctx context.Context, s settings, store attempt.Store) (*fakeServer, error) {
	ledger := s.fakeLedgerFile()
	begin := func() (*fakeprovider.Server, bool, error) {
		_, none := fakeprovider.ReadID(ledger) // what is wrong with it, Listen tells
		server, err := fakeprovider.Listen(fakeprovider.ServerConfig{Listen: "127.0.0.1:0", File: ledger})
		return server, errors.Is(none, fs.ErrNotExist), err
	}
	server, isNew, err := begin()
	for told := false; errors.Is(err, fakeprovider.ErrInUse); told = true {
		if !told {
			a.tell("another run has the fake provider's ledger %s; waiting for it to end", filepath.Base(ledger))
		}
		timer := time.NewTimer(20 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
		server, isNew, err = begin()
	}
	if err != nil {
		return nil, err
	}
	if isNew {
		if err := a.tellNewFake(ctx, s, store); err != nil {
			return nil, errors.Join(err, server.Close())
		}
	}
	// It ends by end, after the client, and not with the context, which an interrupt cancels.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- server.Serve(serving) }()
	return &fakeServer{address: server.Addr(), id: server.Provider().ID(), end: func() error {
		stop()
		if err := <-served; err != nil && !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}}, nil
}

// tellNewFake tells that there is a new fake provider, where somebody may have expected one that is there: beside payments, and in
// a folder that has nothing to do with the database.
func (a *app) tellNewFake(ctx context.Context, s settings, store attempt.Store) error {
	expected := s.db.isPostgres()
	for _, err := range store.List(ctx, attempt.Filter{Limit: 1}) {
		if err != nil {
			return err
		}
		expected = true
	}
	if expected {
		file, err := filepath.Abs(s.fakeLedgerFile())
		if err != nil {
			file = s.fakeLedgerFile()
		}
		a.tell("a new fake provider in %s: it knows no payment", file)
	}
	return nil
}

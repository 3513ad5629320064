package main

import (
	"context"
	"errors"
	"fmt"
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
	case s.provider == providerFake:
		environment = "test" // its address is another one in each run
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
		server, err := a.startFake(ctx, s.fakeLedgerFile())
		if err != nil {
			return nil, err
		}
		address, c.close = "http://"+server.address, server.end
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

// fakeServer is a fake provider inside this process.
type fakeServer struct {
	address string
	end     func() error
}

// startFake starts the fake provider. Where another process has the ledger, it waits for it.
func (a *app) startFake(ctx context.Context, ledger string) (*fakeServer, error) {
	server, err := fakeprovider.Listen(fakeprovider.ServerConfig{Listen: "127.0.0.1:0", File: ledger})
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
		server, err = fakeprovider.Listen(fakeprovider.ServerConfig{Listen: "127.0.0.1:0", File: ledger})
	}
	if err != nil {
		return nil, err
	}
	// It ends by end, after the client, and not with the context, which an interrupt cancels.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- server.Serve(serving) }()
	return &fakeServer{address: server.Addr(), end: func() error {
		stop()
		if err := <-served; err != nil && !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}}, nil
}

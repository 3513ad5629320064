package fakeprovider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// Mode is how a server treats every POST that no script and no draw covers.
type Mode string

const (
	ModeNormal  Mode = "normal"
	ModeSlow    Mode = "slow"    // charged at once, answered after Delay
	ModeDrop    Mode = "drop"    // not charged, silence until the client gives up
	ModeError   Mode = "error"   // not charged, answered with 500
	ModeDecline Mode = "decline" // declined whatever the source
)

// ServerConfig sets a server up. A zero field means its default.
type ServerConfig struct {
	// Listen is the address, on the loopback interface: the fake takes any
	// token and lets anybody read its ledger. Zero: 127.0.0.1:8089. Port 0
	// picks a free one.
	Listen string
	// Mode is how POSTs are treated. Zero: ModeNormal.
	Mode Mode
	// Delay is how long answers to POSTs take. Zero: 5s in ModeSlow, none
	// otherwise.
	Delay time.Duration
	// FaultRate is the share of POSTs that get one of DrawnFaults, 0 to 1.
	FaultRate float64
	// Seed makes the drawn faults repeatable.
	Seed uint64
	// File keeps the ledger over restarts, see Open. Zero: in memory.
	File string
	// WebhookURL and WebhookSecret are where events are posted and what signs
	// them, see WebhookConfig. Zero: those of Provider.
	WebhookURL, WebhookSecret string
	// Provider is everything else. Its Script is in force after the mode's.
	Provider Config
	// Ready, if set, is called by ListenAndServe with the bound address.
	Ready func(addr string)
}

func (c ServerConfig) withDefaults() ServerConfig {
	if c.Listen == "" {
		c.Listen = "127.0.0.1:8089"
	}
	if c.Mode == "" {
		c.Mode = ModeNormal
	}
	if c.Delay == 0 && c.Mode == ModeSlow {
		c.Delay = 5 * time.Second
	}
	c.Provider.Webhook.URL = cmp.Or(c.WebhookURL, c.Provider.Webhook.URL)
	c.Provider.Webhook.Secret = cmp.Or(c.WebhookSecret, c.Provider.Webhook.Secret)
	return c
}

// Validate reports every mistake at once.
func (c ServerConfig) Validate() error {
	c = c.withDefaults()
	var errs []error
	host, _, err := net.SplitHostPort(c.Listen)
	switch ip := net.ParseIP(host); {
	case err != nil:
		errs = append(errs, fmt.Errorf("Listen: %w", err))
	case host != "localhost" && (ip == nil || !ip.IsLoopback()):
		errs = append(errs, fmt.Errorf("Listen: %s is not on the loopback interface (use 127.0.0.1)", c.Listen))
	}
	if _, err := c.standing(); err != nil {
		errs = append(errs, err)
	}
	if c.Delay < 0 {
		errs = append(errs, fmt.Errorf("setting Delay: %s is negative", c.Delay))
	}
	if !(c.FaultRate >= 0 && c.FaultRate <= 1) {
		errs = append(errs, fmt.Errorf("setting FaultRate: %v is not between 0 and 1", c.FaultRate))
	}
	if err := c.Provider.Webhook.Validate(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.Provider.Script.parse(); err != nil {
		errs = append(errs, fmt.Errorf("Provider.Script: %w", err))
	}
	return errors.Join(errs...)
}

// standing is the fault of the mode.
func (c ServerConfig) standing() (Fault, error) {
	var f Fault
	switch c.Mode {
	case ModeNormal, ModeSlow:
		f = Answer
	case ModeDrop:
		f = Hang
	case ModeError:
		f = Status(http.StatusInternalServerError)
	case ModeDecline:
		f = Decline("generic_decline")
	default:
		return "", fmt.Errorf("Mode: %q is none of normal, slow, drop, error, decline", c.Mode)
	}
	if c.Delay > 0 {
		f = f.And(Slow(c.Delay))
	}
	return f, nil
}

// script puts mode and draw before the provider's own script.
func (c ServerConfig) script() (Script, error) {
	s := c.Provider.Script
	f, err := c.standing()
	s.Rules = append([]Rule{{Always: f}}, s.Rules...)
	if c.FaultRate > 0 && s.Draw == nil {
		s.Draw = &Draw{Seed: c.Seed, Rate: c.FaultRate}
	}
	return s, err
}

// Server is a fake provider on a socket.
type Server struct {
	provider *Provider
	listener net.Listener
	http     *http.Server
}

// Listen opens the ledger and the socket. It prints nothing; Addr tells where
// it listens. Nothing is answered before Serve.
func Listen(c ServerConfig) (*Server, error) {
	c = c.withDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	var err error
	if c.Provider.Script, err = c.script(); err != nil {
		return nil, err
	}
	var p *Provider
	if c.File == "" {
		p = New(c.Provider)
	} else if p, err = Open(c.File, c.Provider); err != nil {
		return nil, err
	}
	var listen net.ListenConfig
	l, err := listen.Listen(context.Background(), "tcp", c.Listen) // on the loopback interface: nothing to wait for
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return &Server{provider: p, listener: l, http: &http.Server{
		Handler: p, ConnContext: p.ConnContext, ErrorLog: log.New(io.Discard, "", 0),
		ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}}, nil
}

// Addr is the bound address, such as 127.0.0.1:8089.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL is the base URL of the API.
func (s *Server) URL() string { return "http://" + s.Addr() }

// Provider gives access to the books and the faults.
func (s *Server) Provider() *Provider { return s.provider }

// Serve answers until ctx ends, then stops in good order: requests that only
// wait are cut, the others are answered, the ledger is closed. The error is
// nil after an end by ctx.
func (s *Server) Serve(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return errors.Join(err, s.Close())
	case <-ctx.Done():
	}
	err := s.Close()
	if failed := <-served; !errors.Is(failed, http.ErrServerClosed) {
		err = errors.Join(err, failed)
	}
	return err
}

// Close ends a server, one that never served included.
func (s *Server) Close() error {
	// What only waits has no end of its own: the provider ends it, once no
	// new connection can come.
	stop, done := context.WithCancel(context.Background())
	done()
	err := s.http.Shutdown(stop)
	if errors.Is(err, context.Canceled) {
		err = nil // it has begun, which is all that was wanted
	}
	s.listener.Close() // may be closed already
	err = errors.Join(err, s.provider.Close())
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if failed := s.http.Shutdown(ctx); failed != nil {
		err = errors.Join(err, s.http.Close())
	}
	return err
}

// ListenAndServe listens, calls c.Ready with the bound address, and serves
// until ctx ends.
func ListenAndServe(ctx context.Context, c ServerConfig) error {
	s, err := Listen(c)
	if err != nil {
		return err
	}
	if c.Ready != nil {
		c.Ready(s.Addr())
	}
	return s.Serve(ctx)
}

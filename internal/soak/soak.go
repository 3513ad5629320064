package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/postgres"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/chargeonce/chargeonce/reconcile"
)

// config says how long is paid, and how.
type config struct {
	length time.Duration
	store  string // sqlite, memory, postgres
	db     string // of PostgreSQL
	rate   int    // payments per second
	faults float64
}

// soaking is one run.
type soaking struct {
	config
	store attempt.Store
	files []string
	began time.Time

	client   *payclient.Client
	engine   *reconcile.Reconciler
	payments atomic.Int64

	mu       sync.Mutex
	outcomes map[string]int // guarded by mu
	samples  []sample
	refunds  int // asked for, guarded by mu
}

// envBank makes this program the fake provider of another one. What it holds stays out of that one's heap.
const envBank = "CHARGEONCE_SOAK_BANK"

// serveBank is the main function of the fake provider. It ends with its standard input.
func serveBank(rate string) error {
	faults, err := strconv.ParseFloat(rate, 64)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return fakeprovider.ListenAndServe(ctx, fakeprovider.ServerConfig{
		Listen: "127.0.0.1:0", FaultRate: faults, Seed: 7, Provider: fakeprovider.Config{RecordRequests: -1},
		Ready: func(address string) { fmt.Println("http://" + address) },
	})
}

// startBank starts the fake provider in a process of its own.
func startBank(faults float64) (address string, stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(context.Background(), self)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%v", envBank, faults))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("the fake provider does not start: %w", err), stop())
	}
	return strings.TrimSpace(line), stop, nil
}

// soak runs, and writes its table. It reports whether all is well.
func soak(ctx context.Context, c config, out io.Writer) (ok bool, err error) {
	s := &soaking{config: c, outcomes: make(map[string]int)}
	dir, err := os.MkdirTemp("", "chargeonce-soak")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	closeStore, err := s.openStore(ctx, dir)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, closeStore()) }()
	address, stop, err := startBank(c.faults)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := s.connect(address); err != nil {
		return false, err
	}
	if err := s.run(ctx); err != nil {
		return false, err
	}
	open, err := s.settle(ctx, address)
	if err != nil {
		return false, err
	}
	twice, charged, err := doubles(ctx, address)
	if err != nil {
		return false, err
	}
	return s.report(out, open, twice, charged), s.client.Close(ctx)
}

func (s *soaking) openStore(ctx context.Context, dir string) (closing func() error, err error) {
	switch s.config.store {
	case "memory":
		s.store = new(attempt.Memory)
		return func() error { return nil }, nil
	case "sqlite":
		file := filepath.Join(dir, "soak.db")
		opened, err := sqlite.Open(ctx, file, sqlite.Options{})
		if err != nil {
			return nil, err
		}
		s.store, s.files = opened, []string{file, file + "-wal"}
		return opened.Close, nil
	case "postgres":
		schema := fmt.Sprintf("soak_%d", time.Now().UnixNano())
		if _, err := postgres.Migrate(ctx, s.db, postgres.MigrateOptions{Schema: schema}); err != nil {
			return nil, err
		}
		opened, err := postgres.Open(ctx, s.db, postgres.Options{Schema: schema})
		if err != nil {
			return nil, err
		}
		s.store = opened
		return opened.Close, nil
	}
	return nil, fmt.Errorf("-store %q: want sqlite, memory or postgres", s.config.store)
}

func (s *soaking) connect(address string) error {
	adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("soak"), LookupLag: 100 * time.Millisecond})
	if err != nil {
		return err
	}
	s.client, err = payclient.New(payclient.Config{
		Provider: adapter, Store: s.store, BaseURL: address, Environment: "soak",
		SendTimeout: time.Second, CallTimeout: 3 * time.Second, Retries: 1, FirstWait: 20 * time.Millisecond, MaxWait: 100 * time.Millisecond,
		RecordTimeout: time.Second, MinAge: 3 * time.Second, AbandonAfter: 5 * time.Second, RefundGrace: time.Millisecond,
		AskWaits: []time.Duration{time.Second}, Breaker: payclient.BreakerConfig{FailurePercent: -1}, // a fault in five would open it
	})
	if err != nil {
		return err
	}
	s.engine, err = reconcile.New(reconcile.Config{Store: s.store, Askers: []reconcile.Asker{s.client}, Every: time.Second})
	return err
}

// run pays, asks and samples until the time is over.
func (s *soaking) run(ctx context.Context) error {
	s.began = time.Now()
	working, stop := context.WithTimeout(ctx, s.length)
	defer stop()
	ticks := make(chan int)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for n := range ticks {
				s.pay(ctx, n)
			}
		})
	}
	var reconciled error
	all.Go(func() {
		if err := s.engine.Run(working); err != nil && working.Err() == nil {
			reconciled = err
		}
	})
	every := max(s.length/120, 100*time.Millisecond)
	var measured error
	all.Go(func() {
		for waiting := time.NewTicker(every); ; {
			select {
			case <-working.Done():
				waiting.Stop()
				return
			case <-waiting.C:
				m, err := s.measure(ctx)
				s.samples, measured = append(s.samples, m), errors.Join(measured, err)
			}
		}
	})
	pace := time.NewTicker(time.Second / time.Duration(s.rate))
	defer pace.Stop()
	for n := 1; working.Err() == nil; n++ {
		select {
		case <-pace.C:
			ticks <- n
		case <-working.Done():
		}
	}
	close(ticks)
	all.Wait()
	return errors.Join(reconciled, measured, ctx.Err())
}

// pay pays one order, and gives every 20th charge back.
func (s *soaking) pay(ctx context.Context, n int) {
	amount, err := money.New(int64(100+n%900), "EUR")
	if err != nil {
		panic(err)
	}
	source := "tok_visa"
	if n%25 == 0 {
		source = "tok_declined"
	}
	res, err := s.client.Pay(ctx, attempt.Intent{Order: strconv.Itoa(n), Amount: amount, Source: attempt.Token(source)})
	told := res.Outcome.String()
	if err != nil {
		told = why(err)
	}
	s.payments.Add(1)
	refund := err == nil && res.Outcome == payclient.Approved && n%20 == 0
	s.mu.Lock()
	s.outcomes[told]++
	if refund {
		s.refunds++
	}
	s.mu.Unlock()
	if refund {
		// Whatever becomes of it is stored, and asked about.
		_, _ = s.client.Refund(ctx, attempt.Refund{AttemptID: res.AttemptID, ID: "R"})
	}
}

// why says in a word why nothing was sent.
func why(err error) string {
	switch notPaid := (*attempt.NotPaidError)(nil); {
	case errors.Is(err, attempt.ErrUnavailable):
		return "not sent: the store cannot be reached,"
	case errors.As(err, &notPaid):
		return "not sent: " + string(notPaid.Reason) + ","
	}
	return fmt.Sprintf("not sent: %T,", err)
}

// settle lets the provider be well, and asks until nothing is open; it returns how many payments stay so.
func (s *soaking) settle(ctx context.Context, address string) (open int, err error) {
	if err := post(ctx, address+"/_fake/faults", `{"clear":true,"draw":{"seed":1,"rate":0}}`); err != nil {
		return 0, err
	}
	for until := time.Now().Add(time.Minute); ; {
		if _, err := s.engine.RunOnce(ctx); err != nil {
			return 0, err
		}
		open = 0
		for a, err := range s.store.List(ctx, attempt.Filter{Open: true}) {
			if err != nil {
				return 0, err
			}
			if a.Status != attempt.StatusPrepared { // nobody sends it any more, and it has a day
				open++
			}
		}
		if open == 0 || time.Now().After(until) {
			return open, nil
		}
		waiting := time.NewTimer(200 * time.Millisecond)
		select {
		case <-waiting.C:
		case <-ctx.Done():
			waiting.Stop()
			return open, ctx.Err()
		}
	}
}

// talk is the client for the bank's controls.
var talk = &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}

func post(ctx context.Context, address, body string) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := talk.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", address, resp.Status)
	}
	return nil
}

// doubles counts the references that the provider has charged, or given back, more than once.
func doubles(ctx context.Context, address string) (twice, charged int, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/_fake/ledger", nil)
	if err != nil {
		return 0, 0, err
	}
	resp, err := talk.Do(q)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	var ledger fakeprovider.Ledger
	if err := json.NewDecoder(resp.Body).Decode(&ledger); err != nil {
		return 0, 0, err
	}
	once := make(map[string]bool)
	count := func(reference string) {
		if once[reference] {
			twice++
		}
		once[reference] = true
	}
	for _, c := range ledger.Charges {
		count("charge " + c.Reference)
	}
	for _, r := range ledger.Refunds {
		count("refund " + r.Reference)
	}
	return twice, len(ledger.Charges), nil
}

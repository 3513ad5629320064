package manyrig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	_ "github.com/google/uuid" // whose clock is set here

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/postgres"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/chargeonce/chargeonce/reconcile"
)

// idClock is the calendar clock that package uuid reads for the time in an id: nothing else in a process reads one.
//
//go:linkname idClock github.com/google/uuid.timeNow
var idClock func() time.Time

// orders is what a process is told to do.
type orders struct {
	Name     string        `json:"name"`
	Database string        `json:"database"` // its URL
	Provider string        `json:"provider"` // its address
	Intents  int           `json:"intents"`
	Callers  int           `json:"callers"`
	Seed     uint64        `json:"seed"`
	Clock    time.Duration `json:"clock"` // by how much its clock is fast
}

// verdict is what a process was told of an intent in the end.
type verdict struct {
	Order     string `json:"order"`
	Outcome   string `json:"outcome"`
	Moved     string `json:"moved"`
	AttemptID string `json:"attempt_id"`
	ChargeID  string `json:"charge_id"`
}

// asWorker makes the test's program a worker. Its value is its orders.
const asWorker = "CHARGEONCE_TEST_MANYRIG_WORKER"

func TestMain(m *testing.M) {
	text := os.Getenv(asWorker)
	if text == "" {
		os.Exit(m.Run())
	}
	go func() { // whoever started it has gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	var o orders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = work(context.Background(), o, os.Stdout)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", o.Name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Times are short, so that a claim ends 2 s after it began, and what the provider has never seen is given up after 4 s.
const (
	claimLasts   = callTimeout + recordLasts
	callTimeout  = 1500 * time.Millisecond
	recordLasts  = 500 * time.Millisecond
	abandonAfter = 4 * time.Second
)

// newClient makes a client and its reconciler, each as a service would.
func newClient(store attempt.Store, provider, name string) (*payclient.Client, *reconcile.Reconciler, error) {
	adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("many"), LookupLag: time.Millisecond})
	if err != nil {
		return nil, nil, err
	}
	client, err := payclient.New(payclient.Config{
		Provider: adapter, Store: store, BaseURL: "http://" + provider, ProviderAccount: "many", Environment: "many",
		SendTimeout: 700 * time.Millisecond, CallTimeout: callTimeout, FirstWait: 20 * time.Millisecond, MaxWait: 100 * time.Millisecond,
		RecordTimeout: recordLasts, MinAge: claimLasts, AbandonAfter: abandonAfter,
		AskWaits: []time.Duration{500 * time.Millisecond, time.Second}, AskFor: time.Hour, WatchFor: time.Hour,
		Breaker: payclient.BreakerConfig{FailurePercent: -1}, // a fifth of all fails by intent
		Who:     name,
	})
	if err != nil {
		return nil, nil, err
	}
	reconciler, err := reconcile.New(reconcile.Config{
		Store: store, Askers: []reconcile.Asker{client}, Who: name + "/reconciler",
		Every: 300 * time.Millisecond, AskTimeout: 2 * time.Second, Lease: 4 * time.Second, ListFrom: -1,
	})
	return client, reconciler, err
}

// intentOf is the n-th intent; each tenth is declined.
func intentOf(n int) (attempt.Intent, error) {
	amount, err := money.New(int64(100+n), "EUR")
	intent := attempt.Intent{Order: fmt.Sprint(n), Amount: amount, Source: attempt.Token("tok_visa"), Description: fmt.Sprint("order ", n)}
	if declines(n) {
		intent.Source = attempt.Token("tok_declined")
	}
	return intent, err
}

func declines(n int) bool { return n%10 == 9 }

// work pays every intent until it knows what became of it, reconciles meanwhile, and writes the verdicts.
func work(ctx context.Context, o orders, out io.Writer) (err error) {
	real := idClock
	idClock = func() time.Time { return real().Add(o.Clock) }
	store, err := openStore(ctx, o.Database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	client, reconciler, err := newClient(store, o.Provider, o.Name)
	if err != nil {
		return err
	}
	background, end := context.WithCancel(ctx)
	reconciled := make(chan struct{})
	go func() {
		defer close(reconciled)
		_ = reconciler.Run(background) // until it is ended
	}()

	chance := rand.New(rand.NewPCG(o.Seed, uint64(os.Getpid())))
	waiting := chance.Perm(o.Intents)
	for len(waiting) > 0 {
		if waiting, err = payAll(ctx, client, o, waiting, json.NewEncoder(out)); err != nil {
			break
		}
		if len(waiting) > 0 {
			time.Sleep(100 * time.Millisecond) // others hold what is left, or nobody knows yet
		}
	}
	err = errors.Join(err, client.Close(ctx))
	end()
	<-reconciled
	return err
}

// openStore opens the store as a service does that is started while its database starts.
func openStore(ctx context.Context, url string) (*postgres.Store, error) {
	for until := time.Now().Add(30 * time.Second); ; {
		store, err := postgres.Open(ctx, url, postgres.Options{})
		if err == nil || !errors.Is(err, attempt.ErrUnavailable) || time.Now().After(until) {
			return store, err
		}
		time.Sleep(50 * time.Millisecond) // the server starts in another process
	}
}

// payAll pays once what is waiting, by several callers, writes the verdicts that are there, and returns what is still waiting.
func payAll(ctx context.Context, client *payclient.Client, o orders, waiting []int, out *json.Encoder) (left []int, err error) {
	var mu sync.Mutex
	next := 0
	var callers sync.WaitGroup
	for range o.Callers {
		callers.Go(func() {
			for {
				mu.Lock()
				if next == len(waiting) || err != nil {
					mu.Unlock()
					return
				}
				n := waiting[next]
				next++
				mu.Unlock()
				known, failed := payOne(ctx, client, n)
				mu.Lock()
				switch {
				case failed != nil:
					err = errors.Join(err, failed)
				case known == nil:
					left = append(left, n)
				default:
					err = errors.Join(err, out.Encode(known))
				}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	return left, err
}

// payOne pays an intent once; nil: nobody can say yet what became of it.
func payOne(ctx context.Context, client *payclient.Client, n int) (*verdict, error) {
	intent, err := intentOf(n)
	if err != nil {
		return nil, err
	}
	r, err := client.Pay(ctx, intent)
	var notPaid *attempt.NotPaidError
	switch {
	case errors.Is(err, attempt.ErrUnavailable), errors.As(err, &notPaid):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("order %d: %w", n, err) // nothing else may be told of an intent that is always the same
	case r.Open():
		return nil, nil
	}
	v := &verdict{Order: intent.Order, Outcome: r.Outcome.String(), Moved: r.Moved.String(), AttemptID: r.AttemptID}
	if r.Outcome == payclient.Approved { // which of a refused card's charges has failed may be learnt later
		v.ChargeID = r.ChargeID
	}
	return v, nil
}

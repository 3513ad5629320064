package payclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// stubStore is a store whose steps go through a func.
type stubStore struct {
	attempt.Store
	apply func(ctx context.Context, next attempt.Store, steps ...*attempt.Step) error
}

func (s stubStore) Apply(ctx context.Context, steps ...*attempt.Step) error {
	return s.apply(ctx, s.Store, steps...)
}

var errDiskFull = fmt.Errorf("%w: disk full", attempt.ErrUnavailable)

// losesOutcomes fails every step that records an outcome, until healed.
func losesOutcomes(next attempt.Store, healed *atomic.Bool) attempt.Store {
	return stubStore{next, func(ctx context.Context, next attempt.Store, steps ...*attempt.Step) error {
		if steps[0].Outcome && !healed.Load() {
			for _, s := range steps {
				s.Err = errDiskFull
			}
			return errDiskFull
		}
		return next.Apply(ctx, steps...)
	}}
}

// The provider answered, the store takes no outcome until the process ends: an approval is told all the same, and aloud;
// nothing else is.
func TestC06ChargedThenTheWriteFailed(t *testing.T) {
	for _, c := range []struct {
		source   string
		told     told
		reason   attempt.Reason
		next     told
		charges  int
		nextSeen string
	}{
		{"tok_visa", toldApproved, "", toldApproved, 1, "the charge"},
		{"tok_declined", toldUnknown, attempt.ReasonNotRecorded, toldDeclined, 0, "the decline"},
		{"tok_lost_answer", toldApproved, "", toldApproved, 1, "the charge"},
	} {
		t.Run(c.source, func(t *testing.T) {
			var healed atomic.Bool
			var notRecorded atomic.Int32 // told on the goroutine that stores behind the call, too
			aCase(t, fakeprovider.Config{}, standard.Config{}, func(cfg *payclient.Config) {
				cfg.Store = losesOutcomes(cfg.Store, &healed)
				cfg.Observer.NotRecorded = func(_ context.Context, _ attempt.Attempt, err error) {
					if errors.Is(err, errDiskFull) {
						notRecorded.Add(1)
					}
				}
			}, func(s *shop) {
				res := s.pay(with(order("1001"), c.source))
				if got := (told{res.Outcome, res.Moved}); got != c.told || res.Reason != c.reason {
					t.Errorf("told %v moved=%v (%s), want %v moved=%v (%s)", got.outcome, got.moved, res.Reason, c.told.outcome, c.told.moved, c.reason)
				}
				if !errors.Is(res.RecordErr, errDiskFull) || notRecorded.Load() == 0 {
					t.Errorf("RecordErr %v, observer told %d times; want both", res.RecordErr, notRecorded.Load())
				}
				s.between(15*time.Second, 15*time.Second) // the call waited for its write until the claim's deadline
				key, posts := s.oneKey(), len(s.sends())

				ended, cancel := context.WithTimeout(context.Background(), time.Second) // the process ends
				defer cancel()
				if err := s.client.Close(ended); err == nil {
					t.Error("Close reports no outcome that is not stored")
				}
				healed.Store(true)
				if a := s.attempts(order("1001")); len(a) != 1 || a[0].Status != attempt.StatusSending || a[0].NextCheckAt.IsZero() || a[0].Key != key {
					t.Fatalf("stored: %+v; want the row from before the send, open", a)
				}
				s.client = s.restart(standard.Config{}, func(cfg *payclient.Config) { cfg.Transport = s.bank.RoundTripper() })
				again := s.pay(with(order("1001"), c.source))
				if got := (told{again.Outcome, again.Moved}); got != c.next || !again.Replayed {
					t.Errorf("the next run: %v moved=%v, want %s, replayed", got.outcome, got.moved, c.nextSeen)
				}
				s.oneKey()
				s.wantPosts(posts + 1)
				s.wantCharges(c.charges)
			})
		})
	}
}

// The write goes on behind the call, and within it while the claim lasts.
func TestC06TheStoreComesBack(t *testing.T) {
	for _, c := range []struct {
		name      string
		after     time.Duration
		recordErr bool
	}{{"within the claim", 8 * time.Second, false}, {"after the call", 40 * time.Second, true}} {
		t.Run(c.name, func(t *testing.T) {
			var healed atomic.Bool
			aCase(t, fakeprovider.Config{}, standard.Config{}, func(cfg *payclient.Config) {
				cfg.Store = losesOutcomes(cfg.Store, &healed)
			}, func(s *shop) {
				time.AfterFunc(c.after, func() { healed.Store(true) })
				res := s.pay(order("1001"))
				s.want(res, payclient.Approved, payclient.MovedYes)
				if (res.RecordErr != nil) != c.recordErr {
					t.Errorf("RecordErr %v, want one: %t", res.RecordErr, c.recordErr)
				}
				if err := s.client.Close(context.Background()); err != nil { // waits for the write
					t.Error(err)
				}
				if a := s.attempts(order("1001")); a[0].Status != attempt.StatusApproved {
					t.Errorf("stored: %s, want approved", a[0].Status)
				}
				s.wantPosts(1)
				s.wantCharges(1)
			})
		})
	}
}

// A store that runs a step again, as databases do after a serialization failure, repeats no call to the provider.
func TestC06TheTransactionIsRunAgain(t *testing.T) {
	runs := 0
	aCase(t, fakeprovider.Config{}, standard.Config{}, func(cfg *payclient.Config) {
		cfg.Store = stubStore{cfg.Store, func(ctx context.Context, next attempt.Store, steps ...*attempt.Step) error {
			for _, step := range steps {
				do := step.Do
				step.Do = func(v attempt.View) ([]attempt.Write, error) {
					runs++
					_, _ = do(v) // rolled back
					return do(v)
				}
			}
			return next.Apply(ctx, steps...)
		}}
	}, func(s *shop) {
		res := s.pay(order("1001"))
		s.want(res, payclient.Approved, payclient.MovedYes)
		if a := s.attempts(order("1001")); runs < 2 || len(a) != 1 || a[0].Key != s.oneKey() || a[0].Sends != 1 {
			t.Errorf("%d runs, stored %+v; want one attempt with the key that was sent", runs, a)
		}
		s.wantPosts(1)
		s.wantCharges(1)
	})
}

// The store cannot be written before the send: nothing leaves.
func TestC06NotStoredIsNotSent(t *testing.T) {
	aCase(t, fakeprovider.Config{}, standard.Config{}, func(cfg *payclient.Config) {
		cfg.Store = stubStore{cfg.Store, func(context.Context, attempt.Store, ...*attempt.Step) error { return errDiskFull }}
	}, func(s *shop) {
		if _, err := s.client.Pay(s.t.Context(), order("1001")); !errors.Is(err, attempt.ErrUnavailable) || !errors.Is(err, errDiskFull) {
			t.Errorf("error %v, want the store's", err)
		}
		s.wantPosts(0)
		s.wantCharges(0)
	})
}

// The caller gives up while the provider works: unknown, and stored although the caller's context is done.
func TestC09CancelledWhileTheProviderWorks(t *testing.T) {
	aCase(t, fakeprovider.Config{}, standard.Config{}, nil, func(s *shop) {
		s.bank.Script(fakeprovider.Slow(500 * time.Millisecond))
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(200*time.Millisecond, cancel)
		res, err := s.client.Pay(ctx, order("1001"))
		if err != nil || res.Reason != attempt.ReasonCancelled || res.RecordErr != nil {
			t.Errorf("%v (%s), %v, %v; want it stored as cancelled after the send", res.Outcome, res.Reason, err, res.RecordErr)
		}
		s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		s.between(200*time.Millisecond, 200*time.Millisecond)
		s.wantOpen(res)
		if a := s.attempts(order("1001")); a[0].Status != attempt.StatusUnknown || len(a[0].Claims) != 0 {
			t.Errorf("stored: %s with %d claims, want unknown and none", a[0].Status, len(a[0].Claims))
		}
		s.sleep(time.Second)
		later, err := s.client.Check(context.Background(), order("1001").Slot())
		if err != nil {
			t.Fatal(err)
		}
		s.want(later, payclient.Approved, payclient.MovedYes)
		s.wantPosts(1)
		s.wantCharges(1)
	})
}

// Cancelled in the instant after the answer was read and before the outcome is stored.
func TestC09CancelledBeforeTheOutcomeIsStored(t *testing.T) {
	for source, want := range map[string]told{"tok_visa": toldApproved, "tok_declined": toldDeclined} {
		t.Run(source, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			aCase(t, fakeprovider.Config{}, standard.Config{}, func(cfg *payclient.Config) {
				cfg.Observer.Sent = func(context.Context, attempt.Attempt, attempt.Send) { cancel() }
			}, func(s *shop) {
				res, err := s.client.Pay(ctx, with(order("1001"), source))
				if got := (told{res.Outcome, res.Moved}); err != nil || got != want || res.RecordErr != nil {
					t.Errorf("told %v moved=%v, %v, %v; want %v", got.outcome, got.moved, err, res.RecordErr, want)
				}
				if a := s.attempts(order("1001")); !a[0].Status.Final() {
					t.Errorf("stored: %s, want the end", a[0].Status)
				}
			})
		})
	}
}

// Cancelled after the claim and before the first byte: not sent, and not a Result that somebody could take for open.
func TestC09CancelledBeforeTheFirstByte(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	aCase(t, fakeprovider.Config{}, standard.Config{}, func(cfg *payclient.Config) {
		cfg.Store = stubStore{cfg.Store, func(ctx context.Context, next attempt.Store, steps ...*attempt.Step) error {
			defer cancel()
			return next.Apply(ctx, steps...)
		}}
	}, func(s *shop) {
		res, err := s.client.Pay(ctx, order("1001"))
		var notPaid *attempt.NotPaidError
		if !errors.As(err, &notPaid) || notPaid.Reason != attempt.ReasonCancelled || !errors.Is(err, context.Canceled) || res.Moved != payclient.MovedNo || res.Open() {
			t.Errorf("%v moved=%v, open %t, %v; want not sent", res.Outcome, res.Moved, res.Open(), err)
		}
		s.wantPosts(0)
		s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
		if len(s.attempts(order("1001"))) != 1 {
			t.Error("another attempt was made")
		}
		s.wantCharges(1)
	})
}

func TestC10FiftyWorkersOneIntent(t *testing.T) {
	aCase(t, fakeprovider.Config{}, standard.Config{}, nil, func(s *shop) {
		s.bank.Script(fakeprovider.PauseBody(200 * time.Millisecond))
		clients := []*payclient.Client{s.client, s.restart(standard.Config{}, func(c *payclient.Config) { c.Transport = s.bank })}
		approved, inFlight := fiftyWorkers(t, clients)
		if approved != 1 || inFlight != 49 {
			t.Errorf("%d approved and %d in flight, want 1 and 49", approved, inFlight)
		}
		s.wantPosts(1)
		s.wantCharges(1)
		if a := s.attempts(order("1001")); len(a) != 1 {
			t.Errorf("%d attempts, want 1", len(a))
		}
		s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
		s.wantPosts(1)
	})
}

// fiftyWorkers pays one order from fifty goroutines at once, by turns with each client.
func fiftyWorkers(t *testing.T, clients []*payclient.Client) (approved, inFlight int) {
	t.Helper()
	var mu sync.Mutex
	var workers sync.WaitGroup
	begin := make(chan struct{})
	for n := range 50 {
		workers.Go(func() {
			<-begin
			res, err := clients[n%len(clients)].Pay(context.Background(), order("1001"))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Errorf("error %v, want none", err)
			case res.Outcome == payclient.Approved:
				approved++
			case res.Reason == attempt.ReasonInFlight && res.Open():
				inFlight++
			default:
				t.Errorf("%v moved=%v (%s)", res.Outcome, res.Moved, res.Reason)
			}
		})
	}
	close(begin)
	workers.Wait()
	return approved, inFlight
}

// The same on a SQLite file that two stores share, as two processes do.
func TestC10FiftyWorkersTwoStoresOneFile(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	defer bank.Close()
	answered := make(chan struct{})
	path := filepath.Join(t.TempDir(), "payments.db")
	var clients []*payclient.Client
	for range 2 {
		store, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		client, err := payclient.New(payclient.Config{
			Provider: mustStandard(t, standard.Config{}), Store: store, BaseURL: "http://127.0.0.1",
			Transport: around(bank, func(q *http.Request, next http.RoundTripper) (*http.Response, error) {
				select { // until all others have been told, at the latest
				case <-answered:
				case <-q.Context().Done():
				}
				return next.RoundTrip(q)
			}),
			SendTimeout: 20 * time.Second, CallTimeout: time.Minute, MinAge: 2 * time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		clients = append(clients, client)
	}
	var told sync.WaitGroup
	told.Add(49)
	go func() { told.Wait(); close(answered) }()
	var workers sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]int{}
	for n := range 50 {
		workers.Go(func() {
			res, err := clients[n%2].Pay(context.Background(), order("1001"))
			if err != nil {
				t.Errorf("error %v, want none", err)
			}
			mu.Lock()
			outcomes[res.Outcome.String()+"/"+string(res.Reason)]++
			mu.Unlock()
			if res.Outcome != payclient.Approved {
				told.Done()
			}
		})
	}
	workers.Wait()
	if outcomes["approved/"] != 1 || outcomes["unknown/in_flight"] != 49 {
		t.Errorf("told %v, want one approved and 49 in flight", outcomes)
	}
	if n := len(bank.Charges()); n != 1 || bank.DistinctKeys() != 1 || bank.RequestCount() != 1 {
		t.Errorf("%d charges, %d keys, %d requests; want one of each", n, bank.DistinctKeys(), bank.RequestCount())
	}
}

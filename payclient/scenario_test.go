package payclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// shop is a host with one client at one fake provider, over a real http.Transport without a network.
type shop struct {
	t      *testing.T
	bank   *fakeprovider.Provider
	store  attempt.Store
	client *payclient.Client
	began  time.Time
}

// open opens a shop inside a synctest bubble; change may be nil.
func open(t *testing.T, bankCfg fakeprovider.Config, std standard.Config, change func(*payclient.Config)) *shop {
	t.Helper()
	s := &shop{t: t, bank: fakeprovider.New(bankCfg), store: new(attempt.Memory), began: time.Now()}
	transport := s.bank.Transport()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		s.bank.Close()
	})
	s.client = s.restart(std, func(c *payclient.Config) {
		c.Transport = transport
		if change != nil {
			change(c)
		}
	})
	return s
}

// restart makes another client on the same store: the same process after a crash, or another instance.
func (s *shop) restart(std standard.Config, change func(*payclient.Config)) *payclient.Client {
	s.t.Helper()
	if std.Token.IsZero() {
		std.Token = payclient.NewSecret("sk_test")
	}
	adapter, err := standard.New(std)
	if err != nil {
		s.t.Fatal(err)
	}
	cfg := payclient.Config{Provider: adapter, Store: s.store, BaseURL: "http://127.0.0.1"}
	change(&cfg)
	client, err := payclient.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return client
}

func order(id string) attempt.Intent {
	return attempt.Intent{Order: id, Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token("tok_visa")}
}

func with(i attempt.Intent, token string) attempt.Intent {
	i.Source = attempt.Token(token)
	return i
}

func (s *shop) pay(i attempt.Intent) payclient.Result {
	s.t.Helper()
	res, err := s.client.Pay(s.t.Context(), i)
	if err != nil {
		s.t.Fatalf("Pay: %v", err)
	}
	return res
}

func (s *shop) want(res payclient.Result, outcome payclient.Outcome, moved payclient.Moved) {
	s.t.Helper()
	if res.Outcome != outcome || res.Moved != moved {
		s.t.Fatalf("got %s, moved %s (%s, %s), want %s, moved %s", res.Outcome, res.Moved, res.Reason, res.Attempt.Answer.Detail, outcome, moved)
	}
}

func (s *shop) wantCharges(n int) {
	s.t.Helper()
	if charges := s.bank.Charges(); len(charges) != n {
		s.t.Fatalf("the ledger holds %d charges, want %d", len(charges), n)
	}
}

func (s *shop) between(least, most time.Duration) {
	s.t.Helper()
	if took := time.Since(s.began); took < least || took > most {
		s.t.Fatalf("took %s, want %s to %s", took, least, most)
	}
}

// sends returns what the provider saw of the payment.
func (s *shop) sends() (posts []fakeprovider.Request) {
	for _, r := range s.bank.Requests() {
		if r.Method == http.MethodPost {
			posts = append(posts, r)
		}
	}
	return posts
}

func (s *shop) statuses() (codes []int) {
	for _, r := range s.sends() {
		codes = append(codes, r.Status)
	}
	return codes
}

// oneKey makes sure that all sends had one key, in quotes, and the same bytes.
func (s *shop) oneKey() string {
	s.t.Helper()
	posts := s.sends()
	for _, r := range posts {
		if r.RawKey != posts[0].RawKey || string(r.Body) != string(posts[0].Body) {
			s.t.Fatalf("sends differ:\n%s %s\n%s %s", posts[0].RawKey, posts[0].Body, r.RawKey, r.Body)
		}
		if _, err := uuid.Parse(r.Key); err != nil || r.RawKey != `"`+r.Key+`"` {
			s.t.Fatalf("key on the wire %s, want a UUID in double quotes", r.RawKey)
		}
	}
	return posts[0].Key
}

func TestP1SlowProviderIsPaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		res := s.pay(with(order("1001"), "tok_slow_5s"))
		s.want(res, payclient.Approved, payclient.MovedYes)
		s.between(5500*time.Millisecond, 6*time.Second)
		key := s.oneKey()
		if got := s.statuses(); !slices.Equal(got[1:], []int{409, 201}) || len(got) != 3 {
			t.Fatalf("the provider answered %v, want a lost answer, 409 and 201", got)
		}
		if !s.sends()[2].Replayed || !res.Replayed || res.Key != key || res.Sends != 3 {
			t.Fatalf("want the stored answer, replayed, under one key and three sends: %+v", res)
		}
		s.wantCharges(1)
	})
}

func TestP2CallerGivesUpAndTheAttemptStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		res := s.pay(with(order("1001"), "tok_book_after_15s"))
		s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		s.between(7700*time.Millisecond, 8800*time.Millisecond)
		if got := s.statuses(); len(got) != 4 || !slices.Equal(got[1:], []int{409, 409, 409}) {
			t.Fatalf("the provider answered %v, want one time-out and three 409s", got)
		}
		if !res.Open() || res.Reason != attempt.ReasonStillRunning || res.Attempt.NextCheckAt.IsZero() {
			t.Fatalf("the attempt must stay open and be asked about: %+v", res)
		}
		s.oneKey()
	})
}

func TestP3AnotherCardWaitsForTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		first := s.pay(with(order("1001"), "tok_book_after_15s"))
		asked := s.bank.RequestCount()

		res, err := s.client.Pay(t.Context(), with(order("1001"), "tok_mastercard"))
		var conflict *attempt.ConflictError
		if !errors.As(err, &conflict) || conflict.Attempt.ID != first.AttemptID || conflict.Differs != "source" {
			t.Fatalf("got %v, want a conflict with the open attempt", err)
		}
		if !res.Open() || res.AttemptID != first.AttemptID {
			t.Fatalf("the result must tell of the open attempt: %+v", res)
		}
		if n := s.bank.RequestCount() - asked; n != 1 {
			t.Fatalf("%d requests, want one question by reference", n)
		}
		if keys := s.bank.DistinctKeys(); keys != 1 {
			t.Fatalf("%d keys at the provider, want 1", keys)
		}

		time.Sleep(10 * time.Second) // in the bubble: the provider books
		if _, err = s.client.Pay(t.Context(), with(order("1001"), "tok_mastercard")); !errors.Is(err, attempt.ErrAlreadyPaid) {
			t.Fatalf("got %v, want already paid: the question found the money", err)
		}
		s.wantCharges(1)
	})
}

func TestP4TryAgainResumesWithTheStoredKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		first := s.pay(with(order("1001"), "tok_book_after_15s"))
		time.Sleep(8 * time.Second)
		again := s.pay(with(order("1001"), "tok_book_after_15s"))
		s.want(again, payclient.Approved, payclient.MovedYes)
		if again.Key != first.Key || again.AttemptID != first.AttemptID || !again.Replayed {
			t.Fatalf("want the same attempt and the replay: %+v", again)
		}
		s.oneKey()
		s.wantCharges(1)
	})
}

func TestP5AlwaysFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) { c.FirstWait = 10 * time.Millisecond })
		s.bank.Always(fakeprovider.Match{}, fakeprovider.Status(500))
		res := s.pay(order("1001"))
		s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		if got := s.statuses(); !slices.Equal(got, []int{500, 500, 500, 500}) {
			t.Fatalf("the provider answered %v, want four times 500", got)
		}
		if res.StatusCode != 500 || s.bank.DistinctKeys() != 1 {
			t.Fatalf("status %d, %d keys; want the last answer and one key", res.StatusCode, s.bank.DistinctKeys())
		}
		s.between(0, 100*time.Millisecond)
	})
}

func TestP6FailingSendsNeverChargeTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) { c.FirstWait = 10 * time.Millisecond })
		s.bank.Draw(fakeprovider.Draw{Seed: 6, Rate: 0.2})
		var mu sync.Mutex
		approved, refusedHere := 0, 0
		var wg sync.WaitGroup
		for i := range 300 {
			wg.Go(func() {
				res, err := s.client.Pay(t.Context(), order(fmt.Sprint(i)))
				mu.Lock()
				defer mu.Unlock()
				var notPaid *attempt.NotPaidError
				switch {
				case err == nil && res.Outcome == payclient.Approved:
					approved++
				case errors.As(err, &notPaid) && notPaid.Reason == attempt.ReasonBreakerOpen:
					refusedHere++
					if len(s.bank.Requests(res.Key)) > 0 {
						t.Errorf("order %d: said to be refused here, and the provider has seen its key", i)
					}
				case err != nil && !errors.Is(err, attempt.ErrNotPaid):
					t.Errorf("order %d: %v", i, err)
				}
			})
			if i%10 == 9 {
				wg.Wait()
			}
		}
		wg.Wait()
		if refusedHere == 0 {
			t.Error("the breaker never opened")
		}
		perReference := make(map[string]int)
		for _, c := range s.bank.Charges() {
			if perReference[c.Reference]++; perReference[c.Reference] > 1 {
				t.Errorf("reference %s charged twice", c.Reference)
			}
		}
		// What is open is settled by asking: after that, approved attempts and charges are the same.
		s.bank.ClearFaults()
		time.Sleep(time.Minute)
		open := 0
		for a, err := range s.store.List(t.Context(), attempt.Filter{Open: true}) {
			if err != nil {
				t.Fatal(err)
			}
			if a.Status == attempt.StatusPrepared {
				continue
			}
			res, err := s.client.Check(t.Context(), a.Slot)
			switch {
			case err != nil:
				t.Fatal(err)
			case res.Outcome == payclient.Approved:
				approved++
			default:
				open++
			}
		}
		if got := len(s.bank.Charges()); got != approved {
			t.Errorf("%d approved, %d charges in the ledger (%d open)", approved, got, open)
		}
	})
}

func TestP7WaitsDecideHowOftenIsAsked(t *testing.T) {
	for _, tt := range []struct {
		first       time.Duration
		answers     []int // after the first, which is lost
		least, most time.Duration
	}{
		// 3 s, then 0.2, 0.3, 0.45, 0.675 and 1.0125 s, each up to 20 % longer.
		{200 * time.Millisecond, []int{409, 409, 409, 409, 201}, 5600 * time.Millisecond, 6200 * time.Millisecond},
		{3 * time.Second, []int{201}, 6 * time.Second, 6600 * time.Millisecond},
	} {
		t.Run(tt.first.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) { c.FirstWait, c.Retries = tt.first, 9 })
				s.want(s.pay(with(order("1001"), "tok_slow_5s")), payclient.Approved, payclient.MovedYes)
				if got := s.statuses()[1:]; !slices.Equal(got, tt.answers) {
					t.Errorf("answers %v, want %v", got, tt.answers)
				}
				s.between(tt.least, tt.most)
				s.wantCharges(1)
			})
		})
	}
}

// keyPerRequest is the mistake that the product exists to prevent.
type keyPerRequest struct{ next http.RoundTripper }

func (k keyPerRequest) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Idempotency-Key", `"`+uuid.NewString()+`"`)
	return k.next.RoundTrip(req)
}

func TestP8ANewKeyPerRequestIsSeen(t *testing.T) {
	for _, broken := range []bool{false, true} {
		t.Run(fmt.Sprintf("broken=%t", broken), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) {
					if broken {
						c.Transport = keyPerRequest{c.Transport}
					}
				})
				s.bank.Script(fakeprovider.LoseAnswer)
				s.pay(order("1001"))
				charges := len(s.bank.Charges())
				if broken && charges < 2 {
					t.Errorf("%d charges: a client that mints a key for each request went unseen", charges)
				}
				if !broken && charges != 1 {
					t.Errorf("%d charges, want 1", charges)
				}
			})
		})
	}
}

func TestP8NothingIsSentAfterTheKeysRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		s.bank.Always(fakeprovider.Match{}, fakeprovider.LoseAnswer)
		first := s.pay(order("1001"))
		if first.Outcome != payclient.Approved {
			t.Fatalf("the lookup at the end of the call finds the charge: %+v", first)
		}
		s.bank.Always(fakeprovider.Match{}, fakeprovider.NeverArrives)
		s.bank.Always(fakeprovider.Lookups, fakeprovider.Status(503))
		second := s.pay(order("1002"))
		s.want(second, payclient.UnknownOutcome, payclient.MovedMaybe)
		s.bank.ClearFaults()
		s.bank.Always(fakeprovider.Lookups, fakeprovider.Status(503))
		posts := len(s.sends())
		time.Sleep(25 * time.Hour)
		third := s.pay(order("1002"))
		s.want(third, payclient.UnknownOutcome, payclient.MovedMaybe)
		if n := len(s.sends()) - posts; n != 0 {
			t.Fatalf("%d requests under a key that the provider has forgotten", n)
		}
	})
}

func TestP9DeclinesAreAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) { c.Breaker.MinRequests = 5 })
		declined := s.pay(with(order("1001"), "tok_insufficient_funds"))
		s.want(declined, payclient.Declined, payclient.MovedNo)
		if declined.Sends != 1 || declined.DeclineCode != "insufficient_funds" || declined.StatusCode != 402 {
			t.Fatalf("%+v", declined)
		}
		// The same card again: the stored decline, unless asked for in so many words.
		again := s.pay(with(order("1001"), "tok_insufficient_funds"))
		if !again.Existing || again.AttemptID != declined.AttemptID || len(s.sends()) != 1 {
			t.Fatalf("want the stored decline, nothing sent: %+v", again)
		}
		intent := with(order("1001"), "tok_insufficient_funds")
		intent.Again = declined.AttemptID
		third := s.pay(intent)
		if third.Outcome != payclient.Declined || third.Key == declined.Key || len(s.sends()) != 2 {
			t.Fatalf("want a new attempt: %+v", third)
		}
		// Another card is a new attempt.
		s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
		if s.bank.DistinctKeys() != 3 {
			t.Fatalf("%d keys, want 3", s.bank.DistinctKeys())
		}
		// Declines are no failures of the provider's.
		for i := range 30 {
			s.want(s.pay(with(order(fmt.Sprint("d", i)), "tok_declined")), payclient.Declined, payclient.MovedNo)
		}
		s.want(s.pay(order("1002")), payclient.Approved, payclient.MovedYes)
		s.wantCharges(2)
	})
}

// crash ends the goroutine that calls a client, as the end of the process would: nothing after the point is done.
type crash struct {
	at   string
	next http.RoundTripper
	attempt.Store
	seen int
}

func (c *crash) here(at string) {
	if c.at == at {
		runtime.Goexit()
	}
}

func (c *crash) RoundTrip(req *http.Request) (*http.Response, error) {
	c.here("before the request")
	resp, err := c.next.RoundTrip(req)
	c.here("after the answer")
	return resp, err
}

func (c *crash) Apply(ctx context.Context, steps ...*attempt.Step) error {
	name := []string{"the claim", "the outcome"}[min(c.seen, 1)]
	c.seen++
	c.here("before " + name)
	err := c.Store.Apply(ctx, steps...)
	c.here("after " + name)
	return err
}

func TestP10CrashAnywhere(t *testing.T) {
	for _, at := range []string{
		"before the claim", "after the claim", "before the request", "after the answer", "before the outcome", "after the outcome",
	} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
				transport := s.bank.Transport()
				defer transport.CloseIdleConnections()
				c := &crash{at: at, next: transport, Store: s.store}
				doomed := s.restart(standard.Config{}, func(cfg *payclient.Config) { cfg.Store, cfg.Transport = c, c })
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = doomed.Pay(t.Context(), order("1001"))
					t.Error("did not crash")
				}()
				<-done
				var key string
				if v, err := s.store.Slot(t.Context(), order("1001").Slot()); err != nil {
					t.Fatal(err)
				} else if len(v.Attempts) > 0 {
					key = v.Attempts[0].Key
				}
				res := s.pay(order("1001"))
				if res.Reason == attempt.ReasonInFlight { // the dead sender's claim has to run out first
					time.Sleep(16 * time.Second)
					res = s.pay(order("1001"))
				}
				s.want(res, payclient.Approved, payclient.MovedYes)
				if key != "" && res.Key != key {
					t.Errorf("key %s, stored before the crash was %s", res.Key, key)
				}
				s.oneKey()
				s.wantCharges(1)
			})
		})
	}
}

func TestP11StoppedWhileSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(200*time.Millisecond, stop)
		res, err := s.client.Pay(ctx, with(order("1001"), "tok_slow_500ms"))
		if err != nil {
			t.Fatal(err)
		}
		s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		if res.Reason != attempt.ReasonCancelled || res.RecordErr != nil {
			t.Fatalf("want a recorded end, cancelled: %+v", res)
		}
		if err := s.client.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		a, err := s.store.Attempt(t.Context(), res.AttemptID)
		if err != nil || a.Status != attempt.StatusUnknown || len(a.Claims) != 0 || a.NextCheckAt.IsZero() {
			t.Fatalf("want an open attempt, its claim ended: %+v, %v", a, err)
		}
		if _, err := s.client.Pay(t.Context(), order("1002")); !errors.Is(err, payclient.ErrClosed) {
			t.Fatalf("a closed client took a payment: %v", err)
		}
		// Before the first byte a cancelled call is a plain "not sent".
		other := s.restart(standard.Config{}, func(c *payclient.Config) { c.Transport = s.bank.Transport() })
		ctx, stop = context.WithCancel(t.Context())
		stop()
		if _, err := other.Pay(ctx, order("1003")); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want that nothing was started", err)
		}
		s.wantCharges(1)
	})
}

func TestP12NoSecondSendWithoutStoredAnswers(t *testing.T) {
	for name, std := range map[string]standard.Config{
		"no keys":        {NoKeys: true},
		"successes only": {KeepsSuccessesOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bankCfg := fakeprovider.Config{IgnoreKeys: std.NoKeys}
				if std.KeepsSuccessesOnly {
					bankCfg.Keep = fakeprovider.KeepSuccesses
				}
				s := open(t, bankCfg, std, nil)
				s.bank.Always(fakeprovider.Lookups, fakeprovider.Status(503))
				s.bank.Script(fakeprovider.LoseAnswer)
				first := s.pay(order("1001"))
				s.want(first, payclient.UnknownOutcome, payclient.MovedMaybe)

				again := s.pay(order("1001"))
				s.want(again, payclient.UnknownOutcome, payclient.MovedMaybe)
				if n := len(s.sends()); n != 1 {
					t.Fatalf("%d POSTs, want 1", n)
				}
				s.bank.ClearFaults()
				res, err := s.client.Check(t.Context(), order("1001").Slot())
				if err != nil {
					t.Fatal(err)
				}
				s.want(res, payclient.Approved, payclient.MovedYes)
				s.wantCharges(1)
			})
		})
	}
}

func TestP12ANewKeyOnlyAfterAbandonment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{IgnoreKeys: true}, standard.Config{NoKeys: true}, nil)
		s.bank.Script(fakeprovider.LoseRequest)
		first := s.pay(order("1001"))
		s.want(first, payclient.UnknownOutcome, payclient.MovedMaybe)
		for range 3 {
			time.Sleep(10 * time.Minute)
			if _, err := s.client.Check(t.Context(), order("1001").Slot()); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		res, err := s.client.Check(t.Context(), order("1001").Slot())
		if err != nil {
			t.Fatal(err)
		}
		if res.Attempt.Status != attempt.StatusAbandoned || res.Moved != payclient.MovedNo || res.Open() {
			t.Fatalf("want an abandoned attempt after 32 min and four questions: %+v", res)
		}
		paid := s.pay(order("1001"))
		s.want(paid, payclient.Approved, payclient.MovedYes)
		if paid.Key == first.Key || paid.Attempt.Ordinal != 2 {
			t.Fatalf("want a second attempt with its own key: %+v", paid)
		}
		s.wantCharges(1)
	})
}

func TestK1RefusedConnectionIsRetriedAndNotPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{IgnoreKeys: true}, standard.Config{NoKeys: true}, nil)
		s.bank.Always(fakeprovider.Match{}, fakeprovider.RefuseDial)
		_, err := s.client.Pay(t.Context(), order("1001"))
		var notPaid *attempt.NotPaidError
		if !errors.As(err, &notPaid) || notPaid.Reason != attempt.ReasonUnreachable {
			t.Fatalf("got %v, want not paid, unreachable", err)
		}
		if a := notPaid.Attempt; a.Status != attempt.StatusPrepared || a.Sends != 4 || a.MaybeSends != 0 {
			t.Fatalf("want four proven non-sends and the attempt prepared again: %+v", a)
		}
		s.between(4750*time.Millisecond, 5700*time.Millisecond) // 1, 1.5 and 2.25 s, up to 20 % longer
		s.bank.ClearFaults()
		s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
		s.wantCharges(1)
	})
}

func TestK2NeverResentAfterATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{IgnoreKeys: true}, standard.Config{NoKeys: true, NoLookup: true}, nil)
		s.bank.Script(fakeprovider.Slow(20 * time.Second))
		res := s.pay(order("1001"))
		s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		for range 3 {
			time.Sleep(20 * time.Minute)
			res = s.pay(order("1001"))
			s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		}
		if n := len(s.sends()); n != 1 {
			t.Fatalf("%d POSTs, want 1: the rest is for a person", n)
		}
		s.wantCharges(1)
	})
}

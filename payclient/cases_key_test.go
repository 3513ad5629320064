package payclient_test

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// The tests in cases_*_test.go play field cases: what went wrong for people who integrated a payment provider over HTTP, by
// public reports. The number is the case's, the letter a variant's.

// aCase plays a case inside a bubble.
func aCase(t *testing.T, bank fakeprovider.Config, std standard.Config, change func(*payclient.Config), play func(*shop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { play(open(t, bank, std, change)) })
}

// around wraps a client's transport.
func around(next http.RoundTripper, f func(q *http.Request, next http.RoundTripper) (*http.Response, error)) http.RoundTripper {
	return wireStranger(func(q *http.Request) (*http.Response, error) { return f(q, next) })
}

// attempts returns what the store holds of an order.
func (s *shop) attempts(i attempt.Intent) []attempt.Attempt {
	s.t.Helper()
	v, err := s.store.Slot(context.Background(), i.Slot())
	if err != nil {
		s.t.Fatal(err)
	}
	return v.Attempts
}

// posts makes sure of how many charge requests the provider has seen.
func (s *shop) wantPosts(n int) {
	s.t.Helper()
	if got := len(s.sends()); got != n {
		s.t.Fatalf("%d charge requests at the provider, want %d", got, n)
	}
}

// wantOpen makes sure that the attempt waits for evidence, and is on the reconciler's list.
func (s *shop) wantOpen(res payclient.Result) {
	s.t.Helper()
	a := s.attempts(attempt.Intent{Account: res.Attempt.Slot.Account, Order: res.Attempt.Slot.Order})
	if !res.Open() || len(a) == 0 || a[len(a)-1].NextCheckAt.IsZero() {
		s.t.Fatalf("%v moved=%v: open %t; want it open and on the list", res.Outcome, res.Moved, res.Open())
	}
}

// sleep lets the bubble's time pass.
func (s *shop) sleep(d time.Duration) {
	time.Sleep(d) // in the bubble
}

func TestC01OneKeyForEveryTry(t *testing.T) {
	var s *shop
	stored := 0
	aCase(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) {
		c.Transport = around(c.Transport, func(q *http.Request, next http.RoundTripper) (*http.Response, error) {
			if a := s.attempts(order("1001")); len(a) == 1 && q.Header.Get("Idempotency-Key") == `"`+a[0].Key+`"` {
				stored++ // before the first byte
			}
			return next.RoundTrip(q)
		})
	}, func(opened *shop) {
		s = opened
		s.bank.Script(fakeprovider.LoseAnswer, fakeprovider.Answer)
		res := s.pay(order("1001"))
		s.want(res, payclient.Approved, payclient.MovedYes)
		if key := s.oneKey(); key != res.Key || stored != 2 || res.Sends != 2 || len(s.attempts(order("1001"))) != 1 {
			t.Errorf("key %s on the wire, %s told; stored before %d of 2 requests; %d sends", key, res.Key, stored, res.Sends)
		}
		s.wantCharges(1)
	})
}

func TestC01TheProcessDiesBetweenTwoTries(t *testing.T) {
	aCase(t, fakeprovider.Config{}, standard.Config{}, nil, func(s *shop) {
		s.bank.Script(fakeprovider.LoseAnswer, fakeprovider.Answer)
		doomed := s.restart(standard.Config{}, func(c *payclient.Config) {
			c.Transport = around(s.bank, func(q *http.Request, next http.RoundTripper) (*http.Response, error) {
				_, _ = next.RoundTrip(q) // its answer is lost
				runtime.Goexit()
				return nil, nil
			})
		})
		died := make(chan struct{})
		go func() {
			defer close(died)
			_, _ = doomed.Pay(context.Background(), order("1001"))
		}()
		<-died
		res := s.pay(order("1001"))
		s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		if res.Reason != attempt.ReasonInFlight {
			t.Errorf("reason %s, want in_flight: the dead sender's claim runs", res.Reason)
		}
		s.sleep(16 * time.Second)
		s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
		s.oneKey()
		s.wantPosts(2)
		s.wantCharges(1)
	})
}

func TestC02TheBodyIsTheStoredOne(t *testing.T) {
	aCase(t, fakeprovider.Config{}, standard.Config{NoLookup: true}, func(c *payclient.Config) { c.Retries = -1 }, func(s *shop) {
		s.bank.Script(fakeprovider.Status(503), fakeprovider.Answer)
		i := order("1001")
		s.want(s.pay(i), payclient.UnknownOutcome, payclient.MovedMaybe)
		i.Description = "for a@example.test" // filled in meanwhile
		s.want(s.pay(i), payclient.Approved, payclient.MovedYes)
		s.oneKey() // and one body
		s.wantPosts(2)
		s.wantCharges(1)
	})
}

func TestC02AnotherAmountIsRefusedHere(t *testing.T) {
	aCase(t, fakeprovider.Config{}, standard.Config{NoLookup: true}, func(c *payclient.Config) { c.Retries = -1 }, func(s *shop) {
		s.bank.Script(fakeprovider.Status(503))
		s.want(s.pay(order("1001")), payclient.UnknownOutcome, payclient.MovedMaybe)
		more := order("1001")
		more.Amount, _ = more.Amount.Add(more.Amount)
		res, err := s.client.Pay(s.t.Context(), more)
		if !errors.Is(err, attempt.ErrConflict) || !res.Open() {
			t.Errorf("%v, %v; want a conflict with the open attempt", res.Outcome, err)
		}
		s.wantPosts(1)
		s.wantCharges(0)
	})
}

// The provider says that the key was used with other bytes: that is no refusal of the payment, and no reason for a new key.
func TestC02KeyReused(t *testing.T) {
	for name, said := range map[string]fakeprovider.Fault{
		"422": fakeprovider.KeyReused,
		"400": fakeprovider.Reply(400, `{"type":"urn:x:idempotency_error","code":"key_reused"}`),
	} {
		t.Run(name, func(t *testing.T) {
			aCase(t, fakeprovider.Config{}, standard.Config{}, nil, func(s *shop) {
				s.bank.Script(fakeprovider.LoseRequest, said, fakeprovider.Answer)
				res := s.pay(order("1001"))
				s.want(res, payclient.ContractViolation, payclient.MovedMaybe)
				s.wantOpen(res)
				s.wantPosts(2)
				again := s.pay(order("1001"))
				if again.Outcome == payclient.Declined || again.Key != res.Key || s.bank.DistinctKeys() != 1 {
					t.Errorf("again: %v with key %s, %d keys in all; want one", again.Outcome, again.Key, s.bank.DistinctKeys())
				}
			})
		})
	}
}

func TestC03EqualPaymentsAreNotOne(t *testing.T) {
	aCase(t, fakeprovider.Config{}, standard.Config{}, nil, func(s *shop) {
		for _, i := range []attempt.Intent{
			order("1001"), order("1002"),
			{Account: "shop-a", Order: "invoice-7"}, {Account: "shop-b", Order: "invoice-7"},
			{Order: "1001", Purpose: "deposit"},
		} {
			i.Amount, i.Source = order("x").Amount, order("x").Source
			res := s.pay(i)
			s.want(res, payclient.Approved, payclient.MovedYes)
			if res.Existing {
				t.Errorf("%s: the result of another payment", i.Slot())
			}
			s.sleep(time.Second)
		}
		s.wantCharges(5)
		if n := s.bank.DistinctKeys(); n != 5 {
			t.Errorf("%d keys, want 5", n)
		}
	})
}

// keyForgotten pays an order whose answers are all lost, and gives back the shop at T+0.
func keyForgotten(t *testing.T, play func(s *shop, clock *time.Duration)) {
	t.Helper()
	clock := new(time.Duration) // how far the store's clock is off
	aCase(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) {
		c.Store.(*attempt.Memory).Now = func() time.Time { return time.Now().Add(*clock) }
	}, func(s *shop) {
		s.bank.Always(fakeprovider.Match{}, fakeprovider.LoseAnswer)
		s.bank.Always(fakeprovider.Lookups, fakeprovider.Status(503))
		res := s.pay(order("1001"))
		s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		s.wantOpen(res)
		play(s, clock)
	})
}

func TestC04TheProviderForgetsTheKey(t *testing.T) {
	keyForgotten(t, func(s *shop, _ *time.Duration) {
		posts := len(s.sends())
		s.sleep(25 * time.Hour)
		s.want(s.pay(order("1001")), payclient.UnknownOutcome, payclient.MovedMaybe) // nobody can be asked yet
		s.bank.ClearFaults()
		res := s.pay(order("1001"))
		s.want(res, payclient.Approved, payclient.MovedYes)
		if res.ChargeID != s.bank.Charges()[0].ID {
			t.Errorf("charge %s, the ledger has %s", res.ChargeID, s.bank.Charges()[0].ID)
		}
		s.wantPosts(posts)
		s.wantCharges(1)
	})
}

// The key's age counts from the first send, however late the last one was.
func TestC04TheAgeCountsFromTheFirstSend(t *testing.T) {
	keyForgotten(t, func(s *shop, _ *time.Duration) {
		s.sleep(20 * time.Hour)
		before := len(s.sends())
		s.want(s.pay(order("1001")), payclient.UnknownOutcome, payclient.MovedMaybe)
		posts := len(s.sends())
		if posts == before {
			t.Error("nothing was sent within the retention")
		}
		s.sleep(3*time.Hour + 30*time.Minute) // 23.5 h: within the retention, not within the margin
		s.want(s.pay(order("1001")), payclient.UnknownOutcome, payclient.MovedMaybe)
		s.wantPosts(posts)
		s.wantCharges(1)
	})
}

// A clock that runs backwards makes the key look young: its age is unknown then.
func TestC04TheClockRunsBackwards(t *testing.T) {
	keyForgotten(t, func(s *shop, clock *time.Duration) {
		posts := len(s.sends())
		s.sleep(time.Hour)
		*clock = -2 * time.Hour
		s.want(s.pay(order("1001")), payclient.UnknownOutcome, payclient.MovedMaybe)
		s.wantPosts(posts)
		s.bank.ClearFaults()
		s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
		s.wantPosts(posts)
		s.wantCharges(1)
	})
}

// The retention is the provider's, not a constant.
func TestC04TheRetentionIsDeclared(t *testing.T) {
	aCase(t, fakeprovider.Config{KeyRetention: time.Hour}, standard.Config{KeyRetention: time.Hour}, nil, func(s *shop) {
		s.bank.Always(fakeprovider.Match{}, fakeprovider.LoseAnswer)
		s.bank.Always(fakeprovider.Lookups, fakeprovider.Status(503))
		s.want(s.pay(order("1001")), payclient.UnknownOutcome, payclient.MovedMaybe)
		posts := len(s.sends())
		s.sleep(time.Hour)
		s.want(s.pay(order("1001")), payclient.UnknownOutcome, payclient.MovedMaybe)
		s.wantPosts(posts)
		s.wantCharges(1)
	})
	_, err := payclient.New(payclient.Config{
		Provider: mustStandard(t, standard.Config{KeyRetention: 10 * time.Second}), Store: new(attempt.Memory), BaseURL: "https://provider.test",
	})
	if err == nil || !strings.Contains(err.Error(), "keeps keys for 10s") {
		t.Errorf("a retention shorter than a call: %v, want it refused", err)
	}
}

func mustStandard(t *testing.T, c standard.Config) *standard.Provider {
	t.Helper()
	if c.Token.IsZero() {
		c.Token = payclient.NewSecret(wireToken)
	}
	p, err := standard.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

package payclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// Timelines that once ended in a second charge, or in a charge that was told as failed.

// A gateway refuses the repetition of what the provider has booked: its 402 names nobody, and speaks for nobody.
func TestAGatewaysRefusalDoesNotSpeakForALostSend(t *testing.T) {
	for _, lookups := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
			if !lookups {
				s.bank.Always(fakeprovider.Lookups, fakeprovider.Status(503))
			}
			quota := fakeprovider.Reply(402, `{"type":"https://gateway.example/quota","title":"Payment Required","status":402}`)
			s.bank.Script(fakeprovider.LoseAnswer, quota.And("type:application/json"))
			res := s.pay(order("1001"))
			if lookups {
				s.want(res, payclient.Approved, payclient.MovedYes)
			} else {
				s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
				if res.Reason != attempt.ReasonUnproven {
					t.Errorf("reason %s, want %s", res.Reason, attempt.ReasonUnproven)
				}
			}
			if _, err := s.client.Pay(t.Context(), with(order("1001"), "tok_mastercard")); err == nil {
				t.Error("another card was sent")
			}
			s.wantCharges(1)
		})
	}
}

// A clock that was set back makes no key young, once the store has known a later time.
func TestAClockSetBackMakesNoKeyYoung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back time.Duration
		store := &attempt.Memory{Now: func() time.Time { return time.Now().Add(-back) }}
		s := open(t, fakeprovider.Config{}, standard.Config{NoLookup: true}, func(c *payclient.Config) { c.Store, c.Retries = store, -1 })
		s.bank.Script(fakeprovider.LoseAnswer)
		s.want(s.pay(order("1001")), payclient.UnknownOutcome, payclient.MovedMaybe)
		time.Sleep(25 * time.Hour) // the provider has forgotten the key
		s.pay(order("1002"))
		back = 3 * time.Hour
		s.want(s.pay(order("1001")), payclient.UnknownOutcome, payclient.MovedMaybe)
		s.wantCharges(2) // one of each order
		s.pay(order("1003"))
		s.wantCharges(3) // what is new is paid on any clock
	})
}

// An observer that panics does not lose what was learnt.
func TestAnObserversPanicLosesNoOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := &failOnce{Store: new(attempt.Memory)}
		s := open(t, fakeprovider.Config{IgnoreKeys: true}, standard.Config{NoKeys: true, NoLookup: true}, func(c *payclient.Config) {
			c.Store = failing
			c.Observer.NotRecorded = func(_ context.Context, _ attempt.Attempt, _ error) { panic("observer") }
		})
		func() {
			defer func() { _ = recover() }()
			_, _ = s.client.Pay(t.Context(), order("1001"))
		}()
		time.Sleep(5 * time.Second)
		res, err := s.client.Status(t.Context(), order("1001").Slot())
		if err != nil || res.Outcome != payclient.Approved {
			t.Errorf("got %v, %v; want the approval that was read", res.Outcome, err)
		}
	})
}

// failOnce fails the first outcome that it is given.
type failOnce struct {
	attempt.Store
	failed bool
}

var errFailOnce = errors.New("disk full")

func (f *failOnce) Apply(ctx context.Context, steps ...*attempt.Step) error {
	if steps[0].Outcome && !f.failed {
		f.failed = true
		steps[0].Err = errors.Join(attempt.ErrUnavailable, errFailOnce)
		return steps[0].Err
	}
	return f.Store.Apply(ctx, steps...)
}

// The question that comes before a decision fails, and the same failed question must give nothing up: the request that was
// lost is executed later.
func TestAFailedQuestionGivesNothingUp(t *testing.T) {
	for _, how := range []fakeprovider.Fault{fakeprovider.Status(503), fakeprovider.Reply(200, "<html>"), "close"} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
			s.bank.Script(fakeprovider.NeverArrives, fakeprovider.NeverArrives, fakeprovider.NeverArrives)
			first := s.pay(order("1001"))
			s.want(first, payclient.UnknownOutcome, payclient.MovedMaybe)
			for range 2 {
				time.Sleep(2 * time.Minute)
				if _, err := s.client.Check(t.Context(), order("1001").Slot()); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(31 * time.Minute)
			s.bank.Always(fakeprovider.Lookups, how)
			posts := len(s.sends())
			if _, err := s.client.Pay(t.Context(), with(order("1001"), "tok_mastercard")); !errors.Is(err, attempt.ErrConflict) {
				t.Errorf("%s: got %v, want a conflict: the attempt is open", how, err)
			}
			if n := len(s.sends()) - posts; n != 0 {
				t.Errorf("%s: %d requests after a question that failed", how, n)
			}
		})
	}
}

// Money on an abandoned attempt is told before a prepared one beside it, whoever asks.
func TestMoneyIsToldBeforeAPreparedAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{IgnoreKeys: true}, standard.Config{NoKeys: true}, nil)
		s.bank.Script(fakeprovider.BookAfter(40 * time.Minute))
		s.pay(order("1001"))
		for range 3 {
			time.Sleep(11 * time.Minute)
			if _, err := s.client.Check(t.Context(), order("1001").Slot()); err != nil {
				t.Fatal(err)
			}
		}
		started, err := s.client.Start(t.Context(), with(order("1001"), "tok_mastercard"))
		if err != nil || started.Attempt.Ordinal != 2 {
			t.Fatalf("got %+v, %v; want a second attempt after the abandoned one", started.Attempt, err)
		}
		time.Sleep(10 * time.Minute) // the late charge is booked
		posts := len(s.sends())
		sent, err := s.client.Send(t.Context(), started.AttemptID, attempt.Token("tok_mastercard"))
		if err != nil {
			t.Fatal(err)
		}
		status, err := s.client.Status(t.Context(), order("1001").Slot())
		if err != nil {
			t.Fatal(err)
		}
		paid, err := s.client.Pay(t.Context(), with(order("1001"), "tok_mastercard"))
		if err != nil {
			t.Fatal(err)
		}
		for who, res := range map[string]payclient.Result{"Send": sent, "Status": status, "Pay": paid} {
			if res.Moved != payclient.MovedYes || !res.Open() || res.Reason != attempt.ReasonRefundOwed {
				t.Errorf("%s tells %s, moved %s, open %t, %s; want money that is owed back", who, res.Outcome, res.Moved, res.Open(), res.Reason)
			}
		}
		if n := len(s.sends()) - posts; n != 0 {
			t.Errorf("%d requests beside the late charge", n)
		}
	})
}

// A client that cannot ask does not pay after another client's abandonment.
func TestNothingIsSentUnaskedAfterAnAbandonment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{IgnoreKeys: true}, standard.Config{NoKeys: true}, nil)
		s.bank.Script(fakeprovider.LoseRequest)
		s.pay(order("1001"))
		for range 4 {
			time.Sleep(10 * time.Minute)
			if _, err := s.client.Check(t.Context(), order("1001").Slot()); err != nil {
				t.Fatal(err)
			}
		}
		blind := s.restart(standard.Config{NoKeys: true, NoLookup: true}, func(c *payclient.Config) { c.Transport = s.bank.RoundTripper() })
		posts := len(s.sends())
		var notPaid *attempt.NotPaidError
		if _, err := blind.Pay(t.Context(), order("1001")); !errors.As(err, &notPaid) || notPaid.Reason != attempt.ReasonNotAsked {
			t.Errorf("got %v, want that the provider could not be asked", err)
		}
		if n := len(s.sends()) - posts; n != 0 {
			t.Errorf("%d requests", n)
		}
	})
}

// An adapter that hands out one header for all requests must not make one payment leave under another's key.
func TestOneHeaderForAllRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) {
			c.Provider = oneHeader{mustStandard(t, standard.Config{Token: payclient.NewSecret("sk_test")}), http.Header{"Authorization": {"Bearer sk_test"}, "Content-Type": {"application/json"}}}
		})
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() { s.want(s.pay(order(fmt.Sprint(i))), payclient.Approved, payclient.MovedYes) })
		}
		wg.Wait()
		s.wantCharges(50)
		for a, err := range s.store.List(t.Context(), attempt.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if seen := s.bank.Requests(a.Key); len(seen) != 1 || seen[0].Reference != a.Reference {
				t.Errorf("attempt %s: its key came with %+v", a.ID, seen)
			}
		}
	})
}

type oneHeader struct {
	*standard.Provider
	header http.Header
}

func (o oneHeader) ChargeRequest(a attempt.Attempt) payclient.Request {
	r := o.Provider.ChargeRequest(a)
	r.Header = o.header
	return r
}

// What the store holds is what is sent, also where the call has rendered the very same attempt otherwise.
func TestTheStoredBytesAreSentAlsoWithDerivedIdentities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{NoLookup: true}, func(c *payclient.Config) {
			c.DeriveFrom, c.Retries = uuid.MustParse("5f0c3b8e-7d0e-4c53-9f57-1f7b2a6e1c11"), -1
		})
		s.bank.Script(fakeprovider.LoseRequest)
		i := order("1001")
		i.Description = "Order 1"
		s.want(s.pay(i), payclient.UnknownOutcome, payclient.MovedMaybe)
		i.Description = "Order 1 (second reminder)"
		s.want(s.pay(i), payclient.Approved, payclient.MovedYes)
		s.oneKey() // and the same bytes
	})
}

func TestConfigurationsThatAreRefusedForTheirTimelines(t *testing.T) {
	adapter := mustStandard(t, standard.Config{})
	for name, change := range map[string]func(*payclient.Config){
		"a retention without a key": func(c *payclient.Config) { c.Provider = keyless{adapter} },
		"a breaker's tiny period":   func(c *payclient.Config) { c.Breaker.Period = 5 * time.Nanosecond },
		"a claim without an end":    func(c *payclient.Config) { c.RecordTimeout = 1<<63 - 1 },
	} {
		cfg := payclient.Config{Provider: adapter, Store: new(attempt.Memory), BaseURL: "https://provider.test"}
		change(&cfg)
		if _, err := payclient.New(cfg); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

type keyless struct{ *standard.Provider }

func (k keyless) Capabilities() payclient.Capabilities {
	caps := k.Provider.Capabilities()
	caps.Key = payclient.KeyCapability{Retention: 24 * time.Hour}
	return caps
}

package payclient_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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

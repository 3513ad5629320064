package payclient_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// What others may do to an attempt while a call is sending it. Both were found by simulation.

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// An error says that the call sent nothing: not where it has sent, and the money has come in and gone back meanwhile.
func TestACallThatHasSentEndsWithoutError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		other, posts := s.client, 0
		client := s.restart(standard.Config{}, func(c *payclient.Config) {
			c.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
				if posts++; posts == 2 { // before the first one is repeated
					if _, err := other.Check(t.Context(), order("1001").Slot()); err != nil {
						t.Error(err)
					}
					res, err := other.CancelOrder(t.Context(), order("1001").Slot(), "")
					if err != nil || res.Moved != payclient.MovedYes {
						t.Errorf("cancelled: %+v, %v", res, err)
					}
					duty, _ := res.Attempt.OpenDuty()
					if _, err := other.RefundDuty(t.Context(), res.Attempt, duty); err != nil {
						t.Error(err)
					}
				}
				return s.bank.RoundTrip(req)
			})
		})
		s.bank.Script(fakeprovider.LoseAnswer)
		res, err := client.Pay(t.Context(), order("1001"))
		if err != nil {
			t.Errorf("got the error %v, which says that nothing was sent", err)
		}
		if res.Moved != payclient.MovedNo || res.Open() || res.Reason != attempt.ReasonRefunded || posts != 2 {
			t.Errorf("told moved %s, open %t, %s after %d requests; want no money, because it went back", res.Moved, res.Open(), res.Reason, posts)
		}
	})
}

// Whoever stood still until the attempt was given up, and then sent it all the same, does not hear that no money moved.
func TestACallThatStoodStillDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		other := s.client
		client := s.restart(standard.Config{}, func(c *payclient.Config) {
			c.Retries = -1
			c.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
				for range 5 {
					time.Sleep(10 * time.Minute)
					if _, err := other.Check(t.Context(), order("1001").Slot()); err != nil {
						t.Error(err)
					}
				}
				return s.bank.RoundTrip(req.WithContext(context.WithoutCancel(req.Context())))
			})
		})
		s.bank.Script(fakeprovider.LoseAnswer)
		res, err := client.Pay(t.Context(), order("1001"))
		if err != nil || res.Attempt.Status != attempt.StatusAbandoned {
			t.Fatalf("got %v, attempt %s; want that it was given up meanwhile", err, res.Attempt.Status)
		}
		if res.Outcome != payclient.UnknownOutcome || res.Moved != payclient.MovedMaybe || !res.Open() || res.Reason != attempt.ReasonClaimExpired {
			t.Errorf("told %s, moved %s, open %t, %s; want that nobody knows", res.Outcome, res.Moved, res.Open(), res.Reason)
		}
		s.wantCharges(1)
	})
}

// A sender that stood still says so when it goes on: what it has sent counts from then, not from its claim's deadline.
func TestASenderThatStoodStillSaysSo(t *testing.T) {
	for _, still := range []time.Duration{0, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, fakeprovider.Config{}, standard.Config{NoLookup: true}, nil)
			client := s.restart(standard.Config{NoLookup: true}, func(c *payclient.Config) {
				c.Retries = -1
				c.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
					time.Sleep(still)
					return s.bank.RoundTrip(req.WithContext(context.WithoutCancel(req.Context())))
				})
			})
			s.bank.Script(fakeprovider.LoseAnswer)
			began := time.Now()
			res, err := client.Pay(t.Context(), order("1001"))
			if err != nil {
				t.Fatal(err)
			}
			if got := res.Attempt.LastSentAt.Sub(began); got < still-time.Millisecond || got > still+time.Second {
				t.Errorf("stood still for %s: the last send counts as of %s after the call began", still, got)
			}
		})
	}
}

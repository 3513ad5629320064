package payclient_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// What may have been charged at one place is not charged at another, whatever the client's configuration says by then.
func TestAnOpenAttemptStaysAtItsPlace(t *testing.T) {
	for name, move := range map[string]func(*payclient.Config){
		"another address": func(c *payclient.Config) { c.BaseURL = "http://127.0.0.1:8080" },
		"another path":    func(c *payclient.Config) { c.BaseURL = "http://127.0.0.1/live" },
		"another account": func(c *payclient.Config) { c.ProviderAccount = "acct_2" },
		"another token": func(c *payclient.Config) {
			c.Provider = mustStandard(t, standard.Config{Token: payclient.NewSecret("sk_other")})
		},
		"another environment": func(c *payclient.Config) { c.Environment = "sandbox" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
				first := s.pay(with(order("1001"), "tok_book_after_15s"))
				s.want(first, payclient.UnknownOutcome, payclient.MovedMaybe)

				elsewhere := fakeprovider.New(fakeprovider.Config{})
				defer elsewhere.Close()
				moved := s.restart(standard.Config{}, func(c *payclient.Config) {
					move(c)
					c.Transport = elsewhere.RoundTripper()
				})
				time.Sleep(20 * time.Second) // in the bubble: the charge is booked at the first place
				res, err := moved.Pay(t.Context(), with(order("1001"), "tok_book_after_15s"))
				var conflict *attempt.ConflictError
				if !errors.As(err, &conflict) || conflict.Differs != "provider" || res.AttemptID != first.AttemptID {
					t.Fatalf("got %+v, %v; want a conflict with the attempt at the other place", res, err)
				}
				if n := elsewhere.RequestCount(); n != 0 {
					t.Fatalf("%d requests at the new place, want none: not even a question", n)
				}
				s.want(s.pay(with(order("1001"), "tok_book_after_15s")), payclient.Approved, payclient.MovedYes)
				s.wantCharges(1)
			})
		})
	}
}

func TestOneAddressIsOnePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		first := s.pay(order("1001"))
		same := s.restart(standard.Config{}, func(c *payclient.Config) {
			c.BaseURL, c.Transport = "http://127.0.0.1/", s.bank.RoundTripper()
		})
		res, err := same.Pay(t.Context(), order("1001"))
		if err != nil || res.AttemptID != first.AttemptID || res.Attempt.Environment != "127.0.0.1" {
			t.Fatalf("got %+v, %v; want the stored approval, at 127.0.0.1", res, err)
		}
	})
}

package payclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// listed reads a listing to its end.
func listed(ctx context.Context, c *payclient.Client, from, to time.Time) (all []attempt.Notice, err error) {
	for n, err := range c.ListCharges(ctx, from, to) {
		if err != nil {
			return all, err
		}
		all = append(all, n)
	}
	return all, nil
}

func TestListCharges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		from := time.Now()
		sources := []string{"tok_visa", "tok_declined", "tok_pending", "tok_visa"}
		want := map[string]payclient.Result{}
		for i := range 250 {
			res := s.pay(with(order(fmt.Sprint(i)), sources[i%4]))
			want[res.Reference] = res
			time.Sleep(time.Second)
		}
		to := from.Add(200*time.Second + 500*time.Millisecond)
		asked := s.bank.RequestCount()
		all, err := listed(t.Context(), s.client, from, to)
		if err != nil || len(all) != 201 {
			t.Fatalf("%d listed, %v; want 201", len(all), err)
		}
		if n := s.bank.RequestCount() - asked; n != 3 {
			t.Errorf("%d questions, want 3 pages", n)
		}
		for i, n := range all {
			res := want[n.Reference]
			status := []attempt.ChargeStatus{attempt.ChargeSucceeded, attempt.ChargeFailed, attempt.ChargePending, attempt.ChargeSucceeded}[i%4]
			if n.Charge.ID == "" || n.Charge.Status != status || n.Charge.Amount != res.Attempt.Amount || n.Refund || n.ID != "" {
				t.Errorf("entry %d: %+v, want %s of %s", i, n, status, res.Attempt.Amount)
			}
		}
		// The reader may stop at any time.
		asked = s.bank.RequestCount()
		for range s.client.ListCharges(t.Context(), from, to) { //nolint:errcheck // it is left at once
			break
		}
		if n := s.bank.RequestCount() - asked; n != 1 {
			t.Errorf("%d questions, want 1", n)
		}
		if all, err = listed(t.Context(), s.client, to.Add(time.Hour), to.Add(2*time.Hour)); err != nil || len(all) != 0 {
			t.Errorf("%d listed, %v; want none", len(all), err)
		}
	})
}

func TestListChargesPassesForeignReferencesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		from := time.Now()
		s.pay(order("1001"))
		s.bank.ScriptFor(fakeprovider.Lookups, fakeprovider.LookupForeign)
		all, err := listed(t.Context(), s.client, from, time.Now().Add(time.Second))
		if err != nil || len(all) != 1 || all[0].Reference != "foreign" {
			t.Errorf("%+v, %v", all, err)
		}
		// One that cannot be read is left out, and ends nothing.
		s.bank.ScriptFor(fakeprovider.Lookups, "lookup-foreign+set:currency=QQQ", "lookup-foreign+set:amount=null")
		for range 2 {
			if all, err = listed(t.Context(), s.client, from, time.Now().Add(time.Second)); err != nil || len(all) != 0 {
				t.Errorf("%+v, %v", all, err)
			}
		}
	})
}

func TestListChargesEndsWithTheFirstPageThatFails(t *testing.T) {
	for name, fault := range map[string]fakeprovider.Fault{
		"failing": fakeprovider.Status(503), "not found": fakeprovider.Status(404), "null": "lookup-null", "cut": "cut-body:300",
		"no amount": "set:amount=null", "never ends": "lookup-stuck", "lost": fakeprovider.LoseAnswer, "html": "html",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
				from := time.Now()
				for i := range 150 {
					s.pay(order(fmt.Sprint(i)))
				}
				to := time.Now().Add(time.Second)
				s.bank.ScriptFor(fakeprovider.Lookups, fakeprovider.Answer, fault)
				if name == "never ends" {
					s.bank.Always(fakeprovider.Lookups, fault)
				}
				all, err := listed(t.Context(), s.client, from, to)
				if err == nil || errors.Is(err, payclient.ErrNotAsked) || len(all) < 100 || len(all) > 300 {
					t.Errorf("%d listed, %v; want the first page and an error", len(all), err)
				}
			})
		})
	}
}

func TestListChargesThatCannotBeAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) { c.Breaker.MinRequests = 1 })
		now := time.Now()
		cannot := s.restart(standard.Config{NoLists: true}, onBank(s))
		if _, err := listed(t.Context(), cannot, now, now); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("an adapter without: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := listed(ended, s.client, now, now); err == nil {
			t.Error("no error although the caller has gone")
		}
		s.bank.Always(fakeprovider.Lookups, fakeprovider.Status(500))
		if _, err := listed(t.Context(), s.client, now, now); err == nil || errors.Is(err, payclient.ErrNotAsked) {
			t.Errorf("failing: %v", err)
		}
		if _, err := listed(t.Context(), s.client, now, now); !errors.Is(err, payclient.ErrNotAsked) {
			t.Errorf("the breaker is open: %v, want not asked", err)
		}
		if err := s.client.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := listed(t.Context(), s.client, now, now); !errors.Is(err, payclient.ErrNotAsked) {
			t.Errorf("closed: %v, want not asked", err)
		}
	})
}

// A token that is both asked for in a listing and put into its answer is not passed on in the error.
func TestListChargesShowsNoCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{Token: payclient.NewSecret("sk_test_0123456789")}, func(c *payclient.Config) {
			c.Transport = failing{}
		})
		_, err := listed(t.Context(), s.client, time.Now(), time.Now())
		if err == nil || strings.Contains(err.Error(), "sk_test_0123456789") {
			t.Errorf("%v", err)
		}
	})
}

type failing struct{}

func (failing) RoundTrip(req *http.Request) (*http.Response, error) {
	return nil, fmt.Errorf("refused %s", req.Header.Get("Authorization"))
}

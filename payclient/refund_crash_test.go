package payclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// steps counts what a client does to its store and to the provider, and lets something happen at one of them.
type steps struct {
	attempt.Store
	next http.RoundTripper

	seen, at int
	fail     bool // the store fails at that step; else the process ends there
	happened bool
}

func (c *steps) here(what string) error {
	c.seen++
	if c.seen != c.at {
		return nil
	}
	c.happened = true
	if c.fail {
		return fmt.Errorf("%s: %w: a test's own", what, attempt.ErrUnavailable)
	}
	runtime.Goexit()
	return nil
}

func (c *steps) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := c.here("before the request"); err != nil {
		return nil, err
	}
	resp, err := c.next.RoundTrip(req)
	if failed := c.here("after the answer"); failed != nil && err == nil {
		return nil, errors.Join(failed, resp.Body.Close())
	}
	return resp, err
}

func (c *steps) Apply(ctx context.Context, all ...*attempt.Step) error {
	if err := c.here("before the write"); err != nil {
		all[0].Err = err
		return err
	}
	err := c.Store.Apply(ctx, all...)
	if failed := c.here("after the write"); failed != nil && err == nil {
		all[0].Err = failed // written, and the connection lost in the commit
		return failed
	}
	return err
}

// TestCrashBetweenAnyTwoSteps ends the process, or has the store or the wire fail, at each step of each kind of call in turn.
// Then another process does the same once more, and the end must be the one of an undisturbed call.
func TestCrashBetweenAnyTwoSteps(t *testing.T) {
	flows := map[string]struct {
		source string
		call   func(ctx context.Context, c *payclient.Client, paid attempt.Attempt) error
		ends   func(s *shop, paid attempt.Attempt) error
	}{
		"refund": {"tok_visa", func(ctx context.Context, c *payclient.Client, paid attempt.Attempt) error {
			_, err := c.Refund(ctx, attempt.Refund{AttemptID: paid.ID, ID: "r1"})
			return err
		}, func(s *shop, paid attempt.Attempt) error {
			all, err := s.client.Refunds(s.t.Context(), paid.ID)
			if len(all) != 1 || all[0].Outcome != payclient.Approved || s.refunded() != 54890 || len(s.bank.Refunds()) != 1 {
				return fmt.Errorf("%d refunds known, %d in the books over %d: %w", len(all), len(s.bank.Refunds()), s.refunded(), errors.Join(err))
			}
			if c, _ := s.attempt(paid.ID).Charge(paid.ChargeID); c.Refunded != 54890 {
				return fmt.Errorf("the charge knows of %d given back", c.Refunded)
			}
			return nil
		}},
		"duty": {"tok_visa", func(ctx context.Context, c *payclient.Client, paid attempt.Attempt) error {
			if _, err := c.CancelOrder(ctx, paid.Slot, "out of time"); err != nil {
				return err
			}
			d := attempt.Duty{Kind: attempt.DutyRefund, ChargeID: paid.ChargeID}
			_, err := c.RefundDuty(ctx, paid, d)
			return err
		}, func(s *shop, paid attempt.Attempt) error {
			if a := s.attempt(paid.ID); len(a.Duties) != 1 || a.Duties[0].MetAt.IsZero() || s.refunded() != 54890 || len(s.bank.Refunds()) != 1 {
				return fmt.Errorf("duties %+v, %d in the books", a.Duties, s.refunded())
			}
			return nil
		}},
		"cancel": {"tok_requires_action", func(ctx context.Context, c *payclient.Client, paid attempt.Attempt) error {
			_, err := c.CancelOrder(ctx, paid.Slot, "out of time")
			return err
		}, func(s *shop, paid attempt.Attempt) error {
			if a := s.attempt(paid.ID); a.Status != attempt.StatusDeclined || a.UnwantedAt.IsZero() || len(s.bank.Charges()) != 0 {
				return fmt.Errorf("%s (%s), %d charges", a.Status, a.Reason, len(s.bank.Charges()))
			}
			return nil
		}},
		"another card": {"tok_requires_action", func(ctx context.Context, c *payclient.Client, paid attempt.Attempt) error {
			_, err := c.Pay(ctx, with(order(paid.Slot.Order), "tok_mastercard"))
			return err
		}, func(s *shop, paid attempt.Attempt) error {
			res, err := s.client.Status(s.t.Context(), paid.Slot)
			if err != nil || res.Outcome != payclient.Approved || len(s.bank.Charges()) != 1 || s.attempt(paid.ID).Status != attempt.StatusDeclined {
				return fmt.Errorf("%s (%s), %d charges, the first one %s: %w", res.Outcome, res.Reason, len(s.bank.Charges()), s.attempt(paid.ID).Status, errors.Join(err))
			}
			return nil
		}},
	}
	for name, flow := range flows {
		for _, fail := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/fail=%t", name, fail), func(t *testing.T) {
				for at := 1; ; at++ {
					happened := true
					synctest.Test(t, func(t *testing.T) {
						s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
						paid := s.pay(with(order("1001"), flow.source)).Attempt
						c := &steps{Store: s.store, next: s.bank, at: at, fail: fail}
						first := s.restart(standard.Config{}, func(cfg *payclient.Config) { cfg.Store, cfg.Transport = c, c })
						done := make(chan struct{})
						go func() {
							defer close(done)
							_ = flow.call(t.Context(), first, paid) // whatever it says, see what follows
						}()
						<-done
						happened = c.happened
						time.Sleep(20 * time.Second) // claims are over
						if fail {
							if err := first.Close(t.Context()); err != nil {
								t.Fatal(err)
							}
						}
						if err := flow.call(t.Context(), s.client, s.attempt(paid.ID)); err != nil && !errors.Is(err, attempt.ErrRefunded) {
							t.Errorf("step %d, once more: %v", at, err)
						}
						if err := flow.ends(s, paid); err != nil {
							t.Errorf("step %d: %v", at, err)
						}
						keys := map[string]bool{}
						for _, r := range s.posts("/v1/refunds") {
							keys[r.Key] = true
						}
						if len(keys) > 1 {
							t.Errorf("step %d: %d keys for one refund", at, len(keys))
						}
					})
					if !happened {
						if at < 5 {
							t.Errorf("only %d steps: not the call that was meant", at-1)
						}
						return
					}
					if at > 100 {
						t.Fatal("the steps do not end")
					}
				}
			})
		}
	}
}

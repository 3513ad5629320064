package payclient_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

func TestC38TooShortForTheProvider(t *testing.T) {
	var starts []time.Time
	watched := func(send, call time.Duration) func(*payclient.Config) {
		starts = nil
		return func(c *payclient.Config) {
			c.SendTimeout, c.CallTimeout = send, call
			c.Transport = around(c.Transport, func(q *http.Request, next http.RoundTripper) (*http.Response, error) {
				if q.Method == http.MethodPost {
					starts = append(starts, time.Now())
				}
				return next.RoundTrip(q)
			})
		}
	}
	t.Run("times out, asks again, is answered", func(t *testing.T) {
		aCase(t, fakeprovider.Config{}, standard.Config{}, watched(10*time.Second, time.Minute), func(s *shop) {
			s.bank.Script(fakeprovider.Slow(12 * time.Second))
			res := s.pay(order("1001"))
			s.want(res, payclient.Approved, payclient.MovedYes)
			events, err := s.store.Events(s.t.Context(), res.AttemptID)
			if err != nil {
				t.Fatal(err)
			}
			log := events[len(events)-1].Evidence.Sends
			if log[0].Reason != attempt.ReasonTimeout || log[0].Took != 10*time.Second || log[0].StartedAt != s.began.UTC() || len(log) != len(starts) {
				t.Errorf("log %+v, want each send's start, length and reason", log)
			}
			s.oneKey()
			s.wantCharges(1)
		})
	})
	t.Run("no send that cannot finish", func(t *testing.T) {
		aCase(t, fakeprovider.Config{}, alone, watched(10*time.Second, 11*time.Second), func(s *shop) {
			s.bank.Script(fakeprovider.Slow(12 * time.Second))
			res := s.pay(order("1001"))
			s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
			if res.Reason != attempt.ReasonTimeout {
				t.Errorf("reason %s, want timeout", res.Reason)
			}
			s.wantOpen(res)
			s.wantPosts(1)
			s.between(10*time.Second, 10*time.Second)
		})
	})
	t.Run("the caller's deadline counts", func(t *testing.T) {
		aCase(t, fakeprovider.Config{}, alone, watched(3*time.Second, 10*time.Second), func(s *shop) {
			s.bank.Always(fakeprovider.Match{}, fakeprovider.Hang)
			ctx, cancel := context.WithTimeout(context.Background(), 4500*time.Millisecond)
			defer cancel()
			res, err := s.client.Pay(ctx, order("1001"))
			if err != nil {
				t.Fatal(err)
			}
			s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
			s.wantPosts(1) // after 3 s and a wait of 1 s less than a third of a send's time is left
			s.between(3*time.Second, 4500*time.Millisecond)
		})
	})
	t.Run("the question after the sends is part of the call", func(t *testing.T) {
		aCase(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) { c.Retries, c.FirstWait = 1, 2*time.Second }, func(s *shop) {
			s.bank.Always(fakeprovider.Match{Method: "*"}, fakeprovider.Hang)
			s.want(s.pay(order("1001")), payclient.UnknownOutcome, payclient.MovedMaybe)
			s.between(10*time.Second, 10*time.Second) // 3 s, 2 s to 2.4 s, 3 s, and what is left for the question
		})
	})
	t.Run("not enough to begin with", func(t *testing.T) {
		aCase(t, fakeprovider.Config{}, alone, watched(3*time.Second, 10*time.Second), func(s *shop) {
			ctx, cancel := context.WithTimeout(context.Background(), 900*time.Millisecond)
			defer cancel()
			res, err := s.client.Pay(ctx, order("1001"))
			var notPaid *attempt.NotPaidError
			if !errors.As(err, &notPaid) || notPaid.Reason != attempt.ReasonNoTime || res.Moved != payclient.MovedNo {
				t.Errorf("%v moved=%v, %v; want not sent for want of time", res.Outcome, res.Moved, err)
			}
			s.wantPosts(0)
		})
	})
	// Nested the wrong way is refused where the client is made. An http.Client, with a time-out of its own, cannot be given.
	for _, c := range []struct{ send, call, first time.Duration }{
		{10 * time.Second, 10 * time.Second, 0}, {10 * time.Second, 5 * time.Second, 0}, {time.Second, time.Minute, 30 * time.Second},
		{-1, 0, 0}, {0, -1, 0},
	} {
		_, err := payclient.New(payclient.Config{
			Provider: mustStandard(t, alone), Store: new(attempt.Memory), BaseURL: "https://provider.test",
			SendTimeout: c.send, CallTimeout: c.call, MinAge: c.first,
		})
		if err == nil {
			t.Errorf("send %s, call %s, first question %s: taken", c.send, c.call, c.first)
		}
	}
}

// A process that was frozen between its request and the connection has lost its claim when it goes on: another may hold it.
// What is left of the request is ended, and counts as one that may have left.
func TestC38FrozenBeforeTheConnection(t *testing.T) {
	aCase(t, fakeprovider.Config{}, alone, func(c *payclient.Config) {
		c.Transport = wireStranger(func(q *http.Request) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(q.Context())
			trace.GetConn("")
			time.Sleep(16 * time.Second) // in the bubble: frozen, whatever the context says
			trace.GotConn(httptrace.GotConnInfo{})
			if q.Context().Err() == nil {
				t.Error("the request goes on after its claim")
			}
			return nil, context.Cause(q.Context())
		})
	}, func(s *shop) {
		res := s.pay(order("1001"))
		s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		if res.Reason != attempt.ReasonClaimExpired || res.Sends != 1 {
			t.Errorf("reason %s after %d sends, want claim_expired after 1", res.Reason, res.Sends)
		}
		if a := s.attempts(order("1001")); res.RecordErr != nil || len(a[0].Claims) != 0 || a[0].MaybeSends != 1 {
			t.Errorf("%v, stored %+v; want the end of the claim stored", res.RecordErr, a[0])
		}
	})
}

func TestC39TheBodyComesLater(t *testing.T) {
	t.Run("within the send's time", func(t *testing.T) {
		aCase(t, fakeprovider.Config{}, alone, once, func(s *shop) {
			s.bank.Script(fakeprovider.PauseBody(50 * time.Millisecond).And("pad:65536"))
			s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
			s.between(50*time.Millisecond, 50*time.Millisecond)
		})
	})
	t.Run("byte by byte within the send's time", func(t *testing.T) {
		aCase(t, fakeprovider.Config{}, alone, once, func(s *shop) {
			s.bank.Script(fakeprovider.Drip(5 * time.Millisecond))
			s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
		})
	})
	for name, fault := range map[string]fakeprovider.Fault{
		"later": fakeprovider.PauseBody(5 * time.Second), "never": fakeprovider.StallBody(30), "too slowly": fakeprovider.Drip(time.Second),
	} {
		t.Run(name, func(t *testing.T) {
			aCase(t, fakeprovider.Config{}, alone, once, func(s *shop) {
				s.bank.Script(fault)
				res := s.pay(order("1001"))
				s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
				if res.Reason != attempt.ReasonTimeout { // by our own time
					t.Errorf("reason %s, want timeout", res.Reason)
				}
				s.between(3*time.Second, 3*time.Second)
				s.wantOpen(res)
			})
			aCase(t, fakeprovider.Config{}, alone, once, func(s *shop) {
				s.bank.Script(fault)
				ctx, cancel := context.WithCancel(context.Background())
				time.AfterFunc(2*time.Second, cancel)
				res, err := s.client.Pay(ctx, order("1001"))
				if err != nil || res.Reason != attempt.ReasonCancelled { // by the caller
					t.Errorf("reason %s, %v; want cancelled", res.Reason, err)
				}
				s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
				s.wantOpen(res)
			})
			aCase(t, fakeprovider.Config{}, alone, nil, func(s *shop) {
				s.bank.Script(fault)
				s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
				s.oneKey()
				s.wantCharges(1)
			})
		})
	}
}

// A redirect is not followed, whatever it is and wherever it leads; the first host may have booked, and is asked.
func TestC40Redirects(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for _, location := range []string{"/v1/charges", "https://127.0.0.1/v1/charges", "https://other.test/v1/charges", "http://other.test/", "self", ""} {
			t.Run(fmt.Sprint(status, " to ", location), func(t *testing.T) {
				hosts := map[string]int{}
				watch := func(c *payclient.Config) {
					c.Transport = around(c.Transport, func(q *http.Request, next http.RoundTripper) (*http.Response, error) {
						hosts[q.Method+" "+q.URL.Scheme+"://"+q.URL.Host]++
						return next.RoundTrip(q)
					})
				}
				fault := fakeprovider.Redirect(status, location)
				aCase(t, fakeprovider.Config{}, alone, watch, func(s *shop) {
					s.bank.Always(fakeprovider.Match{}, fault.And(fakeprovider.Book))
					res := s.pay(order("1001"))
					s.want(res, payclient.ContractViolation, payclient.MovedMaybe)
					if res.Reason != attempt.ReasonRedirected || res.StatusCode != status {
						t.Errorf("%s with status %d, want redirected", res.Reason, res.StatusCode)
					}
					if strings.Contains(location, "other.test") && !strings.Contains(res.Attempt.Answer.Detail, "other.test") {
						t.Errorf("detail %q does not show where to", res.Attempt.Answer.Detail)
					}
					s.wantOpen(res)
					s.wantPosts(1)
					s.wantCharges(1)
				})
				aCase(t, fakeprovider.Config{}, standard.Config{}, watch, func(s *shop) {
					s.bank.Always(fakeprovider.Match{}, fault.And(fakeprovider.Book))
					s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes) // found by reference
					s.wantPosts(1)
					s.wantCharges(1)
				})
				aCase(t, fakeprovider.Config{}, standard.Config{}, watch, func(s *shop) {
					s.bank.Always(fakeprovider.Match{}, fault)
					s.wantOpen(s.pay(order("1001"))) // not found, yet
					s.wantPosts(1)
					s.wantCharges(0)
				})
				for to := range hosts {
					if !strings.HasSuffix(to, " http://127.0.0.1") {
						t.Errorf("a request went to %s", to)
					}
				}
			})
		}
	}
}

// It never got through: not sent, told as such, and told apart by whether trying again can help.
func TestC41ItNeverGotThrough(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  fakeprovider.Fault
		reason attempt.Reason
		sends  int
	}{
		{"a unknown host name", fakeprovider.DNSFailure, attempt.ReasonUnreachable, 4},
		{"b refused port", fakeprovider.RefuseDial, attempt.ReasonUnreachable, 4},
		{"c connect time-out", "dial-timeout", attempt.ReasonUnreachable, 4},
		{"c a dial that hangs", fakeprovider.HangDial, attempt.ReasonUnreachable, 3},
		{"d expired certificate", "tls-expired", attempt.ReasonCertificate, 1},
		{"d unknown authority", fakeprovider.TLSUnknownAuthority, attempt.ReasonCertificate, 1},
		{"e wrong name", "tls-wrong-name", attempt.ReasonCertificate, 1},
		{"f reset in the handshake", fakeprovider.TLSReset, attempt.ReasonUnreachable, 4},
		{"f handshake time-out", "tls-timeout", attempt.ReasonUnreachable, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			aCase(t, fakeprovider.Config{}, standard.Config{}, func(cfg *payclient.Config) { cfg.BaseURL = "https://127.0.0.1" }, func(s *shop) {
				s.client = s.restart(standard.Config{}, func(cfg *payclient.Config) {
					cfg.BaseURL, cfg.Transport = "https://127.0.0.1", s.bank.RoundTripper()
				})
				s.bank.Always(fakeprovider.Match{Method: "*"}, c.fault)
				res, err := s.client.Pay(s.t.Context(), order("1001"))
				var notPaid *attempt.NotPaidError
				if !errors.As(err, &notPaid) || notPaid.Reason != c.reason || res.Moved != payclient.MovedNo || res.Open() {
					t.Errorf("%v moved=%v, open %t, %v; want not sent, %s", res.Outcome, res.Moved, res.Open(), err, c.reason)
				}
				if res.Sends != c.sends {
					t.Errorf("%d tries, want %d", res.Sends, c.sends)
				}
				if a := s.attempts(order("1001")); len(a) != 1 || a[0].Status != attempt.StatusPrepared || a[0].MaybeSends != 0 || !a[0].LastSentAt.IsZero() {
					t.Errorf("stored: %+v; want it ready to be sent", a)
				}
				s.wantPosts(0)
				s.bank.ClearFaults()
				paid := s.pay(order("1001"))
				s.want(paid, payclient.Approved, payclient.MovedYes)
				if paid.Key != res.Key || len(s.attempts(order("1001"))) != 1 {
					t.Errorf("key %s, want the stored %s", paid.Key, res.Key)
				}
				s.wantCharges(1)
			})
		})
	}
	// (g), a proxy that refuses, needs the transport of this package: see F20.
	for _, fault := range []fakeprovider.Fault{fakeprovider.Reset, fakeprovider.Book.And(fakeprovider.Reset), fakeprovider.NoHooks.And(fakeprovider.RefuseDial)} {
		t.Run("h "+string(fault), func(t *testing.T) {
			aCase(t, fakeprovider.Config{}, alone, nil, func(s *shop) {
				s.client = s.restart(alone, func(cfg *payclient.Config) { cfg.Transport, cfg.Retries = s.bank.RoundTripper(), -1 })
				s.bank.Script(fault)
				res := s.pay(order("1001"))
				s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
				s.wantOpen(res)
			})
		})
	}
}

// One send that may have left makes the intent unknown, however the later ones ended (S09).
func TestC41AfterOneThatMayHaveLeft(t *testing.T) {
	for _, fault := range []fakeprovider.Fault{fakeprovider.RefuseDial, fakeprovider.DNSFailure, fakeprovider.TLSUnknownAuthority} {
		t.Run(string(fault), func(t *testing.T) {
			aCase(t, fakeprovider.Config{}, alone, nil, func(s *shop) {
				s.client = s.restart(alone, func(cfg *payclient.Config) { cfg.Transport = s.bank.RoundTripper() })
				s.bank.Script(fakeprovider.LoseAnswer, fault, fault, fault)
				res := s.pay(order("1001"))
				s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
				if res.Reason != attempt.ReasonConnectionLost {
					t.Errorf("reason %s, want that of the send that may have left", res.Reason)
				}
				s.wantOpen(res)
				s.wantCharges(1)
				s.bank.ClearFaults()
				s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
				s.oneKey()
				s.wantCharges(1)
			})
		})
	}
}

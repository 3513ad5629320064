package payclient_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/internal/wiretest"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// net/http would send a keyed POST again by itself on a connection that has served a request before: here it is one send of the log,
// and the repetition another.
func TestC12TheTransportSendsNothingByItself(t *testing.T) {
	t.Parallel()
	var served atomic.Bool
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		for {
			q, ok := c.Request()
			switch {
			case !ok:
				return
			case !served.Swap(true):
				c.Say(wireApprove(q))
			case c.N == 1: // booked, and the connection closed
				c.Cut()
				return
			default:
				c.Say(wireApprove(q, "Idempotent-Replayed: true"))
			}
		}
	})
	r := wireClient(t, server.URL(), nil)
	r.warm()
	lost, err := r.pay("1001")
	if err != nil || lost.Outcome != payclient.UnknownOutcome || lost.Sends != 1 {
		t.Fatalf("%v after %d sends, %v; want unknown after 1", lost.Outcome, lost.Sends, err)
	}
	if posts := wirePosts(server, lost.Reference); len(posts) != 1 || posts[0].Conn != 1 {
		t.Errorf("requests %v, want one, on the connection that was used before", posts)
	}
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.Approved || !res.Replayed || res.Sends != 2 {
		t.Errorf("again: %v after %d sends, %v; want approved after 2", res.Outcome, res.Sends, err)
	}
	if got := wireVerdicts(r.log(res.AttemptID)); got != "lost/connection_lost charged/" {
		t.Errorf("log: %s, want lost and then charged", got)
	}
	r.checkRequests(server, res)
	r.drained(server)
}

// Half of the first body is read: what comes next is all of it again, and what is stored of it is the digest of just that.
func TestC14TheWholeBodyAgain(t *testing.T) {
	aCase(t, fakeprovider.Config{}, standard.Config{}, nil, func(s *shop) {
		s.bank.Script("read:40", fakeprovider.Answer)
		res := s.pay(order("1001"))
		s.want(res, payclient.Approved, payclient.MovedYes)
		posts := s.sends()
		if len(posts) != 2 || !posts[0].Cut || posts[1].Cut || !bytes.HasPrefix([]byte(posts[1].Body), []byte(posts[0].Body)) {
			t.Fatalf("the provider saw %+v", posts)
		}
		digest, err := attempt.Digester{}.BodyDigest("", []byte(posts[1].Body))
		if err != nil || digest != res.Attempt.BodyDigest {
			t.Errorf("digest of the sent body %s, stored %s, %v", digest, res.Attempt.BodyDigest, err)
		}
		s.wantCharges(1)
	})
}

// A middleware that signs and rewrites the body gets the same bytes each time, and so makes the same request each time.
func TestC14ASigningMiddleware(t *testing.T) {
	var signatures []string
	aCase(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) {
		c.Transport = around(c.Transport, func(q *http.Request, next http.RoundTripper) (*http.Response, error) {
			body, err := io.ReadAll(q.Body)
			if err != nil {
				return nil, err
			}
			body = append(bytes.TrimSuffix(body, []byte("}")), `,"description":"signed"}`...)
			sum := sha256.Sum256(body)
			signed := q.Clone(q.Context())
			signed.Header.Set("Signature", hex.EncodeToString(sum[:]))
			signed.Body, signed.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			signatures = append(signatures, signed.Header.Get("Signature"))
			return next.RoundTrip(signed)
		})
	}, func(s *shop) {
		s.bank.Script(fakeprovider.Status(500), fakeprovider.LoseAnswer, fakeprovider.Answer)
		s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
		s.oneKey()
		s.wantPosts(3)
		s.wantCharges(1)
		if len(signatures) != 3 || signatures[0] != signatures[1] || signatures[1] != signatures[2] {
			t.Errorf("signatures %q, want one", signatures)
		}
	})
}

func TestC15TheFirstOneIsStillRunning(t *testing.T) {
	quick := func(c *payclient.Config) {
		c.SendTimeout, c.FirstWait, c.Retries = 2*time.Second, 500*time.Millisecond, 10
	}
	aCase(t, fakeprovider.Config{}, standard.Config{}, quick, func(s *shop) {
		s.bank.Script(fakeprovider.Slow(6 * time.Second))
		res := s.pay(order("1001"))
		s.want(res, payclient.Approved, payclient.MovedYes)
		codes := s.statuses()
		if n := len(codes); n < 3 || codes[1] != 409 || codes[n-1] != 201 || !s.sends()[n-1].Replayed {
			t.Errorf("the provider answered %v, want a time-out, 409 and the replay", codes)
		}
		s.oneKey()
		s.wantCharges(1)
	})
	aCase(t, fakeprovider.Config{}, standard.Config{NoLookup: true}, quick, func(s *shop) {
		s.bank.Always(fakeprovider.Match{}, fakeprovider.Running)
		res := s.pay(order("1001"))
		s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		if res.Reason != attempt.ReasonStillRunning || res.StatusCode != 409 || time.Since(s.began) > 10*time.Second {
			t.Errorf("reason %s, status %d after %s; want still_running within the call", res.Reason, res.StatusCode, time.Since(s.began))
		}
		s.wantOpen(res)
		s.oneKey()
	})
}

// A decline speaks for the sends before it only where the provider keeps it under the key.
func TestC15DeclinedWhileTheFirstMayRun(t *testing.T) {
	declined := fakeprovider.SetField("status", `"failed"`)
	for name, fault := range map[string]fakeprovider.Fault{"402": fakeprovider.Decline("stolen_card"), "201 failed": declined} {
		for keeps, want := range map[bool]told{true: toldDeclined, false: toldUnknown} {
			t.Run(fmt.Sprint(name, ", keeps every answer: ", keeps), func(t *testing.T) {
				aCase(t, fakeprovider.Config{}, standard.Config{NoLookup: true, KeepsSuccessesOnly: !keeps}, nil, func(s *shop) {
					s.bank.Script(fakeprovider.Running, fault)
					res := s.pay(order("1001"))
					s.want(res, want.outcome, want.moved)
					s.wantPosts(2)
					if res.Open() != (want == toldUnknown) {
						t.Errorf("open: %t", res.Open())
					}
				})
			})
		}
	}
}

// Mode A: the 500 is stored under the key. Mode B: nothing is, and the next POST would book again.
func TestC17A500AndTheKey(t *testing.T) {
	for _, c := range []struct {
		name   string
		bank   fakeprovider.Config
		std    standard.Config
		first  fakeprovider.Fault
		posts  int
		lookup fakeprovider.Fault
		told   told
	}{
		{"A pinned", fakeprovider.Config{Keep: fakeprovider.KeepAll}, standard.Config{}, fakeprovider.Book.And(fakeprovider.Status(500), fakeprovider.Pin), 2, "", toldApproved},
		{"A pinned, the replay unmarked", fakeprovider.Config{}, standard.Config{}, "", 4, "", toldApproved},
		{"A pinned, nobody can be asked", fakeprovider.Config{Keep: fakeprovider.KeepAll}, standard.Config{}, fakeprovider.Book.And(fakeprovider.Status(500), fakeprovider.Pin), 2, fakeprovider.Status(503), toldUnknown},
		{"B forgotten", fakeprovider.Config{Keep: fakeprovider.KeepSuccesses}, standard.Config{KeepsSuccessesOnly: true}, fakeprovider.Book.And(fakeprovider.Status(500), fakeprovider.Forget), 1, "", toldApproved},
		{"B forgotten, nobody can be asked", fakeprovider.Config{Keep: fakeprovider.KeepSuccesses}, standard.Config{KeepsSuccessesOnly: true}, fakeprovider.Book.And(fakeprovider.Status(500), fakeprovider.Forget), 1, fakeprovider.Status(503), toldUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			aCase(t, c.bank, c.std, nil, func(s *shop) {
				if c.first == "" { // booked once, and the same unmarked 500 for ever
					s.bank.Always(fakeprovider.Match{}, fakeprovider.Book.And(fakeprovider.Status(500)))
				} else {
					s.bank.Script(c.first)
				}
				if c.lookup != "" {
					s.bank.Always(fakeprovider.Lookups, c.lookup)
				}
				res := s.pay(order("1001"))
				s.want(res, c.told.outcome, c.told.moved)
				if c.told == toldApproved && res.ChargeID != s.bank.Charges()[0].ID {
					t.Errorf("charge %s, the ledger has %s", res.ChargeID, s.bank.Charges()[0].ID)
				}
				if c.told == toldUnknown {
					s.wantOpen(res)
					again := s.pay(order("1001"))
					s.want(again, payclient.UnknownOutcome, payclient.MovedMaybe)
					if again.Key != res.Key {
						t.Error("a new key to get past the 500")
					}
				} else {
					s.wantPosts(c.posts)
				}
				if c.std.KeepsSuccessesOnly {
					s.between(0, 0) // nothing is waited for that will not be sent
				}
				s.oneKey()
				s.wantCharges(1)
			})
		})
	}
}

func TestC18TheProvidersOwnHint(t *testing.T) {
	lock := fakeprovider.Reply(429, `{"type":"urn:x:lock","code":"lock_timeout"}`)
	for _, c := range []struct {
		name    string
		script  []fakeprovider.Fault
		told    told
		posts   int
		charges int
	}{
		{"a 429 of a lock", []fakeprovider.Fault{lock, fakeprovider.Answer}, toldApproved, 2, 1},
		{"b 429 in HTML", []fakeprovider.Fault{"html:429", fakeprovider.Answer}, toldApproved, 2, 1},
		{"a b to the end", []fakeprovider.Fault{lock, "html:429", lock, lock}, toldUnknown, 4, 0},
		{"c 500, do not repeat, booked", []fakeprovider.Fault{fakeprovider.Book.And(fakeprovider.Status(500), fakeprovider.Header("Should-Retry", "false"))}, toldApproved, 1, 1},
		{"c 500, do not repeat, not booked", []fakeprovider.Fault{fakeprovider.Status(500).And(fakeprovider.Header("Should-Retry", "false"))}, toldUnknown, 1, 0},
		{"d 400, do repeat", []fakeprovider.Fault{
			fakeprovider.Reply(400, `{"type":"urn:x:amount","code":"amount_too_small"}`).And(fakeprovider.Header("Should-Retry", "true")), fakeprovider.Answer,
		}, toldRejected, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			aCase(t, fakeprovider.Config{}, standard.Config{}, nil, func(s *shop) {
				s.bank.Script(c.script...)
				res := s.pay(order("1001"))
				s.want(res, c.told.outcome, c.told.moved)
				if c.told == toldUnknown {
					s.wantOpen(res)
				}
				s.oneKey()
				s.wantPosts(c.posts)
				s.wantCharges(c.charges)
			})
		})
	}
}

// S08, P7: a Retry-After in either form is waited for, and no longer than there is time; what cannot be waited for ends the
// call with the answer that asked for it.
func TestC18RetryAfter(t *testing.T) {
	for _, c := range []struct {
		name        string
		hint        fakeprovider.Fault
		least, most time.Duration
		sends       int
	}{
		{"seconds", fakeprovider.RetryAfter("4"), 4 * time.Second, 4 * time.Second, 2},
		{"a date", fakeprovider.RetryAfterDate(4 * time.Second), 3 * time.Second, 5 * time.Second, 2},
		{"less than our own wait", fakeprovider.RetryAfter("0"), time.Second, 1200 * time.Millisecond, 2},
		{"a date that is past", fakeprovider.RetryAfterDate(-time.Hour), time.Second, 1200 * time.Millisecond, 2},
		{"nonsense", fakeprovider.RetryAfter("soon"), time.Second, 1200 * time.Millisecond, 2},
		{"more than is left", fakeprovider.RetryAfter("60"), 0, 0, 1},
		{"more than a duration holds", fakeprovider.RetryAfter("9223372037"), 0, 0, 1},
		{"more than a number holds", fakeprovider.RetryAfter("99999999999999999999"), 0, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			aCase(t, fakeprovider.Config{}, standard.Config{NoLookup: true}, nil, func(s *shop) {
				s.bank.Script(fakeprovider.Status(503).And(c.hint), fakeprovider.Answer)
				res := s.pay(order("1001"))
				s.between(c.least, c.most)
				s.wantPosts(c.sends)
				if c.sends == 1 {
					s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
					if res.StatusCode != 503 || res.Reason != attempt.ReasonUnavailable || res.RequestID == "" {
						t.Errorf("status %d (%s), request %q; want the answer that asked to wait", res.StatusCode, res.Reason, res.RequestID)
					}
					return
				}
				s.want(res, payclient.Approved, payclient.MovedYes)
			})
		})
	}
	// What one answer asked for is not asked for by the next.
	aCase(t, fakeprovider.Config{}, standard.Config{NoLookup: true}, nil, func(s *shop) {
		s.bank.Script(fakeprovider.Status(503).And(fakeprovider.RetryAfter("4")), fakeprovider.Status(503), fakeprovider.Answer)
		s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
		s.between(5500*time.Millisecond, 5800*time.Millisecond) // 4 s, and 1.5 s to 1.8 s of our own
		s.wantPosts(3)
	})
}

func TestC20DeclinesAreAnswers(t *testing.T) {
	aCase(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) {
		c.Breaker = payclient.BreakerConfig{FailurePercent: 50, MinRequests: 5}
	}, func(s *shop) {
		s.bank.Always(fakeprovider.Match{}, fakeprovider.Decline("stolen_card"))
		for n := range 30 {
			res := s.pay(order(fmt.Sprint(n)))
			s.want(res, payclient.Declined, payclient.MovedNo)
			if res.DeclineCode != "stolen_card" || res.Code != "card_declined" || res.Open() || !res.Attempt.NextCheckAt.IsZero() {
				t.Errorf("%d: %q %q, asked again at %v; want the reason kept and nothing scheduled", n, res.Code, res.DeclineCode, res.Attempt.NextCheckAt)
			}
		}
		s.wantPosts(30)
		s.want(s.pay(order("7")), payclient.Declined, payclient.MovedNo) // a batch that is run again
		s.wantPosts(30)
		s.bank.ClearFaults()
		s.want(s.pay(order("31st")), payclient.Approved, payclient.MovedYes) // the breaker is closed
		s.wantCharges(1)
	})
}

// Nor are callers who give up (S19): they say nothing about the provider.
func TestC20CancelledCallsAreNoFailures(t *testing.T) {
	aCase(t, fakeprovider.Config{}, alone, func(c *payclient.Config) {
		c.Breaker = payclient.BreakerConfig{FailurePercent: 50, MinRequests: 5}
	}, func(s *shop) {
		s.bank.Always(fakeprovider.Match{}, fakeprovider.Hang)
		for n := range 10 {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(time.Second, cancel)
			res, err := s.client.Pay(ctx, order(fmt.Sprint(n)))
			if err != nil || res.Reason != attempt.ReasonCancelled {
				t.Fatalf("%v (%s), %v; want unknown, cancelled", res.Outcome, res.Reason, err)
			}
		}
		s.bank.ClearFaults()
		s.want(s.pay(order("next")), payclient.Approved, payclient.MovedYes)
	})
}

// Our own limit is not the provider's: what it keeps waiting is sent later or not at all, and never unknown.
func TestC20OurOwnLimit(t *testing.T) {
	aCase(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) { c.MaxConcurrent = 1 }, func(s *shop) {
		s.bank.Always(fakeprovider.Match{}, fakeprovider.PauseBody(time.Second))
		var payers sync.WaitGroup
		var mu sync.Mutex
		approved, refused := 0, 0
		for n := range 5 {
			payers.Go(func() {
				res, err := s.client.Pay(context.Background(), order(fmt.Sprint(n)))
				mu.Lock()
				defer mu.Unlock()
				var notPaid *attempt.NotPaidError
				switch {
				case err == nil && res.Outcome == payclient.Approved:
					approved++
				case errors.As(err, &notPaid) && notPaid.Reason == attempt.ReasonBusy && res.Moved == payclient.MovedNo:
					refused++
				default:
					t.Errorf("%v moved=%v (%s), %v", res.Outcome, res.Moved, res.Reason, err)
				}
			})
		}
		payers.Wait()
		if approved < 3 || approved+refused != 5 {
			t.Errorf("%d approved, %d refused; want 5 in all", approved, refused)
		}
		s.wantPosts(approved)
		s.wantCharges(approved)
		for n := range 5 { // what was not sent is prepared, and is paid later
			s.want(s.pay(order(fmt.Sprint(n))), payclient.Approved, payclient.MovedYes)
		}
		s.wantCharges(5)
	})
}

// C35, C36: what is sent is the minor units that are stored, and the exponent is the currency's.
func TestC35C36AmountsOnTheWire(t *testing.T) {
	aCase(t, fakeprovider.Config{}, standard.Config{}, nil, func(s *shop) {
		amounts := []struct{ text, code, wire string }{
			{"19.99", "EUR", `"amount":1999,"currency":"EUR"`}, {"8.20", "EUR", `"amount":820,"currency":"EUR"`},
			{"1.15", "EUR", `"amount":115,"currency":"EUR"`}, {"4.35", "EUR", `"amount":435,"currency":"EUR"`},
			{"0.10", "EUR", `"amount":10,"currency":"EUR"`}, {"1.70", "EUR", `"amount":170,"currency":"EUR"`},
			{"1560.00", "USD", `"amount":156000,"currency":"USD"`}, {"9999999999.99", "EUR", `"amount":999999999999,"currency":"EUR"`},
			{"80", "JPY", `"amount":80,"currency":"JPY"`}, {"35.200", "KWD", `"amount":35200,"currency":"KWD"`},
			{"10.00", "eur", `"amount":1000,"currency":"EUR"`},
		}
		for n, a := range amounts {
			amount, err := money.Parse(a.text, a.code)
			if err != nil {
				t.Fatalf("%s %s: %v", a.text, a.code, err)
			}
			i := order(fmt.Sprint(n))
			i.Amount = amount
			res := s.pay(i)
			s.want(res, payclient.Approved, payclient.MovedYes)
			sent := s.sends()[n].Body
			if !bytes.Contains([]byte(sent), []byte(a.wire)) || res.Attempt.Amount != amount {
				t.Errorf("%s %s: sent %s, stored %s; want %s", a.text, a.code, sent, res.Attempt.Amount, a.wire)
			}
		}
		s.wantCharges(len(amounts))
		for _, text := range []string{
			"1,234.56", "1.234,56", "800,00", "1e3", "١٢", "+5", " 5.00 ", "5.001", "92233720368547758.08", "", "0x10", "5.0.0", "NaN",
		} {
			if a, err := money.Parse(text, "EUR"); err == nil {
				t.Errorf("%q: read as %s, want it refused", text, a)
			}
		}
		for _, text := range []string{"-1.00", "0.00"} {
			i := order("none")
			i.Amount, _ = money.Parse(text, "EUR") // no amount, or one that cannot be charged
			if _, err := s.client.Pay(s.t.Context(), i); !errors.Is(err, attempt.ErrInvalidIntent) {
				t.Errorf("%q: %v, want it refused before anything is stored", text, err)
			}
		}
		for _, a := range [][2]string{{"1.00", "JPY"}, {"12.34", "JPY"}, {"5", "XYZ"}, {"35.2051", "KWD"}, {"5", ""}, {"5", "EURO"}} {
			if got, err := money.Parse(a[0], a[1]); err == nil {
				t.Errorf("%s %s: read as %s, want it refused", a[0], a[1], got)
			}
		}
		if len(s.attempts(order("none"))) != 0 {
			t.Error("an intent that was refused is stored")
		}
		s.wantCharges(len(amounts))
	})
}

// The provider's own amount is compared, in its minor units: an error of a hundred on both sides would hide itself.
func TestC36TheProvidersAmountIsCompared(t *testing.T) {
	aCase(t, fakeprovider.Config{}, standard.Config{NoLookup: true}, nil, func(s *shop) {
		s.bank.Script("book-amount:8000", "book-currency:KRW")
		i := order("1001")
		i.Amount = money.MustParse("80", "JPY")
		s.want(s.pay(i), payclient.ContractViolation, payclient.MovedYes)
		i.Order = "1002"
		res := s.pay(i)
		s.want(res, payclient.ContractViolation, payclient.MovedYes)
		if res.Attempt.Answer.Detail != "amount: 80 KRW, want 80 JPY" {
			t.Errorf("detail %q", res.Attempt.Answer.Detail)
		}
		if got := s.statuses(); !slices.Equal(got, []int{201, 201}) {
			t.Errorf("the provider answered %v, want two charges", got)
		}
	})
}

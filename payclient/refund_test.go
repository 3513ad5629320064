package payclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
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

// part is a refund of a paid order: amount in TRY, empty for all that is left.
func part(paid payclient.Result, id, amount string) attempt.Refund {
	r := attempt.Refund{AttemptID: paid.AttemptID, ID: id}
	if amount != "" {
		r.Amount = money.MustParse(amount, "TRY")
	}
	return r
}

func (s *shop) refund(r attempt.Refund) payclient.Result {
	s.t.Helper()
	res, err := s.client.Refund(s.t.Context(), r)
	if err != nil {
		s.t.Fatalf("Refund: %v", err)
	}
	return res
}

// refunded is what the provider's books hold as given back or on its way, in minor units.
func (s *shop) refunded() (minor int64) {
	for _, r := range s.bank.Refunds() {
		if r.Status != fakeprovider.Failed {
			minor += r.Amount
		}
	}
	return minor
}

func (s *shop) wantRefunds(n int, minor int64) {
	s.t.Helper()
	held := 0
	for _, r := range s.bank.Refunds() {
		if r.Status != fakeprovider.Failed {
			held++
		}
	}
	if held != n || s.refunded() != minor {
		s.t.Fatalf("the ledger holds %d refunds over %d, want %d over %d", held, s.refunded(), n, minor)
	}
}

// posts returns what the provider saw on a path.
func (s *shop) posts(path string) (posts []fakeprovider.Request) {
	for _, r := range s.sends() {
		if r.Path == path {
			posts = append(posts, r)
		}
	}
	return posts
}

func (s *shop) attempt(id string) attempt.Attempt {
	s.t.Helper()
	a, err := s.store.Attempt(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func TestARefundIsAnAttemptOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		paid := s.pay(order("1001"))
		res := s.refund(part(paid, "return-1", "48.90"))
		s.want(res, payclient.Approved, payclient.MovedYes)
		if res.Key == paid.Key || res.Reference == paid.Reference || !strings.HasPrefix(res.ChargeID, "re_") || res.Existing {
			t.Errorf("want a key, a reference and a provider's id of its own: %+v", res)
		}
		want := attempt.RefundOf{AttemptID: paid.AttemptID, ChargeID: paid.ChargeID, ID: "return-1"}
		if res.Attempt.Refund != want || res.Attempt.Slot != paid.Attempt.Slot {
			t.Errorf("refund of %+v in %s, want %+v in the charge's slot", res.Attempt.Refund, res.Attempt.Slot, want)
		}
		// Asked for twice it is made once; another one is another refund, of all that is left.
		again := s.refund(part(paid, "return-1", "48.90"))
		if !again.Existing || again.AttemptID != res.AttemptID {
			t.Errorf("asked for again: %+v", again)
		}
		s.wantRefunds(1, 4890)
		rest := s.refund(part(paid, "return-2", ""))
		if rest.Attempt.Amount != money.MustParse("500", "TRY") {
			t.Errorf("all that is left: %s", rest.Attempt.Amount)
		}
		s.wantRefunds(2, 54890)
		if c, _ := s.attempt(paid.AttemptID).Charge(paid.ChargeID); c.Refunded != 54890 {
			t.Errorf("the charge tells of %d given back", c.Refunded)
		}

		_, err := s.client.Refund(t.Context(), part(paid, "return-3", "1"))
		var refused *attempt.RefundError
		if !errors.Is(err, attempt.ErrRefunded) || !errors.As(err, &refused) || refused.Attempt.ID != paid.AttemptID {
			t.Errorf("nothing is left: %v", err)
		}
		if _, err := s.client.Pay(t.Context(), order("1001")); !errors.Is(err, attempt.ErrRefunded) {
			t.Errorf("paid again after the refund: %v", err)
		}
		all, err := s.client.Refunds(t.Context(), paid.AttemptID)
		if err != nil || len(all) != 2 || all[0].AttemptID != res.AttemptID || all[1].Outcome != payclient.Approved {
			t.Errorf("refunds: %+v, %v", all, err)
		}
		for i, r := range s.posts("/v1/refunds") {
			body := fmt.Sprintf(`{"charge":"%s","amount":%d,"currency":"TRY","merchant_reference":"%s"}`, paid.ChargeID, []int{4890, 50000}[i], r.Reference)
			if string(r.Body) != body || r.RawKey != `"`+r.Key+`"` {
				t.Errorf("request %d: key %s, body %s, want %s", i, r.RawKey, r.Body, body)
			}
		}
		s.wantCharges(1)
	})
}

func TestRefundsThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		paid := s.pay(order("1001"))
		declined := s.pay(with(order("1002"), "tok_declined"))
		pending := s.pay(with(order("1003"), "tok_pending"))
		done := s.refund(part(paid, "done", "10"))
		other := part(paid, "done", "10")
		other.ChargeID = "ch_000099"
		elsewhere := part(paid, "x", "1")
		elsewhere.ChargeID = "ch_000099"
		dollars := part(paid, "x", "1")
		dollars.Amount = money.MustParse("1", "USD")
		posts := len(s.sends())
		for name, tt := range map[string]struct {
			refund attempt.Refund
			err    error
		}{
			"above what is left":          {part(paid, "x", "538.91"), attempt.ErrNotRefundable},
			"another currency":            {dollars, attempt.ErrNotRefundable},
			"another charge":              {elsewhere, attempt.ErrNotRefundable},
			"of a decline":                {part(declined, "x", "1"), attempt.ErrNotRefundable},
			"of a pending charge":         {part(pending, "x", "1"), attempt.ErrNotRefundable},
			"of a refund":                 {part(done, "x", "1"), attempt.ErrNotFound},
			"of nothing":                  {attempt.Refund{AttemptID: uuid.NewString(), ID: "x"}, attempt.ErrNotFound},
			"one id, two amounts":         {part(paid, "done", "11"), attempt.ErrConflict},
			"one id, two charges":         {other, attempt.ErrConflict},
			"without an id":               {part(paid, "", "1"), attempt.ErrInvalidIntent},
			"without an attempt":          {attempt.Refund{ID: "x"}, attempt.ErrInvalidIntent},
			"an id with a line break":     {part(paid, "a\nb", "1"), attempt.ErrInvalidIntent},
			"of no money":                 {part(paid, "x", "0"), attempt.ErrInvalidIntent},
			"an id longer than 300 bytes": {part(paid, strings.Repeat("x", 301), "1"), attempt.ErrInvalidIntent},
		} {
			if _, err := s.client.Refund(t.Context(), tt.refund); !errors.Is(err, tt.err) {
				t.Errorf("%s: %v, want %v", name, err, tt.err)
			}
		}
		if len(s.sends()) != posts {
			t.Errorf("%d requests were sent", len(s.sends())-posts)
		}
		// Another account's client refunds nothing of it, and one whose adapter cannot refund says so.
		foreign := s.restart(standard.Config{}, func(c *payclient.Config) { c.Transport, c.ProviderAccount = s.bank, "other" })
		if _, err := foreign.Refund(t.Context(), part(paid, "x", "1")); !errors.Is(err, attempt.ErrConflict) {
			t.Errorf("another account: %v", err)
		}
		cannot := s.restart(standard.Config{NoRefunds: true}, func(c *payclient.Config) { c.Transport = s.bank })
		if _, err := cannot.Refund(t.Context(), part(paid, "x", "1")); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("an adapter without refunds: %v", err)
		}
		s.wantRefunds(1, 1000)
	})
}

func TestC47aARefundMayFailDaysLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		paid := s.pay(with(order("1001"), "tok_refund_pending_then_failed_72h"))
		res := s.refund(part(paid, "r1", ""))
		s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		if res.Reason != attempt.ReasonPending || res.Sends != 1 {
			t.Errorf("%s after %d sends, want pending after one", res.Reason, res.Sends)
		}
		if _, err := s.client.Refund(t.Context(), part(paid, "r2", "1")); !errors.Is(err, attempt.ErrNotRefundable) {
			t.Errorf("a second refund beside one that takes all: %v", err)
		}
		s.want(s.refund(part(paid, "r1", "")), payclient.UnknownOutcome, payclient.MovedMaybe)

		time.Sleep(73 * time.Hour)
		e, err := s.client.Ask(t.Context(), res.Attempt, time.Now().UTC())
		if err != nil || e.Lookup != attempt.LookupFound || len(e.Charges) != 1 || e.Charges[0].ID != res.ChargeID {
			t.Fatalf("asked about a refund: %+v, %v", e, err)
		}
		failed := s.refund(part(paid, "r1", ""))
		s.want(failed, payclient.Declined, payclient.MovedNo)
		if n := len(s.posts("/v1/refunds")); n != 1 || failed.AttemptID != res.AttemptID {
			t.Errorf("%d refund requests, want one", n)
		}
		// The charge stands, and can be refunded again.
		status, err := s.client.Status(t.Context(), paid.Attempt.Slot)
		if err != nil || status.Outcome != payclient.Approved || status.AttemptID != paid.AttemptID {
			t.Errorf("the payment: %+v, %v", status, err)
		}
		next := part(paid, "r1", "")
		next.Again = failed.AttemptID
		if again := s.refund(next); again.AttemptID == failed.AttemptID || again.Key == failed.Key || !again.Open() {
			t.Errorf("asked for again in so many words: %+v", again)
		}
	})
}

func TestC47bALostRefundIsResumedUnderItsKey(t *testing.T) {
	for _, keys := range []bool{true, false} {
		t.Run(fmt.Sprintf("keys=%t", keys), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{IgnoreKeys: !keys}, standard.Config{NoKeys: !keys}, nil)
				paid := s.pay(order("1001"))
				s.bank.ScriptFor(fakeprovider.Lookups, slices.Repeat([]fakeprovider.Fault{fakeprovider.Status(503)}, 3)...)
				s.bank.Script(slices.Repeat([]fakeprovider.Fault{fakeprovider.LoseAnswer}, map[bool]int{true: 4, false: 1}[keys])...)
				lost := s.refund(part(paid, "r1", "100"))
				s.want(lost, payclient.UnknownOutcome, payclient.MovedMaybe)
				if _, err := s.client.Refund(t.Context(), part(paid, "r1", "99")); !errors.Is(err, attempt.ErrConflict) {
					t.Errorf("another amount meanwhile: %v", err)
				}
				s.bank.ClearFaults()
				found := s.refund(part(paid, "r1", "100"))
				s.want(found, payclient.Approved, payclient.MovedYes)
				if found.Key != lost.Key {
					t.Errorf("key %s, then %s", lost.Key, found.Key)
				}
				for _, r := range s.posts("/v1/refunds") {
					if keys && r.Key != lost.Key || string(r.Body) != string(s.posts("/v1/refunds")[0].Body) {
						t.Errorf("a refund request under key %s with %s", r.Key, r.Body)
					}
				}
				if n := len(s.posts("/v1/refunds")); !keys && n != 1 {
					t.Errorf("%d requests without keys, want one", n)
				}
				s.wantRefunds(1, 10000)
			})
		})
	}
}

func TestC47cTwoEqualRefundsAreTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		paid := s.pay(order("1001"))
		first, second := s.refund(part(paid, "r1", "5")), s.refund(part(paid, "r2", "5"))
		if first.Key == second.Key || first.ChargeID == second.ChargeID {
			t.Errorf("want two refunds: %+v %+v", first, second)
		}
		s.wantRefunds(2, 1000)
	})
}

// repeating is a gateway that hands each refund request on twice and passes the second answer back.
type repeating struct{ http.RoundTripper }

func (r repeating) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Path != "/v1/refunds" || req.Method != http.MethodPost {
		return r.RoundTripper.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	first := req.Clone(context.Background()) // without the client's hooks
	first.Body = io.NopCloser(bytes.NewReader(body))
	resp, err := r.RoundTripper.RoundTrip(first)
	if err != nil {
		return nil, err
	}
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	return r.RoundTripper.RoundTrip(req)
}

// elsewhere gives money of a charge back past the client.
func (s *shop) elsewhere(chargeID string, minor int64) {
	s.t.Helper()
	body := fmt.Sprintf(`{"charge":"%s","amount":%d,"currency":"TRY","merchant_reference":"by hand"}`, chargeID, minor)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://127.0.0.1/v1/refunds", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer sk_test"}, "Content-Type": {"application/json"}, "Idempotency-Key": {`"by-hand"`}}
	resp, err := s.bank.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusCreated {
		s.t.Fatalf("%+v, %v", resp, err)
	}
	if err := resp.Body.Close(); err != nil {
		s.t.Fatal(err)
	}
}

func TestC47dRefusedForWhatIsLeft(t *testing.T) {
	for _, amount := range []string{"548.90", "400"} { // charge_already_refunded, refund_too_large
		t.Run("our own, which came twice/"+amount, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{IgnoreKeys: true}, standard.Config{NoKeys: true}, func(c *payclient.Config) {
					c.Transport = repeating{c.Transport}
				})
				res := s.refund(part(s.pay(order("1001")), "r1", amount))
				s.want(res, payclient.Approved, payclient.MovedYes)
				if got := s.posts("/v1/refunds"); len(got) != 2 || got[1].Status != 400 || res.Sends != 1 {
					t.Errorf("%d refund requests, %d sends: the story did not happen", len(got), res.Sends)
				}
				if len(s.attempt(res.AttemptID).Duties) > 0 {
					t.Errorf("duties: %+v", s.attempt(res.AttemptID).Duties)
				}
			})
		})
		t.Run("somebody else's/"+amount, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
				paid := s.pay(order("1001"))
				s.elsewhere(paid.ChargeID, map[string]int64{"548.90": 54890, "400": 20000}[amount])
				res := s.refund(part(paid, "r1", amount))
				s.want(res, payclient.ContractViolation, payclient.MovedNo)
				asked := s.bank.Requests(res.Reference)
				if len(asked) == 0 || asked[len(asked)-1].Path != "/v1/refunds" || asked[len(asked)-1].Method != http.MethodGet {
					t.Errorf("nobody asked for it by reference: %+v", asked)
				}
				if res.Attempt.Status != attempt.StatusRejected || res.Code == "" {
					t.Errorf("%s, code %q; want it rejected with the provider's code", res.Attempt.Status, res.Code)
				}
			})
		})
		t.Run("nobody can say/"+amount, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
				paid := s.pay(order("1001"))
				s.elsewhere(paid.ChargeID, 54890)
				s.bank.Always(fakeprovider.Lookups, fakeprovider.Status(503))
				res := s.refund(part(paid, "r1", amount))
				s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
				if !res.Open() || res.Reason != attempt.ReasonNotAsked {
					t.Errorf("%+v; want it open, because nobody could be asked", res)
				}
			})
		})
	}
}

// Whatever is asked for at once, by two processes, the provider never gives back more than it took.
func TestRefundsInParallelNeverExceedTheCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		paid := s.pay(order("1001"))
		s.bank.Draw(fakeprovider.Draw{Seed: 47, Rate: 0.3})
		other := s.restart(standard.Config{}, func(c *payclient.Config) { c.Transport = s.bank })
		var wg sync.WaitGroup
		for i := range 40 {
			for _, client := range []*payclient.Client{s.client, other} {
				wg.Go(func() {
					_, err := client.Refund(t.Context(), part(paid, fmt.Sprint("r", i), "30"))
					if err != nil && !errors.Is(err, attempt.ErrNotRefundable) && !errors.Is(err, attempt.ErrRefunded) && !errors.Is(err, attempt.ErrNotPaid) {
						t.Errorf("refund %d: %v", i, err)
					}
				})
			}
		}
		wg.Wait()
		if s.refunded() > 54890 {
			t.Fatalf("%d were given back of 54890", s.refunded())
		}
		s.bank.ClearFaults()
		time.Sleep(time.Minute)
		keys := map[string]string{}
		for i := range 40 {
			if _, err := s.client.Refund(t.Context(), part(paid, fmt.Sprint("r", i), "30")); err != nil && !errors.Is(err, attempt.ErrNotRefundable) {
				t.Errorf("refund %d: %v", i, err)
			}
		}
		for _, r := range s.bank.Refunds() {
			if keys[r.Reference] != "" {
				t.Errorf("reference %s twice: %s and %s", r.Reference, keys[r.Reference], r.ID)
			}
			keys[r.Reference] = r.ID
		}
		s.wantRefunds(18, 54000)
		if c, _ := s.attempt(paid.AttemptID).Charge(paid.ChargeID); c.Refunded != 54000 {
			t.Errorf("the charge tells of %d given back, the ledger of 54000", c.Refunded)
		}
	})
}

func TestDerivedRefundsMeetTheirReplayAfterALostStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		derive := func(c *payclient.Config) { c.DeriveFrom = uuid.MustParse("5f0c3b8e-7d0e-4c53-9f57-1f7b2a6e1c11") }
		s := open(t, fakeprovider.Config{}, standard.Config{}, derive)
		paid := s.pay(order("1001"))
		first, second := s.refund(part(paid, "r1", "5")), s.refund(part(paid, "r2", "5"))
		if first.Key == second.Key || first.Key == paid.Key {
			t.Fatal("one key for two")
		}
		s.store = new(attempt.Memory)
		s.client = s.restart(standard.Config{}, func(c *payclient.Config) { c.Transport = s.bank; derive(c) })
		rerun := s.pay(order("1001"))
		again := s.refund(part(rerun, "r1", "5"))
		if again.Key != first.Key || !again.Replayed {
			t.Errorf("key %s, replayed %t; want %s, replayed", again.Key, again.Replayed, first.Key)
		}
		s.wantRefunds(2, 1000)
		s.wantCharges(1)
	})
}

func TestRefundDuty(t *testing.T) {
	late := func(t *testing.T) (*shop, attempt.Attempt, attempt.Duty) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		paid := s.pay(order("1001"))
		if _, err := s.client.CancelOrder(t.Context(), paid.Attempt.Slot, "out of time"); err != nil {
			t.Fatal(err)
		}
		a := s.attempt(paid.AttemptID)
		d, owed := a.OpenDuty()
		if !owed || d.Kind != attempt.DutyRefund {
			t.Fatalf("duties: %+v", a.Duties)
		}
		return s, a, d
	}
	t.Run("paid once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, a, d := late(t)
			for range 2 {
				refund, err := s.client.RefundDuty(t.Context(), a, d)
				if errors.Is(err, attempt.ErrRefunded) {
					continue
				}
				if err != nil || refund.Status != attempt.StatusApproved || refund.Refund.ID != "duty:"+d.ChargeID || refund.Amount != a.Amount {
					t.Errorf("%+v, %v", refund, err)
				}
			}
			s.wantRefunds(1, 54890)
			if _, owed := s.attempt(a.ID).OpenDuty(); owed {
				t.Error("the duty is still open")
			}
			if res, err := s.client.Status(t.Context(), a.Slot); err != nil || res.Moved != payclient.MovedNo || res.Open() {
				t.Errorf("%+v, %v; want no money", res, err)
			}
		})
	})
	t.Run("what is left after another refund", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, a, d := late(t)
			s.refund(attempt.Refund{AttemptID: a.ID, ID: "goodwill", Amount: money.MustParse("48.90", "TRY")})
			if refund, err := s.client.RefundDuty(t.Context(), a, d); err != nil || refund.Amount != money.MustParse("500", "TRY") {
				t.Errorf("%+v, %v", refund, err)
			}
			s.wantRefunds(2, 54890)
		})
	})
	t.Run("not unless the charge is confirmed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, a, d := late(t)
			for _, fault := range []fakeprovider.Fault{fakeprovider.Status(503), fakeprovider.LookupEmpty, fakeprovider.LoseAnswer} {
				s.bank.Always(fakeprovider.Lookups, fault)
				if _, err := s.client.RefundDuty(t.Context(), a, d); !errors.Is(err, payclient.ErrNotAsked) {
					t.Errorf("%s: %v, want not asked", fault, err)
				}
				if next := s.attempt(a.ID).NextCheckAt; !next.After(time.Now()) {
					t.Errorf("%s: due again at %s, which is now or never", fault, next)
				}
			}
			s.bank.ClearFaults()
			if err := s.bank.Settle(d.ChargeID, fakeprovider.Failed); err != nil {
				t.Fatal(err)
			}
			if _, err := s.client.RefundDuty(t.Context(), a, d); !errors.Is(err, attempt.ErrNotRefundable) {
				t.Errorf("a charge that was taken back: %v", err)
			}
			if next := s.attempt(a.ID).NextCheckAt; !next.IsZero() && !next.After(time.Now()) {
				t.Error("it is due again at once")
			}
			s.wantRefunds(0, 0)
			d.Kind = attempt.DutyReview
			if _, err := s.client.RefundDuty(t.Context(), a, d); !errors.Is(err, attempt.ErrInvalidIntent) {
				t.Errorf("a duty for a person: %v", err)
			}
		})
	})
	t.Run("resumed after a lost answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, a, d := late(t)
			s.bank.Script(slices.Repeat([]fakeprovider.Fault{fakeprovider.LoseAnswer}, 4)...)
			s.bank.ScriptFor(fakeprovider.Lookups, fakeprovider.Answer, fakeprovider.Status(503))
			first, err := s.client.RefundDuty(t.Context(), a, d)
			if err != nil || first.Status != attempt.StatusUnknown {
				t.Fatalf("%s, %v", first.Status, err)
			}
			s.bank.ScriptFor(fakeprovider.Lookups, fakeprovider.Status(503)) // nobody needs to be asked about the charge again
			second, err := s.client.RefundDuty(t.Context(), a, d)
			if err != nil || second.ID != first.ID || second.Status != attempt.StatusApproved {
				t.Errorf("%s, %v", second.Status, err)
			}
			s.wantRefunds(1, 54890)
		})
	})
}

func TestS4ARefusedRefundLeavesTheDutyOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		paid := s.pay(with(order("1001"), "tok_refund_declined"))
		if _, err := s.client.CancelOrder(t.Context(), paid.Attempt.Slot, ""); err != nil {
			t.Fatal(err)
		}
		a := s.attempt(paid.AttemptID)
		d, _ := a.OpenDuty()
		for range 2 {
			refund, err := s.client.RefundDuty(t.Context(), a, d)
			if err != nil || refund.Status != attempt.StatusDeclined {
				t.Errorf("%s, %v; want the refund declined", refund.Status, err)
			}
		}
		if n := len(s.posts("/v1/refunds")); n != 1 {
			t.Errorf("%d requests, want one: a decline is an answer", n)
		}
		res, err := s.client.Status(t.Context(), a.Slot)
		if err != nil || res.Moved != payclient.MovedYes || res.Reason != attempt.ReasonRefundOwed {
			t.Errorf("%+v, %v; want the duty open and told", res, err)
		}
	})
}

// A refund has no source: it is resumed by a process that has none of the keys that sources were digested under.
func TestARefundNeedsNoDigestKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keyed := func(id string) func(*payclient.Config) {
			return func(c *payclient.Config) {
				c.DigestKeys = []attempt.DigestKey{{ID: id, Secret: bytes.Repeat([]byte(id), 32)}}
			}
		}
		s := open(t, fakeprovider.Config{}, standard.Config{}, keyed("a"))
		paid := s.pay(order("1001"))
		s.bank.Always(fakeprovider.Match{}, fakeprovider.LoseRequest)
		lost := s.refund(part(paid, "r1", "5"))
		if lost.Attempt.Source != (attempt.Digest{}) || lost.Attempt.BodyDigest == "" || !lost.Open() {
			t.Fatalf("%+v", lost.Attempt)
		}
		s.bank.ClearFaults()
		s.client = s.restart(standard.Config{}, func(c *payclient.Config) { c.Transport = s.bank; keyed("b")(c) })
		found := s.refund(part(paid, "r1", "5"))
		s.want(found, payclient.Approved, payclient.MovedYes)
		if found.Key != lost.Key || found.Sends <= lost.Sends {
			t.Errorf("key %s, %d sends; want the stored request once more", found.Key, found.Sends)
		}
		s.wantRefunds(1, 500)
	})
}

// wrapping adds to an adapter and, as embedding an interface does, loses what is not in it.
type wrapping struct{ payclient.Provider }

func TestAWrapperThatLosesAbilitiesIsRefused(t *testing.T) {
	adapter := mustStandard(t, standard.Config{})
	cfg := payclient.Config{Provider: wrapping{adapter}, Store: new(attempt.Memory), BaseURL: "https://provider.test"}
	_, err := payclient.New(cfg)
	for _, what := range []string{"Refunder", "Voider", "Lister"} {
		if err == nil || !strings.Contains(err.Error(), "is no "+what) {
			t.Errorf("%v\nwant it to name %s", err, what)
		}
	}
	cfg.Provider = wrapping{mustStandard(t, standard.Config{NoRefunds: true, NoVoids: true, NoLists: true})}
	if _, err := payclient.New(cfg); err != nil {
		t.Errorf("declares nothing of it: %v", err)
	}
}

package payclient_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

func (s *shop) cancel(id string) payclient.Result {
	s.t.Helper()
	res, err := s.client.CancelOrder(s.t.Context(), order(id).Slot(), "out of time")
	if err != nil {
		s.t.Fatalf("CancelOrder: %v", err)
	}
	return res
}

// wantNone complains unless the result says that there is no money and nothing is to be waited for.
func (s *shop) wantNone(res payclient.Result, why attempt.Reason) {
	s.t.Helper()
	if res.Moved != payclient.MovedNo || res.Open() || res.Reason != why {
		s.t.Errorf("%s, moved %s, open %t, %s; want no money, %s", res.Outcome, res.Moved, res.Open(), res.Reason, why)
	}
}

// wantClosed complains unless every way to pay the order is refused, and nothing is sent.
func (s *shop) wantClosed(id string, prepared string) {
	s.t.Helper()
	sent := s.bank.RequestCount()
	for _, i := range []attempt.Intent{order(id), with(order(id), "tok_mastercard")} {
		_, err := s.client.Pay(s.t.Context(), i)
		_, startErr := s.client.Start(s.t.Context(), i)
		var cancelled *attempt.CancelledError
		if !errors.Is(err, attempt.ErrCancelled) || !errors.Is(startErr, attempt.ErrCancelled) || !errors.As(err, &cancelled) || cancelled.At.IsZero() {
			s.t.Errorf("paid: %v, started: %v; want that the order was cancelled", err, startErr)
		}
	}
	if prepared != "" {
		if _, err := s.client.Send(s.t.Context(), prepared, order(id).Source); !errors.Is(err, attempt.ErrCancelled) {
			s.t.Errorf("sent: %v", err)
		}
	}
	if n := s.bank.RequestCount() - sent; n != 0 {
		s.t.Errorf("%d requests for a cancelled order", n)
	}
}

func TestS6CancelledBeforeAnythingWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		slot := order("1001").Slot()
		for range 2 {
			s.wantNone(s.cancel("1001"), attempt.ReasonOrderCancelled)
		}
		s.wantClosed("1001", "")
		for _, tell := range []func() (payclient.Result, error){
			func() (payclient.Result, error) { return s.client.Status(t.Context(), slot) },
			func() (payclient.Result, error) { return s.client.Check(t.Context(), slot) },
		} {
			res, err := tell()
			if err != nil {
				t.Error(err)
			}
			s.wantNone(res, attempt.ReasonOrderCancelled)
		}

		prepared, err := s.client.Start(t.Context(), order("1002"))
		if err != nil {
			t.Fatal(err)
		}
		res := s.cancel("1002")
		s.wantNone(res, attempt.ReasonOrderCancelled)
		if res.AttemptID != prepared.AttemptID || s.attempt(res.AttemptID).Status != attempt.StatusAbandoned {
			t.Errorf("the prepared attempt: %+v", res)
		}
		s.wantClosed("1002", prepared.AttemptID)
		if s.bank.RequestCount() != 0 {
			t.Errorf("%d requests", s.bank.RequestCount())
		}
	})
}

func TestS1CancelledWhileThePaymentIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		paid := s.pay(with(order("1001"), "tok_book_after_20s"))
		if !paid.Open() {
			t.Fatalf("%+v", paid)
		}
		time.Sleep(8 * time.Second) // its claim is over
		asked := s.bank.RequestCount()
		res := s.cancel("1001")
		s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		if n := s.bank.RequestCount() - asked; n != 1 || !res.Open() {
			t.Errorf("%d questions, open %t; want one, and the attempt open", n, res.Open())
		}
		s.wantClosed("1001", paid.AttemptID)

		time.Sleep(time.Minute) // the provider approves
		res = s.cancel("1001")
		s.want(res, payclient.UnknownOutcome, payclient.MovedYes)
		if res.Reason != attempt.ReasonRefundOwed {
			t.Errorf("reason %s", res.Reason)
		}
		a := s.attempt(paid.AttemptID)
		d, owed := a.OpenDuty()
		if !owed || d.Kind != attempt.DutyRefund || len(a.Duties) != 1 {
			t.Fatalf("duties: %+v", a.Duties)
		}
		// The refund's answer is lost: it is unknown, and settled like a charge.
		s.bank.Always(fakeprovider.Match{}, fakeprovider.LoseAnswer)
		s.bank.ScriptFor(fakeprovider.Lookups, fakeprovider.Answer, fakeprovider.Status(503))
		refund, err := s.client.RefundDuty(t.Context(), a, d)
		if err != nil || refund.Status != attempt.StatusUnknown {
			t.Fatalf("%s, %v", refund.Status, err)
		}
		e, err := s.client.Ask(t.Context(), refund, time.Now().UTC())
		schedule := s.client.Schedule()
		rec := &attempt.Record{ID: refund.ID, Evidence: e, Schedule: &schedule, Due: true}
		if err := errors.Join(err, s.store.Apply(t.Context(), rec.Step(&refund))); err != nil || rec.Attempt.Status != attempt.StatusApproved {
			t.Fatalf("%s, %v", rec.Attempt.Status, err)
		}
		if refund.Key == paid.Key {
			t.Error("one key for the charge and its refund")
		}
		s.wantNone(s.cancel("1001"), attempt.ReasonRefunded)
		s.wantClosed("1001", paid.AttemptID)
		s.wantCharges(1)
		s.wantRefunds(1, 54890)
	})
}

func TestCancelAQuestionThatFailsChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		s.bank.Always(fakeprovider.Lookups, fakeprovider.Status(503))
		s.bank.Always(fakeprovider.Match{}, fakeprovider.LoseAnswer)
		s.pay(order("1001"))
		res := s.cancel("1001")
		s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		if !res.Open() {
			t.Error("not open")
		}
		s.wantClosed("1001", res.AttemptID)
	})
}

func TestS2ConfirmedTwiceIsNotRefunded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		paid := s.pay(order("1001"))
		for range 2 {
			e, err := s.client.Ask(t.Context(), paid.Attempt, time.Now().UTC())
			rec := &attempt.Record{ID: paid.AttemptID, Evidence: e}
			if err := errors.Join(err, s.store.Apply(t.Context(), rec.Step(nil))); err != nil || len(rec.Duties) > 0 {
				t.Errorf("%v, duties %+v", err, rec.Duties)
			}
		}
		s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
		s.wantRefunds(0, 0)
	})
}

// TestS3CancelAndApprovalAtTheSameMoment: whichever is written second sees the first. Never paid and cancelled without a refund.
func TestS3CancelAndApprovalAtTheSameMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		ends := map[string]int{}
		for n := range 1000 {
			id := fmt.Sprint(n)
			token := []string{"tok_visa", "tok_slow_10ms", "tok_book_after_10ms"}[n%3]
			var wg sync.WaitGroup
			wg.Go(func() { // refused where the cancellation came first
				if _, err := s.client.Pay(t.Context(), with(order(id), token)); err != nil && !errors.Is(err, attempt.ErrCancelled) {
					t.Errorf("order %s: %v", id, err)
				}
			})
			wg.Go(func() {
				time.Sleep(time.Duration(n%4) * 5 * time.Millisecond)
				s.cancel(id)
			})
			wg.Wait()
			time.Sleep(20 * time.Second)
			told := s.cancel(id)
			if told.Moved == payclient.MovedYes {
				a := s.attempt(told.AttemptID)
				d, _ := a.OpenDuty()
				if _, err := s.client.RefundDuty(t.Context(), a, d); err != nil {
					t.Errorf("order %s: refund: %v", id, err)
				}
				told = s.cancel(id)
			}
			if told.Moved != payclient.MovedNo || told.Open() {
				t.Fatalf("order %s ends with %s, moved %s (%s)", id, told.Outcome, told.Moved, told.Reason)
			}
			ends[string(told.Reason)]++
		}
		if len(ends) != 2 || ends["order_cancelled"] < 100 || ends["refunded"] < 100 {
			t.Errorf("ends %v, want both kinds often", ends)
		}
		var taken int64
		for _, c := range s.bank.Charges() {
			taken += c.Amount
		}
		if s.refunded() != taken {
			t.Errorf("%d taken, %d given back", taken, s.refunded())
		}
	})
}

func TestCancelDuringACallInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		var paid payclient.Result
		var wg sync.WaitGroup
		wg.Go(func() { paid = s.pay(with(order("1001"), "tok_slow_1s")) })
		time.Sleep(500 * time.Millisecond)
		asked := s.bank.RequestCount()
		res := s.cancel("1001")
		s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		if res.Reason != attempt.ReasonInFlight || s.bank.RequestCount() != asked {
			t.Errorf("%s, %d requests; the call in progress is left alone", res.Reason, s.bank.RequestCount()-asked)
		}
		wg.Wait()
		s.want(paid, payclient.UnknownOutcome, payclient.MovedYes) // nobody may fulfil on it
		if paid.Reason != attempt.ReasonRefundOwed {
			t.Errorf("reason %s", paid.Reason)
		}
	})
}

func TestCancelVoidsWhatIsPending(t *testing.T) {
	for _, source := range []string{"tok_requires_action", "tok_pending", "tok_pending_then_succeeded_1h"} {
		t.Run(source, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
				pending := s.pay(with(order("1001"), source))
				res := s.cancel("1001")
				s.want(res, payclient.Declined, payclient.MovedNo)
				s.wantNone(res, attempt.ReasonVoided)
				if res.DeclineCode != "voided" || res.AttemptID != pending.AttemptID {
					t.Errorf("%+v", res)
				}
				if n := len(s.posts("/v1/charges/" + pending.ChargeID + "/void")); n != 1 {
					t.Errorf("%d voids", n)
				}
				time.Sleep(2 * time.Hour)
				s.wantCharges(0)
				// A provider that breaks its word: the money is late, and owed back.
				if err := s.bank.Settle(pending.ChargeID, fakeprovider.Succeeded); err != nil {
					t.Fatal(err)
				}
				e, err := s.client.Ask(t.Context(), s.attempt(res.AttemptID), time.Now().UTC())
				rec := &attempt.Record{ID: res.AttemptID, Evidence: e}
				if err := errors.Join(err, s.store.Apply(t.Context(), rec.Step(nil))); err != nil || len(rec.Duties) != 1 || rec.Duties[0].Kind != attempt.DutyRefund {
					t.Errorf("%v, duties %+v; want a refund duty", err, rec.Duties)
				}
			})
		})
	}
}

// Two who cancel at once cancel the charge at the provider once: the claim is one's.
func TestCancelTwiceAtOnceVoidsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		pending := s.pay(with(order("1001"), "tok_requires_action"))
		s.bank.Always(voids, "slow:1s")
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() { s.cancel("1001") })
		}
		wg.Wait()
		s.wantNone(s.cancel("1001"), attempt.ReasonVoided)
		if n := len(s.posts("/v1/charges/" + pending.ChargeID + "/void")); n != 1 {
			t.Errorf("%d voids, want one", n)
		}
	})
}

// voids are the requests that cancel a charge.
var voids = fakeprovider.Match{Path: "/v1/charges/*"}

func TestVoidsThatAreNotConfirmed(t *testing.T) {
	for _, tt := range []struct {
		name    string
		faults  []fakeprovider.Fault
		outcome payclient.Outcome
		moved   payclient.Moved
		posts   int
		reason  attempt.Reason
	}{
		{"answer lost once", []fakeprovider.Fault{fakeprovider.LoseAnswer}, payclient.Declined, payclient.MovedNo, 2, attempt.ReasonVoided},
		{"answer lost twice", []fakeprovider.Fault{fakeprovider.LoseAnswer, fakeprovider.LoseAnswer}, payclient.Declined, payclient.MovedNo, 2, attempt.ReasonDeclined},
		{"executed, answered 500", []fakeprovider.Fault{fakeprovider.Book.And("status:500"), fakeprovider.Book.And("status:500")}, payclient.Declined, payclient.MovedNo, 2, attempt.ReasonDeclined},
		{"refused by a gateway", []fakeprovider.Fault{fakeprovider.Status(403)}, payclient.UnknownOutcome, payclient.MovedMaybe, 1, attempt.ReasonPayerAction},
		{"never arrives", []fakeprovider.Fault{fakeprovider.LoseRequest, fakeprovider.LoseRequest}, payclient.UnknownOutcome, payclient.MovedMaybe, 2, attempt.ReasonPayerAction},
		{"of another reference", []fakeprovider.Fault{"set:merchant_reference=other"}, payclient.Declined, payclient.MovedNo, 1, attempt.ReasonDeclined},
		{"of another charge", []fakeprovider.Fault{"set:id=ch_000099"}, payclient.Declined, payclient.MovedNo, 1, attempt.ReasonDeclined},
		{"says succeeded", []fakeprovider.Fault{"set:status=succeeded"}, payclient.Declined, payclient.MovedNo, 1, attempt.ReasonDeclined},
		{"says pending", []fakeprovider.Fault{"set:status=pending"}, payclient.Declined, payclient.MovedNo, 1, attempt.ReasonDeclined},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
				pending := s.pay(with(order("1001"), "tok_requires_action"))
				s.bank.ScriptFor(voids, tt.faults...)
				res := s.cancel("1001")
				s.want(res, tt.outcome, tt.moved)
				if res.Reason != tt.reason {
					t.Errorf("reason %s, want %s", res.Reason, tt.reason)
				}
				if n := len(s.posts("/v1/charges/" + pending.ChargeID + "/void")); n != tt.posts {
					t.Errorf("%d voids, want %d", n, tt.posts)
				}
				if len(s.attempt(res.AttemptID).Claims) > 0 {
					t.Error("the claim has no end")
				}
				if unused := s.bank.Unused(); len(unused) > 0 {
					t.Errorf("unused: %v", unused)
				}
			})
		})
	}
}

// beforeVoid does something at the last moment before a request to cancel a charge.
type beforeVoid struct {
	http.RoundTripper
	do func()
}

func (b beforeVoid) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/void") {
		b.do()
	}
	return b.RoundTripper.RoundTrip(req)
}

func TestVoidOfAChargeThatHasSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		payerActs := func() {}
		s := open(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) {
			c.Transport = beforeVoid{c.Transport, func() { payerActs() }}
		})
		pending := s.pay(with(order("1001"), "tok_requires_action"))
		payerActs = func() {
			if err := s.bank.Settle(pending.ChargeID, fakeprovider.Succeeded); err != nil {
				t.Error(err)
			}
		}
		res := s.cancel("1001")
		s.want(res, payclient.UnknownOutcome, payclient.MovedYes)
		if res.Reason != attempt.ReasonRefundOwed {
			t.Errorf("reason %s", res.Reason)
		}

		// Likewise where another card was about to take the first one's place: the first one has paid.
		payerActs = func() {}
		pending = s.pay(with(order("1002"), "tok_requires_action"))
		payerActs = func() {
			if err := s.bank.Settle(pending.ChargeID, fakeprovider.Succeeded); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.client.Pay(t.Context(), with(order("1002"), "tok_mastercard")); !errors.Is(err, attempt.ErrAlreadyPaid) {
			t.Errorf("paid by the first card at the last moment: %v", err)
		}
		s.wantCharges(2)
	})
}

func TestPayWithAnotherCardVoidsTheFirst(t *testing.T) {
	t.Run("left half-way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
			first := s.pay(with(order("1001"), "tok_requires_action"))
			if first.NextAction == "" {
				t.Fatal("nothing for the payer to do")
			}
			second := s.pay(with(order("1001"), "tok_mastercard"))
			s.want(second, payclient.Approved, payclient.MovedYes)
			if a := s.attempt(first.AttemptID); a.Status != attempt.StatusDeclined || a.Reason != attempt.ReasonVoided {
				t.Errorf("the first one: %s, %s", a.Status, a.Reason)
			}
			s.wantCharges(1)
			// The first card again: its decline is told, or that the order is paid.
			if _, err := s.client.Pay(t.Context(), with(order("1001"), "tok_requires_action")); !errors.Is(err, attempt.ErrAlreadyPaid) {
				t.Errorf("the first card again: %v", err)
			}
		})
	})
	t.Run("the same card waits on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
			s.pay(with(order("1001"), "tok_requires_action"))
			if again := s.pay(with(order("1001"), "tok_requires_action")); again.NextAction == "" || !again.Open() {
				t.Errorf("%+v", again)
			}
			if n := len(s.sends()); n != 1 {
				t.Errorf("%d requests that change something, want one", n)
			}
		})
	})
	for name, prepare := range map[string]func(*shop, *payclient.Result){
		"not confirmed":           func(s *shop, _ *payclient.Result) { s.bank.Always(voids, fakeprovider.LoseRequest) },
		"the provider cannot":     func(s *shop, _ *payclient.Result) { s.client = s.restart(standard.Config{NoVoids: true}, onBank(s)) },
		"the provider works on":   func(s *shop, r *payclient.Result) { *r = s.pay(with(order("1001"), "tok_pending")) },
		"the payer was faster":    func(s *shop, r *payclient.Result) { _ = s.bank.Settle(r.ChargeID, fakeprovider.Succeeded) },
		"the first card declined": func(s *shop, r *payclient.Result) { _ = s.bank.Settle(r.ChargeID, fakeprovider.Failed) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
				first := payclient.Result{}
				if name != "the provider works on" {
					first = s.pay(with(order("1001"), "tok_requires_action"))
				}
				prepare(s, &first)
				res, err := s.client.Pay(t.Context(), with(order("1001"), "tok_mastercard"))
				switch name {
				case "the payer was faster":
					if !errors.Is(err, attempt.ErrAlreadyPaid) {
						t.Errorf("%v", err)
					}
				case "the first card declined":
					s.want(res, payclient.Approved, payclient.MovedYes)
				default:
					if !errors.Is(err, attempt.ErrConflict) || res.AttemptID != first.AttemptID || !res.Open() {
						t.Errorf("%+v, %v; want a conflict with the first", res, err)
					}
					if n := s.bank.DistinctKeys(); n != 1 {
						t.Errorf("%d keys", n)
					}
				}
				if n := len(s.bank.Charges()); n > 1 {
					t.Errorf("%d charges", n)
				}
			})
		})
	}
}

func onBank(s *shop) func(*payclient.Config) {
	return func(c *payclient.Config) { c.Transport = s.bank }
}

func TestCancelOrderRefusesWhatNamesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
		for slot, why := range map[attempt.Slot]string{
			{}: "", {Order: "1001"}: "a\nb", {Order: "1002"}: strings.Repeat("x", 501), {Order: "1003"}: "\xff",
		} {
			if _, err := s.client.CancelOrder(t.Context(), slot, why); !errors.Is(err, attempt.ErrInvalidIntent) {
				t.Errorf("%v, %q: %v", slot, why, err)
			}
		}
		if err := s.client.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.CancelOrder(t.Context(), order("1001").Slot(), ""); !errors.Is(err, payclient.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

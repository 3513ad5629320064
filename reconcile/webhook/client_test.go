package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/chargeonce/chargeonce/reconcile/webhook"
)

// shop is a client and an endpoint at a provider that sends webhooks.
type shop struct {
	t       *testing.T
	bank    *fakeprovider.Provider
	store   *failing
	client  *payclient.Client
	handler *webhook.Handler
}

// inShop runs a test in a bubble.
func inShop(t *testing.T, f func(*testing.T, *shop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &shop{t: t, store: &failing{Store: new(attempt.Memory)}}
		s.bank = fakeprovider.New(fakeprovider.Config{Webhook: fakeprovider.WebhookConfig{
			Secret:  secretText,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }),
		}})
		provider, err := standard.New(standard.Config{Token: payclient.NewSecret("sk_test")})
		if err != nil {
			t.Fatal(err)
		}
		s.client, err = payclient.New(payclient.Config{
			Provider: provider, Store: s.store, BaseURL: "https://provider.example", Transport: s.bank.RoundTripper(), Environment: "test",
		})
		if err != nil {
			t.Fatal(err)
		}
		s.handler, err = webhook.New(webhook.Config{
			Store: s.store, Place: s.client.Place(), Schedule: s.client.Schedule(), KeepsAnswers: true,
			Secrets: []webhook.Secret{webhook.NewSecret(secretText)}, Read: standard.ReadEvent,
		})
		if err != nil {
			t.Fatal(err)
		}
		f(t, s)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.client.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := s.bank.Close(); err != nil {
			t.Error(err)
		}
	})
}

// unanswerable makes the provider answer no question, so that nothing but events tells.
func (s *shop) unanswerable() {
	s.bank.Always(fakeprovider.Match{Method: http.MethodGet}, fakeprovider.Status(http.StatusInternalServerError))
}

func (s *shop) pay(card string) (payclient.Result, error) {
	return s.client.Pay(s.t.Context(), attempt.Intent{Order: "1001", Amount: price, Source: attempt.Token(card)})
}

// ends waits, checks how the order stands, and returns its newest attempt.
func (s *shop) ends(after time.Duration, want payclient.Outcome, charges int) attempt.Attempt {
	s.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	res, err := s.client.Status(s.t.Context(), attempt.Slot{Order: "1001", Purpose: attempt.PurposeCharge})
	if err != nil {
		s.t.Fatal(err)
	}
	if res.Outcome != want {
		s.t.Errorf("told %s (%s), want %s", res.Outcome, res.Reason, want)
	}
	if got := len(s.bank.Charges()); got != charges {
		s.t.Errorf("%d charges in the books, want %d", got, charges)
	}
	a, err := s.store.Attempt(s.t.Context(), res.AttemptID)
	if err != nil {
		s.t.Fatal(err)
	}
	if c := s.handler.Counts(); c.Orphan+c.Unreadable+c.Malformed > 0 {
		s.t.Errorf("counted %+v", c)
	}
	return a
}

// learnt returns from where an attempt's evidence came, in order.
func (s *shop) learnt(id string) (kinds []attempt.EvidenceKind) {
	s.t.Helper()
	events, err := s.store.Events(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range events {
		if e.Evidence != nil {
			kinds = append(kinds, e.Evidence.Kind)
		}
	}
	return kinds
}

func (s *shop) counted(want webhook.Counts) {
	s.t.Helper()
	if got := s.handler.Counts(); got != want {
		s.t.Errorf("counted %+v, want %+v", got, want)
	}
}

// The event comes before the answer to the payment's own request: the payment is approved by it, and the answer adds nothing.
func TestTheEventComesFirst(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.bank.Script("webhook-first")
		res, err := s.pay("tok_visa")
		if err != nil || res.Outcome != payclient.Approved || res.ChargeID != "ch_000001" {
			t.Errorf("%+v, %v", res, err)
		}
		a := s.ends(time.Minute, payclient.Approved, 1)
		if got := fmt.Sprint(s.learnt(a.ID)); got != "[webhook sends]" || len(a.Duties) > 0 || a.Sends != 1 {
			t.Errorf("learnt %s, owes %+v", got, a.Duties)
		}
		s.counted(webhook.Counts{Stored: 1})
	})
}

// The answer is lost each time; only the event tells.
func TestOnlyTheEventTells(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.unanswerable()
		s.bank.Script("lose-answer+webhook-late:1m", "lose-answer", "lose-answer", "lose-answer")
		res, err := s.pay("tok_visa")
		if err != nil || !res.Open() {
			t.Fatalf("%+v, %v", res, err)
		}
		a := s.ends(2*time.Minute, payclient.Approved, 1)
		if got := fmt.Sprint(s.learnt(a.ID)); got != "[sends lookup webhook]" {
			t.Errorf("learnt %s", got)
		}
		if res, err := s.pay("tok_visa"); err != nil || res.Outcome != payclient.Approved || !res.Existing {
			t.Errorf("paid again: %+v, %v", res, err)
		}
		s.counted(webhook.Counts{Stored: 1})
	})
}

// S2: the success is told twice.
func TestS2SuccessIsToldTwice(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.bank.Script("webhook-twice")
		if res, err := s.pay("tok_visa"); err != nil || res.Outcome != payclient.Approved {
			t.Fatalf("%+v, %v", res, err)
		}
		a := s.ends(time.Minute, payclient.Approved, 1)
		if len(a.Duties) > 0 || len(s.bank.Refunds()) > 0 {
			t.Errorf("owes %+v, refunded %+v", a.Duties, s.bank.Refunds())
		}
		s.counted(webhook.Counts{Stored: 1, Seen: 1})
	})
}

// The charge ends hours later, and the news come in the wrong order.
func TestEventsOutOfOrder(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.bank.Script("webhook-reordered")
		res, err := s.pay("tok_pending_then_succeeded_10m")
		if err != nil || !res.Open() {
			t.Fatalf("%+v, %v", res, err)
		}
		a := s.ends(time.Hour, payclient.Approved, 1)
		if len(a.Duties) > 0 || len(a.Charges) != 1 {
			t.Errorf("holds %+v, owes %+v", a.Charges, a.Duties)
		}
		if d := s.bank.Webhooks(); len(d) != 2 || d[0].Type != "charge.succeeded" || d[1].Type != "charge.pending" {
			t.Errorf("delivered %+v", d)
		}
		s.counted(webhook.Counts{Stored: 2})
	})
}

// A decline that is told by both sides is one.
func TestADeclineIsToldToo(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		if res, err := s.pay("tok_pending_then_failed_10m"); err != nil || !res.Open() {
			t.Fatalf("%+v, %v", res, err)
		}
		if a := s.ends(time.Hour, payclient.Declined, 0); len(a.Duties) > 0 {
			t.Errorf("owes %+v", a.Duties)
		}
	})
}

// What is forged or stale counts for nothing; the event counts when it is delivered properly.
func TestBadDeliveries(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.unanswerable()
		s.bank.Script("lose-answer+webhook-bad-signature:2", "lose-answer", "lose-answer", "lose-answer")
		if res, err := s.pay("tok_visa"); err != nil || !res.Open() {
			t.Fatalf("%+v, %v", res, err)
		}
		s.ends(0, payclient.UnknownOutcome, 1)
		s.ends(time.Hour, payclient.Approved, 1)
		s.counted(webhook.Counts{Forged: 2, Stored: 1})
	})
	inShop(t, func(t *testing.T, s *shop) {
		s.unanswerable()
		s.bank.Script("lose-answer+webhook-stale", "lose-answer", "lose-answer", "lose-answer")
		if res, err := s.pay("tok_visa"); err != nil || !res.Open() {
			t.Fatalf("%+v, %v", res, err)
		}
		s.ends(time.Hour, payclient.UnknownOutcome, 1)
		if c := s.handler.Counts(); c.Stale == 0 || c != (webhook.Counts{Stale: c.Stale}) {
			t.Errorf("counted %+v", c)
		}
	})
}

// The store is down when the event comes.
func TestTheProviderDeliversAgainWhatWasNotStored(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		s.unanswerable()
		s.bank.Script("lose-answer+webhook-late:1m", "lose-answer", "lose-answer", "lose-answer")
		if res, err := s.pay("tok_visa"); err != nil || !res.Open() {
			t.Fatalf("%+v, %v", res, err)
		}
		s.store.failWith(func(*attempt.Step) error { return attempt.ErrUnavailable })
		s.ends(70*time.Second, payclient.UnknownOutcome, 1)
		s.store.failWith(nil)
		s.ends(time.Hour, payclient.Approved, 1)
		c := s.handler.Counts()
		if c.NotStored == 0 || c.Stored != 1 || s.bank.WaitingWebhooks() != 0 {
			t.Errorf("counted %+v, %d wait", c, s.bank.WaitingWebhooks())
		}
	})
}

// S1: the order is cancelled while the payment is unknown, and the event says approved.
func TestS1ApprovalOfACancelledOrder(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		if res, err := s.pay("tok_book_after_1m"); err != nil || !res.Open() {
			t.Fatalf("%+v, %v", res, err)
		}
		if _, err := s.client.CancelOrder(t.Context(), attempt.Slot{Order: "1001", Purpose: attempt.PurposeCharge}, "too late"); err != nil {
			t.Fatal(err)
		}
		a := s.ends(5*time.Minute, payclient.UnknownOutcome, 1)
		duty, owed := a.OpenDuty()
		if !owed || duty.Kind != attempt.DutyRefund || duty.Why != attempt.WhyUnwanted || len(a.Duties) != 1 || a.NextCheckAt.IsZero() {
			t.Errorf("%s, owes %+v, looked at at %s", a.Status, a.Duties, a.NextCheckAt)
		}
	})
}

// A refund whose answer is lost is made by its event, and its charge with it.
func TestTheEventOfARefund(t *testing.T) {
	inShop(t, func(t *testing.T, s *shop) {
		paid, err := s.pay("tok_visa")
		if err != nil || paid.Outcome != payclient.Approved {
			t.Fatalf("%+v, %v", paid, err)
		}
		time.Sleep(time.Minute)
		s.unanswerable()
		s.bank.Script("lose-answer+webhook-late:1m", "lose-answer", "lose-answer", "lose-answer")
		res, err := s.client.Refund(t.Context(), attempt.Refund{AttemptID: paid.AttemptID, ID: "return-1"})
		if err != nil || !res.Open() {
			t.Fatalf("%+v, %v", res, err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		refund, err := s.store.Attempt(t.Context(), res.AttemptID)
		if err != nil || refund.Status != attempt.StatusApproved {
			t.Errorf("refund is %s, %v", refund.Status, err)
		}
		charge, err := s.store.Attempt(t.Context(), paid.AttemptID)
		if err != nil {
			t.Fatal(err)
		}
		if c, _ := charge.Charge(charge.ChargeID); c.Refunded != price.Minor() || len(s.bank.Refunds()) != 1 {
			t.Errorf("refunded %d; in the books %+v", c.Refunded, s.bank.Refunds())
		}
		s.counted(webhook.Counts{Stored: 2})
	})
}

// S3: approval and cancellation at the same moment, many times: the money is always owed back, once.
func TestS3CancelAndApprovalAtOnce(t *testing.T) {
	r := newRig(t)
	for i := range 200 {
		a := r.start()
		r.claim(a.ID)
		id := fmt.Sprintf("evt_%d", i)
		cancel := attempt.Cancel{Slot: a.Slot, Who: "host", Why: "out of time"}
		var both sync.WaitGroup
		both.Go(func() {
			if got := r.deliver(id, succeeded(id, "ch_"+id, a)); got != 200 {
				t.Errorf("answered %d", got)
			}
		})
		both.Go(func() {
			if err := r.store.Apply(t.Context(), cancel.Step()); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
		got := r.is(a.ID, attempt.StatusApproved, 4)
		if len(got.Duties) != 1 || got.Duties[0].Kind != attempt.DutyRefund || !got.Duties[0].MetAt.IsZero() {
			t.Fatalf("owes %+v", got.Duties)
		}
	}
}

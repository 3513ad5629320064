package reconcile_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/reconcile"
)

// hear records what somebody tells of a charge.
func (s *shop) hear(id string, c attempt.Charge) {
	s.t.Helper()
	schedule := s.Client.Schedule()
	r := &attempt.Record{ID: id, Schedule: &schedule, Evidence: attempt.Evidence{Kind: attempt.EvidenceWebhook, Charges: []attempt.Charge{c}}}
	if err := s.Store.Apply(s.t.Context(), r.Step(nil)); err != nil {
		s.t.Fatal(err)
	}
}

// Two events of one charge are delivered in the wrong order: it looks taken back. The provider is asked, the order is cancelled
// afterwards, and its money goes back.
func TestS1EventsInTheWrongOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, scenario)
		res := s.pay(s.with("1001", "tok_visa"))
		time.Sleep(time.Second)
		s.hear(res.AttemptID, attempt.Charge{ID: res.ChargeID, Status: attempt.ChargeFailed, Amount: res.Attempt.Amount})
		if c, _ := s.attempt(res.AttemptID).Charge(res.ChargeID); c.Status != attempt.ChargeReversed {
			t.Fatalf("%+v", c)
		}
		time.Sleep(time.Second)
		s.once(s.reconciler())
		a := s.attempt(res.AttemptID)
		if c, _ := a.Charge(res.ChargeID); c.Status != attempt.ChargeSucceeded {
			t.Fatalf("the provider was not asked: %+v", c)
		}
		if d, owed := a.OpenDuty(); owed {
			t.Errorf("still owed: %+v", d)
		}
		if _, err := s.Client.CancelOrder(t.Context(), a.Slot, "out of time"); err != nil {
			t.Fatal(err)
		}
		s.once(s.reconciler())
		s.WantRefunds("1001", 1)
		if told, err := s.Client.Status(t.Context(), a.Slot); err != nil || told.Open() || told.Moved != payclient.MovedNo {
			t.Errorf("told %s, moved %s, %v", told.Outcome, told.Moved, err)
		}
	})
}

// Policy keep keeps late money only as the payment of an order that nothing else has paid, and only the right amount.
func TestPolicyKeepBesideAnotherPayment(t *testing.T) {
	keep := func(c *reconcile.Config) { c.Policy.LateMoney = reconcile.LateKeep }
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, scenario)
		s.Bank.Script(fakeprovider.LoseRequest, fakeprovider.LoseRequest, fakeprovider.LoseRequest, fakeprovider.LoseRequest)
		first := s.unknown(s.with("1001", "tok_visa"))
		stop := s.watch(s.reconciler(keep))
		s.until(2 * time.Minute)
		stop()
		s.want(first.AttemptID, attempt.StatusAbandoned, attempt.ReasonNotFound)
		second := s.pay(s.with("1001", "tok_mastercard"))
		if second.Outcome != payclient.Approved {
			t.Fatalf("%s (%s)", second.Outcome, second.Reason)
		}
		late := attempt.Charge{ID: "ch_late", Status: attempt.ChargeSucceeded, Amount: first.Attempt.Amount}
		s.hear(first.AttemptID, late)
		s.once(s.reconciler(keep))
		a := s.attempt(first.AttemptID)
		if d, owed := a.OpenDuty(); !owed || d.How == attempt.HowKept {
			t.Errorf("kept beside another payment: %+v", a.Duties)
		}
	})
}

// The process that has cancelled an order died before it could cancel the charge that waits for the payer. The reconciler does.
func TestS1VoidsWhatThePayerHasNotFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, scenario)
		res := s.unknown(s.with("1001", "tok_requires_action"))
		c := &attempt.Cancel{Slot: res.Attempt.Slot, Why: "out of time"} // as CancelOrderTx does
		if err := s.Store.Apply(t.Context(), c.Step()); err != nil {
			t.Fatal(err)
		}
		s.until(20 * time.Second)
		s.once(s.reconciler())
		s.want(res.AttemptID, attempt.StatusDeclined, attempt.ReasonVoided)
		s.WantCharges("1001", 0)
	})
}

package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/reconcile"
)

func (s *shop) look(r *reconcile.Reconciler, id string) reconcile.Looked {
	s.t.Helper()
	l, err := r.Look(s.t.Context(), id)
	if err != nil {
		s.t.Fatalf("look: %v", err)
	}
	if now := s.attempt(id); l.Attempt.Version != now.Version || l.Attempt.ID != id {
		s.t.Errorf("look returned attempt %s at version %d, the store has %d", l.Attempt.ID, l.Attempt.Version, now.Version)
	}
	return l
}

// Somebody wants to know now what became of a payment, and the first question is two minutes away.
func TestLookAsksNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend)
		r := s.reconciler()
		id := s.lost(1, "70-")[0]
		s.Bank.ScriptFor(fakeprovider.Lookups, fakeprovider.Status(503), fakeprovider.Answer)
		l := s.look(r, id)
		if l.Attempt.Status != attempt.StatusUnknown || l.Report.Asked != 1 || l.Report.Open != 1 || !l.Attempt.NextCheckAt.After(l.Now) {
			t.Errorf("asked in vain: %s, next %s, %+v", l.Attempt.Status, l.Attempt.NextCheckAt, l.Report)
		}
		l = s.look(r, id)
		if l.Attempt.Status != attempt.StatusApproved || l.Report.Asked != 1 || l.Report.Approved != 1 || !l.Now.Equal(time.Now()) {
			t.Errorf("asked: %s at %s, %+v", l.Attempt.Status, l.Now, l.Report)
		}
		l = s.look(r, id)
		if l.Report.Asked != 0 || l.Attempt.Version != s.attempt(id).Version {
			t.Errorf("known: %+v", l.Report)
		}
	})
}

// What nobody can have charged yet is not touched, and neither is what another caller is sending.
func TestLookLeavesAloneWhatOnlyTimeChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend)
		r := s.reconciler()
		prepared, err := s.Client.Start(t.Context(), s.Intent("7001"))
		if err != nil {
			t.Fatal(err)
		}
		l := s.look(r, prepared.AttemptID)
		if l.Report != (reconcile.Report{}) || l.Attempt.Version != 1 {
			t.Errorf("prepared: version %d, %+v", l.Attempt.Version, l.Report)
		}
		s.Bank.Script(fakeprovider.Slow(2 * time.Second))
		done := make(chan payclient.Result)
		go func() {
			res, err := s.Client.Pay(context.Background(), s.Intent("7002"))
			if err != nil {
				t.Error(err)
			}
			done <- res
		}()
		time.Sleep(time.Second)
		for a, err := range s.Store.List(t.Context(), attempt.Filter{Order: "7002"}) {
			if err != nil {
				t.Fatal(err)
			}
			if l := s.look(r, a.ID); l.Report != (reconcile.Report{}) || l.Attempt.Status != attempt.StatusSending || l.Attempt.Version != a.Version {
				t.Errorf("being sent: %s at version %d, %+v", l.Attempt.Status, l.Attempt.Version, l.Report)
			}
		}
		if res := <-done; res.Outcome != payclient.Approved {
			t.Errorf("the other caller: %s", res.Outcome)
		}
	})
}

// Money of a cancelled order goes back when its grace is over, and by a look as well as by a pass.
func TestLookMeetsADuty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend, func(c *payclient.Config) { c.RefundGrace = time.Hour })
		r := s.reconciler()
		res := s.pay(s.Intent("7003"))
		if _, err := s.Client.CancelOrder(t.Context(), attempt.Slot{Order: "7003"}, "test"); err != nil {
			t.Fatal(err)
		}
		if l := s.look(r, res.AttemptID); l.Report.Refunds.Made != 0 {
			t.Errorf("within the grace: %+v", l.Report)
		}
		time.Sleep(time.Hour + time.Second)
		if l := s.look(r, res.AttemptID); l.Report.Refunds.Made != 1 {
			t.Errorf("after the grace: %+v", l.Report)
		}
		if l := s.look(r, res.AttemptID); l.Report.Refunds.Made != 0 || len(s.Bank.Refunds()) != 1 {
			t.Errorf("once more: %+v, %d refunds", l.Report, len(s.Bank.Refunds()))
		}
	})
}

func TestLookRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend)
		id := s.lost(1, "71-")[0]
		before := s.attempt(id)
		if _, err := s.reconciler().Look(t.Context(), "nobody"); !errors.Is(err, attempt.ErrNotFound) {
			t.Errorf("no such attempt: %v", err)
		}
		other := s.Restart(func(c *payclient.Config) { c.Environment = "elsewhere" })
		elsewhere := s.reconciler(func(c *reconcile.Config) { c.Askers = []reconcile.Asker{other} })
		if l, err := elsewhere.Look(t.Context(), id); !errors.Is(err, reconcile.ErrNoAsker) || l.Attempt.ID != id {
			t.Errorf("of another place: %v, attempt %q", err, l.Attempt.ID)
		}
		if after := s.attempt(id); after.Asks != before.Asks || after.Version != before.Version {
			t.Errorf("asked %d times, want %d", after.Asks, before.Asks)
		}
	})
}

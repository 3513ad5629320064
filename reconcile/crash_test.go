package reconcile_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/chargeonce/chargeonce/reconcile"
)

// mortal is the store as a process sees it that dies at its n-th write: before it is made, or after, before it is known. From
// then on nothing it does has an effect.
type mortal struct {
	attempt.Store
	mu     sync.Mutex
	left   int
	after  bool
	writes int
}

// dead counts a write. It returns whether the process is dead, and whether the write is made all the same.
func (m *mortal) dead() (dead, made bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left <= 0 {
		return true, false
	}
	m.writes++
	m.left--
	return m.left == 0, m.left == 0 && m.after
}

func (m *mortal) gone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.left <= 0
}

func (m *mortal) Apply(ctx context.Context, steps ...*attempt.Step) error {
	dead, made := m.dead()
	if !dead {
		return m.Store.Apply(ctx, steps...)
	}
	if made {
		_ = m.Store.Apply(ctx, steps...)
	}
	for _, s := range steps {
		s.Err = attempt.ErrUnavailable
	}
	return attempt.JoinStepErrors(steps)
}

func (m *mortal) TakeDue(ctx context.Context, limit int, lease time.Duration, places ...attempt.Place) (attempt.View, error) {
	if m.gone() {
		return attempt.View{}, attempt.ErrUnavailable
	}
	v, err := m.Store.TakeDue(ctx, limit, lease, places...)
	if err != nil || len(v.Attempts) == 0 {
		return v, err
	}
	if dead, _ := m.dead(); dead { // its rows wait for the lease
		return attempt.View{}, attempt.ErrUnavailable
	}
	return v, nil
}

// A reconciler's process dies between every two steps: another one finishes, with one charge and one refund.
func TestCrashBetweenEveryTwoSteps(t *testing.T) {
	for _, fault := range []fakeprovider.Fault{fakeprovider.Answer, fakeprovider.LoseAnswer} {
		for _, after := range []bool{false, true} {
			for n := 1; ; n++ {
				reached := false
				t.Run(fmt.Sprintf("%s/after=%v/write %d", fault, after, n), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { reached = crashAt(t, fault, n, after) })
				})
				if !reached {
					if n < 12 {
						t.Errorf("only %d writes were made", n-1)
					}
					break
				}
			}
		}
	}
}

// crashAt reconciles late money of an abandoned attempt and of a cancelled order, and a lost answer, with a process that
// dies at its n-th write. It returns whether it came to that.
func crashAt(t *testing.T, fault fakeprovider.Fault, n int, after bool) bool {
	s := open(t, fakeprovider.Config{}, oneSend)
	late := s.lateMoney("5001", 35*time.Minute)
	cancelled := s.lateMoney("5002", 35*time.Minute)
	s.cancel("5002")
	stop := s.watch(s.reconciler(func(c *reconcile.Config) { c.Every = 20 * time.Second }))
	s.until(32 * time.Minute)
	stop()
	s.want(late.AttemptID, attempt.StatusAbandoned, attempt.ReasonNotFound)
	s.want(cancelled.AttemptID, attempt.StatusAbandoned, attempt.ReasonNotFound)
	s.Bank.ClearFaults()
	s.Bank.Script(fakeprovider.LoseAnswer)
	s.Bank.ScriptFor(fakeprovider.Lookups, fakeprovider.LookupEmpty)
	lost := s.unknown(s.Intent("5003")).AttemptID
	s.until(36 * time.Minute)

	process := &mortal{Store: s.Store, left: n, after: after}
	client, err := payclient.New(payclient.Config{
		Provider: adapter(t, standard.Config{LookupLag: time.Second}), BaseURL: "https://provider.example",
		Transport: s.Bank.RoundTripper(), Environment: "test", Store: process, Retries: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := reconcile.New(reconcile.Config{Store: process, Askers: []reconcile.Asker{client}, Concurrency: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.Bank.ScriptFor(refunds, fault, fault)
	for pass := 0; pass < 100 && !process.gone(); pass++ {
		_, _ = r.RunOnce(t.Context())
		time.Sleep(3 * time.Minute)
	}
	died := process.gone()
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = client.Close(ended)

	s.watch(s.reconciler(func(c *reconcile.Config) { c.Every = 20 * time.Second }))
	time.Sleep(12 * time.Hour)
	if a := s.attempt(lost); a.Status != attempt.StatusApproved {
		t.Errorf("the lost answer: %s (%s)", a.Status, a.Reason)
	}
	made := make(map[string]int)
	for _, refund := range s.Bank.Refunds() {
		made[refund.Charge]++
	}
	for order, id := range map[string]string{"5001": late.AttemptID, "5002": cancelled.AttemptID} {
		a := s.attempt(id)
		s.WantCharges(order, 1)
		if got := made[a.Charges[0].ID]; got != 1 || a.Status != attempt.StatusAbandoned || a.Duties[0].How != attempt.HowRefunded {
			t.Errorf("order %s: %s, %d refunds; duties %+v", order, a.Status, got, a.Duties)
		}
	}
	return died
}

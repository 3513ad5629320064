package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/chargeonce/chargeonce/reconcile"
)

// K2, P12: a provider that cannot be asked. Nothing is closed by age, a person is called once, and what the person says counts.
func TestK2CannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend, func(c *payclient.Config) {
			c.Provider = adapter(t, standard.Config{NoLookup: true, NoKeys: true, NoLists: true})
		})
		s.Bank.Script(fakeprovider.LoseAnswer)
		var alarms []string
		s.watch(s.reconciler(func(c *reconcile.Config) {
			c.Every = time.Minute
			c.Observer.AskingEnded = func(_ context.Context, a attempt.Attempt) { alarms = append(alarms, a.ID) }
		}))
		res := s.unknown(s.Intent("3001"))
		s.until(30 * 24 * time.Hour)
		a := s.want(res.AttemptID, attempt.StatusUnknown, attempt.ReasonConnectionLost)
		if len(alarms) != 1 || alarms[0] != a.ID || a.AskingEndedAt.IsZero() || !a.NextCheckAt.IsZero() {
			t.Errorf("alarms %v, asking ended %s, next look %s", alarms, a.AskingEndedAt, a.NextCheckAt)
		}
		if n := len(s.events(a.ID)); n > 4 {
			t.Errorf("%d events about nothing: %+v", n, s.events(a.ID))
		}
		decision := attempt.Resolve{ID: a.ID, Who: "support", Resolution: attempt.Resolution{
			Kind: attempt.ResolvedNotCharged, Why: "not in the provider's back office",
		}}
		if err := s.Store.Apply(t.Context(), decision.Step()); err != nil {
			t.Fatal(err)
		}
		s.want(a.ID, attempt.StatusAbandoned, attempt.ReasonResolved)
	})
}

// Seven days of failures: asking ends, the attempt stays open, the alarm sounds once, and evidence still settles it.
func TestAskingEndsAfterSevenDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{})
		s.Bank.Script(fakeprovider.LoseAnswer, fakeprovider.LoseAnswer, fakeprovider.LoseAnswer, fakeprovider.LoseAnswer)
		s.Bank.Always(fakeprovider.Lookups, fakeprovider.Status(500))
		var alarms int
		s.watch(s.reconciler(func(c *reconcile.Config) {
			c.Every = time.Minute
			c.Observer.AskingEnded = func(context.Context, attempt.Attempt) { alarms++ }
		}))
		res := s.unknown(s.Intent("3002"))
		s.until(7*24*time.Hour - time.Minute)
		if a := s.attempt(res.AttemptID); !a.AskingEndedAt.IsZero() || a.NextCheckAt.IsZero() {
			t.Fatalf("asking ended before seven days: %+v", a)
		}
		s.until(9 * 24 * time.Hour)
		a := s.attempt(res.AttemptID)
		if alarms != 1 || a.Status != attempt.StatusUnknown || a.AskingEndedAt.IsZero() || !a.NextCheckAt.IsZero() {
			t.Fatalf("%d alarms, %s, asking ended %s, next look %s", alarms, a.Status, a.AskingEndedAt, a.NextCheckAt)
		}
		if asked := s.lookups(a.ID)[attempt.LookupNotAsked]; asked < 10 || asked > 25 {
			t.Errorf("asked %d times in seven days", asked)
		}
		health, err := reconcile.ReadHealth(t.Context(), s.Store)
		if err != nil || health.AskingEnded != 1 || health.OldestOpen.AttemptID != "" {
			t.Errorf("health: %+v, %v", health, err)
		}
		charge := s.Charges("3002")[0]
		rec := attempt.Record{ID: a.ID, Evidence: attempt.Evidence{Kind: attempt.EvidenceSettlement, Charges: []attempt.Charge{
			{ID: charge.ID, Status: attempt.ChargeSucceeded, Amount: a.Amount},
		}}}
		if err := s.Store.Apply(t.Context(), rec.Step(nil)); err != nil {
			t.Fatal(err)
		}
		s.want(a.ID, attempt.StatusApproved, "")
	})
}

// An open breaker: questions that do not leave are no evidence, few are tried, and all rows come back.
func TestBreakerOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend, func(c *payclient.Config) { c.Breaker.FailurePercent = -1 })
		ids := s.lost(30, "30-")
		careful := s.Restart(func(c *payclient.Config) {
			c.Breaker = payclient.BreakerConfig{FailurePercent: 10, MinRequests: 5, Period: time.Minute, OpenFor: 10 * time.Minute}
		})
		s.Bank.Always(fakeprovider.Lookups, fakeprovider.Status(500))
		for range 10 {
			_, _ = careful.FindByReference(t.Context(), "nobody") // opens the breaker
		}
		s.Bank.ClearFaults()
		requests, events := s.Bank.RequestCount(), len(s.events(ids[29]))
		r := s.reconciler(func(c *reconcile.Config) {
			c.Askers, c.Concurrency, c.ListFrom = []reconcile.Asker{careful}, 2, -1
		})
		report := s.once(r)
		if n := s.Bank.RequestCount() - requests; n != 0 {
			t.Fatalf("%d requests through an open breaker", n)
		}
		if report.Asked != 0 || report.NotAsked < 3 || report.NotAsked > 4 || report.Left != 30-report.NotAsked || report.Failed != 0 {
			t.Errorf("with an open breaker: %+v", report)
		}
		for _, id := range ids {
			if a := s.attempt(id); a.Status != attempt.StatusUnknown || len(s.events(id)) != events {
				t.Errorf("attempt %s: %s, %d events, want nothing new", id, a.Status, len(s.events(id)))
			}
		}
		s.watch(r)
		time.Sleep(15 * time.Minute)
		for _, id := range ids {
			s.want(id, attempt.StatusApproved, "")
		}
	})
}

// asker is a client whose answers a test may change.
type asker struct {
	*payclient.Client
	ask  func(context.Context, attempt.Attempt, time.Time) (attempt.Evidence, error)
	list func(context.Context, time.Time, time.Time) iter.Seq2[attempt.Notice, error]
	duty func(context.Context, attempt.Attempt, attempt.Duty) (attempt.Attempt, error)
}

func (a asker) Ask(ctx context.Context, of attempt.Attempt, asked time.Time) (attempt.Evidence, error) {
	if a.ask != nil {
		return a.ask(ctx, of, asked)
	}
	return a.Client.Ask(ctx, of, asked)
}

func (a asker) ListCharges(ctx context.Context, from, to time.Time) iter.Seq2[attempt.Notice, error] {
	if a.list != nil {
		return a.list(ctx, from, to)
	}
	return a.Client.ListCharges(ctx, from, to)
}

func (a asker) RefundDuty(ctx context.Context, of attempt.Attempt, d attempt.Duty) (attempt.Attempt, error) {
	if a.duty != nil {
		return a.duty(ctx, of, d)
	}
	return a.Client.RefundDuty(ctx, of, d)
}

// lost makes n attempts whose charge was booked and whose answer was lost, and lets them become due.
func (s *shop) lost(n int, prefix string) (ids []string) {
	s.t.Helper()
	for i := range n {
		s.Bank.Script(fakeprovider.LoseAnswer)
		s.Bank.ScriptFor(fakeprovider.Lookups, fakeprovider.LookupEmpty)
		ids = append(ids, s.unknown(s.Intent(fmt.Sprint(prefix, i))).AttemptID)
	}
	s.Bank.ClearFaults()
	time.Sleep(3 * time.Minute)
	return ids
}

// An adapter that panics about one attempt, and one row that cannot be stored, hold back nothing but themselves.
func TestPanicsAndFailuresStayAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend)
		ids := s.lost(10, "32-")
		failed := make(map[string]int)
		r := s.reconciler(func(c *reconcile.Config) {
			c.Concurrency = 1
			c.Askers = []reconcile.Asker{asker{Client: s.Client, ask: func(ctx context.Context, a attempt.Attempt, asked time.Time) (attempt.Evidence, error) {
				if a.ID == ids[3] {
					panic("a secret")
				}
				return s.Client.Ask(ctx, a, asked)
			}}}
			c.Store = &faultyStore{Store: s.Store, refuse: func(step *attempt.Step) error {
				if step.ID == ids[5] {
					return attempt.ErrUnavailable
				}
				return nil
			}}
			c.Observer.Failed = func(_ context.Context, a attempt.Attempt, err error) { failed[a.ID]++ }
			c.Observer.Recorded = func(context.Context, attempt.Attempt, attempt.Attempt, []attempt.Duty) { panic("an observer") }
		})
		report := s.once(r)
		if report.Approved != 8 || report.Failed != 2 || report.Open != 1 {
			t.Errorf("report: %+v", report)
		}
		if len(failed) != 2 || failed[ids[3]] != 1 || failed[ids[5]] != 1 {
			t.Errorf("failed: %v", failed)
		}
		if n := s.lookups(ids[3])[attempt.LookupNotAsked]; n != 1 {
			t.Errorf("a panic is a question that failed: %d recorded", n)
		}
		time.Sleep(10 * time.Minute)
		s.once(s.reconciler()) // a sound one finishes the work
		for _, id := range ids {
			s.want(id, attempt.StatusApproved, "")
		}
	})
}

// faultyStore is a store that refuses steps.
type faultyStore struct {
	attempt.Store
	refuse func(*attempt.Step) error
}

func (f *faultyStore) Apply(ctx context.Context, steps ...*attempt.Step) error {
	var pass []*attempt.Step
	for _, s := range steps {
		if s.Err = f.refuse(s); s.Err == nil {
			pass = append(pass, s)
		}
	}
	if len(pass) > 0 {
		_ = f.Store.Apply(ctx, pass...)
	}
	return attempt.JoinStepErrors(steps)
}

// Attempts of a place that nobody here asks for are left alone.
func TestOtherPlacesAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend)
		ids := s.lost(1, "33-")
		before := s.attempt(ids[0])
		other := s.Restart(func(c *payclient.Config) { c.Environment = "elsewhere" })
		report := s.once(s.reconciler(func(c *reconcile.Config) { c.Askers = []reconcile.Asker{other} }))
		if after := s.attempt(ids[0]); report.Taken != 0 || after.Version != before.Version || !after.NextCheckAt.Equal(before.NextCheckAt) {
			t.Errorf("taken %d, version %d, next look %s", report.Taken, after.Version, after.NextCheckAt)
		}
	})
}

// A claim that has expired is judged also where nobody can be asked: the decline that waited for it counts.
func TestEvidenceThatWaitedForAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend)
		s.Bank.Script(fakeprovider.NeverArrives)
		var alive atomic.Bool
		frozen := s.Restart(func(c *payclient.Config) {
			c.Store = &faultyStore{Store: s.Store, refuse: func(step *attempt.Step) error {
				if step.Outcome && !alive.Load() {
					return attempt.ErrUnavailable
				}
				return nil
			}}
		})
		var sender sync.WaitGroup
		sender.Go(func() { _, _ = frozen.Pay(context.Background(), s.Intent("3004")) })
		defer sender.Wait()
		defer alive.Store(true)
		time.Sleep(time.Second)
		view, err := s.Store.Slot(t.Context(), attempt.Slot{Order: "3004"}.WithDefaults())
		if err != nil || len(view.Attempts) != 1 {
			t.Fatal(view, err)
		}
		id := view.Attempts[0].ID
		rec := attempt.Record{ID: id, Evidence: attempt.Evidence{Kind: attempt.EvidenceWebhook, KeepsAnswers: true, Charges: []attempt.Charge{
			{ID: "ch_9", Status: attempt.ChargeFailed, DeclineCode: "card_declined"},
		}}}
		if err := s.Store.Apply(t.Context(), rec.Step(nil)); err != nil {
			t.Fatal(err)
		}
		s.want(id, attempt.StatusSending, attempt.ReasonInFlight)
		notAsked := asker{Client: s.Client, ask: func(context.Context, attempt.Attempt, time.Time) (attempt.Evidence, error) {
			return attempt.Evidence{}, payclient.ErrNotAsked
		}}
		r := s.reconciler(func(c *reconcile.Config) { c.Askers = []reconcile.Asker{notAsked} })
		s.once(r)
		s.want(id, attempt.StatusSending, attempt.ReasonInFlight)
		time.Sleep(time.Minute)
		s.once(r)
		s.want(id, attempt.StatusDeclined, attempt.ReasonDeclined)
	})
}

// Run ends with its context, asks nothing more, and stores what it was told.
func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend)
		ids := s.lost(20, "35-")
		ctx, cancel := context.WithCancel(t.Context())
		var asked atomic.Int32
		r := s.reconciler(func(c *reconcile.Config) {
			c.Concurrency = 2
			c.Askers = []reconcile.Asker{asker{Client: s.Client, ask: func(_ context.Context, a attempt.Attempt, at time.Time) (attempt.Evidence, error) {
				if asked.Add(1) == 5 {
					cancel()
				}
				time.Sleep(time.Second)
				return s.Client.Ask(context.Background(), a, at)
			}}}
		})
		began := time.Now()
		if err := r.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("Run returned %v", err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("it ended %s after it had begun", took)
		}
		approved := 0
		for _, id := range ids {
			if s.attempt(id).Status == attempt.StatusApproved {
				approved++
			}
		}
		if n := int(asked.Load()); n > 6 || approved != n {
			t.Errorf("%d questions, %d answers stored", n, approved)
		}
		time.Sleep(10 * time.Minute)
		s.once(s.reconciler())
		for _, id := range ids {
			s.want(id, attempt.StatusApproved, "")
		}
	})
}

// What is due again before a pass has ended does not keep it going for ever.
func TestAPassEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend, func(c *payclient.Config) { c.AskWaits = []time.Duration{time.Second} })
		s.lost(10, "36-")
		s.Bank.Always(fakeprovider.Lookups, fakeprovider.Status(429))
		asked := 0
		report := s.once(s.reconciler(func(c *reconcile.Config) {
			c.Concurrency, c.Batch = 1, 2
			c.Askers = []reconcile.Asker{asker{Client: s.Client, ask: func(ctx context.Context, a attempt.Attempt, at time.Time) (attempt.Evidence, error) {
				if asked++; asked > 100 {
					t.Fatal("the pass does not end")
				}
				time.Sleep(2 * time.Second)
				return s.Client.Ask(ctx, a, at)
			}}}
		}))
		if report.Taken < 10 || report.Next <= 0 {
			t.Errorf("report: %+v", report)
		}
	})
}

func TestAlso(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend)
		ids := s.lost(1, "37-")
		ran := 0
		mine := errors.New("mine")
		r := s.reconciler(func(c *reconcile.Config) {
			c.Also = []func(context.Context) error{
				func(context.Context) error { panic(1) },
				func(context.Context) error { ran++; return mine },
				func(context.Context) error { ran++; return nil },
			}
		})
		if _, err := r.RunOnce(t.Context()); !errors.Is(err, mine) || ran != 2 {
			t.Errorf("%v, ran %d", err, ran)
		}
		s.want(ids[0], attempt.StatusApproved, "")
	})
}

// Many that were never booked, asked about at once: that "none" is believed only on a connection of the question's own holds
// none of them up (F69).
func TestManyNeverBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend, func(c *payclient.Config) { c.Breaker.FailurePercent = -1 })
		s.Bank.Always(fakeprovider.Match{}, fakeprovider.NeverArrives)
		var ids sync.Map
		var payers sync.WaitGroup
		for n := range 100 {
			payers.Go(func() { ids.Store(n, s.unknown(s.Intent(fmt.Sprint("38-", n))).AttemptID) })
		}
		payers.Wait()
		s.watch(s.reconciler(func(c *reconcile.Config) { c.ListFrom = -1 }))
		s.until(31 * time.Minute)
		for _, id := range ids.Range {
			s.want(id.(string), attempt.StatusAbandoned, attempt.ReasonNotFound)
		}
	})
}

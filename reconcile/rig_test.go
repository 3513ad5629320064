package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/paytest"
	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/chargeonce/chargeonce/reconcile"
)

// shop is a host with a client at a fake provider. It is made inside a synctest bubble.
type shop struct {
	*paytest.Kit
	t     *testing.T
	began time.Time
}

// scenario are the times of the scenarios R1 to R9: first question after 10 s, every 5 s, abandon after 40 s, lag 1 s.
func scenario(c *payclient.Config) {
	c.MinAge, c.AskWaits, c.AbandonAfter = 10*time.Second, []time.Duration{5 * time.Second}, 40*time.Second
	c.CallTimeout, c.RecordTimeout = 9*time.Second, time.Second // a claim lasts 10 s, and nobody is asked before
}

func adapter(t *testing.T, std standard.Config) payclient.Provider {
	t.Helper()
	std.Token = payclient.NewSecret("reconcile")
	p, err := standard.New(std)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// open opens a shop whose adapter declares a lag of 1 s.
func open(t *testing.T, bank fakeprovider.Config, options ...func(*payclient.Config)) *shop {
	t.Helper()
	lag := func(c *payclient.Config) { c.Provider = adapter(t, standard.Config{LookupLag: time.Second}) }
	kit := paytest.NewAt(t, fakeprovider.New(bank), append([]func(*payclient.Config){lag}, options...)...)
	return &shop{Kit: kit, t: t, began: time.Now()}
}

func (s *shop) with(order, token string) attempt.Intent {
	i := s.Intent(order)
	i.Source = attempt.Token(token)
	return i
}

// pay pays, and fails the test on an error.
func (s *shop) pay(i attempt.Intent) payclient.Result {
	s.t.Helper()
	res, err := s.Client.Pay(s.t.Context(), i)
	if err != nil {
		s.t.Fatalf("order %s: %v", i.Order, err)
	}
	return res
}

// unknown pays and fails the test unless nobody knows what became of it.
func (s *shop) unknown(i attempt.Intent) payclient.Result {
	s.t.Helper()
	res := s.pay(i)
	if res.Outcome != payclient.UnknownOutcome || !res.Open() {
		s.t.Fatalf("order %s: %s (%s), want unknown", i.Order, res.Outcome, res.Reason)
	}
	return res
}

func (s *shop) reconciler(change ...func(*reconcile.Config)) *reconcile.Reconciler {
	s.t.Helper()
	cfg := reconcile.Config{Store: s.Store, Askers: []reconcile.Asker{s.Client}, Every: time.Second}
	for _, f := range change {
		f(&cfg)
	}
	r, err := reconcile.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// watch lets a reconciler run until stop is called, or the test ends.
func (s *shop) watch(r *reconcile.Reconciler) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			s.t.Errorf("Run returned %v, want the context's error", err)
		}
	}
	s.t.Cleanup(stop)
	return stop
}

func (s *shop) once(r *reconcile.Reconciler) reconcile.Report {
	s.t.Helper()
	report, err := r.RunOnce(s.t.Context())
	if err != nil {
		s.t.Fatalf("pass: %v", err)
	}
	return report
}

func (s *shop) attempt(id string) attempt.Attempt {
	s.t.Helper()
	a, err := s.Store.Attempt(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *shop) want(id string, status attempt.Status, reason attempt.Reason) attempt.Attempt {
	s.t.Helper()
	a := s.attempt(id)
	if a.Status != status || a.Reason != reason {
		s.t.Fatalf("after %s: attempt is %s (%s), want %s (%s)", time.Since(s.began), a.Status, a.Reason, status, reason)
	}
	return a
}

// until lets time pass to a moment since the beginning.
func (s *shop) until(since time.Duration) { time.Sleep(time.Until(s.began.Add(since))) }

func (s *shop) events(id string) []attempt.Event {
	s.t.Helper()
	events, err := s.Store.Events(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return events
}

// lookups counts the answers in an attempt's history.
func (s *shop) lookups(id string) map[attempt.LookupAnswer]int {
	n := make(map[attempt.LookupAnswer]int)
	for _, e := range s.events(id) {
		if e.Evidence != nil && e.Evidence.Kind == attempt.EvidenceLookup {
			n[e.Evidence.Lookup]++
		}
	}
	return n
}

package chargeonceriver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/riverqueue/river"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/reconcile"
)

const id = "0195519e-2a00-7000-8000-000000000001"

// rig is a store with one attempt, and a looker, as the test wants them.
type rig struct {
	attempt attempt.Attempt
	err     error // of the store
	looked  func() (reconcile.Looked, error)
	looks   int
	report  reconcile.Report
	passErr error
}

func (r *rig) Attempt(_ context.Context, of string) (attempt.Attempt, error) {
	if of != r.attempt.ID && r.err == nil {
		return attempt.Attempt{}, fmt.Errorf("attempt %s: %w", of, attempt.ErrNotFound)
	}
	return r.attempt, r.err
}

// Slot is by a clock that is an hour ahead of this machine's.
func (r *rig) Slot(context.Context, attempt.Slot) (attempt.View, error) {
	return attempt.View{Now: storeNow(), Attempts: []attempt.Attempt{r.attempt}}, r.err
}

func storeNow() time.Time { return time.Now().Add(time.Hour) }

func (r *rig) Look(context.Context, string) (reconcile.Looked, error) {
	r.looks++
	return r.looked()
}

func (r *rig) RunOnce(context.Context) (reconcile.Report, error) { return r.report, r.passErr }

func (r *rig) work(t *testing.T, of string) error {
	t.Helper()
	w := &lookWorker{cfg: Config{Reconciler: r, Store: r}}
	return w.Work(t.Context(), &river.Job[LookArgs]{Args: LookArgs{AttemptID: of}})
}

func (r *rig) set(status attempt.Status, in time.Duration) attempt.Attempt {
	return attempt.Attempt{ID: id, Status: status, NextCheckAt: storeNow().Add(in)}
}

// snoozed returns for how long a job is put off; negative: it is not.
func snoozed(err error) time.Duration {
	if s := (*river.JobSnoozeError)(nil); errors.As(err, &s) {
		return s.Duration
	}
	return -1
}

func TestJobWaitsForItsAttemptsNextCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []attempt.Status{attempt.StatusUnknown, attempt.StatusSending} {
			r := &rig{}
			r.attempt = r.set(status, 7*time.Minute)
			if err := r.work(t, id); snoozed(err) != 7*time.Minute || r.looks != 0 {
				t.Errorf("%s and not due: %v after %d looks, want 7m and none", status, err, r.looks)
			}
			r.attempt = r.set(status, 0)
			r.looked = func() (reconcile.Looked, error) {
				return reconcile.Looked{Attempt: r.set(attempt.StatusUnknown, 3*time.Hour), Now: storeNow()}, nil
			}
			if err := r.work(t, id); snoozed(err) != 3*time.Hour || r.looks != 1 {
				t.Errorf("%s and due: %v after %d looks, want 3h and 1", status, err, r.looks)
			}
			r.looked = func() (reconcile.Looked, error) { // not asked: the breaker is open
				return reconcile.Looked{Attempt: r.set(attempt.StatusUnknown, -time.Minute), Now: storeNow()}, nil
			}
			if err := r.work(t, id); snoozed(err) != 15*time.Second {
				t.Errorf("still due after the look: %v, want 15s", err)
			}
			r.attempt = r.set(status, time.Microsecond)
			if err := r.work(t, id); snoozed(err) != time.Second {
				t.Errorf("all but due: %v, want 1s", err)
			}
		}
	})
}

func TestJobEndsWhenItsAttemptIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{}
		ended := r.set(attempt.StatusUnknown, 0)
		ended.AskingEndedAt, ended.NextCheckAt = storeNow(), time.Time{}
		all := []attempt.Attempt{ended}
		for _, status := range attempt.Statuses() {
			if status != attempt.StatusUnknown && status != attempt.StatusSending {
				all = append(all, r.set(status, -time.Minute))
			}
		}
		for _, a := range all {
			r := &rig{attempt: a}
			if err := r.work(t, id); err != nil || r.looks != 0 {
				t.Errorf("%s: %v after %d looks", a.Status, err, r.looks)
			}
			r.attempt = r.set(attempt.StatusUnknown, 0)
			r.looked = func() (reconcile.Looked, error) { return reconcile.Looked{Attempt: a, Now: storeNow()}, nil }
			if err := r.work(t, id); err != nil || r.looks != 1 {
				t.Errorf("%s after the look: %v after %d looks", a.Status, err, r.looks)
			}
		}
	})
}

func TestJobThatCannotDoItsWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{}
		r.attempt = r.set(attempt.StatusUnknown, 0)
		cancelled := (*river.JobCancelError)(nil)
		if err := r.work(t, "nobody"); !errors.As(err, &cancelled) {
			t.Errorf("no such attempt: %v, want the job cancelled", err)
		}
		r.looked = func() (reconcile.Looked, error) {
			return reconcile.Looked{Attempt: r.attempt, Now: storeNow()}, fmt.Errorf("look: %w", reconcile.ErrNoAsker)
		}
		if err := r.work(t, id); snoozed(err) != time.Minute {
			t.Errorf("another process's place: %v, want it put off for a minute", err)
		}
		r.looked = func() (reconcile.Looked, error) { return reconcile.Looked{}, attempt.ErrUnavailable }
		if err := r.work(t, id); !errors.Is(err, attempt.ErrUnavailable) || errors.As(err, &cancelled) || snoozed(err) >= 0 {
			t.Errorf("store away in the look: %v, want an error that River retries", err)
		}
		r.err = attempt.ErrUnavailable
		if err := r.work(t, id); !errors.Is(err, attempt.ErrUnavailable) || errors.As(err, &cancelled) || snoozed(err) >= 0 {
			t.Errorf("store away: %v, want an error that River retries", err)
		}
	})
}

func TestAddWorkersReportsEveryMistake(t *testing.T) {
	var none *reconcile.Reconciler
	err := AddWorkers(nil, Config{Reconciler: none, LookTimeout: -1, SweepTimeout: -1})
	for _, want := range []string{"workers: missing", "Reconciler: missing", "Store: missing", "LookTimeout", "SweepTimeout"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in: %v", want, err)
		}
	}
	workers, r := river.NewWorkers(), &rig{}
	if err := AddWorkers(workers, Config{Reconciler: r, Store: r}); err != nil {
		t.Error(err)
	}
	if err := AddWorkers(workers, Config{Reconciler: r, Store: r}); err == nil {
		t.Error("the same workers twice: no error")
	}
}

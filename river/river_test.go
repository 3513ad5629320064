package chargeonceriver_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	chargeonceriver "github.com/chargeonce/chargeonce/river"
)

func ended(kind river.EventKind, job string) func(*river.Event) bool {
	return func(e *river.Event) bool { return e.Kind == kind && e.Job.Kind == job }
}

// The provider charges, its answer is lost, it cannot say so when it is asked, and then it can.
func TestJobFindsTheCharge(t *testing.T) {
	h := newHost(t)
	a := h.lost("1001")
	h.Bank.ScriptFor(fakeprovider.Lookups, fakeprovider.Status(503))
	told := h.work(h.reconciler())
	h.wait(told, ended(river.EventKindJobSnoozed, "chargeonce_look"))
	h.wait(told, ended(river.EventKindJobCompleted, "chargeonce_look"))
	if a = h.attempt(a.ID); a.Status != attempt.StatusApproved {
		t.Errorf("attempt is %s (%s), want approved", a.Status, a.Reason)
	}
	if jobs := h.looks(a.ID); len(jobs) != 1 || jobs[0].state != "completed" || jobs[0].attempt != 1 {
		t.Errorf("jobs %+v, want one, completed at its first attempt: what is put off costs none", jobs)
	}
	h.WantCharges("1001", 1)
}

// The attempt's job was deleted, and River had missed a second one: the sweep finds both.
func TestSweepFindsWhatWasMissed(t *testing.T) {
	h := newHost(t)
	ids := []string{h.lost("1001").ID}
	h.exec("DELETE FROM " + h.opts.RiverSchema + ".river_job")
	if err := chargeonceriver.Uninstall(t.Context(), h.pool, h.opts); err != nil {
		t.Fatal(err)
	}
	ids = append(ids, h.lost("1002").ID)
	told := h.work(h.reconciler(), chargeonceriver.Sweep(chargeonceriver.SweepOptions{Every: time.Second}))
	h.wait(told, func(e *river.Event) bool {
		if e.Kind == river.EventKindJobFailed {
			t.Errorf("a job has failed: %+v", e.Job.Errors)
		}
		return h.attempt(ids[0]).Status == attempt.StatusApproved && h.attempt(ids[1]).Status == attempt.StatusApproved
	})
	if n := len(h.looks(ids[0])) + len(h.looks(ids[1])); n != 0 {
		t.Errorf("%d jobs of the attempts: the sweep was not what found them", n)
	}
	sweeps, piling := 0, 0
	err := h.pool.QueryRow(t.Context(), "SELECT count(*), count(*) FILTER (WHERE max_attempts <> 1 OR unique_key IS NULL) FROM "+
		h.opts.RiverSchema+".river_job WHERE kind = 'chargeonce_sweep'").Scan(&sweeps, &piling)
	if err != nil || sweeps == 0 || piling > 0 {
		t.Errorf("%d sweeps, %d of them repeated or piling up: %v", sweeps, piling, err)
	}
}

// A reconciler of its own and two of River's clients work on the same attempts at once: each attempt is settled, and charged once.
func TestRiverAndTheReconcilerAtOnce(t *testing.T) {
	h := newHost(t)
	const orders = 24
	ids := make([]string, orders)
	for i := range ids {
		ids[i] = h.lost(fmt.Sprint(i)).ID
	}
	h.Bank.ScriptFor(fakeprovider.Lookups, fakeprovider.Status(503), fakeprovider.Status(503))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	own := h.reconciler()
	running.Go(func() {
		if err := own.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer cancel()
	sweep := chargeonceriver.Sweep(chargeonceriver.SweepOptions{Every: time.Second})
	one, two := h.work(h.reconciler(), sweep), h.work(h.reconciler(), sweep)
	both := make(chan *river.Event, 100)
	for _, told := range []<-chan *river.Event{one, two} {
		running.Go(func() {
			for {
				select {
				case e := <-told:
					select {
					case both <- e:
					default: // the state is looked at, not the event
					}
				case <-ctx.Done():
					return
				}
			}
		})
	}
	h.wait(both, func(*river.Event) bool {
		for _, id := range ids {
			if jobs := h.looks(id); len(jobs) != 1 || jobs[0].state != "completed" {
				return false
			}
		}
		return true
	})
	for i, id := range ids {
		if a := h.attempt(id); a.Status != attempt.StatusApproved || len(a.Charges) != 1 || len(a.Duties) != 0 {
			t.Errorf("order %d: %s, %d charges known, duties %+v", i, a.Status, len(a.Charges), a.Duties)
		}
		h.WantCharges(fmt.Sprint(i), 1)
	}
}

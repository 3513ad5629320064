package batch_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/batch"
)

// failing is a store that cannot be written, or neither read.
type failing struct {
	attempt.Store
	writes, reads atomic.Bool // fail
	hangs         atomic.Bool // what fails takes as long as it may: its context, a step 5 s at most
	asked         atomic.Int32
}

func (f *failing) fail(ctx context.Context, fails *atomic.Bool) error {
	f.asked.Add(1)
	if !fails.Load() {
		return nil
	}
	if f.hangs.Load() {
		var limit <-chan time.Time // a read ends with its context alone
		if fails == &f.writes {
			limit = time.After(5 * time.Second)
		}
		select {
		case <-ctx.Done():
		case <-limit:
		}
	}
	return fmt.Errorf("%w: permission denied for table chargeonce_slots", attempt.ErrUnavailable)
}

func (f *failing) Apply(ctx context.Context, steps ...*attempt.Step) error {
	if err := f.fail(ctx, &f.writes); err != nil {
		for _, s := range steps {
			s.Err = err
		}
		return err
	}
	return f.Store.Apply(ctx, steps...)
}

func (f *failing) Slot(ctx context.Context, slot attempt.Slot) (attempt.View, error) {
	if err := f.fail(ctx, &f.reads); err != nil {
		return attempt.View{}, err
	}
	return f.Store.Slot(ctx, slot)
}

// runAt is a run whose client and whose reads are at that store.
func (b *bench) runAt(store *failing, text string) *run {
	b.cfg.Store = store
	r := b.run(text)
	r.Store = store
	return r
}

func stoppedByStore(t *testing.T, stop *batch.Stop) {
	t.Helper()
	if stop == nil || stop.Kind != batch.StopStore || !strings.Contains(stop.Err.Error(), "permission denied") || strings.Contains(stop.Err.Error(), "nothing was sent") {
		t.Errorf("stop %+v, want that of the store, and why", stop)
	}
}

// A store that can be read and not written: every row has a line, told as it stands there. What no run has sent is not sent, and
// says so; nothing of it is unknown.
func TestRowsOfAStoreThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		store := &failing{Store: b.store}
		earlier := b.runAt(store, "2,1.00,EUR,tok_visa\n3,1.00,EUR,tok_never_arrives\n4,1.00,EUR,tok_visa\n5,1.00,EUR,tok_declined\n")
		b.want(earlier, earlier.Do(t.Context(), t.Context()), "2 approved, 3 unknown timeout, 4 approved, 5 declined")
		time.Sleep(time.Minute) // in the bubble: the run is over
		sent := b.bank.Ledger().RequestCount

		store.writes.Store(true)
		again := b.runAt(store, "1,1.00,EUR,tok_visa\n2,1.00,EUR,tok_visa\n3,1.00,EUR,tok_never_arrives\n4,9.00,EUR,tok_visa\n5,1.00,EUR,tok_declined\n6,1.00,EUR,tok_visa\n")
		stoppedByStore(t, again.Do(t.Context(), t.Context()))
		b.want(again, nil, "1 not_sent store_unavailable, 2 approved (existing), 3 unknown (existing) timeout, 4 refused (existing) already_paid, 5 declined (existing), 6 not_sent stopped")
		if n := b.bank.Ledger().RequestCount - sent; n != 0 {
			t.Errorf("%d requests", n)
		}
		for i, want := range []string{"nothing was sent: store unavailable: permission denied", "", "", "already paid: 1.00 EUR by attempt ", "", "not begun: the database failed: store unavailable: permission denied"} {
			if r := again.results[i]; !strings.HasPrefix(r.Message, want) || r.Unread() || strings.Count(r.Message, "nothing was sent") > 1 {
				t.Errorf("row %d: %q, unread %t; want %q", i+1, r.Message, r.Unread(), want)
			}
			if moved := again.results[i].Moved; (moved == attempt.MovedNo) != (i == 0 || i > 2) {
				t.Errorf("row %d: moved %s", i+1, moved)
			}
		}
	})
}

// Where the store cannot be read either, this run has sent nothing, and nobody knows what an earlier one has: no row is told as not
// sent, each has a line that says so, and a store that only hangs keeps nobody for long.
func TestRowsOfAStoreThatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		name   string
		atOnce bool // else after the run has looked at the store, and paid the first row
		hangs  bool
		first  string
		took   time.Duration
	}{
		{"from the beginning", true, false, "1 unknown store_unavailable, 2 unknown store_unavailable", 0},
		{"in mid-run", false, false, "1 approved, 2 approved", 0},
		// One row's own look, what it makes sure of, and two more.
		{"in mid-run, without an answer", false, true, "1 approved, 2 approved", 21 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				store := &failing{Store: b.store}
				earlier := b.runAt(store, "30,1.00,EUR,tok_visa\n")
				b.want(earlier, earlier.Do(t.Context(), t.Context()), "30 approved")
				var text, want strings.Builder
				want.WriteString(c.first)
				for i := range 40 {
					fmt.Fprintf(&text, "%d,1.00,EUR,tok_visa\n", i+1)
					if i > 1 {
						fmt.Fprintf(&want, ", %d unknown store_unavailable", i+1)
					}
				}
				r := b.runAt(store, text.String())
				r.Concurrency = 1
				fail := func() {
					store.hangs.Store(c.hangs)
					store.writes.Store(true)
					store.reads.Store(true)
					store.asked.Store(0)
				}
				report := r.Report
				reported := make(chan struct{})
				r.Report = func(result batch.Result) error {
					if result.Slot.Order == "2" {
						close(reported)
					}
					return report(result)
				}
				began := time.Now()
				if c.atOnce {
					fail()
				} else {
					rows := r.Rows
					r.Rows = rowsBefore{rows, func(n int) {
						if n == 3 { // by then the first two are paid
							<-reported
							fail()
						}
					}, new(int)}
				}
				stoppedByStore(t, r.Do(t.Context(), t.Context()))
				got := r.told()
				if got != want.String() {
					t.Errorf("got  %s\nwant %s", got, want.String())
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
				if n := store.asked.Load(); n > 12 {
					t.Errorf("the store was asked %d times after it had failed", n)
				}
				last := r.results[len(r.results)-1]
				if !last.Unread() || !last.Open() || last.Moved != attempt.MovedMaybe || !strings.HasPrefix(last.Message, "nothing was sent by this run; whether another run has paid it cannot be read: ") {
					t.Errorf("%+v", last)
				}
				b.charges(len(b.bank.Charges())) // none twice
			})
		})
	}
}

// rowsBefore has a func told before each row is read.
type rowsBefore struct {
	batch.Rows
	before func(n int)
	n      *int
}

func (r rowsBefore) Next() (batch.Row, error) {
	*r.n++
	r.before(*r.n)
	return r.Rows.Next()
}

// A row whose turn an interrupt takes away is told as the store has it: an earlier run may have paid it.
func TestARowThatWasInterruptedBeforeItsTurnIsToldFromTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		earlier := b.run("2,1.00,EUR,tok_visa\n")
		b.want(earlier, earlier.Do(t.Context(), t.Context()), "2 approved")
		time.Sleep(time.Minute) // in the bubble: the run is over
		r := b.run("1,1.00,EUR,tok_slow_2s\n2,1.00,EUR,tok_visa\n")
		r.Concurrency = 1
		start, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, interrupt) // while the second row waits for its turn
		if stop := r.Do(start, t.Context()); stop == nil || stop.Kind != batch.StopInterrupted {
			t.Errorf("stop %+v", stop)
		}
		b.want(r, nil, "1 approved, 2 approved (existing)")
	})
}

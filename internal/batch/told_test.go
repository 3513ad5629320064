package batch_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/internal/batch"
)

// A run that is stopped tells of the rows behind what a run that goes on tells of them: an order that is paid is paid, whatever its row
// says; only what a run that goes on would begin is not sent.
func TestAStoppedRunTellsWhatOneThatGoesOnTells(t *testing.T) {
	const earlier = "2,10.00,EUR,tok_visa\n3,10.00,EUR,tok_visa\n4,10.00,EUR,tok_visa\n5,10.00,EUR,tok_declined\n6,10.00,EUR,tok_never_arrives\n" +
		"7,10.00,EUR,tok_never_arrives\n8,10.00,EUR,tok_visa\n9,10.00,EUR,tok_visa\n"
	const rows = "2,10.00,EUR,tok_visa\n3,11.00,EUR,tok_visa\n4,10.00,EUR,tok_mastercard\n5,10.00,EUR,tok_declined\n6,10.00,EUR,tok_never_arrives\n" +
		"7,11.00,EUR,tok_never_arrives\n8,10.00,EUR,tok_visa\n9,10.00,EUR,tok_visa\n"
	const want = "2 approved (existing), 3 refused (existing) already_paid, 4 refused (existing) already_paid, 5 declined (existing), 6 unknown (existing) timeout, " +
		"7 refused (existing) conflict, 8 refused (existing) order_cancelled, 9 refused (existing) refunded"
	for _, why := range []string{"", "the provider", "the store", "an interrupt"} {
		t.Run(why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				store := &failing{Store: b.store}
				first := b.runAt(store, earlier)
				first.Do(t.Context(), t.Context())
				b.want(first, nil, "2 approved, 3 approved, 4 approved, 5 declined, 6 unknown timeout, 7 unknown timeout, 8 approved, 9 approved")
				b.cfg.Store = store
				client := b.client()
				if _, err := client.CancelOrder(t.Context(), attempt.Slot{Order: "8"}, "test"); err != nil {
					t.Fatal(err)
				}
				paid, err := client.Status(t.Context(), attempt.Slot{Order: "9"})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := client.Refund(t.Context(), attempt.Refund{AttemptID: paid.AttemptID, ID: "all"}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute) // in the bubble: the claims are over

				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				text, behind := rows, want
				switch why {
				case "":
					behind = strings.Replace(want, "6 unknown (existing)", "6 unknown", 1) // it is asked about once more
				case "the provider":
					closed := fakeprovider.New(fakeprovider.Config{})
					closed.Always(fakeprovider.Match{}, fakeprovider.Status(401))
					b.cfg.Transport = closed.RoundTripper()
					text, behind = "1,10.00,EUR,tok_visa\n"+rows+"10,10.00,EUR,tok_visa\n", "1 contract_violation refused, "+want+", 10 not_sent stopped"
				case "the store":
					store.writes.Store(true)
					text, behind = "1,10.00,EUR,tok_visa\n"+rows+"10,10.00,EUR,tok_visa\n", "1 not_sent store_unavailable, "+want+", 10 not_sent stopped"
				}
				again := b.runAt(store, text)
				if why == "an interrupt" {
					// Each row is the one whose turn the interrupt takes away.
					for _, row := range []struct{ text, want string }{
						{"3,11.00,EUR,tok_visa\n", "3 refused (existing) already_paid"}, {"9,10.00,EUR,tok_visa\n", "9 refused (existing) refunded"},
						{"7,11.00,EUR,tok_never_arrives\n", "7 refused (existing) conflict"}, {"10,10.00,EUR,tok_visa\n", "10 not_sent interrupted"},
					} {
						order := "2" + row.text[:1] // a slow one before it
						r := b.runAt(store, order+",1.00,EUR,tok_slow_2s\n"+row.text)
						r.Concurrency = 1
						start, interrupt := context.WithCancel(t.Context())
						time.AfterFunc(1500*time.Millisecond, interrupt)
						r.Do(start, t.Context())
						b.want(r, nil, order+" approved, "+row.want)
					}
					return
				}
				again.Do(ctx, ctx)
				b.want(again, nil, behind)
			})
		})
	}
}

// That a row was not sent is what is so when it is told, in the file's order: another run may have paid it meanwhile.
func TestNotSentIsWhatIsSoWhenItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		store := &failing{Store: b.store}
		r := b.runAt(store, "1,10.00,EUR,tok_slow_2s\n2,10.00,EUR,tok_visa\n3,10.00,EUR,tok_visa\n4,10.00,EUR,tok_visa\n")
		began := time.Now()
		time.AfterFunc(1100*time.Millisecond, func() { store.writes.Store(true) }) // the first row is under way
		beside := make(chan struct{})
		time.AfterFunc(1500*time.Millisecond, func() { // another run, which can write
			defer close(beside)
			other := b.runAt(&failing{Store: b.store}, "2,10.00,EUR,tok_visa\n3,10.00,EUR,tok_visa\n")
			other.Do(context.Background(), context.Background())
		})
		r.Rows = rowsBefore{r.Rows, func(n int) {
			if n >= 2 {
				time.Sleep(1200*time.Millisecond - time.Since(began)) // in the bubble
			}
		}, new(int)}
		r.Do(context.Background(), context.Background())
		<-beside
		// The last one may have been begun or not when the store failed.
		if got, last := r.told(), r.results[3]; !strings.HasPrefix(got, "1 approved, 2 approved (existing), 3 approved (existing), 4 not_sent ") || last.Moved != attempt.MovedNo {
			t.Errorf("told %s", got)
		}
	})
}

// Two interrupts in quick succession: nothing is wrong with the store, and no row is told so.
func TestRowsBehindTwoInterrupts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := b.run("1,1.00,EUR,tok_slow_2s\n2,1.00,EUR,tok_visa\n")
		r.Concurrency = 1
		calls, cut := context.WithCancel(t.Context())
		start, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, func() { cut(); interrupt() })
		if stop := r.Do(start, calls); stop == nil || stop.Kind != batch.StopInterrupted {
			t.Errorf("stop %+v", stop)
		}
		if got := r.results[1]; got.Outcome != batch.NotSent || got.Reason != batch.Interrupted {
			t.Errorf("told %+v", got)
		}
	})
}

// Whoever read the results is gone: what is under way is counted all the same, or an unknown payment would hide behind that.
func TestRowsThatNobodyReadsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := b.run("1,1.00,EUR,tok_slow_2s\n2,1.00,EUR,tok_never_arrives\n3,1.00,EUR,tok_never_arrives\n")
		report := r.Report
		r.Report = func(result batch.Result) error {
			_ = report(result)
			return context.DeadlineExceeded // the pipe is broken
		}
		if stop := r.Do(t.Context(), t.Context()); stop == nil || stop.Kind != batch.StopOutput {
			t.Errorf("stop %+v", stop)
		}
		if len(r.results) < 2 || r.results[1].Outcome != batch.Unknown {
			t.Errorf("counted %s", r.told())
		}
	})
}

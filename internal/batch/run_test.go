package batch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/internal/batch"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// bench is a store and a provider inside a bubble, at which runs are tried.
type bench struct {
	t     *testing.T
	bank  *fakeprovider.Provider
	store *attempt.Memory
	cfg   payclient.Config
}

func newBench(t *testing.T) *bench {
	adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("secret"), LookupLag: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, bank: fakeprovider.New(fakeprovider.Config{}), store: new(attempt.Memory)}
	b.cfg = payclient.Config{
		Provider: adapter, Store: b.store, BaseURL: "http://127.0.0.1", Transport: b.bank.RoundTripper(),
		Breaker: payclient.BreakerConfig{FailurePercent: 50, MinRequests: 20},
	}
	return b
}

func (b *bench) client() *payclient.Client {
	c, err := payclient.New(b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		// What a test's store does not take is given up, or it would be tried for as long as the bubble lasts.
		over, end := context.WithCancel(context.Background())
		end()
		if err := c.Close(over); err != nil {
			b.t.Logf("close: %v", err)
		}
	})
	return c
}

// run is a run of rows, and what it reports.
type run struct {
	batch.Run
	results []batch.Result
	mu      sync.Mutex
	waits   []batch.Wait // guarded by mu
}

// waited writes the waits in short.
func (r *run) waited() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := map[batch.WaitKind]string{
		batch.WaitClaim: "claim", batch.WaitBeside: "beside", batch.WaitProvider: "provider", batch.WaitSettle: "settle", batch.WaitBreaker: "breaker",
	}
	var parts []string
	for _, w := range r.waits {
		parts = append(parts, fmt.Sprintf("%s %s %s", w.Slot, names[w.Kind], w.For.Round(time.Second)))
	}
	return strings.Join(parts, ", ")
}

func (b *bench) run(text string) *run {
	rows, err := batch.NewReader(strings.NewReader("order,amount,currency,source\n"+text), batch.CSV)
	if err != nil {
		b.t.Fatal(err)
	}
	r := &run{}
	r.Run = batch.Run{
		Client: b.client(), Store: b.store, Rows: rows, Concurrency: 4, Claim: 15 * time.Second, SettleFor: 10 * time.Second,
		BreakerWait: 15 * time.Second, CanAsk: true,
		Place: attempt.Place{
			Provider: standard.Name, Account: b.cfg.Provider.Capabilities().CredentialID,
			Environment: strings.TrimPrefix(b.cfg.BaseURL, "http://"),
		},
		Waits: func(w batch.Wait) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.waits = append(r.waits, w)
		},
		Report: func(result batch.Result) error { r.results = append(r.results, result); return nil },
	}
	return r
}

// told writes the results in short: "1 approved, 2 declined".
func (r *run) told() string {
	var parts []string
	for _, x := range r.results {
		text := fmt.Sprintf("%s %s", x.Slot, x.Outcome)
		if x.Existing {
			text += " (existing)"
		}
		if x.Reason != "" && x.Outcome != batch.Declined {
			text += " " + x.Reason
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func (b *bench) want(r *run, stop *batch.Stop, want string) {
	b.t.Helper()
	if stop != nil {
		b.t.Errorf("stopped: %v", stop.Err)
	}
	if got := r.told(); got != want {
		b.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// charges asserts how many charges the books hold, one for each reference.
func (b *bench) charges(n int) {
	b.t.Helper()
	seen := make(map[string]bool)
	for _, c := range b.bank.Charges() {
		if seen[c.Reference] {
			b.t.Errorf("%s is charged twice", c.Reference)
		}
		seen[c.Reference] = true
	}
	if len(seen) != n {
		b.t.Errorf("%d charges in the books, want %d", len(seen), n)
	}
}

func TestResultsComeInTheFilesOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := b.run("1,1.00,EUR,tok_slow_2s\n2,x,EUR,t\n3,1.00,EUR,tok_visa\n4,1.00,EUR,tok_lost_answer\n5,1.00,EUR,tok_declined\n6,1.00,EUR,tok_slow_1s\n")
		stop := r.Do(t.Context(), t.Context())
		b.want(r, stop, "1 approved, 2 refused malformed, 3 approved, 4 approved, 5 declined, 6 approved")
		b.charges(4)
	})
}

// A slow row holds back what is reported, and not what is paid.
func TestASlowRowHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var text strings.Builder
		text.WriteString("0,1.00,EUR,tok_slow_2s\n")
		for i := range 500 {
			fmt.Fprintf(&text, "%d,1.00,EUR,tok_visa\n", i+1)
		}
		r := b.run(text.String())
		began := time.Now()
		if stop := r.Do(t.Context(), t.Context()); stop != nil {
			t.Fatal(stop.Err)
		}
		if took := time.Since(began); took != 2*time.Second || len(r.results) != 501 {
			t.Errorf("%d rows in %s, want 501 in 2s: those behind the slow one were paid meanwhile", len(r.results), took)
		}
		b.charges(501)
	})
}

type endless struct {
	n     int
	given atomic.Int64
}

func (e *endless) Next() (batch.Row, error) {
	e.n++
	e.given.Add(1)
	return batch.Row{Line: e.n, Intent: attempt.Intent{Order: fmt.Sprint(e.n), Amount: money.MustParse("1.00", "EUR"), Source: attempt.Token("tok_visa")}}, nil
}

// However long one row takes, what waits behind it is bounded.
func TestWhatWaitsBehindARowIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := b.run("")
		rows := &endless{}
		r.Rows = rows
		b.bank.ScriptFor(fakeprovider.Match{}, fakeprovider.Hang)
		r.Concurrency = 2
		start, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Do(start, t.Context()); close(done) }()
		time.Sleep(2 * time.Second) // one row is silent, those behind it have come as far as they may
		synctest.Wait()
		if n := rows.given.Load(); n < 4000 || n > 4200 {
			t.Errorf("%d rows were read, want about 4096", n)
		}
		stop()
		<-done
	})
}

// forgetful is the store of a process that dies before it has recorded any outcome.
type forgetful struct{ *attempt.Memory }

func (f forgetful) Apply(ctx context.Context, steps ...*attempt.Step) error {
	for _, s := range steps {
		if s.Outcome {
			s.Err = fmt.Errorf("%w: the process is dead", attempt.ErrUnavailable)
			return s.Err
		}
	}
	return f.Memory.Apply(ctx, steps...)
}

// die pays an intent as a process that dies while its request is out: claimed, sent, nothing recorded.
func (b *bench) die(order, source string) {
	cfg := b.cfg
	cfg.Store = forgetful{b.store}
	c, err := payclient.New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	go func() {
		_, _ = c.Pay(b.t.Context(), attempt.Intent{Order: order, Amount: money.MustParse("1.00", "EUR"), Source: attempt.Token(source)}) // nobody hears of it
	}()
	synctest.Wait()
	b.t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(ctx) // its outcome is not stored: that is the point
	})
}

// A row that an earlier run has left behind, killed while it was sending, is waited for until its claim ends.
func TestTheClaimOfADeadRunIsWaitedOut(t *testing.T) {
	for _, c := range []struct{ name, row, want string }{
		{"the same again", "1,1.00,EUR,tok_visa", "1 approved"},
		{"another amount: found paid, and refused", "1,2.00,EUR,tok_visa", "1 refused (existing) already_paid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.die("1", "tok_visa")
				began := time.Now()
				r := b.run(c.row + "\n2,1.00,EUR,tok_visa\n")
				stop := r.Do(t.Context(), t.Context())
				b.want(r, stop, c.want+", 2 approved")
				if got := r.waited(); got != "1 beside 14s" { // it began with the run, on the bubble's clock
					t.Errorf("told of the waits %q, want one of the claim", got)
				}
				if took := time.Since(began); took < 15*time.Second || took > 17*time.Second {
					t.Errorf("took %s, want the 15 s of the claim and at most 2 s more", took)
				}
				b.charges(2)
			})
		})
	}
}

// A run beside this one that is quick is not waited for longer than it takes.
func TestTwoRunsShareTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.bank.Always(fakeprovider.Match{}, fakeprovider.Slow(100*time.Millisecond))
		var text strings.Builder
		for i := range 40 {
			fmt.Fprintf(&text, "%d,1.00,EUR,tok_visa\n", i+1)
		}
		began := time.Now()
		ended := make(chan *run)
		for range 2 {
			r := b.run(text.String())
			go func() {
				if stop := r.Do(t.Context(), t.Context()); stop != nil {
					t.Errorf("stopped: %v", stop.Err)
				}
				ended <- r
			}()
		}
		for range 2 {
			r := <-ended
			if told := r.told(); len(r.results) != 40 || strings.Contains(told, "unknown") || strings.Contains(told, "not_sent") {
				t.Errorf("%d rows: %s", len(r.results), told)
			}
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("took %s, want no claim waited out", took)
		}
		b.charges(40)
		if n := b.bank.RequestCount(); n != 40 {
			t.Errorf("%d requests for 40 rows", n)
		}
	})
}

// While the breaker is open no row is begun and none is given up: the run goes on when the provider is well again.
func TestAnOpenBreakerIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.bank.Always(fakeprovider.Match{}, fakeprovider.Status(500))
		time.AfterFunc(20*time.Second, func() { b.bank.Always(fakeprovider.Match{}, fakeprovider.Answer) })
		var text strings.Builder
		for i := range 60 {
			fmt.Fprintf(&text, "%d,1.00,EUR,tok_visa\n", i+1)
		}
		r := b.run(text.String())
		if stop := r.Do(t.Context(), t.Context()); stop != nil {
			t.Fatalf("stopped: %v", stop.Err)
		}
		count := make(map[batch.Outcome]int)
		for _, x := range r.results {
			count[x.Outcome]++
		}
		// Those that met the failing provider are unknown: a 500 says nothing. No other is.
		if count[batch.NotSent] != 0 || count[batch.Unknown] == 0 || count[batch.Unknown] > 12 || count[batch.Approved]+count[batch.Unknown] != 60 {
			t.Errorf("got %v, want a few unknown and the others approved: %s", count, r.told())
		}
		b.charges(count[batch.Approved])
		if got := strings.Count(r.waited(), "breaker 15s"); got < 1 || got > 3 {
			t.Errorf("told %d times that the breaker is open, want once for each time: %s", got, r.waited())
		}
	})
}

// Wrong credentials cost one row, however many may be under way at once, and nothing is left unknown.
func TestWrongCredentialsAreFoundByOneRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.bank.Always(fakeprovider.Match{}, fakeprovider.Status(401))
		r := b.run("1,1.00,EUR,tok_visa\n2,1.00,EUR,tok_visa\n3,1.00,EUR,tok_visa\n")
		stop := r.Do(t.Context(), t.Context())
		if stop == nil || stop.Kind != batch.StopProvider {
			t.Errorf("stop %v, want that of the provider", stop)
		}
		b.want(r, nil, "1 contract_violation refused, 2 not_sent stopped, 3 not_sent stopped")
		if n := b.bank.RequestCount(); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

func TestAProviderOutOfReachStopsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.cfg.Retries = -1
		// One order is paid already: that it is stays told.
		paid := b.run("30,1.00,EUR,tok_visa\n")
		b.want(paid, paid.Do(t.Context(), t.Context()), "30 approved")
		b.bank.Always(fakeprovider.Match{}, fakeprovider.RefuseDial)
		var text strings.Builder
		for i := range 50 {
			fmt.Fprintf(&text, "%d,1.00,EUR,tok_visa\n", i+1)
		}
		r := b.run(text.String())
		stop := r.Do(t.Context(), t.Context())
		if stop == nil || stop.Kind != batch.StopUnreachable || len(r.results) != 50 {
			t.Fatalf("stop %v after %d rows, want all 50 told and the run stopped", stop, len(r.results))
		}
		for i, x := range r.results {
			switch {
			case i == 29:
				if x.Outcome != batch.Approved || !x.Existing {
					t.Errorf("row 30: %s %s, want approved by the earlier run", x.Outcome, x.Reason)
				}
			case x.Outcome != batch.NotSent || x.Moved != attempt.MovedNo || x.Message == "":
				t.Errorf("row %d: %s, moved %s, %q; want not sent and why", i+1, x.Outcome, x.Moved, x.Message)
			}
		}
		if n := b.bank.RequestCount(); n != 1 {
			t.Errorf("%d requests arrived, want the first run's only", n)
		}
	})
}

func TestAnInterruptEndsWhatIsUnderWay(t *testing.T) {
	for _, c := range []struct {
		name   string
		twice  bool
		want   string
		reason attempt.Reason
	}{
		{"once: calls end as they would", false, "1 approved, 2 approved, 3 approved, 4 approved", ""},
		{"twice: calls are cut off, their outcomes stored", true, "1 unknown cancelled, 2 unknown cancelled, 3 unknown cancelled, 4 unknown cancelled", attempt.ReasonCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				var text strings.Builder
				for i := range 50 {
					fmt.Fprintf(&text, "%d,1.00,EUR,tok_slow_2s\n", i+1)
				}
				r := b.run(text.String())
				start, interrupt := context.WithCancel(t.Context())
				calls, again := context.WithCancel(t.Context())
				defer again()
				time.AfterFunc(1500*time.Millisecond, interrupt)
				if c.twice {
					time.AfterFunc(1800*time.Millisecond, again)
				}
				stop := r.Do(start, calls)
				if stop == nil || stop.Kind != batch.StopInterrupted {
					t.Fatalf("stop %v, want interrupted", stop)
				}
				// Rows that were read and had no turn are told as that.
				begun := r.results[:4]
				for _, x := range r.results[4:] {
					if x.Outcome != batch.NotSent || x.Reason != batch.Interrupted {
						t.Errorf("row %d: %s %s", x.Line, x.Outcome, x.Reason)
					}
				}
				r.results = begun
				b.want(r, nil, c.want)
				for a, err := range b.store.List(t.Context(), attempt.Filter{}) {
					if err != nil || a.Status == attempt.StatusSending || a.Reason != c.reason {
						t.Errorf("%s is %s %s, %v: its outcome was not stored", a.Slot, a.Status, a.Reason, err)
					}
				}
				b.charges(4)
			})
		})
	}
}

// later is a file whose first row comes when it is let go.
type later struct {
	batch.Rows
	let <-chan struct{}
}

func (l later) Next() (batch.Row, error) {
	<-l.let
	return l.Rows.Next()
}

// Two people start declined rows anew at once: the card is tried once more, not twice.
func TestRetryDeclinedNamesWhatWasDeclinedBeforeTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		const row = "1,1.00,EUR,tok_declined\n"
		declines := func(n int) {
			t.Helper()
			if got := len(b.bank.Declines()); got != n {
				t.Errorf("the card was tried %d times, want %d", got, n)
			}
		}
		first := b.run(row)
		b.want(first, first.Do(t.Context(), t.Context()), "1 declined")
		plain := b.run(row)
		b.want(plain, plain.Do(t.Context(), t.Context()), "1 declined (existing)")
		declines(1)

		time.Sleep(time.Minute) // a person comes later; in the bubble this takes no time
		let := make(chan struct{})
		two := b.run(row)
		two.RetryDeclined, two.Rows = true, later{two.Rows, let}
		ended := make(chan *batch.Stop)
		go func() { ended <- two.Do(t.Context(), t.Context()) }()
		synctest.Wait() // the second has begun, and has not read its row

		one := b.run(row)
		one.RetryDeclined = true
		b.want(one, one.Do(t.Context(), t.Context()), "1 declined")
		declines(2)
		close(let)
		b.want(two, <-ended, "1 declined (existing)")
		declines(2)
	})
}

func TestAPaymentThatIsUnknownIsAskedAboutForAWhile(t *testing.T) {
	for _, c := range []struct {
		source string
		want   string
		most   time.Duration
	}{
		{"tok_book_after_12s", "1 approved", 15 * time.Second},
		{"tok_pending_then_succeeded_4s", "1 approved", 7 * time.Second},
		{"tok_pending_then_failed_4s", "1 declined", 7 * time.Second},
		{"tok_pending", "1 unknown pending", 11 * time.Second},
		{"tok_never_arrives", "1 unknown timeout", 20 * time.Second},
		{"tok_requires_action", "1 unknown payer_action", time.Second}, // nothing comes before the payer acts
	} {
		t.Run(c.source, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				began := time.Now()
				r := b.run("1,1.00,EUR," + c.source + "\n")
				b.want(r, r.Do(t.Context(), t.Context()), c.want)
				if took := time.Since(began); took > c.most {
					t.Errorf("took %s, want at most %s", took, c.most)
				}
			})
		})
	}
}

// Whoever watches is told what holds up the reports, once.
func TestLongWaitsAreTold(t *testing.T) {
	for _, c := range []struct{ rows, want string }{
		{"1,1.00,EUR,tok_visa\n", ""},
		{"1,1.00,EUR,tok_slow_2s\n2,1.00,EUR,tok_slow_2s\n", ""},
		{"1,1.00,EUR,tok_visa\n2,1.00,EUR,tok_slow_6s\n3,1.00,EUR,tok_slow_6s\n", "2 provider 3s"},
		{"1,1.00,EUR,tok_pending_then_succeeded_8s\n", "1 settle 10s"},
		{"1,1.00,EUR,tok_never_arrives\n", "1 provider 3s, 1 settle 10s"},
	} {
		t.Run(c.rows, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				r := b.run(c.rows)
				if stop := r.Do(t.Context(), t.Context()); stop != nil {
					t.Errorf("stopped: %v", stop.Err)
				}
				if got := r.waited(); got != c.want {
					t.Errorf("told of %q, want %q: %s", got, c.want, r.told())
				}
			})
		})
	}
}

// The claim of a run that was killed a while ago is an earlier one's.
func TestTheClaimOfAnEarlierRunIsToldAsThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.die("1", "tok_visa")
		time.Sleep(3 * time.Second) // in the bubble: somebody comes and runs the file again
		r := b.run("1,1.00,EUR,tok_visa\n")
		b.want(r, r.Do(t.Context(), t.Context()), "1 approved")
		if got := r.waited(); got != "1 claim 11s" {
			t.Errorf("told of %q, want the claim that runs for 11 s more", got)
		}
		if !r.results[0].KnownBefore || r.results[0].Existing {
			t.Errorf("%+v; want that the run went on with what was known before", r.results[0])
		}
	})
}

// What a provider has refused as malformed it will refuse again: a rerun does not ask it to, unless something has changed.
func TestARejectedRowIsNotStartedAnew(t *testing.T) {
	const columns = "order,amount,currency,source,description\n"
	for _, c := range []struct {
		name     string
		fault    fakeprovider.Fault
		again    string
		change   func(*bench, *run)
		want     string
		requests int
	}{
		{"the same again", fakeprovider.Status(400), "1,1.00,EUR,tok_visa,x", nil, "1 contract_violation (existing) refused", 1},
		{"413", fakeprovider.Status(413), "1,1.00,EUR,tok_visa,x", nil, "1 contract_violation (existing) refused", 1},
		{"another amount", fakeprovider.Status(400), "1,2.00,EUR,tok_visa,x", nil, "1 approved", 2},
		{"another source", fakeprovider.Status(400), "1,1.00,EUR,tok_mastercard,x", nil, "1 approved", 2},
		{"another description", fakeprovider.Status(400), "1,1.00,EUR,tok_visa,y", nil, "1 approved", 2},
		{"credentials, not the row, were refused", fakeprovider.Status(401), "1,1.00,EUR,tok_visa,x", nil, "1 approved", 2},
		{"the address, not the row, was wrong", fakeprovider.Status(404), "1,1.00,EUR,tok_visa,x", nil, "1 approved", 2},
		{"a person asks for it", fakeprovider.Status(400), "1,1.00,EUR,tok_visa,x", func(_ *bench, r *run) { r.RetryDeclined = true }, "1 approved", 2},
		{"at another place", fakeprovider.Status(400), "1,1.00,EUR,tok_visa,x", func(b *bench, r *run) {
			b.cfg.BaseURL = "http://127.0.0.1:8080"
			r.Client, r.Place.Environment = b.client(), "127.0.0.1:8080"
		}, "1 approved", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				rows := func(text string) batch.Rows {
					rows, err := batch.NewReader(strings.NewReader(columns+text+"\n"), batch.CSV)
					if err != nil {
						t.Fatal(err)
					}
					return rows
				}
				b.bank.Script(c.fault)
				first := b.run("")
				first.Rows = rows("1,1.00,EUR,tok_visa,x")
				first.Do(t.Context(), t.Context())
				b.want(first, nil, "1 contract_violation refused")

				time.Sleep(time.Minute) // in the bubble: the run is over
				again := b.run("")
				again.Rows = rows(c.again)
				if c.change != nil {
					c.change(b, again)
				}
				b.want(again, again.Do(t.Context(), t.Context()), c.want)
				if n := b.bank.RequestCount(); n != c.requests {
					t.Errorf("%d requests, want %d", n, c.requests)
				}
			})
		})
	}
}

// Two people start a rejected row anew at once: it is sent once more, not twice.
func TestRetryNamesWhatWasRejectedBeforeTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		bank := fakeprovider.New(fakeprovider.Config{Currencies: []string{"USD"}})
		b.cfg.Transport = bank.RoundTripper()
		const row = "1,1.00,EUR,tok_visa\n"
		first := b.run(row)
		b.want(first, first.Do(t.Context(), t.Context()), "1 contract_violation refused")
		time.Sleep(time.Minute) // in the bubble: a person comes later
		let := make(chan struct{})
		two := b.run(row)
		two.RetryDeclined, two.Rows = true, later{two.Rows, let}
		ended := make(chan *batch.Stop)
		go func() { ended <- two.Do(t.Context(), t.Context()) }()
		synctest.Wait() // the second has begun, and has not read its row
		one := b.run(row)
		one.RetryDeclined = true
		b.want(one, one.Do(t.Context(), t.Context()), "1 contract_violation refused")
		close(let)
		b.want(two, <-ended, "1 contract_violation (existing) refused")
		if n := bank.RequestCount(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
	})
}

// A payment that is open at another place is told as open, and nothing is sent for it here.
func TestAPaymentOpenElsewhereIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		first := b.run("1,1.00,EUR,tok_visa\n2,1.00,EUR,tok_never_arrives\n3,1.00,EUR,tok_never_arrives\n4,1.00,EUR,tok_declined\n")
		first.CanAsk = false
		b.want(first, first.Do(t.Context(), t.Context()), "1 approved, 2 unknown timeout, 3 unknown timeout, 4 declined")
		time.Sleep(time.Minute) // in the bubble: the run is over

		elsewhere := fakeprovider.New(fakeprovider.Config{})
		b.cfg.BaseURL, b.cfg.Transport = "http://127.0.0.1:8080", elsewhere.RoundTripper()
		moved := b.run("1,1.00,EUR,tok_visa\n2,1.00,EUR,tok_never_arrives\n3,2.00,EUR,tok_visa\n5,1.00,EUR,tok_visa\n")
		b.want(moved, moved.Do(t.Context(), t.Context()),
			"1 refused (existing) already_paid, 2 unknown (existing) provider_changed, 3 refused (existing) conflict, 5 approved")
		if r := moved.results[1]; !r.Open() || r.Payment == nil || r.Payment.Attempt.Place().Environment != "127.0.0.1" || !r.KnownBefore {
			t.Errorf("%+v; want the payment at the first place, open", r)
		}
		if n := len(elsewhere.Charges()); n != 1 || elsewhere.RequestCount() != 1 {
			t.Errorf("%d charges elsewhere by %d requests, want one of order 5", n, elsewhere.RequestCount())
		}

		// A run that stops tells the same of the rows whose turn did not come.
		closed := fakeprovider.New(fakeprovider.Config{})
		closed.Always(fakeprovider.Match{}, fakeprovider.Status(401))
		b.cfg.Transport = closed.RoundTripper()
		stopped := b.run("6,1.00,EUR,tok_visa\n1,1.00,EUR,tok_visa\n2,1.00,EUR,tok_never_arrives\n5,1.00,EUR,tok_visa\n7,1.00,EUR,tok_visa\n")
		if stop := stopped.Do(t.Context(), t.Context()); stop == nil || stop.Kind != batch.StopProvider {
			t.Errorf("stop %v, want that of the provider", stop)
		}
		b.want(stopped, nil,
			"6 contract_violation refused, 1 refused (existing) already_paid, 2 unknown (existing) provider_changed, 5 approved (existing), 7 not_sent stopped")
	})
}

func TestWhatCannotBeANewPaymentIsToldByField(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r := b.run("1,10.00,HRK,tok_visa\n")
		b.want(r, r.Do(t.Context(), t.Context()), "1 refused invalid_intent")
		if p := r.results[0].Problems; len(p) != 1 || p[0].Field != "amount" || !strings.HasPrefix(p[0].Reason, "10.00 HRK: ") || strings.Contains(p[0].Reason, "nothing was") {
			t.Errorf("problems %+v, want that the currency is withdrawn", p)
		}
	})
}

type brokenRows struct {
	batch.Rows
	err error
}

func (b brokenRows) Next() (batch.Row, error) {
	row, err := b.Rows.Next()
	if errors.Is(err, io.EOF) {
		err = b.err
	}
	return row, err
}

func TestWhatBreaksTheRunIsToldAfterTheRowsUnderWay(t *testing.T) {
	t.Run("the file", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			r := b.run("1,1.00,EUR,tok_slow_1s\n")
			broken := errors.New("input/output error")
			r.Rows = brokenRows{r.Rows, broken}
			stop := r.Do(t.Context(), t.Context())
			if stop == nil || stop.Kind != batch.StopInput || !errors.Is(stop.Err, broken) {
				t.Errorf("stop %v, want that of the file", stop)
			}
			b.want(r, nil, "1 approved")
		})
	})
	t.Run("the output", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			full := errors.New("no space left on device")
			r := b.run("")
			rows := &endless{}
			r.Rows, r.Concurrency = rows, 1
			b.bank.Always(fakeprovider.Match{}, fakeprovider.Slow(time.Second))
			r.Report = func(batch.Result) error { return full }
			stop := r.Do(t.Context(), t.Context())
			if stop == nil || stop.Kind != batch.StopOutput || !errors.Is(stop.Err, full) {
				t.Errorf("stop %v, want that of the output", stop)
			}
			// What was under way has ended, and its outcome is stored.
			for a, err := range b.store.List(t.Context(), attempt.Filter{}) {
				if err != nil || a.Status != attempt.StatusApproved {
					t.Errorf("%s is %s, %v", a.Slot, a.Status, err)
				}
			}
			if n := len(b.bank.Charges()); n > 3 {
				t.Errorf("%d charges after the first result could not be written", n)
			}
		})
	})
	t.Run("the store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			// The second row is under way when the first is reported, and the third comes after it.
			r := b.run("1,1.00,EUR,tok_visa\n2,1.00,EUR,tok_slow_1s\n3,1.00,EUR,tok_visa\n")
			r.Concurrency = 1
			report := r.Report
			r.Report = func(result batch.Result) error {
				if len(r.results) == 0 {
					_ = b.store.Close() // from now on nothing can be read or written
				}
				return report(result)
			}
			stop := r.Do(t.Context(), t.Context())
			if stop == nil || stop.Kind != batch.StopStore || !strings.Contains(stop.Err.Error(), attempt.ErrUnavailable.Error()) {
				t.Fatalf("stop %v, want that of the store", stop)
			}
			// Nobody knows how a row stands that could not be looked up: that is unknown, never "not sent".
			if last := r.results[len(r.results)-1]; !last.Open() && last.Reason != batch.Stopped || len(b.bank.Charges()) > 2 {
				t.Errorf("%s, %d charges", r.told(), len(b.bank.Charges()))
			}
		})
	})
}

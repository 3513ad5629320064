package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/jackc/pgx/v5"
)

// The connection is lost in the commit: what was written is found and not written again, what was not is written then.
func TestLostCommit(t *testing.T) {
	p, url := testProxy(t)
	schema := testSchema(t)
	s, err := Open(t.Context(), url, Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	start(t, s, "warm") // all that is prepared once is prepared
	if err := s.Apply(t.Context(), approves(start(t, s, "warm 2")).Step(nil)); err != nil {
		t.Fatal(err)
	}
	known := start(t, s, "warm 3")
	if err := s.Apply(t.Context(), approves(known).Step(&known)); err != nil {
		t.Fatal(err)
	}
	for _, lost := range []string{"answer", "request"} {
		cut := func(n int64) {
			if lost == "answer" {
				p.answers.Store(n)
			} else {
				p.requests.Store(n)
			}
		}
		t.Run(lost+" of a start", func(t *testing.T) {
			order := "start " + lost
			step := starts(order)
			before := p.cuts.Load()
			cut(1)
			if err := s.Apply(t.Context(), &step.Step); err != nil || !step.began {
				t.Fatalf("began %v, %v", step.began, err)
			}
			if p.cuts.Load() != before+1 {
				t.Error("nothing was cut")
			}
			if a := wantOne(t, s, order, attempt.StatusSending, 1); a.ID != step.got.ID {
				t.Errorf("stored is %s, told was %s", a.ID, step.got.ID)
			}
			if lost == "answer" && step.runs != 1 {
				t.Errorf("decided %d times: what was written is to be found, not to be decided anew", step.runs)
			}
		})
		t.Run(lost+" of an outcome", func(t *testing.T) {
			order := "outcome " + lost
			known := start(t, s, order)
			cut(1)
			if err := s.Apply(t.Context(), approves(known).Step(&known)); err != nil {
				t.Fatal(err)
			}
			wantOne(t, s, order, attempt.StatusApproved, 2)
		})
		for n := range int64(2) { // of the load, of the commit
			t.Run(fmt.Sprint(lost, " of a loaded step ", n), func(t *testing.T) {
				order := fmt.Sprint("loaded ", lost, n)
				known := start(t, s, order)
				before := p.cuts.Load()
				cut(n + 1)
				if err := s.Apply(t.Context(), approves(known).Step(nil)); err != nil {
					t.Fatal(err)
				}
				if p.cuts.Load() != before+1 {
					t.Error("nothing was cut")
				}
				wantOne(t, s, order, attempt.StatusApproved, 2)
			})
			t.Run(fmt.Sprint(lost, " of a note and a closing ", n), func(t *testing.T) {
				id := fmt.Sprint("event ", lost, n)
				cut(n + 1)
				if err := s.Apply(t.Context(), &attempt.Step{Once: &attempt.Once{Scope: "w", ID: id, Data: []byte{0, 1}}}); err != nil {
					t.Errorf("a note: %v", err)
				}
				c := &attempt.Cancel{Slot: slotOf(id), Who: "host"}
				cut(n + 1)
				if err := s.Apply(t.Context(), c.Step()); err != nil || c.Before {
					t.Errorf("a closing: %v, before %v", err, c.Before)
				}
			})
		}
	}
}

// Backends are terminated all the time; every payment ends, once.
func TestBackendsTerminated(t *testing.T) {
	s := testStore(t, Options{})
	ctx, stop := context.WithCancel(t.Context())
	var killer sync.WaitGroup
	killer.Go(func() {
		c, err := pgx.Connect(ctx, testURL(t))
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close(context.Background())
		for ctx.Err() == nil {
			// One of the store's, by what it last ran.
			_, err := c.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%'||$1::text||'%' ORDER BY random() LIMIT 1", s.opts.Schema)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			_ = sleep(ctx, 5*time.Millisecond) // so that a statement ends now and then
		}
	})
	const orders = 200
	payAll(t, s, orders, 8)
	stop()
	killer.Wait()
	for i := range orders {
		wantOne(t, s, fmt.Sprint(i), attempt.StatusApproved, 2)
	}
}

// payAll pays orders, trying a start again where the store was not there. A claim that nobody knows of is then taken for granted:
// the test's own callers are the only ones.
func payAll(t *testing.T, s *Store, orders, callers int) {
	t.Helper()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := c; i < orders; i += callers {
				step := starts(fmt.Sprint(i))
				for {
					err := s.Apply(t.Context(), &step.Step)
					if err == nil {
						break
					}
					if !errors.Is(err, attempt.ErrUnavailable) {
						t.Errorf("start %d: %v", i, err)
						return
					}
					again := starts(fmt.Sprint(i))
					step = again
				}
				known := step.got
				if err := s.Apply(t.Context(), approves(known).Step(&known)); err != nil {
					t.Errorf("outcome %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

// A transaction of the host's that takes its time holds its own slot and nothing else.
func TestSlowHostTransaction(t *testing.T) {
	s := testStore(t, Options{})
	known := start(t, s, "known")
	begun, end := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	slow := starts("slow")
	go func() {
		done <- inTx(s, pgx.TxOptions{}, func(ctx context.Context, tx attempt.Tx) error {
			if err := tx.ApplyTx(ctx, &slow.Step); err != nil {
				return err
			}
			if err := tx.ApplyTx(ctx, &attempt.Step{ID: known.ID, Do: func(attempt.View) ([]attempt.Write, error) { return nil, nil }}); err != nil {
				return err
			}
			close(begun)
			<-end
			return nil
		})
	}()
	select {
	case <-begun:
	case err := <-done:
		t.Fatal(err)
	}
	// Many that want the slot, and an outcome of an attempt that it holds.
	var waiting sync.WaitGroup
	for range 20 {
		waiting.Go(func() {
			step := starts("slow")
			if err := s.Apply(t.Context(), &step.Step); err != nil || step.began {
				t.Errorf("beside the slow transaction: began %v, %v", step.began, err)
			}
		})
	}
	waiting.Go(func() {
		if err := s.Apply(t.Context(), approves(known).Step(&known)); err != nil {
			t.Error(err)
		}
	})
	payAll(t, s, 100, 16)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	impatient := starts("slow")
	err := s.Apply(ctx, &impatient.Step)
	wantError(t, "a caller that waits no longer", err, attempt.ErrUnavailable)
	wantError(t, "a caller that waits no longer", err, context.DeadlineExceeded)
	if v, err := s.TakeDue(t.Context(), 10, time.Hour); err != nil || len(v.Attempts) != 0 {
		t.Errorf("%d due: %v", len(v.Attempts), err)
	}
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
	waiting.Wait()
	if a := wantOne(t, s, "slow", attempt.StatusSending, 1); a.ID != slow.got.ID {
		t.Errorf("the slot holds %s, not %s", a.ID, slow.got.ID)
	}
	wantOne(t, s, "known", attempt.StatusApproved, 2)
}

// Two transactions that want each other's slots: one gives up, and is as it was.
func TestCrossedHostTransactions(t *testing.T) {
	s := testStore(t, Options{})
	err := inTx(s, pgx.TxOptions{}, func(ctx context.Context, one attempt.Tx) error {
		return inTx(s, pgx.TxOptions{}, func(ctx context.Context, two attempt.Tx) error {
			a, b := starts("a"), starts("b")
			if err := errors.Join(one.ApplyTx(ctx, &a.Step), two.ApplyTx(ctx, &b.Step)); err != nil {
				return err
			}
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			crossed := starts("b")
			wantError(t, "the other's slot", one.ApplyTx(short, &crossed.Step), attempt.ErrUnavailable)
			c := starts("c")
			return one.ApplyTx(ctx, &c.Step)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range []string{"a", "b", "c"} {
		wantOne(t, s, order, attempt.StatusSending, 1)
	}
}

// SQLSTATE 25P02: a transaction that has failed before takes nothing, and says why.
func TestFailedHostTransaction(t *testing.T) {
	s := testStore(t, Options{})
	ctx := t.Context()
	c, err := pgx.Connect(ctx, testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "SELECT 1/0"); err == nil {
		t.Fatal("no error")
	}
	step := starts("1001")
	err = s.Tx(tx).ApplyTx(ctx, &step.Step)
	wantError(t, "a failed transaction", err, attempt.ErrUnavailable)
	if code(err) != codeInFailedTransaction || step.runs != 0 {
		t.Errorf("SQLSTATE %q after %d runs: %v", code(err), step.runs, err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Error(err)
	}
}

// Above READ COMMITTED a slot that was changed meanwhile is a serialization failure, which the host can recognise and retry.
func TestSerializableHost(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		s := testStore(t, Options{})
		known := start(t, s, "known")
		for name, step := range map[string]func() *attempt.Step{
			"a new slot":    func() *attempt.Step { return &starts("new").Step },
			"a changed one": func() *attempt.Step { return approves(known).Step(nil) },
		} {
			tries := 0
			for {
				tries++
				err := inTx(s, pgx.TxOptions{IsoLevel: level}, func(ctx context.Context, tx attempt.Tx) error {
					if err := tx.ApplyTx(ctx, &attempt.Step{Slot: slotOf("elsewhere"), Do: func(attempt.View) ([]attempt.Write, error) { return nil, nil }}); err != nil {
						return err // the transaction's snapshot is taken
					}
					if tries == 1 {
						if err := s.Apply(ctx, step()); err != nil {
							t.Error(err)
						}
					}
					return tx.ApplyTx(ctx, step())
				})
				if err == nil {
					break
				}
				if code(err) != codeSerializationFailure || tries > 2 {
					t.Fatalf("%s, %s: %v", level, name, err)
				}
			}
			if tries != 2 {
				t.Errorf("%s, %s: done in %d tries, want a serialization failure first", level, name, tries)
			}
		}
		wantOne(t, s, "new", attempt.StatusSending, 1)
	}
}

// A database whose transactions are serializable by default, or read-only until said otherwise, is one like others.
func TestSerializableDefault(t *testing.T) {
	s, err := Open(t.Context(), withOptions(t, "default_transaction_isolation=serializable"), Options{Schema: testSchema(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.AddRelay(t.Context(), "host"); err != nil {
		t.Fatal(err)
	}
	payAll(t, s, 60, 12)
	for i := range 60 {
		wantOne(t, s, fmt.Sprint(i), attempt.StatusApproved, 2)
	}
	if events, err := s.TakeUndelivered(t.Context(), "host", 100, time.Hour); err != nil || len(events) != 120 {
		t.Errorf("%d events: %v", len(events), err)
	}
}

// synchronous_commit is off where a statement runs: nothing is started, and outcomes are written durably all the same.
func TestAsynchronousCommit(t *testing.T) {
	s := testStore(t, Options{MaxConns: leastConns})
	known, other := start(t, s, "known"), start(t, s, "other")
	if err := s.Apply(t.Context(), approves(known).Step(&known)); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*lane{s.others, s.outcomes} {
		if err := l.pool.with(t.Context(), func(c *conn) error {
			_, err := c.Exec(t.Context(), "SET synchronous_commit = off")
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, fresh := range []bool{true, false} {
		step := starts("1001")
		step.Fresh = fresh
		wantError(t, fmt.Sprint("a start, fresh ", fresh), s.Apply(t.Context(), &step.Step), attempt.ErrNotDurable)
	}
	if v, err := s.Slot(t.Context(), slotOf("1001")); err != nil || len(v.Attempts) != 0 {
		t.Errorf("%d attempts were stored: %v", len(v.Attempts), err)
	}
	third := other
	if err := s.Apply(t.Context(), approves(other).Step(&third)); err != nil {
		t.Error(err)
	}
	wantOne(t, s, "other", attempt.StatusApproved, 2)

	_, err := Open(t.Context(), withOptions(t, "synchronous_commit=off"), Options{Schema: s.opts.Schema})
	wantError(t, "Open", err, attempt.ErrNotDurable)
}

// A process that is stopped between its round trips holds its slot for some seconds only.
func TestFrozenBetweenRoundTrips(t *testing.T) {
	s := testStore(t, Options{MaxConns: leastConns})
	known := start(t, s, "1001")
	other := openTest(t, s.opts.Schema, Options{MaxConns: leastConns})
	defer other.Close()
	held := false
	step := approves(known).Step(nil)
	do := step.Do
	step.Do = func(v attempt.View) ([]attempt.Write, error) {
		if !held { // the first time it has locked and loaded, and comes to nothing more until the other has written
			held = true
			begun := time.Now()
			if err := other.Apply(t.Context(), approves(known).Step(&known)); err != nil {
				t.Error(err)
			}
			if waited := time.Since(begun); waited > statementLimit {
				t.Errorf("the other waited %s", waited)
			}
		}
		return do(v)
	}
	if err := s.Apply(t.Context(), step); err != nil {
		t.Error(err)
	}
	wantOne(t, s, "1001", attempt.StatusApproved, 3)
}

// Behind a pooler nothing of a step stays in the session.
func TestNoSessionState(t *testing.T) {
	s := testStore(t, Options{MaxConns: leastConns, Pooler: true})
	known := start(t, s, "1001")
	if err := s.Apply(t.Context(), approves(known).Step(&known)); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), &attempt.Step{ID: known.ID, Once: &attempt.Once{Scope: "w", ID: "1"}}); err != nil {
		t.Fatal(err)
	}
	for _, l := range []*lane{s.others, s.outcomes} {
		err := l.pool.with(t.Context(), func(c *conn) error {
			var left int
			err := c.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM pg_prepared_statements) + (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
				+ (SELECT count(*) FROM pg_settings WHERE source = 'session')`).Scan(&left)
			if left != 0 {
				t.Errorf("%d statements, locks and settings stay in the session", left)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

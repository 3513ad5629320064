package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"modernc.org/sqlite"
)

// faulty lets statements of the writer's fail: fault is asked with each statement of Exec, and does what it asks for.
type faulty struct {
	driver.Connector
	fault func(query string, exec func() (driver.Result, error)) (driver.Result, error)
}

func (f *faulty) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := f.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &faultyConn{conn, conn.(driver.ConnPrepareContext), conn.(driver.QueryerContext), conn.(driver.ExecerContext), conn.(driver.ConnBeginTx), f}, nil
}

type faultyConn struct {
	driver.Conn
	driver.ConnPrepareContext
	driver.QueryerContext
	driver.ExecerContext
	driver.ConnBeginTx
	f *faulty
}

func (c *faultyConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s, err := c.ConnPrepareContext.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &faultyStmt{s, s.(driver.StmtQueryContext), s.(driver.StmtExecContext), query, c.f}, nil
}

type faultyStmt struct {
	driver.Stmt
	driver.StmtQueryContext
	exec  driver.StmtExecContext
	query string
	f     *faulty
}

func (s *faultyStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	exec := func() (driver.Result, error) { return s.exec.ExecContext(ctx, args) }
	if s.f.fault == nil {
		return exec()
	}
	return s.f.fault(s.query, exec)
}

// faultyStore is a store whose writer can be made to fail.
func faultyStore(t *testing.T, path string) (*Store, *faulty) {
	t.Helper()
	s := testStore(t, path, Options{})
	c, err := newConnector(path, false)
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{Connector: c}
	if err := s.write.close(); err != nil {
		t.Fatal(err)
	}
	s.write.db = sql.OpenDB(f)
	return s, f
}

var errBroken = errors.New("disk I/O error")

// failCommits lets the next n commits report an error, after having taken effect or not.
func failCommits(n int, takeEffect bool) func(string, func() (driver.Result, error)) (driver.Result, error) {
	return func(query string, exec func() (driver.Result, error)) (driver.Result, error) {
		if query != "COMMIT" || n == 0 {
			return exec()
		}
		n--
		if takeEffect {
			if _, err := exec(); err != nil {
				return nil, err
			}
		}
		return nil, errBroken
	}
}

// C06: a commit that reports an error may have taken effect. What became of it is read back: nothing is written twice,
// nothing is called failed that has happened, and nothing is called written that is not there.
func TestC06AmbiguousCommit(t *testing.T) {
	for _, takeEffect := range []bool{false, true} {
		t.Run(fmt.Sprintf("took effect %v", takeEffect), func(t *testing.T) {
			s, f := faultyStore(t, testFile(t))
			f.fault = failCommits(1, takeEffect)
			step := starts("1001")
			if err := s.Apply(t.Context(), &step.Step); err != nil || !step.began {
				t.Fatalf("start: began %v, %v", step.began, err)
			}
			wantStatus(t, s, step.got.ID, attempt.StatusSending, 1)
			f.fault = failCommits(1, takeEffect)
			outcome := approves(step.got)
			if err := s.Apply(t.Context(), outcome.Step(&step.got)); err != nil {
				t.Fatalf("outcome: %v", err)
			}
			wantStatus(t, s, step.got.ID, attempt.StatusApproved, 2)
			events, err := s.Events(t.Context(), step.got.ID)
			if err != nil || len(events) != 2 {
				t.Errorf("%d events, want 2: %v", len(events), err)
			}
			// Loaded, not guessed.
			a := start(t, s, "1002")
			f.fault = failCommits(1, takeEffect)
			outcome = approves(a)
			if err := s.Apply(t.Context(), outcome.Step(nil)); err != nil {
				t.Fatalf("outcome: %v", err)
			}
			wantStatus(t, s, a.ID, attempt.StatusApproved, 2)
		})
	}
}

// C06 for a batch: each step is looked for by itself.
func TestC06AmbiguousCommitOfABatch(t *testing.T) {
	for _, takeEffect := range []bool{false, true} {
		s, f := faultyStore(t, testFile(t))
		a := start(t, s, "a")
		release := hold(t, s)
		var wg sync.WaitGroup
		var steps []*starting
		for i := range 20 {
			step := starts(fmt.Sprint(i / 2)) // two for each slot
			steps = append(steps, step)
			wg.Go(func() {
				if err := s.Apply(t.Context(), &step.Step); err != nil {
					t.Error(err)
				}
			})
		}
		outcome := approves(a)
		wg.Go(func() {
			if err := s.Apply(t.Context(), outcome.Step(&a)); err != nil {
				t.Error(err)
			}
		})
		queued(s, 21)
		f.fault = failCommits(1, takeEffect)
		release()
		wg.Wait()
		wantStatus(t, s, a.ID, attempt.StatusApproved, 2)
		for i := 0; i < len(steps); i += 2 {
			x, y := steps[i], steps[i+1]
			if x.began == y.began || x.got.ID != y.got.ID {
				t.Errorf("took effect %v: slot %s: began %v and %v, attempts %s and %s", takeEffect, x.Slot, x.began, y.began, x.got.ID, y.got.ID)
			}
			wantStatus(t, s, x.got.ID, attempt.StatusSending, 1)
		}
	}
}

// What a step has decided for a batch that failed does not count: it decides anew, and that is what is written.
func TestC06StepsDecideAnew(t *testing.T) {
	s, f := faultyStore(t, testFile(t))
	first, second := starts("1001"), starts("1001")
	commits, inserts := 0, 0
	f.fault = func(query string, exec func() (driver.Result, error)) (driver.Result, error) {
		switch query {
		case "COMMIT":
			if commits++; commits == 1 {
				return nil, errBroken
			}
		case statements[stmtInsertSlot]:
			if inserts++; inserts == 3 { // the first two are those of the batch, this is the first step's alone
				return nil, errBroken
			}
		}
		return exec()
	}
	err := s.Apply(t.Context(), &first.Step, &second.Step)
	if !errors.Is(err, errBroken) || first.Err == nil || second.Err != nil {
		t.Fatalf("first: %v, second: %v, want the first only to fail", first.Err, second.Err)
	}
	if !second.began {
		t.Error("the second was told of an attempt that was never stored")
	}
	wantStatus(t, s, second.got.ID, attempt.StatusSending, 1)
}

// The steps of a failed batch go alone, outcomes first.
func TestC06OutcomesGoAloneFirst(t *testing.T) {
	s, f := faultyStore(t, testFile(t))
	f.fault = failCommits(1, false)
	running, let := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var ran []string // on the leader's goroutine
	note := func(name string, outcome bool) *attempt.Step {
		begins := starts(name)
		return &attempt.Step{Slot: begins.Slot, Outcome: outcome, Do: func(v attempt.View) ([]attempt.Write, error) {
			ran = append(ran, name)
			once.Do(func() { close(running); <-let })
			return begins.Do(v)
		}}
	}
	var wg sync.WaitGroup
	apply := func(step *attempt.Step) {
		if err := s.Apply(t.Context(), step); err != nil {
			t.Error(err)
		}
	}
	wg.Go(func() { apply(note("start", false)) })
	<-running
	wg.Go(func() { apply(note("outcome", true)) })
	queued(s, 1)
	close(let)
	wg.Wait()
	if want := []string{"start", "outcome", "outcome", "start"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
}

// A step that ends its goroutine when its turn comes alone does not make failures of those before it.
func TestC06EndOfTheGoroutineAfterAFailedBatch(t *testing.T) {
	s, f := faultyStore(t, testFile(t))
	f.fault = failCommits(1, false)
	before, after := starts("1001"), starts("1003")
	runs := 0
	exits := &attempt.Step{Slot: starts("1002").Slot, Do: func(attempt.View) ([]attempt.Write, error) {
		if runs++; runs == 2 {
			runtime.Goexit()
		}
		return nil, nil
	}}
	running, let := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = s.Apply(t.Context(), &attempt.Step{Slot: exits.Slot, Do: func(attempt.View) ([]attempt.Write, error) {
			once.Do(func() { close(running); <-let })
			return nil, nil
		}})
		t.Error("the leader's goroutine goes on")
	})
	<-running
	for n, step := range []*attempt.Step{&before.Step, exits, &after.Step} {
		wg.Go(func() {
			err := s.Apply(t.Context(), step)
			if n == 0 && err != nil {
				t.Errorf("the step before it: %v", err)
			}
			if n != 0 && !errors.Is(err, attempt.ErrUnavailable) {
				t.Errorf("step %d: %v", n, err)
			}
		})
		queued(s, n+1)
	}
	close(let)
	wg.Wait()
	wantStatus(t, s, before.got.ID, attempt.StatusSending, 1)
	start(t, s, "1004")
}

// After a batch that failed, an outcome waits for another process's lock as long as its caller does; a start does not.
func TestC06LockAfterAFailedBatch(t *testing.T) {
	path := testFile(t)
	synctest.Test(t, func(t *testing.T) {
		s, f := faultyStore(t, path)
		a := start(t, s, "1001")
		locked := testStore(t, path, Options{})
		if err := locked.write.begin(); err != nil {
			t.Fatal(err)
		}
		busy := s.write.begin()
		if !isBusy(busy) {
			t.Fatalf("no lock: %v", busy)
		}
		locked.write.rollback()
		commit := failCommits(1, false)
		failed := time.Time{}
		f.fault = func(query string, exec func() (driver.Result, error)) (driver.Result, error) {
			if query == "COMMIT" && failed.IsZero() {
				failed = time.Now()
			}
			if query == "BEGIN IMMEDIATE" && !failed.IsZero() && time.Since(failed) < time.Minute {
				return nil, busy
			}
			return commit(query, exec)
		}
		outcome, step := approves(a), starts("1002")
		late := outcome.Step(&a)
		err := s.Apply(t.Context(), late, &step.Step)
		if late.Err != nil || err != nil { // the start's turn comes when the lock is free again
			t.Errorf("outcome: %v, start: %v", late.Err, step.Err)
		}
		wantStatus(t, s, a.ID, attempt.StatusApproved, 2)

		commit, failed = failCommits(1, false), time.Time{}
		step = starts("1003")
		begun := time.Now()
		err = s.Apply(t.Context(), &step.Step)
		if took := time.Since(begun); !errors.Is(err, attempt.ErrUnavailable) || took < lockLimit || took > lockLimit+10*time.Millisecond {
			t.Errorf("the start ended after %s: %v", took, err)
		}
	})
}

// A store that stays broken says so, and what it says afterwards is what is there.
func TestC06CommitsThatKeepFailing(t *testing.T) {
	s, f := faultyStore(t, testFile(t))
	a := start(t, s, "1001")
	f.fault = failCommits(-1, false)
	outcome, step := approves(a), starts("1002")
	if err := s.Apply(t.Context(), outcome.Step(&a)); !errors.Is(err, attempt.ErrUnavailable) || !errors.Is(err, errBroken) {
		t.Errorf("outcome: %v", err)
	}
	if err := s.Apply(t.Context(), &step.Step); !errors.Is(err, attempt.ErrUnavailable) {
		t.Errorf("start: %v", err)
	}
	err := s.InTx(t.Context(), func(context.Context, *sql.Tx) error { return nil })
	if err != nil && !errors.Is(err, attempt.ErrUnavailable) {
		t.Errorf("InTx: %v", err)
	}
	wantStatus(t, s, a.ID, attempt.StatusSending, 1)
	f.fault = nil
	if err := s.Apply(t.Context(), outcome.Step(&a)); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, a.ID, attempt.StatusApproved, 2)
	start(t, s, "1002")
}

// failStatements lets statements fail, the last one of those left first, and then some more so that a second try fails too.
func failStatements(left *int) func(string, func() (driver.Result, error)) (driver.Result, error) {
	return func(query string, exec func() (driver.Result, error)) (driver.Result, error) {
		if *left--; *left > -6 && *left <= 0 && query != "ROLLBACK" {
			return nil, errBroken
		}
		return exec()
	}
}

// Any statement may fail, at any place of a payment: then nothing of the step is there, and the next try succeeds.
func TestEveryStatementMayFail(t *testing.T) {
	s, f := faultyStore(t, testFile(t))
	for n := 1; ; n++ {
		order := fmt.Sprint(n)
		left := n
		f.fault = failStatements(&left)
		step := starts(order)
		startErr := s.Apply(t.Context(), &step.Step)
		if startErr != nil {
			if !errors.Is(startErr, attempt.ErrUnavailable) {
				t.Fatalf("statement %d: %v", n, startErr)
			}
			if v, err := s.Slot(t.Context(), step.Slot); err != nil || len(v.Attempts) != 0 {
				t.Fatalf("statement %d: the start failed and is there: %v", n, err)
			}
			f.fault = nil
			step = starts(order)
			if err := s.Apply(t.Context(), &step.Step); err != nil {
				t.Fatalf("statement %d: the next try: %v", n, err)
			}
			continue
		}
		outcome := approves(step.got)
		outcomeErr := s.Apply(t.Context(), outcome.Step(&step.got))
		if outcomeErr != nil {
			if !errors.Is(outcomeErr, attempt.ErrUnavailable) {
				t.Fatalf("statement %d: %v", n, outcomeErr)
			}
			wantStatus(t, s, step.got.ID, attempt.StatusSending, 1)
			f.fault = nil
			if err := s.Apply(t.Context(), outcome.Step(&step.got)); err != nil {
				t.Fatalf("statement %d: the next try: %v", n, err)
			}
			continue
		}
		wantStatus(t, s, step.got.ID, attempt.StatusApproved, 2)
		if left > 0 { // the whole payment has fewer statements
			if n < 10 {
				t.Errorf("only %d statements were made to fail", n)
			}
			return
		}
	}
}

// A full disk, for which a limit on the file's size stands: what was reported as stored is there, the rest is not.
func TestFullDisk(t *testing.T) {
	path := testFile(t)
	s := testStore(t, path, Options{})
	base, err := newConnector(path, false)
	if err != nil {
		t.Fatal(err)
	}
	full, err := sqlite.NewConnector("file:" + path + "?_txlock=immediate&_pragma=max_page_count(40)")
	if err != nil {
		t.Fatal(err)
	}
	base.base = full
	if err := s.write.close(); err != nil {
		t.Fatal(err)
	}
	s.write.db = sql.OpenDB(base)
	var stored []attempt.Attempt
	for failed := 0; failed < 3; {
		step := starts(fmt.Sprint(len(stored), failed))
		if err := s.Apply(t.Context(), &step.Step); err != nil {
			if !errors.Is(err, attempt.ErrUnavailable) {
				t.Fatal(err)
			}
			failed++
			if v, err := s.Slot(t.Context(), step.Slot); err != nil || len(v.Attempts) != 0 {
				t.Errorf("the start failed and is there: %v", err)
			}
			continue
		}
		stored = append(stored, step.got)
	}
	if len(stored) < 10 {
		t.Fatalf("only %d attempts fit", len(stored))
	}
	for _, a := range stored {
		wantStatus(t, s, a.ID, attempt.StatusSending, 1)
	}
	// There is room again: what could not be stored is stored.
	if err := s.write.close(); err != nil {
		t.Fatal(err)
	}
	if base, err = newConnector(path, false); err != nil {
		t.Fatal(err)
	}
	s.write.db = sql.OpenDB(base)
	for _, a := range stored {
		outcome := approves(a)
		if err := s.Apply(t.Context(), outcome.Step(&a)); err != nil {
			t.Fatal(err)
		}
	}
}

// A file that was deleted is not made anew, empty, behind everybody's back.
func TestDeletedFile(t *testing.T) {
	path := testFile(t)
	s := testStore(t, path, Options{})
	start(t, s, "1001")
	if err := os.Remove(path); err != nil {
		t.Skip("this system does not delete open files: ", err) // so it cannot happen there
	}
	s.write.drop()
	if err := s.Apply(t.Context(), &starts("1002").Step); !errors.Is(err, attempt.ErrUnavailable) {
		t.Errorf("Apply: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a file again: %v", err)
	}
}

package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// payAll pays the orders with 20 goroutines: start, then the outcome. Orders that somebody else has started are his.
func payAll(s *Store, orders int) error {
	var wg sync.WaitGroup
	errs := make([]error, 20)
	for g := range errs {
		wg.Go(func() {
			for n := g; n < orders; n += len(errs) {
				step := starts(fmt.Sprint("order-", n))
				if errs[g] = s.Apply(context.Background(), &step.Step); errs[g] != nil {
					return
				}
				if !step.began {
					continue
				}
				outcome := approves(step.got)
				if errs[g] = s.Apply(context.Background(), outcome.Step(&step.got)); errs[g] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func wantPaid(t *testing.T, s *Store, orders int) {
	t.Helper()
	n := 0
	seen := make(map[attempt.Slot]bool)
	for a, err := range s.List(t.Context(), attempt.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if a.Status != attempt.StatusApproved || a.Version != 2 || seen[a.Slot] {
			t.Errorf("order %s: %s at version %d, seen before: %v", a.Slot, a.Status, a.Version, seen[a.Slot])
		}
		seen[a.Slot] = true
	}
	if n != orders {
		t.Errorf("%d attempts, want %d", n, orders)
	}
}

func init() {
	roles["pay"] = func(path string, in *bufio.Scanner) error {
		s, err := Open(context.Background(), path, Options{})
		if err != nil {
			return err
		}
		fmt.Println("ready")
		in.Scan()
		return errors.Join(payAll(s, 200), s.Close())
	}
	// lock holds the write lock as any program may that knows nothing of us.
	roles["lock"] = func(path string, in *bufio.Scanner) error {
		db, err := sql.Open("sqlite", path)
		if err != nil {
			return err
		}
		db.SetMaxOpenConns(1)
		for in.Scan() {
			statement := map[string]string{"lock": "BEGIN IMMEDIATE", "release": "COMMIT"}[in.Text()]
			if _, err := db.ExecContext(context.Background(), statement); err != nil {
				return err
			}
			fmt.Println("done")
		}
		return db.Close()
	}
}

// C08: no BUSY reaches a caller, neither among goroutines nor among processes.
func TestC08ManyWritersOneFile(t *testing.T) {
	path := testFile(t)
	s := testStore(t, path, Options{})
	if err := payAll(s, 200); err != nil {
		t.Fatal(err)
	}
	wantPaid(t, s, 200)
}

func TestC08TwoProcesses(t *testing.T) {
	path := testFile(t)
	s := testStore(t, path, Options{})
	other := run(t, "pay", path)
	other.hear()
	other.tell("go")
	if err := payAll(s, 200); err != nil {
		t.Error(err)
	}
	other.end()
	wantPaid(t, s, 200)
}

// C08, variant: another process holds the lock when an outcome arrives.
func TestC08OutcomeMeetsALock(t *testing.T) {
	path := testFile(t)
	s := testStore(t, path, Options{})
	a := start(t, s, "1001")
	polled := make(chan struct{})
	polls := 0
	s.onBusy = func() {
		if polls++; polls == 100 { // some hundred milliseconds
			close(polled)
		}
	}
	other := run(t, "lock", path)
	other.tell("lock")
	other.hear()
	outcome, second := approves(a), starts("1002")
	errs := make(chan error, 2)
	go func() { errs <- s.Apply(t.Context(), outcome.Step(&a)) }()
	go func() { errs <- s.Apply(t.Context(), &second.Step) }()
	<-polled
	select {
	case err := <-errs:
		t.Fatalf("a step ended under another process's lock: %v", err)
	default:
	}
	if v, err := s.Slot(t.Context(), a.Slot); err != nil || len(v.Attempts) != 1 {
		t.Errorf("a reader waits for a writer: %v", err)
	}
	other.tell("release")
	other.hear()
	if err := errors.Join(<-errs, <-errs); err != nil {
		t.Fatal(err)
	}
	if err := other.in.Close(); err != nil {
		t.Error(err)
	}
	other.end()
	wantStatus(t, s, a.ID, attempt.StatusApproved, 2)
	wantStatus(t, s, second.got.ID, attempt.StatusSending, 1)
}

// A lock that is not released: a start gives up after 5 s, an outcome when its caller does.
func TestC08LockThatStays(t *testing.T) {
	path := testFile(t)
	synctest.Test(t, func(t *testing.T) {
		s := testStore(t, path, Options{})
		a := start(t, s, "1001")
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		db.SetMaxOpenConns(1)
		if _, err := db.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		var wg sync.WaitGroup
		for _, order := range []string{"1002", "1003"} { // one leads, one waits for it
			wg.Go(func() {
				err := s.Apply(t.Context(), &starts(order).Step)
				if !errors.Is(err, attempt.ErrUnavailable) {
					t.Errorf("start: %v", err)
				}
				if took := time.Since(begun); took < lockLimit || took > lockLimit+10*time.Millisecond {
					t.Errorf("the start gave up after %s, want %s", took, lockLimit)
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		gaveUp := approves(a)
		wg.Go(func() {
			err := s.Apply(ctx, gaveUp.Step(&a))
			if !errors.Is(err, attempt.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("outcome: %v", err)
			}
			if took := time.Since(begun); took < 7*time.Second || took > 7*time.Second+10*time.Millisecond {
				t.Errorf("the outcome gave up after %s, want 7s", took)
			}
		})
		outcome := approves(a)
		wg.Go(func() {
			if err := s.Apply(t.Context(), outcome.Step(&a)); err != nil {
				t.Errorf("the outcome was lost: %v", err)
			}
		})
		err = s.InTx(t.Context(), func(context.Context, *sql.Tx) error { return nil })
		if !errors.Is(err, attempt.ErrUnavailable) {
			t.Errorf("InTx: %v", err)
		}
		time.Sleep(time.Until(begun.Add(time.Minute))) // of the bubble's time
		if _, err := db.ExecContext(context.Background(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		wantStatus(t, s, a.ID, attempt.StatusApproved, 2)
		if v, err := s.Slot(t.Context(), starts("1002").Slot); err != nil || len(v.Attempts) != 0 {
			t.Errorf("a start that had given up was written: %v", err)
		}
	})
}

// The order in which a lone start and its outcome are polled for may not let a stream of others starve it.
func TestStepsOfManyProcessesAllEnd(t *testing.T) {
	path := testFile(t)
	stores := []*Store{testStore(t, path, Options{}), testStore(t, path, Options{}), testStore(t, path, Options{})}
	var wg sync.WaitGroup
	for n, s := range stores {
		wg.Go(func() {
			for i := range 40 {
				step := starts(fmt.Sprintf("%d-%d", n, i))
				if err := s.Apply(t.Context(), &step.Step); err != nil {
					t.Errorf("handle %d: %v", n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	orders := make(map[string]int)
	for a, err := range stores[0].List(t.Context(), attempt.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		handle, _, _ := strings.Cut(a.Slot.Order, "-")
		orders[handle]++
	}
	for handle, n := range orders {
		if n != 40 {
			t.Errorf("handle %s: %d attempts", handle, n)
		}
	}
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// shop is a store with a table of the host's beside it.
func shop(t *testing.T, path string) *Store {
	t.Helper()
	s := testStore(t, path, Options{})
	err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT NOT NULL)")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func orderStates(t *testing.T, s *Store) map[string]string {
	t.Helper()
	rows, err := s.reads.QueryContext(t.Context(), "SELECT id, state FROM orders")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	states := make(map[string]string)
	for rows.Next() {
		var id, state string
		if err := rows.Scan(&id, &state); err != nil {
			t.Fatal(err)
		}
		states[id] = state
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return states
}

// place moves an order to "payment pending" and starts its attempt.
func place(s *Store, order string) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?, 'payment pending')", order); err != nil {
			return err
		}
		return s.Tx(tx).ApplyTx(ctx, &starts(order).Step)
	}
}

func wantOrder(t *testing.T, s *Store, order string, there bool) {
	t.Helper()
	_, placed := orderStates(t, s)[order]
	v, err := s.Slot(context.Background(), starts(order).Slot)
	if err != nil || placed != there || (len(v.Attempts) == 1) != there {
		t.Errorf("order %s: placed %v, %d attempts, want both: %v, %v", order, placed, len(v.Attempts), there, err)
	}
}

func TestInTxCommitsBothOrNeither(t *testing.T) {
	s := shop(t, testFile(t))
	if err := s.InTx(t.Context(), place(s, "1001")); err != nil {
		t.Fatal(err)
	}
	wantOrder(t, s, "1001", true)

	undo := errors.New("out of stock")
	err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(place(s, "1002")(ctx, tx), undo)
	})
	if !errors.Is(err, undo) || errors.Is(err, attempt.ErrUnavailable) {
		t.Errorf("InTx: %v, want the function's own error", err)
	}
	wantOrder(t, s, "1002", false)

	func() {
		defer func() {
			if p := recover(); p != "a bug" {
				t.Errorf("recovered %v", p)
			}
		}()
		err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			if err := place(s, "1003")(ctx, tx); err != nil {
				t.Error(err)
			}
			panic("a bug")
		})
		t.Errorf("InTx returned %v", err)
	}()
	wantOrder(t, s, "1003", false)

	// A statement of the host's that fails is the host's to judge.
	err = s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES ('1001', 'again')"); err == nil {
			t.Error("the order's key was taken twice")
		}
		return place(s, "1004")(ctx, tx)
	})
	if err != nil {
		t.Fatal(err)
	}
	wantOrder(t, s, "1004", true)

	// A host that ends the transaction by itself is told that it was not committed.
	err = s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		return errors.Join(place(s, "1005")(ctx, tx), tx.Rollback())
	})
	if !errors.Is(err, attempt.ErrUnavailable) {
		t.Errorf("InTx: %v", err)
	}
	wantOrder(t, s, "1005", false)
}

// A call inside the transaction would wait for itself.
func TestStoreCallsInsideInTx(t *testing.T) {
	s := shop(t, testFile(t))
	other := testStore(t, testFile(t), Options{})
	a := start(t, s, "1001")
	err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		step, outcome := starts("1002"), approves(a)
		_, attemptErr := s.Attempt(ctx, a.ID)
		_, slotErr := s.Slot(ctx, a.Slot)
		_, eventsErr := s.Events(ctx, a.ID)
		_, dueErr := s.TakeDue(ctx, 1, time.Hour)
		_, briefsErr := s.Briefs(ctx, []string{a.ID}, nil)
		_, notesErr := s.Notes(ctx, attempt.NoteFilter{})
		_, lagErr := s.Lag(ctx, "host")
		_, takeErr := s.TakeUndelivered(ctx, "host", 1, time.Hour)
		var listErr error
		for _, listErr = range s.List(ctx, attempt.Filter{}) {
			break
		}
		nested, cancel := context.WithCancel(ctx)
		defer cancel()
		for name, err := range map[string]error{
			"Apply": s.Apply(ctx, &step.Step), "outcome": s.Apply(nested, outcome.Step(&a)), "the step": step.Err,
			"Attempt": attemptErr, "Slot": slotErr, "Events": eventsErr, "TakeDue": dueErr, "List": listErr,
			"Briefs": briefsErr, "Notes": notesErr, "Lag": lagErr, "TakeUndelivered": takeErr, "AddRelay": s.AddRelay(ctx, "host"),
			"RemoveRelay": s.RemoveRelay(ctx, "host"), "Delivered": s.Delivered(ctx, "host", a.ID, 1, 0),
			"InTx": s.InTx(ctx, func(context.Context, *sql.Tx) error { return nil }),
		} {
			if !errors.Is(err, attempt.ErrInTx) {
				t.Errorf("%s: %v, want ErrInTx", name, err)
			}
		}
		// Another store is another matter.
		return other.Apply(ctx, &starts("1001").Step)
	})
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, a.ID, attempt.StatusSending, 1)
}

// Only the transaction that InTx gave is on the store's writer, and only while it lasts.
func TestTxOfAnother(t *testing.T) {
	s := shop(t, testFile(t))
	tx, err := s.reads.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}()
	for _, ctx := range []context.Context{t.Context(), context.WithValue(t.Context(), inTxKey{s}, tx)} {
		step := starts("1001")
		if err := s.Tx(tx).ApplyTx(ctx, &step.Step); err == nil || step.Err == nil {
			t.Errorf("ApplyTx in a foreign transaction: %v, %v", err, step.Err)
		}
	}
	var late *sql.Tx
	var lateCtx context.Context
	err = s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		late, lateCtx = tx, ctx
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	step := starts("1002")
	if err := s.Tx(late).ApplyTx(lateCtx, &step.Step); !errors.Is(err, attempt.ErrUnavailable) {
		t.Errorf("ApplyTx after the end: %v", err)
	}
	for _, order := range []string{"1001", "1002"} {
		if v, err := s.Slot(t.Context(), starts(order).Slot); err != nil || len(v.Attempts) != 0 {
			t.Errorf("%s was written: %v", order, err)
		}
	}
}

// InTx ends with its context, whatever its function is doing.
func TestInTxEndsWithItsContext(t *testing.T) {
	s := shop(t, testFile(t))
	ctx, cancel := context.WithCancel(t.Context())
	stuck, let := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- s.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
			if err := place(s, "1001")(ctx, tx); err != nil {
				return err
			}
			close(stuck)
			<-let // deaf to its context
			if _, err := tx.ExecContext(t.Context(), "INSERT INTO orders VALUES ('late', '')"); err == nil {
				t.Error("the transaction outlived its context")
			}
			return nil
		})
	}()
	<-stuck
	waiting := starts("1002")
	waited := make(chan error, 1)
	go func() { waited <- s.Apply(t.Context(), &waiting.Step) }()
	queued(s, 1)
	cancel()
	if err := <-waited; err != nil { // while the function is still stuck
		t.Errorf("the step that waited: %v", err)
	}
	start(t, s, "1003")
	close(let)
	if err := <-done; !errors.Is(err, attempt.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("InTx: %v", err)
	}
	wantOrder(t, s, "1001", false)
	wantStatus(t, s, waiting.got.ID, attempt.StatusSending, 1)
}

// 200 transactions whose contexts end at any moment: each is there in full or not at all, and its error tells which.
func TestInTxCancelledAtAnyMoment(t *testing.T) {
	s := shop(t, testFile(t))
	stop, beside := make(chan struct{}), make(chan error, 1)
	go func() { // somebody always wants the writer next
		for n := 0; ; n++ {
			select {
			case <-stop:
				beside <- nil
				return
			default:
			}
			if err := s.Apply(t.Context(), &starts(fmt.Sprint("beside ", n)).Step); err != nil {
				beside <- err
				return
			}
		}
	}()
	defer func() {
		close(stop)
		if err := <-beside; err != nil {
			t.Errorf("a step beside: %v", err)
		}
	}()
	var wg sync.WaitGroup
	for i := range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		order := fmt.Sprint(i)
		started := make(chan struct{})
		wg.Go(func() {
			err := s.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
				if i%2 == 0 {
					close(started)
					return place(s, order)(ctx, tx)
				}
				defer close(started) // just before the commit
				return place(s, order)(ctx, tx)
			})
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, sql.ErrTxDone) {
				t.Errorf("order %s: %v", order, err)
			}
			wantOrder(t, s, order, err == nil)
		})
		wg.Go(func() {
			<-started
			cancel()
		})
		wg.Wait()
	}
}

func TestStepsWaitForInTx(t *testing.T) {
	path := testFile(t)
	synctest.Test(t, func(t *testing.T) {
		s := shop(t, path)
		a := start(t, s, "1001")
		inside, let := make(chan struct{}), make(chan struct{})
		done := make(chan error, 1)
		go func() {
			done <- s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
				close(inside)
				<-let
				return place(s, "1002")(ctx, tx)
			})
		}()
		<-inside
		if _, err := s.Attempt(t.Context(), a.ID); err != nil {
			t.Errorf("a reader waits for the writer: %v", err)
		}
		begun := time.Now()
		late := starts("1003")
		if err := s.Apply(t.Context(), &late.Step); !errors.Is(err, attempt.ErrUnavailable) || time.Since(begun) != lockLimit {
			t.Errorf("a step ended after %s: %v", time.Since(begun), err)
		}
		begun = time.Now()
		err := s.InTx(t.Context(), place(s, "1004"))
		if !errors.Is(err, attempt.ErrUnavailable) || time.Since(begun) != lockLimit {
			t.Errorf("another InTx ended after %s: %v", time.Since(begun), err)
		}
		if _, err := s.TakeDue(t.Context(), 1, time.Hour); !errors.Is(err, attempt.ErrUnavailable) {
			t.Errorf("TakeDue: %v", err)
		}
		outcome, beside := approves(a), place(s, "1005")
		outcomeDone, besideDone := make(chan error, 1), make(chan error, 1)
		go func() { outcomeDone <- s.Apply(t.Context(), outcome.Step(&a)) }()
		time.Sleep(time.Hour) // of the bubble's time
		go func() { besideDone <- s.InTx(t.Context(), beside) }()
		synctest.Wait()
		close(let)
		if err := errors.Join(<-done, <-outcomeDone, <-besideDone); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, s, a.ID, attempt.StatusApproved, 2)
		for order, there := range map[string]bool{"1002": true, "1003": false, "1004": false, "1005": true} {
			v, err := s.Slot(t.Context(), starts(order).Slot)
			if err != nil || (len(v.Attempts) == 1) != there {
				t.Errorf("order %s: %d attempts, want there %v: %v", order, len(v.Attempts), there, err)
			}
		}
	})
}

// A host that waits for another process's lock lets the outcomes that come meanwhile go first.
func TestInTxPollsBehindOutcomes(t *testing.T) {
	path := testFile(t)
	s := shop(t, path)
	a := start(t, s, "1001")
	other := testStore(t, path, Options{})
	locked, unlock := make(chan struct{}), make(chan struct{})
	done := make(chan error, 3)
	go func() {
		done <- other.InTx(t.Context(), func(context.Context, *sql.Tx) error {
			close(locked)
			<-unlock
			return nil
		})
	}()
	<-locked
	var once sync.Once
	polling := make(chan struct{})
	s.onBusy = func() { once.Do(func() { close(polling) }) }
	go func() {
		done <- s.InTx(t.Context(), func(context.Context, *sql.Tx) error {
			wantStatus(t, s, a.ID, attempt.StatusApproved, 2)
			return nil
		})
	}()
	<-polling
	outcome := approves(a)
	go func() { done <- s.Apply(t.Context(), outcome.Step(&a)) }()
	queued(s, 2)
	close(unlock)
	if err := errors.Join(<-done, <-done, <-done); err != nil {
		t.Fatal(err)
	}
}

// A host that goes away while an outcome that goes before it waits for another process's lock leaves no transaction behind: whoever
// comes next would wait for that for ever.
func TestInTxLeavesWhileOutcomesGoBeforeIt(t *testing.T) {
	path := testFile(t)
	s := shop(t, path)
	a := start(t, s, "1001")
	other := testStore(t, path, Options{})
	locked, unlock, unlocked := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		unlocked <- other.InTx(t.Context(), func(context.Context, *sql.Tx) error {
			close(locked)
			<-unlock
			return nil
		})
	}()
	<-locked
	ctx, leave := context.WithCancel(t.Context())
	recorded := make(chan error, 1)
	outcome := approves(a)
	polls := 0
	s.onBusy = func() {
		switch polls++; polls {
		case 1: // it is the host's transaction that waits: let an outcome come
			go func() { recorded <- s.Apply(t.Context(), outcome.Step(&a)) }()
			queued(s, 2)
		case 2: // it is the outcome that waits, on behalf of the host
			leave()
			close(unlock)
			if err := <-unlocked; err != nil {
				t.Error(err)
			}
		}
	}
	err := s.InTx(ctx, func(context.Context, *sql.Tx) error {
		t.Error("the transaction of a host that is gone has begun")
		return nil
	})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, attempt.ErrUnavailable) {
		t.Errorf("InTx: %v", err)
	}
	next := make(chan error, 1)
	go func() {
		next <- errors.Join(<-recorded, s.InTx(t.Context(), func(context.Context, *sql.Tx) error { return nil }))
	}()
	select {
	case err := <-next:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the writer is held by a transaction that nobody ends")
	}
	wantStatus(t, s, a.ID, attempt.StatusApproved, 2)
}

// Outcomes that wait go before the host's transaction.
func TestInTxAndOutcomes(t *testing.T) {
	s := shop(t, testFile(t))
	a := start(t, s, "1001")
	release := hold(t, s)
	var mu sync.Mutex
	var order []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	done := make(chan error, 2)
	go func() {
		done <- s.InTx(t.Context(), func(context.Context, *sql.Tx) error { note("host"); return nil })
	}()
	queued(s, 1)
	go func() {
		done <- s.Apply(t.Context(), &attempt.Step{ID: a.ID, Outcome: true, Do: func(attempt.View) ([]attempt.Write, error) {
			note("outcome")
			return nil, nil
		}})
	}()
	queued(s, 2)
	release()
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	if len(order) != 2 || order[0] != "outcome" {
		t.Errorf("ran %v, want the outcome first", order)
	}
}

// A step that the database refuses half-way leaves the host's transaction as it was.
func TestStepThatFailsHalfWayInTx(t *testing.T) {
	s := shop(t, testFile(t))
	a := start(t, s, "1001")
	err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		// Somebody has tampered with the file: the next event of this attempt is there already.
		_, err := tx.ExecContext(ctx, `INSERT INTO chargeonce_events (attempt_id, version, what, from_status, to_status, who)
			VALUES (?, 2, '', 'unknown', 'unknown', '')`, a.ID)
		if err != nil {
			return err
		}
		outcome := approves(a)
		if err := s.Tx(tx).ApplyTx(ctx, outcome.Step(nil)); !errors.Is(err, attempt.ErrUnavailable) {
			t.Errorf("ApplyTx: %v", err)
		}
		return place(s, "1002")(ctx, tx)
	})
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, a.ID, attempt.StatusSending, 1)
	wantOrder(t, s, "1002", true)
}

// Many hosts at once, with steps between: nobody is lost, and nobody waits for ever.
func TestInTxAmongSteps(t *testing.T) {
	s := shop(t, testFile(t))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 20 {
				order := fmt.Sprintf("%d-%d", g, i)
				if g%2 == 0 {
					if err := s.InTx(t.Context(), place(s, order)); err != nil {
						t.Error(err)
					}
					continue
				}
				step := starts(order)
				if err := s.Apply(t.Context(), &step.Step); err != nil {
					t.Error(err)
				}
				outcome := approves(step.got)
				if err := s.Apply(t.Context(), outcome.Step(&step.got)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	n := 0
	for _, err := range s.List(t.Context(), attempt.Filter{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 160 || len(orderStates(t, s)) != 80 {
		t.Errorf("%d attempts and %d orders, want 160 and 80", n, len(orderStates(t, s)))
	}
}

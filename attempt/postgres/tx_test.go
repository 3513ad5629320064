package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/jackc/pgx/v5"
)

// sqlDriver is as much of a database/sql driver as a transaction of a host's needs, over pgx.
type sqlDriver struct{ url string }

func (d sqlDriver) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := pgx.Connect(ctx, d.url)
	return sqlConn{c}, err
}
func (d sqlDriver) Driver() driver.Driver { return nil }

type sqlConn struct{ c *pgx.Conn }

func (c sqlConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not prepared") }
func (c sqlConn) Close() error                        { return c.c.Close(context.Background()) }
func (c sqlConn) Begin() (driver.Tx, error)           { return nil, errors.New("not without options") }
func (c sqlConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	text := "begin"
	if sql.IsolationLevel(opts.Isolation) == sql.LevelSerializable {
		text = "begin isolation level serializable"
	}
	_, err := c.c.Exec(ctx, text)
	return sqlTx(c), err
}

func (c sqlConn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	all := make([]any, len(args))
	for i, a := range args {
		all[i] = a.Value
	}
	rows, err := c.c.Query(ctx, text, all...)
	if err != nil {
		return nil, err
	}
	return &sqlRows{rows}, nil
}

type sqlTx sqlConn

func (t sqlTx) Commit() error   { _, err := t.c.Exec(context.Background(), "commit"); return err }
func (t sqlTx) Rollback() error { _, err := t.c.Exec(context.Background(), "rollback"); return err }

type sqlRows struct{ rows pgx.Rows }

func (r *sqlRows) Columns() (names []string) {
	for _, f := range r.rows.FieldDescriptions() {
		names = append(names, f.Name)
	}
	return names
}
func (r *sqlRows) Close() error { r.rows.Close(); return nil }
func (r *sqlRows) Next(dest []driver.Value) error {
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	values, err := r.rows.Values()
	for i, v := range values {
		switch v := v.(type) {
		case int32:
			dest[i] = int64(v)
		case string:
			dest[i] = []byte(v) // as some drivers do
		default:
			dest[i] = v
		}
	}
	return err
}

// A step takes part in a transaction of database/sql: with what else the host writes, or not at all.
func TestSQLTx(t *testing.T) {
	s := testStore(t, Options{})
	db := sql.OpenDB(sqlDriver{testURL(t)})
	defer db.Close()
	within := func(opts *sql.TxOptions, f func(attempt.Tx) error) error {
		tx, err := db.BeginTx(t.Context(), opts)
		if err != nil {
			return err
		}
		if err := f(s.SQLTx(tx)); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	}
	ctx := t.Context()
	undone := errors.New("undo it")
	first := starts("1001")
	wantError(t, "rolled back", within(nil, func(tx attempt.Tx) error {
		return errors.Join(tx.ApplyTx(ctx, &first.Step), undone)
	}), undone)
	if v, err := s.Slot(ctx, slotOf("1001")); err != nil || len(v.Attempts) != 0 {
		t.Errorf("%d attempts are left of a transaction that was rolled back: %v", len(v.Attempts), err)
	}
	for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelSerializable} {
		order := fmt.Sprint("order ", level)
		first, again, other := starts(order), starts(order), starts(order+" other")
		if err := within(&sql.TxOptions{Isolation: level}, func(tx attempt.Tx) error {
			if err := errors.Join(tx.ApplyTx(ctx, &first.Step), tx.ApplyTx(ctx, &again.Step)); err != nil {
				return err
			}
			missing := approves(attempt.Attempt{ID: "01890000-0000-7000-8000-000000000000"})
			wantError(t, "an unknown attempt", tx.ApplyTx(ctx, missing.Step(nil)), attempt.ErrNotFound)
			once := &attempt.Step{ID: first.got.ID, Once: &attempt.Once{Scope: "w", ID: order, Data: []byte("\x00\xff")}}
			if err := tx.ApplyTx(ctx, once); err != nil {
				return err
			}
			wantError(t, "once more", tx.ApplyTx(ctx, once), attempt.ErrSeen)
			// Several statements: the closing, and the attempt's mark.
			if err := tx.ApplyTx(ctx, (&attempt.Cancel{Slot: slotOf(order), Who: "host"}).Step()); err != nil {
				return err
			}
			return tx.ApplyTx(ctx, &other.Step)
		}); err != nil {
			t.Fatal(err)
		}
		if !first.began || again.began || again.got.ID != first.got.ID {
			t.Errorf("began %v and %v", first.began, again.began)
		}
		a := wantOne(t, s, order, attempt.StatusSending, 2)
		if a.UnwantedAt.IsZero() {
			t.Error("the cancellation has left no mark")
		}
		wantOne(t, s, order+" other", attempt.StatusSending, 1)
	}
}

// Between several statements of one step an error undoes those before it, and leaves the transaction usable.
func TestSavepoint(t *testing.T) {
	s := testStore(t, Options{})
	a := start(t, s, "1001")
	err := inTx(s, pgx.TxOptions{}, func(ctx context.Context, tx attempt.Tx) error {
		// A slot and its attempt, whose id is another one's: the database refuses the second statement.
		step := &attempt.Step{Slot: slotOf("another"), Do: func(v attempt.View) ([]attempt.Write, error) {
			other := starts("another")
			w, err := other.Do(v)
			w[0].Attempt.ID, w[0].Event.AttemptID = a.ID, a.ID
			return w, err
		}}
		if err := tx.ApplyTx(ctx, step); code(err) != "23505" {
			t.Errorf("the same id twice: %v", err)
		}
		good := starts("1002")
		return tx.ApplyTx(ctx, &good.Step)
	})
	if err != nil {
		t.Fatal(err)
	}
	wantOne(t, s, "1002", attempt.StatusSending, 1)
	if v, err := s.Slot(t.Context(), slotOf("another")); err != nil || len(v.Attempts) != 0 {
		t.Errorf("%d attempts of a step that failed: %v", len(v.Attempts), err)
	}
	good := starts("another") // and no half of it is left
	if err := s.Apply(t.Context(), &good.Step); err != nil || !good.began {
		t.Errorf("began %v, %v", good.began, err)
	}
}

// An event is told of however late its transaction commits, and a relay that is added waits for those that do not know of it.
func TestLateCommit(t *testing.T) {
	s := testStore(t, Options{})
	ctx := t.Context()
	deliver := func() (told []string) {
		for {
			events, err := s.TakeUndelivered(ctx, "host", 10, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if len(events) == 0 {
				return told
			}
			for _, e := range events {
				told = append(told, e.AttemptID)
				if err := s.Delivered(ctx, "host", e.AttemptID, e.Version, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	hold := func(order string) (commit func() string) {
		begun, end, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		step := starts(order)
		go func() {
			done <- inTx(s, pgx.TxOptions{}, func(ctx context.Context, tx attempt.Tx) error {
				defer func() { <-end }()
				defer close(begun)
				return tx.ApplyTx(ctx, &step.Step)
			})
		}()
		<-begun
		return func() string {
			close(end)
			if err := <-done; err != nil {
				t.Error(err)
			}
			return step.got.ID
		}
	}

	before := hold("began before the relay")
	added := make(chan error, 1)
	go func() { added <- s.AddRelay(ctx, "host") }()
	for {
		if _, err := s.Lag(ctx, "host"); err == nil {
			break // it is there, and its caller waits
		}
	}
	select {
	case err := <-added:
		t.Errorf("added while a transaction that knows nothing of it runs: %v", err)
	default:
	}
	before()
	if err := <-added; err != nil {
		t.Fatal(err)
	}
	if told := deliver(); len(told) != 0 {
		t.Errorf("told of %v, from before", told)
	}

	late := hold("commits late")
	for i := range 5 {
		start(t, s, fmt.Sprint(i))
	}
	if told := deliver(); len(told) != 5 {
		t.Errorf("told of %d, want 5", len(told))
	}
	id := late()
	if told := deliver(); len(told) != 1 || told[0] != id {
		t.Errorf("told of %v, want %s", told, id)
	}
}

// Two hosts that start in one slot at the same moment do not keep each other from it by having some of its locks each: one of them goes
// first, and the other sees what that did.
func TestTwoHostsInOneSlot(t *testing.T) {
	s := testStore(t, Options{})
	known := start(t, s, "1001")
	for range 150 {
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				err := inTx(s, pgx.TxOptions{}, func(ctx context.Context, tx attempt.Tx) error {
					again := starts("1001")
					err := tx.ApplyTx(ctx, &again.Step)
					if err == nil && (again.began || again.got.ID != known.ID) {
						t.Errorf("began %v, and saw %s", again.began, again.got.ID)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if t.Failed() {
			return
		}
	}
}

// After a wait for another transaction that came to nothing, the host's holds nothing of the slot.
func TestHostHoldsNothingAfterWaiting(t *testing.T) {
	s := testStore(t, Options{})
	known := start(t, s, "1001")
	err := inTx(s, pgx.TxOptions{}, func(ctx context.Context, first attempt.Tx) error {
		if err := first.ApplyTx(ctx, &starts("1001").Step); err != nil {
			return err
		}
		return inTx(s, pgx.TxOptions{}, func(ctx context.Context, second attempt.Tx) error {
			short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			wantError(t, "a slot that another transaction holds", second.ApplyTx(short, &starts("1001").Step), attempt.ErrUnavailable)
			other := starts("1002") // the transaction is still of use
			if err := second.ApplyTx(ctx, &other.Step); err != nil || !other.began {
				t.Errorf("another order in the same transaction: began %v, %v", other.began, err)
			}
			return second.(hostTx).db.run(ctx, query{text: "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()", row: func(row []any) error {
				if n := row[0].(int64); n != 1 {
					t.Errorf("%d names are locked, want that of order 1002 only", n)
				}
				return nil
			}})
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), approves(known).Step(&known)); err != nil {
		t.Error(err)
	}
}

// A relay is not there as long as somebody writes who does not know of it, also for who adds it once more.
func TestAddRelayAgain(t *testing.T) {
	s := testStore(t, Options{})
	err := inTx(s, pgx.TxOptions{}, func(ctx context.Context, tx attempt.Tx) error {
		if err := tx.ApplyTx(ctx, &starts("1001").Step); err != nil {
			return err
		}
		for range 2 {
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			wantError(t, "a relay beside a transaction that does not know of it", s.AddRelay(short, "shop"), context.DeadlineExceeded)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.AddRelay(t.Context(), "shop"); err != nil {
		t.Error(err)
	}
}

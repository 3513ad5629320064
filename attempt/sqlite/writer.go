package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"
)

// writer is the process's one connection for writing. It is not safe for concurrent use: it belongs to whoever leads the
// queue. No context reaches a statement of the writer's, so that each runs to its end and nobody has to guess what became
// of it.
type writer struct {
	db       *sql.DB
	conn     *sql.Conn // nil: to be opened
	raw      rawSession
	location *location // where it must write
	last     int       // how many items the last batch had

	commits int // so far
}

// with runs f on the driver's connection, after opening it if need be.
func (w *writer) with(f func(*rawSession) error) error {
	if err := w.connect(context.Background()); err != nil {
		return err
	}
	return w.conn.Raw(func(conn any) error {
		returned := false
		defer func() {
			if !returned { // the goroutine is ending: database/sql closes the connection
				_ = w.raw.finalize()
			}
		}()
		w.raw.conn = conn.(driver.Conn)
		err := f(&w.raw)
		returned = true
		return err
	})
}

func (w *writer) connect(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	w.conn, w.raw = conn, rawSession{}
	return nil
}

// drop closes the connection, and with it a transaction that is open: after an error nobody knows what state it is in.
// What closing itself reports changes nothing any more.
func (w *writer) drop() { _ = w.disconnect() }

// close ends the writer for good.
func (w *writer) close() error { return errors.Join(w.disconnect(), w.db.Close()) }

func (w *writer) disconnect() error {
	if w.conn == nil {
		return nil
	}
	var err error
	// ErrBadConn makes database/sql close the connection instead of keeping it for later.
	_ = w.conn.Raw(func(any) error {
		err = w.raw.finalize()
		return driver.ErrBadConn
	})
	if closing := w.conn.Close(); !errors.Is(closing, sql.ErrConnDone) {
		err = errors.Join(err, closing)
	}
	w.conn, w.raw = nil, rawSession{}
	return err
}

// transaction runs f in a transaction of its own: committed if f returns nil. It polls for the lock for at most limit, 0
// meaning as long as ctx allows.
func (w *writer) transaction(ctx context.Context, limit time.Duration, f func(session) error) error {
	if err := pollBusy(ctx, limit, w.begin); err != nil {
		return err
	}
	if err := w.with(func(r *rawSession) error { return f(r) }); err != nil {
		w.drop()
		return err
	}
	return w.commit()
}

// begin begins a transaction, unless what it writes would be lost.
func (w *writer) begin() error {
	if err := w.do(stmtBegin); err != nil {
		return err
	}
	if err := w.location.check(); err != nil {
		w.rollback()
		return err
	}
	return nil
}

// errCommit marks an error of COMMIT itself: whether it took effect has to be read back.
var errCommit = errors.New("commit")

func (w *writer) commit() error {
	if err := w.do(stmtCommit); err != nil {
		w.drop()
		return errors.Join(errCommit, err)
	}
	w.commits++
	return nil
}

// rollback ends a transaction in which nothing was written.
func (w *writer) rollback() {
	if err := w.do(stmtRollback); err != nil {
		w.drop()
	}
}

func (w *writer) do(s statement) error {
	return w.with(func(r *rawSession) error {
		_, err := r.exec(s)
		return err
	})
}

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
	db   *sql.DB
	conn *sql.Conn // nil: to be opened
	raw  rawSession
	last int // how many items the last batch had
}

// with runs f on the driver's connection, after opening it if need be.
func (w *writer) with(f func(*rawSession) error) error {
	if err := w.connect(context.Background()); err != nil {
		return err
	}
	return w.conn.Raw(func(conn any) error {
		w.raw.conn = conn.(driver.Conn)
		return f(&w.raw)
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
func (w *writer) drop() {
	if w.conn == nil {
		return
	}
	// ErrBadConn makes database/sql close the connection instead of keeping it for later.
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = w.conn.Close()
	w.conn, w.raw = nil, rawSession{}
}

// close ends the writer for good.
func (w *writer) close() error {
	var err error
	if w.conn != nil {
		err = w.conn.Close()
		w.conn, w.raw = nil, rawSession{}
	}
	return errors.Join(err, w.db.Close())
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

func (w *writer) begin() error { return w.do(stmtBegin) }

// errCommit marks an error of COMMIT itself: whether it took effect has to be read back.
var errCommit = errors.New("commit")

func (w *writer) commit() error {
	if err := w.do(stmtCommit); err != nil {
		w.drop()
		return errors.Join(errCommit, err)
	}
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

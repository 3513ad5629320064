package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"time"
)

// writer is the process's one connection for writing. It is not safe for concurrent use: it belongs to whoever leads the
// queue.
type writer struct {
	db   *sql.DB
	conn *sql.Conn
	raw  rawSession
	last int
}

// with runs f on the driver's connection, after opening it if need be.
func (w *writer) with(ctx context.Context, f func(*rawSession) error) error {
	if w.conn == nil {
		conn, err := w.db.Conn(ctx)
		if err != nil {
			return err
		}
		w.conn, w.raw = conn, rawSession{}
	}
	return w.conn.Raw(func(dc any) error {
		w.raw.conn = dc.(driver.Conn)
		return f(&w.raw)
	})
}

// drop closes the connection: after an error nobody knows what state it is in.
func (w *writer) drop() error {
	if w.conn == nil {
		return nil
	}
	// ErrBadConn makes database/sql close the connection instead of keeping it for later.
	err := w.conn.Raw(func(any) error { return driver.ErrBadConn })
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		err = nil
	}
	if closeErr := w.conn.Close(); !errors.Is(closeErr, sql.ErrConnDone) {
		err = errors.Join(err, closeErr)
	}
	w.conn, w.raw = nil, rawSession{}
	return err
}

func (w *writer) close() error {
	if w.conn == nil {
		return nil
	}
	err := w.conn.Close()
	w.conn, w.raw = nil, rawSession{}
	return err
}

// transaction runs f in an immediate transaction of its own: committed if f returns nil.
func (w *writer) transaction(ctx context.Context, limit time.Duration, f func(session) error) error {
	err := pollBusy(ctx, limit, func() error { return w.begin(ctx) })
	if err != nil {
		return err
	}
	if err := w.with(ctx, func(r *rawSession) error { return f(r) }); err != nil {
		return errors.Join(err, w.rollback())
	}
	return w.commit()
}

func (w *writer) begin(ctx context.Context) error {
	return w.with(ctx, func(r *rawSession) error {
		_, err := r.exec(stmtBegin)
		return err
	})
}

// errCommit marks an error of COMMIT itself: whether it took effect has to be read back.
var errCommit = errors.New("commit")

func (w *writer) commit() error {
	err := w.with(context.Background(), func(r *rawSession) error {
		_, err := r.exec(stmtCommit)
		return err
	})
	if err == nil {
		return nil
	}
	return errors.Join(errCommit, err, w.drop())
}

// rollback ends the transaction. SQLite has ended it by itself after some errors; where it cannot be ended, the connection
// is closed.
func (w *writer) rollback() error {
	err := w.with(context.Background(), func(r *rawSession) error {
		_, err := r.exec(stmtRollback)
		return err
	})
	if err != nil {
		return w.drop()
	}
	return nil
}

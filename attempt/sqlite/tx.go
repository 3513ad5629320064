package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/chargeonce/chargeonce/attempt"
)

// inTxKey marks the context that InTx gives to its function.
type inTxKey struct{ s *Store }

// InTx runs f in a transaction on the store's own writer, so that what the host writes with tx and the steps it gives to
// [Store.Tx] commit together, or not at all. It commits if f returns nil; it rolls back if f fails or panics, and when ctx
// ends, whatever f is doing then.
//
// While f runs nothing else is written by this process, and nothing by others: f must be short and must not wait for
// anybody, least of all for a provider. A call of the store with the context that f gets fails with [attempt.ErrInTx].
//
// An error that matches [attempt.ErrUnavailable] means that nothing was written, unless it says that the commit failed.
func (s *Store) InTx(ctx context.Context, f func(ctx context.Context, tx *sql.Tx) error) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	c := newCall(ctx)
	c.alone = true
	if !s.queue.enter(c, []*item{&c.first}) {
		return c.first.err
	}
	release := sync.OnceFunc(func() { s.queue.handOver(c) })
	defer release()
	tx, err := s.beginTx(c)
	if err != nil {
		return err
	}
	rolledBack := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(rolledBack)
		// Where the transaction has ended, or is being committed at this moment, InTx is about to return.
		if err := tx.Rollback(); !errors.Is(err, sql.ErrTxDone) {
			release()
		}
	})
	defer func() {
		if !stop() {
			<-rolledBack
		}
		_ = tx.Rollback() // for f that failed, panicked or ended the goroutine; else it has ended
	}()
	if err := f(context.WithValue(ctx, inTxKey{s}, tx), tx); err != nil {
		return err
	}
	err = tx.Commit()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrTxDone) && ctx.Err() != nil:
		return s.unavailable(fmt.Errorf("rolled back: %w", ctx.Err()))
	case errors.Is(err, sql.ErrTxDone):
		return s.unavailable(errors.New("rolled back: SQLite or the function had ended the transaction"))
	}
	return s.unavailable(fmt.Errorf("the commit failed: %w", err))
}

// beginTx begins a transaction of the host's. The outcomes that wait go before it.
func (s *Store) beginTx(c *call) (tx *sql.Tx, err error) {
	err = s.lock(c, func() error {
		if s.queue.outcomesWait() {
			s.batch(c)
		}
		if err := s.write.connect(context.Background()); err != nil {
			return err
		}
		// Not under c.ctx: InTx itself rolls back when that ends, and knows when it has.
		if tx, err = s.write.conn.BeginTx(context.WithoutCancel(c.ctx), nil); err != nil {
			return err
		}
		if moved := s.write.location.check(); moved != nil {
			err = errors.Join(moved, tx.Rollback())
		}
		return err
	})
	if !s.queue.takeAlone(c) { // it has expired, perhaps while outcomes went before it
		if err == nil && tx.Rollback() != nil {
			s.write.drop()
		}
		return nil, c.first.err
	}
	return tx, s.unavailable(err)
}

// Tx returns a transaction that a step can take part in. tx must be the one that [Store.InTx] gives to its function.
func (s *Store) Tx(tx *sql.Tx) attempt.Tx { return hostTx{s, tx} }

type hostTx struct {
	s  *Store
	tx *sql.Tx
}

// ApplyTx implements [attempt.Tx].
func (t hostTx) ApplyTx(ctx context.Context, step *attempt.Step) error {
	step.Err = t.apply(ctx, step)
	return step.Err
}

func (t hostTx) apply(ctx context.Context, step *attempt.Step) error {
	if ctx.Value(inTxKey{t.s}) != t.tx {
		return errors.New("not the transaction of InTx; nothing was stored")
	}
	q := sqlSession{ctx: ctx, db: t.tx}
	// The host's own statements may have ended the transaction (a COMMIT, an INSERT OR ROLLBACK): the savepoint would then
	// be a transaction of its own and commit what the host has rolled back. A BEGIN that is taken shows that.
	if err := q.exec1("BEGIN"); err == nil {
		return t.s.unavailable(errors.Join(errors.New("the transaction was ended by a statement in it; nothing was stored"),
			q.exec1("ROLLBACK"), t.tx.Rollback()))
	}
	if err := q.exec1("SAVEPOINT chargeonce_step"); err != nil {
		return t.s.unavailable(err)
	}
	_, err := t.s.runStep(q, step, new(belief))
	var failed *attempt.StepError
	if err != nil && !errors.As(err, &failed) {
		if back := q.exec1("ROLLBACK TO chargeonce_step"); back != nil {
			// SQLite has ended the transaction. It must not look alive: each further statement would commit by itself.
			return t.s.unavailable(errors.Join(err, t.tx.Rollback()))
		}
	}
	if end := q.exec1("RELEASE chargeonce_step"); end != nil {
		return t.s.unavailable(errors.Join(err, end, t.tx.Rollback()))
	}
	if failed != nil {
		if failed.Panicked != nil {
			panic(failed.Panicked)
		}
		return failed.Err
	}
	return t.s.unavailable(err)
}

package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/jackc/pgx/v5"
)

// Tx returns the host's transaction as one that a step can take part in, in the store's database. What a step writes there is
// committed with what the host writes, or not at all.
//
// From its step on, and until it ends, the transaction holds the slot: steps of others on the same slot wait for it (in the store,
// not on the server, and without a connection: 5 s at most where they record no outcome). It holds nothing else, so payments of other
// orders go on. A duplicate never fails it: the step then sees the attempt that is there. Where another transaction holds the slot the step
// waits for that, at most 5 s, and ends with [attempt.ErrUnavailable]; the transaction is as it was, and holds nothing of the slot. Two
// transactions that want one slot at the same moment do not keep each other from it. A savepoint named chargeonce_try is left behind.
//
// It may be of any isolation level. Above READ COMMITTED a slot that another transaction has changed meanwhile is a serialization failure
// (SQLSTATE 40001), which is the host's to retry. tx is not safe for concurrent use.
func (s *Store) Tx(tx pgx.Tx) attempt.Tx {
	return hostTx{s: s, db: pgxSession{tx}, savepoint: func(ctx context.Context, f func(session) error) error {
		inner, err := tx.Begin(ctx)
		if err != nil {
			return err
		}
		if err := f(pgxSession{inner}); err != nil {
			return errors.Join(err, inner.Rollback(ctx))
		}
		return inner.Commit(ctx)
	}}
}

// SQLTx is [Store.Tx] for a transaction of database/sql, with pgx's driver or any other for PostgreSQL.
func (s *Store) SQLTx(tx *sql.Tx) attempt.Tx {
	db := sqlSession{tx}
	return hostTx{s: s, db: db, savepoint: func(ctx context.Context, f func(session) error) error {
		if err := db.run(ctx, query{text: "savepoint chargeonce_step"}); err != nil {
			return err
		}
		if err := f(db); err != nil {
			return errors.Join(err, db.run(ctx, query{text: "rollback to savepoint chargeonce_step"}))
		}
		return db.run(ctx, query{text: "release savepoint chargeonce_step"})
	}}
}

type hostTx struct {
	s         *Store
	db        session
	savepoint func(ctx context.Context, f func(session) error) error
}

// ApplyTx implements [attempt.Tx].
func (t hostTx) ApplyTx(ctx context.Context, step *attempt.Step) error {
	err := t.apply(ctx, step)
	if own := (*attempt.StepError)(nil); errors.As(err, &own) && own.Panicked != nil {
		step.Err = own.Err
		panic(own.Panicked)
	}
	step.Err = t.s.unavailableUnlessOwn(err)
	return step.Err
}

func (t hostTx) apply(ctx context.Context, step *attempt.Step) error {
	if err := t.s.writable(ctx); err != nil {
		return err
	}
	// pgx closes the connection of a statement whose context ends, and with it the host's transaction. None of these waits, so each is let
	// come to its end.
	running, stop := outlive(ctx, time.Second)
	defer stop()
	until := time.Now().Add(waitLimit)
	for tries := 0; ; tries++ {
		x := change{step: step}
		queries, err := t.s.loads(&x)
		if err != nil {
			return err
		}
		if tries == 0 {
			queries = append([]query{{text: "savepoint chargeonce_try"}}, queries...)
		}
		var told moment
		if err := t.db.run(running, append(queries, t.s.tells(false, &told))...); err != nil {
			return failedTx(err)
		}
		err = t.s.decideLoaded(&x, told)
		if errors.Is(err, errHeld) {
			// Of the locks that a try needs it may have got some, and another transaction the others.
			if err := t.db.run(running, query{text: "rollback to savepoint chargeonce_try"}); err != nil {
				return failedTx(err)
			}
			if !time.Now().Before(until) {
				return fmt.Errorf("%w; nothing was stored, and the transaction is as it was: %w", errLate, err)
			}
			if late := sleep(ctx, pause(tries, err)); late != nil {
				return errors.Join(late, err)
			}
			continue
		}
		if err != nil || len(x.writes) == 0 {
			return err
		}
		if len(x.writes) == 1 {
			return failedTx(t.db.run(running, x.writes...))
		}
		// Several statements: all or none, also where the host goes on after an error.
		return failedTx(t.savepoint(running, func(db session) error { return db.run(running, x.writes...) }))
	}
}

// outlive is a context that ends a while after ctx.
func outlive(ctx context.Context, by time.Duration) (running context.Context, stop func()) {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	after := context.AfterFunc(ctx, func() {
		_ = sleep(running, by)
		cancel()
	})
	return running, func() {
		after()
		cancel()
	}
}

// failedTx says that it is the transaction which cannot go on.
func failedTx(err error) error {
	if code(err) == codeInFailedTransaction {
		return fmt.Errorf("a statement before has failed the transaction, so that it takes nothing more: %w", err)
	}
	return err
}

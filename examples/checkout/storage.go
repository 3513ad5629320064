package main

import (
	"context"
	"strings"

	"github.com/chargeonce/chargeonce/attempt"
)

// storage is the database of the shop and its payments: one, so that both change in one transaction. It is all that differs
// between SQLite and PostgreSQL.
type storage interface {
	attempt.Store
	getter // outside of any transaction: a status page must not wait for writers
	// InTx runs f in a transaction and commits it if f returns nil.
	InTx(ctx context.Context, f func(ctx context.Context, tx tx) error) error
}

// tx is a transaction. Statements have their arguments as $1, $2, which both databases understand.
type tx interface {
	getter
	Exec(ctx context.Context, statement string, args ...any) error
	// Lock keeps other transactions from changing the rows of a SELECT, and from locking them, until this one ends; what is read
	// from then on is what they have left.
	Lock(ctx context.Context, selected string, args ...any) error
	// Attempts lets attempts change in this transaction.
	Attempts() attempt.Tx
}

type getter interface {
	// Get reads one row; sql.ErrNoRows: there is none.
	Get(ctx context.Context, row into, statement string, args ...any) error
}

// into is where the columns of a row go.
type into []any

// openStorage opens a database: the PostgreSQL one with that URL, else the SQLite file of that name.
func openStorage(ctx context.Context, db string) (storage, error) {
	if isPostgres(db) {
		return openPostgres(ctx, db)
	}
	return openSQLite(ctx, db)
}

func isPostgres(db string) bool {
	return strings.HasPrefix(db, "postgres://") || strings.HasPrefix(db, "postgresql://")
}

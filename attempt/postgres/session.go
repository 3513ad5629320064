package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// query is one statement with its arguments, and what becomes of its rows; row may be nil.
type query struct {
	text string
	args []any
	row  func(values []any) error
}

// session is where statements run: a connection of the store's, or a transaction of the host's. What is given together
// travels together where the driver can do so; after one that fails none runs.
type session interface {
	run(ctx context.Context, queries ...query) error
}

// batcher is a connection or a transaction of pgx.
type batcher interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

type pgxSession struct{ db batcher }

func (s pgxSession) run(ctx context.Context, queries ...query) error {
	if len(queries) == 1 {
		rows, err := s.db.Query(ctx, queries[0].text, queries[0].args...)
		if err != nil {
			return err
		}
		return eachRow(rows, queries[0].row)
	}
	b := &pgx.Batch{}
	for _, q := range queries {
		b.Queue(q.text, q.args...)
	}
	results := s.db.SendBatch(ctx, b)
	for _, q := range queries {
		rows, err := results.Query()
		if err == nil {
			err = eachRow(rows, q.row)
		}
		if err != nil {
			_ = results.Close() // tells the same error once more
			return err
		}
	}
	return results.Close()
}

func eachRow(rows pgx.Rows, row func([]any) error) error {
	defer rows.Close()
	for rows.Next() {
		if row == nil {
			continue
		}
		values, err := rows.Values()
		if err == nil {
			err = row(values)
		}
		if err != nil {
			return &rowError{err}
		}
	}
	return rows.Err()
}

// rowError is an error of this side's, in what was read or was to be sent: it would be the same once more.
type rowError struct{ err error }

func (e *rowError) Error() string { return e.err.Error() }
func (e *rowError) Unwrap() error { return e.err }

// sqlSession runs statements in a transaction of database/sql, whatever its driver.
type sqlSession struct{ tx *sql.Tx }

func (s sqlSession) run(ctx context.Context, queries ...query) error {
	for _, q := range queries {
		if err := s.run1(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func (s sqlSession) run1(ctx context.Context, q query) (err error) {
	rows, err := s.tx.QueryContext(ctx, q.text, q.args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values, targets := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		if q.row == nil {
			continue
		}
		if err := q.row(values); err != nil {
			return &rowError{fmt.Errorf("%w", err)}
		}
	}
	return rows.Err()
}

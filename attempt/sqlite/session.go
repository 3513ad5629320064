package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
)

// session is where statements run: the writer's own connection, or a transaction of the host's on it.
type session interface {
	exec(s statement, args ...driver.Value) (effect, error)
	execArgs(s statement, args []driver.NamedValue) (effect, error)
	query(s statement, row func([]driver.Value) error, args ...driver.Value) error
	// exec1 and query1 run a text that is not worth preparing; exec1 may be several statements.
	exec1(text string, args ...driver.Value) error
	query1(text string, row func([]driver.Value) error, args ...driver.Value) error
}

// effect is what a statement did.
type effect struct {
	changed  int64 // rows
	inserted int64 // the number of the last row inserted; says nothing where changed is 0
}

func effectOf(res driver.Result) (e effect, err error) {
	if e.changed, err = res.RowsAffected(); err != nil {
		return e, err
	}
	e.inserted, err = res.LastInsertId()
	return e, err
}

// rawSession runs prepared statements on the driver's connection, without database/sql between. It has no context: a
// statement of the writer's runs to its end, so that nobody has to guess what became of it.
type rawSession struct {
	conn     driver.Conn
	prepared [statementCount]driver.Stmt
	args     []driver.NamedValue
}

func (r *rawSession) stmt(s statement) (driver.Stmt, error) {
	if r.prepared[s] == nil {
		p, err := r.conn.(driver.ConnPrepareContext).PrepareContext(context.Background(), statements[s])
		if err != nil {
			return nil, err
		}
		r.prepared[s] = p
	}
	return r.prepared[s], nil
}

// finalize ends the statements: SQLite keeps a connection, and what it has locked, as long as one of its statements is
// there (https://www.sqlite.org/c3ref/close.html).
func (r *rawSession) finalize() error {
	var errs []error
	for i, p := range r.prepared {
		if p != nil {
			errs = append(errs, p.Close())
			r.prepared[i] = nil
		}
	}
	return errors.Join(errs...)
}

func (r *rawSession) named(args []driver.Value) []driver.NamedValue {
	r.args = r.args[:0]
	for i, v := range args {
		r.args = append(r.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return r.args
}

func (r *rawSession) exec(s statement, args ...driver.Value) (effect, error) {
	return r.execArgs(s, r.named(args))
}

func (r *rawSession) execArgs(s statement, args []driver.NamedValue) (effect, error) {
	stmt, err := r.stmt(s)
	if err != nil {
		return effect{}, err
	}
	res, err := stmt.(driver.StmtExecContext).ExecContext(context.Background(), args)
	if err != nil {
		return effect{}, err
	}
	return effectOf(res)
}

func (r *rawSession) query(s statement, row func([]driver.Value) error, args ...driver.Value) error {
	stmt, err := r.stmt(s)
	if err != nil {
		return err
	}
	rows, err := stmt.(driver.StmtQueryContext).QueryContext(context.Background(), r.named(args))
	if err != nil {
		return err
	}
	return eachRow(rows, row)
}

func (r *rawSession) exec1(text string, args ...driver.Value) error {
	_, err := r.conn.(driver.ExecerContext).ExecContext(context.Background(), text, r.named(args))
	return err
}

func (r *rawSession) query1(text string, row func([]driver.Value) error, args ...driver.Value) error {
	rows, err := r.conn.(driver.QueryerContext).QueryContext(context.Background(), text, r.named(args))
	if err != nil {
		return err
	}
	return eachRow(rows, row)
}

// passingSession reads on a connection that goes back afterwards: it prepares nothing, and ends with its context.
type passingSession struct {
	rawSession
	ctx context.Context
}

func (p *passingSession) query(s statement, row func([]driver.Value) error, args ...driver.Value) error {
	return p.query1(statements[s], row, args...)
}

func (p *passingSession) query1(text string, row func([]driver.Value) error, args ...driver.Value) error {
	rows, err := p.conn.(driver.QueryerContext).QueryContext(p.ctx, text, p.named(args))
	if err != nil {
		return err
	}
	return eachRow(rows, row)
}

func eachRow(rows driver.Rows, row func([]driver.Value) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	values := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(values); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := row(values); err != nil {
			return err
		}
	}
}

// sqlSession runs statements through database/sql: in a transaction that the host holds, which may have ended, or on a
// connection of the read pool.
type sqlSession struct {
	ctx context.Context
	db  interface {
		ExecContext(context.Context, string, ...any) (sql.Result, error)
		QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	}
	prepared *[statementCount]*sql.Stmt // those that db has prepared; may be nil
}

func (q sqlSession) exec(s statement, args ...driver.Value) (effect, error) {
	res, err := q.db.ExecContext(q.ctx, statements[s], anys(args)...)
	if err != nil {
		return effect{}, err
	}
	return effectOf(res)
}

func (q sqlSession) execArgs(s statement, args []driver.NamedValue) (effect, error) {
	values := make([]driver.Value, len(args))
	for i, a := range args {
		values[i] = a.Value
	}
	return q.exec(s, values...)
}

func (q sqlSession) query(s statement, row func([]driver.Value) error, args ...driver.Value) error {
	if q.prepared == nil || q.prepared[s] == nil {
		return q.query1(statements[s], row, args...)
	}
	rows, err := q.prepared[s].QueryContext(q.ctx, anys(args)...)
	if err != nil {
		return err
	}
	return eachSQLRow(rows, row)
}

func (q sqlSession) exec1(text string, args ...driver.Value) error {
	_, err := q.db.ExecContext(q.ctx, text, anys(args)...)
	return err
}

func (q sqlSession) query1(text string, row func([]driver.Value) error, args ...driver.Value) error {
	rows, err := q.db.QueryContext(q.ctx, text, anys(args)...)
	if err != nil {
		return err
	}
	return eachSQLRow(rows, row)
}

func eachSQLRow(rows *sql.Rows, row func([]driver.Value) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values := make([]driver.Value, len(columns))
	scanned, targets := make([]any, len(columns)), make([]any, len(columns))
	for i := range scanned {
		targets[i] = &scanned[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		for i, v := range scanned {
			values[i] = v
		}
		if err := row(values); err != nil {
			return err
		}
	}
	return rows.Err()
}

func anys(args []driver.Value) []any {
	out := make([]any, len(args))
	for i, v := range args {
		out[i] = v
	}
	return out
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Migration is one change of the schema. Its number is that of the same change in every store.
type Migration struct {
	Number    int
	Name      string
	AppliedAt time.Time // UTC; zero: not applied
	Later     bool      // of a later release: this one does not know it, and does not work on the database
}

// MigrationStatus returns all migrations that this release knows, and those beyond that a later one has applied, by number. It
// changes nothing; of a file that is not there none is applied.
func MigrationStatus(ctx context.Context, path string) (status []Migration, err error) {
	all, err := migrations()
	if err != nil {
		return nil, err
	}
	if err := inspect(path, func(db *sql.DB) error {
		status, err = readApplied(ctx, db)
		return err
	}); err != nil {
		return nil, err
	}
	for i := range status {
		status[i].Later = status[i].Number > len(all)
	}
	for _, m := range all {
		if !slices.ContainsFunc(status, func(applied Migration) bool { return applied.Number == m.number }) {
			status = append(status, Migration{Number: m.number, Name: m.name})
		}
	}
	slices.SortFunc(status, func(a, b Migration) int { return a.Number - b.Number })
	return status, nil
}

// MigrationSQL returns the SQL of the migrations after a number (0: of all), with what notes them as applied, for whoever wants to
// read it. [Open] applies them by itself.
func MigrationSQL(after int) (string, error) {
	all, err := migrations()
	if err != nil {
		return "", err
	}
	if after < 0 || after > len(all) {
		return "", fmt.Errorf("there is no migration %d, want 0 to %d", after, len(all))
	}
	var b strings.Builder
	b.WriteString("BEGIN IMMEDIATE;\n\n")
	if after == 0 {
		b.WriteString(createMigrations + ";\n\n")
	}
	for _, m := range all[after:] {
		fmt.Fprintf(&b, "-- %s\n%s\nINSERT INTO chargeonce_migrations (number, name, applied_at) VALUES (%d, '%s', CAST(1000000 * unixepoch('subsec') AS INTEGER));\n\n",
			m.name, strings.TrimSpace(m.sql), m.number, m.name)
	}
	b.WriteString("COMMIT;\n")
	return b.String(), nil
}

// Validate looks whether a file's schema is as this release needs it: its number, and every table and index. It reports all that
// is amiss at once, with what to do about it, and changes nothing.
func Validate(ctx context.Context, path string) error {
	sqlOfAll, err := MigrationSQL(0)
	if err != nil {
		return err
	}
	memory, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	defer func() { _ = memory.Close() }() // nothing is kept in it
	memory.SetMaxOpenConns(1)             // another connection would have another database
	if _, err := memory.ExecContext(ctx, sqlOfAll); err != nil {
		return err
	}
	want, err := readShape(ctx, memory)
	if err != nil {
		return err
	}
	known, err := readApplied(ctx, memory)
	if err != nil {
		return err
	}
	return inspect(path, func(db *sql.DB) error {
		if db == nil {
			return fmt.Errorf("%s: there is no such database", path)
		}
		applied, err := readApplied(ctx, db)
		if err != nil {
			return err
		}
		number := 0
		if len(applied) > 0 {
			number = applied[len(applied)-1].Number
		}
		if number > len(known) {
			return tooNew(number, len(known))
		}
		var errs []error
		for _, m := range known {
			if !slices.ContainsFunc(applied, func(a Migration) bool { return a.Number == m.Number }) {
				errs = append(errs, fmt.Errorf("the database has schema %d and this release needs %d: bring it up with `chargeonce migrate up`, or sqlite.Open",
					m.Number-1, len(known)))
				break
			}
		}
		behind := len(errs) > 0
		have, err := readShape(ctx, db)
		if err != nil {
			return err
		}
		for _, name := range want.names {
			switch is, ok := have.is[name]; {
			case !ok:
				errs = append(errs, fmt.Errorf("%s is missing", name))
			case is != want.is[name]:
				errs = append(errs, fmt.Errorf("%s is %s, want %s", name, is, want.is[name]))
			}
		}
		if len(errs) > 0 && !behind {
			errs = append(errs, errors.New(remedyForDamage))
		}
		return errors.Join(errs...)
	})
}

// inspect runs f on the file for reading, and leaves everything as it is; db is nil where there is no file, or an empty one.
func inspect(path string, f func(db *sql.DB) error) (err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0:
		return f(nil)
	case err != nil:
		return err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if abs = filepath.ToSlash(abs); abs[0] != '/' {
		abs = "/" + abs // "C:/x"
	}
	// Without a log beside it SQLite would make one even to read: https://www.sqlite.org/wal.html#read_only_databases
	query := "mode=ro&immutable=1"
	if _, err := os.Stat(path + "-wal"); err == nil {
		query = "mode=ro&_busy_timeout=5000"
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: abs, RawQuery: query}).String())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := f(db); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// readApplied reads what was applied, by number.
func readApplied(ctx context.Context, db *sql.DB) (applied []Migration, err error) {
	if db == nil {
		return nil, nil
	}
	there := 0
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE name = 'chargeonce_migrations'").Scan(&there); err != nil || there == 0 {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SELECT number, name, applied_at FROM chargeonce_migrations WHERE number > 0 ORDER BY number")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var m Migration
		var at int64
		if err := rows.Scan(&m.Number, &m.Name, &at); err != nil {
			return nil, err
		}
		m.AppliedAt = time.UnixMicro(at).UTC()
		applied = append(applied, m)
	}
	return applied, rows.Err()
}

// shape is what a schema consists of: the columns with what they take, and the indexes with what is in them.
type shape struct {
	names []string
	is    map[string]string
}

func readShape(ctx context.Context, db *sql.DB) (s shape, err error) {
	s.is = make(map[string]string)
	rows, err := db.QueryContext(ctx, `
		SELECT m.name || '.' || c.name, c.type || iif(c."notnull", ' NOT NULL', '') || iif(c.pk, ' PRIMARY KEY ' || c.pk, '')
			|| coalesce(' DEFAULT ' || c.dflt_value, '')
		FROM sqlite_schema m JOIN pragma_table_xinfo(m.name) c WHERE m.type = 'table' AND m.name LIKE 'chargeonce\_%' ESCAPE '\'
		UNION ALL
		SELECT 'index ' || l.name, iif(l."unique", 'unique ', '') || iif(l.partial, 'partial ', '') || 'on ' || m.name || ' ('
			|| (SELECT group_concat(coalesce(x.name, 'an expression'), ', ') FROM pragma_index_info(l.name) x) || ')'
		FROM sqlite_schema m JOIN pragma_index_list(m.name) l WHERE m.type = 'table' AND m.name LIKE 'chargeonce\_%' ESCAPE '\'
		ORDER BY 1`)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name, is string
		if err := rows.Scan(&name, &is); err != nil {
			return s, err
		}
		s.names = append(s.names, name)
		s.is[name] = is
	}
	return s, rows.Err()
}

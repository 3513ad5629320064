package sqlite

import (
	"context"
	"database/sql/driver"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

type migration struct {
	number int
	name   string
	sql    string
}

// migrations returns the embedded migrations, the n-th at index n-1.
func migrations() ([]migration, error) {
	entries, err := fs.ReadDir(migrationFiles, "migrations") // by name, so by number
	if err != nil {
		return nil, err
	}
	var all []migration
	for _, e := range entries {
		text, err := fs.ReadFile(migrationFiles, "migrations/"+e.Name())
		if err != nil {
			return nil, err
		}
		digits, _, _ := strings.Cut(e.Name(), "_")
		n, err := strconv.Atoi(digits)
		if err != nil || n != len(all)+1 {
			return nil, fmt.Errorf("migration %s: want number %d", e.Name(), len(all)+1)
		}
		all = append(all, migration{number: n, name: strings.TrimSuffix(e.Name(), ".sql"), sql: string(text)})
	}
	return all, nil
}

// migrate brings the schema up to what this release knows, all of it in one transaction. Processes that open the same
// file at once do so one after another: each reads under the lock how far the one before it has come.
func migrate(ctx context.Context, s session, now time.Time) error {
	all, err := migrations()
	if err != nil {
		return err
	}
	if err := s.exec1(`CREATE TABLE IF NOT EXISTS chargeonce_migrations (
		number     INTEGER PRIMARY KEY,
		name       TEXT NOT NULL,
		applied_at INTEGER NOT NULL
	) STRICT`); err != nil {
		return err
	}
	have, err := schemaNumber(s)
	if err != nil {
		return err
	}
	if have > len(all) {
		return fmt.Errorf("the database has schema %d, this release knows %d: upgrade chargeonce", have, len(all))
	}
	for _, m := range all[have:] {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.exec1(m.sql); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
		if err := s.exec1("INSERT INTO chargeonce_migrations (number, name, applied_at) VALUES (?, ?, ?)",
			int64(m.number), m.name, now.UnixMicro()); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
	}
	return nil
}

// schemaNumber returns the number of the last migration applied.
func schemaNumber(s session) (int, error) {
	number := 0
	err := s.query1("SELECT coalesce(max(number), 0) FROM chargeonce_migrations", func(row []driver.Value) error {
		n, ok := row[0].(int64)
		if !ok {
			return fmt.Errorf("schema number: %v is no number", row[0])
		}
		number = int(n)
		return nil
	})
	return number, err
}

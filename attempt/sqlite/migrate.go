package sqlite

import (
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

const createMigrations = `CREATE TABLE IF NOT EXISTS chargeonce_migrations (
	number     INTEGER PRIMARY KEY,
	name       TEXT NOT NULL,
	applied_at INTEGER NOT NULL -- Unix microseconds
) STRICT`

// migrate brings the schema up to what this release knows, all of it in one transaction. Processes that open the same
// file at once do so one after another: each sees under the lock how far the one before it has come.
func migrate(s session, now time.Time, made draft) error {
	all, err := migrations()
	if err != nil {
		return err
	}
	if err := s.exec1(createMigrations); err != nil {
		return err
	}
	have, err := schemaNumber(s)
	if err != nil {
		return err
	}
	drafted := max(0, -have)
	if drafted > 0 {
		if !made.isOf() {
			return &logLostError{made.called}
		}
		if err := s.exec1("DELETE FROM chargeonce_migrations WHERE number < 0"); err != nil {
			return err
		}
		have = 0
	}
	if max(have, drafted) > len(all) {
		return tooNew(max(have, drafted), len(all))
	}
	for _, m := range all[have:] {
		if m.number > drafted {
			if err := s.exec1(m.sql); err != nil {
				if text := err.Error(); strings.Contains(text, "duplicate column name") || strings.Contains(text, "already exists") {
					err = fmt.Errorf("nothing was changed: what it makes is there although it is not noted as applied: was its note removed? "+
						"Where `chargeonce migrate validate` finds nothing amiss but the number, note it: "+
						"INSERT INTO chargeonce_migrations (number, name, applied_at) VALUES (%d, '%s', 0): %w", m.number, m.name, err)
				}
				return fmt.Errorf("migration %s: %w", m.name, err)
			}
		}
		if err := s.exec1("INSERT INTO chargeonce_migrations (number, name, applied_at) VALUES (?, ?, ?)",
			int64(m.number), m.name, now.UnixMicro()); err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
	}
	return nil
}

// isCurrent tells whether there is nothing to migrate, so that opening needs no lock then.
func isCurrent(s session) (bool, error) {
	all, err := migrations()
	if err != nil {
		return false, err
	}
	found := false
	err = s.query1("SELECT 1 FROM sqlite_schema WHERE name = 'chargeonce_migrations'", func([]driver.Value) error {
		found = true
		return nil
	})
	if err != nil || !found {
		return false, err
	}
	have, err := schemaNumber(s)
	switch {
	case err != nil:
		return false, err
	case have > len(all):
		return false, tooNew(have, len(all))
	case have < len(all):
		return false, nil
	}
	return true, checkTables(s)
}

// remedyForDamage: what the tables held is what keeps a payment from being made twice.
const remedyForDamage = "was it dropped, or restored in part? `chargeonce migrate validate` lists all that is amiss. " +
	"Bring the database back from a backup before anything is paid; where nothing was ever paid, begin with a new file"

// checkTables fails where a table is missing in a database that is noted as up to date.
func checkTables(s session) error {
	var missing []string
	err := s.query1(`SELECT value FROM json_each('["slots","attempts","events","notes","relays","outbox"]')
		WHERE 'chargeonce_' || value NOT IN (SELECT name FROM sqlite_schema WHERE type = 'table')`, func(row []driver.Value) error {
		d := decoder{values: row}
		missing = append(missing, "chargeonce_"+d.text("value"))
		return d.err
	})
	if err != nil || missing == nil {
		return err
	}
	return fmt.Errorf("%s: missing in a database where it was made: %s", strings.Join(missing, ", "), remedyForDamage)
}

func tooNew(have, known int) error {
	return fmt.Errorf("the database has schema %d, this release knows %d: use a later release", have, known)
}

// schemaNumber returns the number of the last migration applied; negative in a draft, see [image].
func schemaNumber(s session) (int, error) {
	number := 0
	err := s.query1("SELECT coalesce(max(number), 0) FROM chargeonce_migrations", func(row []driver.Value) error {
		d := decoder{values: row}
		number = int(d.int64("number"))
		return d.err
	})
	return number, err
}

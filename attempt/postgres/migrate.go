package postgres

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// Migration is one change of the schema. Its number is that of the same change in every store.
type Migration struct {
	Number int
	Name   string
	// Needs is the least number that a release must know to work on a schema with this migration: older releases go on, and may be
	// started, up to there.
	Needs     int
	AppliedAt time.Time // by the server's clock, UTC; zero: not applied
	Later     bool      // of a later release: this one does not know it, and works on the schema if it knows Needs

	sql string
}

// MigrateOptions say what is migrated. The zero MigrateOptions are the defaults.
type MigrateOptions struct {
	// Schema is where the tables are. Empty: "chargeonce". It is made where it is missing.
	Schema string
}

func (o MigrateOptions) withDefaults() MigrateOptions {
	o.Schema = cmp.Or(o.Schema, defaultSchema)
	return o
}

func validSchema(schema string) error {
	if schema == "" || len(schema) > 63 || !utf8.ValidString(schema) || strings.ContainsFunc(schema, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("schema: %q is no name of a schema, want 1 to 63 bytes", schema)
	}
	return nil
}

// migrations returns the embedded migrations, the n-th at index n-1.
func migrations() ([]Migration, error) {
	entries, err := fs.ReadDir(migrationFiles, "migrations") // by name, so by number
	if err != nil {
		return nil, err
	}
	var all []Migration
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
		first, _, _ := strings.Cut(string(text), "\n")
		needs, err := strconv.Atoi(strings.TrimPrefix(first, "-- needs: "))
		if err != nil || needs < 1 || needs > n {
			return nil, fmt.Errorf("migration %s: want a first line \"-- needs: NUMBER\", at most its own", e.Name())
		}
		all = append(all, Migration{Number: n, Name: strings.TrimSuffix(e.Name(), ".sql"), Needs: needs, sql: string(text)})
	}
	return all, nil
}

// in is the SQL of a migration for a schema.
func (m Migration) in(schema string) string {
	return strings.ReplaceAll(m.sql, "{schema}", pgx.Identifier{schema}.Sanitize())
}

func createMigrations(schema string) string {
	return "CREATE TABLE IF NOT EXISTS " + pgx.Identifier{schema}.Sanitize() + `.chargeonce_migrations (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    needs      integer NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)`
}

// Migrate brings the schema up to what this release knows, and returns what it has applied. Processes that do so at once do it one
// after another; each migration is applied as a whole or not at all. It needs a role that may create tables in the schema, and the
// schema itself where it is missing.
//
// Stores of this release and of the one before go on meanwhile. A migration waits 3 s at most for a table that a slow transaction
// uses, since everybody else would wait behind it, and is then tried again until ctx ends.
func Migrate(ctx context.Context, url string, opts MigrateOptions) (applied []Migration, err error) {
	err = migrating(ctx, url, &opts, func(c *pgx.Conn, all []Migration) error {
		v, err := askServer(ctx, c)
		if err != nil {
			return err
		}
		if err := new(Store).check(v, true); err != nil {
			return err
		}
		for {
			done, err := migrateNext(ctx, c, opts.Schema, all)
			switch {
			case code(err) == codeLockNotAvailable && sleep(ctx, time.Second) == nil:
				continue
			case err != nil:
				return err
			case done == nil:
				return checkWhole(ctx, pgxSession{c}, opts.Schema, len(all))
			}
			applied = append(applied, *done)
		}
	})
	return applied, err
}

// checkWhole fails where a schema is noted as up to date and is not: nothing would ever mend it, and whoever pays would fail.
func checkWhole(ctx context.Context, db session, schema string, known int) error {
	applied, _, err := appliedMigrations(ctx, db, schema)
	if err != nil || applied[len(applied)-1].Number > known { // what a later release has made of it is not for this one to judge
		return err
	}
	damage, err := damageOf(ctx, db, schema)
	if err != nil || damage == nil {
		return err
	}
	return errors.Join(errors.New("the schema is noted as up to date, but"), damage, errors.New(remedyForDamage))
}

// migrating runs f on a connection of its own.
func migrating(ctx context.Context, url string, opts *MigrateOptions, f func(*pgx.Conn, []Migration) error) (err error) {
	*opts = opts.withDefaults()
	defer func() {
		if err != nil {
			err = fmt.Errorf("migrate PostgreSQL schema %q: %w", opts.Schema, (&Store{opts: Options{Schema: opts.Schema}}).explain(err))
		}
	}()
	if err := validSchema(opts.Schema); err != nil {
		return err
	}
	all, err := migrations()
	if err != nil {
		return err
	}
	cfg, chosen, err := parse(url)
	if err != nil {
		return err
	}
	if !chosen { // nothing here is worth preparing
		cfg = unprepared(cfg)
	}
	if severalHosts(cfg) { // of which one takes writes
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return connectError(cfg, err)
	}
	defer func() { hangUp(&conn{Conn: c}) }()
	return f(c, all)
}

// migrateNext applies the next migration; nil: there is none.
func migrateNext(ctx context.Context, c *pgx.Conn, schema string, all []Migration) (done *Migration, err error) {
	tx, err := c.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback(context.WithoutCancel(ctx)) // where it fails, the connection has ended, and the transaction with it
		}
	}()
	lock := (&Store{opts: Options{Schema: schema}}).lockOf("migrate")
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1::bigint)", lock); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '3s'"); err != nil {
		return nil, err
	}
	applied, there, err := appliedMigrations(ctx, pgxSession{tx}, schema)
	if err != nil {
		return nil, err
	}
	if !there {
		var exists bool
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1::text)", schema).Scan(&exists); err != nil {
			return nil, err
		}
		if !exists { // asked first: IF NOT EXISTS needs the right to create schemas also where there is one
			if _, err := tx.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{schema}.Sanitize()); err != nil {
				return nil, err
			}
		}
		if _, err := tx.Exec(ctx, createMigrations(schema)); err != nil {
			return nil, err
		}
	}
	if err := checkNotNewer(applied, len(all)); err != nil {
		return nil, err
	}
	missing := notApplied(applied, all)
	if len(missing) == 0 {
		return nil, tx.Commit(ctx)
	}
	next := missing[0]
	// The simple protocol takes several statements.
	if _, err := tx.Exec(ctx, next.in(schema), pgx.QueryExecModeSimpleProtocol); err != nil {
		switch code(err) {
		case codeDuplicateColumn, codeDuplicateTable, codeDuplicateObject:
			err = fmt.Errorf("nothing was changed: what it makes is there although it is not noted as applied: was it applied by hand, or its note removed? "+
				"Where `chargeonce migrate validate` finds nothing amiss but the number, note it: INSERT INTO %s (number, name, needs) VALUES (%d, '%s', %d): %w",
				pgx.Identifier{schema, "chargeonce_migrations"}.Sanitize(), next.Number, next.Name, next.Needs, err)
		}
		return nil, fmt.Errorf("migration %s: %w", next.Name, err)
	}
	err = tx.QueryRow(ctx, "INSERT INTO "+pgx.Identifier{schema}.Sanitize()+".chargeonce_migrations (number, name, needs) VALUES ($1::integer, $2::text, $3::integer) RETURNING applied_at",
		next.Number, next.Name, next.Needs).Scan(&next.AppliedAt)
	if err != nil {
		return nil, fmt.Errorf("migration %s: %w", next.Name, err)
	}
	next.AppliedAt = next.AppliedAt.UTC()
	return &next, tx.Commit(ctx)
}

// appliedMigrations reads what was applied, by number. there is false where not even their table is.
func appliedMigrations(ctx context.Context, db session, schema string) (applied []Migration, there bool, err error) {
	table := pgx.Identifier{schema, "chargeonce_migrations"}.Sanitize()
	err = db.run(ctx, query{text: "SELECT to_regclass($1::text) IS NOT NULL", args: []any{table}, row: func(row []any) error {
		d := decoder{values: row}
		there = d.bool("to_regclass")
		return d.err
	}})
	if err != nil || !there {
		return nil, there, err
	}
	err = db.run(ctx, query{text: "SELECT number, name, needs, applied_at FROM " + table + " ORDER BY number", row: func(row []any) error {
		d := decoder{values: row}
		applied = append(applied, Migration{Number: d.count("number"), Name: d.text("name"), Needs: d.count("needs"), AppliedAt: d.time("applied_at")})
		return d.err
	}})
	return applied, true, err
}

// notApplied returns those of all that were not applied, by number. A gap is none that any release leaves.
func notApplied(applied, all []Migration) []Migration {
	return slices.DeleteFunc(slices.Clone(all), func(m Migration) bool {
		return slices.ContainsFunc(applied, func(a Migration) bool { return a.Number == m.Number })
	})
}

// checkNotNewer fails if a release that knows so many migrations cannot work on a schema to which these were applied.
func checkNotNewer(applied []Migration, known int) error {
	for _, m := range applied {
		if m.Needs > known {
			return fmt.Errorf("the schema has migration %d (%s), which needs a release that knows %d, and this one knows %d: use a later release",
				m.Number, m.Name, m.Needs, known)
		}
	}
	return nil
}

// checkSchema fails if the schema is not one that this release works on.
func checkSchema(ctx context.Context, db session, schema string) error {
	all, err := migrations()
	if err != nil {
		return err
	}
	applied, there, err := appliedMigrations(ctx, db, schema)
	switch {
	case err != nil:
		return err
	case !there:
		return fmt.Errorf("there are no tables in schema %q: make them with `chargeonce migrate up`, or postgres.Migrate", schema)
	}
	if missing := notApplied(applied, all); len(missing) > 0 {
		return fmt.Errorf("schema %q is at number %d and this release needs %d: bring it up with `chargeonce migrate up`, or postgres.Migrate",
			schema, missing[0].Number-1, len(all))
	}
	return checkNotNewer(applied, len(all))
}

// MigrationStatus returns all migrations that this release knows, and those beyond that a later one has applied, by number.
func MigrationStatus(ctx context.Context, url string, opts MigrateOptions) (status []Migration, err error) {
	err = migrating(ctx, url, &opts, func(c *pgx.Conn, all []Migration) error {
		applied, _, err := appliedMigrations(ctx, pgxSession{c}, opts.Schema)
		status = append(applied, notApplied(applied, all)...)
		for i := range status {
			status[i].Later = status[i].Number > len(all)
		}
		slices.SortFunc(status, func(a, b Migration) int { return a.Number - b.Number })
		return err
	})
	return status, err
}

// MigrationSQL returns the SQL of the migrations after a number (0: of all), with what notes them as applied, for whoever applies
// them by hand: as a whole, in one transaction.
func MigrationSQL(opts MigrateOptions, after int) (string, error) {
	opts = opts.withDefaults()
	if err := validSchema(opts.Schema); err != nil {
		return "", err
	}
	all, err := migrations()
	if err != nil {
		return "", err
	}
	if after < 0 || after > len(all) {
		return "", fmt.Errorf("there is no migration %d, want 0 to %d", after, len(all))
	}
	name := pgx.Identifier{opts.Schema}.Sanitize()
	var b strings.Builder
	b.WriteString("BEGIN;\n\n")
	if after == 0 {
		b.WriteString("CREATE SCHEMA IF NOT EXISTS " + name + ";\n" + createMigrations(opts.Schema) + ";\n\n")
	}
	for _, m := range all[after:] {
		fmt.Fprintf(&b, "-- %s\n%s\nINSERT INTO %s.chargeonce_migrations (number, name, needs) VALUES (%d, '%s', %d);\n\n",
			m.Name, strings.TrimSpace(m.in(opts.Schema)), name, m.Number, m.Name, m.Needs)
	}
	b.WriteString("COMMIT;\n")
	return b.String(), nil
}

package chargeonceriver

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5" //nolint:depguard // the driver of River, which this module is for
	"github.com/riverqueue/river"
)

// InstallOptions say where the tables are, and what becomes of the jobs. The zero InstallOptions are the defaults.
type InstallOptions struct {
	// Schema is where the chargeonce tables are. Empty: "chargeonce".
	Schema string
	// RiverSchema is where River's tables are. Empty: "public".
	RiverSchema string
	// Queue is the queue of the jobs. Empty: River's default queue.
	Queue string
	// Priority is the jobs' priority, from 1, the highest, to 4. Zero: 1.
	Priority int
}

func (o InstallOptions) withDefaults() InstallOptions {
	if o.Schema == "" {
		o.Schema = "chargeonce"
	}
	if o.RiverSchema == "" {
		o.RiverSchema = "public"
	}
	if o.Queue == "" {
		o.Queue = river.QueueDefault
	}
	if o.Priority == 0 {
		o.Priority = 1
	}
	return o
}

const (
	maxName  = 63  // bytes of a name, PostgreSQL documentation, section 4.1.1
	maxQueue = 127 // characters, as River's table has it
)

func (o InstallOptions) validate() error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, f := range []struct{ field, name string }{{"Schema", o.Schema}, {"RiverSchema", o.RiverSchema}} {
		if len(f.name) > maxName || !storable(f.name) {
			fail("%s: %q is no name of a schema", f.field, f.name)
		}
	}
	if !storable(o.Queue) || utf8.RuneCountInString(o.Queue) > maxQueue {
		fail("Queue: %q is no name of a queue", o.Queue)
	}
	if o.Priority < 1 || o.Priority > 4 {
		fail("Priority: %d, want 1 to 4", o.Priority)
	}
	return errors.Join(errs...)
}

// storable tells whether a text can stand in the script, between the quotes that its function has.
func storable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0) && !strings.Contains(text, "$chargeonce$")
}

//go:embed trigger.sql
var triggerSQL string

const dropSQL = `DROP TRIGGER IF EXISTS chargeonce_river_inserted ON {schema}.chargeonce_attempts;
DROP TRIGGER IF EXISTS chargeonce_river_updated ON {schema}.chargeonce_attempts;
DROP FUNCTION IF EXISTS {schema}.chargeonce_river_job();
`

func (o InstallOptions) fill(text string) string {
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	return strings.NewReplacer(
		"{schema}", pgx.Identifier{o.Schema}.Sanitize(), "{river}", pgx.Identifier{o.RiverSchema}.Sanitize(),
		"{attempts}", quoted(pgx.Identifier{o.Schema}.Sanitize()+".chargeonce_attempts"), "{kind}", quoted(kindLook), "{queue}", quoted(o.Queue), "{priority}", fmt.Sprint(o.Priority),
	).Replace(text)
}

// InstallSQL returns the SQL that makes the trigger which inserts jobs: a script for a DBA to run in one transaction, as the owner of
// the chargeonce tables, who must be allowed to read and insert into river_job and to use its sequence. It may be run again, as
// with other options.
//
// The trigger's function runs with its owner's rights, so the role of the store needs none on River's tables.
func InstallSQL(opts InstallOptions) (string, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return "", fmt.Errorf("chargeonceriver: %w", err)
	}
	return opts.fill(triggerSQL), nil
}

// UninstallSQL returns the SQL that takes the trigger away. Jobs that are there are worked off.
func UninstallSQL(opts InstallOptions) (string, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return "", fmt.Errorf("chargeonceriver: %w", err)
	}
	return opts.fill(dropSQL), nil
}

// DB is a connection or a pool of pgx.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Install makes the trigger that inserts jobs, in a transaction of its own; where it is there, only its function is made anew. It
// belongs behind the migrations of both, attempt/postgres and River (at least River's migration 6), and is to be run again after
// the options have changed. It fails and changes nothing where one of the tables is not there, or the role may not do it; see
// [InstallSQL].
func Install(ctx context.Context, db DB, opts InstallOptions) error {
	script, err := InstallSQL(opts)
	if err != nil {
		return err
	}
	opts = opts.withDefaults()
	err = inTx(ctx, db, func(tx pgx.Tx) error {
		if err := opts.check(ctx, tx); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, script, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err != nil {
		return fmt.Errorf("chargeonceriver: install: %w", err)
	}
	return nil
}

// Uninstall takes the trigger away. Where there is none it does nothing. Jobs that are there are worked off.
func Uninstall(ctx context.Context, db DB, opts InstallOptions) error {
	script, err := UninstallSQL(opts)
	if err != nil {
		return err
	}
	err = inTx(ctx, db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, script, pgx.QueryExecModeSimpleProtocol)
		return err
	})
	if err != nil {
		return fmt.Errorf("chargeonceriver: uninstall: %w", err)
	}
	return nil
}

func inTx(ctx context.Context, db DB, f func(pgx.Tx) error) error {
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
	}
	return tx.Commit(ctx)
}

// check looks whether the tables have what the trigger uses.
func (o InstallOptions) check(ctx context.Context, tx pgx.Tx) error {
	for _, table := range []struct{ schema, name, columns, remedy string }{
		{o.Schema, "chargeonce_attempts", "id,status,next_check_at", "migrate the store first (attempt/postgres)"},
		{o.RiverSchema, "river_job", "kind,args,queue,priority,state,scheduled_at,max_attempts,unique_key,unique_states", "run River's migrations first"},
	} {
		var missing []string
		err := tx.QueryRow(ctx, `SELECT coalesce(array_agg(c), '{}') FROM unnest(string_to_array($3, ',')) AS c WHERE NOT EXISTS (
			SELECT FROM pg_attribute a JOIN pg_class t ON t.oid = a.attrelid JOIN pg_namespace n ON n.oid = t.relnamespace
			WHERE n.nspname = $1 AND t.relname = $2 AND a.attname = c AND a.attnum > 0 AND NOT a.attisdropped)`,
			table.schema, table.name, table.columns).Scan(&missing)
		if err != nil {
			return err
		}
		if len(missing) > 0 {
			return fmt.Errorf("table %s.%s lacks %s: %s", table.schema, table.name, strings.Join(missing, ", "), table.remedy)
		}
	}
	return nil
}

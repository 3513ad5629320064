package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// rights are what the store's role must be allowed on the tables.
var rights = []struct{ table, rights string }{
	{"slots", "SELECT, INSERT, UPDATE"},
	{"attempts", "SELECT, INSERT, UPDATE"},
	{"events", "SELECT, INSERT"},
	{"notes", "SELECT, INSERT, UPDATE"},
	{"relays", "SELECT, INSERT, DELETE"},
	{"outbox", "SELECT, INSERT, UPDATE, DELETE"},
	{"migrations", "SELECT"},
}

// checkRights fails if a table is not there, or the role lacks a right on one.
func checkRights(ctx context.Context, db session, s *statements) error {
	var asked []string
	for _, r := range rights {
		for _, one := range strings.Split(r.rights, ", ") {
			asked = append(asked, fmt.Sprintf("('%s', '%schargeonce_%s')", one, strings.ReplaceAll(s.schema, "'", "''"), r.table))
		}
	}
	var missing, tables []string
	role := ""
	err := db.run(ctx, query{text: "SELECT current_user::text, asked.name, asked.relation, to_regclass(asked.relation) IS NOT NULL" +
		" FROM (VALUES " + strings.Join(asked, ", ") + ") AS asked(name, relation)" +
		" WHERE NOT coalesce(has_table_privilege(to_regclass(asked.relation), asked.name), false)", row: func(row []any) error {
		d := decoder{values: row}
		role = d.text("current_user")
		name, relation := d.text("name"), d.text("relation")
		if d.bool("is") {
			missing = append(missing, name+" on "+relation)
		} else if !slices.Contains(tables, relation) {
			tables = append(tables, relation)
		}
		return d.err
	}})
	switch {
	case err != nil:
		return err
	case tables != nil:
		return fmt.Errorf("%s: missing in a schema where it was made: %s", strings.Join(tables, ", "), remedyForDamage)
	case missing == nil:
		return nil
	}
	return fmt.Errorf("role %q lacks rights: %s; postgres.Grants and `chargeonce migrate sql --grant ROLE` write the statements that grant them", role, strings.Join(missing, ", "))
}

// Grants returns the SQL that gives a role what a store needs, and no more.
func Grants(opts MigrateOptions, role string) (string, error) {
	opts = opts.withDefaults()
	if err := validSchema(opts.Schema); err != nil {
		return "", err
	}
	schema, to := pgx.Identifier{opts.Schema}.Sanitize(), pgx.Identifier{role}.Sanitize()
	var b strings.Builder
	fmt.Fprintf(&b, "GRANT USAGE ON SCHEMA %s TO %s;\n", schema, to)
	for _, r := range rights {
		fmt.Fprintf(&b, "GRANT %s ON %s.chargeonce_%s TO %s;\n", r.rights, schema, r.table, to)
	}
	return b.String(), nil
}

// tables lists the columns that this release works with, by table.
func tables() map[string][]column {
	event := slices.Concat(columns("uuid", "attempt_id"), columns("integer", "version"), eventColumns)
	return map[string][]column{
		"slots": slices.Concat(columns("bigint", "id"), slotColumns, columns("uuid", "live"), columns("timestamptz", "closed_at"),
			columns("text", "closed_by", "closed_why")),
		"attempts": slices.Concat(columns("bigint", "seq", "slot"), attemptColumns),
		"events":   event,
		"notes":    slices.Concat(columns("text", "scope", "id"), columns("uuid", "attempt_id"), columns("timestamptz", "at"), columns("bytea", "data")),
		"relays":   columns("text", "name"),
		"outbox": slices.Concat(columns("text", "relay"), columns("uuid", "attempt_id"), columns("integer", "version"),
			columns("timestamptz", "at", "taken_until")),
	}
}

// indexes are those without which a promise does not hold, or costs what it must not.
var indexes = []string{
	"chargeonce_slots_order_id_account_purpose_key", "chargeonce_attempts_pkey", "chargeonce_attempts_slot_ordinal_key",
	"chargeonce_attempts_seq_key", "chargeonce_events_pkey", "chargeonce_notes_pkey", "chargeonce_relays_pkey", "chargeonce_outbox_pkey",
	"chargeonce_open", "chargeonce_live_refunds", "chargeonce_owing", "chargeonce_charged", "chargeonce_orphans",
	"chargeonce_notes_of", "chargeonce_undelivered",
}

// Validate looks whether the schema is as this release needs it: its number, every column with its type, every index, valid. It
// reports all that is amiss at once, and what to do about it.
func Validate(ctx context.Context, url string, opts MigrateOptions) error {
	return migrating(ctx, url, &opts, func(c *pgx.Conn, _ []Migration) error {
		db := pgxSession{c}
		_, there, err := appliedMigrations(ctx, db, opts.Schema)
		if err != nil {
			return err
		}
		number := checkSchema(ctx, db, opts.Schema)
		if !there {
			return number
		}
		damage, err := damageOf(ctx, db, opts.Schema)
		if err != nil {
			return err
		}
		if damage == nil {
			return number
		}
		if number != nil { // parts of a later number are missing too, and need no remedy of their own
			return errors.Join(number, damage)
		}
		return errors.Join(damage, errors.New(remedyForDamage))
	})
}

// damageOf lists what the schema lacks of what this release needs, or has otherwise.
func damageOf(ctx context.Context, db session, schema string) (damage, err error) {
	have := map[string]string{}
	err = db.run(ctx, query{text: `SELECT c.relname::text || '.' || a.attname::text, format_type(a.atttypid, NULL)
			|| CASE WHEN a.atttypid = 'text'::regtype AND co.collname <> 'C' THEN ' COLLATE ' || co.collname ELSE '' END
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
		LEFT JOIN pg_collation co ON co.oid = a.attcollation
		WHERE n.nspname = $1::text AND a.attnum > 0 AND NOT a.attisdropped
		UNION ALL SELECT 'index ' || i.relname::text, CASE WHEN x.indisvalid THEN 'valid' ELSE 'invalid' END
		FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_namespace n ON n.oid = i.relnamespace WHERE n.nspname = $1::text`,
		args: []any{schema}, row: func(row []any) error {
			d := decoder{values: row}
			name := d.text("name")
			have[name] = d.text("is")
			return d.err
		}})
	if err != nil {
		return nil, err
	}
	var errs []error
	want := func(name, is string) {
		if got, ok := have[name]; !ok {
			errs = append(errs, fmt.Errorf("%s is missing", name))
		} else if got != is {
			errs = append(errs, fmt.Errorf("%s is %s, want %s", name, got, is))
		}
	}
	all := tables()
	for _, table := range []string{"slots", "attempts", "events", "notes", "relays", "outbox"} {
		for _, col := range all[table] {
			kind := col.kind
			if kind == "timestamptz" {
				kind = "timestamp with time zone"
			}
			want("chargeonce_"+table+"."+col.name, kind)
		}
	}
	for _, name := range indexes {
		want("index "+name, "valid")
	}
	return errors.Join(errs...), nil
}

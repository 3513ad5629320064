package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/jackc/pgx/v5"
)

// Every store has the same migrations, so that a number means the same everywhere.
func TestSameNumbersAsSQLite(t *testing.T) {
	list := func(dir string) (names []string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	if here, there := list("migrations"), list("../sqlite/migrations"); !slices.Equal(here, there) {
		t.Errorf("migrations are %v, of SQLite %v", here, there)
	}
}

// A schema comes up from every number before, with what is in it.
func TestMigrateWithData(t *testing.T) {
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	for from := 1; from < len(all); from++ {
		schema := fmt.Sprintf("%s_from_%d", testSchema(t), from)
		admin(t, "CREATE SCHEMA "+schema, createMigrations(schema))
		t.Cleanup(func() { admin(t, "DROP SCHEMA "+schema+" CASCADE") })
		for _, m := range all[:from] {
			admin(t, m.in(schema), fmt.Sprintf("INSERT INTO %s.chargeonce_migrations (number, name, needs) VALUES (%d, '%s', %d)", schema, m.Number, m.Name, m.Needs))
		}
		admin(t, strings.ReplaceAll(`INSERT INTO s.chargeonce_slots (order_id, account, purpose, live) VALUES ('1001', '', 'charge', NULL);
			INSERT INTO s.chargeonce_attempts (id, slot, ordinal, idempotency_key, reference, amount, currency, decimals, source_key, source_digest,
				description, provider, provider_account, environment, body_digest, status, reason, version, created_at, updated_at, fence, duties)
			VALUES ('01890000-0000-7000-8000-000000000001', 1, 1, 'k', 'r', 1250, 'EUR', 2, '', 'd', '', 'test', '', '', '', 'declined', '', 1, now(), now(), 1,
				'[{"kind":"refund","charge_id":"ch_1","why":"late_money","opened_at":"2026-01-02T03:04:05Z"},
				{"kind":"review","charge_id":"ch_2","why":"reversed","opened_at":"2026-01-02T03:04:05Z","met_at":"2026-01-02T03:04:06Z"}]');
			INSERT INTO s.chargeonce_events (attempt_id, version, what, from_status, to_status, at, who)
			VALUES ('01890000-0000-7000-8000-000000000001', 1, 'started', 'prepared', 'declined', now(), '')`, "s.", schema+"."))

		applied, err := Migrate(t.Context(), testURL(t), MigrateOptions{Schema: schema})
		if err != nil || len(applied) != len(all)-from || applied[0].Number != from+1 || applied[0].AppliedAt.IsZero() {
			t.Fatalf("from %d: applied %+v, %v", from, applied, err)
		}
		if err := Validate(t.Context(), testURL(t), MigrateOptions{Schema: schema}); err != nil {
			t.Error(err)
		}
		s := openTest(t, schema, Options{})
		a := wantOne(t, s, "1001", attempt.StatusDeclined, 1)
		n := 0
		for owing, err := range s.List(t.Context(), attempt.Filter{Owing: true}) {
			if n++; err != nil || owing.ID != a.ID {
				t.Errorf("owing: %s, %v", owing.ID, err)
			}
		}
		if n != 1 || len(a.Duties) != 2 {
			t.Errorf("%d attempts owe, the one there has %d duties", n, len(a.Duties))
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestMigrateAtOnce(t *testing.T) {
	schema := testSchema(t) + "_at_once"
	t.Cleanup(func() { admin(t, "DROP SCHEMA "+schema+" CASCADE") })
	opts := MigrateOptions{Schema: schema}
	if status, err := MigrationStatus(t.Context(), testURL(t), opts); err != nil || len(status) == 0 || !status[0].AppliedAt.IsZero() {
		t.Errorf("before: %+v, %v", status, err)
	}
	if err := Validate(t.Context(), testURL(t), opts); err == nil {
		t.Error("a schema that is not there is valid")
	}
	done := make(chan int, 4)
	for range cap(done) {
		go func() {
			applied, err := Migrate(t.Context(), testURL(t), opts)
			if err != nil {
				t.Error(err)
			}
			done <- len(applied)
		}()
	}
	total := 0
	for range cap(done) {
		total += <-done
	}
	status, err := MigrationStatus(t.Context(), testURL(t), opts)
	if err != nil || total != len(status) || status[len(status)-1].AppliedAt.IsZero() {
		t.Errorf("%d applied, status %+v, %v", total, status, err)
	}
	// What is amiss is found.
	admin(t, "DROP INDEX "+schema+".chargeonce_owing", "ALTER TABLE "+schema+".chargeonce_attempts DROP COLUMN asks")
	err = Validate(t.Context(), testURL(t), opts)
	for _, w := range []string{"chargeonce_owing", "chargeonce_attempts.asks"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("Validate: %v, want it to name %s", err, w)
		}
	}
}

// What is applied by hand is what Migrate makes.
func TestMigrationSQL(t *testing.T) {
	schema := testSchema(t) + "_by hand" // to be quoted
	opts := MigrateOptions{Schema: schema}
	text, err := MigrationSQL(opts, 0)
	if err != nil {
		t.Fatal(err)
	}
	admin(t, text)
	t.Cleanup(func() { admin(t, "DROP SCHEMA "+pgx.Identifier{schema}.Sanitize()+" CASCADE") })
	if err := Validate(t.Context(), testURL(t), opts); err != nil {
		t.Error(err)
	}
	if applied, err := Migrate(t.Context(), testURL(t), opts); err != nil || len(applied) != 0 {
		t.Errorf("%d are left to apply: %v", len(applied), err)
	}
	s := openTest(t, schema, Options{})
	start(t, s, "1001")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := MigrationSQL(opts, 99); err == nil {
		t.Error("there is no migration 99")
	}
}

// A slow transaction on a table holds up the migration, and nobody behind it.
func TestMigrateBesideSlowTransaction(t *testing.T) {
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	schema := testSchema(t) + "_slow"
	admin(t, "CREATE SCHEMA "+schema, createMigrations(schema), all[0].in(schema),
		fmt.Sprintf("INSERT INTO %s.chargeonce_migrations (number, name, needs) VALUES (1, '%s', 1)", schema, all[0].Name))
	t.Cleanup(func() { admin(t, "DROP SCHEMA "+schema+" CASCADE") })
	ctx := t.Context()
	c, err := pgx.Connect(ctx, testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "SELECT FROM "+schema+".chargeonce_attempts"); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	short, cancel := context.WithCancel(ctx)
	go func() {
		_, err := Migrate(short, testURL(t), MigrateOptions{Schema: schema})
		migrated <- err
	}()
	for waits := false; !waits; { // for the table
		if err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = '"+schema+".chargeonce_attempts'::regclass)").Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-migrated; err == nil {
		t.Error("migrated beside a transaction that reads the table")
	} else if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Error(err)
	}
	if _, err := Migrate(ctx, testURL(t), MigrateOptions{Schema: schema}); err != nil {
		t.Error(err)
	}
}

// A release goes on with a schema that a later one has brought up, as long as that needs nothing it does not know.
func TestLaterSchemaThatFits(t *testing.T) {
	schema := testSchema(t)
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	admin(t, fmt.Sprintf("INSERT INTO %s.chargeonce_migrations (number, name, needs) VALUES (%d, 'an index', %d)", schema, len(all)+1, len(all)))
	s := openTest(t, schema, Options{})
	start(t, s, "1001")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	opts := MigrateOptions{Schema: schema}
	if applied, err := Migrate(t.Context(), testURL(t), opts); err != nil || len(applied) != 0 {
		t.Errorf("applied %+v: %v", applied, err)
	}
	if status, err := MigrationStatus(t.Context(), testURL(t), opts); err != nil || len(status) != len(all)+1 || status[len(all)].Name != "an index" {
		t.Errorf("status %+v: %v", status, err)
	}
	if err := Validate(t.Context(), testURL(t), opts); err != nil {
		t.Error(err)
	}
}

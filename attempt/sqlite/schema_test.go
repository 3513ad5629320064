package sqlite

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

// What the migrations would do, what they have done, and whether it is still there.
func TestSchemaIsTold(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.db")
	status, err := MigrationStatus(t.Context(), file)
	if err != nil || len(status) < 2 || !status[0].AppliedAt.IsZero() || status[0].Name != "0001_attempts" {
		t.Fatalf("%+v, %v; want all of them, not applied", status, err)
	}
	if err := Validate(t.Context(), file); err == nil || !strings.Contains(err.Error(), "no such database") {
		t.Errorf("no file: %v", err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("asking has made the file")
	}

	text, err := MigrationSQL(0)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), file, Options{})
	if err != nil {
		t.Fatalf("a schema made by hand is not opened: %v", err)
	}
	if err := s.AddRelay(t.Context(), "host"); err != nil { // makes a trigger
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := Validate(t.Context(), file); err != nil {
		t.Errorf("made by hand: %v", err)
	}
	status, err = MigrationStatus(t.Context(), file)
	if err != nil || status[0].AppliedAt.Year() < 2020 || status[len(status)-1].AppliedAt.IsZero() {
		t.Errorf("%+v, %v; want all of them, applied", status, err)
	}

	for statement, want := range map[string]string{
		"DROP INDEX chargeonce_owing":                              "index chargeonce_owing is missing",
		"ALTER TABLE chargeonce_attempts RENAME COLUMN sends TO n": "chargeonce_attempts.sends is missing",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
		if err := Validate(t.Context(), file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", statement, err)
		}
	}
	last := len(status)
	if _, err := db.ExecContext(t.Context(), "INSERT INTO chargeonce_migrations VALUES (?, 'of a later release', 0)", last+1); err != nil {
		t.Fatal(err)
	}
	if err := Validate(t.Context(), file); err == nil || !strings.Contains(err.Error(), "later release") {
		t.Errorf("newer: %v", err)
	}
	if status, err := MigrationStatus(t.Context(), file); err != nil || len(status) != last+1 {
		t.Errorf("newer: %d, %v", len(status), err)
	}
	if _, err := db.ExecContext(t.Context(), "DELETE FROM chargeonce_migrations WHERE number > 1"); err != nil {
		t.Fatal(err)
	}
	if err := Validate(t.Context(), file); err == nil || !strings.Contains(err.Error(), "chargeonce migrate up") {
		t.Errorf("older: %v", err)
	}
	for _, after := range []int{-1, last + 1} {
		if _, err := MigrationSQL(after); err == nil {
			t.Errorf("the SQL after migration %d", after)
		}
	}
}

// A database that somebody has taken something out of is refused with what is missing and what to do: what its tables held is what keeps a
// payment from being made twice, so that nothing is made anew in silence.
func TestDamagedSchema(t *testing.T) {
	const backup = "from a backup before anything is paid"
	for name, c := range map[string]struct {
		damage         string
		open, validate []string
	}{
		"a table": {"DROP TABLE chargeonce_notes",
			[]string{"chargeonce_notes: missing", "migrate validate", backup}, []string{"chargeonce_notes.scope is missing", backup}},
		"two tables": {"DROP TABLE chargeonce_events; DROP TABLE chargeonce_relays",
			[]string{"chargeonce_events, chargeonce_relays: missing"}, []string{"chargeonce_events.version is missing", backup}},
		"an index": {"DROP INDEX chargeonce_owing", nil, []string{"index chargeonce_owing is missing", backup}},
		"the note of the last migration": {"DELETE FROM chargeonce_migrations WHERE number = 2",
			[]string{"nothing was changed", "not noted as applied", "INSERT INTO chargeonce_migrations", "(2, '0002_"}, []string{"has schema 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.db")
			s, err := Open(t.Context(), file, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open("sqlite", file)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.ExecContext(t.Context(), c.damage); err != nil {
				t.Fatal(err)
			}
			for range 2 { // the first changes nothing
				s, err = Open(t.Context(), file, Options{})
				if err == nil {
					s.Close()
				} else if !errors.Is(err, attempt.ErrUnavailable) {
					t.Errorf("Open: %v, want ErrUnavailable", err)
				}
				wantSaid(t, "Open", err, c.open)
				wantSaid(t, "Validate", Validate(t.Context(), file), c.validate)
			}
		})
	}
}

// wantSaid wants an error that says all that; nothing: no error.
func wantSaid(t *testing.T, what string, err error, said []string) {
	t.Helper()
	if (err != nil) != (said != nil) {
		t.Errorf("%s: %v, want an error: %t", what, err, said != nil)
		return
	}
	for _, text := range said {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v\nwant it to say %q", what, err, text)
		}
	}
}

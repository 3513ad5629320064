package sqlite

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

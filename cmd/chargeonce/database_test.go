package main

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt/sqlite"
)

// A database without a write-ahead log, as VACUUM INTO writes it, is not converted by looking.
func TestLookingConvertsNothing(t *testing.T) {
	dir := t.TempDir()
	file, backup := filepath.Join(dir, "chargeonce.db"), filepath.Join(dir, "backup.db")
	store, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "VACUUM INTO ?", backup); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(backup)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openExistingStore(t.Context(), backup); err == nil || !strings.Contains(err.Error(), "has no write-ahead log") {
		t.Errorf("got %v, want that it is not as this program keeps it", err)
	}
	after, err := os.ReadFile(backup)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed, %v", err)
	}
	if left, err := filepath.Glob(backup + "-*"); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// A database that another process is making right now has no tables for a moment, and is waited for.
func TestADatabaseThatIsBeingMadeIsWaitedFor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chargeonce.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }() // the test is over
	if _, err := db.ExecContext(t.Context(), "PRAGMA journal_mode=WAL"); err != nil {
		t.Fatal(err)
	}
	lone, err := os.ReadFile(file) // as it is without the -wal file that all else goes to
	if err != nil {
		t.Fatal(err)
	}
	made := make(chan error)
	go func() {
		if holds, _, err := lookOnce(t.Context(), file); err != nil || holds != holdsNoSchema {
			t.Errorf("%v, %v; want a database without tables", holds, err)
		}
		store, err := sqlite.Open(t.Context(), file, sqlite.Options{})
		if err == nil {
			err = store.Close()
		}
		made <- err
	}()
	if holds, err := look(t.Context(), file); err != nil || holds != holdsAttempts {
		t.Errorf("%v, %v; want the database once it is made", holds, err)
	}
	if err := <-made; err != nil {
		t.Fatal(err)
	}

	old := filepath.Join(t.TempDir(), "old.db")
	if err := os.WriteFile(old, lone, 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, long, long); err != nil {
		t.Fatal(err)
	}
	if _, _, err := openStore(t.Context(), old); err == nil || !strings.Contains(err.Error(), "holds no payments") {
		t.Errorf("got %v, want that a database without tables is not paid with", err)
	}
}

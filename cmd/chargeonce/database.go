package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/chargeonce/chargeonce/attempt/sqlite" // registers the driver that looks below uses
)

// holding is what a database file holds.
type holding int

const (
	holdsNothing  holding = iota // there is no file, or an empty one
	holdsNoSchema                // a database in which no attempt was ever kept
	holdsAttempts                // the tables of attempts, filled or not
)

// openStore opens the database to pay with; fresh tells that nothing was in it before. A database without the tables of
// attempts is refused: with the -wal file beside which it was written, it may hold payments that would be made once more.
func openStore(ctx context.Context, file string) (store *sqlite.Store, fresh bool, err error) {
	holds, err := look(ctx, file)
	if err != nil {
		return nil, false, err
	}
	if holds == holdsNoSchema {
		return nil, false, noPayments(file)
	}
	store, err = sqlite.Open(ctx, file, sqlite.Options{})
	return store, holds == holdsNothing, err
}

// openExistingStore opens the database for a command that only looks: nothing is made, migrated or converted.
func openExistingStore(ctx context.Context, file string) (*sqlite.Store, error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("database %s: there is no such file; --db names it", file)
	}
	holds, err := look(ctx, file)
	switch {
	case err != nil:
		return nil, err
	case holds == holdsNothing:
		return nil, fmt.Errorf("database %s: the file is empty", file)
	case holds == holdsNoSchema:
		return nil, noPayments(file)
	}
	logged, err := hasLog(file)
	if err != nil {
		return nil, err
	}
	if !logged {
		return nil, fmt.Errorf("database %s: has no write-ahead log, as some backups have none, and looking must not change that; "+
			"do it with: sqlite3 %[1]s 'PRAGMA journal_mode=wal'", file)
	}
	return sqlite.Open(ctx, file, sqlite.Options{})
}

func noPayments(file string) error {
	return fmt.Errorf("database %s: the file exists and holds no payments: was its -wal file left behind? "+
		"Bring both here, %[1]s and %[1]s-wal; or name another file to begin with nothing", file)
}

// madeIn is how long after its last change a database without tables may still be one that another process is making.
const madeIn = 2 * time.Second

// look says what a database file holds, and leaves everything as it is.
func look(ctx context.Context, file string) (holding, error) {
	for {
		holds, changed, err := lookOnce(ctx, file)
		if age := time.Since(changed); holds != holdsNoSchema || age >= madeIn || age < 0 {
			return holds, err
		}
		timer := time.NewTimer(20 * time.Millisecond)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return holds, context.Cause(ctx)
		}
	}
}

// lookOnce also tells when the file was last changed.
func lookOnce(ctx context.Context, file string) (holds holding, changed time.Time, err error) {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return holdsNothing, changed, nil
	case err != nil:
		return holdsNothing, changed, err
	case info.Mode().IsRegular() && info.Size() == 0:
		return holdsNothing, changed, nil
	}
	changed = info.ModTime()
	abs, err := filepath.Abs(file)
	if err != nil {
		return holdsNothing, changed, err
	}
	if abs = filepath.ToSlash(abs); abs[0] != '/' {
		abs = "/" + abs // "C:/x"
	}
	// A database without a log beside it is in one file; SQLite would make the others even to read it.
	// https://www.sqlite.org/wal.html#read_only_databases
	query := "mode=ro&immutable=1"
	if _, err := os.Stat(file + "-wal"); err == nil {
		query = "mode=ro&_pragma=busy_timeout(2000)"
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: abs, RawQuery: query}).String())
	if err != nil {
		return holdsNothing, changed, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tables := 0
	row := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'chargeonce_attempts'")
	if err := row.Scan(&tables); err != nil {
		return holdsNothing, changed, fmt.Errorf("database %s: %w", file, err)
	}
	if tables == 0 {
		return holdsNoSchema, changed, nil
	}
	return holdsAttempts, changed, nil
}

// hasLog tells whether a database is written by way of a write-ahead log: the version numbers at offset 18 of the file are 2
// then (https://www.sqlite.org/fileformat2.html#file_format_version_numbers).
func hasLog(file string) (logged bool, err error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }() // only read
	header := make([]byte, 20)
	if _, err := io.ReadFull(f, header); err != nil {
		return false, fmt.Errorf("database %s: %w", file, err)
	}
	return header[18] == 2 && header[19] == 2, nil
}

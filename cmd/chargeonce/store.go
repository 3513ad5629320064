package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/postgres"
)

// database says where the attempts are: in a file of SQLite's, or in a schema of a PostgreSQL database.
type database struct {
	file   string        // SQLite's; empty: PostgreSQL
	url    func() string // may hold a password, and so cannot be printed: place is shown instead
	place  string        // where url leads
	schema string        // empty: the store's default
}

// String is the database's name in messages. It holds no password.
func (d database) String() string {
	if d.file == "" {
		return d.place
	}
	return d.file
}

// Format keeps the URL out of every verb.
func (d database) Format(w fmt.State, _ rune) { _, _ = fmt.Fprint(w, d.String()) } // the printing itself reports what fails

func (d database) isPostgres() bool { return d.url != nil }

// unknown: what was given for it could not be read, which is told where it was.
func (d database) unknown() bool { return d.file == "" && d.url == nil }

// schemaName is the PostgreSQL schema that is meant.
func (d database) schemaName() string { return orElse(d.schema, "chargeonce") }

// parseDB reads postgres://..., sqlite:FILE, or FILE. Its errors hold no password.
func parseDB(text string) (database, error) {
	if isPostgres(text) {
		place, err := postgres.Describe(text)
		return database{url: func() string { return text }, place: place}, err
	}
	if almostPostgres.MatchString(text) { // not repeated: it may hold a password
		return database{}, errors.New("want postgres://USER@HOST/DATABASE, written like that, or sqlite:FILE or FILE; a text of keywords (host=... user=...) is not taken")
	}
	file, ok := strings.CutPrefix(text, "sqlite:")
	if scheme, rest, has := strings.Cut(text, ":"); !ok && has && isScheme(scheme) && (len(scheme) > 1 || strings.HasPrefix(rest, "//")) {
		// The text is not repeated: it may hold a password. A single letter is a drive.
		return database{}, errors.New("want sqlite:FILE, FILE or postgres://USER@HOST/DATABASE, the only kinds of database that this build knows")
	}
	if file == "" || file == ":memory:" || strings.ContainsAny(file, "\x00?") {
		return database{}, fmt.Errorf("%q: want the name of a file", text)
	}
	return database{file: file}, nil
}

// almostPostgres finds what was meant to lead to a PostgreSQL database, and would be taken for the name of a file.
var almostPostgres = regexp.MustCompile(`(?i)^\s*"?postgres(ql)?([+:/]|$)|(^|\s)(host|hostaddr|port|dbname|user|password|passfile|service|servicefile|sslmode|sslpassword|options)\s*=`)

// isPostgres tells whether a text is the URL of a PostgreSQL database.
func isPostgres(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	return ok && (scheme == "postgres" || scheme == "postgresql")
}

// passwordIn finds a password in a URL that cannot be read as one.
var passwordIn = regexp.MustCompile(`(?i)//[^/@\s]*:[^/@\s]*@|[?&](ssl)?password=`)

// holdsPassword tells whether a PostgreSQL URL holds a password.
func holdsPassword(text string) bool {
	u, err := url.Parse(text)
	if err != nil {
		return passwordIn.MatchString(text)
	}
	_, has := u.User.Password()
	return has || u.Query().Has("password") || u.Query().Has("sslpassword")
}

// openToPay opens the database to pay with; fresh names it if nothing was in it before. Only a SQLite file is made.
func (d database) openToPay(ctx context.Context) (store attempt.Store, fresh string, err error) {
	if d.isPostgres() {
		store, err = d.openPostgres(ctx, false)
		return store, "", err
	}
	opened, isNew, err := openStore(ctx, d.file)
	if err != nil {
		return nil, "", err
	}
	if isNew {
		if fresh, err = filepath.Abs(d.file); err != nil {
			fresh = d.file
		}
	}
	return opened, fresh, nil
}

// openExisting opens a database that is there. readOnly: to look at it only, perhaps on a replica.
func (d database) openExisting(ctx context.Context, readOnly bool) (attempt.Store, error) {
	if d.isPostgres() {
		return d.openPostgres(ctx, readOnly)
	}
	store, err := openExistingStore(ctx, d.file)
	if err != nil {
		return nil, err
	}
	return store, nil
}

func (d database) openPostgres(ctx context.Context, readOnly bool) (*postgres.Store, error) {
	store, err := postgres.Open(ctx, d.url(), postgres.Options{Schema: d.schema, ReadOnly: readOnly})
	if err != nil {
		return nil, d.of(err)
	}
	return store, nil
}

// of says of which database an error is.
func (d database) of(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("database %s: %w", d, err)
}

// fakeLedgerFile is where the books of the fake provider are: beside the file that holds the attempts. Beside PostgreSQL there is no
// such place, so in the folder where the command is started.
func (s settings) fakeLedgerFile() string {
	switch {
	case s.fakeLedger != "":
		return s.fakeLedger
	case s.db.isPostgres(), s.db.unknown():
		return "chargeonce.fake-ledger"
	}
	return s.db.file + ".fake-ledger"
}

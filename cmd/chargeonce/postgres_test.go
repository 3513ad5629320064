package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"
)

// testPostgres is the URL of the tests' server. Where there is none, the test is skipped, aloud, but never in CI.
func testPostgres(t *testing.T) string {
	t.Helper()
	address := os.Getenv("CHARGEONCE_TEST_POSTGRES")
	if address == "" {
		const why = "no PostgreSQL: ./scripts/test brings one, CHARGEONCE_TEST_POSTGRES names one"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip("SKIPPED: " + why) // a plain go test has no server to start
	}
	return address
}

// databases counts those that this process has made.
var databases atomic.Int64

// newDatabase makes a database of its own, and a role that may do nothing, and returns their name. drop removes both.
func newDatabase(ctx context.Context, server string) (name string, drop func() error, err error) {
	name = fmt.Sprintf("chargeonce_cli_%d_%d", os.Getpid(), databases.Add(1))
	if err := execSQL(ctx, server, "CREATE DATABASE "+name, "CREATE ROLE "+name+" LOGIN PASSWORD 'geheim'"); err != nil {
		return "", nil, err
	}
	return name, func() error {
		return execSQL(context.WithoutCancel(ctx), server, "DROP DATABASE "+name+" WITH (FORCE)", "DROP ROLE "+name)
	}, nil
}

func execSQL(ctx context.Context, address string, statements ...string) error {
	c, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }() // what failed is told by the statements
	for _, s := range statements {
		if _, err := c.Exec(ctx, s, pgx.QueryExecModeSimpleProtocol); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// inDatabase is the server's URL with another database, and another role if user is none of nil.
func inDatabase(server, name string, user *url.Userinfo, parameters ...string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", errors.New("CHARGEONCE_TEST_POSTGRES: want a URL")
	}
	u.Path = "/" + name
	if user != nil {
		u.User = user
	}
	query := u.Query()
	for _, p := range parameters {
		key, value, _ := strings.Cut(p, "=")
		query.Set(key, value)
	}
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20") // libpq takes a plus for a plus
	return u.String(), nil
}

type adminKey struct{}

// TestPostgresScripts plays testdata/postgres. Each script has an empty database of its own, in CHARGEONCE_DB as a URL with a password;
// the same for the role $ROLE, which may do nothing there, in $ROLE_DB; and a URL without a password in $OPEN_DB. Besides, each has $DOWN, the URL of
// a server that is not there, $READ_ONLY, of one that takes no writes, and $ASYNC, of one with synchronous_commit off.
func TestPostgresScripts(t *testing.T) {
	server := testPostgres(t)
	p := scripts(t, "testdata/postgres", func(e *testscript.Env) error {
		name, drop, err := newDatabase(t.Context(), server)
		if err != nil {
			return err
		}
		e.Defer(func() {
			if err := drop(); err != nil {
				t.Error(err)
			}
		})
		u, err := url.Parse(server)
		if err != nil {
			return err
		}
		admin := u.User.Username()
		secret := url.UserPassword(admin, "geheim") // where the server trusts, any password will do
		if password, ok := u.User.Password(); ok {
			secret = url.UserPassword(admin, password)
		}
		e.Values[adminKey{}], err = inDatabase(server, name, nil)
		for variable, make := range map[string]func() (string, error){
			"CHARGEONCE_DB": func() (string, error) { return inDatabase(server, name, secret) },
			"OPEN_DB":       func() (string, error) { return inDatabase(server, name, url.User(admin)) },
			"ROLE_DB":       func() (string, error) { return inDatabase(server, name, url.UserPassword(name, "geheim")) },
			"NO_DB":         func() (string, error) { return inDatabase(server, name+"_none", secret) },
			"READ_ONLY": func() (string, error) {
				return inDatabase(server, name, secret, "options=-c default_transaction_read_only=on")
			},
			"ASYNC": func() (string, error) { return inDatabase(server, name, secret, "options=-c synchronous_commit=off") },
			"DOWN": func() (string, error) {
				return "postgres://app:geheim@127.0.0.1:1/shop?sslmode=disable", nil
			},
		} {
			address, failed := make()
			err = errors.Join(err, failed)
			e.Setenv(variable, address)
		}
		e.Setenv("ROLE", name)
		if password, ok := u.User.Password(); ok {
			e.Setenv("PGPASSWORD", password) // for OPEN_DB
		}
		return err
	})
	p.Condition = func(condition string) (bool, error) {
		if condition == "fsync" {
			return serverSyncs(t, server)
		}
		return false, fmt.Errorf("no condition %q", condition)
	}
	testscript.Run(t, p)
}

// serverSyncs tells whether the server's commits reach the disk: that of ./scripts/test outlives no crash.
func serverSyncs(t *testing.T, server string) (bool, error) {
	c, err := pgx.Connect(t.Context(), server)
	if err != nil {
		return false, err
	}
	defer func() { _ = c.Close(t.Context()) }() // only read
	var syncs string
	err = c.QueryRow(t.Context(), "SELECT concat(current_setting('fsync'), current_setting('full_page_writes'))").Scan(&syncs)
	return syncs == "onon", err
}

func cmdSQL(ts *testscript.TestScript, neg bool, args []string) {
	address, ok := ts.Value(adminKey{}).(string)
	if neg || len(args) == 0 || !ok {
		ts.Fatalf("usage: sql STATEMENT..., in testdata/postgres")
	}
	ts.Check(execSQL(context.Background(), address, args...))
}

// No way of printing the database shows the password that its URL holds.
func TestADatabaseIsPrintedWithoutItsPassword(t *testing.T) {
	for _, name := range []string{"PGHOST", "PGPORT", "PGUSER", "PGDATABASE"} {
		t.Setenv(name, "")
	}
	d, err := parseDB("postgres://app:geheim@db.example/shop?password=geheim")
	if err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, value := range []any{d, &d, []database{d}, struct{ db database }{d}} {
			text := fmt.Sprintf(verb, value)
			if strings.Contains(text, "geheim") || strings.Contains(text, fmt.Sprintf("%x", "geheim")) {
				t.Errorf("%s of a %T: %s", verb, value, text)
			}
		}
	}
	if got := fmt.Sprint(d); got != "postgres://app@db.example:5432/shop" {
		t.Error(got)
	}
}

// What stands for the environment of the fake provider's books is a file, wherever the attempts are.
func TestFakeLedgerFile(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{nil, "chargeonce.db.fake-ledger"},
		{map[string]string{"CHARGEONCE_DB": "sqlite:shop/a.db"}, "shop/a.db.fake-ledger"},
		{map[string]string{"CHARGEONCE_DB": "postgres://app@db.example/shop"}, "chargeonce.fake-ledger"},
		{map[string]string{"CHARGEONCE_FAKE_LEDGER": "books", "CHARGEONCE_DB": "postgres://app@db.example/shop"}, "books"},
	} {
		s, err := resolve(given{flag: func(string) (string, bool) { return "", false }, env: func(name string) (string, bool) {
			value, ok := tt.env[name]
			return value, ok
		}})
		if got := s.fakeLedgerFile(); err != nil || got != tt.want {
			t.Errorf("%v: %s, %v; want %s", tt.env, got, err, tt.want)
		}
	}
}

// What a commit has waited for is what the server's settings say.
func TestWhatACommitHasWaitedFor(t *testing.T) {
	for _, tt := range []struct{ setting, standbys, want string }{
		{"on", "", "on this server's disk"},
		{"local", "*", "on this server's disk"},
		{"on", "ANY 1 (a, b)", "and on a standby's"},
		{"remote_write", "a", "in the memory of a standby's machine"},
		{"remote_apply", "a", "can be read on a standby"},
	} {
		if got := syncText(tt.setting, tt.standbys); !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s, standbys %s: %s", strconv.Quote(tt.setting), strconv.Quote(tt.standbys), got)
		}
	}
}

// What was meant to be a PostgreSQL database is never taken for the name of a file: the payments would be made once more in a new
// one, and a password would be its name. Nor is any of it repeated.
func TestWhatIsAlmostAPostgresURL(t *testing.T) {
	for _, text := range []string{
		"host=db.example user=app password=geheim dbname=shop", "password=geheim", "dbname=shop host=db.example password = geheim", "user=app  PASSWORD='geheim'",
		"Postgres://app:geheim@db.example/shop", "POSTGRESQL://app:geheim@db.example/shop", "postgres:app:geheim@db.example/shop", "postgres:/app:geheim@db.example/shop",
		"postgresql+asyncpg://app:geheim@db.example/shop", "postgres//app:geheim@db.example", "mysql://app:geheim@db.example/shop", " postgres://app:geheim@db.example/shop",
	} {
		d, err := parseDB(text)
		if err == nil || !strings.Contains(err.Error(), "postgres://USER@HOST/DATABASE") || strings.Contains(err.Error(), "geheim") || !d.unknown() {
			t.Errorf("%q: %v, %v", text, d, err)
		}
		var out, talk bytes.Buffer
		for _, command := range []string{"doctor", "pay", "reconcile"} {
			args := []string{command, "--provider", "fake"}
			if command == "pay" {
				args = append(args, "rows.csv")
			}
			t.Chdir(t.TempDir())
			if code := run(t.Context(), args, streams{in: strings.NewReader(""), out: &out, err: &talk}, []string{"CHARGEONCE_DB=" + text}); code != exitUsage {
				t.Errorf("%s with %q ended with code %d", command, text, code)
			}
			if left, err := os.ReadDir("."); err != nil || len(left) != 0 {
				t.Errorf("%s with %q has made %v: %v", command, text, left, err)
			}
		}
		if said := out.String() + talk.String(); strings.Contains(said, "geheim") {
			t.Errorf("%q is repeated: %s", text, said)
		}
	}
	for _, file := range []string{"chargeonce.db", "port.db", "my host.db", "sqlite:postgres.db", "postgres.db", "x/user.db"} {
		if d, err := parseDB(file); err != nil || d.file == "" {
			t.Errorf("%q: %v, %v", file, d, err)
		}
	}
}

package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"modernc.org/sqlite"
)

// C07: a pragma holds for one connection only, so it is read from each there is.
func TestC07EveryConnectionIsDurable(t *testing.T) {
	s := testStore(t, testFile(t), Options{})
	check := func(what string, conn *sql.Conn, readOnly int64, busy int64) {
		err := conn.Raw(func(dc any) error {
			c := dc.(driver.Conn)
			want := map[string]driver.Value{
				"journal_mode": "wal", "synchronous": int64(2), "query_only": readOnly, "busy_timeout": busy,
			}
			if runtime.GOOS == "darwin" {
				want["fullfsync"], want["checkpoint_fullfsync"] = int64(1), int64(1)
			}
			for name, value := range want {
				if got, err := pragma(t.Context(), c, name); err != nil || got != value {
					t.Errorf("%s: %s is %v, want %v: %v", what, name, got, value, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	check("the writer", s.write.conn, 0, 0)
	for range readers {
		conn, err := s.reads.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		check("a reader", conn, 1, 5000)
	}
	s.write.drop() // a connection that is opened later
	start(t, s, "1001")
	check("the writer's next connection", s.write.conn, 0, 0)
}

// C07: what is weaker is refused.
func TestC07WeakerDurabilityIsRefused(t *testing.T) {
	path := testFile(t)
	testStore(t, path, Options{})
	for name, c := range map[string]struct{ dsn, says string }{
		"synchronous NORMAL":  {"file:" + path + "?_pragma=synchronous(NORMAL)", "synchronous is 1"},
		"synchronous OFF":     {"file:" + path + "?_pragma=synchronous(OFF)", "synchronous is 0"},
		"a rollback journal":  {"file:" + filepath.Join(t.TempDir(), "x.db") + "?_pragma=synchronous(FULL)", "journal_mode is delete"},
		"in memory":           {":memory:", "journal_mode is memory"},
		"in memory, shared":   {"file::memory:?cache=shared", "journal_mode is memory"},
		"read-only":           {"file:" + path + "?mode=ro", "read-only"},
		"read-only for ever":  {"file:" + path + "?immutable=1", "read-only"},
		"a temporary file":    {"file:?_pragma=synchronous(FULL)", "journal_mode is delete"},
		"journal in memory":   {"file:" + filepath.Join(t.TempDir(), "y.db") + "?_pragma=journal_mode(MEMORY)", "journal_mode is memory"},
		"no journal":          {"file:" + filepath.Join(t.TempDir(), "z.db") + "?_pragma=journal_mode(OFF)", "journal_mode is off"},
		"weaker on a journal": {"file:" + filepath.Join(t.TempDir(), "v.db") + "?_pragma=synchronous(EXTRA)", "journal_mode is delete"},
	} {
		base, err := sqlite.NewConnector(c.dsn)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := base.Connect(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := checkDurable(t.Context(), conn); !errors.Is(err, attempt.ErrNotDurable) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{"", ":memory:"} {
		if s, err := Open(t.Context(), path, Options{}); !errors.Is(err, attempt.ErrNotDurable) {
			t.Errorf("Open(%q): %v, %v", path, s, err)
		}
	}
}

// A host that runs in the store's own transaction cannot weaken what comes after it.
func TestHostCannotWeakenTheWriter(t *testing.T) {
	s := testStore(t, testFile(t), Options{})
	for _, statement := range []string{"PRAGMA synchronous=OFF", "PRAGMA journal_mode=DELETE", "PRAGMA query_only=ON", "PRAGMA fullfsync=OFF"} {
		// Some of these fail inside a transaction, some are ignored, and one takes effect.
		err := s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			_, _ = tx.ExecContext(ctx, statement)
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", statement, err)
		}
		start(t, s, statement)
		err = s.write.with(func(r *rawSession) error { return checkDurable(t.Context(), r.conn) })
		if err != nil {
			t.Errorf("after %s: %v", statement, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	noDatabase := filepath.Join(dir, "text")
	if err := os.WriteFile(noDatabase, []byte(strings.Repeat("this is no database\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		dir:                                   "",
		filepath.Join(dir, "no such", "file"): "no such file",
		"file:x.db":                           "want the name of a file",
		noDatabase:                            "not a database",
	} {
		s, err := Open(t.Context(), path, Options{})
		if !errors.Is(err, attempt.ErrUnavailable) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), path) {
			t.Errorf("Open(%q): %v, %v", path, s, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := Open(ctx, filepath.Join(dir, "cancelled.db"), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open, cancelled: %v, %v", s, err)
	}
}

// Names that mean something in a URI are names of files here.
func TestNamesOfFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a b.db", "what?.db", "100%.db", "#1.db", "a&b=c.db", "\u00fc\U0001F4B3.db", "mode=ro", "x?mode=memory"} {
		path := filepath.Join(dir, name)
		s := testStore(t, path, Options{})
		a := start(t, s, "1001")
		again := testStore(t, path, Options{})
		wantStatus(t, again, a.ID, attempt.StatusSending, 1)
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	t.Chdir(dir)
	start(t, testStore(t, "here.db", Options{}), "1001")
	if _, err := os.Stat(filepath.Join(dir, "here.db")); err != nil {
		t.Error(err)
	}
}

func TestFilePermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // has no such permissions
	}
	path := testFile(t)
	s := testStore(t, path, Options{})
	start(t, s, "1001")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%q: %v, %v, want 0600", "attempts.db"+suffix, info.Mode(), err)
		}
	}
	// A file that is there already keeps what its owner has given it.
	path = testFile(t)
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	start(t, testStore(t, path, Options{}), "1001")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v, want 0640", info.Mode(), err)
	}
}

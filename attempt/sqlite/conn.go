package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"runtime"

	"github.com/chargeonce/chargeonce/attempt"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// connector opens connections and lets none out that is not durable.
type connector struct {
	base     driver.Connector
	read     bool
	asItIs   bool      // the database's journal mode is not set, only checked
	location *location // where the connections must lead
}

func newConnector(path string, read bool) (*connector, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// A URI, because the driver cuts a plain name at its first "?". https://www.sqlite.org/uri.html
	abs = filepath.ToSlash(abs)
	if abs[0] != '/' {
		abs = "/" + abs // "C:/x"
	}
	// mode=rw: a file that was deleted is not made anew, empty, by a connection that is opened later.
	query := "mode=rw&_txlock=immediate&_busy_timeout=0"
	if read {
		// A reader meets a lock only for the moment in which another process opens, closes or recovers the log.
		query = "mode=rw&_txlock=deferred&_busy_timeout=5000"
	}
	u := url.URL{Scheme: "file", Path: abs, RawQuery: query}
	base, err := sqlite.NewConnector(u.String())
	if err != nil {
		return nil, err
	}
	return &connector{base: base, read: read, location: new(location)}, nil
}

// Driver implements driver.Connector.
func (c *connector) Driver() driver.Driver { return c.base.Driver() }

// Connect implements driver.Connector: it sets what durability needs and reads it back, since SQLite ignores a pragma
// that it cannot obey.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	// Before, since SQLite would make a log anew that is missing; and afterwards, since meanwhile the file may have changed.
	if err := c.location.check(); err != nil {
		return nil, err
	}
	conn, err := c.base.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if err = c.prepare(ctx, conn); err == nil {
		err = c.location.check()
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

func (c *connector) prepare(ctx context.Context, conn driver.Conn) error {
	if !c.asItIs {
		if err := pollBusy(ctx, lockLimit, func() error {
			_, err := pragma(ctx, conn, "journal_mode=WAL")
			return err
		}); err != nil {
			return fmt.Errorf("set journal_mode: %w", err)
		}
	}
	settings := []string{"synchronous=FULL"}
	if runtime.GOOS == "darwin" {
		// fsync on macOS does not reach the disk: https://www.sqlite.org/pragma.html#pragma_fullfsync
		settings = append(settings, "fullfsync=ON", "checkpoint_fullfsync=ON")
	}
	if c.read {
		settings = append(settings, "query_only=ON")
	}
	for _, s := range settings {
		if _, err := pragma(ctx, conn, s); err != nil {
			return fmt.Errorf("set %s: %w", s, err)
		}
	}
	return checkDurable(ctx, conn)
}

// checkDurable reads from a connection whether its commits survive.
func checkDurable(ctx context.Context, conn driver.Conn) error {
	if c, ok := conn.(interface{ IsReadOnly(string) (bool, error) }); ok {
		only, err := c.IsReadOnly("main")
		if err != nil {
			return err
		}
		if only {
			return fmt.Errorf("%w: the database is read-only", attempt.ErrNotDurable)
		}
	}
	want := []struct {
		pragma string
		value  driver.Value
		why    string
	}{
		{"journal_mode", "wal", "another mode cannot be read while it is written, and an in-memory database or a file system without locks has no other"},
		{"synchronous", int64(2), "a commit that is not synced is lost with the power"},
	}
	if runtime.GOOS == "darwin" {
		want = append(want, want[1], want[1])
		want[2].pragma, want[2].value = "fullfsync", int64(1)
		want[3].pragma, want[3].value = "checkpoint_fullfsync", int64(1)
	}
	for _, w := range want {
		got, err := pragma(ctx, conn, w.pragma)
		if err != nil {
			return fmt.Errorf("read %s: %w", w.pragma, err)
		}
		if got != w.value {
			return fmt.Errorf("%w: %s is %v, want %v: %s", attempt.ErrNotDurable, w.pragma, got, w.value, w.why)
		}
	}
	return nil
}

// pragma runs a pragma and returns the first value of its first row, nil if it has none.
func pragma(ctx context.Context, conn driver.Conn, text string) (driver.Value, error) {
	rows, err := conn.(driver.QueryerContext).QueryContext(ctx, "PRAGMA "+text, nil)
	if err != nil {
		return nil, err
	}
	row := make([]driver.Value, len(rows.Columns()))
	if err = rows.Next(row); errors.Is(err, io.EOF) {
		err = nil
	}
	if err := errors.Join(err, rows.Close()); err != nil || len(row) == 0 {
		return nil, err
	}
	return row[0], nil
}

// isBusy tells whether another connection holds the lock that was asked for.
func isBusy(err error) bool {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return false
	}
	code := e.Code() & 0xff
	return code == sqlite3.SQLITE_BUSY || code == sqlite3.SQLITE_PROTOCOL
}

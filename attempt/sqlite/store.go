package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Options sets up a store. The zero Options are the defaults.
type Options struct {
	// Now is the store's clock: every time in the store is set and compared by it. Processes that share a file must have
	// the same. Nil means time.Now.
	Now func() time.Time
	// ReadOnly opens a store that is there, to look at it: nothing is made or migrated, and every call that writes fails with
	// [attempt.ErrUnavailable]. A schema of another release than this one cannot be read.
	ReadOnly bool
}

// Store keeps attempts in a SQLite file. It implements [attempt.Store].
type Store struct {
	path     string
	draft    draft // of this file, where links lead
	readOnly bool
	clock    clock
	location location

	reads    *sql.DB // connections that only read; they never wait for the writer
	prepared [statementCount]*sql.Stmt
	anchor   *sql.Conn // idle: while it is open, nobody removes the log
	queue    queue     // what waits to be written, and who writes
	write    writer    // belongs to the call that leads the queue
	onBusy   func()    // nil but in tests: another connection holds the lock
}

var _ attempt.Store = (*Store)(nil)

// readers is the number of connections for reading.
const readers = 4

// Open opens the store in the file with that name, makes the file (readable and writable by its owner only) where there is
// none, and brings its schema up to date. Several processes may do so at once.
//
// It fails with [attempt.ErrNotDurable] where SQLite cannot promise that a committed row survives: no write-ahead log,
// weaker syncing, an in-memory or read-only database; and with [attempt.ErrUnavailable] where the file cannot be opened,
// or its schema is of a later release.
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	s := &Store{path: path, readOnly: opts.ReadOnly}
	s.clock.set(opts.Now)
	if err := s.open(ctx); err != nil {
		if lost := (*logLostError)(nil); errors.As(err, &lost) {
			return nil, err // it names the file, and says it all
		}
		if !errors.Is(err, attempt.ErrNotDurable) {
			err = fmt.Errorf("%w: %w", attempt.ErrUnavailable, err)
		}
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	switch {
	case s.path == "" || s.path == ":memory:":
		return fmt.Errorf("%w: an in-memory database ends with the process", attempt.ErrNotDurable)
	case strings.HasPrefix(s.path, "file:"):
		return errors.New("want the name of a file, not a URI")
	}
	if !s.readOnly {
		if err := makeWhole(ctx, s.path); err != nil {
			return err
		}
	}
	writes, err := newConnector(s.path, s.readOnly)
	if err != nil {
		return err
	}
	reads, err := newConnector(s.path, true)
	if err != nil {
		return err
	}
	writes.location, reads.location, s.write.location = &s.location, &s.location, &s.location
	writes.asItIs, reads.asItIs = s.readOnly, s.readOnly
	s.write.db = sql.OpenDB(writes)
	s.reads = sql.OpenDB(reads)
	s.reads.SetMaxOpenConns(readers + 1)
	s.reads.SetMaxIdleConns(readers)
	if err := s.setUp(ctx); err != nil {
		return errors.Join(err, s.release())
	}
	return nil
}

// setUp migrates, and tries both kinds of connection.
func (s *Store) setUp(ctx context.Context) error {
	err := s.locate(ctx)
	if err != nil {
		return err
	}
	err = pollBusy(ctx, lockLimit, func() (err error) { // another process may be making the file, or its log
		s.anchor, err = s.reads.Conn(ctx)
		return err
	})
	if err != nil {
		return err
	}
	current := false
	err = pollBusy(ctx, lockLimit, func() error {
		return s.write.with(func(r *rawSession) (err error) {
			current, err = isCurrent(r)
			return err
		})
	})
	switch {
	case err == nil && !current && s.readOnly:
		err = errors.New("there are no attempts of this release's schema: open it for writing once, which brings it up to date")
	case err == nil && !current:
		err = s.write.transaction(ctx, lockLimit, func(tx session) error {
			now, _ := s.clock.present()
			return migrate(tx, now, s.draft)
		})
	}
	if err == nil && !s.readOnly {
		err = s.finishMaking(ctx)
	}
	if err != nil {
		return err
	}
	err = pollBusy(ctx, lockLimit, func() error {
		return s.write.with(func(r *rawSession) error {
			latest, err := latestStored(r)
			s.clock.saw(latest)
			return err
		})
	})
	if err != nil {
		return err
	}
	for _, read := range []statement{stmtSlot, stmtAttempt, stmtEvents} {
		if s.prepared[read], err = s.reads.PrepareContext(ctx, statements[read]); err != nil { //nolint:sqlclosecheck // Close closes the pool
			return err
		}
	}
	return nil
}

// locate opens the writer's connection and notes which files it has open.
func (s *Store) locate(ctx context.Context) error {
	name, err := filepath.Abs(s.path)
	if err != nil {
		return err
	}
	for tries := 1; ; tries++ {
		var before location
		if err := before.remember(name); err != nil {
			return err
		}
		if err := pollBusy(ctx, lockLimit, func() error { return s.write.connect(ctx) }); err != nil {
			return err
		}
		var file string // where links lead: SQLite keeps the log there
		err := s.write.with(func(r *rawSession) error {
			return r.query1("SELECT file FROM pragma_database_list WHERE name = 'main'", func(row []driver.Value) error {
				d := decoder{values: row}
				file = d.text("file")
				return d.err
			})
		})
		if err != nil {
			return err
		}
		if err := s.location.remember(name, file+"-wal", file+"-shm"); err != nil {
			return err
		}
		s.draft = draft{file: file, called: s.path}
		moved := before.check()
		if moved == nil || tries == 3 {
			return moved
		}
		// Once more: a file of a lower layer becomes another one when it is opened for writing, see
		// https://docs.kernel.org/filesystems/overlayfs.html.
		s.write.drop()
		s.location = location{}
	}
}

// create makes the file if there is none. A file that exists is not opened here: closing it again would drop the locks
// that other connections of this process hold on it (https://www.sqlite.org/howtocorrupt.html section 2.2).
func create(path string) error {
	creating.Lock() // nobody in this process opens the file before it is closed here
	defer creating.Unlock()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

var creating sync.Mutex

// Close waits for the steps and the transaction of [Store.InTx] under way and releases the file. It must not be called
// inside InTx. Whatever is asked of the store afterwards fails with [attempt.ErrUnavailable].
func (s *Store) Close() error {
	if !s.queue.close() {
		return nil
	}
	return s.release()
}

func (s *Store) release() error {
	var err error
	if s.anchor != nil {
		err = s.anchor.Close()
	}
	return errors.Join(err, s.write.close(), s.reads.Close())
}

// unavailable wraps an error of the database's.
func (s *Store) unavailable(err error) error {
	if err == nil || errors.Is(err, attempt.ErrUnavailable) {
		return err
	}
	return fmt.Errorf("%w: %s: %w", attempt.ErrUnavailable, s.path, err)
}

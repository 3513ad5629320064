package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"modernc.org/sqlite"
)

// How a database is made, so that a process that dies meanwhile leaves nothing that the next one has to refuse, and a database
// that has lost its log with payments in it is never taken for one that was being made:
//
//  1. The whole schema is written to a draft beside, which says in its table of migrations that it is one. It is on the disk
//     before it gets its name.
//  2. The draft's file gets the database's name as a second one. From here on there is a database.
//  3. Its migrations are noted as applied: the first commit, which like all others goes to the log.
//  4. The draft's name is removed, durably. Only now is the store open, and a payment can be written.
//
// So of a database with payments the file alone says that it is a draft, until the log was first brought into it whole, and
// what tells it from a real draft is that the draft's name is gone. See docs/adr/0034-making-a-database.md.
//
// Where a file cannot have two names, or nobody may remove one of an open file, the file is made empty and filled by way of its
// log.

// draft is what a database was made from.
type draft struct {
	file   string // of the database
	called string // what the database's file was called by whoever opened it, for messages
}

func (d draft) name() string { return d.file + ".chargeonce-draft" }

// isOf tells whether the database is still the draft's own file.
func (d draft) isOf() bool {
	this, err := identify(d.file)
	if err != nil {
		return false
	}
	that, err := identify(d.name())
	return err == nil && this.same(that)
}

// logLostError: the file alone says that it is a draft, and it was one no more when this was seen.
type logLostError struct {
	file string
}

func (e *logLostError) Error() string {
	return fmt.Sprintf("database %s: the file exists and holds no payments: was its -wal file left behind? "+
		"Bring both here, %[1]s and %[1]s-wal; or name another file to begin with nothing", e.file)
}

func (e *logLostError) Unwrap() error { return attempt.ErrUnavailable }

// fileLostError: there is a log, and no database that it is of. SQLite would discard it for an empty database, and read it into any other.
type fileLostError struct {
	file string
}

func (e *fileLostError) Error() string {
	return fmt.Sprintf("database %s: there is no such file, but its log %[1]s-wal is there, in which payments may be: "+
		"bring the file back; or remove the log, to begin with nothing", e.file)
}

func (e *fileLostError) Unwrap() error { return attempt.ErrUnavailable }

// onMaking is nil but in tests: what was just done.
var onMaking func(done string)

func made(done string) {
	if onMaking != nil {
		onMaking(done)
	}
}

// makeWhole makes the database where there is none. Of several that do so at once one is first, and all use what it has made.
func makeWhole(ctx context.Context, path string) error {
	d := draft{file: path}
	for {
		// Looked for first: a log is made when its database is there.
		log, logErr := os.Stat(path + "-wal")
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if logErr == nil && log.Size() > 0 {
			return &fileLostError{path}
		}
		if runtime.GOOS == "windows" { // does not let a name of an open file go
			return create(path)
		}
		switch err := os.Link(d.name(), path); { // what this process made, another, or one that has died
		case err == nil:
			made("database")
			return nil
		case errors.Is(err, fs.ErrExist):
			return nil
		case !errors.Is(err, fs.ErrNotExist):
			return create(path)
		}
		linked, err := d.write(ctx)
		switch {
		case err != nil:
			return err
		case !linked:
			return create(path)
		}
	}
}

// write writes the draft, under a name of its own until it is on the disk. It returns false where the file system knows no
// second name.
func (d draft) write(ctx context.Context) (linked bool, err error) {
	whole, err := image(ctx, time.Now())
	if err != nil {
		return false, err
	}
	f, err := os.CreateTemp(filepath.Dir(d.file), filepath.Base(d.name())+"-*") // 0600
	if err != nil {
		return false, err
	}
	defer func() {
		if gone := os.Remove(f.Name()); !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}()
	_, err = f.Write(whole)
	if err == nil {
		err = f.Sync()
	}
	// Closed before anybody can open the database: that would drop this process's locks on it
	// (https://www.sqlite.org/howtocorrupt.html section 2.2).
	if err = errors.Join(err, f.Close()); err != nil {
		return false, err
	}
	made("draft written")
	switch err := os.Link(f.Name(), d.name()); {
	case err == nil:
		made("draft")
	case errors.Is(err, fs.ErrExist): // another was first
	case errors.Is(err, fs.ErrNotExist): // another has made the database meanwhile, and cleaned up
	default:
		return false, nil
	}
	return true, nil
}

// image is a database file with the schema and without payments. Its only migration has a negative number, minus that of the
// last one that is in it: releases that do not know this take it for damaged.
func image(ctx context.Context, now time.Time) (file []byte, err error) {
	all, err := migrations()
	if err != nil {
		return nil, err
	}
	connector, err := sqlite.NewConnector(":memory:")
	if err != nil {
		return nil, err
	}
	conn, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	r := &rawSession{conn: conn}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := r.exec1(createMigrations); err != nil {
		return nil, err
	}
	for _, m := range all {
		if err := r.exec1(m.sql); err != nil {
			return nil, fmt.Errorf("migration %s: %w", m.name, err)
		}
	}
	if err := r.exec1("INSERT INTO chargeonce_migrations (number, name, applied_at) VALUES (?, 'being made', ?)",
		int64(-len(all)), now.UnixMicro()); err != nil {
		return nil, err
	}
	file, err = conn.(interface{ Serialize() ([]byte, error) }).Serialize()
	if err != nil {
		return nil, err
	}
	// Written and read by way of a log: https://www.sqlite.org/fileformat2.html#file_format_version_numbers
	file[18], file[19] = 2, 2
	return file, nil
}

// finishMaking removes the draft's name, so that it never comes back, before anything is paid.
func (s *Store) finishMaking(ctx context.Context) error {
	made("migrations")
	_, err := os.Lstat(s.draft.name())
	there := err == nil
	if there {
		if err := os.Remove(s.draft.name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		made("draft removed")
		left, err := filepath.Glob(globbed(s.draft.name()) + "-*") // of processes that died
		if err != nil {
			return err
		}
		for _, name := range left {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	paid := false
	err = pollBusy(ctx, lockLimit, func() error {
		return s.write.with(func(r *rawSession) error {
			return r.query1("SELECT 1 FROM chargeonce_slots LIMIT 1", func([]driver.Value) error {
				paid = true
				return nil
			})
		})
	})
	if err != nil || paid && !there || runtime.GOOS == "windows" {
		return err // who paid has seen to it
	}
	return syncFolder(filepath.Dir(s.draft.file)) // also where another process has just removed it
}

// globbed makes a name a pattern for itself.
func globbed(name string) string {
	var pattern []rune
	for _, c := range name {
		switch c {
		case '*', '?', '[', '\\':
			pattern = append(pattern, '\\')
		}
		pattern = append(pattern, c)
	}
	return string(pattern)
}

// syncFolder makes durable which files are in a folder, where a folder can be opened and synced: SQLite does no more for its
// own files.
func syncFolder(name string) error {
	f, err := os.Open(name)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

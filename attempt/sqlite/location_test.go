package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

func init() {
	roles["list"] = func(path string, _ *bufio.Scanner) error {
		s, err := Open(context.Background(), path, Options{})
		if err != nil {
			return err
		}
		for a, err := range s.List(context.Background(), attempt.Filter{}) {
			if err != nil {
				return err
			}
			fmt.Println(a.ID)
		}
		return s.Close()
	}
}

// listed returns what another process finds that opens the database afresh; it may find a database that is broken.
func listed(t *testing.T, path string) map[string]bool {
	t.Helper()
	p := run(t, "list", path)
	ids := make(map[string]bool)
	for p.out.Scan() {
		ids[p.out.Text()] = true
	}
	_ = p.cmd.Wait()
	return ids
}

// copyOver puts a copy in a file's place, as a restore does that writes beside and renames.
func copyOver(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".copy", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".copy", name)
}

func moveAway(name string) error { return os.Rename(name, name+".away") }

var suffixes = []string{"", "-wal", "-shm"}

// A database file that is removed, moved away or replaced under a running process: SQLite goes on writing to the old one.
// No step that is reported as stored may be missing for who opens the database afresh, so none is reported.
func TestFilesThatDisappear(t *testing.T) {
	for name, do := range map[string]func(string) error{"remove": os.Remove, "move": moveAway, "replace": copyOver} {
		for of, which := range map[string][]string{"the database": {""}, "the log": {"-wal"}, "the index": {"-shm"}, "all": suffixes} {
			t.Run(name+" "+of, func(t *testing.T) {
				path := testFile(t)
				s := testStore(t, path, Options{})
				a := start(t, s, "1001")
				for _, suffix := range which {
					if err := do(path + suffix); err != nil {
						t.Skip("this system does not let open files disappear: ", err) // so it cannot happen there
					}
				}
				stored := storeWhereNothingIs(t, s, a)
				s.write.drop() // a connection that is opened later
				maps.Copy(stored, storeWhereNothingIs(t, s, a))
				if name != "replace" {
					for _, suffix := range which {
						if _, err := os.Stat(path + suffix); !errors.Is(err, os.ErrNotExist) {
							t.Errorf("there is a file %q again: %v", suffix, err)
						}
					}
				}
				if name == "move" {
					for _, suffix := range which {
						if err := os.Rename(path+suffix+".away", path+suffix); err != nil {
							t.Fatal(err)
						}
					}
					stored[a.ID] = true
					stored[start(t, s, "back again").ID] = true
				}
				there := listed(t, path)
				for id := range stored {
					if !there[id] {
						t.Errorf("attempt %s was reported as stored, and is not there", id)
					}
				}
			})
		}
	}
}

// storeWhereNothingIs tries each way to write, and returns the attempts that were reported as stored: none.
func storeWhereNothingIs(t *testing.T, s *Store, a attempt.Attempt) (stored map[string]bool) {
	t.Helper()
	stored = make(map[string]bool)
	want := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, attempt.ErrUnavailable) || !strings.Contains(err.Error(), "nothing of this was stored") {
			t.Errorf("%s: %v", what, err)
		}
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			step := starts(fmt.Sprint("lost ", n))
			err := s.Apply(t.Context(), &step.Step)
			mu.Lock()
			defer mu.Unlock()
			want("start", err)
			if err == nil {
				stored[step.got.ID] = true
			}
		})
	}
	wg.Wait()
	for _, known := range []*attempt.Attempt{&a, nil} {
		outcome := approves(a)
		want("outcome", s.Apply(t.Context(), outcome.Step(known)))
	}
	step, outcome := starts("lost as well"), approves(a)
	late := outcome.Step(&a)
	if err := s.Apply(t.Context(), &step.Step, late); err == nil || step.Err == nil || late.Err == nil {
		t.Errorf("two at once: %v", err)
	}
	want("InTx", s.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
		t.Error("the host's function runs")
		return nil
	}))
	_, err := s.TakeDue(t.Context(), 1, time.Hour)
	want("TakeDue", err)
	return stored
}

// A connection for reading that is opened later does not lead to another database.
func TestReadersOfAReplacedFile(t *testing.T) {
	path := testFile(t)
	s := testStore(t, path, Options{})
	if err := copyOver(path); err != nil {
		t.Skip("this system does not replace open files: ", err) // the reason is in the message
	}
	first, err := s.reads.Conn(t.Context()) // was there before
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if second, err := s.reads.Conn(t.Context()); !errors.Is(err, errMoved) {
		t.Errorf("another connection: %v, %v", second, err)
	}
}

// What is opened through a link has its log beside the file that the link leads to, until the link leads elsewhere.
func TestLinkThatIsTurned(t *testing.T) {
	file, other := testFile(t), testFile(t)
	link := filepath.Join(t.TempDir(), "link.db")
	start(t, testStore(t, other, Options{}), "1001")
	start(t, testStore(t, file, Options{}), "1001")
	if err := os.Symlink(file, link); err != nil {
		t.Skip(err) // a system without links
	}
	s := testStore(t, link, Options{})
	a := start(t, s, "1002")
	if err := errors.Join(os.Remove(link), os.Symlink(other, link)); err != nil {
		t.Fatal(err)
	}
	storeWhereNothingIs(t, s, a)
}

// The log is there as long as the store is open, whatever becomes of the connections at work.
func TestLogStays(t *testing.T) {
	path := testFile(t)
	s := testStore(t, path, Options{})
	for _, order := range []string{"1001", "1002"} {
		a := start(t, s, order)
		s.reads.SetMaxIdleConns(0)
		s.write.drop()
		s.reads.SetMaxIdleConns(readers)
		outcome := approves(a)
		if err := s.Apply(t.Context(), outcome.Step(&a)); err != nil {
			t.Fatal(err)
		}
		wantStatus(t, s, a.ID, attempt.StatusApproved, 2)
	}
}

// A store that is opened again has a new log.
func TestReopenedLog(t *testing.T) {
	path := testFile(t)
	for _, order := range []string{"1001", "1002", "1003"} {
		s, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		start(t, s, order)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the log after Close: %v", err)
		}
	}
}

package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

// makingSteps are what is done while a database is made, in order.
var makingSteps = []string{"draft written", "draft", "database", "migrations", "draft removed"}

func init() {
	// make opens a database and dies at a step.
	for _, at := range makingSteps {
		roles["make, killed at "+at] = func(path string, _ *bufio.Scanner) error {
			onMaking = func(done string) {
				if done != at {
					return
				}
				p, err := os.FindProcess(os.Getpid())
				if err == nil {
					err = p.Kill()
				}
				fmt.Println("still there:", err)
				select {}
			}
			_, err := Open(context.Background(), path, Options{})
			return err
		}
	}
	// pay once stores an attempt, tells of it and waits to be killed.
	roles["pay once"] = func(path string, in *bufio.Scanner) error {
		s, err := Open(context.Background(), path, Options{})
		if err != nil {
			return err
		}
		step := starts("1001")
		if err := s.Apply(context.Background(), &step.Step); err != nil {
			return err
		}
		fmt.Println(step.got.ID)
		in.Scan() // for ever
		return nil
	}
}

// needsDraft skips where databases are not made by way of a draft.
func needsDraft(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("there databases are filled in place") // by design: making.go says where
	}
}

// killedAt lets another process make a database and die at a step.
func killedAt(t *testing.T, step, path string) {
	t.Helper()
	p := run(t, "make, killed at "+step, path)
	if p.out.Scan() {
		t.Fatalf("at %s: %s", step, p.out.Text())
	}
	if err := p.cmd.Wait(); err == nil {
		t.Fatalf("it did not come to %q", step)
	}
}

// paidAndKilled returns a new database with an attempt in it, left by a process that was killed.
func paidAndKilled(t *testing.T) (path, id string) {
	t.Helper()
	path = testFile(t)
	p := run(t, "pay once", path)
	id = p.hear()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // it was killed
	return path, id
}

func wantRefused(t *testing.T, path string) {
	t.Helper()
	for range 2 { // the first try leaves nothing that the second one takes for a log
		s, err := Open(t.Context(), path, Options{})
		if !errors.Is(err, attempt.ErrUnavailable) || !strings.Contains(err.Error(), "was its -wal file left behind?") {
			t.Fatalf("%v, %v; want that it is refused", s, err)
		}
	}
}

// wantUsable opens a database that was cut off, pays with it, and looks that nothing is left of how it was made.
func wantUsable(t *testing.T, path string) {
	t.Helper()
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := start(t, s, "1001")
	if there := listed(t, path); len(there) != 1 || !there[a.ID] {
		t.Errorf("another process finds %v, want %s", there, a.ID)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(path + "*"); err != nil || !slices.Equal(left, []string{path}) {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := Validate(t.Context(), path); err != nil {
		t.Error(err)
	}
}

func remove(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A process that is killed while it makes a database leaves one that the next process goes on with; so does each one after it.
// As nothing can have been paid, that holds without the log as well.
func TestKilledWhileMaking(t *testing.T) {
	needsDraft(t)
	for i, step := range makingSteps {
		t.Run(step, func(t *testing.T) {
			path := testFile(t)
			for range 2 {
				killedAt(t, step, path)
				if step != "draft written" { // that can happen again: each killed process leaves its own
					break
				}
			}
			for _, suffix := range []string{"", "-wal", "-shm"} {
				_, err := os.Stat(path + suffix)
				if there := err == nil; there && i < 2 || !there && suffix == "" && i >= 2 {
					t.Errorf("%q is there: %v", suffix, there)
				}
			}
			wantUsable(t, path)
		})
		t.Run(step+", killed again later", func(t *testing.T) {
			path := testFile(t)
			killedAt(t, step, path)
			for _, later := range makingSteps[min(i+1, 3):4] {
				killedAt(t, later, path)
			}
			wantUsable(t, path)
		})
		if step == "draft removed" {
			continue
		}
		t.Run(step+", log removed", func(t *testing.T) {
			path := testFile(t)
			killedAt(t, step, path)
			remove(t, path+"-wal", path+"-shm")
			wantUsable(t, path)
		})
	}
}

// The power fails while the first commit is written: of the log there is any part, or whatever stood on the disk before.
func TestPartOfTheFirstCommit(t *testing.T) {
	needsDraft(t)
	path := testFile(t)
	killedAt(t, "migrations", path)
	log, err := os.ReadFile(path + "-wal")
	if err != nil || len(log) < 4096 {
		t.Fatalf("a log of %d bytes, %v", len(log), err)
	}
	for _, n := range []int{0, 1, 31, 32, 33, 32 + 24, 32 + 24 + 4095, len(log) / 2, len(log) - 1, len(log)} {
		for _, fill := range []bool{false, true} {
			part := log[:n:n]
			if fill {
				part = append(part, make([]byte, len(log)-n)...)
			}
			dir := t.TempDir()
			file := filepath.Join(dir, "attempts.db")
			copyFile(t, path, file)
			if err := errors.Join(os.Link(file, draft{file: file}.name()), os.WriteFile(file+"-wal", part, 0o600)); err != nil {
				t.Fatal(err)
			}
			wantUsable(t, file)
		}
	}
}

// A database whose log is gone with payments in it is refused, from the first payment on, wherever it lies now: else they
// would be made once more.
func TestLostLogIsRefused(t *testing.T) {
	needsDraft(t)
	t.Run("removed", func(t *testing.T) {
		path, id := paidAndKilled(t)
		if there := listed(t, path); !there[id] {
			t.Fatalf("%v, want %s", there, id)
		}
		path, _ = paidAndKilled(t)
		remove(t, path+"-wal")
		wantRefused(t, path)
	})
	t.Run("removed with its index", func(t *testing.T) {
		path, _ := paidAndKilled(t)
		remove(t, path+"-wal", path+"-shm")
		wantRefused(t, path)
		if s, err := Open(t.Context(), path, Options{ReadOnly: true}); !errors.Is(err, attempt.ErrUnavailable) {
			t.Errorf("to look at it: %v, %v", s, err)
		}
	})
	t.Run("empty", func(t *testing.T) {
		path, _ := paidAndKilled(t)
		if err := os.Truncate(path+"-wal", 0); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, path)
	})
	t.Run("without its database", func(t *testing.T) {
		path, id := paidAndKilled(t)
		kept := filepath.Join(t.TempDir(), "kept")
		copyFile(t, path, kept)
		remove(t, path)
		if s, err := Open(t.Context(), path, Options{}); !errors.Is(err, attempt.ErrUnavailable) || !strings.Contains(err.Error(), path+"-wal") {
			t.Errorf("%v, %v, want an error that names the log", s, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a refused database is there: %v", err)
		}
		copyFile(t, kept, path)
		if there := listed(t, path); !there[id] {
			t.Errorf("brought back, %v is there, want %s", there, id)
		}
	})
	t.Run("of another database", func(t *testing.T) {
		path, id := paidAndKilled(t)
		other := filepath.Join(t.TempDir(), "attempts.db")
		copyFile(t, path, other)
		wantRefused(t, other)
		copyFile(t, path+"-wal", other+"-wal")
		if there := listed(t, other); len(there) != 1 || !there[id] {
			t.Errorf("with its log %v is there, want %s", there, id)
		}
	})
	t.Run("while it was open", func(t *testing.T) {
		path := testFile(t)
		s := testStore(t, path, Options{})
		start(t, s, "1001")
		other := filepath.Join(t.TempDir(), "attempts.db")
		copyFile(t, path, other)
		wantRefused(t, other)
		// And beside the draft of a database that is being made: a name says nothing, only the file does.
		copyFile(t, path, draft{file: other}.name())
		wantRefused(t, other)
	})
	// A copy from before the first payment is a draft somewhere else: nobody can know.
	t.Run("before the first payment", func(t *testing.T) {
		path := testFile(t)
		testStore(t, path, Options{})
		other := filepath.Join(t.TempDir(), "attempts.db")
		copyFile(t, path, other)
		wantRefused(t, other)
	})
}

// Once a store was closed its file is whole, with payments or without.
func TestClosedFileIsWhole(t *testing.T) {
	for _, orders := range [][]string{nil, {"1001"}} {
		path := testFile(t)
		s, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, order := range orders {
			start(t, s, order)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		other := filepath.Join(t.TempDir(), "attempts.db")
		copyFile(t, path, other)
		if there := listed(t, other); len(there) != len(orders) {
			t.Errorf("%d orders: %v", len(orders), there)
		}
		db, err := sql.Open("sqlite", other)
		if err != nil {
			t.Fatal(err)
		}
		var says string
		if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&says); err != nil || says != "ok" {
			t.Errorf("%s, %v", says, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A draft is no database of an older release: that takes it for damaged.
func TestDraftSaysSo(t *testing.T) {
	needsDraft(t)
	path := testFile(t)
	killedAt(t, "database", path)
	status, err := MigrationStatus(t.Context(), path)
	if err != nil || len(status) == 0 || !status[0].AppliedAt.IsZero() {
		t.Errorf("applied of a draft: %+v, %v", status, err)
	}
	if err := Validate(t.Context(), path); err == nil || !strings.Contains(err.Error(), "has schema 0") {
		t.Errorf("valid: %v", err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var number, payments int
	if err := db.QueryRowContext(t.Context(), "SELECT max(number), (SELECT count(*) FROM chargeonce_slots) FROM chargeonce_migrations").
		Scan(&number, &payments); err != nil || number >= 0 || payments > 0 {
		t.Errorf("number %d, %d payments, %v", number, payments, err)
	}
}

// Through a link to the database the draft is found all the same.
func TestDraftThroughALink(t *testing.T) {
	needsDraft(t)
	path := testFile(t)
	killedAt(t, "database", path)
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	start(t, testStore(t, link, Options{}), "1001")
	wantRefusedCopy := filepath.Join(t.TempDir(), "attempts.db")
	copyFile(t, path, wantRefusedCopy)
	wantRefused(t, wantRefusedCopy)
}

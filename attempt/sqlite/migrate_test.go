package sqlite

import (
	"bufio"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

func init() {
	roles["open"] = func(path string, in *bufio.Scanner) error {
		fmt.Println("ready")
		in.Scan()
		s, err := Open(context.Background(), path, Options{})
		if err != nil {
			return err
		}
		return s.Close()
	}
}

func appliedMigrations(t *testing.T, s *Store) (numbers []int64) {
	t.Helper()
	err := sqlSession{ctx: t.Context(), db: s.reads}.query1("SELECT number FROM chargeonce_migrations ORDER BY number",
		func(row []driver.Value) error {
			numbers = append(numbers, row[0].(int64))
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return numbers
}

// Many open a file that is not there yet at once, in this process and in others: it is migrated once.
func TestMigrateAtOnce(t *testing.T) {
	path := testFile(t)
	var others []*process
	for range 3 {
		p := run(t, "open", path)
		p.hear()
		others = append(others, p)
	}
	stores := make([]*Store, 8)
	var wg sync.WaitGroup
	for _, p := range others {
		p.tell("go")
	}
	for i := range stores {
		wg.Go(func() {
			var err error
			if stores[i], err = Open(t.Context(), path, Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, p := range others {
		p.end()
	}
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range stores {
		if s == nil {
			continue
		}
		if got := appliedMigrations(t, s); len(got) != len(all) {
			t.Errorf("migrations %v were applied, want %d", got, len(all))
		}
		start(t, s, fmt.Sprint(i))
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A release that is older than the file must not touch it.
func TestNewerSchema(t *testing.T) {
	path := testFile(t)
	s := testStore(t, path, Options{})
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	err = s.write.with(func(r *rawSession) error {
		return r.exec1("INSERT INTO chargeonce_migrations (number, name, applied_at) VALUES (?, 'future', 0)", int64(len(all)+1))
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), path, Options{})
	if !errors.Is(err, attempt.ErrUnavailable) || !strings.Contains(err.Error(), fmt.Sprintf("has schema %d, this release knows %d", len(all)+1, len(all))) {
		t.Errorf("Open: %v", err)
	}
}

// Opening a file that is up to date needs no lock: a look at the attempts never waits for a writer.
func TestOpenUnderALock(t *testing.T) {
	path := testFile(t)
	s := testStore(t, path, Options{})
	a := start(t, s, "1001")
	release := hold(t, s)
	wantStatus(t, testStore(t, path, Options{}), a.ID, attempt.StatusSending, 1)
	release()
}

// A migration that fails leaves nothing behind.
func TestMigrationsAreOneTransaction(t *testing.T) {
	path := testFile(t)
	if err := create(path); err != nil {
		t.Fatal(err)
	}
	c, err := newConnector(path, false)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := c.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &rawSession{conn: conn}
	if err := r.exec1("CREATE TABLE chargeonce_events (something TEXT)"); err != nil { // in the way
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{}); err == nil || !strings.Contains(err.Error(), "0001") {
		t.Fatalf("Open: %v, want the migration that failed", err)
	}
	var tables []string
	err = r.query1("SELECT name FROM sqlite_schema WHERE name LIKE 'chargeonce%'", func(row []driver.Value) error {
		tables = append(tables, row[0].(string))
		return nil
	})
	if err != nil || len(tables) != 1 {
		t.Errorf("left behind: %v, %v", tables, err)
	}
	if err := errors.Join(r.exec1("DROP TABLE chargeonce_events"), conn.Close()); err != nil {
		t.Fatal(err)
	}
	start(t, testStore(t, path, Options{}), "1001")
}

// Finding due and open attempts costs what these are, not what all are: the index has to be used.
func TestIndexesServe(t *testing.T) {
	s := testStore(t, testFile(t), Options{})
	notes, _ := selectNotes(attempt.NoteFilter{})
	orphans, _ := selectNotes(attempt.NoteFilter{Orphans: true})
	notesOf, _ := selectNotes(attempt.NoteFilter{AttemptID: "a"})
	for query, want := range map[string]string{
		notes:               "(scope=? AND id>?)",
		orphans:             "chargeonce_orphans (scope=? AND id>?)",
		notesOf:             "chargeonce_notes_of (attempt_id=? AND scope=? AND id>?)",
		selectDueIn(2):      "USING INDEX chargeonce_open (next_check_at<?)",
		statements[stmtDue]: "USING INDEX chargeonce_open (next_check_at<?)",
		"SELECT seq FROM chargeonce_attempts INDEXED BY chargeonce_open WHERE " + isOpen + " ORDER BY seq": "chargeonce_open",
		selectOwing:                     "chargeonce_owing",
		statements[stmtSent]:            "INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
		statements[stmtBriefs]:          "(id=?)",
		statements[stmtBriefsOfCharges]: "chargeonce_charged (charge_id=?)",
		statements[stmtNote]:            "(scope=? AND id=?)",
		statements[stmtFree]:            "chargeonce_undelivered (relay=? AND taken_until=?)",
		statements[stmtRelease]:         "chargeonce_undelivered (relay=? AND taken_until>? AND taken_until<?)",
		statements[stmtTake]:            "PRIMARY KEY (relay=? AND attempt_id=?)",
		statements[stmtUndelivered]:     "PRIMARY KEY (relay=? AND attempt_id=?)",
		statements[stmtSlotWith]:        "(slot=?)",
		statements[stmtAttempt]:         "(id=?)",
		statements[stmtEvents]:          "PRIMARY KEY (attempt_id=?)",
		statements[stmtSlot]:            "(order_id=? AND account=? AND purpose=?)",
	} {
		var plan []string
		var args []driver.Value
		for range strings.Count(query, "?") {
			args = append(args, int64(1))
		}
		err := sqlSession{ctx: t.Context(), db: s.reads}.query1("EXPLAIN QUERY PLAN "+query, func(row []driver.Value) error {
			plan = append(plan, row[3].(string))
			return nil
		}, args...)
		text := strings.Join(plan, "; ")
		if err != nil || !strings.Contains(text, want) || strings.Contains(text, "TEMP B-TREE") && !strings.Contains(query, "ORDER BY seq") {
			t.Errorf("%s: %s, want %s: %v", query, text, want, err)
		}
	}
}

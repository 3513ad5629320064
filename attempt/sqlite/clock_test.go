package sqlite

import (
	"database/sql/driver"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// latest is what a store tells of its clock without reading any attempt.
func latest(t *testing.T, s *Store) (now, latest time.Time) {
	t.Helper()
	v, err := s.Slot(t.Context(), attempt.Slot{Order: "never seen"}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	return v.Now, v.Latest
}

// A clock that was set back while no process ran is seen by what the database holds.
func TestClockSetBackBeforeOpen(t *testing.T) {
	path := testFile(t)
	made := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	clock := made
	reopen := func() *Store { return testStore(t, path, Options{Now: func() time.Time { return clock }}) }
	s := reopen()
	clock = made.Add(-3 * time.Hour)
	if now, known := latest(t, reopen()); !now.Equal(clock) || !known.Equal(made) {
		t.Errorf("an empty database: now %s, latest %s, want %s and %s", now, known, clock, made)
	}
	clock = made.Add(time.Hour)
	a := start(t, s, "1001")
	clock = clock.Add(time.Hour)
	newer := start(t, s, "1002")
	clock = clock.Add(time.Hour)
	outcome := approves(a) // not of the newest attempt
	if err := s.Apply(t.Context(), outcome.Step(&a)); err != nil {
		t.Fatal(err)
	}
	told := clock
	clock = newer.CreatedAt.Add(-3 * time.Hour)
	if now, known := latest(t, reopen()); !now.Equal(clock) || !known.Equal(told) {
		t.Errorf("now %s, latest %s, want %s and %s", now, known, clock, told)
	}
}

// What another process has written counts when it is read, however that is.
func TestClockOfAnotherProcess(t *testing.T) {
	told := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, read := range map[string]func(*Store, attempt.Attempt) error{
		"Attempt": func(s *Store, a attempt.Attempt) error { _, err := s.Attempt(t.Context(), a.ID); return err },
		"Slot":    func(s *Store, a attempt.Attempt) error { _, err := s.Slot(t.Context(), a.Slot); return err },
		"TakeDue": func(s *Store, _ attempt.Attempt) error {
			v, err := s.TakeDue(t.Context(), 1, time.Hour)
			if len(v.Attempts) != 1 || !v.Latest.Equal(told) {
				t.Errorf("TakeDue: %d due, latest %s, want %s", len(v.Attempts), v.Latest, told)
			}
			return err
		},
		"List": func(s *Store, _ attempt.Attempt) error {
			for _, err := range s.List(t.Context(), attempt.Filter{}) {
				return err
			}
			return nil
		},
		"Apply": func(s *Store, a attempt.Attempt) error {
			return s.Apply(t.Context(), &attempt.Step{ID: a.ID, Do: func(v attempt.View) ([]attempt.Write, error) {
				if !v.Latest.Equal(told) {
					t.Errorf("Apply: latest %s, want %s", v.Latest, told)
				}
				return nil, nil
			}})
		},
	} {
		path := testFile(t)
		back := told.Add(-3 * time.Hour)
		s := testStore(t, path, Options{Now: func() time.Time { return back }})
		other := testStore(t, path, Options{Now: func() time.Time { return told }})
		a := start(t, other, "1001")
		err := other.write.with(func(r *rawSession) error {
			return r.exec1("UPDATE chargeonce_attempts SET next_check_at = 0")
		})
		if err != nil {
			t.Fatal(err)
		}
		if now, known := latest(t, s); !now.Equal(back) || !known.Equal(back) {
			t.Errorf("%s: latest %s, want %s before anything is read", name, known, back)
		}
		if err := read(s, a); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, known := latest(t, s); !known.Equal(told) {
			t.Errorf("%s: latest %s, want %s", name, known, told)
		}
	}
}

// What Open reads does not grow with the database: it takes the newest attempts off the table's end.
func TestLatestStoredIsCheap(t *testing.T) {
	s := testStore(t, testFile(t), Options{})
	var plan []string
	err := s.write.with(func(r *rawSession) error {
		return r.query1("EXPLAIN QUERY PLAN "+selectLatest, func(row []driver.Value) error {
			plan = append(plan, row[3].(string))
			return nil
		}, int64(latestAttempts))
	})
	if err != nil || len(plan) == 0 {
		t.Fatal(plan, err)
	}
	if text := strings.Join(plan, "\n"); strings.Contains(text, "TEMP B-TREE") {
		t.Errorf("the attempts are sorted:\n%s", text)
	}
}

package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// checkUnseen fails if a step that happens once has happened. One that has an attempt happens in spite of a note that concerns
// none.
func checkUnseen(tx session, step *attempt.Step) error {
	seen := false
	err := tx.query(stmtNote, func(row []driver.Value) error {
		d := decoder{values: row}
		seen = d.text("attempt_id") != "" || step.ID == ""
		return d.err
	}, step.Once.Scope, step.Once.ID)
	if err != nil || !seen {
		return err
	}
	if step.ID != "" {
		slot, err := number(tx, stmtSlotOf, step.ID)
		if err != nil {
			return err
		}
		if slot == 0 {
			return &attempt.StepError{Err: notFound(step.ID)}
		}
	}
	return &attempt.StepError{Err: fmt.Errorf("%s %s: %w", step.Once.Scope, step.Once.ID, attempt.ErrSeen)}
}

// keepNote keeps what makes a step happen once.
func keepNote(tx session, step *attempt.Step, now time.Time) (*attempt.Note, error) {
	n := &attempt.Note{Once: *step.Once, AttemptID: step.ID, At: now}
	_, err := tx.exec(stmtKeepNote, n.Scope, n.ID, n.AttemptID, micros(n.At), blob(n.Data))
	return n, err
}

// noteIsWritten tells whether a note is in the database, exactly so.
func noteIsWritten(tx session, n *attempt.Note) (there bool, err error) {
	err = tx.query(stmtNote, func(row []driver.Value) error {
		d := decoder{values: row}
		there = d.text("attempt_id") == n.AttemptID && d.time("at").Equal(n.At) && bytes.Equal(d.blob("data"), n.Data)
		return d.err
	}, n.Scope, n.ID)
	return there, err
}

// Notes implements [attempt.Store].
func (s *Store) Notes(ctx context.Context, f attempt.NoteFilter) ([]attempt.Note, error) {
	r, err := s.reading(ctx)
	if err != nil {
		return nil, err
	}
	query, args := selectNotes(f)
	var notes []attempt.Note
	err = r.query1(query, func(row []driver.Value) error {
		d := decoder{values: row}
		n := attempt.Note{Once: attempt.Once{Scope: f.Scope, ID: d.text("id")}, AttemptID: d.text("attempt_id"), At: d.time("at")}
		n.Data = d.blob("data")
		notes = append(notes, n)
		return d.err
	}, args...)
	return notes, s.unavailable(err)
}

func selectNotes(f attempt.NoteFilter) (query string, args []driver.Value) {
	query = "SELECT id, attempt_id, at, data FROM chargeonce_notes WHERE scope = ? AND id > ?"
	args = []driver.Value{f.Scope, f.After}
	if f.Orphans {
		query += " AND attempt_id = ''"
	}
	if f.AttemptID != "" {
		query += " AND attempt_id = ? AND attempt_id <> ''" // in the index's words
		args = append(args, f.AttemptID)
	}
	limit := f.Limit
	if limit <= 0 {
		limit = 1000
	}
	return query + " ORDER BY id LIMIT ?", append(args, int64(limit))
}

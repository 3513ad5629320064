package sqlite

import (
	"cmp"
	"database/sql/driver"
	"fmt"
	"slices"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// number runs a query for the number of a row, 0 if there is none.
func number(tx session, s statement, args ...driver.Value) (n int64, err error) {
	err = tx.query(s, func(row []driver.Value) error {
		v, ok := row[0].(int64)
		if !ok {
			return fmt.Errorf("%v is no number", row[0])
		}
		n = v
		return nil
	}, args...)
	return n, err
}

// slotRow is a slot and the number of its row, 0 where there is none yet.
type slotRow struct {
	name     attempt.Slot
	number   int64
	closedAt time.Time
}

// slotWith reads a slot with its attempts, by one of the statements that select those.
func slotWith(tx session, s statement, args ...driver.Value) (slot slotRow, all []attempt.Attempt, err error) {
	err = tx.query(s, func(row []driver.Value) error {
		d := decoder{values: row, at: 1}
		slot.number, slot.closedAt = d.int64("id"), d.time("closed_at")
		slot.name = attempt.Slot{Account: d.text("account"), Order: d.text("order_id"), Purpose: d.text("purpose")}
		if row[0] == nil || d.err != nil { // the slot has no attempt
			return d.err
		}
		a, _, err := decodeAttempt(row)
		all = append(all, a)
		return err
	}, args...)
	return slot, all, err
}

// write writes what a step decided on what the slot held before. What replaces an attempt's state comes first, so that one
// that ends makes room for one that starts.
func (s *slotRow) write(tx session, before []attempt.Attempt, rows []row, closing *attempt.Closing) error {
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.started(), b.started()) })
	if closing != nil {
		if err := s.close(tx, closing); err != nil {
			return err
		}
	}
	var had driver.Value
	for i := range before {
		if v := liveOf(&before[i]); v != nil {
			had = v
		}
	}
	has := had
	for _, r := range rows {
		if r.old == nil {
			if s.number == 0 {
				if inserted, err := s.insert(tx, nil); err != nil || !inserted {
					return orGone(err, "slot %s: appeared", s.name)
				}
			}
			if err := insertAttempt(tx, s.number, r); err != nil {
				return err
			}
		} else if updated, err := updateAttempt(tx, r); err != nil || !updated {
			return orGone(err, "attempt %s: version %d disappeared", r.Attempt.ID, r.old.Version)
		}
		if v := liveOf(r.Attempt); v != nil {
			has = v
		} else if has == r.Attempt.ID {
			has = nil
		}
	}
	if has != had {
		return setLive(tx, s.number, had, has)
	}
	return nil
}

// orGone returns err, or else that something was not as it had been read in the same transaction.
func orGone(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf(format+" within a transaction", args...)
}

// close closes the slot, which may never have been seen.
func (s *slotRow) close(tx session, c *attempt.Closing) error {
	if s.number == 0 {
		if inserted, err := s.insert(tx, nil); err != nil || !inserted {
			return orGone(err, "slot %s: appeared", s.name)
		}
	}
	e, err := tx.exec(stmtCloseSlot, micros(c.At), c.Who, c.Why, s.number)
	if err != nil || e.changed != 1 {
		return orGone(err, "slot %s: was closed", s.name)
	}
	return nil
}

// liveOf returns a payment's id if it is live: what stands in the row of its slot. NULL stands for none.
func liveOf(a *attempt.Attempt) driver.Value {
	if a.Status.Live() && !a.IsRefund() {
		return a.ID
	}
	return nil
}

func setLive(tx session, slot int64, had, has driver.Value) error {
	e, err := tx.exec(stmtSetLive, has, slot, had)
	if err != nil || e.changed != 1 {
		return orGone(err, "slot row %d: its live attempt is not %v", slot, had)
	}
	return nil
}

// insert makes the slot's row, unless there is one.
func (s *slotRow) insert(tx session, live driver.Value) (inserted bool, err error) {
	e, err := tx.exec(stmtInsertSlot, s.name.Order, s.name.Account, s.name.Purpose, live)
	if err != nil || e.changed == 0 {
		return false, err
	}
	s.number = e.inserted
	return true, nil
}

// insertFirst writes a slot's first attempt, if the slot is not there yet.
func (s *slotRow) insertFirst(tx session, r row) (held bool, err error) {
	if inserted, err := s.insert(tx, liveOf(r.Attempt)); err != nil || !inserted {
		return false, err
	}
	return true, insertAttempt(tx, s.number, r)
}

// updateGuessed writes an attempt's next state, if it is still as the caller knows it.
func updateGuessed(tx session, r row) (held bool, err error) {
	if updated, err := updateAttempt(tx, r); err != nil || !updated {
		return false, err
	}
	had, has := liveOf(r.old), liveOf(r.Attempt)
	if had == has {
		return true, nil
	}
	slot, err := number(tx, stmtSlotOf, r.Attempt.ID)
	if err != nil {
		return true, err
	}
	return true, setLive(tx, slot, had, has)
}

// insertAttempt writes a new attempt with its event.
func insertAttempt(tx session, slot int64, r row) error {
	r.arguments.attempt[slotArg].Value = slot
	if _, err := tx.execArgs(r.stmt, r.arguments.attempt); err != nil {
		return err
	}
	_, err := tx.execArgs(stmtInsertEvent, r.arguments.event)
	return err
}

// updateAttempt writes an attempt's next state with its event, if it is still at the old version and due when that was.
// Nothing is written otherwise.
func updateAttempt(tx session, r row) (updated bool, err error) {
	n, err := tx.execArgs(r.stmt, r.arguments.attempt)
	if err != nil || n.changed == 0 {
		return false, err
	}
	_, err = tx.execArgs(stmtInsertEvent, r.arguments.event)
	return err == nil, err
}

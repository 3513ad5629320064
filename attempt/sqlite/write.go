package sqlite

import (
	"database/sql/driver"
	"fmt"

	"github.com/chargeonce/chargeonce/attempt"
)

// one runs a query for one number.
func one(tx session, s statement, args ...driver.Value) (n int64, found bool, err error) {
	err = tx.query(s, func(row []driver.Value) error {
		v, ok := row[0].(int64)
		if !ok {
			return fmt.Errorf("%v is no number", row[0])
		}
		n, found = v, true
		return nil
	}, args...)
	return n, found, err
}

func attemptsOf(tx session, slot int64) ([]attempt.Attempt, error) {
	var all []attempt.Attempt
	err := tx.query(stmtAttempts, func(row []driver.Value) error {
		a, _, err := decodeAttempt(row)
		all = append(all, a)
		return err
	}, slot)
	return all, err
}

// writeAll writes what a step decided.
func writeAll(tx session, slot attempt.Slot, number int64, before []attempt.Attempt, writes []attempt.Write) error {
	if len(writes) == 0 {
		return nil
	}
	after := append([]attempt.Attempt{}, before...)
	for _, w := range writes {
		known := false
		for i := range after {
			if after[i].ID == w.Attempt.ID {
				after[i], known = w.Attempt, true
			}
		}
		if !known {
			after = append(after, w.Attempt)
		}
	}
	had, has := liveID(before), liveID(after)
	if number == 0 {
		if _, err := tx.exec(stmtInsertSlot, slot.Order, slot.Account, slot.Purpose, has); err != nil {
			return err
		}
		var err error
		if number, _, err = one(tx, stmtSlotByName, slot.Order, slot.Account, slot.Purpose); err != nil {
			return err
		}
	} else if had != has {
		n, err := tx.exec(stmtSetLive, has, number, had)
		if err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("slot %s: its live attempt is not %v", slot, had)
		}
	}
	state := append([]attempt.Attempt{}, before...)
	for _, w := range writes {
		old, known := attempt.View{Attempts: state}.Find(w.Attempt.ID)
		if err := writeOne(tx, number, old, known, w); err != nil {
			return err
		}
		if known {
			for i := range state {
				if state[i].ID == old.ID {
					state[i] = w.Attempt
				}
			}
		} else {
			state = append(state, w.Attempt)
		}
	}
	return nil
}

func liveID(attempts []attempt.Attempt) driver.Value {
	if a, ok := (attempt.View{Attempts: attempts}).Live(); ok {
		return a.ID
	}
	return nil
}

func writeOne(tx session, slot int64, old attempt.Attempt, known bool, w attempt.Write) error {
	a := w.Attempt
	e := &encoder{}
	oldDue, wasOpen := int64(0), false
	if known {
		oldDue, wasOpen = due(old)
		e.changing(a)
		e.add(a.ID, int64(old.Version), micros(old.NextCheckAt))
		if e.err != nil {
			return e.err
		}
		n, err := tx.exec(stmtUpdateAttempt, e.values...)
		if err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("attempt %s: version %d is not there any more", a.ID, old.Version)
		}
	} else {
		e.fixed(a, slot)
		e.changing(a)
		if e.err != nil {
			return e.err
		}
		if _, err := tx.exec(stmtInsertAttempt, e.values...); err != nil {
			return err
		}
	}
	newDue, isOpen := due(a)
	if wasOpen && (!isOpen || newDue != oldDue) {
		n, err := tx.exec(stmtClose, oldDue, a.ID)
		if err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("attempt %s: not listed as open", a.ID)
		}
	}
	if isOpen && (!wasOpen || newDue != oldDue) {
		if _, err := tx.exec(stmtOpen, newDue, a.ID); err != nil {
			return err
		}
	}
	e = &encoder{}
	e.event(w.Event)
	if e.err != nil {
		return e.err
	}
	_, err := tx.exec(stmtInsertEvent, e.values...)
	return err
}

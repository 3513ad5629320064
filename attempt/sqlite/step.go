package sqlite

import (
	"fmt"

	"github.com/chargeonce/chargeonce/attempt"
)

// stepError is an error that a step has brought about itself: nothing was written for it, and other steps are not concerned.
type stepError struct {
	err      error
	panicked any // what Do panicked with, to be passed on to the caller whose step it is
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// runStep runs a step: on what its caller believes, written under a guard, or else on what it finds.
func (s *Store) runStep(tx session, step *attempt.Step, b *belief) ([]attempt.Write, error) {
	if held, err := b.write(tx); held || err != nil {
		return b.writes, err
	}
	b.free() // what it decided is overtaken: the step's last run is the one that counts
	slot, before, err := find(tx, step)
	if err != nil {
		return nil, err
	}
	writes, err := decide(step, slot.name, s.clock.view(before))
	if err != nil || len(writes) == 0 {
		return nil, err
	}
	rows, err := encodeAll(before, writes)
	if err != nil {
		return nil, err
	}
	defer freeAll(rows)
	return writes, slot.write(tx, before, rows)
}

// belief is a step decided on what its caller believes that the slot holds. It is made before the step's turn comes, on
// the caller's goroutine, so that whoever leads has only to write it.
type belief struct {
	made   bool // there is something to write on belief
	slot   attempt.Slot
	writes []attempt.Write // one
	row    row
}

// believe runs a step on its caller's belief. A decision not to write has no guard that could tell whether the belief was
// true, nor has an error: then the step has to be run on what is really there.
func (s *Store) believe(step *attempt.Step) belief {
	b := belief{slot: step.Slot}
	var v attempt.View
	var old *attempt.Attempt
	switch {
	case step.Fresh && step.ID == "":
	case step.Guess != nil && (step.ID == "" || step.ID == step.Guess.ID):
		v.Attempts = []attempt.Attempt{*step.Guess}
		old = &v.Attempts[0]
		b.slot = old.Slot
	default:
		return belief{}
	}
	v.Now, v.Latest = s.clock.present() // nobody knows yet whether the guess is true, or of when
	writes, err := decide(step, b.slot, v)
	if err != nil || len(writes) != 1 || old != nil && writes[0].Attempt.ID != old.ID {
		return belief{}
	}
	if b.row, err = encode(&writes[0], old); err != nil {
		return belief{}
	}
	b.made, b.writes = true, writes
	return b
}

// write writes what was decided on belief, if the belief holds.
func (b *belief) write(tx session) (held bool, err error) {
	switch {
	case !b.made:
		return false, nil
	case b.row.old == nil:
		slot := slotRow{name: b.slot}
		return slot.insertFirst(tx, b.row)
	}
	return updateGuessed(tx, b.row)
}

func (b *belief) free() {
	if b.made {
		b.made = false
		b.row.free()
	}
}

// find loads what a step works on. A slot that is not there yet has the number 0.
func find(tx session, step *attempt.Step) (slot slotRow, before []attempt.Attempt, err error) {
	slot.name = step.Slot
	if step.ID == "" {
		slot.number, err = number(tx, stmtSlotByName, slot.name.Order, slot.name.Account, slot.name.Purpose)
	} else {
		slot.number, err = number(tx, stmtSlotOf, step.ID)
		if err == nil && slot.number == 0 {
			err = &stepError{err: notFound(step.ID)}
		}
	}
	if err != nil || slot.number == 0 {
		return slot, nil, err
	}
	before, err = attemptsOf(tx, slot.number)
	if step.ID != "" && len(before) > 0 {
		slot.name = before[0].Slot
	}
	return slot, before, err
}

func notFound(id string) error { return fmt.Errorf("attempt %s: %w", id, attempt.ErrNotFound) }

// decide calls the step and checks what it wants to write.
func decide(step *attempt.Step, slot attempt.Slot, v attempt.View) (writes []attempt.Write, err error) {
	defer func() {
		if p := recover(); p != nil {
			writes, err = nil, &stepError{err: fmt.Errorf("the step panicked: %v", p), panicked: p}
		}
	}()
	writes, err = step.Do(v)
	if err == nil {
		err = attempt.CheckWrites(slot, v.Attempts, writes)
	}
	if err != nil {
		return nil, &stepError{err: err}
	}
	return writes, nil
}

// encodeAll makes the rows of all that a step writes.
func encodeAll(before []attempt.Attempt, writes []attempt.Write) ([]row, error) {
	rows := make([]row, 0, len(writes))
	for n := range writes {
		var old *attempt.Attempt
		for k := range before {
			if before[k].ID == writes[n].Attempt.ID {
				old = &before[k]
			}
		}
		r, err := encode(&writes[n], old)
		if err != nil {
			freeAll(rows)
			return nil, &stepError{err: err}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func freeAll(rows []row) {
	for _, r := range rows {
		r.free()
	}
}

package sqlite

import (
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// effects are what a step has written.
type effects struct {
	slot   attempt.Slot
	now    time.Time
	writes []attempt.Write
	note   *attempt.Note // nil: none
}

// runStep runs a step: on what its caller believes, written under a guard, or else on what it finds.
func (s *Store) runStep(tx session, step *attempt.Step, b *belief) (done effects, err error) {
	if step.Once != nil {
		if err := checkUnseen(tx, step); err != nil {
			return effects{}, err
		}
	}
	if held, err := b.write(tx); err != nil {
		return effects{}, err
	} else if held {
		done = b.effects
	} else {
		b.free() // what it decided is overtaken: the step's last run is the one that counts
		if done, err = s.runFound(tx, step); err != nil {
			return effects{}, err
		}
	}
	if step.Once != nil {
		done.note, err = keepNote(tx, step, done.now)
	}
	return done, err
}

// runFound runs a step on what it finds.
func (s *Store) runFound(tx session, step *attempt.Step) (effects, error) {
	slot, before, err := find(tx, step)
	if err != nil {
		return effects{}, err
	}
	v := s.clock.view(slot, before)
	done := effects{slot: slot.name, now: v.Now}
	if step.Do == nil {
		return done, nil
	}
	done.writes, err = step.Decide(slot.name, v)
	if err != nil || len(done.writes) == 0 {
		return done, err
	}
	rows, closing, err := encodeAll(before, done.writes)
	if err != nil {
		return done, err
	}
	defer freeAll(rows)
	return done, slot.write(tx, before, rows, closing)
}

// belief is a step decided on what its caller believes that the slot holds. It is made before the step's turn comes, on
// the caller's goroutine, so that whoever leads has only to write it.
type belief struct {
	made    bool    // there is something to write on belief
	effects effects // one write
	row     row
}

// believe runs a step on its caller's belief. A decision not to write has no guard that could tell whether the belief was
// true, nor has an error: then the step has to be run on what is really there.
func (s *Store) believe(step *attempt.Step) belief {
	b := belief{effects: effects{slot: step.Slot}}
	var v attempt.View
	var old *attempt.Attempt
	switch {
	case step.Do == nil:
		return belief{}
	case step.Fresh && step.ID == "":
	case step.Guess != nil && step.Guess.IsRefund(): // what it brings to its charge is decided on what is there
		return belief{}
	case step.Guess != nil && (step.ID == "" || step.ID == step.Guess.ID):
		v.Attempts = []attempt.Attempt{*step.Guess}
		old = &v.Attempts[0]
		b.effects.slot = old.Slot
	default:
		return belief{}
	}
	v.Now, v.Latest = s.clock.present() // nobody knows yet whether the guess is true, or of when
	b.effects.now = v.Now
	writes, err := step.Decide(b.effects.slot, v)
	if err != nil || len(writes) != 1 || writes[0].Attempt == nil || old != nil && writes[0].Attempt.ID != old.ID {
		return belief{}
	}
	if b.row, err = encode(&writes[0], old); err != nil {
		return belief{}
	}
	b.made, b.effects.writes = true, writes
	return b
}

// write writes what was decided on belief, if the belief holds.
func (b *belief) write(tx session) (held bool, err error) {
	switch {
	case !b.made:
		return false, nil
	case b.row.old == nil:
		slot := slotRow{name: b.effects.slot}
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
	if step.ID != "" {
		slot, before, err = slotWith(tx, stmtSlotWith, step.ID)
		if err == nil && slot.number == 0 {
			err = &attempt.StepError{Err: notFound(step.ID)}
		}
		return slot, before, err
	}
	if step.Do == nil { // and needs nothing of what is there
		return slotRow{name: step.Slot}, nil, nil
	}
	slot, before, err = slotWith(tx, stmtSlot, step.Slot.Order, step.Slot.Account, step.Slot.Purpose)
	slot.name = step.Slot
	return slot, before, err
}

func notFound(id string) error { return fmt.Errorf("attempt %s: %w", id, attempt.ErrNotFound) }

// encodeAll makes the rows of all that a step writes, its closing aside.
func encodeAll(before []attempt.Attempt, writes []attempt.Write) (rows []row, closing *attempt.Closing, err error) {
	rows = make([]row, 0, len(writes))
	for n := range writes {
		if writes[n].Closing != nil {
			closing = writes[n].Closing
			continue
		}
		var old *attempt.Attempt
		for k := range before {
			if before[k].ID == writes[n].Attempt.ID {
				old = &before[k]
			}
		}
		r, err := encode(&writes[n], old)
		if err != nil {
			freeAll(rows)
			return nil, nil, &attempt.StepError{Err: err}
		}
		rows = append(rows, r)
	}
	return rows, closing, nil
}

func freeAll(rows []row) {
	for _, r := range rows {
		r.free()
	}
}

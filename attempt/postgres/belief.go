package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// effects are what a step has written, or was to write.
type effects struct {
	slot   attempt.Slot
	writes []attempt.Write
	note   *attempt.Note // nil: none
}

// belief is a step decided on what its caller believes that the slot holds. It is made before the step's turn comes, on the
// caller's goroutine, so that whoever works has only to send it.
type belief struct {
	kind
	effects effects // one write
	args    []any
	at      time.Time
}

// believe runs a step on its caller's belief. A decision not to write has no guard that could tell whether the belief was
// true, nor has an error: then the step has to be run on what is really there.
func (s *Store) believe(step *attempt.Step) belief {
	slot := step.Slot
	var v attempt.View
	var old *attempt.Attempt
	switch {
	case step.Do == nil || step.Once != nil:
		return belief{}
	case step.Fresh && step.ID == "":
	case step.Guess != nil && step.Guess.IsRefund(): // what it brings to its charge is decided on what is there
		return belief{}
	case step.Guess != nil && (step.ID == "" || step.ID == step.Guess.ID):
		v.Attempts = []attempt.Attempt{*step.Guess}
		old = &v.Attempts[0]
		slot = old.Slot
	default:
		return belief{}
	}
	var known bool
	if v.Now, v.Latest, known = s.clock.present(); !known {
		return belief{}
	}
	writes, err := step.Decide(slot, v)
	if err != nil || len(writes) != 1 || writes[0].Attempt == nil || old != nil && writes[0].Attempt.ID != old.ID {
		return belief{}
	}
	b := belief{effects: effects{slot: slot, writes: writes}, at: v.Now}
	decided, lock := v.Now, int64(0)
	if s.clock.now != nil {
		decided = time.Time{} // the server's clock has no say
	}
	if old == nil {
		lock = s.lockOfSlot(slot)
	}
	if b.kind, b.args, err = onBelief(&writes[0], old, decided, lock); err != nil {
		return belief{}
	}
	return b
}

// renew decides anew what has waited in the queue for so long that it would not be written.
func (i *item) renew() {
	if i.s.clock.now != nil {
		return
	}
	if now, _, known := i.s.clock.present(); !known || now.Sub(i.belief.at) > within/2 {
		i.belief = i.s.believe(i.step)
		i.loaded = i.belief.kind == notOnBelief
	}
}

// tryOnBelief writes what was decided on belief, all in one commit. Those whose belief does not hold are to be loaded; if the
// commit fails each goes by itself.
func (s *Store) tryOnBelief(ctx context.Context, p *pool, outcome bool, items []*item) {
	err := p.with(ctx, func(c *conn) error {
		queries := s.onBelief(outcome, items)
		if len(queries) == 0 {
			return nil
		}
		if c.explicit || len(queries) > 1 {
			queries = append(append([]query{{text: begin}}, queries...), query{text: "commit"})
		}
		asked := time.Now()
		held := make(map[string]struct{}, len(items))
		durable := ""
		for n := range queries {
			if queries[n].args == nil {
				continue
			}
			queries[n].row = func(row []any) error {
				d := decoder{values: row}
				s.clock.answered(d.time("now"), asked)
				durable = d.text("sync")
				if id := d.optional("id"); id != "" {
					held[id] = struct{}{}
				}
				return d.err
			}
		}
		if err := (pgxSession{c}).run(ctx, queries...); err != nil {
			return err
		}
		for _, i := range items {
			if i.loaded {
				continue
			}
			if _, ok := held[i.belief.effects.writes[0].Attempt.ID]; !ok {
				i.loaded = true
				if durable == "off" {
					i.err = errAsynchronous
				}
			}
		}
		return nil
	})
	for _, i := range items {
		switch {
		case err != nil:
			if i.loaded { // it was not among those sent
				i.again = true
				continue
			}
			i.loaded, i.again = true, true
			if mayBeWritten(err) {
				i.maybe, i.inDoubt = i.belief.effects, true
			}
			if errors.As(err, new(*noConnError)) || code(err) == codeReadOnly {
				i.err = err
			}
		case i.err != nil:
		case i.loaded:
			i.again = true
		}
	}
}

// errAsynchronous: what was written could be lost, so that nothing may be sent for it.
var errAsynchronous = fmt.Errorf("%w: synchronous_commit is off; nothing was stored", attempt.ErrNotDurable)

const begin = "begin isolation level read committed read write"

// onBelief are the statements for items: one for each kind.
func (s *Store) onBelief(outcome bool, items []*item) []query {
	var queries []query
	for _, i := range items {
		i.renew()
	}
	for _, k := range [...]struct {
		kind
		one, many string
		in        []column
	}{
		{writesFirst, s.sql.first, s.sql.firstMany, firstInput},
		{writesResult, s.sql.result, s.sql.resultMany, resultInput},
		{writesUpdate, s.sql.update, s.sql.updateMany, updateInput},
	} {
		var rows [][]any
		for _, i := range items {
			if !i.loaded && i.belief.kind == k.kind {
				rows = append(rows, i.belief.args)
			}
		}
		switch len(rows) {
		case 0:
		case 1:
			queries = append(queries, query{text: k.one, args: append(rows[0][:len(rows[0]):len(rows[0])], outcome)})
		default:
			args, err := arrays(k.in, rows)
			if err != nil { // each is loaded then, and tells its own error
				for _, i := range items {
					i.loaded = i.loaded || i.belief.kind == k.kind
				}
				continue
			}
			queries = append(queries, query{text: k.many, args: append(args, outcome)})
		}
	}
	return queries
}

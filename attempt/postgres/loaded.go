package postgres

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// tryLoaded runs a step on what it finds, in a transaction of its own: one round trip to lock and load, one to write and commit.
func (i *item) tryLoaded(ctx context.Context, p *pool) {
	err := p.with(ctx, func(c *conn) error {
		db := pgxSession{c}
		var x change
		x.before = []query{{text: begin}}
		x.item = i
		err := i.s.load(ctx, db, i.step, &x)
		if err == nil {
			err = i.s.decideLoaded(i.step, &x)
		}
		if err != nil || len(x.writes) == 0 {
			if c.IsClosed() || unusable(err) {
				return err
			}
			return errors.Join(err, db.run(ctx, query{text: "rollback"}))
		}
		i.maybe, i.inDoubt = x.effects, true // from here on nobody knows until the commit is heard of
		err = db.run(ctx, append(x.writes, query{text: "commit"})...)
		if !mayBeWritten(err) {
			i.inDoubt = false
		}
		if err != nil && !c.IsClosed() && !unusable(err) {
			err = errors.Join(err, db.run(ctx, query{text: "rollback"}))
		}
		return err
	})
	i.verdict(err)
}

// change is a step on its way through a transaction that has locked and loaded what it works on.
type change struct {
	before  []query // that travel with those that load
	item    *item   // nil in a transaction of the host's
	slot    slotRow
	found   []attempt.Attempt
	server  time.Time // by the server's clock, after the lock was had
	known   time.Time // latest time known before
	durable bool
	seen    bool // the step's note is there
	noteOf  string

	effects effects
	writes  []query
	done    bool // written before
}

// load locks the slot that a step works on, before its attempts, and reads them. It waits for nobody: it fails with errHeld
// where another transaction holds one of them.
func (s *Store) load(ctx context.Context, db session, step *attempt.Step, x *change) error {
	if step.ID != "" && !isID(step.ID) {
		return notFound(step.ID)
	}
	x.known = s.clock.known()
	asked := time.Now()
	queries := x.before
	free, locked, lockedAttempts := true, false, 0
	tryLock := func(n int64) {
		queries = append(queries, query{text: s.sql.tryLock, args: []any{n}, row: func(row []any) error {
			d := decoder{values: row}
			free = d.bool("locked") && free
			return d.err
		}})
	}
	lock, lockAttempts, read := s.sql.lockSlotOf, s.sql.lockAttemptsOf, s.sql.slotOf
	args := []any{step.ID}
	if step.ID == "" {
		lock, lockAttempts, read = s.sql.lockSlot, s.sql.lockAttempts, s.sql.slot
		args = []any{step.Slot.Order, step.Slot.Account, step.Slot.Purpose}
	}
	needsSlot := step.ID != "" || step.Do != nil
	if needsSlot {
		if step.ID == "" {
			tryLock(s.lockOfSlot(step.Slot))
		}
		queries = append(queries,
			query{text: lock, args: args, row: func([]any) error { locked = true; return nil }},
			query{text: lockAttempts, args: args, row: func([]any) error { lockedAttempts++; return nil }},
			query{text: read, args: args, row: x.readSlot})
	}
	if step.Once != nil {
		tryLock(s.lockOfNote(step.Once))
		queries = append(queries, query{text: s.sql.note, args: []any{step.Once.Scope, step.Once.ID}, row: func(row []any) error {
			d := decoder{values: row}
			x.seen, x.noteOf = true, d.optional("attempt_id")
			return d.err
		}})
	}
	queries = append(queries, query{text: s.sql.told, args: []any{step.Outcome}, row: func(row []any) error {
		d := decoder{values: row}
		x.server = d.time("now")
		x.durable = d.text("sync") != "off"
		return d.err
	}})
	var back *readBack
	if x.item != nil && x.item.inDoubt {
		back = new(readBack)
		queries = append(queries, back.queries(s, x.item.maybe)...)
	}
	if err := s.storable(step); err != nil {
		return err
	}
	if err := db.run(ctx, queries...); err != nil {
		return err
	}
	s.clock.answered(x.server, asked)
	switch {
	case !free, needsSlot && x.slot.number != 0 && (!locked || lockedAttempts != len(x.found)):
		return errHeld
	case step.ID != "" && x.slot.number == 0:
		return notFound(step.ID)
	}
	if back != nil {
		x.done = back.found()
		x.item.inDoubt = false
	}
	return nil
}

// storable refuses what no statement could carry, before it spoils a transaction.
func (s *Store) storable(step *attempt.Step) error {
	texts := []string{step.Slot.Order, step.Slot.Account, step.Slot.Purpose}
	if step.Once != nil {
		texts = append(texts, step.Once.Scope, step.Once.ID)
	}
	for _, t := range texts {
		if !storable(t) {
			return &stepError{err: fmt.Errorf("%q is no text that PostgreSQL can store", t)}
		}
	}
	return nil
}

// readSlot reads a row of a slot with one of its attempts.
func (x *change) readSlot(row []any) (err error) {
	var held bool
	if x.slot, held, err = decodeSlot(row); err != nil || !held {
		return err
	}
	a, _, err := decodeAttempt(row)
	x.found = append(x.found, a)
	return err
}

func notFound(id string) error {
	return &stepError{err: fmt.Errorf("attempt %s: %w", id, attempt.ErrNotFound)}
}

// decideLoaded runs a step on what was loaded and makes the statements that write what it decided.
func (s *Store) decideLoaded(step *attempt.Step, x *change) error {
	if x.done {
		return nil
	}
	if step.Once != nil && x.seen && (x.noteOf != "" || step.ID == "") {
		return &stepError{err: fmt.Errorf("%s %s: %w", step.Once.Scope, step.Once.ID, attempt.ErrSeen)}
	}
	if step.ID == "" {
		x.slot.name = step.Slot
	}
	v := s.clock.view(x.slot, x.found, x.server, x.known)
	x.effects.slot = x.slot.name
	if step.Do != nil {
		writes, err := decide(step, x.slot.name, v)
		if err != nil {
			return err
		}
		x.effects.writes = writes
		if err := s.encode(x, writes); err != nil {
			return &stepError{err: err}
		}
	}
	if step.Once != nil {
		if err := s.keepNote(step, x, v.Now); err != nil {
			return &stepError{err: err}
		}
	}
	if len(x.writes) > 0 && !x.durable && x.item != nil {
		return errAsynchronous
	}
	return nil
}

// encode makes the statements that write what a step decided on what the slot held before. What replaces an attempt's state
// comes first, so that one that ends makes room for one that starts.
func (s *Store) encode(x *change, writes []attempt.Write) error {
	var e encoder
	e.slot(x.slot.name)
	name := e.args[:3:3]
	var made []query
	had := ""
	for i := range x.found {
		if live(&x.found[i]) {
			had = x.found[i].ID
		}
	}
	has := had
	ordered := slices.Clone(writes)
	started := func(w attempt.Write) int {
		if w.Attempt != nil && w.Attempt.Version == 1 {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(ordered, func(a, b attempt.Write) int { return cmp.Compare(started(a), started(b)) })
	for n := range ordered {
		w := &ordered[n]
		if w.Closing != nil {
			e.text(w.Closing.Who, w.Closing.Why)
			made = append(made, query{text: s.sql.closeSlot, args: append(name, instant(w.Closing.At), w.Closing.Who, w.Closing.Why)})
			continue
		}
		var q query
		var err error
		if old := find(x.found, w.Attempt.ID); old != nil {
			q.text = s.sql.replace
			q.args, err = replaceArgs(w, old)
		} else {
			q.text = s.sql.insert
			q.args, err = insertArgs(w)
		}
		if err != nil {
			return err
		}
		made = append(made, q)
		switch {
		case live(w.Attempt):
			has = w.Attempt.ID
		case has == w.Attempt.ID:
			has = ""
		}
	}
	if len(made) == 0 {
		return nil
	}
	if x.slot.number == 0 {
		x.writes = append(x.writes, query{text: s.sql.insertSlot, args: name})
	}
	x.writes = append(x.writes, made...)
	if has != had {
		e.id(has)
		e.id(had)
		x.writes = append(x.writes, query{text: s.sql.setLive, args: append(name, e.args[len(e.args)-2:]...)})
	}
	return e.err
}

func find(attempts []attempt.Attempt, id string) *attempt.Attempt {
	for i := range attempts {
		if attempts[i].ID == id {
			return &attempts[i]
		}
	}
	return nil
}

// keepNote adds the statement that keeps what makes a step happen once.
func (s *Store) keepNote(step *attempt.Step, x *change, now time.Time) error {
	n := &attempt.Note{Once: *step.Once, AttemptID: step.ID, At: now}
	var e encoder
	e.text(n.Scope, n.ID)
	e.id(n.AttemptID)
	e.time(n.At)
	e.bytes(n.Data)
	x.effects.note = n
	x.writes = append(x.writes, query{text: s.sql.keepNote, args: e.args})
	return e.err
}

// readBack looks whether what a step was to write is there, exactly so. It is there as a whole or not at all: its events tell
// that, or else its closing, or else its note.
type readBack struct {
	wanted, there int
}

func (b *readBack) queries(s *Store, done effects) (queries []query) {
	same := func(ok bool) {
		if ok {
			b.there++
		}
	}
	var closing *attempt.Closing
	for n := range done.writes {
		w := &done.writes[n]
		if w.Closing != nil {
			closing = w.Closing
			continue
		}
		b.wanted++
		queries = append(queries, query{text: s.sql.event, args: []any{w.Attempt.ID, int64(w.Attempt.Version)}, row: func(row []any) error {
			var e encoder
			e.number(w.Event.Version)
			e.event(&w.Event)
			same(slices.EqualFunc(row, e.args, sameValue))
			return nil
		}})
	}
	switch {
	case len(queries) > 0:
	case closing != nil:
		b.wanted++
		args := []any{done.slot.Order, done.slot.Account, done.slot.Purpose}
		queries = append(queries, query{text: s.sql.closing, args: args, row: func(row []any) error {
			same(slices.EqualFunc(row, []any{instant(closing.At), closing.Who, closing.Why}, sameValue))
			return nil
		}})
	case done.note != nil:
		b.wanted++
		queries = append(queries, query{text: s.sql.note, args: []any{done.note.Scope, done.note.ID}, row: func(row []any) error {
			var e encoder
			e.id(done.note.AttemptID)
			e.time(done.note.At)
			e.bytes(done.note.Data)
			same(slices.EqualFunc(row, e.args, sameValue))
			return nil
		}})
	}
	return queries
}

// found tells whether all of it is there.
func (b *readBack) found() bool { return b.wanted > 0 && b.there == b.wanted }

// sameValue compares a value that was read with one that was given.
func sameValue(read, given any) bool {
	switch g := given.(type) {
	case time.Time:
		r, ok := read.(time.Time)
		return ok && r.Equal(g)
	case []byte:
		r, ok := read.([]byte)
		return ok && bytes.Equal(r, g)
	case int64:
		d := decoder{values: []any{read}}
		return d.int64("") == g && d.err == nil
	}
	return read == given
}

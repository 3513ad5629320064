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

// tryLoaded runs steps on what they find, in one transaction: one round trip to lock and load, one to write and commit. Where others
// hold what a step needs, it is to be tried again; if a statement fails each is to go by itself.
func (s *Store) tryLoaded(ctx context.Context, p *pool, outcome bool, items []*item) {
	changes := make([]*change, 0, len(items))
	err := p.with(ctx, func(c *conn) error {
		db := pgxSession{c}
		changes = changes[:0]
		queries := []query{{text: begin}, {text: frozen}}
		for _, i := range items {
			i.again, i.err, i.panicked = false, nil, nil
			x := &change{item: i, step: i.step}
			more, err := s.loads(x)
			if err != nil {
				i.verdict(err)
				continue
			}
			changes, queries = append(changes, x), append(queries, more...)
		}
		if len(changes) == 0 {
			return nil
		}
		asked := time.Now()
		var told moment
		if err := db.run(ctx, append(queries, s.tells(outcome, &told))...); err != nil {
			return c.leave(ctx, err)
		}
		s.clock.answered(told.server, asked)
		var writes []query
		taken := make(map[any]bool, len(changes))
		for _, x := range changes {
			if x.taken(taken) {
				x.item.again = true
				continue
			}
			if err := s.decideLoaded(x, told); err != nil {
				x.writes = nil
				x.item.verdict(err)
			}
			writes = append(writes, x.writes...)
		}
		if len(writes) == 0 {
			return c.leave(ctx, nil)
		}
		for _, x := range changes {
			if len(x.writes) > 0 { // from here on nobody knows until the commit is heard of
				x.item.maybe, x.item.inDoubt = x.effects, true
			}
		}
		err := db.run(ctx, append(writes, query{text: "commit"})...)
		if !mayBeWritten(err) {
			for _, x := range changes {
				x.item.inDoubt = x.item.inDoubt && len(x.writes) == 0
			}
		}
		if err != nil {
			return c.leave(ctx, err)
		}
		return nil
	})
	if err == nil {
		return
	}
	for _, x := range changes {
		if x.item.err != nil || x.item.again {
			continue // it has its verdict
		}
		if len(items) > 1 {
			x.item.alone, x.item.again = true, true
			if errors.As(err, new(*noConnError)) {
				x.item.err = err
			}
			continue
		}
		x.item.verdict(err)
	}
	if len(changes) == 0 { // no connection
		for _, i := range items {
			i.verdict(err)
		}
	}
}

// frozen lets the server end the transaction of a process that was stopped between its two round trips: nobody waits for it longer than for
// a host's.
const frozen = "SELECT set_config('idle_in_transaction_session_timeout', '3000', true)"

// leave ends a transaction that is not committed.
func (c *conn) leave(ctx context.Context, err error) error {
	if c.IsClosed() || unusable(err) {
		return err
	}
	return errors.Join(err, pgxSession{c}.run(ctx, query{text: "rollback"}))
}

// moment is what the server says of the moment after a step has its locks.
type moment struct {
	server  time.Time
	durable bool
}

func (s *Store) tells(outcome bool, p *moment) query {
	return query{text: s.sql.told, args: []any{outcome}, row: func(row []any) error {
		d := decoder{values: row}
		*p = moment{d.time("now"), d.text("sync") != "off"}
		return d.err
	}}
}

// change is a step on its way through a transaction that locks and loads what it works on.
type change struct {
	step *attempt.Step
	item *item // nil in a transaction of the host's

	known       time.Time // latest time known before
	free        bool      // the locks of names were had
	needsSlot   bool
	locked      bool // the slot was
	lockedCount int  // and so many attempts
	slot        slotRow
	found       []attempt.Attempt
	seen        bool // the step's note is there
	noteOf      string
	back        *readBack

	effects effects
	writes  []query
}

// loads are the statements that lock the slot which a step works on, before its attempts, and read them. They wait for nobody.
func (s *Store) loads(x *change) (queries []query, err error) {
	step := x.step
	if step.ID != "" && !isID(step.ID) {
		return nil, notFound(step.ID)
	}
	if err := s.storable(step); err != nil {
		return nil, err
	}
	x.known, x.free = s.clock.known(), true
	tryLock := func(n int64) {
		queries = append(queries, query{text: s.sql.tryLock, args: []any{n}, row: func(row []any) error {
			d := decoder{values: row}
			x.free = d.bool("locked") && x.free
			return d.err
		}})
	}
	lock, lockAttempts, read := s.sql.lockSlotOf, s.sql.lockAttemptsOf, s.sql.slotOf
	args := []any{step.ID}
	if step.ID == "" {
		lock, lockAttempts, read = s.sql.lockSlot, s.sql.lockAttempts, s.sql.slot
		args = []any{step.Slot.Order, step.Slot.Account, step.Slot.Purpose}
	}
	if x.needsSlot = step.ID != "" || step.Do != nil; x.needsSlot {
		if step.ID == "" {
			tryLock(s.lockOfSlot(step.Slot))
		}
		queries = append(queries,
			query{text: lock, args: args, row: func([]any) error { x.locked = true; return nil }},
			query{text: lockAttempts, args: args, row: func([]any) error { x.lockedCount++; return nil }},
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
	if x.item != nil && x.item.inDoubt {
		x.back = new(readBack)
		queries = append(queries, x.back.queries(s, x.item.maybe)...)
	}
	return queries, nil
}

// taken tells whether an earlier step of the same transaction works on the same slot or keeps the same note: the locks do not tell, since they are
// the transaction's.
func (x *change) taken(by map[any]bool) bool {
	had := false
	take := func(what any) {
		had = had || by[what]
		by[what] = true
	}
	if x.slot.number != 0 {
		take(x.slot.number)
	}
	if x.step.Once != nil {
		take([2]string{x.step.Once.Scope, x.step.Once.ID})
	}
	return had
}

// had says whether a step has what it needs: it fails with errHeld where another transaction holds the slot, one of its attempts, or the
// step's note.
func (x *change) had() error {
	switch {
	case !x.free, x.needsSlot && x.slot.number != 0 && (!x.locked || x.lockedCount != len(x.found)):
		return errHeld
	case x.step.ID != "" && x.slot.number == 0:
		return notFound(x.step.ID)
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
			return &attempt.StepError{Err: fmt.Errorf("%q is no text that PostgreSQL can store", t)}
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
	return &attempt.StepError{Err: fmt.Errorf("attempt %s: %w", id, attempt.ErrNotFound)}
}

// decideLoaded runs a step on what was loaded and makes the statements that write what it decided.
func (s *Store) decideLoaded(x *change, told moment) error {
	step := x.step
	if err := x.had(); err != nil {
		return err
	}
	if x.back != nil {
		x.item.inDoubt = false
		if x.back.found() {
			return nil
		}
	}
	if step.Once != nil && x.seen && (x.noteOf != "" || step.ID == "") {
		return &attempt.StepError{Err: fmt.Errorf("%s %s: %w", step.Once.Scope, step.Once.ID, attempt.ErrSeen)}
	}
	if step.ID == "" {
		x.slot.name = step.Slot
	}
	v := s.clock.view(x.slot, x.found, told.server, x.known)
	x.effects.slot = x.slot.name
	if step.Do != nil {
		writes, err := step.Decide(x.slot.name, v)
		if err != nil {
			return err
		}
		x.effects.writes = writes
		if err := s.encode(x, writes); err != nil {
			return &attempt.StepError{Err: err}
		}
	}
	if step.Once != nil {
		if err := s.keepNote(step, x, v.Now); err != nil {
			return &attempt.StepError{Err: err}
		}
	}
	if len(x.writes) > 0 && !told.durable && x.item != nil {
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

package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// How long a call that is no step waits for the server: one may freeze, or the way to it, without anybody being told.
const (
	answerLimit = 10 * time.Second // by an index
	pageLimit   = 2 * time.Minute  // of what may have to read a whole table
)

var errNoAnswer = errors.New("no answer from the server")

// asks runs f on a connection outside of all steps, within a limit.
func (s *Store) asks(ctx context.Context, limit time.Duration, f func(context.Context, *conn) error) error {
	if s.opts.patience > 0 {
		limit = s.opts.patience
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := s.general.with(bounded, func(c *conn) error { return f(bounded, c) })
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("%w for %s: %w", errNoAnswer, limit, err)
	}
	return err
}

// ask runs one statement outside of all steps.
func (s *Store) ask(ctx context.Context, limit time.Duration, q query) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	return s.unavailable(s.asks(ctx, limit, func(ctx context.Context, c *conn) error { return pgxSession{c}.run(ctx, q) }))
}

// asking runs one statement that changes nothing: it may be repeated as it is. reset undoes what rows have done.
func (s *Store) asking(ctx context.Context, limit time.Duration, q query, reset func()) error {
	err := s.ask(ctx, limit, q)
	if err == nil || ctx.Err() != nil || !passing(err) || errors.Is(err, errNoAnswer) || s.ended.Load() {
		return err
	}
	reset() // a connection that was dead, a server that has just begun to end
	return s.ask(ctx, limit, q)
}

func unknownAttempt(id string) error { return fmt.Errorf("attempt %s: %w", id, attempt.ErrNotFound) }

// Attempt implements [attempt.Store].
func (s *Store) Attempt(ctx context.Context, id string) (a attempt.Attempt, err error) {
	if err := s.usable(ctx); err != nil {
		return a, err
	}
	if !isID(id) {
		return a, unknownAttempt(id)
	}
	found := false
	err = s.asking(ctx, answerLimit, query{text: s.sql.attempt, args: []any{id}, row: func(row []any) (err error) {
		found = true
		a, _, err = decodeAttempt(row)
		return err
	}}, func() { found = false })
	switch {
	case err != nil:
		return attempt.Attempt{}, err
	case !found:
		return attempt.Attempt{}, unknownAttempt(id)
	}
	s.clock.saw(a.UpdatedAt)
	return a, nil
}

// Slot implements [attempt.Store].
func (s *Store) Slot(ctx context.Context, slot attempt.Slot) (attempt.View, error) {
	if err := s.usable(ctx); err != nil {
		return attempt.View{}, err
	}
	var x change
	var told moment
	known, asked := s.clock.known(), time.Now()
	err := s.asks(ctx, answerLimit, func(ctx context.Context, c *conn) error {
		queries := []query{s.tells(false, &told)}
		if storable(slot.Order) && storable(slot.Account) && storable(slot.Purpose) {
			x.found, x.slot = nil, slotRow{}
			queries = append(queries, query{text: s.sql.slot, args: []any{slot.Order, slot.Account, slot.Purpose}, row: x.readSlot})
		}
		return pgxSession{c}.run(ctx, queries...)
	})
	if err != nil {
		return attempt.View{}, s.unavailable(err)
	}
	s.clock.answered(told.server, asked)
	return s.clock.view(x.slot, x.found, told.server, known), nil
}

// Events implements [attempt.Store].
func (s *Store) Events(ctx context.Context, id string) (events []attempt.Event, err error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if !isID(id) {
		return nil, unknownAttempt(id)
	}
	err = s.asking(ctx, answerLimit, query{text: s.sql.events, args: []any{id}, row: func(row []any) error {
		e, err := decodeEvent(id, row)
		events = append(events, e)
		return err
	}}, func() { events = nil })
	switch {
	case err != nil:
		return nil, err
	case len(events) == 0: // there is no such attempt, or its events were purged
		_, err := s.Attempt(ctx, id)
		return nil, err
	}
	return events, nil
}

// listPage is how many attempts List reads at a time: no transaction stays open while its caller works.
const listPage = 200

// List implements [attempt.Store]. It reads page by page, so it may or may not see what changes, or commits late, while it runs.
// Its cost follows the attempts of the order, or the number of those that are open or owe something, where the filter is for
// those; else the number of all.
func (s *Store) List(ctx context.Context, filter attempt.Filter) iter.Seq2[attempt.Attempt, error] {
	return func(yield func(attempt.Attempt, error) bool) {
		condition, args := s.selects(filter)
		last := int64(0)
		for n := 0; ; {
			page, broken, err := s.page(ctx, condition, append(args[:len(args):len(args)], last))
			for _, a := range page {
				s.clock.saw(a.attempt.UpdatedAt)
				last = a.seq
				if !filter.Selects(a.attempt) {
					continue
				}
				if !yield(a.attempt, nil) {
					return
				}
				if n++; n == filter.Limit {
					return
				}
			}
			if err = errors.Join(err, s.unavailable(broken)); err != nil {
				yield(attempt.Attempt{}, err)
				return
			}
			if len(page) < listPage {
				return
			}
		}
	}
}

type listed struct {
	attempt attempt.Attempt
	seq     int64
}

// page reads the next attempts, in the order of their creation. With an error it returns those before it.
func (s *Store) page(ctx context.Context, condition string, args []any) (page []listed, broken, err error) {
	q := query{text: s.sql.selectAttempts + condition + fmt.Sprintf(" AND a.seq > $%d::bigint ORDER BY a.seq LIMIT %d", len(args), listPage), args: args}
	q.row = func(row []any) error {
		if broken != nil {
			return nil
		}
		a, seq, err := decodeAttempt(row)
		if err != nil {
			broken = err
			return nil
		}
		page = append(page, listed{a, seq})
		return nil
	}
	err = s.asking(ctx, pageLimit, q, func() { page, broken = nil, nil })
	return page, broken, err
}

// selects is the condition for a filter's attempts, in the words of the indexes.
func (s *Store) selects(filter attempt.Filter) (condition string, args []any) {
	onlyOpen := filter.Open || len(filter.Statuses) > 0 && !slices.ContainsFunc(filter.Statuses, attempt.Status.Final)
	condition = "WHERE true"
	if filter.Order != "" {
		if !storable(filter.Order) {
			return "WHERE false", nil
		}
		args = append(args, filter.Order)
		condition = "WHERE s.order_id = $1::text"
	}
	if onlyOpen {
		condition += " AND a.status IN ('prepared', 'sending', 'unknown')"
	}
	if filter.Owing {
		condition += " AND a.duties_open > 0"
	}
	if len(filter.Statuses) > 0 {
		condition += " AND a.status IN ("
		for i, status := range filter.Statuses {
			if i > 0 {
				condition += ", "
			}
			args = append(args, status.String())
			condition += fmt.Sprintf("$%d::text", len(args))
		}
		condition += ")"
	}
	return condition, args
}

// sentPage is how many attempts Sent reads at a time.
const sentPage = 5000

// Sent implements [attempt.Store]. It reads page by page; its cost follows the number of all attempts.
func (s *Store) Sent(ctx context.Context, place attempt.Place, from, to time.Time) iter.Seq2[attempt.Sent, error] {
	return func(yield func(attempt.Sent, error) bool) {
		if err := s.usable(ctx); err != nil {
			yield(attempt.Sent{}, err)
			return
		}
		if !storable(place.Provider) || !storable(place.Account) || !storable(place.Environment) {
			return
		}
		text := fmt.Sprintf("SELECT seq, id::text, coalesce(last_sent_at, created_at) FROM %schargeonce_attempts WHERE seq > $1::bigint"+
			" AND status = 'approved' AND provider = $2::text AND provider_account = $3::text AND environment = $4::text"+
			" AND coalesce(last_sent_at, created_at) BETWEEN $5::timestamptz AND $6::timestamptz ORDER BY seq LIMIT %d", s.sql.schema, sentPage)
		last := int64(0)
		var page []attempt.Sent
		for more := true; more; more = len(page) == sentPage {
			page = page[:0]
			err := s.asking(ctx, pageLimit, query{text: text, args: []any{last, place.Provider, place.Account, place.Environment, ceiling(from), to}, row: func(row []any) error {
				d := decoder{values: row}
				seq, sent := d.int64("seq"), attempt.Sent{ID: d.text("id"), At: d.time("last_sent_at")}
				if d.err != nil {
					return d.err
				}
				last, page = seq, append(page, sent)
				return nil
			}}, func() { page = page[:0] })
			for _, sent := range page {
				if !yield(sent, nil) {
					return
				}
			}
			if err != nil {
				yield(attempt.Sent{}, err)
				return
			}
		}
	}
}

// ceiling is the first microsecond that is not before a time: the server knows none between.
func ceiling(t time.Time) time.Time {
	if cut := t.Truncate(time.Microsecond); cut.Before(t) {
		return cut.Add(time.Microsecond)
	}
	return t
}

// Briefs implements [attempt.Store].
func (s *Store) Briefs(ctx context.Context, ids, chargeIDs []string) (found []attempt.Brief, err error) {
	known := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !isID(id) })
	charges := slices.DeleteFunc(slices.Clone(chargeIDs), func(id string) bool { return id == "" || !storable(id) })
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		text string
		ids  []string
	}{{s.sql.briefs, known}, {s.sql.briefsOfCharges, charges}} {
		if len(part.ids) == 0 {
			continue
		}
		before := len(found)
		err := s.asking(ctx, answerLimit, query{text: part.text, args: []any{part.ids}, row: func(row []any) error {
			b, err := decodeBrief(row)
			found = append(found, b)
			return err
		}}, func() { found = found[:before] })
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func decodeBrief(row []any) (b attempt.Brief, err error) {
	d := &decoder{values: row}
	b.ID, b.Reference, b.Slot = d.text("id"), d.text("reference"), d.slot()
	b.Place = attempt.Place{Provider: d.text("provider"), Account: d.text("provider_account"), Environment: d.text("environment")}
	b.Amount = d.amount()
	b.Status, b.ChargeID = d.status("status"), d.text("charge_id")
	b.Refund = attempt.RefundOf{AttemptID: d.optional("refund_of"), ChargeID: d.text("refund_charge"), ID: d.text("refund_id")}
	if d.err != nil {
		return attempt.Brief{}, damaged(b.ID, d.err)
	}
	return b, nil
}

// Notes implements [attempt.Store].
func (s *Store) Notes(ctx context.Context, f attempt.NoteFilter) (notes []attempt.Note, err error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if !storable(f.Scope) || !storable(f.After) || f.AttemptID != "" && !isID(f.AttemptID) {
		return nil, nil
	}
	condition := "scope = $1::text AND id > $2::text"
	args := []any{f.Scope, f.After}
	if f.Orphans {
		condition += " AND attempt_id IS NULL"
	}
	if f.AttemptID != "" {
		condition += " AND attempt_id = $3::text::uuid"
		args = append(args, f.AttemptID)
	}
	limit := f.Limit
	if limit <= 0 {
		limit = 1000
	}
	text := fmt.Sprintf("SELECT id, attempt_id::text, at, data FROM %schargeonce_notes WHERE %s ORDER BY id LIMIT %d", s.sql.schema, condition, limit)
	err = s.asking(ctx, answerLimit, query{text: text, args: args, row: func(row []any) error {
		d := decoder{values: row}
		n := attempt.Note{Once: attempt.Once{Scope: f.Scope, ID: d.text("id")}, AttemptID: d.optional("attempt_id"), At: d.time("at")}
		n.Data = d.bytes("data")
		notes = append(notes, n)
		return d.err
	}}, func() { notes = nil })
	return notes, err
}

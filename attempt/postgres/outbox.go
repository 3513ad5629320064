package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// An event is put into the outbox by the statement that writes it, for each relay that the statement sees: whatever process
// writes, and however late it commits, the rows are there when the event is. No counter is read on from, so none can be
// passed over.

func (s *statements) outbox() {
	s.addRelay = s.text("INSERT INTO {s}relays (name) VALUES ($1::text) ON CONFLICT DO NOTHING")
	// Every statement that writes events locks the table of relays in passing, until its transaction ends.
	s.relayUsers = s.text("SELECT virtualtransaction FROM pg_locks WHERE locktype = 'relation' AND database = (SELECT oid FROM pg_database" +
		" WHERE datname = current_database()) AND relation = '{s}relays'::regclass AND granted AND pid <> pg_backend_pid()")
	s.removeRelay = s.text("WITH gone AS (DELETE FROM {s}relays WHERE name = $1::text) DELETE FROM {s}outbox WHERE relay = $1::text")
	// The first undelivered event of an attempt says whether it is taken.
	s.take = s.text("WITH present AS MATERIALIZED (SELECT coalesce($4::timestamptz, clock_timestamp()) AS now)" +
		", relay AS MATERIALIZED (SELECT name FROM {s}relays WHERE name = $1::text)" +
		", free AS MATERIALIZED (SELECT o.attempt_id, o.version, o.at FROM {s}outbox o WHERE o.relay = $1::text" +
		" AND (o.taken_until IS NULL OR o.taken_until <= (SELECT now FROM present)) AND NOT EXISTS (SELECT FROM {s}outbox e" +
		" WHERE e.relay = o.relay AND e.attempt_id = o.attempt_id AND e.version < o.version)" +
		" ORDER BY o.at, o.attempt_id LIMIT $2::bigint FOR NO KEY UPDATE SKIP LOCKED)" +
		", taken AS (UPDATE {s}outbox o SET taken_until = (SELECT now FROM present) + $3::bigint * interval '1 microsecond'" +
		" FROM free f WHERE o.relay = $1::text AND o.attempt_id = f.attempt_id AND o.version = f.version)" +
		" SELECT r.name, o.attempt_id::text, o.version, " + read("e.", eventColumns) + " FROM relay r LEFT JOIN (free f" +
		" JOIN {s}outbox o ON o.relay = $1::text AND o.attempt_id = f.attempt_id" +
		" LEFT JOIN {s}events e ON e.attempt_id = o.attempt_id AND e.version = o.version) ON true ORDER BY f.at, f.attempt_id, o.version")
	s.delivered = s.text("WITH present AS MATERIALIZED (SELECT coalesce($5::timestamptz, clock_timestamp()) AS now)" +
		", gone AS (DELETE FROM {s}outbox WHERE relay = $1::text AND attempt_id = $2::text::uuid AND version <= $3::bigint)" +
		", kept AS (UPDATE {s}outbox SET taken_until = (SELECT now FROM present) + $4::bigint * interval '1 microsecond'" +
		" WHERE relay = $1::text AND attempt_id = $2::text::uuid AND version = (SELECT min(version) FROM {s}outbox" +
		" WHERE relay = $1::text AND attempt_id = $2::text::uuid AND version > $3::bigint))" +
		" SELECT name FROM {s}relays WHERE name = $1::text")
	s.lag = s.text("SELECT r.name, (SELECT count(*) FROM {s}outbox WHERE relay = r.name), (SELECT min(at) FROM {s}outbox WHERE relay = r.name)" +
		" FROM {s}relays r WHERE r.name = $1::text")
}

// AddRelay implements [attempt.Outbox]. When it returns nil, no transaction that writes without knowing of the relay is left: it
// waits for those that run, those of the host's that have started an attempt included, also where the relay was added before: that call
// may not have come to its end.
// Only a host's transaction above READ COMMITTED that had begun before and starts its attempt afterwards may write events that the
// relay is not told of.
func (s *Store) AddRelay(ctx context.Context, relay string) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	if !storable(relay) {
		return fmt.Errorf("relay %q: the name is no text that PostgreSQL can store", relay)
	}
	if err := s.outboxed(ctx, pageLimit, query{text: s.sql.addRelay, args: []any{relay}}); err != nil {
		return err
	}
	var before map[string]bool
	for tries := 0; ; tries++ {
		now := map[string]bool{}
		err := s.ask(ctx, answerLimit, query{text: s.sql.relayUsers, row: func(row []any) error {
			d := decoder{values: row}
			now[d.text("virtualtransaction")] = true
			return d.err
		}})
		if err != nil {
			return err
		}
		if before == nil {
			before = now
		}
		for tx := range before {
			if !now[tx] {
				delete(before, tx)
			}
		}
		if len(before) == 0 {
			return nil
		}
		if err := sleep(ctx, pause(tries, errors.New("others run"))); err != nil {
			return s.unavailable(fmt.Errorf("relay %q: %d transactions that began before it was added still run: %w", relay, len(before), err))
		}
	}
}

// outboxed runs a statement that changes the outbox.
func (s *Store) outboxed(ctx context.Context, limit time.Duration, q query) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	return s.unavailable(s.asks(ctx, limit, func(ctx context.Context, c *conn) error {
		if c.explicit {
			return pgxSession{c}.run(ctx, query{text: begin}, q, query{text: "commit"})
		}
		return pgxSession{c}.run(ctx, q)
	}))
}

// RemoveRelay implements [attempt.Outbox].
func (s *Store) RemoveRelay(ctx context.Context, relay string) error {
	if !storable(relay) {
		return s.usable(ctx)
	}
	return s.outboxed(ctx, pageLimit, query{text: s.sql.removeRelay, args: []any{relay}})
}

func noRelay(relay string) error { return fmt.Errorf("relay %q: %w", relay, attempt.ErrNotFound) }

// TakeUndelivered implements [attempt.Outbox]. A damaged event holds back those of its attempt that follow it, and no other
// attempt; only when there is nothing else its error is returned.
func (s *Store) TakeUndelivered(ctx context.Context, relay string, limit int, lease time.Duration) ([]attempt.Event, error) {
	if err := s.writable(ctx); err != nil {
		return nil, err
	}
	if !storable(relay) {
		return nil, noRelay(relay)
	}
	var events []attempt.Event
	var broken error
	var holds string // the attempt whose event is damaged
	known := false
	args := []any{relay, int64(max(limit, 0)), lease.Microseconds(), s.clock.param()}
	err := s.outboxed(ctx, answerLimit, query{text: s.sql.take, args: args, row: func(row []any) error {
		known = true
		if row[1] == nil {
			return nil
		}
		d := decoder{values: row, at: 1}
		id := d.text("attempt_id")
		e, err := decodeEvent(id, row[2:])
		switch {
		case err != nil:
			broken, holds = errors.Join(broken, err), id
		case holds != id:
			events = append(events, e)
		}
		return d.err
	}})
	switch {
	case err != nil:
		return nil, err
	case !known:
		return nil, noRelay(relay)
	case len(events) == 0 && broken != nil:
		return nil, s.unavailable(broken)
	}
	return events, nil
}

// Delivered implements [attempt.Outbox].
func (s *Store) Delivered(ctx context.Context, relay, attemptID string, version int, again time.Duration) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	if !storable(relay) {
		return noRelay(relay)
	}
	if !isID(attemptID) {
		attemptID = "00000000-0000-0000-0000-000000000000" // of none, but the relay is looked for
	}
	known := false
	args := []any{relay, attemptID, int64(version), again.Microseconds(), s.clock.param()}
	err := s.outboxed(ctx, answerLimit, query{text: s.sql.delivered, args: args, row: func([]any) error {
		known = true
		return nil
	}})
	if err == nil && !known {
		err = noRelay(relay)
	}
	return err
}

// Lag implements [attempt.Outbox].
func (s *Store) Lag(ctx context.Context, relay string) (lag attempt.RelayLag, err error) {
	if err := s.usable(ctx); err != nil {
		return lag, err
	}
	if !storable(relay) {
		return lag, noRelay(relay)
	}
	known := false
	err = s.asking(ctx, answerLimit, query{text: s.sql.lag, args: []any{relay}, row: func(row []any) error {
		known = true
		d := decoder{values: row, at: 1}
		lag = attempt.RelayLag{Events: d.count("events"), Oldest: d.time("at")}
		return d.err
	}}, func() {})
	switch {
	case err != nil:
		return attempt.RelayLag{}, err
	case !known:
		return attempt.RelayLag{}, noRelay(relay)
	}
	return lag, nil
}

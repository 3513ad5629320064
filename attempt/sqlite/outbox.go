package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// writing runs work in the queue's next batch.
func (s *Store) writing(ctx context.Context, work func(session) error) error {
	if err := s.writable(ctx); err != nil {
		return err
	}
	c := newCall(ctx)
	c.first.work = work
	s.run(c, []*item{&c.first})
	return c.first.err
}

// A trigger fills the outbox, so that a process which knows nothing of a relay does so too. It is there only while there are
// relays: one that looks whether there are any costs a payment 3 to 6 % where there is none.
const (
	createFill = `CREATE TRIGGER IF NOT EXISTS chargeonce_fill_outbox AFTER INSERT ON chargeonce_events
		BEGIN
			INSERT INTO chargeonce_outbox (relay, attempt_id, version, at, taken_until)
				SELECT r.name, NEW.attempt_id, NEW.version, NEW.at, coalesce((SELECT o.taken_until FROM chargeonce_outbox o
					WHERE o.relay = r.name AND o.attempt_id = NEW.attempt_id LIMIT 1), 0)
				FROM chargeonce_relays r;
		END`
	dropFill = "DROP TRIGGER IF EXISTS chargeonce_fill_outbox"
)

// AddRelay implements [attempt.Outbox].
func (s *Store) AddRelay(ctx context.Context, relay string) error {
	return s.writing(ctx, func(tx session) error {
		if _, err := tx.exec(stmtAddRelay, relay); err != nil {
			return err
		}
		return tx.exec1(createFill)
	})
}

// RemoveRelay implements [attempt.Outbox].
func (s *Store) RemoveRelay(ctx context.Context, relay string) error {
	return s.writing(ctx, func(tx session) error {
		if _, err := tx.exec(stmtRemoveRelay, relay); err != nil {
			return err
		}
		if _, err := tx.exec(stmtEmptyOutbox, relay); err != nil {
			return err
		}
		left, err := number(tx, stmtRelays)
		if err != nil || left > 0 {
			return err
		}
		return tx.exec1(dropFill)
	})
}

// ofRelay runs work that needs the relay. It fails with [attempt.ErrNotFound] if there is none of that name.
func (s *Store) ofRelay(ctx context.Context, relay string, work func(session) error) error {
	known := int64(0)
	err := s.writing(ctx, func(tx session) (err error) {
		if known, err = number(tx, stmtRelay, relay); err != nil || known == 0 {
			return err
		}
		return work(tx)
	})
	if err == nil && known == 0 {
		err = noRelay(relay)
	}
	return err
}

func noRelay(relay string) error { return fmt.Errorf("relay %q: %w", relay, attempt.ErrNotFound) }

// TakeUndelivered implements [attempt.Outbox]. A damaged event holds back those of its attempt that follow it, and no other
// attempt; only when there is nothing else its error is returned.
func (s *Store) TakeUndelivered(ctx context.Context, relay string, limit int, lease time.Duration) ([]attempt.Event, error) {
	var events []attempt.Event
	var broken error
	err := s.ofRelay(ctx, relay, func(tx session) (err error) {
		events, broken, err = s.takeUndelivered(tx, relay, max(limit, 0), lease)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(events) == 0 && broken != nil:
		return nil, s.unavailable(broken)
	}
	return events, nil
}

func (s *Store) takeUndelivered(tx session, relay string, limit int, lease time.Duration) (events []attempt.Event, broken, err error) {
	now, _ := s.clock.present()
	if _, err := tx.exec(stmtRelease, relay, now.UnixMicro()); err != nil {
		return nil, nil, err
	}
	var ids []string
	err = tx.query(stmtFree, func(row []driver.Value) error {
		d := decoder{values: row}
		ids = append(ids, d.text("attempt_id"))
		return d.err
	}, relay, int64(limit))
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		damaged := false
		err := tx.query(stmtUndelivered, func(row []driver.Value) error {
			e, err := decodeEvent(id, row)
			if err != nil {
				broken, damaged = errors.Join(broken, err), true
			} else if !damaged {
				events = append(events, e)
			}
			return nil
		}, relay, id)
		if err != nil {
			return nil, nil, err
		}
		if _, err := tx.exec(stmtTake, takenUntil(now, lease), relay, id); err != nil {
			return nil, nil, err
		}
	}
	return events, broken, nil
}

// takenUntil is until when events that are taken now for a while belong to whoever took them.
func takenUntil(now time.Time, lease time.Duration) int64 {
	if lease <= 0 {
		return 0
	}
	return now.Add(lease).UnixMicro()
}

// Delivered implements [attempt.Outbox].
func (s *Store) Delivered(ctx context.Context, relay, attemptID string, version int, again time.Duration) error {
	return s.ofRelay(ctx, relay, func(tx session) error {
		if _, err := tx.exec(stmtDelivered, relay, attemptID, int64(version)); err != nil {
			return err
		}
		now, _ := s.clock.present()
		_, err := tx.exec(stmtTake, takenUntil(now, again), relay, attemptID)
		return err
	})
}

// Lag implements [attempt.Outbox].
func (s *Store) Lag(ctx context.Context, relay string) (attempt.RelayLag, error) {
	r, err := s.reading(ctx)
	if err != nil {
		return attempt.RelayLag{}, err
	}
	known := false
	var lag attempt.RelayLag
	err = r.query(stmtLag, func(row []driver.Value) error {
		d := decoder{values: row}
		known = d.count("relays") > 0
		lag.Events, lag.Oldest = d.count("events"), d.time("at")
		return d.err
	}, relay)
	switch {
	case err != nil:
		return attempt.RelayLag{}, s.unavailable(err)
	case !known:
		return attempt.RelayLag{}, noRelay(relay)
	}
	return lag, nil
}

package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// TakeDue implements [attempt.Store]. It passes over what another caller is taking or writing at this moment. A damaged attempt
// does not stop the others: it is put off as they are, and only when nothing else is due its error is returned.
func (s *Store) TakeDue(ctx context.Context, limit int, lease time.Duration, places ...attempt.Place) (attempt.View, error) {
	if err := s.writable(ctx); err != nil {
		return attempt.View{}, err
	}
	known, asked := s.clock.known(), time.Now()
	text, args := s.sql.due, []any{s.clock.param(), int64(max(limit, 0)), lease.Microseconds()}
	if len(places) > 0 {
		list := make([][3]string, len(places))
		for i, p := range places {
			list[i] = [3]string{p.Provider, p.Account, p.Environment}
		}
		in, err := json.Marshal(list)
		if err != nil {
			return attempt.View{}, s.unavailable(err)
		}
		text, args = s.sql.duePlaces, append(args, string(in))
	}
	var found []attempt.Attempt
	var broken error
	var server time.Time
	var told moment
	err := s.asks(ctx, answerLimit, func(ctx context.Context, c *conn) error {
		queries := []query{{text: text, args: args, row: func(row []any) error {
			a, _, err := decodeAttempt(row)
			if err != nil {
				broken = errors.Join(broken, err)
				return nil
			}
			found = append(found, a)
			server = row[len(row)-1].(time.Time).UTC()
			return nil
		}}, s.tells(false, &told)}
		if c.explicit {
			queries = append(append([]query{{text: begin}}, queries...), query{text: "commit"})
		}
		return pgxSession{c}.run(ctx, queries...)
	})
	switch {
	case err != nil:
		return attempt.View{}, s.unavailable(err)
	case broken != nil && len(found) == 0:
		return attempt.View{}, s.unavailable(broken)
	}
	if server.IsZero() { // nothing is due
		server = told.server
	}
	s.clock.answered(server, asked)
	v := attempt.View{Attempts: found}
	latest := known
	for i := range found {
		if found[i].UpdatedAt.After(latest) {
			latest = found[i].UpdatedAt
		}
	}
	v.Now, v.Latest = s.clock.at(server, latest)
	return v, nil
}

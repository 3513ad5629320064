package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Options sets up a store. The zero Options are the defaults.
type Options struct {
	// Schema is where the tables are. Empty: "chargeonce".
	Schema string
	// MaxConns bounds the connections that the store holds, at least 3. Two fifths of them are for outcomes alone, and as many for
	// other steps. Zero: 10.
	MaxConns int
	// Pooler says that the URL is that of a connection pooler, so that no statement is prepared. Without it the store finds that out by
	// itself, from the number of the server's process, and the URL's default_query_exec_mode goes before both: cache_statement suits a
	// pooler that keeps prepared statements for its clients.
	Pooler bool
	// ReadOnly opens the store to look at it, perhaps on a replica: every call that writes fails with
	// [attempt.ErrUnavailable].
	ReadOnly bool

	now      func() time.Time // nil but in tests
	patience time.Duration    // zero but in tests: answerLimit and pageLimit
}

const (
	defaultSchema   = "chargeonce"
	defaultMaxConns = 10
	leastConns      = 3
)

func (o Options) withDefaults() Options {
	o.Schema = cmp.Or(o.Schema, defaultSchema)
	o.MaxConns = cmp.Or(o.MaxConns, defaultMaxConns)
	return o
}

func (o Options) validate() error {
	var errs []error
	if o.MaxConns < leastConns {
		errs = append(errs, fmt.Errorf("connections: MaxConns is %d, want at least %d", o.MaxConns, leastConns))
	}
	if err := validSchema(o.Schema); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Store keeps attempts in PostgreSQL. It implements [attempt.Store].
type Store struct {
	opts  Options
	sql   *statements
	clock clock

	outcomes, others *lane
	general          *pool       // for all that is no step
	pooled           atomic.Bool // a pooler stands before the server
	ended            atomic.Bool
	closing          sync.Once
}

var _ attempt.Store = (*Store)(nil)

// Open opens the store in the database with that URL (postgres://user@host/database, or a libpq keyword string). It makes and
// changes no tables: [Migrate] does.
//
// It fails with [attempt.ErrNotDurable] where synchronous_commit is off for the role, and otherwise with
// [attempt.ErrUnavailable]: the URL is none, the server cannot be reached, is too old or a read-only replica, the tables are not
// there, or are those of an earlier or of a later release, or the role lacks a right. The error says what to do, and holds no
// password.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	s, err := open(ctx, url, opts.withDefaults())
	if err != nil {
		if !errors.Is(err, attempt.ErrNotDurable) {
			err = fmt.Errorf("%w: %w", attempt.ErrUnavailable, err)
		}
		return nil, fmt.Errorf("open PostgreSQL store: %w", err)
	}
	return s, nil
}

func open(ctx context.Context, url string, opts Options) (*Store, error) {
	if err := opts.validate(); err != nil {
		return nil, err
	}
	cfg, chosen, err := parse(url)
	if err != nil {
		return nil, err
	}
	s := &Store{opts: opts, sql: newStatements(opts.Schema)}
	s.clock.now = opts.now
	s.pooled.Store(opts.Pooler)
	connect := s.connector(cfg, chosen, false)
	width := max(1, opts.MaxConns*2/5)
	s.general = newPool(opts.MaxConns-2*width, connect)
	outcomes, others := newPool(width, s.connector(cfg, chosen, true)), newPool(width, connect)
	s.outcomes = newLane(width, outcomes, s.work(outcomes, true))
	s.others = newLane(width, others, s.work(others, false))
	if err := s.asks(ctx, answerLimit, func(ctx context.Context, c *conn) error { return s.examine(ctx, pgxSession{c}) }); err != nil {
		_ = s.Close()
		return nil, s.explain(err)
	}
	return s, nil
}

// examine looks whether the tables are those that this release works on.
func (s *Store) examine(ctx context.Context, db session) error {
	if err := checkSchema(ctx, db, s.opts.Schema); err != nil {
		return err
	}
	if !s.opts.ReadOnly {
		if err := checkRights(ctx, db, s.sql); err != nil {
			return err
		}
	}
	return db.run(ctx, query{text: s.sql.latest, row: func(row []any) error {
		d := decoder{values: row}
		s.clock.saw(d.time("updated_at"))
		return d.err
	}})
}

// Close waits for what is under way and closes the connections. Whatever is asked of the store afterwards fails with
// [attempt.ErrUnavailable].
func (s *Store) Close() error {
	s.ended.Store(true)
	s.closing.Do(func() {
		s.outcomes.close()
		s.others.close()
		s.general.close()
	})
	return nil
}

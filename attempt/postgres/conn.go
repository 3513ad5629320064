package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// unprepared is cfg with statements that travel with each execution, so that nothing of them stays on the server.
func unprepared(cfg *pgx.ConnConfig) *pgx.ConnConfig {
	cfg = cfg.Copy()
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	return cfg
}

// server is what a server says of itself when a connection is made.
type server struct {
	recovery  bool // a replica
	readOnly  bool
	isolation string
	sync      string
	version   int64
	process   uint32 // that executes what this session sends; behind a transaction pooler another one each time
	now       time.Time
}

const selectServer = `SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
	current_setting('default_transaction_isolation'), current_setting('synchronous_commit'),
	current_setting('server_version_num')::bigint, pg_backend_pid()::bigint, clock_timestamp()`

// oldestServer is the oldest major release that is tested, as the server writes it.
const oldestServer = 130000

// askServer prepares nothing: nobody knows yet what stands before the server.
func askServer(ctx context.Context, c *pgx.Conn) (v server, err error) {
	err = pgxSession{c}.run(ctx, query{text: selectServer, args: []any{pgx.QueryExecModeExec}, row: func(row []any) error {
		d := decoder{values: row}
		v = server{d.bool("pg_is_in_recovery"), d.bool("transaction_read_only"), d.text("isolation"), d.text("sync"),
			d.int64("version"), uint32(d.int64("pg_backend_pid")), d.time("now")} //nolint:gosec // a number of a process
		return d.err
	}})
	return v, err
}

// pooled tells whether something stands between that gives the server's processes to its clients in turn: the process that was named when
// the connection was made, for cancelling (https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-CANCELING-REQUESTS),
// is none of the server's then.
func pooled(c *pgx.Conn, v server) bool { return c.PgConn().PID() != v.process }

// connector makes the store's connections. Those for outcomes take a server that commits asynchronously: the statements themselves
// make it wait. Behind a pooler nothing is prepared, unless the URL has chosen.
func (s *Store) connector(cfg *pgx.ConnConfig, chosen, outcomes bool) func(context.Context) (*conn, error) {
	cfg = cfg.Copy()
	// With several hosts in the URL the first one that fits is taken.
	cfg.ValidateConnect = nil
	if !s.opts.ReadOnly && severalHosts(cfg) {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return func(ctx context.Context) (*conn, error) {
		for {
			prepares := cfg
			if !chosen && s.pooled.Load() {
				prepares = unprepared(cfg)
			}
			c, err := pgx.ConnectConfig(ctx, prepares)
			if err != nil {
				return nil, connectError(cfg, err)
			}
			asked := time.Now()
			v, err := askServer(ctx, c)
			if err != nil {
				hangUp(&conn{Conn: c})
				return nil, fmt.Errorf("ask the server what it is: %w", err)
			}
			made := &conn{Conn: c, made: asked, explicit: v.isolation != "read committed"}
			if pooled(c, v) {
				s.pooled.Store(true)
				if !chosen && prepares == cfg {
					hangUp(made)
					continue
				}
			}
			s.clock.answered(v.now, asked)
			if err := s.check(v, outcomes); err != nil {
				hangUp(made)
				return nil, err
			}
			return made, nil
		}
	}
}

// severalHosts tells whether the URL names more than one server; pgx also keeps one host's ways of connecting as fallbacks.
func severalHosts(cfg *pgx.ConnConfig) bool {
	return slices.ContainsFunc(cfg.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != cfg.Host || f.Port != cfg.Port })
}

// check refuses a server that this store must not work on.
func (s *Store) check(v server, outcomes bool) error {
	switch {
	case v.version < oldestServer:
		return fmt.Errorf("the server is PostgreSQL %d, want at least %d", v.version/10000, oldestServer/10000)
	case s.opts.ReadOnly:
		return nil
	case v.recovery:
		return errors.New("the server is a read-only replica: name the primary, or all hosts, of which the one that takes writes is used")
	case v.readOnly:
		return errors.New("transactions are read-only on this server (default_transaction_read_only): set it to off for this role")
	case v.sync == "off" && !outcomes:
		return fmt.Errorf("%w: synchronous_commit is off, so that a commit that was reported can be lost in a crash; "+
			"set it to on for this role: ALTER ROLE ... SET synchronous_commit = on", attempt.ErrNotDurable)
	}
	return nil
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// connectTimeout is for URLs that name none.
const connectTimeout = 5 * time.Second

// parse reads a URL. Its errors hold no password.
func parse(url string, pooler bool) (*pgx.ConnConfig, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the URL is none of a PostgreSQL database, want postgres://user@host:port/database: %w", withoutSecrets(err))
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	if pooler && cfg.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement {
		// The statement travels with each execution, and nothing of it stays on the server.
		cfg.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return cfg, nil
}

// A password may stand behind the user's name, or as a parameter.
var (
	userInfo  = regexp.MustCompile(`//[^@/\s]*@`)
	parameter = regexp.MustCompile(`(?i)(password|sslpassword|passfile)\s*=\s*('(\\.|[^'])*'|[^\s&` + "`" + `]+)`)
)

// withoutSecrets is the error without what may be a password: pgx leaves it out where it can read the URL, and quotes what it cannot.
func withoutSecrets(err error) error {
	text := userInfo.ReplaceAllString(err.Error(), "//...@")
	return errors.New(parameter.ReplaceAllString(text, "$1=..."))
}

// server is what a server says of itself when a connection is made.
type server struct {
	recovery  bool // a replica
	readOnly  bool
	isolation string
	sync      string
	version   int64
	now       time.Time
}

const selectServer = `SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
	current_setting('default_transaction_isolation'), current_setting('synchronous_commit'),
	current_setting('server_version_num')::bigint, clock_timestamp()`

// oldestServer is the oldest major release that is tested, as the server writes it.
const oldestServer = 130000

func askServer(ctx context.Context, db session) (v server, err error) {
	err = db.run(ctx, query{text: selectServer, row: func(row []any) error {
		d := decoder{values: row}
		v = server{d.bool("pg_is_in_recovery"), d.bool("transaction_read_only"), d.text("isolation"), d.text("sync"), d.int64("version"), d.time("now")}
		return d.err
	}})
	return v, err
}

// connector makes the store's connections. Those for outcomes take a server that commits asynchronously: the statements themselves
// make it wait.
func (s *Store) connector(cfg *pgx.ConnConfig, outcomes bool) func(context.Context) (*conn, error) {
	cfg = cfg.Copy()
	// With several hosts in the URL the first one that fits is taken.
	cfg.ValidateConnect = nil
	if !s.opts.ReadOnly && severalHosts(cfg) {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return func(ctx context.Context) (*conn, error) {
		c, err := pgx.ConnectConfig(ctx, cfg)
		if err != nil {
			return nil, connectError(err)
		}
		asked := time.Now()
		v, err := askServer(ctx, pgxSession{c})
		if err != nil {
			return nil, errors.Join(err, c.Close(ctx))
		}
		s.clock.answered(v.now, asked)
		made := &conn{Conn: c, made: asked, explicit: v.isolation != "read committed"}
		if err := s.check(v, outcomes); err != nil {
			hangUp(made)
			return nil, err
		}
		return made, nil
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

// connectError says what to do about a connection that cannot be had.
func connectError(err error) error {
	clean := withoutSecrets(err)
	switch code(err) {
	case codeInvalidPassword, codeInvalidAuthorization:
		return fmt.Errorf("the server refuses the role or its password: %w", clean)
	case codeNoDatabase:
		return fmt.Errorf("there is no such database on the server: %w", clean)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("connect: %w: %w", clean, errors.Join(errorIs(err, context.Canceled), errorIs(err, context.DeadlineExceeded)))
	}
	return fmt.Errorf("connect: %w", clean)
}

func errorIs(err, target error) error {
	if errors.Is(err, target) {
		return target
	}
	return nil
}

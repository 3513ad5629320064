//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/storetest"
	"github.com/chargeonce/chargeonce/internal/pgtest"
	"github.com/jackc/pgx/v5"
)

// startPooler starts a PgBouncer that gives connections away for one transaction at a time, few of them, in front of a server of its
// own. https://www.pgbouncer.org/config.html
func startPooler(t *testing.T) (server *pgtest.Server, url string) {
	t.Helper()
	server = startServer(t)
	config := server.Dir + "/pgbouncer.ini"
	text := strings.ReplaceAll(`[databases]
* = host={dir}
[pgbouncer]
listen_addr =
unix_socket_dir = {dir}
listen_port = 6432
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
logfile = {dir}/pgbouncer.log
pidfile = {dir}/pgbouncer.pid
ignore_startup_parameters = extra_float_digits
server_check_query =
`, "{dir}", server.Dir)
	// Whatever user starts it connects to the server as its administrator.
	text = strings.Replace(text, "* = host="+server.Dir, "* = user=postgres host="+server.Dir, 1)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil { //nolint:gosec // another user reads it, and it holds no secret
		t.Fatal(err)
	}
	stop := server.Background(t, pgbouncer(t), config)
	t.Cleanup(stop)
	url = "postgres://postgres@/postgres?sslmode=disable&port=6432&host=" + server.Dir
	for {
		c, err := pgx.Connect(t.Context(), url+"&default_query_exec_mode=exec")
		if err == nil {
			_ = c.Close(context.Background())
			return server, url
		}
		if log, _ := os.ReadFile(server.Dir + "/pgbouncer.log"); strings.Contains(string(log), "FATAL") {
			t.Fatalf("%v\n%s", err, log)
		}
		select { // a program that starts has no event to wait for
		case <-t.Context().Done():
			t.Fatal(err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func pgbouncer(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	pgtest.Missing(t, "PgBouncer is neither in PATH nor in /usr/sbin; ./scripts/test brings it")
	return ""
}

// Behind a transaction pooler every transaction may meet another server process: the store passes the suite that every store passes, and
// many callers share three of them.
func TestTransactionPooler(t *testing.T) {
	server, url := startPooler(t)
	direct := server.URL("postgres")
	n := 0
	schema := func(t *testing.T) string {
		n++
		name := fmt.Sprintf("pooled_%d", n)
		if _, err := Migrate(t.Context(), direct, MigrateOptions{Schema: name}); err != nil {
			t.Fatal(err)
		}
		return name
	}
	opened := func(t *testing.T, opts Options) *Store {
		opts.MaxConns, opts.Pooler = 8, true
		s, err := Open(t.Context(), url, opts)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t,
			func(t *testing.T) attempt.Store { return opened(t, Options{Schema: schema(t)}) },
			storetest.WithClock(func(t *testing.T, now func() time.Time) attempt.Store {
				return opened(t, Options{Schema: schema(t), now: now})
			}),
			storetest.WithDatabase(func(t *testing.T) func(*testing.T) attempt.Store {
				name := schema(t)
				return func(t *testing.T) attempt.Store { return opened(t, Options{Schema: name}) }
			}),
			storetest.WithTransactions(func(store attempt.Store, f func(context.Context, attempt.Tx) error) error {
				return inTxAt(url+"&default_query_exec_mode=exec", store.(*Store), pgx.TxOptions{}, f)
			}))
	})
	t.Run("migrate", func(t *testing.T) {
		if _, err := Migrate(t.Context(), url, MigrateOptions{Schema: "pooled_migration"}); err != nil {
			t.Fatal(err)
		}
		s := opened(t, Options{Schema: "pooled_migration"})
		defer s.Close()
		wantOneAfterStart(t, s)
	})
	// Nobody has to say that there is a pooler: several stores, each with more connections than there are processes of the server.
	t.Run("found out", func(t *testing.T) {
		name := schema(t)
		var wg sync.WaitGroup
		for n := range 4 {
			s, err := Open(t.Context(), url, Options{Schema: name, MaxConns: 8})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if d, err := s.Durability(t.Context()); err != nil || !d.Pooled {
				t.Errorf("%+v, %v, want a pooler", d, err)
			}
			for i := range 40 {
				wg.Go(func() {
					step := starts(fmt.Sprint("order ", n, " ", i))
					err := s.Apply(t.Context(), &step.Step)
					if err == nil {
						err = s.Apply(t.Context(), approves(step.got).Step(&step.got))
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
	})
	t.Run("found out in mid-run", func(t *testing.T) { // a pooler is put where a server was
		name := schema(t)
		cfg, chosen, err := parse(direct)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(t.Context(), direct, Options{Schema: name})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		known := start(t, s, "1001")
		through, _, err := parse(url)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Host, cfg.Port, cfg.Fallbacks = through.Host, through.Port, nil
		s.general.connect = s.connector(cfg, chosen, false)
		c, err := s.general.acquire(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		if err := (pgxSession{c}).run(t.Context(), query{text: "SELECT 1"}, query{text: "SELECT 2"}); err != nil {
			t.Error(err)
		}
		if mode := c.Config().DefaultQueryExecMode; mode != pgx.QueryExecModeExec {
			t.Errorf("statements are sent by %s", mode)
		}
		s.general.release(c, false)
		wantOne(t, s, "1001", known.Status, 1)
	})
	t.Run("chosen otherwise", func(t *testing.T) { // by a URL that says that statements are prepared: an error says what to change
		name := schema(t)
		var said error
		for range 4 { // the second that meets the same server process at the latest
			s, err := Open(t.Context(), url+"&default_query_exec_mode=cache_statement", Options{Schema: name})
			if err != nil {
				said = err
				break
			}
			_, said = s.Slot(t.Context(), slotOf("1001"))
			if s.Close(); said != nil {
				break
			}
		}
		if !errors.Is(said, attempt.ErrUnavailable) || !strings.Contains(said.Error(), "default_query_exec_mode") {
			t.Errorf("with cache_statement: %v, want an error that names the setting", said)
		}
	})
	t.Run("not there", func(t *testing.T) {
		s, err := Open(t.Context(), direct, Options{Schema: schema(t)})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if d, err := s.Durability(t.Context()); err != nil || d.Pooled {
			t.Errorf("%+v, %v, want no pooler", d, err)
		}
	})
	t.Run("two processes", func(t *testing.T) {
		name := schema(t)
		a, b := opened(t, Options{Schema: name}), opened(t, Options{Schema: name})
		defer a.Close()
		defer b.Close()
		const orders, callers = 40, 4
		began := make([]int, orders)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range callers * orders {
			wg.Go(func() {
				s := []*Store{a, b}[i%2]
				step := starts(fmt.Sprint("order ", i%orders))
				if err := s.Apply(t.Context(), &step.Step); err != nil {
					t.Errorf("start: %v", err)
					return
				}
				if !step.began {
					return
				}
				if err := s.Apply(t.Context(), approves(step.got).Step(&step.got)); err != nil {
					t.Errorf("outcome: %v", err)
				}
				mu.Lock()
				began[i%orders]++
				mu.Unlock()
			})
		}
		wg.Wait()
		for i, n := range began {
			if n != 1 {
				t.Errorf("order %d was started by %d callers, want 1", i, n)
			}
			wantOne(t, a, fmt.Sprint("order ", i), attempt.StatusApproved, 2)
		}
	})
}

func wantOneAfterStart(t *testing.T, s *Store) {
	t.Helper()
	known := start(t, s, "1001")
	if err := s.Apply(t.Context(), approves(known).Step(&known)); err != nil {
		t.Fatal(err)
	}
	wantOne(t, s, "1001", attempt.StatusApproved, 2)
}

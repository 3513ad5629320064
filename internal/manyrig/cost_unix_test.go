//go:build unix

package manyrig

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/postgres"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/internal/pgtest"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

var payments = flag.Int("many.payments", 200, "how many payments the costs of one are measured over")

// payMany pays orders from first on through a whole client, whose provider is in this process and answers at once.
func payMany(t *testing.T, store attempt.Store, first, n, callers int) time.Duration {
	t.Helper()
	bank := fakeprovider.New(fakeprovider.Config{RecordRequests: -1})
	defer bank.Close()
	adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("cost")})
	if err != nil {
		t.Fatal(err)
	}
	client, err := payclient.New(payclient.Config{
		Provider: adapter, Store: store, BaseURL: "https://provider.example", Transport: bank.RoundTripper(),
		ProviderAccount: "acct_1", Environment: "live", Who: "checkout-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	amount := money.MustParse("548.90", "TRY")
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range callers {
		all.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				order := fmt.Sprintf("order-%08d", first+i)
				r, err := client.Pay(context.Background(), attempt.Intent{Order: order, Amount: amount, Source: attempt.Token("tok_visa"), Description: "Order " + order})
				if err != nil || r.Outcome != payclient.Approved {
					t.Errorf("order %s: %s, %v", order, r.Outcome, err)
				}
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	if err := client.Close(context.Background()); err != nil {
		t.Error(err)
	}
	return took
}

// counters are a server's, by now, and the processor time of its connections and of this process, with the provider in it.
type counters struct {
	wal, images, syncs, commits float64
	serverCPU, ownCPU           time.Duration
}

// per is what has come between two readings, for each of n payments.
func (c counters) per(n float64, before counters) counters {
	return counters{
		(c.wal - before.wal) / n, (c.images - before.images) / n, (c.syncs - before.syncs) / n, (c.commits - before.commits) / n,
		time.Duration(float64(c.serverCPU-before.serverCPU) / n), time.Duration(float64(c.ownCPU-before.ownCPU) / n),
	}
}

func (c counters) String() string {
	return fmt.Sprintf("WAL %5.0f bytes (%.2f images of pages), %.2f syncs, %.2f commits, CPU of the server %s, of the client %s a payment",
		c.wal, c.images, c.syncs, c.commits, c.serverCPU.Round(time.Microsecond), c.ownCPU.Round(time.Microsecond))
}

// cpuOfChildren is the processor time of the ended children of a process, which are a server's connections; 0 where nobody tells.
func cpuOfChildren(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), ") ") // behind the program's name
	fields := strings.Fields(after)
	var ticks int64
	for _, field := range fields[13:15] { // cutime and cstime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// quietChildren are a server's own processes and one connection: checkpointer, background writer, WAL writer, autovacuum and
// replication launchers.
const quietChildren = 6

// children counts the processes that a process has started; 0 where nobody tells.
func children(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pid))
	if err != nil {
		return 0
	}
	return len(strings.Fields(string(text)))
}

func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// readCounters waits until every other connection has gone, since a connection reports what it has counted when it ends.
func readCounters(t *testing.T, c *pgx.Conn, pid int) (n counters) {
	t.Helper()
	n.ownCPU = ownCPU(t)
	for others := 1; others > 0; time.Sleep(5 * time.Millisecond) { // polls the server
		err := c.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()").Scan(&others)
		if err != nil {
			t.Fatal(err)
		}
	}
	err := c.QueryRow(t.Context(), `SELECT pg_current_wal_lsn() - '0/0'::pg_lsn, w.wal_fpi, w.wal_sync,
		(SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()) FROM pg_stat_wal w`).
		Scan(&n.wal, &n.images, &n.syncs, &n.commits)
	if err != nil {
		t.Fatal(err)
	}
	// A connection's processor time is told when the server's first process has seen its end: autovacuum aside, only this one is left.
	for until := time.Now().Add(2 * time.Second); children(pid) > quietChildren && time.Now().Before(until); {
		time.Sleep(5 * time.Millisecond) // polls /proc
	}
	n.serverCPU = cpuOfChildren(t, pid)
	return n
}

// TestCostOnPostgres measures what docs/scale.md says that a payment costs, and holds the store to it.
//
//	go test -v -run Cost ./internal/manyrig -many.payments 50000
func TestCostOnPostgres(t *testing.T) {
	server := pgtest.Start(t)
	const schema = "chargeonce"
	if _, err := postgres.Migrate(t.Context(), server.URL("postgres"), postgres.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	run := func(statement string) {
		t.Helper()
		if _, err := c.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	first := 0
	pay := func(what string, callers int, relay string) counters {
		t.Helper()
		run("CHECKPOINT")
		before := readCounters(t, c, server.Pid(t))
		store, err := postgres.Open(t.Context(), server.URL("postgres"), postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		if relay != "" {
			if err := store.AddRelay(t.Context(), relay); err != nil {
				t.Fatal(err)
			}
		}
		took := payMany(t, store, first, *payments, callers)
		first += *payments
		if relay != "" {
			deliver(t, store, relay, 2**payments)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		after := readCounters(t, c, server.Pid(t))
		each := after.per(float64(*payments), before)
		t.Logf("%-36s %7.0f payments/s, %s", what, float64(*payments)/took.Seconds(), each)
		return each
	}
	lone := pay("1 caller", 1, "")
	pay("8 callers", 8, "")
	pay("64 callers", 64, "")
	run("ALTER SYSTEM SET full_page_writes = off")
	run("SELECT pg_reload_conf()")
	plain := pay("1 caller, without images of pages", 1, "")
	pay("the same, with a relay, delivered", 1, "host")

	// A checkpointer or autovacuum may add a little.
	if lone.commits > 2.2 || lone.syncs > 2.3 {
		t.Errorf("a payment alone takes %.2f commits and %.2f syncs, want 2", lone.commits, lone.syncs)
	}
	if plain.wal > 6000 {
		t.Errorf("a payment writes %.0f bytes of WAL without images of pages, docs/scale.md says less", plain.wal)
	}
	rows, err := c.Query(t.Context(), `SELECT relname, pg_relation_size(oid) + coalesce(pg_relation_size(nullif(reltoastrelid, 0)), 0), pg_indexes_size(oid)
		FROM pg_class WHERE relnamespace = $1::regnamespace AND relkind = 'r' ORDER BY relname`, schema)
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for rows.Next() {
		var name string
		var table, indexes float64
		if err := rows.Scan(&name, &table, &indexes); err != nil {
			t.Fatal(err)
		}
		total += table + indexes
		t.Logf("%-24s %6.0f bytes a payment, its indexes %6.0f", name, table/float64(first), indexes/float64(first))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%-24s %6.0f bytes a payment", "all", total/float64(first))
}

// deliver has a relay deliver so many events.
func deliver(t *testing.T, store attempt.Store, relay string, events int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var told atomic.Int64
	err := attempt.Relay(ctx, store, relay, func(context.Context, attempt.Event) error {
		if told.Add(1) == int64(events) {
			stop()
		}
		return nil
	})
	if told.Load() != int64(events) {
		t.Errorf("%d events were told, want %d: %v", told.Load(), events, err)
	}
}

// TestCostOnSQLite is the same for a file.
func TestCostOnSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cost.db")
	store, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	first := 0
	for _, callers := range []int{1, 8, 64} {
		before := written(t)
		took := payMany(t, store, first, *payments, callers)
		first += *payments
		t.Logf("%2d callers %7.0f payments/s, %6.0f bytes written a payment", callers, float64(*payments)/took.Seconds(), (written(t)-before)/float64(*payments))
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if each := info.Size() / int64(first); each > 2500 {
		t.Errorf("the file has %d bytes a payment, docs/scale.md says less", each)
	} else {
		t.Logf("the file has %d bytes a payment", each)
	}
}

// written is how many bytes this process has given to write calls; 0 where nobody counts them.
func written(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "wchar: "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

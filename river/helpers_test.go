package chargeonceriver_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/postgres"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/paytest"
	"github.com/chargeonce/chargeonce/reconcile"
	chargeonceriver "github.com/chargeonce/chargeonce/river"
)

// host is a service with a store, River and a client at a fake provider, in schemas of the test's own.
type host struct {
	*paytest.Kit
	t     *testing.T
	pool  *pgxpool.Pool
	store *postgres.Store
	opts  chargeonceriver.InstallOptions
}

var hosts atomic.Int64

// newHost makes a host with the trigger installed, whose open attempts are due after a second at the latest.
func newHost(t *testing.T, options ...func(*payclient.Config)) *host {
	t.Helper()
	url := os.Getenv("CHARGEONCE_TEST_POSTGRES")
	if url == "" {
		// There is nothing to test these jobs on but a server.
		t.Skip("SKIPPED: no PostgreSQL: ./scripts/test starts one, or set CHARGEONCE_TEST_POSTGRES to the URL of a server")
	}
	name := fmt.Sprintf("r%d_%d_%d", os.Getpid(), time.Now().UnixMilli(), hosts.Add(1))
	h := &host{t: t, opts: chargeonceriver.InstallOptions{Schema: name + "_c", RiverSchema: name + "_r"}}
	ctx := context.Background()
	var err error
	if h.pool, err = pgxpool.New(ctx, url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.pool.Close)
	t.Cleanup(func() { h.exec("DROP SCHEMA IF EXISTS " + h.opts.Schema + ", " + h.opts.RiverSchema + " CASCADE") })
	if _, err := postgres.Migrate(ctx, url, postgres.MigrateOptions{Schema: h.opts.Schema}); err != nil {
		t.Fatal(err)
	}
	h.exec("CREATE SCHEMA " + h.opts.RiverSchema)
	migrator, err := rivermigrate.New(riverpgxv5.New(h.pool), &rivermigrate.Config{Schema: h.opts.RiverSchema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	if err := chargeonceriver.Install(ctx, h.pool, h.opts); err != nil {
		t.Fatal(err)
	}
	if h.store, err = postgres.Open(ctx, url, postgres.Options{Schema: h.opts.Schema}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.store.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	soon := func(c *payclient.Config) {
		paytest.Quick(c)
		c.Store, c.Retries = h.store, -1
		c.SendTimeout, c.CallTimeout, c.MinAge = 900*time.Millisecond, time.Second, time.Second
		c.AskWaits = []time.Duration{time.Second}
	}
	h.Kit = paytest.New(t, append([]func(*payclient.Config){soon}, options...)...)
	return h
}

func (h *host) exec(sql string, args ...any) {
	h.t.Helper()
	if _, err := h.pool.Exec(context.Background(), sql, args...); err != nil {
		h.t.Errorf("%s: %v", sql, err)
	}
}

// job is what a test looks at of a row of River's.
type job struct {
	kind, queue, state string
	args               chargeonceriver.LookArgs
	priority           int
	scheduled          time.Time
	attempt            int
}

// looks returns the jobs of an attempt, oldest first.
func (h *host) looks(id string) (jobs []job) {
	h.t.Helper()
	rows, err := h.pool.Query(h.t.Context(), "SELECT kind, queue, state::text, args, priority, scheduled_at, attempt FROM "+h.opts.RiverSchema+
		".river_job WHERE kind = 'chargeonce_look' AND args ->> 'attempt_id' = $1 ORDER BY id", id)
	if err != nil {
		h.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var j job
		if err := rows.Scan(&j.kind, &j.queue, &j.state, &j.args, &j.priority, &j.scheduled, &j.attempt); err != nil {
			h.t.Fatal(err)
		}
		jobs = append(jobs, j)
	}
	if err := rows.Err(); err != nil {
		h.t.Fatal(err)
	}
	return jobs
}

// lost pays an order; the provider charges, its answer is lost, and so is that to the question at the call's end.
func (h *host) lost(order string) attempt.Attempt {
	h.t.Helper()
	h.Bank.Script(fakeprovider.LoseAnswer)
	h.Bank.ScriptFor(fakeprovider.Lookups, fakeprovider.Status(503))
	res, err := h.Client.Pay(h.t.Context(), h.Intent(order))
	if err != nil {
		h.t.Fatalf("pay %s: %v", order, err)
	}
	a := h.attempt(res.AttemptID)
	if a.Status != attempt.StatusUnknown {
		h.t.Fatalf("order %s: %s (%s), want unknown", order, a.Status, a.Reason)
	}
	return a
}

func (h *host) attempt(id string) attempt.Attempt {
	h.t.Helper()
	a, err := h.store.Attempt(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// reconciler makes one whose lease is so short that a job which finds an attempt taken comes back soon.
func (h *host) reconciler() *reconcile.Reconciler {
	h.t.Helper()
	r, err := reconcile.New(reconcile.Config{
		Store: h.store, Askers: []reconcile.Asker{h.Client}, AskTimeout: time.Second, Lease: 2 * time.Second, Every: 100 * time.Millisecond,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// work lets River work until the test ends. The channel tells of jobs that have ended.
func (h *host) work(r chargeonceriver.Looker, periodic ...*river.PeriodicJob) <-chan *river.Event {
	h.t.Helper()
	workers := river.NewWorkers()
	if err := chargeonceriver.AddWorkers(workers, chargeonceriver.Config{Reconciler: r, Store: h.store}); err != nil {
		h.t.Fatal(err)
	}
	client, err := river.NewClient(riverpgxv5.New(h.pool), &river.Config{
		Schema: h.opts.RiverSchema, Workers: workers, PeriodicJobs: periodic, TestOnly: true, Logger: slog.New(slog.DiscardHandler),
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}}, FetchPollInterval: 100 * time.Millisecond,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	ended, unsubscribe := client.Subscribe(river.EventKindJobCompleted, river.EventKindJobSnoozed, river.EventKindJobFailed, river.EventKindJobCancelled)
	if err := client.Start(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		unsubscribe()
		if err := client.Stop(ctx); err != nil {
			h.t.Errorf("stop River: %v", err)
		}
	})
	return ended
}

// wait takes events until one is wanted, and fails the test when none comes.
func (h *host) wait(ended <-chan *river.Event, wanted func(*river.Event) bool) {
	h.t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case e := <-ended:
			if e != nil && wanted(e) {
				return
			}
		case <-timeout:
			h.t.Fatal("what was waited for did not happen")
		}
	}
}

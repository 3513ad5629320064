package chargeonceriver_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/chargeonce/chargeonce/attempt/postgres"
	"github.com/chargeonce/chargeonce/payclient"
	chargeonceriver "github.com/chargeonce/chargeonce/river"
)

func TestUnknownAttemptHasItsJob(t *testing.T) {
	h := newHost(t)
	a := h.lost("1001")
	jobs := h.looks(a.ID)
	if len(jobs) != 1 {
		t.Fatalf("%d jobs, want 1", len(jobs))
	}
	if j := jobs[0]; j.args.AttemptID != a.ID || j.queue != river.QueueDefault || j.priority != 1 || j.state != "scheduled" && j.state != "available" ||
		j.scheduled.Before(a.FirstClaimAt.Add(time.Second)) || j.scheduled.After(a.FirstClaimAt.Add(time.Minute)) {
		t.Errorf("job %+v of an attempt that was claimed at %s: want it due when the attempt is", j, a.FirstClaimAt)
	}
	res, err := h.Client.Pay(t.Context(), h.Intent("1002"))
	if err != nil || res.Outcome != payclient.Approved || len(h.looks(res.AttemptID)) != 0 {
		t.Errorf("approved at once: %s, %v, %d jobs, want none", res.Outcome, err, len(h.looks(res.AttemptID)))
	}
}

// The job is there exactly when the change is: not before the commit, and not after a rollback.
func TestJobCommitsWithItsChange(t *testing.T) {
	h := newHost(t)
	prepared, err := h.Client.Start(t.Context(), h.Intent("1001"))
	if err != nil {
		t.Fatal(err)
	}
	id := prepared.AttemptID
	at := time.Date(2126, 3, 1, 12, 0, 0, 0, time.UTC)
	change := func(end func(pgx.Tx) error) {
		tx, err := h.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "UPDATE "+h.opts.Schema+".chargeonce_attempts SET status = 'unknown', next_check_at = $2 WHERE id = $1", id, at); err != nil {
			t.Fatal(err)
		}
		if n := len(h.looks(id)); n != 0 {
			t.Errorf("before the end of the transaction: %d jobs", n)
		}
		if err := end(tx); err != nil {
			t.Fatal(err)
		}
	}
	change(func(tx pgx.Tx) error { return tx.Rollback(t.Context()) })
	if n := len(h.looks(id)); n != 0 {
		t.Errorf("after a rollback: %d jobs", n)
	}
	change(func(tx pgx.Tx) error { return tx.Commit(t.Context()) })
	if jobs := h.looks(id); len(jobs) != 1 || !jobs[0].scheduled.Equal(at) || jobs[0].state != "scheduled" {
		t.Errorf("after the commit: %+v, want one job at %s", jobs, at)
	}
}

func TestOneJobAtATime(t *testing.T) {
	h := newHost(t)
	a := h.lost("1001")
	again := func() {
		h.exec("UPDATE "+h.opts.Schema+".chargeonce_attempts SET status = 'sending' WHERE id = $1", a.ID)
		h.exec("UPDATE "+h.opts.Schema+".chargeonce_attempts SET status = 'unknown' WHERE id = $1", a.ID)
	}
	for _, state := range []string{"scheduled", "available", "running", "retryable", "pending"} {
		h.exec("UPDATE "+h.opts.RiverSchema+".river_job SET state = $1::text::"+h.opts.RiverSchema+".river_job_state", state)
		again()
		if n := len(h.looks(a.ID)); n != 1 {
			t.Errorf("unknown again while its job is %s: %d jobs, want 1", state, n)
		}
	}
	for i, state := range []string{"completed", "cancelled", "discarded"} {
		h.exec("UPDATE "+h.opts.RiverSchema+".river_job SET finalized_at = now(), state = $1::text::"+h.opts.RiverSchema+".river_job_state", state)
		again()
		if n := len(h.looks(a.ID)); n != i+2 {
			t.Errorf("unknown again after its job was %s: %d jobs, want %d", state, n, i+2)
		}
	}
	h.exec("UPDATE " + h.opts.RiverSchema + ".river_job SET finalized_at = now(), state = 'completed'")
	before := len(h.looks(a.ID))
	h.exec("UPDATE "+h.opts.Schema+".chargeonce_attempts SET status = 'unknown', version = version + 1 WHERE id = $1", a.ID)
	if n := len(h.looks(a.ID)); n != before {
		t.Errorf("unknown as before: %d jobs, want %d: a person has to decide, and nobody asks anew", n, before)
	}
}

// What a host inserts by itself is the job that the trigger has inserted: River knows them as one.
func TestHostsJobIsTheTriggersJob(t *testing.T) {
	h := newHost(t)
	a := h.lost("1001")
	client, err := river.NewClient(riverpgxv5.New(h.pool), &river.Config{Schema: h.opts.RiverSchema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	inserted, err := client.Insert(t.Context(), chargeonceriver.LookArgs{AttemptID: a.ID}, nil)
	if err != nil || !inserted.UniqueSkippedAsDuplicate || len(h.looks(a.ID)) != 1 {
		t.Errorf("%+v, %v, %d jobs, want the one that is there", inserted, err, len(h.looks(a.ID)))
	}
	const other = "0195519e-2a00-7000-8000-000000000001"
	if inserted, err = client.Insert(t.Context(), chargeonceriver.LookArgs{AttemptID: other}, nil); err != nil || inserted.UniqueSkippedAsDuplicate {
		t.Errorf("of another attempt: %+v, %v", inserted, err)
	}
}

// River is in a bad way, and the payments' outcomes are stored as ever.
func TestPaymentsDoNotDependOnRiver(t *testing.T) {
	for name, harm := range map[string]func(*host) (heal func()){
		"table locked": func(h *host) func() {
			tx, err := h.pool.Begin(context.Background())
			if err != nil {
				h.t.Fatal(err)
			}
			if _, err := tx.Exec(context.Background(), "LOCK TABLE "+h.opts.RiverSchema+".river_job"); err != nil {
				h.t.Fatal(err)
			}
			return func() {
				if err := tx.Rollback(context.Background()); err != nil {
					h.t.Error(err)
				}
			}
		},
		"table changed": func(h *host) func() {
			h.exec("ALTER TABLE " + h.opts.RiverSchema + ".river_job ADD COLUMN required text NOT NULL")
			return func() {}
		},
		"River gone": func(h *host) func() {
			h.exec("DROP SCHEMA " + h.opts.RiverSchema + " CASCADE")
			return func() {}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			heal := harm(h)
			a := h.lost("1001")
			if events, err := h.store.Events(t.Context(), a.ID); err != nil || len(events) != a.Version {
				t.Errorf("%d events of an attempt at version %d: %v", len(events), a.Version, err)
			}
			heal()
			if name == "table locked" && len(h.looks(a.ID)) != 0 {
				t.Error("a job came all the same: the lock held nothing up, and the test shows nothing")
			}
		})
	}
}

// The store's role has no rights on River's tables, and its attempts have their jobs.
func TestLeastPrivilege(t *testing.T) {
	h := newHost(t)
	role := strings.ReplaceAll(h.opts.Schema, "_c", "_role")
	grants, err := postgres.Grants(postgres.MigrateOptions{Schema: h.opts.Schema}, role)
	if err != nil {
		t.Fatal(err)
	}
	h.exec("CREATE ROLE " + role)
	t.Cleanup(func() {
		h.exec("DROP OWNED BY " + role)
		h.exec("DROP ROLE " + role)
	})
	h.exec(grants)
	a := h.lost("1001")
	h.exec("DELETE FROM " + h.opts.RiverSchema + ".river_job")
	tx, err := h.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"SET LOCAL ROLE " + role, "UPDATE " + h.opts.Schema + ".chargeonce_attempts SET status = 'sending'",
		"UPDATE " + h.opts.Schema + ".chargeonce_attempts SET status = 'unknown'",
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil || len(h.looks(a.ID)) != 1 {
		t.Errorf("%v, %d jobs, want 1", err, len(h.looks(a.ID)))
	}
}

func TestInstallAgainAndUninstall(t *testing.T) {
	h := newHost(t)
	h.opts.Queue, h.opts.Priority = "it's", 3
	for range 2 {
		if err := chargeonceriver.Install(t.Context(), h.pool, h.opts); err != nil {
			t.Fatal(err)
		}
	}
	a := h.lost("1001")
	if jobs := h.looks(a.ID); len(jobs) != 1 || jobs[0].queue != "it's" || jobs[0].priority != 3 {
		t.Errorf("after another installation: %+v", jobs)
	}
	if err := postgres.Validate(t.Context(), os.Getenv("CHARGEONCE_TEST_POSTGRES"), postgres.MigrateOptions{Schema: h.opts.Schema}); err != nil {
		t.Errorf("the store's schema with the trigger: %v", err)
	}
	for range 2 {
		if err := chargeonceriver.Uninstall(t.Context(), h.pool, h.opts); err != nil {
			t.Fatal(err)
		}
	}
	b := h.lost("1002")
	if jobs := h.looks(b.ID); len(jobs) != 0 {
		t.Errorf("after the end of the installation: %+v", jobs)
	}
}

func TestInstallRefuses(t *testing.T) {
	h := newHost(t)
	for _, c := range []struct {
		opts chargeonceriver.InstallOptions
		want string
	}{
		{chargeonceriver.InstallOptions{Schema: h.opts.RiverSchema, RiverSchema: h.opts.RiverSchema}, "migrate the store first"},
		{chargeonceriver.InstallOptions{Schema: h.opts.Schema, RiverSchema: h.opts.Schema}, "run River's migrations first"},
		{chargeonceriver.InstallOptions{Schema: strings.Repeat("x", 64)}, "Schema: "},
		{chargeonceriver.InstallOptions{RiverSchema: "a\x00"}, "RiverSchema: "},
		{chargeonceriver.InstallOptions{Queue: "$chargeonce$"}, "Queue: "},
		{chargeonceriver.InstallOptions{Priority: 5}, "Priority: 5"},
	} {
		if err := chargeonceriver.Install(t.Context(), h.pool, c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.opts, err, c.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := chargeonceriver.Install(ended, h.pool, h.opts); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

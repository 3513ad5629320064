//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/pgtest"
)

func startServer(t *testing.T) *pgtest.Server {
	t.Helper()
	testURL(t)
	return pgtest.Start(t)
}

// The server is ended at once, with everything under way, and comes back: what was reported is there, every outcome is written, and
// nothing is there twice.
func TestServerRestartsImmediately(t *testing.T) {
	server := startServer(t)
	if _, err := Migrate(t.Context(), server.URL("postgres"), MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), server.URL("postgres"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	const callers = 8
	var recorded atomic.Int64
	more := func(n int64) {
		for until := recorded.Load() + n; recorded.Load() < until; {
			runtime.Gosched()
		}
	}
	paid := make(chan []string, callers)
	for c := range callers {
		go func() {
			var mine []string
			defer func() { paid <- mine }()
			for i := 0; ctx.Err() == nil; i++ {
				order := fmt.Sprint(c, "-", i)
				step := starts(order)
				if err := s.Apply(t.Context(), &step.Step); err != nil {
					if !errors.Is(err, attempt.ErrUnavailable) {
						t.Errorf("start %s: %v", order, err)
					}
					continue
				}
				if !step.began {
					t.Errorf("order %s was started by nobody else", order)
				}
				if err := s.Apply(t.Context(), approves(step.got).Step(&step.got)); err != nil {
					t.Errorf("outcome of %s: %v", order, err)
				}
				mine = append(mine, order)
				recorded.Add(1)
			}
		}()
	}
	for range 2 {
		more(20)
		server.Ctl(t, "restart", "-m", "immediate")
	}
	more(20)
	stop()
	n := 0
	for range callers {
		for _, order := range <-paid {
			wantOne(t, s, order, attempt.StatusApproved, 2)
			n++
		}
	}
	if n == 0 {
		t.Error("nothing was paid")
	}
	t.Logf("%d payments, two crashes", n)
}

// A replica is refused for writing and good for looking, and a URL that names both finds the primary.
func TestReplica(t *testing.T) {
	primary := startServer(t)
	if _, err := Migrate(t.Context(), primary.URL("postgres"), MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	replica := pgtest.New(t)
	replica.Run(t, "pg_basebackup", "-h", primary.Dir, "-U", "postgres", "-D", replica.Dir+"/data", "-R", "-c", "fast", "--no-sync", "-X", "stream")
	replica.Ctl(t, "start")
	stopped := false
	defer func() {
		if !stopped {
			replica.Ctl(t, "stop", "-m", "immediate")
		}
	}()

	_, err := Open(t.Context(), replica.URL("postgres"), Options{})
	wantError(t, "a replica", err, attempt.ErrUnavailable)
	if err == nil || !strings.Contains(err.Error(), "read-only replica: name the primary") {
		t.Errorf("a replica: %v", err)
	}
	looking, err := Open(t.Context(), replica.URL("postgres"), Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := looking.Slot(t.Context(), slotOf("1001")); err != nil || len(v.Attempts) != 0 {
		t.Errorf("%d attempts: %v", len(v.Attempts), err)
	}
	if err := looking.Close(); err != nil {
		t.Error(err)
	}
	both := "host=" + replica.Dir + "," + primary.Dir + " user=postgres dbname=postgres sslmode=disable"
	s, err := Open(t.Context(), both, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	known := start(t, s, "1001")

	// Fail-over: the primary ends, the replica takes its place; the outcome waits for it.
	for at := time.Now().Add(20 * time.Second); ; {
		r, err := Open(t.Context(), replica.URL("postgres"), Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Attempt(t.Context(), known.ID)
		_ = r.Close()
		if err == nil {
			break // it has arrived there: what has not is lost by an asynchronous fail-over
		}
		if time.Now().After(at) {
			t.Fatal(err)
		}
	}
	primary.Ctl(t, "stop", "-m", "immediate")
	recorded := make(chan error, 1)
	go func() { recorded <- s.Apply(t.Context(), approves(known).Step(&known)) }()
	replica.Ctl(t, "promote")
	if err := <-recorded; err != nil {
		t.Error(err)
	}
	wantOne(t, s, "1001", attempt.StatusApproved, 2)
	start(t, s, "1002")
	replica.Ctl(t, "stop", "-m", "immediate")
	stopped = true
	primary.Ctl(t, "start")
}

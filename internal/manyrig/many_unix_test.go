//go:build unix

package manyrig

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/postgres"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/internal/pgtest"
)

var (
	rounds  = flag.Int("many.rounds", 1, "how often the processes are run, each time with other chances")
	intents = flag.Int("many.intents", 1000, "how many intents they pay")
)

// patience is for how long something is waited for that must come.
const patience = 60 * time.Second

func TestManyProcesses(t *testing.T) {
	server := pgtest.Start(t)
	for round := range *rounds {
		for _, processes := range []int{2, 4, 8} {
			t.Run(fmt.Sprintf("%d", processes), func(t *testing.T) {
				seed := uint64(100*round + processes)
				newRig(t, server, fmt.Sprintf("many_%d_%d", processes, round), seed).run(processes)
			})
		}
	}
}

// rig is one database, one provider, and the processes that use them.
type rig struct {
	t        *testing.T
	server   *pgtest.Server
	name     string // of the database
	url      string
	bank     *fakeprovider.Server
	seed     uint64
	started  int
	workers  []*worker
	verdicts *verdicts
}

// worker is a process.
type worker struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan error // its end, once it has been heard
}

func newRig(t *testing.T, s *pgtest.Server, name string, seed uint64) *rig {
	t.Helper()
	r := &rig{t: t, server: s, name: name, url: s.URL(name), seed: seed, verdicts: &verdicts{of: map[string]verdict{}, told: map[string]int{}}}
	if err := execute(t.Context(), s.URL("postgres"), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Migrate(t.Context(), r.url, postgres.MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	var err error
	r.bank, err = fakeprovider.Listen(fakeprovider.ServerConfig{
		Listen: "127.0.0.1:0", Mode: fakeprovider.ModeSlow, Delay: 30 * time.Millisecond, // so that claims are held for a while
		FaultRate: 0.2, Seed: seed,
	})
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.bank.Serve(serving) }()
	t.Cleanup(func() {
		stop()
		<-served //nolint:errcheck // that it has ended is enough
	})
	t.Cleanup(func() {
		for _, w := range r.workers {
			_ = w.cmd.Process.Kill() // may have ended
			<-w.ended                //nolint:errcheck // that it has ended is enough
		}
	})
	return r
}

func execute(ctx context.Context, url, statement string) error {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }() // the statement has been answered
	_, err = c.Exec(ctx, statement)
	return err
}

// start starts a process. Their clocks are five minutes apart.
func (r *rig) start() *worker {
	r.t.Helper()
	r.started++
	o := orders{
		Name: fmt.Sprint("process ", r.started), Database: r.url, Provider: r.bank.Addr(), Intents: *intents, Callers: 8,
		Seed: r.seed, Clock: []time.Duration{-150 * time.Second, 150 * time.Second}[r.started%2],
	}
	text, err := json.Marshal(o)
	if err != nil {
		r.t.Fatal(err)
	}
	w := &worker{name: o.Name, cmd: exec.Command(os.Args[0]), ended: make(chan error, 1)} //nolint:gosec // this very program
	w.cmd.Env = append(os.Environ(), asWorker+"="+string(text))
	w.cmd.Stderr = r.t.Output()
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		r.t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		lines := bufio.NewScanner(out)
		var err error
		for lines.Scan() {
			err = errors.Join(err, r.verdicts.hear(w.name, lines.Bytes()))
		}
		w.ended <- errors.Join(err, w.cmd.Wait())
		close(w.ended)
	}()
	r.workers = append(r.workers, w)
	return w
}

func (r *rig) signal(w *worker, s syscall.Signal) {
	r.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		r.t.Fatalf("%s: %v", w.name, err)
	}
}

// stopHolding stops a process at a moment when it holds claims, and tells how many.
func (r *rig) stopHolding(w *worker) int {
	r.t.Helper()
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(5 * time.Millisecond) { // the process works meanwhile
		r.signal(w, syscall.SIGSTOP)
		// What the server was given before is done: the claims that are there now are those that stay.
		if n := r.held(w); n > 0 {
			return n
		}
		r.signal(w, syscall.SIGCONT)
	}
	r.t.Fatalf("%s held no claim within %s", w.name, patience)
	return 0
}

// held counts the attempts that a process may be sending.
func (r *rig) held(w *worker) (n int) {
	r.t.Helper()
	c, err := pgx.Connect(r.t.Context(), r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = c.Close(r.t.Context()) }() // only read
	err = c.QueryRow(r.t.Context(), `SELECT count(*) FROM chargeonce.chargeonce_attempts a
		JOIN chargeonce.chargeonce_events e ON e.attempt_id = a.id AND e.version = a.version
		WHERE a.status = 'sending' AND e.who = $1`, w.name).Scan(&n)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func (r *rig) run(processes int) {
	t := r.t
	t.Helper()
	began := time.Now()
	for range processes {
		r.start()
	}
	// Each disturbance comes when a part of the work is done, so that there is work left to disturb.
	r.until(*intents / 10)
	stopped := r.workers[0]
	heldBack := r.stopHolding(stopped)
	stoppedAt := time.Now()

	r.until(*intents / 5)
	killed := r.workers[1]
	lost := r.stopHolding(killed)
	r.signal(killed, syscall.SIGKILL)
	<-killed.ended //nolint:errcheck // that it has ended is enough
	r.start()

	r.until(*intents / 3)
	terminated := r.terminate()
	r.until(*intents / 2)
	r.server.Ctl(t, "restart", "-m", "immediate")
	r.until(*intents * 2 / 3)
	terminated += r.terminate()

	// The claims of the stopped process are over, and others have taken up what it held.
	r.wait("others take up what "+stopped.name+" held", func() bool { return r.held(stopped) == 0 })
	if away := time.Since(stoppedAt); away < claimLasts {
		t.Errorf("what %s held was taken up after %s, before its claims were over", stopped.name, away)
	}
	r.signal(stopped, syscall.SIGCONT)

	deadline := time.After(patience)
	for _, w := range r.workers {
		if w == killed {
			continue
		}
		select {
		case err := <-w.ended:
			if err != nil {
				t.Errorf("%s: %v", w.name, err)
			}
		case <-deadline:
			t.Fatalf("%s has not ended: %s", w.name, r.verdicts)
		}
	}
	paid := time.Since(began)
	r.reconcile()
	r.audit()
	t.Logf("%d processes, %d intents: %s, settled after %s; stopped with %d claims, killed with %d, %d connections terminated, %d requests at the provider",
		processes, *intents, paid.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), heldBack, lost, terminated, r.bank.Provider().RequestCount())
}

// until waits until so many intents have a verdict from any process.
func (r *rig) until(n int) {
	r.t.Helper()
	r.wait(fmt.Sprint(n, " intents are settled"), func() bool { return r.verdicts.known() >= n })
}

func (r *rig) wait(what string, is func() bool) {
	r.t.Helper()
	for until := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) { // polls for what other processes do
		if time.Now().After(until) {
			r.t.Fatalf("not within %s: %s; %s", patience, what, r.verdicts)
		}
	}
}

// terminate ends every connection of the processes, and tells how many.
func (r *rig) terminate() (n int) {
	r.t.Helper()
	c, err := pgx.Connect(r.t.Context(), r.server.URL("postgres"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = c.Close(r.t.Context()) }() // it has been answered
	err = c.QueryRow(r.t.Context(), "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = $1", r.name).Scan(&n)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// reconcile ends what the processes have left open: nothing may need a person.
func (r *rig) reconcile() {
	r.t.Helper()
	ctx, stop := context.WithTimeout(r.t.Context(), patience)
	defer stop()
	store, err := postgres.Open(ctx, r.url, postgres.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	defer store.Close()
	client, reconciler, err := newClient(store, r.bank.Addr(), "afterwards")
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() {
		if err := client.Close(context.Background()); err != nil {
			r.t.Error(err)
		}
	}()
	for {
		if _, err := reconciler.RunOnce(ctx); err != nil {
			r.t.Fatal(err)
		}
		open := 0
		for _, err := range store.List(ctx, attempt.Filter{Open: true}) {
			if err != nil {
				r.t.Fatal(err)
			}
			open++
		}
		if open == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond) // until the next question is due
	}
}

// audit holds books, store and verdicts against each other.
func (r *rig) audit() {
	t := r.t
	t.Helper()
	store, err := postgres.Open(t.Context(), r.url, postgres.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	charges := map[string]int{} // by the order's description
	known := map[string]attempt.Attempt{}
	paid := map[string][]attempt.Attempt{}
	for a, err := range store.List(t.Context(), attempt.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		known[a.ID] = a
		if !a.Status.Final() || len(a.Duties) > 0 {
			t.Errorf("order %s: attempt %s is %s, %d duties", a.Slot.Order, a.ID, a.Status, len(a.Duties))
		}
		if len(a.Claims) > 0 && a.Status == attempt.StatusSending {
			t.Errorf("order %s: attempt %s has a claim left: %+v", a.Slot.Order, a.ID, a.Claims)
		}
		if a.Status == attempt.StatusApproved || a.Status == attempt.StatusDeclined {
			paid[a.Slot.Order] = append(paid[a.Slot.Order], a)
		}
		events, err := store.Events(t.Context(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range events {
			if e.Version != i+1 {
				t.Errorf("order %s: attempt %s has event %d at place %d", a.Slot.Order, a.ID, e.Version, i+1)
			}
		}
		if len(events) != a.Version {
			t.Errorf("order %s: attempt %s has %d events and version %d", a.Slot.Order, a.ID, len(events), a.Version)
		}
	}
	for _, c := range r.bank.Provider().Charges() {
		charges[c.Description]++
		id, ok := attempt.IDOf(c.Reference)
		if a := known[id]; !ok || a.ChargeID != c.ID || a.Status != attempt.StatusApproved || a.Amount.Minor() != c.Amount {
			t.Errorf("%s: charge %s (%s) is lost: the store has attempt %+v", c.Description, c.ID, c.Reference, a)
		}
	}
	total := 0
	for n := range *intents {
		want, status := 1, attempt.StatusApproved
		if declines(n) {
			want, status = 0, attempt.StatusDeclined
		}
		order := fmt.Sprint(n)
		got := charges["order "+order]
		total += got
		if got != want {
			t.Errorf("order %s has %d charges, want %d", order, got, want)
		}
		if len(paid[order]) != 1 || paid[order][0].Status != status {
			t.Errorf("order %s: %d attempts are approved or declined, want one %s", order, len(paid[order]), status)
			continue
		}
		r.verdicts.compare(t, order, paid[order][0])
	}
	if total != len(r.bank.Provider().Charges()) {
		t.Errorf("%d charges in the books, %d of them for our orders", len(r.bank.Provider().Charges()), total)
	}
	for _, w := range r.workers {
		if told := r.verdicts.toldTo(w.name); told != *intents && w != r.workers[1] { // which was killed
			t.Errorf("%s was told %d verdicts, want %d", w.name, told, *intents)
		}
	}
	if len(r.bank.Provider().Refunds()) > 0 {
		t.Errorf("money was given back: %+v", r.bank.Provider().Refunds())
	}
}

// verdicts are what the processes were told, one for each intent: the first is kept, and each other must be the same.
type verdicts struct {
	mu     sync.Mutex
	of     map[string]verdict
	told   map[string]int // by process
	differ []string
}

// hear takes a line of a process.
func (v *verdicts) hear(process string, line []byte) error {
	var told verdict
	if err := json.Unmarshal(line, &told); err != nil {
		return fmt.Errorf("%q: %w", line, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.told[process]++
	if first, ok := v.of[told.Order]; !ok {
		v.of[told.Order] = told
	} else if first != told {
		v.differ = append(v.differ, fmt.Sprintf("%s was told %+v, another before %+v", process, told, first))
	}
	return nil
}

func (v *verdicts) known() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.of)
}

func (v *verdicts) toldTo(process string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.told[process]
}

func (v *verdicts) String() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return fmt.Sprintf("%d intents are settled, told to %v", len(v.of), v.told)
}

// compare holds the verdict of an order against what the store has.
func (v *verdicts) compare(t *testing.T, order string, a attempt.Attempt) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	told, ok := v.of[order]
	if !ok || told.AttemptID != a.ID || told.ChargeID != a.ChargeID || told.Outcome != a.Tell(a.UpdatedAt).Outcome.String() {
		t.Errorf("order %s: told %+v, the store has %s %s charge %s", order, told, a.ID, a.Status, a.ChargeID)
	}
	if len(v.differ) > 0 {
		t.Error(strings.Join(v.differ, "\n"))
		v.differ = nil
	}
}

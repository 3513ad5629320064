//go:build amd64 || arm64

package crashrig

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/fakeprovider"
)

var (
	wantKills = flag.Int("crash.kills", 900, "how often the program is killed, at least: two thirds with SQLite, a third with PostgreSQL")
	wholeRuns = flag.Bool("crash.whole", false, "also kill it at every single point of every run: many minutes")
	workers   = flag.Int("crash.workers", 8, "how many runs there are at once; most of their time they wait for claims to end")
	seed      = flag.Uint64("crash.seed", 1, "decides where recoveries are killed")
)

// shortKills is how often it is killed under -short.
const shortKills = 120

// program is the chargeonce program under test.
var program string

func TestMain(m *testing.M) {
	if text := os.Getenv(envTask); text != "" {
		runTask(text)
	}
	flag.Parse()
	os.Exit(inFolder(m))
}

func inFolder(m *testing.M) int {
	dir, err := os.MkdirTemp("", "crashrig")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program = filepath.Join(dir, "chargeonce")
	build := exec.Command("go", "build", "-o", program, "github.com/chargeonce/chargeonce/cmd/chargeonce")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// needTrace ends the test where nothing can be traced, and fails it where that must not be.
func needTrace(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	if strings.Contains(err.Error(), errNoTrace.Error()) && os.Getenv("CI") != "true" {
		// A container may forbid ptrace. Said aloud, and a failure in CI.
		t.Skipf("NOTHING WAS KILLED: %v", err)
	}
	t.Fatal(err)
}

// patience bounds every wait for a process.
const patience = time.Minute

// timings make a claim end 1.1 s after it began, and an attempt that the provider does not know be given up soon after.
const timings = `
environment = "rig"
concurrency = 1
[standard]
lookup_lag = "20ms"
[timings]
send_timeout = "500ms"
call_timeout = "800ms"
retries = 2
first_wait = "10ms"
max_wait = "20ms"
record_timeout = "300ms"
min_age = "1s"
abandon_after = "1200ms"
ask_waits = "100ms"
refund_grace = "0s"
`

// bank is chargeonce fake in a process of its own.
type bank struct {
	url  string
	peer string // host and port
	stop func()
}

func openBank(ctx context.Context, dir string) (*bank, error) {
	cmd := exec.CommandContext(ctx, program, "fake", "--listen", "127.0.0.1:0", "--file", filepath.Join(dir, "ledger"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b := &bank{stop: func() { _, _ = cmd.Process.Kill(), cmd.Wait() }}
	address := make([]byte, 64)
	n, err := out.Read(address)
	if err != nil {
		b.stop()
		return nil, fmt.Errorf("chargeonce fake: %w", err)
	}
	b.url = strings.TrimSpace(string(address[:n]))
	b.peer = strings.TrimPrefix(b.url, "http://")
	return b, nil
}

// control posts to a control endpoint.
func (b *bank) control(what, body string) error {
	resp, err := http.Post(b.url+"/_fake/"+what, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", what, said)
	}
	return err
}

// ledger reads the books.
func (b *bank) ledger() (l fakeprovider.Ledger, err error) {
	resp, err := http.Get(b.url + "/_fake/ledger")
	if err != nil {
		return l, err
	}
	defer func() { _ = resp.Body.Close() }()
	return l, json.NewDecoder(resp.Body).Decode(&l)
}

// world is one database and one bank.
type world struct {
	dir    string
	bank   *bank
	server *server // nil: SQLite
	schema string  // of the server's
}

func newWorld(dir string, b *bank, p *server, rows string) (*world, error) {
	w := &world{dir: dir, bank: b, server: p}
	more := ""
	if p != nil {
		w.schema = p.newSchema()
		more = "db_schema = \"" + w.schema + "\"\n"
	}
	return w, errors.Join(
		b.control("reset", ""),
		b.control("faults", `{"clear":true}`),
		os.WriteFile(filepath.Join(dir, "rig.toml"), []byte(more+timings), 0o600),
		os.WriteFile(filepath.Join(dir, "rows.csv"), []byte("order,amount,currency,source\n"+rows), 0o600),
	)
}

// store is SQLite's file.
func (w *world) store() string { return filepath.Join(w.dir, "c.db") }

// socket is what of the store the tracer can see.
func (w *world) socket() string {
	if w.server != nil {
		return w.server.socket
	}
	return w.store()
}

// line is the whole command line. {rows} stands for the file of payments.
func (w *world) line(args []string) []string {
	line := []string{program}
	for _, a := range args {
		line = append(line, strings.ReplaceAll(a, "{rows}", filepath.Join(w.dir, "rows.csv")))
	}
	db := w.store()
	if w.server != nil {
		db = w.server.url
	}
	line = append(line, "--db", db, "--output", "jsonl", "--config", filepath.Join(w.dir, "rig.toml"))
	if args[0] != "migrate" {
		line = append(line, "--provider", "standard", "--url", w.bank.url)
	}
	return line
}

var environment = append(os.Environ(), "CHARGEONCE_STANDARD_TOKEN=tok-of-the-rig")

// run runs the program to its end.
func (w *world) run(ctx context.Context, args ...string) (stdout, stderr string, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	line := w.line(args)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &talk, environment
	err = cmd.Run()
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.Exited() {
		err = nil
	}
	return out.String(), talk.String(), cmd.ProcessState.ExitCode(), err
}

// traced runs the program under the tracer and kills it where it is aimed at; the zero aim is none.
func (w *world) traced(ctx context.Context, at aim, keep bool, args ...string) (_ trace, stdout string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	text, err := json.Marshal(task{Args: w.line(args), Store: w.socket(), Peer: w.bank.peer, Kill: at.n, Point: at.name, Keep: keep})
	if err != nil {
		return trace{}, "", err
	}
	self, err := os.Executable()
	if err != nil {
		return trace{}, "", err
	}
	r, into, err := os.Pipe()
	if err != nil {
		return trace{}, "", err
	}
	defer func() { _ = r.Close() }()
	cmd := exec.CommandContext(ctx, self)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &out, &talk, []*os.File{into}
	// Under the race detector a process otherwise sleeps for a second before it exits: https://go.dev/doc/articles/race_detector
	cmd.Env = append(environment[:len(environment):len(environment)], envTask+"="+string(text), "GORACE=atexit_sleep_ms=0")
	err = cmd.Start()
	_ = into.Close()
	if err != nil {
		return trace{}, "", err
	}
	seen, err := io.ReadAll(r)
	if err := errors.Join(err, cmd.Wait()); err != nil {
		return trace{}, "", fmt.Errorf("%w: %s", err, talk.String())
	}
	var tr trace
	if err := json.Unmarshal(seen, &tr); err != nil {
		return tr, "", fmt.Errorf("%w: %q", err, seen)
	}
	if tr.Failed != "" {
		return tr, "", fmt.Errorf("%s: %s", tr.Failed, talk.String())
	}
	return tr, out.String(), nil
}

// attempts reads what is stored, from a copy, so that nothing is repaired by looking.
func (w *world) attempts(ctx context.Context) (list []attempt.Attempt, err error) {
	if w.server != nil {
		return w.server.attempts(ctx, w.schema)
	}
	if _, err := os.Stat(w.store()); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	dir, err := os.MkdirTemp(w.dir, "copy")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(w.store() + suffix)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "c.db"+suffix), data, 0o600)
		}
		if err != nil {
			return nil, err
		}
	}
	// A database that was being made is its draft's file under a second name.
	store, err := os.Stat(w.store())
	if err != nil {
		return nil, err
	}
	if draft, err := os.Stat(w.store() + draftSuffix); err == nil && os.SameFile(store, draft) {
		if err := os.Link(filepath.Join(dir, "c.db"), filepath.Join(dir, "c.db"+draftSuffix)); err != nil {
			return nil, err
		}
	}
	s, err := sqlite.Open(ctx, filepath.Join(dir, "c.db"), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return all(ctx, s)
}

const draftSuffix = ".chargeonce-draft"

func all(ctx context.Context, s attempt.Store) (list []attempt.Attempt, err error) {
	for a, err := range s.List(ctx, attempt.Filter{}) {
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

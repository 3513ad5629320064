package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/fakeprovider"
)

func TestMain(m *testing.M) {
	// The scripts mostly wait, for claims to end: more of them at once than there are processors.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"chargeonce": main})
}

// TestScripts plays testdata/script: each file says in its first line what it shows. Each finds short.toml, with timings of
// which a claim ends after 2 s, and hundred.csv, a hundred payments. Besides the usual commands there are
//
//	code N PROGRAM ARG...        runs a program that must end with code N
//	start NAME PROGRAM ARG...    runs a program beside the script
//	signal NAME SIGNAL           INT, TERM or KILL
//	await NAME N                 waits for the program to end with code N (-1: by a signal; any), and takes its output
//	await-stderr NAME TEXT       waits until the program has written the text to its stderr
//	fake [ARG...]                starts chargeonce fake on a free port; its address is $URL, host and port $HOST. Again: ends it first
//	endfake                      ends it, as SIGTERM does in good order
//	tls                          starts a server with a certificate that nobody trusts; its address is $URL
//	faults JSON                  tells the fake what to do wrong
//	ledger [-file F]... WHAT N   asserts a number in the fake's books: charges, refunds, declines, requests, posts, keys, doubles;
//	                             with several files the numbers are those of all books together
//	await-ledger WHAT N          waits until the number in the running fake's books is at least N
//	await-attempts DB STATUS N   waits until the database holds at least N attempts with that status
//	await-cancelled DB ORDER     waits until the database says that the order was cancelled
//	report FILE [QUERY]          writes the running fake's settlement report to a file
//	hook                         starts a server that takes events; its address is $HOOK
//	await-hook TEXT              waits until an event with the text, and with a signature, has come
//	ids NAME...                  sets each name to the "id" of the next row of the last output, which is JSON; "-" skips a row
//	sql STATEMENT...             runs statements as the server's superuser; in testdata/postgres only
//	json FILE EXPRESSION...      asserts fields of JSON: path=value, see jsonAt
func TestScripts(t *testing.T) {
	testscript.Run(t, scripts(t, "testdata/script", func(*testscript.Env) error { return nil }))
}

// scripts are the scripts of a folder; each has more set up before it begins.
func scripts(t *testing.T, dir string, more func(*testscript.Env) error) testscript.Params {
	testdata, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	return testscript.Params{
		Dir: dir,
		Setup: func(e *testscript.Env) error {
			e.Setenv("TESTDATA", testdata)
			e.Setenv("CHARGEONCE_STANDARD_TOKEN", "tok-of-the-tests")
			e.Values[worldKey{}] = &world{programs: make(map[string]*program)}
			config := "settle = \"300ms\"\n" + shortTimings
			return errors.Join(
				os.WriteFile(filepath.Join(e.WorkDir, "short.toml"), []byte(config), 0o600),
				writeRows(filepath.Join(e.WorkDir, "hundred.csv"), 100),
				more(e),
			)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": cmdCode, "start": cmdStart, "signal": cmdSignal, "await": cmdAwait, "await-stderr": cmdAwaitStderr, "fake": cmdFake, "endfake": cmdEndFake,
			"tls": cmdTLS, "faults": cmdFaults, "ledger": cmdLedger, "await-ledger": cmdAwaitLedger,
			"await-attempts": cmdAwaitAttempts, "json": cmdJSON, "ids": cmdIDs,
			"await-cancelled": cmdAwaitCancelled, "report": cmdReport, "hook": cmdHook, "await-hook": cmdAwaitHook, "sql": cmdSQL,
		},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	}
}

// shortTimings make a claim end soon: 2 s after it began.
const shortTimings = `
[timings]
send_timeout = "700ms"
call_timeout = "1500ms"
first_wait = "20ms"
max_wait = "100ms"
record_timeout = "500ms"
min_age = "2s"
abandon_after = "1h"
`

// writeRows writes a file of n payments, whose descriptions name their orders.
func writeRows(file string, n int) error {
	var b strings.Builder
	b.WriteString("order,amount,currency,source,description\n")
	for i := range n {
		fmt.Fprintf(&b, "%d,%d.00,EUR,tok_visa,order %d\n", i+1, i+1, i+1)
	}
	return os.WriteFile(file, []byte(b.String()), 0o600)
}

// patience is for how long a script waits for something that must come.
const patience = 30 * time.Second

type worldKey struct{}

// world is what one script has running.
type world struct {
	programs map[string]*program
	events   lockedBuffer // taken by hook
}

type program struct {
	cmd      *exec.Cmd
	out, err lockedBuffer
	ended    chan struct{}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

func numberOf(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}

func cmdCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N PROGRAM ARG...")
	}
	want := numberOf(ts, args[0])
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("ended with code %d, want %d", got, want)
	}
}

// until polls for a condition, with a deadline.
func until(ts *testscript.TestScript, what string, is func() bool) {
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func startProgram(ts *testscript.TestScript, name string, args []string) *program {
	path, err := exec.LookPath(args[0])
	ts.Check(err)
	p := &program{cmd: exec.Command(path, args[1:]...), ended: make(chan struct{})} //nolint:gosec,noctx // a script's own program; ends with the script
	p.cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "CHARGEONCE_STANDARD_TOKEN", "CHARGEONCE_CONFIG", "CHARGEONCE_FAKE_TOKENS", "CHARGEONCE_DB"} {
		p.cmd.Env = append(p.cmd.Env, name+"="+ts.Getenv(name))
	}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	ts.Check(p.cmd.Start())
	go func() {
		_ = p.cmd.Wait() // its state is asked for below
		close(p.ended)
	}()
	worldOf(ts).programs[name] = p
	ts.Defer(func() {
		_ = p.cmd.Process.Kill() // may have ended
		<-p.ended
	})
	return p
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start NAME PROGRAM ARG...")
	}
	startProgram(ts, args[0], args[1:])
}

func running(ts *testscript.TestScript, name string) *program {
	p := worldOf(ts).programs[name]
	if p == nil {
		ts.Fatalf("no program %q was started", name)
	}
	return p
}

func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"INT": os.Interrupt, "TERM": syscall.SIGTERM, "KILL": os.Kill}
	if neg || len(args) != 2 || signals[args[1]] == nil {
		ts.Fatalf("usage: signal NAME INT|TERM|KILL")
	}
	ts.Check(running(ts, args[0]).cmd.Process.Signal(signals[args[1]]))
}

func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await NAME N")
	}
	p := running(ts, args[0])
	select {
	case <-p.ended:
	case <-time.After(patience):
		ts.Fatalf("%s did not end within %s; stderr: %s", args[0], patience, p.err.String())
	}
	_, err := io.WriteString(ts.Stdout(), p.out.String())
	ts.Check(err)
	_, err = io.WriteString(ts.Stderr(), p.err.String())
	ts.Check(err)
	ts.Logf("[stdout]\n%s[stderr]\n%s", p.out.String(), p.err.String())
	if got := p.cmd.ProcessState.ExitCode(); args[1] != "any" && got != numberOf(ts, args[1]) {
		want := numberOf(ts, args[1])
		ts.Fatalf("%s ended with code %d, want %d", args[0], got, want)
	}
	delete(worldOf(ts).programs, args[0])
}

func cmdAwaitStderr(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await-stderr NAME TEXT")
	}
	p := running(ts, args[0])
	until(ts, args[1], func() bool { return strings.Contains(p.err.String(), args[1]) })
}

const fakeName = "the fake provider"

func cmdFake(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("unsupported: ! fake")
	}
	if worldOf(ts).programs[fakeName] != nil {
		cmdEndFake(ts, false, nil)
	}
	p := startProgram(ts, fakeName, append([]string{"chargeonce", "fake", "--listen", "127.0.0.1:0"}, args...))
	until(ts, "the fake prints its address", func() bool {
		select {
		case <-p.ended:
			ts.Fatalf("the fake ended: %s", p.err.String())
		default:
		}
		return strings.HasSuffix(p.out.String(), "\n")
	})
	ts.Setenv("URL", strings.TrimSpace(p.out.String()))
	ts.Setenv("HOST", strings.TrimPrefix(ts.Getenv("URL"), "http://"))
}

func cmdEndFake(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: endfake")
	}
	ts.Check(running(ts, fakeName).cmd.Process.Signal(syscall.SIGTERM))
	cmdAwait(ts, false, []string{fakeName, "0"})
}

func cmdTLS(ts *testscript.TestScript, _ bool, _ []string) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = nil
	server.StartTLS()
	ts.Defer(server.Close)
	ts.Setenv("URL", server.URL)
}

func call(ts *testscript.TestScript, method, path, body string) []byte {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, ts.Getenv("URL")+path, strings.NewReader(body))
	ts.Check(err)
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	ts.Check(err)
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if resp.StatusCode != http.StatusOK {
		ts.Fatalf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return answer
}

func cmdFaults(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: faults JSON")
	}
	call(ts, http.MethodPost, "/_fake/faults", args[0])
}

// books reads the ledger of the running fake, or of one that has ended.
func books(ts *testscript.TestScript, file string) fakeprovider.Ledger {
	if file != "" {
		p, err := fakeprovider.Open(ts.MkAbs(file), fakeprovider.Config{})
		ts.Check(err)
		ledger := p.Ledger()
		ts.Check(p.Close())
		return ledger
	}
	var ledger fakeprovider.Ledger
	ts.Check(json.Unmarshal(call(ts, http.MethodGet, "/_fake/ledger", ""), &ledger))
	return ledger
}

// count returns a number of the books. doubles is how many charges there are beside the first of their reference, or of
// their order where the description says "order ...".
func count(ts *testscript.TestScript, l fakeprovider.Ledger, what string) int {
	switch what {
	case "charges":
		return len(l.Charges)
	case "refunds":
		return len(l.Refunds)
	case "declines":
		return len(l.Declines)
	case "requests":
		return l.RequestCount
	case "keys":
		return l.DistinctKeys
	case "posts":
		n := 0
		for _, r := range l.Requests {
			if r.Method == http.MethodPost {
				n++
			}
		}
		return n
	case "doubles":
		doubles, seen := 0, make(map[string]bool)
		for _, c := range l.Charges {
			name := c.Reference
			if strings.HasPrefix(c.Description, "order ") {
				name = c.Description
			}
			if seen[name] {
				doubles++
			}
			seen[name] = true
		}
		return doubles
	}
	ts.Fatalf("the books have no %q", what)
	return 0
}

func cmdLedger(ts *testscript.TestScript, neg bool, args []string) {
	var files []string
	for len(args) > 2 && args[0] == "-file" {
		files, args = append(files, args[1]), args[2:]
	}
	if neg || len(args) == 0 || len(args)%2 != 0 {
		ts.Fatalf("usage: ledger [-file F]... WHAT N ...")
	}
	var l fakeprovider.Ledger
	if len(files) == 0 {
		l = books(ts, "")
	}
	for _, file := range files {
		of := books(ts, file)
		l.Charges, l.Refunds = append(l.Charges, of.Charges...), append(l.Refunds, of.Refunds...)
		l.Declines, l.Requests = append(l.Declines, of.Declines...), append(l.Requests, of.Requests...)
		l.RequestCount += of.RequestCount
		l.DistinctKeys += of.DistinctKeys
	}
	for i := 0; i < len(args); i += 2 {
		if got := count(ts, l, args[i]); got != numberOf(ts, args[i+1]) {
			ts.Fatalf("the books have %d %s, want %s", got, args[i], args[i+1])
		}
	}
}

func cmdAwaitLedger(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await-ledger WHAT N")
	}
	want := numberOf(ts, args[1])
	until(ts, fmt.Sprintf("%d %s in the books", want, args[0]), func() bool { return count(ts, books(ts, ""), args[0]) >= want })
}

func cmdAwaitAttempts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: await-attempts DB STATUS N")
	}
	status, err := attempt.ParseStatus(args[1])
	ts.Check(err)
	want, file := numberOf(ts, args[2]), ts.MkAbs(args[0])
	until(ts, "the database is there", func() bool { _, err := os.Stat(file); return err == nil })
	ctx := context.Background()
	var store *sqlite.Store
	until(ts, "the database can be opened", func() bool { // it may just be made
		store, err = sqlite.Open(ctx, file, sqlite.Options{})
		return !errors.Is(err, attempt.ErrUnavailable)
	})
	ts.Check(err)
	defer func() { ts.Check(store.Close()) }()
	until(ts, fmt.Sprintf("%d attempts are %s", want, status), func() bool {
		n := 0
		for _, err := range store.List(ctx, attempt.Filter{Statuses: []attempt.Status{status}}) {
			ts.Check(err)
			n++
		}
		return n >= want
	})
}

func cmdAwaitCancelled(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await-cancelled DB ORDER")
	}
	ctx := context.Background()
	store, err := sqlite.Open(ctx, ts.MkAbs(args[0]), sqlite.Options{})
	ts.Check(err)
	defer func() { ts.Check(store.Close()) }()
	until(ts, "order "+args[1]+" is cancelled", func() bool {
		view, err := store.Slot(ctx, attempt.Slot{Order: args[1]}.WithDefaults())
		ts.Check(err)
		return !view.ClosedAt.IsZero()
	})
}

func cmdReport(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: report FILE [QUERY]")
	}
	query := ""
	if len(args) == 2 {
		query = "?" + args[1]
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), call(ts, http.MethodGet, "/_fake/report"+query, ""), 0o600))
}

func cmdHook(ts *testscript.TestScript, _ bool, _ []string) {
	w := worldOf(ts)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("webhook-signature"), "v1,") {
			_, _ = io.Copy(&w.events, r.Body) // what is missing is waited for
		}
	}))
	ts.Defer(server.Close)
	ts.Setenv("HOOK", server.URL)
}

func cmdAwaitHook(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await-hook TEXT")
	}
	until(ts, "an event with "+args[0], func() bool { return strings.Contains(worldOf(ts).events.String(), args[0]) })
}

// cmdJSON asserts fields of a file of JSON, an array or one object per line ("stdout" is the last output): row.field=value,
// rows from 0, fields joined by dots, the value as JSON or as a plain text.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: json FILE ROW.FIELD=VALUE...")
	}
	rows := jsonRows(ts, args[0])
	for _, expression := range args[1:] {
		path, want, ok := strings.Cut(expression, "=")
		if !ok {
			ts.Fatalf("%q: want ROW.FIELD=VALUE", expression)
		}
		if got := jsonAt(rows, path); got != want {
			ts.Fatalf("%s is %s, want %s", path, got, want)
		}
	}
}

func cmdIDs(ts *testscript.TestScript, neg bool, args []string) {
	rows := jsonRows(ts, "stdout")
	if neg || len(args) == 0 || len(args) > len(rows) {
		ts.Fatalf("usage: ids NAME..., at most one for each of the %d rows", len(rows))
	}
	for i, name := range args {
		if name != "-" {
			ts.Setenv(name, jsonAt(rows, strconv.Itoa(i)+".id"))
		}
	}
}

// jsonRows reads a file of JSON, an array or one object per line; "stdout" is the last output.
func jsonRows(ts *testscript.TestScript, file string) (rows []any) {
	text := strings.TrimSpace(ts.ReadFile(file))
	if strings.HasPrefix(text, "[") {
		ts.Check(json.Unmarshal([]byte(text), &rows))
	} else {
		lines := bufio.NewScanner(strings.NewReader(text))
		for lines.Scan() {
			var row any
			ts.Check(json.Unmarshal(lines.Bytes(), &row))
			rows = append(rows, row)
		}
	}
	return rows
}

// jsonAt returns the text of what is at the path, a text without its quotes; "len" is an array's length.
func jsonAt(at any, path string) string {
	for part := range strings.SplitSeq(path, ".") {
		switch v := at.(type) {
		case []any:
			i, err := strconv.Atoi(part)
			switch {
			case part == "len":
				at = float64(len(v))
			case err != nil || i < 0 || i >= len(v):
				return "(none)"
			default:
				at = v[i]
			}
		case map[string]any:
			var ok bool
			if at, ok = v[part]; !ok {
				return "(none)"
			}
		default:
			return "(none)"
		}
	}
	if text, ok := at.(string); ok {
		return text
	}
	encoded, err := json.Marshal(at)
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}

package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

func testFile(t testing.TB) string { return filepath.Join(t.TempDir(), "attempts.db") }

func testStore(t testing.TB, path string, opts Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// starting is a step that starts a claimed attempt in a slot without a live one, and where to find what it came to.
type starting struct {
	attempt.Step
	got   attempt.Attempt
	began bool
}

func starts(order string) *starting {
	s := &starting{Step: attempt.Step{Slot: attempt.Slot{Order: order}.WithDefaults(), Fresh: true}}
	s.Do = func(v attempt.View) ([]attempt.Write, error) {
		s.began = false
		if live, ok := v.Live(); ok {
			s.got = live
			return nil, nil
		}
		id, err := attempt.NewIdentity("t-")
		if err != nil {
			return nil, err
		}
		s.began = true
		s.got = attempt.Attempt{
			ID: id.ID, Key: id.Key, Reference: id.Reference, Slot: s.Slot, Ordinal: len(v.Attempts) + 1,
			Amount: money.MustParse("12.50", "EUR"), Source: attempt.Digest{Sum: "source"}, Provider: "test",
			Status: attempt.StatusPrepared, Version: 1, CreatedAt: v.Now, UpdatedAt: v.Now,
		}.Grant(v.Now, 15*time.Second, 2*time.Minute)
		return []attempt.Write{{Attempt: &s.got, Event: attempt.Event{
			AttemptID: s.got.ID, Version: 1, What: attempt.WhatStartedClaimed, From: attempt.StatusPrepared, To: s.got.Status, At: v.Now,
		}}}, nil
	}
	return s
}

// start stores a claimed attempt.
func start(t testing.TB, s *Store, order string) attempt.Attempt {
	t.Helper()
	step := starts(order)
	if err := s.Apply(t.Context(), &step.Step); err != nil || !step.began {
		t.Fatalf("start %s: began %v, %v", order, step.began, err)
	}
	return step.got
}

// approves is the outcome of a claim.
func approves(a attempt.Attempt) *attempt.Record {
	return &attempt.Record{ID: a.ID, Evidence: attempt.Evidence{
		Kind: attempt.EvidenceSends, Fence: a.Fence, Sends: []attempt.Send{{
			Charge: &attempt.Charge{ID: "ch_" + a.ID, Status: attempt.ChargeSucceeded, Amount: a.Amount},
			Answer: attempt.Answer{Verdict: attempt.Charged, StatusCode: 201},
		}},
	}}
}

func wantStatus(t testing.TB, s *Store, id string, status attempt.Status, version int) {
	t.Helper()
	a, err := s.Attempt(context.Background(), id)
	if err != nil || a.Status != status || a.Version != version {
		t.Errorf("attempt %s is %s at version %d, want %s at %d: %v", id, a.Status, a.Version, status, version, err)
	}
}

// hold lets a step hold the writer until it is released, and returns when it does.
func hold(t testing.TB, s *Store) (release func()) {
	t.Helper()
	held, let, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	once := sync.OnceFunc(func() { close(held) })
	go func() {
		done <- s.Apply(context.Background(), &attempt.Step{Slot: attempt.Slot{Order: "held"}.WithDefaults(),
			Do: func(attempt.View) ([]attempt.Write, error) {
				once() // Do may run again
				<-let
				return nil, nil
			}})
	}()
	<-held
	return func() {
		close(let)
		if err := <-done; err != nil {
			t.Errorf("the step that held the writer: %v", err)
		}
	}
}

// queued waits until so many items are waiting.
func queued(s *Store, n int) {
	for {
		s.queue.mu.Lock()
		waiting := len(s.queue.outcomes) + len(s.queue.others)
		s.queue.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

// TestMain also is the other process of the tests that need one.
func TestMain(m *testing.M) {
	if role := os.Getenv("CHARGEONCE_TEST_ROLE"); role != "" {
		if err := roles[role](os.Getenv("CHARGEONCE_TEST_FILE"), bufio.NewScanner(os.Stdin)); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// roles are what another process does with a file; it is told to go on by lines, and tells by lines how far it is.
var roles = map[string]func(path string, in *bufio.Scanner) error{}

// process is another process.
type process struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func run(t testing.TB, role, path string) *process {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.CommandContext(t.Context(), exe)}
	p.cmd.Env = append(os.Environ(), "CHARGEONCE_TEST_ROLE="+role, "CHARGEONCE_TEST_FILE="+path)
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) tell(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatalf("tell the other process: %v", err)
	}
}

// hear returns the next line of the other process.
func (p *process) hear() string {
	p.t.Helper()
	if !p.out.Scan() {
		p.t.Fatalf("the other process said nothing more: %v", p.out.Err())
	}
	return p.out.Text()
}

func (p *process) end() {
	p.t.Helper()
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the other process: %v", err)
	}
}

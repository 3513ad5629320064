//go:build unix

package postgres

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

// TestMain also is the other process of the tests that need one.
func TestMain(m *testing.M) {
	if schema := os.Getenv("CHARGEONCE_TEST_CHILD"); schema != "" {
		if err := child(schema); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const childOrders = 60

// child pays the orders that all processes pay, from several callers, and writes a line for each that it has the claim of, before it
// records the outcome: what it would have sent.
func child(schema string) error {
	ctx := context.Background()
	s, err := Open(ctx, os.Getenv("CHARGEONCE_TEST_POSTGRES"), Options{Schema: schema, MaxConns: 5})
	if err != nil {
		return err
	}
	defer s.Close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	for c := range 4 {
		wg.Go(func() {
			for i := range childOrders {
				step := starts(fmt.Sprint((i*7 + c*13) % childOrders))
				for s.Apply(ctx, &step.Step) != nil { // the stopped process holds the slot, or the machine is slow
					step = starts(step.Slot.Order)
				}
				if !step.began {
					continue
				}
				mu.Lock()
				fmt.Println("sent", step.got.Slot.Order, step.got.ID)
				mu.Unlock()
				if err := s.Apply(ctx, approves(step.got).Step(&step.got)); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
			}
		})
	}
	wg.Wait()
	return nil
}

// Processes fight for the same orders; one is stopped for a while, one is killed. Each order is sent once.
func TestProcesses(t *testing.T) {
	schema := testSchema(t)
	s := openTest(t, schema, Options{})
	defer s.Close()
	const processes = 4
	var mu sync.Mutex
	sent := make(map[string][]string)
	var readers sync.WaitGroup
	children := make([]*exec.Cmd, processes)
	first := make([]chan struct{}, processes)
	for i := range children {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "CHARGEONCE_TEST_CHILD="+schema)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children[i], first[i] = cmd, make(chan struct{})
		once := sync.OnceFunc(func() { close(first[i]) })
		readers.Go(func() {
			defer once()
			for lines := bufio.NewScanner(out); lines.Scan(); once() {
				f := strings.Fields(lines.Text())
				if len(f) == 3 && f[0] == "sent" {
					mu.Lock()
					sent[f[1]] = append(sent[f[1]], f[2])
					mu.Unlock()
				}
			}
		})
	}
	stopped, killed := children[0], children[1]
	<-first[0]
	_ = stopped.Process.Signal(syscall.SIGSTOP) // perhaps with a transaction open: nobody waits for it on the server
	<-first[1]
	_ = killed.Process.Kill()
	for _, c := range children[2:] {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	_ = stopped.Process.Signal(syscall.SIGCONT)
	if err := stopped.Wait(); err != nil {
		t.Error(err)
	}
	_ = killed.Wait()
	readers.Wait()

	for i := range childOrders {
		order := fmt.Sprint(i)
		v, err := s.Slot(t.Context(), slotOf(order))
		if err != nil || len(v.Attempts) != 1 {
			t.Errorf("order %s has %d attempts: %v", order, len(v.Attempts), err)
			continue
		}
		// What the killed one had begun may be without an end; the reconciler's turn comes.
		a := v.Attempts[0]
		if ids := sent[order]; len(ids) > 1 || len(ids) == 1 && ids[0] != a.ID {
			t.Errorf("order %s was sent as %v, stored is %s", order, ids, a.ID)
		}
		if a.Status != attempt.StatusApproved && (a.Status != attempt.StatusSending || a.NextCheckAt.IsZero()) {
			t.Errorf("order %s is %s, to be looked at %s", order, a.Status, a.NextCheckAt)
		}
	}
	if len(sent) < childOrders-4 {
		t.Errorf("%d of %d orders were sent: the killed process can have held 4", len(sent), childOrders)
	}
}

package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

func init() {
	// crash stores one attempt after another and tells of each; then it is in the middle of a transaction.
	roles["crash"] = func(path string, in *bufio.Scanner) error {
		s, err := Open(context.Background(), path, Options{})
		if err != nil {
			return err
		}
		for n := range 50 {
			step := starts(fmt.Sprint(n))
			if err := s.Apply(context.Background(), &step.Step); err != nil {
				return err
			}
			fmt.Println(step.got.ID)
			if n%2 == 0 {
				outcome := approves(step.got)
				if err := s.Apply(context.Background(), outcome.Step(&step.got)); err != nil {
					return err
				}
				fmt.Println(step.got.ID, "approved")
			}
		}
		return s.InTx(context.Background(), func(ctx context.Context, tx *sql.Tx) error {
			step := starts("not committed")
			if err := s.Tx(tx).ApplyTx(ctx, &step.Step); err != nil {
				return err
			}
			fmt.Println("in a transaction")
			in.Scan() // for ever
			return nil
		})
	}
}

// A process that is killed leaves what it has reported as stored, and nothing of what it was at.
func TestKilledProcess(t *testing.T) {
	path := testFile(t)
	p := run(t, "crash", path)
	want := make(map[string]attempt.Status)
	for line := p.hear(); line != "in a transaction"; line = p.hear() {
		id, approved, _ := strings.Cut(line, " ")
		want[id] = attempt.StatusSending
		if approved != "" {
			want[id] = attempt.StatusApproved
		}
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Wait() // it was killed
	s := testStore(t, path, Options{})
	n := 0
	for a, err := range s.List(t.Context(), attempt.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; a.Status != want[a.ID] {
			t.Errorf("attempt %s is %s, want %s", a.ID, a.Status, want[a.ID])
		}
	}
	if n != len(want) || n != 50 {
		t.Errorf("%d attempts are there, %d were reported, want 50", n, len(want))
	}
	if v, err := s.Slot(t.Context(), starts("not committed").Slot); err != nil || len(v.Attempts) != 0 {
		t.Errorf("what was not committed is there: %v", err)
	}
	start(t, s, "next")
}

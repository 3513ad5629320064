package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the first command of the README leaves in a clone holds payments: git must not take it up.
func TestGitIgnoresWhatAFirstRunLeaves(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "git", "-C", root, "rev-parse", "--git-dir").CombinedOutput(); err != nil {
		t.Skipf("no git, or no clone: %v: %s", err, out) // an unpacked archive has no files that git could take up
	}
	dir := t.TempDir()
	db := filepath.Join(dir, "chargeonce.db")
	rows := "order,amount,currency,source\n1,1.00,EUR,tok_visa\n"
	var talk bytes.Buffer
	args := []string{"pay", "-", "--format", "csv", "--provider", "fake", "--db", "sqlite:" + db}
	if code := run(t.Context(), args, streams{in: strings.NewReader(rows), out: io.Discard, err: &talk}, nil); code != exitOK {
		t.Fatalf("code %d: %s", code, talk.String())
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) < 2 {
		t.Fatalf("%v, %v; want a database and the fake provider's ledger", left, err)
	}
	names := []string{"chargeonce.db-wal", "chargeonce.db-shm"} // while it runs, and after a kill
	for _, file := range left {
		names = append(names, file.Name())
	}
	for _, name := range names {
		if out, err := exec.CommandContext(t.Context(), "git", "-C", root, "check-ignore", "--no-index", name).CombinedOutput(); err != nil {
			t.Errorf("git does not ignore %s: %v %s", name, err, out)
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// What was found once is looked for first, ever after.
func TestKeptSeeds(t *testing.T) {
	seeds, err := readKept(keptSeeds)
	if err != nil {
		t.Fatal(err)
	}
	if len(seeds) == 0 {
		t.Fatal("no seeds are kept in testdata/seeds")
	}
	for _, k := range seeds {
		report(t, run(t, k.seed, nil), " ("+k.what+")")
	}
}

func TestFailingSeedIsKept(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "testdata", "seeds")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "a.txt"), []byte("# told apart\n7 seven\n\n8 eight\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := &outcome{Seed: 4711, Violations: []violation{{Rule: "one-charge", Text: "order-1 was charged\n2 times"}, {Rule: "final"}}}
	for range 2 {
		if _, err := keep(folder, broken); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readKept(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	want := []kept{{7, "seven"}, {8, "eight"}, {4711, "broke one-charge: order-1 was charged 2 times"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("kept seeds: %v, want %v", got, want)
	}
}

func TestKeptSeedsUnreadable(t *testing.T) {
	root := t.TempDir()
	folder := filepath.Join(root, "testdata", "seeds")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "a.txt"), []byte("seven 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readKept(os.DirFS(root)); err == nil {
		t.Errorf("a line that begins with no number is read as %v", got)
	}
}

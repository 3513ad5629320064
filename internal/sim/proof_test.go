package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The page that tells what is proven names every rule with what it says, every mistake that is built in, and no timeline that is
// not counted.
func TestProofPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/proof.md")
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(string(text), "\r\n", "\n")
	for _, rule := range rules {
		if line := fmt.Sprintf("| `%s` | %s |", rule.name, rule.because); !strings.Contains(page, line) {
			t.Errorf("docs/proof.md lacks the line %s", line)
		}
	}
	for i := range mutants {
		m := &mutants[i]
		if line := fmt.Sprintf("| `%s` | %s |", m.name, m.what); !strings.Contains(page, line) {
			t.Errorf("docs/proof.md lacks the line %s", line)
		}
	}
	counted := make(map[string]bool)
	for _, name := range sometimes {
		counted[name] = true
	}
	_, part, _ := strings.Cut(page, "| timeline | counted as |\n|---|---|\n")
	part, _, _ = strings.Cut(part, "\n\n")
	lines := strings.Split(part, "\n")
	if len(lines) < 15 {
		t.Errorf("docs/proof.md has %d timelines, want 15 at least", len(lines))
	}
	for _, line := range lines {
		kind := ""
		for i, name := range strings.Split(line, "`") {
			if i%2 == 0 {
				continue
			}
			if short, also := strings.CutPrefix(name, "...: "); also {
				name = kind + ": " + short
			}
			kind, _, _ = strings.Cut(name, ": ")
			if !counted[name] {
				t.Errorf("docs/proof.md counts %q, and nothing here does", name)
			}
		}
	}
}

package main

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

var (
	seedCount = flag.Int("sim.seeds", 240, "how many seeds TestSeeds runs")
	firstSeed = flag.Uint64("sim.from", 1, "the first of them")
	digests   = flag.String("sim.digests", "", "the file in which TestDigests writes what -sim.seeds seeds have decided, a line each")
)

func report(t *testing.T, o *outcome, why string) {
	for i, v := range o.Violations {
		if i == 5 {
			t.Errorf("and %d more", len(o.Violations)-i)
			break
		}
		t.Errorf("seed %d%s broke %s: %s\nits world: %s\nsee it: go run ./internal/sim -seed %d -v", o.Seed, why, v.Rule, v.Text, o.Profile, o.Seed)
	}
}

func TestSeeds(t *testing.T) {
	sum := newTotal()
	var mu sync.Mutex // guards sum
	t.Run("each", func(t *testing.T) {
		const workers = 4
		for worker := range workers {
			t.Run(fmt.Sprint(worker), func(t *testing.T) {
				t.Parallel()
				for n := worker; n < *seedCount; n += workers {
					o := run(t, *firstSeed+uint64(n), nil) //nolint:gosec // not negative
					report(t, o, "")
					mu.Lock()
					sum.add(o)
					mu.Unlock()
				}
			})
		}
	})
	if *seedCount >= enoughSeeds {
		for _, name := range sum.never() {
			t.Errorf("never happened in %d seeds: %s", *seedCount, name)
		}
	}
	if p := sum.precision; p.Unknown > 0 || p.FalseEnds > 0 {
		t.Errorf("%d of %d definite non-sends were told as unknown, %d ends were false", p.Unknown, p.NotSent, p.FalseEnds)
	}
}

func TestThereIsEnoughThatHappensSometimes(t *testing.T) {
	if len(sometimes) < 30 {
		t.Errorf("%d counters, want 30 at least", len(sometimes))
	}
	seen := make(map[string]bool)
	for _, name := range sometimes {
		if seen[name] {
			t.Errorf("%q is listed twice", name)
		}
		seen[name] = true
	}
	if never := newTotal().never(); !reflect.DeepEqual(never, sometimes) {
		t.Errorf("of no seeds at all %d counters are missing, want all %d", len(never), len(sometimes))
	}
}

// The same seed decides the same: the provider's books, what became of each attempt and what callers are told. Moments are left
// out, and the timeline is only counted: a processor that has others to serve may change in the middle of a moment.
func TestSameSeedTwice(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as a campaign has it
	different := 0
	const seeds = 20
	for seed := uint64(1); seed <= seeds; seed++ {
		inOrder := &mutant{name: "none", world: func(p *profile) { p.concurrency = 1 }}
		first, second := run(t, seed, inOrder), run(t, seed, inOrder)
		if first.Profile != second.Profile {
			t.Fatalf("seed %d made two worlds", seed)
		}
		if a, b := timeless(books(t, first)), timeless(books(t, second)); a != b {
			t.Errorf("seed %d: the books differ:\n%s", seed, firstDifference(a, b))
		}
		if a, b := timeless(verdicts(first)), timeless(verdicts(second)); a != b {
			t.Errorf("seed %d: the verdicts differ:\n%s", seed, firstDifference(a, b))
		}
		if a, b := timeless(tellings(first)), timeless(tellings(second)); a != b {
			t.Errorf("seed %d: what callers were told differs:\n%s", seed, firstDifference(a, b))
		}
		if a, b := first.timeline(), second.timeline(); !slices.Equal(a, b) {
			different++
			t.Logf("seed %d: the timelines differ:\n%s", seed, firstDifference(strings.Join(a, "\n"), strings.Join(b, "\n")))
		}
	}
	t.Logf("%d of %d timelines were not the same in every line", different, seeds)
}

// A change of the simulator that is only to make it faster leaves each seed's digest as it was: they are written before and after,
// and compared.
func TestDigests(t *testing.T) {
	if *digests == "" {
		return // asked for by -sim.digests
	}
	var b strings.Builder
	for n := range *seedCount {
		seed := *firstSeed + uint64(n) //nolint:gosec // not negative
		o := run(t, seed, &mutant{name: "none", world: func(p *profile) { p.concurrency = 1 }})
		decided := timeless(books(t, o) + verdicts(o) + tellings(o))
		fmt.Fprintf(&b, "%d %x %d attempts, %d requests, violations %v\n", seed, sha256.Sum256([]byte(decided)), o.Payments, o.Requests, o.Violations)
	}
	if err := os.WriteFile(*digests, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// moment is a time, or a time since the beginning.
var moment = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T[0-9:.]+Z|\b(\d+h)?(\d+m)?[0-9.]+(s|ms|µs)\b`)

func timeless(text string) string { return moment.ReplaceAllString(text, "(when)") }

func books(t *testing.T, o *outcome) string {
	b, err := json.MarshalIndent(map[string]any{"charges": o.records.charges, "refunds": o.records.refunds}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func verdicts(o *outcome) string {
	lines := make([]string, len(o.records.final))
	for i := range o.records.final {
		a := &o.records.final[i]
		lines[i] = fmt.Sprintf("%s of %s: %s, %s, %d sends, charge %s, %d duties, version %d", a.Reference, a.Slot, a.Status, a.Reason, a.Sends, a.ChargeID, len(a.Duties), a.Version)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + fmt.Sprintf("\nviolations %v\n", o.Violations)
}

func tellings(o *outcome) string {
	var b strings.Builder
	for _, c := range o.records.calls {
		fmt.Fprintf(&b, "%s %s at %s, %s: %s\n", c.op, c.order, c.instance, c.began.Sub(o.records.began), told(c))
	}
	return b.String()
}

func firstDifference(a, b string) string {
	one, two := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(one), len(two)) {
		if one[i] != two[i] {
			return fmt.Sprintf("line %d\n- %s\n+ %s", i+1, one[i], two[i])
		}
	}
	return fmt.Sprintf("%d lines and %d", len(one), len(two))
}

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// total is what many seeds have shown.
type total struct {
	seeds, kept, payments, requests, violations int
	counters, faults, kills, rules              map[string]int
	precision                                   precision
	canary                                      int     // violations of the world that must fail
	simulated                                   float64 // hours: of many seeds they are more than a time.Duration holds
	took                                        time.Duration
}

func newTotal() *total {
	return &total{counters: make(map[string]int), faults: make(map[string]int), kills: make(map[string]int), rules: make(map[string]int)}
}

func (t *total) add(o *outcome) {
	t.seeds++
	t.payments += o.Payments
	t.requests += o.Requests
	t.simulated += o.Simulated.Hours()
	t.violations += len(o.Violations)
	for _, v := range o.Violations {
		t.rules[v.Rule]++
	}
	for from, to := range map[*map[string]int]*map[string]int{&o.Counters: &t.counters, &o.Faults: &t.faults, &o.Kills: &t.kills} {
		for name, n := range *from {
			(*to)[name] += n
		}
	}
	t.precision.add(o.Precision)
}

// never are the counters that stand at zero.
func (t *total) never() (names []string) {
	for _, name := range sometimes {
		if t.counters[name] == 0 {
			names = append(names, name)
		}
	}
	return names
}

// write prints the table.
func (t *total) write(w io.Writer) {
	all := func(m map[string]int) (n int) {
		for _, k := range m {
			n += k
		}
		return n
	}
	fmt.Fprintf(w, "\n| what | how often |\n|---|---|\n")
	row := func(what string, n any) { fmt.Fprintf(w, "| %s | %v |\n", what, n) }
	row("seeds", t.seeds)
	row("of these kept from before, and run first", t.kept)
	row("attempts (payments and refunds)", t.payments)
	row("requests at the provider", t.requests)
	row("simulated time", fmt.Sprintf("%.0f years", t.simulated/24/365))
	row("wall time", t.took.Round(time.Second))
	row("seeds a second", fmt.Sprintf("%.1f", float64(t.seeds)/t.took.Seconds()))
	row("faults", all(t.faults))
	row("processes killed", all(t.kills))
	row("violations", t.violations)
	row("violations in the world that must fail", t.canary)
	share := func(n, of int) string {
		if of == 0 {
			return "none counted"
		}
		return fmt.Sprintf("%.2f %% (%d of %d)", 100*float64(n)/float64(of), n, of)
	}
	p := t.precision
	row("mixed 20 % faults: known when the call returns", share(p.Known, p.Calls))
	row("mixed 20 % faults: known 5 simulated minutes after the first request", share(p.Soon, p.Attempts))
	row("mixed 20 % faults: definite non-sends told as unknown", fmt.Sprintf("%d of %d", p.Unknown, p.NotSent))
	row("false ends, all worlds", p.FalseEnds)
	for _, part := range []struct {
		title string
		of    map[string]int
	}{{"rule broken", t.rules}, {"fault", t.faults}, {"killed at", t.kills}, {"sometimes", t.counters}} {
		if len(part.of) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n| %s | how often |\n|---|---|\n", part.title)
		for _, name := range slices.Sorted(maps.Keys(part.of)) {
			row(name, part.of[name])
		}
	}
	for _, name := range t.never() {
		fmt.Fprintf(w, "\nNEVER HAPPENED: %s\n", name)
	}
}

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// report writes the table, and tells whether all is well.
func (s *soaking) report(out io.Writer, open, twice, charged int) bool {
	var b strings.Builder
	ok := true
	verdict := func(good bool) string {
		if good {
			return "ok"
		}
		ok = false
		return "TOO MUCH"
	}
	fmt.Fprintf(&b, "store %s, %s, %d payments, %.0f %% faults, %d samples\n", s.config.store, time.Since(s.began).Round(time.Second), s.payments.Load(), 100*s.faults, len(s.samples))
	fmt.Fprintf(&b, "told:")
	for _, told := range slices.Sorted(maps.Keys(s.outcomes)) {
		fmt.Fprintf(&b, " %s %d", told, s.outcomes[told])
	}
	fmt.Fprintf(&b, "; %d charges, %d refunds asked for\n", charged, s.refunds)
	if len(s.samples) >= 10 {
		fmt.Fprintf(&b, "%-36s %14s %14s %14s %14s\n", "slope", "measured", "bound", "first", "last")
		for _, q := range quantities(s.config.store) {
			got, bound := q.grows(s.samples)
			fmt.Fprintf(&b, "%-36s %14.5f %14.5f %14.1f %14.1f %s\n", q.name, got, bound, q.of(s.samples[0]), q.of(s.samples[len(s.samples)-1]), verdict(got <= bound))
		}
	} else {
		fmt.Fprintf(&b, "too few samples for slopes: %s\n", verdict(false))
	}
	fmt.Fprintf(&b, "%-36s %14d %s\n", "charged or given back twice", twice, verdict(twice == 0))
	fmt.Fprintf(&b, "%-36s %14d %s\n", "unknown after the faults have stopped", open, verdict(open == 0))
	if _, err := io.WriteString(out, b.String()); err != nil {
		return false
	}
	return ok
}

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// noisy is a run in which nothing leaks, sampled as a real one is: what is under way comes and goes, and the heap with it. Its
// noise is at least that of runs at 200 payments per second with a fault in five.
func noisy(length time.Duration, dice *rand.Rand) *soaking {
	const samples, rate = 120, 200.0
	s := &soaking{config: config{store: "sqlite", faults: 0.2}, began: time.Now(), outcomes: map[string]int{"approved": 1}}
	between := func(low, high float64) float64 { return low + (high-low)*dice.Float64() }
	for n := range samples {
		at := length.Seconds() * float64(n+1) / samples
		s.samples = append(s.samples, sample{
			at: at, payments: rate * at,
			heap: between(0.6e6, 2.4e6), goroutines: between(35, 95), descriptors: between(14, 45), oldest: between(0, 12),
			stored: 1600*rate*at + between(0, 4e6), // the log comes and goes
		})
	}
	return s
}

// A verdict is the same every time: what is sound is never blamed, and what leaks always, in a run of a minute, of ten and of a
// night. What a minute cannot show, the bound says: see quantity.noise.
func TestVerdictsAreRobust(t *testing.T) {
	for _, length := range []time.Duration{time.Minute, 10 * time.Minute, 8 * time.Hour} {
		for name, c := range map[string]struct {
			leak func(*sample)
			says string
		}{
			"nothing": {func(*sample) {}, ""},
			"a machine that becomes slow": {func(s *sample) {
				if s.at > length.Seconds()/2 { // all callers wait, and each has a connection
					s.goroutines += 60
					s.descriptors += 30
				}
			}, ""},
			"a kilobyte a payment":          {func(s *sample) { s.heap += 1024 * s.payments }, "heap"},
			"a goroutine in 25 payments":    {func(s *sample) { s.goroutines += s.payments / 25 }, "goroutines"},
			"a descriptor in 50 payments":   {func(s *sample) { s.descriptors += s.payments / 50 }, "descriptors"},
			"16 kilobytes stored a payment": {func(s *sample) { s.stored += 16 << 10 * s.payments }, "store, bytes"},
			"a payment that nobody settles": {func(s *sample) { s.oldest = s.at }, "oldest"},
		} {
			t.Run(fmt.Sprintf("%s/%s", length, name), func(t *testing.T) {
				for seed := range uint64(300) {
					s := noisy(length, rand.New(rand.NewPCG(seed, 1))) //nolint:gosec // the same ones in every run
					for i := range s.samples {
						c.leak(&s.samples[i])
					}
					var out bytes.Buffer
					ok := s.report(&out, 0, 0, 1)
					blamed := ""
					for line := range strings.Lines(out.String()) {
						if strings.Contains(line, "TOO MUCH") {
							blamed += line
						}
					}
					if ok != (c.says == "") || !strings.HasPrefix(blamed, c.says) || strings.Count(blamed, "\n") > 1 {
						t.Fatalf("seed %d: %v, %q", seed, ok, blamed)
					}
				}
			})
		}
	}
}

package main

import "testing"

// mutantSeeds is within how many seeds a mutant has to be found.
const mutantSeeds = 12

// The test of the test: each mistake is found.
func TestMutants(t *testing.T) {
	if len(mutants) < 15 {
		t.Fatalf("%d mutants, want 15 at least", len(mutants))
	}
	for i := range mutants {
		m := &mutants[i]
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			by, after, err := caught(m, mutantSeeds, func(seed uint64) *outcome { return run(t, seed, m) })
			if err != nil {
				t.Error(err)
				return
			}
			t.Logf("%s: found by rule %s in seed %d", m.what, by, after)
		})
	}
}

// The worlds of the mutants are not what is found: without the mistake nothing is broken in them.
func TestMutantsWorldsAreSound(t *testing.T) {
	for i := range mutants {
		m := &mutants[i]
		if m.name == "canary" {
			continue // its mistake is the provider's
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 3; seed++ {
				report(t, run(t, seed, &mutant{name: m.name, world: m.world}), " in the world of "+m.name)
			}
		})
	}
}

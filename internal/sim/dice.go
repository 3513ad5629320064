package main

import (
	"strconv"
	"sync"
	"time"
)

// dice draw every decision of a run. What is drawn depends on the seed, the kind of the decision, the name of what it is about
// and a number: how often it was drawn before. So a decision more or less changes none of the others.
type dice struct {
	seed uint64

	mu  sync.Mutex
	nth map[decision]int // guarded by mu
}

// decision is one that is drawn again and again.
type decision struct{ kind, name string }

func newDice(seed uint64) *dice { return &dice{seed: seed, nth: make(map[decision]int)} }

// draw returns 64 bits for a decision.
func (d *dice) draw(kind, name string, n int) uint64 {
	h := d.seed ^ 0xcbf29ce484222325
	for _, text := range [...]string{kind, "\x00", name, "\x00", strconv.Itoa(n)} {
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * 0x100000001b3 // FNV-1a
		}
	}
	// The finalizer of SplitMix64, because FNV leaves its high bits nearly alone where texts are short.
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// next counts how often something was drawn for a name.
func (d *dice) next(kind, name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.nth[decision{kind, name}] + 1
	d.nth[decision{kind, name}] = n
	return n
}

// chance draws yes or no.
func (d *dice) chance(p float64, kind, name string, n int) bool {
	return float64(d.draw(kind, name, n)>>11)/(1<<53) < p
}

// between draws a time from lo on and below hi, with nanoseconds: so hardly two things happen in the same moment, and their
// order is the seed's and not the scheduler's.
func (d *dice) between(lo, hi time.Duration, kind, name string, n int) time.Duration {
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(d.draw(kind, name, n)%uint64(hi-lo)) //nolint:gosec // below hi-lo
}

// pick draws one of several.
func pick[T any](d *dice, from []T, kind, name string, n int) T {
	return from[d.draw(kind, name, n)%uint64(len(from))]
}

// Package chance spreads waits, so that what failed together does not come back together. It is no source of secrets.
//
// It promises that a simulation can take chance away: with [Replace] a run can be repeated with the same waits.
package chance

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

var replaced atomic.Pointer[func(n int64) int64]

// Below returns a time from zero on and below n, by chance; zero if n is not positive.
func Below(n time.Duration) time.Duration {
	if n <= 0 {
		return 0
	}
	if f := replaced.Load(); f != nil {
		return time.Duration((*f)(int64(n)))
	}
	return time.Duration(rand.Int64N(int64(n))) //nolint:gosec // chance, not secrecy
}

// Replace has f draw instead, in the whole process, until restore is called. f gets a positive n and returns a number from zero
// on and below n; it is called by several goroutines at a time.
func Replace(f func(n int64) int64) (restore func()) {
	before := replaced.Swap(&f)
	return func() { replaced.Store(before) }
}

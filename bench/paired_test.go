package bench

import (
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

// contender is one of the things compared: op does one unit of work.
type contender struct {
	name string
	op   func() error
}

// pair runs the contenders in turns, in blocks of ops operations by as many callers, and reports for each of the others
// its throughput as a share of the first one's, by the clock and by processor time: the medians over the rounds, each of
// which ran side by side.
func pair(b *testing.B, callers, ops, rounds int, contenders ...contender) map[string]float64 {
	b.Helper()
	took := make([][]time.Duration, len(contenders))
	burnt := make([][]time.Duration, len(contenders))
	for i, c := range contenders { // warm up
		block(b, c, callers, ops/4+1)
		took[i], burnt[i] = make([]time.Duration, rounds), make([]time.Duration, rounds)
	}
	b.ResetTimer()
	for round := range rounds {
		for i := range contenders {
			// Each round starts with another one, so that none always runs in another's wake.
			i = (i + round) % len(contenders)
			before := cpuTime(b)
			took[i][round] = block(b, contenders[i], callers, ops)
			burnt[i][round] = cpuTime(b) - before
		}
	}
	b.StopTimer()
	ratios := make(map[string]float64)
	for i := 1; i < len(contenders); i++ {
		median := medianShare(took[0], took[i])
		ratios[contenders[i].name] = median
		b.ReportMetric(median, contenders[i].name+"/"+contenders[0].name)
		b.ReportMetric(medianShare(burnt[0], burnt[i]), contenders[i].name+"/"+contenders[0].name+"-by-cpu")
	}
	for i, c := range contenders {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][rounds/2].Nanoseconds())/float64(ops), c.name+"-ns")
	}
	b.ReportMetric(0, "ns/op") // the blocks' sum says nothing
	return ratios
}

func medianShare(first, other []time.Duration) float64 {
	shares := make([]float64, len(first))
	for i := range first {
		shares[i] = float64(first[i]) / float64(other[i])
	}
	slices.Sort(shares)
	return shares[len(shares)/2]
}

// cpuTime is what the process has used so far, in all threads: it says the same on a machine that has other work.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func block(b *testing.B, c contender, callers, ops int) time.Duration {
	b.Helper()
	runtime.GC()
	var wg sync.WaitGroup
	errs := make(chan error, callers)
	started := time.Now()
	for i := range callers {
		share := ops / callers
		if i < ops%callers {
			share++
		}
		wg.Go(func() {
			for range share {
				if err := c.op(); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(started)
	select {
	case err := <-errs:
		b.Fatalf("%s: %v", c.name, err)
	default:
	}
	return took
}

// allocs reports how often one operation allocates, the server's part included where it is in the process.
func allocs(b *testing.B, contenders ...contender) {
	b.Helper()
	for _, c := range contenders {
		block(b, c, 1, 50)
		b.ReportMetric(testing.AllocsPerRun(300, func() {
			if err := c.op(); err != nil {
				b.Fatalf("%s: %v", c.name, err)
			}
		}), c.name+"-allocs")
	}
}

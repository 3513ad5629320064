package main

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// sample is what was seen at one moment.
type sample struct {
	at          float64 // seconds since the beginning
	payments    float64
	heap        float64 // bytes in use, after a collection
	goroutines  float64
	descriptors float64 // 0 where the system does not tell
	stored      float64 // bytes of the store's files; 0 where there are none
	oldest      float64 // seconds since the oldest open payment was created
}

func (s *soaking) measure(ctx context.Context) (sample, error) {
	m := sample{at: time.Since(s.began).Seconds(), payments: float64(s.payments.Load()), goroutines: float64(runtime.NumGoroutine())}
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	m.heap = float64(mem.HeapAlloc)
	if open, err := os.ReadDir("/proc/self/fd"); err == nil { // Linux
		m.descriptors = float64(len(open))
	}
	for _, file := range s.files {
		if info, err := os.Stat(file); err == nil { // the log comes and goes
			m.stored += float64(info.Size())
		}
	}
	now := time.Now()
	for a, err := range s.store.List(ctx, attempt.Filter{Open: true}) {
		if err != nil {
			return m, err
		}
		m.oldest = max(m.oldest, now.Sub(a.CreatedAt).Seconds())
	}
	return m, nil
}

// quantity is one thing that must not grow, and by how much it may.
type quantity struct {
	name       string
	of         func(sample) float64
	perPayment bool    // else per second
	bound      float64 // of the slope
	noise      float64 // what a whole run may grow by in any case, as when the machine gets slow and all callers wait: it bounds what a short one can tell
}

func quantities(store string) []quantity {
	heap := 100.0 // bytes a payment: nothing of one is kept
	if store == "memory" {
		heap = 16 << 10 // the store is the heap
	}
	list := []quantity{
		{"heap, bytes per payment", func(s sample) float64 { return s.heap }, true, heap, 4 << 20},
		{"goroutines per second", func(s sample) float64 { return s.goroutines }, false, 0.001, 150},
		{"descriptors per second", func(s sample) float64 { return s.descriptors }, false, 0.001, 75},
		{"oldest unknown, seconds per second", func(s sample) float64 { return s.oldest }, false, 0.02, 15},
	}
	if store == "sqlite" { // in memory the heap tells; a PostgreSQL server may hold more than this run's
		list = append(list, quantity{"store, bytes per payment", func(s sample) float64 { return s.stored }, true, 8 << 10, 8 << 20})
	}
	return list
}

// grows returns the slope over the samples after the first fifth, in which pools and caches fill, and the bound for it.
func (q quantity) grows(samples []sample) (got, bound float64) {
	samples = samples[len(samples)/5:]
	var x, y []float64
	for _, s := range samples {
		if q.perPayment {
			x = append(x, s.payments)
		} else {
			x = append(x, s.at)
		}
		y = append(y, q.of(s))
	}
	got, bound = slope(x, y), q.bound
	if run := x[len(x)-1] - x[0]; run > 0 {
		bound = max(bound, q.noise/run)
	}
	return got, bound
}

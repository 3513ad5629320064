package reconcile_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/reconcile"
)

// sqliteWith opens a database with n attempts that have ended.
func sqliteWith(b *testing.B, n int) attempt.Store {
	b.Helper()
	store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "bench.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	amount := money.MustParse("12.50", "EUR")
	const together = 2_000
	for first := 0; first < n; first += together {
		var steps []*attempt.Step
		for i := first; i < min(first+together, n); i++ {
			identity, err := attempt.NewIdentity("")
			if err != nil {
				b.Fatal(err)
			}
			slot := attempt.Slot{Order: fmt.Sprint("ended-", i), Purpose: attempt.PurposeCharge}
			steps = append(steps, &attempt.Step{Slot: slot, Fresh: true, Do: func(v attempt.View) ([]attempt.Write, error) {
				a := attempt.Attempt{
					ID: identity.ID, Key: identity.Key, Reference: identity.Reference, Slot: slot, Ordinal: 1, Amount: amount,
					Provider: backlogPlace.Provider, ProviderAccount: backlogPlace.Account, Environment: backlogPlace.Environment,
					Status: attempt.StatusApproved, ChargeID: "ch_" + identity.ID, Version: 1, Sends: 1, Fence: 1,
					Charges:   []attempt.Charge{{ID: "ch_" + identity.ID, Status: attempt.ChargeSucceeded, Amount: amount}},
					CreatedAt: v.Now, UpdatedAt: v.Now, FirstClaimAt: v.Now, LastSentAt: v.Now,
				}
				return []attempt.Write{{Attempt: &a, Event: attempt.Event{
					AttemptID: a.ID, Version: 1, What: attempt.WhatStartedClaimed, From: attempt.StatusPrepared, To: a.Status, At: v.Now,
				}}}, nil
			}})
		}
		if err := store.Apply(b.Context(), steps...); err != nil {
			b.Fatal(err)
		}
	}
	return store
}

// BenchmarkRunOnce is one pass over 1,000 open attempts among many that have ended, with lookups that take 5 ms.
func BenchmarkRunOnce(b *testing.B) {
	for _, ended := range []int{10_000, 1_000_000} {
		b.Run(fmt.Sprintf("open=1000/rows=%d", ended), func(b *testing.B) {
			store := sqliteWith(b, ended)
			for b.Loop() {
				b.StopTimer()
				bank := newBacklog(b, store, 1_000, 0, 1)
				bank.latency = 5 * time.Millisecond
				b.StartTimer()
				pass(b, bank, func(c *reconcile.Config) { c.ListFrom = -1 })
			}
			began := time.Now()
			if _, err := reconcile.ReadHealth(b.Context(), store); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "ms/health")
		})
	}
}

func pass(b *testing.B, bank *backlog, change func(*reconcile.Config)) reconcile.Report {
	b.Helper()
	cfg := reconcile.Config{Store: bank.store, Askers: []reconcile.Asker{bank}}
	change(&cfg)
	r, err := reconcile.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	report, err := r.RunOnce(b.Context())
	if err != nil || report.Approved != bank.booked() || report.Failed != 0 {
		b.Fatalf("%+v, %v; booked %d", report, err, bank.booked())
	}
	return report
}

// BenchmarkAgainstBareLookups compares a pass with the bare questions, asked by as many at once, in SQLite with every commit
// synced. "ratio" is how much of the bare rate is left.
func BenchmarkAgainstBareLookups(b *testing.B) {
	const n = 2_000
	for _, latency := range []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond} {
		b.Run(latency.String(), func(b *testing.B) {
			store := sqliteWith(b, 0)
			var bare, whole time.Duration
			for b.Loop() {
				bank := newBacklog(b, store, n, 0, 1)
				bank.latency = latency
				began := time.Now()
				askAll(b, bank)
				bare += time.Since(began)
				began = time.Now()
				pass(b, bank, func(c *reconcile.Config) { c.ListFrom = -1 })
				whole += time.Since(began)
			}
			b.ReportMetric(float64(n*b.N)/whole.Seconds(), "reconciled/s")
			b.ReportMetric(bare.Seconds()/whole.Seconds(), "ratio")
		})
	}
}

func askAll(b *testing.B, bank *backlog) {
	b.Helper()
	var all []attempt.Attempt
	for a, err := range bank.store.List(b.Context(), attempt.Filter{Open: true}) {
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, a)
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range reconcile.DefaultConcurrency {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(all); i = int(next.Add(1)) - 1 {
				if _, err := bank.Ask(b.Context(), all[i], time.Now()); err != nil {
					b.Error(err)
				}
			}
		})
	}
	workers.Wait()
}

// BenchmarkBacklog works off 100,000 open attempts, by single lookups and by listing, and counts the requests. They take no time
// here; "min@50ms" is what they would take at 50 ms each, eight lookups at once, the pages one after another.
func BenchmarkBacklog(b *testing.B) {
	const n = 100_000
	for name, listFrom := range map[string]int{"lookups": -1, "listing": 0} {
		b.Run(name, func(b *testing.B) {
			var requests int
			var wait time.Duration
			for b.Loop() {
				b.StopTimer()
				bank := newBacklog(b, sqliteWith(b, 0), n, 10*time.Millisecond, 1)
				b.StartTimer()
				pass(b, bank, func(c *reconcile.Config) { c.ListFrom = listFrom })
				requests += bank.lookups + bank.pages
				wait += 50 * time.Millisecond * time.Duration(bank.lookups/reconcile.DefaultConcurrency+bank.pages)
			}
			b.ReportMetric(float64(requests)/float64(b.N), "requests")
			b.ReportMetric(wait.Minutes()/float64(b.N), "min@50ms")
		})
	}
}

package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/chargeonce/chargeonce/reconcile"
)

// A backlog at the real client and provider: found by listing, and what was never booked is asked about all the same.
func TestListingABacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend, func(c *payclient.Config) { c.Breaker.FailurePercent = -1 })
		ids := s.lost(300, "40-")
		for range 5 {
			s.Bank.Script(fakeprovider.NeverArrives)
			s.unknown(s.Intent(fmt.Sprint("41-", time.Now().UnixNano())))
		}
		time.Sleep(5 * time.Minute)
		before := s.Bank.RequestCount()
		report := s.once(s.reconciler())
		if report.Listed != 300 || report.Approved != 300 || report.Asked != 5 || report.Open != 5 {
			t.Errorf("report: %+v", report)
		}
		if n := s.Bank.RequestCount() - before; n > 20 {
			t.Errorf("%d requests for 305 attempts", n)
		}
		for _, id := range ids {
			s.want(id, attempt.StatusApproved, "")
		}
	})
}

// A listing that fails, breaks off, panics, is not there, or shows only what is not ours, is replaced by questions.
func TestListingFallsBack(t *testing.T) {
	broken := errors.New("broken")
	lists := map[string]func(s *shop) func(context.Context, time.Time, time.Time) iter.Seq2[attempt.Notice, error]{
		"fails": func(*shop) func(context.Context, time.Time, time.Time) iter.Seq2[attempt.Notice, error] {
			return func(context.Context, time.Time, time.Time) iter.Seq2[attempt.Notice, error] {
				return func(yield func(attempt.Notice, error) bool) { yield(attempt.Notice{}, broken) }
			}
		},
		"breaks off": func(s *shop) func(context.Context, time.Time, time.Time) iter.Seq2[attempt.Notice, error] {
			return func(ctx context.Context, from, to time.Time) iter.Seq2[attempt.Notice, error] {
				return func(yield func(attempt.Notice, error) bool) {
					n := 0
					for notice, err := range s.Client.ListCharges(ctx, from, to) {
						if n++; n == 20 {
							yield(attempt.Notice{}, broken)
							return
						}
						if !yield(notice, err) {
							return
						}
					}
				}
			}
		},
		"panics": func(*shop) func(context.Context, time.Time, time.Time) iter.Seq2[attempt.Notice, error] {
			return func(context.Context, time.Time, time.Time) iter.Seq2[attempt.Notice, error] {
				return func(func(attempt.Notice, error) bool) { panic("listing") }
			}
		},
		"unsupported": func(*shop) func(context.Context, time.Time, time.Time) iter.Seq2[attempt.Notice, error] {
			return func(context.Context, time.Time, time.Time) iter.Seq2[attempt.Notice, error] {
				return func(yield func(attempt.Notice, error) bool) { yield(attempt.Notice{}, errors.ErrUnsupported) }
			}
		},
		"shows nothing": func(*shop) func(context.Context, time.Time, time.Time) iter.Seq2[attempt.Notice, error] {
			return func(context.Context, time.Time, time.Time) iter.Seq2[attempt.Notice, error] {
				return func(func(attempt.Notice, error) bool) {}
			}
		},
		"shows foreign ones for ever": func(*shop) func(context.Context, time.Time, time.Time) iter.Seq2[attempt.Notice, error] {
			return func(context.Context, time.Time, time.Time) iter.Seq2[attempt.Notice, error] {
				return func(yield func(attempt.Notice, error) bool) {
					for n := 0; n < 1_000_000; n++ {
						if !yield(attempt.Notice{Reference: uuid.NewString(), Charge: attempt.Charge{ID: fmt.Sprint(n), Status: attempt.ChargeSucceeded}}, nil) {
							return
						}
					}
					panic("nobody has stopped it")
				}
			}
		},
		"shows other references with our ids": func(s *shop) func(context.Context, time.Time, time.Time) iter.Seq2[attempt.Notice, error] {
			return func(ctx context.Context, from, to time.Time) iter.Seq2[attempt.Notice, error] {
				return func(yield func(attempt.Notice, error) bool) {
					for n, err := range s.Client.ListCharges(ctx, from, to) {
						n.Reference, n.Charge.ID = "x"+n.Reference, "wrong"
						if !yield(n, err) {
							return
						}
						n.Reference, n.Refund = n.Reference[1:], true
						if !yield(n, err) {
							return
						}
					}
				}
			}
		},
	}
	for name, list := range lists {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, oneSend, func(c *payclient.Config) { c.Breaker.FailurePercent = -1 })
				ids := s.lost(60, "42-")
				report := s.once(s.reconciler(func(c *reconcile.Config) {
					c.Askers = []reconcile.Asker{asker{Client: s.Client, list: list(s)}}
				}))
				if report.Approved != 60 || report.Listed+report.Asked != 60 || report.Failed != 0 {
					t.Errorf("report: %+v", report)
				}
				for _, id := range ids {
					if a := s.want(id, attempt.StatusApproved, ""); len(a.Charges) != 1 || a.ChargeID == "wrong" {
						t.Errorf("charges: %+v", a.Charges)
					}
				}
			})
		})
	}
}

// A backlog spread over many batches is listed once, not once for each batch.
func TestListingCostsAPageForAHundred(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBacklog(t, new(attempt.Memory), 5_000, time.Second, 0.99)
		r, err := reconcile.New(reconcile.Config{
			Store: b.store, Askers: []reconcile.Asker{b}, ListBatch: 500, Batch: 100,
		})
		if err != nil {
			t.Fatal(err)
		}
		report, err := r.RunOnce(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if report.Approved != b.booked() || report.Listed != b.booked() || report.Asked != 5_000-b.booked() {
			t.Errorf("report: %+v, booked %d", report, b.booked())
		}
		if b.pages > 50+5 {
			t.Errorf("%d pages for 5,000 charges", b.pages)
		}
	})
}

// backlog is a store full of open attempts, and a provider that has booked most of them. It counts what it is asked.
type backlog struct {
	store    attempt.Store
	charges  []attempt.Notice // by time
	at       []time.Time
	byRef    map[string]int
	pages    int
	lookups  int
	latency  time.Duration // of a request
	counting sync.Mutex    // guards pages and lookups
	schedule attempt.Schedule
}

var backlogPlace = attempt.Place{Provider: "bank", Account: "a", Environment: "test"}

// newBacklog makes n attempts of which the answer was lost, one each step; booked is the share that the provider holds.
func newBacklog(t testing.TB, store attempt.Store, n int, step time.Duration, booked float64) *backlog {
	t.Helper()
	b := &backlog{store: store, byRef: make(map[string]int), schedule: attempt.Schedule{
		First: time.Minute, Rule: attempt.AbandonRule{After: 30 * time.Minute, Lag: time.Minute, PreparedAfter: 24 * time.Hour},
	}}
	amount := money.MustParse("12.50", "EUR")
	series := uuid.NewString() // several in one store
	const together = 500
	for first := 0; first < n; first += together {
		var steps []*attempt.Step
		for i := first; i < min(first+together, n); i++ {
			identity, err := attempt.NewIdentity("")
			if err != nil {
				t.Fatal(err)
			}
			slot := attempt.Slot{Order: fmt.Sprint("backlog-", series, "-", i), Purpose: attempt.PurposeCharge}
			steps = append(steps, &attempt.Step{Slot: slot, Fresh: true, Do: func(v attempt.View) ([]attempt.Write, error) {
				now := v.Now.Add(time.Duration(i-n)*step - 10*time.Minute)
				a := attempt.Attempt{
					ID: identity.ID, Key: identity.Key, Reference: identity.Reference, Slot: slot, Ordinal: 1, Amount: amount,
					Provider: backlogPlace.Provider, ProviderAccount: backlogPlace.Account, Environment: backlogPlace.Environment,
					Status: attempt.StatusUnknown, Reason: attempt.ReasonTimeout, Version: 1, Sends: 1, MaybeSends: 1, Fence: 1,
					CreatedAt: now, UpdatedAt: now, FirstClaimAt: now, LastSentAt: now.Add(time.Second), NextCheckAt: now.Add(time.Minute),
				}
				return []attempt.Write{{Attempt: &a, Event: attempt.Event{
					AttemptID: a.ID, Version: 1, What: attempt.WhatStartedClaimed, From: attempt.StatusPrepared, To: a.Status, At: now,
				}}}, nil
			}})
			if float64(i%100) < booked*100 {
				b.byRef[identity.Reference] = len(b.charges)
				b.charges = append(b.charges, attempt.Notice{Reference: identity.Reference, Charge: attempt.Charge{
					ID: fmt.Sprint("ch_", i), Status: attempt.ChargeSucceeded, Amount: amount,
				}})
				b.at = append(b.at, time.Now().Add(time.Duration(i-n)*step-10*time.Minute))
			}
		}
		if err := store.Apply(t.Context(), steps...); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Millisecond)
	return b
}

// count counts a request, and takes as long as one takes.
func (b *backlog) count(n *int) {
	b.counting.Lock()
	*n++
	b.counting.Unlock()
	if b.latency > 0 {
		time.Sleep(b.latency)
	}
}

func (b *backlog) booked() int                { return len(b.charges) }
func (b *backlog) Place() attempt.Place       { return backlogPlace }
func (b *backlog) Schedule() attempt.Schedule { return b.schedule }

func (b *backlog) Ask(_ context.Context, a attempt.Attempt, asked time.Time) (attempt.Evidence, error) {
	b.count(&b.lookups)
	e := attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: attempt.LookupNone, AskedAt: asked, Rule: &b.schedule.Rule}
	if i, ok := b.byRef[a.Reference]; ok {
		e.Lookup, e.Charges = attempt.LookupFound, []attempt.Charge{b.charges[i].Charge}
	}
	return e, nil
}

func (b *backlog) ListCharges(_ context.Context, from, to time.Time) iter.Seq2[attempt.Notice, error] {
	return func(yield func(attempt.Notice, error) bool) {
		n := 0
		for i, at := range b.at {
			if at.Before(from) || !at.Before(to) {
				continue
			}
			if n%100 == 0 {
				b.count(&b.pages)
			}
			n++
			if !yield(b.charges[i], nil) {
				return
			}
		}
		if n == 0 {
			b.count(&b.pages)
		}
	}
}

var _ interface {
	reconcile.Asker
	reconcile.Lister
	reconcile.Refunder
} = (*payclient.Client)(nil)

// An adapter that cannot refund leaves surplus money to a person.
func TestNoRefundsAtThisProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend, func(c *payclient.Config) {
			c.Provider = adapter(t, standard.Config{LookupLag: time.Second, NoRefunds: true})
		})
		s.watch(s.reconciler())
		res := s.lateMoney("2014", 35*time.Minute)
		s.until(3 * time.Hour)
		s.wantReview(res.AttemptID)
	})
}

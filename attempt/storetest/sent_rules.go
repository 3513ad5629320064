package storetest

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

func sent(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	here := attempt.Place{Provider: "test", Account: "shop \u00fc", Environment: "live'"}
	elsewhere := []attempt.Place{
		{Provider: "test2", Account: here.Account, Environment: here.Environment},
		{Provider: here.Provider, Account: "shop u", Environment: here.Environment},
		{Provider: here.Provider, Account: here.Account, Environment: "live"},
		{Provider: here.Provider},
	}
	day := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
	wantSent(t, "an empty store", store, here, day, day.Add(time.Hour))

	// More than any page of ones that differ, sent a microsecond apart, and not in the order in which they were stored.
	const n = 1300
	all := make([]*starter, n)
	steps := make([]*attempt.Step, n)
	for i := range all {
		all[i] = &starter{slot: slot(fmt.Sprint(i)), change: func(a *attempt.Attempt) {
			place := here
			if i%9 == 0 {
				place = elsewhere[i/9%len(elsewhere)]
			}
			a.Provider, a.ProviderAccount, a.Environment = place.Provider, place.Account, place.Environment
			statuses := attempt.Statuses()
			if i%7 == 0 {
				a.Status = statuses[i/7%len(statuses)]
			} else {
				a.Status = attempt.StatusApproved
			}
			a.NextCheckAt = time.Time{}
			a.LastSentAt = day.Add(time.Duration(i*7919%n) * time.Microsecond)
			if i%11 == 0 { // known only since when
				a.CreatedAt, a.LastSentAt = a.LastSentAt, time.Time{}
			}
		}}
		steps[i] = all[i].step()
	}
	for part := range slices.Chunk(steps, 100) {
		if err := store.Apply(ctx, part...); err != nil {
			t.Fatal(err)
		}
	}
	attempts := make([]attempt.Attempt, 0, n+1)
	for _, s := range all {
		attempts = append(attempts, s.got)
	}
	// A refund is one of them, and belongs to the time of its own request.
	charge := change(ctx, t, store, all[1].got.ID, func(a *attempt.Attempt) {
		a.ChargeID = "ch_1"
		a.Charges = []attempt.Charge{{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: a.Amount}}
	})
	back := refund(ctx, t, store, charge, "1", 100)
	back = change(ctx, t, store, back.ID, func(a *attempt.Attempt) {
		to(attempt.StatusApproved)(a)
		a.LastSentAt = day.Add(17 * time.Microsecond)
	})
	attempts = append(attempts, back)

	for _, place := range append(elsewhere, here, attempt.Place{}) {
		for _, c := range []struct{ from, to time.Duration }{
			{0, n * time.Microsecond}, {-time.Hour, time.Hour}, {17 * time.Microsecond, 17 * time.Microsecond},
			{100 * time.Microsecond, 900 * time.Microsecond}, {100*time.Microsecond + 1, 900*time.Microsecond - 1},
			{900 * time.Microsecond, 100 * time.Microsecond}, {time.Minute, time.Hour}, {-time.Hour, -time.Minute},
		} {
			from, to := day.Add(c.from), day.Add(c.to)
			var want []attempt.Sent
			for _, a := range attempts {
				if at := a.Sent(); a.Status == attempt.StatusApproved && a.Place() == place && !at.At.Before(from) && !at.At.After(to) {
					want = append(want, at)
				}
			}
			wantSent(t, fmt.Sprintf("%+v, %s to %s", place, c.from, c.to), store, place, from, to, want...)
		}
	}
	wantSent(t, "in another zone", store, here, day.Add(17*time.Microsecond).In(time.FixedZone("", 7200)), day.Add(17*time.Microsecond),
		pick(attempts, here, day.Add(17*time.Microsecond))...)
	for _, err := range store.Sent(ctx, here, day, day.Add(time.Hour)) {
		if err != nil {
			t.Error(err)
		}
		break // whoever has seen enough may stop
	}
}

// pick returns those that were sent at a time.
func pick(attempts []attempt.Attempt, place attempt.Place, at time.Time) (all []attempt.Sent) {
	for _, a := range attempts {
		if s := a.Sent(); a.Status == attempt.StatusApproved && a.Place() == place && s.At.Equal(at) {
			all = append(all, s)
		}
	}
	return all
}

func sentWhileWriting(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	const n = 60
	place := attempt.Place{Provider: "test"}
	from := now(ctx, t, store).Add(-time.Hour)
	want := make(map[string]int)
	for i := range n {
		a := start(ctx, t, store, slot(fmt.Sprint(i)), func(a *attempt.Attempt) { to(attempt.StatusApproved)(a) })
		want[a.ID] = 0
	}
	later := 0
	for sent, err := range store.Sent(ctx, place, from, from.Add(24*time.Hour)) {
		if err != nil {
			t.Fatal(err)
		}
		seen, known := want[sent.ID]
		if !known {
			continue // became approved meanwhile
		}
		want[sent.ID] = seen + 1
		// What is found may change, and others come.
		change(ctx, t, store, sent.ID, func(a *attempt.Attempt) { a.Asks++ })
		start(ctx, t, store, slot(fmt.Sprint("later ", later)), func(a *attempt.Attempt) { to(attempt.StatusApproved)(a) })
		later++
	}
	for id, seen := range want {
		if seen != 1 {
			t.Errorf("attempt %s was told %d times", id, seen)
		}
	}
	if got := collectSent(t, store.Sent(ctx, place, from, from.Add(24*time.Hour))); len(got) != n+later {
		t.Errorf("afterwards %d, want %d", len(got), n+later)
	}
}

func collectSent(t *testing.T, list iter.Seq2[attempt.Sent, error]) (all []attempt.Sent) {
	t.Helper()
	for s, err := range list {
		if err != nil {
			t.Errorf("Sent: %v", err)
			return all
		}
		all = append(all, s)
	}
	return all
}

func wantSent(t *testing.T, what string, store attempt.Store, place attempt.Place, from, to time.Time, want ...attempt.Sent) {
	t.Helper()
	got := collectSent(t, store.Sent(t.Context(), place, from, to))
	for _, list := range [][]attempt.Sent{got, want} {
		slices.SortFunc(list, func(a, b attempt.Sent) int { return cmp.Compare(a.ID, b.ID) })
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d were sent, want %d as they were written", what, len(got), len(want))
	}
}

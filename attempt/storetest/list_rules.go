package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

func list(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	if got := collect(t, store.List(ctx, attempt.Filter{})); len(got) != 0 {
		t.Errorf("an empty store lists %d attempts", len(got))
	}
	// More than any page, in every status, and some orders with several attempts.
	const n = 530
	var all []attempt.Attempt
	for i := range n {
		order := fmt.Sprint(i % 500)
		a := start(ctx, t, store, slot(order), nil)
		statuses := attempt.Statuses()
		status := statuses[i%len(statuses)]
		if i < 30 { // their orders come again
			status = attempt.StatusDeclined
		}
		if status != attempt.StatusPrepared {
			a = change(ctx, t, store, a.ID, func(a *attempt.Attempt) { a.Status = attempt.StatusSending })
			a = change(ctx, t, store, a.ID, func(a *attempt.Attempt) { to(status)(a) })
		}
		if i%13 == 0 { // one owes, the next does not any more
			a = change(ctx, t, store, a.ID, func(a *attempt.Attempt) {
				a.Duties = []attempt.Duty{
					{Kind: attempt.DutyReview, ChargeID: "ch_1", Why: attempt.WhyReversed, OpenedAt: a.CreatedAt, MetAt: a.CreatedAt, How: attempt.HowGone},
					{Kind: attempt.DutyRefund, ChargeID: "ch_2", Why: attempt.WhyLateMoney, OpenedAt: a.CreatedAt},
				}
			})
			if i%2 == 0 {
				a = change(ctx, t, store, a.ID, func(a *attempt.Attempt) {
					a.Duties = []attempt.Duty{a.Duties[0], a.Duties[1]}
					a.Duties[1].MetAt, a.Duties[1].How = a.CreatedAt, attempt.HowRefunded
				})
			}
		}
		if i%11 == 0 {
			a = change(ctx, t, store, a.ID, func(a *attempt.Attempt) { a.NextCheckAt = time.Time{} }) // open or not, never due
		}
		all = append(all, a)
	}
	for _, f := range []attempt.Filter{
		{}, {Limit: 1}, {Limit: 200}, {Limit: 201}, {Limit: n}, {Limit: n + 1},
		{Open: true}, {Open: true, Limit: 3}, {Order: "7"}, {Order: "7", Limit: 1}, {Order: "7", Open: true}, {Order: "no such order"},
		{Statuses: []attempt.Status{attempt.StatusApproved}},
		{Statuses: []attempt.Status{attempt.StatusUnknown}},
		{Statuses: []attempt.Status{attempt.StatusUnknown, attempt.StatusDeclined}, Limit: 5},
		{Statuses: []attempt.Status{attempt.StatusUnknown, attempt.StatusDeclined}, Open: true},
		{Statuses: []attempt.Status{attempt.StatusApproved}, Open: true},
		{Statuses: []attempt.Status{attempt.StatusDeclined}, Order: "8"},
		{Statuses: attempt.Statuses()},
		{Owing: true}, {Owing: true, Limit: 4}, {Owing: true, Open: true}, {Owing: true, Order: "13"}, {Owing: true, Order: "26"},
		{Owing: true, Statuses: []attempt.Status{attempt.StatusDeclined, attempt.StatusAbandoned}},
	} {
		var want []attempt.Attempt
		for _, a := range all {
			if f.Selects(a) && (f.Limit == 0 || len(want) < f.Limit) {
				want = append(want, a)
			}
		}
		got := collect(t, store.List(ctx, f))
		if !slices.Equal(ids(got), ids(want)) {
			t.Errorf("%+v: %d attempts, want %d in the order of their creation", f, len(got), len(want))
			continue
		}
		for i := range got {
			wantSame(t, fmt.Sprintf("%+v: attempt %d", f, i), got[i], want[i])
		}
	}
	for a, err := range store.List(ctx, attempt.Filter{}) {
		if err != nil || a.ID != all[0].ID {
			t.Errorf("first: %s, %v", a.ID, err)
		}
		break // whoever has seen enough may stop
	}
}

func listWhileWriting(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	const n = 250
	for i := range n {
		start(ctx, t, store, slot(fmt.Sprint(i)), nil)
	}
	for _, f := range []attempt.Filter{{}, {Open: true}} {
		seen := 0
		for a, err := range store.List(ctx, f) {
			if err != nil {
				t.Fatal(err)
			}
			if seen++; f.Open {
				change(ctx, t, store, a.ID, to(attempt.StatusDeclined))
			} else {
				change(ctx, t, store, a.ID, func(a *attempt.Attempt) { a.Asks++ })
			}
		}
		if seen != n {
			t.Errorf("%+v: saw %d of %d", f, seen, n)
		}
	}
	if left := collect(t, store.List(ctx, attempt.Filter{Open: true})); len(left) != 0 {
		t.Errorf("%d are still open", len(left))
	}
}

package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

func briefs(t *testing.T, s *suite) {
	ctx, store := t.Context(), s.empty(t)
	f := &filler{}
	full := start(ctx, t, store, attempt.Slot{Account: "shop \u00fc", Order: "'1001'\x1f", Purpose: "deposit"}, func(a *attempt.Attempt) {
		f.attempt(a)
		a.Status, a.ChargeID = attempt.StatusSending, ""
	})
	open := start(ctx, t, store, slot("1002"), nil)
	charge := paid(ctx, t, store, slot("1003"), 1000)
	part := refund(ctx, t, store, charge, "1", 100)
	part = change(ctx, t, store, part.ID, func(a *attempt.Attempt) { to(attempt.StatusApproved)(a); a.ChargeID = "re_1 \u00fc'" })
	// Approved later, from memory; and the same charge id at another provider.
	c := &changer{id: full.ID, change: func(a *attempt.Attempt) { to(attempt.StatusApproved)(a); a.ChargeID = charge.ChargeID }}
	if err := store.Apply(ctx, c.guess(full)); err != nil {
		t.Fatal(err)
	}
	full = c.got

	const unknown = "01890000-0000-7000-8000-000000000000"
	for _, c := range []struct {
		ids, charges []string
		want         []attempt.Attempt
	}{
		{nil, nil, nil},
		{[]string{open.ID}, nil, []attempt.Attempt{open}},
		{[]string{part.ID, unknown, full.ID, "", "no id", open.ID, charge.ID}, nil, []attempt.Attempt{full, open, charge, part}},
		{nil, []string{part.ChargeID}, []attempt.Attempt{part}},
		{nil, []string{charge.ChargeID, "unknown", ""}, []attempt.Attempt{full, charge}},
		{[]string{open.ID}, []string{charge.ChargeID, part.ChargeID}, []attempt.Attempt{full, open, charge, part}},
		{[]string{charge.ChargeID}, []string{charge.ID, charge.Key}, nil},
	} {
		wantBriefs(t, store, c.ids, c.charges, c.want...)
	}

	// As many as may be asked for at once.
	const n = 300
	steps := make([]*attempt.Step, n)
	many := make([]*starter, n)
	for i := range many {
		many[i] = &starter{slot: slot(fmt.Sprint("many ", i))}
		steps[i] = many[i].step()
	}
	if err := store.Apply(ctx, steps...); err != nil {
		t.Fatal(err)
	}
	var ids []string
	var want []attempt.Attempt
	for i := range 1000 {
		if id := fmt.Sprintf("01890000-0000-7000-8000-%012d", i); i%4 != 0 || i/4 >= n {
			ids = append(ids, id)
			continue
		}
		ids, want = append(ids, many[i/4].got.ID), append(want, many[i/4].got)
	}
	wantBriefs(t, store, ids, nil, want...)
	charges := slices.Repeat([]string{"no such charge"}, 500)
	wantBriefs(t, store, ids[:500], append(charges[:499], part.ChargeID), append(want[:125], part)...)
}

// wantBriefs checks what is found by ids and by charge ids; an attempt that is found by both may be there twice.
func wantBriefs(t *testing.T, store attempt.Store, ids, charges []string, want ...attempt.Attempt) {
	t.Helper()
	got, err := store.Briefs(t.Context(), ids, charges)
	if err != nil {
		t.Error(err)
		return
	}
	byID := func(a, b attempt.Brief) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(got, byID)
	got = slices.Compact(got)
	var all []attempt.Brief
	for _, a := range want {
		all = append(all, a.Brief())
	}
	slices.SortFunc(all, byID)
	if len(got) != len(all) {
		t.Errorf("of %d ids and %d charges %d were found, want %d", len(ids), len(charges), len(got), len(all))
		return
	}
	for i := range all {
		wantSame(t, "brief of "+all[i].ID, got[i], all[i])
	}
}

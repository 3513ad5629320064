package attempt_test

import (
	"errors"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// A charge is cancelled under a claim, and only one that is not final, of an attempt that is open and that nobody sends.
func TestVoidClaimsWhatIsPending(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	slot := attempt.Slot{Order: "1001", Purpose: attempt.PurposeCharge}
	pending := attempt.Charge{ID: "ch_1", Amount: money.MustParse("5", "EUR")}
	open := attempt.Attempt{
		ID: "a", Slot: slot, Status: attempt.StatusUnknown, Version: 3, Fence: 1, Amount: pending.Amount, Charges: []attempt.Charge{pending},
	}
	with := func(change func(*attempt.Attempt)) attempt.Attempt {
		a := open
		a.Charges = []attempt.Charge{pending}
		change(&a)
		return a
	}
	for name, tt := range map[string]struct {
		a       attempt.Attempt
		granted bool
	}{
		"pending":            {open, true},
		"its claim is over":  {with(func(a *attempt.Attempt) { a.Claims = []attempt.Claim{{Fence: 1, Until: now}} }), true},
		"being sent":         {with(func(a *attempt.Attempt) { a.Claims = []attempt.Claim{{Fence: 1, Until: now.Add(1)}} }), false},
		"no charge known":    {with(func(a *attempt.Attempt) { a.Charges = nil }), false},
		"the charge is ours": {with(func(a *attempt.Attempt) { a.Charges[0].Status = attempt.ChargeSucceeded }), false},
		"the charge failed":  {with(func(a *attempt.Attempt) { a.Charges[0].Status = attempt.ChargeFailed }), false},
		"approved":           {with(func(a *attempt.Attempt) { a.Status = attempt.StatusApproved }), false},
		"declined":           {with(func(a *attempt.Attempt) { a.Status = attempt.StatusDeclined }), false},
		"prepared":           {with(func(a *attempt.Attempt) { a.Status = attempt.StatusPrepared }), false},
		"a refund":           {with(func(a *attempt.Attempt) { a.Refund = attempt.RefundOf{AttemptID: "b", ChargeID: "ch_0", ID: "r"} }), false},
	} {
		v := attempt.View{Now: now}
		v.Add(tt.a)
		step := &attempt.Void{ID: "a", Claim: 15 * time.Second, FirstCheck: time.Minute}
		writes, err := step.Do(v)
		if err != nil || step.Granted != tt.granted || len(writes) != map[bool]int{true: 1}[tt.granted] {
			t.Errorf("%s: granted %t, %d writes, %v", name, step.Granted, len(writes), err)
			continue
		}
		if !tt.granted {
			continue
		}
		a := step.Attempt
		if err := attempt.CheckWrites(slot, v, writes); err != nil || a.Status != attempt.StatusSending || a.Fence != 2 || !a.ClaimedUntil(now).Equal(now.Add(15*time.Second)) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
		// What the provider confirms ends it, and the reason says why; what it does not leaves it as it was.
		failed := pending
		failed.Status, failed.DeclineCode = attempt.ChargeFailed, "cancelled_by_merchant"
		confirmed := attempt.Evidence{
			Kind: attempt.EvidenceSends, At: now.Add(time.Second), Fence: 2, Charges: []attempt.Charge{failed},
			Answer: &attempt.Answer{Verdict: attempt.Refused, Reason: attempt.ReasonVoided}, KeepsAnswers: true,
		}
		if after, duties := attempt.Next(a, confirmed); after.Status != attempt.StatusDeclined || after.Reason != attempt.ReasonVoided || len(duties) > 0 {
			t.Errorf("%s, confirmed: %s, %s, %v", name, after.Status, after.Reason, duties)
		}
		not := attempt.Evidence{Kind: attempt.EvidenceSends, At: now.Add(time.Second), Fence: 2}
		if after, _ := attempt.Next(a, not); after.Status != attempt.StatusUnknown || after.Reason != attempt.ReasonPending || after.LastSentAt != a.LastSentAt {
			t.Errorf("%s, not confirmed: %s, %s", name, after.Status, after.Reason)
		}
	}
	if _, err := (&attempt.Void{ID: "b"}).Do(attempt.View{Now: now}); !errors.Is(err, attempt.ErrNotFound) {
		t.Errorf("of nothing: %v", err)
	}
}

// A charge that the provider does not cancel is tried ever more rarely: an order that was cancelled long ago must not fill its
// history with a claim every two minutes. Found by simulation.
func TestVoid_TriesEverMoreRarely(t *testing.T) {
	for _, tt := range []struct{ since, want time.Duration }{
		{0, 2 * time.Minute}, {time.Minute, 2 * time.Minute}, {time.Hour, 30 * time.Minute}, {100 * 24 * time.Hour, 24 * time.Hour},
	} {
		now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		a := newAttempt(1)
		a.Status, a.UnwantedAt, a.NextCheckAt = attempt.StatusUnknown, now.Add(-tt.since), time.Time{}
		a.Charges = []attempt.Charge{{ID: "ch_1", Status: attempt.ChargePending}}
		step := &attempt.Void{ID: a.ID, Claim: 15 * time.Second, FirstCheck: 2 * time.Minute}
		if _, err := step.Do(attempt.View{Now: now, Attempts: []attempt.Attempt{a}}); err != nil || !step.Granted {
			t.Fatalf("granted %t, %v", step.Granted, err)
		}
		if got := step.Attempt.NextCheckAt.Sub(now); got != tt.want {
			t.Errorf("cancelled %s ago: looked at again after %s, want %s", tt.since, got, tt.want)
		}
	}
}

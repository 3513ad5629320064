package attempt_test

import (
	"errors"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Of two late charges one can stay as the order's payment, and the other one is surplus. Found by simulation: a policy kept both.
func TestKeepOneChargeOnly(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	a := newAttempt(1)
	a.Status, a.Reason = attempt.StatusAbandoned, attempt.ReasonNotFound
	for _, id := range []string{"ch_1", "ch_2"} {
		late := held
		late.ID = id
		a, _ = attempt.Next(a, attempt.Evidence{Kind: attempt.EvidenceWebhook, At: now, Charges: []attempt.Charge{late}})
	}
	keep := func(id string) error {
		res := &attempt.Resolve{ID: a.ID, Who: "policy", Schedule: &attempt.Schedule{}, Resolution: attempt.Resolution{Kind: attempt.ResolvedKeep, ChargeID: id, Why: "late money is kept"}}
		writes, err := res.Step().Do(attempt.View{Now: now, Attempts: []attempt.Attempt{a}})
		if err == nil {
			a = *writes[0].Attempt
		}
		return err
	}
	if err := keep("ch_1"); err != nil {
		t.Fatal(err)
	}
	if err := keep("ch_2"); !errors.Is(err, attempt.ErrNotResolvable) {
		t.Errorf("the second charge: %v, want that it cannot stay too", err)
	}
	if d, owed := a.OpenDuty(); !owed || d.ChargeID != "ch_2" || d.Kind != attempt.DutyRefund {
		t.Errorf("duty %+v, want the second charge's refund", d)
	}
}

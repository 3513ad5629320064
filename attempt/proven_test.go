package attempt_test

import (
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

// A charge that was proven to be what was asked for, and is told with another amount afterwards: what was proven stays, all of it
// can be given back, and a person looks. Found by simulation, where an answer that was mixed up on its way came after the webhook.
func TestWhatWasProvenStays(t *testing.T) {
	for _, told := range []attempt.Charge{
		{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: amountOf(1, "EUR")},
		{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: amountOf(1999, "USD")},
	} {
		s, a := paidShop(t)
		s.record(a.ID, nil, attempt.Evidence{Kind: attempt.EvidenceWebhook, Charges: []attempt.Charge{told}}, false)
		after := s.nth(1)
		if c := after.Charges[0]; c.Amount != a.Amount || s.left() != 1999 {
			t.Errorf("the charge is %s now, %d left; want all of what was proven", c.Amount, s.left())
		}
		if d, owed := after.OpenDuty(); !owed || d.Kind != attempt.DutyReview || d.Why != attempt.WhyDifferent || d.Amount != told.Amount {
			t.Errorf("duty %+v, want a review of what was told", d)
		}
		d := s.refund(attempt.Refund{AttemptID: a.ID, ID: "r1"})
		if d.Kind != attempt.DecidedSend || d.Attempt.Amount != a.Amount {
			t.Errorf("a refund of all that is left: %+v, %s", d.Kind, d.Attempt.Amount)
		}
	}
}

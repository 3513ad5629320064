package attempt_test

import (
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// A sender that stood still until its claim was over may have sent when it went on: the time after which the attempt may be given up
// counts from then. A sender that was in time, and whose record had to wait for the store, has sent by the deadline. Found by
// simulation: an attempt was given up a second after its frozen sender had written the request.
func TestOverdueSendsCountFromTheirRecord(t *testing.T) {
	began := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	deadline, recorded := began.Add(15*time.Second), began.Add(50*time.Minute)
	for _, overdue := range []bool{false, true} {
		a := newAttempt(1)
		a.Status, a.Fence, a.FirstClaimAt = attempt.StatusUnknown, 1, began
		a.Claims = []attempt.Claim{{Fence: 1, Until: deadline}}
		a.NoneAskedAt = []time.Time{began.Add(40 * time.Minute), began.Add(45 * time.Minute)}
		after, _ := attempt.Next(a, attempt.Evidence{
			Kind: attempt.EvidenceSends, At: recorded, Fence: 1, Overdue: overdue,
			Sends: []attempt.Send{{Answer: attempt.Answer{Verdict: attempt.Lost, Reason: attempt.ReasonTimeout}}},
		})
		want, status := deadline, attempt.StatusAbandoned
		if overdue {
			want, status = recorded, attempt.StatusUnknown
		}
		if !after.LastPossibleSend().Equal(want) {
			t.Errorf("overdue %t: the last send counts as of %s, want %s", overdue, after.LastPossibleSend(), want)
		}
		rule := &attempt.AbandonRule{After: 30 * time.Minute, Lag: 5 * time.Minute}
		if then, _ := attempt.Next(after, attempt.Evidence{Kind: attempt.EvidenceTime, At: recorded.Add(time.Second), Rule: rule}); then.Status != status {
			t.Errorf("overdue %t: a second later it is %s, want %s", overdue, then.Status, status)
		}
	}
}

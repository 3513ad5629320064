package reconcile

import (
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Report counts what a pass has done. Its JSON names are a contract.
type Report struct {
	Taken    int `json:"taken"`     // due attempts taken from the store
	Asked    int `json:"asked"`     // questions about one attempt that left
	Listed   int `json:"listed"`    // attempts found in a listing instead
	NotAsked int `json:"not_asked"` // questions that the asker did not let leave: its breaker is open, for instance
	Left     int `json:"left"`      // not looked at, for lack of time or after NotAsked: they come back when their lease ends
	Failed   int `json:"failed"`    // could not be stored or done, and come back too

	// Ended in this pass.
	Approved  int `json:"approved"`
	Declined  int `json:"declined"`
	Rejected  int `json:"rejected"`
	Abandoned int `json:"abandoned"`

	Open        int `json:"open"`         // looked at, and still nobody knows what became of them
	AskingEnded int `json:"asking_ended"` // not asked about any more from this pass on: a person must decide

	DutiesOpened int     `json:"duties_opened"`
	Refunds      Refunds `json:"refunds"`
	Kept         int     `json:"kept"`     // duties met by keeping the money
	Reviewed     int     `json:"reviewed"` // refund duties that a person has to look at now

	// Next is how long after the pass the next look is known to be due; zero: none is known.
	Next time.Duration `json:"next_ns"`
	Took time.Duration `json:"took_ns"`
}

// Refunds counts what became of the refund duties that were looked at.
type Refunds struct {
	Made    int `json:"made"`
	Waiting int `json:"waiting"` // begun and not final, or to be tried again
	Refused int `json:"refused"` // by the provider; a person has to look
}

// count counts what a record has changed.
func (r *Report) count(before, after *attempt.Attempt, opened []attempt.Duty) {
	r.DutiesOpened += len(opened)
	if before.AskingEndedAt.IsZero() && !after.AskingEndedAt.IsZero() {
		r.AskingEnded++
	}
	if before.Status.Final() {
		return
	}
	switch after.Status {
	case attempt.StatusApproved:
		r.Approved++
	case attempt.StatusDeclined:
		r.Declined++
	case attempt.StatusRejected:
		r.Rejected++
	case attempt.StatusAbandoned:
		r.Abandoned++
	case attempt.StatusSending, attempt.StatusUnknown:
		r.Open++
	}
}

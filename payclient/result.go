package payclient

import (
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Outcome is what a caller is told; see the constants.
type Outcome = attempt.Outcome

// The outcomes. UnknownOutcome is the zero value.
const (
	UnknownOutcome    = attempt.UnknownOutcome
	Approved          = attempt.Approved
	Declined          = attempt.Declined
	ContractViolation = attempt.ContractViolation
)

// Moved tells whether money moved: decide by it.
type Moved = attempt.Moved

// What may have become of the money. MovedMaybe is the zero value.
const (
	MovedMaybe = attempt.MovedMaybe
	MovedNo    = attempt.MovedNo
	MovedYes   = attempt.MovedYes
)

// Result is the stored attempt after a call's evidence, and what support needs to find the payment at the provider.
// The zero Result is an UnknownOutcome of which money may have moved.
type Result struct {
	Outcome Outcome
	Moved   Moved
	Reason  attempt.Reason

	AttemptID   string
	Key         string
	Reference   string
	ChargeID    string // the provider's id of the charge, or of the refund; with a ContractViolation perhaps that of a wrong one
	StatusCode  int    // of the last answer; 0: none
	RequestID   string // the provider's, of the last answer
	Code        string // the provider's, of the last answer
	DeclineCode string
	Sends       int    // requests made under the attempt so far, proven non-sends included
	Replayed    bool   // the last answer was the provider's repetition of an earlier one
	NextAction  string // the URL where the payer must act
	Existing    bool   // told from the store: this call did not send

	// CancelledAt is when the order was cancelled, by the store's clock; zero: it was not.
	CancelledAt time.Time

	// Attempt is the whole record.
	Attempt attempt.Attempt

	// RecordErr says that the evidence of this call could not be stored yet. Storing goes on, see [Client.Close]. With
	// Approved the money is ours all the same, and reconciliation would find it.
	RecordErr error

	notPaid bool
}

// Open tells whether the payment still waits for evidence: answer 202 and look again later. True for an UnknownOutcome and
// for a ContractViolation unless no money moved.
func (r Result) Open() bool {
	if r.notPaid {
		return false
	}
	return r.Outcome == UnknownOutcome || r.Outcome == ContractViolation && r.Moved != MovedNo
}

// NotPaid tells whether there is no outcome, because there is no payment: the attempt is only prepared, was given up, or its
// money went back or is not the order's. Outcome is the zero value then. It is false for a Declined attempt.
func (r Result) NotPaid() bool { return r.notPaid }

// resultOf tells of an attempt as it stands at a time of the store's clock.
func resultOf(a *attempt.Attempt, now time.Time) (r Result) {
	told := a.Tell(now)
	r = Result{
		Outcome: told.Outcome, Moved: told.Moved, Reason: told.Reason, notPaid: told.NotPaid,
		AttemptID: a.ID, Key: a.Key, Reference: a.Reference, ChargeID: a.ChargeID,
		StatusCode: a.Answer.StatusCode, RequestID: a.Answer.RequestID, Code: a.Answer.Code,
		DeclineCode: a.Answer.DeclineCode, Sends: a.Sends, Replayed: a.Answer.Replayed,
		Attempt: *a, CancelledAt: a.UnwantedAt,
	}
	if len(a.Charges) > 0 {
		r.NextAction = a.NextAction()
	}
	if r.ChargeID == "" && len(a.Charges) > 0 {
		r.ChargeID = a.Charges[0].ID
	}
	if r.ChargeID == "" {
		r.ChargeID = a.Answer.ChargeID
	}
	if a.Status == attempt.StatusDeclined && r.DeclineCode == "" {
		r.DeclineCode = a.Refusal.Answer.DeclineCode
	}
	return r
}

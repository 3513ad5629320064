package attempt

import (
	"slices"
	"time"

	"github.com/chargeonce/chargeonce/money"
)

// Attempt is the stored record of one intent: one key, one reference, one history. It is a value: whoever reads one may
// keep it, and must not change the slices in it. Times are UTC, by the store's clock, with microseconds.
type Attempt struct {
	ID        string // 36 characters, a UUID
	Key       string // the idempotency key: minted with the attempt, never changed, never reused
	Reference string // sent to the provider, contains the ID; what a lookup searches by

	Slot            Slot
	Ordinal         int // 1 for the slot's first attempt
	Amount          money.Amount
	Source          Digest
	Description     string
	Provider        string // the adapter's name
	ProviderAccount string
	Environment     string
	Refund          RefundOf // zero: a charge

	// Body is the request as the first claim rendered it, with a NUL byte where the source goes. Later sends repeat it.
	Body []byte
	// BodyDigest is the digest of the request as it left, source included, made under the key of Source. A request that
	// would differ from it is never sent.
	BodyDigest string

	Status  Status
	Reason  Reason
	Version int // counts the events: 1 when created, without gaps

	CreatedAt time.Time
	UpdatedAt time.Time // the latest time seen by any change: a clock that runs backwards does not take it along

	Fence        int       // the number of the last claim granted; 0: none yet
	Claims       []Claim   // claims without a recorded end, oldest first
	FirstClaimAt time.Time // the provider's key retention counts from here; zero: never claimed
	Sends        int       // requests recorded, proven non-sends included
	MaybeSends   int       // of these, requests that may have been executed and of which no charge or refusal is known
	LastSentAt   time.Time // no recorded request can have left later than this; zero: none may have left

	Refusal Refusal  // the strongest refusal received
	Answer  Answer   // the last answer received, from a send or a lookup
	Charges []Charge // what the provider holds under our reference, as far as known
	// ChargeID is the charge that approved the attempt.
	ChargeID string

	NoneAskedAt   []time.Time // when the last lookups were asked that found nothing: two at most, spaced by the lag
	Asks          int         // lookups answered or failed so far
	NextCheckAt   time.Time   // when the reconciler is to look again; zero: never
	AskingEndedAt time.Time   // when asking was given up; zero: not

	Duties []Duty

	UnwantedAt time.Time // when the order was cancelled; zero: it was not. Money on the attempt is owed back
}

// Claim is the right to send an attempt until a deadline, under a fencing number.
type Claim struct {
	Fence int       `json:"fence"`
	Until time.Time `json:"until"`
}

// Refusal is the strongest refusal an attempt has received; the zero Refusal is none.
type Refusal struct {
	Verdict Verdict `json:"verdict"`           // Refused or Rejected; Lost: no refusal
	Kept    bool    `json:"kept,omitempty"`    // the provider keeps it under the key: it speaks for every send
	BySend  bool    `json:"by_send,omitempty"` // a send of ours was answered with a decline, not only rejected or reported
	Answer  Answer  `json:"answer"`
}

// Place is where an attempt belongs: only there may it be sent or asked about.
type Place struct {
	Provider    string // the adapter's name
	Account     string // the provider account
	Environment string
}

// Place returns where the attempt belongs.
func (a Attempt) Place() Place {
	return Place{Provider: a.Provider, Account: a.ProviderAccount, Environment: a.Environment}
}

// ClaimedUntil returns when the last unexpired claim ends; zero where there is none at that time.
func (a Attempt) ClaimedUntil(now time.Time) time.Time {
	var until time.Time
	for _, c := range a.Claims {
		if c.Until.After(now) && c.Until.After(until) {
			until = c.Until
		}
	}
	return until
}

// mayHaveBeenSent tells whether a request may have left under this attempt: recorded ones, and those of claims whose end
// nobody recorded.
func (a Attempt) mayHaveBeenSent() bool {
	return !a.LastSentAt.IsZero() || len(a.Claims) > 0 || len(a.Charges) > 0
}

// LastPossibleSend returns the latest moment at which a request may have left: the last one recorded, or the deadline of
// a claim whose end nobody recorded. Zero: none can have left.
func (a Attempt) LastPossibleSend() time.Time {
	last := a.LastSentAt
	for _, c := range a.Claims {
		if c.Until.After(last) {
			last = c.Until
		}
	}
	return last
}

// OpenDuty returns the first duty not yet met.
func (a Attempt) OpenDuty() (Duty, bool) {
	for _, d := range a.Duties {
		if d.MetAt.IsZero() {
			return d, true
		}
	}
	return Duty{}, false
}

// Charge returns the charge with that id.
func (a Attempt) Charge(id string) (Charge, bool) {
	for _, c := range a.Charges {
		if c.ID == id {
			return c, true
		}
	}
	return Charge{}, false
}

// NextAction returns the URL where the payer must act, if a charge that is not final waits for that.
func (a Attempt) NextAction() string {
	for _, c := range a.Charges {
		if c.Status == ChargePending && c.NextAction != "" {
			return c.NextAction
		}
	}
	return ""
}

// Told is what may be said of an attempt to whoever asks.
type Told struct {
	Outcome Outcome
	Moved   Moved
	Reason  Reason
	// NotPaid: there is no outcome to tell, because nothing was executed and nothing will be before the attempt is sent
	// (prepared), or ever (abandoned), or because its money is not the order's. Moved is MovedNo, unless a person has decided
	// to leave money where it is (reason resolved): then it is MovedYes.
	NotPaid bool
}

// Open tells whether the attempt still waits for evidence: an UnknownOutcome, or a ContractViolation of which money may
// have moved.
func (t Told) Open() bool {
	return !t.NotPaid && (t.Outcome == UnknownOutcome || t.Outcome == ContractViolation && t.Moved != MovedNo)
}

// Tell says what is known of the attempt at a time of the store's clock.
func (a Attempt) Tell(now time.Time) Told {
	if a.Status != StatusApproved && a.Status.Final() {
		if t, owed := a.tellOwed(); owed {
			return t
		}
		if a.keeps() {
			return Told{Outcome: Approved, Moved: MovedYes, Reason: ReasonKept}
		}
		if a.leaves() {
			return Told{Moved: MovedYes, Reason: ReasonResolved, NotPaid: true}
		}
		if a.gaveBack() {
			a.Reason = ReasonRefunded
		}
	}
	if a.Status == StatusApproved {
		if t, gone := a.tellGone(); gone {
			return t
		}
	}
	switch a.Status {
	case StatusPrepared:
		return Told{Moved: MovedNo, Reason: a.Reason, NotPaid: true}
	case StatusAbandoned:
		return Told{Moved: MovedNo, Reason: a.Reason, NotPaid: true}
	case StatusApproved:
		return Told{Outcome: Approved, Moved: MovedYes, Reason: a.Reason}
	case StatusDeclined:
		return Told{Outcome: Declined, Moved: MovedNo, Reason: a.Reason}
	case StatusRejected:
		return Told{Outcome: ContractViolation, Moved: MovedNo, Reason: a.Reason}
	case StatusSending:
		if !a.ClaimedUntil(now).IsZero() {
			return Told{Outcome: UnknownOutcome, Reason: ReasonInFlight}
		}
		return Told{Outcome: UnknownOutcome, Reason: ReasonClaimExpired}
	}
	t := Told{Outcome: UnknownOutcome, Reason: a.Reason}
	if _, mismatch := a.mismatched(); mismatch {
		return Told{Outcome: ContractViolation, Moved: MovedYes, Reason: ReasonMismatch}
	}
	switch a.Answer.Verdict {
	case Violated, Rejected, KeyReused:
		t.Outcome = ContractViolation
		if a.Answer.MoneyMoved {
			t.Moved = MovedYes
		}
	}
	return t
}

// tellGone tells of an approved attempt whose money is not the host's to keep: it was given back in full, or it is owed back
// because the order was cancelled. Nobody may fulfil on it.
func (a Attempt) tellGone() (t Told, gone bool) {
	if c, _ := a.Charge(a.ChargeID); c.refundedInFull() {
		if t, owed := a.tellOwed(); owed { // another charge is still there
			return t, true
		}
		return Told{Moved: MovedNo, Reason: ReasonRefunded, NotPaid: true}, true
	}
	if a.UnwantedAt.IsZero() {
		return Told{}, false
	}
	switch c, _ := a.Charge(a.ChargeID); {
	case !a.owes() && c.Status == ChargeSucceeded:
		return Told{Moved: MovedYes, Reason: ReasonResolved, NotPaid: true}, true
	case !a.owes():
		return Told{Moved: MovedNo, Reason: ReasonResolved, NotPaid: true}, true
	case c.Status == ChargeReversed:
		return Told{Outcome: UnknownOutcome, Reason: ReasonReviewOwed}, true
	}
	return Told{Outcome: UnknownOutcome, Moved: MovedYes, Reason: ReasonRefundOwed}, true
}

func (a *Attempt) owes() bool {
	_, owed := a.OpenDuty()
	return owed
}

// keeps tells whether it was decided that money on the attempt stays as the order's payment, and it still does.
func (a *Attempt) keeps() bool {
	if !a.UnwantedAt.IsZero() || len(a.Duties) == 0 {
		return false
	}
	return slices.ContainsFunc(a.Charges, func(c Charge) bool {
		return c.Status == ChargeSucceeded && a.decidedHow(c, HowKept) && !c.refundedInFull()
	})
}

// keptAndRefunded tells whether money that was the order's payment by a decision was given back in full since.
func (a *Attempt) keptAndRefunded() bool {
	return slices.ContainsFunc(a.Charges, func(c Charge) bool { return a.decidedHow(c, HowKept) && c.refundedInFull() })
}

// leaves tells whether it was decided to do nothing about money that is there.
func (a *Attempt) leaves() bool {
	return len(a.Duties) > 0 && slices.ContainsFunc(a.Charges, func(c Charge) bool {
		return c.Status == ChargeSucceeded && !c.refundedInFull() && a.decidedHow(c, HowDismissed)
	})
}

// gaveBack tells whether money of the attempt was given back in full.
func (a *Attempt) gaveBack() bool {
	return slices.ContainsFunc(a.Charges, func(c Charge) bool { return c.refundedInFull() })
}

// tellOwed tells of an attempt that has ended without money and owes something all the same.
func (a Attempt) tellOwed() (t Told, owed bool) {
	for _, d := range a.Duties {
		switch {
		case !d.MetAt.IsZero():
		case d.Why == WhyLatePending:
			if !owed {
				t = Told{Outcome: UnknownOutcome, Reason: ReasonPending}
			}
			owed = true
		case d.Why == WhyReversed:
			if t.Moved != MovedYes {
				t = Told{Outcome: UnknownOutcome, Reason: ReasonReviewOwed}
			}
			owed = true
		case d.Kind == DutyReview && a.Status == StatusApproved:
			t, owed = Told{Outcome: UnknownOutcome, Moved: MovedYes, Reason: ReasonReviewOwed}, true
		default:
			return Told{Outcome: UnknownOutcome, Moved: MovedYes, Reason: ReasonRefundOwed}, true
		}
	}
	return t, owed
}

// mismatched returns a charge that succeeded and is known not to be what was asked for.
func (a Attempt) mismatched() (Charge, bool) {
	for _, c := range a.Charges {
		if c.Status == ChargeSucceeded && c.Amount.Valid() && c.Amount != a.Amount && !a.doneWith(c) {
			return c, true
		}
	}
	return Charge{}, false
}

package attempt

import (
	"slices"
	"time"
)

// Next is the state machine: it adds one piece of evidence to an attempt and folds all that is known into its status.
// It is pure; e.At is the present by the store's clock. The duties returned are those that this evidence opened; they are
// in the attempt's Duties too.
//
//   - Money counts at once, whatever else is going on: a charge that equals the attempt approves it.
//   - An end without money (declined, rejected, abandoned, back to prepared) needs every send accounted for, a claim
//     without a recorded end being a send that may have been executed, and no claim that still runs. Evidence for such an
//     end that comes too early is kept, and NextCheckAt is brought forward to the moment when it may count.
//   - A decline is final beside sends without an answer only where the provider keeps it under the key.
//     A rejection (401, 422 and so on) never is.
//   - An attempt is abandoned by e.Rule only: After since the last moment a request may have left, and two lookups that
//     found nothing, each asked later than that moment plus Lag, and Lag apart.
//   - Ends are final. Money beside an end opens a duty, and so does a charge that differs from what was asked.
func Next(a Attempt, e Evidence) (Attempt, []Duty) {
	had := len(a.Duties)
	a.absorb(e)
	a.openDuties(e.At)
	if !a.Status.Final() {
		a.fold(e)
	}
	a.UpdatedAt = e.At
	return a, a.Duties[had:]
}

// absorb adds what the evidence says to what is known, without judging it.
func (a *Attempt) absorb(e Evidence) {
	if e.Kind == EvidenceSends {
		a.absorbSends(e)
	}
	for _, c := range e.Charges {
		a.learn(c, e)
	}
	if e.Kind == EvidenceLookup {
		a.Asks++
		if e.Answer != nil {
			a.Answer = *e.Answer
		}
		if e.Lookup == LookupNone && e.Rule != nil {
			a.learnNone(e.AskedAt, e.Rule.Lag)
		}
	}
}

func (a *Attempt) absorbSends(e Evidence) {
	i := slices.IndexFunc(a.Claims, func(c Claim) bool { return c.Fence == e.Fence })
	if i < 0 {
		// This claim's end is recorded already: a write that was repeated because its answer was lost. Money counts twice
		// without harm, everything else counted the first time.
		for _, s := range e.Sends {
			if s.Charge != nil {
				a.learn(*s.Charge, e)
			}
		}
		return
	}
	ended := a.Claims[i]
	a.Claims = slices.Delete(slices.Clone(a.Claims), i, i+1)
	for _, s := range e.Sends {
		a.Sends++
		if s.Verdict == NotSent {
			if a.Answer.Verdict == Lost && a.Answer.StatusCode == 0 {
				a.Answer = Answer{Verdict: NotSent, Reason: s.Reason, Detail: s.Detail}
			}
			continue
		}
		// No request of a claim leaves after its deadline, however late its end is recorded.
		if sent := earlier(e.At, ended.Until); sent.After(a.LastSentAt) {
			a.LastSentAt = sent
		}
		if s.maybeExecuted() {
			a.MaybeSends++
		}
		if s.Answered() {
			a.Answer = s.Answer
		} else if a.Answer.Verdict == NotSent {
			a.Answer = s.Answer
		}
		switch s.Verdict {
		case Refused, Rejected:
			a.refuse(Refusal{Verdict: s.Verdict, Kept: s.Kept && s.Verdict == Refused, Answer: s.Answer})
		}
		if s.Charge != nil {
			a.learn(*s.Charge, Evidence{Kind: e.Kind, At: e.At, KeepsAnswers: s.Kept})
		}
	}
	a.Reason = lastReason(e.Sends, a.Reason)
}

// lastReason returns why the attempt is open, by its last real answer, or else by its last send.
func lastReason(sends []Send, before Reason) Reason {
	for i := len(sends) - 1; i >= 0; i-- {
		if sends[i].Answered() && sends[i].Reason != "" {
			return sends[i].Reason
		}
	}
	for i := len(sends) - 1; i >= 0; i-- {
		if sends[i].Verdict == Lost && sends[i].Reason != "" {
			return sends[i].Reason
		}
	}
	return before
}

// refuse keeps the strongest refusal: a decline over a rejection, one that the provider keeps over one that it does not.
func (a *Attempt) refuse(r Refusal) {
	old := a.Refusal
	stronger := old.Verdict == Lost ||
		r.Verdict == Refused && old.Verdict == Rejected ||
		r.Verdict == old.Verdict && r.Kept && !old.Kept
	if stronger {
		a.Refusal = r
	}
}

// learn merges a charge into those known. What is final overrides what is not; success overrides failure, because money
// counts always; a failure after success is a reversal.
func (a *Attempt) learn(c Charge, e Evidence) {
	i := slices.IndexFunc(a.Charges, func(k Charge) bool { return k.ID == c.ID })
	if i < 0 {
		c.SeenAt = e.At
		a.Charges = append(slices.Clip(a.Charges), c)
	} else {
		known := a.Charges[i]
		switch {
		case c.Status == ChargePending && known.Status != ChargePending:
			return // an older view of the charge
		case known.Status == ChargeReversed:
			return
		case known.Status == ChargeSucceeded && c.Status == ChargeFailed:
			c.Status = ChargeReversed
		}
		if !c.Amount.Valid() {
			c.Amount = known.Amount
		}
		c.SeenAt = known.SeenAt
		a.Charges = slices.Clone(a.Charges)
		a.Charges[i] = c
	}
	if c.Status == ChargeFailed {
		// The failed charge accounts for one send that has no answer of its own, unless a refusal is known that may be
		// the same charge.
		covers := 0
		if e.Kind != EvidenceSends && a.Refusal.Verdict == Lost {
			covers = 1
		}
		a.refuse(Refusal{Verdict: Refused, Kept: e.KeepsAnswers, Covers: covers, Answer: Answer{
			Verdict: Refused, Reason: ReasonDeclined, ChargeID: c.ID, DeclineCode: c.DeclineCode,
		}})
	}
}

// learnNone keeps the last two times at which a lookup was asked that found nothing, at least the lag apart.
func (a *Attempt) learnNone(asked time.Time, lag time.Duration) {
	n := len(a.NoneAskedAt)
	if n > 0 && asked.Sub(a.NoneAskedAt[n-1]) < lag {
		return
	}
	nones := append(slices.Clone(a.NoneAskedAt), asked)
	a.NoneAskedAt = nones[max(0, len(nones)-2):]
}

// openDuties opens a duty for every charge that is not the attempt's own end.
func (a *Attempt) openDuties(now time.Time) {
	for _, c := range a.Charges {
		switch {
		case c.Status == ChargeReversed:
			a.owe(DutyReview, c, WhyReversed, now)
		case c.Status != ChargeSucceeded || c.ID == a.ChargeID:
		case a.Status == StatusApproved:
			a.owe(DutyReview, c, WhySecondCharge, now)
		case a.Status.Final():
			a.owe(DutyRefund, c, WhyLateMoney, now)
		case c.Amount != a.Amount:
			a.owe(DutyReview, c, WhyDifferent, now)
		}
	}
}

func (a *Attempt) owe(kind DutyKind, c Charge, why string, now time.Time) {
	for _, d := range a.Duties {
		if d.ChargeID == c.ID && d.Why == why {
			return
		}
	}
	a.Duties = append(slices.Clip(a.Duties), Duty{Kind: kind, ChargeID: c.ID, Amount: c.Amount, Why: why, OpenedAt: now})
}

// fold judges all that is known of an attempt that has not ended.
func (a *Attempt) fold(e Evidence) {
	now := e.At
	if c, ok := a.ownCharge(); ok {
		if a.Status == StatusPrepared && a.Fence == 0 {
			a.owe(DutyReview, c, WhyNobodySent, now)
		}
		a.end(StatusApproved, "")
		a.ChargeID = c.ID
		a.openDuties(now) // for the charges beside it
		return
	}
	if until := a.ClaimedUntil(now); !until.IsZero() {
		// Somebody may be sending at this moment: an end without money has to wait for the end of the claim.
		a.Status = StatusSending
		if until.Before(a.NextCheckAt) || a.NextCheckAt.IsZero() {
			a.NextCheckAt = until
		}
		return
	}
	_, mismatch := a.mismatched()
	pending := slices.ContainsFunc(a.Charges, func(c Charge) bool { return c.Status == ChargePending })
	unaccounted := a.MaybeSends + len(a.Claims)
	switch {
	case mismatch:
		a.stayOpen(ReasonMismatch)
	case pending && a.NextAction() != "":
		a.stayOpen(ReasonPayerAction)
	case pending:
		a.stayOpen(ReasonPending)
	case a.Refusal.Verdict == Refused && (a.Refusal.Kept || unaccounted <= a.Refusal.Covers):
		a.end(StatusDeclined, a.Refusal.Answer.Reason)
	case a.Refusal.Verdict == Rejected && unaccounted == 0:
		a.end(StatusRejected, a.Refusal.Answer.Reason)
	case unaccounted == 0 && a.Refusal.Verdict == Lost && len(a.Charges) == 0:
		a.backToPrepared(e)
	case a.abandonable(e.Rule, now):
		a.end(StatusAbandoned, ReasonNotFound)
	default:
		a.stayOpen(a.Reason)
	}
}

// ownCharge returns the first charge that succeeded and equals what was asked for.
func (a *Attempt) ownCharge() (Charge, bool) {
	for _, c := range a.Charges {
		if c.Status == ChargeSucceeded && c.Amount == a.Amount {
			return c, true
		}
	}
	return Charge{}, false
}

func (a *Attempt) end(s Status, why Reason) {
	a.Status, a.Reason = s, why
	a.NextCheckAt = time.Time{}
}

func (a *Attempt) stayOpen(why Reason) {
	if why == "" {
		why = ReasonClaimExpired
	}
	a.Status, a.Reason = StatusUnknown, why
}

func (a *Attempt) backToPrepared(e Evidence) {
	if a.Status == StatusPrepared && e.Rule != nil && e.Rule.PreparedAfter > 0 && e.At.Sub(a.CreatedAt) >= e.Rule.PreparedAfter {
		a.end(StatusAbandoned, ReasonNeverSent)
		return
	}
	if a.Status != StatusPrepared {
		a.Reason = ReasonNotSent
	}
	a.Status = StatusPrepared
}

// abandonable holds the rule for abandoning. A claim without a recorded end counts by its deadline.
func (a *Attempt) abandonable(r *AbandonRule, now time.Time) bool {
	if r == nil || r.After <= 0 || len(a.Charges) > 0 {
		return false
	}
	last := a.LastPossibleSend()
	if last.IsZero() || now.Sub(last) < r.After {
		return false
	}
	counted := 0
	for _, asked := range a.NoneAskedAt {
		if asked.Sub(last) > r.Lag {
			counted++
		}
	}
	return counted >= 2
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

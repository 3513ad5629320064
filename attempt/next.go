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
//     found nothing but charges that failed, each asked later than that moment plus Lag, and Lag apart, the last one After
//     that moment.
//   - Ends are final. Money beside an end opens a duty, and so does a charge that differs from what was asked, one that
//     turns up unfinished after an end without money, and one that the provider took back.
func Next(a Attempt, e Evidence) (Attempt, []Duty) {
	had := len(a.Duties)
	a.absorb(e)
	a.openDuties(e.At)
	if !a.Status.Final() {
		a.fold(e)
	}
	a.UpdatedAt = later(a.UpdatedAt, e.At)
	a.planDuty(e.At)
	if len(a.Duties) == had {
		return a, nil
	}
	return a, slices.Clone(a.Duties[had:])
}

// absorb adds what the evidence says to what is known, without judging it.
func (a *Attempt) absorb(e Evidence) {
	if e.Kind == EvidenceSends {
		a.absorbSends(e)
	}
	for _, c := range e.Charges {
		a.learn(c, e, e.KeepsAnswers)
	}
	if e.Resolution != nil {
		a.resolve(e.Resolution, e)
	}
	if e.Kind == EvidenceLookup {
		a.Asks++
		if e.Answer != nil {
			a.Answer = *e.Answer
		}
		none := e.Lookup == LookupNone || e.Lookup == LookupFound && len(a.Charges) > 0
		if none && a.holdsNothing() && e.Rule != nil {
			a.learnNone(e.AskedAt, e.At, e.Rule.Lag)
		}
	}
}

func (a *Attempt) absorbSends(e Evidence) {
	i := slices.IndexFunc(a.Claims, func(c Claim) bool { return c.Fence == e.Fence })
	if i < 0 && e.Fence <= a.Fence {
		// This claim's end is recorded already: a write that was repeated because its answer was lost. Money counts twice
		// without harm, everything else counted the first time.
		for _, s := range e.Sends {
			if s.Charge != nil {
				a.learnAnswered(s, e)
			}
		}
		return
	}
	// No request of a claim leaves after its deadline, however late its end is recorded, unless its sender says otherwise.
	until := e.At
	if a.UpdatedAt.After(until) { // the clock was set back since
		until = a.UpdatedAt
	}
	if i >= 0 {
		if !e.Overdue {
			until = earlier(until, a.Claims[i].Until)
		}
		a.Claims = without(a.Claims, i)
	} else {
		a.Fence = e.Fence // a store that has lost the claim: what was sent under it counts all the same
	}
	for _, s := range e.Sends {
		a.absorbSend(s, until, e)
	}
	if !a.Status.Final() {
		a.Reason = lastReason(e.Sends, a.Reason)
	}
}

func (a *Attempt) absorbSend(s Send, until time.Time, e Evidence) {
	a.Sends++
	if s.Verdict == NotSent {
		if a.LastSentAt.IsZero() {
			a.Answer = s.Answer
		}
		return
	}
	a.LastSentAt = later(a.LastSentAt, until)
	if s.maybeExecuted() {
		a.MaybeSends++
	}
	switch {
	case s.Answered() || a.Answer.Verdict == NotSent:
		a.Answer = s.Answer
	case a.Answer.Verdict == Running:
		// The answer "still running" allows the next send only: this one was that, and may itself have been executed.
		a.Answer.Verdict = Lost
	}
	switch s.Verdict {
	case Refused:
		a.refuse(Refusal{Verdict: Refused, Kept: s.Kept, BySend: true, Answer: s.Answer})
	case Rejected:
		a.refuse(Refusal{Verdict: Rejected, Answer: s.Answer})
	}
	if s.Charge != nil {
		a.learnAnswered(s, e)
	}
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
		r.Verdict == old.Verdict && r.Kept && !old.Kept ||
		r.Verdict == old.Verdict && r.Kept == old.Kept && r.Answer.Reason == ReasonVoided // the same end, and why
	bySend := old.BySend || r.BySend
	if stronger {
		a.Refusal = r
	}
	a.Refusal.BySend = bySend
}

// learnAnswered merges the charge that an answer to one of our sends holds.
func (a *Attempt) learnAnswered(s Send, e Evidence) {
	c := *s.Charge
	c.Answered = true
	a.learn(c, e, s.Kept)
}

// learn merges a charge into those known. What is final overrides what is not; success overrides failure, because money
// counts always; a failure after success is a reversal. kept: a failure of it speaks for every send under the key.
func (a *Attempt) learn(c Charge, e Evidence, kept bool) {
	told := c.Status
	i := slices.IndexFunc(a.Charges, func(k Charge) bool { return k.ID == c.ID })
	if i < 0 {
		c.SeenAt, c.ChangedAt, c.Refunded = e.At, time.Time{}, 0
		a.Charges = append(slices.Clip(a.Charges), c)
		a.NoneAskedAt = nil // the lookups that found nothing were wrong
	} else {
		known := a.Charges[i]
		c.Answered = c.Answered || known.Answered
		if outdated(known, told, e) {
			known.Answered = c.Answered
			c = known
		}
		c.FailedFirst = known.FailedFirst || known.Status == ChargeFailed && c.Status == ChargeSucceeded
		if known.Status == ChargeSucceeded && c.Status == ChargeFailed {
			c.Status = ChargeReversed
		}
		if c.ChangedAt = known.ChangedAt; c.Status != known.Status {
			c.ChangedAt = e.At
		}
		if !c.Amount.Valid() && (c.Status != ChargeSucceeded || known.Status == ChargeSucceeded || known.Status == ChargeReversed) {
			c.Amount = known.Amount // what was asked for or held before says nothing of what succeeded
		}
		if c.Amount != known.Amount && c.Amount.Valid() && known.Amount.Valid() && known.Status == ChargeSucceeded {
			// One of the two is wrong: a person looks. What was proven stays, and with it how much can be given back.
			a.owe(DutyReview, c, WhyDifferent, e.At)
			if known.Amount == a.Amount {
				c.Amount = known.Amount
			}
		}
		c.SeenAt, c.Refunded = known.SeenAt, known.Refunded
		a.Charges = slices.Clone(a.Charges)
		a.Charges[i] = c
	}
	if told == ChargeFailed && c.Status == ChargeFailed {
		why := ReasonDeclined
		if e.Kind == EvidenceSends && e.Answer != nil && e.Answer.Reason == ReasonVoided {
			why = ReasonVoided
		}
		a.refuse(Refusal{Verdict: Refused, Kept: kept, Answer: Answer{
			Verdict: Refused, Reason: why, ChargeID: c.ID, DeclineCode: c.DeclineCode,
		}})
	}
}

// outdated tells whether a report of a charge is older than what is known of it. News may be delivered late and twice, and an
// answer may be stored long after it was given: only a question asked since then can take back a success, or a reversal.
func outdated(known Charge, told ChargeStatus, e Evidence) bool {
	askedSince := e.Kind == EvidenceLookup && e.AskedAt.After(known.statusSince())
	switch known.Status {
	case ChargeReversed:
		return told != ChargeSucceeded || !askedSince
	case ChargeSucceeded:
		return told == ChargePending || told == ChargeFailed && !askedSince && (known.FailedFirst || e.Kind == EvidenceLookup)
	case ChargeFailed:
		return told == ChargePending
	}
	return false
}

// holdsNothing tells whether the provider holds nothing, as far as known, but charges that failed or are done with.
func (a *Attempt) holdsNothing() bool {
	return !slices.ContainsFunc(a.Charges, func(c Charge) bool { return c.Status != ChargeFailed && !a.doneWith(c) })
}

// doneWith tells whether a charge that is not the attempt's end keeps nothing open any more: it was given back in full, or it
// was decided about.
func (a *Attempt) doneWith(c Charge) bool {
	if c.refundedInFull() {
		return true
	}
	return c.Status == ChargeSucceeded && a.decidedHow(c, HowKept) || c.Status == ChargeReversed && a.decidedHow(c, HowDismissed)
}

// decidedHow tells whether a duty about a charge was met in that way.
func (a *Attempt) decidedHow(c Charge, how string) bool {
	return slices.ContainsFunc(a.Duties, func(d Duty) bool { return d.ChargeID == c.ID && d.How == how })
}

// learnNone keeps the last two times at which a lookup was asked that found nothing, at least the lag apart. Times that lie
// in the future are those of a clock that has run backwards since: they prove nothing.
func (a *Attempt) learnNone(asked, now time.Time, lag time.Duration) {
	nones := slices.DeleteFunc(slices.Clone(a.NoneAskedAt), func(t time.Time) bool { return t.After(now) })
	if n := len(nones); !asked.After(now) && (n == 0 || asked.After(nones[n-1]) && asked.Sub(nones[n-1]) >= lag) {
		nones = append(nones, asked)
	}
	a.NoneAskedAt = nones[max(0, len(nones)-2):]
}

// openDuties opens a duty for every charge that is not the attempt's own end, or that is no longer wanted, and closes those
// that have come to nothing.
func (a *Attempt) openDuties(now time.Time) {
	approved := a.Status == StatusApproved
	for _, c := range a.Charges {
		own := approved && c.ID == a.ChargeID
		if c.refundedInFull() {
			a.meetAll(c, now)
			continue
		}
		a.reopen(c)
		switch c.Status {
		case ChargeReversed:
			// Nothing is left to refund; whether the payer has the money twice now is for a person to see.
			a.meet(c, now, WhyLateMoney, HowGone)
			a.meet(c, now, WhyLatePending, HowGone)
			a.meet(c, now, WhyUnwanted, HowGone)
			a.owe(DutyReview, c, WhyReversed, now)
		case ChargeFailed:
			a.meet(c, now, WhyLatePending, HowGone)
		case ChargePending:
			if a.Status.Final() {
				a.owe(DutyReview, c, WhyLatePending, now)
			}
		case ChargeSucceeded:
			a.meet(c, now, WhyReversed, HowGone) // the provider says that it was none
			a.meet(c, now, WhyLatePending, HowGone)
			switch {
			case own && !a.UnwantedAt.IsZero():
				a.owe(DutyRefund, c, WhyUnwanted, now)
			case own && c.Amount == a.Amount:
			case own:
				a.owe(DutyReview, c, WhyDifferent, now)
			case approved:
				a.owe(DutyReview, c, WhySecondCharge, now)
			case a.Status.Final() && !a.UnwantedAt.IsZero() && a.decidedHow(c, HowKept):
				a.owe(DutyRefund, c, WhyUnwanted, now) // it was kept for an order that was cancelled since
			case a.Status.Final():
				kind := DutyRefund
				if a.IsRefund() {
					kind = DutyReview // more money has left than should have: nothing of ours brings it back
				}
				a.owe(kind, c, WhyLateMoney, now)
			case c.Amount.Valid() && c.Amount != a.Amount && !a.UnwantedAt.IsZero():
				a.owe(DutyRefund, c, WhyUnwanted, now)
			case c.Amount.Valid() && c.Amount != a.Amount:
				a.owe(DutyReview, c, WhyDifferent, now)
			}
		}
	}
}

// planDuty makes sure that somebody looks at an attempt that owes a refund, whoever has found the money and with whatever
// schedule.
func (a *Attempt) planDuty(now time.Time) {
	if len(a.Duties) == 0 || !a.NextCheckAt.IsZero() {
		return
	}
	if _, owed := a.refundDuty(); owed {
		a.NextCheckAt = now
	}
}

// owe opens a duty, once for each charge and reason. Money that a person is to look at anyway is not looked at twice, and
// money that goes back anyway is not owed twice.
func (a *Attempt) owe(kind DutyKind, c Charge, why string, now time.Time) {
	for i, d := range a.Duties {
		if d.ChargeID != c.ID {
			continue
		}
		if d.Why == why || why == WhySecondCharge && d.Why == WhyDifferent || d.How == HowKept && c.Status == ChargeSucceeded && why != WhyUnwanted {
			return
		}
		if why == WhyUnwanted && d.MetAt.IsZero() && d.Why != WhyReversed {
			if d.DecidedAt.IsZero() { // what a person would have looked at is surplus now
				a.Duties = slices.Clone(a.Duties)
				a.Duties[i].Kind = kind
			}
			return
		}
	}
	a.Duties = append(slices.Clip(a.Duties), Duty{Kind: kind, ChargeID: c.ID, Amount: c.Amount, Why: why, OpenedAt: now})
}

// meet closes a duty that has come to nothing.
func (a *Attempt) meet(c Charge, now time.Time, why, how string) {
	i := slices.IndexFunc(a.Duties, func(d Duty) bool { return d.ChargeID == c.ID && d.Why == why && d.MetAt.IsZero() })
	if i >= 0 {
		a.Duties = slices.Clone(a.Duties)
		a.Duties[i].MetAt, a.Duties[i].How = now, how
	}
}

// meetAll closes every duty about a charge of which nothing is left.
func (a *Attempt) meetAll(c Charge, now time.Time) {
	for _, d := range a.Duties {
		if d.ChargeID == c.ID && d.Why != WhyReversed {
			a.meet(c, now, d.Why, HowRefunded)
		}
	}
}

// reopen opens the duties again that a refund had met whose money has come back since, or that had gone with a charge which
// the provider holds after all.
func (a *Attempt) reopen(c Charge) {
	for i, d := range a.Duties {
		gone := d.How == HowGone && (d.Why == WhyLateMoney || d.Why == WhyUnwanted)
		if d.ChargeID == c.ID && (d.How == HowRefunded || gone) && c.Status == ChargeSucceeded {
			a.Duties = slices.Clone(a.Duties)
			a.Duties[i].MetAt, a.Duties[i].How = time.Time{}, ""
		}
	}
}

// fold judges all that is known of an attempt that has not ended.
func (a *Attempt) fold(e Evidence) {
	now := e.At
	if c, ok := a.ownCharge(); ok {
		if a.Status == StatusPrepared {
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
	why, held := a.held()
	unaccounted := a.MaybeSends + len(a.Claims)
	switch {
	case held:
		a.stayOpen(why, now)
	case a.keeps():
		a.end(StatusAbandoned, ReasonKept)
	case a.doneReason() != "" && unaccounted == 0:
		a.end(StatusAbandoned, a.doneReason())
	case e.Resolution != nil && e.Resolution.Kind == ResolvedNotCharged && a.holdsNothing():
		a.end(StatusAbandoned, ReasonResolved)
	case a.Refusal.Verdict == Refused && (a.Refusal.Kept || len(a.Claims) == 0 && a.MaybeSends <= a.failedAlone()):
		a.end(StatusDeclined, a.Refusal.Answer.Reason)
	case a.Refusal.Verdict == Rejected && unaccounted == 0:
		a.end(StatusRejected, a.Refusal.Answer.Reason)
	case a.Refusal.Verdict == Lost && unaccounted == 0:
		a.backToPrepared(e)
	case a.abandonable(e.Rule, now):
		a.end(StatusAbandoned, ReasonNotFound)
	default:
		a.stayOpen(a.openReason(), now)
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

// doneReason says how the charges ended that are done with; empty: there are none.
func (a *Attempt) doneReason() Reason {
	why := Reason("")
	for _, c := range a.Charges {
		switch {
		case c.refundedInFull():
			return ReasonRefunded
		case c.Status == ChargeReversed:
			why = ReasonResolved
		}
	}
	return why
}

// held tells whether the provider holds, or has held, a charge that keeps the attempt open, and why.
func (a *Attempt) held() (why Reason, ok bool) {
	if _, mismatch := a.mismatched(); mismatch {
		return ReasonMismatch, true
	}
	for _, c := range a.Charges {
		if a.doneWith(c) {
			continue
		}
		switch c.Status {
		case ChargeReversed:
			return ReasonReviewOwed, true
		case ChargeSucceeded: // without an amount
			why = ReasonUnreadable
		case ChargePending:
			if why == "" {
				why = ReasonPending
			}
		}
	}
	if why == ReasonPending && a.NextAction() != "" {
		why = ReasonPayerAction
	}
	return why, why != ""
}

// failedAlone counts the charges that failed and that no answer to a send speaks of: each accounts for one send without
// an answer of its own. None does once a send was answered with a decline, because that may be the same charge.
func (a *Attempt) failedAlone() int {
	n := 0
	for _, c := range a.Charges {
		if c.Status == ChargeFailed && !c.Answered && !a.Refusal.BySend {
			n++
		}
	}
	return n
}

func (a *Attempt) end(s Status, why Reason) {
	a.Status, a.Reason = s, why
	a.NextCheckAt = time.Time{}
}

func (a *Attempt) stayOpen(why Reason, now time.Time) {
	if why == "" || why == ReasonInFlight {
		why = ReasonClaimExpired
	}
	if a.Status == StatusPrepared || a.NextCheckAt.IsZero() && a.AskingEndedAt.IsZero() {
		a.NextCheckAt = now // nobody has planned a question yet
	}
	a.Status, a.Reason = StatusUnknown, why
}

// openReason says why an attempt is open. A decline is no reason for that: it is one that does not prove enough.
func (a *Attempt) openReason() Reason {
	if a.Reason == ReasonDeclined {
		return ReasonUnproven
	}
	return a.Reason
}

func (a *Attempt) backToPrepared(e Evidence) {
	if a.Status == StatusPrepared && e.Rule != nil && e.Rule.PreparedAfter > 0 && e.At.Sub(a.CreatedAt) >= e.Rule.PreparedAfter {
		a.end(StatusAbandoned, ReasonNeverSent)
		return
	}
	if a.Status != StatusPrepared {
		a.Reason = ReasonNotSent
	}
	if a.NextCheckAt.IsZero() {
		a.NextCheckAt = e.At
	}
	a.Status, a.AskingEndedAt = StatusPrepared, time.Time{}
}

// abandonable holds the rule for abandoning. A claim without a recorded end counts by its deadline.
func (a *Attempt) abandonable(r *AbandonRule, now time.Time) bool {
	if r == nil || r.After <= 0 || !a.holdsNothing() {
		return false
	}
	last := a.LastPossibleSend()
	if last.IsZero() || now.Sub(last) < r.After || len(a.NoneAskedAt) < 2 {
		return false
	}
	// The last answer is of no use where it is old: everybody who could have asked again may have stood still since.
	first, second := a.NoneAskedAt[0], a.NoneAskedAt[1]
	return first.Sub(last) > r.Lag && second.Sub(first) >= r.Lag && second.Sub(last) >= r.After && !second.After(now)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// without returns the claims without the i-th, and leaves the slice as it was: others may hold it.
func without(claims []Claim, i int) []Claim {
	if len(claims) == 1 {
		return nil
	}
	return slices.Delete(slices.Clone(claims), i, i+1)
}

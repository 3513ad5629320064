package attempt

import (
	"slices"
	"time"
)

// Resend is what a provider declares about keys: it decides whether an attempt of which a request may have been executed
// may be sent once more.
type Resend struct {
	// KeepsEveryAnswer: the provider stores every answer under the key, refusals and failures too, and repeats it.
	// False also where the provider knows no keys.
	KeepsEveryAnswer bool
	// Retention is how long the provider keeps a key, counted from the first send; zero: not known, which is no time at all.
	Retention time.Duration
	// Margin is taken off the retention, for clocks that differ.
	Margin time.Duration
}

// Allows tells whether another request may leave under a key. maybe counts the sends that may have been executed,
// running says that the last answer was that the first one is still running, and the request may take until now+span.
// A clock that stands before the first claim cannot tell the key's age: then no.
func (r Resend) Allows(maybe int, running bool, firstClaim, now time.Time, span time.Duration) bool {
	if maybe == 0 {
		return true
	}
	if now.Before(firstClaim) {
		return false
	}
	inTime := !now.Add(span).After(firstClaim.Add(r.Retention - r.Margin))
	return inTime && (r.KeepsEveryAnswer || running)
}

// maySend is [Attempt.MaySend] in a view: not where the store has known a later time than its clock now tells, because then
// nobody can tell how old a key is.
func (v View) maySend(a Attempt, r Resend, span time.Duration) bool {
	setBack := v.Now.Add(r.Margin).Before(v.Latest)
	if setBack && a.MaybeSends+len(a.Claims) > 0 {
		return false
	}
	return a.MaySend(r, v.Now, span)
}

// MaySend tells whether a claim for sending may be given: never beside a claim that runs, after an end, where the provider
// holds a charge or knows the key with another body; at once where nothing can have been executed; else as the provider's
// rules allow, and not on a clock that has run backwards further than the rules' margin.
func (a Attempt) MaySend(r Resend, now time.Time, span time.Duration) bool {
	if a.Status.Final() || len(a.Charges) > 0 || !a.ClaimedUntil(now).IsZero() {
		return false
	}
	if a.Refusal.Verdict == Refused && (a.Refusal.Kept || !r.KeepsEveryAnswer) {
		return false // the answer is known already: another send could only contradict it
	}
	if a.Answer.Verdict == KeyReused {
		return false // and so would the next answer say
	}
	maybe := a.MaybeSends + len(a.Claims)
	if maybe > 0 && now.Add(r.Margin).Before(a.UpdatedAt) {
		return false // nobody can tell how old the key is
	}
	// A claim without a recorded end may have sent after the answer that the first request is still running.
	running := a.Answer.Verdict == Running && len(a.Claims) == 0
	return r.Allows(maybe, running, a.FirstClaimAt, now, span)
}

// Grant gives the claim to send, until now+lasts. The caller has made sure by MaySend that it may be given. firstCheck is
// when the reconciler asks at the latest, should the sender never come back.
func (a Attempt) Grant(now time.Time, lasts, firstCheck time.Duration) Attempt {
	a.Fence++
	a.Claims = append(slices.Clip(a.Claims), Claim{Fence: a.Fence, Until: now.Add(lasts)})
	if a.FirstClaimAt.IsZero() {
		a.FirstClaimAt = now
	}
	first := now.Add(max(firstCheck, lasts))
	if a.Status == StatusPrepared || a.NextCheckAt.IsZero() || first.Before(a.NextCheckAt) {
		a.NextCheckAt = first
	}
	a.Status, a.Reason = StatusSending, ReasonInFlight
	a.UpdatedAt = later(a.UpdatedAt, now)
	return a
}

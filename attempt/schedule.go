package attempt

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"
)

// Schedule plans when an attempt is to be looked at next. It is derived from what a client declares, and is the same for the
// client and for whoever reconciles, so that a crash of either leaves work and not a hole. The zero Schedule is that of
// DefaultSchedule's waits with no abandoning.
type Schedule struct {
	// First is when the provider is asked first, counted from the claim.
	First time.Duration
	// Waits are the times between the questions that follow; the last one repeats. Empty: 1 m, 5 m, 15 m, 1 h, 3 h, 6 h, 12 h,
	// 24 h. Each is prolonged by up to a tenth, by chance, so that what failed together is not asked about together.
	Waits []time.Duration
	// AskFor is after how long, counted from the last moment at which a request may have left, asking ends: the attempt
	// stays open for evidence of another kind. Zero: 7 days.
	AskFor time.Duration
	// WatchFor is how long an attempt that has ended without money, although a request may have been executed, is still
	// asked about, ever more rarely. Zero: 30 days. Negative: not at all.
	WatchFor time.Duration
	// Grace is how long a refund duty waits before the refund is made. Zero: at once.
	Grace time.Duration
	// Rule is the rule for abandoning.
	Rule AbandonRule
	// CannotAsk: the provider cannot be asked by reference. Nothing is planned but what time alone decides.
	CannotAsk bool
	// LateApprovals: the provider may approve what it has declined.
	LateApprovals bool
}

var defaultWaits = []time.Duration{
	time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// Defaults of a schedule.
const (
	DefaultAskFor   = 7 * 24 * time.Hour
	DefaultWatchFor = 30 * 24 * time.Hour
)

// least is the shortest time in which anything is looked at again.
const least = time.Second

// plan sets NextCheckAt and ends the asking when it is time. due says that the attempt was taken as due, so that its next
// look has to be planned anew; else only what a change of status brings with it is planned.
func (s *Schedule) plan(a *Attempt, now time.Time, due bool) {
	switch {
	case a.Status.Final():
		a.NextCheckAt = s.afterEnd(a, now, due)
	case a.Status == StatusPrepared:
		if due && s.Rule.PreparedAfter > 0 {
			a.NextCheckAt = later(a.CreatedAt.Add(s.Rule.PreparedAfter), now.Add(least))
		} else if due {
			a.NextCheckAt = time.Time{}
		}
	case !due:
	case !a.ClaimedUntil(now).IsZero():
		a.NextCheckAt = a.ClaimedUntil(now)
	case s.CannotAsk || now.Sub(a.LastPossibleSend()) >= cmp.Or(s.AskFor, DefaultAskFor) && !s.couldAbandonAt(a).After(now):
		a.NextCheckAt = time.Time{}
		if a.AskingEndedAt.IsZero() {
			a.AskingEndedAt = now
		}
	default:
		a.NextCheckAt = s.nextQuestion(a, now)
	}
	if open, ok := a.refundDuty(); ok && !a.Status.Final() { // of an unwanted attempt with a charge that differs
		if at := s.dutyAt(open, now, due); a.NextCheckAt.IsZero() || at.Before(a.NextCheckAt) {
			a.NextCheckAt = at
		}
	}
}

// nextQuestion returns when to ask next: by the waits, and never later than the moment at which the rule for abandoning
// could first hold.
func (s *Schedule) nextQuestion(a *Attempt, now time.Time) time.Time {
	wait := s.waitAt(now.Sub(later(a.LastPossibleSend(), a.CreatedAt)))
	next := now.Add(max(wait, least) + spread(a.ID, a.Asks, wait))
	at := s.couldAbandonAt(a)
	switch {
	case at.IsZero():
	case !at.After(now):
		// The question that could have ended it has failed: the next one comes as late as that is ago, and soon at first.
		at = now.Add(max(now.Sub(at), time.Minute))
		fallthrough
	default:
		next = earlier(next, at)
	}
	return next
}

// waitAt returns the wait after a question, by how long ago a request may have left last: whoever else has asked meanwhile, a
// customer who looks again and again for instance, makes no question come later.
func (s *Schedule) waitAt(age time.Duration) time.Duration {
	waits := s.Waits
	if len(waits) == 0 {
		waits = defaultWaits
	}
	passed := s.First
	for _, wait := range waits {
		if passed += wait; age < passed {
			return wait
		}
	}
	return waits[len(waits)-1]
}

// couldAbandonAt returns when the next question should be asked for the rule for abandoning to hold as early as it can; zero:
// it cannot.
func (s *Schedule) couldAbandonAt(a *Attempt) time.Time {
	last := a.LastPossibleSend()
	if s.Rule.After <= 0 || last.IsZero() || !a.holdsNothing() {
		return time.Time{}
	}
	counts := last.Add(s.Rule.Lag + time.Microsecond) // the first moment at which "none" counts
	for _, asked := range a.NoneAskedAt {
		if !asked.Before(counts) {
			return later(last.Add(s.Rule.After), asked.Add(s.Rule.Lag))
		}
	}
	return later(counts, last.Add(s.Rule.After-s.Rule.Lag))
}

// afterEnd returns when an attempt that has ended is looked at again; zero: never.
func (s *Schedule) afterEnd(a *Attempt, now time.Time, due bool) time.Time {
	var next time.Time
	if d, owed := a.refundDuty(); owed {
		next = s.dutyAt(d, now, due)
	}
	if at := s.watchAt(a, now, due); !at.IsZero() && (next.IsZero() || at.Before(next)) {
		next = at
	}
	return next
}

// dutyAt returns when a refund duty is to be paid, or to be tried again: ever more rarely, once a day at least.
func (s *Schedule) dutyAt(d Duty, now time.Time, due bool) time.Time {
	at := d.OpenedAt.Add(s.Grace)
	if due && !at.After(now) {
		at = now.Add(min(max(now.Sub(at)/2, time.Minute), 24*time.Hour))
	}
	return at
}

// watchAt returns when an attempt that has ended without money is asked about once more; zero: never.
func (s *Schedule) watchAt(a *Attempt, now time.Time, due bool) time.Time {
	if !s.Watches(*a) {
		return time.Time{}
	}
	age := max(now.Sub(a.LastPossibleSend()), 0)
	if !due && a.reversedByHearsay() {
		return now
	}
	if age >= cmp.Or(s.WatchFor, DefaultWatchFor) {
		return time.Time{}
	}
	wait := min(max(age/2, time.Hour), 3*24*time.Hour)
	return now.Add(wait + spread(a.ID, a.Asks, wait))
}

// Watches tells whether an attempt that has ended is to be asked about all the same, because money may still turn up: a send
// may have been executed of which nobody knows the end, a charge was not final when the attempt ended, or was taken back as far
// as was heard, or the provider approves late.
func (s *Schedule) Watches(a Attempt) bool {
	if s.CannotAsk || s.WatchFor < 0 || !a.Status.Final() {
		return false
	}
	for _, c := range a.Charges {
		if c.Status == ChargePending || c.Status == ChargeReversed {
			return true
		}
	}
	if a.Status == StatusApproved || a.LastPossibleSend().IsZero() {
		return false
	}
	return a.MaybeSends > 0 || len(a.Claims) > 0 || s.LateApprovals
}

// reversedByHearsay tells whether a charge was taken back as far as was heard: news may come in any order, so the provider is
// asked at once.
func (a *Attempt) reversedByHearsay() bool {
	return slices.ContainsFunc(a.Charges, func(c Charge) bool { return c.Status == ChargeReversed && c.ChangedAt.Equal(a.UpdatedAt) })
}

// refundDuty returns the first open refund duty.
func (a *Attempt) refundDuty() (Duty, bool) {
	for _, d := range a.Duties {
		if d.Kind == DutyRefund && d.MetAt.IsZero() {
			return d, true
		}
	}
	return Duty{}, false
}

// spread returns up to a tenth of a wait, by chance: the same for the same attempt and question.
func spread(id string, n int, wait time.Duration) time.Duration {
	if wait < 10 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	_, _ = h.Write([]byte{byte(n), byte(n >> 8)})
	return time.Duration(h.Sum64() % uint64(wait/10)).Truncate(time.Microsecond) //nolint:gosec // below wait/10
}

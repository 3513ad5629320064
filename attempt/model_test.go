package attempt_test

import (
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// model is a second opinion on an attempt: it keeps the whole history and judges it anew each time, from the rules in
// docs/state-machine.md and not from the code. It shares with the code only the names of verdicts and statuses.
type model struct {
	asked   money.Amount
	created time.Time
	status  attempt.Status
	chosen  string // the charge that approved

	granted map[int]time.Time // deadline by fence
	ended   map[int]endOfClaim
	top     int // highest fence ever seen

	charges map[string]*seenCharge
	order   []string // charge ids as first seen
	refusal struct{ bySend, keptBySend, rejected, keptCharge bool }
	nones   []time.Time
	owed    map[string]bool // charge ids about which a duty must have been opened
}

type endOfClaim struct {
	at    time.Time
	sends []attempt.Send
}

type seenCharge struct {
	succeeded, failed, reversed, pendingOnly bool
	answered                                 bool
	firstSeen, changed                       time.Time
	amount                                   money.Amount // as last told
}

func newModel(a attempt.Attempt) *model {
	return &model{
		asked: a.Amount, created: a.CreatedAt, status: attempt.StatusPrepared,
		granted: map[int]time.Time{}, ended: map[int]endOfClaim{}, charges: map[string]*seenCharge{}, owed: map[string]bool{},
	}
}

func (m *model) grant(fence int, until time.Time) {
	m.granted[fence], m.top, m.status = until, max(m.top, fence), attempt.StatusSending
}

// learn takes evidence and returns the verdict; abandonOK says that an abandonment would be right now too.
func (m *model) learn(e attempt.Evidence) (abandonOK bool) {
	wasPrepared := m.status == attempt.StatusPrepared
	if e.Kind == attempt.EvidenceSends {
		m.learnSends(e)
	}
	for _, c := range e.Charges {
		m.learnCharge(c, e.KeepsAnswers, false, e)
	}
	if e.Kind == attempt.EvidenceLookup {
		empty := e.Lookup == attempt.LookupNone || e.Lookup == attempt.LookupFound && len(m.charges) > 0
		if empty && e.Rule != nil && m.holdsNothing() && !e.AskedAt.After(e.At) {
			m.nones = append(m.nones, e.AskedAt)
		}
	}
	final := m.status.Final()
	if !final {
		abandonOK = m.judge(e, wasPrepared)
	}
	m.noteDuties(final, wasPrepared)
	return abandonOK
}

func (m *model) learnSends(e attempt.Evidence) {
	_, known := m.granted[e.Fence]
	if _, over := m.ended[e.Fence]; over || !known && e.Fence <= m.top {
		for _, s := range e.Sends { // a repeated record: only what it says of charges is heard again
			if s.Charge != nil {
				m.learnCharge(*s.Charge, s.Kept, true, e)
			}
		}
		return
	}
	m.ended[e.Fence], m.top = endOfClaim{e.At, e.Sends}, max(m.top, e.Fence)
	for _, s := range e.Sends {
		switch s.Verdict {
		case attempt.Refused:
			m.refusal.bySend = true
			m.refusal.keptBySend = m.refusal.keptBySend || s.Kept
		case attempt.Rejected:
			m.refusal.rejected = true
		}
		if s.Charge != nil && s.Verdict != attempt.NotSent {
			m.learnCharge(*s.Charge, s.Kept, true, e)
		}
	}
}

func (m *model) learnCharge(c attempt.Charge, kept, answered bool, e attempt.Evidence) {
	k := m.charges[c.ID]
	if k == nil {
		k = &seenCharge{pendingOnly: true, firstSeen: e.At}
		m.charges[c.ID] = k
		m.order = append(m.order, c.ID)
		m.nones = nil
	}
	k.answered = k.answered || answered
	lookup := e.Kind == attempt.EvidenceLookup
	askedSince := lookup && e.AskedAt.After(latest(k.firstSeen, k.changed))
	proven := k.succeeded && !k.reversed && k.amount == m.asked
	switch {
	case k.reversed:
		if c.Status != attempt.ChargeSucceeded || !askedSince {
			return // only a question asked since then takes a reversal back
		}
		k.reversed, k.succeeded, k.changed = false, true, e.At // what was taken back had succeeded
	case c.Status == attempt.ChargePending && !k.pendingOnly:
		return // news from before what is known
	case c.Status == attempt.ChargeFailed && k.succeeded && (k.failed || lookup) && !askedSince:
		return // a failure known before the success, or an answer older than it
	}
	if c.Amount.Valid() && !proven { // what was proven stays
		k.amount = c.Amount
	}
	switch c.Status {
	case attempt.ChargeSucceeded:
		if !c.Amount.Valid() && !k.succeeded {
			k.amount = c.Amount
		}
		if !k.succeeded && !k.firstSeen.Equal(e.At) {
			k.changed = e.At
		}
		k.succeeded, k.pendingOnly = true, false
	case attempt.ChargeReversed:
		if !k.firstSeen.Equal(e.At) {
			k.changed = e.At
		}
		k.reversed, k.pendingOnly = true, false
	case attempt.ChargeFailed:
		if k.pendingOnly && !k.firstSeen.Equal(e.At) {
			k.changed = e.At
		}
		k.pendingOnly = false
		if k.succeeded {
			k.reversed, k.changed = true, e.At
		} else {
			k.failed = true
			m.refusal.keptCharge = m.refusal.keptCharge || kept
		}
	}
}

func (k *seenCharge) onlyFailed() bool { return k.failed && !k.succeeded && !k.reversed }

// holdsNothing: no charge that is, was or may become money.
func (m *model) holdsNothing() bool {
	for _, k := range m.charges {
		if !k.onlyFailed() {
			return false
		}
	}
	return true
}

// facts counts over everything recorded.
func (m *model) facts(now time.Time) (running bool, unrecorded, maybe int, last time.Time) {
	for fence, until := range m.granted {
		if _, over := m.ended[fence]; over {
			continue
		}
		unrecorded++
		running = running || until.After(now)
		last = latest(last, until)
	}
	for fence, end := range m.ended {
		for _, s := range end.sends {
			if s.Verdict == attempt.NotSent {
				continue
			}
			at := end.at
			if until, known := m.granted[fence]; known && until.Before(at) {
				at = until
			}
			last = latest(last, at)
			accounted := s.Verdict == attempt.Refused || s.Verdict == attempt.Rejected ||
				s.Charge != nil && (s.Verdict == attempt.Charged || s.Verdict == attempt.Violated)
			if !accounted {
				maybe++
			}
		}
	}
	return running, unrecorded, maybe, last
}

// judge is the rules, in their order of weight.
func (m *model) judge(e attempt.Evidence, wasPrepared bool) (abandonOK bool) {
	for _, id := range m.order {
		if k := m.charges[id]; k.succeeded && !k.reversed && k.amount == m.asked {
			m.status, m.chosen = attempt.StatusApproved, id
			return false
		}
	}
	running, unrecorded, maybe, last := m.facts(e.At)
	failed := 0
	anyFailed := false
	for _, k := range m.charges {
		if k.onlyFailed() {
			anyFailed = true
			if !k.answered {
				failed++
			}
		}
	}
	if m.refusal.bySend {
		failed = 0
	}
	declined := m.refusal.bySend || anyFailed
	kept := m.refusal.keptBySend || m.refusal.keptCharge
	nothing := m.holdsNothing()
	switch {
	case running:
		m.status = attempt.StatusSending
	case nothing && declined && kept:
		m.status = attempt.StatusDeclined
	case nothing && declined && unrecorded == 0 && maybe <= failed:
		m.status = attempt.StatusDeclined
	case nothing && !declined && m.refusal.rejected && unrecorded+maybe == 0:
		m.status = attempt.StatusRejected
	case nothing && !declined && unrecorded+maybe == 0:
		m.status = attempt.StatusPrepared
		if r := e.Rule; wasPrepared && r != nil && r.PreparedAfter > 0 && e.At.Sub(m.created) >= r.PreparedAfter {
			m.status = attempt.StatusAbandoned
		}
	default:
		m.status = attempt.StatusUnknown
		return nothing && m.mayAbandon(e.Rule, e.At, last)
	}
	return false
}

// mayAbandon is the rule over all answers ever recorded: any two of them may do.
func (m *model) mayAbandon(r *attempt.AbandonRule, now, last time.Time) bool {
	if r == nil || r.After <= 0 || last.IsZero() || now.Sub(last) < r.After {
		return false
	}
	for _, one := range m.nones {
		for _, two := range m.nones {
			if one.Sub(last) > r.Lag && two.After(one) && two.Sub(one) >= r.Lag && !two.After(now) {
				return true
			}
		}
	}
	return false
}

// noteDuties notes the charges about which somebody must have been told by now.
func (m *model) noteDuties(final, wasPrepared bool) {
	for id, k := range m.charges {
		switch {
		case k.reversed:
			m.owed[id] = true
		case m.status == attempt.StatusApproved && id == m.chosen:
			if wasPrepared || k.succeeded && k.amount != m.asked {
				m.owed[id] = true
			}
		case k.succeeded && (k.amount.Valid() || m.status.Final()):
			m.owed[id] = true
		case k.pendingOnly && final && m.status != attempt.StatusApproved:
			m.owed[id] = true
		}
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

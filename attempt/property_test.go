package attempt_test

import (
	"flag"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/chargeonce/chargeonce/attempt"
)

var chargeIDs = []string{"ch_1", "ch_2", "ch_3", ""}

// check is rapid.Check with more histories than its default: they are short, and some ends are rare.
func check(t *testing.T, prop func(*rapid.T)) {
	t.Helper()
	const name = "rapid.checks"
	if f := flag.Lookup(name); f != nil && f.Value.String() == f.DefValue {
		if err := flag.Set(name, "2000"); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = flag.Set(name, f.DefValue) }()
	}
	rapid.Check(t, prop)
}

func drawCharge(t *rapid.T, label string) attempt.Charge {
	c := attempt.Charge{
		ID:     rapid.SampledFrom(chargeIDs).Draw(t, label+" id"),
		Status: rapid.SampledFrom([]attempt.ChargeStatus{attempt.ChargePending, attempt.ChargeSucceeded, attempt.ChargeSucceeded, attempt.ChargeFailed, attempt.ChargeFailed, attempt.ChargeReversed}).Draw(t, label+" status"),
	}
	switch rapid.IntRange(0, 5).Draw(t, label+" amount") {
	case 0:
		c.Amount = lessMoney
	case 1: // not told
	default:
		c.Amount = asked
	}
	return c
}

func drawSend(t *rapid.T, label string) attempt.Send {
	s := sent(rapid.SampledFrom([]attempt.Verdict{
		attempt.Lost, attempt.Lost, attempt.NotSent, attempt.NotSent, attempt.Charged, attempt.Refused, attempt.Rejected,
		attempt.Running, attempt.Unavailable, attempt.Violated, attempt.KeyReused,
	}).Draw(t, label), "", 0)
	switch s.Verdict {
	case attempt.Charged, attempt.Refused:
		s.Kept = rapid.Bool().Draw(t, label+" kept")
	}
	withCharge := rapid.Bool().Draw(t, label+" names a charge")
	switch s.Verdict {
	case attempt.Charged:
		if withCharge {
			c := drawCharge(t, label+" charge")
			s.Charge = &c
		}
	case attempt.Violated:
		if withCharge {
			c := drawCharge(t, label+" charge")
			c.Amount = lessMoney
			s.Charge = &c
		}
	case attempt.Refused:
		if withCharge {
			c := failed(rapid.SampledFrom(chargeIDs).Draw(t, label+" charge id"))
			s.Charge = &c
		}
	}
	if s.Answered() {
		s.StatusCode = 400
	}
	return s
}

func drawSends(t *rapid.T, label string) []attempt.Send {
	n := rapid.IntRange(0, 4).Draw(t, label+" sends")
	sends := make([]attempt.Send, 0, n)
	for i := range n {
		sends = append(sends, drawSend(t, fmt.Sprintf("%s send %d", label, i+1)))
	}
	return sends
}

func drawCharges(t *rapid.T, label string, least int) []attempt.Charge {
	n := rapid.IntRange(least, 2).Draw(t, label+" charges")
	charges := make([]attempt.Charge, 0, n)
	for i := range n {
		c := drawCharge(t, fmt.Sprintf("%s charge %d", label, i+1))
		if !slices.ContainsFunc(charges, func(k attempt.Charge) bool { return k.ID == c.ID }) {
			charges = append(charges, c)
		}
	}
	return charges
}

var steps = []time.Duration{
	0, time.Microsecond, time.Second, 5 * time.Second, claimLasts, 30 * time.Second, time.Minute, 10 * time.Minute, 31 * time.Minute,
	3 * time.Hour, 25 * time.Hour, -time.Second, -time.Minute, -2 * time.Hour,
}

// Whatever happens to an attempt, in whatever order: the model, which judges the whole history anew, comes to the same
// verdict, only legal moves are made, nothing about money is lost, and nothing is told that is not so.
func TestProperty_AnyHistory(t *testing.T) {
	reached := map[attempt.Status]int{}
	check(t, func(t *rapid.T) {
		a, now := newAttempt(1), epoch
		m := newModel(a)
		var past []attempt.Evidence
		length := rapid.IntRange(1, 25).Draw(t, "length")
		for i := range length {
			label := fmt.Sprintf("%d", i+1)
			now = now.Add(rapid.SampledFrom(steps).Draw(t, label+" waits"))
			e := attempt.Evidence{At: now}
			switch what := rapid.IntRange(0, 10).Draw(t, label+" what"); what {
			case 0, 1, 2: // a claim, also where the rules would forbid it
				if a.Status.Final() || !a.ClaimedUntil(now).IsZero() {
					continue
				}
				before := a
				a = a.Grant(now, claimLasts, firstCheck)
				a.Version++
				m.grant(a.Fence, now.Add(claimLasts))
				checkStep(t, before, a, now)
				continue
			case 3, 4: // a claim's end, of any that is without
				e.Kind = attempt.EvidenceSends
				if len(a.Claims) == 0 {
					continue
				}
				e.Fence = rapid.SampledFrom(a.Claims).Draw(t, label+" ends").Fence
				e.Sends = drawSends(t, label)
			case 5, 6:
				e.Kind, e.AskedAt = attempt.EvidenceLookup, now.Add(-rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(t, label+" asked before"))
				e.Lookup = rapid.SampledFrom([]attempt.LookupAnswer{attempt.LookupNone, attempt.LookupNone, attempt.LookupFound, attempt.LookupUnreadable, attempt.LookupNotAsked}).Draw(t, label+" answer")
				if e.Lookup == attempt.LookupFound {
					e.Charges = drawCharges(t, label, 0)
				}
				if rapid.IntRange(0, 3).Draw(t, label+" ruled") > 0 {
					e.Rule = usualRule
				}
				e.KeepsAnswers = rapid.Bool().Draw(t, label+" keeps")
			case 7:
				e.Kind, e.Charges = attempt.EvidenceWebhook, drawCharges(t, label, 1)
				e.KeepsAnswers = rapid.Bool().Draw(t, label+" keeps")
			case 8:
				e.Kind, e.Charges = attempt.EvidenceSettlement, drawCharges(t, label, 1)
			case 9:
				e.Kind, e.Rule = attempt.EvidenceTime, usualRule
			case 10: // something is delivered or written twice, or a claim's commit was lost
				if len(past) > 0 && rapid.Bool().Draw(t, label+" again") {
					e = rapid.SampledFrom(past).Draw(t, label+" repeats")
					e.At = now
				} else if rapid.IntRange(0, 4).Draw(t, label+" lost commit") == 0 {
					e.Kind, e.Fence, e.Sends = attempt.EvidenceSends, a.Fence+1, drawSends(t, label)
				} else {
					e.Kind = attempt.EvidenceTime
				}
			}
			past = append(past, e)

			before := deepCopy(a)
			abandonOK := m.learn(e)
			after, duties := attempt.Next(a, e)
			if !reflect.DeepEqual(before, deepCopy(a)) {
				t.Fatalf("Next changed the attempt it was given")
			}
			checkStep(t, a, after, now)
			if after.Status == attempt.StatusAbandoned && m.status == attempt.StatusUnknown && abandonOK {
				m.status = attempt.StatusAbandoned // the code may ask once more than the rule needs, never less
			}
			if after.Status != m.status {
				t.Fatalf("%s after %+v\nthe model says %s: %+v\nattempt %+v", after.Status, e, m.status, m, after)
			}
			if after.Status == attempt.StatusApproved && after.ChargeID != m.chosen {
				t.Fatalf("approved by %q, the model says %q", after.ChargeID, m.chosen)
			}
			for id := range m.owed {
				if !slices.ContainsFunc(after.Duties, func(d attempt.Duty) bool { return d.ChargeID == id }) {
					t.Fatalf("nobody was told of charge %q: %+v", id, after)
				}
			}
			if len(after.Duties)-len(a.Duties) != len(duties) {
				t.Fatalf("%d duties returned, %d are new", len(duties), len(after.Duties)-len(a.Duties))
			}
			for i, d := range a.Duties {
				now := after.Duties[i]
				if now.MetAt.IsZero() {
					now.MetAt = d.MetAt
				}
				d.MetAt = now.MetAt
				if d.How == "" {
					d.How = now.How
				}
				if now.How == "" { // open again
					now.How = d.How
				}
				if now != d {
					t.Fatalf("a duty was rewritten: %+v, %+v", a.Duties[i], after.Duties[i])
				}
			}
			// The same evidence once more adds nothing.
			again, more := attempt.Next(after, e)
			if again.Status != after.Status || len(more) > 0 || again.MaybeSends != after.MaybeSends || again.Sends != after.Sends ||
				!reflect.DeepEqual(again.Claims, after.Claims) || !reflect.DeepEqual(again.NoneAskedAt, after.NoneAskedAt) ||
				again.Tell(now) != after.Tell(now) || !reflect.DeepEqual(again.Charges, after.Charges) {
				t.Fatalf("repeated evidence counts twice: %+v\nonce  %+v\ntwice %+v", e, after, again)
			}
			a = after
		}
		reached[a.Status]++
	})
	for _, s := range attempt.Statuses() {
		if reached[s] == 0 {
			t.Errorf("no history ended as %s: the test does not test", s)
		}
	}
}

func checkStep(t *rapid.T, before, after attempt.Attempt, now time.Time) {
	if !attempt.CanMove(before.Status, after.Status) {
		t.Fatalf("moved from %s to %s", before.Status, after.Status)
	}
	if before.Status.Final() && (after.Status != before.Status || after.Reason != before.Reason || after.ChargeID != before.ChargeID) {
		t.Fatalf("an end was changed: %s (%s), %s (%s)", before.Status, before.Reason, after.Status, after.Reason)
	}
	if want := latest(before.UpdatedAt, now); !after.UpdatedAt.Equal(want) {
		t.Fatalf("updated at %v, want %v", after.UpdatedAt, want)
	}
	checkAlways(t, after, now)
	if after.Status.Final() && after.MaySend(keepsAll, now, 0) {
		t.Fatalf("may be sent although %s", after.Status)
	}
	if after.MaySend(keepsNone, now, 0) && after.MaybeSends+len(after.Claims) > 0 && after.Answer.Verdict != attempt.Running {
		t.Fatalf("may be sent twice at a provider that keeps nothing: %+v", after)
	}
}

// The same evidence in any order comes to the same, once all claims have ended, unless a duty tells somebody to look.
func TestProperty_AnyOrder(t *testing.T) {
	check(t, func(t *rapid.T) {
		claims := rapid.IntRange(1, 3).Draw(t, "claims")
		var all []attempt.Evidence
		for fence := 1; fence <= claims; fence++ {
			all = append(all, attempt.Evidence{
				Kind: attempt.EvidenceSends, Fence: fence, Sends: drawSends(t, fmt.Sprintf("claim %d", fence)),
			})
		}
		for i := range rapid.IntRange(0, 4).Draw(t, "reports") {
			label := fmt.Sprintf("report %d", i+1)
			all = append(all, attempt.Evidence{
				Kind:    rapid.SampledFrom([]attempt.EvidenceKind{attempt.EvidenceWebhook, attempt.EvidenceSettlement, attempt.EvidenceLookup}).Draw(t, label),
				Charges: drawCharges(t, label, 1), Lookup: attempt.LookupFound, KeepsAnswers: rapid.Bool().Draw(t, label+" keeps"),
			})
		}
		end := func(order []attempt.Evidence, gap time.Duration) attempt.Attempt {
			a, now := newAttempt(1), epoch
			for range claims {
				a = a.Grant(now, claimLasts, firstCheck)
			}
			for _, e := range order {
				now = now.Add(gap)
				e.At = now
				a, _ = attempt.Next(a, e)
			}
			a, _ = attempt.Next(a, attempt.Evidence{Kind: attempt.EvidenceTime, At: now.Add(time.Hour)})
			return a
		}
		gaps := []time.Duration{time.Second, time.Minute}
		one := end(all, rapid.SampledFrom(gaps).Draw(t, "gap"))
		shuffled := rapid.Permutation(all).Draw(t, "order")
		two := end(shuffled, rapid.SampledFrom(gaps).Draw(t, "other gap"))
		if len(one.Duties)+len(two.Duties) > 0 {
			return
		}
		if kindOfEnd(one) != kindOfEnd(two) {
			t.Fatalf("%s (%s) in one order, %s (%s) in another", one.Status, one.Reason, two.Status, two.Reason)
		}
		if one.MaybeSends != two.MaybeSends || one.Sends != two.Sends {
			t.Fatalf("%d of %d sends in one order, %d of %d in another", one.MaybeSends, one.Sends, two.MaybeSends, two.Sends)
		}
	})
}

// kindOfEnd is what must not depend on the order: whether money moved, and whether that is settled.
func kindOfEnd(a attempt.Attempt) string {
	switch a.Status {
	case attempt.StatusDeclined, attempt.StatusRejected:
		return "ended without money"
	}
	return a.Status.String()
}

// A reconciler that asks often enough settles every attempt whose request never arrived: nothing is open for ever.
func TestProperty_NeverStuck(t *testing.T) {
	check(t, func(t *rapid.T) {
		a, now := newAttempt(1), epoch
		claims := rapid.IntRange(1, 3).Draw(t, "claims")
		for range claims {
			a = a.Grant(now, claimLasts, firstCheck)
			now = now.Add(claimLasts)
		}
		for fence := 1; fence <= claims; fence++ {
			if rapid.Bool().Draw(t, "recorded") {
				sends := drawSends(t, "claim")
				for i := range sends {
					sends[i].Charge = nil
				}
				a, _ = attempt.Next(a, attempt.Evidence{Kind: attempt.EvidenceSends, At: now, Fence: fence, Sends: sends})
			}
		}
		var shown []attempt.Charge // some providers list charges that failed, some do not
		if rapid.Bool().Draw(t, "a failed charge") {
			shown = []attempt.Charge{failed("ch_1")}
		}
		unanswered := 0
		for range 40 {
			if a.Status.Final() {
				break
			}
			now = now.Add(rapid.SampledFrom([]time.Duration{2 * time.Minute, 7 * time.Minute, time.Hour}).Draw(t, "asks after"))
			e := attempt.Evidence{Kind: attempt.EvidenceLookup, At: now, AskedAt: now, Lookup: attempt.LookupNone, Rule: usualRule}
			if shown != nil {
				e.Lookup, e.Charges = attempt.LookupFound, shown
			}
			if unanswered < 20 && rapid.IntRange(0, 3).Draw(t, "answers") == 0 {
				e.Lookup, e.Charges = attempt.LookupNotAsked, nil
				unanswered++
			}
			a, _ = attempt.Next(a, e)
		}
		if !a.Status.Final() {
			if a.Status == attempt.StatusPrepared { // given up by time
				a, _ = attempt.Next(a, attempt.Evidence{Kind: attempt.EvidenceTime, At: now.Add(24 * time.Hour), Rule: usualRule})
			}
			if !a.Status.Final() {
				t.Fatalf("still %s (%s) after 40 questions: %+v", a.Status, a.Reason, a)
			}
		}
	})
}

// A slot under random callers, crashes and late news: every stored state passes the guard, at most one attempt is live,
// money of one attempt is never joined by money that Start let through while it was known.
func TestProperty_Slot(t *testing.T) {
	tt := t
	check(t, func(t *rapid.T) {
		s := open(tt)
		s.resend = rapid.SampledFrom([]attempt.Resend{keepsAll, keepsNone}).Draw(t, "provider")
		for i := range rapid.IntRange(1, 25).Draw(t, "length") {
			label := fmt.Sprintf("%d", i+1)
			s.now = s.now.Add(rapid.SampledFrom(steps).Draw(t, label+" waits"))
			attempts := s.attempts()
			switch what := rapid.IntRange(0, 5).Draw(t, label+" what"); {
			case what <= 2 || len(attempts) == 0:
				w := wants{
					source:    rapid.SampledFrom([]attempt.Source{visa, mastercard}).Draw(t, label+" card"),
					amount:    rapid.SampledFrom([]int64{1999, 1999, 2999}).Draw(t, label+" amount"),
					startOnly: rapid.IntRange(0, 3).Draw(t, label+" starts only") == 0,
					asked:     rapid.Bool().Draw(t, label+" asked"),
				}
				if len(attempts) > 0 && rapid.IntRange(0, 3).Draw(t, label+" by id") == 0 {
					w.id, w.startOnly = rapid.SampledFrom(attempts).Draw(t, label+" id").ID, false
				}
				d := s.pay(w)
				if d.Kind != attempt.DecidedSend {
					continue
				}
				for _, a := range attempts {
					if a.Status == attempt.StatusApproved {
						t.Fatalf("sends attempt %d beside approved attempt %d", d.Attempt.Ordinal, a.Ordinal)
					}
					if _, owed := a.OpenDuty(); owed {
						t.Fatalf("sends attempt %d beside attempt %d, which owes %+v", d.Attempt.Ordinal, a.Ordinal, a.Duties)
					}
					if a.ID != d.Attempt.ID && !a.Status.Final() && a.Status != attempt.StatusPrepared {
						t.Fatalf("sends attempt %d while attempt %d is %s", d.Attempt.Ordinal, a.Ordinal, a.Status)
					}
					if a.ID == d.Attempt.ID && !a.ClaimedUntil(s.now).IsZero() {
						t.Fatalf("two claims run: %+v", d.Attempt.Claims)
					}
					for _, c := range a.Charges {
						if c.Status == attempt.ChargePending && a.Status != attempt.StatusApproved {
							t.Fatalf("sends attempt %d beside %+v", d.Attempt.Ordinal, c)
						}
					}
				}
			default:
				n := rapid.IntRange(1, len(attempts)).Draw(t, label+" attempt")
				a := attempts[n-1]
				switch {
				case what == 3 && len(a.Claims) > 0:
					fence := rapid.SampledFrom(a.Claims).Draw(t, label+" ends").Fence
					s.learn(n, attempt.Evidence{Kind: attempt.EvidenceSends, Fence: fence, Sends: drawSends(t, label)})
				case what == 4:
					s.webhook(n, drawCharges(t, label, 1)...)
				default:
					s.none(n)
				}
			}
			live := 0
			for _, a := range s.attempts() {
				checkAlways(t, a, s.now)
				if a.Status.Live() {
					live++
				}
			}
			if live > 1 {
				t.Fatalf("%d live attempts", live)
			}
		}
	})
}

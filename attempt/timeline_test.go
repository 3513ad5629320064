package attempt_test

import (
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Each test here is a timeline that would charge twice, tell a charge as failed, lose an attempt or leave a payment stuck.

// C04: the key is older than the provider keeps it, and the clock says otherwise.
func TestTimeline_C04_KeyRetention(t *testing.T) {
	x := begin(t)
	x.end(x.claim(), lost())
	x.after(22*time.Hour).maySend(keepsAll, true)
	x.after(59*time.Minute).maySend(keepsAll, true)
	x.after(time.Minute).maySend(keepsAll, false) // the send itself would end after the retention less its margin
	x.after(2*time.Hour).maySend(keepsAll, false)
	x.found(succeeded("ch_1", asked)).is(attempt.StatusApproved)

	// Age counts from the first claim, not from the last change.
	x = begin(t)
	x.end(x.claim(), lost())
	x.after(20*time.Hour).end(x.claim(), lost()).after(4*time.Hour).maySend(keepsAll, false)

	// The clock jumps back before the first claim, or behind what has been seen since.
	x = begin(t)
	x.end(x.claim(), lost())
	x.after(-time.Second).maySend(keepsAll, false)
	x = begin(t)
	x.end(x.claim(), lost()).after(25*time.Hour).lookup(attempt.LookupNotAsked).maySend(keepsAll, false)
	x.after(-3*time.Hour).maySend(keepsAll, false)
	x.lookup(attempt.LookupNotAsked).maySend(keepsAll, false) // what the set-back clock records does not make the key younger
	// Within the margin clocks may differ.
	x = begin(t)
	x.end(x.claim(), lost()).after(time.Hour).lookup(attempt.LookupNotAsked).after(-time.Second).maySend(keepsAll, true)

	// Nothing can have left: neither age nor clock matter.
	x = begin(t)
	x.end(x.claim(), notSent()).after(1000*time.Hour).maySend(keepsAll, true).after(-2000*time.Hour).maySend(keepsNone, true)

	x = begin(t)
	x.end(x.claim(), lost()).maySend(attempt.Resend{KeepsEveryAnswer: true}, false) // retention not known is no time
}

// P12: a provider that keeps no refusals or knows no keys gets one send that may have been executed.
func TestTimeline_P12_OneSendOnly(t *testing.T) {
	for _, s := range []attempt.Send{lost(), unavailable(), violated(), rejected()} {
		x := begin(t)
		fence := x.claim()
		x.maySend(keepsAll, false) // never beside a claim that runs
		if s.Verdict == attempt.Rejected {
			x.end(fence, lost(), s)
		} else {
			x.end(fence, s)
		}
		x.maySend(keepsNone, false).maySend(keepsAll, true)
	}
	x := begin(t)
	x.claim()
	x.after(time.Minute).maySend(keepsNone, false).maySend(keepsAll, true) // an unrecorded claim counts as a send

	// "Still running" allows the next send, and that one only.
	x = begin(t)
	x.end(x.claim(), lost(), running()).maySend(keepsNone, true)
	x.end(x.claim(), notSent()).maySend(keepsNone, true)
	x.end(x.claim(), running(), lost()).maySend(keepsNone, false)
	if x.a.Answer.StatusCode != 409 {
		t.Errorf("the last real answer is hidden: %+v", x.a.Answer)
	}
	x = begin(t)
	x.end(x.claim(), lost(), running())
	x.claim() // its holder dies: its send may have been executed after the first one had failed
	x.after(time.Minute).maySend(keepsNone, false)

	x = begin(t)
	x.end(x.claim(), keyReused()).maySend(keepsAll, false) // the next answer would say the same
	x = begin(t)
	x.end(x.claim(), charged(pending("ch_1"))).maySend(keepsAll, false)
	x = begin(t)
	x.end(x.claim(), lost(), refused(false)).maySend(keepsAll, true).maySend(keepsNone, false) // the replay settles it
	x = begin(t)
	x.end(x.claim(), lost(), refused(true)).maySend(keepsAll, false)
	x = begin(t)
	x.end(x.claim(), lost())
	x.a.AskingEndedAt = x.now // nobody asks any more, or nobody can: the replay of a returning customer settles it
	x.maySend(keepsAll, true).maySend(keepsNone, false)
	x.after(25*time.Hour).maySend(keepsAll, false)
	for _, s := range []attempt.Send{charged(succeeded("ch_1", asked)), refused(true), rejected()} {
		x = begin(t)
		x.end(x.claim(), s).maySend(keepsAll, false)
	}
}

// The old sender of a claim that was taken over comes back: in any order with the new one, with any news.
func TestTimeline_TakenOver(t *testing.T) {
	type sends = []attempt.Send
	for _, c := range []struct {
		name     string
		old, new sends
		status   attempt.Status
		owes     []string // in either order
	}{
		{"both charged the same", sends{charged(succeeded("ch_1", asked))}, sends{charged(succeeded("ch_1", asked))}, attempt.StatusApproved, nil},
		{"the provider broke its word", sends{charged(succeeded("ch_1", asked))}, sends{charged(succeeded("ch_2", asked))}, attempt.StatusApproved, []string{"second_charge"}},
		{"lost, then charged", sends{lost()}, sends{charged(succeeded("ch_1", asked))}, attempt.StatusApproved, nil},
		{"charged, then lost", sends{charged(succeeded("ch_1", asked))}, sends{lost()}, attempt.StatusApproved, nil},
		{"not sent, then charged", sends{notSent()}, sends{charged(succeeded("ch_1", asked))}, attempt.StatusApproved, nil},
		{"charged, then rejected (C24)", sends{charged(succeeded("ch_1", asked))}, sends{rejected()}, attempt.StatusApproved, nil},
		{"lost, then a decline that is not kept", sends{lost()}, sends{refused(false)}, attempt.StatusUnknown, nil},
		{"a decline that is not kept, then lost", sends{refused(false)}, sends{lost()}, attempt.StatusUnknown, nil},
		{"two declines", sends{refused(false)}, sends{refused(false)}, attempt.StatusDeclined, nil},
		{"rejected and not sent", sends{rejected()}, sends{notSent()}, attempt.StatusRejected, nil},
		{"rejected and lost", sends{rejected()}, sends{lost()}, attempt.StatusUnknown, nil},
		{"not sent, twice", sends{notSent()}, sends{notSent()}, attempt.StatusPrepared, nil},
		{"not sent and lost", sends{notSent()}, sends{lost()}, attempt.StatusUnknown, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := func() *timeline {
				x := begin(t)
				x.claim()
				x.after(claimLasts + time.Second)
				x.claim()
				return x.after(time.Second)
			}
			check := func(x *timeline) {
				t.Helper()
				x.is(c.status)
				if len(x.a.Duties) != len(c.owes) || len(c.owes) > 0 && x.a.Duties[0].Why != c.owes[0] {
					t.Errorf("owes %+v, want %v", x.a.Duties, c.owes)
				}
			}
			check(start().end(1, c.old...).end(2, c.new...))
			check(start().end(2, c.new...).end(1, c.old...))
			// The new sender dies; the old one comes back an hour later, and then the new one's record is found after all.
			check(start().after(time.Hour).time().end(1, c.old...).end(2, c.new...))
			check(start().end(2, c.new...).after(time.Hour).time().end(1, c.old...))
			// Records are written twice when the answer to the write is lost.
			check(start().end(1, c.old...).end(1, c.old...).end(2, c.new...).end(1, c.old...).end(2, c.new...))
		})
	}
}

// One missing record keeps every end without money away, except a kept decline after its deadline.
func TestTimeline_UnrecordedClaimKeepsOpen(t *testing.T) {
	for _, c := range []struct {
		name  string
		learn func(*timeline)
	}{
		{"rejected", func(x *timeline) { x.end(2, rejected()) }},
		{"declined, not kept", func(x *timeline) { x.end(2, refused(false)) }},
		{"not sent", func(x *timeline) { x.end(2, notSent()) }},
		{"a failed charge", func(x *timeline) { x.found(failed("ch_1")) }},
		{"two failed charges", func(x *timeline) { x.found(failed("ch_1"), failed("ch_2")) }},
		{"a failed charge of the new sender", func(x *timeline) { x.end(2, charged(failed("ch_1"))) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := begin(t)
			x.claim()
			x.after(time.Minute)
			x.claim()
			c.learn(x)
			x.after(time.Minute).time().is(attempt.StatusUnknown)
			if moved := x.a.Tell(x.now).Moved; moved != attempt.MovedMaybe {
				t.Errorf("told moved %s", moved)
			}
			// The first claim had charged.
			x.after(time.Hour).end(1, charged(succeeded("ch_9", asked))).is(attempt.StatusApproved).owes()
		})
	}
}

// A failed charge accounts for one send, and not for one that has an answer of its own.
func TestTimeline_FailedChargeAccounts(t *testing.T) {
	// Two requests were executed, because the first was not remembered: one failed, of the other nothing is known.
	x := begin(t)
	x.end(x.claim(), lost(), running(), lost()).found(failed("ch_1")).is(attempt.StatusUnknown)
	x.found(failed("ch_1"), failed("ch_2")).is(attempt.StatusUnknown)
	x.found(failed("ch_1"), failed("ch_2"), failed("ch_3")).is(attempt.StatusDeclined)

	// The failed charge is the one that the second send was answered with.
	x = begin(t)
	x.end(x.claim(), lost(), charged(pending("ch_1"))).webhook(failed("ch_1")).is(attempt.StatusUnknown)
	x = begin(t)
	x.end(x.claim(), lost(), refused(false)).webhook(failed("ch_1")).is(attempt.StatusUnknown)
	// The same, the webhook first.
	x = begin(t)
	x.claim()
	x.webhook(failed("ch_1")).end(1, lost(), refused(false)).is(attempt.StatusUnknown)
	x = begin(t)
	x.claim()
	x.webhook(failed("ch_1")).end(1, lost(), charged(failed("ch_1"))).is(attempt.StatusUnknown)

	x = begin(t)
	x.claim()
	x.webhook(failed("ch_1")).end(1, lost(), charged(pending("ch_1"))).is(attempt.StatusUnknown) // the answer was overtaken

	// A rejected request has left no charge: the failed one is the lost send's.
	x = begin(t)
	x.end(x.claim(), lost(), rejected()).webhook(failed("ch_1")).is(attempt.StatusDeclined)
	x = begin(t)
	x.claim()
	x.webhook(failed("ch_1")).end(1, lost(), rejected()).is(attempt.StatusDeclined)

	// The provider keeps every answer under the key: one failed charge speaks for all.
	x = begin(t)
	x.end(x.claim(), lost(), lost()).learn(attempt.Evidence{
		Kind: attempt.EvidenceLookup, Lookup: attempt.LookupFound, Charges: []attempt.Charge{failed("ch_1")}, KeepsAnswers: true,
	}).is(attempt.StatusDeclined)
}

// A decline beside a send nobody can account for must not stay open for ever: the rule for abandoning settles it, also
// where lookups list the failed charge.
func TestTimeline_NotStuckBehindAFailedCharge(t *testing.T) {
	x := begin(t)
	x.end(x.claim(), lost(), running()).after(time.Hour)
	x.found(failed("ch_1")).is(attempt.StatusUnknown).after(time.Minute)
	x.found(failed("ch_1")).is(attempt.StatusAbandoned).notPaid(attempt.ReasonNotFound)

	x = begin(t)
	x.end(x.claim(), lost(), refused(false)).after(time.Hour).none().after(time.Minute).none().is(attempt.StatusAbandoned)

	// A new failed charge says that the answers before it were not complete.
	x = begin(t)
	x.end(x.claim(), lost(), running()).after(time.Hour).none().after(time.Minute)
	x.found(failed("ch_1")).is(attempt.StatusUnknown).after(time.Minute).found(failed("ch_1")).is(attempt.StatusAbandoned)

	// Nothing is abandoned beside a charge that may still become money, nor on answers given before it came to nothing.
	x = begin(t)
	x.end(x.claim(), lost(), lost()).after(time.Hour).none().webhook(pending("ch_1"))
	x.after(time.Hour).none().after(time.Hour).none().is(attempt.StatusUnknown)
	x.webhook(failed("ch_1")).is(attempt.StatusUnknown)
	x.after(time.Minute).none().is(attempt.StatusUnknown).after(time.Minute).none().is(attempt.StatusAbandoned)
}

// C24, C26: the provider's guard against double payment answers like a refusal of the request.
func TestTimeline_C24_ErrorAfterSuccess(t *testing.T) {
	duplicate := rejected()
	duplicate.StatusCode, duplicate.Code, duplicate.ChargeID = 422, "704", "PSP2"
	x := begin(t)
	x.end(x.claim(), lost(), duplicate).told(attempt.ContractViolation, attempt.MovedMaybe, attempt.ReasonRefused)
	x.none().is(attempt.StatusUnknown)
	x.found(succeeded("PSP1", asked)).is(attempt.StatusApproved)
	if x.a.ChargeID != "PSP1" {
		t.Errorf("approved by %s", x.a.ChargeID)
	}
}

// C28, R9: declined first, paid later under the same reference.
func TestTimeline_C28_DeclinedThenPaid(t *testing.T) {
	x := begin(t)
	x.end(x.claim(), charged(failed("ch_1"))).is(attempt.StatusDeclined).told(attempt.Declined, attempt.MovedNo, attempt.ReasonDeclined)
	x.after(30*time.Second).found(failed("ch_1"), succeeded("ch_2", asked)).is(attempt.StatusDeclined)
	x.owes("refund late_money ch_2").told(attempt.UnknownOutcome, attempt.MovedYes, attempt.ReasonRefundOwed)
	if len(x.a.Charges) != 2 {
		t.Errorf("charges %+v, want both", x.a.Charges)
	}

	// The very charge that failed succeeds.
	x = begin(t)
	x.end(x.claim(), charged(failed("ch_1"))).after(time.Hour).webhook(succeeded("ch_1", asked)).owes("refund late_money ch_1")

	x = begin(t)
	x.end(x.claim(), lost()).after(time.Hour).none().after(time.Minute).none().is(attempt.StatusAbandoned)
	x.after(time.Minute).found(succeeded("ch_1", asked)).owes("refund late_money ch_1")
	if d, owed := x.a.OpenDuty(); !owed || d.Amount != asked || d.Kind != attempt.DutyRefund {
		t.Errorf("duty %+v, %v", d, owed)
	}
}

// Money that the provider takes back by itself is not refunded on top.
func TestTimeline_ReversedIsNotRefunded(t *testing.T) {
	x := begin(t)
	x.end(x.claim(), refused(true)).webhook(succeeded("ch_1", asked)).owes("refund late_money ch_1")
	x.webhook(reversed("ch_1")).owes("review reversed ch_1")
	x.webhook(succeeded("ch_1", asked)).owes("review reversed ch_1") // an older view

	x = begin(t)
	x.end(x.claim(), lost()).webhook(succeeded("ch_1", lessMoney)).webhook(reversed("ch_1")).owes("review different ch_1", "review reversed ch_1")

	// Nothing of it can be told as paid or as not paid.
	x = begin(t)
	x.end(x.claim(), lost()).webhook(reversed("ch_1")).is(attempt.StatusUnknown).end(2, refused(true)).is(attempt.StatusUnknown)
	x.after(time.Hour).none().after(time.Hour).none().is(attempt.StatusUnknown)
}

// C29: a charge that differs keeps open, whatever refusals say, until a person has looked.
func TestTimeline_C29_DiffersBesideRefusals(t *testing.T) {
	for _, c := range []attempt.Charge{succeeded("ch_1", lessMoney), {ID: "ch_1", Status: attempt.ChargeSucceeded}, reversed("ch_1"), pending("ch_1")} {
		x := begin(t)
		x.claim()
		x.webhook(c).end(1, refused(true)).is(attempt.StatusUnknown)
		x = begin(t)
		x.claim()
		x.webhook(c).end(1, rejected()).is(attempt.StatusUnknown)
		x = begin(t)
		x.claim()
		x.webhook(c).end(1, notSent()).is(attempt.StatusUnknown)
		if moved := x.a.Tell(x.now).Moved; moved == attempt.MovedNo {
			t.Errorf("%s: told moved no", c.Status)
		}
	}
	// The amount is learnt later.
	x := begin(t)
	x.end(x.claim(), lost()).webhook(attempt.Charge{ID: "ch_1", Status: attempt.ChargeSucceeded}).owes()
	x.found(succeeded("ch_1", asked)).is(attempt.StatusApproved).owes()
	// The amount of a charge that was not final says nothing of what succeeded in the end.
	x = begin(t)
	x.end(x.claim(), charged(pending("ch_1"))).webhook(attempt.Charge{ID: "ch_1", Status: attempt.ChargeSucceeded}).is(attempt.StatusUnknown)
	x.found(succeeded("ch_1", lessMoney)).told(attempt.ContractViolation, attempt.MovedYes, attempt.ReasonMismatch)
}

// C42, R6: nothing found a second after the send.
func TestTimeline_C42_SearchLag(t *testing.T) {
	x := begin(t)
	x.end(x.claim(), lost()).after(time.Second).none().after(10 * time.Second).none().is(attempt.StatusUnknown)
	x.lookup(attempt.LookupUnreadable).is(attempt.StatusUnknown)
	x.after(9 * time.Second).found(succeeded("ch_1", asked)).is(attempt.StatusApproved)
}

// C45, R5: nothing closes by age.
func TestTimeline_C45_AgeDecidesNothing(t *testing.T) {
	x := begin(t)
	x.end(x.claim(), lost())
	for range 30 {
		x.after(time.Hour).lookup(attempt.LookupNotAsked).time().is(attempt.StatusUnknown)
	}
	x.found(succeeded("ch_1", asked)).is(attempt.StatusApproved)

	// Asking has ended; evidence settles it all the same.
	x = begin(t)
	x.end(x.claim(), lost())
	x.a.AskingEndedAt, x.a.NextCheckAt = x.now.Add(168*time.Hour), time.Time{}
	x.after(1000 * time.Hour).time().is(attempt.StatusUnknown)
	if !x.a.NextCheckAt.IsZero() {
		t.Error("asking began again by itself")
	}
	x.webhook(succeeded("ch_1", asked)).is(attempt.StatusApproved)

	// The record that nothing had left arrives after asking has ended: it can be sent, and is looked after, again.
	x = begin(t)
	x.claim()
	x.after(time.Hour).time()
	x.a.AskingEndedAt, x.a.NextCheckAt = x.now, time.Time{}
	x.end(1, notSent()).is(attempt.StatusPrepared).maySend(keepsNone, true)
	if x.a.NextCheckAt.IsZero() || !x.a.AskingEndedAt.IsZero() {
		t.Errorf("nobody will look: %v, %v", x.a.NextCheckAt, x.a.AskingEndedAt)
	}
	// A claim that ran out on a clock that jumped: not forgotten.
	x = begin(t)
	x.claim()
	x.a.NextCheckAt = time.Time{}
	x.after(time.Minute).time().is(attempt.StatusUnknown)
}

// The store has lost the commit of a claim (a failover): what was sent under it counts all the same.
func TestTimeline_LostClaim(t *testing.T) {
	for _, c := range []struct {
		send attempt.Send
		want attempt.Status
	}{
		{lost(), attempt.StatusUnknown},
		{violated(), attempt.StatusUnknown},
		{charged(succeeded("ch_1", asked)), attempt.StatusApproved},
		{refused(true), attempt.StatusDeclined},
		{rejected(), attempt.StatusRejected},
		{notSent(), attempt.StatusPrepared},
	} {
		x := begin(t)
		x.end(1, c.send).is(c.want)
		if c.want == attempt.StatusUnknown {
			x.maySend(keepsAll, false) // nobody knows when its key was first used
		}
		sends := x.a.Sends
		if x.end(1, c.send).is(c.want); x.a.Sends != sends {
			t.Errorf("%s: the same record counted twice", c.send.Verdict)
		}
	}
	// And the next claim does not take its number.
	x := begin(t)
	x.end(1, notSent())
	if fence := x.claim(); fence != 2 {
		t.Errorf("fence %d given twice", fence)
	}
}

// A clock that runs fast for a while must not let two quick answers look like patience.
func TestTimeline_ClockJumps(t *testing.T) {
	x := begin(t)
	x.end(x.claim(), lost()).after(10 * time.Hour).none()
	x.after(-10*time.Hour + time.Second).none() // set right again: the first answer now lies in the future
	x.after(time.Hour).none().is(attempt.StatusUnknown)
	x.after(time.Minute).none().is(attempt.StatusAbandoned)

	// Asked at a time that has not come.
	x = begin(t)
	x.end(x.claim(), lost()).after(time.Hour)
	for i := range 3 {
		x.learn(attempt.Evidence{
			Kind: attempt.EvidenceLookup, Lookup: attempt.LookupNone, AskedAt: x.now.Add(time.Duration(i+1) * time.Hour), Rule: usualRule,
		})
	}
	x.is(attempt.StatusUnknown)

	// Back before the send: nothing is old enough.
	x = begin(t)
	x.end(x.claim(), lost()).after(-48 * time.Hour).none().after(time.Minute).none().is(attempt.StatusUnknown)
	// A claim that ran out counts as running again.
	x = begin(t)
	x.claim()
	x.after(time.Minute).time().is(attempt.StatusUnknown).after(-time.Minute).time().is(attempt.StatusSending).maySend(keepsAll, false)
}

// A returning customer's claim must not leave the next question a day away.
func TestTimeline_ClaimBringsTheNextCheckForward(t *testing.T) {
	x := begin(t)
	x.end(x.claim(), lost())
	x.after(2 * time.Hour)
	x.a.NextCheckAt = x.now.Add(24 * time.Hour) // as the reconciler plans after many questions
	x.claim()
	if want := x.now.Add(firstCheck); !x.a.NextCheckAt.Equal(want) {
		t.Errorf("next check at %v, want %v", x.a.NextCheckAt, want)
	}
	x.after(time.Second)
	x.a.NextCheckAt = x.now.Add(5 * time.Second)
	y := *x
	y.a = x.a.Grant(x.now, claimLasts, firstCheck)
	if !y.a.NextCheckAt.Equal(x.a.NextCheckAt) {
		t.Error("a claim put the next check off")
	}
	// Sent after a first claim that sent nothing: the question comes as late as after any first send.
	w := begin(t)
	w.end(w.claim(), notSent()).after(firstCheck - time.Second)
	w.claim()
	if want := w.now.Add(firstCheck); !w.a.NextCheckAt.Equal(want) {
		t.Errorf("next check at %v, want %v", w.a.NextCheckAt, want)
	}
	// A question is never planned for the middle of the claim it is to ask about.
	z := begin(t)
	z.a = z.a.Grant(z.now, time.Hour, firstCheck)
	if want := z.now.Add(time.Hour); !z.a.NextCheckAt.Equal(want) {
		t.Errorf("next check at %v, want the claim's deadline %v", z.a.NextCheckAt, want)
	}
}

// The same report delivered twice, or late, changes nothing but counters.
func TestTimeline_ReportsOutOfOrder(t *testing.T) {
	x := begin(t)
	x.end(x.claim(), charged(pending("ch_1"))).webhook(succeeded("ch_1", asked)).webhook(pending("ch_1")).is(attempt.StatusApproved).owes()
	x = begin(t)
	x.end(x.claim(), charged(pending("ch_1"))).webhook(failed("ch_1")).webhook(pending("ch_1")).is(attempt.StatusDeclined).owes()
	x = begin(t)
	x.end(x.claim(), charged(pending("ch_1"))).webhook(failed("ch_1")).webhook(succeeded("ch_1", asked)).owes("refund late_money ch_1")
	x = begin(t)
	x.claim()
	x.webhook(failed("ch_1")).webhook(succeeded("ch_1", asked)).is(attempt.StatusApproved).owes()
	// The failure that came before is delivered once more: no reversal. The provider, asked, says it failed: one.
	x.webhook(failed("ch_1")).owes().after(time.Second).found(failed("ch_1")).owes("review reversed ch_1")
	// News in the wrong order, and an answer older than the news, are corrected by the next question.
	x.after(time.Second).found(succeeded("ch_1", asked)).owes()
	stale := attempt.Evidence{
		Kind: attempt.EvidenceLookup, Lookup: attempt.LookupFound, AskedAt: x.now, Charges: []attempt.Charge{failed("ch_1")}, Rule: usualRule,
	}
	x.after(time.Hour).learn(stale).owes()

	// A charge is known since it was first learnt of.
	x = begin(t)
	x.claim()
	x.after(time.Second).webhook(pending("ch_1")).after(time.Second).webhook(succeeded("ch_1", asked))
	if c, _ := x.a.Charge("ch_1"); !c.SeenAt.Equal(epoch.Add(time.Second)) {
		t.Errorf("seen at %v", c.SeenAt)
	}
}

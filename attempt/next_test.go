package attempt_test

import (
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// TestNext goes through the rules on verdicts line by line: what one claim's sends make of a fresh attempt.
func TestNext_OneClaim(t *testing.T) {
	moneyElsewhere := violated()
	moneyElsewhere.MoneyMoved = true
	lessCharged := sent(attempt.Violated, attempt.ReasonMismatch, 201)
	less := succeeded("ch_1", lessMoney)
	lessCharged.Charge = &less
	noCharge := sent(attempt.Charged, "", 201)

	for _, c := range []struct {
		name    string
		sends   []attempt.Send
		status  attempt.Status
		outcome attempt.Outcome
		moved   attempt.Moved
		reason  attempt.Reason
	}{
		{"nothing was sent at all", nil, attempt.StatusPrepared, 0, attempt.MovedNo, attempt.ReasonNotSent},
		{"every send is proven not to have left (C41)", []attempt.Send{notSent(), notSent()}, attempt.StatusPrepared, 0, attempt.MovedNo, attempt.ReasonNotSent},
		{"no answer (F45)", []attempt.Send{lost()}, attempt.StatusUnknown, attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonTimeout},
		{"no answer, then refused dials (S09)", []attempt.Send{lost(), notSent()}, attempt.StatusUnknown, attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonTimeout},
		{"refused dial, then no answer", []attempt.Send{notSent(), lost()}, attempt.StatusUnknown, attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonTimeout},
		{"approved", []attempt.Send{charged(succeeded("ch_1", asked))}, attempt.StatusApproved, attempt.Approved, attempt.MovedYes, ""},
		{"approved after a lost answer (C01)", []attempt.Send{lost(), charged(succeeded("ch_1", asked))}, attempt.StatusApproved, attempt.Approved, attempt.MovedYes, ""},
		{"charged, but no charge named", []attempt.Send{noCharge}, attempt.StatusUnknown, attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonClaimExpired},
		{"declined (C20)", []attempt.Send{refused(false)}, attempt.StatusDeclined, attempt.Declined, attempt.MovedNo, attempt.ReasonDeclined},
		{"declined by a charge that failed", []attempt.Send{charged(failed("ch_1"))}, attempt.StatusDeclined, attempt.Declined, attempt.MovedNo, attempt.ReasonDeclined},
		{"a kept decline speaks for the lost send before it", []attempt.Send{lost(), refused(true)}, attempt.StatusDeclined, attempt.Declined, attempt.MovedNo, attempt.ReasonDeclined},
		{"a kept decline speaks for the lost send after it", []attempt.Send{refused(true), lost()}, attempt.StatusDeclined, attempt.Declined, attempt.MovedNo, attempt.ReasonDeclined},
		{"a decline that is not kept does not", []attempt.Send{lost(), refused(false)}, attempt.StatusUnknown, attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonUnproven},
		{"rejected (C18 d)", []attempt.Send{rejected()}, attempt.StatusRejected, attempt.ContractViolation, attempt.MovedNo, attempt.ReasonRefused},
		{"rejected after a time-out", []attempt.Send{lost(), rejected()}, attempt.StatusUnknown, attempt.ContractViolation, attempt.MovedMaybe, attempt.ReasonRefused},
		{"a time-out after a rejection", []attempt.Send{rejected(), lost()}, attempt.StatusUnknown, attempt.ContractViolation, attempt.MovedMaybe, attempt.ReasonRefused},
		{"decline after rejection", []attempt.Send{rejected(), refused(false)}, attempt.StatusDeclined, attempt.Declined, attempt.MovedNo, attempt.ReasonDeclined},
		{"key used with another body (C02)", []attempt.Send{keyReused()}, attempt.StatusUnknown, attempt.ContractViolation, attempt.MovedMaybe, attempt.ReasonKeyReused},
		{"still running until the budget ends (C15)", []attempt.Send{lost(), running(), running()}, attempt.StatusUnknown, attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonStillRunning},
		{"still running, then the stored answer (C15)", []attempt.Send{lost(), running(), charged(succeeded("ch_1", asked))}, attempt.StatusApproved, attempt.Approved, attempt.MovedYes, ""},
		{"500 (C17)", []attempt.Send{unavailable(), unavailable()}, attempt.StatusUnknown, attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonUnavailable},
		{"429 then 201 (C18)", []attempt.Send{unavailable(), charged(succeeded("ch_1", asked))}, attempt.StatusApproved, attempt.Approved, attempt.MovedYes, ""},
		{"200 with a page (C30)", []attempt.Send{violated()}, attempt.StatusUnknown, attempt.ContractViolation, attempt.MovedMaybe, attempt.ReasonUnreadable},
		{"approved, another reference (C29)", []attempt.Send{moneyElsewhere}, attempt.StatusUnknown, attempt.ContractViolation, attempt.MovedYes, attempt.ReasonUnreadable},
		{"approved, another amount (C29)", []attempt.Send{lessCharged}, attempt.StatusUnknown, attempt.ContractViolation, attempt.MovedYes, attempt.ReasonMismatch},
		{"pending (C22)", []attempt.Send{charged(pending("ch_1"))}, attempt.StatusUnknown, attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonPending},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := begin(t)
			x.end(x.claim(), c.sends...).is(c.status)
			if c.status == attempt.StatusPrepared {
				x.notPaid(c.reason)
			} else {
				x.told(c.outcome, c.moved, c.reason)
			}
			if c.status == attempt.StatusPrepared && len(c.sends) > 0 && x.a.Answer != notSent().Answer {
				t.Errorf("why nothing left is not kept: %+v", x.a.Answer)
			}
			if x.a.Sends != len(c.sends) {
				t.Errorf("%d sends counted, want %d", x.a.Sends, len(c.sends))
			}
		})
	}
}

// What a lookup or a webhook makes of an attempt whose only send was lost.
func TestNext_FoundAfterALostSend(t *testing.T) {
	act := pending("ch_1")
	act.NextAction = "https://bank.example/3ds"
	noAmount := attempt.Charge{ID: "ch_1", Status: attempt.ChargeSucceeded}

	for _, c := range []struct {
		name    string
		found   []attempt.Charge
		status  attempt.Status
		outcome attempt.Outcome
		moved   attempt.Moved
		reason  attempt.Reason
		owes    []string
	}{
		{"the charge (C04, C06)", []attempt.Charge{succeeded("ch_1", asked)}, attempt.StatusApproved, attempt.Approved, attempt.MovedYes, "", nil},
		{"two charges", []attempt.Charge{succeeded("ch_1", asked), succeeded("ch_2", asked)}, attempt.StatusApproved, attempt.Approved, attempt.MovedYes, "", []string{"review second_charge ch_2"}},
		{"a failed one before it (C28)", []attempt.Charge{failed("ch_1"), succeeded("ch_2", asked)}, attempt.StatusApproved, attempt.Approved, attempt.MovedYes, "", nil},
		{"a failed one", []attempt.Charge{failed("ch_1")}, attempt.StatusDeclined, attempt.Declined, attempt.MovedNo, attempt.ReasonDeclined, nil},
		{"a smaller one (C29)", []attempt.Charge{succeeded("ch_1", lessMoney)}, attempt.StatusUnknown, attempt.ContractViolation, attempt.MovedYes, attempt.ReasonMismatch, []string{"review different ch_1"}},
		{"one in another currency (C29)", []attempt.Charge{succeeded("ch_1", foreign)}, attempt.StatusUnknown, attempt.ContractViolation, attempt.MovedYes, attempt.ReasonMismatch, []string{"review different ch_1"}},
		{"a smaller one and ours", []attempt.Charge{succeeded("ch_1", lessMoney), succeeded("ch_2", asked)}, attempt.StatusApproved, attempt.Approved, attempt.MovedYes, "", []string{"review different ch_1"}},
		{"one without an amount", []attempt.Charge{noAmount}, attempt.StatusUnknown, attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonUnreadable, nil},
		{"a pending one (C22)", []attempt.Charge{pending("ch_1")}, attempt.StatusUnknown, attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonPending, nil},
		{"one that the payer must finish (C22)", []attempt.Charge{act}, attempt.StatusUnknown, attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonPayerAction, nil},
		{"a failed one and a pending one", []attempt.Charge{failed("ch_1"), pending("ch_2")}, attempt.StatusUnknown, attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonPending, nil},
		{"one that was taken back", []attempt.Charge{reversed("ch_1")}, attempt.StatusUnknown, attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonReviewOwed, []string{"review reversed ch_1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, learn := range []struct {
				from string
				do   func(*timeline)
			}{
				{"lookup", func(x *timeline) { x.found(c.found...) }},
				{"webhook", func(x *timeline) { x.webhook(c.found...) }},
				{"webhooks, one by one", func(x *timeline) {
					for i := len(c.found) - 1; i >= 0; i-- {
						if c.status == attempt.StatusApproved && len(c.found) > 1 {
							x.webhook(c.found...) // which of two comes first decides; that is another test
							return
						}
						x.webhook(c.found[i])
					}
				}},
				{"settlement", func(x *timeline) {
					x.learn(attempt.Evidence{Kind: attempt.EvidenceSettlement, Charges: c.found})
				}},
			} {
				if c.name == "a failed one and a pending one" && learn.from == "webhooks, one by one" {
					continue
				}
				x := begin(t)
				x.end(x.claim(), lost()).after(time.Minute)
				learn.do(x)
				x.is(c.status).told(c.outcome, c.moved, c.reason).owes(c.owes...)
				if next := x.a.NextAction(); (next != "") != (c.reason == attempt.ReasonPayerAction) {
					t.Errorf("next action %q", next)
				}
			}
		})
	}
}

// Money counts while somebody else's claim runs; nothing else does.
func TestNext_DuringAClaim(t *testing.T) {
	for _, c := range []struct {
		name   string
		learn  func(*timeline)
		status attempt.Status
	}{
		{"money", func(x *timeline) { x.webhook(succeeded("ch_1", asked)) }, attempt.StatusApproved},
		{"money by the end of another claim", func(x *timeline) { x.end(1, charged(succeeded("ch_1", asked))) }, attempt.StatusApproved},
		{"a kept decline of another claim", func(x *timeline) { x.end(1, refused(true)) }, attempt.StatusSending},
		{"a decline of another claim", func(x *timeline) { x.end(1, refused(false)) }, attempt.StatusSending},
		{"a rejection of another claim", func(x *timeline) { x.end(1, rejected()) }, attempt.StatusSending},
		{"a proof of another claim that nothing left", func(x *timeline) { x.end(1, notSent()) }, attempt.StatusSending},
		{"a failed charge", func(x *timeline) { x.found(failed("ch_1")) }, attempt.StatusSending},
		{"nothing found", func(x *timeline) { x.none() }, attempt.StatusSending},
		{"another amount", func(x *timeline) { x.webhook(succeeded("ch_1", lessMoney)) }, attempt.StatusSending},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := begin(t)
			x.claim()
			x.after(20 * time.Second)
			x.claim()
			until := x.now.Add(claimLasts)
			x.after(time.Second)
			c.learn(x)
			x.is(c.status)
			if c.status != attempt.StatusSending {
				return
			}
			x.told(attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonInFlight)
			if !x.a.NextCheckAt.Equal(until) {
				t.Errorf("next check at %v, want the claim's deadline %v", x.a.NextCheckAt, until)
			}
		})
	}
}

// Evidence that had to wait counts when the claim it waited for has run out, also where nobody can be asked.
func TestNext_EvidenceThatWaited(t *testing.T) {
	for _, c := range []struct {
		name   string
		sends  []attempt.Send // of the claim that was taken over
		status attempt.Status
	}{
		{"a kept decline", []attempt.Send{refused(true)}, attempt.StatusDeclined},
		{"a decline", []attempt.Send{refused(false)}, attempt.StatusUnknown},
		{"a rejection", []attempt.Send{rejected()}, attempt.StatusUnknown},
		{"a proof that nothing left", []attempt.Send{notSent()}, attempt.StatusUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := begin(t)
			x.claim()
			x.after(20 * time.Second)
			x.claim()
			x.after(time.Second).end(1, c.sends...).is(attempt.StatusSending)
			x.after(claimLasts).time().is(c.status)
			if c.status == attempt.StatusUnknown {
				x.told(x.a.Tell(x.now).Outcome, attempt.MovedMaybe, x.a.Reason)
			}
		})
	}
}

func TestNext_MoneyAfterTheEnd(t *testing.T) {
	ends := map[attempt.Status]func(*timeline){
		attempt.StatusDeclined:  func(x *timeline) { x.end(x.claim(), refused(true)) },
		attempt.StatusRejected:  func(x *timeline) { x.end(x.claim(), rejected()) },
		attempt.StatusAbandoned: func(x *timeline) { x.end(x.claim(), lost()).after(time.Hour).none().after(time.Minute).none() },
	}
	for status, end := range ends {
		t.Run(status.String(), func(t *testing.T) {
			x := begin(t)
			end(x)
			x.is(status)
			for _, evidence := range []struct {
				name  string
				learn func(*timeline)
				owes  []string
				moved attempt.Moved
				why   attempt.Reason
			}{
				{"money by a webhook", func(x *timeline) { x.webhook(succeeded("ch_9", asked)) }, []string{"refund late_money ch_9"}, attempt.MovedYes, attempt.ReasonRefundOwed},
				{"money by a settlement line", func(x *timeline) {
					x.learn(attempt.Evidence{Kind: attempt.EvidenceSettlement, Charges: []attempt.Charge{succeeded("ch_9", asked)}})
				}, []string{"refund late_money ch_9"}, attempt.MovedYes, attempt.ReasonRefundOwed},
				{"another amount", func(x *timeline) { x.webhook(succeeded("ch_9", lessMoney)) }, []string{"refund late_money ch_9"}, attempt.MovedYes, attempt.ReasonRefundOwed},
				{"no amount", func(x *timeline) { x.webhook(attempt.Charge{ID: "ch_9", Status: attempt.ChargeSucceeded}) }, []string{"refund late_money ch_9"}, attempt.MovedYes, attempt.ReasonRefundOwed},
				{"no id", func(x *timeline) { x.webhook(succeeded("", asked)) }, []string{"refund late_money "}, attempt.MovedYes, attempt.ReasonRefundOwed},
				{"a late record of the claim's end", func(x *timeline) { x.end(1, charged(succeeded("ch_9", asked))) }, []string{"refund late_money ch_9"}, attempt.MovedYes, attempt.ReasonRefundOwed},
				{"the end of a claim that was lost", func(x *timeline) { x.end(9, charged(succeeded("ch_9", asked))) }, []string{"refund late_money ch_9"}, attempt.MovedYes, attempt.ReasonRefundOwed},
				{"a charge that is not final", func(x *timeline) { x.webhook(pending("ch_9")) }, []string{"review late_pending ch_9"}, attempt.MovedMaybe, attempt.ReasonPending},
				{"a charge that was taken back", func(x *timeline) { x.webhook(reversed("ch_9")) }, []string{"review reversed ch_9"}, attempt.MovedMaybe, attempt.ReasonReviewOwed},
			} {
				t.Run(evidence.name, func(t *testing.T) {
					y := &timeline{t: t, a: x.a, now: x.now.Add(time.Hour)}
					evidence.learn(y)
					y.is(status).told(attempt.UnknownOutcome, evidence.moved, evidence.why).owes(evidence.owes...)
					if !y.a.Tell(y.now).Open() {
						t.Error("told as settled while something is owed")
					}
					once := len(y.a.Duties)
					evidence.learn(y.after(time.Hour))
					if len(y.a.Duties) != once {
						t.Errorf("the same evidence again opens duty %d", len(y.a.Duties))
					}
				})
			}
		})
	}
}

// A charge that turned up unfinished after an end either comes to nothing or to money.
func TestNext_LatePendingSettles(t *testing.T) {
	ended := func() *timeline {
		x := begin(t)
		x.end(x.claim(), refused(true)).is(attempt.StatusDeclined)
		return x.after(time.Minute).webhook(pending("ch_2")).owes("review late_pending ch_2")
	}
	ended().webhook(failed("ch_2")).owes().told(attempt.Declined, attempt.MovedNo, attempt.ReasonDeclined)
	ended().webhook(succeeded("ch_2", asked)).owes("refund late_money ch_2").
		told(attempt.UnknownOutcome, attempt.MovedYes, attempt.ReasonRefundOwed)
	ended().webhook(reversed("ch_2")).owes("review reversed ch_2")
	ended().webhook(succeeded("ch_2", asked)).webhook(failed("ch_2")).owes("review reversed ch_2").
		told(attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonReviewOwed)
}

func TestNext_ApprovedStaysApproved(t *testing.T) {
	for _, c := range []struct {
		name  string
		learn func(*timeline)
		owes  []string
	}{
		{"the same charge again", func(x *timeline) { x.webhook(succeeded("ch_1", asked)) }, nil},
		{"the charge without its amount", func(x *timeline) { x.webhook(attempt.Charge{ID: "ch_1", Status: attempt.ChargeSucceeded}) }, nil},
		{"an older view of it", func(x *timeline) { x.webhook(pending("ch_1")) }, nil},
		{"a second charge", func(x *timeline) { x.webhook(succeeded("ch_2", asked)) }, []string{"review second_charge ch_2"}},
		{"a second charge of another amount", func(x *timeline) { x.webhook(succeeded("ch_2", lessMoney)) }, []string{"review second_charge ch_2"}},
		{"a second charge that failed", func(x *timeline) { x.webhook(failed("ch_2")) }, nil},
		{"it was reversed", func(x *timeline) { x.webhook(reversed("ch_1")) }, []string{"review reversed ch_1"}},
		{"it failed after all", func(x *timeline) { x.webhook(failed("ch_1")) }, []string{"review reversed ch_1"}},
		{"its amount has changed", func(x *timeline) { x.webhook(succeeded("ch_1", lessMoney)) }, []string{"review different ch_1"}},
		{"a refusal by another claim", func(x *timeline) { x.end(1, refused(true)) }, nil},
		{"a rejection by another claim", func(x *timeline) { x.end(1, rejected()) }, nil},
		{"another claim sent nothing", func(x *timeline) { x.end(1, notSent()) }, nil},
		{"nothing found", func(x *timeline) { x.none().after(time.Hour).none().after(time.Hour).none() }, nil},
		{"time", func(x *timeline) { x.after(10000 * time.Hour).time() }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := begin(t)
			x.claim() // never heard of again, until the table says so
			x.after(time.Minute)
			x.end(x.claim(), charged(succeeded("ch_1", asked))).is(attempt.StatusApproved)
			x.after(time.Hour)
			c.learn(x)
			x.is(attempt.StatusApproved).told(attempt.Approved, attempt.MovedYes, "").owes(c.owes...)
			if x.a.ChargeID != "ch_1" {
				t.Errorf("approved by %s", x.a.ChargeID)
			}
			c.learn(x)
			x.owes(c.owes...)
		})
	}
}

func TestNext_MoneyOnAPreparedAttempt(t *testing.T) {
	begin(t).webhook(succeeded("ch_1", asked)).is(attempt.StatusApproved).owes("review nobody_sent ch_1")

	x := begin(t)
	x.end(x.claim(), notSent()).is(attempt.StatusPrepared)
	x.webhook(succeeded("ch_1", asked)).is(attempt.StatusApproved).owes("review nobody_sent ch_1")

	x = begin(t).webhook(succeeded("ch_1", foreign)).is(attempt.StatusUnknown).owes("review different ch_1").
		told(attempt.ContractViolation, attempt.MovedYes, attempt.ReasonMismatch)
	if !x.a.NextCheckAt.Equal(x.now) {
		t.Errorf("next check at %v, want now: nobody has planned a question", x.a.NextCheckAt)
	}
	x = begin(t).webhook(pending("ch_1")).is(attempt.StatusUnknown)
	x.maySend(keepsAll, false)
	if !x.a.NextCheckAt.Equal(x.now) {
		t.Errorf("next check at %v, want now", x.a.NextCheckAt)
	}
}

// The abandon rule, condition by condition: each line lacks one.
func TestNext_AbandonRule(t *testing.T) {
	type step func(*timeline)
	wait := func(d time.Duration) step { return func(x *timeline) { x.after(d) } }
	none := step(func(x *timeline) { x.none() })
	after := usualRule.After + claimLasts

	for _, c := range []struct {
		name  string
		steps []step
		want  attempt.Status
	}{
		{"all hold", []step{wait(after), none, wait(time.Minute), none}, attempt.StatusAbandoned},
		{"to the moment", []step{wait(5 * time.Minute), none, wait(after - 5*time.Minute), none}, attempt.StatusAbandoned},
		{"a moment too early", []step{wait(5 * time.Minute), none, wait(after - 5*time.Minute - 1), none}, attempt.StatusUnknown},
		{"asked a moment too early, judged late", []step{wait(5 * time.Minute), none, wait(after - 5*time.Minute - 1), none, wait(after), func(x *timeline) { x.time() }}, attempt.StatusUnknown},
		{"asked early, judged late", []step{wait(5 * time.Minute), none, wait(time.Minute), none, wait(after), func(x *timeline) { x.time() }}, attempt.StatusUnknown},
		{"asked early, and once more late", []step{wait(5 * time.Minute), none, wait(time.Minute), none, wait(after), none}, attempt.StatusAbandoned},
		{"too early since the last send", []step{wait(5 * time.Minute), none, wait(time.Minute), none}, attempt.StatusUnknown},
		{"one answer", []step{wait(after), none}, attempt.StatusUnknown},
		{"the same answer twice", []step{wait(after), none, none}, attempt.StatusUnknown},
		{"answers less than the lag apart", []step{wait(after), none, wait(59 * time.Second), none}, attempt.StatusUnknown},
		{"three answers, no two of them the lag apart", []step{wait(after), none, wait(29 * time.Second), none, wait(30 * time.Second), none}, attempt.StatusUnknown},
		{"asked within the lag after the send", []step{wait(time.Minute), none, wait(after), none}, attempt.StatusUnknown},
		{"asked exactly the lag after the last possible send", []step{wait(claimLasts + time.Minute), none, wait(after), none}, attempt.StatusUnknown},
		{"one answer is unreadable", []step{wait(after), none, wait(time.Minute), func(x *timeline) { x.lookup(attempt.LookupUnreadable) }}, attempt.StatusUnknown},
		{"one question failed (C45)", []step{wait(after), none, wait(time.Minute), func(x *timeline) { x.lookup(attempt.LookupNotAsked) }}, attempt.StatusUnknown},
		{"no answer for a week (R5)", []step{wait(168 * time.Hour), func(x *timeline) { x.lookup(attempt.LookupNotAsked) }, wait(time.Hour), func(x *timeline) { x.time() }}, attempt.StatusUnknown},
		{"a charge turned up between", []step{wait(after), none, wait(time.Minute), func(x *timeline) { x.webhook(pending("ch_1")) }, none}, attempt.StatusUnknown},
		{"found, and an empty list", []step{wait(after), func(x *timeline) { x.found() }, wait(time.Minute), func(x *timeline) { x.found() }}, attempt.StatusUnknown},
		{"a claim runs", []step{wait(after), none, func(x *timeline) { x.claim() }, wait(10 * time.Second), none}, attempt.StatusSending},
		{"a claim ran out a moment ago (R8)", []step{wait(after), none, wait(time.Minute), func(x *timeline) { x.claim() }, wait(29 * time.Minute), none, wait(time.Minute), none}, attempt.StatusUnknown},
		{"the provider cannot be asked", []step{wait(after), func(x *timeline) {
			for range 3 {
				x.after(time.Hour).learn(attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: attempt.LookupNone, AskedAt: x.now})
			}
		}}, attempt.StatusUnknown},
		{"abandoning is switched off", []step{wait(after), func(x *timeline) {
			for range 3 {
				x.after(time.Hour).learn(attempt.Evidence{
					Kind: attempt.EvidenceLookup, Lookup: attempt.LookupNone, AskedAt: x.now, Rule: &attempt.AbandonRule{Lag: time.Minute},
				})
			}
		}}, attempt.StatusUnknown},
		{"answers asked under a shorter lag", []step{wait(after), func(x *timeline) {
			short := *usualRule
			short.Lag, short.After = time.Second, 0
			for range 2 {
				x.after(time.Second * 2).learn(attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: attempt.LookupNone, AskedAt: x.now, Rule: &short})
			}
			x.time()
		}}, attempt.StatusUnknown},
		{"a webhook that says none is no lookup", []step{wait(after), func(x *timeline) {
			for range 3 {
				x.after(time.Hour).learn(attempt.Evidence{Kind: attempt.EvidenceWebhook, Lookup: attempt.LookupNone, AskedAt: x.now, Rule: usualRule})
			}
		}}, attempt.StatusUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := begin(t)
			fence := x.claim()
			x.after(claimLasts).end(fence, lost()).is(attempt.StatusUnknown)
			x.now = epoch
			for _, s := range c.steps {
				s(x)
			}
			x.is(c.want)
			if c.want == attempt.StatusAbandoned {
				x.notPaid(attempt.ReasonNotFound).maySend(keepsAll, false)
			}
		})
	}
}

// A lag of nothing still takes two questions.
func TestNext_AbandonWithoutLag(t *testing.T) {
	rule := &attempt.AbandonRule{After: time.Minute}
	x := begin(t)
	x.end(x.claim(), lost()).after(time.Hour)
	e := attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: attempt.LookupNone, AskedAt: x.now, Rule: rule}
	x.learn(e).learn(e).is(attempt.StatusUnknown)
	e.AskedAt = x.now.Add(time.Microsecond)
	x.after(time.Second).learn(e).is(attempt.StatusAbandoned)
}

func TestNext_PreparedIsAbandoned(t *testing.T) {
	begin(t).after(24*time.Hour - time.Second).time().is(attempt.StatusPrepared)
	begin(t).after(24 * time.Hour).time().is(attempt.StatusAbandoned).notPaid(attempt.ReasonNeverSent)
	x := begin(t)
	x.end(x.claim(), notSent()).after(25 * time.Hour).time().is(attempt.StatusAbandoned).notPaid(attempt.ReasonNeverSent)
	begin(t).after(10000 * time.Hour).learn(attempt.Evidence{Kind: attempt.EvidenceTime, Rule: &attempt.AbandonRule{After: time.Hour}}).
		is(attempt.StatusPrepared)
	begin(t).after(10000 * time.Hour).learn(attempt.Evidence{Kind: attempt.EvidenceTime}).is(attempt.StatusPrepared)
	begin(t).after(-10000 * time.Hour).time().is(attempt.StatusPrepared)
}

// An expired claim counts as a send at its deadline, and says why the attempt is open.
func TestNext_ExpiredClaim(t *testing.T) {
	x := begin(t)
	x.claim()
	x.after(claimLasts).is(attempt.StatusSending).told(attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonClaimExpired)
	x.time().is(attempt.StatusUnknown).told(attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonClaimExpired)
	if got, want := x.a.LastPossibleSend(), epoch.Add(claimLasts); !got.Equal(want) {
		t.Errorf("last possible send %v, want the claim's deadline %v", got, want)
	}
	if !x.a.NextCheckAt.Equal(epoch.Add(firstCheck)) {
		t.Errorf("next check at %v", x.a.NextCheckAt)
	}
	// The record arrives an hour late: what was sent was sent before the deadline.
	x.after(time.Hour).end(1, lost())
	if got, want := x.a.LastPossibleSend(), epoch.Add(claimLasts); !got.Equal(want) {
		t.Errorf("last possible send %v, want the claim's deadline %v", got, want)
	}
}

func TestNext_LastAnswerIsKept(t *testing.T) {
	answer := unavailable()
	answer.RequestID, answer.Code = "req_7", "overloaded"
	x := begin(t)
	x.end(x.claim(), answer, lost(), notSent())
	if x.a.Answer != answer.Answer {
		t.Errorf("the last real answer is hidden: %+v", x.a.Answer)
	}
	x.told(attempt.UnknownOutcome, attempt.MovedMaybe, attempt.ReasonUnavailable)
	said := &attempt.Answer{Verdict: attempt.Unavailable, StatusCode: 500, RequestID: "req_8"}
	x.learn(attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: attempt.LookupNotAsked, AskedAt: x.now, Answer: said})
	if x.a.Answer != *said {
		t.Errorf("the lookup's answer is not kept: %+v", x.a.Answer)
	}
}

func TestNext_DutiesReturnedAreTheNewOnes(t *testing.T) {
	x := begin(t)
	x.end(x.claim(), lost())
	e := attempt.Evidence{Kind: attempt.EvidenceWebhook, At: x.now, Charges: []attempt.Charge{succeeded("ch_1", foreign)}}
	a, opened := attempt.Next(x.a, e)
	if len(opened) != 1 || opened[0].Kind != attempt.DutyReview || opened[0].Amount != foreign || !opened[0].OpenedAt.Equal(x.now) {
		t.Fatalf("opened %+v", opened)
	}
	opened[0].Why = "changed by whoever got it"
	if a.Duties[0].Why != attempt.WhyDifferent {
		t.Error("the duties returned share the attempt's memory")
	}
	a, opened = attempt.Next(a, e)
	if opened != nil || len(a.Duties) != 1 {
		t.Fatalf("the same evidence opened %+v", opened)
	}
	_, opened = attempt.Next(a, attempt.Evidence{Kind: attempt.EvidenceWebhook, At: x.now, Charges: []attempt.Charge{succeeded("ch_2", asked), succeeded("ch_3", asked)}})
	if len(opened) != 1 || opened[0].ChargeID != "ch_3" {
		t.Fatalf("opened %+v", opened)
	}
}

func TestAttempt_LooksUpWhatItHolds(t *testing.T) {
	a := newAttempt(1)
	a.Charges = []attempt.Charge{succeeded("ch_1", asked)}
	if c, ok := a.Charge("ch_1"); !ok || c.Amount != asked {
		t.Errorf("charge %+v, %v", c, ok)
	}
	if c, ok := a.Charge("ch_2"); ok || c != (attempt.Charge{}) {
		t.Errorf("charge %+v, %v", c, ok)
	}
	act := pending("ch_3")
	act.NextAction = "https://bank.example/3ds"
	over := succeeded("ch_4", asked)
	over.NextAction = "https://bank.example/over"
	a.Charges = []attempt.Charge{pending("ch_2"), over, act}
	if got := a.NextAction(); got != act.NextAction {
		t.Errorf("next action %q", got)
	}
	a.Charges = []attempt.Charge{pending("ch_2"), over}
	if got := a.NextAction(); got != "" {
		t.Errorf("next action %q", got)
	}
	if c := (attempt.Charge{}); c.Amount != (money.Amount{}) || c.Status != attempt.ChargePending {
		t.Error("the zero charge looks settled")
	}
}

package attempt_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// bank is what a provider holds: it books whatever it is asked to, a refund above its charge too, so that only the records
// can keep money from leaving twice.
type bank struct {
	entries []*entry
}

type entry struct {
	id, reference string
	refundOf      string // the id of a charge; empty: a charge
	amount        money.Amount
	status        attempt.ChargeStatus
}

func (b *bank) book(a attempt.Attempt, status attempt.ChargeStatus, amount money.Amount) *entry {
	prefix := "ch"
	if a.IsRefund() {
		prefix = "re"
	}
	e := &entry{id: fmt.Sprintf("%s_%d", prefix, len(b.entries)+1), reference: a.Reference, refundOf: a.Refund.ChargeID, amount: amount, status: status}
	b.entries = append(b.entries, e)
	return e
}

func (e *entry) charge() attempt.Charge {
	return attempt.Charge{ID: e.id, Status: e.status, Amount: e.amount}
}

func (b *bank) under(reference string) (charges []attempt.Charge) {
	for _, e := range b.entries {
		if e.reference == reference {
			charges = append(charges, e.charge())
		}
	}
	return charges
}

// order is one order of a shop, its bank, and everything that can happen to both.
type order struct {
	*shop
	t        *rapid.T
	bank     *bank
	slot     attempt.Slot
	schedule *attempt.Schedule
	closed   bool
	final    map[string]attempt.Status
}

func (o *order) view() attempt.View {
	v, err := o.store.Slot(o.shop.t.Context(), o.slot)
	if err != nil {
		o.t.Fatal(err)
	}
	return v
}

func (o *order) apply(step *attempt.Step) error { return o.store.Apply(o.shop.t.Context(), step) }

// start pays or refunds: it claims and, if it may, sends.
func (o *order) start(refund attempt.Refund) {
	source := rapid.SampledFrom([]attempt.Source{visa, mastercard}).Draw(o.t, "source")
	s := &attempt.Start{
		Slot: o.slot, Intent: attempt.Intent{Order: "1001", Amount: asked, Source: source}, Refund: refund,
		Provider: "standard", Digester: o.digester, Resend: o.resend, Claim: claimLasts, SendSpan: 3 * time.Second,
		FirstCheck: firstCheck, PreparedAfter: 24 * time.Hour, Asked: true,
	}
	s.New = func(n int) (attempt.Attempt, error) {
		o.started++
		a := newAttempt(o.started)
		a.Version, a.Status, a.NextCheckAt = 0, attempt.StatusPrepared, time.Time{}
		if refund.AttemptID != "" {
			a.Refund, _, a.Amount = s.RefundIntent()
			return a, nil
		}
		digest, err := o.digester.Digest(source)
		a.Source = digest
		return a, err
	}
	if err := o.apply(s.Step()); err != nil {
		o.t.Fatal(err)
	}
	if s.Decision.Kind == attempt.DecidedRefuse && s.Decision.Err == nil {
		o.t.Fatalf("refused for no reason: %+v", s.Decision)
	}
	if s.Decision.Kind != attempt.DecidedSend {
		return
	}
	if o.closed && refund.AttemptID == "" {
		o.t.Fatal("a claim to pay was granted after the order was cancelled")
	}
	o.send(s.Decision.Attempt)
}

// send is one request and its answer.
func (o *order) send(a attempt.Attempt) {
	send := attempt.Send{}
	charged := func(status attempt.ChargeStatus, amount money.Amount) {
		c := o.bank.book(a, status, amount).charge()
		send.Verdict, send.Charge, send.Kept = attempt.Charged, &c, true
	}
	switch held := o.bank.under(a.Reference); rapid.SampledFrom([]string{"ok", "ok", "ok", "lost", "lost and booked", "pending", "different", "declined", "not sent", "dies", "dies and books"}).Draw(o.t, "answer") {
	case "ok":
		if len(held) > 0 { // the replay of what the key did
			send.Verdict, send.Charge, send.Kept = attempt.Charged, &held[0], true
			if held[0].Amount != a.Amount {
				send.Verdict, send.Reason, send.MoneyMoved = attempt.Violated, attempt.ReasonMismatch, true
			}
			break
		}
		charged(attempt.ChargeSucceeded, a.Amount)
	case "pending":
		if len(held) == 0 {
			charged(attempt.ChargePending, a.Amount)
		}
	case "different":
		if len(held) == 0 && !a.IsRefund() {
			c := o.bank.book(a, attempt.ChargeSucceeded, lessMoney).charge()
			send.Verdict, send.Reason, send.Charge, send.MoneyMoved = attempt.Violated, attempt.ReasonMismatch, &c, true
		}
	case "lost and booked":
		if len(held) == 0 {
			o.bank.book(a, attempt.ChargeSucceeded, a.Amount)
		}
	case "declined":
		if len(held) == 0 {
			send.Verdict, send.Kept, send.Reason = attempt.Refused, true, attempt.ReasonDeclined
		}
	case "not sent":
		send.Verdict = attempt.NotSent
	case "dies and books":
		if len(held) == 0 {
			o.bank.book(a, attempt.ChargeSucceeded, a.Amount)
		}
		return
	case "dies":
		return
	}
	o.record(a.ID, attempt.Evidence{Kind: attempt.EvidenceSends, Fence: a.Fence, Sends: []attempt.Send{send}, KeepsAnswers: true}, false)
}

func (o *order) record(id string, e attempt.Evidence, due bool) {
	known, err := o.store.Attempt(o.shop.t.Context(), id)
	if err != nil {
		o.t.Fatal(err)
	}
	r := &attempt.Record{ID: id, Evidence: e, Schedule: o.schedule, Due: due}
	if err := o.apply(r.Step(&known)); err != nil {
		o.t.Fatal(err)
	}
}

// pick draws one of the slot's attempts; false: there is none.
func (o *order) pick(from []attempt.Attempt) (attempt.Attempt, bool) {
	if len(from) == 0 {
		return attempt.Attempt{}, false
	}
	return from[rapid.IntRange(0, len(from)-1).Draw(o.t, "which")], true
}

func (o *order) step() {
	v := o.view()
	all := slices.Concat(v.Attempts, v.Refunds)
	switch rapid.SampledFrom([]string{"pay", "ask", "ask", "refund", "refund", "duty", "flip", "cancel", "resolve", "wait", "time"}).Draw(o.t, "what") {
	case "pay":
		o.start(attempt.Refund{})
	case "refund":
		if a, ok := o.pick(v.Attempts); ok {
			r := attempt.Refund{AttemptID: a.ID, ID: rapid.SampledFrom([]string{"r1", "r2", "r3"}).Draw(o.t, "refund")}
			if rapid.Bool().Draw(o.t, "partly") {
				r.Amount = amountOf(rapid.Int64Range(1, 1999).Draw(o.t, "minor"), "EUR")
			}
			o.start(r)
		}
	case "duty":
		if a, ok := o.pick(v.Attempts); ok {
			if d, owed := a.OpenDuty(); owed && d.Kind == attempt.DutyRefund {
				o.start(attempt.Refund{AttemptID: a.ID, ChargeID: d.ChargeID, ID: attempt.DutyRefundPrefix + d.ChargeID})
			}
		}
	case "ask":
		if a, ok := o.pick(all); ok {
			e := attempt.Evidence{Kind: attempt.EvidenceLookup, AskedAt: o.now, Lookup: attempt.LookupNone, Rule: usualRule, KeepsAnswers: true}
			if e.Charges = o.bank.under(a.Reference); len(e.Charges) > 0 {
				e.Lookup = attempt.LookupFound
			}
			o.record(a.ID, e, rapid.Bool().Draw(o.t, "due"))
		}
	case "time":
		if a, ok := o.pick(all); ok {
			o.record(a.ID, attempt.Evidence{Kind: attempt.EvidenceTime, Rule: usualRule}, true)
		}
	case "flip":
		for _, e := range o.bank.entries {
			switch {
			case e.status == attempt.ChargePending:
				e.status = rapid.SampledFrom([]attempt.ChargeStatus{attempt.ChargeSucceeded, attempt.ChargeFailed}).Draw(o.t, "flips to")
			case e.status == attempt.ChargeSucceeded && e.refundOf != "" && rapid.IntRange(0, 9).Draw(o.t, "comes back") == 0:
				e.status = attempt.ChargeFailed
			}
		}
	case "cancel":
		c := &attempt.Cancel{Slot: o.slot, Who: "a host", Why: "out of time", Schedule: o.schedule}
		if err := o.apply(c.Step()); err != nil {
			o.t.Fatal(err)
		}
		if c.Before != o.closed {
			o.t.Fatalf("closed before: %v, want %v", c.Before, o.closed)
		}
		o.closed = true
	case "resolve":
		if a, ok := o.pick(v.Attempts); ok {
			r := &attempt.Resolve{ID: a.ID, Version: a.Version, Who: "an operator", Schedule: o.schedule, Resolution: attempt.Resolution{
				Why:  "looked at the provider's dashboard",
				Kind: rapid.SampledFrom([]attempt.ResolutionKind{attempt.ResolvedRefund, attempt.ResolvedReview, attempt.ResolvedAskAgain}).Draw(o.t, "kind"),
			}}
			if d, owed := a.OpenDuty(); owed {
				r.Resolution.ChargeID = d.ChargeID
			}
			if err := o.apply(r.Step()); err != nil && !errors.Is(err, attempt.ErrNotResolvable) {
				o.t.Fatal(err)
			}
		}
	case "wait":
		o.now = o.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 20 * time.Second, 2 * time.Minute, time.Hour, 26 * time.Hour}).Draw(o.t, "for"))
	}
}

// check holds what must be true of an order at any time.
func (o *order) check() {
	v := o.view()
	out := map[string]int64{}
	for _, e := range o.bank.entries {
		if e.refundOf != "" && e.status != attempt.ChargeFailed {
			out[e.refundOf] += e.amount.Minor()
		}
	}
	for _, e := range o.bank.entries {
		if e.refundOf == "" && out[e.id] > e.amount.Minor() {
			o.t.Fatalf("charge %s of %s: refunds of %d have left: %+v", e.id, e.amount, out[e.id], v.Refunds)
		}
	}
	for _, a := range v.Attempts {
		o.checkOne(v, a)
		for _, c := range a.Charges {
			var refunded int64
			for _, r := range v.Refunds {
				for _, back := range r.Charges {
					if r.Refund.ChargeID == c.ID && back.Status == attempt.ChargeSucceeded {
						refunded += back.Amount.Minor()
					}
				}
			}
			if c.Refunded != refunded {
				o.t.Fatalf("charge %s: %d refunded, its refunds say %d", c.ID, c.Refunded, refunded)
			}
			if c.Status != attempt.ChargeSucceeded || refunded >= c.Amount.Minor() {
				continue
			}
			owed := slices.ContainsFunc(a.Duties, func(d attempt.Duty) bool { return d.ChargeID == c.ID && d.MetAt.IsZero() })
			wanted := a.Status == attempt.StatusApproved && c.ID == a.ChargeID && a.UnwantedAt.IsZero()
			if !wanted && !owed {
				o.t.Fatalf("nobody owes charge %s: %+v", c.ID, a)
			}
			if told := a.Tell(v.Now); told.Moved == attempt.MovedNo {
				o.t.Fatalf("money is there, and told is %+v: %+v", told, a)
			}
			if told := a.Tell(v.Now); !wanted && told.Outcome == attempt.Approved && !told.NotPaid {
				if a.Status != attempt.StatusApproved || !a.UnwantedAt.IsZero() {
					o.t.Fatalf("approved is told of %+v", a)
				}
			}
		}
	}
	for _, r := range v.Refunds {
		o.checkOne(v, r)
	}
}

func (o *order) checkOne(v attempt.View, a attempt.Attempt) {
	if was, ended := o.final[a.ID]; ended && was != a.Status {
		o.t.Fatalf("attempt %s: from %s to %s", a.ID, was, a.Status)
	}
	if a.Status.Final() {
		o.final[a.ID] = a.Status
	}
	if !a.Status.Final() && a.NextCheckAt.IsZero() && a.AskingEndedAt.IsZero() {
		o.t.Fatalf("nobody will ever look at %+v", a)
	}
	for _, d := range a.Duties {
		if d.Kind == attempt.DutyRefund && d.MetAt.IsZero() && a.NextCheckAt.IsZero() {
			o.t.Fatalf("nobody will ever pay the duty of %+v", a)
		}
	}
	if o.closed && !a.IsRefund() {
		if a.UnwantedAt.IsZero() {
			o.t.Fatalf("an attempt of a cancelled order is wanted: %+v", a)
		}
		if told := a.Tell(v.Now); told.Outcome == attempt.Approved && !told.NotPaid {
			o.t.Fatalf("a cancelled order is told as approved: %+v", a)
		}
	}
}

// Whatever happens to an order and in whatever order: no more goes back than came in, nothing surplus is forgotten, a
// cancelled order is never told as paid, and somebody will look at all that is open.
func TestProperty_Orders(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		o := &order{
			shop: open(t), t: rt, bank: &bank{}, slot: attempt.Slot{Order: "1001", Purpose: attempt.PurposeCharge},
			schedule: &attempt.Schedule{First: firstCheck, Rule: *usualRule}, final: map[string]attempt.Status{},
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			o.step()
			o.check()
		}
	})
}

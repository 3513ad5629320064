package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
)

// sound is what a run leaves behind in which nothing is broken.
func sound(t *testing.T) *records {
	t.Helper()
	o := run(t, 3, &mutant{name: "sound", world: worldOf(keepsAll, 0.3, lostAnswers...)})
	if len(o.Violations) > 0 {
		t.Fatalf("a sound run is broken: %+v", o.Violations)
	}
	return o.records
}

// paid returns an attempt that was approved, of which nothing went back, and is of no cancelled order.
func paid(r *records) *attempt.Attempt {
	for i := range r.final {
		a := &r.final[i]
		if _, closed := r.closing[a.Slot]; a.Status == attempt.StatusApproved && !a.IsRefund() && !closed && a.Charges[0].Refunded == 0 {
			return a
		}
	}
	panic("nobody has paid")
}

func chargeOf(r *records, a *attempt.Attempt) *fakeprovider.Charge {
	i := slices.IndexFunc(r.charges, func(c fakeprovider.Charge) bool { return c.ID == a.ChargeID })
	return &r.charges[i]
}

func writesOf(r *records, a *attempt.Attempt) (all []*write) {
	for i := range r.writes {
		if r.writes[i].attempt.ID == a.ID {
			all = append(all, &r.writes[i])
		}
	}
	return all
}

func callAbout(r *records, a *attempt.Attempt) *call {
	for _, c := range r.calls {
		if c.told() && c.result.AttemptID == a.ID && c.op == "pay" && c.err == nil && c.result.Outcome == payclient.Approved {
			return c
		}
	}
	panic("nobody was told")
}

func requestOf(r *records, a *attempt.Attempt) *fakeprovider.Request {
	i := slices.IndexFunc(r.requests, func(q fakeprovider.Request) bool { return q.Method == "POST" && q.Reference == a.Reference })
	return &r.requests[i]
}

// forgeries break a sound record in one place each.
var forgeries = []struct {
	rule, name string
	forge      func(*records)
}{
	{"one-charge", "a second charge under the reference", func(r *records) {
		c := *chargeOf(r, paid(r))
		c.ID, c.Created = "ch_999999", c.Created.Add(time.Second)
		r.charges = append(r.charges, c)
	}},
	{"one-charge", "a second attempt of the order, charged too", func(r *records) {
		a := *paid(r)
		c := *chargeOf(r, &a)
		a.ID, a.Reference, a.Key, a.ChargeID, a.Ordinal = "another", "another", "another key", "ch_999999", 2
		c.ID, c.Reference = a.ChargeID, a.Reference
		r.charges, r.final = append(r.charges, c), append(r.final, a)
	}},
	{"false-end", "a charge under an attempt that has ended as declined", func(r *records) {
		for _, w := range writesOf(r, paid(r)) {
			if w.attempt.Status == attempt.StatusApproved {
				w.attempt.Status, w.event.To = attempt.StatusDeclined, attempt.StatusDeclined
			}
			if w.event.From == attempt.StatusApproved {
				w.event.From = attempt.StatusDeclined
			}
		}
	}},
	{"stored-first", "a request of an attempt that nobody has stored", func(r *records) {
		r.wires = append(r.wires, wire{at: r.began.Add(time.Minute), instance: "i0.1", method: "POST", reference: "nobody"})
	}},
	{"stored-first", "a request before its claim", func(r *records) {
		a := paid(r)
		r.wires = append(r.wires, wire{at: writesOf(r, a)[0].at.Add(-time.Millisecond), method: "POST", reference: a.Reference})
	}},
	{"stored-first", "a request after its claim", func(r *records) {
		a := paid(r)
		r.wires = append(r.wires, wire{at: writesOf(r, a)[0].at.Add(5 * time.Minute), method: "POST", reference: a.Reference})
	}},
	{"one-key", "another key on the request", func(r *records) { requestOf(r, paid(r)).Key = "another" }},
	{"one-key", "another body under the key", func(r *records) {
		q := *requestOf(r, paid(r))
		q.BodyHash = "another"
		r.requests = append(r.requests, q)
	}},
	{"one-key", "one key for two attempts", func(r *records) { r.final[0].Key = r.final[1].Key }},
	{"no-resend", "a second request to a provider without keys", func(r *records) {
		r.profile.kind = keyless
		r.requests = append(r.requests, *requestOf(r, paid(r)))
	}},
	{"no-resend", "a request after the key's time", func(r *records) {
		q := *requestOf(r, paid(r))
		q.Time = q.Time.Add(r.profile.retention + time.Second)
		r.requests = append(r.requests, q)
	}},
	{"abandoned-safely", "given up within a minute, unasked", func(r *records) {
		a := paid(r)
		w := *writesOf(r, a)[0]
		w.at, w.store = w.at.Add(time.Minute), w.store.Add(time.Minute)
		w.attempt.Status, w.attempt.Reason, w.attempt.Claims = attempt.StatusAbandoned, attempt.ReasonNotFound, nil
		w.event.From, w.event.To = attempt.StatusUnknown, attempt.StatusAbandoned
		r.writes = append(r.writes, w)
	}},
	{"not-sent", "more requests arrived than were recorded", func(r *records) { r.requests = append(r.requests, *requestOf(r, paid(r))) }},
	{"not-sent", "an error of a call that has sent", func(r *records) {
		c := callAbout(r, paid(r))
		c.err, c.sent = errors.New("order order-1: nothing was sent"), []attempt.Send{{Answer: attempt.Answer{Verdict: attempt.Lost}}}
	}},
	{"not-sent", "prepared, and the provider has a request", func(r *records) { paid(r).Status = attempt.StatusPrepared }},
	{"final", "another end after the end", func(r *records) {
		w := *writesOf(r, paid(r))[0]
		w.attempt.Status = attempt.StatusDeclined
		r.writes = append(r.writes, w)
	}},
	{"told-final", "told another end than the store's", func(r *records) { callAbout(r, paid(r)).result.Outcome = payclient.Declined }},
	{"told-final", "two callers told different ends", func(r *records) {
		c := *callAbout(r, paid(r))
		c.result.Outcome, c.result.Moved = payclient.ContractViolation, payclient.MovedNo
		r.calls = append(r.calls, &c)
	}},
	{"told-money", "told that no money moved beside a charge", func(r *records) {
		c := *callAbout(r, paid(r))
		c.op, c.result.Outcome, c.result.Moved = "status", payclient.Declined, payclient.MovedNo
		c.began, c.ended = r.end, r.end
		r.calls = append(r.calls, &c)
	}},
	{"approved", "a charge of another amount", func(r *records) { chargeOf(r, paid(r)).Amount++ }},
	{"approved", "a charge in another currency", func(r *records) { chargeOf(r, paid(r)).Currency = "CHF" }},
	{"approved", "a charge that has failed", func(r *records) { chargeOf(r, paid(r)).Status = fakeprovider.Failed }},
	{"approved", "no charge at all", func(r *records) { paid(r).ChargeID = "ch_999999" }},
	{"one-claim", "claimed while a claim was running", func(r *records) {
		for i, w := range r.writes {
			if w.event.What != attempt.WhatStartedClaimed || len(w.attempt.Claims) != 1 {
				continue
			}
			again := w
			again.at, again.store, again.event.What, again.event.Version = w.at.Add(time.Millisecond), w.store.Add(time.Millisecond), attempt.WhatClaimed, 2
			again.attempt.Claims = append(slices.Clone(w.attempt.Claims), attempt.Claim{Fence: 2, Until: w.attempt.Claims[0].Until.Add(time.Millisecond)})
			r.writes = slices.Insert(r.writes, i+1, again)
			return
		}
	}},
	{"one-claim", "two live attempts of an order", func(r *records) {
		w := *writesOf(r, paid(r))[0]
		w.attempt.ID, w.at = "another", w.at.Add(time.Millisecond)
		r.writes = append(r.writes, w)
	}},
	{"gapless", "a change without its event", func(r *records) {
		a := paid(r)
		r.writes = slices.DeleteFunc(r.writes, func(w write) bool { return w.attempt.ID == a.ID && w.event.Version == a.Version })
	}},
	{"cancelled", "claimed after the order was cancelled", func(r *records) {
		a := paid(r)
		r.closing[a.Slot] = closed{at: writesOf(r, a)[0].at.Add(-time.Second)}
	}},
	{"refunds", "more went back than came in", func(r *records) {
		c := chargeOf(r, paid(r))
		r.refunds = append(r.refunds, fakeprovider.Refund{ID: "re_999999", Charge: c.ID, Status: fakeprovider.Succeeded, Amount: c.Amount + 1})
	}},
	{"refunds", "a refund with one id twice", func(r *records) {
		i := slices.IndexFunc(r.refunds, func(f fakeprovider.Refund) bool { return f.Status == fakeprovider.Succeeded })
		f := r.refunds[i]
		f.ID, f.Amount = "re_999999", 0
		r.refunds = append(r.refunds, f)
	}},
	{"duties", "money of a cancelled order that stays", func(r *records) {
		a := paid(r)
		for r.refunded(a.ChargeID) > 0 {
			r.refunds = slices.DeleteFunc(r.refunds, func(f fakeprovider.Refund) bool { return f.Charge == a.ChargeID })
		}
		r.closing[a.Slot] = closed{at: r.end}
	}},
	{"duties", "a duty that is called met", func(r *records) {
		a := paid(r)
		r.refunds = slices.DeleteFunc(r.refunds, func(f fakeprovider.Refund) bool { return f.Charge == a.ChargeID })
		a.Duties = []attempt.Duty{{Kind: attempt.DutyRefund, ChargeID: a.ChargeID, Amount: a.Amount, MetAt: r.end, How: attempt.HowRefunded}}
	}},
	{"settled", "unknown for ever", func(r *records) { paid(r).Status = attempt.StatusUnknown }},
	{"settled", "prepared for ever", func(r *records) { paid(r).Status = attempt.StatusPrepared }},
	{"events-once", "more learnt from webhooks than there were events", func(r *records) {
		w := *writesOf(r, paid(r))[0]
		w.event.Evidence = &attempt.Evidence{Kind: attempt.EvidenceWebhook}
		r.writes = append(r.writes, w)
	}},
	{"relayed", "a change that the host was not told", func(r *records) { paid(r).Version++ }},
	{"relayed", "changes out of order", func(r *records) { slices.Reverse(r.relayed[paid(r).ID]) }},
	{"bounded", "a call that took an hour", func(r *records) { c := callAbout(r, paid(r)); c.ended = c.began.Add(time.Hour) }},
	{"canary", "a payment that has waited for its turn", func(r *records) {
		i := slices.IndexFunc(r.calls, func(c *call) bool { return c.canary })
		r.calls[i].ended = r.calls[i].ended.Add(2 * canaryTakes)
	}},
	{"leaks", "a goroutine", func(r *records) { r.remains.goroutines = []string{"goroutine 7 [select]"} }},
	{"leaks", "a connection", func(r *records) { r.remains.connections = []string{"i0.1"} }},
	{"leaks", "a row that was taken and never given back", func(r *records) { r.remains.due = []attempt.Brief{{ID: "one"}} }},
	{"leaks", "a claim that still runs", func(r *records) { r.remains.claims = []string{"one until +1h"} }},
	{"leaks", "an event that was never delivered", func(r *records) { r.remains.undelivered = 1 }},
	{"canary", "no payment although all is well", func(r *records) {
		i := slices.IndexFunc(r.calls, func(c *call) bool { return c.canary })
		r.calls[i].err = errors.New("too many requests under way")
	}},
}

// Each rule finds what breaks it.
func TestRulesFindForgeries(t *testing.T) {
	tried := make(map[string]bool)
	for _, f := range forgeries {
		tried[f.rule] = true
		t.Run(f.rule+" "+f.name, func(t *testing.T) {
			t.Parallel()
			r := sound(t)
			f.forge(r)
			r.sorted = nil
			i := slices.IndexFunc(rules, func(rule rule) bool { return rule.name == f.rule })
			if i < 0 {
				t.Fatalf("there is no rule %q", f.rule)
			}
			if broken := rules[i].check(r); len(broken) == 0 {
				t.Errorf("%s: not found by the rule that %s", f.name, rules[i].because)
			} else if strings.TrimSpace(broken[0]) == "" {
				t.Error("found, and not said what")
			}
		})
	}
	for _, rule := range rules {
		if !tried[rule.name] {
			t.Errorf("rule %q is not tried on anything that breaks it", rule.name)
		}
	}
}

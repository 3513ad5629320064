package main

import (
	"errors"
	"slices"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
)

// sometimes are the things that must have happened over the seeds of a suite: a simulator in which they never happen proves
// nothing about them.
var sometimes = []string{
	"charged, and the answer was lost",
	"refusal that came while another sender held a claim",
	"sent again after answers that found nothing",
	"customer's retry after a lost answer: keeps-all",
	"customer's retry after a lost answer: successes",
	"customer's retry after a lost answer: keyless",
	"webhook before Start commits, adopted afterwards",
	"payment that a restored store has forgotten",
	"refunds of one charge from two sources",
	"claim that expired before its sender could store the outcome",
	"answer after its attempt was given up: sends",
	"answer after its attempt was given up: lookup",
	"answer after its attempt was given up: webhook",
	"breaker open, with an unknown behind it",
	"no time left to send, with an unknown behind it",
	"told unknown because it must not be sent again",
	"not charged, and no answer",
	"proven not sent after an earlier send that may have been executed",
	"claim taken over after it had expired",
	"claim that expired while its sender was frozen",
	"sender frozen before its first byte",
	"request that reached the provider after its claim",
	"lookup says none, a later one finds the charge",
	"charge that was made after its attempt was given up",
	"key near the end of its retention",
	"told in flight",
	"told of a conflict",
	"told already paid by another attempt",
	"told of a cancelled order",
	"a refusal under a key beside a lost answer",
	"rejected for good",
	"rejected, and open because of an earlier send",
	"an answer outside the contract, later approved",
	"approved by a webhook",
	"webhook before the answer",
	"event: orphan", "event: seen", "event: stored", "event: forged",
	"approved by a lookup",
	"declined by a lookup or a webhook",
	"abandoned because it was not found",
	"abandoned because nobody sent it",
	"superseded before it was sent",
	"a new attempt after an abandoned one",
	"order cancelled before anything was started",
	"order cancelled while it was being sent",
	"order cancelled after it was paid",
	"charge cancelled at the provider",
	"duty: late_money", "duty: unwanted", "duty: different", "duty: second_charge",
	"duty paid by a refund", "late money kept",
	"two refunds of one charge under way",
	"refund refused above the sum",
	"refund whose answer was lost",
	"commit whose answer was lost",
	"outcome that could not be stored at once",
	"store out of reach",
	"dial in an outage",
	"replayed answer",
	"refusal that names nobody on a used connection",
	"money told as owed back",
	"asking has ended",
	"payer finished at the provider",
	"host that refuses an event",
	"asked again in so many words",
	"process died after the claim and before the outcome",
	"asked: not_asked", "asked: unreadable", "asked: none", "asked: found",
	"send: running", "send: violated", "send: unavailable", "send: rejected", "send: not_sent", "send: refused",
}

// observe counts what a run has shown.
func observe(r *records, count func(string)) {
	history, charges := r.history(), r.byReference()
	for i := range r.final {
		observeAttempt(r, &r.final[i], history[r.final[i].ID], charges[r.final[i].Reference], count)
	}
	for slot, c := range r.closing {
		started, paid, sending := false, false, false
		for i := range r.writes {
			w := &r.writes[i]
			if w.attempt.Slot != slot || w.at.After(c.at) || w.attempt.IsRefund() || w.event.What == attempt.WhatCancelled {
				continue
			}
			started, paid, sending = true, w.attempt.Status == attempt.StatusApproved, w.attempt.Status == attempt.StatusSending
		}
		switch {
		case !started:
			count("order cancelled before anything was started")
		case paid:
			count("order cancelled after it was paid")
		case sending:
			count("order cancelled while it was being sent")
		}
	}
	for _, c := range r.calls {
		observeCall(r, c, count)
	}
}

func observeAttempt(r *records, a *attempt.Attempt, history []*write, charges []*fakeprovider.Charge, count func(string)) {
	end, status := endOf(history)
	none, maybe, expired := false, false, false
	var claimed time.Time
	until := make(map[int]time.Time) // of claims, by fence
	for k, w := range history {
		e := w.event.Evidence
		for _, c := range w.attempt.Claims {
			until[c.Fence] = c.Until
		}
		switch w.event.What {
		case attempt.WhatClaimed, attempt.WhatStartedClaimed:
			if n := len(w.attempt.Claims); n > 1 {
				expired = true
			}
			if expired && w.event.What == attempt.WhatClaimed {
				count("claim taken over after it had expired")
			}
			claimed = w.at
		case attempt.WhatSuperseded:
			if w.event.To == attempt.StatusAbandoned {
				count("superseded before it was sent")
			}
		}
		for _, d := range w.event.Duties {
			count("duty: " + d.Why)
		}
		if w.event.What == attempt.WhatStartedClaimed && w.attempt.Ordinal > 1 && !a.IsRefund() && follows(r, a) {
			count("a new attempt after an abandoned one")
		}
		if e == nil {
			continue
		}
		if k > 0 && history[k-1].attempt.Status == attempt.StatusAbandoned && (len(e.Sends) > 0 || len(e.Charges) > 0 && len(history[k-1].attempt.Charges) == 0) {
			count("answer after its attempt was given up: " + string(e.Kind))
		}
		switch e.Kind {
		case attempt.EvidenceSends:
			switch {
			case len(e.Sends) == 0 && len(e.Charges) > 0:
				count("charge cancelled at the provider")
			case len(e.Sends) == 0 && w.attempt.MaybeSends > 0 && !w.attempt.Status.Final() && w.at.Sub(claimed) < time.Second:
				count("breaker open, with an unknown behind it")
			case len(e.Sends) == 0 && w.attempt.MaybeSends > 0 && !w.attempt.Status.Final():
				count("no time left to send, with an unknown behind it")
			}
			if len(e.Sends) > 0 && !e.Overdue && !until[e.Fence].IsZero() && w.store.After(until[e.Fence]) {
				count("claim that expired before its sender could store the outcome")
			}
			for _, s := range e.Sends {
				if s.Verdict == attempt.Lost && none {
					count("sent again after answers that found nothing")
				}
				if (s.Verdict == attempt.Refused || s.Verdict == attempt.Rejected) && slices.ContainsFunc(w.attempt.Claims, func(c attempt.Claim) bool {
					return c.Fence != e.Fence && c.Until.After(w.store)
				}) {
					count("refusal that came while another sender held a claim")
				}
				switch {
				case s.Verdict == attempt.NotSent && maybe:
					count("proven not sent after an earlier send that may have been executed")
				case s.Verdict == attempt.Lost:
					maybe = true
				case s.Verdict == attempt.Refused && maybe:
					count("a refusal under a key beside a lost answer")
				case s.Verdict == attempt.Rejected && maybe:
					count("rejected, and open because of an earlier send")
				case s.Verdict == attempt.Violated && status == attempt.StatusApproved:
					count("an answer outside the contract, later approved")
				}
				if s.Verdict == attempt.Lost && a.IsRefund() {
					count("refund whose answer was lost")
				}
			}
		case attempt.EvidenceLookup:
			if e.Lookup == attempt.LookupFound && none {
				count("lookup says none, a later one finds the charge")
			}
			none = none || e.Lookup == attempt.LookupNone
		case attempt.EvidenceWebhook:
			if len(w.attempt.Claims) > 0 {
				count("webhook before the answer")
			}
		}
		if w.event.Final() && k > 0 && !history[k-1].attempt.Status.Final() {
			switch {
			case w.attempt.Status == attempt.StatusApproved:
				count("approved by a " + string(e.Kind))
			case w.attempt.Status == attempt.StatusDeclined && e.Kind != attempt.EvidenceSends:
				count("declined by a lookup or a webhook")
			}
		}
	}
	switch {
	case status == attempt.StatusRejected:
		count("rejected for good")
	case status == attempt.StatusAbandoned && a.Reason == attempt.ReasonNotFound:
		count("abandoned because it was not found")
	case status == attempt.StatusAbandoned && a.Reason == attempt.ReasonNeverSent:
		count("abandoned because nobody sent it")
	}
	if !a.AskingEndedAt.IsZero() {
		count("asking has ended")
	}
	if !claimed.IsZero() && len(a.Claims) > 0 {
		count("process died after the claim and before the outcome")
	}
	for _, d := range a.Duties {
		switch {
		case d.How == attempt.HowRefunded:
			count("duty paid by a refund")
		case d.How == attempt.HowKept:
			count("late money kept")
		}
	}
	for _, c := range charges {
		if r.late(c.Reference, c.Created, end) && status != attempt.StatusApproved {
			count("charge that was made after its attempt was given up")
		}
	}
	answered := false
	for _, q := range r.index().requests[a.Reference] {
		if q.Method != "POST" {
			continue
		}
		answered = answered || q.Status != 0
		if !claimed.IsZero() && r.profile.keyed() && q.Time.Sub(history[0].at) > r.profile.retention*4/5 {
			count("key near the end of its retention")
		}
	}
	if maybe {
		if len(charges) > 0 {
			count("charged, and the answer was lost")
		} else {
			count("not charged, and no answer")
		}
	}
	for _, w := range r.index().wires[a.Reference] {
		if w.frozen > 0 {
			if w.frozen > 15*time.Second {
				count("claim that expired while its sender was frozen")
			}
			if r.reached(w) {
				count("request that reached the provider after its claim")
			}
		}
	}
	if a.IsRefund() {
		for _, o := range r.final {
			if o.ID != a.ID && o.IsRefund() && o.Refund.ChargeID == a.Refund.ChargeID {
				count("two refunds of one charge under way")
				if o.Refund.ID != a.Refund.ID {
					count("refunds of one charge from two sources")
				}
			}
		}
	}
}

// lostBefore tells whether a request of the order's had been lost when a call began, and nobody knew yet what had become of it.
func (r *records) lostBefore(c *call) bool {
	for i := range r.final {
		if a := &r.final[i]; a.Slot.Order != c.order || a.IsRefund() {
			continue
		}
		var last *write
		for _, w := range r.history()[r.final[i].ID] {
			if w.at.Before(c.began) {
				last = w
			}
		}
		if last != nil && last.attempt.Status == attempt.StatusUnknown && last.attempt.MaybeSends > 0 {
			return true
		}
	}
	return false
}

// follows tells whether the attempt before this one was given up.
func follows(r *records, a *attempt.Attempt) bool {
	for i := range r.final {
		o := &r.final[i]
		if o.Slot == a.Slot && o.Ordinal == a.Ordinal-1 && o.Status == attempt.StatusAbandoned && o.Reason == attempt.ReasonNotFound {
			return true
		}
	}
	return false
}

func observeCall(r *records, c *call, count func(string)) {
	if !c.told() {
		return
	}
	if c.op == "pay" && r.lostBefore(c) {
		count("customer's retry after a lost answer: " + string(r.profile.kind))
	}
	if c.err == nil && c.result.Open() && c.result.Reason == attempt.ReasonNotSendable {
		count("told unknown because it must not be sent again")
	}
	notPaid := new(attempt.NotPaidError)
	switch {
	case errors.Is(c.err, attempt.ErrConflict):
		count("told of a conflict")
	case errors.Is(c.err, attempt.ErrAlreadyPaid):
		count("told already paid by another attempt")
	case errors.Is(c.err, attempt.ErrCancelled):
		count("told of a cancelled order")
	case errors.Is(c.err, attempt.ErrNotRefundable), errors.Is(c.err, attempt.ErrRefunded) && c.op == "refund":
		count("refund refused above the sum")
	case errors.As(c.err, &notPaid):
	case c.err == nil && c.result.Reason == attempt.ReasonInFlight:
		count("told in flight")
	}
	if c.err == nil && c.result.Reason == attempt.ReasonRefundOwed && c.result.Moved == payclient.MovedYes {
		count("money told as owed back")
	}
}

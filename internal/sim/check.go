package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
)

// violation is a rule that a run has broken.
type violation struct {
	Rule string `json:"rule"`
	Text string `json:"text"`
}

// rule is one thing that must hold whatever has happened. Its check returns what breaks it.
type rule struct {
	name    string
	because string
	check   func(*records) []string
}

// rules are what the checker holds a run to, over the provider's books, the store's history and what callers were told.
var rules = []rule{
	{"one-charge", "an order is charged once, under whatever keys", oneCharge},
	{"false-end", "a charge that exists is never told as final without money", falseEnds},
	{"stored-first", "no request at the provider without a claim stored before it", storedFirst},
	{"one-key", "an attempt has one key, one body and one reference, and no other attempt has them", oneKey},
	{"no-resend", "what may have been executed is sent again only where the provider repeats its answer", noResend},
	{"abandoned-safely", "given up only long after the last request, and after two answers that found nothing", abandonedSafely},
	{"not-sent", "whoever is told that nothing was sent can rely on it", notSent},
	{"final", "an end never changes", final},
	{"told-final", "no two callers are told different ends", toldFinal},
	{"told-money", "nobody is told that no money moved while the provider holds it", toldMoney},
	{"approved", "approved only with a charge of that amount and currency", approved},
	{"one-claim", "one claim at a time, and one live attempt per order", oneClaim},
	{"gapless", "every change is an event, without gaps", gapless},
	{"cancelled", "nothing is sent for an order after it was cancelled", cancelled},
	{"refunds", "never more goes back than came in", refundSums},
	{"duties", "surplus money is given back once, or waits for a person", duties},
	{"settled", "once all is well, nothing stays unknown that evidence could settle", settledInTheEnd},
	{"events-once", "a webhook event counts once, however often it is delivered", eventsOnce},
	{"relayed", "the host is told of every change, in order", relayed},
	{"bounded", "no caller waits longer than a claim lasts", bounded},
	{"canary", "once all is well, every instance makes as many payments at once as it may: no permit was lost", canary},
	{"leaks", "no goroutine, connection, claim, due attempt or event is left behind", leaks},
}

// holds tells whether a charge holds or may take money.
func holds(c *fakeprovider.Charge) bool {
	return c.Status == fakeprovider.Succeeded || c.Status == fakeprovider.Pending
}

// late tells whether a charge was made when its attempt had ended already, so that nobody could have known of it; or shortly
// before, of a request that the provider had kept for longer than anybody waits, and no search could show it yet.
func (r *records) late(reference string, made, end time.Time) bool {
	if end.IsZero() {
		return false
	}
	if made.After(end) {
		return true
	}
	shown := made.Add(r.profile.searchLag + onTheWay)
	if r.lateWire(reference) && shown.After(r.asked(reference, end)) {
		return true // its sender had stood still, and nobody could know yet that it went on: no search could show it
	}
	return shown.After(r.asked(reference, end)) && slices.ContainsFunc(r.index().requests[reference], func(q *fakeprovider.Request) bool {
		return q.Method == "POST" && strings.Contains(string(q.Fault), "book-after") && made.Sub(q.Time) >= abandonAfter
	})
}

// asked is when the question was asked whose answer ended an attempt, which may have been stored much later; its end where no answer did.
func (r *records) asked(reference string, end time.Time) time.Time {
	id, _ := attempt.IDOf(reference)
	for _, w := range r.history()[id] {
		if e := w.event.Evidence; w.at.Equal(end) && e != nil && e.Kind == attempt.EvidenceLookup && !e.AskedAt.IsZero() {
			return w.at.Add(-max(0, w.store.Sub(e.AskedAt))) // asked by the store's clock
		}
	}
	return end
}

// lastRequest is when the last request of an attempt left before a time.
func (r *records) lastRequest(reference string, before time.Time) (last time.Time) {
	for _, q := range r.index().wires[reference] {
		if q.method == "POST" && !q.at.After(before) && q.at.After(last) {
			last = q.at
		}
	}
	return last
}

// refunded is how much of a charge the provider has given back.
func (r *records) refunded(id string) (sum int64) {
	for _, f := range r.refunds {
		if f.Charge == id && f.Status == fakeprovider.Succeeded {
			sum += f.Amount
		}
	}
	return sum
}

func oneCharge(r *records) (broken []string) {
	attempts, history := r.references(), r.history()
	inTime := make(map[attempt.Slot][]string)
	for i := range r.charges {
		c := &r.charges[i]
		a := attempts[c.Reference]
		if a == nil || !holds(c) {
			continue
		}
		if end, status := endOf(history[a.ID]); r.late(c.Reference, c.Created, end) && (status != attempt.StatusApproved || r.lateWire(c.Reference)) {
			continue // rule "duties" sees to it
		}
		if !r.blamed && r.madeTwice(c) {
			continue
		}
		inTime[a.Slot] = append(inTime[a.Slot], c.ID+" of "+short(c.Reference))
	}
	for slot, ids := range inTime {
		if len(ids) > 1 {
			broken = append(broken, fmt.Sprintf("%s was charged %d times: %v", slot, len(ids), ids))
		}
	}
	return broken
}

// madeTwice tells whether a charge is the second that the provider has made of one request: nobody but the provider could have
// kept it from that.
func (r *records) madeTwice(c *fakeprovider.Charge) bool {
	for _, q := range r.index().requests[c.Reference] {
		if q.Method != "POST" || !strings.Contains(string(q.Fault), "book-twice") {
			continue
		}
		for _, other := range r.index().charges[c.Reference] {
			if other.ID != c.ID && (other.ID < c.ID || other.Status == fakeprovider.Failed) && other.Created.Equal(c.Created) {
				return true
			}
		}
	}
	return false
}

// falseEnds are attempts that ended without money although the provider held a charge by then.
func falseEnds(r *records) (broken []string) {
	history, charges := r.history(), r.byReference()
	for i := range r.final {
		a := &r.final[i]
		if a.IsRefund() {
			for _, f := range r.refunds {
				end, status := endOf(history[a.ID])
				if f.Reference == a.Reference && f.Status == fakeprovider.Succeeded && status != attempt.StatusApproved && !end.IsZero() && !r.late(f.Reference, f.Created, end) {
					broken = append(broken, fmt.Sprintf("refund attempt %s of %s ended as %s beside %s", short(a.Reference), a.Slot, status, f.ID))
				}
			}
			continue
		}
		end, status := endOf(history[a.ID])
		if end.IsZero() || status == attempt.StatusApproved {
			continue
		}
		for _, c := range charges[a.Reference] {
			if holds(c) && !r.forgot(c) && !r.late(c.Reference, c.Created, end) && !r.madeTwice(c) && r.refundedBy(c.ID, end) < c.Amount {
				broken = append(broken, fmt.Sprintf("attempt %s of %s ended as %s (%s) at +%s, and the provider holds %s (%s) since +%s",
					short(a.Reference), a.Slot, status, a.Reason, end.Sub(r.began), c.ID, c.Status, c.Created.Sub(r.began)))
			}
		}
	}
	return broken
}

// refundedBy is how much of a charge had been given back at a time.
func (r *records) refundedBy(id string, at time.Time) (sum int64) {
	for _, f := range r.refunds {
		if f.Charge == id && f.Status == fakeprovider.Succeeded && !f.Created.After(at) {
			sum += f.Amount
		}
	}
	return sum
}

func storedFirst(r *records) (broken []string) {
	attempts, history := r.references(), r.history()
	for i := range r.wires {
		q := &r.wires[i]
		if q.method != "POST" || q.reference == "" {
			continue
		}
		a := attempts[q.reference]
		if a == nil {
			broken = append(broken, fmt.Sprintf("a request of %s left %s at +%s, and nobody has stored such an attempt", short(q.reference), q.instance, q.at.Sub(r.began)))
			continue
		}
		claimed, running := false, false
		for _, w := range history[a.ID] {
			if w.event.What != attempt.WhatClaimed && w.event.What != attempt.WhatStartedClaimed || w.at.After(q.at) {
				continue
			}
			claimed = true
			last := w.attempt.Claims[len(w.attempt.Claims)-1]
			// By the store's clock at the claim; what the sender itself counts is not later.
			running = running || !q.at.After(w.at.Add(last.Until.Sub(w.store)))
		}
		switch {
		case !claimed:
			broken = append(broken, fmt.Sprintf("a request of attempt %s left %s at +%s before any claim was stored", short(q.reference), q.instance, q.at.Sub(r.began)))
		case !running && q.frozen == 0:
			broken = append(broken, fmt.Sprintf("a request of attempt %s left %s at +%s when no claim was running any more", short(q.reference), q.instance, q.at.Sub(r.began)))
		}
	}
	return broken
}

func oneKey(r *records) (broken []string) {
	attempts := r.references()
	keys, ids := make(map[string]string), make(map[string]string)
	for _, a := range r.final {
		if other, taken := keys[a.Key]; taken {
			broken = append(broken, fmt.Sprintf("attempts %s and %s have one key", short(other), short(a.Reference)))
		}
		keys[a.Key] = a.Reference
		if other, taken := ids[a.Reference]; taken {
			broken = append(broken, fmt.Sprintf("attempts %s and %s have one reference", other, a.ID))
		}
		ids[a.Reference] = a.ID
	}
	bodies := make(map[string]string)
	for i := range r.requests {
		q := &r.requests[i]
		if q.Method != "POST" || q.Reference == "" || q.Cut {
			continue
		}
		if a := attempts[q.Reference]; a != nil && r.profile.keyed() && q.Key != a.Key {
			broken = append(broken, fmt.Sprintf("request %d of attempt %s carries the key %q, its own is %q", q.Number, short(q.Reference), q.Key, a.Key))
		}
		if before, sent := bodies[q.Reference]; sent && before != q.BodyHash {
			broken = append(broken, fmt.Sprintf("request %d of attempt %s has another body than the one before", q.Number, short(q.Reference)))
		}
		bodies[q.Reference] = q.BodyHash
	}
	return broken
}

func noResend(r *records) (broken []string) {
	first, last := make(map[string]*fakeprovider.Request), make(map[string]*fakeprovider.Request)
	for i := range r.requests {
		q := &r.requests[i]
		if q.Method != "POST" || q.Reference == "" {
			continue
		}
		before, again := last[q.Reference]
		last[q.Reference] = q
		if !again {
			first[q.Reference] = q
			continue
		}
		running := before.Status == 409 && before.Fault == ""
		keeps := r.profile.kind == keepsAll || r.profile.kind == noLookup
		switch {
		case before.Status == 409 && r.profile.kind == successes: // the first one is still running, says the provider
		case !r.profile.keyed(), !keeps && !running:
			broken = append(broken, fmt.Sprintf("attempt %s was sent again at +%s to a provider that is %s", short(q.Reference), q.Time.Sub(r.began), r.profile.kind))
		case q.Time.Sub(first[q.Reference].Time) > r.profile.retention && !r.lateWire(q.Reference):
			broken = append(broken, fmt.Sprintf("attempt %s was sent again after %s, its key is kept for %s", short(q.Reference), q.Time.Sub(first[q.Reference].Time), r.profile.retention))
		}
	}
	return broken
}

// onTheWay is how much later than asked a question may reach the provider.
const onTheWay = 5 * time.Second

// abandonAfter is the client's default, for the lags that a profile may declare.
const abandonAfter = 30 * time.Minute

func abandonedSafely(r *records) (broken []string) {
	jumped := time.Duration(0) // by which the store's clock may have gone ahead of all others
	for _, j := range r.profile.jumps {
		jumped += max(j.by, -j.by)
	}
	for _, history := range r.history() {
		for _, w := range history {
			if w.event.To != attempt.StatusAbandoned || w.event.From == attempt.StatusAbandoned || w.attempt.Reason != attempt.ReasonNotFound {
				continue
			}
			a := &w.attempt
			last := r.lastRequest(a.Reference, w.at)
			if age := w.at.Sub(last); !last.IsZero() && age < abandonAfter-jumped && !r.lateWire(a.Reference) {
				broken = append(broken, fmt.Sprintf("attempt %s of %s was given up %s after its last request", short(a.Reference), a.Slot, age))
			}
			if len(a.Claims) > 0 && !a.ClaimedUntil(w.store).IsZero() {
				broken = append(broken, fmt.Sprintf("attempt %s of %s was given up while somebody might send it", short(a.Reference), a.Slot))
			}
			var nones []time.Time
			for i := range r.requests {
				q := &r.requests[i]
				// A search by an answer that was whole, or at least not an error.
				searched := q.Method == "GET" && (q.Reference == a.Reference || strings.Contains(q.Query, a.Reference))
				if searched && q.Status == 200 && !q.Time.After(w.at) && q.Time.After(last.Add(r.profile.lag-jumped)) && (len(nones) == 0 || q.Time.Sub(nones[len(nones)-1]) >= r.profile.lag-jumped-onTheWay) {
					nones = append(nones, q.Time)
				}
			}
			if len(nones) < 2 && !r.lateWire(a.Reference) {
				broken = append(broken, fmt.Sprintf("attempt %s of %s was given up at +%s after %d questions that count", short(a.Reference), a.Slot, w.at.Sub(r.began), len(nones)))
			}
		}
	}
	return broken
}

func notSent(r *records) (broken []string) {
	attempts := r.references()
	// What reached the provider, against what the store says may have left.
	arrived := make(map[string]int)
	for i := range r.requests {
		if q := &r.requests[i]; q.Method == "POST" && q.Reference != "" {
			arrived[q.Reference]++
		}
	}
	history := r.history()
	for reference, n := range arrived {
		a := attempts[reference]
		if a == nil || r.lateWire(reference) {
			continue
		}
		mayHaveLeft, open := 0, len(a.Claims)
		for _, w := range history[a.ID] {
			if e := w.event.Evidence; e != nil && e.Kind == attempt.EvidenceSends {
				for _, s := range e.Sends {
					if s.Verdict != attempt.NotSent {
						mayHaveLeft++
					}
				}
			}
		}
		if n > mayHaveLeft && open == 0 {
			broken = append(broken, fmt.Sprintf("%d requests of attempt %s of %s reached the provider, the store knows of %d", n, short(reference), a.Slot, mayHaveLeft))
		}
		if a.Status == attempt.StatusPrepared {
			broken = append(broken, fmt.Sprintf("attempt %s of %s stands as prepared, and %d requests reached the provider", short(reference), a.Slot, n))
		}
	}
	// And what callers were told, against what their own calls have sent.
	for _, c := range r.calls {
		if !c.told() || c.err == nil {
			continue
		}
		for _, s := range c.sent {
			if s.Verdict != attempt.NotSent {
				broken = append(broken, fmt.Sprintf("call %d (%s %s) failed with %q, which says that it sent nothing, and had a request that is %s", c.n, c.op, c.order, c.err, s.Verdict))
			}
		}
		notPaid := new(attempt.NotPaidError)
		if !errors.As(c.err, &notPaid) || len(c.sent) == 0 {
			continue
		}
		for _, q := range r.index().wires[notPaid.Attempt.Reference] {
			alone := !slices.ContainsFunc(r.calls, func(o *call) bool {
				return o != c && o.order == c.order && (o.ended.IsZero() || !o.ended.Before(q.at)) && !o.began.After(q.at)
			})
			if q.method == "POST" && alone && !q.at.Before(c.began) && !q.at.After(c.ended) && q.frozen == 0 && r.reached(q) {
				broken = append(broken, fmt.Sprintf("call %d (%s %s) was told %q, and its request left at +%s", c.n, c.op, c.order, c.err, q.at.Sub(r.began)))
			}
		}
	}
	return broken
}

// reached tells whether the provider has seen a request.
func (r *records) reached(w *wire) bool {
	return slices.ContainsFunc(r.index().requests[w.reference], func(q *fakeprovider.Request) bool {
		d := q.Time.Sub(w.at)
		return q.Method == w.method && d > -time.Millisecond && d < time.Millisecond
	})
}

func final(r *records) (broken []string) {
	for id, history := range r.history() {
		ended := attempt.Status(0)
		was := false
		for _, w := range history {
			if was && w.attempt.Status != ended {
				broken = append(broken, fmt.Sprintf("attempt %s of %s went from %s to %s", id, w.attempt.Slot, ended, w.attempt.Status))
			}
			if w.attempt.Status.Final() {
				was, ended = true, w.attempt.Status
			}
		}
	}
	return broken
}

// endTold is the end that a call was told of, if it was.
func endTold(c *call) (status attempt.Status, ok bool) {
	if !c.told() || c.result.AttemptID == "" {
		return 0, false
	}
	notPaid := new(attempt.NotPaidError)
	switch {
	case errors.As(c.err, &notPaid):
		return notPaid.Attempt.Status, notPaid.Attempt.Status.Final()
	case c.err != nil:
		return 0, false
	}
	switch {
	case c.result.Outcome == payclient.Approved && c.result.Reason != attempt.ReasonKept:
		return attempt.StatusApproved, true
	case c.result.Outcome == payclient.Declined:
		return attempt.StatusDeclined, true
	case c.result.Outcome == payclient.ContractViolation && c.result.Moved == payclient.MovedNo:
		return attempt.StatusRejected, true
	}
	return 0, false
}

func toldFinal(r *records) (broken []string) {
	type telling struct {
		status attempt.Status
		call   *call
	}
	told := make(map[string]telling)
	final := make(map[string]*attempt.Attempt)
	for i := range r.final {
		final[r.final[i].ID] = &r.final[i]
	}
	for _, c := range r.calls {
		status, ok := endTold(c)
		if !ok {
			continue
		}
		id := c.result.AttemptID
		if before, known := told[id]; known && before.status != status {
			broken = append(broken, fmt.Sprintf("attempt %s of order %s: call %d was told %s, call %d %s", id, c.order, before.call.n, before.status, c.n, status))
		}
		told[id] = telling{status, c}
		a := final[id]
		switch {
		case a == nil:
			broken = append(broken, fmt.Sprintf("call %d was told of attempt %s, which nobody has stored", c.n, id))
		case a.Status == status:
		case !a.Status.Final() && !r.profile.canAsk() && c.result.RecordErr != nil: // it could not be stored, and nobody can be asked
		default:
			broken = append(broken, fmt.Sprintf("call %d (%s %s) was told %s, the store says %s", c.n, c.op, c.order, status, a.Status))
		}
	}
	return broken
}

func toldMoney(r *records) (broken []string) {
	charges, history := r.byReference(), r.history()
	for _, c := range r.calls {
		if !c.told() || c.op == "refund" || c.op == "start" {
			continue
		}
		a := c.result.Attempt
		notPaid := new(attempt.NotPaidError)
		switch {
		case errors.As(c.err, &notPaid):
			a = notPaid.Attempt
		case c.err != nil || c.result.Moved != payclient.MovedNo || c.result.AttemptID == "":
			continue
		}
		for _, held := range charges[a.Reference] {
			end, _ := endOf(history[a.ID])
			if holds(held) && !held.Created.After(c.began) && !r.forgot(held) && !r.madeTwice(held) && !r.late(held.Reference, held.Created, end) && r.refundedBy(held.ID, c.ended) < held.Amount {
				broken = append(broken, fmt.Sprintf("call %d (%s %s) was told that no money moved (%s) at +%s, and the provider holds %s since +%s",
					c.n, c.op, c.order, c.result.Reason, c.ended.Sub(r.began), held.ID, held.Created.Sub(r.began)))
			}
		}
	}
	return broken
}

func approved(r *records) (broken []string) {
	charges := r.byReference()
	proves := func(reference, id string, amount int64, currency string, at time.Time) string {
		for _, c := range charges[reference] {
			if c.ID != id {
				continue
			}
			switch {
			case c.Amount != amount || c.Currency != currency:
				return fmt.Sprintf("the charge is %d %s, asked was %d %s", c.Amount, c.Currency, amount, currency)
			case c.Created.After(at):
				return fmt.Sprintf("the charge was made at +%s", c.Created.Sub(r.began))
			case c.Status != fakeprovider.Succeeded:
				return fmt.Sprintf("the charge is %s", c.Status)
			}
			return ""
		}
		return "the provider holds no such charge"
	}
	for _, c := range r.calls {
		if status, ok := endTold(c); !ok || status != attempt.StatusApproved || c.op == "refund" {
			continue
		}
		a := &c.result.Attempt
		if why := proves(c.result.Reference, c.result.ChargeID, a.Amount.Minor(), a.Amount.Currency(), c.ended); why != "" {
			broken = append(broken, fmt.Sprintf("call %d (%s %s) was told approved at +%s: %s", c.n, c.op, c.order, c.ended.Sub(r.began), why))
		}
	}
	for i := range r.final {
		a := &r.final[i]
		if a.Status != attempt.StatusApproved {
			continue
		}
		if !a.IsRefund() {
			if why := proves(a.Reference, a.ChargeID, a.Amount.Minor(), a.Amount.Currency(), r.end); why != "" {
				broken = append(broken, fmt.Sprintf("attempt %s of %s is approved: %s", short(a.Reference), a.Slot, why))
			}
			continue
		}
		if !slices.ContainsFunc(r.refunds, func(f fakeprovider.Refund) bool {
			return f.ID == a.ChargeID && f.Reference == a.Reference && f.Charge == a.Refund.ChargeID && f.Amount == a.Amount.Minor() && f.Currency == a.Amount.Currency()
		}) {
			broken = append(broken, fmt.Sprintf("refund %s of %s is approved, and the provider has made no such refund", short(a.Reference), a.Slot))
		}
	}
	return broken
}

func oneClaim(r *records) (broken []string) {
	live := make(map[attempt.Slot]map[string]bool)
	granted := make(map[string]attempt.Claim)
	at := make(map[string]time.Time)
	for i := range r.writes {
		w := &r.writes[i]
		a := &w.attempt
		if !a.IsRefund() {
			if live[a.Slot] == nil {
				live[a.Slot] = make(map[string]bool)
			}
			delete(live[a.Slot], a.ID)
		}
		// A step that supersedes one attempt and starts another is one commit: both of its writes bear the same moment.
		if a.Status.Live() && !a.IsRefund() {
			live[a.Slot][a.ID] = true
			if n := len(live[a.Slot]); n > 1 && !r.sameCommit(w) {
				broken = append(broken, fmt.Sprintf("%s has %d live attempts at +%s", a.Slot, n, w.at.Sub(r.began)))
			}
		}
		if w.event.What != attempt.WhatClaimed && w.event.What != attempt.WhatStartedClaimed || len(a.Claims) == 0 {
			continue
		}
		claim := a.Claims[len(a.Claims)-1]
		before, known := granted[a.ID]
		ended := slices.ContainsFunc(r.history()[a.ID], func(e *write) bool {
			return e.event.Version < w.event.Version && e.event.Evidence != nil && e.event.Evidence.Kind == attempt.EvidenceSends && e.event.Evidence.Fence == before.Fence
		})
		switch {
		case known && claim.Fence <= before.Fence:
			broken = append(broken, fmt.Sprintf("attempt %s: the claim of +%s has the fence %d, the one before %d", short(a.Reference), w.at.Sub(r.began), claim.Fence, before.Fence))
		case known && !ended && before.Until.After(w.store):
			broken = append(broken, fmt.Sprintf("attempt %s of %s was claimed at +%s while the claim of +%s was running", short(a.Reference), a.Slot, w.at.Sub(r.began), at[a.ID].Sub(r.began)))
		}
		granted[a.ID], at[a.ID] = claim, w.at
	}
	return broken
}

// sameCommit tells whether the step that made this change also ended another attempt of the slot.
func (r *records) sameCommit(w *write) bool {
	for i := range r.writes {
		o := &r.writes[i]
		if o.attempt.Slot == w.attempt.Slot && o.attempt.ID != w.attempt.ID && o.at.Equal(w.at) && o.store.Equal(w.store) && !o.attempt.Status.Live() {
			return true
		}
	}
	return false
}

func gapless(r *records) (broken []string) {
	history := r.history()
	for i := range r.final {
		a := &r.final[i]
		changes := history[a.ID]
		for k, w := range changes {
			if w.event.Version != k+1 || w.attempt.Version != k+1 {
				broken = append(broken, fmt.Sprintf("attempt %s: the change number %d is version %d", a.ID, k+1, w.event.Version))
				break
			}
		}
		if len(changes) != a.Version {
			broken = append(broken, fmt.Sprintf("attempt %s is at version %d, %d changes were committed", a.ID, a.Version, len(changes)))
		}
	}
	return broken
}

func cancelled(r *records) (broken []string) {
	for i := range r.writes {
		w := &r.writes[i]
		c, closed := r.closing[w.attempt.Slot]
		claims := w.event.What == attempt.WhatClaimed || w.event.What == attempt.WhatStartedClaimed || w.event.What == attempt.WhatStarted
		if closed && claims && !w.attempt.IsRefund() && w.at.After(c.at) && !w.voids() {
			broken = append(broken, fmt.Sprintf("%s was cancelled at +%s, and attempt %s was %s at +%s", w.attempt.Slot, c.at.Sub(r.began), short(w.attempt.Reference), w.event.What, w.at.Sub(r.began)))
		}
	}
	for _, c := range r.calls {
		if !c.told() || c.op != "pay" || c.err != nil || c.result.Outcome != payclient.Approved {
			continue
		}
		for slot, closing := range r.closing {
			if slot.Order == c.order && closing.at.Before(c.began) {
				broken = append(broken, fmt.Sprintf("call %d was told approved at +%s, order %s was cancelled at +%s", c.n, c.ended.Sub(r.began), c.order, closing.at.Sub(r.began)))
			}
		}
	}
	return broken
}

// voids tells whether a claim is one to cancel a charge that is not final: it may be given in a closed slot.
func (w *write) voids() bool {
	return slices.ContainsFunc(w.attempt.Charges, func(c attempt.Charge) bool { return c.Status == attempt.ChargePending })
}

func refundSums(r *records) (broken []string) {
	amounts := make(map[string]int64)
	for _, c := range r.charges {
		amounts[c.ID] = c.Amount
	}
	given := make(map[string]int64)
	for _, f := range r.refunds {
		if f.Status == fakeprovider.Succeeded {
			given[f.Charge] += f.Amount
		}
	}
	for id, sum := range given {
		if sum > amounts[id] {
			broken = append(broken, fmt.Sprintf("%d of charge %s went back, it was %d", sum, id, amounts[id]))
		}
	}
	// What could go back at any moment, if everything that is under way came through.
	standing := make(map[string]map[string]int64)
	for i := range r.writes {
		a := &r.writes[i].attempt
		if !a.IsRefund() {
			continue
		}
		id := a.Refund.ChargeID
		if standing[id] == nil {
			standing[id] = make(map[string]int64)
		}
		delete(standing[id], a.ID)
		if a.Status.Live() {
			standing[id][a.ID] = a.Amount.Minor()
		}
		sum := int64(0)
		for _, part := range standing[id] {
			sum += part
		}
		if limit, known := amounts[id]; known && sum > limit {
			broken = append(broken, fmt.Sprintf("refunds of %d of charge %s were under way at +%s, it was %d", sum, id, r.writes[i].at.Sub(r.began), limit))
		}
	}
	// A refund with one id is made once.
	made := make(map[string]string)
	attempts, history := r.references(), r.history()
	for _, f := range r.refunds {
		a := attempts[f.Reference]
		if a == nil || f.Status == fakeprovider.Failed {
			continue
		}
		if end, _ := endOf(history[a.ID]); r.late(f.Reference, f.Created, end) {
			continue // a person looks: the first one had been given up
		}
		name := a.Refund.AttemptID + " " + a.Refund.ID + " " + f.Charge
		if other, twice := made[name]; twice {
			broken = append(broken, fmt.Sprintf("refund %q of charge %s was made twice: %s and %s", a.Refund.ID, f.Charge, other, f.ID))
		}
		made[name] = f.ID
	}
	return broken
}

// keeps tells whether it was decided that a charge stays.
func keeps(a *attempt.Attempt, chargeID string) bool {
	return slices.ContainsFunc(a.Duties, func(d attempt.Duty) bool { return d.ChargeID == chargeID && d.How == attempt.HowKept })
}

// reviewed tells whether a person is to look at an attempt, or was.
func reviewed(a *attempt.Attempt) bool {
	return slices.ContainsFunc(a.Duties, func(d attempt.Duty) bool { return d.Kind == attempt.DutyReview })
}

// refundUnknown tells whether a refund of a charge is under way of which nobody knows.
func (r *records) refundUnknown(id string) bool {
	return slices.ContainsFunc(r.final, func(a attempt.Attempt) bool {
		return a.IsRefund() && a.Refund.ChargeID == id && !a.Status.Final()
	})
}

// refundable tells whether the provider gives a charge back at all.
func refundable(r *records, source string) bool {
	return r.profile.refunds && (len(source) < len("tok_refund_") || source[:len("tok_refund_")] != "tok_refund_")
}

func duties(r *records) (broken []string) {
	attempts, history, slots := r.references(), r.history(), make(map[attempt.Slot][]*fakeprovider.Charge)
	for i := range r.charges {
		c := &r.charges[i]
		if a := attempts[c.Reference]; a != nil && c.Status == fakeprovider.Succeeded {
			slots[a.Slot] = append(slots[a.Slot], c)
		}
	}
	for slot, charges := range slots {
		_, closed := r.closing[slot]
		paid := slices.ContainsFunc(charges, func(c *fakeprovider.Charge) bool {
			a := attempts[c.Reference]
			return a.Status == attempt.StatusApproved && a.ChargeID == c.ID
		})
		kept := 0
		for _, c := range charges {
			a := attempts[c.Reference]
			end, status := endOf(history[a.ID])
			if !closed && !paid && keeps(a, c.ID) {
				if kept++; kept == 1 {
					continue // by policy it stands as the order's payment
				}
			}
			wanted := status == attempt.StatusApproved && a.ChargeID == c.ID && !closed
			left := c.Amount - r.refunded(c.ID)
			switch {
			case wanted || left == 0 || reviewed(a):
			case !r.profile.canAsk() && a.Status == attempt.StatusUnknown: // nobody can be asked: a person sees it open
			case !r.profile.canAsk() && r.late(c.Reference, c.Created, end) && len(r.events[c.Reference]) == 0:
			case status == attempt.StatusApproved && a.ChargeID != c.ID && r.lateWire(c.Reference): // an approved attempt is not watched
			case status == attempt.StatusApproved && a.ChargeID != c.ID && r.madeTwice(c):
			case !r.profile.canAsk() && r.refundUnknown(c.ID): // nobody can be asked about the refund
			case refundable(r, c.Source):
				broken = append(broken, fmt.Sprintf("%s: %d of surplus charge %s (attempt %s %s, closed %t, made +%s) did not go back; duties %v", slot, left, c.ID, short(c.Reference), a.Status, closed, c.Created.Sub(r.began), a.Duties))
			case len(a.Duties) == 0:
				broken = append(broken, fmt.Sprintf("%s: nobody knows of surplus charge %s of attempt %s", slot, c.ID, short(c.Reference)))
			}
		}
	}
	for i := range r.final {
		a := &r.final[i]
		for _, d := range a.Duties {
			for _, c := range r.charges {
				if c.ID == d.ChargeID && !d.MetAt.IsZero() && d.How == attempt.HowRefunded && r.refunded(c.ID) != c.Amount {
					broken = append(broken, fmt.Sprintf("%s: the duty about charge %s of %d is met, %d went back", a.Slot, c.ID, c.Amount, r.refunded(c.ID)))
				}
			}
			if d.Kind == attempt.DutyRefund && d.MetAt.IsZero() && !a.IsRefund() {
				for _, c := range r.charges {
					if c.ID == d.ChargeID && refundable(r, c.Source) && r.profile.canAsk() {
						broken = append(broken, fmt.Sprintf("%s: the duty to refund charge %s is still open", a.Slot, d.ChargeID))
					}
				}
			}
		}
	}
	return broken
}

func settledInTheEnd(r *records) (broken []string) {
	charges := r.byReference()
	for i := range r.final {
		a := &r.final[i]
		if a.Status.Final() {
			continue
		}
		if a.Status == attempt.StatusPrepared {
			broken = append(broken, fmt.Sprintf("attempt %s of %s is still prepared", short(a.Reference), a.Slot))
			continue
		}
		if a.Status == attempt.StatusSending {
			broken = append(broken, fmt.Sprintf("attempt %s of %s is still being sent", short(a.Reference), a.Slot))
			continue
		}
		pending := slices.ContainsFunc(charges[a.Reference], func(c *fakeprovider.Charge) bool { return c.Status == fakeprovider.Pending })
		for _, f := range r.refunds {
			pending = pending || f.Reference == a.Reference && f.Status == fakeprovider.Pending
		}
		if pending || !r.profile.canAsk() || reviewed(a) {
			continue
		}
		broken = append(broken, fmt.Sprintf("attempt %s of %s is still %s (%s), and the provider could tell", short(a.Reference), a.Slot, a.Status, a.Reason))
	}
	return broken
}

func eventsOnce(r *records) (broken []string) {
	for _, history := range r.history() {
		n := 0
		for _, w := range history {
			if w.event.Evidence != nil && w.event.Evidence.Kind == attempt.EvidenceWebhook {
				n++
			}
		}
		reference := history[0].attempt.Reference
		if known := len(r.events[reference]); n > known {
			broken = append(broken, fmt.Sprintf("attempt %s has learnt %d times from webhooks, there were %d events", short(reference), n, known))
		}
	}
	return broken
}

func relayed(r *records) (broken []string) {
	for i := range r.final {
		a := &r.final[i]
		next := 1
		for _, version := range r.relayed[a.ID] {
			if version > next {
				broken = append(broken, fmt.Sprintf("attempt %s: the host was told of version %d before version %d", short(a.Reference), version, next))
			}
			next = max(next, version+1)
		}
		if next <= a.Version {
			broken = append(broken, fmt.Sprintf("attempt %s of %s is at version %d, the host was told up to %d", short(a.Reference), a.Slot, a.Version, next-1))
		}
	}
	return broken
}

// patience is how long a call may take: the questions before it, a claim, and the slowest of the store.
const patience = 10*time.Second + 10*time.Second + 15*time.Second + 10*time.Second

func bounded(r *records) (broken []string) {
	for _, c := range r.calls {
		if c.told() && !c.stalled && c.ended.Sub(c.began) > patience {
			broken = append(broken, fmt.Sprintf("call %d (%s %s) took %s", c.n, c.op, c.order, c.ended.Sub(c.began)))
		}
	}
	return broken
}

func canary(r *records) (broken []string) {
	for _, c := range r.calls {
		if c.canary && (!c.told() || c.err != nil || c.result.Outcome != payclient.Approved) {
			broken = append(broken, fmt.Sprintf("all is well, and call %d at %s was told %s", c.n, c.instance, told(c)))
		} else if took := c.ended.Sub(c.began); c.canary && took > canaryTakes*3/2 {
			broken = append(broken, fmt.Sprintf("all is well, and call %d at %s took %s: it has waited for a permit", c.n, c.instance, took))
		}
	}
	return broken
}

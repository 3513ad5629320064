package main

import (
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// precision is how well callers are told, counted over the payments of worlds in which every fifth request fails and nothing else
// is out of order.
type precision struct {
	Calls     int `json:"calls"`      // of Pay that were answered, and found no other call on its way
	Known     int `json:"known"`      // whose answer was no unknown
	Attempts  int `json:"attempts"`   // payments of which a request left
	Soon      int `json:"soon"`       // of these, known 5 minutes after the first one
	NotSent   int `json:"not_sent"`   // calls of an attempt of which no request had been handed to a connection
	Unknown   int `json:"unknown"`    // of these, told as unknown
	FalseEnds int `json:"false_ends"` // ends without money beside a charge
}

const soon = 5 * time.Minute

func measure(r *records) (p precision) {
	p.FalseEnds = len(falseEnds(r))
	if !r.profile.mixed {
		return p
	}
	left, begun := posts(r.wires), posts(r.begun)
	for _, c := range r.calls {
		if c.op != "pay" || !c.told() || c.canary || c.err == nil && c.result.Reason == attempt.ReasonInFlight {
			continue // who finds another call on its way has made none
		}
		p.Calls++
		if !c.result.Open() || c.err != nil {
			p.Known++
		}
		sent := false
		for _, at := range begun[c.result.Reference] {
			sent = sent || !at.After(c.ended)
		}
		if !sent && c.result.AttemptID != "" {
			p.NotSent++
			if c.err == nil && c.result.Open() {
				p.Unknown++
			}
		}
	}
	history := r.history()
	for i := range r.final {
		a := &r.final[i]
		if a.IsRefund() || len(left[a.Reference]) == 0 {
			continue
		}
		p.Attempts++
		then := left[a.Reference][0].Add(soon)
		var status attempt.Status
		for _, w := range history[a.ID] {
			if !w.at.After(then) {
				status = w.attempt.Status
			}
		}
		if status.Final() || status == attempt.StatusPrepared { // prepared: proven not to have left
			p.Soon++
		}
	}
	return p
}

// posts is when what moves money was sent, by reference.
func posts(wires []wire) map[string][]time.Time {
	at := make(map[string][]time.Time)
	for _, w := range wires {
		if w.method == "POST" {
			at[w.reference] = append(at[w.reference], w.at)
		}
	}
	return at
}

func (p *precision) add(q precision) {
	p.Calls += q.Calls
	p.Known += q.Known
	p.Attempts += q.Attempts
	p.Soon += q.Soon
	p.NotSent += q.NotSent
	p.Unknown += q.Unknown
	p.FalseEnds += q.FalseEnds
}

package main

import (
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
)

// records are what a run leaves behind: the provider's books, the store's history, and what callers were told. Times are those
// of the bubble's clock, which is the instances', unless said. The checker needs nothing else.
type records struct {
	profile profile
	began   time.Time
	calm    time.Time // when the faults ended
	end     time.Time

	charges  []fakeprovider.Charge // of every status
	refunds  []fakeprovider.Refund
	requests []fakeprovider.Request
	events   map[string][]string // ids of webhook events, by reference

	writes  []write
	closing map[attempt.Slot]closed
	final   []attempt.Attempt

	relayed map[string][]int // versions that the host was told, by attempt, in the order of telling

	remains remains

	forgotten map[string]time.Time // until when a store was used that has been replaced by an older one, by reference

	calls  []*call
	begun  []wire // requests that a connection was given, whether or not they left
	wires  []wire
	frozen []frozen // which requests left too late

	blamed bool // what the provider makes twice of one request counts as a double charge

	sorted *index // what lies above, by what the rules ask for; made when it is first asked for
}

// index is the records by attempt and by reference. It points into them.
type index struct {
	history    map[string][]*write                // the committed changes, by attempt
	references map[string]*attempt.Attempt        // by reference
	charges    map[string][]*fakeprovider.Charge  // by reference
	requests   map[string][]*fakeprovider.Request // by reference
	wires      map[string][]*wire                 // by reference
}

func (r *records) index() *index {
	if r.sorted != nil {
		return r.sorted
	}
	x := &index{
		history: make(map[string][]*write), references: make(map[string]*attempt.Attempt, len(r.final)), wires: make(map[string][]*wire),
		charges: make(map[string][]*fakeprovider.Charge), requests: make(map[string][]*fakeprovider.Request),
	}
	for i := range r.writes {
		w := &r.writes[i]
		x.history[w.attempt.ID] = append(x.history[w.attempt.ID], w)
	}
	for i := range r.final {
		x.references[r.final[i].Reference] = &r.final[i]
	}
	for i := range r.charges {
		c := &r.charges[i]
		x.charges[c.Reference] = append(x.charges[c.Reference], c)
	}
	for i := range r.requests {
		q := &r.requests[i]
		x.requests[q.Reference] = append(x.requests[q.Reference], q)
	}
	for i := range r.wires {
		q := &r.wires[i]
		x.wires[q.reference] = append(x.wires[q.reference], q)
	}
	r.sorted = x
	return x
}

// write is a committed change of an attempt.
type write struct {
	at      time.Time
	store   time.Time // by the store's clock
	attempt attempt.Attempt
	event   attempt.Event
}

// closed is a slot's closing.
type closed struct {
	at    time.Time
	store time.Time
}

// call is one call of a customer, a shop's back office or a reconciler, and what it was told.
type call struct {
	n        int
	op       string // pay, send, start, status, check, cancel, refund
	order    string
	instance string
	began    time.Time
	ended    time.Time // zero: the instance died, and nobody was told
	stalled  bool      // its instance was frozen, or its store out of order, meanwhile
	canary   bool      // made at the end, when all is well

	result payclient.Result
	err    error
	sent   []attempt.Send // what the call sent, as the client's observer was told
}

// told tells whether anybody heard the answer.
func (c *call) told() bool { return !c.ended.IsZero() }

// wire is one request as it left an instance.
type wire struct {
	at        time.Time
	instance  string
	method    string
	path      string
	reference string
	frozen    time.Duration // how long its sender stood still before its first byte
}

// frozen is a time in which an instance stood still.
type frozen struct {
	instance string
	from, to time.Time
}

// references returns the attempts by reference.
func (r *records) references() map[string]*attempt.Attempt { return r.index().references }

// history returns the committed changes by attempt.
func (r *records) history() map[string][]*write { return r.index().history }

// byReference returns the charges by reference.
func (r *records) byReference() map[string][]*fakeprovider.Charge { return r.index().charges }

// forgot tells whether a charge is of the time before the store was restored: nobody could know of it who did not ask.
func (r *records) forgot(c *fakeprovider.Charge) bool {
	until, restored := r.forgotten[c.Reference]
	return restored && !c.Created.After(until)
}

// endOf returns when an attempt came to its end; zero: it has not.
func endOf(history []*write) (at time.Time, status attempt.Status) {
	for _, w := range history {
		if w.event.Final() && w.attempt.Status.Final() {
			return w.at, w.attempt.Status
		}
	}
	return time.Time{}, 0
}

// lateWire tells whether a request of this reference was held back by a frozen sender.
func (r *records) lateWire(reference string) bool {
	for _, w := range r.index().wires[reference] {
		if w.method == "POST" && w.frozen > 0 {
			return true
		}
	}
	return false
}

package fakeprovider

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// WebhookConfig says where the provider tells what became of charges and
// refunds, as Standard Webhooks 1.0.0 describes it
// (https://github.com/standard-webhooks/standard-webhooks). It is on when
// URL, Handler or Send is set.
//
// Each change of a charge's or a refund's status is an event: that it was
// made, in whatever status, that it was settled later, that it was voided.
// Its body is
//
//	{"id":"evt_000001","type":"charge.succeeded","created":"...","data":{...}}
//
// with "charge" or "refund", a dot and the status as its type, and the record
// as the API writes it as its data. It is posted with the headers webhook-id
// (the event's id, the same whenever the event is delivered again),
// webhook-timestamp and webhook-signature. An answer of 2xx acknowledges it,
// everything else (a redirect, which is not followed, included) has it
// delivered again. Deliveries go one at a time, in order of due time: who is
// slow to answer holds the others up. The events of all clients go to the same
// place. Waits are those of the time package, dates those of Config.Now.
//
// Events that nobody has acknowledged survive a restart from a ledger file and
// may be delivered again although they were: at least once.
type WebhookConfig struct {
	// URL is where events are posted, absolute, http or https. With Handler or
	// Send it is only what the request says. Zero: http://merchant/webhooks.
	URL string
	// Handler takes the events in memory, without a socket.
	Handler http.Handler
	// Send takes the events as http.Client.Do does: a test's own transport.
	Send func(*http.Request) (*http.Response, error)
	// Secret signs the events: whsec_ and the base64 of 24 to 64 bytes. It
	// has to be set.
	Secret string
	// Delay is the time from the change to its first delivery, so that the
	// API's answer usually comes first. Zero: 100ms. Negative: none.
	Delay time.Duration
	// Retries are the waits after each failed delivery; after the last the
	// provider gives up. Nil: 5s, 5m, 30m, 2h, 5h, 10h, 14h, 20h, 24h, the
	// specification's example. Empty: none.
	Retries []time.Duration
	// Timeout bounds one delivery. Zero: 15s.
	Timeout time.Duration
}

func (c *WebhookConfig) on() bool { return c.URL != "" || c.Handler != nil || c.Send != nil }

func (c WebhookConfig) withDefaults() WebhookConfig {
	if c.URL == "" {
		c.URL = "http://merchant/webhooks"
	}
	if c.Delay == 0 {
		c.Delay = 100 * time.Millisecond
	}
	c.Delay = max(c.Delay, 0)
	if c.Retries == nil {
		c.Retries = []time.Duration{
			5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
			10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
		}
	}
	if c.Timeout == 0 {
		c.Timeout = 15 * time.Second
	}
	return c
}

// Validate reports every mistake at once. New panics on one, Open and Listen
// return it.
func (c WebhookConfig) Validate() error {
	if !c.on() {
		return nil
	}
	c = c.withDefaults()
	var errs []error
	if u, err := url.Parse(c.URL); err != nil {
		errs = append(errs, fmt.Errorf("Webhook.URL: %w", err))
	} else if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		errs = append(errs, fmt.Errorf("Webhook.URL: %q is no absolute http or https URL", c.URL))
	}
	if c.Handler != nil && c.Send != nil {
		errs = append(errs, errors.New("Webhook.Handler and Webhook.Send: only one can take the events"))
	}
	if _, err := webhookKey(c.Secret); err != nil {
		errs = append(errs, fmt.Errorf("Webhook.Secret: %w", err))
	}
	for _, d := range c.Retries {
		if d < 0 {
			errs = append(errs, fmt.Errorf("Webhook.Retries: %s is negative", d))
		}
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("Webhook.Timeout: %s is negative", c.Timeout))
	}
	return errors.Join(errs...)
}

// Delivery is one delivery of an event, or an event that fault "webhook-lost"
// kept from being delivered.
type Delivery struct {
	Event     string      `json:"event"` // its id
	Type      string      `json:"type"`
	Record    string      `json:"record"` // the charge's or refund's id
	Reference string      `json:"merchant_reference"`
	Attempt   int         `json:"attempt"` // of this event, from 1; 0 if lost
	Time      time.Time   `json:"time"`
	Header    http.Header `json:"header,omitempty"`
	Body      string      `json:"body"`
	Status    int         `json:"status,omitempty"` // of the receiver's answer, 0 without one
	Error     string      `json:"error,omitempty"`  // why there is no answer
	Fault     Fault       `json:"fault,omitempty"`
	Lost      bool        `json:"lost,omitempty"`
	Next      time.Time   `json:"next,omitzero"` // when it is delivered again, zero if it is not
}

// webhookPlan is the part of a plan that is about webhooks. It holds for every
// event about what the request made.
type webhookPlan struct {
	any       bool // one of the following is set
	twice     bool
	lost      bool
	first     bool // before the API's answer
	reordered bool // after the next event about the same record
	late      time.Duration
	forged    int // deliveries with a bad signature, -1 all
	stale     time.Duration
}

// longestHold is how long webhook-reordered waits for another event.
const longestHold = time.Hour

// recordKey names a charge or a refund.
type recordKey struct {
	kind uint8
	n    uint32
}

// event is an event that is not acknowledged yet.
type event struct {
	number    uint32
	about     recordKey
	typ       string
	record    string
	reference string
	at        int64 // Unix time in nanoseconds
	body      []byte
	plan      *plan

	due     time.Time
	index   int           // in the outbox, -1 when it is not there
	attempt int           // deliveries so far
	failed  int           // of them without a 2xx
	told    chan struct{} // closed after the first delivery
}

func (e *event) id() string { return string(appendID(nil, "evt_", e.number)) }

// outbox holds what is to be delivered. The provider's lock guards it, except
// what New sets.
type outbox struct {
	on     bool
	config WebhookConfig
	key    []byte
	send   func(*http.Request) (*http.Response, error)
	ctx    context.Context // of every delivery, ended by Close
	end    context.CancelFunc
	idle   func() // closes what the URL's client keeps

	made    uint32 // events so far
	epoch   int    // counts Resets
	waiting eventQueue
	plans   map[recordKey]*plan  // of records whose later events are meant too
	held    map[recordKey]*event // waiting for another event to overtake it
	log     []Delivery           // a ring
	start   int
	timer   *time.Timer
	busy    bool // a goroutine delivers
	flying  int  // events it has in its hands
}

// eventQueue is a heap by due time.
type eventQueue []*event

func (q eventQueue) Len() int { return len(q) }
func (q eventQueue) Less(i, j int) bool {
	if !q[i].due.Equal(q[j].due) {
		return q[i].due.Before(q[j].due)
	}
	return q[i].number < q[j].number
}
func (q eventQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}
func (q *eventQueue) Push(v any) {
	e := v.(*event)
	e.index = len(*q)
	*q = append(*q, e)
}
func (q *eventQueue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last], e.index = nil, -1
	*q = (*q)[:last]
	return e
}

// setUp is called by New. The configuration is valid.
func (o *outbox) setUp(c WebhookConfig) error {
	if !c.on() {
		return nil
	}
	key, err := webhookKey(c.Secret)
	o.on, o.config, o.key = true, c.withDefaults(), key
	o.ctx, o.end = context.WithCancel(context.Background())
	switch {
	case c.Handler != nil:
		o.send = func(req *http.Request) (*http.Response, error) { return serveInMemory(c.Handler, req) }
	case c.Send != nil:
		o.send = c.Send
	default:
		client := newWebhookClient()
		o.send, o.idle = client.Do, client.CloseIdleConnections
	}
	return err
}

// close ends what is being delivered. The caller holds the lock.
func (o *outbox) close() {
	if !o.on {
		return
	}
	if o.timer != nil {
		o.timer.Stop()
	}
	o.end()
}

// clear forgets every event.
func (o *outbox) clear() {
	for _, e := range o.waiting {
		if e.attempt == 0 {
			close(e.told)
		}
	}
	o.made, o.waiting, o.log, o.start = 0, nil, nil, 0
	o.plans, o.held = map[recordKey]*plan{}, map[recordKey]*event{}
	o.epoch++
}

// announceBooked makes the events about what an exchange has booked, to be
// written to the ledger file in the same line.
func (x *exchange) announceBooked() {
	p := x.p
	if !p.outbox.on {
		return
	}
	for i := range x.booked {
		b := &x.booked[i]
		numbers := []uint32{b.n}
		if b.twice {
			numbers = append(numbers, b.n+1)
		}
		for _, n := range numbers {
			if x.plan.webhook.any {
				p.outbox.plans[recordKey{b.kind, n}] = x.plan
			}
			e := p.announce(b.kind, n, b.at.UnixNano(), x.plan)
			if e == nil {
				continue
			}
			b.events = append(b.events, e)
			if x.plan.webhook.first {
				x.firsts = append(x.firsts, e.told)
			}
		}
	}
}

// announced waits for the events that have to be told before the answer. It
// reports false if stop or the provider's end came first.
func (x *exchange) announced(stop <-chan struct{}) bool {
	for _, told := range x.firsts {
		select {
		case <-told:
		case <-stop:
			return false
		case <-x.p.done:
			return false
		}
	}
	return true
}

// announce makes the event that record n is now in another status. The plan is
// that of the request which changed it, if one did; without a word about
// webhooks that of the request which made the record counts. The caller holds
// the lock, and writes the event to the ledger file. Nil means that there is
// nobody to tell.
func (p *Provider) announce(kind uint8, n uint32, at int64, by *plan) *event {
	o := &p.outbox
	if !o.on || p.restoring || p.closed {
		return nil
	}
	about := recordKey{kind, n}
	held := by != nil && by.webhook.reordered
	if by == nil || !by.webhook.any {
		by = honest
		if of := o.plans[about]; of != nil {
			by = of
		}
	}
	r := p.shelf(kind).list.at(n)
	o.made++
	e := &event{
		number: o.made, about: about, typ: kindNames[kind] + "." + string(states[r.state]),
		record: p.shelf(kind).id(n), reference: r.reference(), at: at, plan: by, index: -1, told: make(chan struct{}),
	}
	e.body = append(e.body, `{"id":"`...)
	e.body = appendID(e.body, "evt_", e.number)
	e.body = append(e.body, `","type":"`...)
	e.body = append(e.body, e.typ...)
	e.body = append(e.body, `","created":`...)
	e.body = appendTime(e.body, at)
	e.body = append(e.body, `,"data":`...)
	e.body = p.appendRecord(e.body, kind, n, r, r.state)
	e.body = append(e.body, '}')
	w := &by.webhook
	if w.lost {
		close(e.told)
		d := e.delivery()
		d.Time, d.Lost = p.config.Now(), true
		p.logDelivery(d)
		return e
	}
	wait := o.config.Delay
	switch {
	case w.first:
		wait = 0
	case held:
		wait = longestHold
		o.held[about] = e
	}
	p.enqueue(e, wait+w.late)
	return e
}

// enqueue has an event delivered after a while. The caller holds the lock.
func (p *Provider) enqueue(e *event, wait time.Duration) {
	e.due = time.Now().Add(wait)
	if e.index < 0 {
		heap.Push(&p.outbox.waiting, e)
	} else {
		heap.Fix(&p.outbox.waiting, e.index)
	}
	p.armOutbox()
}

// delivery is what all deliveries of an event have in common.
func (e *event) delivery() Delivery {
	d := Delivery{
		Event: e.id(), Type: e.typ, Record: e.record, Reference: e.reference, Attempt: e.attempt, Body: string(e.body),
	}
	if e.plan.fault != Answer {
		d.Fault = e.plan.fault
	}
	return d
}

func (p *Provider) logDelivery(d Delivery) {
	o := &p.outbox
	switch keep := p.config.RecordRequests; {
	case keep == 0:
	case len(o.log) < keep:
		o.log = append(o.log, d)
	default:
		o.log[o.start] = d
		o.start = (o.start + 1) % keep
	}
}

// Webhooks returns the latest deliveries of events, in order, those about the
// given references (or records, or events, by id) or all.
// Config.RecordRequests says how many are kept.
func (p *Provider) Webhooks(references ...string) []Delivery {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := []Delivery{}
	for i := range p.outbox.log {
		d := p.outbox.log[(p.outbox.start+i)%len(p.outbox.log)]
		if wantedBy(references, d.Reference) || wantedBy(references, d.Record) || wantedBy(references, d.Event) {
			list = append(list, d)
		}
	}
	return list
}

// WaitingWebhooks returns how many events are neither acknowledged nor given
// up.
func (p *Provider) WaitingWebhooks() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(p.config.Now())
	return len(p.outbox.waiting) + p.outbox.flying
}

// eventLine is an event in the ledger file. It stands in the line of the
// change it tells of, so that a crash cannot part them.
type eventLine struct {
	N         uint32 `json:"n"`
	At        int64  `json:"at"` // Unix nanoseconds
	Type      string `json:"type"`
	Record    string `json:"record"`
	Reference string `json:"merchant_reference"`
	Body      []byte `json:"body"`
	Lost      bool   `json:"lost,omitempty"`
}

func eventLines(events ...*event) []eventLine {
	var list []eventLine
	for _, e := range events {
		if e != nil {
			list = append(list, eventLine{e.number, e.at, e.typ, e.record, e.reference, e.body, e.plan.webhook.lost})
		}
	}
	return list
}

// restoreEvent puts an event that nobody has acknowledged back into the outbox.
func (p *Provider) restoreEvent(l *eventLine) {
	e := &event{
		number: l.N, typ: l.Type, record: l.Record, reference: l.Reference, at: l.At, body: l.Body,
		plan: honest, index: -1, told: make(chan struct{}),
	}
	p.enqueue(e, p.outbox.config.Delay)
}

func parseForged(w *webhookPlan, arg string) error {
	w.forged = -1
	if arg == "" {
		return nil
	}
	n, err := strconv.Atoi(arg)
	if err != nil || n < 1 {
		return errors.New("want a number of deliveries")
	}
	w.forged = n
	return nil
}

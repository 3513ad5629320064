package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/internal/chance"
	"github.com/chargeonce/chargeonce/payclient"
)

// outcome is what a seed has shown.
type outcome struct {
	Seed       uint64         `json:"seed"`
	Profile    string         `json:"profile"`
	Payments   int            `json:"payments"`
	Requests   int            `json:"requests"`
	Counters   map[string]int `json:"counters"`
	Faults     map[string]int `json:"faults"`
	Kills      map[string]int `json:"kills"`
	Violations []violation    `json:"violations,omitempty"`
	Precision  precision      `json:"precision"`
	Simulated  time.Duration  `json:"simulated"`

	trace   []traced
	records *records
}

// traced is a line of a seed's timeline, which is written out only where somebody reads it.
type traced struct {
	at   time.Duration // since the beginning
	text func() string
}

// timeline writes out what has happened.
func (o *outcome) timeline() []string {
	moments := slices.Clone(o.trace)
	slices.SortStableFunc(moments, func(a, b traced) int { return cmp.Compare(a.at, b.at) })
	lines := make([]string, len(moments))
	for i, m := range moments {
		lines[i] = fmt.Sprintf("%-18s %s", "+"+m.at.String(), m.text())
	}
	return lines
}

// world is one seed's run.
type world struct {
	dice    *dice
	profile profile
	mutant  *mutant
	bank    *fakeprovider.Provider
	memory  *attempt.Memory
	store   attempt.Store
	began   time.Time
	calm    atomic.Bool // set under mu

	over chan struct{} // closed when nothing is looked at any more

	customers  sync.WaitGroup
	background sync.WaitGroup

	mu          sync.Mutex // guards everything below
	instances   []*instance
	lives       []int
	connections map[*conn]bool // that are open
	records     records
	counters    map[string]int
	faults      map[string]int
	kills       map[string]int
	violations  []violation
	trace       []traced
}

// tail is how long a world goes on being out of order after the last order has come: long enough for the rule for abandoning.
const tail = 70 * time.Minute

// What production code leaves to chance depends on the moment in the bubble: the same in every run of a seed, and not the same for
// all who wait.
func init() {
	log.SetOutput(io.Discard) // net/http tells of answers that nobody has asked for, which here are asked for
	chance.Replace(func(n int64) int64 {
		return int64(newDice(0).draw("chance", "", int(time.Now().UnixNano())) % uint64(n)) //nolint:gosec // n is positive
	})
}

// run runs a seed. t is only what a bubble needs: what is found is in the outcome.
func run(t *testing.T, seed uint64, m *mutant) (o *outcome) {
	synctest.Test(t, func(*testing.T) {
		w := &world{
			dice: newDice(seed), mutant: m, began: time.Now(),
			over: make(chan struct{}), connections: make(map[*conn]bool), counters: make(map[string]int), faults: make(map[string]int), kills: make(map[string]int),
		}
		w.profile = profileOf(w.dice)
		if m != nil && m.world != nil {
			m.world(&w.profile)
		}
		w.open()
		w.safety()
		w.liveness()
		o = w.judge()
	})
	return o
}

// open makes the provider and the store, and starts the instances.
func (w *world) open() {
	p := &w.profile
	cfg := fakeprovider.Config{
		KeyRetention: p.retention, LockTimeout: p.lockTimeout, SearchLag: p.searchLag, RecordRequests: 1 << 20, IgnoreKeys: !p.keyed(),
		Now: func() time.Time { return time.Now().Add(p.providerClock) },
	}
	if p.kind == successes {
		cfg.Keep = fakeprovider.KeepSuccesses
	}
	if p.webhooks {
		cfg.Webhook = fakeprovider.WebhookConfig{Handler: http.HandlerFunc(w.deliver), Secret: webhookSecret}
	}
	w.bank = fakeprovider.New(cfg)
	if p.faultRate > 0 {
		w.bank.Draw(fakeprovider.Draw{Seed: w.dice.seed, Rate: p.faultRate, Faults: p.faults})
	}
	w.memory = &attempt.Memory{Now: w.storeNow}
	var store attempt.Store = &tap{Store: w.memory, w: w}
	if w.mutant != nil && w.mutant.store != nil {
		store = w.mutant.store(w, store)
	}
	w.store = store
	w.records.profile, w.records.began = *p, w.began
	w.records.closing, w.records.forgotten = make(map[attempt.Slot]closed), make(map[string]time.Time)
	if err := w.store.AddRelay(context.Background(), hostRelay); err != nil {
		w.broken("simulator", "%v", err)
	}
	for n := range p.instances {
		w.lives = append(w.lives, 1)
		w.instances = append(w.instances, w.newInstance(n, 1))
		w.instances[n].reconcile()
		w.instances[n].relay(relayEvery)
	}
}

// relayEvery is how often an instance looks for what the host was not told.
const relayEvery = 11 * time.Second

// storeNow is the store's clock.
func (w *world) storeNow() time.Time {
	now := time.Now()
	offset := w.profile.storeClock
	for _, j := range w.profile.jumps {
		if now.Sub(w.began) >= j.at {
			offset += j.by
		}
	}
	return now.Add(offset)
}

// safety is the phase in which things go wrong.
func (w *world) safety() {
	p := &w.profile
	for _, o := range p.outages {
		w.background.Go(func() {
			<-time.After(o.from)
			if o.how != "refuse-dial" {
				w.bank.Always(fakeprovider.Any, fakeprovider.Fault(o.how))
			}
			w.tracef("outage of the provider: %s", o.how)
			<-time.After(o.to - o.from)
			w.bank.Always(fakeprovider.Any, fakeprovider.Answer)
			w.tracef("the provider is back")
		})
	}
	w.background.Go(w.payers)
	for n := range p.strangers {
		w.background.Go(func() { w.stranger(n) })
	}
	for n := range p.orders {
		w.customers.Go(func() { w.customer(fmt.Sprintf("order-%d", n)) })
	}
	<-time.After(p.span + tail)
	w.customers.Wait()
	w.mu.Lock()
	w.calm.Store(true)
	w.mu.Unlock()
	w.bank.ClearFaults()
	w.tracef("the faults end")
	w.records.calm = time.Now()
}

// inTheEnd is after which time nothing new can come to light: longer than ended attempts are watched. What is still tried then,
// once a day, is tried for ever.
const inTheEnd = 45 * 24 * time.Hour

func (w *world) isCalm() bool { return w.calm.Load() }

// liveness is the phase in which all is well again and time goes on: whatever evidence can settle is settled.
func (w *world) liveness() {
	w.background.Wait() // the last lives have begun
	// Until the breakers let requests through again, and nobody stands still any more.
	<-time.After(time.Hour)
	for n := range w.profile.instances {
		w.canary(n, "tok_visa", "")
		if w.profile.permits > 8 {
			continue // so many at once show no more
		}
		var all sync.WaitGroup
		for k := range w.profile.permits {
			all.Go(func() {
				<-time.After(time.Duration(k) * time.Millisecond) // not in one moment, in which their order is nobody's
				w.canary(n, "tok_slow_"+canaryTakes.String(), "-"+strconv.Itoa(k))
			})
		}
		all.Wait()
	}
	w.mu.Lock()
	instances := slices.Clone(w.instances)
	w.mu.Unlock()
	for _, i := range instances {
		i.stop()
	}
	last := w.newInstance(0, 1000)
	w.mu.Lock()
	w.instances = []*instance{last}
	w.mu.Unlock()
	for range 500 {
		if _, err := last.recon.RunOnce(last.ctx); err != nil {
			w.broken("liveness", "a pass fails although all is well: %v", err)
			break
		}
		next, planned := w.nextCheck()
		if !planned || next.Sub(w.began) > inTheEnd {
			break
		}
		<-time.After(max(next.Sub(w.storeNow()), 0) + time.Second)
	}
	last.relay(time.Hour)
	<-time.After(48 * time.Hour) // the last deliveries of webhooks
	if _, err := last.recon.RunOnce(last.ctx); err != nil {
		w.broken("liveness", "the last pass fails: %v", err)
	}
	<-time.After(3 * time.Hour) // the last events for the host
	last.stop()
	w.tracef("the last process has ended")
	w.background.Wait()
	if err := w.bank.Close(); err != nil {
		w.broken("simulator", "the provider does not close: %v", err)
	}
	w.collect()
	close(w.over)
}

// canaryTakes is how long the provider takes for payments that are made at once.
const canaryTakes = time.Second

// canary pays at an instance. Its breaker may open once more: while it is half-open it judges by the last requests, however long
// ago they failed.
func (w *world) canary(n int, source, part string) {
	order := "canary-" + w.alive(n).name + part
	for range 4 {
		c := w.call("pay", order, n, func(ctx context.Context, i *instance) (payclient.Result, error) {
			return i.client.Pay(ctx, intent(order, source, 1000, "EUR"))
		})
		notPaid := new(attempt.NotPaidError)
		if !errors.As(c.err, &notPaid) || notPaid.Reason != attempt.ReasonBreakerOpen {
			c.canary = true
			return
		}
		<-time.After(20 * time.Second)
	}
	w.broken("canary", "the breaker of %s stays open although all is well", order)
}

// nextCheck returns when the next attempt is due, by the store's clock.
func (w *world) nextCheck() (at time.Time, planned bool) {
	for a, err := range w.memory.List(context.Background(), attempt.Filter{}) {
		if err != nil {
			w.broken("simulator", "%v", err)
			return at, false
		}
		if !a.NextCheckAt.IsZero() && (!planned || a.NextCheckAt.Before(at)) {
			at, planned = a.NextCheckAt, true
		}
	}
	return at, planned
}

// deliver hands a webhook to an instance that lives.
func (w *world) deliver(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	instances := slices.Clone(w.instances)
	w.mu.Unlock()
	id := r.Header.Get("webhook-id")
	n := int(w.dice.draw("webhook", id, w.dice.next("webhook", id)) % 64)
	for k := range instances {
		if i := instances[(n+k)%len(instances)]; !i.dead() {
			i.thaw(id)
			i.webhook.ServeHTTP(rw, r)
			return
		}
	}
	rw.WriteHeader(http.StatusServiceUnavailable)
}

// payers finish, or do not finish, what waits for them at the provider.
func (w *world) payers() {
	if !slices.Contains(w.profile.sources, "tok_requires_action") {
		return // nothing waits for anybody
	}
	decided := make(map[string]bool)
	for !w.isCalm() {
		<-time.After(w.dice.between(20*time.Second, 40*time.Second, "payers", "", w.dice.next("payers", "")))
		for _, c := range w.bank.Charges() {
			if c.Source != "tok_requires_action" || c.Status != fakeprovider.Pending || decided[c.ID] {
				continue
			}
			decided[c.ID] = true
			to, settles := fakeprovider.Succeeded, true
			switch w.dice.draw("payer", c.Reference, 0) % 5 {
			case 0:
				to = fakeprovider.Failed
			case 1, 2:
				settles = false
			}
			if settles {
				if err := w.bank.Settle(c.ID, to); err != nil {
					w.broken("simulator", "%v", err)
				}
				w.count("payer finished at the provider")
			}
		}
	}
}

// stranger is another system of the same merchant that charges in the same provider account.
func (w *world) stranger(n int) {
	name := strconv.Itoa(n)
	<-time.After(w.dice.between(0, w.profile.span, "stranger", name, 0))
	body := `{"amount":100,"currency":"EUR","source":"tok_visa","merchant_reference":"other-system-` + name + `"}`
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "https://provider.example/v1/charges", strings.NewReader(body))
	if err != nil {
		w.broken("simulator", "%v", err)
		return
	}
	req.Header.Set("Authorization", "Bearer simulated")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", `"other-system-key-`+name+`"`)
	ctx, cancel := context.WithTimeout(req.Context(), 10*time.Second)
	defer cancel()
	resp, err := w.bank.RoundTrip(req.WithContext(ctx))
	if err == nil {
		_ = resp.Body.Close() // whatever it was told, it is none of ours
	}
}

// alive returns the life of a process, or another process, or waits until there is one.
func (w *world) alive(number int) *instance {
	for {
		w.mu.Lock()
		instances := slices.Clone(w.instances)
		w.mu.Unlock()
		for k := range instances {
			if i := instances[(number+k)%len(instances)]; !i.dead() {
				return i
			}
		}
		<-time.After(time.Second + 7*time.Nanosecond)
	}
}

// restart begins another life of a process.
func (w *world) restart(dead *instance) {
	w.background.Go(func() {
		name := dead.name
		<-time.After(w.dice.between(time.Second, 4*time.Minute, "restart", name, 0))
		w.mu.Lock()
		w.lives[dead.number]++
		life := w.lives[dead.number]
		w.mu.Unlock()
		i := w.newInstance(dead.number, life)
		w.mu.Lock()
		w.instances[dead.number] = i
		w.mu.Unlock()
		w.tracef("%s starts", i.name)
		i.reconcile()
		i.relay(relayEvery)
	})
}

// outage says how the provider is out of order.
func (w *world) outage() string {
	since := time.Since(w.began)
	for _, o := range w.profile.outages {
		if since >= o.from && since < o.to && !w.isCalm() {
			return o.how
		}
	}
	return ""
}

// storeOut tells whether an instance cannot reach the store.
func (w *world) storeOut(i *instance) bool {
	since := time.Since(w.began)
	for _, o := range w.profile.storeOutages {
		if since >= o.from && since < o.to && !w.isCalm() && (o.how == "all" || o.how == strconv.Itoa(i.number)) {
			return true
		}
	}
	return false
}

func (w *world) storeFault(how, name string, p float64) bool {
	return p > 0 && !w.isCalm() && w.dice.chance(p, "store "+how, name, w.dice.next("store "+how, name))
}

// tracef adds a line to the timeline. What it names must not change any more.
func (w *world) tracef(format string, args ...any) {
	w.happened(func() string { return fmt.Sprintf(format, args...) })
}

// later begins something that goes on beside everything else, and ends before the world does.
func (w *world) later(f func()) {
	w.mu.Lock() // so that it is begun before whoever takes mu, and then waits
	defer w.mu.Unlock()
	w.background.Go(f)
}

func (w *world) happened(text func() string) {
	now := time.Since(w.began)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, traced{now, text})
}

func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counters[what]++
}

func (w *world) countFault(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults[what]++
}

func (w *world) broken(rule, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, violation{Rule: rule, Text: fmt.Sprintf(format, args...)})
}

func (w *world) wrote(change write) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, traced{change.at.Sub(w.began), change.String})
	w.records.writes = append(w.records.writes, change)
}

func (w *write) String() string {
	e := &w.event
	text := fmt.Sprintf("store: %s v%d %s: %s -> %s", short(w.attempt.Reference), e.Version, e.What, e.From, e.To)
	if e.Evidence != nil {
		text += fmt.Sprintf(" by %s", e.Evidence.Kind)
		switch e.Evidence.Kind {
		case attempt.EvidenceLookup:
			text += " (" + e.Evidence.Lookup.String() + ")"
		case attempt.EvidenceSends:
			for _, s := range e.Evidence.Sends {
				text += fmt.Sprintf(" [%s %s %d]", s.Verdict, s.Reason, s.StatusCode)
			}
		}
	}
	text += fmt.Sprintf(" reason %s, fence %d, %d claims, %d maybe, %d charges, next %s, by %s", w.attempt.Reason, w.attempt.Fence,
		len(w.attempt.Claims), w.attempt.MaybeSends, len(w.attempt.Charges), w.attempt.NextCheckAt.Format(time.TimeOnly), e.Who)
	for _, duty := range e.Duties {
		text += fmt.Sprintf(" DUTY %s %s of %s", duty.Kind, duty.Why, duty.ChargeID)
	}
	return text
}

func (w *world) closed(slot attempt.Slot, c closed) {
	w.tracef("store: %s is closed", slot)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records.closing[slot] = c
}

func (w *world) sent(r wire) {
	w.tracef("%s sends %s %s of %s", r.instance, r.method, r.path, short(r.reference))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records.wires = append(w.records.wires, r)
}

// begins notes that a request is handed to a connection: from here on its client cannot know whether it leaves, see [conn.Write].
func (w *world) begins(r wire) {
	r.at = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records.begun = append(w.records.begun, r)
}

func (w *world) relayed(e attempt.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.records.relayed == nil {
		w.records.relayed = make(map[string][]int)
	}
	w.records.relayed[e.AttemptID] = append(w.records.relayed[e.AttemptID], e.Version)
}

func (w *world) froze(f frozen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records.frozen = append(w.records.frozen, f)
}

type callKey struct{}

func (w *world) sawSend(ctx context.Context, a attempt.Attempt, s attempt.Send) {
	c, ok := ctx.Value(callKey{}).(*call)
	w.count("send: " + s.Verdict.String())
	if s.Reason == attempt.ReasonUnproven {
		w.count("refusal that names nobody on a used connection")
	}
	if s.Replayed {
		w.count("replayed answer")
	}
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c.sent = append(c.sent, s)
}

func (w *world) sawAsked(_ context.Context, _ string, answer attempt.LookupAnswer, _ time.Duration) {
	w.count("asked: " + answer.String())
}

func (w *world) sawNotRecorded(context.Context, attempt.Attempt, error) {
	w.count("outcome that could not be stored at once")
}

// short is the part of a reference by which people tell it from others.
func short(reference string) string {
	if len(reference) < 8 {
		return reference
	}
	return reference[:8]
}

// judge collects the records and has them checked.
func (w *world) judge() *outcome {
	r := &w.records
	r.end = time.Now()
	ledger := w.bank.Ledger()
	there := -w.profile.providerClock
	for _, c := range slices.Concat(ledger.Charges, ledger.Declines) {
		c.Created = c.Created.Add(there)
		r.charges = append(r.charges, c)
	}
	for _, c := range ledger.Refunds {
		c.Created = c.Created.Add(there)
		r.refunds = append(r.refunds, c)
	}
	r.events = make(map[string][]string)
	for _, q := range ledger.Requests {
		q.Time = q.Time.Add(there)
		if until, restored := r.forgotten[q.Reference]; !restored || q.Method != http.MethodPost || q.Time.After(until) {
			r.requests = append(r.requests, q)
		}
		w.trace = append(w.trace, traced{q.Time.Sub(w.began), func() string {
			return fmt.Sprintf("provider: request %d %s %s of %s, fault %q, status %d, replayed %t", q.Number, q.Method, q.Path, short(q.Reference), q.Fault, q.Status, q.Replayed)
		}})
		if q.Fault != "" && q.Fault != fakeprovider.Answer {
			w.faults[q.Method+" "+string(q.Fault)]++
		}
	}
	for _, delivery := range w.bank.Webhooks() {
		if !slices.Contains(r.events[delivery.Reference], delivery.Event) {
			r.events[delivery.Reference] = append(r.events[delivery.Reference], delivery.Event)
		}
	}
	for a, err := range w.memory.List(context.Background(), attempt.Filter{}) {
		if err != nil {
			w.broken("simulator", "%v", err)
			break
		}
		r.final = append(r.final, a)
	}
	for _, rule := range rules {
		for _, text := range rule.check(r) {
			w.violations = append(w.violations, violation{Rule: rule.name, Text: text})
		}
	}
	observe(r, func(what string) { w.counters[what]++ })
	return &outcome{
		Seed: w.dice.seed, Profile: w.profile.String(), Payments: len(r.final), Requests: len(r.requests), Counters: w.counters, Faults: w.faults,
		Kills: w.kills, Violations: w.violations, Precision: measure(r), Simulated: r.end.Sub(r.began), trace: w.trace, records: r,
	}
}

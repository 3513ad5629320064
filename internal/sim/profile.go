package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/reconcile"
)

// providerKind is what the provider offers, and what its adapter declares of it.
type providerKind string

const (
	keepsAll  providerKind = "keeps-all" // keeps every answer under the key
	successes providerKind = "successes" // keeps successes only
	keyless   providerKind = "keyless"   // knows no keys, can be asked
	noLookup  providerKind = "no-lookup" // keeps every answer, and cannot be asked
	blind     providerKind = "blind"     // neither keys nor lookups
)

// window is a time in which something is out of order, from the beginning of the run.
type window struct {
	from, to time.Duration
	how      string
}

// jump is a step of the store's clock.
type jump struct {
	at time.Duration
	by time.Duration
}

// profile is what a seed's world is like: which faults there are at all, and how often. Most worlds lack most of them, so that
// what is rare beside everything else is frequent somewhere.
type profile struct {
	mixed bool // the world that precision is measured in: every fifth request fails, and nothing else is out of order

	kind                   providerKind
	refunds, voids, lists  bool
	webhooks               bool
	retention, lag         time.Duration // as declared
	searchLag              time.Duration // as it is
	lockTimeout            time.Duration // of a key whose request never ended
	providerClock          time.Duration // ahead of the instances'
	storeClock             time.Duration // ahead of the instances'
	jumps                  []jump        // of the store's clock
	instances, orders      int
	span                   time.Duration // in which orders come
	faultRate              float64       // of requests that may move money
	faults                 []fakeprovider.Fault
	askFaultRate           float64 // of questions
	dialFaultRate          float64
	latency, storeLatency  time.Duration // at most
	storeFails, storeLoses float64       // of steps: not written; written, but the answer is lost
	crashes                float64       // at each named point
	freezes                float64       // of requests, before their first byte
	freezeFor              []time.Duration
	outages                []window // of the provider
	storeOutages           []window // of the store, for one instance each
	sources                []string
	retries, permits       int
	listFrom               int
	strangers              int // charges of another system in the same provider account
	lateMoney              reconcile.LateMoney
	hostFails              float64 // of events that are relayed to the host
	twice                  bool    // the provider sometimes makes two charges of one request
	concurrency            int     // of a reconciler's questions
	breakerRequests        int
	restored               bool    // the store has lost its last payments
	crowd                  bool    // many try to pay one order at once
	outcomesLate           float64 // of outcomes: stored about when their claim ends
}

// Fault parts that need no more than an answer of the API. Nothing in them lies about the books: a provider that does cannot
// be survived by asking it.
var (
	lostFaults = []fakeprovider.Fault{
		fakeprovider.LoseRequest, fakeprovider.LoseAnswer, fakeprovider.Reset, fakeprovider.Book.And(fakeprovider.Reset),
		fakeprovider.NeverArrives, fakeprovider.Book.And(fakeprovider.Hang), "read:40", "continue-close",
	}
	slowFaults = []fakeprovider.Fault{
		fakeprovider.Slow(2 * time.Second), fakeprovider.Slow(5 * time.Second), fakeprovider.BookAfter(4 * time.Second),
		fakeprovider.BookAfter(15 * time.Second), fakeprovider.BookAfter(3 * time.Minute), fakeprovider.Crash,
		fakeprovider.Book.And(fakeprovider.Crash),
	}
	statusFaults = []fakeprovider.Fault{
		fakeprovider.Status(500), fakeprovider.Book.And(fakeprovider.Status(500)), fakeprovider.Status(503).And(fakeprovider.RetryAfter("2")),
		fakeprovider.Status(429).And(fakeprovider.RetryAfter("1")), fakeprovider.Book.And(fakeprovider.Status(502)), fakeprovider.Status(401),
		fakeprovider.Running, fakeprovider.HTML, fakeprovider.Book.And(fakeprovider.HTML), fakeprovider.Redirect(307, "self"),
		fakeprovider.Book.And(fakeprovider.Redirect(302, "https://elsewhere.example/")), fakeprovider.Early(401),
	}
	bodyFaults = []fakeprovider.Fault{
		fakeprovider.CutBody(30), fakeprovider.NoLength(40), fakeprovider.CutChunked(60), fakeprovider.WrongLength(3), fakeprovider.Empty,
		fakeprovider.NoContent, fakeprovider.HalfHeaders, fakeprovider.ResetBody(20), fakeprovider.StallBody(25), fakeprovider.Drip(200 * time.Millisecond),
		fakeprovider.EchoReference("somebody-else"), fakeprovider.EchoAmount(1), fakeprovider.EchoCurrency("USD"),
		fakeprovider.Trailing("{}"), fakeprovider.AddField("status", `"succeeded"`), fakeprovider.OmitField("amount"), "bad-utf8", "no-replay-mark",
		fakeprovider.Garbage, fakeprovider.TwoAnswers, fakeprovider.ExtraAnswer, "close-after-answer", fakeprovider.PauseBody(time.Second),
	}
	declineFaults = []fakeprovider.Fault{fakeprovider.Decline("do_not_honor"), fakeprovider.Decline("do_not_honor").And("lose-answer")}
	lateFaults    = []fakeprovider.Fault{
		fakeprovider.BookAfter(35 * time.Minute), fakeprovider.BookAfter(50 * time.Minute),
	}
	webhookFaults = []fakeprovider.Fault{
		fakeprovider.WebhookLost, fakeprovider.WebhookTwice, fakeprovider.WebhookFirst, fakeprovider.WebhookLate(10 * time.Second),
		fakeprovider.LoseAnswer.And(fakeprovider.WebhookLate(40 * time.Minute)), fakeprovider.LoseAnswer.And(fakeprovider.WebhookFirst),
		fakeprovider.WebhookReordered, "webhook-bad-signature:2", fakeprovider.Slow(4 * time.Second).And(fakeprovider.WebhookFirst),
	}
	askFaults = []fakeprovider.Fault{
		fakeprovider.Status(503), fakeprovider.Status(500), fakeprovider.HTML, fakeprovider.Hang, fakeprovider.Close, fakeprovider.CutBody(20),
		fakeprovider.LookupStuck, fakeprovider.LookupForeign, "lookup-null", fakeprovider.NoLength(10), fakeprovider.Garbage,
		fakeprovider.Status(404), fakeprovider.Slow(2500 * time.Millisecond),
	}
)

// profileOf draws a seed's world.
func profileOf(d *dice) profile {
	yes := func(p float64, what string) bool { return d.chance(p, "profile", what, 0) }
	between := func(lo, hi time.Duration, what string) time.Duration { return d.between(lo, hi, "profile", what, 0) }
	p := profile{
		kind:      pick(d, []providerKind{keepsAll, keepsAll, keepsAll, successes, keyless, keyless, noLookup, blind}, "profile", "kind", 0),
		refunds:   yes(0.85, "refunds"),
		voids:     yes(0.7, "voids"),
		lists:     yes(0.5, "lists"),
		webhooks:  yes(0.5, "webhooks"),
		retention: pick(d, []time.Duration{24 * time.Hour, 24 * time.Hour, time.Hour, 6 * time.Minute}, "profile", "retention", 0),
		lag:       pick(d, []time.Duration{time.Minute, 5 * time.Minute}, "profile", "lag", 0),
		instances: pick(d, []int{1, 2, 2, 3, 4}, "profile", "instances", 0),
		orders:    pick(d, []int{8, 16, 24, 32, 40}, "profile", "orders", 0),
		span:      pick(d, []time.Duration{2 * time.Minute, 10 * time.Minute, 40 * time.Minute}, "profile", "span", 0),
		sources:   []string{"tok_visa", "tok_mastercard", "tok_visa", "tok_mastercard", "tok_amex"},
		latency:   pick(d, []time.Duration{5 * time.Millisecond, 200 * time.Millisecond, 1200 * time.Millisecond}, "profile", "latency", 0),
		retries:   pick(d, []int{3, 3, 1, -1}, "profile", "retries", 0),
		permits:   pick(d, []int{256, 256, 4}, "profile", "permits", 0),
		listFrom:  pick(d, []int{50, 3, -1}, "profile", "list from", 0), concurrency: pick(d, []int{1, 1, 8}, "profile", "concurrency", 0),
		breakerRequests: pick(d, []int{100, 20, 5}, "profile", "breaker", 0),
		storeLatency:    pick(d, []time.Duration{0, 2 * time.Millisecond, 50 * time.Millisecond}, "profile", "store latency", 0),
	}
	if yes(0.2, "mixed") {
		p.mixed, p.kind, p.faultRate, p.orders, p.span = true, keepsAll, 0.2, 40, 10*time.Minute
		p.refunds, p.voids, p.webhooks, p.retries, p.permits, p.breakerRequests = true, true, yes(0.5, "mixed webhooks"), 3, 256, 100
		p.latency, p.storeLatency, p.retention = 200*time.Millisecond, 2*time.Millisecond, 24*time.Hour
		p.faults = append(fakeprovider.DrawnFaults(), fakeprovider.Slow(5*time.Second), fakeprovider.NeverArrives)
		p.askFaultRate, p.dialFaultRate = 0.1, 0.02
		return p
	}
	if yes(0.3, "policy") {
		p.lateMoney = pick(d, []reconcile.LateMoney{reconcile.LateReview, reconcile.LateKeep}, "profile", "late money", 0)
	}
	if yes(0.3, "host fails") {
		p.hostFails = 0.2
	}
	if yes(0.3, "strangers") {
		p.strangers = 5
	}
	if yes(0.5, "lag as declared") {
		p.searchLag = between(0, p.lag-10*time.Second, "search lag")
	}
	if yes(0.4, "clocks") {
		p.providerClock = between(-30*time.Second, 30*time.Second, "provider's clock")
		p.storeClock = between(-time.Minute, time.Minute, "store's clock")
	}
	if yes(0.15, "jumps") {
		at := between(time.Minute, p.span, "jump at")
		by := between(5*time.Second, 40*time.Second, "jump by")
		p.jumps = []jump{{at, by}}
		if yes(0.5, "jump back") {
			p.jumps = append(p.jumps, jump{at + between(time.Minute, 20*time.Minute, "jump back after"), -by})
		}
		p.searchLag = min(p.searchLag, max(0, p.lag-by-10*time.Second)) // what the store takes for the lag is shorter by the jump
	}
	if yes(0.85, "faults") {
		p.faultRate = pick(d, []float64{0.05, 0.2, 0.2, 0.5, 0.9}, "profile", "fault rate", 0)
		groups := map[string][]fakeprovider.Fault{
			"lost": lostFaults, "slow": slowFaults, "status": statusFaults, "body": bodyFaults, "decline": declineFaults, "late": lateFaults,
		}
		for _, name := range []string{"lost", "slow", "status", "body", "decline", "late"} { // never in a map's order
			if yes(0.5, "group "+name) {
				p.faults = append(p.faults, groups[name]...)
				if name == "slow" || name == "late" {
					p.lockTimeout = 2 * time.Hour // a provider that forgets a request which it is still working on keeps no promise
				}
			}
		}
		if p.webhooks {
			p.faults = append(p.faults, webhookFaults...)
			p.twice = yes(0.2, "twice")
		}
		if len(p.faults) == 0 {
			p.faults = slices.Clone(lostFaults)
		}
	}
	if !p.canAsk() {
		// An answer that lies about the amount can only be found out by asking; here it would be the truth.
		p.faults = slices.DeleteFunc(p.faults, func(f fakeprovider.Fault) bool {
			return f == fakeprovider.EchoAmount(1) || f == fakeprovider.EchoCurrency("USD")
		})
	}
	if yes(0.5, "ask faults") {
		p.askFaultRate = pick(d, []float64{0.1, 0.3, 0.7}, "profile", "ask fault rate", 0)
	}
	if yes(0.4, "dial faults") {
		p.dialFaultRate = pick(d, []float64{0.05, 0.3}, "profile", "dial fault rate", 0)
	}
	if yes(0.5, "sources") {
		p.sources = append(p.sources, "tok_declined", "tok_insufficient_funds", "tok_slow_4s", "tok_lost_answer")
	}
	// A refusal of a source that turns into an approval by itself would do so too, which the provider does not declare.
	noDeclines := func() {
		p.faults = slices.DeleteFunc(p.faults, func(f fakeprovider.Fault) bool { return slices.Contains(declineFaults, f) })
	}
	if yes(0.4, "pending") {
		noDeclines()
		p.sources = append(p.sources, "tok_pending_then_succeeded_2m", "tok_pending_then_failed_5m", "tok_requires_action", "tok_pending_then_succeeded_45m")
	}
	if yes(0.4, "refund sources") {
		noDeclines()
		p.sources = append(p.sources, "tok_refund_declined", "tok_refund_pending_then_succeeded_20m", "tok_refund_pending_then_failed_20m")
	}
	if yes(0.3, "store fails") {
		p.storeFails, p.storeLoses = 0.03, 0.03
	}
	if yes(0.4, "crashes") {
		p.crashes = pick(d, []float64{0.002, 0.01, 0.04}, "profile", "crash rate", 0)
	}
	if yes(0.25, "freezes") {
		p.freezes = 0.05
		p.freezeFor = []time.Duration{17 * time.Second, 40 * time.Second}
		if p.retention == 24*time.Hour && yes(0.5, "long freezes") {
			p.freezeFor = append(p.freezeFor, 36*time.Minute, 50*time.Minute)
		}
	}
	if yes(0.25, "outage") {
		from := between(0, p.span, "outage from")
		p.outages = []window{{from, from + between(5*time.Second, 20*time.Minute, "outage for"), pick(d, []string{"status:503", "refuse-dial", "hang", "book+status:500"}, "profile", "outage how", 0)}}
	}
	if yes(0.2, "store outage") {
		from := between(0, p.span, "store outage from")
		p.storeOutages = []window{{from, from + between(time.Second, 2*time.Minute, "store outage for"), pick(d, []string{"0", "1", "all"}, "profile", "store outage of", 0)}}
	}
	if p.kind == keepsAll && p.webhooks && p.retention == 24*time.Hour && yes(0.5, "restored") {
		p.restored = true
	}
	if p.kind == keepsAll && yes(0.2, "crowd") {
		p.crowd, p.orders, p.instances, p.latency = true, 8, max(p.instances, 3), 1200*time.Millisecond
		p.outcomesLate = 0.8
		p.sources = []string{"tok_declined", "tok_insufficient_funds", "tok_visa"}
	}
	return p
}

func (p *profile) canAsk() bool { return p.kind != noLookup && p.kind != blind }
func (p *profile) keyed() bool  { return p.kind != keyless && p.kind != blind }

// String writes the profile on one line.
func (p *profile) String() string {
	var b strings.Builder
	if p.mixed {
		b.WriteString("mixed, ")
	}
	fmt.Fprintf(&b, "provider %s (refunds %t, voids %t, lists %t, webhooks %t, retention %s, lag %s of %s), %d instances, %d orders in %s, faults %.2f of %d, ask %.2f, dial %.2f, store %.2f/%.2f, crashes %.3f, freezes %.2f %v, jumps %v, outages %v, store outages %v, late money %q, restored %t, crowd %t",
		p.kind, p.refunds, p.voids, p.lists, p.webhooks, p.retention, p.searchLag, p.lag, p.instances, p.orders, p.span, p.faultRate, len(p.faults), p.askFaultRate,
		p.dialFaultRate, p.storeFails, p.storeLoses, p.crashes, p.freezes, p.freezeFor, p.jumps, p.outages, p.storeOutages, p.lateMoney, p.restored, p.crowd)
	return b.String()
}

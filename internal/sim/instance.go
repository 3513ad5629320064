package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/chargeonce/chargeonce/reconcile"
	"github.com/chargeonce/chargeonce/reconcile/webhook"
)

// instance is one life of a process: a client, a reconciler and a webhook endpoint on the shared store.
type instance struct {
	w      *world
	number int    // of the process, the same in all its lives
	name   string // of this life

	ctx       context.Context
	end       context.CancelFunc
	client    *payclient.Client
	recon     *reconcile.Reconciler
	webhook   *webhook.Handler
	transport *http.Transport
	running   sync.WaitGroup

	mu          sync.Mutex
	died        bool      // guarded by mu
	frozenUntil time.Time // guarded by mu
	stalls      int       // guarded by mu: how often it was held up by what a caller cannot help
}

const webhookSecret = "whsec_c2ltdWxhdGlvbnMgbmVlZCBub3NlY3JldHMhISE="

// newInstance starts a process.
func (w *world) newInstance(number, life int) *instance {
	i := &instance{w: w, number: number, name: fmt.Sprintf("i%d.%d", number, life)}
	i.ctx, i.end = context.WithCancel(context.Background())
	i.transport = payclient.NewTransport(payclient.TransportConfig{MaxConnections: w.profile.permits, IdleTimeout: 20 * time.Second})
	i.transport.DialContext, i.transport.DialTLSContext = i.dial, i.dial

	p := &w.profile
	cfg := w.clientConfig()
	cfg.Store, cfg.Transport, cfg.Retries, cfg.MaxConcurrent, cfg.Who = &link{Store: w.store, of: i}, i.transport, p.retries, p.permits, i.name
	cfg.PreparedAfter, cfg.Breaker.MinRequests = 3*time.Hour, p.breakerRequests
	cfg.Observer = payclient.Observer{Sent: i.sawSend, Asked: w.sawAsked, NotRecorded: w.sawNotRecorded}
	if w.mutant != nil && w.mutant.client != nil {
		w.mutant.client(w, &cfg)
	}
	var err error
	if i.client, err = payclient.New(cfg); err != nil {
		panic(err)
	}
	schedule := i.client.Schedule()
	i.webhook, err = webhook.New(webhook.Config{
		Store: cfg.Store, Place: i.client.Place(), Schedule: schedule, KeepsAnswers: cfg.Provider.Capabilities().Key.KeepsEveryAnswer,
		Secrets: []webhook.Secret{webhook.NewSecret(webhookSecret)}, Read: standard.ReadEvent, Who: i.name + " webhook",
		Observer: webhook.Observer{Delivered: func(_ context.Context, d webhook.Delivery) { w.count("event: " + d.Result.String()) }},
	})
	if err != nil {
		panic(err)
	}
	i.recon, err = reconcile.New(reconcile.Config{
		Store: cfg.Store, Askers: []reconcile.Asker{i.client}, Concurrency: p.concurrency, ListFrom: p.listFrom, Who: i.name + " reconciler",
		Policy: reconcile.Policy{LateMoney: p.lateMoney},
		Also: []func(context.Context) error{func(ctx context.Context) error {
			n, err := i.webhook.Adopt(ctx)
			for range n {
				w.count("webhook before Start commits, adopted afterwards")
			}
			return err
		}},
	})
	if err != nil {
		panic(err)
	}
	return i
}

// clientConfig is what all clients of the shop have in common.
func (w *world) clientConfig() payclient.Config {
	p := &w.profile
	adapter, err := standard.New(standard.Config{
		Token: payclient.NewSecret("simulated"), KeyRetention: p.retention, LookupLag: p.lag,
		KeepsSuccessesOnly: p.kind == successes, NoKeys: !p.keyed(), NoLookup: !p.canAsk(),
		NoRefunds: !p.refunds, NoVoids: !p.voids, NoLists: !p.lists,
	})
	if err != nil {
		panic(err) // a mistake in the simulator
	}
	return payclient.Config{
		Provider: adapter, BaseURL: "https://provider.example", Environment: "simulation",
		DeriveFrom: uuid.NewSHA1(uuid.NameSpaceOID, []byte(strconv.FormatUint(w.dice.seed, 10))),
	}
}

// forgotten pays as the shop did before its database was restored to a moment before that payment: nobody there knows of it any
// more, the provider holds the charge, and its webhook comes for an attempt that is not started yet, or again.
func (w *world) forgotten(in attempt.Intent) {
	cfg := w.clientConfig()
	transport := w.bank.RoundTripper()
	cfg.Store, cfg.Transport, cfg.Retries, cfg.Who = &attempt.Memory{Now: w.storeNow}, transport, -1, "before the restore"
	client, err := payclient.New(cfg)
	if err != nil {
		panic(err) // a mistake in the simulator
	}
	ctx := context.Background()
	started, err := client.Start(ctx, in)
	if err != nil {
		w.broken("simulator", "%v", err)
		return
	}
	w.bank.ScriptFor(fakeprovider.Match{Path: "/v1/charges", Reference: started.Reference}, fakeprovider.Answer)
	res, err := client.Send(ctx, started.AttemptID, in.Source)
	if err == nil && res.Outcome == payclient.Approved {
		w.count("payment that a restored store has forgotten")
	}
	w.tracef("%s: paid as %s before the restore, and forgotten: %s", in.Order, short(started.Reference), res.Outcome)
	if err := client.Close(ctx); err != nil {
		w.broken("simulator", "%v", err)
	}
	transport.(interface{ CloseIdleConnections() }).CloseIdleConnections()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.records.forgotten[started.Reference] = time.Now()
}

// reconcile looks after open attempts until the instance ends.
func (i *instance) reconcile() {
	i.running.Go(func() {
		i.stagger("reconciler")
		_ = i.recon.Run(i.ctx) // it ends with the instance's context, and says so
	})
}

// stagger keeps what instances do again and again from being done in step.
func (i *instance) stagger(what string) {
	wait(i.ctx, i.w.dice.between(0, 10*time.Second, "stagger "+what, i.name, 0))
}

// relay tells the host of every change, which the host sometimes refuses to hear.
func (i *instance) relay(every time.Duration) {
	w := i.w
	i.running.Go(func() {
		i.stagger("relay")
		_ = attempt.Relay(i.ctx, &link{Store: w.store, of: i}, hostRelay, func(_ context.Context, e attempt.Event) error {
			if i.dead() {
				return errDead
			}
			name := e.AttemptID + strconv.Itoa(e.Version)
			if !w.isCalm() && w.dice.chance(w.profile.hostFails, "host", name, w.dice.next("host", name)) {
				w.count("host that refuses an event")
				return errHost
			}
			w.relayed(e)
			return nil
		}, attempt.RelayOptions{Every: every}) // it ends with the instance's context, and says so
	})
}

const hostRelay = "host"

// sawSend is told of each request of the client when it has ended: a process that stands still goes on after that.
func (i *instance) sawSend(ctx context.Context, a attempt.Attempt, s attempt.Send) {
	i.thaw("send ", a.Reference)
	i.w.sawSend(ctx, a, s)
}

func (i *instance) dead() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.died
}

// crash kills the instance at a named point, if the dice say so.
func (i *instance) crash(point, name string) bool {
	w := i.w
	if w.profile.crashes == 0 || w.isCalm() || i.dead() {
		return false
	}
	if !w.dice.chance(w.profile.crashes, "crash "+point, name, w.dice.next("crash "+point, name)) {
		return false
	}
	return i.kill(point)
}

// kill ends a process at once: it writes and sends nothing any more, and tells nobody anything. What the provider has received
// goes on there. Another life begins after a while. Once the faults have ended nobody is killed.
func (i *instance) kill(point string) bool {
	w := i.w
	w.mu.Lock()
	if w.isCalm() {
		w.mu.Unlock()
		return false
	}
	w.background.Add(1) // before the faults can end, so that whoever waits then waits for what begins below
	defer w.background.Done()
	w.kills[point]++
	w.mu.Unlock()

	i.mu.Lock()
	already := i.died
	i.died = true
	i.mu.Unlock()
	if !already {
		w.tracef("%s dies (%s)", i.name, point)
		i.bury()
		w.restart(i)
	}
	return true
}

// bury ends the goroutines of an instance that is dead: without a store and without a way to the provider it does nothing.
func (i *instance) bury() {
	i.end()
	i.w.background.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = i.client.Close(ctx) // it only ends what still tries to write
		i.running.Wait()
		i.transport.CloseIdleConnections()
	})
}

// stop ends an instance in good order, and waits until it has ended.
func (i *instance) stop() {
	i.end()
	i.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := i.client.Close(ctx); err != nil {
		i.w.broken("leaks", "%s does not close: %v", i.name, err)
	}
	i.transport.CloseIdleConnections()
}

// freeze makes the whole process stand still for a while.
func (i *instance) freeze(d time.Duration) {
	i.mu.Lock()
	i.frozenUntil = time.Now().Add(d)
	i.stalls++
	i.mu.Unlock()
	i.w.froze(frozen{instance: i.name, from: time.Now(), to: time.Now().Add(d)})
	i.w.tracef("%s stands still for %s", i.name, d)
}

// thaw waits until the process goes on, and tells how long that was. What a frozen process was about to do it does all at once;
// a few drawn nanoseconds put it in an order that is the seed's.
func (i *instance) thaw(of ...string) (stood time.Duration) {
	for {
		i.mu.Lock()
		d := time.Until(i.frozenUntil)
		i.mu.Unlock()
		if d <= 0 {
			return stood
		}
		stood += d
		name := strings.Join(of, "")
		<-time.After(d + i.w.dice.between(0, 50*time.Microsecond, "thaw", name, i.w.dice.next("thaw", name)))
	}
}

func (i *instance) stall() {
	i.mu.Lock()
	i.stalls++
	i.mu.Unlock()
}

// stalled tells how often the instance was held up, and whether it stands still now.
func (i *instance) stalled() (times int, now bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.stalls, i.frozenUntil.After(time.Now())
}

var _ attempt.Store = (*link)(nil)

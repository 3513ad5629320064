package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// mutant is a mistake of the kind that payment code is made with. It is built around the real client, in its transport, its
// store or its adapter, and the checker must find it: a simulator that does not is no proof.
type mutant struct {
	name   string
	what   string
	rules  []string                                  // one of which must be broken
	world  func(*profile)                            // changes the seed's world into one in which the mistake can show
	client func(*world, *payclient.Config)           // changes every client
	store  func(*world, attempt.Store) attempt.Store // changes the store of all
}

func mutantNamed(name string) *mutant {
	for i := range mutants {
		if mutants[i].name == name {
			return &mutants[i]
		}
	}
	return nil
}

// worldOf is a world in which little is out of order but these faults.
func worldOf(kind providerKind, rate float64, faults ...fakeprovider.Fault) func(*profile) {
	return func(p *profile) {
		*p = profile{
			kind: kind, refunds: true, voids: true, lists: true, retention: 24 * time.Hour, lag: time.Minute, lockTimeout: 2 * time.Hour,
			instances: 2, orders: 24, span: 5 * time.Minute, faultRate: rate, faults: faults,
			latency: 200 * time.Millisecond, storeLatency: 2 * time.Millisecond, sources: []string{"tok_visa", "tok_mastercard"},
			retries: 3, permits: 256, listFrom: 50, concurrency: 1, breakerRequests: 100,
		}
	}
}

func with(world func(*profile), change func(*profile)) func(*profile) {
	return func(p *profile) { world(p); change(p) }
}

// through wraps the transport of a client.
func through(f func(w *world, base http.RoundTripper, req *http.Request, body []byte) (*http.Response, error)) func(*world, *payclient.Config) {
	return func(w *world, cfg *payclient.Config) {
		base := cfg.Transport
		cfg.Transport = &wrapped{base: base, f: func(req *http.Request) (*http.Response, error) {
			var body []byte
			if req.Body != nil {
				var err error
				if body, err = io.ReadAll(req.Body); err != nil {
					return nil, err
				}
				req = withBody(req, body)
			}
			return f(w, base, req, body)
		}}
	}
}

type wrapped struct {
	base http.RoundTripper
	f    func(*http.Request) (*http.Response, error)
}

func (t *wrapped) RoundTrip(req *http.Request) (*http.Response, error) { return t.f(req) }

func (t *wrapped) CloseIdleConnections() {
	t.base.(interface{ CloseIdleConnections() }).CloseIdleConnections()
}

func withBody(req *http.Request, body []byte) *http.Request {
	again := req.Clone(req.Context())
	again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return again
}

// answer reads a whole answer and hands out another.
func answer(resp *http.Response, err error, change func(body []byte, err error) (int, []byte, error)) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close() // read to its end, or to an error that counts
	status, body, err := change(body, err)
	if err != nil {
		return nil, err
	}
	resp.StatusCode, resp.Body, resp.ContentLength = status, io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.TransferEncoding = nil
	resp.Header.Del("Content-Encoding")
	return resp, nil
}

// adapterOf makes an adapter that declares something else than the provider keeps to.
func adapterOf(change func(*standard.Config)) func(*world, *payclient.Config) {
	return func(w *world, cfg *payclient.Config) {
		p := &w.profile
		c := standard.Config{
			Token: payclient.NewSecret("simulated"), KeyRetention: p.retention, LookupLag: p.lag,
			KeepsSuccessesOnly: p.kind == successes, NoKeys: !p.keyed(), NoLookup: !p.canAsk(),
		}
		change(&c)
		adapter, err := standard.New(c)
		if err != nil {
			panic(err)
		}
		cfg.Provider = adapter
	}
}

// seeing shows the steps of a store another view than the true one.
type seeing struct {
	attempt.Store
	change func(*attempt.Step, *attempt.View)
	writes func(*attempt.Step, []attempt.Write) []attempt.Write
}

func (s *seeing) Apply(ctx context.Context, steps ...*attempt.Step) error {
	own := make([]*attempt.Step, len(steps))
	for i, step := range steps {
		changed := *step
		if step.Do != nil {
			changed.Do = func(v attempt.View) ([]attempt.Write, error) {
				if s.change != nil {
					s.change(step, &v)
				}
				writes, err := step.Do(v)
				if s.writes != nil && err == nil {
					writes = s.writes(step, writes)
				}
				return writes, err
			}
		}
		own[i] = &changed
	}
	err := s.Store.Apply(ctx, own...)
	for i, step := range steps {
		step.Err = own[i].Err
	}
	return err
}

func seen(change func(*attempt.Step, *attempt.View)) func(*world, attempt.Store) attempt.Store {
	return func(_ *world, store attempt.Store) attempt.Store { return &seeing{Store: store, change: change} }
}

// applying replaces the store's Apply.
type applying struct {
	attempt.Store
	apply func(context.Context, []*attempt.Step) error
}

func (a *applying) Apply(ctx context.Context, steps ...*attempt.Step) error {
	return a.apply(ctx, steps)
}

// lending is a store that lends what is due for ever.
type lending struct{ attempt.Store }

func (l lending) TakeDue(ctx context.Context, limit int, _ time.Duration, places ...attempt.Place) (attempt.View, error) {
	return l.Store.TakeDue(ctx, limit, 100*365*24*time.Hour, places...)
}

var (
	amountIn   = regexp.MustCompile(`"amount":(\d+)`)
	currencyIn = regexp.MustCompile(`"currency":"([A-Z]+)"`)
)

// each returns a copy of attempts, each changed.
func each(attempts []attempt.Attempt, change func(*attempt.Attempt)) []attempt.Attempt {
	all := make([]attempt.Attempt, len(attempts))
	copy(all, attempts)
	for i := range all {
		change(&all[i])
	}
	return all
}

var lostAnswers = []fakeprovider.Fault{fakeprovider.LoseAnswer, fakeprovider.Book.And(fakeprovider.Reset), fakeprovider.Book.And(fakeprovider.Hang)}

var mutants = []mutant{
	{
		name: "canary", what: "the provider makes two charges of one request, and the checker is not told that it does",
		rules: []string{"one-charge"},
		world: worldOf(keepsAll, 0.5, "book-twice"), client: func(w *world, _ *payclient.Config) { w.records.blamed = true },
	},
	{
		name: "new-key-per-retry", what: "each request has a key of its own", rules: []string{"one-charge", "one-key"},
		world: worldOf(keepsAll, 0.5, lostAnswers...),
		client: through(func(w *world, base http.RoundTripper, req *http.Request, body []byte) (*http.Response, error) {
			if req.Method == http.MethodPost {
				req = withBody(req, body)
				req.Header.Set("Idempotency-Key", fmt.Sprintf(`"%s-%d"`, strings.Trim(req.Header.Get("Idempotency-Key"), `"`), w.dice.next("mutant", "")))
			}
			return base.RoundTrip(req)
		}),
	},
	{
		name: "body-changes", what: "a repetition is rendered anew, with the time in it", rules: []string{"one-key"},
		world: worldOf(keepsAll, 0.5, lostAnswers...),
		client: through(func(w *world, base http.RoundTripper, req *http.Request, body []byte) (*http.Response, error) {
			if req.Method == http.MethodPost && len(body) > 0 {
				req = withBody(req, append(bytes.TrimSuffix(body, []byte("}")), fmt.Sprintf(`,"description":"%d"}`, time.Since(w.began))...))
			}
			return base.RoundTrip(req)
		}),
	},
	{
		name: "redirect-followed", what: "a redirect is followed with the payment in hand", rules: []string{"not-sent", "one-charge"},
		world: worldOf(keyless, 0.6, fakeprovider.Redirect(307, "self"), fakeprovider.Book.And(fakeprovider.Redirect(308, "self"))),
		client: through(func(_ *world, base http.RoundTripper, req *http.Request, body []byte) (*http.Response, error) {
			resp, err := base.RoundTrip(req)
			if err != nil || resp.StatusCode < 300 || resp.StatusCode > 399 {
				return resp, err
			}
			_ = resp.Body.Close() // the answer is left behind
			return base.RoundTrip(withBody(req, body))
		}),
	},
	{
		name: "silent-resend", what: "the transport sends again by itself where the connection is lost", rules: []string{"not-sent", "one-charge"},
		world: worldOf(keyless, 0.5, lostAnswers...),
		client: through(func(_ *world, base http.RoundTripper, req *http.Request, body []byte) (*http.Response, error) {
			resp, err := base.RoundTrip(req)
			if err != nil && req.Context().Err() == nil {
				return base.RoundTrip(withBody(req, body))
			}
			return resp, err
		}),
	},
	{
		name: "failure-is-a-decline", what: "an answer that cannot be read is taken for a refusal", rules: []string{"false-end", "told-money"},
		world: worldOf(keepsAll, 0.5, fakeprovider.CutBody(30), fakeprovider.Book.And(fakeprovider.Status(500))),
		client: through(func(_ *world, base http.RoundTripper, req *http.Request, body []byte) (*http.Response, error) {
			resp, err := base.RoundTrip(req)
			if req.Method != http.MethodPost || err != nil {
				return resp, err
			}
			return answer(resp, err, func(got []byte, err error) (int, []byte, error) {
				if err == nil && resp.StatusCode < 500 {
					return resp.StatusCode, got, nil
				}
				resp.Header.Set("Content-Type", "application/problem+json")
				reference := ""
				if m := inBody.FindSubmatch(body); m != nil {
					reference = string(m[1])
				}
				return 402, []byte(`{"type":"urn:fakeprovider:card_declined","title":"declined","status":402,"code":"card_declined","decline_code":"unknown","merchant_reference":"` + reference + `"}`), nil
			})
		}),
	},
	{
		name: "echo-not-checked", what: "an answer is taken for one's own whatever reference it names", rules: []string{"approved"},
		world: with(worldOf(keepsAll, 0.5, fakeprovider.ExtraAnswer), func(p *profile) { p.orders, p.span, p.instances = 40, 30*time.Second, 1 }),
		client: through(func(_ *world, base http.RoundTripper, req *http.Request, body []byte) (*http.Response, error) {
			resp, err := base.RoundTrip(req)
			if req.Method != http.MethodPost || err != nil {
				return resp, err
			}
			return answer(resp, err, func(got []byte, err error) (int, []byte, error) {
				if m := inBody.FindSubmatch(body); m != nil {
					got = inBody.ReplaceAll(got, []byte(`"merchant_reference":"`+string(m[1])+`"`))
				}
				got = amountIn.ReplaceAll(got, amountIn.Find(body))
				got = currencyIn.ReplaceAll(got, currencyIn.Find(body))
				return resp.StatusCode, got, err
			})
		}),
	},
	{
		name: "last-error-is-the-verdict", what: "a lost connection counts as a request that was never sent", rules: []string{"not-sent", "one-charge", "false-end", "told-money"},
		world: worldOf(keyless, 0.5, lostAnswers...),
		client: through(func(_ *world, base http.RoundTripper, req *http.Request, body []byte) (*http.Response, error) {
			trace := httptrace.ContextClientTrace(req.Context())
			bare := withBody(req, body).WithContext(untraced{req.Context()})
			if trace != nil && trace.GetConn != nil {
				trace.GetConn("provider.example:443")
			}
			resp, err := base.RoundTrip(bare)
			if err == nil && trace != nil && trace.GotConn != nil {
				trace.GotConn(httptrace.GotConnInfo{})
			}
			if err != nil {
				err = fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
			}
			return resp, err
		}),
	},
	{
		name: "pending-is-success", what: "a charge that is not final is taken for money", rules: []string{"approved"},
		world: with(worldOf(keepsAll, 0), func(p *profile) { p.sources = []string{"tok_pending_then_failed_5m", "tok_visa"} }),
		client: through(func(_ *world, base http.RoundTripper, req *http.Request, _ []byte) (*http.Response, error) {
			resp, err := base.RoundTrip(req)
			return answer(resp, err, func(got []byte, err error) (int, []byte, error) {
				return resp.StatusCode, bytes.ReplaceAll(got, []byte(`"status":"pending"`), []byte(`"status":"succeeded"`)), err
			})
		}),
	},
	{
		name: "failed-question-is-none", what: "a question that failed counts as one that found nothing", rules: []string{"false-end", "abandoned-safely", "told-money"},
		world: with(worldOf(keepsAll, 0.6, lostAnswers...), func(p *profile) {
			p.retries, p.outages = -1, []window{{5 * time.Minute, 60 * time.Minute, "status:503"}}
		}),
		client: through(func(_ *world, base http.RoundTripper, req *http.Request, _ []byte) (*http.Response, error) {
			resp, err := base.RoundTrip(req)
			if req.Method != http.MethodGet || err != nil || resp.StatusCode == 200 {
				return resp, err
			}
			return answer(resp, err, func([]byte, error) (int, []byte, error) {
				resp.Header.Set("Content-Type", "application/json")
				return 200, []byte(`{"data":[],"has_more":false}`), nil
			})
		}),
	},
	{
		name: "none-is-final", what: "the first answers that find nothing end the attempt, within the provider's lag", rules: []string{"false-end", "abandoned-safely", "told-money"},
		world: with(worldOf(keepsAll, 0.6, lostAnswers...), func(p *profile) { p.lag, p.searchLag, p.retries = 20*time.Minute, 15*time.Minute, -1 }),
		client: func(w *world, cfg *payclient.Config) {
			adapterOf(func(c *standard.Config) { c.LookupLag = time.Second })(w, cfg)
			cfg.MinAge, cfg.AbandonAfter = 20*time.Second, time.Minute
		},
	},
	{
		name: "capabilities-lie", what: "a provider without keys is declared as one that keeps every answer", rules: []string{"one-charge", "no-resend"},
		world:  worldOf(keyless, 0.5, lostAnswers...),
		client: adapterOf(func(c *standard.Config) { c.NoKeys = false }),
	},
	{
		name: "successes-lie", what: "a provider that keeps successes only is declared as one that keeps every answer", rules: []string{"no-resend"},
		world:  worldOf(successes, 0.5, lostAnswers...),
		client: adapterOf(func(c *standard.Config) { c.KeepsSuccessesOnly = false }),
	},
	{
		name: "retention-lies", what: "keys are declared to be kept for longer than they are", rules: []string{"one-charge", "no-resend"},
		world:  with(worldOf(noLookup, 0.9, lostAnswers...), func(p *profile) { p.retention, p.retries = 30*time.Second, -1 }),
		client: adapterOf(func(c *standard.Config) { c.KeyRetention = 24 * time.Hour }),
	},
	{
		name: "stored-after-sending", what: "the claim is written behind the request", rules: []string{"stored-first"},
		world: worldOf(keepsAll, 0.2, lostAnswers...),
		store: func(w *world, store attempt.Store) attempt.Store {
			return &applying{Store: store, apply: func(ctx context.Context, steps []*attempt.Step) error {
				s := steps[0]
				if len(steps) > 1 || s.Do == nil || s.Outcome || s.ID != "" {
					return store.Apply(ctx, steps...)
				}
				v, err := store.Slot(ctx, s.Slot)
				if err != nil {
					return err
				}
				writes, err := s.Do(v)
				if err != nil || len(writes) != 1 || writes[0].Attempt == nil || writes[0].Event.What != attempt.WhatStartedClaimed {
					return store.Apply(ctx, steps...)
				}
				kept := *writes[0].Attempt
				late := attempt.Write{Attempt: &kept, Event: writes[0].Event}
				w.later(func() {
					<-time.After(time.Second)
					_ = store.Apply(context.Background(), &attempt.Step{Slot: s.Slot, Do: func(attempt.View) ([]attempt.Write, error) { return []attempt.Write{late}, nil }}) // whether it comes to that is the mistake
				})
				return nil
			}}
		},
	},
	{
		name: "claims-ignored", what: "a claim that is running does not keep others from sending", rules: []string{"one-claim"},
		world: worldOf(keepsAll, 0.5, fakeprovider.Slow(5*time.Second), fakeprovider.Book.And(fakeprovider.Hang)),
		store: seen(func(s *attempt.Step, v *attempt.View) {
			if !s.Outcome && s.Slot.Order != "" {
				v.Attempts = each(v.Attempts, func(a *attempt.Attempt) { a.Claims = nil })
			}
		}),
	},
	{
		name: "outcomes-lost", what: "the outcome is told and never written", rules: []string{"told-final", "settled", "stored-first", "approved", "canary"},
		world: worldOf(noLookup, 0.2, lostAnswers...),
		store: func(_ *world, store attempt.Store) attempt.Store {
			return &applying{Store: store, apply: func(ctx context.Context, steps []*attempt.Step) error {
				if len(steps) > 1 || !steps[0].Outcome {
					return store.Apply(ctx, steps...)
				}
				return (&seeing{Store: store, writes: func(*attempt.Step, []attempt.Write) []attempt.Write { return nil }}).Apply(ctx, steps...)
			}}
		},
	},
	{
		name: "refunds-forgotten", what: "what went back before does not count against the next refund", rules: []string{"refunds"},
		world: with(worldOf(keepsAll, 0.2, lostAnswers...), func(p *profile) { p.orders = 40 }),
		store: seen(func(_ *attempt.Step, v *attempt.View) {
			one := intent("x", "tok_visa", 1, "EUR").Amount
			v.Refunds = each(v.Refunds, func(a *attempt.Attempt) {
				if a.Amount.Currency() == "EUR" {
					a.Amount = one
				}
			})
			v.Attempts = each(v.Attempts, func(a *attempt.Attempt) {
				charges := make([]attempt.Charge, len(a.Charges))
				copy(charges, a.Charges)
				for i := range charges {
					charges[i].Refunded = 0
				}
				a.Charges = charges
			})
		}),
	},
	{
		name: "events-count-twice", what: "an event that is delivered again has its effect again", rules: []string{"events-once"},
		world: with(worldOf(keepsAll, 0.7, fakeprovider.WebhookTwice), func(p *profile) { p.webhooks = true }),
		store: func(_ *world, store attempt.Store) attempt.Store {
			return &applying{Store: store, apply: func(ctx context.Context, steps []*attempt.Step) error {
				for _, s := range steps {
					if s.ID != "" {
						s.Once = nil
					}
				}
				return store.Apply(ctx, steps...)
			}}
		},
	},
	{
		name: "closing-forgotten", what: "a cancelled order is paid all the same", rules: []string{"cancelled"},
		world: with(worldOf(keepsAll, 0.7, fakeprovider.LoseRequest, fakeprovider.NeverArrives), func(p *profile) { p.orders, p.retries = 40, -1 }),
		store: seen(func(s *attempt.Step, v *attempt.View) {
			if s.Slot.Order != "" && !s.Outcome {
				v.ClosedAt = time.Time{}
			}
		}),
	},
	{
		name: "duties-forgotten", what: "money that should not be there is noticed, and nobody is told to give it back", rules: []string{"duties"},
		world: with(worldOf(keepsAll, 0.3, lostAnswers...), func(p *profile) { p.orders = 40 }),
		store: func(_ *world, store attempt.Store) attempt.Store {
			return &seeing{Store: store, writes: func(_ *attempt.Step, writes []attempt.Write) []attempt.Write {
				for _, w := range writes {
					if w.Attempt != nil {
						w.Attempt.Duties = nil
					}
				}
				return writes
			}}
		},
	},
	{
		name: "fast-clock", what: "the store's clock runs five times as fast", rules: []string{"abandoned-safely", "false-end", "one-claim", "stored-first"},
		world: with(worldOf(keepsAll, 0.6, fakeprovider.LoseRequest, fakeprovider.NeverArrives), func(p *profile) { p.retries = -1 }),
		store: func(w *world, store attempt.Store) attempt.Store {
			w.memory.Now = func() time.Time { return time.Now().Add(4 * time.Since(w.began)) }
			return store
		},
	},
	{
		name: "permit-lost", what: "a permit to send is taken and never given back", rules: []string{"canary"},
		world:  with(worldOf(keepsAll, 0.2, lostAnswers...), func(p *profile) { p.permits = 4 }),
		client: func(_ *world, cfg *payclient.Config) { cfg.MaxConcurrent-- },
	},
	{
		name: "connection-lost", what: "a connection is made that nobody closes", rules: []string{"leaks"},
		world: worldOf(keepsAll, 0.2, lostAnswers...),
		client: func(w *world, cfg *payclient.Config) {
			t := cfg.Transport.(*http.Transport)
			dial := t.DialContext
			t.DialTLSContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if w.dice.next("mutant", "") == 3 {
					_, _ = dial(ctx, network, addr) // forgetting it is the mistake
				}
				return dial(ctx, network, addr)
			}
		},
	},
	{
		name: "goroutine-lost", what: "whoever waits for an answer waits for ever", rules: []string{"leaks"},
		world: worldOf(keepsAll, 0.2, lostAnswers...),
		client: through(func(w *world, base http.RoundTripper, req *http.Request, _ []byte) (*http.Response, error) {
			resp, err := base.RoundTrip(req)
			if err != nil {
				answer := make(chan struct{})
				go func() {
					select {
					case <-answer:
					case <-w.over:
					}
				}()
			}
			return resp, err
		}),
	},
	{
		name: "lease-for-ever", what: "what a reconciler takes and does not give back is never looked at again", rules: []string{"settled", "leaks", "duties"},
		world: with(worldOf(keepsAll, 0.5, lostAnswers...), func(p *profile) { p.retries, p.crashes = -1, 0.04 }),
		store: func(_ *world, store attempt.Store) attempt.Store { return lending{store} },
	},
	{
		name: "history-rewritten", what: "an end is written over by a later one", rules: []string{"final", "gapless", "told-final"},
		world: worldOf(keepsAll, 0.2, fakeprovider.Decline("do_not_honor")),
		store: func(w *world, store attempt.Store) attempt.Store {
			return &seeing{Store: store, writes: func(_ *attempt.Step, writes []attempt.Write) []attempt.Write {
				for _, change := range writes {
					if change.Attempt != nil && change.Attempt.Status == attempt.StatusDeclined {
						w.forge(change)
					}
				}
				return writes
			}}
		},
	},
}

// forge writes another end behind the store's back, as somebody with a database console would.
func (w *world) forge(change attempt.Write) {
	a, e := *change.Attempt, change.Event
	a.Status, a.Version, e.From, e.To, e.Version = attempt.StatusAbandoned, a.Version+1, attempt.StatusDeclined, attempt.StatusAbandoned, e.Version+1
	w.later(func() {
		<-time.After(time.Second)
		now := time.Now()
		w.wrote(write{at: now, store: w.storeNow(), attempt: a, event: e})
	})
}

// untraced is a context without the trace of the request.
type untraced struct{ context.Context }

func (u untraced) Value(key any) any {
	v := u.Context.Value(key)
	if _, trace := v.(*httptrace.ClientTrace); trace {
		return nil
	}
	return v
}

var errNotCaught = errors.New("not caught")

// caught runs a mutant until the checker has found it, over at most so many seeds.
func caught(m *mutant, seeds uint64, run func(uint64) *outcome) (by string, after uint64, err error) {
	var others []string
	for seed := uint64(1); seed <= seeds; seed++ {
		for _, v := range run(seed).Violations {
			for _, rule := range m.rules {
				if v.Rule == rule {
					return rule, seed, nil
				}
			}
			others = append(others, v.Rule+": "+v.Text)
		}
	}
	if len(others) > 3 {
		others = others[:3]
	}
	return "", seeds, fmt.Errorf("%s (%s): %w in %d seeds; other rules that were broken: %v", m.name, m.what, errNotCaught, seeds, others)
}

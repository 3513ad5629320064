package payclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/google/uuid"

	"github.com/chargeonce/chargeonce/attempt"
)

// Client pays intents at one provider, at most once each. It is safe for concurrent use; several clients, in several
// processes, may share a store.
type Client struct {
	cfg       Config
	caps      Capabilities
	can       abilities
	base      *url.URL
	basePath  string
	transport http.RoundTripper
	digester  attempt.Digester
	resend    attempt.Resend
	schedule  *attempt.Schedule
	retries   int
	repeat    failsafe.Executor[*sending]
	guard     *guard
	asker     http.RoundTripper // for lookups
	lastURL   atomic.Pointer[keptURL]
	used      sync.Pool // of *starting
	aged      atomic.Int64

	// pending counts outcomes that are being stored behind the back of calls that have returned.
	pending sync.WaitGroup
	// closing ends those when Close gives up.
	closing context.Context
	giveUp  context.CancelFunc
	mu      sync.Mutex
	closed  bool // guarded by mu
	// notRecorded is evidence that the store has not taken yet, or that was given up. Guarded by mu.
	notRecorded map[*attempt.Record]*NotRecorded
}

// New makes a client. It sends nothing, and reports every mistake in the configuration at once.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Client{cfg: cfg, caps: cfg.Provider.Capabilities(), transport: cfg.Transport, retries: max(cfg.Retries, 0)}
	c.base, _ = parseBaseURL(cfg.BaseURL)                  // validated
	c.digester, _ = attempt.NewDigester(cfg.DigestKeys...) // validated
	c.cfg.DigestKeys = nil                                 // whoever prints a client prints no key
	c.can, _ = abilitiesOf(cfg.Provider, c.caps)           // validated
	c.basePath = strings.TrimSuffix(c.base.Path, "/")
	c.resend = attempt.Resend{
		KeepsEveryAnswer: c.caps.Key.KeepsEveryAnswer, Retention: c.caps.Key.Retention, Margin: cfg.RetentionMargin,
	}
	c.schedule = scheduleOf(cfg, c.caps)
	if c.transport == nil {
		idle := c.caps.IdleTimeout / 2
		c.transport = NewTransport(TransportConfig{MaxConnections: cfg.MaxConcurrent, IdleTimeout: idle})
	}
	c.repeat, c.guard = repeater(), newGuard(cfg)
	c.asker = c.transport
	if t, ok := c.transport.(*http.Transport); ok {
		// "None" names nobody: on a connection that was used before it may answer another question. Each has its own.
		own := t.Clone()
		own.DisableKeepAlives = true
		c.asker = own
	}
	c.closing, c.giveUp = context.WithCancel(context.Background())
	return c, nil
}

// ErrClosed says that the client was closed before the call. Nothing was sent.
var ErrClosed = errors.New("client closed")

// Close waits until every call under way has ended and every outcome that one has received is stored, or until ctx ends;
// then its error says so, storing is given up, and the attempts concerned stay open ([Client.NotRecorded] lists them). Calls
// that begin later fail with [ErrClosed]. It does not close the store: close that afterwards.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	done := make(chan struct{})
	go func() { c.pending.Wait(); close(done) }()
	defer c.giveUp()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("calls under way or outcomes not stored yet; their attempts stay open: %w", context.Cause(ctx))
	}
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok && c.cfg.Transport == nil {
		t.CloseIdleConnections()
	}
	return nil
}

// begin counts a call in, so that Close waits for it.
func (c *Client) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("%w; nothing was sent", ErrClosed)
	}
	c.pending.Add(1)
	return nil
}

// Pay pays an intent: it stores an attempt with its key, sends it, and tells what became of it. Called again for the same
// slot, whoever calls and whatever has crashed meanwhile, it goes on with the attempt that is there.
//
// An error means that this call sent nothing:
//
//   - [attempt.ErrConflict]: an attempt with another amount, source or provider may have been sent and is not settled;
//     the Result tells of that one.
//   - [attempt.ErrAlreadyPaid]: another attempt has paid the slot.
//   - [attempt.ErrRefunded]: the slot was paid, and the money given back in full.
//   - [attempt.ErrCancelled]: the order was cancelled.
//   - [attempt.ErrNotPaid]: nothing was sent under the attempt, or it ended without money; the error's Reason says why.
//   - [attempt.ErrUnavailable]: the store could not be read or written; nobody knows.
//   - [attempt.ErrInvalidIntent]: the intent cannot be paid as it stands.
//
// Everything else is a Result: [Result.Open] says whether it still waits for evidence.
//
// ctx bounds the sending: its deadline shortens the call (nothing is sent with less than a third of SendTimeout left), and
// its end stops the waiting, not the payment. A handler that passes its request's context leaves a payment open whenever
// the payer's browser goes away; context.WithoutCancel lets the call end by its own CallTimeout. What was learnt is stored
// in any case.
//
// What is decided for a slot, in this order: a live attempt decides first (the same amount and source take it up again,
// others are refused unless nothing of it can have left); then open duties; then declines and superseded attempts of the
// same amount and source, which are told again unless [attempt.Intent].Again asks for a new one; else a new attempt starts.
//
// Where another source or amount would be refused because of a charge that waits for the payer (3-D Secure left half-way), and
// the provider can cancel such a charge, it is cancelled there; once the provider has confirmed that, the new attempt starts.
func (c *Client) Pay(ctx context.Context, intent attempt.Intent) (Result, error) {
	return c.pay(ctx, c.start(intent, c.claimFor()))
}

// Start stores an attempt as prepared and sends nothing: the first half of Pay. [Client.Send] is the other.
// The Result tells of the attempt: its AttemptID, and as Existing whether it was there before.
func (c *Client) Start(ctx context.Context, intent attempt.Intent) (Result, error) {
	return c.startOnly(intent, func(step *attempt.Step) error { return c.cfg.Store.Apply(ctx, step) })
}

// StartTx is Start inside the host's own transaction, so that the attempt commits with the order's own change. tx comes
// from the store that the client uses. It asks nobody, and a slot that is taken never makes the transaction fail: the
// error then says so and the transaction can go on.
func (c *Client) StartTx(ctx context.Context, tx attempt.Tx, intent attempt.Intent) (Result, error) {
	return c.startOnly(intent, func(step *attempt.Step) error { return tx.ApplyTx(ctx, step) })
}

// Send sends the committed attempt with that id: the second half of Pay. The source is given once more, because it is not
// stored; if it is another one, nothing is sent. A missing, closed or superseded attempt is not sent and none is started:
// the Result or the error says how it stands, as for Pay; [attempt.ErrNotFound] where there is none.
func (c *Client) Send(ctx context.Context, id string, source attempt.Source) (Result, error) {
	if id == "" {
		return Result{}, fmt.Errorf("%w: id: empty, want that of an attempt; nothing was sent", attempt.ErrInvalidIntent)
	}
	s := c.start(attempt.Intent{Source: source}, c.claimFor())
	s.ID = id
	return c.pay(ctx, s)
}

// subject names what the call is about, for errors.
func (s *starting) subject() string {
	switch {
	case s.ID != "":
		return "attempt " + s.ID
	case s.Refund.AttemptID != "":
		return "refund " + s.Refund.ID + " of attempt " + s.Refund.AttemptID
	}
	return "order " + s.Slot.String()
}

func (c *Client) claimFor() time.Duration { return c.cfg.CallTimeout + c.cfg.RecordTimeout }

// starting is one call's decision, and the request body that was rendered on the way to it.
type starting struct {
	attempt.Start
	body       []byte // whole, with the source
	bodyOf     string // the id of the attempt it belongs to
	bodyDigest string
	voided     bool // a charge that waited for the payer was cancelled, or that was tried

	record  attempt.Record
	sending sending // what follows, if the decision is to send
}

func (c *Client) start(intent attempt.Intent, claim time.Duration) *starting {
	s, _ := c.used.Get().(*starting)
	if s == nil {
		s = new(starting)
	}
	// Set one by one: the room is clear, and a whole struct would be built beside it and copied.
	s.Slot, s.Intent = intent.Slot(), intent
	s.Provider, s.ProviderAccount, s.Environment = c.caps.Name, c.cfg.ProviderAccount, c.cfg.Environment
	s.Digester, s.Resend, s.CannotAsk = c.digester, c.resend, !c.caps.Lookup.ByReference
	s.Claim, s.SendSpan, s.FirstCheck, s.PreparedAfter = claim, c.cfg.SendTimeout, c.cfg.MinAge, c.cfg.PreparedAfter
	s.Who = c.cfg.Who
	s.New = func(ordinal int) (attempt.Attempt, error) { return c.newAttempt(s, ordinal) }
	s.Render = func(a *attempt.Attempt) error { return c.render(a, s) }
	return s
}

// reuse keeps a call's room for the next call. Only that of a payment that went all the way is kept: there both steps are
// stored, so that nobody holds them any more (Store.Apply), and nothing goes on behind the call. See docs/adr/0016.
func (c *Client) reuse(s *starting) {
	*s = starting{} // the source above all
	c.used.Put(s)
}

// newAttempt makes the slot's next attempt, or the refund's. It fails where the rules for new payments forbid it.
func (c *Client) newAttempt(s *starting, ordinal int) (attempt.Attempt, error) {
	if s.Refund.AttemptID != "" {
		return c.newRefund(s, ordinal)
	}
	if err := s.Intent.Validate(); err != nil {
		return attempt.Attempt{}, err
	}
	identity, err := c.newIdentity(s.Slot, ordinal)
	if err != nil {
		return attempt.Attempt{}, err
	}
	digest, err := c.digester.Digest(s.Intent.Source)
	if err != nil {
		return attempt.Attempt{}, err
	}
	a := attempt.Attempt{
		ID: identity.ID, Key: identity.Key, Reference: identity.Reference,
		Slot: s.Slot, Ordinal: ordinal, Amount: s.Intent.Amount, Source: digest, Description: s.Intent.Description,
		Provider: s.Provider, ProviderAccount: s.ProviderAccount, Environment: s.Environment,
	}
	// Rendered even where the call only starts, so that what the provider cannot take is refused before it is stored.
	if err := c.render(&a, s); err != nil {
		return attempt.Attempt{}, err
	}
	return a, nil
}

func (c *Client) newIdentity(slot attempt.Slot, ordinal int) (attempt.Identity, error) {
	if c.cfg.DeriveFrom != uuid.Nil {
		return attempt.DeriveIdentity(c.cfg.DeriveFrom, c.cfg.ReferencePrefix, slot, ordinal), nil
	}
	return attempt.NewIdentity(c.cfg.ReferencePrefix)
}

// render fills in the body, source left out, and the digest of it with the source.
func (c *Client) render(a *attempt.Attempt, s *starting) error {
	var stored []byte
	var err error
	if a.IsRefund() {
		stored, err = c.refundBody(*a)
	} else {
		stored, err = c.cfg.Provider.ChargeBody(*a)
	}
	if err != nil {
		return err
	}
	whole, digest, err := c.fill(stored, a.Source, s.Intent.Source)
	if err != nil {
		return err
	}
	a.Body, a.BodyDigest = stored, digest
	s.body, s.bodyOf, s.bodyDigest = whole, a.ID, digest
	return nil
}

func (c *Client) startOnly(intent attempt.Intent, apply func(*attempt.Step) error) (Result, error) {
	if err := c.begin(); err != nil {
		return Result{}, err
	}
	defer c.pending.Done()
	s := c.start(intent, 0)
	if err := c.checkStart(s); err != nil {
		return Result{}, err
	}
	if err := apply(s.Step()); err != nil {
		return Result{}, fmt.Errorf("order %s: start: %w; nothing was sent", s.Slot, err)
	}
	d := s.Decision
	if d.Kind == attempt.DecidedRefuse {
		return c.refused(d)
	}
	r := resultOf(&d.Attempt, d.Now)
	r.Existing = d.Existing
	if d.Kind == attempt.DecidedTell && r.notPaid {
		return r, &attempt.NotPaidError{Attempt: d.Attempt, Reason: r.Reason}
	}
	return r, nil
}

// checkStart holds what must be right even to look for a stored attempt: the slot, and a source to compare with; or what names
// a refund.
func (c *Client) checkStart(s *starting) error {
	var err error
	switch {
	case s.Refund.AttemptID != "":
		err = s.Refund.Validate()
	case s.ID != "":
		err = s.Intent.Source.Validate()
	default:
		err = errors.Join(s.Slot.Validate(), s.Intent.Source.Validate())
	}
	if err != nil {
		return fmt.Errorf("%w: %w; nothing was stored or sent", attempt.ErrInvalidIntent, err)
	}
	return nil
}

// pay decides, asks where a question comes first, and sends.
func (c *Client) pay(ctx context.Context, s *starting) (Result, error) {
	if err := c.begin(); err != nil {
		return Result{}, err
	}
	defer c.pending.Done()
	if err := c.checkStart(s); err != nil {
		return Result{}, err
	}
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("%s: %w; nothing was sent", s.subject(), context.Cause(ctx))
	}
	for {
		began := time.Now()
		if err := c.cfg.Store.Apply(ctx, s.Step()); err != nil {
			return Result{}, fmt.Errorf("%s: %w; nothing was sent", s.subject(), err)
		}
		if s.Decision.Kind == attempt.DecidedSend {
			r, err := c.send(ctx, s, began)
			if err == nil && r.Outcome == Approved && r.RecordErr == nil {
				c.reuse(s)
			}
			return r, err
		}
		d := s.Decision
		switch d.Kind {
		case attempt.DecidedRefuse:
			if c.voidFirst(ctx, s, d) {
				continue
			}
			return c.refused(d)
		case attempt.DecidedAsk:
			if err := c.askFirst(ctx, s, d); err != nil {
				return resultOf(&d.Attempt, d.Now), err
			}
			s.Asked = true
		default:
			return c.told(d)
		}
	}
}

// askFirst asks about the attempts that stand before a decision and records the answers. A question that fails leaves a
// live attempt as it is, and forbids a new one after an abandoned one.
func (c *Client) askFirst(ctx context.Context, s *starting, d attempt.Decision) error {
	for i := range d.Ask {
		a := d.Ask[i]
		answer, err := c.askAndRecord(ctx, a, d.Now, time.Now().Add(c.cfg.CallTimeout))
		if err != nil {
			return err
		}
		asked := answer == attempt.LookupFound || answer == attempt.LookupNone
		if !asked {
			s.Unanswered = append(s.Unanswered, a.ID) // it may be abandoned by now all the same: then it is asked about again
		}
		if a.Status == attempt.StatusAbandoned && !asked {
			return &attempt.NotPaidError{Attempt: a, Reason: attempt.ReasonNotAsked,
				Err: fmt.Errorf("an earlier attempt was abandoned, and the provider could not be asked once more about it (%s)", answer)}
		}
	}
	return nil
}

// told tells of an attempt that this call does not send.
func (c *Client) told(d attempt.Decision) (Result, error) {
	r := resultOf(&d.Attempt, d.Now)
	r.Existing = true
	if d.Reason != "" {
		r.Reason = d.Reason
	}
	if r.notPaid {
		return r, &attempt.NotPaidError{Attempt: d.Attempt, Reason: r.Reason}
	}
	return r, nil
}

func (c *Client) refused(d attempt.Decision) (Result, error) {
	if d.Attempt.ID == "" {
		return Result{}, d.Err
	}
	r := resultOf(&d.Attempt, d.Now)
	r.Existing = true
	return r, d.Err
}

// send sends a claimed attempt, records what came of it, and asks once where that leaves it open and time is left.
func (c *Client) send(ctx context.Context, start *starting, began time.Time) (r Result, err error) {
	a, source := &start.Decision.Attempt, start.Intent.Source
	s := &start.sending
	s.client, s.ctx, s.a, s.source, s.clean.source = c, ctx, a, source, source
	s.claimed, s.began, s.key = start.Decision.Now, began, c.headerKey(a.Key)
	s.callUntil, s.claimUntil = began.Add(c.cfg.CallTimeout), began.Add(c.claimFor())
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(s.callUntil) {
		s.callUntil = deadline
	}
	if start.bodyOf == a.ID && start.bodyDigest == a.BodyDigest {
		s.body = start.body // rendered by this very call
	} else if err := s.prepareBody(); err != nil {
		s.stop(attempt.ReasonBodyChanged, err)
	}
	if s.stopErr == nil {
		s.run()
	}
	if s.doubted {
		s.askFirst(&start.record)
	}
	after, now, notStored := c.recordSends(s, &start.record)
	r = c.resultAfter(s, after, now, notStored)
	if r.Open() && r.RecordErr == nil && s.worthAsking() {
		if _, err := c.askAndRecord(ctx, *after, now, s.callUntil); err == nil {
			if view, err := c.cfg.Store.Slot(ctx, after.Slot); err == nil {
				if known, ok := view.Find(after.ID); ok {
					r = c.resultAfter(s, &known, view.Now, nil)
				}
			}
		}
	}
	switch {
	case !r.notPaid:
	case !s.mayHaveSent():
		return r, s.notPaid(r)
	case r.Attempt.Status == attempt.StatusAbandoned && r.Reason != attempt.ReasonRefunded:
		// It was given up while this call stood still and then sent all the same. What is told to others can only change once
		// money is found, but this caller knows better.
		r.Outcome, r.Moved, r.notPaid, r.Reason = UnknownOutcome, MovedMaybe, false, attempt.ReasonClaimExpired
	}
	return r, nil
}

// mayHaveSent tells whether a request of this call may have left.
func (s *sending) mayHaveSent() bool {
	return slices.ContainsFunc(s.log, func(sent attempt.Send) bool { return sent.Verdict != attempt.NotSent })
}

// worthAsking tells whether a lookup may settle now what the sends left open.
func (s *sending) worthAsking() bool {
	if s.ctx.Err() != nil || !s.client.canAsk(s.a) || len(s.log) == 0 {
		return false
	}
	return time.Until(s.callUntil) >= s.client.cfg.SendTimeout/3
}

// resultAfter tells of an attempt after this call's sends.
func (c *Client) resultAfter(s *sending, a *attempt.Attempt, now time.Time, recordErr error) (r Result) {
	r = resultOf(a, now)
	if recordErr != nil {
		r.RecordErr = recordErr
		if r.Outcome != Approved {
			// What was learnt is not stored: nobody may rely on it, except on money.
			refused := r.notPaid || !r.Open()
			r.Outcome, r.Moved, r.notPaid = UnknownOutcome, MovedMaybe, false
			if refused {
				r.Reason = attempt.ReasonNotRecorded
			}
		}
		return r
	}
	if r.Open() && s.stopped == attempt.ReasonBodyChanged {
		r.Reason = s.stopped
	}
	return r
}

// notPaid makes the error for an attempt of which this call is proven to have sent nothing.
func (s *sending) notPaid(r Result) error {
	why, cause := s.stopped, s.stopErr
	for i := range s.log {
		if s.log[i].Reason != "" && (cause == nil || why == "" || why == attempt.ReasonNoTime) {
			why, cause = s.log[i].Reason, errors.New(s.log[i].Detail)
		}
	}
	if why == "" {
		why = r.Reason
	}
	return &attempt.NotPaidError{Attempt: r.Attempt, Reason: why, Err: cause}
}

func (c *Client) headerKey(key string) string {
	if c.caps.Key.Quoted {
		return `"` + key + `"`
	}
	return key
}

// Status tells how a slot stands, from the store alone: about its payment; of refunds [Client.Refunds] tells. Of an order that
// was cancelled before anything was started it tells what CancelOrder does. Of one that is not paid, and of one whose money went
// back, [Result.NotPaid] is true and there is no outcome. [attempt.ErrNotFound] where nothing was ever started,
// [attempt.ErrUnavailable] where the store cannot be read.
func (c *Client) Status(ctx context.Context, slot attempt.Slot) (Result, error) {
	r, _, err := c.status(ctx, slot)
	return r, err
}

// StatusTx is Status inside the host's own transaction: what it tells and what the host writes there commit on the same state
// of the slot. tx comes from the store that the client uses.
func (c *Client) StatusTx(ctx context.Context, tx attempt.Tx, slot attempt.Slot) (Result, error) {
	slot = slot.WithDefaults()
	if err := slot.Validate(); err != nil {
		return Result{}, fmt.Errorf("%w: %w", attempt.ErrInvalidIntent, err)
	}
	var view attempt.View
	step := &attempt.Step{Slot: slot, Do: func(v attempt.View) ([]attempt.Write, error) {
		view = v
		return nil, nil
	}}
	if err := tx.ApplyTx(ctx, step); err != nil {
		return Result{}, fmt.Errorf("order %s: %w", slot, err)
	}
	return statusOf(slot, view)
}

func (c *Client) status(ctx context.Context, slot attempt.Slot) (Result, attempt.View, error) {
	slot = slot.WithDefaults()
	if err := slot.Validate(); err != nil {
		return Result{}, attempt.View{}, fmt.Errorf("%w: %w", attempt.ErrInvalidIntent, err)
	}
	view, err := c.cfg.Store.Slot(ctx, slot)
	if err != nil {
		return Result{}, view, fmt.Errorf("order %s: %w", slot, err)
	}
	r, err := statusOf(slot, view)
	return r, view, err
}

func statusOf(slot attempt.Slot, view attempt.View) (Result, error) {
	if len(view.Attempts) == 0 && view.ClosedAt.IsZero() {
		return Result{}, fmt.Errorf("order %s: %w", slot, attempt.ErrNotFound)
	}
	return tellSlot(view), nil
}

// Check tells how a slot stands and asks the provider first, if the attempt is open, or money may still turn up on it, and this
// client's provider can be asked. A question that fails changes nothing. Errors are those of Status.
func (c *Client) Check(ctx context.Context, slot attempt.Slot) (Result, error) {
	if err := c.begin(); err != nil {
		return Result{}, err
	}
	defer c.pending.Done()
	r, view, err := c.status(ctx, slot)
	if err != nil || !(r.Open() || c.schedule.Watches(r.Attempt)) || !c.caps.Lookup.ByReference {
		return r, err
	}
	a := r.Attempt
	if a.Place() != c.Place() {
		return r, nil
	}
	if _, err := c.askAndRecord(ctx, a, view.Now, time.Now().Add(c.cfg.CallTimeout)); err != nil {
		r.RecordErr = err
		return r, nil
	}
	return c.Status(ctx, slot)
}

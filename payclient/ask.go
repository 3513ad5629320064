package payclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Lookup is what came of asking the provider for charges by reference.
type Lookup struct {
	// Answer says whether the provider holds charges with the reference. None means none as of now: a charge may still
	// appear within the provider's lag.
	Answer  attempt.LookupAnswer
	Charges []attempt.Charge
	// Detail says why an answer is not readable, or why nobody could be asked.
	Detail     string
	StatusCode int
	RequestID  string

	notMade bool // the first question did not leave
}

// maxPages bounds how many pages of one lookup are read: more charges under one reference are no answer.
const maxPages = 20

// FindByReference asks the provider for the charges with a merchant reference. It changes nothing, here or there. An
// error means that nobody could be asked; an answer that cannot be relied on is LookupUnreadable. A reference of ours never
// belongs to a charge and a refund: those are found by [Client.FindRefundByReference].
func (c *Client) FindByReference(ctx context.Context, reference string) (Lookup, error) {
	return c.ask(ctx, question{reference: reference})
}

// FindRefundByReference is FindByReference for refunds: the Charges of the answer are the provider's refunds, of whatever
// charge.
func (c *Client) FindRefundByReference(ctx context.Context, reference string) (Lookup, error) {
	return c.ask(ctx, question{reference: reference, refund: true})
}

func (c *Client) ask(ctx context.Context, q question) (Lookup, error) {
	if !c.caps.Lookup.ByReference || q.refund && c.can.refunder == nil {
		return Lookup{Answer: attempt.LookupNotAsked, Detail: "the provider cannot be asked by reference"},
			fmt.Errorf("find %s: the provider cannot be asked by reference", q.reference)
	}
	if err := c.begin(); err != nil {
		return Lookup{Answer: attempt.LookupNotAsked}, err
	}
	defer c.pending.Done()
	l := c.find(ctx, q, time.Now().Add(c.cfg.CallTimeout))
	if l.Answer == attempt.LookupNotAsked {
		return l, fmt.Errorf("find %s: %s", q.reference, l.Detail)
	}
	return l, nil
}

// question is what the provider is asked by reference.
type question struct {
	reference string
	refund    bool
	chargeID  string // of a refund: the charge whose money it must give back; empty: any
}

func questionAbout(a *attempt.Attempt) question {
	return question{reference: a.Reference, refund: a.IsRefund(), chargeID: a.Refund.ChargeID}
}

// canAsk tells whether the provider can be asked about an attempt of its own.
func (c *Client) canAsk(a *attempt.Attempt) bool {
	return c.caps.Lookup.ByReference && (!a.IsRefund() || c.can.refunder != nil)
}

// find reads all pages of the answer. Charges of other references, a page that is not of the API's form, a cursor that does
// not move or a second page that fails make the whole answer unreadable. It takes no longer than until then.
func (c *Client) find(ctx context.Context, q question, until time.Time) Lookup {
	started := time.Now()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	l := c.findPages(ctx, q)
	if c.cfg.Observer.Asked != nil {
		c.cfg.Observer.Asked(ctx, q.reference, l.Answer, time.Since(started))
	}
	return l
}

// findPages asks, and asks once more where the answer "none", which names nobody, came on a connection that was used before:
// it may have been the answer to another question.
func (c *Client) findPages(ctx context.Context, q question) Lookup {
	l, unsure := c.findOnce(ctx, q)
	if unsure {
		c.closeIdle()
		l, unsure = c.findOnce(ctx, q)
	}
	if unsure {
		l.Answer, l.Detail = attempt.LookupUnreadable, "none, but on a connection that was used before"
	}
	return l
}

func (c *Client) findOnce(ctx context.Context, about question) (l Lookup, unsure bool) {
	l = Lookup{Answer: attempt.LookupNone}
	cursor := ""
	for range maxPages {
		q := &asking{client: c, request: c.lookupRequest(about, cursor)}
		clean := q.clean()
		q.run(ctx)
		if q.err != nil {
			l.Answer, l.Charges, l.Detail = attempt.LookupNotAsked, nil, clean.text(q.err.Error())
			l.notMade = q.notMade && cursor == ""
			return l, false
		}
		page := readPage(c.readerOf(about), q.response)
		l.StatusCode, l.RequestID = q.response.StatusCode, clean.requestID(page.RequestID)
		if IsUnavailable(q.response.StatusCode) {
			l.Answer, l.Charges, l.Detail = attempt.LookupNotAsked, nil, clean.text(page.Detail)
			return l, false
		}
		if !page.Readable {
			l.Answer, l.Charges, l.Detail = attempt.LookupUnreadable, nil, clean.text(page.Detail)
			return l, false
		}
		for _, d := range page.Charges {
			charge, differs, ok := chargeOf(d, about, clean)
			if !ok {
				l.Answer, l.Charges, l.Detail = attempt.LookupUnreadable, nil, "a charge in the answer: "+differs
				return l, false
			}
			l.Answer, l.Charges = attempt.LookupFound, append(l.Charges, charge)
		}
		unsure = unsure || q.reused && len(page.Charges) == 0
		if page.Next == "" {
			return l, unsure && l.Answer == attempt.LookupNone
		}
		if page.Next == cursor {
			break
		}
		cursor = page.Next
	}
	l.Answer, l.Charges, l.Detail = attempt.LookupUnreadable, nil, "the pages of the answer do not end"
	return l, false
}

func (c *Client) lookupRequest(q question, cursor string) Request {
	if q.refund {
		return c.can.refunder.RefundLookupRequest(q.reference, cursor)
	}
	return c.cfg.Provider.LookupRequest(q.reference, cursor)
}

func (c *Client) readerOf(q question) func(Response) LookupPage {
	if q.refund {
		return c.can.refunder.ReadRefundLookup
	}
	return c.cfg.Provider.ReadLookup
}

// readPage reads a page with the adapter. One that panics has read nothing: a hostile answer must not end the process that
// asks about everybody's payments.
func readPage(read func(Response) LookupPage, r Response) (page LookupPage) {
	defer func() {
		if recover() != nil {
			page = LookupPage{Detail: "panic while reading the answer"}
		}
	}()
	return read(r)
}

// askAndRecord asks about an attempt, until then at the latest, and records the answer. asked is a time of the store's clock
// before the question.
// The error is of the store only: an answer that could not be had is an answer.
func (c *Client) askAndRecord(ctx context.Context, a attempt.Attempt, asked, until time.Time) (attempt.LookupAnswer, error) {
	l, err := c.askAndPlan(ctx, a, asked, until, false)
	return l.Answer, err
}

// askAndPlan is askAndRecord; due says that the attempt was taken as due, so that its next look has to be planned anew.
func (c *Client) askAndPlan(ctx context.Context, a attempt.Attempt, asked, until time.Time, due bool) (Lookup, error) {
	l := Lookup{Answer: attempt.LookupNotAsked}
	if c.canAsk(&a) {
		l = c.find(ctx, questionAbout(&a), until)
	}
	rec := &attempt.Record{ID: a.ID, Who: c.cfg.Who, Evidence: c.evidence(l, asked), Schedule: c.schedule, Due: due}
	if err := c.cfg.Store.Apply(ctx, rec.Step(&a)); err != nil {
		if l.Answer != attempt.LookupFound {
			return l, fmt.Errorf("attempt %s: record a lookup: %w", a.ID, err)
		}
		// Money counts, and must not get lost with this call.
		if err := c.record(ctx, rec, &a, time.Now().Add(c.cfg.RecordTimeout)); err != nil {
			return l, err
		}
		return l, nil
	}
	c.sawRecord(ctx, &rec.Attempt, rec.Duties)
	return l, nil
}

func (c *Client) evidence(l Lookup, asked time.Time) attempt.Evidence {
	e := attempt.Evidence{
		Kind: attempt.EvidenceLookup, Lookup: l.Answer, AskedAt: asked, Charges: l.Charges,
		KeepsAnswers: c.caps.Key.KeepsEveryAnswer,
	}
	if l.Answer == attempt.LookupFound || l.Answer == attempt.LookupNone { // a question that failed gives nothing up
		e.Rule = &c.schedule.Rule
	}
	return e
}

// asking is one question to the provider: a GET, which changes nothing whatever becomes of it, or a request to cancel a charge,
// which may be repeated.
type asking struct {
	client  *Client
	request Request
	// claimUntil is when the claim ends that the request is made under; zero: it needs none.
	claimUntil time.Time
	response   Response
	reused     bool // the answer came on a connection that was used before
	err        error
	notMade    bool // it did not leave: the guard said no
}

func (q *asking) run(ctx context.Context) {
	g := q.client.guard
	if err := g.enter(ctx); err != nil {
		q.err, q.notMade = err, true
		return
	}
	said := healthUnknown
	defer func() { g.leave(said) }()
	said = q.once(ctx)
}

func (q *asking) once(parent context.Context) health {
	c := q.client
	ctx, cancel := context.WithTimeoutCause(parent, c.cfg.SendTimeout, errSendTimeout)
	defer cancel()
	rec := &recorder{claimUntil: time.Now().Add(time.Hour)}
	if !q.claimUntil.IsZero() {
		rec.claimUntil, rec.cancel = q.claimUntil, cancel
		if past(q.claimUntil, time.Now()) {
			q.err = errClaimOver
			return healthUnknown
		}
	}
	header := maps.Clone(q.request.Header)
	if header == nil {
		header = make(http.Header)
	}
	req := (&http.Request{
		Method: q.request.Method, URL: c.url(q.request.Path, q.request.Query), Host: c.base.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(httptrace.WithClientTrace(ctx, rec.watch()))
	resp, err := c.asker.RoundTrip(req) //nolint:bodyclose // readWhole closes it
	if err == nil {
		q.response, err = readWhole(resp, maxLookupAnswer)
		q.reused = rec.reused.Load()
	}
	if err == nil {
		if failure := q.response.StatusCode; failure >= 500 || failure == http.StatusRequestTimeout {
			return failing
		}
		return healthy
	}
	if rec.claimOver.Load() {
		q.err = errClaimOver
		return healthUnknown
	}
	if parent.Err() != nil {
		q.err = errors.New(q.clean().text(err.Error()))
		return healthUnknown
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	q.err = errors.New(q.clean().text(err.Error()))
	return failing
}

func (q *asking) clean() cleaner {
	return cleaner{credentials: credentialsIn(q.request.Header, q.client.caps.Key.Header, nil)}
}

// maxLookupAnswer bounds one page of a lookup, in bytes.
const maxLookupAnswer = 4 << 20

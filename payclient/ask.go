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
// error means that nobody could be asked; an answer that cannot be relied on is LookupUnreadable.
func (c *Client) FindByReference(ctx context.Context, reference string) (Lookup, error) {
	if !c.caps.Lookup.ByReference {
		return Lookup{Answer: attempt.LookupNotAsked, Detail: "the provider cannot be asked by reference"},
			fmt.Errorf("find %s: the provider cannot be asked by reference", reference)
	}
	if err := c.begin(); err != nil {
		return Lookup{Answer: attempt.LookupNotAsked}, err
	}
	defer c.pending.Done()
	l := c.find(ctx, reference, time.Now().Add(c.cfg.CallTimeout))
	if l.Answer == attempt.LookupNotAsked {
		return l, fmt.Errorf("find %s: %s", reference, l.Detail)
	}
	return l, nil
}

// find reads all pages of the answer. Charges of other references, a page that is not of the API's form, a cursor that does
// not move or a second page that fails make the whole answer unreadable. It takes no longer than until then.
func (c *Client) find(ctx context.Context, reference string, until time.Time) Lookup {
	started := time.Now()
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	l := c.findPages(ctx, reference)
	if c.cfg.Observer.Asked != nil {
		c.cfg.Observer.Asked(ctx, reference, l.Answer, time.Since(started))
	}
	return l
}

// findPages asks, and asks once more where the answer "none", which names nobody, came on a connection that was used before:
// it may have been the answer to another question.
func (c *Client) findPages(ctx context.Context, reference string) Lookup {
	l, unsure := c.findOnce(ctx, reference)
	if unsure {
		c.closeIdle()
		l, unsure = c.findOnce(ctx, reference)
	}
	if unsure {
		l.Answer, l.Detail = attempt.LookupUnreadable, "none, but on a connection that was used before"
	}
	return l
}

func (c *Client) findOnce(ctx context.Context, reference string) (l Lookup, unsure bool) {
	l = Lookup{Answer: attempt.LookupNone}
	cursor := ""
	for range maxPages {
		q := &asking{client: c, request: c.cfg.Provider.LookupRequest(reference, cursor)}
		clean := q.clean()
		q.run(ctx)
		if q.err != nil {
			l.Answer, l.Charges, l.Detail = attempt.LookupNotAsked, nil, clean.text(q.err.Error())
			l.notMade = q.notMade && cursor == ""
			return l, false
		}
		page := readLookup(c.cfg.Provider, q.response)
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
			charge, differs, ok := chargeOf(d, reference, clean)
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

// readLookup reads a page with the adapter. One that panics has read nothing: a hostile answer must not end the process that
// asks about everybody's payments.
func readLookup(p Provider, r Response) (page LookupPage) {
	defer func() {
		if recover() != nil {
			page = LookupPage{Detail: "panic while reading the answer"}
		}
	}()
	return p.ReadLookup(r)
}

// askAndRecord asks about an attempt, until then at the latest, and records the answer. asked is a time of the store's clock
// before the question.
// The error is of the store only: an answer that could not be had is an answer.
func (c *Client) askAndRecord(ctx context.Context, a attempt.Attempt, asked, until time.Time) (attempt.LookupAnswer, error) {
	l := c.find(ctx, a.Reference, until)
	rec := &attempt.Record{ID: a.ID, Who: c.cfg.Who, Evidence: c.evidence(l, asked), Schedule: c.schedule}
	if err := c.cfg.Store.Apply(ctx, rec.Step(&a)); err != nil {
		if l.Answer != attempt.LookupFound {
			return l.Answer, fmt.Errorf("attempt %s: record a lookup: %w", a.ID, err)
		}
		// Money counts, and must not get lost with this call.
		if err := c.record(ctx, rec, &a, time.Now().Add(c.cfg.RecordTimeout)); err != nil {
			return l.Answer, err
		}
		return l.Answer, nil
	}
	c.sawRecord(ctx, &rec.Attempt, rec.Duties)
	return l.Answer, nil
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

// asking is one question to the provider: a GET, which changes nothing whatever becomes of it.
type asking struct {
	client   *Client
	request  Request
	response Response
	reused   bool // the answer came on a connection that was used before
	err      error
	notMade  bool // it did not leave: the guard said no
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

package payclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/chance"
)

var (
	errClaimOver   = errors.New("the claim to send is over")
	errSendTimeout = errors.New("no answer within the send's time")
	errNoTime      = errors.New("not enough of the call's time is left for another request")
	errKeyMissing  = errors.New("the idempotency key is not on the request")
	errBodyChanged = errors.New("the request would differ from the one that was stored")
)

// sending is one claim's work: the requests made under it and what came of them. The verdict comes from its log, never from
// what the policies around the requests return.
type sending struct {
	client *Client
	ctx    context.Context // the caller's
	a      *attempt.Attempt
	source attempt.Source
	clean  cleaner
	body   []byte
	key    string // as it stands in the header

	claimed    time.Time // the store's clock at the claim
	began      time.Time // the local clock, before the claim was asked for
	callUntil  time.Time // no request goes on longer
	claimUntil time.Time

	credentialRoom [2]string

	log     []attempt.Send
	again   bool          // the last request may and should be repeated
	wait    time.Duration // before that
	doubted bool          // the last answer is a refusal that counts only once the provider was asked by reference
	health  health        // what the last request said about the provider
	stopped attempt.Reason
	stopErr error // why nothing (more) was sent
}

// run sends until an answer decides, nothing more may be sent, or time is over. The first request goes straight to the
// guard; only one that is to be repeated pays for the machinery of repeating.
func (s *sending) run() {
	s.once()
	if !s.again {
		return
	}
	made := false
	_, _ = s.client.repeat.WithContext(s.ctx).Get(func() (*sending, error) {
		if made {
			s.once()
		}
		made = true // the request before counts as the first
		return s, nil
	})
	// What the policies return is no evidence: the log is. Only the end of the caller's patience is news.
	if s.ctx.Err() != nil {
		s.stop(attempt.ReasonCancelled, context.Cause(s.ctx))
	}
}

// once makes one request under the guard. A panic in an adapter or a transport must not take the guard's permits with it,
// and must not lose the request from the log.
func (s *sending) once() {
	s.again, s.wait, s.health = false, 0, healthUnknown
	if err := s.client.guard.enter(s.ctx); err != nil {
		switch {
		case errors.Is(err, circuitbreaker.ErrOpen):
			s.stop(attempt.ReasonBreakerOpen, err)
		case errors.Is(err, bulkhead.ErrFull):
			s.stop(attempt.ReasonBusy, err)
		default:
			s.stop(attempt.ReasonCancelled, err)
		}
		return
	}
	n := len(s.log)
	defer func() {
		s.client.guard.leave(s.health)
		if p := recover(); p != nil {
			s.again = false
			if len(s.log) == n {
				s.log = append(s.log, attempt.Send{Answer: attempt.Answer{Reason: attempt.ReasonUnreadable, Detail: "panic while sending"}})
			}
			s.stop(attempt.ReasonUnreadable, fmt.Errorf("panic while sending: %s", s.clean.text(fmt.Sprint(p))))
		}
	}()
	// Looked at behind the guard, which may have kept us waiting.
	if now := time.Now(); s.mayStart(now) {
		s.sendOnce(now)
	}
}

func (s *sending) stop(why attempt.Reason, err error) {
	if s.stopErr == nil {
		s.stopped, s.stopErr = why, err
	}
}

// mayStart holds what must be true at the moment before a request: the claim runs on both clocks, a third of a send's
// time is left, and (for a repetition) the rules on repeating allow it still.
func (s *sending) mayStart(now time.Time) bool {
	if s.ctx.Err() != nil {
		s.stop(attempt.ReasonCancelled, context.Cause(s.ctx))
		return false
	}
	if past(s.claimUntil, now) {
		s.stop(attempt.ReasonClaimExpired, errClaimOver)
		return false
	}
	if s.callUntil.Sub(now) < s.client.cfg.SendTimeout/3 {
		s.stop(attempt.ReasonNoTime, errNoTime)
		return false
	}
	if !s.mayRepeat() { // also a claim's first: the guard may have kept it waiting past the key's retention
		s.stop(attempt.ReasonNotSendable, nil)
		return false
	}
	return true
}

// mayRepeat folds all sends of the attempt, earlier claims included, into whether one more is allowed.
func (s *sending) mayRepeat() bool {
	maybe := s.a.MaybeSends + len(s.a.Claims) - 1 // all claims but ours
	running := s.a.Answer.Verdict == attempt.Running
	for i := range s.log {
		if s.log[i].Verdict != attempt.NotSent {
			maybe++
			running = s.log[i].Verdict == attempt.Running
		}
	}
	now := s.claimed.Add(time.Since(s.began))
	return s.client.resend.Allows(maybe, running, s.a.FirstClaimAt, now, s.client.cfg.SendTimeout)
}

// sendOnce makes one request from the stored bytes, reads the whole answer and logs what it says.
func (s *sending) sendOnce(started time.Time) {
	c := s.client
	c.ageConnections(started)
	rec := &recorder{claimUntil: s.claimUntil}
	ctx, cancel := context.WithDeadlineCause(s.ctx, earliest(started.Add(c.cfg.SendTimeout), s.callUntil), errSendTimeout)
	defer cancel()
	rec.cancel = cancel

	req, err := s.request(httptrace.WithClientTrace(ctx, rec.watch()))
	if err != nil { // refused here, before the transport was called
		s.finish(attempt.Send{StartedAt: started.UTC(), Answer: attempt.Answer{
			Verdict: attempt.NotSent, Reason: attempt.ReasonNotSent, Detail: s.clean.text(err.Error()),
		}}, true)
		s.stop(attempt.ReasonNotSent, err)
		return
	}
	resp, err := c.transport.RoundTrip(req)
	if err == nil {
		s.answered(ctx, started, resp, rec)
		return
	}
	if resp != nil && resp.Body != nil {
		_ = resp.Body.Close() // a transport that breaks its contract still leaks nothing
	}
	send, permanent := failure(s.ctx, context.Cause(ctx), err, rec, s.clean)
	send.StartedAt, send.Took = started.UTC(), time.Since(started)
	if send.Verdict == attempt.NotSent {
		s.stop(send.Reason, fmt.Errorf("%s", send.Detail))
	}
	s.health = healthAfter(send.Reason)
	s.finish(send, permanent || s.health == healthUnknown)
}

// answered reads an answer's body, which is part of the send and of its time, and judges it.
func (s *sending) answered(ctx context.Context, started time.Time, resp *http.Response, rec *recorder) {
	c := s.client
	whole, err := readWhole(resp, c.cfg.MaxAnswer)
	var send attempt.Send
	final := false
	var hint time.Duration
	if err != nil {
		send, _ = failure(s.ctx, context.Cause(ctx), err, rec, s.clean)
		// An answer began: whatever the hooks say, the request has left.
		send.Verdict, send.StatusCode = attempt.Lost, resp.StatusCode
		if send.Reason == attempt.ReasonConnectionLost || send.Reason == attempt.ReasonUnreachable {
			send.Reason = attempt.ReasonUnreadable
		}
		s.health = healthAfter(send.Reason)
		final = s.health == healthUnknown
	} else {
		if whole.Header["Retry-After"] != nil {
			hint = retryAfter(whole.Header, time.Now())
		}
		send, final = s.judge(whole, rec.reused.Load())
	}
	send.StartedAt, send.Took = started.UTC(), time.Since(started)
	s.wait = max(s.wait, hint) // read by delay before it computes its own
	s.finish(send, final)
}

// healthAfter says what a request without an answer tells about the provider: nothing, if it was ended on our side.
func healthAfter(why attempt.Reason) health {
	if why == attempt.ReasonCancelled || why == attempt.ReasonClaimExpired {
		return healthUnknown
	}
	return failing
}

// judge asks the adapter what a complete answer says and checks it. final: repeating the request cannot help.
func (s *sending) judge(whole Response, reused bool) (send attempt.Send, final bool) {
	s.health = healthy
	if whole.StatusCode >= 300 && whole.StatusCode <= 399 {
		return attempt.Send{Answer: attempt.Answer{
			Verdict: attempt.Violated, Reason: attempt.ReasonRedirected, StatusCode: whole.StatusCode,
			Detail: s.clean.text("redirected to host " + locationHost(whole.Header.Get("Location"))),
		}}, true
	}
	var reply Reply
	if s.a.IsRefund() {
		reply = s.client.can.refunder.ReadRefund(whole)
	} else {
		reply = s.client.cfg.Provider.ReadCharge(whole)
	}
	send = judge(s.a, s.client.caps.Key, whole, reply, reused, s.clean)
	s.doubted = reply.AskFirst && (send.Verdict == attempt.Rejected || send.Verdict == attempt.Refused)
	switch send.Verdict {
	case attempt.Running:
	case attempt.Unavailable:
		if whole.StatusCode >= 500 || whole.StatusCode == http.StatusRequestTimeout {
			s.health = failing
		}
		if send.Reason == attempt.ReasonUnproven || reply.Verdict == attempt.Running {
			s.client.closeIdle() // so that the next answer is the first on its connection
		}
		// A failure that the provider has stored under the key comes back for ever.
		final = reply.NoRetry || reply.Replayed && send.Reason != attempt.ReasonUnproven
	case attempt.Violated:
		if send.Charge == nil {
			s.health = failing
		}
		s.client.closeIdle() // an answer to another request may be on its way here
		final = send.Charge != nil
	default:
		final = true
	}
	return send, final || reply.Ask
}

// askFirst asks by reference before a refusal is recorded that may speak of money which this very attempt has moved: what is
// found is recorded together with it, and a question that fails leaves the attempt open.
func (s *sending) askFirst(rec *attempt.Record) {
	c := s.client
	if !c.canAsk(s.a) {
		return // the refusal is all that there will ever be
	}
	switch l := c.find(s.ctx, questionAbout(s.a), s.callUntil); l.Answer {
	case attempt.LookupFound:
		rec.Evidence.Charges = l.Charges
	case attempt.LookupNone:
	default:
		last := &s.log[len(s.log)-1]
		last.Verdict, last.Reason = attempt.Unavailable, attempt.ReasonNotAsked
	}
}

// finish logs a send and decides whether it is to be repeated, and when.
func (s *sending) finish(send attempt.Send, final bool) {
	if s.log == nil {
		s.log = make([]attempt.Send, 0, 1)
	}
	hint := s.wait
	s.wait = 0
	s.log = append(s.log, send)
	s.client.sawSend(s.ctx, s.a, &s.log[len(s.log)-1])
	if final || len(s.log) > s.client.retries {
		return
	}
	wait := max(hint, s.backoff(len(s.log)))
	switch {
	case !s.mayRepeat():
		return
	case time.Until(s.callUntil)-wait < s.client.cfg.SendTimeout/3:
		s.stop(attempt.ReasonNoTime, errNoTime)
		return
	}
	s.again, s.wait = true, wait
	s.stopped, s.stopErr = "", nil
}

// backoff returns the wait after the n-th request: the first wait, growing by half, up to the longest; and up to 20 % more
// by chance, never less, so that callers who failed together do not come back together.
func (s *sending) backoff(n int) time.Duration {
	wait := s.client.cfg.FirstWait
	for range n - 1 {
		if wait >= s.client.cfg.MaxWait {
			break
		}
		wait += wait / 2
	}
	wait = min(wait, s.client.cfg.MaxWait)
	return wait + chance.Below(wait/5+1)
}

// connectionAge is how long kept connections are used before the provider's name is looked up anew: a kept connection
// ignores changes of DNS, and a busy one never becomes idle for long enough to end by itself.
const connectionAge = 5 * time.Minute

// ageConnections closes the transport's idle connections from time to time.
func (c *Client) ageConnections(now time.Time) {
	last := c.aged.Load()
	if now.UnixNano()-last < int64(connectionAge) || !c.aged.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	if last != 0 { // not before the first request
		c.closeIdle()
	}
}

// closeIdle closes the connections that the transport keeps, if it can.
func (c *Client) closeIdle() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// request builds a new request from the stored bytes. GetBody stays nil, so that the transport cannot send it twice by
// itself, and the key is looked at on the request as it leaves.
func (s *sending) request(ctx context.Context) (*http.Request, error) {
	c := s.client
	var r Request
	if s.a.IsRefund() {
		r = c.can.refunder.RefundRequest(*s.a)
	} else {
		r = c.cfg.Provider.ChargeRequest(*s.a)
	}
	header := maps.Clone(r.Header) // the adapter may use one map for all: a key of ours must not get into another's request
	if header == nil {
		header = make(http.Header, 4)
	}
	s.clean.credentials = credentialsIn(header, c.caps.Key.Header, s.credentialRoom[:0])
	if name := c.caps.Key.Header; name != "" {
		header[name] = []string{s.key}
	}
	req := (&http.Request{
		Method: r.Method, URL: c.url(r.Path, r.Query), Host: c.base.Host, Header: header,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		// A kind of reader that net/http knows to be in memory: with another it would send the headers on their own first.
		Body: io.NopCloser(bytes.NewReader(s.body)), ContentLength: int64(len(s.body)),
	}).WithContext(ctx)
	if name := c.caps.Key.Header; name != "" {
		if sent := req.Header.Values(name); len(sent) != 1 || strings.Trim(sent[0], `"`) != s.a.Key || !fitKey(s.a.Key) {
			return nil, errKeyMissing
		}
	}
	return req, sendable(r)
}

// fitKey tells whether a key reaches every provider as it is stored: blanks at its ends, for one, are sent by HTTP/2 and
// trimmed by HTTP/1.1.
func fitKey(key string) bool { return len(key) >= 16 && all(key, &keyBytes) }

// sendable refuses what a transport would refuse without calling a hook, which nobody could tell from a request that was
// lost: a method or a header name that is no token, a line break in a header's value, a control character in the query.
func sendable(r Request) error {
	if !isToken(r.Method) {
		return fmt.Errorf("method %q cannot be sent", r.Method)
	}
	if !all(r.Query, &queryBytes) {
		return errors.New("the query cannot be sent")
	}
	for name, values := range r.Header {
		if !isToken(name) {
			return fmt.Errorf("header name %q cannot be sent", name)
		}
		for _, v := range values {
			if !all(v, &valueBytes) {
				return fmt.Errorf("the value of header %s cannot be sent", name) // the value may be a secret
			}
		}
	}
	return nil
}

// isToken tells whether a text is a token (RFC 9110 section 5.6.2).
func isToken(text string) bool { return text != "" && all(text, &tokenBytes) }

// bytesOf is a set of bytes.
type bytesOf [256]bool

func setOf(in func(c byte) bool) (set bytesOf) {
	for c := range set {
		set[c] = in(byte(c)) //nolint:gosec // below 256
	}
	return set
}

var (
	// tokenBytes are letters, digits and some marks.
	tokenBytes = setOf(func(c byte) bool { return c > ' ' && c < 0x7f && strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) < 0 })
	// valueBytes are those of a header's value (RFC 9110 section 5.5).
	valueBytes = setOf(func(c byte) bool { return c >= ' ' && c != 0x7f || c == '\t' })
	queryBytes = setOf(func(c byte) bool { return c > ' ' && c != 0x7f })
	keyBytes   = setOf(func(c byte) bool { return !notKeyByte(rune(c)) })
	// plainBytes are those of a text that needs no further look: printable ASCII.
	plainBytes = setOf(func(c byte) bool { return c >= ' ' && c < 0x7f })
	// bareBytes are those of a text that JSON writes as they are.
	bareBytes = setOf(func(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' })
)

func all(text string, set *bytesOf) bool {
	for i := range len(text) {
		if !set[text[i]] {
			return false
		}
	}
	return true
}

// url returns the base address with a path. Nearly all requests go to one and the same: it is kept, and never changed.
func (c *Client) url(path, query string) *url.URL {
	if kept := c.lastURL.Load(); kept != nil && query == "" && kept.path == path {
		return kept.url
	}
	u := *c.base
	u.Path = c.basePath + path
	u.RawPath = ""
	u.RawQuery = query
	if query == "" {
		c.lastURL.Store(&keptURL{path: path, url: &u})
	}
	return &u
}

type keptURL struct {
	path string
	url  *url.URL
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// prepareBody puts the source into the stored body and makes sure that the result is what was stored first.
func (s *sending) prepareBody() error {
	body, digest, err := s.client.fill(s.a.Body, s.a.Source, s.source)
	if err != nil {
		return err
	}
	if digest != s.a.BodyDigest {
		return errBodyChanged
	}
	s.body = body
	return nil
}

// fill replaces the NUL bytes of a stored body by the source and digests the result.
func (c *Client) fill(stored []byte, d attempt.Digest, source attempt.Source) (body []byte, digest string, err error) {
	body = make([]byte, 0, len(stored)+len(source.Reveal())+16)
	for {
		i := bytes.IndexByte(stored, 0)
		if i < 0 {
			break
		}
		body = append(body, stored[:i]...)
		n := len(body)
		body, err = c.cfg.Provider.AppendSource(body, source)
		if err != nil {
			return nil, "", fmt.Errorf("source: %s", cleaner{source: source}.text(err.Error()))
		}
		if slices.Contains(body[n:], 0) {
			return nil, "", errors.New("source: rendered with a NUL byte")
		}
		stored = stored[i+1:]
	}
	body = append(body, stored...)
	digest, err = c.digester.BodyDigest(d.KeyID, body)
	return body, digest, err
}

// errUnframed: without a length or chunks a cut answer looks like a whole one.
var (
	errUnframed = errors.New("the answer has no explicit length: it may have been cut")
	errEncoded  = errors.New("the answer has a content encoding, which was not asked for")
	errTooLong  = errors.New("the answer is longer than allowed")
)

// readWhole reads an answer's body to its end, bounded, and closes it. An answer counts as whole only if its framing says
// where it ends and it ended there.
func readWhole(resp *http.Response, most int64) (Response, error) {
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.StatusCode < 200 || resp.StatusCode > 599 {
		return Response{StatusCode: resp.StatusCode, Header: resp.Header}, nil
	}
	if resp.ContentLength > most {
		return Response{}, errTooLong
	}
	// Only HTTP/2 that was negotiated frames an answer by itself: a status line may claim any version.
	negotiated := resp.ProtoMajor == 2 && resp.TLS != nil && resp.TLS.NegotiatedProtocol == "h2"
	if resp.ContentLength < 0 && !slices.Contains(resp.TransferEncoding, "chunked") && !negotiated {
		return Response{}, errUnframed
	}
	if slices.ContainsFunc(resp.Header["Content-Encoding"], func(e string) bool { return !strings.EqualFold(e, "identity") }) {
		return Response{}, errEncoded
	}
	var body []byte
	var err error
	if n := resp.ContentLength; n >= 0 {
		body = make([]byte, n)
		_, err = io.ReadFull(resp.Body, body)
		if err == nil {
			// Read on to the end, so that the connection is free again.
			var rest [1]byte
			var m int
			if m, err = resp.Body.Read(rest[:]); m > 0 {
				err = errTooLong
			} else if errors.Is(err, io.EOF) {
				err = nil
			}
		}
	} else {
		body, err = io.ReadAll(io.LimitReader(resp.Body, most+1))
		if err == nil && int64(len(body)) > most {
			err = errTooLong
		}
	}
	if err != nil {
		return Response{}, fmt.Errorf("read the answer: %w", err)
	}
	return Response{StatusCode: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

func locationHost(location string) string {
	u, err := url.Parse(location)
	if err != nil {
		return "(unreadable)"
	}
	if u.Host == "" {
		return "(same)"
	}
	return u.Scheme + "://" + u.Hostname()
}

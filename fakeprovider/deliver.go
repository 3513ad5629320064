package fakeprovider

import (
	"bytes"
	"container/heap"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// armOutbox sees to it that somebody delivers when the next event is due. The
// goroutine lives only as long as there is something to deliver now, so that
// nothing has to be released. The caller holds the lock.
func (p *Provider) armOutbox() {
	o := &p.outbox
	if !o.on || o.busy || p.restoring || p.closed || len(o.waiting) == 0 {
		return
	}
	if o.timer != nil {
		o.timer.Stop()
	}
	o.timer = time.AfterFunc(time.Until(o.waiting[0].due), p.deliverAll)
}

// deliverAll delivers what is due, one event after another.
func (p *Provider) deliverAll() {
	if !p.startDelivering() {
		return
	}
	defer p.active.Done()
	for {
		e, epoch := p.nextEvent()
		if e == nil {
			return
		}
		p.deliver(e, epoch)
	}
}

func (p *Provider) startDelivering() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.outbox.busy {
		return false
	}
	p.active.Add(1)
	p.outbox.busy = true
	return true
}

// nextEvent takes the next event that is due, or ends the delivering.
func (p *Provider) nextEvent() (*event, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := &p.outbox
	if p.closed || len(o.waiting) == 0 || o.waiting[0].due.After(time.Now()) {
		o.busy = false
		p.armOutbox()
		return nil, 0
	}
	e := heap.Pop(&o.waiting).(*event)
	if o.held[e.about] == e {
		delete(o.held, e.about)
	}
	e.attempt++
	o.flying = 1
	return e, o.epoch
}

// deliver posts an event once and decides what follows.
func (p *Provider) deliver(e *event, epoch int) {
	now := p.config.Now()
	d := e.delivery()
	d.Time = now
	status := 0
	err := p.journal.sync() // nobody hears of a charge that a crash could take back
	if err == nil {
		d.Header = p.webhookHeader(e, now)
		status, err = p.post(d.Header, e.body)
	}
	d.Status = status
	if err != nil {
		d.Error = err.Error()
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	o := &p.outbox
	o.flying = 0
	if e.attempt == 1 {
		close(e.told)
	}
	if o.epoch != epoch {
		return // the books were emptied meanwhile
	}
	wait := time.Duration(-1)
	switch {
	case err != nil || status/100 != 2:
		if e.failed < len(o.config.Retries) {
			wait = o.config.Retries[e.failed]
		}
		e.failed++
	case e.plan.webhook.twice && e.attempt-e.failed == 1:
		wait = 0
	}
	if wait >= 0 {
		d.Next = now.Add(wait)
	}
	p.logDelivery(d)
	if wait >= 0 {
		p.enqueue(e, wait)
		return
	}
	p.journal.append(false, line{T: "told", N: e.number})
	if late := o.held[e.about]; late != nil {
		delete(o.held, e.about)
		p.enqueue(late, 0)
	}
}

func (p *Provider) webhookHeader(e *event, now time.Time) http.Header {
	w := &e.plan.webhook
	key := p.outbox.key
	if w.forged < 0 || e.attempt <= w.forged {
		other := sha256.Sum256(key)
		key = other[:]
	}
	at := now.Add(-w.stale)
	return http.Header{
		"Content-Type":      {typeJSON},
		"Webhook-Id":        {e.id()},
		"Webhook-Timestamp": {strconv.FormatInt(at.Unix(), 10)},
		"Webhook-Signature": {sign(key, e.id(), at, e.body)},
	}
}

// post returns the receiver's status.
func (p *Provider) post(header http.Header, body []byte) (int, error) {
	o := &p.outbox
	ctx, cancel := context.WithTimeout(o.ctx, o.config.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.config.URL, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header = header.Clone()
	resp, err := o.send(req)
	if err != nil {
		return 0, err
	}
	if resp == nil {
		return 0, errors.New("no answer and no error")
	}
	if resp.Body != nil {
		defer resp.Body.Close()
		// Read, so that the connection can be used again; what it says and
		// how it ends does not matter to an answer that is there.
		io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) //nolint:errcheck // as said
	}
	return resp.StatusCode, nil
}

// newWebhookClient returns a client that follows no redirect and asks no
// proxy.
func newWebhookClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// serveInMemory has a handler answer a client's request.
func serveInMemory(h http.Handler, req *http.Request) (resp *http.Response, err error) {
	in := req.Clone(req.Context())
	in.RequestURI = req.URL.RequestURI()
	in.URL = &url.URL{Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery}
	in.Host, in.RemoteAddr = req.URL.Host, "fakeprovider:0"
	w := &statusWriter{header: http.Header{}}
	defer func() {
		if v := recover(); v == http.ErrAbortHandler { //nolint:errorlint // net/http compares it so
			resp, err = nil, fmt.Errorf("%w: the handler cut the answer off", io.ErrUnexpectedEOF)
		} else if v != nil {
			panic(v)
		}
	}()
	h.ServeHTTP(w, in)
	if err := req.Context().Err(); err != nil {
		return nil, err // a client on a socket would have left
	}
	w.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Body: http.NoBody, Request: req,
	}, nil
}

// statusWriter keeps an answer's status and lets its body go.
type statusWriter struct {
	header http.Header
	status int
}

func (w *statusWriter) Header() http.Header { return w.header }

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= 200 {
		w.status = status
	}
}

func (w *statusWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return len(b), nil
}

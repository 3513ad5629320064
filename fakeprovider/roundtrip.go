package fakeprovider

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// RoundTrip makes *Provider an http.RoundTripper: the request is served in
// memory, in the calling goroutine. It behaves as an http.Transport for
// HTTP/1.1 without proxy and decompression does: the same errors, the same
// httptrace hooks (GetConn, DNS and TLS where a fault is about them,
// ConnectStart, ConnectDone, GotConn with Reused, WroteHeaderField,
// WroteHeaders, WroteRequest, GotFirstResponseByte, Got1xxResponse,
// PutIdleConn), kept connections that are used again once a body was read to
// its end. Unlike a Transport it never sends a request twice by itself; use
// Provider.Transport to see that.
//
// Control requests under /_fake/ work here too.
func (p *Provider) RoundTrip(req *http.Request) (*http.Response, error) {
	return p.pool.RoundTrip(req)
}

// CloseIdleConnections forgets the kept connections of RoundTrip.
func (p *Provider) CloseIdleConnections() { p.pool.CloseIdleConnections() }

// RoundTripper returns a RoundTripper like RoundTrip, with kept connections of
// its own.
func (p *Provider) RoundTripper() http.RoundTripper { return &pool{provider: p} }

// Responder returns the provider as a responder of github.com/jarcoal/httpmock:
//
//	httpmock.RegisterResponder("POST", "https://bank/v1/charges", bank.Responder())
func (p *Provider) Responder() func(*http.Request) (*http.Response, error) { return p.RoundTrip }

// pool is a RoundTripper and its kept connections.
type pool struct {
	provider *Provider

	mu   sync.Mutex // guards idle
	idle []*simConn
}

// simConn stands for a connection of RoundTrip.
type simConn struct {
	name  string
	host  string
	used  bool
	since time.Time // idle
	stale []byte    // bytes that are read before the next answer
}

func (t *pool) CloseIdleConnections() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle = nil
}

// take returns the youngest idle connection to a host, or nil.
func (t *pool) take(host string) *simConn {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.idle) - 1; i >= 0; i-- {
		if c := t.idle[i]; c.host == host {
			t.idle = slices.Delete(t.idle, i, i+1)
			return c
		}
	}
	return nil
}

func (t *pool) put(c *simConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.since = time.Now()
	t.idle = append(t.idle, c)
}

func (t *pool) dialled(host string) *simConn {
	return &simConn{name: t.provider.connName(), host: host}
}

func (t *pool) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL == nil {
		return t.roundTrip(req) // refused there
	}
	plain, mine := t.provider.addressed(req)
	if !mine {
		if req.Body != nil {
			req.Body.Close() // a RoundTripper always does
		}
		a := problem(probOtherBooks)
		return controlResponse(req, a.status, a.ctype, bytes.NewReader(a.body), len(a.body)), nil
	}
	resp, err := t.roundTrip(plain)
	if resp != nil {
		resp.Request = req
	}
	return resp, err
}

func (t *pool) roundTrip(req *http.Request) (*http.Response, error) {
	defer func() {
		if req.Body != nil {
			req.Body.Close() // a RoundTripper always does
		}
	}()
	if err := refuse(req); err != nil {
		return nil, err
	}
	ctx := req.Context()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if strings.HasPrefix(req.URL.Path, "/_fake/") {
		return t.provider.controlRoundTrip(req)
	}

	p := t.provider
	body, bodyErr := readRequestBody(req)
	hostPort := canonicalAddr(req)
	conn := t.take(hostPort)
	in := &inbound{
		method: req.Method, path: req.URL.Path, query: req.URL.RawQuery, uri: req.URL.RequestURI(),
		header: onWire(req.Header), body: body, reused: conn != nil, books: booksOf(req),
	}
	if in.method == "" {
		in.method = http.MethodGet
	}
	if len(body) > p.config.MaxBody {
		in.tooBig, in.body = true, body[:p.config.MaxBody]
	}
	in.look(&p.config)
	c := p.pick(in)

	trace := httptrace.ContextClientTrace(ctx)
	if c.plan.noHooks {
		trace = nil
	}
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(hostPort)
	}
	if c.plan.dial != dialOK {
		if conn != nil {
			t.put(conn) // a dial is what was asked for
		}
		err := c.plan.dial.fail(ctx, p.done, trace, "tcp", hostPort)
		if ctx.Err() != nil {
			err = context.Cause(ctx) // net/http does not wait for the dial
		}
		return nil, err
	}
	if conn == nil {
		conn = t.dialled(hostPort)
		if trace != nil && trace.ConnectStart != nil {
			trace.ConnectStart("tcp", hostPort)
		}
		connected(trace, "tcp", hostPort, nil)
	}
	in.conn = conn.name
	local, remote := memAddr(conn.name), memAddr(hostPort)
	if trace != nil && trace.GotConn != nil {
		info := httptrace.GotConnInfo{Conn: deadConn{local, remote}, Reused: conn.used, WasIdle: conn.used}
		if conn.used {
			info.IdleTime = time.Since(conn.since)
		}
		trace.GotConn(info)
	}
	conn.used = true
	if ctx.Err() != nil { // cancelled inside the hook
		return nil, context.Cause(ctx)
	}
	if c.plan.notSent {
		err := &net.OpError{Op: "write", Net: "tcp", Source: local, Addr: remote, Err: os.NewSyscallError("write", syscall.EPIPE)}
		if trace != nil && trace.WroteRequest != nil {
			trace.WroteRequest(httptrace.WroteRequestInfo{Err: err})
		}
		return nil, err
	}
	wrote(trace, req, bodyErr)
	if bodyErr != nil {
		return nil, bodyErr
	}
	if c.plan.early {
		in.cut = c.plan.readBytes >= 0
		in.body = in.body[:min(max(c.plan.readBytes, 0), len(in.body))]
	}

	x := p.arrive(in, c)
	defer x.leave()
	if x.wait > 0 && !p.pause(x.wait, ctx.Done()) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, errClosed
	}
	a := x.finish()
	if !x.announced(ctx.Done()) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, errClosed
	}
	reader := &wireReader{
		p: p, ctx: ctx, ops: x.wire(a), closed: make(chan struct{}),
		reset: &net.OpError{Op: "read", Net: "tcp", Source: local, Addr: remote, Err: os.NewSyscallError("read", syscall.ECONNRESET)},
	}
	if conn.stale != nil {
		reader.ops = append([]op{{data: conn.stale}}, reader.ops...)
	}
	return t.answer(req, trace, conn, reader)
}

// answer reads a response as net/http's Transport does.
func (t *pool) answer(req *http.Request, trace *httptrace.ClientTrace, conn *simConn, r *wireReader) (*http.Response, error) {
	ctx := req.Context()
	fail := func(err error) (*http.Response, error) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, err
	}
	br := bufio.NewReaderSize(r, 4096)
	if _, err := br.Peek(1); err != nil {
		return fail(err)
	}
	if trace != nil && trace.GotFirstResponseByte != nil {
		trace.GotFirstResponseByte()
	}
	r.limit = maxHeader
	var resp *http.Response
	for {
		var err error
		resp, err = http.ReadResponse(br, req)
		if err != nil {
			if r.limit <= 0 {
				err = fmt.Errorf("net/http: server response headers exceeded %d bytes; aborted", maxHeader)
			}
			return fail(fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", err))
		}
		if resp.StatusCode < 100 || resp.StatusCode > 199 || resp.StatusCode == http.StatusSwitchingProtocols {
			break
		}
		if trace != nil && trace.Got1xxResponse != nil {
			if err := trace.Got1xxResponse(resp.StatusCode, textproto.MIMEHeader(resp.Header)); err != nil {
				return fail(err)
			}
			r.limit = maxHeader
		}
	}
	r.limit = noLimit
	keep := func() {
		if resp.Close || req.Close || !r.kept(br) {
			return
		}
		conn.stale = r.stale()
		t.put(conn)
		if trace != nil && trace.PutIdleConn != nil {
			trace.PutIdleConn(nil)
		}
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		resp.Body = struct { // what follows is the caller's
			io.Reader
			io.Closer
		}{br, &simBody{r: r, keep: func() {}}}
		return resp, nil
	}
	if resp.ContentLength == 0 {
		keep()
		return resp, nil
	}
	resp.Body = &simBody{body: resp.Body, r: r, ctx: ctx, keep: keep}
	return resp, nil
}

const (
	maxHeader = 10 << 20 // net/http's default
	noLimit   = 1 << 62
)

// wireReader is what the client reads while ops happen on the connection.
type wireReader struct {
	p      *Provider
	ctx    context.Context
	ops    []op
	reset  error
	limit  int64
	closed chan struct{}
	once   sync.Once
	turns  int
}

func (r *wireReader) Read(b []byte) (int, error) {
	if r.limit < 0 {
		return 0, io.EOF
	}
	for {
		select {
		case <-r.closed:
			return 0, net.ErrClosed
		case <-r.ctx.Done():
			return 0, context.Cause(r.ctx)
		default:
		}
		if len(r.ops) == 0 {
			return 0, io.EOF
		}
		o := &r.ops[0]
		switch o.kind {
		case opWrite:
			if len(o.data) == 0 {
				r.ops = r.ops[1:]
				continue
			}
			n := copy(b, o.data)
			o.data = o.data[n:]
			r.limit -= int64(n)
			return n, nil
		case opFlood:
			if r.turns++; r.turns%64 == 0 {
				if err := r.pause(time.Millisecond); err != nil {
					return 0, err
				}
			}
			n := copy(b, o.data)
			r.ops = []op{{data: o.data[n:]}, *o}
			r.limit -= int64(n)
			return n, nil
		case opWait:
			if err := r.pause(o.wait); err != nil {
				return 0, err
			}
			r.ops = r.ops[1:]
		case opReset:
			return 0, r.reset
		case opHang:
			return 0, r.pause(-1)
		default:
			return 0, io.EOF
		}
	}
}

// pause waits for d, for ever if negative. The error says what ended it.
func (r *wireReader) pause(d time.Duration) error {
	var passed <-chan time.Time
	if d >= 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		passed = t.C
	}
	select {
	case <-passed:
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	case <-r.closed:
		return net.ErrClosed
	case <-r.p.done:
		return errClosed
	}
}

func (r *wireReader) close() { r.once.Do(func() { close(r.closed) }) }

// kept reports whether the connection may carry another request: all bytes
// are read, and its next op does not end it.
func (r *wireReader) kept(br *bufio.Reader) bool {
	for len(r.ops) > 0 && r.ops[0].kind == opWrite && len(r.ops[0].data) == 0 {
		r.ops = r.ops[1:]
	}
	return br.Buffered() == 0 && len(r.ops) > 0 && (r.ops[0].kind == opKeep || r.ops[0].kind == opNext)
}

func (r *wireReader) stale() []byte {
	if r.ops[0].kind == opNext {
		return r.ops[0].data
	}
	return nil
}

// simBody is a response body that gives its connection back at the end.
type simBody struct {
	body   io.ReadCloser
	r      *wireReader
	ctx    context.Context
	keep   func()
	once   sync.Once
	closed atomic.Bool
}

var errReadClosed = errors.New("http: read on closed response body") // net/http's wording

func (b *simBody) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, errReadClosed
	}
	n, err := b.body.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.once.Do(b.keep)
	case err != nil && b.ctx.Err() != nil:
		err = context.Cause(b.ctx)
	}
	return n, err
}

func (b *simBody) Close() error {
	b.closed.Store(true)
	b.r.close()
	return nil
}

// refuse says what http.Transport refuses before it looks for a connection.
func refuse(req *http.Request) error {
	switch {
	case req.URL == nil:
		return errors.New("http: nil Request.URL")
	case req.Header == nil:
		return errors.New("http: nil Request.Header")
	}
	for name, values := range req.Header {
		if !validToken(name) {
			return fmt.Errorf("net/http: invalid header field name %q", name)
		}
		for _, v := range values {
			for i := range len(v) {
				if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
					return fmt.Errorf("net/http: invalid header field value for %q", name)
				}
			}
		}
	}
	switch {
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return fmt.Errorf("unsupported protocol scheme %q", req.URL.Scheme)
	case req.Method != "" && !validToken(req.Method):
		return fmt.Errorf("net/http: invalid method %q", req.Method)
	case req.URL.Host == "":
		return errors.New("http: no Host in request URL")
	}
	return nil
}

func validToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// onWire is how a server sees headers: canonical names, values without
// surrounding blanks.
func onWire(h http.Header) http.Header {
	out := make(http.Header, len(h))
	for name, values := range h {
		name = http.CanonicalHeaderKey(name)
		for _, v := range values {
			out[name] = append(out[name], strings.Trim(v, " \t"))
		}
	}
	return out
}

func readRequestBody(req *http.Request) ([]byte, error) {
	if req.Body == nil || req.Body == http.NoBody {
		return nil, nil
	}
	b, err := io.ReadAll(req.Body)
	if err == nil && req.ContentLength > 0 && int64(len(b)) != req.ContentLength {
		err = fmt.Errorf("http: ContentLength=%d with Body length %d", req.ContentLength, len(b))
	}
	return b, err
}

func canonicalAddr(req *http.Request) string {
	port := req.URL.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[req.URL.Scheme]
	}
	return net.JoinHostPort(req.URL.Hostname(), port)
}

// wrote calls the hooks of a request that was written.
func wrote(trace *httptrace.ClientTrace, req *http.Request, err error) {
	if trace == nil {
		return
	}
	if f := trace.WroteHeaderField; f != nil {
		host := req.Host
		if host == "" {
			host = req.URL.Host
		}
		f("Host", []string{host})
		for name, values := range req.Header {
			f(name, values)
		}
	}
	if trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
	if trace.WroteRequest != nil {
		trace.WroteRequest(httptrace.WroteRequestInfo{Err: err})
	}
}

// deadConn is the connection that GotConn shows. Nothing can be read or
// written on it from outside.
type deadConn struct{ local, remote memAddr }

func (c deadConn) Read([]byte) (int, error)       { return 0, net.ErrClosed }
func (c deadConn) Write([]byte) (int, error)      { return 0, net.ErrClosed }
func (deadConn) Close() error                     { return nil }
func (c deadConn) LocalAddr() net.Addr            { return c.local }
func (c deadConn) RemoteAddr() net.Addr           { return c.remote }
func (deadConn) SetDeadline(time.Time) error      { return nil }
func (deadConn) SetReadDeadline(time.Time) error  { return nil }
func (deadConn) SetWriteDeadline(time.Time) error { return nil }

package providertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/chargeonce/chargeonce/payclient"
)

// wireResponse makes a response as net/http does, of known length.
func wireResponse(req *http.Request, r payclient.Response) *http.Response {
	header := r.Header.Clone()
	if header == nil {
		header = make(http.Header)
	}
	header.Set("Content-Length", strconv.Itoa(len(r.Body)))
	return &http.Response{
		Status: strconv.Itoa(r.StatusCode) + " " + http.StatusText(r.StatusCode), StatusCode: r.StatusCode,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: header, Request: req,
		Body: io.NopCloser(bytes.NewReader(r.Body)), ContentLength: int64(len(r.Body)),
	}
}

// spoil is what becomes of one charge request.
type spoil func(executed payclient.Response) (payclient.Response, error)

// errLost is what net/http returns when the connection ends before the answer.
var errLost = fmt.Errorf("read: %w", syscall.ECONNRESET)

func lose(payclient.Response) (payclient.Response, error) { return payclient.Response{}, errLost }

// crash ends the goroutine that called the client, as the end of the process would: nothing that follows is done.
func crash(payclient.Response) (payclient.Response, error) {
	runtime.Goexit()
	return payclient.Response{}, errLost
}

// answerWith puts an answer in the place of the provider's.
func answerWith(r payclient.Response) spoil {
	return func(payclient.Response) (payclient.Response, error) { return r, nil }
}

// wire is an http.RoundTripper before a handler, in memory: what the handler executed is spoilt on its way back.
// Requests with a body are charge requests; lookups have none.
type wire struct {
	handler http.Handler

	mu     sync.Mutex // guards everything below
	spoils []spoil    // of the next charge requests
	sent   []sentRequest
	asked  int
	idle   bool // a connection that was used before
}

type sentRequest struct {
	header http.Header
	body   string
}

// RoundTrip implements [http.RoundTripper], with the hooks of httptrace that net/http calls.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		if err = errors.Join(err, req.Body.Close()); err != nil {
			return nil, err
		}
	}
	last := strings.EqualFold(req.Header.Get("Connection"), "close") || req.Close
	w.mu.Lock()
	reused := w.idle
	w.idle = false
	var spoilt spoil
	if req.Body == nil {
		w.asked++
	} else {
		w.sent = append(w.sent, sentRequest{req.Header.Clone(), string(body)})
		if len(w.spoils) > 0 {
			spoilt, w.spoils = w.spoils[0], w.spoils[1:]
		}
	}
	w.mu.Unlock()
	if trace := httptrace.ContextClientTrace(ctx); trace != nil {
		if trace.GetConn != nil {
			trace.GetConn(req.URL.Host)
		}
		if trace.GotConn != nil {
			trace.GotConn(httptrace.GotConnInfo{Reused: reused, WasIdle: reused})
		}
	}
	r, err := w.serve(req, body)
	if err == nil && spoilt != nil {
		r, err = spoilt(r)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	if !last {
		w.mu.Lock()
		w.idle = true
		w.mu.Unlock()
	}
	return wireResponse(req, r), nil
}

// CloseIdleConnections makes the next request the first on its connection.
func (w *wire) CloseIdleConnections() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = false
}

// serve has the handler answer. A handler that aborts has cut the connection.
func (w *wire) serve(req *http.Request, body []byte) (r payclient.Response, err error) {
	in := (&http.Request{
		Method: req.Method, URL: req.URL, RequestURI: req.URL.RequestURI(), Host: req.Host, RemoteAddr: "192.0.2.1:1",
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: req.Header.Clone(),
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).WithContext(req.Context())
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { //nolint:errorlint // the sentinel itself is what net/http looks for
				panic(p)
			}
			err = errLost
		}
	}()
	answer := &recording{header: make(http.Header)}
	w.handler.ServeHTTP(answer, in)
	answer.WriteHeader(http.StatusOK)
	return payclient.Response{StatusCode: answer.status, Header: answer.header, Body: answer.body.Bytes()}, nil
}

// recording is an http.ResponseWriter that keeps the answer.
type recording struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recording) Header() http.Header { return r.header }

func (r *recording) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recording) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

package fakeprovider

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ServeHTTP serves the API and, under /_fake/, the control endpoints. Faults
// below HTTP take the connection over; where the ResponseWriter does not
// allow that (HTTP/2, a recorder), the handler panics with
// http.ErrAbortHandler instead, which HTTP/2 shows as a reset stream.
//
// A step that is about dialling has no dial to act on here: the connection is
// reset unread.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r, mine := p.addressed(r)
	if !mine {
		writePlain(w, problem(probOtherBooks), nil)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/_fake/") {
		p.control(w, r)
		return
	}
	in := &inbound{
		method: r.Method, path: r.URL.Path, query: r.URL.RawQuery, uri: r.URL.RequestURI(),
		header: r.Header, conn: r.RemoteAddr, books: booksOf(r),
	}
	if c, ok := r.Context().Value(connKey{}).(*connInfo); ok {
		in.conn, in.reused = c.name, c.requests.Add(1) > 1
	}
	in.lookHeader(&p.config)
	c := choice{plan: p.chooseEarly(in)}
	if c.plan != nil {
		p.readSome(in, r.Body, c.plan.readBytes)
	} else {
		p.readBody(in, r)
	}
	in.lookBody()

	x := p.arrive(in, c)
	defer x.leave()
	if !p.pause(x.wait, r.Context().Done()) {
		panic(http.ErrAbortHandler) // the client is gone, or the provider ends
	}
	a := x.finish()
	if !x.announced(r.Context().Done()) {
		panic(http.ErrAbortHandler)
	}
	if x.raw(a) {
		p.takeOver(w, r, x, a)
		return
	}
	writePlain(w, a, x)
}

func writePlain(w http.ResponseWriter, a answer, x *exchange) {
	h := w.Header()
	values := make([]string, 0, 5)
	set := func(name, value string) {
		if h[name] != nil {
			h[name] = append(h[name], value)
			return
		}
		values = append(values, value)
		h[name] = values[len(values)-1 : len(values) : len(values)]
	}
	a.eachHeader(x, set)
	if a.ctype == "" {
		h["Content-Type"] = nil // no guessing
	}
	if !noBody(a.status) {
		set("Content-Length", strconv.Itoa(len(a.body)))
	}
	w.WriteHeader(a.status)
	w.Write(a.body) // an error means that the client is gone, which is its business
}

// readBody reads the whole body, within its bound.
func (p *Provider) readBody(in *inbound, r *http.Request) {
	limit := int64(p.config.MaxBody)
	if n := r.ContentLength; n >= 0 && n <= limit {
		in.body = make([]byte, n)
		_, err := io.ReadFull(r.Body, in.body)
		in.cut = err != nil && n > 0
		return
	}
	var err error
	in.body, err = io.ReadAll(io.LimitReader(r.Body, limit+1))
	in.cut = err != nil
	if int64(len(in.body)) > limit {
		in.tooBig, in.body = true, in.body[:limit]
	}
}

// readSome reads n bytes of the body and leaves the rest.
func (p *Provider) readSome(in *inbound, body io.Reader, n int) {
	if n <= 0 {
		return
	}
	in.cut = true
	in.body = make([]byte, min(n, p.config.MaxBody))
	got, err := io.ReadFull(body, in.body)
	if err != nil {
		in.body = in.body[:got]
	}
}

// takeOver plays an answer that net/http would not write.
func (p *Provider) takeOver(w http.ResponseWriter, r *http.Request, x *exchange, a answer) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		if x.end == endHang {
			select {
			case <-r.Context().Done():
			case <-p.done:
			}
		}
		panic(http.ErrAbortHandler)
	}
	defer conn.Close()
	if !p.hold(conn) {
		return
	}
	defer p.drop(conn)
	p.play(conn, rw.Reader, x.wire(a))
}

// play does what ops say on a connection that belongs to the fake alone. An
// error of the connection ends it: the client is gone.
func (p *Provider) play(conn net.Conn, in *bufio.Reader, ops []op) {
	for _, o := range ops {
		var err error
		switch o.kind {
		case opWrite:
			_, err = conn.Write(o.data)
		case opWait:
			if !p.pause(o.wait, nil) {
				return
			}
		case opReset:
			linger(conn)
			return
		case opHang:
			_, err = io.Copy(io.Discard, in)
		case opFlood:
			p.flood(conn, o.data)
			return
		case opNext:
			p.next(conn, in, o.data)
			return
		case opClose, opKeep:
			return
		}
		if err != nil {
			return
		}
	}
}

// flood writes data until the client has enough. It pauses now and then, or
// a bubble's clock would never reach the client's deadline.
func (p *Provider) flood(conn net.Conn, data []byte) {
	for {
		for range 64 {
			if _, err := conn.Write(data); err != nil {
				return
			}
		}
		if !p.pause(time.Millisecond, nil) {
			return
		}
	}
}

// next waits for the connection's next request and answers it with stale
// bytes, followed by its own answer: a desynchronised connection.
func (p *Provider) next(conn net.Conn, br *bufio.Reader, stale []byte) {
	r, err := http.ReadRequest(br)
	if err != nil {
		return
	}
	in := &inbound{
		method: r.Method, path: r.URL.Path, query: r.URL.RawQuery, uri: r.URL.RequestURI(),
		header: r.Header, conn: conn.RemoteAddr().String(), reused: true,
	}
	in.lookHeader(&p.config)
	p.readBody(in, r)
	in.lookBody()
	x := p.arrive(in, choice{})
	defer x.leave()
	if x.wait > 0 {
		if _, err := conn.Write(stale); err != nil || !p.pause(x.wait, nil) {
			return
		}
		stale = nil
	}
	a := x.finish()
	if !x.announced(nil) {
		return
	}
	ops := x.wire(a)
	if ops[0].kind == opWrite { // both at once: what the client sees is no matter of chance
		ops[0].data = append(stale, ops[0].data...)
	} else {
		ops = append([]op{{data: stale}}, ops...)
	}
	p.play(conn, br, ops)
}

// linger makes the close that follows a reset.
func linger(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if l, ok := conn.(interface{ SetLinger(int) error }); ok {
		l.SetLinger(0) //nolint:errcheck // fails only on a connection that is closed already
	}
	conn.Close()
}

type connKey struct{}

// connInfo follows one connection over its requests.
type connInfo struct {
	name     string
	requests atomic.Int64
}

// ConnContext lets the provider tell a connection's first request from later
// ones; set it as http.Server.ConnContext (or in httptest.Server.Config).
// ListenAndServe and DialContext have it already.
func (p *Provider) ConnContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, &connInfo{name: c.RemoteAddr().String()})
}

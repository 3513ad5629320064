package wiretest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds every wait of a server for its peer, so that a mistake in a test ends it. No test waits for it.
const patience = 20 * time.Second

// Request is a request that arrived whole.
type Request struct {
	Conn   int      // which connection it came on, 1 for the first accepted
	Line   string   // "POST /v1/charges HTTP/1.1"
	Fields []string // header lines as they came, without the line ends
	Body   []byte
}

// Method returns the request's method.
func (r Request) Method() string {
	method, _, _ := strings.Cut(r.Line, " ")
	return method
}

// Target returns what stands between method and version.
func (r Request) Target() string {
	_, rest, _ := strings.Cut(r.Line, " ")
	target, _, _ := strings.Cut(rest, " ")
	return target
}

// Header returns the values of a header, one for each line, with nothing but the one space after the colon taken off.
func (r Request) Header(name string) []string {
	var values []string
	for _, f := range r.Fields {
		if n, v, ok := strings.Cut(f, ":"); ok && strings.EqualFold(n, name) {
			values = append(values, strings.TrimPrefix(v, " "))
		}
	}
	return values
}

// Server accepts connections and serves each in a goroutine of its own.
type Server struct {
	t        testing.TB
	listener net.Listener
	secure   *tls.Config
	serve    func(*Conn)
	handlers sync.WaitGroup

	mu       sync.Mutex
	requests []Request // guarded by mu, like what follows
	conns    []*Conn
}

// Listen starts a server for bare TCP. serve gets each connection; when it returns the server waits for the client to end
// the connection, unless serve has ended it. The server is closed with the test.
func Listen(t testing.TB, serve func(*Conn)) *Server { return listen(t, nil, serve) }

// ListenTLS starts a server whose connections have completed a TLS handshake when serve gets them. One whose handshake
// fails is never served.
func ListenTLS(t testing.TB, config *tls.Config, serve func(*Conn)) *Server {
	return listen(t, config, serve)
}

func listen(t testing.TB, config *tls.Config, serve func(*Conn)) *Server {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s := &Server{t: t, listener: l, secure: config, serve: serve}
	s.handlers.Go(s.accept)
	t.Cleanup(func() { _ = s.listener.Close() })
	return s
}

func (s *Server) accept() {
	for {
		raw, err := s.listener.Accept()
		if err != nil {
			return
		}
		c := &Conn{Conn: raw, raw: raw.(*net.TCPConn), server: s, gone: make(chan struct{})}
		_ = raw.SetDeadline(time.Now().Add(patience))
		s.mu.Lock()
		s.conns = append(s.conns, c)
		c.N = len(s.conns)
		s.mu.Unlock()
		s.handlers.Go(func() { s.handle(c) })
	}
}

func (s *Server) handle(c *Conn) {
	defer close(c.gone)
	defer func() { _ = c.raw.Close() }()
	if s.secure != nil {
		secured := tls.Server(c.raw, s.secure)
		if err := secured.HandshakeContext(context.Background()); err != nil {
			return
		}
		c.Conn = secured
	}
	c.reader = bufio.NewReader(c.Conn)
	s.serve(c)
	c.Hang()
}

// Addr returns host and port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL returns the address of the server: https if it speaks TLS.
func (s *Server) URL() string {
	if s.secure != nil {
		return "https://" + s.Addr()
	}
	return "http://" + s.Addr()
}

// Requests returns the requests that arrived whole, in the order in which they did.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Accepted returns how many connections were accepted.
func (s *Server) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Drained stops accepting and waits until every connection has ended, by the server's hand or by the client's. It fails
// the test for those that the client keeps open although it has no more use for them.
func (s *Server) Drained() {
	s.t.Helper()
	_ = s.listener.Close()
	s.mu.Lock()
	conns := append([]*Conn(nil), s.conns...)
	s.mu.Unlock()
	late := time.NewTimer(patience / 2)
	defer late.Stop()
	for _, c := range conns {
		select {
		case <-c.gone:
		case <-late.C:
			s.t.Errorf("connection %d was never closed by the client", c.N)
			return
		}
	}
	s.handlers.Wait()
}

// Conn is one accepted connection.
type Conn struct {
	net.Conn     // over TLS where the server speaks it
	N        int // 1 for the first accepted

	raw    *net.TCPConn
	reader *bufio.Reader
	server *Server
	gone   chan struct{}
}

// Request reads one whole request and keeps it. ok is false if the connection ended before.
func (c *Conn) Request() (r Request, ok bool) {
	r, length, ok := c.Head()
	if !ok {
		return r, false
	}
	r.Body = make([]byte, length)
	if _, err := io.ReadFull(c.reader, r.Body); err != nil {
		return r, false
	}
	c.server.mu.Lock()
	c.server.requests = append(c.server.requests, r)
	c.server.mu.Unlock()
	return r, true
}

// Head reads a request's line and headers and leaves its body of that length unread: the request has not arrived whole.
func (c *Conn) Head() (r Request, length int, ok bool) {
	r.Conn = c.N
	var err error
	if r.Line, err = c.line(); err != nil {
		return r, 0, false
	}
	for {
		field, err := c.line()
		if err != nil {
			return r, 0, false
		}
		if field == "" {
			break
		}
		r.Fields = append(r.Fields, field)
	}
	for _, v := range r.Header("Content-Length") {
		if length, err = strconv.Atoi(v); err != nil {
			return r, 0, false
		}
	}
	return r, length, true
}

func (c *Conn) line() (string, error) {
	text, err := c.reader.ReadString('\n')
	if err != nil {
		return "", err
	}
	text, ok := strings.CutSuffix(text, "\r\n")
	if !ok {
		return "", errors.New("a bare line feed")
	}
	return text, nil
}

// Say writes bytes as they are. That the client has gone by then is no mistake.
func (c *Conn) Say(text string) { _, _ = io.WriteString(c.Conn, text) }

// End closes the connection as the protocol wants it: under TLS with close_notify.
func (c *Conn) End() { _ = c.Conn.Close() }

// Cut closes the TCP connection with FIN, and under TLS without close_notify. Whoever leaves bytes of the request unread
// makes it a reset: the kernel sees to that.
func (c *Conn) Cut() { _ = c.raw.Close() }

// Reset ends the TCP connection with RST.
func (c *Conn) Reset() {
	_ = c.raw.SetLinger(0)
	_ = c.raw.Close()
}

// Hang says nothing until the client ends the connection.
func (c *Conn) Hang() {
	_, _ = io.Copy(io.Discard, c.reader)
}

// Drip writes one byte at a time, a little apart, until the client ends the connection.
func (c *Conn) Drip(text string) {
	for i := range len(text) {
		c.Say(text[i : i+1])
		_ = c.raw.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := c.reader.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
	}
	_ = c.raw.SetReadDeadline(time.Now().Add(patience))
}

// Tunnel passes bytes on to another address, in both directions, until either side ends.
func (c *Conn) Tunnel(address string) {
	onward, err := new(net.Dialer).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = onward.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(c.Conn, onward)
		_ = c.raw.Close()
	}()
	_, _ = io.Copy(onward, c.reader)
	_ = onward.Close()
	<-done
}

package fakeprovider

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync"
	"syscall"
)

// DialContext returns the client's end of an in-memory connection on which
// the provider serves HTTP/1.1, whatever the address. As DialContext and
// DialTLSContext of an http.Transport it lets the real thing run against the
// fake, in a synctest bubble too. Scripted dial faults act here. Close ends
// the connections and their goroutines.
func (p *Provider) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: memAddr(addr), Err: err}
	}
	if plan := p.chooseDial(); plan != nil {
		return nil, plan.dial.fail(ctx, p.done, nil, network, addr)
	}
	return p.dialer.dial(addr)
}

// Transport returns a real http.Transport over DialContext, for http and
// https URLs alike (there is no TLS in between), HTTP/1.1 only, without proxy
// and without automatic decompression. Change what the test needs.
func (p *Provider) Transport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext: p.DialContext, DialTLSContext: p.DialContext,
		Protocols: protocols, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}
}

// dialer serves in-memory connections.
type dialer struct {
	provider *Provider

	mu     sync.Mutex // guards everything below
	server *http.Server
	closed bool
	open   sync.WaitGroup // connections
}

func (d *dialer) dial(addr string) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: memAddr(addr), Err: errClosed}
	}
	if d.server == nil {
		d.server = &http.Server{
			Handler: d.provider, ConnContext: d.provider.ConnContext,
			ErrorLog: log.New(io.Discard, "", 0),
		}
	}
	client, server := memPipe(memAddr(d.provider.connName()), memAddr(addr))
	d.open.Add(1)
	// Serve starts the connection's goroutine and returns with the second
	// Accept: no goroutine waits for connections.
	l := &oneConn{conn: &counted{memConn: server, done: d.open.Done}}
	if err := d.server.Serve(l); l.conn != nil {
		d.open.Done()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: memAddr(addr), Err: err}
	}
	return client, nil
}

func (d *dialer) close() error {
	d.mu.Lock()
	d.closed = true
	server := d.server
	d.mu.Unlock()
	if server == nil {
		return nil
	}
	err := server.Close()
	d.open.Wait()
	return err
}

// counted tells when the server is done with a connection.
type counted struct {
	*memConn
	once sync.Once
	done func()
}

func (c *counted) Close() error {
	err := c.memConn.Close()
	c.once.Do(c.done)
	return err
}

// oneConn is a listener that accepts one connection.
type oneConn struct{ conn net.Conn }

var errOneConn = errors.New("no more connections")

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	return nil, errOneConn
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return memAddr("fakeprovider") }

// fail ends a dial as its fault says, with the errors of the net, crypto/tls
// and net/http packages. trace may be nil.
func (f dialFault) fail(ctx context.Context, done <-chan struct{}, trace *httptrace.ClientTrace, network, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	remote := memAddr(addr)
	dialError := func(err error) error { return &net.OpError{Op: "dial", Net: network, Addr: remote, Err: err} }
	if f == dialDNS {
		err := &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		if trace != nil && trace.DNSStart != nil {
			trace.DNSStart(httptrace.DNSStartInfo{Host: host})
		}
		if trace != nil && trace.DNSDone != nil {
			trace.DNSDone(httptrace.DNSDoneInfo{Err: err})
		}
		return &net.OpError{Op: "dial", Net: network, Err: err}
	}
	if trace != nil && trace.ConnectStart != nil {
		trace.ConnectStart(network, addr)
	}
	switch f {
	case dialHang:
		select {
		case <-ctx.Done():
			err = dialError(ctx.Err())
		case <-done:
			err = dialError(errClosed)
		}
		connected(trace, network, addr, err)
		return err
	case dialRefused:
		err = dialError(os.NewSyscallError("connect", syscall.ECONNREFUSED))
		connected(trace, network, addr, err)
		return err
	case dialTimeout:
		err = dialError(dialerTimeout{})
		connected(trace, network, addr, err)
		return err
	}
	connected(trace, network, addr, nil)
	if f == dialProxy {
		//lint:ignore ST1005 net/http's own wording
		return errors.New("Proxy Authentication Required") //nolint:staticcheck // as above
	}
	if trace != nil && trace.TLSHandshakeStart != nil {
		trace.TLSHandshakeStart()
	}
	switch f {
	case dialTLSReset:
		err = &net.OpError{Op: "read", Net: network, Source: memAddr("client"), Addr: remote,
			Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	case dialTLSUnknown:
		err = &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	case dialTLSExpired:
		err = &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}
	case dialTLSName:
		err = &tls.CertificateVerificationError{
			Err: x509.HostnameError{Host: host, Certificate: &x509.Certificate{DNSNames: []string{"other.invalid"}}}}
	default:
		err = handshakeTimeout{}
	}
	if trace != nil && trace.TLSHandshakeDone != nil {
		trace.TLSHandshakeDone(tls.ConnectionState{}, err)
	}
	return err
}

func connected(trace *httptrace.ClientTrace, network, addr string, err error) {
	if trace != nil && trace.ConnectDone != nil {
		trace.ConnectDone(network, addr, err)
	}
}

// dialerTimeout is what the net package's unexported timeoutError says.
type dialerTimeout struct{}

func (dialerTimeout) Timeout() bool        { return true }
func (dialerTimeout) Temporary() bool      { return true }
func (dialerTimeout) Error() string        { return "i/o timeout" }
func (dialerTimeout) Is(target error) bool { return target == context.DeadlineExceeded }

// handshakeTimeout is what net/http's unexported error of this name says.
type handshakeTimeout struct{}

func (handshakeTimeout) Timeout() bool   { return true }
func (handshakeTimeout) Temporary() bool { return true }
func (handshakeTimeout) Error() string   { return "net/http: TLS handshake timeout" }

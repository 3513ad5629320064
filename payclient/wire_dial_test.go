package payclient_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/google/uuid"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/wiretest"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// refused is an address on this machine where nobody listens.
const refused = "127.0.0.1:1"

// wireBarrier is one way in which a request cannot leave.
type wireBarrier struct {
	name   string // with the fault's number
	reason attempt.Reason
	// lasting: repeating cannot help, and the client does not.
	lasting bool
	// put returns where the client is to send, and changes its settings.
	put func(t *testing.T, w *wireWorld) (address string)
}

// wireWorld is what a barrier is built from.
type wireWorld struct {
	authority *wiretest.Authority
	transport payclient.TransportConfig
	change    func(*http.Transport)
	edit      func(*payclient.Config, *standard.Config)
	servers   []*wiretest.Server
}

func (w *wireWorld) listen(t *testing.T, serve func(*wiretest.Conn)) *wiretest.Server {
	s := wiretest.Listen(t, serve)
	w.servers = append(w.servers, s)
	return s
}

func (w *wireWorld) listenTLS(t *testing.T, cert tls.Certificate, serve func(*wiretest.Conn)) *wiretest.Server {
	s := wiretest.ListenTLS(t, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}, serve)
	w.servers = append(w.servers, s)
	w.transport.RootCAs = w.authority.Pool()
	return s
}

// throughProxy makes a proxy that answers CONNECT by serve, in front of an https address.
func throughProxy(serve func(c *wiretest.Conn)) func(*testing.T, *wireWorld) string {
	return func(t *testing.T, w *wireWorld) string {
		proxy := w.listen(t, func(c *wiretest.Conn) {
			if q, _, ok := c.Head(); !ok || q.Method() != http.MethodConnect || q.Target() != "provider.test:443" {
				t.Errorf("the proxy got %q", q.Line)
			}
			serve(c)
		})
		w.transport.Proxy = &url.URL{Scheme: "http", Host: proxy.Addr()}
		return "https://provider.test"
	}
}

func approveAll(c *wiretest.Conn) {
	for {
		q, ok := c.Request()
		if !ok {
			return
		}
		c.Say(wireApprove(q))
	}
}

var wireBarriers = []wireBarrier{
	{"F20 CONNECT answered 407", attempt.ReasonUnreachable, true, throughProxy(func(c *wiretest.Conn) {
		c.Say(wiretest.Answer(407, "text/plain", "", "Proxy-Authenticate: Basic"))
	})},
	{"F20 CONNECT answered 502", attempt.ReasonUnreachable, false, throughProxy(func(c *wiretest.Conn) {
		c.Say(wiretest.Answer(502, "text/html", "<html>"))
	})},
	{"F21 CONNECT cut", attempt.ReasonUnreachable, false, throughProxy(func(c *wiretest.Conn) { c.Cut() })},
	{"F21 tunnel up and dead in TLS", attempt.ReasonUnreachable, false, throughProxy(func(c *wiretest.Conn) {
		c.Say(wiretest.Head("HTTP/1.1 200 Connected"))
		c.Reset()
	})},
	{"F22 proxy unreachable", attempt.ReasonUnreachable, false, func(_ *testing.T, w *wireWorld) string {
		w.transport.Proxy = &url.URL{Scheme: "http", Host: refused}
		return "https://provider.test"
	}},
	{"F24 a line break in a header", attempt.ReasonNotSent, true, spoilRequest(func(r *payclient.Request) {
		r.Header.Set("X-Trace", "a\r\nIdempotency-Key: other")
	})},
	{"F24 a header name with a blank", attempt.ReasonNotSent, true, spoilRequest(func(r *payclient.Request) {
		r.Header["X Trace"] = []string{"a"}
	})},
	{"F24 a method that is none", attempt.ReasonNotSent, true, spoilRequest(func(r *payclient.Request) { r.Method = "PO ST" })},
	{"F24 a control character in the query", attempt.ReasonNotSent, true, spoilRequest(func(r *payclient.Request) { r.Query = "a=\n" })},
	{"F27 no such host", attempt.ReasonUnreachable, false, func(t *testing.T, w *wireWorld) string {
		names := wiretest.NoSuchHost(t)
		w.change = func(tr *http.Transport) { tr.DialContext = (&net.Dialer{Resolver: names}).DialContext }
		return "https://nobody.provider.test"
	}},
	{"F28 connection refused", attempt.ReasonUnreachable, false, func(*testing.T, *wireWorld) string { return "http://" + refused }},
	{"F29 dial time-out", attempt.ReasonUnreachable, false, func(t *testing.T, w *wireWorld) string {
		w.transport.DialTimeout = time.Nanosecond
		return w.listen(t, approveAll).URL()
	}},
	{"F30 TLS handshake time-out", attempt.ReasonUnreachable, false, func(t *testing.T, w *wireWorld) string {
		w.transport.DialTimeout = 100 * time.Millisecond
		return "https://" + w.listen(t, func(c *wiretest.Conn) { c.Hang() }).Addr()
	}},
	{"F31 FIN in the handshake", attempt.ReasonUnreachable, false, func(t *testing.T, w *wireWorld) string {
		return "https://" + w.listen(t, func(c *wiretest.Conn) { c.Cut() }).Addr()
	}},
	{"F31 reset in the handshake", attempt.ReasonUnreachable, false, func(t *testing.T, w *wireWorld) string {
		return "https://" + w.listen(t, func(c *wiretest.Conn) { c.Reset() }).Addr()
	}},
	{"F32 unknown authority", attempt.ReasonCertificate, true, func(t *testing.T, w *wireWorld) string {
		address := w.listenTLS(t, wiretest.NewAuthority(t).Certificate(time.Now().Add(time.Hour)), approveAll).URL()
		return address
	}},
	{"F32 wrong name", attempt.ReasonCertificate, true, func(t *testing.T, w *wireWorld) string {
		return w.listenTLS(t, w.authority.Certificate(time.Now().Add(time.Hour), "other.provider.test"), approveAll).URL()
	}},
	{"F32 expired", attempt.ReasonCertificate, true, func(t *testing.T, w *wireWorld) string {
		return w.listenTLS(t, w.authority.Certificate(time.Now().Add(-time.Minute)), approveAll).URL()
	}},
	{"F33 https to a plain port", attempt.ReasonUnreachable, true, func(t *testing.T, w *wireWorld) string {
		// A server of HTTP answers a ClientHello in clear text.
		s := w.listen(t, func(c *wiretest.Conn) { c.Say(wiretest.Answer(400, "text/plain", "bad")) })
		return "https://" + s.Addr()
	}},
	{"F34 client certificate refused in TLS 1.2", attempt.ReasonUnreachable, true, func(t *testing.T, w *wireWorld) string {
		s := wiretest.ListenTLS(t, &tls.Config{
			Certificates: []tls.Certificate{w.authority.Certificate(time.Now().Add(time.Hour))},
			ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: w.authority.Pool(),
			MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12,
		}, approveAll)
		w.servers = append(w.servers, s)
		w.transport.RootCAs = w.authority.Pool()
		w.transport.ClientCertificates = []tls.Certificate{wiretest.NewAuthority(t).Certificate(time.Now().Add(time.Hour))}
		// Without this the client presents none that the server does not name.
		cert := w.transport.ClientCertificates[0]
		w.change = func(tr *http.Transport) {
			tr.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
		}
		return s.URL()
	}},
	{"F05 F99 an attempt whose key is empty", attempt.ReasonNotSent, true, withKey("")},
	{"F97 F99 a key with a blank at its end", attempt.ReasonNotSent, true, withKey("0190b6c8-7a12-7123-8123-0123456789a ")},
	{"F98 F99 a key with a byte over 0x7f", attempt.ReasonNotSent, true, withKey("0190b6c8-7a12-7123-8123-0123456789é")},
	{"F99 a key that is short", attempt.ReasonNotSent, true, withKey("1001")},
	{"F99 a key in two lines", attempt.ReasonNotSent, true, withKey("0190b6c8-7a12-7123-8123-01234567\r\nX: y")},
}

// spoilRequest has the adapter make a request that no transport sends.
func spoilRequest(spoil func(*payclient.Request)) func(*testing.T, *wireWorld) string {
	return func(t *testing.T, w *wireWorld) string {
		w.edit = func(c *payclient.Config, a *standard.Config) {
			p, err := standard.New(*a)
			if err != nil {
				t.Fatal(err)
			}
			c.Provider = spoilingProvider{p, spoil}
		}
		return w.listen(t, approveAll).URL()
	}
}

type spoilingProvider struct {
	*standard.Provider
	spoil func(*payclient.Request)
}

func (p spoilingProvider) ChargeRequest(a attempt.Attempt) payclient.Request {
	r := p.Provider.ChargeRequest(a)
	p.spoil(&r)
	return r
}

// withKey has the store give the attempt out with another key than was minted, as a damaged row would.
func withKey(key string) func(*testing.T, *wireWorld) string {
	return func(t *testing.T, w *wireWorld) string {
		w.edit = func(c *payclient.Config, _ *standard.Config) { c.Store = rekeyedStore{c.Store, key} }
		return w.listen(t, approveAll).URL()
	}
}

type rekeyedStore struct {
	attempt.Store
	key string
}

func (s rekeyedStore) Apply(ctx context.Context, steps ...*attempt.Step) error {
	for _, step := range steps {
		do := step.Do
		step.Do = func(v attempt.View) ([]attempt.Write, error) {
			writes, err := do(v)
			for i := range writes {
				if writes[i].Attempt.Version == 1 {
					writes[i].Attempt.Key = s.key
				}
			}
			return writes, err
		}
	}
	return s.Store.Apply(ctx, steps...)
}

// TestWireNothingLeft holds, for each barrier before the wire: no request arrived anywhere, the caller hears that no money
// moved and why, the attempt is prepared again, a lasting fault is met once and a passing one as often as settings allow;
// and later, the barrier gone, the same attempt is paid with its own key.
func TestWireNothingLeft(t *testing.T) {
	for _, b := range wireBarriers {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			w := &wireWorld{authority: wiretest.NewAuthority(t)}
			address := b.put(t, w)
			transport := payclient.NewTransport(w.transport)
			if w.change != nil {
				w.change(transport)
			}
			r := wireClient(t, address, func(c *payclient.Config, a *standard.Config) {
				c.Retries, c.Transport = 2, transport
				if w.edit != nil {
					w.edit(c, a)
				}
			})
			res, err := r.pay("1001")
			b.checkNotPaid(t, r, res, err, map[bool]int{true: 1, false: 3}[b.lasting])
			for _, s := range w.servers {
				for _, q := range s.Requests() {
					t.Errorf("a request arrived: %s %q", q.Line, q.Body)
				}
			}
			r.drained(w.servers...)
			if uuid.Validate(res.Key) != nil {
				return // this attempt can never be sent
			}

			healthy := wiretest.Listen(t, approveAll)
			again := wireClient(t, healthy.URL(), func(c *payclient.Config, _ *standard.Config) { c.Store = r.store })
			paid, err := again.pay("1001")
			if err != nil || paid.Outcome != payclient.Approved || paid.Key != res.Key || paid.AttemptID != res.AttemptID {
				t.Errorf("afterwards: %v with key %s, %v; want approved with key %s", paid.Outcome, paid.Key, err, res.Key)
			}
			if n := len(wirePosts(healthy, paid.Reference)); n != 1 {
				t.Errorf("%d requests arrived afterwards, want 1", n)
			}
			again.drained(healthy)
		})
	}
}

func (b wireBarrier) checkNotPaid(t *testing.T, r *wireRig, res payclient.Result, err error, sends int) {
	t.Helper()
	var notPaid *attempt.NotPaidError
	if !errors.As(err, &notPaid) || notPaid.Reason != b.reason {
		t.Fatalf("error %v, want a NotPaidError for %s", err, b.reason)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		t.Errorf("error %v is http.Client's, which hides what failed (F52)", err)
	}
	if res.Moved != payclient.MovedNo || res.Open() || res.Attempt.Status != attempt.StatusPrepared {
		t.Errorf("moved=%v, open %t, %s; want no money moved and the attempt prepared", res.Moved, res.Open(), res.Attempt.Status)
	}
	log := r.log(res.AttemptID)
	if len(log) != sends {
		t.Errorf("log: %s, want %d", wireVerdicts(log), sends)
	}
	for _, s := range log {
		if s.Verdict != attempt.NotSent || s.Reason != b.reason {
			t.Errorf("log: %s, want not_sent/%s only (%s)", wireVerdicts(log), b.reason, s.Detail)
		}
	}
}

// The dial ends with the caller's patience: as text the error is the same as after sending.
func TestWireF25ContextDoneInTheDial(t *testing.T) {
	t.Parallel()
	dialling := make(chan struct{})
	transport := payclient.NewTransport(payclient.TransportConfig{})
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		close(dialling)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	r := wireClient(t, "http://"+refused, func(c *payclient.Config, _ *standard.Config) { c.Transport, c.Retries = transport, 3 })
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-dialling; cancel() }()
	res, err := r.client.Pay(ctx, wireIntent("1001"))
	wireBarrier{reason: attempt.ReasonCancelled}.checkNotPaid(t, r, res, err, 1)
}

// Whoever has given up before the call does not even get an attempt.
func TestWireF25ContextDoneBefore(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, approveAll)
	r := wireClient(t, server.URL(), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.client.Pay(ctx, wireIntent("1001")); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want one that is context.Canceled", err)
	}
	if n := server.Accepted(); n != 0 {
		t.Errorf("%d connections, want none", n)
	}
	r.drained(server)
}

// The deadline passes while the request waits for a connection that another request holds.
func TestWireF26F93WaitingForAConnection(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		q, ok := c.Request()
		if !ok {
			return
		}
		close(arrived)
		<-release
		c.Say(wireApprove(q))
	})
	transport := payclient.NewTransport(payclient.TransportConfig{MaxConnections: 1})
	first := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Transport = transport })
	paid := make(chan error, 1)
	go func() {
		res, err := first.pay("1001")
		if err == nil && res.Outcome != payclient.Approved {
			err = errors.New(res.Outcome.String())
		}
		paid <- err
	}()
	<-arrived
	second := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
		c.Transport, c.SendTimeout = transport, 50*time.Millisecond
	})
	res, err := second.pay("1002")
	wireBarrier{reason: attempt.ReasonUnreachable}.checkNotPaid(t, second, res, err, 1)
	close(release)
	if err := <-paid; err != nil {
		t.Errorf("the payment that held the connection: %v", err)
	}
	if n := len(server.Requests()); n != 1 {
		t.Errorf("%d requests arrived, want 1", n)
	}
	second.drained(server)
}

// A policy's refusal holds for this request only; where one may have left before, the intent stays unknown.
func TestWireF35RefusedByThePolicies(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		if _, ok := c.Request(); ok {
			c.Cut()
		}
	})
	store := new(attempt.Memory)
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
		c.Store = store
		c.Breaker = payclient.BreakerConfig{FailurePercent: 50, MinRequests: 1, OpenFor: time.Hour}
	})
	r.store = store
	unknown, err := r.pay("1001")
	if err != nil || !unknown.Open() {
		t.Fatalf("the lost payment: %v, %v; want an open one", unknown.Outcome, err)
	}
	res, err := r.pay("1002")
	var notPaid *attempt.NotPaidError
	if !errors.As(err, &notPaid) || notPaid.Reason != attempt.ReasonBreakerOpen || !errors.Is(err, circuitbreaker.ErrOpen) {
		t.Errorf("another order: %v, want a NotPaidError for the open breaker", err)
	}
	if res.Moved != payclient.MovedNo || res.Attempt.Status != attempt.StatusPrepared {
		t.Errorf("another order: moved=%v, %s; want it prepared", res.Moved, res.Attempt.Status)
	}
	again, err := r.pay("1001")
	if err != nil || !again.Open() || again.Moved != payclient.MovedMaybe || again.Key != unknown.Key {
		t.Errorf("the lost payment again: %v moved=%v, %v; want it open as before", again.Outcome, again.Moved, err)
	}
	if n := len(server.Requests()); n != 1 {
		t.Errorf("%d requests arrived, want 1", n)
	}
	r.drained(server)
}

// wireStranger is a transport that is not net/http's.
type wireStranger func(*http.Request) (*http.Response, error)

func (f wireStranger) RoundTrip(q *http.Request) (*http.Response, error) { return f(q) }

// Where nobody calls the hooks, nothing is proven: rule 2.
func TestWireF22NoHookIsNoProof(t *testing.T) {
	t.Parallel()
	failing := payclient.NewTransport(payclient.TransportConfig{})
	failing.Proxy = func(*http.Request) (*url.URL, error) { return nil, errors.New("no proxy today") }
	for name, transport := range map[string]http.RoundTripper{
		"the Proxy function fails": failing,
		"a transport without hooks": wireStranger(func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
		}),
		"a wrapper that drops the context": wireStranger(func(q *http.Request) (*http.Response, error) {
			return payclient.NewTransport(payclient.TransportConfig{}).RoundTrip(q.WithContext(context.Background()))
		}),
	} {
		t.Run(name, func(t *testing.T) {
			r := wireClient(t, "http://"+refused, func(c *payclient.Config, _ *standard.Config) { c.Transport = transport })
			res, err := r.pay("1001")
			if err != nil || res.Outcome != payclient.UnknownOutcome || res.Moved != payclient.MovedMaybe {
				t.Errorf("%v moved=%v, %v; want unknown", res.Outcome, res.Moved, err)
			}
			if log := r.log(res.AttemptID); wireVerdicts(log) != "lost/connection_lost" {
				t.Errorf("log: %s, want lost", wireVerdicts(log))
			}
		})
	}
}

// An answer that began proves that a request left, whatever the hooks say.
func TestWireF22AnAnswerIsProofOfASend(t *testing.T) {
	t.Parallel()
	r := wireClient(t, "http://"+refused, func(c *payclient.Config, _ *standard.Config) {
		c.Transport = wireStranger(func(q *http.Request) (*http.Response, error) {
			httptrace.ContextClientTrace(q.Context()).GetConn("") // and never GotConn
			return &http.Response{
				StatusCode: http.StatusCreated, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, ContentLength: 100,
				Body: io.NopCloser(strings.NewReader("{")), Request: q,
			}, nil
		})
	})
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.UnknownOutcome || res.Moved != payclient.MovedMaybe {
		t.Errorf("%v moved=%v, %v; want unknown", res.Outcome, res.Moved, err)
	}
	if log := r.log(res.AttemptID); wireVerdicts(log) != "lost/unreadable" || log[0].StatusCode != http.StatusCreated {
		t.Errorf("log: %s, want lost with the status that was seen", wireVerdicts(log))
	}
}

// To http a proxy reads all, and its 502 cannot be told from the provider's. Only loopback can be reached so at all.
func TestWireF23ProxyInClear(t *testing.T) {
	t.Parallel()
	proxy := wiretest.Listen(t, func(c *wiretest.Conn) {
		if q, ok := c.Request(); ok && q.Target() == "http://127.0.0.1:9/v1/charges" {
			c.Say(wiretest.Answer(502, "text/html", "<html>"))
		}
	})
	r := wireClient(t, "http://127.0.0.1:9", func(c *payclient.Config, _ *standard.Config) {
		c.Transport = payclient.NewTransport(payclient.TransportConfig{Proxy: &url.URL{Scheme: "http", Host: proxy.Addr()}})
	})
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.UnknownOutcome || res.Moved != payclient.MovedMaybe {
		t.Errorf("%v moved=%v, %v; want unknown", res.Outcome, res.Moved, err)
	}
	if log := r.log(res.AttemptID); wireVerdicts(log) != "unavailable/unavailable" {
		t.Errorf("log: %s, want unavailable", wireVerdicts(log))
	}
	r.drained(proxy)
}

func TestWireF23PlainHTTPOnlyToThisMachine(t *testing.T) {
	for address, ok := range map[string]bool{
		"https://provider.test": true, "http://127.0.0.1:8089": true, "http://[::1]:8089": true, "http://localhost:8089": true,
		"http://provider.test": false, "http://10.0.0.1": false, "http://0.0.0.0:80": false, "http://localhost.provider.test": false,
		"http://127.0.0.1.provider.test": false, "ftp://provider.test": false, "//provider.test": false,
		"https://user:secret@provider.test": false, "https://provider.test/?token=secret": false, "https://": false,
		"https://provider.test/#x": false, "https://:443": false,
	} {
		p, err := standard.New(standard.Config{Token: payclient.NewSecret(wireToken)})
		if err != nil {
			t.Fatal(err)
		}
		_, err = payclient.New(payclient.Config{Provider: p, Store: new(attempt.Memory), BaseURL: address})
		if (err == nil) != ok {
			t.Errorf("%s: %v, want it taken: %t", address, err, ok)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error repeats a secret: %v", address, err)
		}
	}
}

// A payment through a proxy's tunnel: the provider sees it, the proxy only the host.
func TestWireTunnel(t *testing.T) {
	t.Parallel()
	authority := wiretest.NewAuthority(t)
	provider := wiretest.ListenTLS(t, &tls.Config{
		Certificates: []tls.Certificate{authority.Certificate(time.Now().Add(time.Hour), "provider.test")}, MinVersion: tls.VersionTLS12,
	}, approveAll)
	proxy := wiretest.Listen(t, func(c *wiretest.Conn) {
		if q, _, ok := c.Head(); ok && q.Target() == "provider.test:443" {
			c.Say(wiretest.Head("HTTP/1.1 200 Connected"))
			c.Tunnel(provider.Addr())
		}
	})
	r := wireClient(t, "https://provider.test", func(c *payclient.Config, _ *standard.Config) {
		c.Transport = payclient.NewTransport(payclient.TransportConfig{
			Proxy: &url.URL{Scheme: "http", Host: proxy.Addr()}, RootCAs: authority.Pool(),
		})
	})
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.Approved {
		t.Errorf("%v, %v; want approved", res.Outcome, err)
	}
	r.checkRequests(provider, res)
	r.drained(provider, proxy)
}

// In TLS 1.3 a refused client certificate shows after the request: nothing proves that it was not handled.
func TestWireF36ClientCertificateRefusedInTLS13(t *testing.T) {
	t.Parallel()
	authority := wiretest.NewAuthority(t)
	server := wiretest.ListenTLS(t, &tls.Config{
		Certificates: []tls.Certificate{authority.Certificate(time.Now().Add(time.Hour))},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(), MinVersion: tls.VersionTLS13,
	}, approveAll)
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
		c.Retries = 3
		c.Transport = payclient.NewTransport(payclient.TransportConfig{RootCAs: authority.Pool()})
	})
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.UnknownOutcome || res.Moved != payclient.MovedMaybe {
		t.Errorf("%v moved=%v, %v; want unknown", res.Outcome, res.Moved, err)
	}
	if log := r.log(res.AttemptID); wireVerdicts(log) != "lost/connection_lost" {
		t.Errorf("log: %s, want one lost request: repeating cannot help", wireVerdicts(log))
	}
	if n := len(server.Requests()); n != 0 {
		t.Errorf("%d requests were handled, want none", n)
	}
	r.drained(server)
}

// The right client certificate is presented.
func TestWireF36ClientCertificateTaken(t *testing.T) {
	t.Parallel()
	authority := wiretest.NewAuthority(t)
	server := wiretest.ListenTLS(t, &tls.Config{
		Certificates: []tls.Certificate{authority.Certificate(time.Now().Add(time.Hour))},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(), MinVersion: tls.VersionTLS13,
	}, approveAll)
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
		c.Transport = payclient.NewTransport(payclient.TransportConfig{
			RootCAs:            authority.Pool(),
			ClientCertificates: []tls.Certificate{authority.Certificate(time.Now().Add(time.Hour))},
		})
	})
	if res, err := r.pay("1001"); err != nil || res.Outcome != payclient.Approved {
		t.Errorf("%v, %v; want approved", res.Outcome, err)
	}
	r.drained(server)
}

// Cancelled in the moment when the connection is had: the provider may get the request all the same.
func TestWireF40CancelledAfterTheConnection(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		if _, ok := c.Request(); ok {
			c.Hang()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	inner := payclient.NewTransport(payclient.TransportConfig{})
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
		c.Retries = 3
		c.Transport = wireStranger(func(q *http.Request) (*http.Response, error) {
			return inner.RoundTrip(q.WithContext(httptrace.WithClientTrace(q.Context(), &httptrace.ClientTrace{
				GotConn: func(httptrace.GotConnInfo) { cancel() },
			})))
		})
	})
	res, err := r.client.Pay(ctx, wireIntent("1001"))
	if err != nil || res.Outcome != payclient.UnknownOutcome || res.Moved != payclient.MovedMaybe {
		t.Errorf("%v moved=%v, %v; want unknown", res.Outcome, res.Moved, err)
	}
	if log := r.log(res.AttemptID); wireVerdicts(log) != "lost/cancelled" {
		t.Errorf("log: %s, want one lost request", wireVerdicts(log))
	}
	inner.CloseIdleConnections()
	r.drained(server)
}

// A dial that outlives its request ends on the old recorder, and its connection serves the next payment: a connection that
// counts as used although it never carried a request (F06). The provider closes it on that request, which is not sent again.
func TestWireF06F43ADialThatOutlivesItsRequest(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		if _, ok := c.Request(); ok {
			c.Cut()
		}
	})
	release := make(chan struct{})
	transport := payclient.NewTransport(payclient.TransportConfig{})
	var dials atomic.Int32
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1) > 1 {
			<-ctx.Done() // only the first dial's connection can serve
			return nil, context.Cause(ctx)
		}
		<-release // whatever the request's context says
		return new(net.Dialer).DialContext(context.Background(), network, address)
	}
	var reused []bool
	watched := wireStranger(func(q *http.Request) (*http.Response, error) {
		return transport.RoundTrip(q.WithContext(httptrace.WithClientTrace(q.Context(), &httptrace.ClientTrace{
			GotConn: func(i httptrace.GotConnInfo) { reused = append(reused, i.Reused) },
		})))
	})
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
		c.Transport, c.SendTimeout = watched, 100*time.Millisecond
	})
	res, err := r.pay("1001")
	wireBarrier{reason: attempt.ReasonUnreachable}.checkNotPaid(t, r, res, err, 1)
	close(release)

	later := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Transport = watched })
	lost, lostErr := later.pay("1002")
	if lostErr != nil || lost.Outcome != payclient.UnknownOutcome {
		t.Errorf("the next payment: %v, %v; want unknown", lost.Outcome, lostErr)
	}
	if len(reused) != 1 || !reused[0] {
		t.Errorf("connections had: %v, want one that counts as used", reused)
	}
	later.checkRequests(server, lost)
	wireBarrier{reason: attempt.ReasonUnreachable}.checkNotPaid(t, r, res, err, 1) // nothing was added to it
	transport.CloseIdleConnections()
	later.drained(server)
}

package payclient_test

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/wiretest"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// The transport is fit for payments without a setting: F11, F13, F29, F30, F41, F50, F67, F88, F89, F94, F95.
func TestWireF89TheTransport(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://"+refused)
	t.Setenv("HTTP_PROXY", "http://"+refused)
	tr := payclient.NewTransport(payclient.TransportConfig{})
	for _, c := range []struct {
		fault string
		ok    bool
		want  string
	}{
		{"F94", tr.Proxy == nil, "no proxy from the environment"},
		{"F08", tr.Protocols.HTTP1() && !tr.Protocols.HTTP2() && !tr.Protocols.UnencryptedHTTP2(), "HTTP/1.1 only"},
		{"F08", !tr.ForceAttemptHTTP2, "HTTP/1.1 only"},
		{"F29", tr.DialContext != nil && tr.DialTLSContext == nil, "a dialer with a time-out of its own"},
		{"F30", tr.TLSHandshakeTimeout > 0, "a bounded TLS handshake"},
		{"F95", tr.TLSClientConfig.MinVersion >= tls.VersionTLS12, "TLS 1.2 or later"},
		{"C41", !tr.TLSClientConfig.InsecureSkipVerify, "certificates verified"},
		{"F41", tr.TLSClientConfig.ClientSessionCache == nil, "no resumed sessions"},
		{"F48", tr.ExpectContinueTimeout == 0, "Expect unused"},
		{"F50", tr.MaxResponseHeaderBytes > 0 && tr.MaxResponseHeaderBytes <= 64<<10, "small headers"},
		{"F67", tr.DisableCompression, "no transparent compression"},
		{"F13 F85", tr.IdleConnTimeout > 0 && tr.IdleConnTimeout <= 30*time.Second, "idle connections closed soon"},
		{"F88", tr.MaxIdleConnsPerHost == tr.MaxConnsPerHost && tr.MaxConnsPerHost > 0, "as many idle connections as there may be"},
		{"F88", tr.MaxIdleConns >= tr.MaxIdleConnsPerHost, "as many idle connections as there may be"},
		{"F93", tr.MaxConnsPerHost > 0, "a bounded number of connections"},
	} {
		if !c.ok {
			t.Errorf("%s: want %s", c.fault, c.want)
		}
	}

	authority := wiretest.NewAuthority(t)
	proxy := &url.URL{Scheme: "http", Host: "127.0.0.1:3128"}
	set := payclient.NewTransport(payclient.TransportConfig{
		MaxConnections: 7, IdleTimeout: 5 * time.Second, DialTimeout: time.Second, ResponseHeaderTimeout: 2 * time.Second,
		RootCAs: authority.Pool(), Proxy: proxy,
	})
	to, err := set.Proxy(&http.Request{URL: &url.URL{Scheme: "https", Host: "localhost"}})
	if err != nil || to.String() != proxy.String() {
		t.Errorf("the proxy that was set: %v, %v; want %v for every host", to, err, proxy)
	}
	if set.MaxConnsPerHost != 7 || set.MaxIdleConnsPerHost != 7 || set.IdleConnTimeout != 5*time.Second ||
		set.TLSHandshakeTimeout != time.Second || set.ResponseHeaderTimeout != 2*time.Second || set.TLSClientConfig.RootCAs == nil {
		t.Error("a setting was not taken over")
	}
}

// A server that would rather speak HTTP/2 gets HTTP/1.1, so that F08, F09 and F76 to F84 cannot happen.
func TestWireF08F76HTTP1IsSpoken(t *testing.T) {
	t.Parallel()
	authority := wiretest.NewAuthority(t)
	offered := make(chan []string, 1)
	config := &tls.Config{
		Certificates: []tls.Certificate{authority.Certificate(time.Now().Add(time.Hour))}, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
	}
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		offered <- hello.SupportedProtos
		return nil, nil
	}
	server := wiretest.ListenTLS(t, config, approveAll)
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
		c.Transport = payclient.NewTransport(payclient.TransportConfig{RootCAs: authority.Pool()})
	})
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.Approved {
		t.Errorf("%v, %v; want approved", res.Outcome, err)
	}
	if got := <-offered; slices.Contains(got, "h2") {
		t.Errorf("offered %q, want no HTTP/2", got)
	}
	r.checkRequests(server, res)
	r.drained(server)
}

// The client's own transport is bounded by its settings and by the provider's idle time-out, and Close gives its
// connections back.
func TestWireF13F90CloseGivesConnectionsBack(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, approveAll)
	p, err := standard.New(standard.Config{Token: payclient.NewSecret(wireToken), IdleTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	client, err := payclient.New(payclient.Config{Provider: p, Store: new(attempt.Memory), BaseURL: server.URL()})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := client.Pay(t.Context(), wireIntent("1001")); err != nil || res.Outcome != payclient.Approved {
		t.Errorf("%v, %v; want approved", res.Outcome, err)
	}
	if err := client.Close(t.Context()); err != nil {
		t.Error(err)
	}
	server.Drained()
}

// No secret is in the URL, and nothing of the request says where the last one went: F17. The credential is in one header.
func TestWireF17SecretsStayOutOfURLs(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		for {
			q, ok := c.Request()
			if !ok {
				return
			}
			if q.Method() == http.MethodPost {
				c.Say(wireProblem(500, "internal"))
				continue
			}
			c.Say(wiretest.Answer(200, "application/json", `{"data":[],"has_more":false}`))
		}
	})
	r := wireClient(t, server.URL(), func(_ *payclient.Config, a *standard.Config) { a.NoLookup = false })
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.UnknownOutcome {
		t.Errorf("%v, %v; want unknown", res.Outcome, err)
	}
	seen := map[string]int{}
	for _, q := range server.Requests() {
		seen[q.Method()]++
		if strings.Contains(q.Line, wireToken) || strings.Contains(q.Line, wireSource) || strings.Contains(q.Line, res.Key) {
			t.Errorf("request line %q holds a secret", q.Line)
		}
		for _, f := range q.Fields {
			secret := strings.Contains(f, wireToken) || strings.Contains(f, wireSource)
			if secret != strings.HasPrefix(f, "Authorization: ") {
				t.Errorf("header %q", f)
			}
		}
		if q.Method() == http.MethodGet && (q.Header("Idempotency-Key") != nil || len(q.Body) > 0) {
			t.Errorf("a lookup carries a key or a body: %q", q.Fields)
		}
	}
	if seen[http.MethodPost] != 1 || seen[http.MethodGet] != 1 {
		t.Errorf("requests %v, want one charge and one lookup", seen)
	}
	r.drained(server)
}

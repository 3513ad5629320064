package payclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// TransportConfig configures [NewTransport]. The zero value is what the client uses by itself.
type TransportConfig struct {
	// MaxConnections bounds connections, idle ones included. Zero: 256.
	MaxConnections int
	// IdleTimeout closes idle connections; it must be well under the provider's, or requests meet closed connections.
	// Zero: 20 s.
	IdleTimeout time.Duration
	// DialTimeout bounds connecting, the TLS handshake its own time. Zero: 3 s.
	DialTimeout time.Duration
	// ResponseHeaderTimeout bounds the wait for an answer's headers. Zero: none but the send's own.
	ResponseHeaderTimeout time.Duration
	// RootCAs replaces the system's trusted roots. Nil: the system's, which SSL_CERT_FILE and SSL_CERT_DIR may replace.
	RootCAs *x509.CertPool
	// ClientCertificates are presented if the provider asks.
	ClientCertificates []tls.Certificate
	// CloseAfterUse makes a connection for each request. It costs a handshake a payment, and no answer to another request
	// can arrive on it, nor be quoted by net/http in the process's default logger.
	CloseAfterUse bool
	// Proxy sends everything through an HTTP proxy. Nil: none. The environment's proxy settings are never used.
	Proxy *url.URL
}

// NewTransport returns a Transport fit for payments: HTTP/1.1, TLS 1.2 or later, no proxy from the environment, no
// transparent compression, small limits on headers, every wait bounded.
func NewTransport(cfg TransportConfig) *http.Transport {
	connections := orDefault(cfg.MaxConnections, 256)
	dial := orDefault(cfg.DialTimeout, 3*time.Second)
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	t := &http.Transport{
		DialContext:            (&net.Dialer{Timeout: dial, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:    dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: cfg.RootCAs, Certificates: cfg.ClientCertificates},
		Protocols:              protocols,
		DisableCompression:     true,
		DisableKeepAlives:      cfg.CloseAfterUse,
		MaxResponseHeaderBytes: 64 << 10,
		ResponseHeaderTimeout:  cfg.ResponseHeaderTimeout,
		IdleConnTimeout:        orDefault(cfg.IdleTimeout, 20*time.Second),
		MaxConnsPerHost:        connections,
		MaxIdleConnsPerHost:    connections,
		MaxIdleConns:           connections,
	}
	if cfg.Proxy != nil {
		t.Proxy = http.ProxyURL(cfg.Proxy)
		t.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
			if resp.StatusCode != http.StatusOK {
				return &proxyError{resp.StatusCode}
			}
			return nil
		}
	}
	return t
}

// proxyError says that the proxy refused to connect to the provider. Without it the error is the proxy's status text and
// reads like the provider's answer.
type proxyError struct {
	status int
}

func (e *proxyError) Error() string {
	return fmt.Sprintf("the proxy answered CONNECT with status %d", e.status)
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// parseBaseURL checks an address that payments go to: https, or http to this machine; no user, query or fragment.
func parseBaseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err // the address itself may hold a secret
		}
		return nil, fmt.Errorf("not a URL: %w", err)
	}
	switch {
	case u.Host == "" || u.Hostname() == "":
		return nil, errors.New("no host in it, want https://host[:port][/path]")
	case strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '%' }):
		return nil, errors.New("a host that is no name or address, want ASCII (a name of another script in its xn-- form) and no zone")
	case u.User != nil:
		return nil, errors.New("holds a user or password, want credentials in the provider's own setting")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("holds a query or fragment, want none")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, errors.New("http is for this machine only, want https")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("scheme %q, want https", u.Scheme)
	}
	return u, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

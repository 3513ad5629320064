package events

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/signing"
)

// WebhookConfig configures [Webhook]. URL, Secrets and Attempts are required.
type WebhookConfig struct {
	// URL is the receiver: https, or http to this machine. It may hold a query, which no error shows.
	URL string
	// Secrets are those under which each delivery is signed: the current one, and during a replacement the former too. At most 8.
	Secrets []Secret
	// Attempts is where an event's attempt is read: the store.
	Attempts Reader
	// Timeout bounds a delivery, from the connection to the end of the answer. It must be shorter than three quarters of the
	// relay's lease, which ends a call as well. Zero: 20 s; Standard Webhooks 1.0.0, "Request timeouts", recommends 15 s to 30 s.
	Timeout time.Duration
	// Transport sends. Nil: one with every wait and size bounded, without a proxy, also none of the environment's. No redirect
	// is followed, whatever the Transport.
	Transport http.RoundTripper
	// Now is the clock of the timestamp that is signed. Nil: time.Now.
	Now func() time.Time
}

// DefaultTimeout bounds a delivery.
const DefaultTimeout = 20 * time.Second

const (
	maxAnswer  = 4 << 10 // read of an answer's body, so that the connection can be used again; nothing of it counts
	maxHeader  = 64 << 10
	maxSecrets = 8
)

// Event types are full-stop delimited: Standard Webhooks 1.0.0, "Event types".
const typePrefix = "attempt."

// Payload is the body of a delivery, as JSON: Standard Webhooks 1.0.0, "Payload structure".
type Payload struct {
	Type      string    `json:"type"`      // "attempt." and Record.What
	Timestamp time.Time `json:"timestamp"` // Record.At
	Data      Record    `json:"data"`
}

// Webhook returns a func for [attempt.Relay] that posts each event to a receiver, with a [Payload] as its body, signed as
// Standard Webhooks 1.0.0 describes it (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md):
// HMAC-SHA256 over id, timestamp and body, under each of the secrets. The header webhook-id is the same whenever an event is
// delivered again, and no other event's; webhook-timestamp is the time of the delivery.
//
// The receiver has taken an event when it answers with a status from 200 to 299. Any other answer, a redirect too, and none is
// an error, and the relay delivers again; of an answer's body nothing is kept. The func is safe for concurrent use.
//
// Webhook reports every mistake in the configuration at once.
func Webhook(cfg WebhookConfig) (func(context.Context, attempt.Event) error, error) {
	w := &webhook{attempts: cfg.Attempts, timeout: cfg.Timeout, transport: cfg.Transport, now: cfg.Now}
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	var err error
	if w.url, err = receiver(cfg.URL); err != nil {
		fail("URL: %w", err)
	}
	if w.keys, err = keysOf(cfg.Secrets); err != nil {
		errs = append(errs, err)
	}
	if missing(cfg.Attempts) {
		fail("Attempts: missing, want the store")
	}
	switch {
	case cfg.Timeout < 0:
		fail("Timeout: %s is negative", cfg.Timeout)
	case cfg.Timeout == 0:
		w.timeout = DefaultTimeout
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("events: webhook: %w", err)
	}
	if w.transport == nil {
		w.transport = newTransport()
	}
	if w.now == nil {
		w.now = time.Now
	}
	return w.deliver, nil
}

func missing(r Reader) bool {
	if r == nil {
		return true
	}
	v := reflect.ValueOf(r)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

func keysOf(secrets []Secret) (keys [][]byte, err error) {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch n := len(secrets); {
	case n == 0:
		fail("Secrets: none, want at least one")
	case n > maxSecrets:
		fail("Secrets: %d, want at most %d", n, maxSecrets)
	}
	keys, mistakes := signing.Keys(secrets)
	errs = append(errs, mistakes...)
	return keys, errors.Join(errs...)
}

// receiver checks an address that events go to. Its errors hold nothing of it: a webhook's address is often a secret.
func receiver(text string) (*url.URL, error) {
	if text == "" {
		return nil, errors.New("missing, want https://host[:port]/path")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("no URL can be read from it")
	case u.Hostname() == "":
		return nil, errors.New("no host in it, want https://host[:port]/path")
	case u.User != nil:
		return nil, errors.New("holds a user or password, which would not be sent")
	case u.Fragment != "":
		return nil, errors.New("holds a fragment, which would not be sent")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, errors.New("http is for this machine only, want https")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("want https")
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

func newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:    5 * time.Second,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		Protocols:              protocols,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		MaxConnsPerHost:        16,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        20 * time.Second,
	}
}

type webhook struct {
	url       *url.URL
	keys      [][]byte
	attempts  Reader
	timeout   time.Duration
	transport http.RoundTripper
	now       func() time.Time
}

func (w *webhook) deliver(ctx context.Context, e attempt.Event) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	r, err := RecordOf(ctx, w.attempts, e)
	if err != nil {
		return fmt.Errorf("events: webhook: %w", err)
	}
	body, err := encode(Payload{Type: typePrefix + string(r.What), Timestamp: r.At, Data: r})
	if err != nil {
		return fmt.Errorf("events: webhook: %w", err)
	}
	status, err := w.post(ctx, eventID(e), body)
	if err != nil {
		return fmt.Errorf("events: webhook: post: %w", err)
	}
	if status < 200 || status > 299 {
		return fmt.Errorf("events: webhook: the receiver answered with status %d", status)
	}
	return nil
}

// eventID names an event. It holds no full stop, which is what separates the parts that are signed.
func eventID(e attempt.Event) string { return "evt_" + e.AttemptID + "_" + strconv.Itoa(e.Version) }

// post returns the receiver's status. The Transport is called directly, so that no redirect is followed and no error shows the URL.
func (w *webhook) post(ctx context.Context, id string, body []byte) (int, error) {
	at := strconv.FormatInt(w.now().Unix(), 10)
	u := *w.url
	req := (&http.Request{
		Method: http.MethodPost, URL: &u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":      {"application/json"},
			"User-Agent":        {"chargeonce"},
			"Webhook-Id":        {id},
			"Webhook-Timestamp": {at},
			"Webhook-Signature": {w.sign(id, at, body)},
		},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		// A connection that the receiver has closed meanwhile is no failure: net/http may send once more, under the same id.
		GetBody: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil },
	}).WithContext(ctx)
	resp, err := w.transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	// What it says, and how it ends, changes nothing.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, nil
}

// sign returns the signature header: an entry for each key.
func (w *webhook) sign(id, timestamp string, body []byte) string {
	signatures := make([]string, len(w.keys))
	for i, key := range w.keys {
		signatures[i] = signing.Sign(key, id, timestamp, body)
	}
	return strings.Join(signatures, " ")
}

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/timeout"
	"github.com/hashicorp/go-retryablehttp"
	"github.com/stripe/stripe-go/v85"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// bank answers every charge at once, with the fields of the request. It does as little as a provider can.
type bank struct {
	charges atomic.Int64
	delay   time.Duration
}

func (k *bank) answer(body []byte) []byte {
	reference := field(body, `"merchant_reference":"`)
	if reference == nil {
		reference = []byte("none")
	}
	out := make([]byte, 0, 200)
	out = append(out, `{"id":"ch_`...)
	out = strconv.AppendInt(out, k.charges.Add(1), 10)
	out = append(out, `","object":"charge","status":"succeeded","amount":54890,"currency":"TRY","merchant_reference":"`...)
	out = append(out, reference...)
	return append(out, `","created":1700000000}`...)
}

func field(body []byte, name string) []byte {
	i := bytes.Index(body, []byte(name))
	if i < 0 {
		return nil
	}
	rest := body[i+len(name):]
	return rest[:bytes.IndexByte(rest, '"')]
}

func readBody(r io.Reader, length int64) ([]byte, error) {
	if length < 0 {
		return io.ReadAll(r)
	}
	body := make([]byte, length)
	_, err := io.ReadFull(r, body)
	return body, err
}

// RoundTrip answers in memory, with the hooks that a real transport calls.
func (k *bank) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(req.Context())
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(req.URL.Host)
	}
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Reused: true})
	}
	body, err := readBody(req.Body, req.ContentLength)
	if err != nil {
		return nil, err
	}
	answer := k.answer(body)
	return &http.Response{
		StatusCode: http.StatusCreated, Status: "201 Created", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(answer)),
		Body: io.NopCloser(bytes.NewReader(answer)),
	}, nil
}

type wireCharge struct {
	ID        string `json:"id,omitempty"`
	Status    string `json:"status,omitempty"`
	Amount    int64  `json:"amount"`
	Currency  string `json:"currency"`
	Source    string `json:"source,omitempty"`
	Reference string `json:"merchant_reference"`
}

func transport(callers int) *http.Transport {
	return payclient.NewTransport(payclient.TransportConfig{MaxConnections: callers + 1})
}

// post is what one writes by hand: JSON, a key, a deadline, the body read whole, JSON.
func post(url string, n *atomic.Int64, do func(*http.Request) (*http.Response, error)) func() error {
	return func() error {
		ref := "order-" + strconv.FormatInt(n.Add(1), 10)
		body, err := json.Marshal(wireCharge{Amount: 54890, Currency: "TRY", Source: "tok_visa", Reference: ref})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/charges", bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer sk_test")
		req.Header.Set("Idempotency-Key", `"`+ref+`"`)
		resp, err := do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		var got wireCharge
		if err := json.Unmarshal(text, &got); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusCreated || got.Status != "succeeded" || got.Reference != ref {
			return fmt.Errorf("answer %d %+v", resp.StatusCode, got)
		}
		return nil
	}
}

func bare(url string, t http.RoundTripper) contender {
	client := &http.Client{Transport: t}
	return contender{"bare", post(url, new(atomic.Int64), client.Do)}
}

//nolint:bodyclose // policies of answers, not answers
func failsafeHTTP(url string, t http.RoundTripper) contender {
	retry := failsafehttp.NewRetryPolicyBuilder().WithBackoff(time.Second, 5*time.Second).WithMaxRetries(3).Build()
	breaker := circuitbreaker.NewBuilder[*http.Response]().WithFailureRateThreshold(0.1, 100, time.Minute).Build()
	client := &http.Client{Transport: failsafehttp.NewRoundTripper(t, retry, breaker, timeout.New[*http.Response](3*time.Second))}
	return contender{"failsafehttp", post(url, new(atomic.Int64), client.Do)}
}

func retryableHTTP(url string, t http.RoundTripper) contender {
	client := retryablehttp.NewClient()
	client.HTTPClient = &http.Client{Transport: t}
	client.Logger = nil
	return contender{"retryablehttp", post(url, new(atomic.Int64), func(req *http.Request) (*http.Response, error) {
		wrapped, err := retryablehttp.FromRequest(req)
		if err != nil {
			return nil, err
		}
		return client.Do(wrapped)
	})}
}

func stripeGo(url string, t http.RoundTripper) contender {
	backends := stripe.NewBackendsWithConfig(&stripe.BackendConfig{
		URL: stripe.String(url), HTTPClient: &http.Client{Transport: t}, EnableTelemetry: stripe.Bool(false),
		LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	})
	client := stripe.NewClient("sk_test_bench", stripe.WithBackends(backends))
	return contender{"stripe-go", func() error {
		params := &stripe.ChargeCreateParams{Amount: stripe.Int64(54890), Currency: stripe.String("try"), Source: &stripe.PaymentSourceSourceParams{Token: stripe.String("tok_visa")}}
		charge, err := client.V1Charges.Create(context.Background(), params)
		if err != nil {
			return err
		}
		if charge.Status != stripe.ChargeStatusSucceeded {
			return fmt.Errorf("status %q", charge.Status)
		}
		return nil
	}}
}

// noStore runs every step on what the caller believes and keeps nothing: the client without a store, to measure the client
// alone. It must never be used to pay.
type noStore struct{}

var errNothingKept = errors.New("nothing is kept")

func (noStore) Apply(_ context.Context, steps ...*attempt.Step) error {
	for _, s := range steps {
		v := attempt.View{Now: time.Now().UTC().Truncate(time.Microsecond)}
		if s.Guess != nil {
			v.Attempts = unsafe.Slice(s.Guess, 1)
		}
		if _, s.Err = s.Do(v); s.Err != nil {
			return s.Err
		}
	}
	return nil
}
func (noStore) Attempt(context.Context, string) (attempt.Attempt, error) {
	return attempt.Attempt{}, errNothingKept
}
func (noStore) Slot(context.Context, attempt.Slot) (attempt.View, error) {
	return attempt.View{}, errNothingKept
}
func (noStore) Events(context.Context, string) ([]attempt.Event, error) { return nil, errNothingKept }
func (noStore) List(context.Context, attempt.Filter) iter.Seq2[attempt.Attempt, error] {
	return func(func(attempt.Attempt, error) bool) {}
}
func (noStore) Sent(context.Context, attempt.Place, time.Time, time.Time) iter.Seq2[attempt.Sent, error] {
	return func(func(attempt.Sent, error) bool) {}
}
func (noStore) TakeDue(context.Context, int, time.Duration, ...attempt.Place) (attempt.View, error) {
	return attempt.View{}, errNothingKept
}
func (noStore) Briefs(context.Context, []string, []string) ([]attempt.Brief, error) {
	return nil, errNothingKept
}
func (noStore) Notes(context.Context, attempt.NoteFilter) ([]attempt.Note, error) {
	return nil, errNothingKept
}
func (noStore) AddRelay(context.Context, string) error    { return errNothingKept }
func (noStore) RemoveRelay(context.Context, string) error { return errNothingKept }
func (noStore) TakeUndelivered(context.Context, string, int, time.Duration) ([]attempt.Event, error) {
	return nil, errNothingKept
}
func (noStore) Delivered(context.Context, string, string, int, time.Duration) error {
	return errNothingKept
}
func (noStore) Lag(context.Context, string) (attempt.RelayLag, error) {
	return attempt.RelayLag{}, errNothingKept
}
func (noStore) Close() error { return nil }

func chargeonce(b testing.TB, name, url string, t http.RoundTripper, store attempt.Store) contender {
	b.Helper()
	adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("sk_test")})
	if err != nil {
		b.Fatal(err)
	}
	client, err := payclient.New(payclient.Config{Provider: adapter, Store: store, BaseURL: url, Transport: t, MaxConcurrent: 512})
	if err != nil {
		b.Fatal(err)
	}
	amount := money.MustParse("548.90", "TRY")
	source := attempt.Token("tok_visa")
	n := new(atomic.Int64)
	return contender{name, func() error {
		order := "order-" + strconv.FormatInt(n.Add(1), 10)
		res, err := client.Pay(context.Background(), attempt.Intent{Order: order, Amount: amount, Source: source})
		if err != nil {
			return err
		}
		if res.Outcome != payclient.Approved {
			return fmt.Errorf("outcome %s %s %s", res.Outcome, res.Reason, res.Attempt.Answer.Detail)
		}
		return nil
	}}
}

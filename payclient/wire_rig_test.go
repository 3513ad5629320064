package payclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/wiretest"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

const (
	wireToken  = "sk_wire_0123456789"
	wireSource = "tok_wire_visa"
	wireMinor  = 54890
	wireCode   = "TRY"
)

// wireRig is a client over real sockets, with all that it did.
type wireRig struct {
	t         *testing.T
	store     *attempt.Memory
	transport http.RoundTripper
	client    *payclient.Client

	mu   sync.Mutex
	sent map[string][]attempt.Send // by attempt id; guarded by mu
}

// wireClient makes a client that sends once, cannot look up, has no breaker and waits next to nothing between requests;
// edit may change all of it. It shares nothing with other clients but the transport, if edit sets one.
func wireClient(t *testing.T, url string, edit func(*payclient.Config, *standard.Config)) *wireRig {
	t.Helper()
	r := &wireRig{t: t, store: new(attempt.Memory), sent: make(map[string][]attempt.Send)}
	adapter := standard.Config{Token: payclient.NewSecret(wireToken), NoLookup: true}
	cfg := payclient.Config{
		Store: r.store, BaseURL: url, Environment: "rig", Retries: -1, FirstWait: time.Millisecond, MaxWait: 2 * time.Millisecond,
		SendTimeout: 5 * time.Second, CallTimeout: 20 * time.Second,
		Breaker:  payclient.BreakerConfig{FailurePercent: -1},
		Observer: payclient.Observer{Sent: r.saw},
	}
	if edit != nil {
		edit(&cfg, &adapter)
	}
	if cfg.Transport == nil {
		cfg.Transport = payclient.NewTransport(payclient.TransportConfig{})
	}
	r.transport = cfg.Transport
	if cfg.Provider == nil {
		p, err := standard.New(adapter)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Provider = p
	}
	var err error
	if r.client, err = payclient.New(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := r.client.Close(ctx); err != nil {
			t.Errorf("close the client: %v", err)
		}
		r.closeIdle()
	})
	return r
}

func (r *wireRig) saw(_ context.Context, a attempt.Attempt, s attempt.Send) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent[a.ID] = append(r.sent[a.ID], s)
}

func (r *wireRig) closeIdle() {
	if t, ok := r.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

func (r *wireRig) pay(order string) (payclient.Result, error) {
	return r.client.Pay(r.t.Context(), wireIntent(order))
}

func wireIntent(order string) attempt.Intent {
	amount, err := money.New(wireMinor, wireCode)
	if err != nil {
		panic(err)
	}
	return attempt.Intent{Order: order, Amount: amount, Source: attempt.Token(wireSource)}
}

// warm pays an order well, so that the transport has a connection that was used before.
func (r *wireRig) warm() {
	r.t.Helper()
	if res, err := r.pay("warm"); err != nil || res.Outcome != payclient.Approved {
		r.t.Fatalf("the payment before: %v (%s), %v", res.Outcome, res.Reason, err)
	}
}

// log returns the requests that an attempt made, as the observer was told, and makes sure that the same is stored.
func (r *wireRig) log(id string) []attempt.Send {
	r.t.Helper()
	r.mu.Lock()
	told := slices.Clone(r.sent[id])
	r.mu.Unlock()
	events, err := r.store.Events(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	var stored []attempt.Send
	for _, e := range events {
		if e.Evidence != nil && e.Evidence.Kind == attempt.EvidenceSends {
			stored = append(stored, e.Evidence.Sends...)
		}
	}
	if got, want := wireJSON(r.t, stored), wireJSON(r.t, told); got != want {
		r.t.Errorf("requests stored: %s\nrequests told:   %s", got, want)
	}
	return told
}

func wireJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// verdicts returns a log in short: "lost/timeout charged/".
func wireVerdicts(log []attempt.Send) string {
	var words []string
	for _, s := range log {
		words = append(words, s.Verdict.String()+"/"+string(s.Reason))
	}
	return strings.Join(words, " ")
}

// posts returns the charge requests with an order's reference.
func wirePosts(server *wiretest.Server, reference string) []wiretest.Request {
	var posts []wiretest.Request
	for _, q := range server.Requests() {
		if q.Method() == http.MethodPost && strings.Contains(string(q.Body), `"`+reference+`"`) {
			posts = append(posts, q)
		}
	}
	return posts
}

// checkRequests holds what must be true of the requests of one attempt, whatever became of them: each request that arrived
// is one of the log and the other way round, all carry the attempt's key once, in quotes, the same bytes, and nothing that
// a browser would add.
func (r *wireRig) checkRequests(server *wiretest.Server, res payclient.Result) {
	r.t.Helper()
	posts := wirePosts(server, res.Reference)
	left := 0
	log := r.log(res.AttemptID)
	for _, s := range log {
		if s.Verdict != attempt.NotSent {
			left++
		}
	}
	if len(posts) != left {
		r.t.Errorf("%d requests arrived, the log has %d that may have: %s", len(posts), left, wireVerdicts(log))
	}
	if res.Sends != len(log) {
		r.t.Errorf("the result counts %d sends, the log has %d", res.Sends, len(log))
	}
	for _, q := range posts {
		if got, want := q.Header("Idempotency-Key"), []string{`"` + res.Key + `"`}; !slices.Equal(got, want) {
			r.t.Errorf("Idempotency-Key: %q, want %q", got, want)
		}
		if !bytes.Equal(q.Body, posts[0].Body) {
			r.t.Errorf("body %q differs from the first one %q", q.Body, posts[0].Body)
		}
		if got, want := q.Header("Content-Length"), []string{fmt.Sprint(len(q.Body))}; !slices.Equal(got, want) {
			r.t.Errorf("Content-Length: %q, want %q", got, want)
		}
		if q.Line != "POST /v1/charges HTTP/1.1" {
			r.t.Errorf("request line %q", q.Line)
		}
		for _, name := range []string{"Expect", "Referer", "Cookie", "Accept-Encoding", "Transfer-Encoding"} {
			if got := q.Header(name); got != nil {
				r.t.Errorf("%s: %q, want no such header", name, got)
			}
		}
	}
}

// drained closes what the transport keeps and makes sure that the server has no connection left.
func (r *wireRig) drained(servers ...*wiretest.Server) {
	r.t.Helper()
	r.closeIdle()
	for _, s := range servers {
		s.Drained()
	}
}

// wireCharge is a charge object that echoes a request; change may spoil it.
func wireCharge(q wiretest.Request, change ...func(map[string]any)) string {
	var sent struct {
		Amount    int64  `json:"amount"`
		Currency  string `json:"currency"`
		Reference string `json:"merchant_reference"`
	}
	if err := json.Unmarshal(q.Body, &sent); err != nil {
		return "the request's body is no JSON: " + err.Error()
	}
	charge := map[string]any{
		"id": "ch_000001", "status": "succeeded", "amount": sent.Amount, "currency": sent.Currency,
		"merchant_reference": sent.Reference, "created": "2026-03-01T12:00:00Z",
	}
	for _, c := range change {
		c(charge)
	}
	b, err := json.Marshal(charge)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// wireSet spoils one member of a charge.
func wireSet(name string, value any) func(map[string]any) {
	return func(m map[string]any) { m[name] = value }
}

// wireApprove is the whole right answer to a request.
func wireApprove(q wiretest.Request, fields ...string) string {
	return wiretest.Answer(http.StatusCreated, "application/json", wireCharge(q), fields...)
}

// wireProblem is an error in the API's own words.
func wireProblem(status int, code string, more ...string) string {
	b := map[string]any{"type": "urn:wire:" + code, "title": "X", "status": status, "code": code}
	for i := 0; i+1 < len(more); i += 2 {
		b[more[i]] = more[i+1]
	}
	text, _ := json.Marshal(b) // of strings and a number
	return wiretest.Answer(status, "application/problem+json", string(text))
}

// wireReference is the reference that a request names.
func wireReference(q wiretest.Request) string {
	var sent struct {
		Reference string `json:"merchant_reference"`
	}
	_ = json.Unmarshal(q.Body, &sent) // an empty reference shows it
	return sent.Reference
}

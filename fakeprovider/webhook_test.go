package fakeprovider_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

var (
	webhookKey    = []byte("twenty-four bytes of key")
	webhookSecret = "whsec_" + base64.StdEncoding.EncodeToString(webhookKey)
)

// receiver takes events and answers as it is told to.
type receiver struct {
	mu      sync.Mutex
	got     []string // type, reference and time since the start
	ids     []string
	bodies  []string
	bad     int // signatures that do not match
	stale   int // timestamps more than 5 minutes off
	answers []int
	start   time.Time
	each    func(*http.Request)
}

func newReceiver(answers ...int) *receiver { return &receiver{start: time.Now(), answers: answers} }

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	each := r.each
	r.mu.Unlock()
	if each != nil {
		each(req)
	}
	var e struct {
		ID   string
		Type string
		Data struct {
			Reference string `json:"merchant_reference"`
		}
	}
	if err := json.Unmarshal(body, &e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h := hmac.New(sha256.New, webhookKey)
	fmt.Fprintf(h, "%s.%s.%s", req.Header.Get("webhook-id"), req.Header.Get("webhook-timestamp"), body)
	var at int64
	_, _ = fmt.Sscan(req.Header.Get("webhook-timestamp"), &at)

	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.got = append(r.got, fmt.Sprint(e.Type, " ", e.Data.Reference, " ", now.Sub(r.start)))
	r.ids = append(r.ids, e.ID)
	r.bodies = append(r.bodies, string(body))
	if req.Header.Get("webhook-signature") != "v1,"+base64.StdEncoding.EncodeToString(h.Sum(nil)) || e.ID != req.Header.Get("webhook-id") {
		r.bad++
	}
	if d := now.Unix() - at; d > 300 || d < -300 {
		r.stale++
	}
	if len(r.answers) > 0 {
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(r.answers[0])
		r.answers = r.answers[1:]
	}
}

func (r *receiver) seen() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.got, ", ")
}

func (r *receiver) seenIDs() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.ids, " ")
}

// copy is what has arrived so far.
func (r *receiver) copy() *receiver {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &receiver{got: slices.Clone(r.got), ids: slices.Clone(r.ids), bodies: slices.Clone(r.bodies), bad: r.bad, stale: r.stale}
}

// wrong counts the signatures and timestamps to be refused.
func (r *receiver) wrong() int {
	c := r.copy()
	return c.bad + c.stale
}

// then sets what the next deliveries get, and what happens at each.
func (r *receiver) then(each func(*http.Request), answers ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.each, r.answers = each, answers
}

func withWebhook(r *receiver) fakeprovider.Config {
	return fakeprovider.Config{Webhook: fakeprovider.WebhookConfig{Handler: r, Secret: webhookSecret}}
}

func TestWebhookTellsEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver()
		bank := fakeprovider.New(withWebhook(r))
		defer bank.Close()
		c := call(t, bank)
		step := func(what string) {
			t.Helper()
			time.Sleep(time.Second)
			r.mu.Lock()
			defer r.mu.Unlock()
			want(t, "events", strings.Join(r.got, ", "), what)
			r.got, r.start = nil, time.Now()
		}
		c.pay("k1", "r1", "tok_visa")
		step("charge.succeeded r1 100ms")
		want(t, "body", r.copy().bodies[0], `{"id":"evt_000001","type":"charge.succeeded","created":"2000-01-01T00:00:00Z","data":`+
			c.do("GET", "/v1/charges/ch_000001", "", "").body+`}`)
		c.pay("k1", "r1", "tok_visa") // a replay is no news
		c.pay("k2", "r2", "tok_declined")
		step("charge.failed r2 100ms")
		c.pay("k3", "r3", "tok_requires_action")
		step("charge.pending r3 100ms")
		for range 2 { // the second time nothing changes
			if err := bank.Settle("ch_000003", fakeprovider.Succeeded); err != nil {
				t.Fatal(err)
			}
		}
		step("charge.succeeded r3 100ms")
		c.pay("k4", "r4", "tok_pending_then_failed_500ms")
		step("charge.pending r4 100ms, charge.failed r4 600ms")
		c.pay("k5", "r5", "tok_pending")
		c.void("ch_000005")
		c.void("ch_000005")
		step("charge.pending r5 100ms, charge.failed r5 100ms")
		want(t, "voided", strings.Contains(r.copy().bodies[7], `"decline_code":"voided"`), true)
		c.refund("f1", "f1", "ch_000001", 400)
		step("refund.succeeded f1 100ms")
		bank.Script("book-after:300ms+book-twice+book+close")
		c.pay("k6", "r6", "tok_visa")
		step("charge.succeeded r6 400ms, charge.succeeded r6 400ms")
		bank.Script("close")
		c.pay("k7", "r7", "tok_visa")
		step("")
		want(t, "signatures", r.wrong(), 0)
		want(t, "ids", r.seenIDs(), "evt_000001 evt_000002 evt_000003 evt_000004 evt_000005 evt_000006 evt_000007 evt_000008 evt_000009 evt_000010 evt_000011")
		want(t, "waiting", bank.WaitingWebhooks(), 0)
		want(t, "deliveries", len(bank.Webhooks()), 11)
		d := bank.Webhooks("r2")
		want(t, "of r2", fmt.Sprintln(len(d), d[0].Event, d[0].Record, d[0].Attempt, d[0].Status, d[0].Header.Get("webhook-id")), "1 evt_000002 ch_000002 1 200 evt_000002\n")
		want(t, "of ch_000001", len(bank.Webhooks("ch_000001")), 1)
	})
}

// An event is delivered until it is acknowledged, as the specification's
// example schedule says, with a timestamp of its own each time.
func TestWebhookRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(500, 302, 404, 410, 503, 400, 199, 500, 500, 500)
		bank := fakeprovider.New(withWebhook(r))
		defer bank.Close()
		call(t, bank).pay("k1", "r1", "tok_visa")
		want(t, "waiting", bank.WaitingWebhooks(), 1)
		time.Sleep(200 * time.Hour)
		var times []string
		for _, at := range []string{
			"100ms", "5.1s", "5m5.1s", "35m5.1s", "2h35m5.1s", "7h35m5.1s", "17h35m5.1s",
		} {
			times = append(times, "charge.succeeded r1 "+at)
		}
		want(t, "deliveries", r.seen(), strings.Join(times, ", ")) // the seventh answered 199, which net/http's server turns into a final 200
		want(t, "one id", r.seenIDs(), strings.Repeat("evt_000001 ", 6)+"evt_000001")
		want(t, "signatures", r.wrong(), 0)
		d := bank.Webhooks()
		want(t, "first", fmt.Sprint(d[0].Attempt, d[0].Status, d[0].Next.Sub(d[0].Time)), "1 500 5s")
		want(t, "last", fmt.Sprint(d[6].Attempt, d[6].Status, d[6].Next.IsZero()), "7 200 true")

		r.mu.Lock()
		r.answers, r.got = []int{500, 500, 500, 500, 500, 500, 500, 500, 500, 500}, nil
		r.mu.Unlock()
		call(t, bank).pay("k2", "r2", "tok_visa")
		time.Sleep(75*time.Hour + 36*time.Minute)
		want(t, "given up", fmt.Sprint(len(bank.Webhooks("r2")), bank.WaitingWebhooks()), "10 0")
		time.Sleep(1000 * time.Hour)
		want(t, "for good", len(bank.Webhooks("r2")), 10)
	})
}

// What is no answer has the event delivered again too.
func TestWebhookFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		c := withWebhook(newReceiver())
		c.Webhook.Handler = nil
		c.Webhook.URL = "https://shop.test/hooks?a=b"
		c.Webhook.Retries = []time.Duration{time.Second, time.Second, time.Second}
		c.Webhook.Send = func(req *http.Request) (*http.Response, error) {
			calls++
			want(t, "URL", req.URL.String(), "https://shop.test/hooks?a=b")
			switch calls {
			case 1:
				return nil, errors.New("no way")
			case 2:
				<-req.Context().Done()
				return nil, req.Context().Err()
			case 3:
				return nil, nil
			}
			return &http.Response{StatusCode: 204}, nil
		}
		bank := fakeprovider.New(c)
		defer bank.Close()
		start := time.Now()
		call(t, bank).pay("k1", "r1", "tok_visa")
		time.Sleep(time.Minute)
		var got []string
		for _, d := range bank.Webhooks() {
			got = append(got, fmt.Sprint(d.Time.Sub(start), " ", d.Error, d.Status))
		}
		want(t, "deliveries", strings.Join(got, ", "),
			"100ms no way0, 1.1s context deadline exceeded0, 17.1s no answer and no error0, 18.1s 204")
	})
}

func TestWebhookHandlerThatCuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withWebhook(newReceiver())
		calls := 0
		c.Webhook.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			want(t, "as a server sees it", fmt.Sprintln(r.Method, r.Host, r.URL, r.RequestURI), "POST merchant /webhooks /webhooks\n")
			switch calls++; calls {
			case 1:
				panic(http.ErrAbortHandler)
			case 2:
				time.Sleep(20 * time.Second) // longer than the provider waits
			case 3:
				w.WriteHeader(http.StatusEarlyHints)
				w.Write([]byte("and then 200")) //nolint:errcheck // it cannot fail
			}
		})
		bank := fakeprovider.New(c)
		defer bank.Close()
		call(t, bank).pay("k1", "r1", "tok_visa")
		time.Sleep(time.Hour)
		d := bank.Webhooks()
		want(t, "calls", calls, 3)
		want(t, "cut", d[0].Error, "unexpected EOF: the handler cut the answer off")
		want(t, "too late", d[1].Error, "context deadline exceeded")
		want(t, "acknowledged", d[2].Status, 200)
	})
}

// webhookCases says what each fault does to the events about a charge that is
// pending for a second and then succeeds.
var webhookCases = []struct {
	fault  fakeprovider.Fault
	events string
	bad    int
	stale  int
}{
	{"answer", "charge.pending r 100ms, charge.succeeded r 1.1s", 0, 0},
	{fakeprovider.WebhookLost, "", 0, 0},
	{fakeprovider.WebhookFirst, "charge.pending r 0s, charge.succeeded r 1s", 0, 0},
	{fakeprovider.WebhookReordered, "charge.succeeded r 1.1s, charge.pending r 1.1s", 0, 0},
	{fakeprovider.WebhookLate(10 * time.Minute), "charge.pending r 10m0.1s, charge.succeeded r 10m1.1s", 0, 0},
	{fakeprovider.WebhookTwice, "charge.pending r 100ms, charge.pending r 100ms, charge.succeeded r 1.1s, charge.succeeded r 1.1s", 0, 0},
	{fakeprovider.WebhookBadSignature, "charge.pending r 100ms, charge.succeeded r 1.1s", 2, 0},
	{"webhook-bad-signature:1+webhook-twice", "charge.pending r 100ms, charge.pending r 100ms, charge.succeeded r 1.1s, charge.succeeded r 1.1s", 2, 0},
	{fakeprovider.WebhookStale, "charge.pending r 100ms, charge.succeeded r 1.1s", 0, 2},
	{"webhook-stale:299s", "charge.pending r 100ms, charge.succeeded r 1.1s", 0, 0},
	{"lose-answer+webhook-late:1s", "charge.pending r 1.1s, charge.succeeded r 2.1s", 0, 0},
	{"slow:3s+webhook-first", "charge.pending r 0s, charge.succeeded r 1s", 0, 0},
}

func TestWebhookFaults(t *testing.T) {
	for _, test := range webhookCases {
		synctest.Test(t, func(t *testing.T) {
			r := newReceiver()
			bank := fakeprovider.New(withWebhook(r))
			defer bank.Close()
			bank.Script(test.fault)
			call(t, bank).pay("k", "r", "tok_pending_then_succeeded_1s")
			time.Sleep(2 * time.Hour)
			want(t, string(test.fault), r.seen(), test.events)
			want(t, string(test.fault)+": bad signatures", r.copy().bad, test.bad)
			want(t, string(test.fault)+": stale", r.copy().stale, test.stale)
			want(t, string(test.fault)+": waiting", bank.WaitingWebhooks(), 0)
			if d := bank.Webhooks("r"); test.fault == "webhook-lost" {
				want(t, "kept in mind", fmt.Sprintln(len(d), d[0].Lost, d[0].Attempt, d[0].Fault), "2 true 0 webhook-lost\n")
			}
		})
	}
}

func TestWebhookFaultNames(t *testing.T) {
	for _, f := range []string{
		"webhook-late", "webhook-late:-1s", "webhook-lost+webhook-first", "webhook-bad-signature:0", "webhook-bad-signature:x",
		"webhook-stale:x", "webhook-twice:2",
	} {
		if _, err := fakeprovider.ParseFault(f); err == nil {
			t.Errorf("%s was taken", f)
		}
	}
}

// The event is there before the answer, on every way in.
func TestWebhookFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver()
		r.each = func(*http.Request) { time.Sleep(2 * time.Second) }
		bank := fakeprovider.New(withWebhook(r))
		defer bank.Close()
		tr := bank.Transport()
		defer tr.CloseIdleConnections()
		for i, rt := range []http.RoundTripper{bank, tr} {
			start := time.Now()
			bank.Script("webhook-first")
			want(t, "pay", call(t, rt).pay(fmt.Sprint("k", i), fmt.Sprint("r", i), "tok_visa"), "201")
			want(t, "after the webhook", time.Since(start), 2*time.Second)
			want(t, "delivered", len(bank.Webhooks(fmt.Sprint("r", i))), 1)
			start = time.Now()
			want(t, "replay", call(t, rt).pay(fmt.Sprint("k", i), fmt.Sprint("r", i), "tok_visa"), "201 replayed")
			want(t, "waits for nothing", time.Since(start), time.Duration(0))
		}
		// Who does not wait is charged all the same.
		bank.Script("webhook-first")
		client := &http.Client{Transport: bank, Timeout: time.Second}
		if resp, err := client.Do(replayable(t, "http://bank", "k", "gone")); err == nil {
			resp.Body.Close()
			t.Error("an answer before the webhook")
		}
		time.Sleep(time.Minute)
		want(t, "charged", charges(bank, "gone"), 1)
	})
}

// A void request's own word counts for its event, else that of the charge.
func TestWebhookFaultOfVoid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver()
		bank := fakeprovider.New(withWebhook(r))
		defer bank.Close()
		c := call(t, bank)
		bank.Script("webhook-late:1s", "webhook-late:1m", "answer", "webhook-late:10s")
		c.pay("k1", "r1", "tok_pending")
		c.void("ch_000001")
		c.pay("k2", "r2", "tok_pending")
		c.void("ch_000002")
		time.Sleep(time.Hour)
		want(t, "events", r.seen(), "charge.pending r2 100ms, charge.pending r1 1.1s, charge.failed r2 10.1s, charge.failed r1 1m0.1s")
	})
}

// What is held back for an event that never comes is an hour late.
func TestWebhookReorderedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver()
		bank := fakeprovider.New(withWebhook(r))
		defer bank.Close()
		bank.Script("webhook-reordered")
		call(t, bank).pay("k", "r", "tok_visa")
		time.Sleep(2 * time.Hour)
		want(t, "events", r.seen(), "charge.succeeded r 1h0m0s")
	})
}

func TestWebhookSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := t.TempDir() + "/ledger.db"
		r := newReceiver(200, 500, 500, 500, 500, 500)
		config := withWebhook(r)
		bank := open(t, file, config)
		c := call(t, bank)
		c.pay("k1", "r1", "tok_visa") // acknowledged
		time.Sleep(time.Second)
		c.pay("k2", "r2", "tok_pending_then_succeeded_1s") // neither event is
		time.Sleep(2 * time.Second)
		bank.Script("webhook-lost")
		c.pay("k3", "r3", "tok_visa")
		c.pay("k4", "r4", "tok_pending_then_succeeded_1h") // the change comes while nobody runs
		bank.Close()
		want(t, "before", r.seenIDs(), "evt_000001 evt_000002 evt_000003")

		bank = open(t, file, fakeprovider.Config{}) // without a webhook nothing is lost
		want(t, "waiting", bank.WaitingWebhooks(), 3)
		bank.Close()
		time.Sleep(2 * time.Hour)
		for range 2 { // what was acknowledged now does not come again
			r.mu.Lock()
			r.answers, r.got, r.ids, r.start = nil, nil, nil, time.Now()
			r.mu.Unlock()
			bank = open(t, file, config)
			time.Sleep(time.Minute)
			bank.Close()
			if r.seen() != "" {
				want(t, "after", r.seen(), "charge.pending r2 100ms, charge.succeeded r2 100ms, charge.pending r4 100ms, charge.succeeded r4 100ms")
				want(t, "ids", r.seenIDs(), "evt_000002 evt_000003 evt_000005 evt_000006")
			}
		}
		want(t, "nothing again", r.seen(), "")
		bank = open(t, file, config)
		call(t, bank).pay("k5", "r5", "tok_visa")
		time.Sleep(time.Minute)
		want(t, "ids go on", r.seenIDs(), "evt_000007")
		want(t, "signatures", r.copy().bad, 0)
	})
}

// Wherever the ledger file ends, a charge that is in it has its event.
func TestTornFileKeepsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := t.TempDir() + "/ledger.db"
		bank := open(t, file, withWebhook(newReceiver(500, 500, 500)))
		c := call(t, bank)
		c.pay("k1", "r1", "tok_pending")
		c.pay("k2", "r2", "tok_visa")
		c.void("ch_000001")
		bank.Close()
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for end := 0; end <= len(whole); end += 13 {
			if err := os.WriteFile(file, whole[:end], 0o600); err != nil {
				t.Fatal(err)
			}
			r := newReceiver()
			bank := open(t, file, withWebhook(r))
			time.Sleep(time.Second)
			expected := charges(bank) + 2*len(bank.Declines()) // voided: it was pending before
			want(t, fmt.Sprint("events, torn at ", end), len(r.copy().ids), expected)
			bank.Close()
		}
	})
}

// The rewritten ledger file keeps what waits, and the number of the last event
// although nothing waits.
func TestWebhookSurvivesCompaction(t *testing.T) {
	for _, answer := range []int{500, 200} {
		synctest.Test(t, func(t *testing.T) {
			waiting := map[int]int{500: 1, 200: 0}[answer]
			file := t.TempDir() + "/ledger.db"
			r := newReceiver()
			bank := open(t, file, withWebhook(r))
			c := call(t, bank)
			c.pay("k1", "r1", "tok_pending")
			for i := range 1500 {
				if err := bank.Settle("ch_000001", []fakeprovider.State{"succeeded", "pending"}[i%2]); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			want(t, "told", len(r.copy().ids), 1501)
			r.then(nil, answer)
			c.pay("k2", "r2", "tok_visa")
			time.Sleep(time.Second)
			bank.Close()
			for range 2 {
				bank = open(t, file, withWebhook(r))
				want(t, "waiting", bank.WaitingWebhooks(), waiting)
				bank.Close()
			}
			info, err := os.Stat(file)
			if err != nil || info.Size() > 20000 {
				t.Errorf("the file is not written anew: %d bytes, %v", info.Size(), err)
			}
			bank = open(t, file, withWebhook(r))
			call(t, bank).pay("k3", "r3", "tok_visa")
			time.Sleep(time.Second)
			ids := r.copy().ids
			want(t, "events", len(ids), 1503+waiting)
			want(t, "ids go on", ids[len(ids)-1], "evt_001503")
		})
	}
}

func TestWebhookReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver(500)
		bank := fakeprovider.New(withWebhook(r))
		defer bank.Close()
		c := call(t, bank)
		c.pay("k1", "r1", "tok_visa")
		time.Sleep(time.Second) // failed once, waits
		slow := sync.OnceFunc(func() { time.Sleep(time.Second) })
		r.then(func(*http.Request) { slow() })
		c.pay("k2", "r2", "tok_visa")
		time.Sleep(500 * time.Millisecond) // being delivered
		if err := bank.Reset(); err != nil {
			t.Fatal(err)
		}
		want(t, "waiting", len(bank.Webhooks()), 0)
		time.Sleep(time.Hour)
		want(t, "events", len(r.copy().ids), 2)
		c.pay("k1", "r1", "tok_visa")
		time.Sleep(time.Second)
		want(t, "anew", r.copy().ids[2], "evt_000001")
		want(t, "deliveries", len(bank.Webhooks()), 1)
	})
}

// Close ends what is being delivered, and who waits for it.
func TestWebhookClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := withWebhook(nil)
		c.Webhook.Handler = nil
		c.Webhook.Send = func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		bank := fakeprovider.New(c)
		bank.Script("webhook-first", "answer")
		answered := make(chan reply, 1)
		go func() { answered <- call(t, bank).pay("k1", "r1", "tok_visa") }()
		time.Sleep(time.Second)
		call(t, bank).pay("k2", "r2", "tok_visa")
		start := time.Now()
		if err := bank.Close(); err != nil {
			t.Fatal(err)
		}
		want(t, "at once", time.Since(start), time.Duration(0))
		want(t, "answer", <-answered, "error: fakeprovider: provider is closed")
		time.Sleep(time.Hour)
		want(t, "deliveries", len(bank.Webhooks()), 1)
		if err := bank.Settle("ch_000001", fakeprovider.Failed); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		want(t, "none after the end", fmt.Sprint(len(bank.Webhooks()), bank.WaitingWebhooks()), "1 2")
	})
}

// On sockets: a server of its own posts to another one.
func TestServerWebhook(t *testing.T) {
	r := newReceiver(http.StatusTemporaryRedirect)
	told := make(chan string, 4)
	r.each = func(req *http.Request) { told <- req.URL.Path + " " + req.Header.Get("Content-Type") }
	shop := httptest.NewServer(r)
	defer shop.Close()
	c, srv := serve(t, fakeprovider.ServerConfig{
		WebhookURL: shop.URL + "/hooks", WebhookSecret: webhookSecret,
		Provider: fakeprovider.Config{Webhook: fakeprovider.WebhookConfig{Retries: []time.Duration{0}, Delay: -1}},
	})
	want(t, "pay", c.pay("k1", "r1", "tok_visa"), "201")
	for range 2 { // a redirect is no acknowledgement, and is not followed
		want(t, "told", <-told, "/hooks application/json")
	}
	want(t, "pay", c.pay("k2", "r2", "tok_visa"), "201")
	<-told // so that the answer to the one before is read
	if r.wrong() > 0 {
		t.Error("not signed as it should be")
	}
	var list struct {
		Deliveries []fakeprovider.Delivery
		Waiting    int
	}
	if err := json.Unmarshal([]byte(c.do("GET", "/_fake/webhooks", "", "").body), &list); err != nil {
		t.Fatal(err)
	}
	want(t, "control", fmt.Sprint(list.Deliveries[0].Status, list.Deliveries[1].Status, list.Waiting <= 1), "307 200 true")
	want(t, "no secret in it", strings.Contains(fmt.Sprint(list, srv.Provider().Ledger()), webhookSecret), false)
}

// Every charge is told of once, however many are made at a time.
func TestWebhookOfManyCharges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReceiver()
		bank := fakeprovider.New(withWebhook(r))
		defer bank.Close()
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				call(t, bank).pay(fmt.Sprint("k", i), fmt.Sprint("r", i), "tok_visa")
				time.Sleep(50 * time.Millisecond)
				call(t, bank).refund(fmt.Sprint("f", i), fmt.Sprint("f", i), fmt.Sprintf("ch_%06d", i+1), 1)
			})
		}
		wg.Wait()
		time.Sleep(time.Second)
		ids := r.copy().ids
		want(t, "in the order in which they were made", slices.IsSorted(ids), true)
		want(t, "each once", fmt.Sprint(len(slices.Compact(ids)), ids[399]), "400evt_000400")
		want(t, "signatures", r.wrong(), 0)
		want(t, "waiting", bank.WaitingWebhooks(), 0)
	})
}

func TestWebhookConfigIsChecked(t *testing.T) {
	handler := newReceiver()
	for _, test := range []struct {
		config fakeprovider.WebhookConfig
		says   []string
	}{
		{fakeprovider.WebhookConfig{}, nil},
		{fakeprovider.WebhookConfig{Secret: "unused"}, nil},
		{fakeprovider.WebhookConfig{Handler: handler, Secret: webhookSecret}, nil},
		{fakeprovider.WebhookConfig{Handler: handler}, []string{"Webhook.Secret: want whsec_ and base64"}},
		{fakeprovider.WebhookConfig{Handler: handler, Secret: "whsec_%%%"}, []string{"Webhook.Secret: what follows whsec_ is no base64"}},
		{fakeprovider.WebhookConfig{Handler: handler, Secret: "whsec_c2hvcnQ="}, []string{"Webhook.Secret: 5 bytes: want 24 to 64"}},
		{fakeprovider.WebhookConfig{URL: "127.0.0.1/x", Secret: "x", Timeout: -1, Retries: []time.Duration{-1}},
			[]string{"Webhook.URL", "Webhook.Secret", "Webhook.Retries", "Webhook.Timeout"}},
		{fakeprovider.WebhookConfig{URL: "ftp://a/x", Secret: webhookSecret}, []string{"no absolute http"}},
		{fakeprovider.WebhookConfig{URL: "http://a b/", Secret: webhookSecret}, []string{"Webhook.URL"}},
		{fakeprovider.WebhookConfig{Handler: handler, Send: http.DefaultClient.Do, Secret: webhookSecret}, []string{"only one can take the events"}},
	} {
		err := test.config.Validate()
		if (err == nil) != (test.says == nil) {
			t.Errorf("%+v: %v", test.config, err)
		}
		for _, s := range test.says {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%+v: %v, want %q", test.config, err, s)
			}
		}
		if err == nil {
			continue
		}
		if _, opened := fakeprovider.Open(t.TempDir()+"/l", fakeprovider.Config{Webhook: test.config}); opened == nil {
			t.Error("Open took it")
		}
		if server := (fakeprovider.ServerConfig{Provider: fakeprovider.Config{Webhook: test.config}}).Validate(); server == nil {
			t.Error("ServerConfig took it")
		}
	}
	defer func() {
		if v := fmt.Sprint(recover()); !strings.Contains(v, "Webhook.Secret") {
			t.Errorf("New: %s", v)
		}
	}()
	fakeprovider.New(fakeprovider.Config{Webhook: fakeprovider.WebhookConfig{Handler: handler}})
}

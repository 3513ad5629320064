package fakeprovider_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/jarcoal/httpmock"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

// charge sends one charge and says what came of it.
func charge(client *http.Client, key, source string) string {
	body := `{"amount":54890,"currency":"TRY","source":"` + source + `","merchant_reference":"INV-7"}`
	req, err := http.NewRequest("POST", "http://bank/v1/charges", strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Authorization", "Bearer secret")
	req.Header.Set("Idempotency-Key", `"`+key+`"`)
	resp, err := client.Do(req)
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil {
		return "half an answer"
	}
	return fmt.Sprint(resp.StatusCode, " replayed=", resp.Header.Get("Idempotent-Replayed"))
}

// The bank charges, the answer is lost, and the same key finds the charge.
func Example() {
	bank := fakeprovider.New(fakeprovider.Config{})
	bank.Script(fakeprovider.LoseAnswer, fakeprovider.Answer)
	client := bank.Client()

	fmt.Println(charge(client, "key-1", "tok_visa"))
	fmt.Println(charge(client, "key-1", "tok_visa"))
	fmt.Println("charges:", len(bank.Charges("INV-7")), "keys:", bank.DistinctKeys())
	// Output:
	// no answer
	// 201 replayed=true
	// charges: 1 keys: 1
}

// The faults of a script are written as on a command line or in a scenario
// file.
func ExampleParseScript() {
	steps, err := fakeprovider.ParseScript("book+status:500 2*running answer")
	if err != nil {
		fmt.Println(err)
		return
	}
	bank := fakeprovider.New(fakeprovider.Config{})
	bank.Script(steps...)
	client := bank.Client()
	for range steps {
		fmt.Println(charge(client, "key-1", "tok_visa"))
	}
	fmt.Println("charges:", len(bank.Charges("INV-7")))
	// Output:
	// 500 replayed=
	// 409 replayed=
	// 409 replayed=
	// 201 replayed=true
	// charges: 1
}

// A client that sends without keys is charged twice, and the books say so.
func ExampleConfig_keyless() {
	bank := fakeprovider.New(fakeprovider.Config{IgnoreKeys: true})
	bank.Script(fakeprovider.LoseAnswer)
	client := bank.Client()

	fmt.Println(charge(client, "key-1", "tok_visa"))
	fmt.Println(charge(client, "key-1", "tok_visa"))
	fmt.Println("charges:", len(bank.Charges("INV-7")))
	// Output:
	// no answer
	// 201 replayed=
	// charges: 2
}

// On a socket the connection itself misbehaves.
func ExampleProvider_ServeHTTP() {
	bank := fakeprovider.New(fakeprovider.Config{})
	server := httptest.NewServer(bank)
	defer server.Close()
	defer bank.Close()
	bank.ScriptFor(fakeprovider.Match{Reference: "INV-7"}, fakeprovider.CutBody(30), fakeprovider.Reset)
	bank.ScriptFor(fakeprovider.Lookups, fakeprovider.LookupEmpty)

	client := &http.Client{Transport: rebase(server.URL)}
	fmt.Println(charge(client, "key-1", "tok_visa"))
	fmt.Println(charge(client, "key-1", "tok_visa"))
	fmt.Println(charge(client, "key-1", "tok_visa"))
	fmt.Println("charges:", len(bank.Charges()), "requests:", bank.RequestCount(), "not used:", bank.Unused())
	// Output:
	// half an answer
	// no answer
	// 201 replayed=true
	// charges: 1 requests: 3 not used: [lookup-empty for GET]
}

// The same provider behind httpmock.
func ExampleProvider_Responder() {
	bank := fakeprovider.New(fakeprovider.Config{})
	mock := httpmock.NewMockTransport()
	mock.RegisterResponder("POST", "http://bank/v1/charges", bank.Responder()) //nolint:bodyclose // a function, not an answer
	client := &http.Client{Transport: mock}

	fmt.Println(charge(client, "key-1", "tok_insufficient_funds"))
	fmt.Println("charges:", len(bank.Charges()), "declined:", bank.Declines()[0].DeclineCode)
	// Output:
	// 402 replayed=
	// charges: 0 declined: insufficient_funds
}

// Faults drawn at random are the same on every run: what the n-th request of a
// key gets depends on the seed and the key alone.
func ExampleProvider_Draw() {
	bank := fakeprovider.New(fakeprovider.Config{})
	bank.Draw(fakeprovider.Draw{Seed: 7, Rate: 0.5, Faults: []fakeprovider.Fault{fakeprovider.LoseAnswer, fakeprovider.Status(503)}})
	client := bank.Client()
	for _, key := range []string{"a", "b", "c"} {
		for range 3 {
			charge(client, key, "tok_visa")
		}
		var faults []fakeprovider.Fault
		for _, r := range bank.Requests(key) {
			faults = append(faults, r.Fault)
		}
		fmt.Printf("%s %q\n", key, faults)
	}
	// Output:
	// a ["status:503" "lose-answer" ""]
	// b ["status:503" "lose-answer" "status:503"]
	// c ["lose-answer" "status:503" ""]
}

// A server of its own, as the CLI runs it.
func ExampleListenAndServe() {
	ctx, stop := context.WithCancel(context.Background())
	err := fakeprovider.ListenAndServe(ctx, fakeprovider.ServerConfig{
		Listen: "127.0.0.1:0",
		Mode:   fakeprovider.ModeDecline,
		Ready: func(addr string) {
			go func() {
				defer stop()
				fmt.Println(charge(&http.Client{Transport: rebase("http://" + addr)}, "key-1", "tok_visa"))
			}()
		},
	})
	fmt.Println(err)
	// Output:
	// 402 replayed=
	// <nil>
}

// The charge is made, its answer is lost, and the webhook tells of it twice.
func ExampleWebhookConfig() {
	told := make(chan string)
	shop := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var event struct{ Type string }
		if err := json.Unmarshal(body, &event); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		told <- r.Header.Get("webhook-id") + " " + event.Type
	})
	bank := fakeprovider.New(fakeprovider.Config{Webhook: fakeprovider.WebhookConfig{
		Handler: shop,
		Secret:  "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz",
	}})
	defer bank.Close()
	bank.Script("lose-answer+webhook-twice")

	fmt.Println(charge(bank.Client(), "key-1", "tok_visa"))
	fmt.Println(<-told)
	fmt.Println(<-told)
	// Output:
	// no answer
	// evt_000001 charge.succeeded
	// evt_000001 charge.succeeded
}

// The provider's report lacks one charge and has one that nobody made.
func ExampleProvider_WriteReport() {
	opened := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	bank := fakeprovider.New(fakeprovider.Config{Now: func() time.Time { return opened }})
	charge(bank.Client(), "key-1", "tok_visa")
	charge(bank.Client(), "key-2", "tok_visa")

	if err := bank.WriteReport(os.Stdout, fakeprovider.ReportOptions{
		From: opened, To: opened.Add(time.Hour),
		LeaveOut: []string{"ch_000001"}, Foreign: 1,
	}); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Settlement report,fakeprovider
	// Period,2026-01-01T10:00:00Z,2026-01-01T11:00:00Z
	// id,reference,type,gross,fee,net,currency,created
	// ch_000002,INV-7,charge,548.90,7.93,540.97,TRY,2026-01-01T10:00:00Z
	// ch_900001,foreign-1,charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z
	// TOTAL,2,,,,,,
}

// rebase sends every request to one server, on a connection of its own.
func rebase(url string) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		to, err := req.URL.Parse(url + req.URL.Path)
		if err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.URL = to
		return (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

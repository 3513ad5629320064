package webhook_test

import (
	"context"
	"crypto/subtle"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/chargeonce/chargeonce/reconcile/webhook"
)

// The payer has to act at the bank. What became of it, the provider tells by a webhook.
func Example() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" // from the provider's settings page; never in the source code
	mux := http.NewServeMux()                               // the host's server

	bank := fakeprovider.New(fakeprovider.Config{
		Webhook: fakeprovider.WebhookConfig{URL: "http://shop.example/webhooks", Secret: secret, Handler: mux, Delay: -1},
	})
	defer bank.Close()
	provider, err := standard.New(standard.Config{Token: payclient.NewSecret("sk_test")})
	if err != nil {
		log.Fatal(err)
	}
	store := new(attempt.Memory) // a durable one in production
	client, err := payclient.New(payclient.Config{
		Provider: provider, Store: store, BaseURL: "https://provider.example", Transport: bank,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())

	told := make(chan webhook.Delivery, 2)
	events, err := webhook.New(webhook.Config{
		Store: store, Client: client,
		Secrets:  []webhook.Secret{webhook.NewSecret(secret)},
		Read:     standard.ReadEvent,
		Observer: webhook.Observer{Delivered: func(_ context.Context, d webhook.Delivery) { told <- d }},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("POST /webhooks", events)

	res, err := client.Pay(context.Background(), attempt.Intent{
		Order: "1001", Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token("tok_requires_action"),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("paid:", res.Outcome, res.Reason)
	d := <-told
	fmt.Println(d.Result, d.Notice.Type)

	if err := bank.Settle(res.ChargeID, fakeprovider.Succeeded); err != nil { // the payer has acted
		log.Fatal(err)
	}
	d = <-told
	fmt.Println(d.Result, d.Notice.Type, "-> attempt", d.Attempt.Status)
	// Output:
	// paid: unknown payer_action
	// stored charge.pending
	// stored charge.succeeded -> attempt approved
}

// A provider that signs in its own way needs a verifier of its own: here a shared token, for the sake of brevity.
func ExampleVerifier() {
	h, err := webhook.New(webhook.Config{
		Store: new(attempt.Memory), Place: attempt.Place{Provider: "own"},
		Verifier: tokenVerifier{},
		Read: func([]byte) (attempt.Notice, error) {
			return attempt.Notice{ID: "evt_1", Reference: "order-7", Charge: attempt.Charge{ID: "ch_1"}}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, token := range []string{"guessed", "right"} {
		r := httptest.NewRequest(http.MethodPost, "/webhooks", strings.NewReader("{}"))
		r.Header.Set("X-Token", token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(token, w.Code)
	}
	for o, err := range h.Orphans(context.Background()) {
		fmt.Println(o.EventID, o.Why, err)
	}
	// Output:
	// guessed 401
	// right 200
	// evt_1 not_ours <nil>
}

type tokenVerifier struct{}

func (tokenVerifier) Verify(header http.Header, _ []byte, _ time.Time) (string, error) {
	if subtle.ConstantTimeCompare([]byte(header.Get("X-Token")), []byte("right")) != 1 {
		return "", webhook.ErrForged
	}
	return "", nil // the payload tells the event's id
}

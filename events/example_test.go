package events_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/events"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/reconcile/webhook"
)

// shop is a store with one payment, and events that stand in its outbox for relays.
func shop(relays ...string) *attempt.Memory {
	ctx := context.Background()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	began := time.Now()
	store := &attempt.Memory{Now: func() time.Time { return at.Add(time.Since(began)) }}
	for _, name := range relays {
		if err := store.AddRelay(ctx, name); err != nil {
			panic(err)
		}
	}
	price := money.MustParse("548.90", "TRY")
	a := attempt.Attempt{
		ID: "0195519e-2a00-7000-8000-000000000001", Key: "0195519e-2a00-7000-8000-000000000002",
		Reference: "0195519e-2a00-7000-8000-000000000001", Slot: attempt.Slot{Order: "1001"}.WithDefaults(), Ordinal: 1,
		Amount: price, Provider: "standard", Status: attempt.StatusPrepared, Version: 1, CreatedAt: at, UpdatedAt: at,
	}
	paid := a.Grant(at, 15*time.Second, 2*time.Minute)
	paid, _ = attempt.Next(paid, attempt.Evidence{
		Kind: attempt.EvidenceLookup, At: at, AskedAt: at, Lookup: attempt.LookupFound,
		Charges: []attempt.Charge{{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: price}},
	})
	paid.Version = 2
	for _, w := range []attempt.Write{
		{Attempt: &a, Event: attempt.Event{AttemptID: a.ID, Version: 1, What: attempt.WhatStarted, From: attempt.StatusPrepared, To: attempt.StatusPrepared, At: at}},
		{Attempt: &paid, Event: attempt.Event{AttemptID: a.ID, Version: 2, What: attempt.WhatLearnt, From: attempt.StatusPrepared, To: attempt.StatusApproved, At: at}},
	} {
		err := store.Apply(ctx, &attempt.Step{Slot: a.Slot, Do: func(attempt.View) ([]attempt.Write, error) { return []attempt.Write{w}, nil }})
		if err != nil {
			panic(err)
		}
	}
	return store
}

// drain relays until nothing is left to deliver.
func drain(store attempt.Store, name string, deliver func(context.Context, attempt.Event) error) {
	ctx, cancel := context.WithCancel(context.Background())
	left := 2
	_ = attempt.Relay(ctx, store, name, func(ctx context.Context, e attempt.Event) error {
		err := deliver(ctx, e)
		if left--; left == 0 {
			cancel()
		}
		return err
	})
}

// What happens to payments, as lines of JSON. A service lets the relay run until it ends.
func ExampleJSONLines() {
	store := shop("log")
	drain(store, "log", events.JSONLines(os.Stdout, store))
	// Output:
	// {"schema":1,"attempt_id":"0195519e-2a00-7000-8000-000000000001","version":1,"what":"started","from":"prepared","to":"prepared","final":false,"at":"2026-03-01T12:00:00Z","duties":[],"order":"1001","account":"","purpose":"charge","refund":null,"amount":"548.90","amount_minor":54890,"currency":"TRY","attempt_version":2,"status":"approved","outcome":"approved","moved":"yes","reason":"","open":false,"charge_id":"ch_1"}
	// {"schema":1,"attempt_id":"0195519e-2a00-7000-8000-000000000001","version":2,"what":"learnt","from":"prepared","to":"approved","final":true,"at":"2026-03-01T12:00:00Z","duties":[],"order":"1001","account":"","purpose":"charge","refund":null,"amount":"548.90","amount_minor":54890,"currency":"TRY","attempt_version":2,"status":"approved","outcome":"approved","moved":"yes","reason":"","open":false,"charge_id":"ch_1"}
}

// Another service is told of each outcome, and proves that it was this one that told it.
func ExampleWebhook() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" // shared with the receiver; never in the source code
	verifier, err := webhook.NewStandard(0, webhook.NewSecret(secret))
	if err != nil {
		panic(err)
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		id, err := verifier.Verify(r.Header, body, time.Now())
		if err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Println(id[strings.LastIndex(id, "_")+1:], strings.Contains(string(body), `"moved":"yes"`))
		w.WriteHeader(http.StatusNoContent) // only now is the event taken
	}))
	defer receiver.Close()

	store := shop("fulfilment")
	post, err := events.Webhook(events.WebhookConfig{
		URL: receiver.URL + "/payments", Secrets: []events.Secret{events.NewSecret(secret)}, Attempts: store,
	})
	if err != nil {
		panic(err)
	}
	finals := func(ctx context.Context, e attempt.Event) error {
		if !e.Final() {
			return nil // the receiver wants outcomes only
		}
		return post(ctx, e)
	}
	drain(store, "fulfilment", finals)
	// Output: 2 true
}

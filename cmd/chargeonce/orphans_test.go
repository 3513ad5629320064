package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/chargeonce/chargeonce/reconcile/webhook"
)

type anyEvent struct{}

func (anyEvent) Verify(http.Header, []byte, time.Time) (string, error) { return "", nil }

// What a service has taken and what fits no attempt is listed; once the attempt is there, reconcile takes it up.
func TestEventsWithoutAnAttempt(t *testing.T) {
	db := filepath.Join(t.TempDir(), "x.db")
	books := `{"t":"books","id":"0123456789abcdef"}` + "\n"
	if err := os.WriteFile(db+".fake-ledger", []byte(books), 0o600); err != nil {
		t.Fatal(err)
	}
	s := defaults()
	s.provider, s.environment = providerFake, "fake-0123456789abcdef"
	place, err := s.place()
	if err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(t.Context(), db, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := webhook.New(webhook.Config{Store: store, Place: place, Verifier: anyEvent{}, Read: standard.ReadEvent})
	if err != nil {
		t.Fatal(err)
	}
	identity, err := attempt.NewIdentity("")
	if err != nil {
		t.Fatal(err)
	}
	for event, body := range map[string]string{
		"evt_1": fmt.Sprintf(`{"id":"evt_1","type":"charge.succeeded","created":"2026-01-01T00:00:00Z","data":{"id":"ch_1","status":"succeeded",`+
			`"amount":500,"currency":"EUR","merchant_reference":%q,"created":"2026-01-01T00:00:00Z"}}`, identity.Reference),
		"evt_2": `{"id":"evt_2","type":"charge.succeeded","created":"2026-01-01T00:00:00Z","data":{"id":"ch_2","status":"succeeded",` +
			`"amount":500,"currency":"EUR","merchant_reference":"foreign\u001b[2J","created":"2026-01-01T00:00:00Z"}}`,
	} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
		if answer.Code != http.StatusOK {
			t.Fatalf("%s: answered with %d", event, answer.Code)
		}
	}

	list := func() (orphans []map[string]any) {
		t.Helper()
		var out, talk bytes.Buffer
		args := []string{"attempts", "orphans", "--db", db, "--provider", "fake", "--environment", place.Environment, "--output", "json"}
		if code := run(t.Context(), args, streams{in: strings.NewReader(""), out: &out, err: &talk}, nil); code != exitOK {
			t.Fatalf("ended with code %d: %s", code, &talk)
		}
		if strings.Contains(out.String(), "\x1b") {
			t.Errorf("the list can drive a terminal: %q", &out)
		}
		if err := json.Unmarshal(out.Bytes(), &orphans); err != nil {
			t.Fatal(err)
		}
		return orphans
	}
	all := list()
	if len(all) == 0 || all[0]["event"] != "evt_1" || all[0]["provider_id"] != "ch_1" || all[0]["amount"] != "5.00" || all[0]["status"] != "succeeded" {
		t.Fatalf("%v", all)
	}

	// The attempt appears, as of a host's transaction that commits late.
	a := attempt.Attempt{
		Status: attempt.StatusPrepared, ID: identity.ID, Key: identity.Key, Reference: identity.Reference, Slot: attempt.Slot{Order: "1"}.WithDefaults(), Ordinal: 1,
		Amount: money.MustParse("5.00", "EUR"), Provider: place.Provider, ProviderAccount: place.Account, Environment: place.Environment, Version: 1,
	}
	err = store.Apply(t.Context(), &attempt.Step{Slot: a.Slot, Do: func(v attempt.View) ([]attempt.Write, error) {
		a.CreatedAt, a.UpdatedAt = v.Now, v.Now
		return []attempt.Write{{Attempt: &a, Event: attempt.Event{AttemptID: a.ID, Version: 1, What: attempt.WhatStarted, From: a.Status, To: a.Status, At: v.Now}}}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	var out, talk bytes.Buffer
	// A charge of an attempt that nobody sent is for a person.
	if code := run(t.Context(), []string{"reconcile", "--db", db, "--provider", "fake", "--environment", place.Environment}, streams{in: strings.NewReader(""), out: &out, err: &talk}, nil); code != exitUnknown {
		t.Errorf("ended with code %d: %s", code, &talk)
	}
	if !strings.Contains(talk.String(), "a person has to look: order 1, charge ch_1, 5.00 EUR (nobody sent)") {
		t.Errorf("told: %s", &talk)
	}
	if left := list(); len(left) != len(all)-1 {
		t.Errorf("%d events without an attempt, want %d", len(left), len(all)-1)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/reconcile/webhook"
)

// secretText is that of the reference libraries' tests
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/libraries/go/webhook_test.go).
const secretText = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// otherText stands for another key of 24 bytes.
const otherText = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"

var (
	epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	place = attempt.Place{Provider: "standard", Account: "acct_1", Environment: "test"}
	price = money.MustParse("19.99", "EUR")
)

// signature signs independently of the package.
func signature(secret, id, timestamp string, body []byte) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		panic(err)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// signedHeader is what a provider sends with an event.
func signedHeader(secret, id string, at time.Time, body []byte) http.Header {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	return http.Header{
		"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {signature(secret, id, timestamp, body)},
	}
}

// payload is an event as the standard provider writes it.
func payload(eventID, typ, chargeID, reference, status string, amount money.Amount) []byte {
	body, err := json.Marshal(map[string]any{
		"id": eventID, "type": typ, "created": "2026-03-01T12:00:00Z",
		"data": map[string]any{
			"id": chargeID, "status": status, "amount": amount.Minor(), "currency": amount.Currency(), "merchant_reference": reference,
			"source": "tok_visa",
		},
	})
	if err != nil {
		panic(err)
	}
	return body
}

// readEvent reads what payload writes, as an adapter would.
func readEvent(payload []byte) (attempt.Notice, error) {
	var e struct {
		ID   string `json:"id"`
		Type string `json:"type"`
		Data struct {
			ID          string `json:"id"`
			Status      string `json:"status"`
			Amount      int64  `json:"amount"`
			Currency    string `json:"currency"`
			Reference   string `json:"merchant_reference"`
			DeclineCode string `json:"decline_code"`
		} `json:"data"`
	}
	if err := json.Unmarshal(payload, &e); err != nil {
		return attempt.Notice{}, errors.New("no JSON")
	}
	kind, _, _ := strings.Cut(e.Type, ".")
	if kind != "charge" && kind != "refund" {
		return attempt.Notice{}, fmt.Errorf("type %q: %w", kind, attempt.ErrNoCharge)
	}
	n := attempt.Notice{ID: e.ID, Type: e.Type, Reference: e.Data.Reference, Refund: kind == "refund"}
	n.Charge = attempt.Charge{ID: e.Data.ID, DeclineCode: e.Data.DeclineCode}
	if err := n.Charge.Status.UnmarshalText([]byte(e.Data.Status)); err != nil {
		return attempt.Notice{}, errors.New("unknown status")
	}
	amount, err := money.Restore(e.Data.Amount, e.Data.Currency)
	if err != nil {
		return attempt.Notice{}, errors.New("unreadable amount")
	}
	n.Charge.Amount = amount
	return n, nil
}

// rig is an endpoint with a store behind it, whose clocks stand at now until somebody moves them.
type rig struct {
	t       *testing.T
	store   *failing
	handler *webhook.Handler
	made    int

	mu   sync.Mutex
	now  time.Time
	told []webhook.Delivery
}

func (r *rig) clock() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) after(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

func newRig(t *testing.T, change ...func(*webhook.Config)) *rig {
	t.Helper()
	return newRigOn(t, func(now func() time.Time) attempt.Store { return &attempt.Memory{Now: now} }, change...)
}

func newRigOn(t *testing.T, open func(now func() time.Time) attempt.Store, change ...func(*webhook.Config)) *rig {
	t.Helper()
	r := &rig{t: t, now: epoch}
	r.store = &failing{Store: open(r.clock)}
	t.Cleanup(func() {
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	r.handler = r.endpoint(change...)
	return r
}

// endpoint is another endpoint with the same store.
func (r *rig) endpoint(change ...func(*webhook.Config)) *webhook.Handler {
	r.t.Helper()
	cfg := webhook.Config{
		Store: r.store, Place: place, Secrets: []webhook.Secret{webhook.NewSecret(secretText)}, Read: readEvent, KeepsAnswers: true,
		Now: r.clock,
		Observer: webhook.Observer{Delivered: func(_ context.Context, d webhook.Delivery) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.told = append(r.told, d)
		}},
	}
	for _, f := range change {
		f(&cfg)
	}
	h, err := webhook.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// onStores runs a test on every store that works in one process.
func onStores(t *testing.T, f func(*testing.T, func(now func() time.Time) attempt.Store)) {
	t.Run("memory", func(t *testing.T) {
		f(t, func(now func() time.Time) attempt.Store { return &attempt.Memory{Now: now} })
	})
	t.Run("sqlite", func(t *testing.T) {
		f(t, func(now func() time.Time) attempt.Store {
			s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "attempts.db"), sqlite.Options{Now: now})
			if err != nil {
				t.Fatal(err)
			}
			return s
		})
	})
}

// failing is a store that fails when it is told to.
type failing struct {
	attempt.Store
	mu    sync.Mutex
	fails func(*attempt.Step) error
}

func (s *failing) failWith(f func(*attempt.Step) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = f
}

func (s *failing) Apply(ctx context.Context, steps ...*attempt.Step) error {
	s.mu.Lock()
	fails := s.fails
	s.mu.Unlock()
	if fails != nil {
		for _, step := range steps {
			if err := fails(step); err != nil {
				step.Err = err
				return err
			}
		}
	}
	return s.Store.Apply(ctx, steps...)
}

// start stores a prepared attempt.
func (r *rig) start(change ...func(*attempt.Attempt)) attempt.Attempt {
	r.t.Helper()
	a := r.mint(change...)
	r.put(a)
	return a
}

// mint makes an attempt and stores nothing.
func (r *rig) mint(change ...func(*attempt.Attempt)) attempt.Attempt {
	r.t.Helper()
	r.made++
	identity, err := attempt.NewIdentity("ord-")
	if err != nil {
		r.t.Fatal(err)
	}
	a := attempt.Attempt{
		ID: identity.ID, Key: identity.Key, Reference: identity.Reference,
		Slot: attempt.Slot{Order: strconv.Itoa(1000 + r.made), Purpose: attempt.PurposeCharge}, Ordinal: 1, Amount: price,
		Source: attempt.Digest{Sum: "digest"}, Provider: place.Provider, ProviderAccount: place.Account, Environment: place.Environment,
		Status: attempt.StatusPrepared, Version: 1, CreatedAt: r.clock(), UpdatedAt: r.clock(), NextCheckAt: r.clock().Add(24 * time.Hour),
		Body: []byte("{}"), BodyDigest: "d",
	}
	for _, f := range change {
		f(&a)
	}
	return a
}

func (r *rig) put(a attempt.Attempt) {
	r.t.Helper()
	step := &attempt.Step{Slot: a.Slot, Do: func(v attempt.View) ([]attempt.Write, error) {
		return []attempt.Write{{Attempt: &a, Event: attempt.Event{
			AttemptID: a.ID, Version: 1, What: attempt.WhatStarted, To: a.Status, At: v.Now,
		}}}, nil
	}}
	if err := r.store.Apply(r.t.Context(), step); err != nil {
		r.t.Fatal(err)
	}
}

// claim claims an attempt for sending, for 15 s.
func (r *rig) claim(id string) {
	r.t.Helper()
	step := &attempt.Step{ID: id, Do: func(v attempt.View) ([]attempt.Write, error) {
		before, _ := v.Find(id)
		after := before.Grant(v.Now, 15*time.Second, 2*time.Minute)
		after.Version++
		return []attempt.Write{{Attempt: &after, Event: attempt.Event{
			AttemptID: id, Version: after.Version, What: attempt.WhatClaimed, From: before.Status, To: after.Status, At: v.Now,
		}}}, nil
	}}
	if err := r.store.Apply(r.t.Context(), step); err != nil {
		r.t.Fatal(err)
	}
}

// record adds evidence as others do.
func (r *rig) record(id string, e attempt.Evidence) {
	r.t.Helper()
	if err := r.store.Apply(r.t.Context(), (&attempt.Record{ID: id, Evidence: e}).Step(nil)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) attempt(id string) attempt.Attempt {
	r.t.Helper()
	a, err := r.store.Attempt(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// is checks an attempt's status and version.
func (r *rig) is(id string, want attempt.Status, version int) attempt.Attempt {
	r.t.Helper()
	a := r.attempt(id)
	if a.Status != want || a.Version != version {
		r.t.Fatalf("attempt is %s (%s) at version %d, want %s at version %d", a.Status, a.Reason, a.Version, want, version)
	}
	return a
}

// post delivers a request in memory and checks that the answer has no body.
func (r *rig) post(header http.Header, body []byte) int {
	r.t.Helper()
	return r.do(r.handler, r.request(header, bytes.NewReader(body)))
}

func (r *rig) request(header http.Header, body io.Reader) *http.Request {
	req := httptest.NewRequestWithContext(r.t.Context(), http.MethodPost, "/webhooks", body)
	for name, values := range header {
		req.Header[name] = values
	}
	return req
}

func (r *rig) do(h http.Handler, req *http.Request) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	if w.Body.Len() > 0 {
		r.t.Errorf("the answer says %q, want nothing", w.Body)
	}
	return w.Code
}

// deliver signs an event now and posts it.
func (r *rig) deliver(id string, body []byte) int {
	r.t.Helper()
	return r.post(signedHeader(secretText, id, r.clock(), body), body)
}

// succeeded is the event that an attempt's charge has succeeded.
func succeeded(eventID, chargeID string, a attempt.Attempt) []byte {
	return payload(eventID, "charge.succeeded", chargeID, a.Reference, "succeeded", a.Amount)
}

func (r *rig) want(status, got int) {
	r.t.Helper()
	if got != status {
		r.t.Fatalf("answered %d, want %d (last: %+v)", got, status, r.last())
	}
}

func (r *rig) last() webhook.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.told) == 0 {
		return webhook.Delivery{}
	}
	return r.told[len(r.told)-1]
}

func (r *rig) orphans() []webhook.OrphanEvent {
	r.t.Helper()
	var all []webhook.OrphanEvent
	for o, err := range r.handler.Orphans(r.t.Context()) {
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

// notes returns all that was kept of the place's events.
func (r *rig) notes() []attempt.Note {
	r.t.Helper()
	notes, err := r.store.Notes(r.t.Context(), attempt.NoteFilter{Scope: "webhook:standard/acct_1/test", Limit: 10_000})
	if err != nil {
		r.t.Fatal(err)
	}
	return notes
}

// untouched checks that nothing is kept and the attempt is as it was.
func (r *rig) untouched(a attempt.Attempt) {
	r.t.Helper()
	r.is(a.ID, a.Status, a.Version)
	if notes := r.notes(); len(notes) > 0 {
		r.t.Fatalf("kept %s: %s", notes[0].ID, notes[0].Data)
	}
}

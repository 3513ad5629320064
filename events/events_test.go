package events_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/events"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/reconcile/webhook"
)

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	former = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

// readerFunc reads attempts as it likes.
type readerFunc func(id string) (attempt.Attempt, error)

func (f readerFunc) Attempt(_ context.Context, id string) (attempt.Attempt, error) { return f(id) }

// roundTrip is a receiver without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(status int, body io.Reader) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(body)}, nil
}

func historyOf(t *testing.T, store attempt.Store) []attempt.Event {
	t.Helper()
	list, err := store.Events(t.Context(), "0195519e-2a00-7000-8000-000000000001")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func target(t *testing.T, cfg events.WebhookConfig) func(context.Context, attempt.Event) error {
	t.Helper()
	if cfg.URL == "" {
		cfg.URL = "https://receiver.example/payments?token=hidden"
	}
	if cfg.Secrets == nil {
		cfg.Secrets = []events.Secret{events.NewSecret(secret)}
	}
	post, err := events.Webhook(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return post
}

func TestWebhookIsProvedByEachSecretAndNamesItsEventOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := shop()
		var seen []*http.Request
		var bodies [][]byte
		post := target(t, events.WebhookConfig{
			Secrets: []events.Secret{events.NewSecret(secret), events.NewSecret(former)}, Attempts: store,
			Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(r.Body)
				seen, bodies = append(seen, r), append(bodies, body)
				if err != nil || r.Method != http.MethodPost || r.ContentLength != int64(len(body)) || r.URL.RawQuery != "token=hidden" {
					t.Errorf("request %s %s, %d bytes of %d: %v", r.Method, r.URL, len(body), r.ContentLength, err)
				}
				return answer(http.StatusAccepted, strings.NewReader(""))
			}),
		})
		history := historyOf(t, store)
		for _, e := range []attempt.Event{history[0], history[0], history[1]} {
			if err := post(t.Context(), e); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		ids, times := make([]string, 3), make([]string, 3)
		for i, r := range seen {
			for _, text := range []string{secret, former} {
				v, err := webhook.NewStandard(0, webhook.NewSecret(text))
				if err != nil {
					t.Fatal(err)
				}
				id, err := v.Verify(r.Header, bodies[i], time.Now().Add(-time.Duration(3-i)*time.Hour))
				if err != nil {
					t.Errorf("delivery %d under %.9s...: %v", i, text, err)
				}
				ids[i] = id
			}
			times[i] = r.Header.Get("Webhook-Timestamp")
			var p events.Payload
			if err := strictly(bodies[i], &p); err != nil {
				t.Fatal(err)
			}
			if p.Type != "attempt."+string(p.Data.What) || !p.Timestamp.Equal(p.Data.At) || p.Data.AttemptID != history[0].AttemptID {
				t.Errorf("payload %+v", p)
			}
		}
		if ids[0] != ids[1] || ids[1] == ids[2] || strings.Contains(ids[0], ".") {
			t.Errorf("ids %q: want that of an event whenever it is delivered, and no other's", ids)
		}
		if times[0] == times[1] {
			t.Errorf("timestamps %q: want that of the delivery", times)
		}
	})
}

// strictly reads JSON and knows every field in it.
func strictly(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func TestWebhookIsTakenWithA2xxOnly(t *testing.T) {
	store := shop()
	e := historyOf(t, store)[1]
	for status, taken := range map[int]bool{200: true, 204: true, 299: true, 300: false, 302: false, 307: false, 400: false, 410: false, 429: false, 500: false} {
		sent := 0
		post := target(t, events.WebhookConfig{Attempts: store, Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			sent++
			resp, err := answer(status, strings.NewReader("what it says"))
			resp.Header.Set("Location", "https://elsewhere.example")
			return resp, err
		})})
		err := post(t.Context(), e)
		if taken != (err == nil) || sent != 1 {
			t.Errorf("status %d: %v after %d requests", status, err, sent)
		}
		if err != nil && (!strings.Contains(err.Error(), fmt.Sprint(status)) || strings.Contains(err.Error(), "what it says")) {
			t.Errorf("status %d: %v: want the status and nothing else of the answer", status, err)
		}
	}
}

func TestWebhookFollowsNoRedirectOnTheWire(t *testing.T) {
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	t.Setenv("HTTP_PROXY", other.URL)
	t.Setenv("HTTPS_PROXY", other.URL)
	receiver := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer receiver.Close()
	store := shop()
	post := target(t, events.WebhookConfig{URL: receiver.URL, Attempts: store})
	if err := post(t.Context(), historyOf(t, store)[0]); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("redirected: %v, want status 307", err)
	}
	if elsewhere != 0 {
		t.Errorf("%d requests went elsewhere", elsewhere)
	}
}

func TestWebhookErrorsHoldNothingOfTheAddress(t *testing.T) {
	store := shop()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	post := target(t, events.WebhookConfig{URL: closed.URL + "/path-secret?token=query-secret", Attempts: store})
	err := post(t.Context(), historyOf(t, store)[0])
	if err == nil || strings.Contains(err.Error(), "-secret") {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestWebhookEndsWithItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := shop()
		post := target(t, events.WebhookConfig{Attempts: store, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		began := time.Now()
		err := post(t.Context(), historyOf(t, store)[0])
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != events.DefaultTimeout {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// endless is a body that never ends.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

func TestWebhookReadsLittleOfAnAnswer(t *testing.T) {
	store, body := shop(), &endless{}
	post := target(t, events.WebhookConfig{Attempts: store, Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		return answer(http.StatusOK, body)
	})})
	if err := post(t.Context(), historyOf(t, store)[0]); err != nil || body.read > 64<<10 {
		t.Errorf("%v, %d bytes read", err, body.read)
	}
}

func TestWebhookReportsEveryMistake(t *testing.T) {
	_, err := events.Webhook(events.WebhookConfig{
		URL: "http://receiver.example/path-secret", Timeout: -1,
		Secrets: []events.Secret{{}, events.NewSecret(secret), events.NewSecret(secret), events.NewSecret("whsec_c2hvcnQ=")},
	})
	for _, want := range []string{"URL: http is for this machine only", "Secrets[0]: empty", "Secrets[2]: given twice", "Secrets[3]: stands for 5 bytes", "Attempts: missing", "Timeout: -1ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in: %v", want, err)
		}
	}
	if strings.Contains(fmt.Sprint(err), "-secret") {
		t.Errorf("shows the address: %v", err)
	}
	var none *attempt.Memory
	if _, err := events.Webhook(events.WebhookConfig{URL: "https://r.example", Attempts: none}); err == nil ||
		!strings.Contains(err.Error(), "Secrets: none") || !strings.Contains(err.Error(), "Attempts: missing") {
		t.Errorf("nothing behind the interface: %v", err)
	}
	for url, good := range map[string]bool{
		"https://receiver.example": true, "https://receiver.example/a?b=c": true, "http://127.0.0.1:80/": true, "http://[::1]/": true, "http://localhost": true,
		"": false, "receiver.example": false, "ftp://receiver.example": false, "http://127.0.0.1.receiver.example": false, "https://": false,
		"https://user:path-secret@receiver.example": false, "https://receiver.example/#part": false, "https://receiver.example/%zz": false, "//receiver.example": false,
	} {
		_, err := events.Webhook(events.WebhookConfig{URL: url, Attempts: shop(), Secrets: []events.Secret{events.NewSecret(secret)}})
		if good != (err == nil) || err != nil && strings.Contains(err.Error(), "path-secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestSecretCannotBePrinted(t *testing.T) {
	s := events.NewSecret(secret)
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "secret", s, "in", events.WebhookConfig{Secrets: []events.Secret{s}}.Secrets)
	text, err := json.Marshal(map[string]any{"s": s})
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprintf("%v %+v %#v %s %x", s, s, s, s, s), fmt.Sprintf("%v", []events.Secret{s}), logged.String(), string(text)} {
		if strings.Contains(shown, secret[6:]) || !strings.Contains(shown, "[secret]") {
			t.Errorf("shown: %s", shown)
		}
	}
}

// An event tells of a refund, and of a duty, and nothing that is nobody's business.
func TestRecordTellsNothingSecret(t *testing.T) {
	const hidden = "HIDDEN"
	price := money.MustParse("19.99", "EUR")
	a := attempt.Attempt{
		ID: "a1", Key: hidden, Reference: hidden, Slot: attempt.Slot{Order: "1001", Account: "shop <2>", Purpose: "refund"}, Amount: price,
		Description: hidden, Provider: hidden, ProviderAccount: hidden, Environment: hidden, Body: []byte(hidden), BodyDigest: hidden,
		Status: attempt.StatusDeclined, Version: 4, Refund: attempt.RefundOf{AttemptID: "a0", ChargeID: "ch_0", ID: "r1"},
		Answer:  attempt.Answer{Detail: hidden, Code: hidden, RequestID: hidden},
		Charges: []attempt.Charge{{ID: hidden}},
	}
	reader := readerFunc(func(id string) (attempt.Attempt, error) { return a, nil })
	e := attempt.Event{
		AttemptID: "a1", Version: 3, What: attempt.WhatLearnt, From: attempt.StatusUnknown, To: attempt.StatusDeclined, Who: hidden,
		At:       time.Date(2026, 3, 1, 14, 0, 0, 123456789, time.FixedZone("", 2*60*60)),
		Evidence: &attempt.Evidence{Resolution: &attempt.Resolution{Why: hidden}},
		Duties:   []attempt.Duty{{Kind: attempt.DutyReview, Why: attempt.WhyLateMoney, ChargeID: "ch_1", Amount: price, How: hidden}, {Kind: attempt.DutyRefund}},
	}
	var out bytes.Buffer
	if err := events.JSONLines(&out, reader)(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	const want = `{"schema":1,"attempt_id":"a1","version":3,"what":"learnt","from":"unknown","to":"declined","final":true,` +
		`"at":"2026-03-01T12:00:00.123456Z","duties":[{"kind":"review","why":"late_money","charge_id":"ch_1","amount":"19.99","amount_minor":1999,"currency":"EUR"},` +
		`{"kind":"refund","why":"","charge_id":"","amount":"","amount_minor":0,"currency":""}],"order":"1001","account":"shop <2>","purpose":"refund",` +
		`"refund":{"id":"r1","attempt_id":"a0","charge_id":"ch_0"},"amount":"19.99","amount_minor":1999,"currency":"EUR","attempt_version":4,"status":"declined",` +
		`"outcome":"declined","moved":"no","reason":"","open":false,"charge_id":""}` + "\n"
	if out.String() != want {
		t.Errorf("line:\n%swant:\n%s", out.String(), want)
	}
	var r events.Record
	if err := strictly(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if again, err := events.RecordOf(t.Context(), reader, e); err != nil || !reflect.DeepEqual(r, again) {
		t.Errorf("read back: %+v\nwritten: %+v, %v", r, again, err)
	}
}

// What was fulfilled by the event alone would be fulfilled although the order was cancelled before the event came.
func TestRecordTellsHowTheAttemptStandsNow(t *testing.T) {
	store := shop()
	e := historyOf(t, store)[1]
	approved, err := store.Attempt(t.Context(), e.AttemptID)
	if err != nil {
		t.Fatal(err)
	}
	later := approved
	later.Version, later.UnwantedAt = 3, e.At.Add(time.Minute)
	later.Duties = []attempt.Duty{{Kind: attempt.DutyRefund, ChargeID: "ch_1", Why: attempt.WhyUnwanted}}
	r, err := events.RecordOf(t.Context(), readerFunc(func(string) (attempt.Attempt, error) { return later, nil }), e)
	if err != nil || r.To != attempt.StatusApproved || r.Outcome != "unknown" || r.Reason != attempt.ReasonRefundOwed || r.AttemptVersion != 3 {
		t.Errorf("cancelled since: %+v, %v", r, err)
	}
	prepared := approved
	prepared.Version, prepared.Status, prepared.Charges, prepared.ChargeID = 1, attempt.StatusPrepared, nil, ""
	_, err = events.RecordOf(t.Context(), readerFunc(func(string) (attempt.Attempt, error) { return prepared, nil }), e)
	if !errors.Is(err, attempt.ErrUnavailable) {
		t.Errorf("read from before the event: %v, want ErrUnavailable", err)
	}
	r, err = events.RecordOf(t.Context(), readerFunc(func(string) (attempt.Attempt, error) { return prepared, nil }), historyOf(t, store)[0])
	if err != nil || r.Outcome != "not_paid" || r.Moved != attempt.MovedNo.String() {
		t.Errorf("prepared: %+v, %v", r, err)
	}
	if _, err = events.RecordOf(t.Context(), store, attempt.Event{AttemptID: "nobody"}); !errors.Is(err, attempt.ErrNotFound) {
		t.Errorf("no such attempt: %v", err)
	}
}

// torn writes only so much of some writes.
type torn struct {
	bytes.Buffer
	most []int
	err  error
}

func (w *torn) Write(p []byte) (int, error) {
	if len(w.most) == 0 {
		return w.Buffer.Write(p)
	}
	n := min(w.most[0], len(p))
	w.most = w.most[1:]
	w.Buffer.Write(p[:n])
	return n, w.err
}

func TestJSONLinesEndsABrokenLine(t *testing.T) {
	store := shop()
	e := historyOf(t, store)[0]
	w := &torn{most: []int{20, 0, 1}, err: errors.New("disk full")}
	write := events.JSONLines(w, store)
	for range 3 {
		if err := write(t.Context(), e); !errors.Is(err, w.err) {
			t.Errorf("half a line: %v", err)
		}
	}
	if err := write(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	if err := write(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(w.String(), "\n"), "\n")
	whole := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !json.Valid([]byte(l)) })
	if len(whole) != 2 || whole[0] != whole[1] {
		t.Errorf("%d whole lines, want 2:\n%s", len(whole), w.String())
	}
	short := &torn{most: []int{5}}
	if err := events.JSONLines(short, store)(t.Context(), e); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a writer that says nothing of what it left out: %v", err)
	}
}

func TestJSONLinesKeepsLinesApart(t *testing.T) {
	store := shop()
	f, err := os.Create(filepath.Join(t.TempDir(), "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	write := events.JSONLines(f, store)
	var all sync.WaitGroup
	for _, e := range slices.Repeat(historyOf(t, store), 20) {
		all.Go(func() {
			if err := write(t.Context(), e); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'\n'})
	for _, l := range lines {
		if !json.Valid(l) {
			t.Errorf("no JSON: %s", l)
		}
	}
	if len(lines) != 40 {
		t.Errorf("%d lines, want 40", len(lines))
	}
}

func TestJSONLinesTakesAPipe(t *testing.T) {
	store := shop()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := events.JSONLines(w, store)(t.Context(), historyOf(t, store)[0]); err != nil {
		t.Errorf("a pipe, which cannot be synced: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(r); err != nil || !json.Valid(text) {
		t.Errorf("read %q, %v", text, err)
	}
}

// The receiver is away, refuses, takes an event whose answer is lost, and takes the rest: it has each event, in order.
func TestRelayDeliversUntilTheReceiverHasAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := shop("receiver")
		ctx, cancel := context.WithCancel(t.Context())
		var got []int
		calls := 0
		post := target(t, events.WebhookConfig{Attempts: store, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			calls++
			var p events.Payload
			if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
				t.Error(err)
			}
			switch calls {
			case 1:
				return nil, errors.New("nobody listens")
			case 2:
				return answer(http.StatusServiceUnavailable, strings.NewReader(""))
			case 3:
				got = append(got, p.Data.Version)
				return nil, io.ErrUnexpectedEOF
			}
			if got = append(got, p.Data.Version); p.Data.Version == 2 {
				cancel()
			}
			return answer(http.StatusOK, strings.NewReader(""))
		})})
		failed := 0
		err := attempt.Relay(ctx, store, "receiver", post, attempt.RelayOptions{Failed: func(attempt.Event, error) { failed++ }})
		if !errors.Is(err, context.Canceled) || failed != 3 || !reflect.DeepEqual(got, []int{1, 1, 2}) {
			t.Errorf("%v after %d failures: delivered %v", err, failed, got)
		}
	})
}

package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// rig is a shop and its provider in a synctest bubble: nothing listens, and hours pass at once.
type rig struct {
	*Shop
	t    *testing.T
	bank *fakeprovider.Provider
	file string
	mux  atomic.Pointer[http.Handler]
	stop func()
	tune func(*Config) // before it is opened; nil: not at all
}

const testSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// newRig makes a rig without events. It must be called in a bubble.
func newRig(t *testing.T) *rig { return newRigWith(t, "webhook-lost") }

// newRigWith makes a rig whose charges all have a fault.
func newRigWith(t *testing.T, fault fakeprovider.Fault) *rig {
	t.Helper()
	r := &rig{t: t, file: filepath.Join(t.TempDir(), "shop.db")}
	r.bank = fakeprovider.New(fakeprovider.Config{Webhook: fakeprovider.WebhookConfig{
		URL: "http://shop.example" + webhookPath, Secret: testSecret,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { (*r.mux.Load()).ServeHTTP(w, req) }),
	}})
	r.bank.Always(fakeprovider.Match{Path: "/v1/charges"}, fault)
	t.Cleanup(func() {
		if err := r.bank.Close(); err != nil {
			t.Error(err)
		}
	})
	r.open()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) config() Config {
	payments, err := paymentsAt("https://provider.example", r.bank.ID(), r.bank.RoundTripper())
	if err != nil {
		r.t.Fatal(err)
	}
	cfg := Config{
		DB: r.file, WebhookSecret: testSecret, ReadEvent: standard.ReadEvent,
		Payments: payments,
		Log:      slog.New(slog.NewTextHandler(r.t.Output(), nil)),
	}
	if r.tune != nil {
		r.tune(&cfg)
	}
	return cfg
}

// open opens the shop and lets it work, as after a restart.
func (r *rig) open() {
	r.t.Helper()
	shop, err := Open(r.t.Context(), r.config())
	if err != nil {
		r.t.Fatal(err)
	}
	handler := shop.Handler()
	r.Shop = shop
	r.mux.Store(&handler)
	work, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { _ = shop.Work(work); close(ended) }()
	r.stop = func() {
		if err := shop.ClosePayments(context.Background()); err != nil {
			r.t.Error(err)
		}
		end()
		<-ended
		if err := shop.Close(); err != nil {
			r.t.Error(err)
		}
	}
}

// reopen opens the shop anew with another configuration.
func (r *rig) reopen(tune func(*Config)) {
	r.t.Helper()
	r.stop()
	r.tune = tune
	r.open()
}

// do makes a request, as a customer's browser does.
func (r *rig) do(method, path, body string) (status int, v View) {
	r.t.Helper()
	req := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	w := httptest.NewRecorder()
	(*r.mux.Load()).ServeHTTP(w, req)
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		r.t.Errorf("%s %s: %d %q: %v", method, path, w.Code, w.Body, err)
	}
	return w.Code, v
}

// order makes an order and returns its id.
func (r *rig) order(items string) string {
	r.t.Helper()
	status, v := r.do("POST", "/orders", `{"items":[`+items+`]}`)
	if status != http.StatusCreated {
		r.t.Fatalf("order: %d %+v", status, v)
	}
	return v.Order
}

const oneMug = `{"sku":"mug","quantity":1}`

// pay pays an order and fails the test unless the answer has a status.
func (r *rig) pay(id, source string, want int) View {
	r.t.Helper()
	status, v := r.do("POST", "/orders/"+id+"/pay", `{"source":"`+source+`"}`)
	if status != want {
		r.t.Errorf("pay order %s with %s: %d %+v, want %d", id, source, status, v, want)
	}
	return v
}

// want fails the test unless an order has a state, and its message a beginning.
func (r *rig) want(id string, state State, message string) View {
	r.t.Helper()
	status, v := r.do("GET", "/orders/"+id, "")
	if status != http.StatusOK || v.State != state || !strings.HasPrefix(v.Message, message) {
		r.t.Errorf("order %s: %d %+v, want it %s: %q", id, status, v, state, message)
	}
	return v
}

// wantBooks fails the test unless the provider's books hold so many succeeded charges, and so many succeeded refunds.
func (r *rig) wantBooks(charges, refunds int) {
	r.t.Helper()
	if c, b := r.charged(); c != charges || b != refunds {
		r.t.Errorf("the provider holds %d charges and %d refunds, want %d and %d: %+v", c, b, charges, refunds, r.bank.Ledger())
	}
}

// charged counts the money that moved by the provider's books, for some references or all.
func (r *rig) charged(references ...string) (charges, refunds int) {
	for _, c := range r.bank.Charges(references...) {
		if c.Status == fakeprovider.Succeeded {
			charges++
		}
	}
	for _, b := range r.bank.Refunds() {
		if b.Status != fakeprovider.Succeeded {
			continue
		}
		for _, c := range r.bank.Charges(references...) {
			if c.ID == b.Charge && c.Amount == b.Amount {
				refunds++
			}
		}
	}
	return charges, refunds
}

// stock returns how many of an item are in the house, and how many of them can be ordered.
func (r *rig) stock(sku string) (stock, free int) {
	r.t.Helper()
	err := r.store.Get(context.Background(), into{&stock, &free}, `SELECT stock, stock - (
		SELECT coalesce(sum(l.quantity), 0) FROM shop_lines l JOIN shop_orders o ON o.id = l.order_id
		WHERE l.sku = i.sku AND o.state IN ('open', 'payment pending')) FROM shop_items i WHERE sku = $1`, sku)
	if err != nil {
		r.t.Fatal(err)
	}
	return stock, free
}

func (r *rig) wantStock(sku string, stock, free int) {
	r.t.Helper()
	if s, f := r.stock(sku); s != stock || f != free {
		r.t.Errorf("%s: %d in stock, %d free, want %d and %d", sku, s, f, stock, free)
	}
}

// slotOf returns an order's attempts and refunds.
func (r *rig) slotOf(id string) attempt.View {
	r.t.Helper()
	v, err := r.store.Slot(context.Background(), attempt.Slot{Order: id, Purpose: attempt.PurposeCharge})
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// pass lets time pass, and everything that is due happen.
func pass(d time.Duration) { time.Sleep(d); synctest.Wait() }

// execute returns a transaction of one statement.
func execute(statement string, args ...any) func(context.Context, tx) error {
	return func(ctx context.Context, tx tx) error {
		return tx.Exec(ctx, statement, args...)
	}
}

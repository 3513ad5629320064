package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
)

// What is begun at one shop is ended at another, where both pay at one bank: charged once, and the history says who did what.
func TestOneBankForTwoShops(t *testing.T) { everywhere(t, oneBankForTwoShops) }

func oneBankForTwoShops(t *testing.T, at place) {
	shops := twoShops(t, at)
	paid := shops[0].order(t)
	if status, v := shops[1].do(t, "POST", "/orders/"+paid+"/pay", `{"source":"tok_visa"}`); status != http.StatusOK || v.State != StateConfirmed {
		t.Errorf("paid at the second shop: %d %+v", status, v)
	}
	if status, v := shops[0].do(t, "POST", "/orders/"+paid+"/pay", `{"source":"tok_mastercard"}`); status != http.StatusConflict {
		t.Errorf("paid again at the first one: %d %+v", status, v)
	}

	waiting := shops[0].order(t)
	if status, v := shops[1].do(t, "POST", "/orders/"+waiting+"/pay", `{"source":"tok_requires_action"}`); status != http.StatusAccepted {
		t.Errorf("begun at the second shop: %d %+v", status, v)
	}
	charges := shops[0].ledger(t).Charges
	if len(charges) != 2 {
		t.Fatalf("charges: %+v, want 2", charges)
	}
	if charges[0].Status == fakeprovider.Pending {
		charges[0], charges[1] = charges[1], charges[0]
	}
	shops[0].do(t, "POST", "/_fake/settle", fmt.Sprintf(`{"id":%q,"status":"succeeded"}`, charges[1].ID))
	eventually(t, "the first shop has settled what the second has begun", func() bool {
		_, v := shops[1].do(t, "GET", "/orders/"+waiting, "")
		return v.State == StateConfirmed
	})
	if l := shops[0].ledger(t); succeeded(l) != 2 || len(l.Refunds) != 0 || l.DistinctKeys != 2 {
		t.Errorf("%d charges, %d refunds, %d keys, want 2, 0 and 2", succeeded(l), len(l.Refunds), l.DistinctKeys)
	}

	store, err := openStorage(t.Context(), at.db)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	view, err := store.Slot(t.Context(), Order{ID: waiting}.slot())
	if err != nil {
		t.Fatal(err)
	}
	events, err := store.Events(t.Context(), view.Attempts[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	who := func(s *service) string { return "checkout@" + strings.TrimPrefix(s.url, "http://") }
	if first, last := events[0].Who, events[len(events)-1].Who; first != who(shops[1]) || last != who(shops[0]) {
		t.Errorf("begun by %q and ended by %q, want %q and %q", first, last, who(shops[1]), who(shops[0]))
	}
	for _, e := range events {
		if e.Who == "" {
			t.Errorf("%s: nobody did it", e.What)
		}
	}
	if view.Attempts[0].Environment != "fake-"+bankOf(t, shops[0]) {
		t.Errorf("environment %q, want the bank's id", view.Attempts[0].Environment)
	}
}

func bankOf(t *testing.T, s *service) string {
	t.Helper()
	id, err := askBank(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Two banks on one database are two places: what was sent to one is neither sent to the other nor asked about there, whatever
// customers do at the shop of that one.
func TestTwoBanksOfOneDatabase(t *testing.T) { everywhere(t, twoBanksOfOneDatabase) }

func twoBanksOfOneDatabase(t *testing.T, at place) {
	first, second := serve(t, at), serve(t, place{db: at.db, books: at.books + "2"})
	if bankOf(t, first) == bankOf(t, second) {
		t.Fatal("two banks have one id")
	}
	id := first.order(t)
	if status, v := first.do(t, "POST", "/orders/"+id+"/pay", `{"source":"tok_pending"}`); status != http.StatusAccepted {
		t.Fatalf("pay: %d %+v", status, v)
	}
	for _, source := range []string{"tok_pending", "tok_visa"} { // the same card, and another one
		if status, v := second.do(t, "POST", "/orders/"+id+"/pay", `{"source":"`+source+`"}`); status != http.StatusConflict && status != http.StatusAccepted || v.State != StatePending {
			t.Errorf("%s at the other shop: %d %+v, want it left as it is", source, status, v)
		}
	}
	if status, v := second.do(t, "POST", "/orders/"+id+"/cancel", ""); status != http.StatusOK || v.Message != "Cancelled. Should your payment still go through, it is given back." {
		t.Errorf("cancelled at the other shop: %d %+v", status, v)
	}
	// The first shop learns that it is cancelled, and voids what is pending at its own bank.
	eventually(t, "the payment has ended at its bank", func() bool { return len(first.ledger(t).Declines) == 1 })
	if l := second.ledger(t); l.RequestCount != 0 {
		t.Errorf("the other bank was asked: %+v", l.Requests)
	}
	if l := first.ledger(t); len(l.Charges) != 0 || l.DistinctKeys != 1 {
		t.Errorf("%d charges and %d keys at the bank, want none and 1", len(l.Charges), l.DistinctKeys)
	}
}

func everyMinute(c *Config) { c.Every = time.Minute }

// A payment is charged late, while only a shop with another bank runs: that bank's silence ends nothing. The shop with the payment's
// bank gives the money back when it is there again.
func TestTheSilenceOfAnotherBankEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.reopen(everyMinute)
		id := r.order(oneMug)
		r.pay(id, "tok_book_after_2h", http.StatusAccepted)
		r.stop()

		other := &rig{t: t, file: r.file, bank: fakeprovider.New(fakeprovider.Config{}), tune: everyMinute}
		other.open()
		pass(10 * time.Minute)
		other.pay(id, "tok_visa", http.StatusConflict)
		pass(10 * time.Hour)
		other.want(id, StateCancelled, "Cancelled. Should your payment still go through, it is given back.")
		if a := other.slotOf(id).Attempts; len(a) != 1 || a[0].Status != attempt.StatusUnknown {
			t.Errorf("attempts: %+v, want one that is unknown", a)
		}
		if requests := other.bank.Requests(); len(requests) != 0 {
			t.Errorf("the other bank was asked: %+v", requests)
		}
		other.stop()

		r.open()
		pass(time.Hour)
		r.want(id, StateCancelled, "Cancelled. Your payment was given back.")
		r.wantBooks(1, 1)
	})
}

// A bank that has lost its books says nothing of what it once charged: it is another bank at the same address, and not believed.
func TestLostBooksAreOtherBooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.reopen(everyMinute)
		id := r.order(oneMug)
		r.pay(id, "tok_book_after_2h", http.StatusAccepted)
		if err := r.bank.Reset(); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Hour)
		r.want(id, StateCancelled, "Cancelled. Should your payment still go through, it is given back.")
		if a := r.slotOf(id).Attempts; len(a) != 1 || a[0].Status != attempt.StatusUnknown {
			t.Errorf("attempts: %+v, want one that is unknown", a)
		}
		next := r.order(oneMug)
		if status, v := r.do("POST", "/orders/"+next+"/pay", `{"source":"tok_visa"}`); status < 500 || v.State == StateConfirmed {
			t.Errorf("paid at a bank that is not the shop's: %d %+v", status, v)
		}
		r.reopen(everyMinute) // the shop asks anew which bank it is
		r.pay(r.order(oneMug), "tok_visa", http.StatusOK)
		r.wantBooks(1, 0)
	})
}

// What is wrong with a bank is told at the start in one line that says what to do, and nothing is sent.
func TestWrongBank(t *testing.T) {
	dir := t.TempDir()
	first := serve(t, place{db: filepath.Join(dir, "first.db"), books: filepath.Join(dir, "books")})
	joined := serve(t, place{db: filepath.Join(dir, "first.db"), bank: first.url + "/"})
	older := filepath.Join(dir, "older")
	if err := os.WriteFile(older, []byte(`{"t":"count","count":{"requests":0,"keys":0}}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	withoutID := serve(t, place{db: filepath.Join(dir, "older.db"), books: older})
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"name":"something else"}`)) }))
	defer other.Close()
	nobody, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := nobody.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		o    options
		want string
	}{
		{options{bank: "http://" + nobody.Addr().String()}, `^-bank http://127.0.0.1:\d+: nobody answers there \(.*refused\); nothing was sent$`},
		{options{bank: other.URL}, `^-bank http://127.0.0.1:\d+: neither a fake provider nor a shop with one \(GET /_fake/id is answered with 200 OK\); nothing was sent$`},
		{options{bank: joined.url}, `neither a fake provider nor a shop with one \(GET /_fake/id is answered with 404 Not Found\)`},
		{options{bank: withoutID.url}, `its books have no id, an early release has begun them`},
		{options{bank: "127.0.0.1:8080"}, `^-bank: want the URL that the other shop has printed, like http://127.0.0.1:8080$`},
		{options{bank: "http://user:geheim@127.0.0.1:8080"}, `^-bank: want the URL that the other shop has printed, like http://127.0.0.1:8080$`},
		{options{bank: first.url, books: filepath.Join(dir, "third")}, `^-bank and -books: want one of them`},
		{options{books: filepath.Join(dir, "books")}, `in use by another fake provider: that of another shop. To pay at its bank, add -bank with the URL that the other shop has printed, like this: -bank http://127.0.0.1:8080$`},
		{options{listen: strings.TrimPrefix(first.url, "http://")}, `in use. If another shop is there, this one can pay at its bank: -listen 127.0.0.1:0 -bank ` + regexp.QuoteMeta(first.url) + `$`},
	} {
		if tt.o.listen == "" {
			tt.o.listen = "127.0.0.1:0"
		}
		tt.o.db = filepath.Join(dir, "second.db")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := run(ctx, tt.o, slog.New(slog.NewTextHandler(io.Discard, nil)), func(string) { t.Errorf("%+v: the shop is open", tt.o); cancel() })
		cancel()
		if err == nil || !regexp.MustCompile(tt.want).MatchString(err.Error()) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v:\n got %v\nwant %s", tt.o, err, tt.want)
		}
	}
	for _, s := range []*service{first, withoutID} {
		if n := s.ledger(t).RequestCount; n != 0 {
			t.Errorf("%d requests, want none", n)
		}
	}
}

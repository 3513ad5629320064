package paytest

import (
	"context"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// Kit is a client at a fake provider, and the store between them. It is safe for concurrent use, as its parts are.
type Kit struct {
	Client *payclient.Client
	Bank   *fakeprovider.Provider
	Store  *attempt.Memory

	t       testing.TB
	options []func(*payclient.Config)
}

// New makes a kit with a fake provider that behaves well until it is told otherwise. Options change the client's
// configuration before the client is made. The test's cleanup closes everything.
func New(t testing.TB, options ...func(*payclient.Config)) *Kit {
	t.Helper()
	return NewAt(t, fakeprovider.New(fakeprovider.Config{}), options...)
}

// NewAt is New with a fake provider of the caller's, which the test's cleanup closes too. What it does with keys and
// lookups must be what the client's adapter declares; see [payclient.Config].Provider.
func NewAt(t testing.TB, bank *fakeprovider.Provider, options ...func(*payclient.Config)) *Kit {
	t.Helper()
	k := &Kit{Bank: bank, Store: new(attempt.Memory), t: t, options: options}
	t.Cleanup(func() { // after all clients are closed
		k.unknownSurplus()
		if err := bank.Close(); err != nil {
			t.Errorf("paytest: close the fake provider: %v", err)
		}
	})
	k.Client = k.Restart()
	return k
}

// Quick makes the waits between a client's requests so short that a test outside of a synctest bubble does not notice.
func Quick(c *payclient.Config) { c.FirstWait, c.MaxWait = time.Millisecond, 2*time.Millisecond }

// Restart makes another client on the same store, as another process would after a crash or a deployment. The kit's own
// client stays as it is. More options may be given.
func (k *Kit) Restart(options ...func(*payclient.Config)) *payclient.Client {
	k.t.Helper()
	adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("paytest")})
	if err != nil {
		k.t.Fatalf("paytest: %v", err)
	}
	cfg := payclient.Config{
		Provider: adapter, Store: k.Store, BaseURL: "https://provider.example", Transport: k.Bank.RoundTripper(), Environment: "test",
	}
	for _, change := range k.options {
		change(&cfg)
	}
	for _, change := range options {
		change(&cfg)
	}
	client, err := payclient.New(cfg)
	if err != nil {
		k.t.Fatalf("paytest: %v", err)
	}
	k.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := client.Close(ctx); err != nil {
			k.t.Errorf("paytest: close the client: %v", err)
		}
	})
	return client
}

// Intent is an ordinary intent to pay an order: 548.90 TRY by a card that is approved. Change what the test needs; the
// sources that the fake provider knows are told by [fakeprovider.Sources].
func (k *Kit) Intent(order string) attempt.Intent {
	return attempt.Intent{Order: order, Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token("tok_visa")}
}

// Charges returns what the provider's books hold for an order, whichever of its attempts brought it about: succeeded and
// pending charges, refunded ones included.
func (k *Kit) Charges(order string) []fakeprovider.Charge {
	k.t.Helper()
	var references []string
	for a, err := range k.Store.List(context.Background(), attempt.Filter{Order: order}) {
		if err != nil {
			k.t.Fatalf("paytest: %v", err)
		}
		references = append(references, a.Reference)
	}
	if len(references) == 0 {
		return nil // without references the books would tell of everybody
	}
	return k.Bank.Charges(references...)
}

// WantCharges fails the test unless the provider's books hold n charges for an order.
func (k *Kit) WantCharges(order string, n int) {
	k.t.Helper()
	if charges := k.Charges(order); len(charges) != n {
		k.t.Errorf("order %s: the provider holds %d charges, want %d: %+v", order, len(charges), n, charges)
	}
}

// Settle asks the provider once about every attempt that is open, as reconciliation does in the background, and returns
// how many are still open afterwards.
func (k *Kit) Settle() (open int) {
	k.t.Helper()
	ctx := context.Background()
	var slots []attempt.Slot
	for a, err := range k.Store.List(ctx, attempt.Filter{Open: true}) {
		if err != nil {
			k.t.Fatalf("paytest: %v", err)
		}
		slots = append(slots, a.Slot)
	}
	for _, slot := range slots {
		res, err := k.Client.Check(ctx, slot)
		if err != nil {
			k.t.Fatalf("paytest: order %s: %v", slot, err)
		}
		if res.Open() {
			open++
		}
	}
	return open
}

// unknownSurplus fails the test for each slot that was paid more than once without anybody knowing.
func (k *Kit) unknownSurplus() {
	type books struct {
		charges int
		duties  int
	}
	slots := make(map[attempt.Slot]*books)
	for a, err := range k.Store.List(context.Background(), attempt.Filter{}) {
		if err != nil { // the test has closed the store
			return
		}
		b := slots[a.Slot]
		if b == nil {
			b = new(books)
			slots[a.Slot] = b
		}
		b.charges += len(k.Bank.Charges(a.Reference))
		b.duties += len(a.Duties)
	}
	for slot, b := range slots {
		if b.charges > 1 && b.duties == 0 {
			k.t.Errorf("paytest: order %s: the provider holds %d charges, and nobody knows", slot, b.charges)
		}
	}
}

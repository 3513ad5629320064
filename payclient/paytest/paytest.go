package paytest

import (
	"context"
	"reflect"
	"slices"
	"sync"
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
	// Store is the client's: one in memory, unless an option names another. The kit does not close it.
	Store attempt.Store

	t       testing.TB
	options []func(*payclient.Config)

	mu     sync.Mutex
	stores []attempt.Store // of all clients, the kit's own first
}

// New makes a kit with a fake provider that behaves well until it is told otherwise. Options change the client's
// configuration before the client is made, its store included. The test's cleanup closes everything but a store of the
// caller's. That one must be open until then: close it in a cleanup of the test that is registered before New is called.
func New(t testing.TB, options ...func(*payclient.Config)) *Kit {
	t.Helper()
	return NewAt(t, fakeprovider.New(fakeprovider.Config{}), options...)
}

// NewAt is New with a fake provider of the caller's, which the test's cleanup closes too. What it does with keys and
// lookups must be what the client's adapter declares; see [payclient.Config].Provider.
func NewAt(t testing.TB, bank *fakeprovider.Provider, options ...func(*payclient.Config)) *Kit {
	t.Helper()
	k := &Kit{Bank: bank, t: t, options: append([]func(*payclient.Config){inMemory()}, options...)}
	t.Cleanup(func() { // after all clients are closed
		k.unknownSurplus()
		if err := bank.Close(); err != nil {
			t.Errorf("paytest: close the fake provider: %v", err)
		}
	})
	k.Client = k.Restart()
	k.Store = k.stores[0]
	return k
}

// inMemory gives every client of a kit the same store.
func inMemory() func(*payclient.Config) {
	store := new(attempt.Memory)
	return func(c *payclient.Config) { c.Store = store }
}

// Quick makes the waits between a client's requests so short that a test outside of a synctest bubble does not notice.
func Quick(c *payclient.Config) { c.FirstWait, c.MaxWait = time.Millisecond, 2*time.Millisecond }

// Restart makes another client on the same store, as another process would after a crash or a deployment. The kit's own
// client stays as it is. More options may be given; with another store, as after a lost database, the kit counts what both
// tell of.
func (k *Kit) Restart(options ...func(*payclient.Config)) *payclient.Client {
	k.t.Helper()
	adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("paytest")})
	if err != nil {
		k.t.Fatalf("paytest: %v", err)
	}
	cfg := payclient.Config{
		Provider: adapter, BaseURL: "https://provider.example", Transport: k.Bank.RoundTripper(), Environment: "test",
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
	k.remember(cfg.Store)
	k.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := client.Close(ctx); err != nil {
			k.t.Errorf("paytest: close the client: %v", err)
		}
	})
	return client
}

// remember counts a store in.
func (k *Kit) remember(store attempt.Store) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, known := range k.stores {
		if reflect.ValueOf(store).Comparable() && known == store {
			return
		}
	}
	k.stores = append(k.stores, store)
}

// Intent is an ordinary intent to pay an order: 548.90 TRY by a card that is approved. Change what the test needs; the
// sources that the fake provider knows are told by [fakeprovider.Sources].
func (k *Kit) Intent(order string) attempt.Intent {
	return attempt.Intent{Order: order, Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token("tok_visa")}
}

// attempts returns what the stores of all clients hold.
func (k *Kit) attempts(filter attempt.Filter) ([]attempt.Attempt, error) {
	k.mu.Lock()
	stores := slices.Clone(k.stores)
	k.mu.Unlock()
	var attempts []attempt.Attempt
	for _, store := range stores {
		for a, err := range store.List(context.Background(), filter) {
			if err != nil {
				return nil, err
			}
			attempts = append(attempts, a)
		}
	}
	return attempts, nil
}

// Charges returns what the provider's books hold for an order, whichever of its attempts brought it about: succeeded and
// pending charges, refunded ones included.
func (k *Kit) Charges(order string) []fakeprovider.Charge {
	k.t.Helper()
	attempts, err := k.attempts(attempt.Filter{Order: order})
	if err != nil {
		k.t.Fatalf("paytest: %v", err)
	}
	if len(attempts) == 0 {
		return nil // without references the books would tell of everybody
	}
	return k.Bank.Charges(references(attempts)...)
}

// references returns the attempts' references, each once: two stores may hold the same.
func references(attempts []attempt.Attempt) []string {
	var all []string
	for _, a := range attempts {
		if !slices.Contains(all, a.Reference) {
			all = append(all, a.Reference)
		}
	}
	return all
}

// WantCharges fails the test unless the provider's books hold n charges for an order.
func (k *Kit) WantCharges(order string, n int) {
	k.t.Helper()
	if charges := k.Charges(order); len(charges) != n {
		k.t.Errorf("order %s: the provider holds %d charges, want %d: %+v", order, len(charges), n, charges)
	}
}

// Refunds returns what the provider's books hold as given back of an order, or on its way: refunds that have not failed.
func (k *Kit) Refunds(order string) (refunds []fakeprovider.Refund) {
	k.t.Helper()
	attempts, err := k.attempts(attempt.Filter{Order: order})
	if err != nil {
		k.t.Fatalf("paytest: %v", err)
	}
	if len(attempts) == 0 {
		return nil
	}
	for _, r := range k.Bank.Refunds(references(attempts)...) {
		if r.Status != fakeprovider.Failed {
			refunds = append(refunds, r)
		}
	}
	return refunds
}

// WantRefunds fails the test unless the provider's books hold n refunds of an order that have not failed.
func (k *Kit) WantRefunds(order string, n int) {
	k.t.Helper()
	if refunds := k.Refunds(order); len(refunds) != n {
		k.t.Errorf("order %s: the provider holds %d refunds, want %d: %+v", order, len(refunds), n, refunds)
	}
}

// Settle asks the provider once about every attempt in Store that is open, refunds too, as reconciliation does in the
// background, and returns how many are still open afterwards.
func (k *Kit) Settle() (open int) {
	k.t.Helper()
	ctx := context.Background()
	var all []attempt.Attempt
	for a, err := range k.Store.List(ctx, attempt.Filter{Open: true}) {
		if err != nil {
			k.t.Fatalf("paytest: %v", err)
		}
		all = append(all, a)
	}
	for _, a := range all {
		stillOpen, err := k.settle(ctx, a)
		if err != nil {
			k.t.Fatalf("paytest: order %s: %v", a.Slot, err)
		}
		if stillOpen {
			open++
		}
	}
	return open
}

func (k *Kit) settle(ctx context.Context, a attempt.Attempt) (open bool, err error) {
	if !a.IsRefund() {
		res, err := k.Client.Check(ctx, a.Slot)
		return res.Open(), err
	}
	if a.Status == attempt.StatusPrepared {
		return false, nil // nothing of it has left
	}
	view, err := k.Store.Slot(ctx, a.Slot)
	if err != nil {
		return false, err
	}
	evidence, err := k.Client.Ask(ctx, a, view.Now)
	if err != nil {
		return false, err
	}
	schedule := k.Client.Schedule()
	rec := &attempt.Record{ID: a.ID, Who: "paytest", Evidence: evidence, Schedule: &schedule, Due: true}
	if err := k.Store.Apply(ctx, rec.Step(&a)); err != nil {
		return false, err
	}
	return !rec.Attempt.Status.Final(), nil
}

// unknownSurplus fails the test for each slot that was paid more than once without anybody knowing.
func (k *Kit) unknownSurplus() {
	attempts, err := k.attempts(attempt.Filter{})
	if err != nil {
		k.t.Errorf("paytest: nobody can look for double charges: %v; a store of the test's own is closed in a cleanup that is registered before paytest.New is called", err)
		return
	}
	slots := make(map[attempt.Slot][]attempt.Attempt)
	for _, a := range attempts {
		slots[a.Slot] = append(slots[a.Slot], a)
	}
	for slot, attempts := range slots {
		charges, duties := len(k.Bank.Charges(references(attempts)...)), 0
		for _, a := range attempts {
			duties += len(a.Duties)
		}
		if charges > 1 && duties == 0 {
			k.t.Errorf("paytest: order %s: the provider holds %d charges, and nobody knows", slot, charges)
		}
	}
}

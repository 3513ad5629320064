package paytest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/paytest"
)

func TestQuickMakesTheWaitsShort(t *testing.T) {
	var c payclient.Config
	paytest.Quick(&c)
	if c.FirstWait <= 0 || c.MaxWait < c.FirstWait || c.MaxWait > 10*time.Millisecond {
		t.Errorf("waits of %s to %s", c.FirstWait, c.MaxWait)
	}
}

// Outside of a bubble, on the machine's own clock.
func TestQuickOutsideOfABubble(t *testing.T) {
	p := paytest.New(t, paytest.Quick, func(c *payclient.Config) { c.Who = "test" })
	p.Bank.Script(fakeprovider.LoseAnswer)
	res, err := p.Client.Pay(t.Context(), p.Intent("1001"))
	if err != nil || res.Outcome != payclient.Approved || res.Sends != 2 {
		t.Fatalf("%+v, %v; want an approval by the second request", res, err)
	}
	events, err := p.Store.Events(t.Context(), res.AttemptID)
	if err != nil || len(events) == 0 || events[0].Who != "test" {
		t.Errorf("events %+v, %v; want the option to have been used", events, err)
	}
	p.WantCharges("1001", 1)
	p.WantCharges("1002", 0)
}

func TestRestartFindsTheSameAttempt(t *testing.T) {
	p := paytest.New(t, paytest.Quick)
	p.Bank.Always(fakeprovider.Match{}, fakeprovider.Status(503))
	first, err := p.Client.Pay(t.Context(), p.Intent("1001"))
	if err != nil || !first.Open() {
		t.Fatalf("%+v, %v; want an open payment", first, err)
	}
	if open := p.Settle(); open != 1 {
		t.Errorf("%d open, want 1: nothing says that the charge was not made", open)
	}
	p.Bank.ClearFaults()
	again, err := p.Restart().Pay(t.Context(), p.Intent("1001"))
	if err != nil || again.Outcome != payclient.Approved || again.Key != first.Key {
		t.Fatalf("%+v, %v; want an approval under the same key", again, err)
	}
}

func TestNewAtAProviderOfTheTestsOwn(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{Currencies: []string{"EUR"}})
	p := paytest.NewAt(t, bank, paytest.Quick)
	res, err := p.Client.Pay(t.Context(), p.Intent("1001"))
	if err != nil || res.Outcome != payclient.ContractViolation || res.Code != "currency_unsupported" {
		t.Errorf("%+v, %v; want the currency to be refused", res, err)
	}
}

// fakeTB is a test that may fail.
type fakeTB struct {
	testing.TB
	cleanups []func()
	said     []string
}

func (f *fakeTB) Helper()           {}
func (f *fakeTB) Cleanup(fn func()) { f.cleanups = append(f.cleanups, fn) }
func (f *fakeTB) Errorf(format string, args ...any) {
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

func (f *fakeTB) end() {
	for len(f.cleanups) > 0 {
		last := f.cleanups[len(f.cleanups)-1]
		f.cleanups = f.cleanups[:len(f.cleanups)-1]
		last()
	}
}

func TestSurplusThatNobodyKnowsFailsTheTest(t *testing.T) {
	for _, known := range []bool{false, true} {
		tb := &fakeTB{TB: t}
		p := paytest.New(tb, paytest.Quick)
		p.Bank.Script("book-twice")
		res, err := p.Client.Pay(t.Context(), p.Intent("1001"))
		if err != nil || res.Outcome != payclient.Approved {
			t.Fatalf("%+v, %v", res, err)
		}
		if known {
			// The reconciler goes on looking, and finds the second charge.
			l, err := p.Client.FindByReference(t.Context(), res.Reference)
			if err != nil || len(l.Charges) != 2 {
				t.Fatalf("%+v, %v; want two charges", l, err)
			}
			rec := &attempt.Record{ID: res.AttemptID, Evidence: attempt.Evidence{
				Kind: attempt.EvidenceLookup, Lookup: l.Answer, AskedAt: time.Now(), Charges: l.Charges,
			}}
			if err := p.Store.Apply(context.Background(), rec.Step(nil)); err != nil {
				t.Fatal(err)
			}
		}
		tb.end()
		if told := strings.Contains(strings.Join(tb.said, "\n"), "2 charges"); told == known {
			t.Errorf("known %t: the test's end said %q", known, tb.said)
		}
	}
}

// A test whose client has another store than the kit's own is no less looked after.
func TestAStoreOfTheTestsOwnIsTheOneThatIsLookedAt(t *testing.T) {
	tb := &fakeTB{TB: t}
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "payments.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	p := paytest.New(tb, paytest.Quick, func(c *payclient.Config) { c.Store = store })
	if p.Store != attempt.Store(store) {
		t.Errorf("the kit's store is a %T, want the client's", p.Store)
	}
	p.Bank.Script("book-twice", fakeprovider.Status(503), fakeprovider.Status(503), fakeprovider.Status(503), fakeprovider.Status(503))
	if res, err := p.Client.Pay(t.Context(), p.Intent("1001")); err != nil || res.Outcome != payclient.Approved {
		t.Fatalf("%+v, %v; want an approval", res, err)
	}
	if n := len(p.Charges("1001")); n != 2 {
		t.Errorf("%d charges of order 1001, want the two in the books", n)
	}
	p.WantCharges("1001", 1)
	if res, err := p.Client.Pay(t.Context(), p.Intent("1002")); err != nil || !res.Open() {
		t.Fatalf("%+v, %v; want an open payment", res, err)
	}
	if open := p.Settle(); open != 1 {
		t.Errorf("%d open after Settle, want 1", open)
	}
	tb.end()
	for _, want := range []string{"holds 2 charges, want 1", "holds 2 charges, and nobody knows"} {
		if said := strings.Join(tb.said, "\n"); !strings.Contains(said, want) {
			t.Errorf("the test's end said %q, want %q", said, want)
		}
	}
}

func TestALostStoreIsSeenByTheBooks(t *testing.T) {
	tb := &fakeTB{TB: t}
	p := paytest.New(tb, paytest.Quick)
	for _, c := range []*payclient.Client{p.Client, p.Restart(func(c *payclient.Config) { c.Store = new(attempt.Memory) })} {
		if res, err := c.Pay(t.Context(), p.Intent("1001")); err != nil || res.Outcome != payclient.Approved {
			t.Fatalf("%+v, %v; want an approval", res, err)
		}
	}
	tb.end()
	if len(tb.said) != 1 || !strings.Contains(tb.said[0], "holds 2 charges, and nobody knows") {
		t.Errorf("the test's end said %q, want that both stores were paid", tb.said)
	}
}

// Derived keys survive a lost store: both hold the same reference, and it stands for one charge.
func TestOneReferenceInTwoStoresCountsOnce(t *testing.T) {
	derive := func(c *payclient.Config) {
		c.Store, c.DeriveFrom = new(attempt.Memory), uuid.MustParse("1b4e28ba-2fa1-11d2-883f-0016d3cca427")
	}
	p := paytest.New(t, paytest.Quick, derive)
	for _, c := range []*payclient.Client{p.Client, p.Restart()} {
		if res, err := c.Pay(t.Context(), p.Intent("1001")); err != nil || res.Outcome != payclient.Approved {
			t.Fatalf("%+v, %v; want an approval", res, err)
		}
	}
	p.WantCharges("1001", 1)
}

func TestAStoreClosedTooEarlyFailsTheTest(t *testing.T) {
	tb := &fakeTB{TB: t}
	store := new(attempt.Memory)
	p := paytest.New(tb, func(c *payclient.Config) { c.Store = store })
	if _, err := p.Client.Pay(t.Context(), p.Intent("1001")); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	tb.end()
	if len(tb.said) != 1 || !strings.Contains(tb.said[0], "nobody can look for double charges") {
		t.Errorf("the test's end said %q, want that nobody could look", tb.said)
	}
}

func TestRefundsAreCountedAndSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paytest.New(t)
		paid, err := p.Client.Pay(t.Context(), p.Intent("1001"))
		if err != nil {
			t.Fatal(err)
		}
		p.WantRefunds("1001", 0)
		p.WantRefunds("unknown order", 0)
		p.Bank.Always(fakeprovider.Match{}, fakeprovider.LoseAnswer)
		p.Bank.Always(fakeprovider.Lookups, fakeprovider.Status(503))
		res, err := p.Client.Refund(t.Context(), attempt.Refund{AttemptID: paid.AttemptID, ID: "r1"})
		if err != nil || !res.Open() {
			t.Fatalf("%+v, %v; want it open", res, err)
		}
		if n := p.Settle(); n != 1 {
			t.Errorf("%d open while nobody answers, want 1", n)
		}
		p.Bank.ClearFaults()
		if n := p.Settle(); n != 0 {
			t.Errorf("%d open, want none", n)
		}
		p.WantRefunds("1001", 1)
		p.WantCharges("1001", 1)
		if all, err := p.Client.Refunds(t.Context(), paid.AttemptID); err != nil || len(all) != 1 || all[0].Outcome != payclient.Approved {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

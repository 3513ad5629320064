package paytest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
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

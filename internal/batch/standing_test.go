package batch_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/internal/batch"
	"github.com/chargeonce/chargeonce/payclient"
)

// A row that is refused for the sake of another payment of its order has nothing of that one as its own; where that one is
// open, the order may be paid, and so the row is open too.
func TestARefusedRowTellsOfWhatStandsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.cfg.Observer.Asked = batch.Asked
		first := b.run("1,1.00,EUR,tok_visa\n2,1.00,EUR,tok_never_arrives\n")
		b.want(first, first.Do(t.Context(), t.Context()), "1 approved, 2 unknown timeout")
		time.Sleep(time.Minute) // in the bubble: the run is over

		again := b.run("1,2.00,EUR,tok_visa\n2,2.00,EUR,tok_visa\n")
		b.want(again, again.Do(t.Context(), t.Context()), "1 refused (existing) already_paid, 2 refused conflict")
		for i, want := range []struct {
			moved    attempt.Moved
			open     bool
			standing payclient.Outcome
		}{
			{attempt.MovedNo, false, payclient.Approved},
			{attempt.MovedMaybe, true, payclient.UnknownOutcome},
		} {
			r := again.results[i]
			if r.Payment != nil || r.Standing == nil || r.Standing.Outcome != want.standing || !r.KnownBefore {
				t.Errorf("row %d: %+v; want no payment of its own, and the other beside it", i+1, r)
			}
			if r.Moved != want.moved || r.Open() != want.open {
				t.Errorf("row %d: moved %s, open %t; want %s, %t", i+1, r.Moved, r.Open(), want.moved, want.open)
			}
			if strings.HasPrefix(r.Message, "order ") {
				t.Errorf("row %d: the message %q names the order that the row has named", i+1, r.Message)
			}
		}

		// A run that stops hides it no more than one that goes on.
		closed := fakeprovider.New(fakeprovider.Config{})
		closed.Always(fakeprovider.Match{}, fakeprovider.Status(401))
		b.cfg.Transport = closed.RoundTripper()
		stopped := b.run("3,1.00,EUR,tok_visa\n2,2.00,EUR,tok_visa\n1,2.00,EUR,tok_visa\n")
		if stop := stopped.Do(t.Context(), t.Context()); stop == nil || stop.Kind != batch.StopProvider {
			t.Errorf("stop %v, want that of the provider", stop)
		}
		b.want(stopped, nil, "3 contract_violation refused, 2 refused (existing) conflict, 1 refused (existing) already_paid")
		if r := stopped.results[1]; !r.Open() || !strings.Contains(r.Message, "another amount") {
			t.Errorf("%+v; want it open, with another amount", r)
		}
	})
}

// Existing is for rows for which this run did nothing: one that it has asked about is told as what it has learnt.
func TestARowThatWasAskedAboutIsNotTheOldOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.cfg.Observer.Asked = batch.Asked
		const row = "1,1.00,EUR,tok_pending\n"
		first := b.run(row)
		b.want(first, first.Do(t.Context(), t.Context()), "1 unknown pending")
		time.Sleep(time.Minute) // in the bubble: the run is over
		again := b.run(row)
		b.want(again, again.Do(t.Context(), t.Context()), "1 unknown pending")
		if !again.results[0].KnownBefore {
			t.Error("not known before: an earlier run has sent it")
		}
		if n := len(b.bank.Charges()); n != 1 {
			t.Errorf("%d charges, want 1", n)
		}
	})
}

// The cause is told once, without the order, the reason and the attempt, which the result has.
func TestWhyARowWasNotSentIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.cfg.Retries = -1
		b.bank.Always(fakeprovider.Match{}, fakeprovider.RefuseDial)
		r := b.run("U1,1.00,EUR,tok_visa\n")
		b.want(r, r.Do(t.Context(), t.Context()), "U1 not_sent unreachable")
		if m := r.results[0].Message; m == "" || strings.Contains(m, "U1") || strings.Contains(m, "unreachable") || strings.Contains(m, "attempt") {
			t.Errorf("message %q", m)
		}
	})
}

// A row that is refused keeps what could be read of it.
func TestARefusedRowKeepsWhatCouldBeRead(t *testing.T) {
	const head = "order,amount,currency,source\n"
	for _, c := range []struct {
		name, text, order, currency, amount string
		format                              batch.Format
	}{
		{"an amount that is none", head + "1,x,EUR,tok_visa\n", "1", "EUR", "", batch.CSV},
		{"an amount with too many decimals", head + "1,1.5,JPY,tok_visa\n", "1", "JPY", "", batch.CSV},
		{"a currency that is none", head + "1,1.00,EURO,tok_visa\n", "1", "", "", batch.CSV},
		{"a card number for a currency", head + "1,1.00,4242424242424242,tok_visa\n", "1", "", "", batch.CSV},
		{"no source", `{"order":"1","amount":"1.00","currency":"EUR"}`, "1", "EUR", "", batch.JSONL},
		{"no end", `{"order":"1","currency":"EUR","amount":`, "1", "EUR", "", batch.JSONL},
		{"a duplicate", `{"order":"1","amount":"1.00","currency":"EUR","source":"t"}` + "\n" + `{"order":"1","amount":"1.00","currency":"EUR","source":"t"}`, "1", "EUR", "1.00", batch.JSONL},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows, err := batch.NewReader(strings.NewReader(c.text), c.format)
			if err != nil {
				t.Fatal(err)
			}
			var refused *batch.RowError
			for !errors.As(err, &refused) {
				if _, err = rows.Next(); errors.Is(err, io.EOF) {
					t.Fatal("no row was refused")
				}
			}
			if refused.Slot.Order != c.order || refused.Currency != c.currency || refused.Amount.Decimal() != c.amount {
				t.Errorf("order %q, currency %q, amount %q; want %q, %q, %q",
					refused.Slot.Order, refused.Currency, refused.Amount.Decimal(), c.order, c.currency, c.amount)
			}
		})
	}
}

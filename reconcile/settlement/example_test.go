package settlement_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/reconcile/settlement"
)

// Everything about the report is declared; a line that is written otherwise is refused with its place.
func ExampleRead() {
	profile, err := settlement.ParseProfile([]byte(`{
		"name": "acme", "encoding": "utf-8", "delimiter": ";", "quotes": "rfc4180",
		"columns": {"reference": "Order", "type": "Type", "gross": {"column": "Gross"}, "fees": ["Fee"], "net": {"column": "Net"}},
		"currency": "EUR",
		"types": {"SALE": {"kind": "charge"}, "REFUND": {"kind": "refund", "gross_sign": "opposite", "net_sign": "opposite"}},
		"amounts": {"unit": "major", "decimal_mark": ",", "grouping_mark": ".", "negative": "minus"},
		"fee_sign": "deducted"
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	const report = `Order;Type;Gross;Fee;Net
1001;SALE;1.560,00;68,94;1.491,06
1002;SALE;1,560.00;68.94;1,491.06
1003;REFUND;50,00;0,00;50,00
1004;REFUND;-50,00;0,00;-50,00
`
	for line, err := range settlement.Read(strings.NewReader(report), "acme.csv", profile) {
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(line.Kind, line.Reference, line.Gross, "fee", line.Fee)
	}
	// Output:
	// charge 1001 1560.00 EUR fee 68.94 EUR
	// acme.csv:3: column "Gross": "1,560.00": want digits, in groups of three by "." or not grouped, at most 2 of them behind ","; negative as -1
	// refund 1003 -50.00 EUR fee 0.00 EUR
	// acme.csv:5: column "Gross": "-50,00": a refund that brings money: the sign is not as declared
}

// The answer to the first payment was lost; the second one is in no report. A day later both are known.
func ExampleMatch() {
	ctx := context.Background()
	store := new(attempt.Memory)
	sent := time.Date(2026, 3, 28, 10, 0, 0, 0, time.UTC)
	err := errors.Join(
		remember(ctx, store, "0190a1b2-0000-7000-8000-000000000001", "1001", attempt.StatusUnknown, "", sent),
		remember(ctx, store, "0190a1b2-0000-7000-8000-000000000002", "1002", attempt.StatusApproved, "ch_2", sent),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	const report = `Settlement report,fakeprovider
Period,2026-03-28T00:00:00Z,2026-03-30T00:00:00Z
id,reference,type,gross,fee,net,currency,created
ch_1,0190a1b2-0000-7000-8000-000000000001,charge,19.99,0.53,19.46,EUR,2026-03-28T10:00:01Z
ch_3,somebody else's,charge,5.00,0.32,4.68,EUR,2026-03-29T23:00:00Z
TOTAL,2,,24.99,0.85,24.14,EUR,
`
	source := settlement.Source{Name: "report.csv", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(report)), nil
	}}
	result, err := settlement.Match(ctx, store, []settlement.Source{source}, settlement.Options{
		Profile: settlement.Fake(),
		Place:   attempt.Place{Provider: "fake"},
		From:    sent.Truncate(24 * time.Hour),
		TellAll: true,
		Tell: func(i settlement.Item) error {
			fmt.Println(i.Result, "order:", i.Attempt.Slot.Order, "charge:", i.Line.ID, "settled:", i.Settled)
			return nil
		},
	})
	fmt.Println(result.Totals["EUR"].Gross, result.Differences(), err)
	// Output:
	// matched order: 1001 charge: ch_1 settled: true
	// theirs_only order:  charge: ch_3 settled: false
	// ours_only order: 1002 charge:  settled: false
	// 2499 true <nil>
}

// remember puts an attempt into the store, as package payclient would have left it.
func remember(ctx context.Context, store attempt.Store, id, order string, status attempt.Status, charge string, at time.Time) error {
	a := attempt.Attempt{
		ID: id, Key: id, Reference: id, Slot: attempt.Slot{Order: order}.WithDefaults(), Ordinal: 1, Version: 1,
		Amount: money.MustParse("19.99", "EUR"), Provider: "fake", Status: status, ChargeID: charge,
		CreatedAt: at, UpdatedAt: at, FirstClaimAt: at, LastSentAt: at, Sends: 1, MaybeSends: 1,
	}
	return store.Apply(ctx, &attempt.Step{Slot: a.Slot, Do: func(attempt.View) ([]attempt.Write, error) {
		return []attempt.Write{{Attempt: &a, Event: attempt.Event{AttemptID: id, Version: 1, From: status, To: status, At: at}}}, nil
	}})
}

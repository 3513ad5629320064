package payclient_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
)

// The slot closes with the order's own change, or not at all. On a real database: refunds and duties are in it afterwards.
func TestCancelOrderTx(t *testing.T) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "shop.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	bank := fakeprovider.New(fakeprovider.Config{})
	client := exampleClient(bank, store, nil)
	paid, err := client.Pay(t.Context(), order("1001"))
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := client.Start(t.Context(), order("1002"))
	if err != nil {
		t.Fatal(err)
	}
	cancel := func(end error, slots ...attempt.Slot) (all []payclient.Result) {
		t.Helper()
		err := store.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx) error {
			for _, slot := range slots {
				res, err := client.CancelOrderTx(ctx, store.Tx(tx), slot, "out of time")
				if err != nil {
					return err
				}
				all = append(all, res)
			}
			return end
		})
		if !errors.Is(err, end) {
			t.Fatalf("%v, want %v", err, end)
		}
		return all
	}
	requests := bank.RequestCount()
	slots := []attempt.Slot{order("1001").Slot(), order("1002").Slot(), order("1003").Slot()}
	rolledBack := errors.New("rolled back")
	cancel(rolledBack, slots[0])
	if res, err := client.Pay(t.Context(), order("1001")); err != nil || res.Outcome != payclient.Approved {
		t.Fatalf("after a rollback: %+v, %v", res, err)
	}
	told := cancel(nil, slots...)
	if told[0].Moved != payclient.MovedYes || told[0].Reason != attempt.ReasonRefundOwed || told[0].AttemptID != paid.AttemptID {
		t.Errorf("the paid one: %+v", told[0])
	}
	for _, res := range told[1:] {
		if res.Moved != payclient.MovedNo || res.Open() || res.Reason != attempt.ReasonOrderCancelled {
			t.Errorf("one never sent: %+v", res)
		}
	}
	for i, slot := range slots {
		if _, err := client.Pay(t.Context(), order(slot.Order)); !errors.Is(err, attempt.ErrCancelled) {
			t.Errorf("order %d: %v", i, err)
		}
	}
	if _, err := client.Send(t.Context(), prepared.AttemptID, order("1002").Source); !errors.Is(err, attempt.ErrCancelled) {
		t.Errorf("sent by its id: %v", err)
	}
	if bank.RequestCount() != requests {
		t.Errorf("%d requests", bank.RequestCount()-requests)
	}
	a, err := store.Attempt(t.Context(), paid.AttemptID)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := a.OpenDuty()
	refund, err := client.RefundDuty(t.Context(), a, d)
	if err != nil || refund.Status != attempt.StatusApproved || len(bank.Refunds()) != 1 {
		t.Errorf("%s, %v, %d refunds", refund.Status, err, len(bank.Refunds()))
	}
	if res, err := client.Status(t.Context(), slots[0]); err != nil || res.Moved != payclient.MovedNo || res.Open() {
		t.Errorf("%+v, %v", res, err)
	}
	if _, err := client.CancelOrder(t.Context(), attempt.Slot{Order: "1004"}, ""); err != nil {
		t.Error(err)
	}
}

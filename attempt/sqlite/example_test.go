package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/money"
)

// An order and its attempt commit together: after a crash there is never one without the other.
func ExampleStore_InTx() {
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "shop.db"), sqlite.Options{})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	// A client makes such a step in StartTx; here it is made by hand.
	start := &attempt.Start{
		Slot:   attempt.Slot{Order: "1001"}.WithDefaults(),
		Intent: attempt.Intent{Order: "1001", Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token("tok_visa")},
		New: func(int) (attempt.Attempt, error) {
			id, err := attempt.NewIdentity("shop-")
			return attempt.Attempt{ID: id.ID, Key: id.Key, Reference: id.Reference, Amount: money.MustParse("548.90", "TRY")}, err
		},
	}
	err = store.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT)"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES ('1001', 'payment pending')"); err != nil {
			return err
		}
		return store.Tx(tx).ApplyTx(ctx, &attempt.Step{Slot: start.Slot, Do: start.Decide})
	})
	fmt.Println(err)

	view, err := store.Slot(ctx, start.Slot)
	fmt.Println(len(view.Attempts), view.Attempts[0].Status, err)
	// Output:
	// <nil>
	// 1 prepared <nil>
}

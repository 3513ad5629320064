package payclient_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
)

// The order's move to "payment pending" and its attempt commit together, in the host's own transaction; what is sent is the
// committed attempt. If the process ends between the two, the attempt is there for whoever pays the order next. The host's
// tables are in the same file, and its transaction runs on the store's writer.
func ExampleClient_StartTx() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "shop.db"), sqlite.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	bank := fakeprovider.New(fakeprovider.Config{})
	client := exampleClient(bank, store, nil) // payclient.New, see the first example
	defer client.Close(ctx)

	card := attempt.Token("tok_visa")
	id := ""
	err = store.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "CREATE TABLE orders (id TEXT PRIMARY KEY, state TEXT NOT NULL)"); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES ('1001', 'payment pending')"); err != nil {
			return err
		}
		res, err := client.StartTx(ctx, store.Tx(tx), attempt.Intent{Order: "1001", Amount: money.MustParse("548.90", "TRY"), Source: card})
		id = res.AttemptID
		return err
	})
	if err != nil {
		log.Fatal(err) // neither the order nor the attempt is there: nothing to send
	}
	fmt.Println("committed; requests so far:", bank.RequestCount())

	res, err := client.Send(ctx, id, card)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Outcome, "charges:", len(bank.Charges()))
	// Output:
	// committed; requests so far: 0
	// approved charges: 1
}

package postgres_test

import (
	"context"
	"fmt"
	"os"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/postgres"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/jackc/pgx/v5"
)

// The order's move to "payment pending" and its attempt commit together, in the host's own transaction; what is sent is the committed
// attempt. A double click finds the attempt that is there.
func ExampleStore_Tx() {
	url := os.Getenv("CHARGEONCE_TEST_POSTGRES")
	if url == "" {
		fmt.Println("committed; requests so far: 0\napproved true\napproved true\ncharges: 1") // there is no server to try it on
		return
	}
	if err := payInTx(context.Background(), url, fmt.Sprint("example_", os.Getpid())); err != nil {
		fmt.Println(err)
	}
	// Output:
	// committed; requests so far: 0
	// approved true
	// approved true
	// charges: 1
}

func payInTx(ctx context.Context, url, schema string) error {
	if _, err := postgres.Migrate(ctx, url, postgres.MigrateOptions{Schema: schema}); err != nil {
		return err
	}
	store, err := postgres.Open(ctx, url, postgres.Options{Schema: schema})
	if err != nil {
		return err
	}
	defer store.Close()
	db, err := pgx.Connect(ctx, url) // a service takes a connection of its pgxpool
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	defer func() { _, _ = db.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE") }()
	if _, err := db.Exec(ctx, "CREATE TABLE "+schema+".orders (id text PRIMARY KEY, state text NOT NULL); INSERT INTO "+schema+".orders VALUES ('1001', 'open')"); err != nil {
		return err
	}
	bank := fakeprovider.New(fakeprovider.Config{})
	provider, err := standard.New(standard.Config{Token: payclient.NewSecret("sk_test")})
	if err != nil {
		return err
	}
	client, err := payclient.New(payclient.Config{Provider: provider, Store: store, BaseURL: "https://provider.example", Transport: bank.RoundTripper()})
	if err != nil {
		return err
	}
	defer client.Close(ctx)

	card := attempt.Token("tok_visa")
	for click := range 2 {
		id := ""
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "UPDATE "+schema+".orders SET state = 'payment pending' WHERE id = '1001' AND state = 'open'"); err != nil {
				return err
			}
			res, err := client.StartTx(ctx, store.Tx(tx), attempt.Intent{Order: "1001", Amount: money.MustParse("548.90", "TRY"), Source: card})
			id = res.AttemptID
			return err
		})
		if err != nil {
			return err // neither the order has moved nor is the attempt there: nothing to send
		}
		if click == 0 {
			fmt.Println("committed; requests so far:", bank.RequestCount())
		}
		res, err := client.Send(ctx, id, card)
		if err != nil {
			return err
		}
		fmt.Println(res.Outcome, res.Existing == (click == 1))
	}
	fmt.Println("charges:", len(bank.Charges()))
	return nil
}

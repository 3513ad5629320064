package main

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/postgres"
)

const postgresTables = `
SELECT pg_advisory_xact_lock(7241001); -- shops that start at once make the tables one after another
CREATE TABLE IF NOT EXISTS shop_items (
	sku   text PRIMARY KEY,
	price bigint NOT NULL CHECK (price > 0),
	stock bigint NOT NULL CHECK (stock >= 0) -- what is in the house, reserved or not
);
CREATE TABLE IF NOT EXISTS shop_orders (
	id             bigint GENERATED ALWAYS AS IDENTITY (START WITH 1001) PRIMARY KEY,
	state          text NOT NULL CHECK (state IN ('open', 'payment pending', 'confirmed', 'cancelled')),
	total          bigint NOT NULL CHECK (total > 0),
	currency       text NOT NULL,
	pay_by         bigint NOT NULL,
	reserved_until bigint NOT NULL,
	why            text NOT NULL DEFAULT '' -- why it was cancelled
);
CREATE INDEX IF NOT EXISTS shop_orders_waiting ON shop_orders (pay_by) WHERE state IN ('open', 'payment pending');
CREATE TABLE IF NOT EXISTS shop_lines (
	order_id bigint NOT NULL REFERENCES shop_orders (id),
	sku      text NOT NULL REFERENCES shop_items (sku),
	quantity bigint NOT NULL CHECK (quantity > 0),
	PRIMARY KEY (sku, order_id)
);
CREATE INDEX IF NOT EXISTS shop_lines_order ON shop_lines (order_id);
`

// postgresStorage keeps everything in one PostgreSQL database, which any number of shops share. The store has connections of its
// own; these are the shop's, a host with a pgxpool has them there.
type postgresStorage struct {
	*postgres.Store
	url   string
	conns chan *pgx.Conn // a place for each; nil: not made yet
}

const shopConns = 8

func openPostgres(ctx context.Context, url string) (storage, error) {
	// Once for each release, and by the role that owns the schema, where it is more than a demonstration: chargeonce migrate up.
	if _, err := postgres.Migrate(ctx, url, postgres.MigrateOptions{}); err != nil {
		return nil, err
	}
	store, err := postgres.Open(ctx, url, postgres.Options{})
	if err != nil {
		return nil, err
	}
	s := &postgresStorage{Store: store, url: url, conns: make(chan *pgx.Conn, shopConns)}
	for range shopConns {
		s.conns <- nil
	}
	err = s.InTx(ctx, func(ctx context.Context, tx tx) error { return tx.Exec(ctx, postgresTables+items) })
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// with runs f on a connection, and once more where that has turned out to be dead before anything was sent.
func (s *postgresStorage) with(ctx context.Context, f func(*pgx.Conn) error) (err error) {
	var c *pgx.Conn
	select {
	case c = <-s.conns:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { s.conns <- c }()
	for tries := 0; tries < 2; tries++ {
		if c == nil {
			if c, err = pgx.Connect(ctx, s.url); err != nil {
				c = nil
				return err
			}
		}
		if err = f(c); !c.IsClosed() {
			return err
		}
		c = nil
		if !pgconn.SafeToRetry(err) {
			return err
		}
	}
	return err
}

func (s *postgresStorage) InTx(ctx context.Context, f func(context.Context, tx) error) error {
	return s.with(ctx, func(c *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(t pgx.Tx) error { return f(ctx, postgresTx{t, s.Store}) })
	})
}

func (s *postgresStorage) Get(ctx context.Context, row into, statement string, args ...any) error {
	return s.with(ctx, func(c *pgx.Conn) error { return c.QueryRow(ctx, statement, args...).Scan(row...) })
}

func (s *postgresStorage) Close() error {
	var errs []error
	for range shopConns {
		if c := <-s.conns; c != nil {
			errs = append(errs, c.Close(context.Background()))
		}
	}
	return errors.Join(append(errs, s.Store.Close())...)
}

type postgresTx struct {
	pgx.Tx
	store *postgres.Store
}

func (t postgresTx) Attempts() attempt.Tx { return t.store.Tx(t.Tx) }

func (t postgresTx) Get(ctx context.Context, row into, statement string, args ...any) error {
	return t.QueryRow(ctx, statement, args...).Scan(row...)
}

// Lock leaves those alone who only refer to the rows, so that a new line of an order does not wait for the item's other buyers.
func (t postgresTx) Lock(ctx context.Context, selected string, args ...any) error {
	return t.Exec(ctx, selected+" FOR NO KEY UPDATE", args...)
}

func (t postgresTx) Exec(ctx context.Context, statement string, args ...any) error {
	_, err := t.Tx.Exec(ctx, statement, args...)
	return err
}

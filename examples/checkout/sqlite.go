package main

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver of the shop's own reads

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
)

const sqliteTables = `
CREATE TABLE IF NOT EXISTS shop_items (
	sku   TEXT PRIMARY KEY,
	price INTEGER NOT NULL CHECK (price > 0),
	stock INTEGER NOT NULL CHECK (stock >= 0) -- what is in the house, reserved or not
) STRICT;
CREATE TABLE IF NOT EXISTS shop_orders (
	id             INTEGER PRIMARY KEY AUTOINCREMENT,
	state          TEXT NOT NULL CHECK (state IN ('open', 'payment pending', 'confirmed', 'cancelled')),
	total          INTEGER NOT NULL CHECK (total > 0),
	currency       TEXT NOT NULL,
	pay_by         INTEGER NOT NULL,
	reserved_until INTEGER NOT NULL,
	why            TEXT NOT NULL DEFAULT '' -- why it was cancelled
) STRICT;
CREATE INDEX IF NOT EXISTS shop_orders_waiting ON shop_orders (pay_by) WHERE state IN ('open', 'payment pending');
CREATE TABLE IF NOT EXISTS shop_lines (
	order_id INTEGER NOT NULL REFERENCES shop_orders (id),
	sku      TEXT NOT NULL REFERENCES shop_items (sku),
	quantity INTEGER NOT NULL CHECK (quantity > 0),
	PRIMARY KEY (sku, order_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS shop_lines_order ON shop_lines (order_id);

INSERT INTO sqlite_sequence (name, seq) SELECT 'shop_orders', 1000
	WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'shop_orders'); -- the first order is 1001
`

// sqliteStorage keeps everything in one file, which processes of one machine may share. Its transactions run one after another.
type sqliteStorage struct {
	*sqlite.Store
	reads *sql.DB // the same file, for reading only
}

func openSQLite(ctx context.Context, file string) (storage, error) {
	store, err := sqlite.Open(ctx, file, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(abs), RawQuery: "mode=rw&_pragma=query_only(1)&_pragma=busy_timeout(5000)"}
	reads, err := sql.Open("sqlite", dsn.String())
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	s := &sqliteStorage{Store: store, reads: reads}
	err = s.InTx(ctx, func(ctx context.Context, tx tx) error { return tx.Exec(ctx, sqliteTables+items) })
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *sqliteStorage) InTx(ctx context.Context, f func(context.Context, tx) error) error {
	return s.Store.InTx(ctx, func(ctx context.Context, t *sql.Tx) error { return f(ctx, sqliteTx{t, s.Store}) })
}

func (s *sqliteStorage) Get(ctx context.Context, row into, statement string, args ...any) error {
	return s.reads.QueryRowContext(ctx, statement, args...).Scan(row...)
}

func (s *sqliteStorage) Close() error { return errors.Join(s.reads.Close(), s.Store.Close()) }

type sqliteTx struct {
	*sql.Tx
	store *sqlite.Store
}

func (t sqliteTx) Attempts() attempt.Tx { return t.store.Tx(t.Tx) }

func (t sqliteTx) Get(ctx context.Context, row into, statement string, args ...any) error {
	return t.QueryRowContext(ctx, statement, args...).Scan(row...)
}

// Lock has nothing to do: no other transaction writes while this one runs.
func (t sqliteTx) Lock(context.Context, string, ...any) error { return nil }

func (t sqliteTx) Exec(ctx context.Context, statement string, args ...any) error {
	_, err := t.ExecContext(ctx, statement, args...)
	return err
}

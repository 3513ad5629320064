package main

import (
	"context"
	"database/sql"
)

// tables are the shop's own, beside the attempts' (chargeonce_*). Times are Unix milliseconds, amounts minor units.
const tables = `
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

INSERT INTO shop_items (sku, price, stock) VALUES ('mug', 1200, 20), ('shirt', 2500, 10), ('print', 9900, 1)
	ON CONFLICT (sku) DO NOTHING;
INSERT INTO sqlite_sequence (name, seq) SELECT 'shop_orders', 1000
	WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'shop_orders'); -- the first order is 1001
`

// currency is what the shop's prices are in.
const currency = "EUR"

func (s *Shop) createTables(ctx context.Context) error {
	return s.store.InTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, tables)
		return err
	})
}

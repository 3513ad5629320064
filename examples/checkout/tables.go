package main

// The shop's own tables are shop_*, beside the attempts' (chargeonce_*), and made when the shop opens. Times are Unix milliseconds,
// amounts minor units. Types are the one thing that SQLite and PostgreSQL do not write alike: see sqliteTables and postgresTables.

// items are what the shop sells.
const items = `
INSERT INTO shop_items (sku, price, stock) VALUES ('mug', 1200, 20), ('shirt', 2500, 10), ('print', 9900, 1)
	ON CONFLICT (sku) DO NOTHING;
`

// currency is what the shop's prices are in.
const currency = "EUR"

// Package panel is an adapter for an order panel: a provider without idempotency keys, which sells services by the piece
// against a prepaid balance and answers {"order":123} or {"error":"..."}. It is there to show, and to test, that the
// Provider seam carries a provider that can do next to nothing; it speaks the order API of fakeprovider and no other, which
// is why it is not public.
//
// What it promises follows from what it declares. Without keys an attempt has at most one request that may have been
// executed. An order's line (service, quantity, link) is the payment source, so that the same order with another line is
// a conflict and never the old result. The amount is the line's price by the price list of the configuration; [Provider.Intent]
// makes the two agree.
//
// An answer {"order":123} names neither our reference nor what was ordered: it is not believed, the panel is asked by
// reference instead. A panel that cannot be asked leaves every accepted order open, with its number, for a person.
package panel

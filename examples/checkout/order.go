package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// State is where an order stands. outcome.go moves it.
type State string

// The states. The last two are final.
const (
	StateOpen      State = "open"            // the goods are reserved, nothing is under way
	StatePending   State = "payment pending" // an attempt to pay is stored, in the same commit as this state
	StateConfirmed State = "confirmed"       // paid, and the goods taken from the stock
	StateCancelled State = "cancelled"       // never to be paid any more; the goods are free
)

func (s State) final() bool { return s == StateConfirmed || s == StateCancelled }

// Line is a part of an order.
type Line struct {
	SKU      string `json:"sku"`
	Quantity int    `json:"quantity"`
}

// Order is an order as it is stored.
type Order struct {
	ID            string // also the order id in its payment's slot
	State         State
	Total         money.Amount
	PayBy         time.Time
	ReservedUntil time.Time
	Why           string // why it was cancelled
}

// slot names what is paid once: this order.
func (o Order) slot() attempt.Slot { return attempt.Slot{Order: o.ID, Purpose: attempt.PurposeCharge} }

// Why a request about an order is refused. Nothing was changed.
var (
	errNoOrder   = errors.New("there is no such order")
	errBadOrder  = errors.New("not an order that can be made")
	errNoStock   = errors.New("not enough in stock")
	errConfirmed = errors.New("the order is paid and confirmed")
)

// Limits of an order.
const (
	maxLines    = 50
	maxQuantity = 100
)

// CreateOrder makes an order and reserves its goods.
func (s *Shop) CreateOrder(ctx context.Context, lines []Line) (o Order, err error) {
	if err := checkLines(lines); err != nil {
		return Order{}, err
	}
	err = s.store.InTx(ctx, func(ctx context.Context, tx tx) error {
		now := time.Now()
		var total int64
		for _, l := range lines {
			var price int64
			switch err := tx.Get(ctx, into{&price}, "SELECT price FROM shop_items WHERE sku = $1", l.SKU); {
			case errors.Is(err, sql.ErrNoRows):
				return fmt.Errorf("%w: there is no %q", errBadOrder, l.SKU)
			case err != nil:
				return err
			}
			total += price * int64(l.Quantity) // far from overflow, see the limits
		}
		if o.Total, err = money.New(total, currency); err != nil {
			return err
		}
		o.State, o.PayBy, o.ReservedUntil = StateOpen, now.Add(s.timings.Order), now.Add(s.timings.Reservation)
		var id int64
		if err := tx.Get(ctx, into{&id}, "INSERT INTO shop_orders (state, total, currency, pay_by, reserved_until) VALUES ($1, $2, $3, $4, $5) RETURNING id",
			o.State, total, currency, o.PayBy.UnixMilli(), o.ReservedUntil.UnixMilli()); err != nil {
			return err
		}
		o.ID = strconv.FormatInt(id, 10)
		for _, l := range lines {
			if err := tx.Exec(ctx, "INSERT INTO shop_lines (order_id, sku, quantity) VALUES ($1, $2, $3)", id, l.SKU, l.Quantity); err != nil {
				return err
			}
		}
		return checkStock(ctx, tx, o, now)
	})
	if err != nil {
		return Order{}, err
	}
	return o, nil
}

func checkLines(lines []Line) error {
	if len(lines) == 0 || len(lines) > maxLines {
		return fmt.Errorf("%w: %d items, want 1 to %d", errBadOrder, len(lines), maxLines)
	}
	for i, l := range lines {
		if l.Quantity < 1 || l.Quantity > maxQuantity {
			return fmt.Errorf("%w: %d of %q, want 1 to %d", errBadOrder, l.Quantity, l.SKU, maxQuantity)
		}
		if slices.ContainsFunc(lines[:i], func(before Line) bool { return before.SKU == l.SKU }) {
			return fmt.Errorf("%w: %q is there twice", errBadOrder, l.SKU)
		}
	}
	return nil
}

// checkStock fails with errNoStock unless there is enough for an order, what is reserved for others left alone. A reservation
// is the order itself while it waits for its payment: nothing has to be released, and nothing can be forgotten.
func checkStock(ctx context.Context, tx tx, o Order, now time.Time) error {
	if err := tx.Lock(ctx, "SELECT 1 FROM shop_items WHERE sku IN (SELECT sku FROM shop_lines WHERE order_id = $1) ORDER BY sku", o.ID); err != nil {
		return err
	}
	var short sql.NullString
	err := tx.Get(ctx, into{&short}, `
		SELECT string_agg(i.sku, ', ') FROM shop_lines mine JOIN shop_items i ON i.sku = mine.sku
		WHERE mine.order_id = $1 AND i.stock - mine.quantity < (
			SELECT coalesce(sum(l.quantity), 0) FROM shop_lines l JOIN shop_orders o ON o.id = l.order_id
			WHERE l.sku = i.sku AND o.id <> $1 AND o.state IN ('open', 'payment pending') AND o.reserved_until > $2)`,
		o.ID, now.UnixMilli())
	if err != nil {
		return err
	}
	if short.Valid {
		return fmt.Errorf("%w: %s", errNoStock, short.String)
	}
	return nil
}

// takeOrder reads an order that nobody else changes before the transaction ends.
func takeOrder(ctx context.Context, tx tx, id string) (Order, error) {
	if _, err := readOrder(ctx, tx, id); err != nil {
		return Order{}, err
	}
	if err := tx.Lock(ctx, "SELECT 1 FROM shop_orders WHERE id = $1", id); err != nil {
		return Order{}, err
	}
	return readOrder(ctx, tx, id)
}

func readOrder(ctx context.Context, from getter, id string) (Order, error) {
	number, err := strconv.ParseInt(id, 10, 64)
	if err != nil || strconv.FormatInt(number, 10) != id { // "01001" would be another slot of the same order
		return Order{}, errNoOrder
	}
	o := Order{ID: id}
	var total, payBy, reservedUntil int64
	var code string
	err = from.Get(ctx, into{&o.State, &total, &code, &payBy, &reservedUntil, &o.Why},
		"SELECT state, total, currency, pay_by, reserved_until, why FROM shop_orders WHERE id = $1", number)
	if errors.Is(err, sql.ErrNoRows) {
		return Order{}, errNoOrder
	}
	if err != nil {
		return Order{}, err
	}
	o.PayBy, o.ReservedUntil = time.UnixMilli(payBy), time.UnixMilli(reservedUntil)
	o.Total, err = money.Restore(total, code)
	return o, err
}

// setState writes an order's state.
func (o *Order) setState(ctx context.Context, tx tx, to State, why ...string) error {
	o.State, o.Why = to, strings.Join(why, "; ")
	return tx.Exec(ctx, "UPDATE shop_orders SET state = $1, why = $2 WHERE id = $3", o.State, o.Why, o.ID)
}

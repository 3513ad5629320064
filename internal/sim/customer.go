package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
)

func intent(order, source string, minor int64, currency string) attempt.Intent {
	amount, err := money.New(minor, currency)
	if err != nil {
		panic(err) // a mistake in the simulator
	}
	return attempt.Intent{Order: order, Amount: amount, Source: attempt.Token(source)}
}

// call makes a call at an instance, and writes down what was told.
func (w *world) call(op, order string, prefer int, f func(context.Context, *instance) (payclient.Result, error)) *call {
	i := w.alive(prefer)
	c := &call{op: op, order: order, instance: i.name, began: time.Now()}
	w.mu.Lock()
	c.n = len(w.records.calls)
	w.records.calls = append(w.records.calls, c)
	w.mu.Unlock()
	before, frozen := i.stalled()
	w.tracef("call %d: %s %s at %s", c.n, op, order, i.name)
	res, err := f(context.WithValue(i.ctx, callKey{}, c), i)
	i.thaw(op, order)
	w.mu.Lock()
	defer w.mu.Unlock()
	if i.dead() {
		return c
	}
	c.result, c.err, c.ended = res, err, time.Now()
	after, _ := i.stalled()
	c.stalled = frozen || after != before
	w.trace = append(w.trace, traced{c.ended.Sub(w.began), func() string { return fmt.Sprintf("call %d is told %s", c.n, told(c)) }})
	return c
}

func told(c *call) string {
	text := c.result.Outcome.String() + ", moved " + c.result.Moved.String() + ", " + string(c.result.Reason) + ", attempt " + short(c.result.Reference)
	if c.err != nil {
		text += ", error: " + c.err.Error()
	}
	if c.result.RecordErr != nil {
		text += ", not recorded"
	}
	return text
}

// pay is a customer's attempt to pay.
func (w *world) pay(in attempt.Intent, prefer int, patience time.Duration) *call {
	return w.call("pay", in.Order, prefer, func(ctx context.Context, i *instance) (payclient.Result, error) {
		if patience > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
			// Not in the very moment of the deadline, in which nobody can say which of the two it was.
			defer time.AfterFunc(patience-1, cancel).Stop()
		}
		return i.client.Pay(ctx, in)
	})
}

// settled tells whether a customer has no reason to try again: paid, or refused for good.
func settled(c *call) bool {
	if !c.told() {
		return false
	}
	switch {
	case c.err == nil:
		return !c.result.Open()
	case errors.Is(c.err, attempt.ErrAlreadyPaid), errors.Is(c.err, attempt.ErrCancelled), errors.Is(c.err, attempt.ErrRefunded):
		return true
	}
	return false
}

var styles = []string{
	"plain", "plain", "plain", "plain", "double", "double", "change", "change", "again", "again", "cancel", "cancel", "cancel",
	"refund", "refund", "refund", "two steps", "two steps", "impatient", "impatient", "amount", "batch",
}

// customer lives through one order.
func (w *world) customer(order string) {
	d := w.dice
	n := int(d.draw("instance", order, 0) % 1000)
	draw := func(lo, hi time.Duration, what string) time.Duration {
		return d.between(lo, hi, what, order, d.next(what, order))
	}
	<-time.After(draw(0, w.profile.span, "order comes"))
	style := pick(d, styles, "style", order, 0)
	minor := int64(100 + d.draw("amount", order, 0)%99_900) //nolint:gosec // small
	currency := pick(d, []string{"EUR", "EUR", "TRY", "USD", "JPY"}, "currency", order, 0)
	card := func(k int) string { return pick(d, w.profile.sources, "card", order, k) }
	in := intent(order, card(0), minor, currency)
	if w.profile.restored && d.chance(0.2, "restored", order, 0) {
		style = "forgotten"
	}
	if w.profile.crowd {
		style = "crowd"
	}
	w.tracef("%s: a customer of the kind %q with %s", order, style, in.Source.Reveal())

	// again tries again until it is settled: the queue that redelivers, the customer with the retry button.
	again := func(in attempt.Intent, times int, c *call) *call {
		for k := range times {
			if settled(c) {
				break
			}
			<-time.After(draw(time.Second, pick(d, []time.Duration{4 * time.Second, 30 * time.Second, 20 * time.Minute}, "again within", order, k), "again"))
			c = w.pay(in, n+k, 0)
		}
		return c
	}
	switch style {
	case "double": // a double click, at two instances
		w.customers.Go(func() {
			<-time.After(draw(0, 900*time.Millisecond, "double click"))
			again(in, 2, w.pay(in, n+1, 0))
		})
		again(in, 3, w.pay(in, n, 0))
	case "change": // another card, while the first payment is not settled or after it was refused
		c := w.pay(in, n, 0)
		for k := 1; k <= 4 && !(settled(c) && c.err == nil && c.result.Moved == payclient.MovedYes); k++ {
			<-time.After(draw(time.Second, pick(d, []time.Duration{10 * time.Second, 15 * time.Minute}, "change within", order, k), "change"))
			c = w.pay(intent(order, card(k), minor, currency), n+k, 0)
			if errors.Is(c.err, attempt.ErrAlreadyPaid) {
				break
			}
		}
	case "again": // refused, and asked for again in so many words
		if d.chance(0.5, "again declined", order, 0) {
			in.Source = attempt.Token("tok_insufficient_funds")
		}
		c := again(in, 2, w.pay(in, n, 0))
		for k := range 3 {
			if !c.told() || c.err != nil || c.result.Outcome != payclient.Declined {
				break
			}
			<-time.After(draw(time.Second, time.Minute, "asked again"))
			in.Again = c.result.AttemptID
			w.count("asked again in so many words")
			c = w.pay(in, n+k, 0)
		}
	case "cancel":
		w.customers.Go(func() {
			<-time.After(draw(0, pick(d, []time.Duration{5 * time.Second, 2 * time.Minute, 50 * time.Minute}, "cancel within", order, 0), "cancel"))
			for k := range 5 {
				c := w.call("cancel", order, n+k, func(ctx context.Context, i *instance) (payclient.Result, error) {
					return i.client.CancelOrder(ctx, in.Slot(), "simulated")
				})
				if c.told() && c.err == nil {
					return
				}
				<-time.After(draw(time.Second, 30*time.Second, "cancel again"))
			}
		})
		<-time.After(draw(0, 3*time.Second, "pay beside cancel"))
		again(in, 3, w.pay(in, n, 0))
	case "refund":
		c := again(in, 4, w.pay(in, n, 0))
		w.refund(order, n, c, draw)
	case "two steps": // started with the order, sent after the commit; perhaps never
		c := w.call("start", order, n, func(ctx context.Context, i *instance) (payclient.Result, error) { return i.client.Start(ctx, in) })
		if !c.told() || c.err != nil || c.result.AttemptID == "" || d.chance(0.15, "never sent", order, 0) {
			return
		}
		for k := range 4 {
			<-time.After(draw(time.Millisecond, 20*time.Second, "send"))
			s := w.call("send", order, n+k, func(ctx context.Context, i *instance) (payclient.Result, error) {
				return i.client.Send(ctx, c.result.AttemptID, in.Source)
			})
			if settled(s) {
				return
			}
		}
	case "impatient": // the browser is closed, and opened again
		c := w.pay(in, n, draw(time.Millisecond, 4*time.Second, "patience"))
		<-time.After(draw(time.Millisecond, 10*time.Second, "comes back"))
		w.check(order, n+1, in)
		again(in, 3, c)
	case "amount": // the basket has changed
		w.pay(in, n, 0)
		<-time.After(draw(0, 20*time.Second, "basket"))
		again(intent(order, card(0), minor+1, currency), 3, w.pay(intent(order, card(0), minor+1, currency), n+1, 0))
	case "crowd": // one at each instance, who asks every second
		for k := range w.profile.instances {
			one := order + " at " + strconv.Itoa(k)
			w.customers.Go(func() {
				<-time.After(d.between(0, time.Second, "crowd", one, 0))
				for again := range 25 {
					if settled(w.pay(in, k, 0)) {
						return
					}
					<-time.After(d.between(500*time.Millisecond, 1500*time.Millisecond, "crowd again", one, again))
				}
			})
		}
	case "forgotten": // paid already, in a time that the shop knows nothing of any more
		w.forgotten(in)
		<-time.After(draw(0, pick(d, []time.Duration{100 * time.Millisecond, 90 * time.Second}, "comes again within", order, 0), "comes again"))
		again(in, 4, w.pay(in, n, 0))
		w.check(order, n, in)
	case "batch": // a queue delivers the same message five times, whatever the answers
		for k := range 5 {
			w.pay(in, n+k, 0)
			<-time.After(draw(time.Second, 15*time.Minute, "redelivered"))
		}
	default:
		again(in, 4, w.pay(in, n, 0))
		w.check(order, n, in)
	}
}

func (w *world) check(order string, n int, in attempt.Intent) {
	w.call("check", order, n, func(ctx context.Context, i *instance) (payclient.Result, error) {
		return i.client.Check(ctx, in.Slot())
	})
	w.call("status", order, n, func(ctx context.Context, i *instance) (payclient.Result, error) {
		return i.client.Status(ctx, in.Slot())
	})
}

// refund gives money back, from two sources that do not know of each other.
func (w *world) refund(order string, n int, paid *call, draw func(lo, hi time.Duration, what string) time.Duration) {
	if !paid.told() || paid.err != nil || paid.result.Outcome != payclient.Approved || !w.profile.refunds {
		return
	}
	d := w.dice
	<-time.After(draw(time.Second, 10*time.Minute, "refund after"))
	whole := paid.result.Attempt.Amount
	source := func(id string, prefer int, r attempt.Refund) {
		r.AttemptID, r.ID = paid.result.AttemptID, id
		for k := range 4 {
			c := w.call("refund", order, prefer+k, func(ctx context.Context, i *instance) (payclient.Result, error) { return i.client.Refund(ctx, r) })
			if c.told() && (c.err == nil && !c.result.Open() || errors.Is(c.err, attempt.ErrNotRefundable) || errors.Is(c.err, attempt.ErrRefunded)) {
				return
			}
			<-time.After(draw(time.Second, 15*time.Minute, "refund again"))
		}
	}
	part := func(k int) attempt.Refund { // all that is left, or a part
		if d.chance(0.4, "whole refund", order, k) {
			return attempt.Refund{}
		}
		of := int64(1 + d.draw("refund part", order, k)%uint64(whole.Minor())) //nolint:gosec // below the amount
		return attempt.Refund{Amount: intent(order, "tok_visa", of, whole.Currency()).Amount}
	}
	w.customers.Go(func() {
		<-time.After(draw(0, 2*time.Second, "second source"))
		source("returns-desk", n+1, part(1))
	})
	if d.chance(0.5, "refund twice", order, 0) {
		w.customers.Go(func() {
			<-time.After(draw(0, time.Second, "double refund"))
			source("web-shop", n+2, part(0))
		})
	}
	source("web-shop", n, part(0))
}

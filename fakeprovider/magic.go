package fakeprovider

import (
	"strings"
	"time"
)

// Source describes a payment source that decides by itself.
type Source struct {
	Name string `json:"name"` // <duration> is any Go duration, as in tok_slow_5s
	What string `json:"what"`
}

// Sources lists the magic sources. Any other tok_ source is approved.
func Sources() []Source {
	return []Source{
		{"tok_visa", "approved"},
		{"tok_mastercard", "approved"},
		{"tok_declined", "declined, decline_code generic_decline"},
		{"tok_declined_<code>", "declined with this decline_code"},
		{"tok_insufficient_funds", "declined, decline_code insufficient_funds"},
		{"tok_slow_<duration>", "charged at once, answered after the duration; the key is running until then"},
		{"tok_book_after_<duration>", "charged and answered after the duration; the key is locked until then"},
		{"tok_lost_answer", "charged; the first answer of a reference is cut off"},
		{"tok_never_arrives", "not charged, silence until the client gives up"},
		{"tok_pending", "pending for ever"},
		{"tok_pending_then_succeeded_<duration>", "pending, succeeded after the duration"},
		{"tok_pending_then_failed_<duration>", "pending, failed after the duration"},
		{"tok_requires_action", "pending, with a next_action for the payer"},
		{"tok_refund_declined", "approved; its refunds are declined"},
		{"tok_refund_pending", "approved; its refunds stay pending"},
		{"tok_refund_pending_then_succeeded_<duration>", "approved; its refunds succeed after the duration"},
		{"tok_refund_pending_then_failed_<duration>", "approved; its refunds fail after the duration"},
	}
}

// verdict is what becomes of a charge or refund.
type verdict struct {
	state     State
	code      string // decline code
	action    bool
	flipTo    State
	flipAfter time.Duration
	loseFirst bool
}

// decide says what becomes of what is wanted, or refuses it. The caller holds
// the lock.
func (x *exchange) decide(w *wanted, kind uint8) (verdict, answer, bool) {
	p, plan := x.p, x.plan
	v := verdict{state: Succeeded}
	more := text("merchant_reference", w.reference)
	if kind == kindRefund {
		bad, ok := x.refundable(w, more)
		if !ok {
			return v, bad, false
		}
		v.byName("tok_"+strings.TrimPrefix(p.charges.list.at(w.charge).source(), "tok_refund_"),
			strings.HasPrefix(p.charges.list.at(w.charge).source(), "tok_refund_"))
	} else {
		if p.config.UniqueReferences {
			used := false
			p.charges.each(p.seed, p.client(x.in.client), w.reference, func(uint32, *record) { used = true })
			if used {
				return v, problem(probDuplicate, more), false
			}
		}
		v.byName(w.source, true)
		if d, ok := after(w.source, "tok_slow_"); ok {
			x.slow += d
		}
		if d, ok := after(w.source, "tok_book_after_"); ok && plan.bookAfter == 0 {
			late := *plan
			late.bookAfter = d
			x.plan = &late
		}
		v.loseFirst = w.source == "tok_lost_answer"
		if w.source == "tok_never_arrives" {
			x.end = endHang
		}
	}
	if plan.decline != "" {
		v.state, v.code = Failed, plan.decline
	}
	if plan.pending {
		v.state, v.action = Pending, plan.action
	}
	if plan.flipTo != "" {
		v.flipTo, v.flipAfter = plan.flipTo, plan.flipAfter
	}
	return v, answer{}, true
}

// byName reads the part of a source that decides the state.
func (v *verdict) byName(name string, magic bool) {
	if !magic {
		return
	}
	switch {
	case name == "tok_declined":
		v.state, v.code = Failed, "generic_decline"
	case name == "tok_insufficient_funds":
		v.state, v.code = Failed, "insufficient_funds"
	case strings.HasPrefix(name, "tok_declined_"):
		v.state, v.code = Failed, strings.TrimPrefix(name, "tok_declined_")
	case name == "tok_pending":
		v.state = Pending
	case name == "tok_requires_action":
		v.state, v.action = Pending, true
	}
	for _, to := range []State{Succeeded, Failed} {
		if d, ok := after(name, "tok_pending_then_"+string(to)+"_"); ok {
			v.state, v.flipTo, v.flipAfter = Pending, to, d
		}
	}
}

// after reads the duration behind a prefix.
func after(s, prefix string) (time.Duration, bool) {
	text, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	return d, err == nil && d >= 0
}

// refundable checks a refund against its charge: what is not final counts
// against what is left.
func (x *exchange) refundable(w *wanted, more member) (answer, bool) {
	p := x.p
	w.charge = p.charges.number(w.chargeID)
	if w.charge == 0 || p.charges.list.at(w.charge).client != p.client(x.in.client) {
		return problem(probNoCharge, more), false
	}
	c := p.charges.list.at(w.charge)
	if states[c.state] != Succeeded {
		return problem(probNotPaid, more), false
	}
	if c.currency != w.currency {
		return problem(probCurrency, detail("not the charge's currency"), more), false
	}
	left := c.amount - p.reserved[w.charge]
	for _, n := range p.refundsOf[w.charge] {
		if r := p.refunds.list.at(n); states[r.state] != Failed {
			left -= r.amount
		}
	}
	switch {
	case left <= 0:
		return problem(probRefunded, more), false
	case w.amount > left:
		return problem(probTooMuch, more), false
	}
	return answer{}, true
}

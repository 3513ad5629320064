package fakeprovider

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// execute carries the request out. The caller holds the lock.
func (x *exchange) execute() answer {
	in, p := x.in, x.p
	var shelf *shelf
	rest := ""
	kind := kindCharge
	switch head, tail, _ := strings.Cut(strings.TrimPrefix(in.path, "/v1/"), "/"); {
	case !strings.HasPrefix(in.path, "/v1/"):
		return problem(probNotFound, detail(in.path))
	case head == "charges":
		shelf, rest = &p.charges, tail
	case head == "refunds":
		shelf, rest, kind = &p.refunds, tail, kindRefund
	case head == "orders":
		return x.orderAPI(tail)
	default:
		return problem(probNotFound, detail(in.path))
	}
	if !in.authorised {
		return problem(probUnauthorized)
	}
	whole := !strings.HasSuffix(in.path, "/")
	switch {
	case in.method == http.MethodPost && rest == "" && whole:
		return x.create(kind)
	case in.method == http.MethodGet && rest == "" && whole:
		return x.search(shelf, kind)
	case kind == kindCharge && strings.HasSuffix(rest, "/void"):
		return x.void(strings.TrimSuffix(rest, "/void"))
	case in.method == http.MethodGet:
		n := shelf.number(rest)
		if n == 0 || shelf.list.at(n).client != p.client(in.client) {
			return problem(probNotFound, detail(rest))
		}
		r := shelf.list.at(n)
		return answer{status: 200, ctype: typeJSON, body: p.appendRecord(nil, kind, n, r, r.state)}
	}
	return problem(probMethod)
}

// create makes a charge or a refund, once per key.
func (x *exchange) create(kind uint8) answer {
	p, in := x.p, x.in
	if in.tooBig {
		return problem(probTooLarge)
	}
	if !p.config.IgnoreKeys {
		switch {
		case in.keyErr != nil:
			return problem(probKeySyntax, detail(in.keyErr.Error()))
		case in.key == "":
			return problem(probKeyMissing)
		}
		if a, known := x.replay(); known {
			return a
		}
	}
	var w wanted
	if bad, ok := x.read(&w, kind); !ok {
		return bad
	}
	if kind == kindRefund {
		w.source = w.reason
	}
	v, bad, ok := x.decide(&w, kind)
	if !ok {
		return bad
	}
	if x.end == endHang && !x.plan.book {
		return answer{}
	}
	x.keeps = x.entry != 0
	b := x.booking(kind, &w, v)
	x.wait = x.plan.bookAfter + x.slow
	if x.plan.bookAfter > 0 {
		x.bookLater(b)
		return answer{}
	}
	return x.book(b, x.now)
}

// booking is a charge or refund that is decided and not yet in the books.
type booking struct {
	kind      uint8
	record    record // without its time
	twice     bool
	hide      time.Duration
	flipTo    State
	flipAfter time.Duration
	loseFirst bool
	later     uint64 // names it in the ledger file while it waits
}

func (x *exchange) booking(kind uint8, w *wanted, v verdict) booking {
	p, plan := x.p, x.plan
	r := record{
		text:   w.reference + w.source + w.description,
		refLen: uint16(len(w.reference)), srcLen: uint16(len(w.source)),
		amount: w.amount, currency: w.currency, parent: w.charge, client: p.client(x.in.client),
		code: p.declineCode(v.code), state: v.state.compact(), first: v.state.compact(),
	}
	if v.action {
		r.marks = markAction
	}
	if plan.bookAmount != 0 {
		r.amount = plan.bookAmount
	}
	if plan.bookCurrency != "" {
		copy(r.currency[:], plan.bookCurrency)
	}
	return booking{kind, r, plan.twice, plan.hide, v.flipTo, v.flipAfter, v.loseFirst, 0}
}

// bookLater locks the key and books when the time has come, whether or not
// the client still waits.
func (x *exchange) bookLater(b booking) {
	p := x.p
	due := x.now.Add(x.plan.bookAfter)
	if x.entry != 0 {
		e := p.keys.list.at(x.entry)
		e.state, e.print = keyLocked, x.print
		e.end = due.Add(p.config.LockTimeout).UnixNano()
	}
	b.later = p.journal.accepted(x, &b, due)
	p.bookAt(x, b, due)
}

// bookAt queues a booking.
func (p *Provider) bookAt(x *exchange, b booking, due time.Time) {
	p.reserve(&b, 1)
	x.job = p.later(due, func() {
		p.reserve(&b, -1)
		x.ans = x.book(b, due)
		x.conclude()
	})
	x.job.line = func() line { return x.acceptedLine(&b, due) }
}

// reserve counts a refund that waits to be booked as taken from its charge.
func (p *Provider) reserve(b *booking, sign int64) {
	if b.kind == kindRefund {
		p.reserved[b.record.parent] += sign * b.record.amount
	}
}

// replay answers from what the key holds. The second result is false for a
// request that has to be executed.
func (x *exchange) replay() (answer, bool) {
	p := x.p
	e := p.keys.list.at(x.entry)
	now := x.now.UnixNano()
	switch e.state {
	case keyLocked:
		if now >= e.end {
			return answer{}, false
		}
	case keyDone:
		if now-e.end >= int64(p.config.KeyRetention) {
			delete(p.keys.answers, x.entry)
			return answer{}, false
		}
	default:
		return answer{}, false
	}
	if e.print != x.print {
		return problem(probReused), true
	}
	if e.state == keyLocked || now < e.end {
		return problem(probRunning), true
	}
	if a, stored := p.keys.answers[x.entry]; stored {
		a.replayed = true
		return a, true
	}
	a := p.firstAnswer(e.kind, e.record)
	a.replayed = true
	return a, true
}

// book writes a charge or refund into the books and returns the answer to it.
func (x *exchange) book(b booking, at time.Time) answer {
	p := x.p
	if b.loseFirst {
		first := true
		p.charges.each(p.seed, b.record.client, b.record.reference(), func(uint32, *record) { first = false })
		if first {
			x.end = endClose
		}
	}
	n := p.enterBooking(&b, at)
	if x.keeps {
		e := p.keys.list.at(x.entry)
		e.state, e.print, e.kind, e.record = keyDone, x.print, b.kind, n
		e.end = at.Add(x.slow).UnixNano()
	}
	x.booked = append(x.booked, entered{b, n, at, nil})
	return p.firstAnswer(b.kind, n)
}

// entered is a booking that is in the books.
type entered struct {
	booking
	n      uint32
	at     time.Time
	events []*event
}

// enterBooking puts a booking into the books and returns its number.
func (p *Provider) enterBooking(b *booking, at time.Time) uint32 {
	r := b.record
	r.booked = at.UnixNano()
	shelf := p.shelf(b.kind)
	n := shelf.add(p.seed, r)
	numbers := []uint32{n}
	if b.twice {
		numbers = append(numbers, shelf.add(p.seed, r))
	}
	for _, n := range numbers {
		if b.hide > 0 {
			if shelf.hidden == nil {
				shelf.hidden = map[uint32]int64{}
			}
			shelf.hidden[n] = at.Add(b.hide).UnixNano()
		}
		if b.kind == kindRefund {
			p.refundsOf[r.parent] = append(p.refundsOf[r.parent], n)
		}
	}
	if to := b.flipTo; to != "" {
		kind, due := b.kind, at.Add(b.flipAfter)
		j := p.later(due, func() {
			if r := shelf.list.at(n); r.marks&markVoided == 0 && states[r.state] != to {
				r.state = to.compact()
				if e := p.announce(kind, n, due.UnixNano(), nil); e != nil {
					p.journal.append(false, line{T: "event", At: e.at, Events: eventLines(e)})
				}
			}
		})
		j.flip = &flip{b.kind, n, to}
	}
	return n
}

func (p *Provider) shelf(kind uint8) *shelf {
	if kind == kindRefund {
		return &p.refunds
	}
	return &p.charges
}

// firstAnswer is what the request that made record n was told.
func (p *Provider) firstAnswer(kind uint8, n uint32) answer {
	shelf := p.shelf(kind)
	r := shelf.list.at(n)
	if states[r.first] == Failed {
		more := []member{
			text("decline_code", p.codes[r.code]),
			text("merchant_reference", r.reference()),
			text([]string{"charge", "refund"}[kind], shelf.id(n)),
		}
		return problem(prob{402, "card_declined", "The payment was declined"}, more...)
	}
	return answer{status: 201, ctype: typeJSON, body: p.appendRecord(make([]byte, 0, 224), kind, n, r, r.first)}
}

// appendRecord appends a charge or refund as JSON.
func (p *Provider) appendRecord(b []byte, kind uint8, n uint32, r *record, state uint8) []byte {
	b = append(b, `{"id":"`...)
	b = appendID(b, p.shelf(kind).prefix, n)
	b = append(b, `","status":"`...)
	b = append(b, states[state]...)
	b = append(b, `","amount":`...)
	b = strconv.AppendInt(b, r.amount, 10)
	b = append(b, `,"currency":"`...)
	b = append(b, r.currency[:]...)
	b = append(b, `","merchant_reference":`...)
	b = appendString(b, r.reference())
	if kind == kindRefund {
		b = append(b, `,"charge":"`...)
		b = appendID(b, p.charges.prefix, r.parent)
		b = append(b, '"')
	}
	b = append(b, `,"created":`...)
	b = appendTime(b, r.booked)
	if d := r.description(); d != "" {
		b = append(b, `,"description":`...)
		b = appendString(b, d)
	}
	if states[state] == Failed {
		b = append(b, `,"decline_code":`...)
		b = appendString(b, p.declineCodeOf(r))
	}
	if r.marks&markAction != 0 && states[state] == Pending {
		b = append(b, `,"next_action":{"type":"redirect","url":"https://payer.invalid/`...)
		b = appendID(b, p.shelf(kind).prefix, n)
		b = append(b, `"}`...)
	}
	return append(b, '}')
}

// client returns a client's number.
func (p *Provider) client(name string) uint32 {
	n, ok := p.clients[name]
	if !ok {
		n = uint32(len(p.names))
		p.clients[name] = n
		p.names = append(p.names, name)
	}
	return n
}

func (p *Provider) declineCode(code string) uint16 {
	n, ok := p.codeNo[code]
	if !ok {
		if len(p.codes) > 60000 {
			return 0
		}
		n = uint16(len(p.codes))
		p.codeNo[code] = n
		p.codes = append(p.codes, code)
	}
	return n
}

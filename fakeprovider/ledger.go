package fakeprovider

import (
	"fmt"
	"time"
)

// Charge is a charge in the provider's books.
type Charge struct {
	ID          string    `json:"id"`
	Client      string    `json:"client"`
	Status      State     `json:"status"`
	Amount      int64     `json:"amount"` // minor units
	Decimal     string    `json:"amount_decimal"`
	Currency    string    `json:"currency"`
	Reference   string    `json:"merchant_reference"`
	Source      string    `json:"source"`
	Description string    `json:"description,omitempty"`
	DeclineCode string    `json:"decline_code,omitempty"`
	Created     time.Time `json:"created"`
}

// Refund is a refund in the provider's books.
type Refund struct {
	ID          string    `json:"id"`
	Client      string    `json:"client"`
	Charge      string    `json:"charge"`
	Status      State     `json:"status"`
	Amount      int64     `json:"amount"` // minor units
	Decimal     string    `json:"amount_decimal"`
	Currency    string    `json:"currency"`
	Reference   string    `json:"merchant_reference"`
	Reason      string    `json:"reason,omitempty"`
	DeclineCode string    `json:"decline_code,omitempty"`
	Created     time.Time `json:"created"`
}

// Order is a line of the keyless order API.
type Order struct {
	Number    int       `json:"order"`
	Client    string    `json:"client"`
	Service   int       `json:"service"`
	Quantity  int       `json:"quantity"`
	Link      string    `json:"link"`
	Reference string    `json:"merchant_reference,omitempty"`
	Cost      int64     `json:"cost"` // minor units
	Created   time.Time `json:"created"`
}

// Ledger is a copy of the books at one moment.
type Ledger struct {
	Charges      []Charge  `json:"charges"`  // that hold or may take money: succeeded and pending
	Declines     []Charge  `json:"declines"` // failed
	Refunds      []Refund  `json:"refunds"`  // of every status
	Orders       []Order   `json:"orders,omitempty"`
	Requests     []Request `json:"requests"`      // the latest, see Config.RecordRequests
	RequestCount int       `json:"request_count"` // all
	DistinctKeys int       `json:"distinct_keys"` // per client
}

// Ledger copies the whole books at one moment.
func (p *Provider) Ledger() Ledger {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(p.config.Now())
	l := Ledger{
		Charges:  p.listCharges(nil, func(s State) bool { return s != Failed }),
		Declines: p.listCharges(nil, func(s State) bool { return s == Failed }),
		Refunds:  p.listRefunds(nil), Orders: p.listOrders(nil),
		Requests: p.log.snapshot(), RequestCount: p.log.total, DistinctKeys: p.keys.distinct,
	}
	return l
}

// Charges returns the charges that hold or may take money, those of the given
// references or all: more than one per reference is a double charge.
func (p *Provider) Charges(references ...string) []Charge {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(p.config.Now())
	return p.listCharges(references, func(s State) bool { return s != Failed })
}

// Declines returns the failed charges, those of the given references or all.
func (p *Provider) Declines(references ...string) []Charge {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(p.config.Now())
	return p.listCharges(references, func(s State) bool { return s == Failed })
}

// Refunds returns the refunds of every status, those of the given references
// or all.
func (p *Provider) Refunds(references ...string) []Refund {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(p.config.Now())
	return p.listRefunds(references)
}

// Orders returns the orders of the keyless API, those of the given references
// or all.
func (p *Provider) Orders(references ...string) []Order {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(p.config.Now())
	return p.listOrders(references)
}

// Requests returns the latest requests in order of arrival, those with the
// given references (or idempotency keys) or all.
func (p *Provider) Requests(references ...string) []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Request
	for _, r := range p.log.snapshot() {
		if wantedBy(references, r.Reference) || r.Key != "" && wantedBy(references, r.Key) {
			list = append(list, r)
		}
	}
	return list
}

// RequestCount returns how many requests have arrived, control requests not
// counted.
func (p *Provider) RequestCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.total
}

// DistinctKeys returns how many different idempotency keys have arrived; the
// same key from two clients counts twice.
func (p *Provider) DistinctKeys() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys.distinct
}

// Settle changes the status of a charge or refund by its id, as the payer's
// action, a late approval or a late failure does.
func (p *Provider) Settle(id string, to State) error {
	if _, err := parseState(string(to)); err != nil {
		return fmt.Errorf("settle %s: %w", id, err)
	}
	if !p.setState(id, to) {
		return fmt.Errorf("settle %s: there is no such charge or refund", id)
	}
	return p.journal.sync()
}

func (p *Provider) setState(id string, to State) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.config.Now()
	p.settle(now)
	for kind, s := range []*shelf{&p.charges, &p.refunds} {
		if n := s.number(id); n != 0 {
			p.change(uint8(kind), n, to, false, now, nil)
			return true
		}
	}
	return false
}

func wantedBy(references []string, reference string) bool {
	if len(references) == 0 {
		return true
	}
	for _, r := range references {
		if r == reference {
			return true
		}
	}
	return false
}

func (p *Provider) listCharges(references []string, state func(State) bool) []Charge {
	list := []Charge{}
	for n := uint32(1); int(n) <= p.charges.list.len(); n++ {
		r := p.charges.list.at(n)
		if state(states[r.state]) && wantedBy(references, r.reference()) {
			list = append(list, Charge{
				ID: p.charges.id(n), Client: p.names[r.client], Status: states[r.state],
				Amount: r.amount, Decimal: decimal(r.amount, string(r.currency[:])), Currency: string(r.currency[:]),
				Reference: r.reference(), Source: r.source(), Description: r.description(),
				DeclineCode: p.declineCodeOf(r), Created: unix(r.booked),
			})
		}
	}
	return list
}

func (p *Provider) listRefunds(references []string) []Refund {
	list := []Refund{}
	for n := uint32(1); int(n) <= p.refunds.list.len(); n++ {
		r := p.refunds.list.at(n)
		if wantedBy(references, r.reference()) {
			list = append(list, Refund{
				ID: p.refunds.id(n), Client: p.names[r.client], Charge: p.charges.id(r.parent), Status: states[r.state],
				Amount: r.amount, Decimal: decimal(r.amount, string(r.currency[:])), Currency: string(r.currency[:]),
				Reference: r.reference(), Reason: r.source(), DeclineCode: p.codes[r.code], Created: unix(r.booked),
			})
		}
	}
	return list
}

func (p *Provider) listOrders(references []string) []Order {
	var list []Order
	for n := uint32(1); int(n) <= p.orders.list.len(); n++ {
		if wantedBy(references, p.orders.list.at(n).reference) {
			list = append(list, p.publicOrder(n))
		}
	}
	return list
}

func (p *Provider) publicOrder(n uint32) Order {
	o := p.orders.list.at(n)
	return Order{
		Number: int(n), Client: p.names[o.client], Service: o.service, Quantity: o.quantity, Link: o.link,
		Reference: o.reference, Cost: o.cost, Created: unix(o.booked),
	}
}

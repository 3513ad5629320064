package panel

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// Line is what one order asks for.
type Line struct {
	Service  int    `json:"service"`
	Quantity int    `json:"quantity"`
	Link     string `json:"link"`
}

// Source is the line as a payment source: its fields in a fixed order, so that equal lines have equal digests.
func (l Line) Source() attempt.Source {
	b, err := l.appendFields([]byte{'{'})
	if err != nil {
		return attempt.Token("\x00") // which no intent may have
	}
	return attempt.Token(string(append(b, '}')))
}

// appendFields writes the line's members without braces.
func (l Line) appendFields(b []byte) ([]byte, error) {
	b = append(b, `"service":`...)
	b = strconv.AppendInt(b, int64(l.Service), 10)
	b = append(b, `,"quantity":`...)
	b = strconv.AppendInt(b, int64(l.Quantity), 10)
	b = append(b, `,"link":`...)
	b, err := jsontext.AppendQuote(b, l.Link)
	if err != nil {
		return nil, errors.New("link: not valid UTF-8")
	}
	return b, nil
}

// lineOf reads a source that Line.Source made.
func lineOf(s attempt.Source) (l Line, err error) {
	if err = json.Unmarshal([]byte(s.Reveal()), &l, json.RejectUnknownMembers(true)); err != nil {
		return l, errors.New("not a line: want what Line.Source returns")
	}
	return l, nil
}

// Intent is the intent to order a line: the line as its source, the line's price as its amount. It fails for a service
// that has no price, and for a price that is none.
func (p *Provider) Intent(order string, l Line) (attempt.Intent, error) {
	minor, err := p.price(l.Service, int64(l.Quantity))
	if err != nil {
		return attempt.Intent{}, fmt.Errorf("order %s: %w", order, err)
	}
	amount, err := money.New(minor, p.cfg.Currency)
	if err != nil {
		return attempt.Intent{}, fmt.Errorf("order %s: %w", order, err)
	}
	return attempt.Intent{Order: order, Amount: amount, Source: l.Source()}, nil
}

// price returns what pieces of a service cost, in minor units.
func (p *Provider) price(service int, quantity int64) (int64, error) {
	each, ok := p.cfg.Prices[service]
	if !ok {
		return 0, fmt.Errorf("service %d has no price", service)
	}
	if quantity < 0 {
		return 0, fmt.Errorf("quantity %d is negative", quantity)
	}
	high, low := bits.Mul64(uint64(each), uint64(quantity)) //nolint:gosec // neither is negative
	if high != 0 || low > 1<<63-1 {
		return 0, fmt.Errorf("quantity %d costs more than can be written", quantity)
	}
	return int64(low), nil //nolint:gosec // checked
}

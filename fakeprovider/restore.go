package fakeprovider

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// restore puts the lines of a ledger file into empty books. The caller holds
// the lock.
func (p *Provider) restore(lines []line, j *journal) error {
	waiting, unsent := map[uint64]line{}, map[uint32]*eventLine{}
	if len(lines) > 0 {
		p.id = "" // unless the first line says one
	}
	for i, l := range lines {
		if l.T == lineBooks {
			err := checkID(l.ID)
			if i > 0 {
				err = errors.New("other books begin here")
			}
			if err != nil {
				return fmt.Errorf("line %d: %w", i+1, err)
			}
			p.id = l.ID
			continue
		}
		if err := p.restoreLine(&l, waiting, unsent); err != nil {
			return fmt.Errorf("line %d: %w", i+1, err)
		}
		j.later = max(j.later, l.Later)
	}
	for _, later := range slices.Sorted(maps.Keys(waiting)) {
		l := waiting[later]
		if err := p.restoreWaiting(&l); err != nil {
			return err
		}
	}
	for _, number := range slices.Sorted(maps.Keys(unsent)) {
		p.restoreEvent(unsent[number])
	}
	return nil
}

func (p *Provider) restoreLine(l *line, waiting map[uint64]line, unsent map[uint32]*eventLine) error {
	for i := range l.Events {
		e := &l.Events[i]
		p.outbox.made = max(p.outbox.made, e.N)
		if !e.Lost {
			unsent[e.N] = e
		}
	}
	switch l.T {
	case "booked":
		b, err := p.lineBooking(l)
		if err != nil {
			return err
		}
		shelf := p.shelf(b.kind)
		if int(l.N) != shelf.list.len()+1 {
			return fmt.Errorf("%s %d does not follow %d", l.Kind, l.N, shelf.list.len())
		}
		delete(waiting, l.Later)
		p.enterBooking(&b, time.Unix(0, l.At))
		return p.restoreKey(l.Key)
	case "accepted":
		waiting[l.Later] = *l
		return p.restoreKey(l.Key)
	case "order":
		return p.restoreOrder(l.Order)
	case "key":
		return p.restoreKey(l.Key)
	case "state":
		kind, err := kindOf(l.Kind)
		shelf := p.shelf(kind)
		if err != nil || l.N == 0 || int(l.N) > shelf.list.len() {
			return fmt.Errorf("there is no %s %d", l.Kind, l.N)
		}
		p.settle(time.Unix(0, l.At)) // what was due before comes before
		shelf.list.at(l.N).become(l.State, l.Voided)
	case "request":
		if l.Request == nil {
			return errors.New("a request without a request")
		}
		if k := l.Request.Key; k != "" && !p.config.IgnoreKeys {
			client := p.client(l.Request.Client)
			p.keys.see(keyHash(p.seed, client, k), client, k)
		}
		p.log.total = max(p.log.total+1, l.Request.Number)
		p.log.put((*restored)(l.Request))
	case "event":
		p.settle(time.Unix(0, l.At)) // what it tells of is no news
	case "told":
		delete(unsent, l.N)
	case "count":
		if l.Count == nil {
			return errors.New("a count without numbers")
		}
		p.log.total, p.keys.distinct = l.Count.Requests, l.Count.Keys
		p.outbox.made = max(p.outbox.made, l.Count.Events)
	default:
		return fmt.Errorf("unknown line %q: written by a later version?", l.T)
	}
	return nil
}

func (p *Provider) lineBooking(l *line) (booking, error) {
	kind, err := kindOf(l.Kind)
	if err != nil {
		return booking{}, err
	}
	if len(l.Currency) != 3 || len(l.Ref) > 255 || len(l.Source) > 255 {
		return booking{}, errors.New("a field is out of bounds")
	}
	if kind == kindRefund && (l.Parent == 0 || int(l.Parent) > p.charges.list.len()) {
		return booking{}, fmt.Errorf("a refund of charge %d, which does not exist", l.Parent)
	}
	var marks uint8
	if l.Action {
		marks |= markAction
	}
	if l.Voided {
		marks |= markVoided
	}
	return booking{
		kind: kind, twice: l.Twice, hide: time.Duration(l.Hide), flipTo: l.FlipTo, flipAfter: time.Duration(l.FlipIn), later: l.Later,
		record: record{
			text: l.Ref + l.Source + l.Text, refLen: uint16(len(l.Ref)), srcLen: uint16(len(l.Source)),
			amount: l.Amount, currency: [3]byte([]byte(l.Currency)), parent: l.Parent, client: p.client(l.Client),
			code: p.declineCode(l.Code), state: l.State.compact(), first: l.First.compact(), marks: marks,
		},
	}, nil
}

// restoreWaiting queues a booking whose time had not come when the process
// ended.
func (p *Provider) restoreWaiting(l *line) error {
	b, err := p.lineBooking(l)
	if err != nil {
		return err
	}
	due := time.Unix(0, l.At)
	x := &exchange{p: p, in: &inbound{client: l.Client}, plan: honest, now: due, slow: time.Duration(l.Slow)}
	if k := l.Key; k != nil {
		client := p.client(k.Client)
		x.entry = p.keys.find(keyHash(p.seed, client, k.Key), client, k.Key)
		x.keeps = x.entry != 0
		if x.keeps {
			x.print = p.keys.list.at(x.entry).print
		}
	}
	p.bookAt(x, b, due)
	return nil
}

func (p *Provider) restoreKey(k *keyLine) error {
	if k == nil {
		return nil
	}
	var print [16]byte
	raw, err := hex.DecodeString(k.Print)
	if err != nil || len(raw) != len(print) {
		return fmt.Errorf("key %q: malformed fingerprint", k.Key)
	}
	copy(print[:], raw)
	kind := uint8(0)
	if k.Kind != "" {
		if kind, err = kindOf(k.Kind); err != nil {
			return err
		}
	}
	if k.State == keyDone && k.Answer == nil && (k.Record == 0 || int(k.Record) > p.shelf(kind).list.len()) {
		return fmt.Errorf("key %q: its %s %d does not exist", k.Key, k.Kind, k.Record)
	}
	client := p.client(k.Client)
	n := p.keys.see(keyHash(p.seed, client, k.Key), client, k.Key)
	e := p.keys.list.at(n)
	e.print, e.state, e.end, e.kind, e.record = print, k.State, k.End, kind, k.Record
	delete(p.keys.answers, n)
	if a := k.Answer; a != nil {
		stored := answer{status: a.Status, ctype: a.Type, body: a.Body}
		for _, h := range a.Header {
			stored.header = append(stored.header, headerField{h[0], h[1]})
		}
		p.keys.answers[n] = stored
	}
	return nil
}

func (p *Provider) restoreOrder(o *orderLine) error {
	if o == nil || o.Number != p.orders.list.len()+1 {
		return fmt.Errorf("an order does not follow number %d", p.orders.list.len())
	}
	client := p.client(o.Client)
	p.orders.list.add(order{
		client: client, service: o.Service, quantity: o.Quantity, link: o.Link, reference: o.Reference,
		cost: o.Cost, booked: o.Created.UnixNano(), visible: o.Visible,
	})
	p.orders.spent[client] += o.Cost
	return nil
}

package fakeprovider

import (
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// order is one line of the keyless order API.
type order struct {
	client    uint32
	service   int
	quantity  int
	link      string
	reference string
	cost      int64
	booked    int64
	visible   int64
}

type orderBook struct {
	list  table[order]
	spent map[uint32]int64 // by client
}

func (b *orderBook) reset() { *b = orderBook{spent: map[uint32]int64{}} }

// orderAPI is an order panel: no keys, status 200 for everything it
// understood, {"order":1} or {"error":"..."}.
//
//	POST /v1/orders            service, link, quantity, merchant_reference; a form or JSON
//	POST /v1/orders/bulk       {"orders":[...]}, at most 100, each line for itself
//	GET  /v1/orders/{number}
//	GET  /v1/orders?merchant_reference=R   with OrdersConfig.Lookup
func (x *exchange) orderAPI(rest string) answer {
	in := x.in
	if !in.authorised {
		return panel(`{"error":"Invalid API key"}`)
	}
	switch {
	case in.tooBig:
		return problem(probTooLarge)
	case in.method == http.MethodPost && rest == "":
		if in.bodyErr != nil {
			return panelError("Incorrect request")
		}
		return x.placeOrders([][]member{in.members}, func(list [][]byte) []byte { return list[0] })
	case in.method == http.MethodPost && rest == "bulk":
		return x.bulk()
	case in.method == http.MethodGet && rest == "":
		return x.findOrders()
	case in.method == http.MethodGet:
		n, err := strconv.ParseUint(rest, 10, 32)
		if err != nil || n == 0 || int(n) > x.p.orders.list.len() || x.p.orders.list.at(uint32(n)).client != x.p.client(in.client) {
			return panelError("Incorrect order ID")
		}
		return panel(string(x.appendOrder(nil, uint32(n))))
	}
	return problem(probMethod)
}

func panel(body string) answer {
	return answer{status: http.StatusOK, ctype: typeJSON, body: []byte(body)}
}

func panelError(what string) answer {
	return panel(string(append(appendString([]byte(`{"error":`), what), '}')))
}

func (x *exchange) bulk() answer {
	var lines [][]member
	for _, m := range x.in.members {
		if m.name != "orders" {
			continue
		}
		raws, err := scanArray(m.raw)
		if err != nil || len(raws) == 0 || len(raws) > 100 {
			return panelError("Incorrect request")
		}
		for _, raw := range raws {
			line, err := scanObject(raw)
			if err != nil {
				return panelError("Incorrect request")
			}
			lines = append(lines, line)
		}
	}
	if x.in.bodyErr != nil || lines == nil {
		return panelError("Incorrect request")
	}
	return x.placeOrders(lines, func(list [][]byte) []byte {
		b := []byte(`{"results":[`)
		for i, r := range list {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, r...)
		}
		return append(b, "]}"...)
	})
}

// placeOrders executes lines one by one, now or later, and joins the results.
func (x *exchange) placeOrders(lines [][]member, join func([][]byte) []byte) answer {
	run := func(at time.Time) answer {
		results := make([][]byte, len(lines))
		x.firstOrder = uint32(x.p.orders.list.len()) + 1
		for i, line := range lines {
			results[i] = x.placeOrder(line, at)
		}
		return panel(string(join(results)))
	}
	x.wait = x.plan.bookAfter + x.slow
	if x.plan.bookAfter > 0 {
		due := x.now.Add(x.plan.bookAfter)
		x.job = x.p.later(due, func() {
			x.ans = run(due)
			x.conclude()
		})
		return answer{}
	}
	return run(x.now)
}

func (x *exchange) placeOrder(line []member, at time.Time) []byte {
	p := x.p
	o := order{client: p.client(x.in.client), booked: at.UnixNano()}
	fail := func(what string) []byte { return append(appendString([]byte(`{"error":`), what), '}') }
	var quantity string
	for _, m := range line {
		switch m.name {
		case "service":
			o.service, _ = strconv.Atoi(scalar(m.raw)) // 0 is no service
		case "quantity":
			quantity = scalar(m.raw)
		case "link":
			o.link = scalar(m.raw)
		case "merchant_reference":
			o.reference = scalar(m.raw)
		}
	}
	service, ok := p.config.Orders.Services[o.service]
	if !ok {
		return fail("Incorrect service ID")
	}
	n, err := strconv.Atoi(quantity)
	switch {
	case err != nil:
		return fail("Incorrect quantity")
	case n < service.Min:
		return fail("Quantity less than minimal " + strconv.Itoa(service.Min))
	case service.Max > 0 && n > service.Max:
		return fail("Quantity more than maximum " + strconv.Itoa(service.Max))
	}
	if u, err := url.Parse(o.link); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || len(o.link) > 2000 {
		return fail("Bad link")
	}
	if len(o.reference) > 255 {
		return fail("Incorrect request")
	}
	o.quantity, o.cost = n, int64(n)*service.Price
	if b := p.config.Orders.Balance; x.plan.decline != "" || b != 0 && p.orders.spent[o.client]+o.cost > max(b, 0) {
		return fail("Not enough funds on balance")
	}
	o.visible = at.Add(max(p.config.SearchLag, x.plan.hide)).UnixNano()
	p.orders.spent[o.client] += o.cost
	number := p.orders.list.add(o)
	if x.plan.twice {
		p.orders.spent[o.client] += o.cost
		p.orders.list.add(o)
	}
	return append(strconv.AppendUint([]byte(`{"order":`), uint64(number), 10), '}')
}

// scalar is the text of a JSON string or number: panels take both.
func scalar(raw []byte) string {
	if s, err := unquote(raw); err == nil {
		return s
	}
	return string(raw)
}

func (x *exchange) findOrders() answer {
	p := x.p
	if !p.config.Orders.Lookup {
		return problem(probNotFound, detail("orders cannot be searched"))
	}
	client := p.client(x.in.client)
	var list [][]byte
	for n := uint32(1); int(n) <= p.orders.list.len(); n++ {
		o := p.orders.list.at(n)
		if o.client == client && (x.in.reference == "" || o.reference == x.in.reference) && o.visible <= x.now.UnixNano() {
			list = append(list, x.appendOrder(nil, n))
		}
	}
	if x.plan.lookup == lookupEmpty {
		list = nil
	}
	return answer{status: http.StatusOK, ctype: typeJSON, body: page(list, false)}
}

func (x *exchange) appendOrder(b []byte, n uint32) []byte {
	o := x.p.orders.list.at(n)
	b = append(b, `{"order":`...)
	b = strconv.AppendUint(b, uint64(n), 10)
	b = append(b, `,"status":"Pending","service":`...)
	b = strconv.AppendInt(b, int64(o.service), 10)
	b = append(b, `,"quantity":`...)
	b = strconv.AppendInt(b, int64(o.quantity), 10)
	b = append(b, `,"link":`...)
	b = appendString(b, o.link)
	b = append(b, `,"merchant_reference":`...)
	b = appendString(b, o.reference)
	return append(b, '}')
}

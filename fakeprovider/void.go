package fakeprovider

import (
	"net/http"
	"time"
)

// codeVoided is the decline code of a voided charge.
const codeVoided = "voided"

// void answers POST /v1/charges/{id}/void: a charge that is pending fails, and
// no change of status that was under way turns it later. A second void gets
// the first one's answer, so it needs no key.
func (x *exchange) void(id string) answer {
	p := x.p
	n := p.charges.number(id)
	switch {
	case x.in.method != http.MethodPost:
		return problem(probMethod)
	case n == 0 || p.charges.list.at(n).client != p.client(x.in.client):
		return problem(probNotFound, detail(id))
	case x.plan.bookAfter > 0:
		x.wait = x.plan.bookAfter + x.slow
		due := x.now.Add(x.plan.bookAfter)
		x.job = p.later(due, func() {
			x.ans = x.voidNow(n, due)
			x.conclude()
		})
		return answer{}
	}
	return x.voidNow(n, x.now)
}

func (x *exchange) voidNow(n uint32, at time.Time) answer {
	p := x.p
	r := p.charges.list.at(n)
	if r.marks&markVoided == 0 {
		if states[r.state] != Pending {
			return problem(probNotVoidable, text("merchant_reference", r.reference()), text("charge", p.charges.id(n)))
		}
		p.change(kindCharge, n, Failed, true, at, x.plan)
	}
	return answer{status: 200, ctype: typeJSON, body: p.appendRecord(nil, kindCharge, n, r, r.state)}
}

// change gives a record another status at somebody's request, writes it to the
// ledger file and tells the webhooks; by is the request's plan, if there was
// one. The caller holds the lock.
func (p *Provider) change(kind uint8, n uint32, to State, voided bool, at time.Time, by *plan) {
	r := p.shelf(kind).list.at(n)
	news := states[r.state] != to
	r.become(to, voided)
	l := line{T: "state", Kind: kindNames[kind], N: n, At: at.UnixNano(), State: to, Voided: r.marks&markVoided != 0}
	if news {
		l.Events = eventLines(p.announce(kind, n, at.UnixNano(), by))
	}
	p.journal.append(true, l)
}

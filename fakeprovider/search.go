package fakeprovider

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// search answers GET /v1/charges and GET /v1/refunds: records of one
// reference, or of a span of time, oldest first, in pages.
func (x *exchange) search(s *shelf, kind uint8) answer {
	p := x.p
	q, err := url.ParseQuery(x.in.query)
	if err != nil {
		return problem(probQuery, detail(err.Error()))
	}
	ref := q.Get("merchant_reference")
	limit := 100
	if ref != "" {
		limit = 10
	}
	if v := q.Get("limit"); v != "" {
		limit, err = strconv.Atoi(v)
		if err != nil || limit < 1 || limit > 100 {
			return problem(probQuery, detail("limit must be 1 to 100"))
		}
	}
	t, err := parseSpan(q, "created_from", "created_to")
	switch {
	case err != nil:
		return problem(probQuery, detail(err.Error()))
	case ref == "" && q.Get("created_from") == "":
		return problem(probQuery, detail("want merchant_reference or created_from"))
	}
	var after uint32
	if v := q.Get("starting_after"); v != "" && x.plan.lookup != lookupStuck {
		if after = s.number(v); after == 0 {
			return problem(probQuery, detail("starting_after names nothing"))
		}
	}
	var found []uint32
	var more bool
	if ref != "" {
		found, more = x.byReference(s, ref, t, after, limit)
	} else {
		found, more = x.byTime(s, t, after, limit)
	}

	var list [][]byte
	for _, n := range found {
		r := s.list.at(n)
		list = append(list, p.appendRecord(nil, kind, n, r, r.state))
	}
	switch x.plan.lookup {
	case lookupEmpty:
		list, more = nil, false
	case lookupTwice:
		for _, n := range found {
			r := s.list.at(n)
			list = append(list, p.appendRecord(nil, kind, n+900000, r, r.state))
		}
	case lookupForeign:
		list = [][]byte{foreign(list, s.prefix)}
	case lookupStuck:
		more = true
	case lookupCut:
		list, more = list[:max(len(list)-1, 0)], false
	case lookupNull:
		return answer{status: 200, ctype: typeJSON, body: []byte(`{"data":null,"has_more":false}`)}
	}
	return answer{status: 200, ctype: typeJSON, body: page(list, more)}
}

func page(list [][]byte, more bool) []byte {
	b := []byte(`{"data":[`)
	for i, r := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, r...)
	}
	b = append(b, `],"has_more":`...)
	b = strconv.AppendBool(b, more)
	return append(b, '}')
}

// foreign makes a record of somebody else's out of the first one.
func foreign(list [][]byte, prefix string) []byte {
	if len(list) == 0 {
		return []byte(`{"id":"` + prefix + `900000","status":"succeeded","amount":100,"currency":"EUR",` +
			`"merchant_reference":"foreign","created":"2026-01-01T00:00:00Z"}`)
	}
	return applyEdits(list[0], []edit{{editSet, "merchant_reference", `"foreign"`}})
}

// byReference finds up to limit of the client's records of a reference made
// in a span, those after record `after` if it is not 0, and says whether there
// are more.
func (x *exchange) byReference(s *shelf, ref string, t span, after uint32, limit int) (found []uint32, more bool) {
	s.each(x.p.seed, x.p.client(x.in.client), ref, func(n uint32, r *record) {
		if n > after && r.booked >= t.from && r.booked < t.to && x.visible(s, n, r) {
			found = append(found, n)
		}
	})
	slices.Reverse(found)
	more = len(found) > limit
	return found[:min(limit, len(found))], more
}

// decimal writes minor units in the currency's own digits, for the ledger.
func decimal(amount int64, currency string) string {
	digits := exponent(currency)
	s := strconv.FormatInt(amount, 10)
	if digits == 0 {
		return s
	}
	sign := ""
	if amount < 0 {
		sign, s = "-", s[1:]
	}
	if len(s) <= digits {
		s = strings.Repeat("0", digits-len(s)+1) + s
	}
	return sign + s[:len(s)-digits] + "." + s[len(s)-digits:]
}

func unix(nanos int64) time.Time { return time.Unix(0, nanos).UTC() }

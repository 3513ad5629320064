package providertest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
)

// side is an operation that an adapter declares beside charging. It is seen as a provider of its own whose charges are the
// refunds, say, so that the rules for charges hold for it too.
type side string

const (
	charging  side = ""
	refunding side = "refunds"
	voiding   side = "voids"
	listing   side = "lists"
)

func ofSide(golden []*exchange, which side) (of []*exchange) {
	for _, g := range golden {
		if g.side == which {
			of = append(of, g)
		}
	}
	return of
}

// openSides makes the suites of what the adapter declares.
func (s *suite) openSides(golden []*exchange) {
	s.sides = make(map[side]*suite)
	add := func(which side, declared bool, as func(payclient.Provider) (payclient.Provider, bool)) {
		p, ok := as(s.provider)
		if !declared || !ok {
			return // declared, and not there: payclient.New refuses it, which a rule sees
		}
		of := &suite{Suite: s.Suite, provider: p, caps: p.Capabilities(), golden: ofSide(golden, which), side: which}
		of.New = func(t *testing.T) payclient.Provider {
			p, _ := as(s.New(t))
			return p
		}
		of.Read = func(request payclient.Request, body []byte) (Sent, error) {
			sent, err := s.ReadRefund(request, body)
			return Sent{Reference: sent.Reference, Amount: sent.Amount}, err
		}
		s.sides[which] = of
	}
	add(refunding, s.caps.Refunds, func(p payclient.Provider) (payclient.Provider, bool) {
		r, ok := p.(payclient.Refunder)
		return refundSide{p, r}, ok
	})
	add(voiding, s.caps.Voids, func(p payclient.Provider) (payclient.Provider, bool) {
		v, ok := p.(payclient.Voider)
		return voidSide{p, v}, ok
	})
	add(listing, s.caps.Lists, func(p payclient.Provider) (payclient.Provider, bool) {
		l, ok := p.(payclient.Lister)
		return listSide{p, l}, ok
	})
}

// plain takes the other sides out of a declaration.
func plain(p payclient.Provider) payclient.Capabilities {
	caps := p.Capabilities()
	caps.Refunds, caps.Voids, caps.Lists = false, false, false
	return caps
}

type refundSide struct {
	payclient.Provider
	r payclient.Refunder
}

func (s refundSide) Capabilities() payclient.Capabilities              { return plain(s.Provider) }
func (s refundSide) ChargeBody(a attempt.Attempt) ([]byte, error)      { return s.r.RefundBody(a) }
func (s refundSide) ChargeRequest(a attempt.Attempt) payclient.Request { return s.r.RefundRequest(a) }
func (s refundSide) ReadCharge(r payclient.Response) payclient.Reply   { return s.r.ReadRefund(r) }
func (s refundSide) ReadLookup(r payclient.Response) payclient.LookupPage {
	return s.r.ReadRefundLookup(r)
}
func (s refundSide) LookupRequest(reference, cursor string) payclient.Request {
	return s.r.RefundLookupRequest(reference, cursor)
}

// voidSide has no lookups: those are the charges'.
type voidSide struct {
	payclient.Provider
	v payclient.Voider
}

func (s voidSide) Capabilities() payclient.Capabilities {
	caps := plain(s.Provider)
	caps.Lookup = payclient.LookupCapability{}
	return caps
}
func (s voidSide) ChargeBody(attempt.Attempt) ([]byte, error) { return nil, nil }
func (s voidSide) ChargeRequest(a attempt.Attempt) payclient.Request {
	return s.v.VoidRequest(a, a.Refund.ChargeID)
}
func (s voidSide) ReadCharge(r payclient.Response) payclient.Reply { return s.v.ReadVoid(r) }

// listSide has lookups only.
type listSide struct {
	payclient.Provider
	l payclient.Lister
}

func (s listSide) Capabilities() payclient.Capabilities {
	caps := plain(s.Provider)
	caps.Lookup.ByReference = true
	return caps
}
func (s listSide) LookupRequest(_, cursor string) payclient.Request {
	return s.l.ListRequest(listFrom, listTo, cursor)
}
func (s listSide) ReadLookup(r payclient.Response) payclient.LookupPage { return s.l.ReadList(r) }

// The times that golden listings are about.
var (
	listFrom = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	listTo   = time.Date(2026, time.March, 1, 13, 30, 0, 500_000_000, time.UTC)
)

// Rules for charges that hold on other sides too.
var requestRules = []string{
	"amounts exact", "reference sent", "request well formed", "key left to the client", "credentials in headers only", "same request",
	"requests not shared", "concurrent use",
}

var readingRules = []string{
	"golden exchanges", "answers left alone", "fields are read", "cut answers", "names twice", "names exact", "new names", "one value",
	"encoding", "content type", "other status", "foreign answers",
}

var lookupRules = []string{"lookup names the reference", "finds"}

var pageRules = []string{"pages cut or doubled", "pages complete", "pages names exact", "foreign pages"}

// sideRules are those of refunds, voids and listings: the rules for charges that hold there, and their own.
var sideRules = slices.Concat(
	asRulesOf(refunding, slices.Concat(requestRules, readingRules, pageRules, lookupRules)),
	asRulesOf(voiding, readingRules),
	asRulesOf(listing, slices.Concat([]string{"golden exchanges", "answers left alone"}, pageRules)),
	[]rule{
		{"refunds: golden set",
			"what no exchange shows was never compared with the provider's documentation",
			with(refunding), refundGoldenSet},
		{"refunds: charge sent",
			"a refund of another charge gives somebody else's money back",
			with(refunding), chargeSent},
		{"refunds: made once",
			"a refund that is asked for twice is one refund, and all together are never above the charge",
			with(refunding), refundsOnce},
		{"refunds: lost answers",
			"whatever becomes of an answer, the books hold one refund, and where keys or lookups allow it the client learns of it",
			with(refunding), lostRefunds},
		{"refunds: restarts",
			"a process that dies between the refund and its record must not give the money back again",
			with(refunding), refundRestarts},
		{"voids: golden set",
			"what no exchange shows was never compared with the provider's documentation",
			with(voiding), voidGoldenSet},
		{"voids: names the charge",
			"a request that cancels another charge takes somebody else's payment away",
			with(voiding), voidNamesCharge},
		{"voids: confirmed",
			"a charge counts as cancelled only where the provider's books say so too",
			with(voiding), voidsConfirmed},
		{"lists: golden set",
			"what no exchange shows was never compared with the provider's documentation",
			with(listing), listGoldenSet},
		{"lists: asks for the times",
			"a question about other times finds what nobody looks for",
			with(listing), listAsksForTimes},
		{"lists: all that was charged",
			"what a listing finds is recognised by the reference and compared by the amount",
			with(listing), listsAll},
	},
)

// asRulesOf makes rules for charges rules of a side, named after it.
func asRulesOf(which side, names []string) (of []rule) {
	for _, name := range names {
		i := slices.IndexFunc(chargeRules, func(r rule) bool { return r.name == name })
		r := chargeRules[i]
		of = append(of, rule{
			name: string(which) + ": " + name, because: r.because,
			applies: func(s *suite) string {
				why := with(which)(s)
				if why == "" && r.applies != nil {
					why = r.applies(s.sides[which])
				}
				return why
			},
			check: func(t *testing.T, s *suite) error { return r.check(t, s.sides[which]) },
		})
	}
	return of
}

// with says why a side's rule does not apply.
func with(which side) func(*suite) string {
	return func(s *suite) string {
		if s.sides[which] == nil {
			return "the adapter declares no " + string(which)
		}
		return ""
	}
}

// shows complains about what no golden exchange of a side shows.
func (s *suite) shows(want map[string]func(*exchange) bool) error {
	var f findings
	for what, is := range want {
		if !slices.ContainsFunc(s.golden, is) {
			f.addf("no golden exchange shows %s", what)
		}
	}
	return f.err()
}

func refundGoldenSet(_ *testing.T, s *suite) error {
	of := s.sides[refunding]
	want := map[string]func(*exchange) bool{
		"a refund that was made": of.charge(func(r payclient.Reply) bool {
			return r.Verdict == attempt.Charged && r.Charge.Status == attempt.ChargeSucceeded || r.Ask
		}),
		"a refund that was refused (refused, or charged and failed)": of.charge(func(r payclient.Reply) bool {
			return r.Verdict == attempt.Refused || r.Verdict == attempt.Charged && r.Charge.Status == attempt.ChargeFailed
		}),
		"a refund of more than is left": of.charge(func(r payclient.Reply) bool { return r.Verdict == attempt.Rejected && r.AskFirst }),
	}
	if s.caps.Lookup.ByReference {
		want["a lookup that finds a refund"] = of.lookups(func(p payclient.LookupPage) bool { return p.Readable && len(p.Charges) > 0 })
		want["a lookup that finds none"] = of.lookups(func(p payclient.LookupPage) bool { return p.Readable && len(p.Charges) == 0 && p.Next == "" })
	}
	return of.shows(want)
}

func voidGoldenSet(_ *testing.T, s *suite) error {
	of := s.sides[voiding]
	return of.shows(map[string]func(*exchange) bool{
		"a charge that was cancelled": of.charge(func(r payclient.Reply) bool {
			return r.Verdict == attempt.Charged && r.Charge.Status == attempt.ChargeFailed
		}),
		"a charge that cannot be cancelled": of.charge(func(r payclient.Reply) bool { return r.Verdict == attempt.Rejected }),
	})
}

func listGoldenSet(_ *testing.T, s *suite) error {
	of := s.sides[listing]
	return of.shows(map[string]func(*exchange) bool{
		"a page with another after it": of.lookups(func(p payclient.LookupPage) bool { return p.Readable && p.Next != "" }),
		"a last page":                  of.lookups(func(p payclient.LookupPage) bool { return p.Readable && p.Next == "" }),
	})
}

func chargeSent(_ *testing.T, s *suite) error {
	var f findings
	of := s.sides[refunding]
	for _, id := range []string{"ch_000001", "ch_000002", `a"b\c`, "0190aabb:x/y?z#1+2%3", strings.Repeat("x", 200)} {
		a := of.attemptOf(of.intent("tok_visa"))
		a.Refund.ChargeID = id
		r, err := of.render(of.provider, a, attempt.Source{})
		if err != nil {
			f.addf("charge %q: %w", id, err)
			continue
		}
		if sent, err := s.ReadRefund(r.request, r.body); err != nil {
			f.addf("charge %q: the provider cannot read the request: %w", id, err)
		} else if sent.ChargeID != id {
			f.addf("charge %q: the provider reads %q", id, sent.ChargeID)
		}
	}
	return f.err()
}

func voidNamesCharge(_ *testing.T, s *suite) error {
	var f findings
	of := s.sides[voiding]
	v := of.provider.(voidSide).v //nolint:forcetypeassert // made by openSides
	a := of.attemptOf(of.intent("tok_visa"))
	first, other := v.VoidRequest(a, "ch_000001"), v.VoidRequest(a, "ch_000002")
	wellFormed(&f, "VoidRequest", first)
	if requestText(first, nil) == requestText(other, nil) {
		f.addf("VoidRequest is the same for two charges:\n%s", requestText(first, nil))
	}
	if first.Method == http.MethodGet || first.Method == http.MethodHead {
		f.addf("VoidRequest: method %q: what cancels a charge must not look like a question", first.Method)
	}
	for i, secret := range s.Secrets {
		if holds(first.Path+" "+first.Query, secret) {
			f.addf("secret %d is in the address of VoidRequest", i+1)
		}
	}
	return f.err()
}

func listAsksForTimes(_ *testing.T, s *suite) error {
	var f findings
	l := s.sides[listing].provider.(listSide).l //nolint:forcetypeassert // made by openSides
	first := l.ListRequest(listFrom, listTo, "")
	wellFormed(&f, "ListRequest", first)
	if first.Method != http.MethodGet {
		f.addf("ListRequest: method %q, want GET: a question changes nothing", first.Method)
	}
	for what, other := range map[string]payclient.Request{
		"another beginning": l.ListRequest(listFrom.Add(time.Second), listTo, ""),
		"another end":       l.ListRequest(listFrom, listTo.Add(time.Second), ""),
		"the next page":     l.ListRequest(listFrom, listTo, "ch_000001"),
	} {
		if requestText(other, nil) == requestText(first, nil) {
			f.addf("the question with %s is the same:\n%s", what, requestText(first, nil))
		}
	}
	zone := time.FixedZone("somewhere", 5*3600)
	if local := l.ListRequest(listFrom.In(zone), listTo.In(zone), ""); requestText(local, nil) != requestText(first, nil) {
		f.addf("the same times in another zone are another question:\n%s\n%s", requestText(first, nil), requestText(local, nil))
	}
	for i, secret := range s.Secrets {
		if holds(first.Path+" "+first.Query, secret) {
			f.addf("secret %d is in the address of ListRequest", i+1)
		}
	}
	return f.err()
}

// paidOrder pays an order at the fake, and returns what a refund needs.
func (h *shop) paidOrder(order string) (payclient.Result, bool) {
	if h.fake.Refunds == nil {
		h.addf("Suite.Fake: want Refunds: the adapter declares refunds")
		return payclient.Result{}, false
	}
	res, err := h.client.Pay(h.t.Context(), h.fake.Approved(order))
	h.want("paying", res, err, payclient.Approved, payclient.MovedYes)
	h.wire.sent = nil
	return res, err == nil && res.Outcome == payclient.Approved
}

// wantRefunds complains unless the fake holds so many refunds of an attempt.
func (h *shop) wantRefunds(what, attemptID string, refunds, requests int) {
	all, err := h.client.Refunds(h.t.Context(), attemptID)
	if err != nil {
		h.addf("%s: %w", what, err)
	}
	n := 0
	for _, r := range all {
		n += h.fake.Refunds(r.Reference)
	}
	if n != refunds {
		h.addf("%s: the books hold %d refunds, want %d", what, n, refunds)
	}
	if requests >= 0 && len(h.wire.sent) != requests {
		h.addf("%s: %d refund requests, want %d", what, len(h.wire.sent), requests)
	}
}

func refundsOnce(t *testing.T, s *suite) error {
	return inShop(t, s, func(h *shop) {
		paid, ok := h.paidOrder("1001")
		if !ok {
			return
		}
		for range 2 {
			res, err := h.client.Refund(h.t.Context(), attempt.Refund{AttemptID: paid.AttemptID, ID: "r1"})
			h.want("a refund of all", res, err, payclient.Approved, payclient.MovedYes)
			if err == nil && (res.ChargeID == "" || res.ChargeID == paid.ChargeID || res.Key == paid.Key) {
				h.addf("a refund: charge id %q, key %q; want its own", res.ChargeID, res.Key)
			}
		}
		h.wantRefunds("asked for twice", paid.AttemptID, 1, 1)
		if _, err := h.client.Refund(h.t.Context(), attempt.Refund{AttemptID: paid.AttemptID, ID: "r2"}); !errors.Is(err, attempt.ErrRefunded) {
			h.addf("nothing is left: %v", err)
		}
		h.wantRefunds("nothing is left", paid.AttemptID, 1, 1)
	})
}

// partOf is a refund of less than half, which a provider would make twice.
func partOf(paid payclient.Result) attempt.Refund {
	r := attempt.Refund{AttemptID: paid.AttemptID, ID: "r1"}
	if part, err := money.New(max(paid.Attempt.Amount.Minor()/3, 1), paid.Attempt.Amount.Currency()); err == nil {
		r.Amount = part
	}
	return r
}

func lostRefunds(t *testing.T, s *suite) error {
	var f findings
	for what, way := range unusable(s) {
		err := inShop(t, s, func(h *shop) {
			paid, ok := h.paidOrder("1001")
			if !ok {
				return
			}
			h.wire.spoils = []spoil{way}
			refund := partOf(paid)
			res, err := h.client.Refund(h.t.Context(), refund)
			h.sameBytes()
			what := fmt.Sprintf("the answer was %s", what)
			if s.caps.Key.KeepsEveryAnswer || s.caps.Lookup.ByReference {
				h.want(what, res, err, payclient.Approved, payclient.MovedYes)
			} else {
				for range 2 {
					if err != nil || !res.Open() {
						h.addf("%s: %s, moved %s, %v; want an open refund", what, res.Outcome, res.Moved, err)
					}
					res, err = h.client.Refund(h.t.Context(), refund)
				}
			}
			h.wantRefunds(what, paid.AttemptID, 1, map[bool]int{true: -1, false: 1}[s.caps.Key.KeepsEveryAnswer])
		})
		if err != nil {
			f.addf("%w", err)
		}
	}
	return f.err()
}

func refundRestarts(t *testing.T, s *suite) error {
	return inShop(t, s, func(h *shop) {
		paid, ok := h.paidOrder("1001")
		if !ok {
			return
		}
		h.wire.spoils = []spoil{crash}
		refund := partOf(paid)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := h.client.Refund(h.t.Context(), refund)
			h.addf("the process did not end: %v", err)
		}()
		<-done
		if err := h.restart(); err != nil {
			h.addf("%w", err)
			return
		}
		<-time.After(claimOver)
		res, err := h.client.Refund(h.t.Context(), refund)
		h.sameBytes()
		if s.caps.Key.KeepsEveryAnswer || s.caps.Lookup.ByReference {
			h.want("after the restart", res, err, payclient.Approved, payclient.MovedYes)
		} else if err != nil || !res.Open() {
			h.addf("after the restart: %s, moved %s, %v; want an open refund", res.Outcome, res.Moved, err)
		}
		h.wantRefunds("after the restart", paid.AttemptID, 1, -1)
	})
}

func voidsConfirmed(t *testing.T, s *suite) error {
	return inShop(t, s, func(h *shop) {
		if h.fake.Pending == nil {
			h.addf("Suite.Fake: want Pending: the adapter declares voids")
			return
		}
		i := h.fake.Pending("1001")
		res, err := h.client.Pay(h.t.Context(), i)
		if err != nil || !res.Open() || len(res.Attempt.Charges) == 0 {
			h.addf("paying: %s, moved %s, %v; want a charge that is pending", res.Outcome, res.Moved, err)
			return
		}
		res, err = h.client.CancelOrder(h.t.Context(), i.Slot(), "")
		h.want("cancelled", res, err, payclient.Declined, payclient.MovedNo)
		if res.Reason != attempt.ReasonVoided {
			h.addf("cancelled: reason %s, want %s: the answer was not understood", res.Reason, attempt.ReasonVoided)
		}
		h.wantBooks("cancelled", i.Slot(), 0, -1)
	})
}

func listsAll(t *testing.T, s *suite) error {
	return inShop(t, s, func(h *shop) {
		from := time.Now()
		want := make(map[string]payclient.Result)
		for n := range 120 {
			res, err := h.client.Pay(h.t.Context(), h.fake.Approved(fmt.Sprint(n)))
			h.want("paying", res, err, payclient.Approved, payclient.MovedYes)
			want[res.Reference] = res
		}
		h.wire.asked = 0
		for n, err := range h.client.ListCharges(h.t.Context(), from, time.Now().Add(time.Minute)) {
			if err != nil {
				h.addf("listing: %w", err)
				return
			}
			res, ok := want[n.Reference]
			if !ok || n.Charge.ID != res.ChargeID || n.Charge.Amount != res.Attempt.Amount || n.Charge.Status != attempt.ChargeSucceeded {
				h.addf("listed: %+v, paid was %s under %s", n, res.Attempt.Amount, res.ChargeID)
			}
			delete(want, n.Reference)
		}
		if len(want) > 0 {
			h.addf("%d of 120 charges are not listed", len(want))
		}
		if h.wire.asked > 12 {
			h.addf("%d questions for 120 charges: asking for each alone is as good", h.wire.asked)
		}
	})
}

package providertest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
)

// hostileTexts are what a source or a description may hold and a careless writer breaks on.
var hostileTexts = []string{
	"tok_visa",
	`quote " and ' and back\slash`,
	`\u0000 \n \x41 are letters here`,
	"Über ₺ 支付 \U0001F4B3 e\u0301",
	"line\u2028separator\u2029 <script>&amp;</script>",
	"a+b c%20d=e&f;g#h?i/j",
	`","source":"tok_other","x":"`,
	`{"a":[1]}`,
	"<!--]]>&lt;",
	"$1 %s %d {{.}} ${x}",
	strings.Repeat("x", 1000),
}

func sourceLeftOut(_ *testing.T, s *suite) error {
	var f findings
	for _, text := range hostileTexts {
		r, err := s.render(s.provider, s.attemptOf(s.intent(text)), s.Source(text))
		switch {
		case err != nil:
			f.addf("source %q: %w", text, err)
		case bytes.IndexByte(r.stored, 0) < 0:
			f.addf("ChargeBody has no NUL byte where the source goes: %q", r.stored)
		case bytes.IndexByte(r.body, 0) >= 0:
			f.addf("source %q: the body still holds a NUL byte: %q", text, r.body)
		}
	}
	return f.err()
}

func sourceExact(_ *testing.T, s *suite) error {
	var f findings
	for _, text := range hostileTexts {
		for _, description := range []string{"", text} {
			a := s.attemptOf(s.intent(text))
			a.Description = description
			r, err := s.render(s.provider, a, s.Source(text))
			if err != nil {
				f.addf("source %q: %w", text, err)
				continue
			}
			sent, err := s.Read(r.request, r.body)
			switch {
			case err != nil:
				f.addf("source %q, description %q: the provider cannot read the body: %w\n%s", text, description, err, r.body)
			case sent.Source != text:
				f.addf("source %q, description %q: the provider reads the source %q", text, description, sent.Source)
			}
		}
	}
	return f.err()
}

func amountsExact(_ *testing.T, s *suite) error {
	var f findings
	read := func(amount money.Amount, mustTake bool) {
		i := s.intent("tok_visa")
		i.Amount = amount
		r, err := s.render(s.provider, s.attemptOf(i), i.Source)
		if err != nil {
			if mustTake {
				f.addf("%s: %w", amount, err)
			}
			return
		}
		sent, err := s.Read(r.request, r.body)
		switch {
		case err != nil:
			f.addf("%s: the provider cannot read the body: %w\n%s", amount, err, r.body)
		case sent.Amount != amount:
			f.addf("%s: the provider reads %s", amount, sent.Amount)
		}
	}
	if len(s.Amounts) == 0 {
		f.addf("Suite.Amounts is empty: nothing was compared")
	}
	for _, a := range s.Amounts {
		read(a, true)
	}
	// What floating point cannot hold must be exact, or be refused before anything is stored.
	for currency := range money.Currencies() {
		for _, minor := range []int64{1, 5, 99, 100, 101, 1_000_001, 1<<53 + 1, math.MaxInt64} {
			amount, err := money.New(minor, currency)
			if err != nil {
				f.addf("%w", err)
				continue
			}
			read(amount, false)
		}
	}
	return f.err()
}

func referenceSent(_ *testing.T, s *suite) error {
	var f findings
	for _, prefix := range []string{"", "shop-", "A_"} {
		i := s.intent("tok_visa")
		a := s.attemptOf(i)
		a.Reference = prefix + fixedID
		if most := s.caps.Reference.MaxLength; most > 0 && len(a.Reference) > most {
			continue
		}
		r, err := s.render(s.provider, a, i.Source)
		if err != nil {
			f.addf("reference %q: %w", a.Reference, err)
			continue
		}
		if sent, err := s.Read(r.request, r.body); err != nil {
			f.addf("reference %q: the provider cannot read the body: %w", a.Reference, err)
		} else if sent.Reference != a.Reference {
			f.addf("reference %q: the provider reads %q", a.Reference, sent.Reference)
		}
	}
	return f.err()
}

// notForAdapters tells whether a header is the client's or the transport's business.
func notForAdapters(name string) bool {
	return slices.Contains([]string{
		"Accept-Encoding", "Content-Length", "Cookie", "Expect", "Host", "Referer", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
	}, http.CanonicalHeaderKey(name))
}

func requestWellFormed(_ *testing.T, s *suite) error {
	var f findings
	charge := s.provider.ChargeRequest(s.attemptOf(s.intent("tok_visa")))
	wellFormed(&f, "ChargeRequest", charge)
	if charge.Method != http.MethodPost {
		// Whatever net/http takes for idempotent it sends twice by itself (net/http, Request.isReplayable).
		f.addf("ChargeRequest: method %q, want POST", charge.Method)
	}
	if charge.Header.Get("Content-Type") == "" {
		f.addf("ChargeRequest: no Content-Type")
	}
	if !s.caps.Lookup.ByReference {
		return f.err()
	}
	for _, cursor := range []string{"", "ch_000001"} {
		r := s.provider.LookupRequest(fixedID, cursor)
		wellFormed(&f, "LookupRequest", r)
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			f.addf("LookupRequest: method %q, want GET: a question changes nothing", r.Method)
		}
	}
	return f.err()
}

func wellFormed(f *findings, what string, r payclient.Request) {
	if !strings.HasPrefix(r.Path, "/") || strings.ContainsFunc(r.Path, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '?' || c == '#' }) {
		f.addf("%s: path %q, want one that begins with a slash, without query, fragment, space or control character", what, r.Path)
	}
	if _, err := url.ParseQuery(r.Query); err != nil || strings.ContainsFunc(r.Query, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '#' }) {
		f.addf("%s: query %q is not encoded", what, r.Query)
	}
	for name, values := range r.Header {
		if name != http.CanonicalHeaderKey(name) || textproto.TrimString(name) != name || strings.ContainsAny(name, " :\r\n\x00") {
			f.addf("%s: header %q, want the canonical form %q", what, name, http.CanonicalHeaderKey(name))
		}
		if notForAdapters(name) {
			f.addf("%s: header %s is not an adapter's business", what, name)
		}
		for _, v := range values {
			if strings.ContainsAny(v, "\r\n\x00") || textproto.TrimString(v) != v {
				f.addf("%s: header %s: a value with a line break, a NUL byte or outer spaces", what, name)
			}
		}
	}
}

func keyLeftToClient(_ *testing.T, s *suite) error {
	var f findings
	names := []string{"Idempotency-Key", "X-Idempotency-Key"}
	if s.caps.Key.Header != "" {
		names = append(names, s.caps.Key.Header)
	}
	a := s.attemptOf(s.intent("tok_visa"))
	requests := map[string]payclient.Request{"ChargeRequest": s.provider.ChargeRequest(a)}
	if s.caps.Lookup.ByReference {
		requests["LookupRequest"] = s.provider.LookupRequest(a.Reference, "")
	}
	for what, r := range requests {
		for name, values := range r.Header {
			if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
				f.addf("%s sets the header %s", what, name)
			}
			if strings.Contains(strings.Join(values, "\n"), fixedKey) {
				f.addf("%s puts the key into the header %s", what, name)
			}
		}
	}
	return f.err()
}

func credentialsInHeaders(_ *testing.T, s *suite) error {
	var f findings
	if len(s.Secrets) == 0 {
		f.addf("Suite.Secrets is empty: nothing was looked for")
	}
	r, err := s.render(s.provider, s.attemptOf(s.intent("tok_visa")), s.Source("tok_visa"))
	if err != nil {
		return err
	}
	for i, secret := range s.Secrets {
		if !holds(fmt.Sprint(r.request.Header), secret) {
			f.addf("secret %d is in no header: it is not the one that New configures, or it is not sent", i+1)
		}
		places := map[string]string{
			"ChargeBody": string(r.body), "the path of ChargeRequest": r.request.Path, "the query of ChargeRequest": r.request.Query,
		}
		if s.caps.Lookup.ByReference {
			q := s.provider.LookupRequest(fixedID, "")
			places["the path of LookupRequest"], places["the query of LookupRequest"] = q.Path, q.Query
		}
		for place, text := range places {
			if holds(text, secret) {
				f.addf("secret %d is in %s", i+1, place)
			}
		}
	}
	return f.err()
}

// holds tells whether a text holds a secret as it is, encoded for a URL, or in base64, alone or in basic credentials.
func holds(text, secret string) bool {
	if strings.Contains(text, secret) || strings.Contains(text, url.QueryEscape(secret)) || strings.Contains(text, url.PathEscape(secret)) {
		return true
	}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" []\"',:;?&", r) }) {
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
			if plain, err := encoding.DecodeString(word); err == nil && bytes.Contains(plain, []byte(secret)) {
				return true
			}
		}
	}
	return false
}

// everything is all that an adapter renders for an attempt.
type everything struct {
	stored, body, sent, asked, next string
}

func (s *suite) everything(p payclient.Provider, i attempt.Intent) (everything, error) {
	a := s.attemptOf(i)
	r, err := s.render(p, a, i.Source)
	if err != nil {
		return everything{}, err
	}
	e := everything{stored: string(r.stored), body: string(r.body), sent: requestText(r.request, nil)}
	if s.caps.Lookup.ByReference {
		e.asked = requestText(p.LookupRequest(a.Reference, ""), nil)
		e.next = requestText(p.LookupRequest(a.Reference, "ch_000001"), nil)
	}
	return e, nil
}

func sameRequest(t *testing.T, s *suite) error {
	var f findings
	for _, amount := range s.Amounts {
		i := s.intent("tok_visa")
		i.Amount, i.Description = amount, "Two tickets"
		first, err := s.everything(s.provider, i)
		if err != nil {
			f.addf("%w", err)
			continue
		}
		for n, p := range []payclient.Provider{s.provider, s.New(t)} {
			which := []string{"the same adapter", "another one configured alike"}[n]
			again, err := s.everything(p, i)
			if err != nil {
				f.addf("%s: %w", which, err)
			} else if again != first {
				f.addf("%s renders\n%s\n%s\nand before\n%s\n%s", which, again.sent, again.body, first.sent, first.body)
			}
		}
	}
	return f.err()
}

func requestsNotShared(_ *testing.T, s *suite) error {
	var f findings
	i := s.intent("tok_visa")
	first, err := s.everything(s.provider, i)
	if err != nil {
		return err
	}
	spoil := func(what string, r payclient.Request) {
		for name, values := range r.Header {
			if cap(values) > len(values) {
				f.addf("%s: the values of header %s have room behind them: two requests that add one write to the same place", what, name)
			}
			r.Header.Add(name, "added")
			r.Header.Del(name)
		}
		r.Header.Set("X-Added", "1")
	}
	a := s.attemptOf(i)
	r, err := s.render(s.provider, a, i.Source)
	if err != nil {
		return err
	}
	for _, b := range [][]byte{r.stored, r.body} {
		clear(b)
		clear(b[len(b):cap(b)])
	}
	if r.request.Header != nil {
		spoil("ChargeRequest", r.request)
	}
	if s.caps.Lookup.ByReference {
		if q := s.provider.LookupRequest(a.Reference, ""); q.Header != nil {
			spoil("LookupRequest", q)
		}
	}
	again, err := s.everything(s.provider, i)
	if err != nil {
		f.addf("after a request was changed: %w", err)
	} else if again != first {
		f.addf("after a request was changed the next one is\n%s\n%s\nand was\n%s\n%s", again.sent, again.body, first.sent, first.body)
	}
	return f.err()
}

func concurrentUse(_ *testing.T, s *suite) error {
	var f findings
	var mu sync.Mutex // guards f
	intents := make([]attempt.Intent, 8)
	want := make([]everything, len(intents))
	for n := range intents {
		intents[n] = s.intent(fmt.Sprint("tok_", n))
		intents[n].Amount = s.Amounts[n%len(s.Amounts)]
		var err error
		if want[n], err = s.everything(s.provider, intents[n]); err != nil {
			return err
		}
	}
	alone := make([]string, len(s.golden))
	for n, g := range s.golden {
		alone[n] = s.readText(g)
	}
	var wg sync.WaitGroup
	for n := range intents {
		wg.Go(func() {
			for range 25 {
				got, err := s.everything(s.provider, intents[n])
				wrong := err != nil || got != want[n]
				for n, g := range s.golden {
					wrong = wrong || s.readText(g) != alone[n]
				}
				if wrong {
					mu.Lock()
					f.addf("beside other calls, for intent %d of %d: not what it renders and reads alone (%v)", n+1, len(intents), err)
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return f.err()
}

func lookupNamesReference(_ *testing.T, s *suite) error {
	var f findings
	first := requestText(s.provider.LookupRequest(fixedID, ""), nil)
	if other := requestText(s.provider.LookupRequest(fixedKey, ""), nil); other == first {
		f.addf("the question is the same for two references:\n%s", first)
	}
	for _, reference := range []string{fixedID, "shop-" + fixedID, "a&b=c#d e+f%g", "Überweisung"} {
		r := s.provider.LookupRequest(reference, "")
		query, err := url.ParseQuery(r.Query)
		if err != nil {
			f.addf("reference %q: the query %q cannot be read: %w", reference, r.Query, err)
			continue
		}
		named := strings.Contains(r.Path, reference)
		for _, values := range query {
			for _, v := range values {
				named = named || strings.Contains(v, reference)
			}
		}
		if !named {
			f.addf("reference %q: neither path %q nor query %q names it", reference, r.Path, r.Query)
		}
	}
	if cursor := requestText(s.provider.LookupRequest(fixedID, "ch_000001"), nil); cursor == first && s.pages() {
		f.addf("the question for the next page is the one for the first:\n%s", first)
	}
	return f.err()
}

// pages tells whether some golden page has a next one.
func (s *suite) pages() bool {
	return slices.ContainsFunc(s.golden, func(g *exchange) bool { return g.isLookup() && s.page(g).Next != "" })
}

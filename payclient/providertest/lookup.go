package providertest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
)

// pagesOf calls f with the golden lookups that are readable, and the answer as a JSON value where it is one.
func (s *suite) pagesOf(f func(g *exchange, v *value)) {
	for _, g := range s.golden {
		if g.isLookup() && s.page(g).Readable {
			f(g, parseJSON(g.response.Body))
		}
	}
}

// unreadable complains unless the adapter refuses to read a page. It allows one page beside that, if not empty.
func (s *suite) unreadable(f *findings, g *exchange, what string, r payclient.Response, allowed string) {
	page, err := s.readLookup(r)
	switch {
	case err != nil:
		f.addf("%s, %s: %w", g.name(), what, err)
	case !page.Readable, allowed != "" && pageText(page) == allowed:
	default:
		f.addf("%s, %s: read as\n%s\nfrom status %d\n%s", g.name(), what, pageText(page), r.StatusCode, r.Body)
	}
}

func pagesCutOrDoubled(_ *testing.T, s *suite) error {
	var f findings
	s.pagesOf(func(g *exchange, v *value) {
		body := bytes.TrimRight(g.response.Body, " \t\r\n")
		for n := range len(body) {
			s.unreadable(&f, g, fmt.Sprintf("cut after %d of %d bytes", n, len(body)), withBody(g, slices.Clone(body[:n])), "")
		}
		if v == nil {
			return
		}
		for what, spoilt := range map[string][]byte{
			"followed by {}":          append(slices.Clone(body), "{}"...),
			"followed by itself":      append(slices.Clone(body), body...),
			"followed by a letter":    append(slices.Clone(body), 'x'),
			"after a byte order mark": append([]byte("\xef\xbb\xbf"), body...),
			"as a string":             appendQuoted(nil, string(body)),
			"in UTF-16":               utf16Of(body, true),
		} {
			s.unreadable(&f, g, what, withBody(g, spoilt), "")
		}
		for _, p := range v.places() {
			for _, raw := range append([]string{string(p.now().text()), "[]"}, s.alternatives(p)...) {
				for _, first := range []bool{true, false} {
					s.unreadable(&f, g, p.path+" given twice", withBody(g, p.joined(p.name(), raw, first)), "")
				}
			}
			if p.now().kind == '"' {
				raw := p.now().scalar
				s.unreadable(&f, g, "invalid UTF-8 in "+p.path, withBody(g, p.replaced(raw[:len(raw)-1]+"\xff\"")), "")
			}
		}
	})
	return f.err()
}

func pagesComplete(_ *testing.T, s *suite) error {
	var f findings
	s.pagesOf(func(g *exchange, v *value) {
		if v == nil {
			return
		}
		whole := pageText(s.page(g))
		for _, p := range v.places() {
			if !p.top {
				continue
			}
			s.unreadable(&f, g, "without "+p.path, withBody(g, p.removed()), whole)
			for _, raw := range []string{"null", "{}", `""`, `"x"`, "0"} {
				if raw == string(p.now().text()) {
					continue
				}
				s.unreadable(&f, g, fmt.Sprintf("with %s %s", p.path, raw), withBody(g, p.replaced(raw)), whole)
			}
		}
	})
	return f.err()
}

func pagesNamesExact(_ *testing.T, s *suite) error {
	var f findings
	s.pagesOf(func(g *exchange, v *value) {
		if v == nil {
			return
		}
		whole := pageText(s.page(g))
		for _, p := range v.places() {
			without, err := s.readLookup(withBody(g, p.removed()))
			if err != nil {
				f.addf("%s, without %s: %w", g.name(), p.path, err)
				continue
			}
			for _, other := range otherCases(p) {
				s.unreadable(&f, g, fmt.Sprintf("%s written %s", p.path, other), withBody(g, p.renamed(other)), pageText(without))
				for _, raw := range append(s.alternatives(p), "[]") {
					s.unreadable(&f, g, fmt.Sprintf("%s beside %s", other, p.path), withBody(g, p.joined(other, raw, false)), whole)
				}
			}
		}
	})
	return f.err()
}

func foreignPages(_ *testing.T, s *suite) error {
	var f findings
	for status := 100; status <= 599; status++ {
		for _, b := range foreign {
			r := payclient.Response{StatusCode: status, Header: make(http.Header), Body: []byte(b.body)}
			r.Header.Set("Content-Type", b.contentType)
			if s.isGolden(r) {
				continue
			}
			page, err := s.readLookup(r)
			if err != nil {
				f.addf("status %d, %s, %q: %w", status, b.contentType, b.body, err)
			} else if page.Readable {
				f.addf("status %d, %s, %q: read as\n%s", status, b.contentType, b.body, pageText(page))
			}
		}
		for _, g := range s.golden {
			if r := g.answer(); g.isLookup() && status/100 != r.StatusCode/100 {
				r.StatusCode = status
				s.unreadable(&f, g, fmt.Sprintf("under status %d", status), r, "")
			}
		}
	}
	s.charges(func(g *exchange, _ *value) {
		s.unreadable(&f, g, "taken for the answer to a lookup", g.answer(), "")
	})
	return f.err()
}

// script answers requests with what it is given, in order, the last one for ever.
type script struct {
	answers []payclient.Response
	asked   []string
}

func (w *script) RoundTrip(req *http.Request) (*http.Response, error) {
	trace := httptrace.ContextClientTrace(req.Context())
	if trace != nil && trace.GetConn != nil {
		trace.GetConn(req.URL.Host)
	}
	if trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	r := w.answers[min(len(w.asked), len(w.answers)-1)]
	w.asked = append(w.asked, req.URL.RequestURI())
	return wireResponse(req, r), nil
}

// find asks for a reference with a client, and has the given answers.
func (s *suite) find(reference string, answers ...payclient.Response) (payclient.Lookup, *script, error) {
	w := &script{answers: answers}
	client, err := payclient.New(payclient.Config{
		Provider: s.provider, Store: new(attempt.Memory), BaseURL: "http://127.0.0.1", Transport: w,
	})
	if err != nil {
		return payclient.Lookup{}, w, err
	}
	l, err := client.FindByReference(context.Background(), reference)
	if l.Answer == attempt.LookupNotAsked {
		err = nil // said by the answer
	}
	return l, w, err
}

func finds(_ *testing.T, s *suite) error {
	var f findings
	want := func(what, reference string, answer attempt.LookupAnswer, charges int, answers ...payclient.Response) *script {
		l, w, err := s.find(reference, answers...)
		if err != nil {
			f.addf("%s: %w", what, err)
		} else if l.Answer != answer || len(l.Charges) != charges {
			f.addf("%s: %s with %d charges (%s), want %s with %d", what, l.Answer, len(l.Charges), l.Detail, answer, charges)
		}
		return w
	}
	notFound := payclient.Response{StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"data":[]}`)}
	failing := payclient.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Content-Type": {"text/html"}}, Body: []byte("<html>")}
	want("status 404", fixedID, attempt.LookupUnreadable, 0, notFound)
	want("status 503", fixedID, attempt.LookupNotAsked, 0, failing)
	want("an empty answer", fixedID, attempt.LookupUnreadable, 0, payclient.Response{StatusCode: http.StatusOK, Header: make(http.Header)})
	s.pagesOf(func(g *exchange, _ *value) {
		page := s.page(g)
		n := len(page.Charges)
		switch {
		case page.Next != "":
			want(g.name()+" again and again", g.reference, attempt.LookupUnreadable, 0, g.answer())
			want(g.name()+", then status 404", g.reference, attempt.LookupUnreadable, 0, g.answer(), notFound)
			want(g.name()+", then status 503", g.reference, attempt.LookupNotAsked, 0, g.answer(), failing)
			if last, ok := s.last(g.reference); ok {
				w := want(g.name()+", then the last page", g.reference, attempt.LookupFound, n+len(s.page(last).Charges), g.answer(), last.answer())
				if len(w.asked) != 2 || w.asked[0] == w.asked[1] {
					f.addf("%s: asked %s, want two questions, the second one for the next page", g.name(), strings.Join(w.asked, " and "))
				}
			}
		case n == 0:
			want(g.name(), g.reference, attempt.LookupNone, 0, g.answer())
		default:
			want(g.name(), g.reference, attempt.LookupFound, n, g.answer())
			want(g.name()+", asked for another reference", fixedKey, attempt.LookupUnreadable, 0, g.answer())
		}
	})
	return f.err()
}

// last returns a golden page about a reference that has no next one.
func (s *suite) last(reference string) (*exchange, bool) {
	for _, g := range s.golden {
		if g.isLookup() && (g.reference == reference || len(s.page(g).Charges) == 0) && s.page(g).Readable && s.page(g).Next == "" {
			return g, true
		}
	}
	return nil, false
}

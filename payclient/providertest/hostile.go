package providertest

import (
	"bytes"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
)

// charges yields the golden charge exchanges, and the answer as a JSON value where it is one.
func (s *suite) charges(f func(g *exchange, v *value)) {
	for _, g := range s.golden {
		if !g.isLookup() {
			f(g, parseJSON(g.response.Body))
		}
	}
}

// withBody returns an exchange's answer with another body.
func withBody(g *exchange, body []byte) payclient.Response {
	r := g.answer()
	r.Body = body
	return r
}

// open complains unless the adapter finds no decision in an answer. It allows one reply beside that, if not empty.
func (s *suite) open(f *findings, g *exchange, what string, r payclient.Response, allowed string) {
	reply, err := s.readCharge(r)
	switch {
	case err != nil:
		f.addf("%s, %s: %w", g.name(), what, err)
	case undecided(reply.Verdict), allowed != "" && replyText(reply) == allowed:
	default:
		f.addf("%s, %s: read as\n%s\nfrom status %d, %s\n%s", g.name(), what, replyText(reply), r.StatusCode, r.Header.Get("Content-Type"), r.Body)
	}
}

func cutAnswers(_ *testing.T, s *suite) error {
	var f findings
	s.charges(func(g *exchange, v *value) {
		whole := bytes.TrimRight(g.response.Body, " \t\r\n")
		for n := range len(whole) {
			s.open(&f, g, fmt.Sprintf("cut after %d of %d bytes", n, len(whole)), withBody(g, slices.Clone(whole[:n])), "")
		}
		for n := 1; n < len(whole); n++ {
			s.open(&f, g, fmt.Sprintf("without its first %d bytes", n), withBody(g, slices.Clone(whole[n:])), "")
		}
	})
	return f.err()
}

// alternatives returns other values for a place: what golden answers hold under the same name, and made-up ones.
func (s *suite) alternatives(p place) []string {
	now := p.now()
	var all []string
	for _, g := range s.golden {
		if v := parseJSON(g.response.Body); v != nil {
			for _, q := range v.places() {
				if q.name() == p.name() {
					all = append(all, string(q.now().text()))
				}
			}
		}
	}
	switch now.kind {
	case '"':
		text := now.plain()
		all = append(all, string(appendQuoted(nil, text+"x")), `"EUR"`, `"USD"`, `""`)
		if digits := strings.TrimLeft(text, "0123456789."); digits == "" && text != "" {
			all = append(all, `"1`+text+`"`)
		}
	case '0':
		all = append(all, "1"+strings.TrimPrefix(now.scalar, "-"), "0")
	}
	all = append(all, "null", "true", "false", `"x"`, "7")
	seen := map[string]bool{string(now.text()): true}
	return slices.DeleteFunc(all, func(raw string) bool {
		again := seen[raw]
		seen[raw] = true
		return again
	})
}

func namesTwice(_ *testing.T, s *suite) error {
	var f findings
	s.charges(func(g *exchange, v *value) {
		if v == nil {
			return
		}
		for _, p := range v.places() {
			same := string(p.now().text())
			for _, raw := range append([]string{same}, s.alternatives(p)...) {
				for _, first := range []bool{true, false} {
					s.open(&f, g, p.path+" given twice", withBody(g, p.joined(p.name(), raw, first)), "")
				}
			}
		}
	})
	return f.err()
}

// otherCases returns a name in other spellings that careless readers take for the same.
func otherCases(p place) []string {
	name := p.name()
	var all []string
	for _, other := range []string{
		strings.ToUpper(name), strings.ToLower(name), capitalised(name), strings.ReplaceAll(name, "_", ""), strings.ReplaceAll(name, "_", "-"),
		strings.ReplaceAll(strings.ReplaceAll(name, "s", "\u017f"), "k", "\u212a"), // fold to s and k in Unicode, and in encoding/json
	} {
		taken := slices.ContainsFunc(p.object.members, func(m member) bool { return m.name == other })
		if !taken && !slices.Contains(all, other) {
			all = append(all, other)
		}
	}
	return all
}

func capitalised(name string) string {
	if name == "" {
		return name
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

func namesExact(_ *testing.T, s *suite) error {
	var f findings
	s.charges(func(g *exchange, v *value) {
		if v == nil {
			return
		}
		whole := replyText(s.reply(g))
		for _, p := range v.places() {
			without, err := s.readCharge(withBody(g, p.removed()))
			if err != nil {
				f.addf("%s, without %s: %w", g.name(), p.path, err)
				continue
			}
			for _, other := range otherCases(p) {
				s.open(&f, g, fmt.Sprintf("%s written %s", p.path, other), withBody(g, p.renamed(other)), replyText(without))
				for _, raw := range s.alternatives(p) {
					for _, first := range []bool{true, false} {
						s.open(&f, g, fmt.Sprintf("%s beside %s", other, p.path), withBody(g, p.joined(other, raw, first)), whole)
					}
				}
			}
		}
	})
	return f.err()
}

func newNames(_ *testing.T, s *suite) error {
	var f findings
	s.charges(func(g *exchange, v *value) {
		if v == nil || len(v.members) == 0 {
			return
		}
		want := replyText(s.reply(g))
		p := v.places()[0]
		for _, raw := range []string{`"new"`, `{"status":"failed","id":"x"}`, `[1,{"a":null}]`, "null", "1e300"} {
			reply, err := s.readCharge(withBody(g, p.joined("x_new", raw, false)))
			if err != nil {
				f.addf("%s, with one more name: %w", g.name(), err)
			} else if got := replyText(reply); got != want {
				f.addf("%s, with one more name \"x_new\": %s: read as\n%s\nwant\n%s", g.name(), raw, got, want)
			}
		}
	})
	return f.err()
}

func oneValue(_ *testing.T, s *suite) error {
	var f findings
	s.charges(func(g *exchange, v *value) {
		if v == nil {
			return
		}
		body := g.response.Body
		for what, spoilt := range map[string][]byte{
			"followed by {}":          append(slices.Clone(body), "{}"...),
			"followed by itself":      append(slices.Clone(body), body...),
			"followed by a letter":    append(slices.Clone(body), 'x'),
			"followed by a bracket":   append(slices.Clone(body), '}'),
			"followed by a NUL byte":  append(slices.Clone(body), 0),
			"after {}":                append([]byte("{}"), body...),
			"in brackets":             append(append([]byte("["), body...), ']'),
			"under a name":            append(append([]byte(`{"data":`), body...), '}'),
			"as a string":             appendQuoted(nil, string(body)),
			"with a prefix":           append([]byte(")]}',\n"), body...),
			"with a comment":          append([]byte("/**/"), body...),
			"in chunked framing":      append(fmt.Appendf(nil, "%x\r\n", len(body)), append(slices.Clone(body), "\r\n0\r\n\r\n"...)...),
			"with a trailing comma":   append(slices.Clone(bytes.TrimSuffix(bytes.TrimSpace(body), []byte("}"))), ",}"...),
			"with a headers' remnant": append([]byte("\r\n\r\n<html>"), body...),
		} {
			s.open(&f, g, what, withBody(g, spoilt), "")
		}
		want := replyText(s.reply(g))
		s.open(&f, g, "with white space around it", withBody(g, append(append([]byte(" \t\r\n"), body...), "\r\n "...)), want)
	})
	return f.err()
}

func encoding(_ *testing.T, s *suite) error {
	var f findings
	s.charges(func(g *exchange, v *value) {
		if v == nil {
			return
		}
		body := g.response.Body
		s.open(&f, g, "after a byte order mark", withBody(g, append([]byte("\xef\xbb\xbf"), body...)), "")
		for what, wide := range map[string][]byte{"UTF-16, big end first": utf16Of(body, false), "UTF-16, little end first": utf16Of(body, true)} {
			s.open(&f, g, what, withBody(g, wide), "")
		}
		for _, p := range v.places() {
			if p.now().kind != '"' {
				continue
			}
			raw := p.now().scalar
			for _, bad := range []string{"\xff", "\xc0\xaf", "\xed\xa0\x80", "\x00", "\n"} {
				s.open(&f, g, fmt.Sprintf("%q in %s", bad, p.path), withBody(g, p.replaced(raw[:len(raw)-1]+bad+`"`)), "")
			}
		}
	})
	return f.err()
}

func utf16Of(text []byte, little bool) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(string(text))) {
		if little {
			b = append(b, byte(u), byte(u>>8))
		} else {
			b = append(b, byte(u>>8), byte(u))
		}
	}
	return b
}

func contentType(_ *testing.T, s *suite) error {
	var f findings
	s.charges(func(g *exchange, _ *value) {
		want := s.reply(g)
		own := g.response.Header.Get("Content-Type")
		if own != "" && !strings.Contains(own, ";") {
			r := g.answer()
			r.Header.Set("Content-Type", own+"; charset=utf-8")
			if reply, err := s.readCharge(r); err != nil {
				f.addf("%s, with a charset: %w", g.name(), err)
			} else if replyText(reply) != replyText(want) {
				f.addf("%s, with a charset: read as\n%s\nwant\n%s", g.name(), replyText(reply), replyText(want))
			}
		}
		for _, other := range []string{"", "text/html", "text/html; charset=utf-8", "application/octet-stream", "image/png", "broken/", "multipart/mixed"} {
			if strings.HasPrefix(own, strings.TrimSuffix(other, "; charset=utf-8")) && other != "" || own == other {
				continue
			}
			r := g.answer()
			r.Header.Del("Content-Type")
			if other != "" {
				r.Header.Set("Content-Type", other)
			}
			// An approval names reference, amount and currency: it may be believed in any wrapping.
			allowed := ""
			if want.Verdict == attempt.Charged && want.Charge.Reference != "" {
				allowed = replyText(want)
			}
			s.open(&f, g, fmt.Sprintf("as content type %q", other), r, allowed)
		}
	})
	return f.err()
}

func otherStatus(_ *testing.T, s *suite) error {
	var f findings
	s.charges(func(g *exchange, _ *value) {
		for status := 100; status <= 599; status++ {
			r := g.answer()
			if status == r.StatusCode {
				continue
			}
			r.StatusCode = status
			if status/100 == g.response.StatusCode/100 && !payclient.IsUnavailable(status) {
				if _, err := s.readCharge(r); err != nil { // what it says is the provider's affair
					f.addf("%s, under status %d: %w", g.name(), status, err)
				}
				continue
			}
			s.open(&f, g, fmt.Sprintf("under status %d", status), r, "")
		}
	})
	return f.err()
}

// foreign are bodies that gateways, proxies, frameworks and captive portals answer with.
var foreign = []struct{ contentType, body string }{
	{"", ""},
	{"application/json", ""},
	{"text/html", "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"},
	{"text/html; charset=utf-8", "<!doctype html><title>Sign in to the network</title>"},
	{"text/plain", "upstream connect error or disconnect/reset before headers"},
	{"application/json", "null"},
	{"application/json", "true"},
	{"application/json", "0"},
	{"application/json", `""`},
	{"application/json", "[]"},
	{"application/json", "{}"},
	{"application/json", `[{}]`},
	{"application/json", `{"message":"Forbidden"}`},
	{"application/json", `{"message":null}`},
	{"application/json", `{"error":"x"}`},
	{"application/json", `{"error":{}}`},
	{"application/json", `{"errors":[]}`},
	{"application/json", `{"data":null}`},
	{"application/json", `{"status":"error"}`},
	{"application/json", `{"status":"ok"}`},
	{"application/json", `{"success":true}`},
	{"application/json", `{"fault":{"faultstring":"Rate limit quota violation","detail":{"errorcode":"policies.ratelimit.QuotaViolation"}}}`},
	{"application/problem+json", `{"type":"about:blank","title":"Unauthorized","status":401}`},
	{"application/problem+json", `{"title":"Not Found"}`},
	{"application/problem+json", `{}`},
	{"application/xml", "<error/>"},
}

func foreignAnswers(_ *testing.T, s *suite) error {
	var f findings
	for status := 100; status <= 599; status++ {
		for _, b := range foreign {
			r := payclient.Response{StatusCode: status, Header: make(http.Header), Body: []byte(b.body)}
			if b.contentType != "" {
				r.Header.Set("Content-Type", b.contentType)
			}
			if s.isGolden(r) {
				continue
			}
			reply, err := s.readCharge(r)
			if err != nil {
				f.addf("status %d, %s, %q: %w", status, b.contentType, b.body, err)
			} else if !undecided(reply.Verdict) {
				f.addf("status %d, %s, %q: read as\n%s", status, b.contentType, b.body, replyText(reply))
			}
		}
	}
	return f.err()
}

// isGolden tells whether a golden exchange has that very answer.
func (s *suite) isGolden(r payclient.Response) bool {
	return slices.ContainsFunc(s.golden, func(g *exchange) bool {
		return g.response.StatusCode == r.StatusCode && bytes.Equal(bytes.TrimSpace(g.response.Body), r.Body)
	})
}

func answersLeftAlone(_ *testing.T, s *suite) error {
	var f findings
	for _, g := range s.golden {
		r := g.answer()
		var read func() string
		if g.isLookup() {
			if !s.caps.Lookup.ByReference {
				continue
			}
			page := s.provider.ReadLookup(r)
			read = func() string { return pageText(page) }
		} else {
			reply := s.provider.ReadCharge(r)
			read = func() string { return replyText(reply) }
		}
		if !bytes.Equal(r.Body, g.response.Body) || !reflect.DeepEqual(r.Header, g.response.Header) {
			f.addf("%s: reading it has changed the answer", g.name())
		}
		before := strings.Clone(read())
		for i := range r.Body {
			r.Body[i] = 'x'
		}
		for _, values := range r.Header {
			clear(values)
		}
		if read() != before {
			f.addf("%s: what was read changes with the answer's buffer:\n%s\nwas\n%s", g.name(), read(), before)
		}
	}
	return f.err()
}

// read is a field of a charge that the client compares.
var readFields = []struct {
	name string
	of   func(payclient.ChargeData) string
}{
	{"ID", func(c payclient.ChargeData) string { return c.ID }},
	{"Reference", func(c payclient.ChargeData) string { return c.Reference }},
	{"Currency", func(c payclient.ChargeData) string { return c.Currency }},
	{"Minor", func(c payclient.ChargeData) string {
		if c.Minor == nil {
			return ""
		}
		return strconv.FormatInt(*c.Minor, 10)
	}},
	{"ChargeID", func(c payclient.ChargeData) string { return c.ChargeID }},
}

func fieldsAreRead(_ *testing.T, s *suite) error {
	var f findings
	s.charges(func(g *exchange, v *value) {
		golden := s.reply(g)
		if v == nil || golden.Verdict != attempt.Charged {
			return
		}
		for _, field := range readFields {
			want := field.of(golden.Charge)
			if want == "" {
				continue
			}
			from := s.sourceOf(g, v, field.of)
			if len(from) == 0 {
				f.addf("%s: Charge.%s is %s, whatever the answer holds", g.name(), field.name, want)
			}
			for _, p := range from {
				reply, err := s.readCharge(withBody(g, p.removed()))
				if err != nil {
					f.addf("%s, without %s: %w", g.name(), p.path, err)
				} else if got := field.of(reply.Charge); reply.Verdict == attempt.Charged && got == want {
					f.addf("%s, without %s: Charge.%s is still %s", g.name(), p.path, field.name, got)
				}
			}
		}
		s.numbersExact(&f, g, v)
	})
	return f.err()
}

// sourceOf returns the places of an answer that a field is read from.
func (s *suite) sourceOf(g *exchange, v *value, field func(payclient.ChargeData) string) (from []place) {
	want := field(s.reply(g).Charge)
	for _, p := range v.places() {
		for _, raw := range s.alternatives(p) {
			reply, err := s.readCharge(withBody(g, p.replaced(raw)))
			if err == nil && reply.Verdict == attempt.Charged && field(reply.Charge) != want {
				from = append(from, p)
				break
			}
		}
	}
	return from
}

// numbersExact writes an answer's numbers as no API writes an amount: they are the same value, or unreadable.
func (s *suite) numbersExact(f *findings, g *exchange, v *value) {
	want := s.reply(g)
	for _, p := range v.places() {
		now := p.now()
		if now.kind != '0' {
			continue
		}
		for _, raw := range []string{now.scalar + ".9", now.scalar + "e2", "9" + now.scalar + "000000000000000000", "-" + now.scalar, now.scalar + ".0"} {
			if !jsontext.Value(raw).IsValid() {
				continue
			}
			reply, err := s.readCharge(withBody(g, p.replaced(raw)))
			same := raw == now.scalar+".0"
			switch {
			case err != nil:
				f.addf("%s, with %s %s: %w", g.name(), p.path, raw, err)
			case undecided(reply.Verdict), same, reply.Charge.Minor == nil, want.Charge.Minor == nil:
			case *reply.Charge.Minor == *want.Charge.Minor && slices.ContainsFunc(s.sourceOf(g, v, readFields[3].of), func(q place) bool { return q.path == p.path }):
				f.addf("%s, with %s %s: read as %d", g.name(), p.path, raw, *reply.Charge.Minor)
			}
		}
	}
}

package providertest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
)

// exchange is a golden file: one request to the provider and its answer.
type exchange struct {
	file     string
	archive  archive
	response payclient.Response

	side              side              // which operation it is of
	intent            map[string]string // of a charge, a refund or a void
	lookup            map[string]string // of a lookup or a listing; nil: neither
	reference, cursor string
}

func (g *exchange) isLookup() bool { return g.lookup != nil }

// name names the exchange in findings.
func (g *exchange) name() string { return filepath.Base(g.file) }

// answer returns a copy of the answer, so that no reader can spoil it for the next.
func (g *exchange) answer() payclient.Response {
	return payclient.Response{StatusCode: g.response.StatusCode, Header: g.response.Header.Clone(), Body: slices.Clone(g.response.Body)}
}

func readGolden(folder string) ([]*exchange, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txtar"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("golden exchanges: no *.txtar in %q", folder), err)
	}
	var all []*exchange
	var errs []error
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // the test's own folder
		if err != nil {
			return nil, fmt.Errorf("golden exchanges: %w", err)
		}
		g, err := parseExchange(file, string(text))
		if err != nil {
			errs = append(errs, fmt.Errorf("golden exchange %s: %w", file, err))
		}
		all = append(all, g)
	}
	return all, errors.Join(errs...)
}

func parseExchange(file, text string) (*exchange, error) {
	g := &exchange{file: file}
	var err error
	if g.archive, err = parseArchive(text); err != nil {
		return g, err
	}
	for _, s := range g.archive.sections {
		if !slices.Contains(sections, s.name) {
			return g, fmt.Errorf("section %q: want one of %v", s.name, sections)
		}
	}
	answer, ok := g.archive.section("response")
	if !ok {
		return g, errors.New("section response: missing")
	}
	if g.response, err = parseResponse(answer); err != nil {
		return g, fmt.Errorf("response: %w", err)
	}
	for _, about := range subjects {
		text, ok := g.archive.section(about.section)
		if !ok && about.section != "intent" {
			continue
		}
		fields, err := parseFields(text, about.fields...)
		if err != nil {
			return g, fmt.Errorf("%s: %w", about.section, err)
		}
		g.side = about.side
		if about.lookup {
			g.lookup, g.reference, g.cursor = fields, cmp.Or(fields["reference"], fixedID), fields["cursor"]
		} else {
			g.intent = fields
		}
		return g, nil
	}
	return g, nil
}

// subjects are the sections that say what an exchange is about; the last one is so where none is there.
var subjects = []struct {
	section string
	side    side
	lookup  bool
	fields  []string
}{
	{"lookup", charging, true, []string{"reference", "cursor"}},
	{"refund", refunding, false, []string{"charge", "amount"}},
	{"refund-lookup", refunding, true, []string{"reference", "cursor"}},
	{"void", voiding, false, []string{"charge"}},
	{"list", listing, true, []string{"cursor"}},
	{"intent", charging, false, []string{"amount", "source", "description"}},
}

var sections = []string{"intent", "lookup", "refund", "refund-lookup", "void", "list", "request", "response", "reply", "page"}

// parseFields reads lines "name: value".
func parseFields(text string, names ...string) (map[string]string, error) {
	fields := make(map[string]string)
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || !slices.Contains(names, name) {
			return nil, fmt.Errorf("line %q: want one of %v, a colon and the value", line, names)
		}
		fields[name] = strings.TrimSpace(value)
	}
	return fields, nil
}

func parseResponse(text string) (payclient.Response, error) {
	r := payclient.Response{Header: make(http.Header)}
	head, body, _ := strings.Cut(text, "\n\n")
	lines := strings.Split(head, "\n")
	code, _, _ := strings.Cut(lines[0], " ")
	var err error
	if r.StatusCode, err = strconv.Atoi(code); err != nil {
		return r, fmt.Errorf("first line %q: want a status", lines[0])
	}
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			if line == "" {
				continue
			}
			return r, fmt.Errorf("line %q: want a header, or an empty line before the body", line)
		}
		r.Header.Add(name, strings.TrimSpace(value))
	}
	r.Body = []byte(body)
	return r, nil
}

// intentOf makes the intent that a golden charge is about.
func (s *suite) intentOf(g *exchange) (attempt.Intent, error) {
	i := s.intent(cmp.Or(g.intent["source"], "tok_visa"))
	i.Description = g.intent["description"]
	if text := g.intent["amount"]; text != "" {
		decimal, currency, _ := strings.Cut(text, " ")
		amount, err := money.Parse(decimal, currency)
		if err != nil {
			return i, err
		}
		i.Amount = amount
	}
	return i, nil
}

// requestOf renders the request of an exchange in the words of the wire.
func (s *suite) requestOf(g *exchange) (string, error) {
	if g.isLookup() {
		return requestText(s.provider.LookupRequest(g.reference, g.cursor), nil), nil
	}
	i, err := s.intentOf(g)
	if err != nil {
		return "", err
	}
	a := s.attemptOf(i)
	a.Refund.ChargeID = cmp.Or(g.intent["charge"], a.Refund.ChargeID)
	r, err := s.render(s.provider, a, i.Source)
	if err != nil {
		return "", err
	}
	return requestText(r.request, r.body), nil
}

// requestText writes a request: method and path, headers by name, an empty line, the body.
func requestText(r payclient.Request, body []byte) string {
	var b strings.Builder
	b.WriteString(r.Method + " " + r.Path)
	if r.Query != "" {
		b.WriteString("?" + r.Query)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, v := range r.Header[name] {
			fmt.Fprintf(&b, "\n%s: %s", name, v)
		}
	}
	if body != nil {
		fmt.Fprintf(&b, "\n\n%s", body)
	}
	return b.String()
}

// reply and page read the answer of an exchange; an adapter that panics reads nothing.
func (s *suite) reply(g *exchange) payclient.Reply {
	reply, _ := s.readCharge(g.answer())
	return reply
}

func (s *suite) page(g *exchange) payclient.LookupPage {
	page, _ := s.readLookup(g.answer())
	return page
}

// readText reads the answer of an exchange and writes what was read.
func (s *suite) readText(g *exchange) string {
	if g.isLookup() {
		page, err := s.readLookup(g.answer())
		if err != nil {
			return err.Error()
		}
		return pageText(page)
	}
	reply, err := s.readCharge(g.answer())
	if err != nil {
		return err.Error()
	}
	return replyText(reply)
}

// fieldText gathers lines "name: value" of what is not zero.
type fieldText struct{ strings.Builder }

func (b *fieldText) add(name, value string) {
	if value == "" {
		return
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(name + ": " + value)
}

func (b *fieldText) flag(name string, set bool) {
	if set {
		b.add(name, "true")
	}
}

func (b *fieldText) charge(prefix string, c payclient.ChargeData) {
	if c == (payclient.ChargeData{}) {
		return
	}
	b.add(prefix+"id", c.ID)
	b.add(prefix+"status", c.Status.String())
	b.add(prefix+"reference", c.Reference)
	if c.Minor != nil {
		b.add(prefix+"minor", strconv.FormatInt(*c.Minor, 10))
	}
	b.add(prefix+"currency", c.Currency)
	b.add(prefix+"decline_code", c.DeclineCode)
	b.add(prefix+"next_action", c.NextAction)
	b.add(prefix+"charge_id", c.ChargeID)
}

// replyText writes what a reply says. Detail is for people, and not compared.
func replyText(r payclient.Reply) string {
	var b fieldText
	b.add("verdict", r.Verdict.String())
	b.add("reason", string(r.Reason))
	b.charge("charge.", r.Charge)
	b.add("reference", r.Reference)
	b.add("code", r.Code)
	b.add("decline_code", r.DeclineCode)
	b.add("request_id", r.RequestID)
	b.flag("replayed", r.Replayed)
	b.flag("no_retry", r.NoRetry)
	b.flag("ask", r.Ask)
	b.flag("ask_first", r.AskFirst)
	return b.String()
}

func pageText(p payclient.LookupPage) string {
	var b fieldText
	b.add("readable", strconv.FormatBool(p.Readable))
	for i, c := range p.Charges {
		b.charge(fmt.Sprintf("charge.%d.", i+1), c)
	}
	b.add("next", p.Next)
	b.add("request_id", p.RequestID)
	return b.String()
}

func goldenExchanges(t *testing.T, s *suite) error {
	var f findings
	for _, g := range s.golden {
		have := map[string]string{}
		request, err := s.requestOf(g)
		if err != nil {
			f.addf("%s: request: %w", g.name(), err)
			continue
		}
		if _, ok := g.archive.section("request"); ok {
			have["request"] = request
		}
		have["reply"] = s.readText(g)
		if g.isLookup() {
			have = map[string]string{"request": request, "page": have["reply"]}
		}
		changed := false
		for _, name := range slices.Sorted(maps.Keys(have)) {
			want, ok := g.archive.section(name)
			if ok && want == have[name] {
				continue
			}
			if s.Update {
				g.archive.set(name, have[name])
				changed = true
				continue
			}
			f.addf("%s: %s\n%s\nwant\n%s", g.name(), name, have[name], want)
		}
		if changed {
			if err := os.WriteFile(g.file, []byte(g.archive.String()), 0o600); err != nil {
				f.addf("%w", err)
			}
			t.Logf("%s: written anew", g.file)
		}
	}
	return f.err()
}

func goldenSet(_ *testing.T, s *suite) error {
	var f findings
	want := map[string]func(*exchange) bool{
		"an approval (charged and succeeded, or one that must be asked for)": s.charge(func(r payclient.Reply) bool {
			return r.Verdict == attempt.Charged && r.Charge.Status == attempt.ChargeSucceeded || r.Ask
		}),
		"a decline (refused, or charged and failed)": s.charge(func(r payclient.Reply) bool {
			return r.Verdict == attempt.Refused || r.Verdict == attempt.Charged && r.Charge.Status == attempt.ChargeFailed
		}),
		"a rejection (credentials, a malformed request)": s.charge(func(r payclient.Reply) bool { return r.Verdict == attempt.Rejected }),
		"a failure that decides nothing (a 5xx, 429)":    s.charge(func(r payclient.Reply) bool { return r.Verdict == attempt.Unavailable && !r.Ask }),
	}
	if s.caps.Key.KeepsEveryAnswer {
		want["a first request that still runs"] = s.charge(func(r payclient.Reply) bool { return r.Verdict == attempt.Running })
	}
	if s.caps.Lookup.ByReference {
		want["a lookup that finds a charge"] = s.lookups(func(p payclient.LookupPage) bool { return p.Readable && len(p.Charges) > 0 })
		want["a lookup that finds none"] = s.lookups(func(p payclient.LookupPage) bool { return p.Readable && len(p.Charges) == 0 && p.Next == "" })
	}
	for _, what := range slices.Sorted(maps.Keys(want)) {
		if !slices.ContainsFunc(s.golden, want[what]) {
			f.addf("no golden exchange shows %s", what)
		}
	}
	requests := 0
	for _, g := range s.golden {
		if _, ok := g.archive.section("request"); ok && !g.isLookup() {
			requests++
		}
	}
	if requests == 0 {
		f.addf("no golden exchange shows a charge request")
	}
	return f.err()
}

func (s *suite) charge(is func(payclient.Reply) bool) func(*exchange) bool {
	return func(g *exchange) bool { return !g.isLookup() && is(s.reply(g)) }
}

func (s *suite) lookups(is func(payclient.LookupPage) bool) func(*exchange) bool {
	return func(g *exchange) bool { return g.isLookup() && is(s.page(g)) }
}

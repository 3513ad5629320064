package providertest

import (
	"net/http"
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chargeonce/chargeonce/payclient"
)

// Fuzz reads arbitrary answers with an adapter, beginning with the golden ones. Whatever they hold, the adapter does not
// panic, reads them twice alike, and decides only by a whole answer: where the API is JSON, by one valid JSON value without
// names given twice.
func Fuzz(f *testing.F, config Suite) {
	golden, err := readGolden(config.Golden)
	if err != nil {
		f.Fatal(err)
	}
	for _, g := range golden {
		f.Add(g.response.StatusCode, g.response.Header.Get("Content-Type"), g.response.Body)
	}
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte) {
		charges := &suite{Suite: config, provider: config.New(t), golden: ofSide(golden, charging)}
		charges.caps = charges.provider.Capabilities()
		charges.openSides(golden)
		all := []*suite{charges}
		for _, s := range charges.sides {
			all = append(all, s)
		}
		for _, s := range all {
			s.fuzz(t, status, contentType, body)
		}
	})
}

func (s *suite) fuzz(t *testing.T, status int, contentType string, body []byte) {
	answer := func() payclient.Response {
		r := payclient.Response{StatusCode: status, Header: make(http.Header), Body: slices.Clone(body)}
		r.Header.Set("Content-Type", contentType)
		return r
	}
	first, second := s.provider.ReadCharge(answer()), s.provider.ReadCharge(answer())
	if replyText(first) != replyText(second) {
		t.Errorf("read as\n%s\nand then as\n%s", replyText(first), replyText(second))
	}
	decided := !undecided(first.Verdict)
	if s.caps.Lookup.ByReference {
		page, again := s.provider.ReadLookup(answer()), s.provider.ReadLookup(answer())
		if pageText(page) != pageText(again) {
			t.Errorf("read as\n%s\nand then as\n%s", pageText(page), pageText(again))
		}
		decided = decided || page.Readable
	}
	if decided && s.speaksJSON() && !jsontext.Value(body).IsValid() {
		t.Errorf("decided by what is not one JSON value: status %d, %s, %q", status, contentType, body)
	}
	if decided && (status < 200 || status > 499 || payclient.IsUnavailable(status)) {
		t.Errorf("decided under status %d: %q", status, body)
	}
}

// speaksJSON tells whether every golden answer that decides something is JSON.
func (s *suite) speaksJSON() bool {
	return !slices.ContainsFunc(s.golden, func(g *exchange) bool {
		decides := g.isLookup() && s.page(g).Readable || !g.isLookup() && !undecided(s.reply(g).Verdict)
		return decides && parseJSON(g.response.Body) == nil
	})
}

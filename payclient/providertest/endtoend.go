package providertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
)

// shop is a host with a client at the suite's fake, in a synctest bubble.
type shop struct {
	t      *testing.T
	s      *suite
	fake   Fake
	wire   *wire
	store  *attempt.Memory
	client *payclient.Client
	findings
}

// inShop runs f in a bubble of its own, at a fake whose books are empty.
func inShop(t *testing.T, s *suite, f func(*shop)) error {
	var err error
	synctest.Test(t, func(t *testing.T) {
		h := &shop{t: t, s: s, fake: s.Suite.Fake(t), store: new(attempt.Memory)}
		if h.fake.Handler == nil || h.fake.Charges == nil || h.fake.Approved == nil || h.fake.Declined == nil {
			err = errors.New("Suite.Fake: want a Handler, Charges, Approved and Declined")
			return
		}
		h.wire = &wire{handler: h.fake.Handler}
		if err = h.restart(); err == nil {
			f(h)
			err = h.findings.err()
		}
	})
	return err
}

// restart makes another client on the same store, as another process would.
func (h *shop) restart() (err error) {
	h.client, err = payclient.New(payclient.Config{
		Provider: h.s.New(h.t), Store: h.store, BaseURL: "http://127.0.0.1", Transport: h.wire,
		DigestKeys: []attempt.DigestKey{{ID: "suite", Secret: []byte("0123456789abcdef0123456789abcdef")}},
	})
	return err
}

// want complains unless a payment has that outcome.
func (h *shop) want(what string, res payclient.Result, err error, outcome payclient.Outcome, moved payclient.Moved) {
	switch {
	case err != nil:
		h.addf("%s: %w", what, err)
	case res.Outcome != outcome || res.Moved != moved:
		h.addf("%s: %s, moved %s (%s: %s), want %s, moved %s", what, res.Outcome, res.Moved, res.Reason, res.Attempt.Answer.Detail, outcome, moved)
	}
}

// wantBooks complains unless the fake holds so many charges of a slot, whatever attempts it has.
func (h *shop) wantBooks(what string, slot attempt.Slot, charges, requests int) {
	view, err := h.store.Slot(h.t.Context(), slot)
	if err != nil {
		h.addf("%s: %w", what, err)
	}
	n := 0
	for _, a := range view.Attempts {
		n += h.fake.Charges(a.Reference)
	}
	if n != charges {
		h.addf("%s: the books hold %d charges, want %d", what, n, charges)
	}
	if requests >= 0 && len(h.wire.sent) != requests {
		h.addf("%s: %d charge requests, want %d", what, len(h.wire.sent), requests)
	}
}

// sameBytes complains unless all charge requests were one and the same.
func (h *shop) sameBytes() {
	for i, r := range h.wire.sent {
		first := h.wire.sent[0]
		if key := h.s.caps.Key.Header; key != "" && !slices.Equal(r.header[key], first.header[key]) {
			h.addf("request %d has the key %q, the first one %q", i+1, r.header[key], first.header[key])
		}
		if r.body != first.body {
			h.addf("request %d is\n%s\nthe first one\n%s", i+1, r.body, first.body)
		}
	}
}

func paysOnce(t *testing.T, s *suite) error {
	return inShop(t, s, func(h *shop) {
		i := h.fake.Approved("1001")
		res, err := h.client.Pay(h.t.Context(), i)
		h.want("paying", res, err, payclient.Approved, payclient.MovedYes)
		if err == nil && res.ChargeID == "" {
			h.addf("the result names no charge: support cannot find it at the provider")
		}
		h.wantBooks("paying", i.Slot(), 1, 1)
		again, err := h.client.Pay(h.t.Context(), i)
		h.want("paying again", again, err, payclient.Approved, payclient.MovedYes)
		h.wantBooks("paying again", i.Slot(), 1, 1)
		other := h.fake.Approved("1002")
		res, err = h.client.Pay(h.t.Context(), other)
		h.want("another order", res, err, payclient.Approved, payclient.MovedYes)
		h.wantBooks("another order", other.Slot(), 1, 2)
	})
}

func declines(t *testing.T, s *suite) error {
	return inShop(t, s, func(h *shop) {
		// A refusal that does not name the reference may be the answer to somebody else where its connection was used before:
		// then it is asked for once more.
		most := 1
		nameless := s.charge(func(r payclient.Reply) bool { return r.Verdict == attempt.Refused && r.Reference == "" })
		if s.caps.Key.KeepsEveryAnswer && slices.ContainsFunc(s.golden, nameless) {
			most = 2
		}
		// Two orders, so that one of them meets a connection that was used before.
		for _, order := range []string{"1001", "1002"} {
			i := h.fake.Declined(order)
			before := len(h.wire.sent)
			res, err := h.client.Pay(h.t.Context(), i)
			h.want("order "+order, res, err, payclient.Declined, payclient.MovedNo)
			requests := len(h.wire.sent)
			if n := requests - before; n > most {
				h.addf("order %s: %d charge requests, want %d at most: the decline ends them", order, n, most)
			}
			again, err := h.client.Pay(h.t.Context(), i)
			h.want("order "+order+" again", again, err, payclient.Declined, payclient.MovedNo)
			h.wantBooks("order "+order+" again", i.Slot(), 0, requests)
		}
	})
}

// unusable are the ways in which the answer to an executed charge may be of no use.
func unusable(s *suite) map[string]spoil {
	page := func(status int, contentType, body string) spoil {
		return answerWith(payclient.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, Body: []byte(body)})
	}
	ways := map[string]spoil{
		"lost":                 lose,
		"replaced by 502":      page(http.StatusBadGateway, "text/html", "<html>502 Bad Gateway</html>"),
		"replaced by 504":      page(http.StatusGatewayTimeout, "text/plain", "upstream request timeout"),
		"replaced by 429":      page(http.StatusTooManyRequests, "application/json", `{"message":"slow down"}`),
		"replaced by 403":      page(http.StatusForbidden, "text/html", "<html>blocked</html>"),
		"replaced by a portal": page(http.StatusOK, "text/html", "<html>sign in</html>"),
		"emptied":              page(http.StatusOK, "application/json", ""),
		"cut in half": func(r payclient.Response) (payclient.Response, error) {
			r.Body = r.Body[:len(r.Body)/2]
			return r, nil
		},
	}
	for _, g := range s.golden {
		reply := s.reply(g)
		if !g.isLookup() && reply.Verdict == attempt.Unavailable && g.response.StatusCode >= 500 && !reply.NoRetry && !reply.Replayed {
			ways["replaced by "+g.name()] = answerWith(g.answer())
		}
	}
	return ways
}

func lostAnswers(t *testing.T, s *suite) error {
	var f findings
	for what, way := range unusable(s) {
		err := inShop(t, s, func(h *shop) {
			h.wire.spoils = []spoil{way}
			i := h.fake.Approved("1001")
			res, err := h.client.Pay(h.t.Context(), i)
			h.sameBytes()
			switch {
			case s.caps.Key.KeepsEveryAnswer:
				h.want("the answer was "+what, res, err, payclient.Approved, payclient.MovedYes)
				h.wantBooks("the answer was "+what, i.Slot(), 1, -1)
				if n := len(h.wire.sent); n > 2 {
					h.addf("the answer was %s: %d requests, want two at most", what, n)
				}
			case s.caps.Lookup.ByReference:
				h.want("the answer was "+what, res, err, payclient.Approved, payclient.MovedYes)
				h.wantBooks("the answer was "+what, i.Slot(), 1, 1)
			default:
				if err != nil || !res.Open() {
					h.addf("the answer was %s: %s, moved %s, %v; want an open payment", what, res.Outcome, res.Moved, err)
				}
				h.wantBooks("the answer was "+what, i.Slot(), 1, 1)
				if res, err = h.client.Pay(h.t.Context(), i); err != nil || !res.Open() {
					h.addf("the answer was %s, paid again: %s, moved %s, %v; want an open payment", what, res.Outcome, res.Moved, err)
				}
				h.wantBooks("the answer was "+what+", paid again", i.Slot(), 1, 1)
			}
		})
		if err != nil {
			f.addf("%w", err)
		}
	}
	return f.err()
}

func stillRunning(t *testing.T, s *suite) error {
	var f findings
	seen := false
	for _, g := range s.golden {
		if g.isLookup() || s.reply(g).Verdict != attempt.Running {
			continue
		}
		seen = true
		err := inShop(t, s, func(h *shop) {
			h.wire.spoils = []spoil{lose, answerWith(g.answer())}
			i := h.fake.Approved("1001")
			res, err := h.client.Pay(h.t.Context(), i)
			h.sameBytes()
			h.want("lost, then "+g.name(), res, err, payclient.Approved, payclient.MovedYes)
			h.wantBooks("lost, then "+g.name(), i.Slot(), 1, 3)
		})
		if err != nil {
			f.addf("%w", err)
		}
	}
	if !seen {
		f.addf("no golden exchange shows a first request that still runs")
	}
	return f.err()
}

// claimOver is longer than any claim to send with the client's defaults.
const claimOver = 16 * time.Second

func restarts(t *testing.T, s *suite) error {
	return inShop(t, s, func(h *shop) {
		i := h.fake.Approved("1001")
		h.wire.spoils = []spoil{crash}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := h.client.Pay(h.t.Context(), i)
			h.addf("the process did not end: %v", err)
		}()
		<-done
		if err := h.restart(); err != nil {
			h.addf("%w", err)
			return
		}
		<-time.After(claimOver) // the bubble's clock
		res, err := h.client.Pay(h.t.Context(), i)
		h.sameBytes()
		if s.caps.Key.KeepsEveryAnswer || s.caps.Lookup.ByReference {
			h.want("after the restart", res, err, payclient.Approved, payclient.MovedYes)
		} else if err != nil || !res.Open() {
			h.addf("after the restart: %s, moved %s, %v; want an open payment", res.Outcome, res.Moved, err)
		}
		h.wantBooks("after the restart", i.Slot(), 1, -1)
	})
}

func sameOrderAtOnce(t *testing.T, s *suite) error {
	return inShop(t, s, func(h *shop) {
		i := h.fake.Approved("1001")
		var mu sync.Mutex // guards h's findings
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				res, err := h.client.Pay(h.t.Context(), i)
				if err != nil || !res.Open() && res.Outcome != payclient.Approved {
					mu.Lock()
					defer mu.Unlock()
					h.addf("one of eight: %s, moved %s, %v", res.Outcome, res.Moved, err)
				}
			})
		}
		wg.Wait()
		res, err := h.client.Pay(h.t.Context(), i)
		h.want("once more", res, err, payclient.Approved, payclient.MovedYes)
		h.wantBooks("eight at once", i.Slot(), 1, 1)
	})
}

func nothingSecretStored(t *testing.T, s *suite) error {
	return inShop(t, s, func(h *shop) {
		secrets := slices.Clone(s.Secrets)
		for n, i := range []attempt.Intent{h.fake.Approved("1001"), h.fake.Declined("1002")} {
			h.wire.spoils = []spoil{lose}
			if _, err := h.client.Pay(h.t.Context(), i); err != nil {
				h.addf("payment %d: %w", n+1, err)
			}
			secrets = append(secrets, i.Source.Reveal())
		}
		stored := ""
		for a, err := range h.store.List(h.t.Context(), attempt.Filter{}) {
			if err != nil {
				h.addf("%w", err)
				break
			}
			events, err := h.store.Events(h.t.Context(), a.ID)
			if err != nil {
				h.addf("%w", err)
			}
			text, err := json.Marshal([]any{a, events})
			if err != nil {
				h.addf("%w", err)
			}
			stored += fmt.Sprintf("%s\n%s\n", text, a.Body)
		}
		for n, secret := range secrets {
			if strings.Contains(stored, secret) {
				h.addf("secret %d of %d (credentials, then sources) is in the store", n+1, len(secrets))
			}
		}
		if !strings.Contains(stored, "1001") {
			h.addf("the store holds no attempt of order 1001: nothing was looked at")
		}
	})
}

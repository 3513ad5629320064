package payclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/wiretest"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

const (
	canarySource = "canary_source_7f3a91c2e5d8"
	canaryToken  = "canary_bearer_b64d02e7aa19"
	canaryCVC    = "canary-cvc-915"
)

// echoes are answers of a provider that repeats in every place it has what was sent to it.
func echoes(source string) map[string]func(wiretest.Request) string {
	quoted, _ := json.Marshal(source) // a string
	member := string(quoted)
	charge := func(change ...func(map[string]any)) func(wiretest.Request) string {
		return func(q wiretest.Request) string {
			return wiretest.Answer(201, "application/json", wireCharge(q, change...), "Request-Id: req-"+strings.ReplaceAll(source, "\n", " "))
		}
	}
	return map[string]func(wiretest.Request) string{
		"request id":             charge(),
		"charge id":              charge(wireSet("id", "ch_"+source)),
		"charge id is the token": charge(wireSet("id", canaryToken)),
		"reference":              charge(wireSet("merchant_reference", source)),
		"currency":               charge(wireSet("currency", source)),
		"status":                 charge(wireSet("status", source)),
		"decline code":           charge(wireSet("status", "failed"), wireSet("decline_code", source+" "+canaryToken)),
		"next action": charge(wireSet("status", "pending"),
			wireSet("next_action", map[string]any{"url": "https://psp.test/3ds?source=" + source})),
		"extra fields": charge(wireSet("source", source), wireSet("authorization", "Bearer "+canaryToken)),
		"problem": problem(402, "no_"+source, "decline_code", source, "detail", "no such source "+source+" for "+canaryToken,
			"title", source, "merchant_reference", source),
		"unavailable": problem(503, source, "detail", "Bearer "+canaryToken),
		"unauthorised": func(wiretest.Request) string {
			return wireProblem(401, "unauthorized", "detail", "Invalid key: Bearer "+canaryToken)
		},
		"HTML":           plain(200, "text/html", "<p>"+source+" "+canaryToken+"</p>"),
		"broken JSON":    plain(201, "application/json", `{"source":`+member+`,"token":"`+canaryToken+`"`),
		"cut in two":     plain(201, "application/json", strings.Repeat("x", 66)+source),
		"the token cut":  plain(201, "application/json", strings.Repeat("x", 62)+canaryToken),
		"the whole body": func(q wiretest.Request) string { return wiretest.Answer(201, "text/plain", string(q.Body)) },
		"all headers": func(q wiretest.Request) string {
			return wiretest.Answer(400, "text/plain", strings.Join(q.Fields, "\n"))
		},
		"content type": plain(201, strings.ReplaceAll(source, "\n", " "), "x"),
		"location": func(wiretest.Request) string {
			return wiretest.Answer(302, "text/plain", "", "Location: https://"+canaryToken+".test/"+canarySource)
		},
		"status line": func(wiretest.Request) string { return "HTTP/1.1 XXX " + source + "\r\n\r\n" },
		"header line": func(wiretest.Request) string {
			return wiretest.Head("HTTP/1.1 201 X", source+" "+canaryToken)
		},
		"length": func(wiretest.Request) string { return wiretest.Head("HTTP/1.1 201 X", "Content-Length: "+source) },
	}
}

// traces finds what must not be there: a canary, or enough of one to be told from other words.
func traces(text string) []string {
	var found []string
	for _, canary := range []string{canarySource, canaryToken, canaryCVC} {
		for _, part := range []string{canary, canary[:13], canary[len(canary)-10:], fmt.Sprintf("%x", canary)} {
			if strings.Contains(text, part) {
				found = append(found, part)
			}
		}
	}
	return found
}

// TestWireSecretsStayOut holds that a source and a credential are in the request and nowhere else, whatever the provider
// repeats: not in the store, its events, a result, an error, a log line or what observers are told.
func TestWireSecretsStayOut(t *testing.T) {
	sources := map[string]attempt.Source{
		"token":     attempt.Token(canarySource),
		"sensitive": attempt.Sensitive(`{"number":"4111111111111111","cvc":"` + canaryCVC + `","id":"` + canarySource + `"}`),
	}
	for kind, source := range sources {
		for place, answer := range echoes(source.Reveal()) {
			t.Run(kind+" in "+place, func(t *testing.T) {
				t.Parallel()
				server := wiretest.Listen(t, func(c *wiretest.Conn) {
					for {
						q, ok := c.Request()
						if !ok {
							return
						}
						if q.Method() == http.MethodPost && !strings.Contains(string(q.Body), canarySource) {
							t.Error("the source is not in the request")
						}
						if q.Method() == http.MethodGet {
							// A page that ends too early, with the source in it and the credential.
							c.Say(wiretest.Answer(200, "application/json",
								`{"data":[{"source":"`+canarySource+`","for":"`+canaryToken, "Request-Id: req-"+canaryToken))
							continue
						}
						c.Say(answer(q))
						if strings.Contains(place, "line") || place == "length" {
							c.Cut()
						}
					}
				})
				checkCanaries(t, server.URL(), nil, source)
				server.Drained()
			})
		}
	}
}

// checkCanaries pays, twice, asks in every way, and searches all that comes of it.
func checkCanaries(t *testing.T, url string, transport http.RoundTripper, source attempt.Source) {
	t.Helper()
	var out safeBuffer
	text := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})
	lines := slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})
	show := func(v any) {
		b, err := json.Marshal(v)
		fmt.Fprintf(&out, "%v\n%+v\n%#v\n%s %v\n", v, v, v, b, err)
	}
	var first *attempt.Memory
	for _, handler := range []slog.Handler{text, lines} {
		r := wireClient(t, url, func(c *payclient.Config, a *standard.Config) {
			a.Token, a.NoLookup = payclient.NewSecret(canaryToken), false
			c.Retries, c.Transport = 1, transport
			c.Logger = slog.New(handler)
			c.DigestKeys = []attempt.DigestKey{{ID: "k1", Secret: bytes.Repeat([]byte("s"), 32)}}
			c.Observer = payclient.Observer{
				Sent:        func(_ context.Context, a attempt.Attempt, s attempt.Send) { show(a); show(s) },
				Recorded:    func(_ context.Context, a attempt.Attempt, d []attempt.Duty) { show(a); show(d) },
				NotRecorded: func(_ context.Context, a attempt.Attempt, err error) { show(a); show(err) },
			}
		})
		if first == nil {
			first = r.store
		}
		intent := wireIntent("1001")
		intent.Source = source
		show(intent)
		for range 2 {
			res, err := r.client.Pay(t.Context(), intent)
			show(res)
			show(err)
			res, err = r.client.Check(t.Context(), intent.Slot())
			show(res)
			show(err)
			found, err := r.client.FindByReference(t.Context(), res.Reference)
			show(found)
			show(err)
		}
		other := intent
		other.Amount, _ = other.Amount.Add(intent.Amount) // a conflict, or another attempt
		res, err := r.client.Pay(t.Context(), other)
		show(res)
		show(err)
		for a, err := range r.store.List(t.Context(), attempt.Filter{}) {
			show(a)
			show(err)
			fmt.Fprintf(&out, "%s\n", a.Body)
			events, err := r.store.Events(t.Context(), a.ID)
			show(events)
			show(err)
			for _, e := range events {
				show(e.Evidence)
			}
		}
		r.closeIdle()
	}
	if found := traces(out.String()); found != nil {
		all := out.String()
		i := strings.Index(all, found[0])
		t.Errorf("found %q: ...%s...", found, all[max(0, i-300):min(len(all), i+100)])
	}
	if strings.Contains(out.String(), "4111111111111111") {
		t.Error("found the card number")
	}
}

// safeBuffer is a buffer that several goroutines may write to.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// The same for what a transport says or throws: its errors are kept as details.
func TestWireSecretsStayOutOfTransportErrors(t *testing.T) {
	all := "posting source " + canarySource + " with Bearer " + canaryToken + " failed"
	for name, transport := range map[string]wireStranger{
		"lost": func(q *http.Request) (*http.Response, error) {
			if q.Method == http.MethodGet {
				return nil, errors.New("asking with Bearer " + canaryToken + " failed")
			}
			return nil, errors.New(all)
		},
		"not sent": func(q *http.Request) (*http.Response, error) {
			if trace := httptrace.ContextClientTrace(q.Context()); trace != nil {
				trace.GetConn("")
			}
			if q.Method == http.MethodGet {
				return nil, errors.New("asking with Bearer " + canaryToken + " failed")
			}
			return nil, errors.New(all)
		},
		"panic": func(q *http.Request) (*http.Response, error) {
			if q.Method == http.MethodGet {
				return nil, errors.New("asking with Bearer " + canaryToken + " failed")
			}
			panic(all)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkCanaries(t, "http://"+refused, transport, attempt.Token(canarySource))
		})
	}
}

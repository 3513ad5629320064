package payclient_test

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/wiretest"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// wireAnswer is a complete answer that is no approval.
type wireAnswer struct {
	name    string
	answer  func(wiretest.Request) string
	verdict attempt.Verdict
	reason  attempt.Reason
	told    told
	// reused is what the answer says on a connection that was used before.
	reused attempt.Verdict
	// repeated: the client asks again, up to its number of retries.
	repeated bool
}

const rejectedV, refusedV = attempt.Rejected, attempt.Refused

// wireAnswers are the complete answers that a first send can meet, and what they decide.
var wireAnswers = func() []wireAnswer {
	list := []wireAnswer{
		{"402 with the API's decline", problem(402, "card_declined", "decline_code", "stolen_card"),
			refusedV, attempt.ReasonDeclined, toldDeclined, unavailable, false},
		{"402 that names us", ours(402, "card_declined"), refusedV, attempt.ReasonDeclined, toldDeclined, refusedV, false},
		{"402 that names another", problem(402, "card_declined", "merchant_reference", "another-1"),
			violated, attempt.ReasonMismatch, toldViolation, violated, true},
		{"402 of a gateway", html(402), violated, attempt.ReasonUnreadable, toldViolation, violated, true},
		{"402 without a code", plain(402, "application/json", `{"error":"no"}`), violated, attempt.ReasonUnreadable, toldViolation, violated, true},
		{"402 with a code and garbage", plain(402, "application/problem+json", `{"code":"card_declined"}x`),
			violated, attempt.ReasonUnreadable, toldViolation, violated, true},
		{"201 of a charge that failed", func(q wiretest.Request) string {
			return wiretest.Answer(201, "application/json", wireCharge(q, wireSet("status", "failed")))
		}, refusedV, attempt.ReasonDeclined, toldDeclined, refusedV, false},
		{"201 of a charge that is pending", func(q wiretest.Request) string {
			return wiretest.Answer(201, "application/json", wireCharge(q, wireSet("status", "pending")))
		}, charged, attempt.ReasonPending, toldUnknown, charged, false},
		{"409 while the first one runs", problem(409, "idempotency_key_in_use"),
			attempt.Running, attempt.ReasonStillRunning, toldUnknown, unavailable, true},
		{"409 of a gateway", html(409), violated, attempt.ReasonUnreadable, toldViolation, violated, true},
		{"422 for another body under the key", problem(422, "idempotency_key_reused"),
			attempt.KeyReused, attempt.ReasonKeyReused, toldViolation, unavailable, false},
		{"422 of a gateway", html(422), violated, attempt.ReasonUnreadable, toldViolation, violated, true},
		{"418 in the API's words", problem(418, "teapot"), violated, attempt.ReasonUnreadable, toldViolation, violated, true},
		{"202 accepted", plain(202, "application/json", "{}"), violated, attempt.ReasonUnreadable, toldViolation, violated, false},
	}
	for _, status := range []int{400, 401, 403, 404, 405, 415} {
		list = append(list,
			wireAnswer{fmt.Sprintf("%d in the API's words", status), problem(status, "refused"),
				rejectedV, attempt.ReasonRefused, toldRejected, unavailable, false},
			wireAnswer{fmt.Sprintf("%d of a gateway", status), html(status),
				violated, attempt.ReasonUnreadable, toldViolation, violated, true})
	}
	for _, status := range []int{408, 425, 429, 500, 502, 503, 504, 520, 522, 529, 599} {
		list = append(list,
			wireAnswer{fmt.Sprintf("%d in the API's words", status), problem(status, "unavailable"),
				unavailable, attempt.ReasonUnavailable, toldUnknown, unavailable, true},
			wireAnswer{fmt.Sprintf("%d of a gateway", status), html(status),
				unavailable, attempt.ReasonUnavailable, toldUnknown, unavailable, true})
	}
	for _, status := range []int{300, 304, 305, 399} {
		list = append(list, wireAnswer{fmt.Sprint(status), func(wiretest.Request) string {
			if status == 304 {
				return wiretest.Head("HTTP/1.1 304 X")
			}
			return wiretest.Answer(status, "text/html", "<html>")
		}, violated, attempt.ReasonRedirected, toldViolation, violated, false})
	}
	return list
}()

func problem(status int, code string, more ...string) func(wiretest.Request) string {
	return func(wiretest.Request) string { return wireProblem(status, code, more...) }
}

func ours(status int, code string) func(wiretest.Request) string {
	return func(q wiretest.Request) string {
		return wireProblem(status, code, "merchant_reference", wireReference(q))
	}
}

func plain(status int, contentType, body string) func(wiretest.Request) string {
	return func(wiretest.Request) string { return wiretest.Answer(status, contentType, body) }
}

// TestWireAnswers holds what complete answers decide: alone on a connection of its own and on a used one, repeated, and
// after a send of which nothing is known: then only a decline that the provider keeps may end the attempt.
func TestWireAnswers(t *testing.T) {
	for _, a := range wireAnswers {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			t.Run("fresh", a.fresh)
			t.Run("used", a.used)
			t.Run("after a lost one", a.afterLost)
		})
	}
}

func (a wireAnswer) fresh(t *testing.T) {
	server := wiretest.Listen(t, a.answerAll)
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Retries = 2 })
	res, err := r.pay("1001")
	if err != nil {
		t.Fatal(err)
	}
	log := r.log(res.AttemptID)
	if want := map[bool]int{true: 3, false: 1}[a.repeated]; len(log) != want {
		t.Errorf("log: %s, want %d", wireVerdicts(log), want)
	}
	if log[0].Verdict != a.verdict || log[0].Reason != a.reason {
		t.Errorf("log: %s, want %s/%s (%s)", wireVerdicts(log), a.verdict, a.reason, log[0].Detail)
	}
	if got := (told{res.Outcome, res.Moved}); got != a.told {
		t.Errorf("told %v moved=%v, want %v moved=%v", got.outcome, got.moved, a.told.outcome, a.told.moved)
	}
	if res.StatusCode == 0 || log[0].StatusCode != res.StatusCode {
		t.Errorf("status %d told, %d in the log", res.StatusCode, log[0].StatusCode)
	}
	r.checkRequests(server, res)
	r.drained(server)
}

func (a wireAnswer) answerAll(c *wiretest.Conn) {
	for {
		q, ok := c.Request()
		if !ok {
			return
		}
		c.Say(a.answer(q))
	}
}

func (a wireAnswer) used(t *testing.T) {
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		if q, ok := c.Request(); ok {
			c.Say(wireApprove(q))
			a.answerAll(c)
		}
	})
	r := wireClient(t, server.URL(), nil)
	r.warm()
	res, err := r.pay("1001")
	if err != nil {
		t.Fatal(err)
	}
	unproven := a.reused != a.verdict && a.verdict != attempt.Running
	if unproven != (res.Reason == attempt.ReasonUnproven) {
		t.Errorf("reason %s, want it unproven: %t", res.Reason, unproven)
	}
	if log := r.log(res.AttemptID); len(log) != 1 || log[0].Verdict != a.reused {
		t.Errorf("log: %s, want %s", wireVerdicts(log), a.reused)
	}
	r.checkRequests(server, res)
	r.drained(server)
}

// afterLost has the answer come to the second send of an attempt whose first was lost.
func (a wireAnswer) afterLost(t *testing.T) {
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		if c.N > 1 {
			a.answerAll(c)
			return
		}
		if _, ok := c.Request(); ok {
			c.Cut()
		}
	})
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Retries = 1 })
	res, err := r.pay("1001")
	if err != nil {
		t.Fatal(err)
	}
	want := a.told
	if want == toldRejected {
		want = toldViolation // not by the second request, perhaps by the first
	}
	if a.verdict == refusedV && a.reused == unavailable {
		want = told{payclient.UnknownOutcome, payclient.MovedMaybe} // it names nobody: a gateway may have said so
	}
	if got := (told{res.Outcome, res.Moved}); got != want {
		t.Errorf("told %v moved=%v, want %v moved=%v", got.outcome, got.moved, want.outcome, want.moved)
	}
	r.checkRequests(server, res)
	r.drained(server)
}

// Where the provider keeps successes only, a decline after a lost send decides nothing, and no send follows one that may
// have been executed.
func TestWireAnswersWhereSuccessesOnlyAreKept(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		if _, ok := c.Request(); ok {
			c.Cut()
		}
	})
	r := wireClient(t, server.URL(), func(c *payclient.Config, a *standard.Config) { c.Retries, a.KeepsSuccessesOnly = 3, true })
	for range 2 { // the caller's "try again" sends nothing either
		res, err := r.pay("1001")
		if err != nil || res.Outcome != payclient.UnknownOutcome || res.Sends != 1 {
			t.Errorf("%v after %d sends, %v; want unknown after 1", res.Outcome, res.Sends, err)
		}
	}
	if n := len(server.Requests()); n != 1 {
		t.Errorf("%d requests arrived, want 1", n)
	}
	r.drained(server)
}

// TestWireRedirects holds that nothing follows a redirect, wherever it leads: F14 to F19.
func TestWireRedirects(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprintf("F14 F15 F16 F17 F18 %d", status), func(t *testing.T) {
			t.Parallel()
			authority := wiretest.NewAuthority(t)
			elsewhere := wiretest.Listen(t, approveAll)
			for name, location := range map[string]string{
				"another host": elsewhere.URL() + "/v1/charges", "http from https": "http://" + elsewhere.Addr() + "/v1/charges",
				"the same, other port": elsewhere.URL(), "itself": "/v1/charges", "nonsense": "http://[::1/%zz", "with a secret": "https://u:hidden-word@127.0.0.1/?x=hidden-word",
			} {
				server := wiretest.ListenTLS(t, &tls.Config{
					Certificates: []tls.Certificate{authority.Certificate(time.Now().Add(time.Hour))}, MinVersion: tls.VersionTLS12,
				}, func(c *wiretest.Conn) {
					for {
						if _, ok := c.Request(); !ok {
							return
						}
						c.Say(wiretest.Answer(status, "application/json", `{"data":[]}`, "Location: "+location))
					}
				})
				r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
					c.Retries = 3
					c.Transport = payclient.NewTransport(payclient.TransportConfig{RootCAs: authority.Pool()})
				})
				res, err := r.pay("1001")
				if got := (told{res.Outcome, res.Moved}); err != nil || got != toldViolation || res.Reason != attempt.ReasonRedirected {
					t.Errorf("%s: %v moved=%v (%s), %v; want a violation", name, res.Outcome, res.Moved, res.Reason, err)
				}
				detail := r.log(res.AttemptID)[0].Detail
				if strings.Contains(location, "127.0.0.1") && !strings.Contains(detail, "127.0.0.1") {
					t.Errorf("%s: detail %q does not show the host", name, detail)
				}
				if strings.Contains(detail, "hidden-word") {
					t.Errorf("%s: detail %q repeats a secret", name, detail)
				}
				r.checkRequests(server, res)
				r.drained(server)
			}
			if n := elsewhere.Accepted(); n != 0 {
				t.Errorf("%d connections went where the redirects lead, want none", n)
			}
			elsewhere.Drained()
		})
	}
}

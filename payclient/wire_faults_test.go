package payclient_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/wiretest"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// told is what a caller hears.
type told struct {
	outcome payclient.Outcome
	moved   payclient.Moved
}

var (
	toldUnknown   = told{payclient.UnknownOutcome, payclient.MovedMaybe}
	toldViolation = told{payclient.ContractViolation, payclient.MovedMaybe}
	toldWrong     = told{payclient.ContractViolation, payclient.MovedYes}
	toldRejected  = told{payclient.ContractViolation, payclient.MovedNo}
	toldApproved  = told{payclient.Approved, payclient.MovedYes}
	toldDeclined  = told{payclient.Declined, payclient.MovedNo}
)

// wireFault is one way in which a request that has arrived whole is answered.
type wireFault struct {
	name    string // with the fault's number
	meet    func(c *wiretest.Conn, q wiretest.Request)
	verdict attempt.Verdict
	reason  attempt.Reason
	told    told
	// repeated: where the provider keeps every answer under the key, the client asks again, and the next answer decides.
	repeated bool
	// silent: only the send's own time ends it.
	silent bool
}

const (
	lost        = attempt.Lost
	violated    = attempt.Violated
	unavailable = attempt.Unavailable
	charged     = attempt.Charged
)

// wireFaults are the faults that a complete request can meet on HTTP/1.1.
var wireFaults = []wireFault{
	// Sections 2 and 5: no answer.
	{"F01 F44 FIN without a byte", func(c *wiretest.Conn, _ wiretest.Request) { c.Cut() },
		lost, attempt.ReasonConnectionLost, toldUnknown, true, false},
	{"F02 F44 reset without a byte", func(c *wiretest.Conn, _ wiretest.Request) { c.Reset() },
		lost, attempt.ReasonConnectionLost, toldUnknown, true, false},
	{"F45 F57 silence until the deadline", func(c *wiretest.Conn, _ wiretest.Request) { c.Hang() },
		lost, attempt.ReasonTimeout, toldUnknown, true, true},
	{"F46 100 Continue and FIN", say("HTTP/1.1 100 Continue\r\n\r\n"),
		lost, attempt.ReasonConnectionLost, toldUnknown, true, false},
	{"F46 103 Early Hints and FIN", say("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
		lost, attempt.ReasonConnectionLost, toldUnknown, true, false},
	{"F12 one byte and FIN", say("H"),
		lost, attempt.ReasonConnectionLost, toldUnknown, true, false},
	{"F12 half a status line and FIN", say("HTTP/1.1 20"),
		lost, attempt.ReasonConnectionLost, toldUnknown, true, false},
	{"F12 half a header and FIN", say("HTTP/1.1 201 Created\r\nContent-Len"),
		lost, attempt.ReasonConnectionLost, toldUnknown, true, false},
	{"F12 408 in flight", keep(func(wiretest.Request) string { return wireProblem(408, "timeout") }),
		unavailable, attempt.ReasonUnavailable, toldUnknown, true, false},
	{"F49 garbage", say("\x00\x01 this is no HTTP\r\n\r\n"),
		lost, attempt.ReasonConnectionLost, toldUnknown, true, false},
	{"F49 two lengths that differ", spoilHead("Content-Length: 1", "Content-Length: 2"),
		lost, attempt.ReasonConnectionLost, toldUnknown, true, false},
	{"F49 a negative length", spoilHead("Content-Length: -1"),
		lost, attempt.ReasonConnectionLost, toldUnknown, true, false},
	{"F49 a header without a colon", spoilHead("Content-Length 100"),
		lost, attempt.ReasonConnectionLost, toldUnknown, true, false},
	{"F50 headers over the limit", keep(func(q wiretest.Request) string {
		return wireApprove(q, "X-Padding: "+strings.Repeat("a", 70<<10))
	}), lost, attempt.ReasonConnectionLost, toldUnknown, true, false},
	{"F66 informational answers without end", func(c *wiretest.Conn, _ wiretest.Request) {
		hint := strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </style.css>\r\n\r\n", 100)
		for c.N > 0 {
			if _, err := c.Write([]byte(hint)); err != nil {
				return
			}
		}
	}, lost, attempt.ReasonConnectionLost, toldUnknown, true, false},

	// Section 3.1: redirects. Where they lead is another test's, see TestWireRedirects.
	{"F14 301", redirect(301, "/v1/charges"), violated, attempt.ReasonRedirected, toldViolation, false, false},
	{"F14 302", redirect(302, "/v1/charges"), violated, attempt.ReasonRedirected, toldViolation, false, false},
	{"F14 303", redirect(303, "/v1/charges/ch_1"), violated, attempt.ReasonRedirected, toldViolation, false, false},
	{"F15 307 to itself", redirect(307, "/v1/charges"), violated, attempt.ReasonRedirected, toldViolation, false, false},
	{"F15 308 to itself", redirect(308, "/v1/charges"), violated, attempt.ReasonRedirected, toldViolation, false, false},
	{"F19 307 without Location", redirect(307, ""), violated, attempt.ReasonRedirected, toldViolation, false, false},
	{"F19 304", keep(func(wiretest.Request) string { return wiretest.Head("HTTP/1.1 304 Not Modified") }),
		violated, attempt.ReasonRedirected, toldViolation, false, false},

	// Section 4, what only looks like "before the wire".
	{"F42 an https port's answer to http", keep(func(wiretest.Request) string {
		return wiretest.Answer(400, "text/plain", "Client sent an HTTP request to an HTTPS server.\n")
	}), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F42 an https port's answer to http, unframed as Go gives it", say(
		"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"),
		lost, attempt.ReasonUnreadable, toldUnknown, true, false},

	// Section 6: deadlines that end the headers only.
	{"F55 F56 headers and half the body, then silence", func(c *wiretest.Conn, q wiretest.Request) {
		c.Say(wireApprove(q)[:150])
		c.Hang()
	}, lost, attempt.ReasonTimeout, toldUnknown, true, true},

	// Section 7: damaged answers.
	{"F58 body cut by FIN", cut(func(q wiretest.Request) string { return strings.TrimSuffix(wireApprove(q), "}") }),
		lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F58 body cut by a reset", func(c *wiretest.Conn, q wiretest.Request) {
		c.Say(strings.TrimSuffix(wireApprove(q), "}"))
		c.Reset()
	}, lost, "", toldUnknown, true, false}, // the reset may overtake the headers
	{"F59 chunks cut in the middle", cut(func(q wiretest.Request) string {
		return chunkedHead + wiretest.Chunk(wireCharge(q)[:40]) + "100\r\n{"
	}), lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F59 all of the JSON, the last chunk missing", cut(func(q wiretest.Request) string {
		return chunkedHead + wiretest.Chunk(wireCharge(q))
	}), lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F59 all of the JSON, the line after the last chunk missing", cut(func(q wiretest.Request) string {
		return chunkedHead + wiretest.Chunk(wireCharge(q)) + "0\r\n"
	}), lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F59 chunks as they should be", keep(func(q wiretest.Request) string {
		body := wireCharge(q)
		return chunkedHead + wiretest.Chunk(body[:10]) + wiretest.Chunk(body[10:]) + wiretest.Chunk("")
	}), charged, "", toldApproved, false, false},
	{"F60 no length, the JSON whole", cut(func(q wiretest.Request) string {
		return wiretest.Head("HTTP/1.1 201 Created", "Content-Type: application/json") + wireCharge(q)
	}), lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F60 no length, the JSON cut", cut(func(q wiretest.Request) string {
		return wiretest.Head("HTTP/1.0 201 Created", "Content-Type: application/json") + wireCharge(q)[:60]
	}), lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F60 no length, said to be HTTP/2", cut(func(q wiretest.Request) string {
		return wiretest.Head("HTTP/2.0 201 Created", "Content-Type: application/json") + wireCharge(q)
	}), lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F60 no length, HTTP/1.0 that claims chunks", cut(func(q wiretest.Request) string {
		return wiretest.Head("HTTP/1.0 201 Created", "Transfer-Encoding: chunked") + wireCharge(q)
	}), lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F61 a length smaller than the body", keep(func(q wiretest.Request) string {
		return wiretest.Head("HTTP/1.1 201 Created", "Content-Length: 20") + wireCharge(q)
	}), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F62 201 of length 0", keep(func(wiretest.Request) string { return wiretest.Answer(201, "application/json", "") }),
		violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F62 204", keep(func(wiretest.Request) string { return wiretest.Head("HTTP/1.1 204 No Content") }),
		violated, attempt.ReasonUnreadable, toldViolation, false, false},
	{"F63 both a length and chunks", keep(func(q wiretest.Request) string {
		return wiretest.Head("HTTP/1.1 201 Created", "Content-Length: 5", "Transfer-Encoding: chunked") +
			wiretest.Chunk(wireCharge(q)) + wiretest.Chunk("")
	}), charged, "", toldApproved, false, false},
	{"F63 both a length and chunks, the JSON broken", keep(func(q wiretest.Request) string {
		return wiretest.Head("HTTP/1.1 201 Created", "Content-Length: 5", "Transfer-Encoding: chunked") +
			wiretest.Chunk(wireCharge(q)[1:]) + wiretest.Chunk("")
	}), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F64 status 000", statusLine("HTTP/1.1 000 X"), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F64 status 600", statusLine("HTTP/1.1 600 X"), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F64 status 999", statusLine("HTTP/1.1 999 X"), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F64 status 299", statusLine("HTTP/1.1 299 X"), violated, attempt.ReasonUnreadable, toldViolation, false, false},
	{"F64 HTTP/1.0 with a length", statusLine("HTTP/1.0 201 Created"), charged, "", toldApproved, false, false},
	{"F64 HTTP/2.0 with a length", statusLine("HTTP/2.0 201 Created"), charged, "", toldApproved, false, false},
	{"F65 101", say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
		violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F65 101, the connection kept", keep(func(wiretest.Request) string {
		return wiretest.Head("HTTP/1.1 101 Switching Protocols", "Connection: upgrade", "Upgrade: x")
	}), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F67 a length over the limit, the connection kept", func(c *wiretest.Conn, _ wiretest.Request) {
		c.Say(wiretest.Head("HTTP/1.1 201 Created", "Content-Length: 209715200") + "{")
		c.Hang()
	}, lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F67 a length over the limit", say(wiretest.Head("HTTP/1.1 201 Created", "Content-Length: 209715200") + "{"),
		lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F67 chunks over the limit", keep(func(q wiretest.Request) string {
		return chunkedHead + wiretest.Chunk(wireCharge(q)) + wiretest.Chunk(strings.Repeat(" ", 300<<10)) + wiretest.Chunk("")
	}), lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F67 a gzip bomb", keep(func(wiretest.Request) string {
		return wiretest.Answer(201, "application/json", gzipped(strings.Repeat(" ", 2<<20)), "Content-Encoding: gzip")
	}), lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F68 gzip that nobody asked for", keep(func(q wiretest.Request) string {
		return wiretest.Answer(201, "application/json", gzipped(wireCharge(q)), "Content-Encoding: gzip")
	}), lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F68 a gzip label on plain JSON", keep(func(q wiretest.Request) string { return wireApprove(q, "Content-Encoding: gzip") }),
		lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F68 a deflate label on plain JSON", keep(func(q wiretest.Request) string { return wireApprove(q, "Content-Encoding: deflate") }),
		lost, attempt.ReasonUnreadable, toldUnknown, true, false},
	{"F68 the identity label", keep(func(q wiretest.Request) string { return wireApprove(q, "Content-Encoding: identity") }),
		charged, "", toldApproved, false, false},
	{"F69 F72 an answer to somebody else", spoilCharge(wireSet("merchant_reference", "another-1")),
		violated, attempt.ReasonMismatch, toldViolation, true, false},
	{"F70 a byte now and then", func(c *wiretest.Conn, q wiretest.Request) { c.Drip(wireApprove(q)) },
		lost, attempt.ReasonTimeout, toldUnknown, true, true},
	{"F71 HTML with 200", keep(html(200)), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F71 HTML with 502", keep(html(502)), unavailable, attempt.ReasonUnavailable, toldUnknown, true, false},
	{"F71 a charge labelled as text", keep(func(q wiretest.Request) string {
		return wiretest.Answer(201, "text/plain", wireCharge(q))
	}), charged, "", toldApproved, false, false},
	{"F72 a smaller amount", spoilCharge(wireSet("amount", wireMinor-1)), violated, attempt.ReasonMismatch, toldWrong, false, false},
	{"F72 another currency", spoilCharge(wireSet("currency", "USD")), violated, attempt.ReasonMismatch, toldWrong, false, false},
	{"F72 no currency", spoilCharge(without("currency")), violated, attempt.ReasonMismatch, toldViolation, true, false},
	{"F73 a name in two cases", keep(func(q wiretest.Request) string {
		declined := strings.TrimSuffix(wireCharge(q, wireSet("status", "failed")), "}")
		return wiretest.Answer(201, "application/json", declined+`,"STATUS":"succeeded"}`)
	}), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F73 a name twice", keep(func(q wiretest.Request) string {
		declined := strings.TrimSuffix(wireCharge(q, wireSet("status", "failed")), "}")
		return wiretest.Answer(201, "application/json", declined+`,"status":"succeeded"}`)
	}), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F74 a second value", keep(func(q wiretest.Request) string {
		return wiretest.Answer(201, "application/json", wireCharge(q)+`{"status":"failed"}`)
	}), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F74 garbage after the value", keep(func(q wiretest.Request) string {
		return wiretest.Answer(201, "application/json", wireCharge(q)+"<!-- trace -->")
	}), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F74 null", keep(func(wiretest.Request) string { return wiretest.Answer(201, "application/json", "null") }),
		violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F75 an amount as 54890e0", rawAmount("54890e0"), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F75 an amount as 54890.0", rawAmount("54890.0"), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F75 an amount as text", rawAmount(`"54890"`), violated, attempt.ReasonUnreadable, toldViolation, true, false},
	{"F75 an amount out of range", rawAmount("54890000000000000000"), violated, attempt.ReasonUnreadable, toldViolation, true, false},
}

const chunkedHead = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"

// say writes bytes and ends the connection with FIN.
func say(text string) func(*wiretest.Conn, wiretest.Request) {
	return func(c *wiretest.Conn, _ wiretest.Request) { c.Say(text); c.Cut() }
}

// cut writes what depends on the request and ends the connection with FIN.
func cut(text func(wiretest.Request) string) func(*wiretest.Conn, wiretest.Request) {
	return func(c *wiretest.Conn, q wiretest.Request) { c.Say(text(q)); c.Cut() }
}

// keep writes an answer and keeps the connection.
func keep(text func(wiretest.Request) string) func(*wiretest.Conn, wiretest.Request) {
	return func(c *wiretest.Conn, q wiretest.Request) { c.Say(text(q)) }
}

func spoilHead(fields ...string) func(*wiretest.Conn, wiretest.Request) {
	return keep(func(q wiretest.Request) string {
		return wiretest.Head("HTTP/1.1 201 Created", fields...) + wireCharge(q)
	})
}

func statusLine(line string) func(*wiretest.Conn, wiretest.Request) {
	return keep(func(q wiretest.Request) string {
		body := wireCharge(q)
		return wiretest.Head(line, "Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body))) + body
	})
}

func redirect(status int, location string) func(*wiretest.Conn, wiretest.Request) {
	return keep(func(wiretest.Request) string {
		if location == "" {
			return wiretest.Answer(status, "text/plain", "")
		}
		return wiretest.Answer(status, "text/plain", "", "Location: "+location)
	})
}

func spoilCharge(change ...func(map[string]any)) func(*wiretest.Conn, wiretest.Request) {
	return keep(func(q wiretest.Request) string {
		return wiretest.Answer(http.StatusCreated, "application/json", wireCharge(q, change...))
	})
}

func without(name string) func(map[string]any) { return func(m map[string]any) { delete(m, name) } }

func rawAmount(text string) func(*wiretest.Conn, wiretest.Request) {
	return keep(func(q wiretest.Request) string {
		body := strings.Replace(wireCharge(q), fmt.Sprintf(`"amount":%d`, wireMinor), `"amount":`+text, 1)
		return wiretest.Answer(http.StatusCreated, "application/json", body)
	})
}

func html(status int) func(wiretest.Request) string {
	return func(wiretest.Request) string {
		return wiretest.Answer(status, "text/html", "<!DOCTYPE html><html><head><title>Please wait</title></head></html>")
	}
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text)) // into memory
	_ = w.Close()
	return b.String()
}

// TestWireFaults holds, for each fault, that the send gets its verdict and the caller is told what that allows; that the
// server saw exactly the requests of the log, with one key and one body; that a repetition happens where it is safe and
// nowhere else; and that no connection is leaked. Each on a connection of its own, on one that has carried a payment
// before, and with a good answer to whatever comes after.
func TestWireFaults(t *testing.T) {
	for _, f := range wireFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			t.Run("fresh", func(t *testing.T) { f.once(t, false) })
			t.Run("kept", func(t *testing.T) { f.once(t, true) })
			t.Run("then answered", f.thenAnswered)
		})
	}
}

func (f wireFault) sendTimeout(cfg *payclient.Config) {
	if f.silent {
		cfg.SendTimeout = 300 * time.Millisecond
	}
}

// serve answers the first good requests well and meets the others with the fault, at most bad of them.
func (f wireFault) serve(good, bad int32) func(*wiretest.Conn) {
	var seen atomic.Int32
	return func(c *wiretest.Conn) {
		for {
			q, ok := c.Request()
			if !ok {
				return
			}
			if n := seen.Add(1); n <= good || n > good+bad {
				c.Say(wireApprove(q))
				continue
			}
			f.meet(c, q)
		}
	}
}

// once sends a payment that meets the fault and is not repeated.
func (f wireFault) once(t *testing.T, kept bool) {
	var good int32
	if kept {
		good = 1
	}
	server := wiretest.Listen(t, f.serve(good, 1000))
	transport := payclient.NewTransport(payclient.TransportConfig{})
	if kept {
		wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Transport = transport }).warm()
	}
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
		c.Transport = transport
		f.sendTimeout(c)
	})
	res, err := r.pay("1001")
	if err != nil {
		t.Fatal(err)
	}
	f.check(t, r, server, res, 1)
	if n := server.Accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	r.drained(server)
}

func (f wireFault) check(t *testing.T, r *wireRig, server *wiretest.Server, res payclient.Result, sends int) {
	t.Helper()
	log := r.log(res.AttemptID)
	if len(log) != sends || log[0].Verdict != f.verdict || f.reason != "" && log[0].Reason != f.reason {
		t.Errorf("log: %s, want %d of %s/%s; %s", wireVerdicts(log), sends, f.verdict, f.reason, log[0].Detail)
	}
	if got := (told{res.Outcome, res.Moved}); got != f.told {
		t.Errorf("told %v moved=%v, want %v moved=%v (%s)", got.outcome, got.moved, f.told.outcome, f.told.moved, log[0].Detail)
	}
	if open := f.told != toldApproved; res.Open() != open {
		t.Errorf("open: %t, want %t", res.Open(), open)
	}
	r.checkRequests(server, res)
}

// thenAnswered sends a payment whose first request meets the fault, with repetitions allowed.
func (f wireFault) thenAnswered(t *testing.T) {
	server := wiretest.Listen(t, f.serve(0, 1))
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
		c.Retries = 0 // the default
		f.sendTimeout(c)
	})
	res, err := r.pay("1001")
	if err != nil {
		t.Fatal(err)
	}
	if !f.repeated {
		f.check(t, r, server, res, 1)
		r.drained(server)
		return
	}
	log := r.log(res.AttemptID)
	last := log[len(log)-1]
	enough := len(log) == 2 || f.silent && len(log) > 2 // a slow machine may miss the second answer too
	if !enough || log[0].Verdict != f.verdict || last.Verdict != charged {
		t.Errorf("log: %s, want %s and then charged", wireVerdicts(log), f.verdict)
	}
	if got := (told{res.Outcome, res.Moved}); got != toldApproved {
		t.Errorf("told %v moved=%v, want approved", got.outcome, got.moved)
	}
	r.checkRequests(server, res)
	r.drained(server)
}

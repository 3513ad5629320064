package payclient_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/wiretest"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// warmPool pays n orders at once and holds the answers back until all have arrived, so that the transport ends with n idle
// connections. What comes on them afterwards is next's.
func warmPool(t *testing.T, transport *http.Transport, n int, next func(*wiretest.Conn, wiretest.Request)) *wiretest.Server {
	t.Helper()
	var arrived sync.WaitGroup
	arrived.Add(n)
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		if c.N <= n {
			q, ok := c.Request()
			if !ok {
				return
			}
			arrived.Done()
			arrived.Wait()
			c.Say(wireApprove(q))
		}
		for {
			q, ok := c.Request()
			if !ok {
				return
			}
			next(c, q)
		}
	})
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Transport = transport })
	var paid sync.WaitGroup
	for i := range n {
		paid.Go(func() {
			if res, err := r.pay("warm-" + string(rune('a'+i))); err != nil || res.Outcome != payclient.Approved {
				t.Errorf("warm up: %v, %v", res.Outcome, err)
			}
		})
	}
	paid.Wait()
	return server
}

// Every warm connection is closed on its next request. net/http would try one after the other within one call.
func TestWireF03OneSendIsOneRequest(t *testing.T) {
	t.Parallel()
	const warm = 5
	transport := payclient.NewTransport(payclient.TransportConfig{})
	server := warmPool(t, transport, warm, func(c *wiretest.Conn, _ wiretest.Request) { c.Cut() })
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Transport = transport })
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.UnknownOutcome {
		t.Errorf("%v, %v; want unknown", res.Outcome, err)
	}
	r.checkRequests(server, res)
	if n := len(server.Requests()); n != warm+1 {
		t.Errorf("%d requests arrived, want %d", n, warm+1)
	}
	if n := server.Accepted(); n != warm {
		t.Errorf("%d connections, want the %d warm ones", n, warm)
	}
	r.drained(server)
}

// The same, where the client may repeat: each repetition is one request of the log.
func TestWireF03RepetitionsAreCounted(t *testing.T) {
	t.Parallel()
	transport := payclient.NewTransport(payclient.TransportConfig{})
	server := warmPool(t, transport, 8, func(c *wiretest.Conn, _ wiretest.Request) { c.Reset() })
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Transport, c.Retries = transport, 2 })
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.UnknownOutcome || res.Sends != 3 {
		t.Errorf("%v after %d sends, %v; want unknown after 3", res.Outcome, res.Sends, err)
	}
	r.checkRequests(server, res)
	r.drained(server)
}

// brokenConn fails its writes once told to, before a byte of them has left.
type brokenConn struct {
	net.Conn
	broken *atomic.Bool
}

func (c brokenConn) Write(b []byte) (int, error) {
	if c.broken.Load() {
		return 0, errors.New("write: broken")
	}
	return c.Conn.Write(b)
}

// A write that fails with nothing written is sent again by net/http if the body can be rewound. Ours cannot.
func TestWireF07NothingWritten(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, approveAll)
	var broken atomic.Bool
	transport := payclient.NewTransport(payclient.TransportConfig{})
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		return brokenConn{c, &broken}, err
	}
	wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Transport = transport }).warm()
	broken.Store(true)
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Transport = transport })
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.UnknownOutcome || res.Moved != payclient.MovedMaybe {
		t.Errorf("%v moved=%v, %v; want unknown: a connection was had", res.Outcome, res.Moved, err)
	}
	if log := r.log(res.AttemptID); wireVerdicts(log) != "lost/connection_lost" {
		t.Errorf("log: %s, want one lost request", wireVerdicts(log))
	}
	if n := len(server.Requests()); n != 1 {
		t.Errorf("%d requests arrived, want the one before", n)
	}
	if n := server.Accepted(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	r.drained(server)
}

// What leaves the client cannot be sent again by net/http, cannot disagree with its length, and carries the key once: F10,
// F37, F48, F91, F98.
func TestWireF10F18F37F48F91TheRequest(t *testing.T) {
	t.Parallel()
	var bodies [][]byte
	server := wiretest.Listen(t, approveAll)
	inner := payclient.NewTransport(payclient.TransportConfig{})
	fail := true
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
		c.Retries = 1
		c.Transport = wireStranger(func(q *http.Request) (*http.Response, error) {
			if q.GetBody != nil {
				t.Error("GetBody is set: net/http would send the request again by itself")
			}
			if q.Header.Get("Expect") != "" || q.Response != nil || q.TransferEncoding != nil || q.Trailer != nil || q.Close {
				t.Error("the request holds what it should not")
			}
			if key := q.Header["Idempotency-Key"]; len(key) != 1 || !strings.HasPrefix(key[0], `"`) {
				t.Errorf("Idempotency-Key: %q, want one in quotes", key)
			}
			if d, ok := q.Context().Deadline(); !ok || time.Until(d) > 5*time.Second {
				t.Error("the request has no deadline of its own")
			}
			body, err := io.ReadAll(q.Body)
			if err != nil || int64(len(body)) != q.ContentLength {
				t.Errorf("%d bytes of body, Content-Length %d, %v", len(body), q.ContentLength, err)
			}
			bodies = append(bodies, body)
			if fail {
				fail = false
				if trace := httptrace.ContextClientTrace(q.Context()); trace != nil {
					trace.GetConn("")
				}
				return nil, errors.New("nothing left")
			}
			q.Body = io.NopCloser(bytes.NewReader(body))
			return inner.RoundTrip(q)
		})
	})
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.Approved || res.Sends != 2 {
		t.Errorf("%v after %d sends, %v; want approved after 2", res.Outcome, res.Sends, err)
	}
	if len(bodies) != 2 || !bytes.Equal(bodies[0], bodies[1]) || &bodies[0][0] == &bodies[1][0] {
		t.Errorf("bodies %q, want the same bytes twice, each read from the stored ones", bodies)
	}
	inner.CloseIdleConnections()
	r.drained(server)
}

// Without kept connections nothing of F01 to F07 can happen, for a connection each.
func TestWireF11WithoutKeptConnections(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, approveAll)
	transport := payclient.NewTransport(payclient.TransportConfig{})
	transport.DisableKeepAlives = true
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Transport = transport })
	for _, order := range []string{"1001", "1002", "1003"} {
		if res, err := r.pay(order); err != nil || res.Outcome != payclient.Approved {
			t.Errorf("%s: %v, %v; want approved", order, res.Outcome, err)
		}
	}
	if n := server.Accepted(); n != 3 {
		t.Errorf("%d connections, want 3", n)
	}
	r.drained(server)
}

// An early answer: read where the request is small, and final then.
func TestWireF47AnswerBeforeTheBodyIsRead(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		if _, _, ok := c.Head(); ok {
			c.Say(wireProblem(401, "unauthorized"))
		}
	})
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Retries = 3 })
	res, err := r.pay("1001")
	if got := (told{res.Outcome, res.Moved}); err != nil || got != toldRejected || res.StatusCode != 401 {
		t.Errorf("%v moved=%v status %d, %v; want rejected by 401", res.Outcome, res.Moved, res.StatusCode, err)
	}
	if log := r.log(res.AttemptID); wireVerdicts(log) != "rejected/refused" {
		t.Errorf("log: %s, want one rejection", wireVerdicts(log))
	}
	r.drained(server)
}

// The connection is reset before the body is read: unknown, and the next send brings all of it again.
func TestWireF44BodyNeverRead(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		if c.N > 1 {
			approveAll(c)
			return
		}
		if _, _, ok := c.Head(); ok {
			c.Reset()
		}
	})
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Retries = 1 })
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.Approved {
		t.Errorf("%v, %v; want approved", res.Outcome, err)
	}
	if log := r.log(res.AttemptID); wireVerdicts(log) != "lost/connection_lost charged/" {
		t.Errorf("log: %s, want lost and then charged", wireVerdicts(log))
	}
	if posts := wirePosts(server, res.Reference); len(posts) != 1 || wireReference(posts[0]) != res.Reference {
		t.Errorf("requests that arrived whole: %v, want one", posts)
	}
	r.drained(server)
}

// Headers are there, the caller gives up, and the body has arrived as well: the answer is not thrown away.
func TestWireF56AnswerThatIsThereAlready(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, approveAll)
	ctx, cancel := context.WithCancel(t.Context())
	inner := payclient.NewTransport(payclient.TransportConfig{})
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
		c.Transport = wireStranger(func(q *http.Request) (*http.Response, error) {
			resp, err := inner.RoundTrip(q)
			cancel()
			return resp, err
		})
	})
	res, err := r.client.Pay(ctx, wireIntent("1001"))
	if err != nil || res.Outcome != payclient.Approved {
		t.Errorf("%v, %v; want approved", res.Outcome, err)
	}
	inner.CloseIdleConnections()
	r.drained(server)
}

// The caller gives up while the body is on its way: unknown, and told apart from our own time running out.
func TestWireF56F57CancelledInTheBody(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		if q, ok := c.Request(); ok {
			answer := wireApprove(q)
			c.Say(answer[:len(answer)-1])
			close(begun)
			c.Hang()
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Retries = 3 })
	res, err := r.client.Pay(ctx, wireIntent("1001"))
	if err != nil || res.Outcome != payclient.UnknownOutcome || res.Reason != attempt.ReasonCancelled {
		t.Errorf("%v (%s), %v; want unknown, cancelled", res.Outcome, res.Reason, err)
	}
	if log := r.log(res.AttemptID); wireVerdicts(log) != "lost/cancelled" {
		t.Errorf("log: %s, want one lost request", wireVerdicts(log))
	}
	r.checkRequests(server, res)
	r.drained(server)
}

// A caller whose context has a cause, or a deadline of its own: the error is another one each time, the verdict the same.
func TestWireF53CausesAreNoEvidence(t *testing.T) {
	t.Parallel()
	odd := errors.New("the shop closes")
	for name, contextOf := range map[string]func(context.Context, <-chan struct{}) (context.Context, func()){
		"cancelled with a cause": func(parent context.Context, arrived <-chan struct{}) (context.Context, func()) {
			ctx, cancel := context.WithCancelCause(parent)
			go func() { <-arrived; cancel(odd) }()
			return ctx, func() { cancel(nil) }
		},
		"a deadline with a cause": func(parent context.Context, _ <-chan struct{}) (context.Context, func()) {
			ctx, cancel := context.WithTimeoutCause(parent, 400*time.Millisecond, odd)
			return ctx, cancel
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrived := make(chan struct{})
			server := wiretest.Listen(t, func(c *wiretest.Conn) {
				if _, ok := c.Request(); ok {
					close(arrived)
					c.Hang()
				}
			})
			r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
				c.Retries, c.SendTimeout = 3, 900*time.Millisecond // of which the deadline leaves a third
			})
			ctx, cancel := contextOf(t.Context(), arrived)
			defer cancel()
			res, err := r.client.Pay(ctx, wireIntent("1001"))
			if err != nil || res.Outcome != payclient.UnknownOutcome || res.Moved != payclient.MovedMaybe {
				t.Errorf("%v moved=%v, %v; want unknown", res.Outcome, res.Moved, err)
			}
			if log := r.log(res.AttemptID); len(log) != 1 || log[0].Verdict != attempt.Lost {
				t.Errorf("log: %s, want one lost request", wireVerdicts(log))
			}
			r.drained(server)
		})
	}
}

// ResponseHeaderTimeout is no proof either, and is no context's end.
func TestWireF54F55ResponseHeaderTimeout(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		if _, ok := c.Request(); ok {
			c.Hang()
		}
	})
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
		c.Transport = payclient.NewTransport(payclient.TransportConfig{ResponseHeaderTimeout: 100 * time.Millisecond})
	})
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.UnknownOutcome {
		t.Errorf("%v, %v; want unknown", res.Outcome, err)
	}
	if log := r.log(res.AttemptID); wireVerdicts(log) != "lost/connection_lost" {
		t.Errorf("log: %s, want one lost request", wireVerdicts(log))
	}
	r.checkRequests(server, res)
	r.drained(server)
}

// Under TLS an answer without a length that ends without close_notify reads as a clean end.
func TestWireF60UnderTLS(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*wiretest.Conn){
		"without close_notify": (*wiretest.Conn).Cut, "with close_notify": (*wiretest.Conn).End,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &wireWorld{authority: wiretest.NewAuthority(t)}
			server := w.listenTLS(t, w.authority.Certificate(time.Now().Add(time.Hour)), func(c *wiretest.Conn) {
				if q, ok := c.Request(); ok {
					c.Say(wiretest.Head("HTTP/1.1 201 Created", "Content-Type: application/json") + wireCharge(q))
					end(c)
				}
			})
			r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
				c.Transport = payclient.NewTransport(w.transport)
			})
			res, err := r.pay("1001")
			if err != nil || res.Outcome != payclient.UnknownOutcome {
				t.Errorf("%v, %v; want unknown", res.Outcome, err)
			}
			if log := r.log(res.AttemptID); wireVerdicts(log) != "lost/unreadable" {
				t.Errorf("log: %s, want one lost request", wireVerdicts(log))
			}
			r.checkRequests(server, res)
			r.drained(server)
		})
	}
}

// One answer too many: the second payment gets the first one's, and no error tells. The echo does; both are settled on
// connections of their own.
func TestWireF69Desynchronised(t *testing.T) {
	t.Parallel()
	var first string
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		for n := 1; ; n++ {
			q, ok := c.Request()
			if !ok {
				return
			}
			if c.N == 1 && n == 2 {
				c.Say(first) // the answer of the payment before
				continue
			}
			answer := wireApprove(q)
			if c.N == 1 {
				first = answer
			}
			c.Say(answer)
		}
	})
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Retries = 1 })
	r.warm()
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.Approved {
		t.Errorf("%v, %v; want approved on a connection of its own", res.Outcome, err)
	}
	if log := r.log(res.AttemptID); wireVerdicts(log) != "violated/mismatch charged/" {
		t.Errorf("log: %s, want violated and then charged", wireVerdicts(log))
	}
	posts := wirePosts(server, res.Reference)
	if len(posts) != 2 || posts[0].Conn != 1 || posts[1].Conn != 2 {
		t.Errorf("requests came on %v, want the second on a new connection", posts)
	}
	r.drained(server)
}

// A refusal that names nobody is believed on a fresh connection only: on a used one it may answer the request before.
func TestWireF69RefusalThatNamesNobody(t *testing.T) {
	t.Parallel()
	toldUnknown := told{payclient.UnknownOutcome, payclient.MovedMaybe}
	for _, final := range []struct {
		name   string
		status int
		marked bool // as the provider's own answer from before
		told   told
		log    string
	}{
		{"401", 401, false, toldViolation, "unavailable/unproven rejected/refused"},        // the first may have been executed: never a rejection
		{"402", 402, false, toldUnknown, "unavailable/unproven refused/declined"},          // a gateway may say so of the repetition
		{"402 replayed", 402, true, toldDeclined, "unavailable/unproven refused/declined"}, // kept under the key: it speaks for both
	} {
		status := final.status
		t.Run(final.name, func(t *testing.T) {
			t.Parallel()
			var warmed atomic.Bool
			server := wiretest.Listen(t, func(c *wiretest.Conn) {
				for {
					q, ok := c.Request()
					if !ok {
						return
					}
					if !warmed.Swap(true) {
						c.Say(wireApprove(q))
						continue
					}
					answer := wireProblem(status, "no")
					if final.marked {
						answer = strings.Replace(answer, "\r\n\r\n", "\r\nIdempotent-Replayed: true\r\n\r\n", 1)
					}
					c.Say(answer)
				}
			})
			r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) { c.Retries = 1 })
			r.warm()
			res, err := r.pay("1001")
			if got := (told{res.Outcome, res.Moved}); err != nil || got != final.told {
				t.Errorf("%v moved=%v, %v; want %v", res.Outcome, res.Moved, err, final.told)
			}
			if log := wireVerdicts(r.log(res.AttemptID)); log != final.log {
				t.Errorf("log: %s, want %s", log, final.log)
			}
			posts := wirePosts(server, res.Reference)
			if len(posts) != 2 || posts[0].Conn != 1 || posts[1].Conn != 2 {
				t.Errorf("requests came on %v, want the second on a new connection", posts)
			}
			r.drained(server)
		})
	}
}

// An answer too long to be read does not keep its connection from the next send.
func TestWireF90UnreadAnswerStarvesNobody(t *testing.T) {
	t.Parallel()
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		for {
			q, ok := c.Request()
			if !ok {
				return
			}
			if c.N == 1 {
				c.Say(wiretest.Head("HTTP/1.1 201 Created", "Content-Length: 1000000"))
				c.Say(strings.Repeat(" ", 100000))
				continue
			}
			c.Say(wireApprove(q))
		}
	})
	r := wireClient(t, server.URL(), func(c *payclient.Config, _ *standard.Config) {
		c.Retries = 1
		c.Transport = payclient.NewTransport(payclient.TransportConfig{MaxConnections: 1})
	})
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.Approved {
		t.Errorf("%v (%s), %v; want approved", res.Outcome, res.Reason, err)
	}
	r.checkRequests(server, res)
	r.drained(server)
}

// A late answer on an idle connection ends the connection: nobody gets it.
func TestWireF92LateAnswerOnAnIdleConnection(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		q, ok := c.Request()
		if !ok {
			return
		}
		if c.N == 1 {
			c.Say(wireApprove(q) + wireApprove(q))
			c.Hang() // until the client has noticed
			close(gone)
			return
		}
		c.Say(wireApprove(q))
	})
	r := wireClient(t, server.URL(), nil)
	r.warm()
	<-gone
	res, err := r.pay("1001")
	if err != nil || res.Outcome != payclient.Approved {
		t.Errorf("%v, %v; want approved", res.Outcome, err)
	}
	if posts := wirePosts(server, res.Reference); len(posts) != 1 || posts[0].Conn != 2 {
		t.Errorf("requests came on %v, want one on a new connection", posts)
	}
	r.drained(server)
}

// Kept connections do not move with the provider's address; closing the idle ones is what makes the next send look again.
func TestWireF85ClosingIdleConnectionsDialsAnew(t *testing.T) {
	t.Parallel()
	before, after := wiretest.Listen(t, approveAll), wiretest.Listen(t, approveAll)
	var moved atomic.Bool
	transport := payclient.NewTransport(payclient.TransportConfig{})
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		to := before.Addr()
		if moved.Load() {
			to = after.Addr()
		}
		return new(net.Dialer).DialContext(ctx, network, to)
	}
	r := wireClient(t, "http://localhost", func(c *payclient.Config, _ *standard.Config) { c.Transport = transport })
	for i, order := range []string{"1001", "1002", "1003"} {
		if i == 1 {
			moved.Store(true)
		}
		if i == 2 {
			transport.CloseIdleConnections()
		}
		if res, err := r.pay(order); err != nil || res.Outcome != payclient.Approved {
			t.Errorf("%s: %v, %v; want approved", order, res.Outcome, err)
		}
	}
	if b, a := len(before.Requests()), len(after.Requests()); b != 2 || a != 1 {
		t.Errorf("%d requests to the old address and %d to the new one, want 2 and 1", b, a)
	}
	r.drained(before, after)
}

// An early answer leaves the transport free to read the body on: the bytes of one payment never become another's.
func TestWireF91BodiesAreNotPooled(t *testing.T) {
	t.Parallel()
	unread := map[string]io.Reader{} // by reference
	var reference string
	r := wireClient(t, "http://"+refused, func(c *payclient.Config, _ *standard.Config) {
		c.DeriveFrom = fuzzNamespace
		c.Transport = wireStranger(func(q *http.Request) (*http.Response, error) {
			unread[reference] = q.Body
			body := wireCharge(wiretest.Request{Body: []byte(`{"amount":54890,"currency":"TRY","merchant_reference":"` + reference + `"}`)})
			return &http.Response{
				StatusCode: http.StatusCreated, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
				ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)), Request: q,
			}, nil
		})
	})
	for _, order := range []string{"1001", "1002", "1003", "1004"} {
		reference = attempt.DeriveIdentity(fuzzNamespace, "", wireIntent(order).Slot(), 1).Reference
		if res, err := r.pay(order); err != nil || res.Outcome != payclient.Approved {
			t.Fatalf("%s: %v, %v; want approved", order, res.Outcome, err)
		}
	}
	for reference, body := range unread {
		late, err := io.ReadAll(body)
		if got := wireReference(wiretest.Request{Body: late}); err != nil || got != reference {
			t.Errorf("the body of %s, read late, is that of %q (%v)", reference, got, err)
		}
	}
}

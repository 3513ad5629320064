package payclient_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What net/http of Go 1.26 does over HTTP/2, by number: the reasons for which the client speaks HTTP/1.1. The provider is of
// frames (RFC 9113 section 4.1), on connections in memory, in a bubble: what is waited for costs no time.

// Of RFC 9113 sections 6 and 7.
const (
	h2Data, h2Headers, h2Reset, h2Settings, h2Ping, h2GoAway = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7

	h2EndStream, h2Ack, h2EndHeaders = 0x1, 0x1, 0x4

	h2NoError, h2Protocol, h2Internal, h2Refused, h2Cancel, h2Calm = 0x0, 0x1, 0x2, 0x7, 0x8, 0xb
)

// h2Peer is a provider that speaks HTTP/2, and the transport that leads to it.
type h2Peer struct {
	*http.Transport

	mu       sync.Mutex
	conns    int
	requests []h2Request
}

// h2Request is one whole request.
type h2Request struct {
	peer   *h2Peer
	out    chan []byte // frames, written in their order
	conn   int         // the how-manieth connection
	stream uint32
	nth    int // request of all
}

// newH2Peer makes a provider; each whole request is handed to serve. Settings are sent as they are; a silent one answers no ping.
func newH2Peer(settings []byte, silent func(conn int) bool, serve func(h2Request)) *h2Peer {
	p := &h2Peer{}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	p.Transport = &http.Transport{Protocols: protocols, DialContext: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		p.mu.Lock()
		p.conns++
		n := p.conns
		p.mu.Unlock()
		out := make(chan []byte, 1024)
		go func() {
			for frame := range out {
				if frame == nil { // cut
					_ = server.Close()
				}
				_, _ = server.Write(frame)
			}
		}()
		go func() {
			defer close(out)
			defer func() { _ = server.Close() }()
			p.read(server, out, n, settings, silent != nil && silent(n), serve)
		}()
		return client, nil
	}}
	return p
}

func (p *h2Peer) read(c net.Conn, out chan []byte, conn int, settings []byte, silent bool, serve func(h2Request)) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	if _, err := io.ReadFull(c, make([]byte, len(preface))); err != nil {
		return
	}
	out <- h2Frame(h2Settings, 0, 0, settings)
	head := make([]byte, 9)
	for {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(c, payload); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch {
		case kind == h2Settings && flags&h2Ack == 0:
			out <- h2Frame(h2Settings, h2Ack, 0, nil)
		case kind == h2Ping && flags&h2Ack == 0 && !silent:
			out <- h2Frame(h2Ping, h2Ack, 0, payload)
		case (kind == h2Headers || kind == h2Data) && flags&h2EndStream != 0:
			p.mu.Lock()
			q := h2Request{p, out, conn, stream, len(p.requests) + 1}
			p.requests = append(p.requests, q)
			p.mu.Unlock()
			serve(q)
		}
	}
}

func h2Frame(kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	frame := binary.BigEndian.AppendUint32([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, stream)
	return append(frame, payload...)
}

// head answers 200 (in the static table: RFC 7541 appendix A), with a content-length unless it is negative.
func (q h2Request) head(length int) {
	block := []byte{0x80 | 8}
	if length >= 0 {
		value := fmt.Sprint(length)
		block = append(append(block, 0x0f, 28-15, byte(len(value))), value...) // content-length is the static entry 28
	}
	q.out <- h2Frame(h2Headers, h2EndHeaders, q.stream, block)
}

func (q h2Request) data(text string, flags byte) {
	q.out <- h2Frame(h2Data, flags, q.stream, []byte(text))
}

func (q h2Request) answer() { q.head(2); q.data("{}", h2EndStream) }

func (q h2Request) reset(code uint32) {
	q.out <- h2Frame(h2Reset, 0, q.stream, binary.BigEndian.AppendUint32(nil, code))
}

func (q h2Request) goAway(last, code uint32) {
	q.out <- h2Frame(h2GoAway, 0, 0, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, last), code))
}

func (q h2Request) cut() { q.out <- nil }

func (p *h2Peer) count() (requests, conns int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.requests), p.conns
}

// post sends a POST without a key, rewindable unless it is said otherwise, and reads the answer to its end.
func (p *h2Peer) post(ctx context.Context, rewindable bool) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://provider.test/v1/charges", strings.NewReader(`{"amount":1}`))
	if err != nil {
		return err
	}
	if !rewindable {
		q.GetBody = nil
	}
	resp, err := p.RoundTrip(q)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// inH2Bubble runs a test of HTTP/2 in a bubble of its own.
func inH2Bubble(t *testing.T, settings []byte, silent func(int) bool, serve func(h2Request), test func(*testing.T, *h2Peer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newH2Peer(settings, silent, serve)
		test(t, p)
		synctest.Wait()
		p.CloseIdleConnections()
	})
}

// F08, F09, F10: a refused stream, a peer's PROTOCOL_ERROR and a GOAWAY below the stream are sent again without any key, silently,
// unless GetBody is nil. A refused stream at once, and then after 1, 2, 4 s; the other two, which end the connection, at once on a
// new one, as often as they come: only the context bounds it.
func TestGoF08F09F10HTTP2ResendsWithoutAKey(t *testing.T) {
	const often = 20
	for name, f := range map[string]struct {
		refuse func(h2Request)
		waits  bool
	}{
		"REFUSED_STREAM":          {func(q h2Request) { q.reset(h2Refused) }, true},
		"PROTOCOL_ERROR":          {func(q h2Request) { q.reset(h2Protocol) }, false},
		"GOAWAY below the stream": {func(q h2Request) { q.goAway(0, h2NoError); q.cut() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inH2Bubble(t, nil, nil, func(q h2Request) {
				if q.nth <= often {
					f.refuse(q)
				} else {
					q.answer()
				}
			}, func(t *testing.T, p *h2Peer) {
				ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
				defer cancel()
				began := time.Now()
				err := p.post(ctx, true)
				n, _ := p.count()
				if f.waits && (err == nil || n != 5) {
					t.Errorf("%v after %d requests in 8 s; it used to be 5", err, n)
				}
				if !f.waits && (err != nil || n != often+1 || time.Since(began) != 0) {
					t.Errorf("%v after %d requests from one call in %s; it used to be %d at once", err, n, time.Since(began), often+1)
				}
			})
			inH2Bubble(t, nil, nil, f.refuse, func(t *testing.T, p *h2Peer) {
				err := p.post(t.Context(), false)
				if n, _ := p.count(); n != 1 || err == nil || !strings.Contains(err.Error(), "cannot retry err") {
					t.Errorf("GetBody nil: %v after %d requests, want one", err, n)
				}
			})
		})
	}
}

// F76, F83: any other reset is one error and not sent again; golang.org/x/net/http2.StreamError, or a struct like it, takes it.
func TestGoF76F83HTTP2Resets(t *testing.T) {
	for _, code := range []uint32{h2Internal, h2Cancel, h2NoError, h2Calm} {
		inH2Bubble(t, nil, nil, func(q h2Request) { q.reset(code) }, func(t *testing.T, p *h2Peer) {
			err := p.post(t.Context(), true)
			if n, _ := p.count(); err == nil || n != 1 {
				t.Errorf("code %d: %v after %d requests, want one and an error", code, err, n)
			}
			if like := (h2StreamError{}); !errors.As(err, &like) || like.Code != code || like.StreamID != 1 {
				t.Errorf("code %d: %T %+v", code, err, like)
			}
		})
	}
}

// h2StreamError has the fields of golang.org/x/net/http2.StreamError.
type h2StreamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (h2StreamError) Error() string { return "" }

// F77: a GOAWAY that covers the stream, and then the end.
func TestGoF77HTTP2GoAwayAbove(t *testing.T) {
	inH2Bubble(t, nil, nil, func(q h2Request) { q.goAway(q.stream, h2NoError); q.cut() }, func(t *testing.T, p *h2Peer) {
		err := p.post(t.Context(), true)
		if n, _ := p.count(); n != 1 || err == nil || !strings.Contains(err.Error(), "server sent GOAWAY and closed the connection") {
			t.Errorf("%v after %d requests, want one and an error", err, n)
		}
	})
}

// F78: a GOAWAY with an error code is final for a connection's first stream, and sends a later one again.
func TestGoF78HTTP2GoAwayWithACode(t *testing.T) {
	for _, first := range []bool{true, false} {
		inH2Bubble(t, nil, nil, func(q h2Request) {
			if q.conn == 1 && (first || q.nth == 2) {
				q.goAway(0, h2Internal)
				q.cut()
			} else {
				q.answer()
			}
		}, func(t *testing.T, p *h2Peer) {
			if !first {
				if err := p.post(t.Context(), true); err != nil {
					t.Fatal(err)
				}
			}
			err := p.post(t.Context(), true)
			n, _ := p.count()
			if first && (err == nil || n != 1) {
				t.Errorf("on the first stream: %v after %d requests, want one and an error", err, n)
			}
			if !first && (err != nil || n != 3) {
				t.Errorf("on a later stream: %v after %d requests, want it sent again", err, n)
			}
		})
	}
}

// F79: one connection carries all, so its end leaves all of them unknown at once.
func TestGoF79HTTP2SharesItsFate(t *testing.T) {
	const calls = 50
	inH2Bubble(t, nil, nil, func(q h2Request) {
		switch q.nth {
		case 1: // without a connection that is there, each would dial its own
			q.answer()
		case 1 + calls:
			q.cut()
		}
	}, func(t *testing.T, p *h2Peer) {
		if err := p.post(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		errs := make(chan error, calls)
		for range calls {
			go func() { errs <- p.post(t.Context(), true) }()
		}
		failed := 0
		for range calls {
			if err := <-errs; err != nil {
				failed++
			}
		}
		used := make(map[int]bool) // a connection that was dialled beside it carries nothing
		for _, q := range p.requests {
			used[q.conn] = true
		}
		if n, _ := p.count(); failed != calls || n != 1+calls || len(used) != 1 {
			t.Errorf("%d of %d failed, %d requests on %d connections; want all, on one", failed, calls, n-1, len(used))
		}
	})
}

// F80: a dead connection is used again and again, unless pings are on. PingTimeout alone turns none on.
func TestGoF80HTTP2DeadConnections(t *testing.T) {
	const wait = 250 * time.Millisecond
	for _, c := range []struct {
		name    string
		config  http.HTTP2Config
		answers bool
	}{
		{"no pings", http.HTTP2Config{}, false},
		{"a time-out for pings that nobody sends", http.HTTP2Config{PingTimeout: wait}, false},
		{"pings", http.HTTP2Config{SendPingTimeout: 200 * time.Millisecond, PingTimeout: 200 * time.Millisecond}, true},
	} {
		dead := func(conn int) bool { return conn == 1 }
		inH2Bubble(t, nil, dead, func(q h2Request) {
			if !dead(q.conn) {
				q.answer()
			}
		}, func(t *testing.T, p *h2Peer) {
			p.HTTP2 = &c.config
			answered := 0
			for range 6 {
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				if p.post(ctx, true) == nil {
					answered++
				}
				cancel()
			}
			if _, conns := p.count(); (answered > 0) != c.answers || !c.answers && conns != 1 {
				t.Errorf("%s: %d of 6 answered on %d connections; want some: %t", c.name, answered, conns, c.answers)
			}
			// A dead connection is never given up; the bubble has to end.
			if !c.answers {
				p.mu.Lock()
				last := p.requests[len(p.requests)-1]
				p.mu.Unlock()
				last.cut()
			}
		})
	}
}

// F81: a connection that was closed while it was idle is not used.
func TestGoF81HTTP2IdleConnectionsThatEnded(t *testing.T) {
	inH2Bubble(t, nil, nil, func(q h2Request) {
		q.answer()
		if q.nth == 1 {
			q.cut()
		}
	}, func(t *testing.T, p *h2Peer) {
		for range 2 {
			if err := p.post(t.Context(), false); err != nil {
				t.Error(err)
			}
			synctest.Wait() // the end has been seen
		}
		if n, conns := p.count(); n != 2 || conns != 2 {
			t.Errorf("%d requests on %d connections, want two on two", n, conns)
		}
	})
}

// F82: no truncation is silent.
func TestGoF82HTTP2Bodies(t *testing.T) {
	for name, serve := range map[string]func(h2Request){
		"reset in the body":           func(q h2Request) { q.head(-1); q.data(`{"id":`, 0); q.reset(h2Internal) },
		"closed in the body":          func(q h2Request) { q.head(-1); q.data(`{"id":`, 0); q.cut() },
		"shorter than content-length": func(q h2Request) { q.head(20); q.data(`{}`, h2EndStream) },
		"longer than content-length":  func(q h2Request) { q.head(1); q.data(`{}`, h2EndStream) },
	} {
		inH2Bubble(t, nil, nil, serve, func(t *testing.T, p *h2Peer) {
			err := p.post(t.Context(), false)
			if err == nil || name == "shorter than content-length" && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// F84: whoever waits for a free stream has its connection already, so that nothing proves that it was not sent.
func TestGoF84HTTP2WaitsBehindGotConn(t *testing.T) {
	one := []byte{0, 3, 0, 0, 0, 1} // SETTINGS_MAX_CONCURRENT_STREAMS
	inH2Bubble(t, one, nil, func(q h2Request) {
		if q.nth == 1 {
			q.answer() // the settings are known by then
		}
	}, func(t *testing.T, p *h2Peer) {
		p.HTTP2 = &http.HTTP2Config{StrictMaxConcurrentRequests: true}
		if err := p.post(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got, ended := make(chan bool, 2), make(chan error, 2)
		for range 2 {
			trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { got <- true }}
			go func() { ended <- p.post(httptrace.WithClientTrace(ctx, trace), false) }()
		}
		synctest.Wait()
		n, conns := p.count()
		if len(got) != 2 || n-1 > 1 || conns != 1 { // it happens that neither gets the one stream: each waits for what the other has reserved
			t.Errorf("GotConn fired %d times, %d requests on %d connections; want it twice, and one at least not sent", len(got), n-1, conns)
		}
		for range 2 {
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
	})
}

package payclient_test

import (
	"bytes"
	"context"
	"log"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/internal/wiretest"
	"github.com/chargeonce/chargeonce/payclient"
)

// F96: what comes on an idle connection is written to the process's own log, a few bytes of it too.
func TestGoF96UnaskedAnswersAreLogged(t *testing.T) {
	var said bytes.Buffer // guarded by the logger
	log.SetOutput(&said)
	defer log.SetOutput(os.Stderr)
	gone := make(chan struct{})
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		if q, ok := c.Request(); ok {
			c.Say(wireApprove(q) + "unasked for")
			c.Hang() // until the transport has noticed
			close(gone)
		}
	})
	transport := payclient.NewTransport(payclient.TransportConfig{})
	resp, err := transport.RoundTrip(factPost(t, server.URL()))
	if err := factRead(t, resp, err); err != nil {
		t.Fatal(err)
	}
	<-gone
	log.SetOutput(os.Stderr)
	if !strings.Contains(said.String(), "Unsolicited response received on idle HTTP channel") || !strings.Contains(said.String(), "unasked") {
		t.Errorf("logged %q", said.String())
	}
	server.Drained()
}

// twoAddresses is a resolver for which every name has these two addresses.
func twoAddresses(t *testing.T, addresses ...[4]byte) *net.Resolver {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0") //nolint:noctx // it is closed below
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			end := 12 // of the question's name: RFC 1035 section 4.1.2
			for end < n && buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			if end += 5; end > n {
				continue
			}
			reply := append([]byte(nil), buf[:end]...)
			reply[2], reply[3] = reply[2]|0x80, 0x80
			clear(reply[6:12])
			if buf[end-3] == 1 { // asked for A; of AAAA there are none
				reply[7] = byte(len(addresses))
				for _, a := range addresses {
					reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
					reply = append(reply, a[:]...)
				}
			}
			_, _ = server.WriteTo(reply, from)
		}
	}()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

// F87: a dialer's time-out is shared out over the addresses of a name, and of several errors the first one is told.
func TestGoF87DialersShareTheirTime(t *testing.T) {
	t.Parallel()
	const whole = time.Hour // of which nothing is waited for: both are refused at once
	var mu sync.Mutex
	var tried []string
	var left []time.Duration
	dialer := net.Dialer{Timeout: whole, Resolver: twoAddresses(t, [4]byte{127, 0, 0, 2}, [4]byte{127, 0, 0, 3})}
	dialer.ControlContext = func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		until, _ := ctx.Deadline()
		mu.Lock()
		defer mu.Unlock()
		tried, left = append(tried, address), append(left, time.Until(until))
		return &net.AddrError{Err: "refused here", Addr: address} // no socket is needed for this
	}
	conn, err := dialer.DialContext(t.Context(), "tcp", "provider.test:443")
	if err == nil {
		_ = conn.Close()
	}
	if len(tried) != 2 || tried[0] != "127.0.0.2:443" || tried[1] != "127.0.0.3:443" {
		t.Fatalf("tried %q, %v; want both, in their order", tried, err)
	}
	if err == nil || !strings.Contains(err.Error(), "127.0.0.2") || strings.Contains(err.Error(), "127.0.0.3") {
		t.Errorf("%v; want the first address's", err)
	}
	if left[0] > whole/2 || left[1] <= whole/2 {
		t.Errorf("%v left for them; want half of the %s for the first", left, whole)
	}
}

package wiretest

import (
	"context"
	"net"
	"testing"
)

// NoSuchHost starts a name server on 127.0.0.1 that knows no name, and returns a resolver that asks it.
func NoSuchHost(t testing.TB) *net.Resolver {
	t.Helper()
	server, err := new(net.ListenConfig).ListenPacket(context.Background(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
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
			// RFC 1035 section 4.1.1: the query comes back as an answer (QR, RA) with the code NXDOMAIN. An additional
			// record (EDNS) is left off.
			reply := append([]byte(nil), buf[:n]...)
			if n < 12 {
				continue
			}
			reply[2], reply[3] = reply[2]|0x80, 0x83
			reply[10], reply[11] = 0, 0
			end := 12
			for end < n && reply[end] != 0 {
				end += int(reply[end]) + 1
			}
			_, _ = server.WriteTo(reply[:min(end+5, n)], from)
		}
	}()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

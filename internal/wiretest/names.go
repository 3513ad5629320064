package wiretest

import (
	"context"
	"net"
	"net/netip"
	"testing"
)

// NoSuchHost starts a name server on 127.0.0.1 that knows no name, and returns a resolver that asks it.
func NoSuchHost(t testing.TB) *net.Resolver {
	t.Helper()
	return resolver(t, 3) // NXDOMAIN
}

// Resolves starts a name server on 127.0.0.1 for which every name has these addresses, and returns a resolver that asks it.
func Resolves(t testing.TB, addresses ...string) *net.Resolver {
	t.Helper()
	return resolver(t, 0, addresses...)
}

// resolver asks a name server that answers every question with this code (RFC 1035 section 4.1.1) and these addresses.
func resolver(t testing.TB, code byte, addresses ...string) *net.Resolver {
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
			end := 12 // of the question's name: section 4.1.2
			for end < n && buf[end] != 0 {
				end += int(buf[end]) + 1
			}
			if end += 5; end > n {
				continue
			}
			// The query comes back as an answer (QR, RA). An additional record (EDNS) is left off.
			reply := append([]byte(nil), buf[:end]...)
			reply[2], reply[3] = reply[2]|0x80, 0x80|code
			clear(reply[6:12])
			for _, text := range addresses { // those of the type that is asked for: A is 1, AAAA is 28
				a := netip.MustParseAddr(text)
				if kind := buf[end-3]; a.Is4() && kind == 1 || a.Is6() && kind == 28 {
					reply[7]++
					reply = append(reply, 0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, byte(a.BitLen()/8))
					reply = append(reply, a.AsSlice()...)
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

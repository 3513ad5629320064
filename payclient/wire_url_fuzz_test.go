package payclient

import (
	"net/netip"
	"strings"
	"testing"
)

// FuzzBaseURL: an address is taken only if payments may go there (F23): https, or http to this machine, and nothing in it that
// could be a secret. What is taken is taken again as it prints.
func FuzzBaseURL(f *testing.F) {
	for _, seed := range []string{
		"https://api.example", "https://api.example:8443/v2/", "http://127.0.0.1:8089", "http://localhost", "http://[::1]:1/x",
		"http://api.example", "http://127.0.0.1.example", "http://localhost.example", "https://user:pass@api.example", "https://@api.example",
		"https://api.example?key=1", "https://api.example?", "https://api.example#x", "ftp://api.example", "//api.example", "https://",
		"https://:443", "HTTPS://API.example/%2e%2e", "http://0x7f000001", "http://127.1", "https://api.example\n", "", "https://[::1%25lo]", "http://[::ffff:127.0.0.1]",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseBaseURL(text)
		if err != nil {
			if u != nil {
				t.Fatalf("%q: refused and taken", text)
			}
			return
		}
		local := strings.EqualFold(u.Hostname(), "localhost")
		if ip, err := netip.ParseAddr(u.Hostname()); err == nil {
			local = ip.IsLoopback() || ip.Unmap().IsLoopback()
		}
		switch {
		case u.Scheme != "https" && (u.Scheme != "http" || !local):
			t.Fatalf("%q: payments would go to %s in the clear", text, u)
		case u.User != nil || strings.ContainsAny(u.String(), "?#") || strings.Contains(u.Host, "@"):
			t.Fatalf("%q: %s may hold a secret", text, u)
		case u.Hostname() == "":
			t.Fatalf("%q: no host", text)
		}
		again, err := parseBaseURL(u.String())
		if err != nil || again.String() != u.String() {
			t.Fatalf("%q: printed %s, which is %v, %v", text, u, again, err)
		}
	})
}

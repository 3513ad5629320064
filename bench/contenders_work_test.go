package bench

import (
	"net/http"
	"testing"
)

// Every contender pays, over the wire and without it: a comparison with one that fails says nothing.
func TestContendersPay(t *testing.T) {
	url := rawBank(t, new(bank))
	for _, way := range []struct {
		name, url string
		transport http.RoundTripper
	}{
		{"loopback", url, transport(5)},
		{"in memory", "http://127.0.0.1", new(bank)},
	} {
		for _, c := range []contender{
			bare(way.url, way.transport), chargeonce(t, "chargeonce", way.url, way.transport, noStore{}),
			failsafeHTTP(way.url, way.transport), retryableHTTP(way.url, way.transport), stripeGo(way.url, way.transport),
		} {
			t.Run(way.name+"/"+c.name, func(t *testing.T) {
				if err := c.op(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

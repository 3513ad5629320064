package bench

import "testing"

// BenchmarkLoopback compares the whole client, without a store, with what one would use instead, over a loopback socket.
func BenchmarkLoopback(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(map[int]string{1: "callers=1", 64: "callers=64"}[callers], func(b *testing.B) {
			url := rawBank(b, new(bank))
			all := []contender{
				bare(url, transport(callers)),
				chargeonce(b, "chargeonce", url, transport(callers), noStore{}),
				failsafeHTTP(url, transport(callers)),
				retryableHTTP(url, transport(callers)),
				stripeGo(url, transport(callers)),
			}
			for range b.N {
				pair(b, callers, 2000, 15, all...)
			}
			if callers == 1 {
				allocs(b, all...)
			}
		})
	}
}

// BenchmarkInMemory compares them without a wire: what the clients themselves cost.
func BenchmarkInMemory(b *testing.B) {
	k := new(bank)
	all := []contender{
		bare("http://127.0.0.1", k),
		chargeonce(b, "chargeonce", "http://127.0.0.1", k, noStore{}),
		failsafeHTTP("http://127.0.0.1", k),
		retryableHTTP("http://127.0.0.1", k),
		stripeGo("http://127.0.0.1", k),
	}
	for range b.N {
		pair(b, 1, 20000, 15, all...)
	}
	allocs(b, all...)
}

package bench

import "testing"

// BenchmarkPay runs the client alone, for profiles.
func BenchmarkPay(b *testing.B) {
	c := chargeonce(b, "chargeonce", "http://127.0.0.1", new(bank), noStore{})
	b.ReportAllocs()
	for b.Loop() {
		if err := c.op(); err != nil {
			b.Fatal(err)
		}
	}
}

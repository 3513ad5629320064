package bench

import "testing"

func BenchmarkLoopOurs(b *testing.B) {
	url := rawBank(b, new(bank))
	c := chargeonce(b, "chargeonce", url, transport(1), noStore{})
	for b.Loop() { if err := c.op(); err != nil { b.Fatal(err) } }
}
func BenchmarkLoopBare(b *testing.B) {
	url := rawBank(b, new(bank))
	c := bare(url, transport(1))
	for b.Loop() { if err := c.op(); err != nil { b.Fatal(err) } }
}

// Package bench measures chargeonce against what a user would pick instead. It is a module of its own, so that what it
// compares with is no dependency of anybody else's. Each figure is a ratio from one paired, interleaved run: machines are noisy,
// and only ratios carry over to another. Run it with
//
//	go test -bench . -benchtime 1x
package bench

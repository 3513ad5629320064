// Package crashrig kills the real chargeonce program, over and over, and looks at what is left. Its tests run the program
// under ptrace against chargeonce fake on 127.0.0.1, end it with SIGKILL at the n-th thing that it asks of the kernel for the
// store or the provider, for n = 1, 2, 3 ... until a run survives, run it again, kill the recovery twice more, and let it end.
// After each death, and in the end, the provider's ledger and the store are held against each other.
//
// A process that is killed at the entry of a system call has not made it: its next write, fsync or request never happens, and
// all before has. So the points lie between any two steps that anybody else could notice, and no hook stands in the program.
// The points have names, told from what the program has sent and heard by then: see [event.point] in the tests.
//
// What kill -9 cannot show is what a power failure shows: the kernel keeps what it was given. For that the same traces prove
// that an fsync of the row's log lies between the write of a payment's key and the first byte of its request.
//
//	scripts/test ./internal/crashrig                            a sample, less than a minute
//	scripts/test -v -timeout 1h ./internal/crashrig -crash.kills 900   a long run, ends in a table of the kills by point
package crashrig

// Package crashrig kills the real chargeonce program, over and over, and looks at what is left. Its tests run the program
// under ptrace against chargeonce fake on 127.0.0.1, end it with SIGKILL when it asks the kernel for something for the store or
// the provider: at each point that has a name, and at store writes from all over the run. They run it again, kill the recovery
// twice more, and let it end, with SQLite and with PostgreSQL. After each death, and in the end, the provider's ledger and the
// store are held against each other.
//
// A process that is killed at the entry of a system call has not made it: its next write, fsync or request never happens, and
// all before has. So the points lie between any two steps that anybody else could notice, and no hook stands in the program.
// The points have names, told from what the program has sent and heard by then: see [event.point] in the tests.
//
// What kill -9 cannot show is what a power failure shows: the kernel keeps what it was given. For that the same traces prove
// that an fsync of the row's log lies between the write of a payment's key and the first byte of its request.
//
//	scripts/test -v ./internal/crashrig                           900 kills, some minutes, ends in tables of the kills by point
//	scripts/test -short ./internal/crashrig                       a sample
//	scripts/test -v -timeout 3h ./internal/crashrig -crash.whole  every single point of every run
package crashrig

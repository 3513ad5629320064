// Package manyrig runs many processes on one PostgreSQL database and one provider, and disturbs them. Its tests start a server of
// their own, a fake provider on 127.0.0.1 that fails a fifth of what it is sent, and 2, 4 and 8 processes (the test's own program)
// that pay the same 1,000 intents, each in its own order, and reconcile at the same time. Meanwhile
//
//   - one process is stopped while it holds claims, until they are over and others have gone on, and then continued;
//   - one is killed while it holds claims, and another starts in its place;
//   - connections are terminated, and the server is restarted in the mode "immediate", which is a crash;
//   - the processes' own clocks are five minutes apart. The only thing that a process reads from its calendar clock is the time in an
//     attempt's id; all else is time that has passed, or the server's.
//
// Afterwards the provider's books and the store are held against each other and against what each process was told: one charge for
// each intent that was to be charged and none for the others, one verdict for all, no claim left, nothing open, nothing lost.
//
//	scripts/test ./internal/manyrig                                   about a minute and a half at most
//	scripts/test -v -timeout 2h ./internal/manyrig -many.rounds 50    a long run, each round with other chances
package manyrig

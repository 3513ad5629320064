// Command sim looks for a double charge. It runs the real client, the real reconciler and the real webhook handler over a real
// http.Transport against the fake provider, for hours of simulated time in a testing/synctest bubble, while customers are
// impatient and everything around the payment fails; then it lets the faults end, and judges what the provider's books, the
// store's history and the callers were told.
//
// It promises that a seed decides: each decision is drawn from a hash of the seed, of what is decided and of how often that was
// decided before, never from a shared generator, so that a run can be repeated with
//
//	go run ./internal/sim -seed N -v
//
// and that a rule that is broken is shown with the seed that breaks it. `go run ./internal/sim -for 30m` runs seed after seed
// in processes of their own and prints one table; docs/proof.md holds such a table and says what it does not show.
package main

// Command chargeonce pays files of payments, at most once each, and shows what became of every attempt.
//
// It promises that a run can be interrupted, killed and repeated: every outcome is in the database, a repetition sends only
// what is not known, and the exit code tells whether anything is unknown.
//
//	chargeonce pay testdata/payments.csv --provider fake
//
// needs nothing else. See chargeonce help for the rest, and chargeonce help pay for exit codes.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}, os.Environ()))
}

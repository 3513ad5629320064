// Command chargeonce pays files of payments, at most once each, shows what became of every attempt, and settles what nobody
// knows: it asks the provider, gives surplus money back, compares settlement reports, and takes a person's decision.
//
// It promises that a run of each command can be interrupted, killed and repeated: every outcome is in the database, a
// repetition sends only what is not known, and the exit code tells whether anything is unknown.
//
//	chargeonce pay testdata/payments.csv --provider fake
//
// needs nothing else. See chargeonce help for the rest, and chargeonce help pay for exit codes.
package main

import (
	"bytes"
	"context"
	"io"
	"log"
	"os"
)

// guardedLog keeps answers of a provider out of what net/http logs by itself: it quotes the first bytes of an answer that
// nobody asked for, which may be about anybody.
type guardedLog struct{ to io.Writer }

func (g guardedLog) Write(line []byte) (int, error) {
	quoted := []byte(" starting with ")
	if i := bytes.Index(line, quoted); i >= 0 {
		if _, err := g.to.Write(append(bytes.Clone(line[:i]), " (left out)\n"...)); err != nil {
			return 0, err
		}
		return len(line), nil
	}
	return g.to.Write(line)
}

func main() {
	log.SetOutput(guardedLog{os.Stderr})
	os.Exit(run(context.Background(), os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}, os.Environ()))
}

// Command testjson reads what `go test -json` writes and prints what `go test`
// would have printed, then the name and the reason of every test that was
// skipped, and one line of totals.
//
//	go test -json ./... | testjson -noskip
//
// It exits with 1 when a test or a package failed, when -noskip is given and a
// test was skipped, or when -nonempty is given and no test ran at all: a run
// that tested nothing must not look like one that passed.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
)

func main() {
	var opt options
	flag.BoolVar(&opt.noSkip, "noskip", false, "a skipped test is a failure")
	flag.BoolVar(&opt.nonEmpty, "nonempty", false, "a run in which no test ran is a failure")
	flag.BoolVar(&opt.verbose, "v", false, "print all output, as go test -v does")
	mayskip := flag.String("mayskip", "", "skips whose reason matches this regular expression are no failure")
	flag.Parse()
	if *mayskip != "" {
		re, err := regexp.Compile(*mayskip)
		if err != nil {
			fmt.Fprintln(os.Stderr, "testjson: -mayskip:", err)
			os.Exit(2)
		}
		opt.maySkip = re
	}
	// Ctrl-C reaches the whole pipeline: go test ends, and this end still tells how far it came.
	signal.Ignore(os.Interrupt)

	ok, err := convert(os.Stdin, os.Stdout, opt)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testjson:", err)
	}
	if !ok {
		os.Exit(1)
	}
}

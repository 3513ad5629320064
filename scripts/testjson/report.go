package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

type options struct {
	noSkip, nonEmpty, verbose bool
	maySkip                   *regexp.Regexp // nil: no skip is forgiven
}

// event is one line of `go test -json`: `go doc test2json`, `go help buildjson`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// report is what is known of the run so far.
type report struct {
	options
	w       *bufio.Writer
	running map[string]*pkg

	passed, failed int
	broken         bool     // a package failed, did not build or did not end
	skips          []string // "package test: reason"
	unforgiven     int      // skips that -mayskip does not cover
}

// pkg is a package whose tests are still running.
type pkg struct {
	lines []string            // output of the package itself
	tests map[string][]string // output of each test that has not ended
}

// convert copies in to out as plain go test output and reports whether the run passed.
func convert(in io.Reader, out io.Writer, opt options) (bool, error) {
	r := &report{options: opt, w: bufio.NewWriter(out), running: map[string]*pkg{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.line(line)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return false, err
		}
	}
	ok := r.end()
	if err := r.w.Flush(); err != nil {
		return false, err
	}
	return ok, nil
}

func (r *report) line(line string) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		r.print(line) // somebody's plain text, shown as it is
		return
	}
	if e.Action == "build-output" || r.verbose && e.Action == "output" {
		r.print(e.Output)
	}
	if e.Action == "build-fail" {
		r.broken = true
	}
	if e.Package == "" {
		return
	}
	p := r.running[e.Package]
	if p == nil {
		p = &pkg{tests: map[string][]string{}}
		r.running[e.Package] = p
	}
	if e.Test == "" {
		r.packageEvent(p, e)
	} else {
		r.testEvent(p, e)
	}
}

func (r *report) testEvent(p *pkg, e event) {
	switch e.Action {
	case "output":
		p.tests[e.Test] = append(p.tests[e.Test], e.Output)
		return
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		r.failure(p.tests[e.Test])
	case "skip":
		why := reason(p.tests[e.Test])
		r.skips = append(r.skips, fmt.Sprintf("%s %s: %s", e.Package, e.Test, why))
		if r.maySkip == nil || !r.maySkip.MatchString(why) {
			r.unforgiven++
		}
	default: // run, pause, cont, bench
		return
	}
	delete(p.tests, e.Test)
}

func (r *report) packageEvent(p *pkg, e event) {
	switch e.Action {
	case "output":
		p.lines = append(p.lines, e.Output)
	case "fail":
		r.broken = true
		r.brokenPackage(p)
		r.done(e.Package)
	case "pass", "skip": // skip: the package has no test files
		for _, l := range p.lines {
			if strings.HasPrefix(l, "ok  \t") || strings.HasPrefix(l, "?   \t") || strings.HasPrefix(l, "\t") {
				r.summary(l)
			}
		}
		r.done(e.Package)
	}
}

// done forgets a package; what it said is seen at once, not at the end of the run.
func (r *report) done(name string) {
	delete(r.running, name)
	_ = r.w.Flush() // bufio keeps the error for the flush in convert
}

func (r *report) brokenPackage(p *pkg) {
	for _, name := range slices.Sorted(maps.Keys(p.tests)) { // no end: a panic, a time-out, os.Exit
		r.failure(p.tests[name])
	}
	for _, l := range p.lines {
		if l != "PASS\n" {
			r.summary(l)
		}
	}
}

func (r *report) end() bool {
	for _, name := range slices.Sorted(maps.Keys(r.running)) {
		r.broken = true
		r.brokenPackage(r.running[name])
		r.print(fmt.Sprintf("FAIL\t%s\tdid not end\n", name))
	}
	if len(r.skips) > 0 {
		r.print("skipped:\n  " + strings.Join(r.skips, "\n  ") + "\n")
	}
	r.print(fmt.Sprintf("tests: %d passed, %d failed, %d skipped\n", r.passed, r.failed, len(r.skips)))

	ok := r.failed == 0 && !r.broken
	if r.noSkip && r.unforgiven > 0 {
		r.print(fmt.Sprintf("FAIL: %d skipped where nothing may skip\n", r.unforgiven))
		ok = false
	}
	if r.nonEmpty && r.passed+r.failed == 0 {
		r.print("FAIL: no test ran\n")
		ok = false
	}
	return ok
}

func (r *report) print(s string) {
	_, _ = r.w.WriteString(s) // bufio keeps the error for the flush in convert
}

// summary prints a package's own line, which -v has shown already.
func (r *report) summary(line string) {
	if !r.verbose {
		r.print(line)
	}
}

// failure prints what a test said, which -v has shown already.
func (r *report) failure(lines []string) {
	if r.verbose {
		return
	}
	for _, l := range lines {
		if !isChatter(l) {
			r.print(l)
		}
	}
}

// reason joins what a skipped test said.
func reason(lines []string) string {
	var said []string
	for _, l := range lines {
		l = strings.TrimSpace(l)
		if l != "" && !isChatter(l) && !strings.HasPrefix(l, "--- SKIP") {
			said = append(said, l)
		}
	}
	if len(said) == 0 {
		return "(no reason given)"
	}
	return strings.Join(said, " ")
}

// isChatter tells the lines that go test prints with -v only, which -json implies.
func isChatter(line string) bool {
	for _, prefix := range []string{"=== RUN", "=== PAUSE", "=== CONT", "=== NAME"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

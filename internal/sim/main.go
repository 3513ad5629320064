package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func main() {
	testing.Init()
	var (
		seed    = flag.Uint64("seed", 0, "run this seed alone")
		verbose = flag.Bool("v", false, "with -seed: print the whole timeline")
		length  = flag.Duration("for", 0, "run seed after seed for this long")
		seeds   = flag.Int("seeds", 200, "without -for: run so many seeds")
		from    = flag.Uint64("from", 1, "the first seed")
		workers = flag.Int("workers", runtime.GOMAXPROCS(0), "processes at a time")
		worker  = flag.Bool("worker", false, "run the seeds named on standard input (the program starts itself so)")
		name    = flag.String("mutant", "", "run with a mistake built in")
		keepers = flag.String("keep", keptIn, "the folder in which a seed that breaks a rule is kept; empty: nowhere")

		profiled = flag.String("cpuprofile", "", "with -worker: write a profile of it to this file")
	)
	flag.Parse()
	var m *mutant
	if *name != "" {
		if m = mutantNamed(*name); m == nil {
			fmt.Fprintf(os.Stderr, "no mutant is named %q\n", *name)
			os.Exit(2)
		}
	}
	switch {
	case *worker:
		// A world is small and soon gone: what it leaves behind is cheaper to collect for several together.
		debug.SetGCPercent(400)
		inBubbles(func(t *testing.T) {
			if *profiled != "" {
				defer cpuProfile(*profiled)()
			}
			work(t, m, os.Stdin, os.Stdout)
		})
	case isSet("seed"):
		inBubbles(func(t *testing.T) {
			runtime.GOMAXPROCS(processors(*seed))
			o := run(t, *seed, m)
			show(os.Stdout, o, *verbose)
			if len(o.Violations) > 0 {
				t.Fail()
			}
		})
	default:
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		if *length > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, *length)
			defer cancel()
			*seeds = 0
		}
		c := &series{mutant: *name, from: *from, seeds: *seeds, workers: *workers, keepIn: *keepers, out: os.Stdout}
		if !c.run(ctx) {
			stop()
			os.Exit(1) //nolint:gocritic // nothing is left to be deferred
		}
	}
}

// processors is on how many a seed runs. On one, everything a seed does is in the seed's order and the same in every run; but
// some orders of what happens in one moment never come about on one, so each eighth seed has two.
func processors(seed uint64) int {
	if seed%8 == 0 {
		return 2
	}
	return 1
}

// cpuProfile profiles the process until the function that it returns is called.
func cpuProfile(file string) func() {
	f, err := os.Create(file)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// inBubbles runs f where bubbles can be made, and ends the process.
func inBubbles(f func(*testing.T)) {
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "Seeds", F: f}}, nil, nil)
}

func isSet(name string) (set bool) {
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	return set
}

func show(w io.Writer, o *outcome, verbose bool) {
	fmt.Fprintf(w, "seed %d: %s\n", o.Seed, o.Profile)
	if verbose {
		for _, line := range o.timeline() {
			fmt.Fprintln(w, line)
		}
	}
	fmt.Fprintf(w, "%d attempts, %d requests, %s simulated\n", o.Payments, o.Requests, o.Simulated)
	for _, v := range o.Violations {
		fmt.Fprintf(w, "BROKEN %s: %s\n", v.Rule, v.Text)
	}
}

// work runs the seeds that it reads, one a line, and writes what came of each.
func work(t *testing.T, m *mutant, in io.Reader, out io.Writer) {
	lines, enc := bufio.NewScanner(in), json.NewEncoder(out)
	for lines.Scan() {
		seed, err := strconv.ParseUint(lines.Text(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		runtime.GOMAXPROCS(processors(seed))
		if err := enc.Encode(run(t, seed, m)); err != nil {
			t.Fatal(err)
		}
	}
}

// series is a campaign: the kept seeds, then seed after seed, in processes of their own, so that one that ends in a panic or
// never ends takes no other with it.
type series struct {
	mutant  string
	from    uint64
	seeds   int // 0: until the time is over
	workers int
	keepIn  string
	out     io.Writer

	mu   sync.Mutex
	todo []kept // guarded by mu: run before the others
	next uint64 // guarded by mu
	sum  *total // guarded by mu
}

// run runs the campaign and prints its table. It tells whether all is well: no rule is broken, everything has happened that has
// to happen sometimes, nobody was told wrongly, and the world that must fail has failed.
func (s *series) run(ctx context.Context) (clean bool) {
	began := time.Now()
	s.sum, s.next = newTotal(), s.from
	if s.mutant == "" {
		var err error
		if s.todo, err = readKept(keptSeeds); err != nil {
			fmt.Fprintln(s.out, err)
			return false
		}
	}
	known := make(map[uint64]bool)
	for _, k := range s.todo {
		known[k.seed] = true
	}
	s.sum.kept = len(s.todo)
	take := func() (uint64, bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if ctx.Err() != nil {
			return 0, false
		}
		if len(s.todo) > 0 {
			first := s.todo[0]
			s.todo = s.todo[1:]
			return first.seed, true
		}
		if s.seeds > 0 && s.next >= s.from+uint64(s.seeds) { //nolint:gosec // positive
			return 0, false
		}
		s.next++
		return s.next - 1, true
	}
	done := func(o *outcome) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if errors.Is(ctx.Err(), context.Canceled) && o.Simulated == 0 {
			return // whoever stopped the campaign stopped this seed
		}
		s.sum.add(o)
		for _, v := range o.Violations {
			fmt.Fprintf(s.out, "seed %d BROKEN %s: %s\n", o.Seed, v.Rule, v.Text)
		}
		if p := o.Precision; p.Unknown+p.FalseEnds > 0 {
			fmt.Fprintf(s.out, "seed %d is imprecise: %d non-sends told as unknown, %d false ends\n", o.Seed, p.Unknown, p.FalseEnds)
		}
		if len(o.Violations) > 0 && s.mutant == "" && s.keepIn != "" && !known[o.Seed] {
			file, err := keep(s.keepIn, o)
			if err != nil {
				fmt.Fprintf(s.out, "seed %d is not kept: %v\n", o.Seed, err)
				return
			}
			fmt.Fprintf(s.out, "seed %d is kept in %s\n", o.Seed, file)
		}
	}
	var all sync.WaitGroup
	for range s.workers {
		all.Go(func() {
			for {
				seed, more := take()
				if !more {
					return
				}
				child(s.mutant, seed, take, done)
			}
		})
	}
	all.Wait()
	s.sum.took = time.Since(began)
	if s.mutant == "" {
		// A checker that finds nothing is no proof unless it finds what is there.
		child("canary", s.from, func() (uint64, bool) { return 0, false }, func(o *outcome) { s.sum.canary = len(o.Violations) })
	}
	s.sum.write(s.out)
	enough := s.sum.seeds < enoughSeeds || len(s.sum.never()) == 0
	p := &s.sum.precision
	return s.sum.violations == 0 && enough && p.Unknown == 0 && p.FalseEnds == 0 && (s.mutant != "" || s.sum.canary > 0)
}

// enoughSeeds is from how many seeds on each of the things that must happen sometimes has to have happened.
const enoughSeeds = 240

// seedLimit is how long one seed may take by the wall clock before it counts as one that never ends.
const seedLimit = 2 * time.Minute

// child starts a worker and gives it seeds until there are no more, or it dies.
func child(mutant string, seed uint64, take func() (uint64, bool), done func(*outcome)) {
	fail := func(why string) {
		done(&outcome{Seed: seed, Violations: []violation{{Rule: "simulator", Text: why}}})
	}
	cmd := exec.Command(os.Args[0], "-worker", "-mutant", mutant) //nolint:noctx // it ends when its input does
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		fail(err.Error())
		return
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		fail(err.Error())
		return
	}
	if err := cmd.Start(); err != nil {
		fail(err.Error())
		return
	}
	lines := bufio.NewReaderSize(stdout, 1<<20)
	for more := true; more; seed, more = take() {
		watchdog := time.AfterFunc(seedLimit, func() { _ = cmd.Process.Kill() })
		if _, err := fmt.Fprintln(in, seed); err != nil {
			fail("the worker is gone: " + err.Error())
			break
		}
		o, err := readOutcome(lines)
		watchdog.Stop()
		if err != nil {
			_ = cmd.Wait() // its text is what tells
			fail(fmt.Sprintf("the run did not end: %v: %s", err, firstLines(stderr.String(), 30)))
			return
		}
		done(o)
	}
	_ = in.Close()
	_, _ = io.Copy(io.Discard, lines)
	if err := cmd.Wait(); err != nil {
		fail(fmt.Sprintf("the worker failed after the seeds: %v: %s", err, firstLines(stderr.String(), 30)))
	}
}

func readOutcome(lines *bufio.Reader) (*outcome, error) {
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		o := new(outcome)
		if json.Unmarshal(line, o) == nil && o.Simulated > 0 {
			return o, nil
		}
		if bytes.HasPrefix(line, []byte("panic")) || bytes.HasPrefix(line, []byte("--- FAIL")) {
			rest, _ := io.ReadAll(lines)
			return nil, errors.New(firstLines(string(line)+string(rest), 40))
		}
	}
}

func firstLines(text string, n int) string {
	lines := strings.SplitN(text, "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], "\n")
}

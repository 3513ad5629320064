package main

import (
	"bufio"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// keptSeeds are the seeds that have found something, in files of lines "seed what": they run before all others, ever after.
//
//go:embed testdata/seeds/*.txt
var keptSeeds embed.FS

// keptIn is where they are, from the module's folder.
const keptIn = "internal/sim/testdata/seeds"

// kept is a seed that has found something.
type kept struct {
	seed uint64
	what string
}

// readKept reads the kept seeds, in the order of the files and of their lines, each once.
func readKept(from fs.FS) (all []kept, err error) {
	names, err := fs.Glob(from, "testdata/seeds/*.txt")
	if err != nil {
		return nil, err
	}
	known := make(map[uint64]bool)
	for _, name := range names {
		f, err := from.Open(name)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if line := lines.Text(); strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
				continue
			}
			number, what, _ := strings.Cut(lines.Text(), " ")
			seed, err := strconv.ParseUint(number, 10, 64)
			if err != nil {
				return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
			}
			if !known[seed] {
				known[seed] = true
				all = append(all, kept{seed, what})
			}
		}
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, nil
}

// keep writes a file about a seed that has broken a rule, which makes it one of those that run first. There is no more than one
// file about a seed.
func keep(folder string, o *outcome) (file string, err error) {
	file = filepath.Join(folder, fmt.Sprintf("found-%d.txt", o.Seed))
	v := o.Violations[0]
	what := fmt.Sprintf("broke %s: %s", v.Rule, strings.Join(strings.Fields(v.Text), " "))
	if len(what) > 400 {
		what = what[:400]
	}
	return file, os.WriteFile(file, fmt.Appendf(nil, "%d %s\n", o.Seed, strings.ToValidUTF8(what, "")), 0o644) //nolint:gosec // to be read by all
}

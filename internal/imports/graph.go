package imports

import (
	"slices"
	"strings"
)

// graph is what imports what. Packages of the module go by their path relative to it, others by their import path.
type graph struct {
	module   string
	packages map[string]Package
	order    []string // paths of packages, sorted
}

func newGraph(module string, packages []Package) *graph {
	g := &graph{module: module, packages: map[string]Package{}}
	for _, p := range packages {
		g.packages[p.Path] = p
		g.order = append(g.order, p.Path)
	}
	slices.Sort(g.order)
	return g
}

// in returns the packages that one of the patterns names.
func (g *graph) in(patterns ...string) []string {
	return slices.DeleteFunc(slices.Clone(g.order), func(p string) bool { return !within(p, patterns...) })
}

// own returns the packages of the module that the files of a package import, test files apart.
func (g *graph) own(from string) []string {
	var to []string
	for _, path := range g.packages[from].Imports {
		if rel, ok := g.relative(path); ok {
			to = append(to, rel)
		}
	}
	return to
}

// others returns the imports among paths that are neither the module's nor the standard library's.
func (g *graph) others(paths []string) []string {
	var to []string
	for _, path := range paths {
		if _, ok := g.relative(path); !ok && !standard(path) {
			to = append(to, path)
		}
	}
	return to
}

// reached returns, for every package of the module that from reaches by imports, the shortest chain there.
func (g *graph) reached(from string) []Chain {
	var chains []Chain
	seen := map[string]bool{from: true}
	for queue := []Chain{{from}}; len(queue) > 0; queue = queue[1:] {
		for _, to := range g.own(queue[0].end()) {
			if !seen[to] {
				seen[to] = true
				c := queue[0].to(to)
				chains = append(chains, c)
				queue = append(queue, c)
			}
		}
	}
	return chains
}

// reaching returns the chains from the given packages to the first package that one of the patterns names.
func (g *graph) reaching(from []string, patterns ...string) (chains []Chain) {
	for _, f := range from {
		for _, c := range g.reached(f) {
			before := c[:len(c)-1]
			if within(c.end(), patterns...) && !before.passes(func(p string) bool {
				return within(p, patterns...) || slices.Contains(from, p)
			}) {
				chains = append(chains, c)
			}
		}
	}
	return chains
}

// relative returns a package's path in the module, and whether it is of the module.
func (g *graph) relative(path string) (string, bool) {
	if path == g.module {
		return ".", true
	}
	return strings.CutPrefix(path, g.module+"/")
}

// standard reports whether an import path is the standard library's: no other has a first element without a dot.
// cgo's "C" is not: it links whatever the machine has.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".") && path != "C"
}

// below reports whether an import path is prefix or below it.
func below(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// within reports whether one of the patterns names a package of the module. As with the go command "a/..." is a and
// all below it, and "..." is all.
func within(path string, patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		prefix, tree := strings.CutSuffix(pattern, "...")
		if !tree {
			return path == pattern
		}
		return prefix == "" || below(path, strings.TrimSuffix(prefix, "/"))
	})
}

package imports

import (
	"fmt"
	"slices"
	"strings"
)

// Chain is a series of imports: each package imports the next.
type Chain []string

func (c Chain) end() string { return c[len(c)-1] }

// to returns the chain one import longer; c stays as it is.
func (c Chain) to(next string) Chain { return append(slices.Clone(c), next) }

// passes reports whether the chain goes through such a package behind its start, which then is told of itself.
func (c Chain) passes(such func(string) bool) bool { return slices.ContainsFunc(c[1:], such) }

func (c Chain) String() string { return strings.Join(c, " -> ") }

// Rule is one thing that imports must keep to. Imports of test files count only where its breaks function looks at
// them.
type Rule struct {
	Name   string
	Why    string
	breaks func(*graph) []Chain
}

// Violation is a chain of imports that breaks a rule.
type Violation struct {
	Rule  Rule
	Chain Chain
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s (%s)", v.Rule.Name, v.Chain, v.Rule.Why)
}

// Check applies every rule to the packages of a module and returns what breaks one, in the order of [Rules].
func Check(module string, packages []Package) []Violation {
	g := newGraph(module, packages)
	var violations []Violation
	for _, rule := range Rules {
		for _, c := range rule.breaks(g) {
			violations = append(violations, Violation{rule, c})
		}
	}
	return violations
}

// Rules are all rules.
var Rules = []Rule{
	{"attempt stands alone",
		"attempt and money import nothing of the others: only attempt imports money, and both may import internal packages that import nothing of the module",
		attemptStandsAlone},
	{"stores know attempt only",
		"a store loads, applies and writes; it reaches nothing that sends, asks or shows",
		storesKnowAttemptOnly},
	{"client and reconciler meet in attempt",
		"payclient and reconcile do not reach each other",
		clientAndReconcilerMeetInAttempt},
	{"the fake is independent",
		"the fake provider shares no code with what it judges",
		fakeIsIndependent},
	{"the fake stays in tests",
		"of what a host links, only paytest and providertest reach the fake provider",
		fakeStaysInTests},
	{"the core is small",
		"it and what it reaches need the standard library and " + strings.Join(coreDependencies, ", "),
		coreIsSmall},
	{"dependencies are known",
		"a dependency is defended in docs/adr and has its line in Dependencies",
		dependenciesAreKnown},
	{"dependencies stay in place",
		"its line in Dependencies says which packages may import it besides test files",
		dependenciesStayInPlace},
	{"the CLI's libraries stay in the CLI",
		"an internal package that imports one is reached from cmd only",
		cliStaysInCmd},
	{"no failsafehttp",
		"the payment path retries by its own rule only, and a test of another rule proves nothing about it",
		noFailsafehttp},
}

func attemptStandsAlone(g *graph) (broken []Chain) {
	for _, from := range []string{"attempt", "money"} {
		for _, to := range g.own(from) {
			leaf := within(to, "internal/...") && len(g.own(to)) == 0
			if !leaf && (from != "attempt" || to != "money") {
				broken = append(broken, Chain{from, to})
			}
		}
	}
	return broken
}

func storesKnowAttemptOnly(g *graph) []Chain {
	return g.reaching(g.in("attempt/..."), "payclient/...", "reconcile/...", "fakeprovider/...", "console/...", "cmd/...")
}

func clientAndReconcilerMeetInAttempt(g *graph) []Chain {
	return append(g.reaching(g.in("payclient/..."), "reconcile/..."), g.reaching(g.in("reconcile/..."), "payclient/...")...)
}

func fakeIsIndependent(g *graph) (broken []Chain) {
	for _, from := range g.in("fakeprovider/...") {
		for _, to := range g.own(from) {
			if !within(to, "fakeprovider/...") {
				broken = append(broken, Chain{from, to})
			}
		}
	}
	return broken
}

func fakeStaysInTests(g *graph) []Chain {
	linked := g.in("money/...", "attempt/...", "payclient/...", "reconcile/...", "events/...", "console/...")
	forTests := func(p string) bool { return within(p, "payclient/paytest/...", "payclient/providertest/...") }
	return g.reaching(slices.DeleteFunc(linked, forTests), "fakeprovider/...")
}

func coreIsSmall(g *graph) (broken []Chain) {
	core := g.in("money", "attempt", "payclient", "payclient/standard", "reconcile", "reconcile/webhook", "reconcile/settlement", "events")
	for _, from := range core {
		for _, c := range append(g.reached(from), Chain{from}) {
			if c.passes(func(p string) bool { return slices.Contains(core, p) }) {
				continue
			}
			for _, to := range g.others(g.packages[c.end()].Imports) {
				if !slices.ContainsFunc(coreDependencies, func(d string) bool { return below(to, d) }) {
					broken = append(broken, c.to(to))
				}
			}
		}
	}
	return broken
}

func dependenciesAreKnown(g *graph) (broken []Chain) {
	for _, from := range g.order {
		p := g.packages[from]
		for _, to := range g.others(slices.Concat(p.Imports, p.TestImports)) {
			if dependency(to) == nil {
				broken = append(broken, Chain{from, to})
			}
		}
	}
	return broken
}

func dependenciesStayInPlace(g *graph) (broken []Chain) {
	for _, from := range g.order {
		for _, to := range g.others(g.packages[from].Imports) {
			if d := dependency(to); d != nil && !within(from, d.In...) {
				broken = append(broken, Chain{from, to})
			}
		}
	}
	return broken
}

func cliStaysInCmd(g *graph) (broken []Chain) {
	for _, from := range g.order {
		if within(from, "cmd/...", "internal/...") {
			continue
		}
		for _, c := range g.reached(from) {
			for _, to := range g.others(g.packages[c.end()].Imports) {
				if d := dependency(to); d != nil && slices.Equal(d.In, cli) {
					broken = append(broken, c.to(to))
				}
			}
		}
	}
	return broken
}

// failsafehttp retries nearly every error of a POST, key or no key, and leaves the responses of retried sends open
// (failsafe-go v0.9.8, failsafehttp/policy.go).
const failsafehttp = "github.com/failsafe-go/failsafe-go/failsafehttp"

func noFailsafehttp(g *graph) (broken []Chain) {
	for _, from := range g.order {
		p := g.packages[from]
		for _, to := range slices.Concat(p.Imports, p.TestImports) {
			if below(to, failsafehttp) {
				broken = append(broken, Chain{from, to})
			}
		}
	}
	return broken
}

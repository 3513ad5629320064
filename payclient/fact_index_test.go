package payclient_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// The facts about Go and failsafe-go that the payment path is built around have numbers: F01 to F99 are of net, net/http, crypto/tls
// and encoding/json of Go 1.26, S01 to S29 of failsafe-go v0.9.8. A test that has a fact's number in its name or in what is said
// of it, or above one of its cases, turns red when a release does otherwise.

// unasserted are the facts that no test here holds, and why.
var unasserted = map[string]string{
	"S01": ofFailsafehttp,
	"S02": ofFailsafehttp,
	"S03": ofFailsafehttp,
	"S04": ofFailsafehttp,
	"S05": ofFailsafehttp,
	"S06": ofFailsafehttp,
	"S07": ofFailsafehttp,
	"S10": ofFailsafehttp,
	"S11": ofFailsafehttp,
	"S13": ofFailsafehttp,
	"S23": "of the adaptive limiter, which needs a module that nothing else here needs: held beside the benchmarks",
	"S28": "what it costs: measured by the benchmarks, and no promise of anybody",
	"S29": "which bugs older releases had",
}

const ofFailsafehttp = "of failsafehttp, which nothing in this module may import: the benchmarks, which race with it, hold its facts in a module of their own"

// Every fact has its number in a test, or says why not.
func TestEveryFactIsNamed(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, file := range files {
		if file == "fact_index_test.go" || file == "wire_index_test.go" {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		name := func(text string, which func(string) bool) {
			for _, no := range numbers(text) {
				named[no] = named[no] || which(no)
			}
		}
		every := func(string) bool { return true }
		// In the name of a test and what is said of it, or, of Go, in what is said of a case or in its name.
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				name(n.Name.Name+" "+n.Doc.Text(), every)
			case *ast.BasicLit:
				name(n.Value, every)
			}
			return true
		})
		for _, c := range f.Comments {
			name(c.Text(), func(no string) bool { return no[0] == 'F' })
		}
	}
	var all []string
	for n := 1; n <= 99; n++ {
		all = append(all, fmt.Sprintf("F%02d", n))
	}
	for n := 1; n <= 29; n++ {
		all = append(all, fmt.Sprintf("S%02d", n))
	}
	for _, no := range all {
		if !named[no] && unasserted[no] == "" {
			t.Errorf("%s: no test names it", no)
		}
	}
	for no := range unasserted {
		if !slices.Contains(all, no) {
			t.Errorf("%s is excused, and is no fact", no)
		}
	}
}

var factNumber = regexp.MustCompile(`[FS][0-9]{2}`)

// numbers finds the numbers of facts in a text; TLS12 is none.
func numbers(text string) (list []string) {
	for _, at := range factNumber.FindAllStringIndex(text, -1) {
		before := at[0] > 0 && text[at[0]-1] >= 'A' && text[at[0]-1] <= 'Z'
		after := at[1] < len(text) && text[at[1]] >= '0' && text[at[1]] <= '9'
		if !before && !after {
			list = append(list, text[at[0]:at[1]])
		}
	}
	return list
}

func TestNumbersOfFacts(t *testing.T) {
	for text, want := range map[string][]string{
		"TestGoF01F04Resends": {"F01", "F04"}, "RefusedInTLS13": nil, "(S08)": {"S08"}, "F100": nil, "F9 and UTF16": nil, "F50, F66": {"F50", "F66"},
	} {
		if got := numbers(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

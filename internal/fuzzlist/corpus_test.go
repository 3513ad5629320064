package fuzzlist

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What a corpus is bounded by: enough to be one, and small enough that it is read by whoever looks for why it is there.
const (
	fewestSeeds, mostSeeds = 10, 40
	longestSeed            = 4 << 10
)

// Each target has a corpus in its package's testdata/fuzz, of files that go test reads and runs: in its format, with the target's
// own arguments. Whatever a campaign finds lands beside them, and is kept.
func TestEveryTargetHasACorpus(t *testing.T) {
	takes, err := arguments(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(takes) < 30 {
		t.Fatalf("only %d targets were found: %v", len(takes), takes)
	}
	kept := make(map[string]bool)
	for target, want := range takes {
		at := strings.LastIndexByte(target, '.')
		folder := filepath.Join(root, filepath.FromSlash(target[:at]), "testdata", "fuzz", target[at+1:])
		files, err := os.ReadDir(folder)
		if err != nil || len(files) < fewestSeeds || len(files) > mostSeeds {
			t.Errorf("%s: %d seeds, want %d to %d: %v", target, len(files), fewestSeeds, mostSeeds, err)
		}
		kept[filepath.Clean(folder)] = true
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(folder, file.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := seed(string(text)); err != nil || !slices.Equal(got, want) || len(text) > longestSeed {
				t.Errorf("%s, %s: %d bytes, arguments %v, want %v: %v", target, file.Name(), len(text), got, want, err)
			}
		}
	}
	folders, err := filepath.Glob(filepath.Join(root, "*", "testdata", "fuzz", "*"))
	deeper, errDeeper := filepath.Glob(filepath.Join(root, "*", "*", "testdata", "fuzz", "*"))
	if err != nil || errDeeper != nil || len(folders)+len(deeper) != len(kept) {
		t.Errorf("%d folders of seeds for %d targets: %v %v", len(folders)+len(deeper), len(kept), err, errDeeper)
	}
	for _, folder := range append(folders, deeper...) {
		if !kept[filepath.Clean(folder)] {
			t.Errorf("%s is of no target", folder)
		}
	}
}

// Seeds are run by go test, one by one and by their names.
func TestSeedsAreRun(t *testing.T) {
	files, err := os.ReadDir(filepath.Join(root, "internal", "strictjson", "testdata", "fuzz", "FuzzObject"))
	if err != nil {
		t.Fatal(err)
	}
	run := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run", "^FuzzObject$", "./internal/strictjson")
	run.Dir = root
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, file := range files {
		if !strings.Contains(string(out), "--- PASS: FuzzObject/"+file.Name()+" ") {
			t.Errorf("%s was not run:\n%s", file.Name(), out)
		}
	}
}

// seed reads a file of a corpus as go test does: https://go.dev/doc/security/fuzz#corpus-file-format. It returns the types of the
// arguments.
func seed(text string) (arguments []string, err error) {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[0] != "go test fuzz v1" || len(lines) == 1 {
		return nil, fmt.Errorf("begins with %q", lines[0])
	}
	for _, line := range lines[1:] {
		e, err := parser.ParseExpr(line)
		call, ok := e.(*ast.CallExpr)
		if err != nil || !ok || len(call.Args) != 1 {
			return nil, fmt.Errorf("%q is no value: %w", line, err)
		}
		arguments = append(arguments, types.ExprString(call.Fun))
	}
	return arguments, nil
}

// arguments returns what each fuzz target takes behind its *testing.T. Targets that hand themselves to another package's function
// take what that one's takes.
func arguments(root string) (map[string][]string, error) {
	tests, err := sources(root, true)
	if err != nil {
		return nil, err
	}
	others, err := sources(root, false)
	if err != nil {
		return nil, err
	}
	shared := make(map[string][]string) // by package and name
	for _, s := range others {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Fuzz") {
				shared[s.file.Name.Name+"."+f.Name.Name], _ = fuzzed(f)
			}
		}
	}
	takes := make(map[string][]string)
	for _, s := range tests {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Fuzz") {
				continue
			}
			list, to := fuzzed(f)
			if list == nil {
				list = shared[to]
			}
			if list == nil {
				return nil, fmt.Errorf("%s.%s: what does it take?", s.folder, f.Name.Name)
			}
			takes[s.folder+"."+f.Name.Name] = list
		}
	}
	return takes, nil
}

// fuzzed finds the arguments of the function that a target fuzzes, or the other function that it is handed to.
func fuzzed(target *ast.FuncDecl) (arguments []string, to string) {
	ast.Inspect(target, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || name.Sel.Name != "Fuzz" {
			return true
		}
		to = types.ExprString(name)
		body, ok := call.Args[0].(*ast.FuncLit)
		if !ok {
			return true
		}
		for _, p := range body.Type.Params.List[1:] {
			for range p.Names {
				kind := types.ExprString(p.Type)
				if kind == "uint8" { // as it is written in a corpus
					kind = "byte"
				}
				arguments = append(arguments, kind)
			}
		}
		return false
	})
	return arguments, to
}

// The check sees what go test would refuse, and what is of another target.
func TestSeed(t *testing.T) {
	for text, want := range map[string]string{
		"go test fuzz v1\nstring(\"a\\xff\")\n[]byte(\"b\")\nuint16(7)\nbyte('\\x01')\nbool(true)\n": "[string []byte uint16 byte bool]",
		"go test fuzz v1\nint(-3)":           "[int]",
		"go test fuzz v2\nstring(\"a\")\n":   "",
		"go test fuzz v1\n":                  "",
		"go test fuzz v1\nstring(\"a\n\")\n": "",
		"go test fuzz v1\n\"a\"\n":           "",
		"go test fuzz v1\nstring(\"a\"":      "",
		"":                                   "",
	} {
		got, err := seed(text)
		if (err == nil) != (want != "") || err == nil && fmt.Sprint(got) != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
}

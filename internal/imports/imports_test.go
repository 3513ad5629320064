package imports

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestModuleKeepsTheRules(t *testing.T) {
	module, packages, err := Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	// An empty or foreign tree breaks no rule.
	for _, want := range []string{"money", "attempt", "internal/imports"} {
		if !slices.ContainsFunc(packages, func(p Package) bool { return p.Path == want }) {
			t.Errorf("package %s was not loaded", want)
		}
	}
	for _, v := range Check(module, packages) {
		t.Error(v)
	}
}

// lawful is a module as it should be, with every kind of import that the rules allow.
var lawful = map[string][]string{
	"money":                  {"errors", "strconv", "m/internal/digits"},
	"attempt":                {"context", "database/sql", "m/money", "m/internal/digits", "github.com/google/uuid", "github.com/go-json-experiment/json/jsontext"},
	"attempt/sqlite":         {"m/attempt", "m/internal/sqlstore", "modernc.org/sqlite", "golang.org/x/sys/unix"},
	"attempt/postgres":       {"m/attempt", "m/internal/sqlstore", "github.com/jackc/pgx/v5/pgxpool"},
	"attempt/storetest":      {"m/attempt", "testing", "pgregory.net/rapid"},
	"payclient":              {"net/http", "m/attempt", "m/money", "m/internal/wire", "github.com/failsafe-go/failsafe-go/retrypolicy"},
	"payclient/standard":     {"m/payclient", "m/money", "github.com/go-json-experiment/json"},
	"payclient/stripe":       {"m/payclient", "m/payclient/standard"},
	"payclient/paytest":      {"m/payclient", "m/attempt", "m/fakeprovider"},
	"payclient/providertest": {"m/payclient", "m/fakeprovider", "pgregory.net/rapid"},
	"reconcile":              {"m/attempt", "m/money", "m/internal/wire"},
	"reconcile/settlement":   {"m/reconcile", "encoding/csv"},
	"fakeprovider":           {"net/http", "m/fakeprovider/ledger", "github.com/jarcoal/httpmock"},
	"fakeprovider/ledger":    {"sync"},
	"console":                {"m/attempt", "m/reconcile", "m/payclient"},
	"cmd/chargeonce":         {"m/internal/flags", "m/payclient", "m/reconcile", "m/fakeprovider", "m/attempt/sqlite", "github.com/spf13/cobra", "golang.org/x/term"},
	"examples/checkout":      {"m/payclient", "m/payclient/paytest", "m/attempt/postgres", "github.com/jackc/pgx/v5"},
	"internal/digits":        {"strings"},
	"internal/wire":          {"m/attempt"},
	"internal/sqlstore":      {"m/attempt"},
	"internal/flags":         {"m/internal/settings", "github.com/spf13/pflag"},
	"internal/settings":      {"github.com/BurntSushi/toml"},
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name string
		from string // this package gets one import more
		to   string
		test bool // in a test file
		want []string
	}{
		{"as it should be", "money", "strings", false, nil},

		{"money imports attempt", "money", "m/attempt", false, []string{"attempt stands alone"}},
		{"attempt imports the client", "attempt", "m/payclient", false,
			[]string{"attempt stands alone", "stores know attempt only", "client and reconciler meet in attempt"}},
		{"attempt imports an internal package that does not stand alone", "attempt", "m/internal/wire", false,
			[]string{"attempt stands alone"}},
		{"attempt imports the fake in a test", "attempt", "m/fakeprovider", true, nil},

		{"a store imports the client", "attempt/sqlite", "m/payclient", false, []string{"stores know attempt only"}},
		{"a store's helper imports the reconciler", "internal/sqlstore", "m/reconcile", false, []string{"stores know attempt only"}},
		{"the store suite imports the fake", "attempt/storetest", "m/fakeprovider", false,
			[]string{"stores know attempt only", "the fake stays in tests"}},

		{"the client imports the reconciler", "payclient", "m/reconcile", false, []string{"client and reconciler meet in attempt"}},
		{"the reconciler imports an adapter", "reconcile", "m/payclient/standard", false, []string{"client and reconciler meet in attempt"}},
		{"they meet in an internal package", "internal/wire", "m/reconcile", false, []string{"client and reconciler meet in attempt"}},
		{"an end-to-end test imports both", "reconcile", "m/payclient", true, nil},

		{"the fake imports money", "fakeprovider", "m/money", false, []string{"the fake is independent"}},
		{"below the fake as well", "fakeprovider/ledger", "m/internal/digits", false, []string{"the fake is independent"}},

		{"the client imports the fake", "payclient", "m/fakeprovider", false, []string{"the fake stays in tests", "the core is small"}},
		{"an adapter imports the test kit", "payclient/stripe", "m/payclient/paytest", false, []string{"the fake stays in tests"}},
		{"the console imports the fake", "console", "m/fakeprovider", false, []string{"the fake stays in tests"}},

		{"cgo in the core", "attempt", "C", false, []string{"the core is small", "dependencies are known"}},
		{"the core imports a store", "payclient", "m/attempt/sqlite", false, []string{"the core is small"}},
		{"the core by way of an internal package", "internal/digits", "golang.org/x/sys/cpu", false, []string{"the core is small"}},

		{"an unknown dependency", "console", "example.org/router", false, []string{"dependencies are known"}},
		{"an unknown dependency in a test", "money", "github.com/stretchr/testify/assert", true, []string{"dependencies are known"}},
		{"a prefix is no path", "console", "github.com/google/uuidx", false, []string{"dependencies are known"}},

		{"a driver in the client", "payclient", "modernc.org/sqlite", false, []string{"the core is small", "dependencies stay in place"}},
		{"a driver in the other store", "attempt/sqlite", "github.com/jackc/pgx/v5", false, []string{"dependencies stay in place"}},
		{"a driver in the fake", "fakeprovider/ledger", "modernc.org/sqlite", false, []string{"dependencies stay in place"}},
		{"a driver in the CLI", "cmd/chargeonce", "modernc.org/sqlite", false, []string{"dependencies stay in place"}},
		{"a driver in a test", "cmd/chargeonce", "modernc.org/sqlite", true, nil},
		{"the oracle outside of tests", "money", "github.com/bojanz/currency", false, []string{"the core is small", "dependencies stay in place"}},
		{"the oracle in a test", "money", "github.com/bojanz/currency", true, nil},
		{"cobra in the console", "console", "github.com/spf13/cobra", false, []string{"dependencies stay in place"}},

		{"toml by way of an internal package", "console", "m/internal/flags", false, []string{"the CLI's libraries stay in the CLI"}},
		{"toml by way of an internal package in the core", "reconcile", "m/internal/settings", false,
			[]string{"the core is small", "the CLI's libraries stay in the CLI"}},

		{"failsafehttp", "payclient", "github.com/failsafe-go/failsafe-go/failsafehttp", false, []string{"no failsafehttp"}},
		{"failsafehttp in a test", "payclient", "github.com/failsafe-go/failsafe-go/failsafehttp", true, []string{"no failsafehttp"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var packages []Package
			for path, imports := range lawful {
				p := Package{Path: path, Imports: slices.Clone(imports)}
				if path == tt.from && tt.test {
					p.TestImports = []string{tt.to}
				} else if path == tt.from {
					p.Imports = append(p.Imports, tt.to)
				}
				packages = append(packages, p)
			}
			violations := Check("m", packages)
			var got []string
			for _, v := range violations {
				got = append(got, v.Rule.Name)
			}
			if got = slices.Compact(got); !slices.Equal(got, tt.want) {
				t.Errorf("broken rules: %q, want %q\n%v", got, tt.want, violations)
			}
		})
	}
}

// Each rule must have been seen to fail.
func TestEveryRuleIsTested(t *testing.T) {
	source, err := os.ReadFile("imports_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range Rules {
		if !strings.Contains(string(source), `"`+r.Name+`"`) {
			t.Errorf("no test breaks the rule %q", r.Name)
		}
	}
}

func TestViolationTellsTheChain(t *testing.T) {
	violations := Check("m", []Package{
		{Path: "payclient", Imports: []string{"m/internal/a"}},
		{Path: "internal/a", Imports: []string{"m/internal/b"}},
		{Path: "internal/b", Imports: []string{"modernc.org/sqlite"}},
	})
	const want = "the core is small: payclient -> internal/a -> internal/b -> modernc.org/sqlite ("
	if len(violations) != 2 || !strings.HasPrefix(violations[0].String(), want) {
		t.Errorf("got %v, want %s...", violations, want)
	}
}

func TestLoad(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                 "// the module\nmodule example.test/m // comment\n\ngo 1.26.0\n",
		"m.go":                   "package m\n\nimport \"fmt\"\n",
		"a/a.go":                 "package a\n\nimport (\n\t\"example.test/m\"\n\tx \"example.org/x\"\n)\n",
		"a/a_windows.go":         "package a\n\nimport _ \"example.org/windows\"\n",
		"a/tagged.go":            "//go:build never && !linux\n\npackage a\n\nimport . \"example.org/tagged\"\n",
		"a/gen.go":               "// Header.\n\n//go:build ignore\n\npackage main\n\nimport \"example.org/ignored\"\n",
		"a/a_test.go":            "package a\n\nimport \"example.org/inside\"\n",
		"a/x_test.go":            "package a_test\n\nimport \"example.org/outside\"\n",
		"a/testdata/t.go":        "package t\n\nimport \"example.org/testdata\"\n",
		"a/.hidden/h.go":         "package h\n\nimport \"example.org/hidden\"\n",
		"_b/b.go":                "package b\n\nimport \"example.org/underscore\"\n",
		"vendor/v/v.go":          "package v\n\nimport \"example.org/vendor\"\n",
		"nested/go.mod":          "module example.test/nested\n",
		"nested/n.go":            "package n\n\nimport \"example.org/nested\"\n",
		"onlytests/only_test.go": "package onlytests\n\nimport \"testing\"\n",
		"docs/notes.txt":         "import \"example.org/text\"\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	module, got, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	want := []Package{
		{Path: ".", Imports: []string{"fmt"}},
		{
			Path:        "a",
			Imports:     []string{"example.org/tagged", "example.org/windows", "example.org/x", "example.test/m"},
			TestImports: []string{"example.org/inside", "example.org/outside"},
		},
		{Path: "onlytests", TestImports: []string{"testing"}},
	}
	if module != "example.test/m" || !reflect.DeepEqual(got, want) {
		t.Errorf("module %q\n got %+v\nwant %+v", module, got, want)
	}
}

func TestLoadFails(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no go.mod":      {},
		"no module line": {"go.mod": "go 1.26.0\n"},
		"broken file":    {"go.mod": "module m\n", "a.go": "package a\n\nimport (\n"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, text := range files {
				if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, err := Load(root); err == nil {
				t.Error("no error")
			}
		})
	}
}

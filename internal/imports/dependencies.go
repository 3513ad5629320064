package imports

// Dependency is a module of others, and where this module's packages may import it.
type Dependency struct {
	Path string   // import path; all below it is meant too
	In   []string // packages that may import it, as patterns relative to the module; every test file may
}

// Dependencies are all that the module may import besides the standard library and itself. The defence of each is in
// docs/adr.
var Dependencies = []Dependency{
	{"github.com/failsafe-go/failsafe-go", []string{"..."}},
	{"github.com/google/uuid", []string{"..."}},
	{"github.com/go-json-experiment/json", []string{"..."}},

	// A driver is the affair of its store. An example is a host, and a host has a driver of its own.
	{"modernc.org/sqlite", []string{"attempt/sqlite/...", "examples/..."}},
	{"github.com/jackc/pgx/v5", []string{"attempt/postgres/...", "examples/..."}},
	{"golang.org/x/sys", []string{"attempt/sqlite/...", "cmd/...", "internal/..."}},

	{"github.com/spf13/cobra", cli},
	{"github.com/spf13/pflag", cli},
	{"github.com/BurntSushi/toml", cli},
	{"golang.org/x/term", cli},

	{"github.com/jarcoal/httpmock", []string{"fakeprovider/...", "internal/..."}},
	{"github.com/rogpeppe/go-internal", []string{"internal/..."}},
	{"pgregory.net/rapid", []string{"attempt/storetest", "payclient/providertest", "internal/..."}},
	{"github.com/bojanz/currency", nil}, // an oracle for tests
}

// cli is the place of the CLI's libraries.
var cli = []string{"cmd/...", "internal/..."}

// coreDependencies are those that every host links.
var coreDependencies = []string{
	"github.com/failsafe-go/failsafe-go",
	"github.com/google/uuid",
	"github.com/go-json-experiment/json",
}

// dependency returns the line of Dependencies for an import path, nil if there is none.
func dependency(path string) *Dependency {
	for i, d := range Dependencies {
		if below(path, d.Path) {
			return &Dependencies[i]
		}
	}
	return nil
}

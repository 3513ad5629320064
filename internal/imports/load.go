package imports

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Package is one package of the module and what its files import.
type Package struct {
	Path        string   // relative to the module's root, "." for the root itself
	Imports     []string // import paths of its files, sorted
	TestImports []string // the same of its _test.go files
}

// Load reads the packages of the module at root from their files, whatever the
// build constraints on them: a rule must hold on every platform. Left out are
// nested modules, testdata, vendor, folders that begin with "." or "_", and
// files with the constraint "ignore". It returns the module's path as go.mod
// says it.
func Load(root string) (module string, packages []Package, err error) {
	module, err = modulePath(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", nil, err
	}
	imports := map[string]*[2]map[string]bool{} // folder: imports of files, of test files
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return enter(root, name)
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		paths, err := fileImports(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil || paths == nil {
			return err
		}
		dir := path.Dir(name)
		if imports[dir] == nil {
			imports[dir] = &[2]map[string]bool{{}, {}}
		}
		kind := 0
		if strings.HasSuffix(name, "_test.go") {
			kind = 1
		}
		for _, p := range paths {
			imports[dir][kind][p] = true
		}
		return nil
	})
	if err != nil {
		return "", nil, fmt.Errorf("load packages of %s: %w", module, err)
	}
	for _, dir := range slices.Sorted(maps.Keys(imports)) {
		packages = append(packages, Package{
			Path:        dir,
			Imports:     slices.Sorted(maps.Keys(imports[dir][0])),
			TestImports: slices.Sorted(maps.Keys(imports[dir][1])),
		})
	}
	return module, packages, nil
}

// enter tells whether the walk goes into a folder.
func enter(root, name string) error {
	if name == "." {
		return nil
	}
	base := path.Base(name)
	if base == "testdata" || base == "vendor" || base == "node_modules" || base[0] == '.' || base[0] == '_' {
		return fs.SkipDir
	}
	_, err := os.Stat(filepath.Join(root, filepath.FromSlash(name), "go.mod"))
	switch {
	case err == nil:
		return fs.SkipDir // a module of its own
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// fileImports returns the import paths of a Go file, nil for one that belongs to no package.
func fileImports(name string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return nil, err
	}
	if ignored(file) {
		return nil, nil
	}
	paths := []string{}
	for _, spec := range file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		paths = append(paths, p)
	}
	return paths, nil
}

// ignored reports the constraint "ignore", which marks a program that is run by hand, often with libraries that the
// module does not have.
func ignored(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, c := range group.List {
			if c.Pos() > file.Package || !constraint.IsGoBuild(c.Text) {
				continue
			}
			expr, err := constraint.Parse(c.Text)
			if tag, ok := expr.(*constraint.TagExpr); err == nil && ok && tag.Tag == "ignore" {
				return true
			}
		}
	}
	return false
}

func modulePath(gomod string) (string, error) {
	text, err := os.ReadFile(gomod)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "module" {
			return strings.Trim(fields[1], `"`), nil
		}
	}
	return "", fmt.Errorf("%s has no module line", gomod)
}

package fuzzlist

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
)

// reads is how functions are called that read what somebody else wrote.
var reads = regexp.MustCompile(`^(?i:parse|decode|unmarshal|scan)|^[rR]ead[A-Z]`)

// source is a file of the module.
type source struct {
	folder string // slash-separated, from the module's root
	file   *ast.File
}

// sources parses the Go files below the root, tests or others. What only tests use, and other modules, are left off.
func sources(root string, tests bool) (list []source, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path == root {
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		folder = filepath.ToSlash(folder)
		if d.IsDir() {
			switch name := d.Name(); {
			case name == "testdata", strings.HasPrefix(name, "."), strings.HasPrefix(name, "_"):
				return fs.SkipDir
			case folder == "." && (name == "bench" || name == "examples" || name == "scripts" || name == "docs" || name == "river"):
				return fs.SkipDir
			case folder == "internal" && (name == "sim" || name == "soak" || strings.HasSuffix(name, "rig")):
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") != tests {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		list = append(list, source{folder, file})
		return err
	})
	return list, err
}

// readers returns the functions that read what somebody else wrote, as folder.Function or folder.Type.Method.
func readers(root string) ([]string, error) {
	files, err := sources(root, false)
	var names []string
	for _, s := range files {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && reads.MatchString(f.Name.Name) && takesText(f.Type.Params) {
				names = append(names, s.folder+"."+receiver(f)+f.Name.Name)
			}
		}
	}
	return names, err
}

// targets returns the fuzz targets, as folder.FuzzName.
func targets(root string) (map[string]bool, error) {
	files, err := sources(root, true)
	names := make(map[string]bool)
	for _, s := range files {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
				names[s.folder+"."+f.Name.Name] = true
			}
		}
	}
	return names, err
}

func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if name, ok := t.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// takesText tells whether a parameter is text, bytes, a stream or an answer.
func takesText(params *ast.FieldList) bool {
	for _, p := range params.List {
		t := p.Type
		if list, ok := t.(*ast.ArrayType); ok {
			t = list.Elt
		}
		if p, ok := t.(*ast.StarExpr); ok {
			t = p.X
		}
		switch t := t.(type) {
		case *ast.Ident:
			if t.Name == "string" || t.Name == "byte" || t.Name == "Response" {
				return true
			}
		case *ast.SelectorExpr:
			switch t.Sel.Name {
			case "Reader", "Response", "Values", "Value":
				return true
			}
		}
	}
	return false
}

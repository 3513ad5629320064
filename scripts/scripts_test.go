//go:build unix

// Package scripts_test tries the scripts of this folder.
package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The words are put together here, so that the check does not find its own test.
func TestCheckWords(t *testing.T) {
	for _, tt := range []struct {
		name, file, text string
		want             string // the title that the place is reported under, empty: nothing is
	}{
		{"clean Go", "a.go", "package a\n\n// A is fine.\nconst A = 1\n", ""},
		{"registry", "README.md", "set GOPROXY to https://proxy" + ".golang.org\n", "a package registry is named"},
		{"documentation site", "README.md", "see https://pkg.go.dev/net/http\n", ""},
		{"home of a machine", "a.txt", "built in /ro" + "ot/src/x\n", "a path of one machine"},
		{"folder of a machine", "a.txt", "at \"/wo" + "rk/main\"\n", "a path of one machine"},
		{"user's home", "a.txt", "(/ho" + "me/alice/x)\n", "a path of one machine"},
		{"a URL's path", "a.txt", "https://example.test/wo" + "rk/main\n", ""},
		{"a file nobody has", "a.go", "package a\n\n// See de" + "sign.md.\n", "is named, but there is no such file here"},
		{"a file of that name", "docs/design.md", "# de" + "sign.md\n", ""},
		{"marker", "a.go", "package a\n\n// TO" + "DO: later\n", "left-over work"},
		{"marker in a call", "a.go", "package a\n\nvar c = context.TO" + "DO()\n", "left-over work"},
		{"no currency", "a.go", "package a\n\nconst none = \"XX" + "X\"\n", ""},
		{"stub", "a.go", "package a\n\nvar e = errors.New(\"not imple" + "mented\")\n", "left-over work"},
		{"marker outside Go", "a.md", "TO" + "DO\n", ""},
		{"sleep", "a_test.go", "package a\n\n\ttime.Sl" + "eep(time.Second)\n", "a sleep or a skip without a reason"},
		{"sleep, said why", "a_test.go", "package a\n\n\ttime.Sl" + "eep(time.Second) // in the bubble\n", ""},
		{"sleep, said why above", "a_test.go", "package a\n\n\t// Time of the bubble.\n\ttime.Sl" + "eep(time.Second)\n", ""},
		{"sleep, an empty comment", "a_test.go", "package a\n\n\t//\n\ttime.Sl" + "eep(time.Second)\n", "a sleep or a skip without a reason"},
		{"sleep, a comment too far above", "a_test.go", "package a\n\n\t// Why.\n\tx()\n\ttime.Sl" + "eep(time.Second)\n", "a sleep or a skip without a reason"},
		{"sleep, silenced", "a_test.go", "package a\n\n\ttime.Sl" + "eep(1) //nolint:forbidigo\n", "a sleep or a skip without a reason"},
		{"sleep in a bubble", "a_test.go", "package a\n\nimport \"testing/synctest\"\n\n\ttime.Sl" + "eep(time.Second)\n", ""},
		{"sleep outside tests", "a.go", "package a\n\n\ttime.Sl" + "eep(time.Second)\n", ""},
		{"skip", "a_test.go", "package a\n\n\tt.Sk" + "ip(\"http://x\")\n", "a sleep or a skip without a reason"},
		{"skip in a bubble", "a_test.go", "package a\n\nimport \"testing/synctest\"\n\n\tt.Sk" + "ip(\"x\")\n", "a sleep or a skip without a reason"},
		{"skip in a suite", "suite.go", "package a\n\n\tt.Sk" + "ipf(\"%d\", 1)\n", "a sleep or a skip without a reason"},
		{"skip, said why", "suite.go", "package a\n\n\tt.Sk" + "ipNow() // a fact of the backend\n", ""},
		{"another Skip", "a.go", "package a\n\n\tdecoder.Sk" + "ip()\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			git := exec.Command("git", "init", "-q", dir)
			git.Env = environment()
			if out, err := git.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", git, err, out)
			}
			path := filepath.Join(dir, tt.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			script, err := filepath.Abs("check-words")
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(script)
			cmd.Dir = dir
			cmd.Env = environment()
			out, err := cmd.CombinedOutput()
			if (err == nil) != (tt.want == "") {
				t.Errorf("ended with %v, want a report: %v\n%s", err, tt.want != "", out)
			}
			if !strings.Contains(string(out), tt.want) || tt.want != "" && !strings.Contains(string(out), tt.file+":") {
				t.Errorf("reported %q, want %q with a place in %s", out, tt.want, tt.file)
			}
		})
	}
}

// environment is this process's without what a git hook sets: GIT_DIR would lead to another repository.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
}

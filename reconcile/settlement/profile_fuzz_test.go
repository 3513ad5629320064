package settlement

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// FuzzProfile: a profile that is taken keeps its own rules, and is the same when it is written and read again.
func FuzzProfile(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"name":"x","name":"y"}`))
	f.Add([]byte(`{"name":"x","Columns":{}}`))
	f.Add([]byte(`null`))
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, name := range BuiltinNames() {
		p, _ := Builtin(name)
		text, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ParseProfile(text)
		if err != nil {
			return
		}
		if err := p.Validate(); err != nil {
			t.Fatalf("taken, and breaks the rules: %v", err)
		}
		written, err := json.Marshal(p)
		if err != nil {
			t.Fatalf("%+v cannot be written: %v", p, err)
		}
		again, err := ParseProfile(written)
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Fatalf("%s is written as %s, which is %+v, %v", text, written, again, err)
		}
	})
}

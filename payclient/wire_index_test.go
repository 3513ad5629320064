package payclient_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// untested are the numbers of faults that no test here names, and why.
var untested = map[int]string{
	9: "of HTTP/2, which is not spoken: TestWireF08F76HTTP1IsSpoken",
}

// Every fault that HTTP/1.1 can show has its number in a test.
func TestWireEveryFaultIsNamed(t *testing.T) {
	files, err := filepath.Glob("wire_*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	number := regexp.MustCompile(`F[0-9][0-9]`)
	for _, file := range files {
		if file == "wire_index_test.go" {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range number.FindAllString(string(source), -1) {
			named[n] = true
		}
	}
	for n := 1; n <= 75; n++ {
		name := fmt.Sprintf("F%02d", n)
		if _, excused := untested[n]; !named[name] && !excused {
			t.Errorf("%s: no test names it", name)
		}
	}
}

package main

import (
	"regexp"
	"strings"
	"testing"
)

const (
	goodPackage = `{"Action":"start","Package":"m/good"}
{"Action":"run","Package":"m/good","Test":"TestA"}
{"Action":"output","Package":"m/good","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"m/good","Test":"TestA","Output":"    a_test.go:3: said by a test that passes\n"}
{"Action":"output","Package":"m/good","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"m/good","Test":"TestA"}
{"Action":"output","Package":"m/good","Output":"PASS\n"}
{"Action":"output","Package":"m/good","Output":"ok  \tm/good\t0.002s\n"}
{"Action":"pass","Package":"m/good"}
`
	skipPackage = `{"Action":"run","Package":"m/skip","Test":"TestS/sub"}
{"Action":"output","Package":"m/skip","Test":"TestS/sub","Output":"=== RUN   TestS/sub\n"}
{"Action":"output","Package":"m/skip","Test":"TestS/sub","Output":"    s_test.go:9: no database here\n"}
{"Action":"output","Package":"m/skip","Test":"TestS/sub","Output":"--- SKIP: TestS/sub (0.00s)\n"}
{"Action":"skip","Package":"m/skip","Test":"TestS/sub"}
{"Action":"pass","Package":"m/skip","Test":"TestS"}
{"Action":"output","Package":"m/skip","Output":"ok  \tm/skip\t0.002s\n"}
{"Action":"pass","Package":"m/skip"}
`
	failPackage = `{"Action":"run","Package":"m/fail","Test":"TestF"}
{"Action":"output","Package":"m/fail","Test":"TestF","Output":"=== RUN   TestF\n"}
{"Action":"output","Package":"m/fail","Test":"TestF","Output":"    f_test.go:9: two charges\n"}
{"Action":"output","Package":"m/fail","Test":"TestF","Output":"--- FAIL: TestF (0.00s)\n"}
{"Action":"fail","Package":"m/fail","Test":"TestF"}
{"Action":"output","Package":"m/fail","Output":"-test.shuffle 42\n"}
{"Action":"output","Package":"m/fail","Output":"FAIL\tm/fail\t0.002s\n"}
{"Action":"fail","Package":"m/fail"}
`
	panicPackage = `{"Action":"run","Package":"m/panic","Test":"TestP"}
{"Action":"output","Package":"m/panic","Test":"TestP","Output":"panic: ouch\n"}
{"Action":"output","Package":"m/panic","Output":"FAIL\tm/panic\t0.002s\n"}
{"Action":"fail","Package":"m/panic"}
`
	brokenBuild = `{"ImportPath":"m/broken","Action":"build-output","Output":"broken.go:5:1: syntax error\n"}
{"ImportPath":"m/broken","Action":"build-fail"}
`
	noEnd = `{"Action":"run","Package":"m/cut","Test":"TestC"}
{"Action":"output","Package":"m/cut","Test":"TestC","Output":"    c_test.go:9: still here\n"}
`
	noTests = `{"Action":"output","Package":"m/none","Output":"?   \tm/none\t[no test files]\n"}
{"Action":"skip","Package":"m/none"}
`
)

func TestConvert(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   string
		opt  options
		ok   bool
		want string
	}{
		{"passing tests are one line", goodPackage, options{noSkip: true, nonEmpty: true}, true,
			"ok  \tm/good\t0.002s\ntests: 1 passed, 0 failed, 0 skipped\n"},
		{"verbose shows all", goodPackage, options{verbose: true}, true,
			"=== RUN   TestA\n    a_test.go:3: said by a test that passes\n--- PASS: TestA (0.00s)\nPASS\n" +
				"ok  \tm/good\t0.002s\ntests: 1 passed, 0 failed, 0 skipped\n"},
		{"a skip is named", skipPackage, options{}, true,
			"ok  \tm/skip\t0.002s\nskipped:\n  m/skip TestS/sub: s_test.go:9: no database here\n" +
				"tests: 1 passed, 0 failed, 1 skipped\n"},
		{"a skip fails where nothing may skip", skipPackage, options{noSkip: true}, false,
			"ok  \tm/skip\t0.002s\nskipped:\n  m/skip TestS/sub: s_test.go:9: no database here\n" +
				"tests: 1 passed, 0 failed, 1 skipped\nFAIL: 1 skipped where nothing may skip\n"},
		{"a forgiven skip", skipPackage, options{noSkip: true, maySkip: regexp.MustCompile("no database")}, true,
			"ok  \tm/skip\t0.002s\nskipped:\n  m/skip TestS/sub: s_test.go:9: no database here\n" +
				"tests: 1 passed, 0 failed, 1 skipped\n"},
		{"an unforgiven skip", skipPackage, options{noSkip: true, maySkip: regexp.MustCompile("short")}, false,
			"ok  \tm/skip\t0.002s\nskipped:\n  m/skip TestS/sub: s_test.go:9: no database here\n" +
				"tests: 1 passed, 0 failed, 1 skipped\nFAIL: 1 skipped where nothing may skip\n"},
		{"a failure shows what the test said and the shuffle", failPackage, options{}, false,
			"    f_test.go:9: two charges\n--- FAIL: TestF (0.00s)\n-test.shuffle 42\nFAIL\tm/fail\t0.002s\n" +
				"tests: 0 passed, 1 failed, 0 skipped\n"},
		{"a panic has no end of its test", panicPackage, options{}, false,
			"panic: ouch\nFAIL\tm/panic\t0.002s\ntests: 0 passed, 0 failed, 0 skipped\n"},
		{"a build failure", brokenBuild + goodPackage, options{}, false,
			"broken.go:5:1: syntax error\nok  \tm/good\t0.002s\ntests: 1 passed, 0 failed, 0 skipped\n"},
		{"a run that was killed", goodPackage + noEnd, options{}, false,
			"ok  \tm/good\t0.002s\n    c_test.go:9: still here\nFAIL\tm/cut\tdid not end\n" +
				"tests: 1 passed, 0 failed, 0 skipped\n"},
		{"no test files", noTests, options{noSkip: true}, true,
			"?   \tm/none\t[no test files]\ntests: 0 passed, 0 failed, 0 skipped\n"},
		{"no test ran", noTests, options{nonEmpty: true}, false,
			"?   \tm/none\t[no test files]\ntests: 0 passed, 0 failed, 0 skipped\nFAIL: no test ran\n"},
		{"nothing at all", "", options{nonEmpty: true}, false,
			"tests: 0 passed, 0 failed, 0 skipped\nFAIL: no test ran\n"},
		{"plain text goes through", "go: a word of its own\n" + goodPackage, options{}, true,
			"go: a word of its own\nok  \tm/good\t0.002s\ntests: 1 passed, 0 failed, 0 skipped\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			ok, err := convert(strings.NewReader(tt.in), &out, tt.opt)
			if err != nil {
				t.Fatal(err)
			}
			if ok != tt.ok || out.String() != tt.want {
				t.Errorf("passed = %v, want %v\n got: %q\nwant: %q", ok, tt.ok, out.String(), tt.want)
			}
		})
	}
}

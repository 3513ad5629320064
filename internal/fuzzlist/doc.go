// Package fuzzlist keeps the list of everything that reads text or bytes which somebody else wrote, and of the fuzz target that
// each is tried by. Its test finds such functions by name and signature, so that a new one without a target fails; so does a target
// without a corpus in its package's testdata/fuzz, whose files every go test runs.
//
//	go test -run '^$' -fuzz '^FuzzAnswer$' -fuzztime 1m ./payclient    from the corpus on
package fuzzlist

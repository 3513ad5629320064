package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func TestForeignTextCannotDriveATerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                 "plain",
		"ünïcödé ₺ 日本":          "ünïcödé ₺ 日本",
		"\x1b[2J":               `\u001b[2J`,
		"a\u009bb":              `a\u009bb`, // CSI in one character
		"\u202egnp":             `\u202egnp`,
		"line\nline":            `line\u000aline`,
		"bell\a\x7f":            `bell\u0007\u007f`,
		"\U000e0041":            `\udb40\udc41`, // a tag character, as JSON writes it
		"bad \xff":              "bad \uFFFD",
		"separator\u2028\u2029": `separator\u2028\u2029`,
	} {
		if got := cleanField(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := cleanLines("a\nb\x1b"); got != "a\nb\\u001b" {
		t.Errorf("lines: got %q", got)
	}
}

// What is cleaned has nothing left that drives a terminal, and in JSON it still means the same.
func FuzzClean(f *testing.F) {
	for _, text := range []string{"", "\x1b]0;x\a", "\u202e\u2066", "\xff\xfe", "\U000e0001 <&>"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got := cleanField(text); strings.ContainsFunc(got, func(r rune) bool { return unicode.Is(unicode.C, r) && unsafeRune(r) }) {
			t.Errorf("%q: %q", text, got)
		}
		encoded, err := encode(text)
		if err != nil {
			t.Fatal(err)
		}
		var decoded string
		if err := json.Unmarshal(encoded, &decoded); err != nil || decoded != string([]rune(text)) {
			t.Errorf("%q: encoded %q, decoded %q, %v", text, encoded, decoded, err)
		}
	})
}

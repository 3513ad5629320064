package main

import (
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

func terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) } //nolint:gosec // file descriptors are small

// widthOf returns a function that tells how wide a terminal is, 0 where that is not known.
func widthOf(stream any) func() int {
	return func() int {
		f, ok := stream.(*os.File)
		if !ok {
			return 0
		}
		width, _, err := term.GetSize(int(f.Fd())) //nolint:gosec // file descriptors are small
		if err != nil {
			return 0
		}
		return width
	}
}

// isTerminal tells whether a stream is one.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && terminal(f)
}

// oneStream tells whether what is written to two streams is read in one place: one terminal, one file, one pipe.
func oneStream(a, b any) bool {
	f, ok := a.(*os.File)
	g, also := b.(*os.File)
	if !ok || !also {
		return false
	}
	if terminal(f) && terminal(g) {
		return true
	}
	one, err := f.Stat()
	if err != nil {
		return false
	}
	other, err := g.Stat()
	return err == nil && os.SameFile(one, other)
}

// cleanLines makes foreign text fit for a terminal: what could move the cursor, set colours, retitle a window or turn the
// direction of writing is written as an escape. Line ends stay.
func cleanLines(text string) string { return clean(text, true) }

// cleanField is cleanLines for text that must stay on its line.
func cleanField(text string) string { return clean(text, false) }

func clean(text string, lines bool) string {
	plain := true
	for _, r := range text {
		if r == utf8.RuneError || unsafeRune(r) {
			plain = false
			break
		}
	}
	if plain {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case lines && r == '\n':
			b.WriteRune(r)
		case unsafeRune(r):
			b.WriteString(escapeRune(r))
		default:
			b.WriteRune(r) // invalid UTF-8 becomes the replacement character
		}
	}
	return b.String()
}

// unsafeRune tells whether a terminal may do something else with r than to show it: control characters, format characters
// (those that turn the direction of writing among them), and line and paragraph separators.
func unsafeRune(r rune) bool {
	return unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r)
}

// escapeRune writes a rune as JSON does, which is also what a person can read: \u001b.
func escapeRune(r rune) string {
	const hex = "0123456789abcdef"
	if r > 0xffff {
		r -= 0x10000
		return escapeRune(0xd800+(r>>10)) + escapeRune(0xdc00+(r&0x3ff))
	}
	return `\u` + string([]byte{hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15]})
}

// cleanJSON escapes in encoded JSON what is unsafe on a terminal. In valid JSON such runes stand in texts only, where the
// escape means the same.
func cleanJSON(encoded []byte) []byte {
	text := string(encoded)
	if cleaned := cleanLines(text); cleaned != text {
		return []byte(cleaned)
	}
	return encoded
}

package main

import (
	"os"
	"strings"
	"testing"
)

// Every command that the README shows is one that this program takes, with its flags and arguments.
func TestTheReadmesCommandsAreTaken(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(string(readme)) {
		words := shellWords(line)
		if len(words) < 2 || words[0] != "chargeonce" {
			continue
		}
		seen++
		cmd, rest, err := (&app{}).root().Find(words[1:])
		if err == nil {
			err = cmd.ParseFlags(rest)
		}
		if err == nil {
			err = cmd.ValidateArgs(cmd.Flags().Args())
		}
		if err != nil {
			t.Errorf("%s\n%v", strings.TrimSpace(line), err)
		}
	}
	if seen < 10 {
		t.Errorf("%d commands in the README", seen)
	}
}

// shellWords splits a plain command of a shell, up to a comment or a redirection.
func shellWords(line string) (words []string) {
	word, quoted, begun := "", false, false
	for _, c := range strings.TrimSpace(line) + " " {
		switch {
		case c == '"':
			quoted, begun = !quoted, true
		case quoted || c != ' ' && c != '#' && c != '>':
			word, begun = word+string(c), true
		default:
			if begun {
				words = append(words, word)
			}
			if word, begun = "", false; c != ' ' {
				return words
			}
		}
	}
	return words
}

package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// unbegun is the annotation of a command that may send, ask or decide: what it has left undone where it ends before it has begun.
const unbegun = "unbegun"

func leavesUndone(what string) map[string]string { return map[string]string{unbegun: what} }

// begin notes that from here on a command may do what its annotation names. An error before that ends it with nothing done.
func (a *app) begin() {
	if a.begun != nil {
		a.begun.Store(true)
	}
}

// saysUndone finds it where an error says already what was left undone.
var saysUndone = regexp.MustCompile(`\b(nothing|anything|nobody) was (\w+ or )*(sent|asked|decided|cancelled)\b|\bis not cancelled\b`)

// withUndone adds to the text of an error that has ended a command before it has begun anything that nothing of it was done: behind
// a single line, and as a line of its own below several.
func (a *app) withUndone(cmd *cobra.Command, text string) string {
	what, ok := "", cmd != nil
	if ok {
		what, ok = cmd.Annotations[unbegun]
	}
	switch {
	case !ok, a.begun.Load(), saysUndone.MatchString(text):
		return text
	case strings.Contains(text, "\n"):
		return fmt.Sprintf("%s\nchargeonce: %s", text, what)
	}
	return fmt.Sprintf("%s; %s", text, what)
}

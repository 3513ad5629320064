package providertest

import (
	"fmt"
	"strings"
)

// archive is a golden file: words, then sections under lines "-- name --", as in a txtar file.
type archive struct {
	comment  string
	sections []section
}

type section struct {
	name, text string
}

func parseArchive(text string) (archive, error) {
	var a archive
	here := &a.comment
	for len(text) > 0 {
		line := text
		if i := strings.IndexByte(text, '\n'); i >= 0 {
			line = text[:i+1]
		}
		text = text[len(line):]
		name, marks := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "-- ")
		name, closed := strings.CutSuffix(name, " --")
		if !marks || !closed {
			*here += line
			continue
		}
		if _, twice := a.section(name); twice {
			return a, fmt.Errorf("section %q: given twice", name)
		}
		a.sections = append(a.sections, section{name: name})
		here = &a.sections[len(a.sections)-1].text
	}
	if strings.TrimSpace(a.comment) == "" {
		return a, fmt.Errorf("no words before the first section, want a sentence that says what happens")
	}
	return a, nil
}

// section returns a section's text without the line break that ends it.
func (a *archive) section(name string) (text string, ok bool) {
	for _, s := range a.sections {
		if s.name == name {
			return strings.TrimSuffix(s.text, "\n"), true
		}
	}
	return "", false
}

func (a *archive) set(name, text string) {
	text += "\n"
	for i := range a.sections {
		if a.sections[i].name == name {
			a.sections[i].text = text
			return
		}
	}
	a.sections = append(a.sections, section{name, text})
}

func (a *archive) String() string {
	var b strings.Builder
	b.WriteString(a.comment)
	for _, s := range a.sections {
		fmt.Fprintf(&b, "-- %s --\n%s", s.name, s.text)
	}
	return b.String()
}

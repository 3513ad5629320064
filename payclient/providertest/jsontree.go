package providertest

import (
	"bytes"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// value is a JSON value that can be spoilt: numbers stay as they were written, names may be given twice.
type value struct {
	kind    jsontext.Kind
	scalar  string // as written, quotes included; of an object or array: empty
	members []member
	items   []*value
}

type member struct {
	name  string
	value *value
}

// parseJSON reads a body that is one JSON value; nil if it is not.
func parseJSON(body []byte) *value {
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := readValue(d)
	if err != nil {
		return nil
	}
	if _, err := d.ReadToken(); err != io.EOF { //nolint:errorlint // the decoder returns it bare
		return nil
	}
	return v
}

func readValue(d *jsontext.Decoder) (*value, error) {
	v := &value{kind: d.PeekKind()}
	if v.kind != '{' && v.kind != '[' {
		raw, err := d.ReadValue()
		v.scalar = string(raw)
		return v, err
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		name := ""
		if v.kind == '{' {
			token, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			name = token.String()
		}
		inner, err := readValue(d)
		if err != nil {
			return nil, err
		}
		if v.kind == '{' {
			v.members = append(v.members, member{name, inner})
		} else {
			v.items = append(v.items, inner)
		}
	}
	_, err := d.ReadToken()
	return v, err
}

// text writes the value without spaces.
func (v *value) text() []byte { return v.appendTo(nil) }

func (v *value) appendTo(b []byte) []byte {
	switch v.kind {
	case '{':
		b = append(b, '{')
		for i, m := range v.members {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendQuoted(b, m.name), ':')
			b = m.value.appendTo(b)
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		for i, item := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendTo(b)
		}
		return append(b, ']')
	}
	return append(b, v.scalar...)
}

func appendQuoted(b []byte, text string) []byte {
	out, _ := jsontext.AppendQuote(b, text) // invalid UTF-8 is replaced, which is as good a name as another
	return out
}

// plain returns a string's text, or a scalar as it is written.
func (v *value) plain() string {
	if v.kind == '"' {
		if text, err := jsontext.AppendUnquote(nil, v.scalar); err == nil {
			return string(text)
		}
	}
	return v.scalar
}

// place is one member of one object in a value.
type place struct {
	root, object *value
	index        int
	path         string
	top          bool // a member of the value itself
}

// places returns every member of every object.
func (v *value) places() []place { return v.placesIn(v, "", nil) }

func (v *value) placesIn(root *value, path string, all []place) []place {
	for i, m := range v.members {
		here := path + "/" + m.name
		all = append(all, place{root, v, i, here, root == v})
		all = m.value.placesIn(root, here, all)
	}
	for i, item := range v.items {
		all = item.placesIn(root, fmt.Sprintf("%s/%d", path, i), all)
	}
	return all
}

func (p place) name() string { return p.object.members[p.index].name }
func (p place) now() *value  { return p.object.members[p.index].value }

// with returns the whole text as it is with other members in the place's object.
func (p place) with(members ...member) []byte {
	kept := p.object.members
	p.object.members = members
	text := p.root.text()
	p.object.members = kept
	return text
}

// renamed, replaced, removed and joined return the whole text with one change.
func (p place) renamed(name string) []byte {
	m := cloneMembers(p.object.members)
	m[p.index].name = name
	return p.with(m...)
}

func (p place) replaced(raw string) []byte {
	m := cloneMembers(p.object.members)
	m[p.index].value = rawValue(raw)
	return p.with(m...)
}

func (p place) removed() []byte {
	m := cloneMembers(p.object.members)
	return p.with(append(m[:p.index], m[p.index+1:]...)...)
}

// joined puts one more member before the object's others, or after them.
func (p place) joined(name, raw string, first bool) []byte {
	extra := member{name, rawValue(raw)}
	if first {
		return p.with(append([]member{extra}, p.object.members...)...)
	}
	return p.with(append(cloneMembers(p.object.members), extra)...)
}

func rawValue(raw string) *value { return &value{kind: 'x', scalar: raw} } // written as it is

func cloneMembers(m []member) []member { return append([]member(nil), m...) }

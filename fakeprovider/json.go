package fakeprovider

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// member is one name and value of a JSON object, as written.
type member struct {
	name string
	raw  []byte
}

// scanObject reads b as exactly one JSON object: no duplicate names at any
// depth, nothing after it but white space, valid UTF-8, at most 32 levels.
func scanObject(b []byte) ([]member, error) {
	if !utf8.Valid(b) {
		return nil, errors.New("not valid UTF-8")
	}
	s := scanner{b: b}
	s.space()
	if s.i >= len(b) || b[s.i] != '{' {
		return nil, errors.New("not a JSON object")
	}
	members, err := s.object(0)
	if err != nil {
		return nil, err
	}
	s.space()
	if s.i != len(b) {
		return nil, fmt.Errorf("data after the object at byte %d", s.i)
	}
	return members, nil
}

// scanArray returns the elements of a JSON array that is already known to be
// valid.
func scanArray(b []byte) ([][]byte, error) {
	s := scanner{b: b}
	s.space()
	if s.i >= len(b) || b[s.i] != '[' {
		return nil, errors.New("not a JSON array")
	}
	var list [][]byte
	err := s.array(0, func(raw []byte) { list = append(list, raw) })
	return list, err
}

type scanner struct {
	b []byte
	i int
}

var errJSON = errors.New("malformed JSON")

func (s *scanner) space() {
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) eat(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) object(depth int) ([]member, error) {
	if depth > 32 {
		return nil, errors.New("nested too deeply")
	}
	s.i++ // the brace
	members := make([]member, 0, 5)
	if s.eat('}') {
		return members, nil
	}
	for {
		s.space()
		raw, err := s.str()
		if err != nil {
			return nil, err
		}
		name, err := memberName(raw)
		if err != nil {
			return nil, err
		}
		for _, m := range members {
			if m.name == name {
				return nil, fmt.Errorf("duplicate name %q", name)
			}
		}
		if !s.eat(':') {
			return nil, errJSON
		}
		value, err := s.value(depth)
		if err != nil {
			return nil, err
		}
		members = append(members, member{name, value})
		if len(members) > 1000 {
			return nil, errors.New("too many members")
		}
		if s.eat('}') {
			return members, nil
		}
		if !s.eat(',') {
			return nil, errJSON
		}
	}
}

func (s *scanner) array(depth int, each func(raw []byte)) error {
	if depth > 32 {
		return errors.New("nested too deeply")
	}
	s.i++ // the bracket
	if s.eat(']') {
		return nil
	}
	for {
		raw, err := s.value(depth)
		if err != nil {
			return err
		}
		if each != nil {
			each(raw)
		}
		if s.eat(']') {
			return nil
		}
		if !s.eat(',') {
			return errJSON
		}
	}
}

func (s *scanner) value(depth int) ([]byte, error) {
	s.space()
	if s.i >= len(s.b) {
		return nil, errJSON
	}
	start := s.i
	var err error
	switch s.b[s.i] {
	case '{':
		_, err = s.object(depth + 1)
	case '[':
		err = s.array(depth+1, nil)
	case '"':
		_, err = s.str()
	default:
		for s.i < len(s.b) && !isDelimiter(s.b[s.i]) {
			s.i++
		}
		if !json.Valid(s.b[start:s.i]) {
			err = errJSON
		}
	}
	return s.b[start:s.i], err
}

func isDelimiter(c byte) bool {
	switch c {
	case ',', ']', '}', ' ', '\t', '\r', '\n', ':', '"', '{', '[':
		return true
	}
	return false
}

// str returns a string with its quotes.
func (s *scanner) str() ([]byte, error) {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return nil, errJSON
	}
	start, escaped := s.i, false
	for s.i++; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '\\':
			escaped = true
			s.i++
		case c == '"':
			s.i++
			if raw := s.b[start:s.i]; !escaped || json.Valid(raw) {
				return raw, nil
			}
			return nil, errJSON
		case c < ' ':
			return nil, errJSON
		}
	}
	return nil, errJSON
}

// memberName is unquote for a name; the API's own names need no allocation.
func memberName(raw []byte) (string, error) {
	switch string(raw[1 : len(raw)-1]) {
	case "amount":
		return "amount", nil
	case "currency":
		return "currency", nil
	case "source":
		return "source", nil
	case "merchant_reference":
		return "merchant_reference", nil
	case "description":
		return "description", nil
	case "charge":
		return "charge", nil
	}
	return unquote(raw)
}

// unquote returns the text of a JSON string.
func unquote(raw []byte) (string, error) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", errors.New("not a string")
	}
	inner := raw[1 : len(raw)-1]
	for _, c := range inner {
		if c == '\\' {
			var text string
			err := json.Unmarshal(raw, &text)
			return text, err
		}
	}
	return string(inner), nil
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil { // cannot happen: a string always marshals
				return append(b, `""`...)
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendMembers appends an object of the members.
func appendMembers(b []byte, members []member) []byte {
	b = append(b, '{')
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, m.name)
		b = append(b, ':')
		b = append(b, m.raw...)
	}
	return append(b, '}')
}

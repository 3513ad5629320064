// Package strictjson reads the members of one JSON object so that it cannot mean different things to different readers:
// exact names, none given twice at any depth, valid UTF-8, nothing after the value.
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

type reader struct {
	bytes   bytes.Reader
	decoder *jsontext.Decoder
}

var readers = sync.Pool{New: func() any {
	r := new(reader)
	r.decoder = jsontext.NewDecoder(&r.bytes)
	return r
}}

// Object reads an object. For each of its members that is named in names it calls member with the name's place and the raw
// value, which is valid until member returns. Other members are passed over, unless their name differs from one of names
// in case only: programs disagree about whether such a name counts. An error of member's ends the reading and is returned.
func Object(object []byte, names []string, member func(i int, value jsontext.Value) error) error {
	r, _ := readers.Get().(*reader)
	defer func() {
		r.bytes.Reset(nil)
		readers.Put(r)
	}()
	r.bytes.Reset(object)
	d := r.decoder
	d.Reset(&r.bytes)
	if d.PeekKind() != '{' {
		return errors.New("not a JSON object")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadValue()
		if err != nil {
			return err
		}
		i, err := place(name, names)
		if err != nil {
			return err
		}
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if i < 0 {
			continue
		}
		if err := member(i, value); err != nil {
			return fmt.Errorf("%s: %w", names[i], err)
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	switch _, err := d.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return errors.New("text after the object")
}

// place returns which of the names a raw member name is, -1 for none.
func place(raw jsontext.Value, names []string) (int, error) {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') >= 0 {
		unescaped, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return -1, err
		}
		inner = unescaped
	}
	for i, name := range names {
		if string(inner) == name {
			return i, nil
		}
	}
	for _, name := range names {
		if strings.EqualFold(string(inner), name) {
			return -1, fmt.Errorf("%s: written in another case", name)
		}
	}
	return -1, nil
}

// Array reads an array and calls element with each raw value, which is valid until element returns.
func Array(array jsontext.Value, element func(value jsontext.Value) error) error {
	if array.Kind() != '[' {
		return errors.New("not an array")
	}
	d := jsontext.NewDecoder(bytes.NewReader(array))
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := element(value); err != nil {
			return err
		}
	}
	return nil
}

// IsNull tells whether a value is null.
func IsNull(value jsontext.Value) bool { return value.Kind() == 'n' }

// String reads a string. Of the usual ones it makes no copy.
func String(value jsontext.Value, usual ...string) (string, error) {
	if value.Kind() != '"' {
		return "", errors.New("not a string")
	}
	inner := value[1 : len(value)-1]
	for _, text := range usual {
		if string(inner) == text {
			return text, nil
		}
	}
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	text, err := jsontext.AppendUnquote(nil, value)
	return string(text), err
}

// Int reads a whole number without fraction and exponent: 12, not 12.0 and not 1.2e1.
func Int(value jsontext.Value) (int64, error) {
	if value.Kind() != '0' {
		return 0, errors.New("not a number")
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0, errors.New("not a whole number of 64 bits")
	}
	return n, nil
}

// Bool reads true or false.
func Bool(value jsontext.Value) (bool, error) {
	switch value.Kind() {
	case 't':
		return true, nil
	case 'f':
		return false, nil
	}
	return false, errors.New("not true or false")
}

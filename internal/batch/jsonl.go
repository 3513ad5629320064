package batch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonRow reads the next line that is not blank.
func (r *Reader) jsonRow() (fields, error) {
	for {
		text, tooLong, err := r.physicalLine()
		if err != nil {
			return fields{}, err
		}
		f := fields{line: r.line, lastLine: r.line}
		switch {
		case tooLong:
			f.fail("", fmt.Sprintf("longer than %d bytes", MaxRow))
		case len(bytes.TrimSpace(text)) == 0:
			continue
		default:
			f.readObject(text)
		}
		return f, nil
	}
}

// physicalLine returns the next line, valid until the next call. Of a line longer than MaxRow only that is told.
func (r *Reader) physicalLine() (text []byte, tooLong bool, err error) {
	text, err = r.in.ReadSlice('\n')
	for errors.Is(err, bufio.ErrBufferFull) {
		tooLong = true
		text, err = r.in.ReadSlice('\n')
	}
	if errors.Is(err, io.EOF) && (len(text) > 0 || tooLong) {
		err = nil
	}
	if err == nil {
		r.line++
	}
	return text, tooLong, err
}

func (f *fields) fail(field, reason string) {
	f.problems = append(f.problems, Problem{Field: field, Reason: reason})
}

// readObject reads one JSON object (RFC 8259): exact names, none twice, texts only, nothing behind it. An amount is a text,
// because a number does not say whether it means major or minor units, and because other programs round it.
func (f *fields) readObject(text []byte) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if d.PeekKind() != '{' {
		f.fail("", "not a JSON object")
		return
	}
	if _, err := d.ReadToken(); err != nil {
		f.fail("", jsonReason(err))
		return
	}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			f.fail("", jsonReason(err))
			return
		}
		column := name.String() // the token is valid until the next read
		value, err := d.ReadValue()
		if err != nil {
			f.fail("", jsonReason(err))
			return
		}
		f.readMember(column, value)
	}
	if _, err := d.ReadToken(); err != nil {
		f.fail("", jsonReason(err))
		return
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		f.fail("", "text behind the object")
		return
	}
	for c, name := range columnNames {
		if required(c) && !f.given[c] {
			f.fail(name, "missing")
		}
	}
}

func (f *fields) readMember(name string, value jsontext.Value) {
	c := columnOf(name)
	if c < 0 {
		f.fail("", "unknown field "+quote(name)+didYouMean(name))
		return
	}
	f.given[c] = true
	if value.Kind() != '"' {
		reason := "want a text"
		if c == colAmount {
			reason = `want a text with the amount in major units, "548.90"`
		}
		f.fail(columnNames[c], reason)
		return
	}
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil { // ReadValue has checked it
		f.fail(columnNames[c], jsonReason(err))
		return
	}
	f.value[c] = string(text)
}

// jsonReason says what is wrong with the JSON without quoting the line, which may hold a payment source.
func jsonReason(err error) string {
	var syntactic *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return "a field comes twice"
	case errors.As(err, &syntactic):
		return fmt.Sprintf("not valid JSON at byte %d", syntactic.ByteOffset+1)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the JSON object has no end"
	}
	return "not valid JSON: " + strings.ToValidUTF8(HideCards(err.Error()), "?")
}

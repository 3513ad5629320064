package batch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// csvHeader reads the first row, which names the columns.
func (r *Reader) csvHeader() error {
	raw, err := r.record()
	if errors.Is(err, io.EOF) {
		return &FileError{Line: 1, Problems: []string{"header: missing, the file is empty; want " + wantColumns()}}
	}
	if err != nil {
		return fmt.Errorf("read line 1: %w", err)
	}
	problems := raw.problems
	if slices.ContainsFunc(raw.fields, func(name string) bool { return strings.ContainsRune(name, '\r') }) {
		problems = append(problems, "the lines end with CR alone, want LF or CR LF")
	}
	if len(problems) == 0 {
		r.columns, problems = readHeader(raw.fields)
	} else {
		problems[0] = "header: " + problems[0]
	}
	if len(problems) > 0 {
		return &FileError{Line: raw.line, Problems: problems}
	}
	return nil
}

// csvRow reads the next row that is not empty.
func (r *Reader) csvRow() (fields, error) {
	raw, err := r.record()
	if err != nil {
		return fields{}, err
	}
	f := fields{line: raw.line, lastLine: raw.lastLine}
	for _, p := range raw.problems {
		f.problems = append(f.problems, Problem{Reason: p})
	}
	if len(f.problems) == 0 && len(raw.fields) != len(r.columns) {
		f.problems = append(f.problems, Problem{Reason: fieldsText(len(raw.fields), len(r.columns))})
	}
	if len(f.problems) > 0 {
		// Which field is which is not known for sure.
		return f, nil
	}
	for i, c := range r.columns {
		f.value[c], f.given[c] = raw.fields[i], true
	}
	return f, nil
}

func fieldsText(n, want int) string {
	if n == 1 {
		return fmt.Sprintf("1 field, the header has %d", want)
	}
	return fmt.Sprintf("%d fields, the header has %d", n, want)
}

// record is one record of the file, before anything is known of columns.
type record struct {
	line, lastLine int
	fields         []string
	problems       []string // malformed: the fields cannot be relied on

	state  csvState
	quoted bool // some field stood in quotes
	field  []byte
	size   int // in bytes of the file
}

// csvState is where in a record the reading stands, RFC 4180 section 2.
type csvState uint8

const (
	atField   csvState = iota // before the first byte of a field
	inPlain                   // in a field without quotes
	inQuoted                  // in a field with quotes
	atQuote                   // behind a quote in it: its end, or the first of two
	atQuoteCR                 // behind that, at what may be the first half of a line end
	inJunk                    // behind the end of a field with quotes, where nothing may stand
)

// record reads up to the end of the next record that is not an empty line.
//
// A field in quotes that goes on over a line end is malformed here, but it is read to its end as RFC 4180 has it: what
// stands in it is text, and must never be taken for a row.
func (r *Reader) record() (*record, error) {
	rec := &record{line: r.line + 1}
	for {
		part, err := r.in.ReadSlice('\n')
		text, ended := bytes.CutSuffix(part, []byte{'\n'})
		rec.size += len(part)
		rec.add(text)
		switch {
		case ended:
			r.line++
			if rec.state == inQuoted {
				rec.problem("a field in quotes goes on over the end of the line")
				continue
			}
		case err == nil, errors.Is(err, bufio.ErrBufferFull):
			continue
		case !errors.Is(err, io.EOF):
			return nil, err
		case rec.size == 0:
			return nil, io.EOF
		default:
			if len(part) > 0 {
				r.line++
			}
			if rec.state == inQuoted {
				rec.problem("a field in quotes has no end")
			}
		}
		if rec.end(r.line); !rec.empty() {
			return rec, nil
		}
		*rec = record{line: r.line + 1}
	}
}

// add reads the bytes of one line, or of a part of it.
func (rec *record) add(text []byte) {
	if rec.size > MaxRow {
		rec.problem(fmt.Sprintf("longer than %d bytes", MaxRow))
		rec.fields, rec.field = nil, rec.field[:0]
	}
	for _, c := range text {
		switch rec.state {
		case atField:
			switch c {
			case '"':
				rec.state, rec.quoted = inQuoted, true
			case ',':
				rec.endField()
			default:
				rec.state = inPlain
				rec.put(c)
			}
		case inPlain:
			switch c {
			case ',':
				rec.endField()
			case '"':
				rec.problem("a quote inside a field that does not begin with one")
			default:
				rec.put(c)
			}
		case inQuoted:
			if c == '"' {
				rec.state = atQuote
			} else {
				rec.put(c)
			}
		case atQuote:
			switch c {
			case '"':
				rec.state = inQuoted
				rec.put(c)
			case ',':
				rec.endField()
			case '\r':
				rec.state = atQuoteCR
			default:
				rec.junk()
			}
		case atQuoteCR:
			rec.junk()
		case inJunk:
		}
	}
}

func (rec *record) junk() {
	rec.state = inJunk
	rec.problem("text behind the closing quote of a field")
}

func (rec *record) put(c byte) {
	if c == 0 {
		rec.problem("a NUL byte")
	}
	if len(rec.problems) == 0 {
		rec.field = append(rec.field, c)
	}
}

func (rec *record) endField() {
	if len(rec.problems) == 0 {
		rec.fields = append(rec.fields, string(rec.field))
	}
	rec.field, rec.state = rec.field[:0], atField
}

// end ends the record with its last line; a CR before that line's LF is a part of the line end.
func (rec *record) end(line int) {
	rec.lastLine = line
	if n := len(rec.field); rec.state == inPlain && n > 0 && rec.field[n-1] == '\r' {
		rec.field = rec.field[:n-1]
	}
	rec.endField()
}

// empty tells whether the record is a line with nothing in it.
func (rec *record) empty() bool {
	return len(rec.fields) == 1 && rec.fields[0] == "" && !rec.quoted && len(rec.problems) == 0
}

func (rec *record) problem(text string) {
	if n := len(rec.problems); n == 0 || rec.problems[n-1] != text {
		rec.problems = append(rec.problems, text)
	}
}

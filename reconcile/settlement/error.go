package settlement

import (
	"fmt"
	"strconv"
	"strings"
)

// FileError says why a report is refused whole. Nothing in it counts, lines that were read before included.
type FileError struct {
	File   string
	Line   int // from 1; zero: none in particular
	Reason string
	Err    error // the reader's own; nil: the report is at fault
}

// Error writes file:line: reason.
func (e *FileError) Error() string {
	text := e.Reason
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return position(e.File, e.Line) + text
}

// Unwrap returns the reader's error.
func (e *FileError) Unwrap() error { return e.Err }

// LineError says why one line of a report is refused. The lines around it count.
type LineError struct {
	File     string
	Line     int // of the file, from 1, where the record begins
	Problems []Problem
}

// Problem is one thing wrong with a line.
type Problem struct {
	Column string `json:"column,omitempty"` // by its name; empty: the line as such
	Text   string `json:"text,omitempty"`   // what stands there, quoted, shortened, without long numbers
	Reason string `json:"reason"`
}

// String writes the column, its text and the reason.
func (p Problem) String() string {
	text := p.Reason
	if p.Column != "" {
		text = "column " + strconv.QuoteToASCII(p.Column) + ": " + p.Text + ": " + p.Reason
	}
	return text
}

// Error writes file:line: problems.
func (e *LineError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.String()
	}
	return position(e.File, e.Line) + strings.Join(texts, "; ")
}

func position(file string, line int) string {
	if line == 0 {
		return file + ": "
	}
	return fmt.Sprintf("%s:%d: ", file, line)
}

// quote writes foreign text for a message: short, ASCII, and without a run of digits that could be a card number.
func quote(text []byte) string {
	const limit = 40
	var b []byte
	digits, start := 0, 0
	for _, c := range text {
		switch {
		case '0' <= c && c <= '9':
			if digits == 0 {
				start = len(b)
			}
			digits++
		case digits > 0 && (c == ' ' || c == '-'):
		default:
			digits = 0
		}
		b = append(b, c)
		if digits >= 13 {
			b = append(b[:start], "[long number]"...)
			digits = 13 // what follows belongs to it
			start = len(b) - len("[long number]")
		}
		if len(b) > limit+20 {
			break
		}
	}
	if len(b) > limit {
		b = append(b[:limit], "..."...)
	}
	return strconv.QuoteToASCII(string(b))
}

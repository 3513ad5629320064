package settlement

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// MaxRecord bounds one record, in bytes of UTF-8. A file with a longer one is refused whole: most likely a quotation mark
// was never closed.
const MaxRecord = 1 << 20

// splitter cuts a file into records and those into fields, as RFC 4180 section 2 has it, and counts lines of the file. It is
// encoding/csv with what that does not tell: errors that concern one line only, and no allocation.
type splitter struct {
	in    io.Reader
	buf   []byte
	start int // of what is not yet taken
	end   int
	err   error // of the reader, once all that came before it is taken

	delimiter byte
	quotes    bool
	line      int // lines of the file taken so far

	// The record taken last. The fields stay valid until the next one is taken.
	first   int // the line of the file where it begins
	fields  [][]byte
	problem string // malformed: the fields are not to be relied on
	text    []byte // of fields that stood in quotes
	ends    []int  // of each such field in text
}

func newSplitter(in io.Reader, delimiter byte, quotes bool) *splitter {
	return &splitter{in: in, buf: make([]byte, 64<<10), delimiter: delimiter, quotes: quotes}
}

// fill reads more of the file behind what is not yet taken. It returns false when there is no more.
func (s *splitter) fill() bool {
	if s.err != nil {
		return false
	}
	if s.start > 0 {
		s.end = copy(s.buf, s.buf[s.start:s.end])
		s.start = 0
	}
	if s.end == len(s.buf) {
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
	for range 100 {
		n, err := s.in.Read(s.buf[s.end:])
		s.end += n
		if s.err = err; n > 0 || err != nil {
			return n > 0
		}
	}
	s.err = io.ErrNoProgress
	return false
}

// rawLine takes a line as it stands, without its end, whatever quotes are in it. Its error is io.EOF or a *lineFault.
func (s *splitter) rawLine() ([]byte, error) {
	for from := 0; ; {
		if i := bytes.IndexByte(s.buf[s.start+from:s.end], '\n'); i >= 0 {
			line := s.buf[s.start : s.start+from+i]
			s.start += from + i + 1
			s.line++
			return line, s.check(line, s.line)
		}
		from = s.end - s.start
		if from > MaxRecord {
			return nil, &lineFault{line: s.line + 1, reason: fmt.Sprintf("longer than %d bytes", MaxRecord)}
		}
		if s.fill() {
			continue
		}
		if !errors.Is(s.err, io.EOF) {
			return nil, s.fault()
		}
		if from == 0 {
			return nil, io.EOF
		}
		line := s.buf[s.start:s.end]
		s.start = s.end
		s.line++
		return line, s.check(line, s.line)
	}
}

// lineFault is what makes the whole file unreadable, and where.
type lineFault struct {
	line   int
	reason string
	err    error
}

func (f *lineFault) Error() string { return f.reason }

// fault tells the reader's error at the line where it broke off.
func (s *splitter) fault() error {
	var e *encodingError
	if errors.As(s.err, &e) {
		return &lineFault{line: s.line + 1 + bytes.Count(s.buf[s.start:s.end], []byte{'\n'}), reason: e.reason}
	}
	return &lineFault{line: s.line + 1, reason: "cannot be read", err: s.err}
}

// check looks at bytes that no report may hold.
func (s *splitter) check(text []byte, line int) error {
	switch {
	case len(text) > MaxRecord:
		return &lineFault{line: line, reason: fmt.Sprintf("longer than %d bytes", MaxRecord)}
	case bytes.IndexByte(text, 0) >= 0:
		return &lineFault{line: line, reason: "a NUL byte"}
	case !utf8.Valid(text):
		return &lineFault{line: line, reason: "not valid UTF-8"}
	}
	return nil
}

// next takes the next record that is not an empty line. Its error is io.EOF or a *lineFault.
func (s *splitter) next() error {
	for {
		s.first, s.problem = s.line+1, ""
		line, err := s.rawLine()
		if err != nil {
			return err
		}
		if s.quotes && bytes.IndexByte(line, '"') >= 0 {
			return s.quoted(line)
		}
		if line = withoutCR(line); len(line) == 0 {
			continue
		}
		s.split(line)
		return nil
	}
}

// withoutCR takes away the CR of a line that ends with CR LF.
func withoutCR(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}

// split cuts a line without quotes.
func (s *splitter) split(line []byte) {
	s.fields = s.fields[:0]
	if bytes.IndexByte(line, '\r') >= 0 {
		s.problem = "a CR inside the line"
	}
	for {
		i := bytes.IndexByte(line, s.delimiter)
		if i < 0 {
			s.fields = append(s.fields, line)
			return
		}
		s.fields = append(s.fields, line[:i])
		line = line[i+1:]
	}
}

// quoted reads a record some fields of which stand in quotes, and takes further lines where one of them goes on. Each line
// is read once: what it holds is copied into text.
func (s *splitter) quoted(line []byte) error {
	s.text, s.ends = s.text[:0], s.ends[:0]
	inQuotes := false
	for {
		last := s.line
		i := 0
		for {
			if !inQuotes && i < len(line) && line[i] == '"' {
				inQuotes = true
				i++
			}
			if inQuotes {
				j := bytes.IndexByte(line[i:], '"')
				if j < 0 {
					s.text = append(append(s.text, line[i:]...), '\n')
					break // goes on in the next line
				}
				s.text = append(s.text, line[i:i+j]...)
				if i += j + 1; i < len(line) && line[i] == '"' {
					s.text = append(s.text, '"')
					i++
					continue
				}
				inQuotes = false
				if rest := line[i:]; len(rest) > 0 && rest[0] != s.delimiter && string(rest) != "\r" {
					s.problem = "text behind the closing quote of a field"
					return nil
				}
				if rest := line[i:]; string(rest) == "\r" {
					i++
				}
			} else {
				field := line[i:]
				j := bytes.IndexByte(field, s.delimiter)
				if j >= 0 {
					field = field[:j]
				} else {
					field = withoutCR(field)
				}
				switch {
				case bytes.IndexByte(field, '"') >= 0:
					s.problem = "a quote inside a field that does not begin with one"
					return nil
				case bytes.IndexByte(field, '\r') >= 0:
					s.problem = "a CR inside the line"
				}
				s.text = append(s.text, field...)
				if i += len(field); j < 0 {
					i = len(line)
				}
			}
			s.ends = append(s.ends, len(s.text))
			if i >= len(line) {
				s.cutText()
				return nil
			}
			i++ // the delimiter
		}
		if len(s.text) > MaxRecord {
			return &lineFault{line: s.first, reason: fmt.Sprintf("longer than %d bytes: a quote is never closed?", MaxRecord)}
		}
		var err error
		if line, err = s.rawLine(); errors.Is(err, io.EOF) {
			return &lineFault{line: s.first, reason: fmt.Sprintf("a field in quotes has no end up to line %d, the last", last)}
		} else if err != nil {
			return err
		}
	}
}

// cutText makes the fields of what was copied.
func (s *splitter) cutText() {
	s.fields = s.fields[:0]
	from := 0
	for _, end := range s.ends {
		s.fields = append(s.fields, s.text[from:end])
		from = end
	}
}

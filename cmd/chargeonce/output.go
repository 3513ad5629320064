package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// outputFormat is the form in which results are written to stdout.
type outputFormat string

// JSON is a contract, tables are not.
const (
	outputTable outputFormat = "table"
	outputJSON  outputFormat = "json"  // one array
	outputJSONL outputFormat = "jsonl" // one object per line
)

var outputFormats = []outputFormat{outputTable, outputJSON, outputJSONL}

// column is one column of a table.
type column struct {
	name  string
	width int // at least; a longer text pushes the rest of its line aside
	right bool
}

// writer writes results one by one, none is held back for longer than it takes to write the next. Close ends the output.
type writer struct {
	to      *bufio.Writer
	format  outputFormat
	columns []column
	n       int
	flush   bool // after each result: somebody is watching, or a kill must lose little
}

func newWriter(to io.Writer, format outputFormat, columns ...column) *writer {
	return &writer{to: bufio.NewWriterSize(to, 64<<10), format: format, columns: columns}
}

// add writes one result: as its cells, or as the JSON object.
func (w *writer) add(object any, cells func() []string) error {
	var err error
	switch w.format {
	case outputTable:
		if w.n == 0 {
			names := make([]string, len(w.columns))
			for i, c := range w.columns {
				names[i] = c.name
			}
			err = w.line(names)
		}
		if err == nil {
			err = w.line(cells())
		}
	default:
		var encoded []byte
		if encoded, err = encode(object); err != nil {
			return fmt.Errorf("encode a result: %w", err)
		}
		if w.format == outputJSON {
			before := ",\n"
			if w.n == 0 {
				before = "[\n"
			}
			encoded = append([]byte(before), encoded...)
		} else {
			encoded = append(encoded, '\n')
		}
		_, err = w.to.Write(encoded)
	}
	w.n++
	if err == nil && w.flush {
		err = w.to.Flush()
	}
	return err
}

// line writes the cells of one line of a table.
func (w *writer) line(cells []string) error {
	var b strings.Builder
	for i, text := range cells {
		text = cleanField(text)
		pad := 0
		if i < len(w.columns) {
			pad = w.columns[i].width - utf8.RuneCountInString(text)
		}
		last := i == len(cells)-1
		switch {
		case i < len(w.columns) && w.columns[i].right && pad > 0:
			b.WriteString(strings.Repeat(" ", pad))
			b.WriteString(text)
		case pad > 0 && !last:
			b.WriteString(text)
			b.WriteString(strings.Repeat(" ", pad))
		default:
			b.WriteString(text)
		}
		if !last {
			b.WriteString("  ")
		}
	}
	_, err := w.to.WriteString(strings.TrimRight(b.String(), " ") + "\n")
	return err
}

// close ends the output.
func (w *writer) close() error {
	if w.format == outputJSON {
		end := "\n]\n"
		if w.n == 0 {
			end = "[]\n"
		}
		if _, err := w.to.WriteString(end); err != nil {
			return err
		}
	}
	return w.to.Flush()
}

// encode writes JSON on one line, fit for a terminal.
func encode(object any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(object); err != nil {
		return nil, err
	}
	return cleanJSON(bytes.TrimRight(b.Bytes(), "\n")), nil
}

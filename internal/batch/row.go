package batch

import (
	"fmt"
	"strings"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// Row is one row that can be paid.
type Row struct {
	Line   int // the physical line on which the row begins, from 1
	Intent attempt.Intent
}

// Problem is one thing that is wrong with a row.
type Problem struct {
	Field  string // the column; empty where it is the row as a whole
	Reason string // safe to print: holds no payment source and no card number
}

func (p Problem) String() string {
	if p.Field == "" {
		return p.Reason
	}
	return p.Field + ": " + p.Reason
}

// Why a row was refused as it stands in the file; and [Conflict], where the file has named the same slot before with another
// amount or source.
const (
	Malformed = "malformed" // a field is missing or cannot be what it stands for
	Duplicate = "duplicate" // the file has named the same slot before, to be paid in the same way
)

// RowError says that a row was refused. Nothing of it may be sent; the rows behind it can be read.
type RowError struct {
	Line     int // the physical line on which the row begins, from 1
	LastLine int // the physical line on which it ends; more than Line where a quoted field goes on over line ends
	Why      string
	Slot     attempt.Slot // as far as it could be read
	Amount   money.Amount // zero where it could not be read
	Currency string       // empty where it could not be read
	Problems []Problem    // at least one
}

func (e *RowError) Error() string {
	return fmt.Sprintf("line %d: %s", e.Line, messageOf(e.Problems))
}

// FileError says that a file cannot be read as a file of payments: nothing of it may be sent.
type FileError struct {
	Line     int // from 1
	Problems []string
}

func (e *FileError) Error() string {
	return fmt.Sprintf("line %d: %s; the file is refused, nothing of it was sent", e.Line, strings.Join(e.Problems, "; "))
}

// Format is the form of a file.
type Format string

// The formats.
const (
	CSV   Format = "csv"   // RFC 4180 with a header, UTF-8, no line ends in fields
	JSONL Format = "jsonl" // one JSON object per line
)

// FormatOf returns the format that a file's name stands for: .csv, .jsonl or .ndjson, in any case.
func FormatOf(name string) (Format, bool) {
	name = strings.ToLower(name)
	switch {
	case strings.HasSuffix(name, ".csv"):
		return CSV, true
	case strings.HasSuffix(name, ".jsonl"), strings.HasSuffix(name, ".ndjson"):
		return JSONL, true
	}
	return "", false
}

// ParseFormat reads a format's name.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case CSV, JSONL:
		return f, nil
	}
	return "", fmt.Errorf("format %q: want csv or jsonl", name)
}

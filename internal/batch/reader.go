package batch

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// MaxRow bounds a row, in bytes of the file. All fields at their longest, escaped, need less.
const MaxRow = 64 << 10

// Reader reads the rows of a file, one after the other. It is for one goroutine.
type Reader struct {
	// CardLikeOrders lets rows pass whose order is made of digits and could be a card number: a shop's own numbers of 13 to 19
	// digits have a right check digit by chance, every tenth of them.
	CardLikeOrders bool

	in      *bufio.Reader
	read    func() (fields, error)
	line    int // of the row at hand
	seen    seenSlots
	columns []int // CSV: the column of each field
	err     error // what ended the reading
}

// NewReader makes a reader of a file in UTF-8, with or without a byte order mark. It reads as far as it takes to know that
// the file is one of payments, and fails with a [FileError] if it is not, or with the error of in.
func NewReader(in io.Reader, format Format) (*Reader, error) {
	r := &Reader{in: bufio.NewReaderSize(in, MaxRow)}
	if err := r.skipMark(format); err != nil {
		return nil, err
	}
	switch format {
	case CSV:
		r.read = r.csvRow
		if err := r.csvHeader(); err != nil {
			return nil, err
		}
	case JSONL:
		r.read = r.jsonRow
	default:
		return nil, fmt.Errorf("format %q: want csv or jsonl", format)
	}
	return r, nil
}

// skipMark skips a byte order mark and recognises files that are not text in UTF-8 at all.
func (r *Reader) skipMark(format Format) error {
	first, err := r.in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	refuse := func(problem string) error { return &FileError{Line: 1, Problems: []string{problem}} }
	switch {
	case bytes.HasPrefix(first, []byte("\xEF\xBB\xBF")):
		_, err := r.in.Discard(3)
		return err
	case bytes.HasPrefix(first, []byte("\xFF\xFE")), bytes.HasPrefix(first, []byte("\xFE\xFF")), bytes.IndexByte(first, 0) >= 0:
		return refuse("the text is UTF-16 or UTF-32, want UTF-8 (in a spreadsheet: save as CSV UTF-8)")
	case bytes.HasPrefix(first, []byte("PK\x03\x04")), bytes.HasPrefix(first, []byte("\x1F\x8B")):
		return refuse("the file is an archive or a spreadsheet, want " + string(format) + " as plain text")
	case bytes.HasPrefix(first, []byte("[")) && format == JSONL:
		return refuse("the file is a JSON array, want one JSON object on each line")
	}
	return nil
}

// Next returns the next row that can be paid. A [RowError] tells of a row that cannot; the next call goes on behind it.
// [io.EOF] says that the file has ended, any other error that it could not be read to its end; both stay.
func (r *Reader) Next() (Row, error) {
	if r.err != nil {
		return Row{}, r.err
	}
	f, err := r.read()
	if err != nil {
		r.err = err
		if !errors.Is(err, io.EOF) {
			r.err = fmt.Errorf("read line %d: %w", r.line, err)
		}
		return Row{}, r.err
	}
	row := Row{Line: f.line}
	problems := f.problems
	if len(problems) == 0 {
		problems = f.parse(&row.Intent, r.CardLikeOrders)
	}
	why, amount := Malformed, money.Amount{}
	if len(problems) == 0 {
		amount = row.Intent.Amount
	}
	slot := attempt.Slot{Account: f.value[colAccount], Order: f.value[colOrder], Purpose: f.value[colPurpose]}.WithDefaults()
	// An order that comes twice is not paid a second time, whatever its rows say: only a person knows which one is meant.
	if slot.Validate() == nil {
		intent := &row.Intent
		if len(problems) > 0 {
			intent = nil
		}
		if before, now := r.seen.add(slot, f.line, intent); before.line != 0 {
			var twice Problem
			why, twice = cameBefore(before, now)
			problems = append(problems, twice)
		}
	}
	if len(problems) > 0 {
		// The fields may have been shifted: what is printed of them must be fit for it.
		slot = attempt.Slot{Account: fit(slot.Account), Order: fit(slot.Order), Purpose: fit(slot.Purpose)}
		currency := f.value[colCurrency]
		if _, known := money.Decimals(currency); !known {
			currency = ""
		}
		return Row{}, &RowError{
			Line: f.line, LastLine: f.lastLine, Why: why, Slot: slot, Amount: amount, Currency: currency, Problems: problems,
		}
	}
	return row, nil
}

// cameBefore says what is to be said of a row whose order an earlier one has named.
func cameBefore(before, now seenSlot) (why string, p Problem) {
	switch {
	case now.amount == 0:
		return Malformed, Problem{Field: columnNames[colOrder], Reason: fmt.Sprintf("the same as on line %d", before.line)}
	case before.amount == 0:
		return Duplicate, Problem{Reason: fmt.Sprintf("duplicate of line %d, which is malformed", before.line)}
	case before.amount != now.amount:
		return Conflict, Problem{Reason: fmt.Sprintf("conflict: line %d has another amount", before.line)}
	case before.source != now.source:
		return Conflict, Problem{Reason: fmt.Sprintf("conflict: line %d has another source", before.line)}
	}
	return Duplicate, Problem{Reason: fmt.Sprintf("duplicate of line %d", before.line)}
}

// fields is one row as it stands in the file.
type fields struct {
	line, lastLine int
	given          [columnCount]bool
	value          [columnCount]string
	problems       []Problem
}

// fit makes a text fit to be printed.
func fit(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, HideCards(strings.ToValidUTF8(text, string(unicode.ReplacementChar))))
}

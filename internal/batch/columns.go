package batch

import (
	"fmt"
	"slices"
	"strings"
)

// The columns, by their exact names.
const (
	colOrder = iota
	colAmount
	colCurrency
	colSource
	colAccount
	colPurpose
	colDescription
	columnCount
)

var columnNames = [columnCount]string{
	colOrder: "order", colAmount: "amount", colCurrency: "currency", colSource: "source",
	colAccount: "account", colPurpose: "purpose", colDescription: "description",
}

// required tells whether a file without the column can be read.
func required(column int) bool { return column <= colSource }

// columnOf returns the column with that exact name, -1 if there is none.
func columnOf(name string) int { return slices.Index(columnNames[:], name) }

// maxColumns bounds a header: no file of payments has more, and an error message must end.
const maxColumns = 50

// readHeader says which column each field of a row belongs to.
func readHeader(fields []string) (columns []int, problems []string) {
	if len(fields) > maxColumns {
		return nil, []string{fmt.Sprintf("header: %d columns, want %s", len(fields), wantColumns())}
	}
	if separator, ok := otherSeparator(fields); ok {
		return nil, []string{fmt.Sprintf("header: the columns are separated by %s, want ','", separator)}
	}
	seen := make(map[int]int)
	for i, name := range fields {
		c := columnOf(name)
		columns = append(columns, c)
		if c < 0 {
			problems = append(problems, fmt.Sprintf("header: unknown column %s%s", quote(name), meant(name)))
			continue
		}
		if first, twice := seen[c]; twice {
			problems = append(problems, fmt.Sprintf("header: column %q twice, as %d and %d", name, first+1, i+1))
		}
		seen[c] = i
	}
	for c := range columnCount {
		if _, ok := seen[c]; !ok && required(c) {
			problems = append(problems, fmt.Sprintf("header: column %q is missing", columnNames[c]))
		}
	}
	if len(problems) > 0 {
		problems = append(problems, "want "+wantColumns())
	}
	return columns, problems
}

func wantColumns() string {
	var must, may []string
	for c, name := range columnNames {
		if required(c) {
			must = append(must, name)
		} else {
			may = append(may, name)
		}
	}
	return strings.Join(must, ",") + "[," + strings.Join(may, "][,") + "]"
}

// otherSeparator recognises a header whose columns are separated by something else than commas.
func otherSeparator(fields []string) (string, bool) {
	if len(fields) != 1 {
		return "", false
	}
	for _, s := range []struct{ text, name string }{{";", "';'"}, {"\t", "tabs"}, {"|", "'|'"}} {
		for _, name := range strings.Split(fields[0], s.text) {
			if name != fields[0] && columnOf(strings.ToLower(strings.Trim(name, ` "`))) >= 0 {
				return s.name, true
			}
		}
	}
	return "", false
}

// meant names the column that a misspelt one may stand for.
func meant(name string) string {
	plain := strings.ToLower(strings.TrimSpace(name))
	if c := columnOf(plain); c >= 0 {
		return fmt.Sprintf(", did you mean %q", columnNames[c])
	}
	return ""
}

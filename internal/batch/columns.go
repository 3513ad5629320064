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
func readHeader(names []string) (columns []int, problems []string) {
	fail := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if len(names) > maxColumns {
		fail("%d columns", len(names))
	} else if separator, ok := otherSeparator(names); ok {
		fail("the columns are separated by %s, want ','", separator)
	} else if !slices.ContainsFunc(names, func(name string) bool { return meant(name) >= 0 }) {
		// Its fields are not repeated: they may be a payment's, its source among them.
		fail("none of the columns is known: does the file begin without a header line?")
	} else {
		columns = matchColumns(names, fail)
	}
	if len(problems) > 0 {
		fail("want %s", wantColumns())
		problems[0] = "header: " + problems[0]
	}
	return columns, problems
}

// matchColumns finds the column that each name stands for, and reports all that is wrong with the names.
func matchColumns(names []string, fail func(format string, args ...any)) (columns []int) {
	seen := make(map[int]int)
	var unknown, upper, spaced, missing []string
	for i, name := range names {
		columns = append(columns, columnOf(name))
		c, plain := meant(name), strings.TrimSpace(name)
		switch {
		case plain == "" && i == len(names)-1:
			fail("the last column has no name: a comma at the end of the line?")
			continue
		case plain == "":
			fail("column %d has no name", i+1)
			continue
		case c < 0:
			unknown = append(unknown, quote(name))
			continue
		}
		if first, twice := seen[c]; twice {
			fail("column %q twice, as %d and %d", columnNames[c], first+1, i+1)
		} else {
			seen[c] = i
		}
		if plain != columnNames[c] {
			upper = append(upper, quote(plain))
		}
		if plain != name {
			spaced = append(spaced, quote(name))
		}
	}
	for c, name := range columnNames {
		if _, ok := seen[c]; !ok && required(c) {
			missing = append(missing, quote(name))
		}
	}
	for _, p := range []struct {
		one, several string
		names        []string
	}{
		{"columns are written in lower case, not %s", "columns are written in lower case, not %s", upper},
		{"a space before or behind the name of column %s", "spaces before or behind the names of columns %s", spaced},
		{"unknown column %s", "unknown columns %s", unknown},
		{"column %s is missing", "columns %s are missing", missing},
	} {
		switch len(p.names) {
		case 0:
		case 1:
			fail(p.one, p.names[0])
		default:
			fail(p.several, strings.Join(p.names, ", "))
		}
	}
	return columns
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

// meant returns the column that a name, in other case or with spaces, stands for, -1 if there is none.
func meant(name string) int { return columnOf(strings.ToLower(strings.TrimSpace(name))) }

// didYouMean names that column.
func didYouMean(name string) string {
	if c := meant(name); c >= 0 {
		return fmt.Sprintf(", did you mean %q", columnNames[c])
	}
	return ""
}

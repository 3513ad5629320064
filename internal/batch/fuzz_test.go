package batch_test

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/internal/batch"
)

// readRows reads what can be paid, written as fields in the order of the names.
func readRows(t *testing.T, format batch.Format, text string) (rows [][]string) {
	t.Helper()
	r, err := batch.NewReader(strings.NewReader(text), format)
	if err != nil {
		return nil
	}
	last := 0
	for {
		row, err := r.Next()
		var bad *batch.RowError
		switch {
		case errors.Is(err, io.EOF):
			return rows
		case errors.As(err, &bad):
			if bad.Line <= last || bad.LastLine < bad.Line || len(bad.Problems) == 0 {
				t.Fatalf("after line %d: %+v", last, bad)
			}
			last = bad.LastLine
			continue
		case err != nil:
			t.Fatal(err)
		}
		if row.Line <= last {
			t.Fatalf("line %d after line %d", row.Line, last)
		}
		last = row.Line
		i := row.Intent
		if i.Amount.Minor() <= 0 || i.Slot().Validate() != nil || i.Source.Validate() != nil || batch.HoldsCard(i.Source.Reveal()) {
			t.Fatalf("line %d: a row that nobody can pay: %s %s", row.Line, i.Slot(), i.Amount)
		}
		rows = append(rows, []string{i.Order, i.Amount.Decimal(), i.Amount.Currency(), i.Source.Reveal(), i.Account, i.Purpose, i.Description})
	}
}

var names = []string{"order", "amount", "currency", "source", "account", "purpose", "description"}

// What is read, written and read again is the same, in both formats.
func FuzzReader(f *testing.F) {
	for _, text := range []string{
		header + "1001,548.90,TRY,tok_visa\n", header + "1,\"1,0\",EUR,t\r\n\n2,80,JPY,\"t\"\"x\"\n",
		"order,amount,currency,source,description\n1,1.00,EUR,t,\"a\n2,1.00,EUR,t,b\"\n", "order;amount\n", "\xFF\xFEo\x00",
		`{"order":"1","amount":"1.00","currency":"EUR","source":"t"}` + "\n{", header + "1,1.00,EUR,4242 4242 4242 4242",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, format := range []batch.Format{batch.CSV, batch.JSONL} {
			rows := readRows(t, format, text)
			var asCSV, asJSON strings.Builder
			w := csv.NewWriter(&asCSV)
			if err := w.WriteAll(append([][]string{names}, rows...)); err != nil {
				t.Fatal(err)
			}
			for _, row := range rows {
				object := make(map[string]string)
				for i, name := range names {
					object[name] = row[i]
				}
				if err := json.NewEncoder(&asJSON).Encode(object); err != nil {
					t.Fatal(err)
				}
			}
			for again, written := range map[batch.Format]string{batch.CSV: asCSV.String(), batch.JSONL: asJSON.String()} {
				if got := readRows(t, again, written); !equal(got, rows) {
					t.Errorf("%s, written as %s, read again:\n got %q\nwant %q\nwritten %q", format, again, got, rows, written)
				}
			}
		}
	})
}

func equal(a, b [][]string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if strings.Join(a[i], "\x00") != strings.Join(b[i], "\x00") {
			return false
		}
	}
	return true
}

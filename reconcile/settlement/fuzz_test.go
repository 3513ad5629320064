package settlement

import (
	"encoding/csv"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/chargeonce/chargeonce/money"
)

// FuzzReader holds what must be true of any file: lines are told in order, a line that is read says what its amounts say
// together, a file's error is the last thing, how the bytes arrive changes nothing, and Check agrees.
func FuzzReader(f *testing.F) {
	dir := filepath.Join("..", "..", "testdata", "settlement")
	text, err := os.ReadFile(filepath.Join(dir, "berlin.json"))
	if err != nil {
		f.Fatal(err)
	}
	berlin, err := ParseProfile(text)
	if err != nil {
		f.Fatal(err)
	}
	wide := Fake()
	wide.Encoding = UTF16
	profiles := []Profile{Fake(), berlin, c49(), wide}
	for _, name := range []string{"fake.csv", "berlin.csv"} {
		file, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		for i := range profiles {
			f.Add(uint8(i), string(file))
		}
	}
	f.Add(uint8(2), "reference,type,gross,fee,net,currency\na,charge,\"1,560.00\",-68.94,\"1,491.06\",USD\n\"b\nc\"\"\",refund,-5,0,-5,EUR\n")
	f.Fuzz(func(t *testing.T, which uint8, file string) {
		p := profiles[int(which)%len(profiles)]
		before, lines, refused := 0, 0, 0
		var end error
		for l, err := range Read(strings.NewReader(file), "f", p) {
			if end != nil {
				t.Fatalf("%+v, %v after %v", l, err, end)
			}
			var one *LineError
			switch {
			case err == nil:
				lines++
			case errors.As(err, &one):
				if refused++; one.Line != l.Number || len(one.Problems) == 0 || (l != Line{File: "f", Number: l.Number}) {
					t.Fatalf("%+v, %v", l, err)
				}
			default:
				end = err
				continue
			}
			if l.Number <= before {
				t.Fatalf("line %d after line %d", l.Number, before)
			}
			before = l.Number
			if err == nil {
				holds(t, l)
			}
		}
		s, err := Check(iotest.HalfReader(strings.NewReader(file)), "f", p)
		if (err == nil) != (end == nil) || err != nil && err.Error() != end.Error() {
			t.Fatalf("Check: %v, Read: %v", err, end)
		}
		if end == nil && (s.Refused != refused || s.Lines != lines+refused+s.Kinds[KindIgnored]) {
			t.Fatalf("%+v, %d lines and %d refused", s, lines, refused)
		}
	})
}

func holds(t *testing.T, l Line) {
	switch {
	case !l.Gross.Valid(),
		l.Kind == KindCharge && l.Gross.Minor() < 0,
		l.Kind == KindRefund && l.Gross.Minor() > 0,
		l.belongs() && l.ID == "" && l.Reference == "",
		strings.ContainsRune(l.ID+l.Reference, 0):
		t.Fatalf("%+v", l)
	}
	if net, err := l.Gross.Sub(l.Fee); err != nil || net != l.Net {
		t.Fatalf("%+v: gross - fee = %v, %v", l, net, err)
	}
}

// FuzzAmount: what is read prints, in the plain style, as an amount that reads back the same; and package money agrees with
// it wherever money.Parse takes the text.
func FuzzAmount(f *testing.F) {
	for _, text := range []string{"0", "10.00", "-0.01", "1,560.00", "92233720368547758.07", "007", "1.234", "(5)", "5-", "1,23"} {
		f.Add(text)
	}
	plain := newAmountStyle(Amounts{Unit: UnitMajor, DecimalMark: ".", Negative: NegativeMinus})
	grouped := newAmountStyle(Amounts{Unit: UnitMajor, DecimalMark: ".", GroupingMark: ",", Negative: NegativeMinus})
	f.Fuzz(func(t *testing.T, text string) {
		for _, code := range []string{"EUR", "JPY", "KWD"} {
			decimals, _ := money.Decimals(code)
			want, err := money.Parse(text, code)
			got, reason := plain.parse([]byte(text), decimals)
			if err == nil && (reason != "" || got != want.Minor()) || err != nil && reason == "" && text[0] != '-' {
				t.Fatalf("%q in %s: %d %q, money has %v %v", text, code, got, reason, want, err)
			}
			v, reason := grouped.parse([]byte(text), decimals)
			if reason != "" {
				continue
			}
			a, err := money.Restore(v, code)
			if err != nil {
				t.Fatal(err)
			}
			if again, reason := plain.parse([]byte(a.Decimal()), decimals); reason != "" || again != v {
				t.Fatalf("%q in %s is %d and prints %s, which reads as %d %s", text, code, v, a.Decimal(), again, reason)
			}
		}
	})
}

// FuzzSplit: where encoding/csv reads a whole file, the splitter cuts the same records.
func FuzzSplit(f *testing.F) {
	f.Add("a,b\n\"c\nd\",\"e\"\"f\"\r\n\r\n,\n")
	f.Add("a\r\n\"b\"\r\nc,\"\",\"\"\"\"")
	f.Fuzz(func(t *testing.T, file string) {
		if !utf8.ValidString(file) || strings.ContainsAny(file, "\x00") || strings.Contains(strings.ReplaceAll(file, "\r\n", ""), "\r") {
			return // refused, or a matter of taste
		}
		r := csv.NewReader(strings.NewReader(file))
		r.FieldsPerRecord = -1
		want, err := r.ReadAll()
		if err != nil {
			return
		}
		s := newSplitter(iotest.OneByteReader(strings.NewReader(file)), ',', true)
		var got [][]string
		for {
			err := s.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || s.problem != "" {
				t.Fatalf("%q: %v, %q", file, err, s.problem)
			}
			var record []string
			for _, field := range s.fields {
				record = append(record, strings.ReplaceAll(string(field), "\r\n", "\n"))
			}
			got = append(got, record)
		}
		if len(want) == 0 {
			want = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%q\ngot  %q\nwant %q", file, got, want)
		}
	})
}

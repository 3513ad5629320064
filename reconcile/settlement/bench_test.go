package settlement

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"
)

// report is a report of the fake provider's form, made while it is read, so that it takes no memory of its own.
type report struct {
	lines int
	row   func(b []byte, i int) []byte
	tail  []byte
	next  int
	buf   []byte
}

const reportHead = "Settlement report,fakeprovider\nPeriod,,\nid,reference,type,gross,fee,net,currency,created\n"

var reportStart = time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)

// newReport makes a report of so many charges, all of 10.00 EUR.
func newReport(lines int) *report {
	return &report{
		lines: lines,
		buf:   []byte(reportHead),
		row: func(b []byte, i int) []byte {
			b = fmt.Appendf(b, "ch_%09d,%s,charge,10.00,0.39,9.61,EUR,", i, benchReference(i))
			b = reportStart.Add(time.Duration(i)*80*time.Millisecond).AppendFormat(b, time.RFC3339Nano)
			return append(b, '\n')
		},
		tail: fmt.Appendf(nil, "TOTAL,%d,,%d.00,,,EUR,\n", lines, lines*10),
	}
}

func benchReference(i int) string { return fmt.Sprintf("0190a1b2-0000-7000-8000-%012d", i) }

func (r *report) Read(to []byte) (int, error) {
	for len(r.buf) < len(to) && r.next < r.lines {
		r.buf = r.row(r.buf, r.next)
		r.next++
	}
	if r.next == r.lines {
		r.buf = append(r.buf, r.tail...)
		r.tail = nil
	}
	if len(r.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(to, r.buf)
	r.buf = r.buf[:copy(r.buf, r.buf[n:])]
	return n, nil
}

// BenchmarkRead reads reports that are in memory. encoding/csv only cuts the same bytes into fields.
func BenchmarkRead(b *testing.B) {
	const lines = 200_000
	file, err := io.ReadAll(newReport(lines))
	if err != nil {
		b.Fatal(err)
	}
	perSecond := func(b *testing.B) {
		b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
	}
	b.Run("settlement", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(file)))
		for b.Loop() {
			n := 0
			for _, err := range Read(bytes.NewReader(file), "report.csv", Fake()) {
				if err != nil {
					b.Fatal(err)
				}
				n++
			}
			if n != lines {
				b.Fatal(n)
			}
		}
		perSecond(b)
	})
	b.Run("check", func(b *testing.B) {
		b.SetBytes(int64(len(file)))
		for b.Loop() {
			if _, err := Check(bytes.NewReader(file), "report.csv", Fake()); err != nil {
				b.Fatal(err)
			}
		}
		perSecond(b)
	})
	b.Run("encoding-csv", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(file)))
		for b.Loop() {
			r := csv.NewReader(bytes.NewReader(file))
			r.ReuseRecord, r.FieldsPerRecord = true, -1
			for {
				if _, err := r.Read(); errors.Is(err, io.EOF) {
					break
				} else if err != nil {
					b.Fatal(err)
				}
			}
		}
		perSecond(b)
	})
}

package settlement

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/money"
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
			b = appendChargeID(b, i)
			b = appendReference(append(b, ','), i)
			b = append(b, ",charge,10.00,0.39,9.61,EUR,"...)
			b = reportStart.Add(time.Duration(i)*80*time.Millisecond).AppendFormat(b, time.RFC3339Nano)
			return append(b, '\n')
		},
		tail: fmt.Appendf(nil, "TOTAL,%d,,%d.00,,,EUR,\n", lines, lines*10),
	}
}

func appendReference(b []byte, i int) []byte {
	return strconv.AppendInt(append(b, "0190a1b2-0000-7000-8000-"...), 100_000_000_000+int64(i), 10)
}

func appendChargeID(b []byte, i int) []byte {
	return strconv.AppendInt(append(b, "ch_"...), 100_000_000_000+int64(i), 10)
}

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

// ledger is a store that has every attempt of newReport, approved, and keeps nothing: what matching itself costs.
type ledger struct {
	attempt.Memory
	lines int
}

// Apply throws away which attempts had a line, as a database does with its memory.
func (l *ledger) Apply(context.Context, ...*attempt.Step) error { return nil }

func (l *ledger) brief(i int) attempt.Brief {
	id := string(appendReference(nil, i))
	return attempt.Brief{
		ID: id, Reference: id, Place: here, Amount: benchAmount, Status: attempt.StatusApproved, ChargeID: string(appendChargeID(nil, i)),
	}
}

var benchAmount = money.MustParse("10.00", "EUR")

func (l *ledger) Briefs(_ context.Context, ids, chargeIDs []string) ([]attempt.Brief, error) {
	found := make([]attempt.Brief, 0, len(ids)+len(chargeIDs))
	for _, of := range [...][]string{ids, chargeIDs} {
		for _, id := range of {
			n, err := strconv.Atoi(id[len(id)-9:])
			if err != nil {
				return nil, err
			}
			found = append(found, l.brief(n))
		}
	}
	return found, nil
}

func (l *ledger) Sent(context.Context, attempt.Place, time.Time, time.Time) iter.Seq2[attempt.Sent, error] {
	return func(yield func(attempt.Sent, error) bool) {
		for i := range l.lines {
			if !yield(attempt.Sent{ID: string(appendReference(nil, i)), At: reportStart.Add(time.Duration(i) * 80 * time.Millisecond)}, nil) {
				return
			}
		}
	}
}

// BenchmarkMatch matches reports of which every line has its attempt. peak-MB is how far the heap has grown at most: it
// must not follow the lines.
func BenchmarkMatch(b *testing.B) {
	for _, lines := range []int{100_000, 1_000_000, 3_000_000} {
		b.Run(fmt.Sprintf("lines=%d", lines), func(b *testing.B) {
			benchMatch(b, lines, func() Store { return &ledger{lines: lines} })
		})
	}
	// A store that holds the attempts. Its own memory is most of the peak.
	b.Run("memory/lines=100000", func(b *testing.B) {
		store := fillStore(b, new(attempt.Memory), 100_000)
		benchMatch(b, 100_000, func() Store { return store })
	})
	b.Run("sqlite/lines=100000", func(b *testing.B) {
		store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "a.db"), sqlite.Options{})
		if err != nil {
			b.Fatal(err)
		}
		defer func() {
			if err := store.Close(); err != nil {
				b.Error(err)
			}
		}()
		fillStore(b, store, 100_000)
		benchMatch(b, 100_000, func() Store { return store })
	})
}

func fillStore(b *testing.B, store attempt.Store, lines int) attempt.Store {
	l := ledger{}
	for i := 0; i < lines; {
		var steps []*attempt.Step
		for range min(1000, lines-i) {
			brief, at := l.brief(i), reportStart.Add(time.Duration(i)*80*time.Millisecond)
			a := attempt.Attempt{
				ID: brief.ID, Key: "key-" + brief.ID, Reference: brief.Reference, Ordinal: 1, Version: 1,
				Slot:   attempt.Slot{Order: strconv.Itoa(i), Purpose: attempt.PurposeCharge},
				Amount: brief.Amount, Provider: here.Provider, Environment: here.Environment, Status: brief.Status, ChargeID: brief.ChargeID,
				Charges:   []attempt.Charge{{ID: brief.ChargeID, Status: attempt.ChargeSucceeded, Amount: brief.Amount, SeenAt: at}},
				CreatedAt: at, UpdatedAt: at, FirstClaimAt: at, LastSentAt: at, Sends: 1, Fence: 1,
			}
			steps = append(steps, &attempt.Step{Slot: a.Slot, Fresh: true, Do: func(attempt.View) ([]attempt.Write, error) {
				return []attempt.Write{{Attempt: &a, Event: attempt.Event{AttemptID: a.ID, Version: 1, From: a.Status, To: a.Status, At: at}}}, nil
			}})
			i++
		}
		if err := store.Apply(b.Context(), steps...); err != nil {
			b.Fatal(err)
		}
	}
	return store
}

func benchMatch(b *testing.B, lines int, open func() Store) {
	o := Options{Profile: Fake(), Place: here, TempDir: b.TempDir()}
	path := filepath.Join(b.TempDir(), "report.csv")
	file, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(file, newReport(lines)); err != nil {
		b.Fatal(err)
	}
	if err := file.Close(); err != nil {
		b.Fatal(err)
	}
	stop, peak := watchHeap()
	for b.Loop() {
		report, err := Match(b.Context(), open(), []Source{File(path)}, o)
		if err != nil || report.Counts[Matched] != lines || report.Differences() {
			b.Fatalf("%+v, %v", report, err)
		}
	}
	close(stop)
	b.ReportMetric(float64(<-peak)/1e6, "peak-MB")
	b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// watchHeap tells how far the live heap, and what is not yet collected, grows above what it is now.
func watchHeap() (stop chan struct{}, peak chan uint64) {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	before := stats.HeapAlloc
	stop, peak = make(chan struct{}), make(chan uint64, 1)
	go func() {
		most := before
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				peak <- most - before
				return
			case <-tick.C:
				runtime.ReadMemStats(&stats)
				most = max(most, stats.HeapAlloc)
			}
		}
	}()
	return stop, peak
}

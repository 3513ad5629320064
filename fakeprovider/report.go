package fakeprovider

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ReportOptions say what a settlement report is about, and what is wrong with
// it.
type ReportOptions struct {
	// From and To bound the time when a charge or refund was made: From
	// inclusive, To exclusive. Zero: no bound.
	From, To time.Time
	// Client is whose records are reported. Empty: everybody's.
	Client string

	// LeaveOut are ids of charges and refunds that the report does not show.
	LeaveOut []string
	// Double are ids of those it shows twice, one line after the other.
	Double []string
	// Amounts are the gross amounts it shows instead of the true ones, by id,
	// in minor units; a refund's is negative unless that is what is wrong.
	Amounts map[string]int64
	// Foreign is the number of charges it shows that nobody made, the last
	// lines before the trailer: ch_900001 for foreign-1, and so on, made at
	// From if it is set.
	Foreign int
	// NoTrailer ends it before the trailer, as a download that was cut off.
	NoTrailer bool
}

// WriteReport writes a settlement report as CSV (RFC 4180, with LF, in UTF-8):
//
//	Settlement report,fakeprovider
//	Period,2026-01-01T00:00:00Z,2026-01-02T00:00:00Z
//	id,reference,type,gross,fee,net,currency,created
//	ch_000001,ord-1,charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z
//	re_000001,ref-1,refund,-4.00,0.00,-4.00,EUR,2026-01-01T11:00:00Z
//	TOTAL,2,,6.00,0.39,5.61,EUR,
//
// One line stands for each charge and each refund that was made in the period
// and has succeeded by now, in the order in which they were made. Amounts are
// decimal text with the currency's number of decimals. The fee of a charge is
// 1.4 % of it, rounded half up to a minor unit, and 25 minor units; a refund
// costs nothing. Net is gross minus fee. An open bound of the period is empty.
// The trailer counts the lines that are there, wrong ones included, and adds
// them up if they are all in one currency; otherwise its sums and its currency
// are empty.
//
// It works in constant memory and does not hold the books up. An error is one
// of w, or says that the books were emptied meanwhile.
func (p *Provider) WriteReport(w io.Writer, o ReportOptions) error {
	_, err := io.Copy(w, p.newReport(o))
	return err
}

// report is a settlement report, made while it is read.
type report struct {
	p       *Provider
	o       ReportOptions
	span    span
	leave   map[string]bool
	double  map[string]bool
	epoch   int
	began   int64
	last    [2]uint32 // the last charge and the last refund when it began
	next    [2]uint32
	foreign int
	stage   int

	ready bytes.Buffer
	csv   *csv.Writer

	lines           int
	gross, fee, net int64
	currency        string
	mixed           bool // several currencies, or sums beyond int64
}

// Stages of a report.
const (
	reportHead = iota
	reportRecords
	reportForeign
	reportTrailer
	reportEnd
)

func (p *Provider) newReport(o ReportOptions) *report {
	r := &report{p: p, o: o, span: always, next: [2]uint32{1, 1}, leave: map[string]bool{}, double: map[string]bool{}}
	if !o.From.IsZero() {
		r.span.from = o.From.UnixNano()
	}
	if !o.To.IsZero() {
		r.span.to = o.To.UnixNano()
	}
	for _, id := range o.LeaveOut {
		r.leave[id] = true
	}
	for _, id := range o.Double {
		r.double[id] = true
	}
	r.csv = csv.NewWriter(&r.ready)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.config.Now()
	p.settle(now)
	r.epoch, r.began = p.outbox.epoch, now.UnixNano()
	r.last = [2]uint32{uint32(p.charges.list.len()), uint32(p.refunds.list.len())}
	return r
}

// Read makes the next lines when those before are read.
func (r *report) Read(b []byte) (int, error) {
	for r.ready.Len() == 0 {
		if r.stage == reportEnd {
			return 0, io.EOF
		}
		if err := r.more(); err != nil {
			return 0, err
		}
		r.csv.Flush()
		if err := r.csv.Error(); err != nil {
			return 0, err
		}
	}
	return r.ready.Read(b)
}

// reportLine is one line before it is text.
type reportLine struct {
	id, reference string
	kind          uint8
	gross         int64
	currency      string
	created       int64
}

// more makes some lines.
func (r *report) more() error {
	switch r.stage {
	case reportHead:
		r.stage = reportRecords
		bound := func(t time.Time) string {
			if t.IsZero() {
				return ""
			}
			return t.UTC().Format(time.RFC3339Nano)
		}
		return errors.Join(
			r.csv.Write([]string{"Settlement report", "fakeprovider"}),
			r.csv.Write([]string{"Period", bound(r.o.From), bound(r.o.To)}),
			r.csv.Write([]string{"id", "reference", "type", "gross", "fee", "net", "currency", "created"}))
	case reportRecords:
		list, end, err := r.records()
		if end {
			r.stage = reportForeign
		}
		for i := range list {
			err = errors.Join(err, r.write(&list[i]))
			if r.double[list[i].id] {
				err = errors.Join(err, r.write(&list[i]))
			}
		}
		return err
	case reportForeign:
		if r.foreign == r.o.Foreign || r.o.Foreign < 0 {
			r.stage = reportTrailer
			return nil
		}
		r.foreign++
		created := r.span.from
		if r.o.From.IsZero() {
			created = min(r.began, r.span.to-1)
		}
		return r.write(&reportLine{
			id: "ch_" + strconv.Itoa(900000+r.foreign), reference: "foreign-" + strconv.Itoa(r.foreign), gross: 1000, currency: "EUR", created: created,
		})
	}
	r.stage = reportEnd
	if r.o.NoTrailer {
		return nil
	}
	trailer := []string{"TOTAL", strconv.Itoa(r.lines), "", "", "", "", "", ""}
	if r.lines > 0 && !r.mixed {
		trailer[3], trailer[4], trailer[5] = decimal(r.gross, r.currency), decimal(r.fee, r.currency), decimal(r.net, r.currency)
		trailer[6] = r.currency
	}
	return r.csv.Write(trailer)
}

// records looks at some records of the books and copies what is reported, so
// that the books are not locked while somebody writes. It says when it has
// seen the last.
func (r *report) records() (list []reportLine, end bool, err error) {
	p := r.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outbox.epoch != r.epoch {
		return nil, false, errors.New("report: the books were emptied while it was written")
	}
	client, known := p.clients[r.o.Client]
	for range chunk {
		kind, ok := r.older()
		if !ok {
			return list, true, nil
		}
		s, n := p.shelf(kind), r.next[kind]
		r.next[kind]++
		rec := s.list.at(n)
		if states[rec.state] != Succeeded || rec.booked < r.span.from || rec.booked >= r.span.to {
			continue
		}
		if r.o.Client != "" && (!known || rec.client != client) {
			continue
		}
		l := reportLine{s.id(n), rec.reference(), kind, rec.amount, string(rec.currency[:]), rec.booked}
		if kind == kindRefund {
			l.gross = -l.gross
		}
		if wrong, ok := r.o.Amounts[l.id]; ok {
			l.gross = wrong
		}
		if !r.leave[l.id] {
			list = append(list, l)
		}
	}
	return list, false, nil
}

// older says whether a charge or a refund is next.
func (r *report) older() (kind uint8, ok bool) {
	charge, refund := r.next[kindCharge] <= r.last[kindCharge], r.next[kindRefund] <= r.last[kindRefund]
	if charge && refund {
		p := r.p
		refund = p.refunds.list.at(r.next[kindRefund]).booked < p.charges.list.at(r.next[kindCharge]).booked
	}
	if refund {
		return kindRefund, true
	}
	return kindCharge, charge
}

func (r *report) write(l *reportLine) error {
	fee := int64(0)
	if l.kind == kindCharge {
		fee = reportFee(l.gross)
	}
	net := l.gross - fee
	switch {
	case r.lines == 0:
		r.currency = l.currency
	case r.currency != l.currency:
		r.mixed = true
	}
	r.lines++
	r.gross, r.fee, r.net = r.sum(r.gross, l.gross), r.sum(r.fee, fee), r.sum(r.net, net)
	return r.csv.Write([]string{
		l.id, l.reference, kindNames[l.kind],
		decimal(l.gross, l.currency), decimal(fee, l.currency), decimal(net, l.currency),
		l.currency, unix(l.created).Format(time.RFC3339Nano),
	})
}

// sum adds, unless there are no sums any more.
func (r *report) sum(a, b int64) int64 {
	if b > 0 && a > math.MaxInt64-b || b < 0 && a < math.MinInt64-b {
		r.mixed = true
	}
	return a + b
}

// reportFee is 1.4 % of an amount, rounded half up, and 25 minor units.
func reportFee(gross int64) int64 {
	if gross <= 0 {
		return 25
	}
	return gross/500*7 + (gross%500*7+250)/500 + 25
}

// reportQuery reads what GET /_fake/report asks for.
func reportQuery(query string) (o ReportOptions, err error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return o, err
	}
	if _, err := parseSpan(q, "from", "to"); err != nil {
		return o, err
	}
	var errs []error
	for name, values := range q {
		v := values[0]
		switch name {
		case "from", "to":
			if v == "" {
				break
			}
			nanos, err := parseTime(v)
			errs = append(errs, err)
			if name == "from" {
				o.From = unix(nanos)
			} else {
				o.To = unix(nanos)
			}
		case "client":
			o.Client = v
		case "leave_out":
			o.LeaveOut = values
		case "double":
			o.Double = values
		case "amount":
			o.Amounts = map[string]int64{}
			for _, v := range values {
				id, text, _ := strings.Cut(v, ":")
				n, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					errs = append(errs, fmt.Errorf("amount=%s: want ID:MINOR", v))
				}
				o.Amounts[id] = n
			}
		case "foreign":
			if o.Foreign, err = number(v, 0); err != nil {
				errs = append(errs, fmt.Errorf("foreign: %w", err))
			}
		case "no_trailer":
			if o.NoTrailer, err = strconv.ParseBool(v); err != nil {
				errs = append(errs, fmt.Errorf("no_trailer: want true or false, not %q", v))
			}
		default:
			errs = append(errs, fmt.Errorf("%s means nothing here", name))
		}
	}
	return o, errors.Join(errs...)
}

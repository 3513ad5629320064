package settlement

import (
	"fmt"
	"math"
	"time"
)

// Summary is what a whole report comes to.
type Summary struct {
	File    string
	Lines   int          // between header and trailer, those with errors and the ignored ones included
	Refused int          // lines with errors
	Kinds   map[Kind]int // the others, ignored ones included
	// Totals are over the lines that were read, by ISO 4217 code of gross; where lines were exchanged, fee and net count
	// under their own.
	Totals map[string]Totals
	// First and Last are the earliest and latest Created; zero if no line has one.
	First, Last time.Time
	// CountVerified and SumsVerified say what of the trailer was compared. With refused lines there is no sum to compare.
	CountVerified, SumsVerified bool
}

// Totals are sums in minor units, in our signs, see [Line].
type Totals struct {
	Lines int   `json:"lines"`
	Gross int64 `json:"gross_minor"`
	Fee   int64 `json:"fee_minor"`
	Net   int64 `json:"net_minor"`
}

// tally adds lines up.
type tally struct {
	totals map[string]*Totals
	kinds  map[Kind]*int
	code   string  // of the currency used last
	last   *Totals // its totals
	kind   Kind
	count  *int
}

// of returns the totals of a currency. Reports change the currency rarely.
func (t *tally) of(code string) *Totals {
	if t.last != nil && t.code == code {
		return t.last
	}
	if t.totals == nil {
		t.totals = make(map[string]*Totals)
	}
	sums := t.totals[code]
	if sums == nil {
		sums = new(Totals)
		t.totals[code] = sums
	}
	t.code, t.last = code, sums
	return sums
}

func (t *tally) countKind(k Kind) {
	if t.count == nil || t.kind != k {
		if t.kinds == nil {
			t.kinds = make(map[Kind]*int)
		}
		if t.kinds[k] == nil {
			t.kinds[k] = new(int)
		}
		t.kind, t.count = k, t.kinds[k]
	}
	*t.count++
}

// add counts a line. It fails where a sum leaves int64.
func (t *tally) add(l *Line) bool {
	t.countKind(l.Kind)
	sums := t.of(l.Gross.Currency())
	sums.Lines++
	ok := addTo(&sums.Gross, l.Gross.Minor())
	if l.Net.Valid() {
		sums = t.of(l.Net.Currency())
		ok = ok && addTo(&sums.Fee, l.Fee.Minor()) && addTo(&sums.Net, l.Net.Minor())
	}
	return ok
}

func addTo(sum *int64, v int64) bool {
	if v > 0 && *sum > math.MaxInt64-v || v < 0 && *sum < math.MinInt64-v {
		return false
	}
	*sum += v
	return true
}

// Summary returns what has been read so far; all of it once Next has returned io.EOF.
func (r *Reader) Summary() Summary {
	s := r.summary
	s.Kinds, s.Totals = make(map[Kind]int), make(map[string]Totals)
	for k, n := range r.tally.kinds {
		s.Kinds[k] = *n
	}
	for code, sums := range r.tally.totals {
		s.Totals[code] = *sums
	}
	return s
}

// isTrailer tells whether the record taken last is a trailer.
func (r *Reader) isTrailer() bool {
	t := r.p.Trailer
	return t != nil && r.in.problem == "" && string(r.trim(r.in.fields[0])) == t.Marker
}

// trailer takes a trailer and compares what it says.
func (r *Reader) trailer() error {
	t := r.p.Trailer
	refuse := func(format string, args ...any) error {
		return r.refuse(r.in.first, "trailer: "+fmt.Sprintf(format, args...))
	}
	if len(r.in.fields) != len(t.Fields) {
		return refuse("%d fields, want %d", len(r.in.fields), len(t.Fields))
	}
	told := make(map[string][]byte)
	for i, f := range t.Fields {
		if text := r.trim(r.in.fields[i]); f != "" && len(text) > 0 {
			told[f] = text
		}
	}
	if text, ok := told["count"]; ok {
		counter := amountStyle{unit: UnitMinor, negative: NegativeNone}
		n, reason := counter.parse(text, 0)
		switch {
		case reason != "":
			return refuse("count %s: %s", quote(text), reason)
		case n != int64(r.summary.Lines):
			return refuse("says %d lines, the file has %d", n, r.summary.Lines)
		}
		r.summary.CountVerified = true
	}
	_, gross := told["gross"]
	_, fee := told["fee"]
	_, net := told["net"]
	if !gross && !fee && !net {
		return nil
	}
	var code string
	switch text, ok := told["currency"]; {
	case ok:
		c, err := r.p.Amounts.findCurrency(string(text))
		if err != nil {
			return refuse("currency %s: %v", quote(text), err)
		}
		code = c.code
	case r.p.Currency != "":
		code = r.p.Currency
	case len(r.tally.totals) == 1:
		for only := range r.tally.totals {
			code = only
		}
	case r.summary.Refused > 0 && len(r.tally.totals) == 0:
		return nil // not a line that says in which currency
	default:
		return refuse("sums without a currency, the lines have %d", len(r.tally.totals))
	}
	c, err := r.p.Amounts.findCurrency(code)
	if err != nil {
		return refuse("%v", err)
	}
	var sums Totals
	if known := r.tally.totals[c.code]; known != nil {
		sums = *known
	}
	for _, part := range [...]struct {
		name string
		sum  int64
	}{{"gross", sums.Gross}, {"fee", sums.Fee}, {"net", sums.Net}} {
		text, ok := told[part.name]
		if !ok {
			continue
		}
		v, reason := r.amounts.parse(text, c.decimals)
		if reason == "" {
			v, reason = c.minor(v)
		}
		if part.name == "fee" && r.p.FeeSign == FeeAdded {
			v = -v
		}
		switch {
		case reason != "":
			return refuse("%s %s: %s", part.name, quote(text), reason)
		case r.summary.Refused > 0: // what those lines say is not known
		case v != part.sum:
			return refuse("says %s %d in minor units of %s, the lines come to %d", part.name, v, c.code, part.sum)
		default:
			r.summary.SumsVerified = true
		}
	}
	return nil
}

package settlement

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/chargeonce/chargeonce/money"
)

// Reader reads one report, line by line, in constant memory. It is for one goroutine.
//
// Whether a report is whole is known at its end only: nothing may be made of its lines before that. [Check] reads a report
// for that alone.
type Reader struct {
	name    string
	p       Profile
	in      *splitter
	layout  layout
	amounts amountStyle
	clock   *clock
	needID  bool
	needRef bool
	needAt  bool

	line     Line
	problems []Problem
	one      currency // the profile's, or that of the last line
	oneText  []byte   // as it was written
	net      currency // the same of the net column
	netText  []byte
	joined   []byte // created, of several columns
	names    []byte // id and reference

	tally    tally
	summary  Summary
	trailers int
	err      error // the end, for good
}

// NewReader reads a report up to and with its header. name is for messages. Its errors are a [*ProfileError], or a
// [*FileError] that refuses the report.
func NewReader(in io.Reader, name string, p Profile) (*Reader, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	r := &Reader{
		name: name, p: p, amounts: newAmountStyle(p.Amounts), summary: Summary{File: name},
		needID: slices.Contains(p.Required, "id"), needRef: slices.Contains(p.Required, "reference"),
		needAt: slices.Contains(p.Required, "created"),
	}
	var err error
	if r.clock, err = newClock(p.Times); err != nil {
		return nil, &ProfileError{Profile: p.Name, Err: err}
	}
	if p.Currency != "" {
		if r.one, err = p.Amounts.findCurrency(p.Currency); err != nil {
			return nil, &ProfileError{Profile: p.Name, Err: err}
		}
	}
	text, err := decode(in, p.Encoding)
	if err != nil {
		var e *encodingError
		if errors.As(err, &e) {
			return nil, r.refuse(1, e.reason)
		}
		return nil, r.broken(&lineFault{line: 1, reason: "cannot be read", err: err})
	}
	r.in = newSplitter(text, p.Delimiter[0], p.Quotes == QuotesRFC4180)
	if err := r.readHeader(); err != nil {
		return nil, err
	}
	return r, nil
}

// Read is NewReader and Lines: it yields each line or its [*LineError], and as the last thing a [*FileError] if the report
// is refused whole, or a [*ProfileError].
func Read(in io.Reader, name string, p Profile) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		r, err := NewReader(in, name, p)
		if err != nil {
			yield(Line{File: name}, err)
			return
		}
		r.Lines()(yield)
	}
}

// Check reads a whole report and returns what it comes to. Its error, a [*FileError] or [*ProfileError], refuses the report;
// lines with errors are counted, and are none.
func Check(in io.Reader, name string, p Profile) (Summary, error) {
	r, err := NewReader(in, name, p)
	if err != nil {
		return Summary{File: name}, err
	}
	for {
		_, err := r.next()
		var line *LineError
		switch {
		case err == nil, errors.As(err, &line):
		case errors.Is(err, io.EOF):
			return r.Summary(), nil
		default:
			return r.Summary(), err
		}
	}
}

// Lines yields what Next returns, up to the end.
func (r *Reader) Lines() iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for {
			line, err := r.next()
			if errors.Is(err, io.EOF) {
				return
			}
			var one *LineError
			if !yield(*line, err) || err != nil && !errors.As(err, &one) {
				return
			}
		}
	}
}

// Next returns the next line that is not ignored. With a [*LineError] the line has its File and Number only. The other
// errors are the end: io.EOF after a report that is whole, or a [*FileError]; they are returned ever after.
func (r *Reader) Next() (Line, error) {
	line, err := r.next()
	return *line, err
}

// next is Next without the copy: the line is valid until the next call.
func (r *Reader) next() (*Line, error) {
	for r.err == nil {
		if err := r.in.next(); err != nil {
			if !errors.Is(err, io.EOF) {
				r.err = r.broken(err)
			} else if r.p.Trailer != nil && !r.p.Trailer.Optional && r.trailers == 0 {
				r.err = r.refuse(r.in.line, "ends without its trailer, "+quote([]byte(r.p.Trailer.Marker)))
			} else {
				r.err = io.EOF
			}
			break
		}
		if r.isTrailer() {
			r.trailers++
			r.err = r.trailer()
			continue
		}
		if r.trailers > 0 {
			r.err = r.refuse(r.in.first, "goes on behind its trailer")
			break
		}
		if r.in.problem == "" && r.headerAgain() {
			r.err = r.refuse(r.in.first, "has its header again: more than one report in the file?")
			break
		}
		r.summary.Lines++
		r.line = Line{File: r.name, Number: r.in.first}
		r.problems = nil
		ignored := r.read()
		switch {
		case len(r.problems) > 0:
			r.summary.Refused++
			r.line = Line{File: r.name, Number: r.in.first}
			return &r.line, &LineError{File: r.name, Line: r.in.first, Problems: r.problems}
		case ignored:
			r.tally.countKind(KindIgnored)
			continue
		}
		if !r.tally.add(&r.line) {
			r.err = r.refuse(r.in.first, "its sums are out of range")
			break
		}
		if at := r.line.Created; !at.IsZero() {
			if r.summary.First.IsZero() || at.Before(r.summary.First) {
				r.summary.First = at
			}
			if at.After(r.summary.Last) {
				r.summary.Last = at
			}
		}
		return &r.line, nil
	}
	r.line = Line{File: r.name}
	return &r.line, r.err
}

func (r *Reader) refuse(line int, reason string) error {
	return &FileError{File: r.name, Line: line, Reason: reason}
}

// broken tells what the splitter found.
func (r *Reader) broken(err error) error {
	var f *lineFault
	if errors.As(err, &f) {
		return &FileError{File: r.name, Line: f.line, Reason: f.reason, Err: f.err}
	}
	return &FileError{File: r.name, Reason: "cannot be read", Err: err}
}

func (r *Reader) problem(place int, reason string) {
	p := Problem{Reason: reason}
	if place >= 0 {
		p.Column, p.Text = r.layout.names[place], quote(r.in.fields[place])
	}
	r.problems = append(r.problems, p)
}

func (r *Reader) trim(text []byte) []byte {
	if r.p.TrimSpaces {
		return bytes.Trim(text, " ")
	}
	return text
}

func (r *Reader) field(place int) []byte { return r.trim(r.in.fields[place]) }

// read makes the line of the record taken last. What is wrong with it goes into problems.
func (r *Reader) read() (ignored bool) {
	if r.in.problem != "" {
		r.problem(-1, r.in.problem)
		return false
	}
	if n, want := len(r.in.fields), len(r.layout.names); n != want {
		r.problem(-1, fmt.Sprintf("%d fields, the header has %d", n, want))
		return false
	}
	var value []byte
	if r.layout.typ >= 0 {
		value = r.field(r.layout.typ)
	}
	plan := r.layout.types[string(value)]
	if plan == nil {
		r.problem(r.layout.typ, "a type that the profile does not have")
		return false
	}
	if plan.kind == KindIgnored {
		return true
	}
	r.line.Kind, r.line.Type = plan.kind, plan.value
	r.readNames(plan)
	r.readAmounts(plan)
	r.readCreated()
	return false
}

// readNames reads id and reference into one text.
func (r *Reader) readNames(plan *typePlan) {
	id, ok := r.nameAt(plan.id)
	reference, too := r.nameAt(plan.reference)
	if ok && too && r.line.belongs() {
		switch {
		case r.needID && len(id) == 0:
			r.lacks(plan.id, "id")
		case r.needRef && len(reference) == 0:
			r.lacks(plan.reference, "reference")
		case len(id) == 0 && len(reference) == 0:
			r.lacks(-1, "id, and no reference")
		}
	}
	if len(reference) == 0 {
		r.line.ID = string(id)
		return
	}
	r.names = append(append(r.names[:0], id...), reference...)
	both := string(r.names)
	r.line.ID, r.line.Reference = both[:len(id)], both[len(id):]
}

func (r *Reader) lacks(place int, what string) {
	if place < 0 {
		r.problem(-1, "has no "+what)
	} else {
		r.problem(place, "empty")
	}
}

// maxName bounds ids and references. No provider's are longer.
const maxName = 500

func (r *Reader) nameAt(place int) (text []byte, ok bool) {
	if place < 0 {
		return nil, true
	}
	text = r.field(place)
	n := len(text)
	if n == 0 {
		return nil, true
	}
	if n > maxName {
		r.problem(place, fmt.Sprintf("longer than %d bytes", maxName))
		return nil, false
	}
	for _, c := range text {
		if c < ' ' || c == 0x7f {
			r.problem(place, "a control character")
			return nil, false
		}
	}
	if text[0] == ' ' || text[n-1] == ' ' {
		r.problem(place, "a blank at its beginning or end")
		return nil, false
	}
	return text, true
}

// readAmounts reads currency, gross, fee and net and compares them.
func (r *Reader) readAmounts(plan *typePlan) {
	if r.layout.currency >= 0 && !r.readCurrency(r.layout.currency, &r.one, &r.oneText) {
		return
	}
	c := &r.one
	if r.layout.netCurrency >= 0 {
		if !r.readCurrency(r.layout.netCurrency, &r.net, &r.netText) {
			return
		}
		c = &r.net
	}
	gross, ok := r.amount(r.layout.gross, &r.one, plan.opposite.gross)
	if !ok {
		return
	}
	var fee, net int64
	hasFee, hasNet := len(r.layout.fees) > 0, r.layout.net.given()
	if hasFee {
		if fee, ok = r.readFee(c, plan.opposite.fee); !ok {
			return
		}
	}
	if hasNet {
		if net, ok = r.amount(r.layout.net, c, plan.opposite.net); !ok {
			return
		}
	}
	place := max(r.layout.gross.column, r.layout.gross.debit)
	switch {
	case plan.kind == KindCharge && gross < 0:
		r.problem(place, "a charge that takes money away: the sign is not as declared")
		return
	case plan.kind == KindRefund && gross > 0:
		r.problem(place, "a refund that brings money: the sign is not as declared")
		return
	}
	exchanged := c.code != r.one.code
	switch {
	case exchanged: // the amounts are not of one kind
	case hasFee && hasNet:
		if !isDifference(net, gross, fee) {
			r.problem(max(r.layout.net.column, r.layout.net.debit),
				fmt.Sprintf("gross %d minus fee %d is not net %d, in minor units of %s", gross, fee, net, c.code))
			return
		}
	case hasFee:
		net, ok = subtract(gross, fee)
	case hasNet:
		fee, ok = subtract(gross, net)
	}
	if !ok {
		r.problem(-1, "amounts out of range")
		return
	}
	r.line.Gross = r.money(gross, &r.one)
	if hasFee || hasNet {
		r.line.Fee, r.line.Net = r.money(fee, c), r.money(net, c)
	}
	if exchanged && !hasFee {
		r.line.Fee = money.Amount{} // nothing tells it
	}
}

// money makes an amount in a currency that is known to exist.
func (r *Reader) money(minor int64, c *currency) money.Amount {
	a, err := money.Restore(minor, c.code)
	if err != nil {
		r.problem(-1, err.Error())
	}
	return a
}

func subtract(a, b int64) (int64, bool) {
	d := a - b
	return d, (b >= 0) == (d <= a)
}

func isDifference(d, a, b int64) bool {
	exact, ok := subtract(a, b)
	return ok && exact == d
}

// readCurrency looks a currency up unless it is that of the line before.
func (r *Reader) readCurrency(place int, known *currency, knownText *[]byte) bool {
	text := r.field(place)
	if len(text) > 0 && bytes.Equal(text, *knownText) {
		return true
	}
	c, err := r.p.Amounts.findCurrency(string(text))
	if err != nil {
		reason := err
		for _, known := range [...]error{money.ErrUnknownCurrency, money.ErrNoMinorUnit} {
			if errors.Is(err, known) {
				reason = known
			}
		}
		r.problem(place, reason.Error())
		return false
	}
	*known, *knownText = c, append((*knownText)[:0], text...)
	return true
}

// amount reads gross or net.
func (r *Reader) amount(p amountPlace, c *currency, opposite bool) (v int64, ok bool) {
	if p.column >= 0 {
		v, ok = r.single(p.column, c)
	} else {
		v, ok = r.debitCredit(p, c)
	}
	if opposite {
		v = -v
	}
	return v, ok
}

// debitCredit reads two columns without signs, one of which is empty or zero.
func (r *Reader) debitCredit(p amountPlace, c *currency) (int64, bool) {
	var debit, credit int64
	ok := true
	hasDebit, hasCredit := len(r.field(p.debit)) > 0, len(r.field(p.credit)) > 0
	if hasDebit {
		debit, ok = r.single(p.debit, c)
	}
	if hasCredit && ok {
		credit, ok = r.single(p.credit, c)
	}
	switch {
	case !ok:
		return 0, false
	case !hasDebit && !hasCredit:
		r.problem(p.debit, "empty, and so is "+quote([]byte(r.layout.names[p.credit])))
		return 0, false
	case debit != 0 && credit != 0:
		r.problem(p.debit, "debit and credit in one line")
		return 0, false
	case debit < 0 || credit < 0:
		r.problem(p.debit, "a sign in a column for debit or credit")
		return 0, false
	}
	return credit - debit, true
}

// single reads one amount.
func (r *Reader) single(place int, c *currency) (int64, bool) {
	text := r.field(place)
	v, reason := r.amounts.parse(text, c.decimals)
	if reason == "" && c.scale != 0 {
		v, reason = c.minor(v)
	}
	if reason != "" {
		if len(text) == 0 {
			reason = "empty"
		}
		r.problem(place, reason)
		return 0, false
	}
	return v, true
}

// readFee adds the fee columns up. What we pay is positive.
func (r *Reader) readFee(c *currency, opposite bool) (sum int64, ok bool) {
	for _, place := range r.layout.fees {
		if r.p.Amounts.EmptyFeeIsZero && len(r.field(place)) == 0 {
			continue
		}
		v, ok := r.single(place, c)
		if !ok {
			return 0, false
		}
		if !addTo(&sum, v) {
			r.problem(place, "out of range")
			return 0, false
		}
	}
	if (r.p.FeeSign == FeeAdded) != opposite {
		sum = -sum
	}
	return sum, true
}

// readCreated reads when the thing was made.
func (r *Reader) readCreated() {
	places := r.layout.created
	if len(places) == 0 {
		return
	}
	text := r.field(places[0])
	for _, place := range places[1:] {
		r.joined = append(append(r.joined[:0], text...), ' ')
		r.joined = append(r.joined, r.field(place)...)
		text = r.joined
	}
	if len(text) < len(places) { // blanks only
		if r.needAt && r.line.belongs() {
			r.problem(places[0], "empty")
		}
		return
	}
	zone := r.clock.zone
	if r.layout.zone >= 0 {
		var err error
		if zone, err = r.clock.named(r.field(r.layout.zone)); err != nil {
			r.problem(r.layout.zone, "no IANA zone")
			return
		}
	}
	at, local, ok := r.clock.parse(text, zone)
	if !ok {
		p := Problem{Column: r.layout.names[places[0]], Text: quote(text), Reason: fmt.Sprintf("want a time like %s", example(r.clock.layouts[0]))}
		r.problems = append(r.problems, p)
		return
	}
	r.line.Created, r.line.Local = at, local
}

// example writes a time by a layout.
func example(layout string) string {
	return time.Date(2026, 11, 23, 17, 48, 59, 0, time.FixedZone("", 2*3600)).Format(layout)
}

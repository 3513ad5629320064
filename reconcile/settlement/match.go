package settlement

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"reflect"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Store is what Match needs of an [attempt.Store].
type Store interface {
	Briefs(ctx context.Context, ids, chargeIDs []string) ([]attempt.Brief, error)
	Attempt(ctx context.Context, id string) (attempt.Attempt, error)
	Sent(ctx context.Context, place attempt.Place, from, to time.Time) iter.Seq2[attempt.Sent, error]
	Notes(ctx context.Context, filter attempt.NoteFilter) ([]attempt.Note, error)
	Apply(ctx context.Context, steps ...*attempt.Step) error
}

var _ Store = attempt.Store(nil)

// Source is a report that can be opened twice: first it is read to see whether it is whole.
type Source struct {
	Name string // for messages
	Open func() (io.ReadCloser, error)
}

// File is the report in a file.
func File(path string) Source {
	return Source{Name: path, Open: func() (io.ReadCloser, error) { return os.Open(path) }}
}

// DefaultMargin is the Margin of Options that say none.
const DefaultMargin = 24 * time.Hour

// Options say how reports are matched.
type Options struct {
	Profile Profile
	Place   attempt.Place // whose reports they are: an attempt of another place is never matched
	Who     string        // goes into the events of what is recorded

	// From and To are what the reports cover. Zero: from the earliest to the latest time in them; reports without times
	// need both.
	From, To time.Time
	// Margin is how far a provider's day may be shifted against ours: an attempt that has no line is final, as ours only,
	// once reports up to so long after it were read. Zero: DefaultMargin.
	Margin time.Duration

	// ReadOnly compares and records nothing, neither evidence nor which attempts had a line.
	ReadOnly bool
	// TempDir is for the temporary files that reports of more than some ten thousand lines need. Empty: the system's.
	TempDir string

	// Tell is given every exception: those of lines in the order of the reports, then, in no order, the attempts without
	// a line. Its error ends Match. Nil: they are counted only.
	Tell func(Item) error
	// TellAll gives it the lines that match, too.
	TellAll bool

	inMemory int // entries of a spill; zero: spillLimit
}

// Result is what became of a line, or of an attempt without one.
type Result string

// The results.
const (
	Matched       Result = "matched"        // the line is an approved attempt's, and its amount that of the attempt
	AmountDiffers Result = "amount_differs" // it is an attempt's, with another amount or currency
	OursOnly      Result = "ours_only"      // an approved attempt that no report has
	Waiting       Result = "waiting"        // the same, but the next report may have it
	// TheirsOnly: no attempt has charge or reference, or the one that has them is not paid by it. Money that came after its
	// attempt's end is matched once it was given back, or kept by a decision.
	TheirsOnly  Result = "theirs_only"
	Duplicate   Result = "duplicate"  // a second line, or a second charge, of what has one
	Chargeback  Result = "chargeback" // the payer's bank has taken a charge of ours back, or returned it
	LineRefused Result = "line_error" // the line could not be read
)

// Item is one result.
type Item struct {
	Result Result
	Line   Line // the zero Line of ours_only and waiting; File and Number only of line_error
	// LineID names the line wherever it stands, whatever the file is called: its Digest, a dot, and how often the reports
	// have had a line that says the same, this one included. Empty of ours_only, waiting and line_error.
	LineID  string
	Attempt attempt.Brief // as it stands afterwards; the zero Brief where there is none
	At      time.Time     // of ours_only and waiting: when the attempt was sent last
	Reason  string        // for a person
	Settled bool          // the line has settled an attempt that was open
	Err     *LineError    // of line_error
}

// Report is what the matching came to.
type Report struct {
	Files    []Summary
	Again    []string       // names of reports that were matched before
	Counts   map[Result]int // the lines of other kinds than charge, refund and chargeback have no result
	Settled  int            // attempts that were open and are no more
	Recorded int            // lines that became evidence; a report matched again has none
	Doubtful int            // lines that did not, because most lines of the run contradict what we know
	Totals   map[string]Totals
	From, To time.Time // what the reports cover
}

// Differences tells whether there is anything for a person to look at.
func (r Report) Differences() bool {
	for result, n := range r.Counts {
		if n > 0 && result != Matched && result != Waiting {
			return true
		}
	}
	return false
}

// Match compares reports with our attempts and tells what differs.
//
// All reports are read once before anything is made of them. A [*FileError] or [*ProfileError] then means that nothing of
// any report was imported. Any other error, of the store or of Tell, leaves what was recorded until then, and Match can be
// run again: each line becomes evidence once, and a report that was matched before adds nothing.
//
// A line belongs to the attempt that its charge has approved, or else to the one whose reference it has; charges to charges
// and refunds to refunds, of Options.Place only. What is compared is gross. A line that tells of money which the attempt
// does not know is evidence for it ([attempt.EvidenceSettlement]): it settles an open attempt, and money beside an end opens
// a duty. Line and attempt with different amounts are told, and an approved attempt is not changed for it.
//
// Nothing of that is recorded while more lines than not have another charge id, or another amount, than the attempts that
// they name: then it is rather the profile that is wrong. They are told, and counted as Doubtful.
//
// Which attempts had a line is kept in the store, about 16 bytes for each, so that an attempt may be missing in one report
// because it is in another one.
func Match(ctx context.Context, store Store, reports []Source, o Options) (Report, error) {
	m, err := newMatcher(ctx, store, o)
	if err != nil {
		return Report{}, err
	}
	err = errors.Join(m.run(reports), m.close())
	return m.report, err
}

type matcher struct {
	ctx    context.Context
	store  Store
	o      Options
	report Report

	subjects *spill // of all lines, to find those that come twice
	repeated map[[16]byte]*repeated
	equal    map[string]int // lines so far that say the same, by digest, of those that come twice

	hadLine *spill // attempts
	ours    *spill // approved attempts of the time that the reports cover

	batch []*pending
	spare []*pending
	known known // to the batch

	remember remember

	// How many lines so far agree with the attempts that they name, and how many do not.
	sameID, otherID, sameAmount, otherAmount int
}

// repeated is a subject that more than one line has.
type repeated struct {
	file, line int // the first
	seen       bool
}

func newMatcher(ctx context.Context, store Store, o Options) (*matcher, error) {
	if err := o.Profile.Validate(); err != nil {
		return nil, err
	}
	switch {
	case o.Place.Provider == "":
		return nil, errors.New("match: the place has no provider")
	case o.Margin < 0:
		return nil, fmt.Errorf("match: margin %s is negative", o.Margin)
	case !o.From.IsZero() && !o.To.IsZero() && o.To.Before(o.From):
		return nil, fmt.Errorf("match: from %s is after to %s", o.From, o.To)
	}
	if o.Margin == 0 {
		o.Margin = DefaultMargin
	}
	if o.inMemory == 0 {
		o.inMemory = spillLimit
	}
	return &matcher{
		ctx: ctx, store: store, o: o, report: Report{Counts: make(map[Result]int), Totals: make(map[string]Totals)},
		subjects: newSpill(o.TempDir, o.inMemory), hadLine: newSpill(o.TempDir, o.inMemory), ours: newSpill(o.TempDir, o.inMemory),
		repeated: make(map[[16]byte]*repeated), equal: make(map[string]int),
	}, nil
}

func (m *matcher) close() error {
	return errors.Join(m.subjects.close(), m.hadLine.close(), m.ours.close())
}

func (m *matcher) run(reports []Source) error {
	if len(reports) > maxReports {
		return fmt.Errorf("match: %d reports, want at most %d at once", len(reports), maxReports)
	}
	var checked []Summary
	for i, source := range reports {
		s, err := m.check(i, source)
		if err != nil {
			return err
		}
		checked = append(checked, s)
	}
	if err := m.period(checked); err != nil {
		return err
	}
	if err := m.findRepeated(); err != nil {
		return err
	}
	if err := m.readFiles(); err != nil {
		return err
	}
	for i, source := range reports {
		if err := m.match(i, source, checked[i]); err != nil {
			return err
		}
	}
	return m.tellOurs()
}

// maxReports is bounded by how a line's place is packed into a number.
const (
	maxReports = 1 << 15
	lineBits   = 48
)

// check reads a report for itself, notes what its lines are about, and takes the report's digest.
func (m *matcher) check(i int, source Source) (Summary, error) {
	in, err := open(source)
	if err != nil {
		return Summary{}, err
	}
	defer in.Close()
	digest := sha256.New()
	r, err := NewReader(io.TeeReader(in, digest), source.Name, m.o.Profile)
	if err != nil {
		return Summary{}, err
	}
	for {
		l, err := r.next()
		var one *LineError
		switch {
		case errors.Is(err, io.EOF):
			m.remember.digests = append(m.remember.digests, hex.EncodeToString(digest.Sum(nil)))
			return r.Summary(), nil
		case errors.As(err, &one):
			continue
		case err != nil:
			return Summary{}, err
		}
		if !l.belongs() {
			continue
		}
		if err := m.subjects.add(entry{subject(l), int64(i)<<lineBits | int64(l.Number)}); err != nil {
			return Summary{}, err
		}
		if err := m.ctx.Err(); err != nil {
			return Summary{}, err
		}
	}
}

func open(source Source) (io.ReadCloser, error) {
	in, err := source.Open()
	if err != nil {
		return nil, &FileError{File: source.Name, Reason: "cannot be opened", Err: err}
	}
	return in, nil
}

// subject says what a line is about: two lines with the same one speak of the same charge, refund or chargeback. A chargeback
// that is returned is another thing than the chargeback.
func subject(l *Line) [16]byte {
	var room [256]byte
	b := append(room[:0], l.Kind...)
	if l.Kind == KindChargeback && l.Gross.Minor() > 0 {
		b = append(b, '+')
	}
	b = append(b, 0)
	if l.ID != "" {
		b = append(b, l.ID...)
	} else {
		b = append(append(b, 0), l.Reference...)
	}
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}

// period finds out what the reports cover.
func (m *matcher) period(reports []Summary) error {
	from, to := m.o.From, m.o.To
	for _, s := range reports {
		if m.o.From.IsZero() && !s.First.IsZero() && (from.IsZero() || s.First.Before(from)) {
			from = s.First
		}
		if m.o.To.IsZero() && s.Last.After(to) {
			to = s.Last
		}
	}
	lines := 0
	for _, s := range reports {
		lines += s.Lines
	}
	if (from.IsZero() || to.IsZero()) && lines > 0 {
		return errors.New("match: the reports have no times: say from when to when they are")
	}
	m.report.From, m.report.To = from, to
	return nil
}

// findRepeated finds the subjects that more than one line has.
func (m *matcher) findRepeated() error {
	var room []entry
	for cut := range cutCount {
		var err error
		if room, err = m.subjects.load(cut, room); err != nil {
			return err
		}
		for i := 1; i < len(room); i++ {
			if first := room[i-1]; first.key == room[i].key && m.repeated[first.key] == nil {
				m.repeated[first.key] = &repeated{file: int(first.value >> lineBits), line: int(first.value & (math.MaxInt64 >> (63 - lineBits)))}
			}
		}
	}
	return m.subjects.close()
}

// batchSize is how many lines are looked up, and recorded, together.
const batchSize = 500

// match reads a report again and judges its lines.
func (m *matcher) match(i int, source Source, checked Summary) error {
	in, err := open(source)
	if err != nil {
		return changed(source, err.Error())
	}
	defer in.Close()
	r, err := NewReader(in, source.Name, m.o.Profile)
	if err != nil {
		return changed(source, err.Error())
	}
	m.remember.start(m.remember.digests[i])
	for {
		l, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		var one *LineError
		if err != nil && !errors.As(err, &one) {
			return changed(source, err.Error())
		}
		if one == nil && !l.belongs() {
			continue
		}
		p := m.pending()
		p.line, p.file, p.refused = *l, i, one
		if m.batch = append(m.batch, p); len(m.batch) == batchSize {
			if err := m.judge(); err != nil {
				return err
			}
		}
	}
	if err := m.judge(); err != nil {
		return err
	}
	s := r.Summary()
	if !reflect.DeepEqual(s, checked) {
		return changed(source, "it has other lines than before")
	}
	m.report.Files = append(m.report.Files, s)
	for code, sums := range s.Totals {
		all := m.report.Totals[code]
		all.Lines += sums.Lines
		if !addTo(&all.Gross, sums.Gross) || !addTo(&all.Fee, sums.Fee) || !addTo(&all.Net, sums.Net) {
			return fmt.Errorf("match: the sums in %s are out of range", code)
		}
		m.report.Totals[code] = all
	}
	return m.rememberFile(i, s)
}

// changed is no FileError: that would say that nothing was imported.
func changed(source Source, why string) error {
	return fmt.Errorf("match: %s was whole when it was checked, and is not any more; match it again: %s", source.Name, why)
}

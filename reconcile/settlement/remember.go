package settlement

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// What the store keeps of reports, as notes, of one place:
//
//	settlement/lines/...   each line that became evidence, by its LineID
//	settlement/had/...     the ids of the attempts that had a line in a report, 16 bytes each, in pieces: digest/piece
//	settlement/files/...   each report, by the digest of its bytes: written last, when all else is
func scope(what string, p attempt.Place) string {
	return "settlement/" + what + "/" + url.PathEscape(p.Provider) + "/" + url.PathEscape(p.Account) + "/" + url.PathEscape(p.Environment)
}

// How an attempt had a line.
const (
	hadBefore = iota // in a report that was matched before
	hadOther         // in this run, with another result than matched
	hadMatch         // in this run
)

// remember is what is kept of the reports of this run, and known of former ones.
type remember struct {
	digests []string // of this run's reports
	digest  string   // of the one being read
	ids     []byte   // of its attempts, not yet stored
	files   []noteOfFile
}

// noteOfFile is kept of a report.
type noteOfFile struct {
	Name  string    `json:"name"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	Lines int       `json:"lines"`

	digest string
}

func (r *remember) start(digest string) { r.digest, r.ids = digest, r.ids[:0] }

// pieceSize is 4,096 ids: a note holds 64 KiB.
const pieceSize = 64 << 10

// had notes that an attempt had a line.
func (m *matcher) had(id string, how int64) error {
	key, err := keyOf(id)
	if err != nil {
		return err
	}
	if err := m.hadLine.add(entry{key, how}); err != nil {
		return err
	}
	m.remember.ids = append(m.remember.ids, key[:]...)
	if len(m.remember.ids) < pieceSize {
		return nil
	}
	return m.storePiece()
}

// storePiece stores ids under a name that is their own: the same report, matched again, adds nothing.
func (m *matcher) storePiece() error {
	r := &m.remember
	if len(r.ids) == 0 || m.o.ReadOnly {
		r.ids = r.ids[:0]
		return nil
	}
	sum := sha256.Sum256(r.ids)
	err := m.note(&attempt.Once{Scope: scope("had", m.o.Place), ID: r.digest + "/" + hex.EncodeToString(sum[:16]), Data: slices.Clone(r.ids)})
	r.ids = r.ids[:0]
	return err
}

// note keeps something once.
func (m *matcher) note(once *attempt.Once) error {
	if err := m.store.Apply(m.ctx, &attempt.Step{Once: once}); err != nil && !errors.Is(err, attempt.ErrSeen) {
		return fmt.Errorf("match: remember the report: %w", err)
	}
	return nil
}

// rememberFile stores that a report was matched.
func (m *matcher) rememberFile(i int, s Summary) error {
	if err := m.storePiece(); err != nil || m.o.ReadOnly {
		return err
	}
	note := noteOfFile{Name: s.File, First: s.First, Last: s.Last, Lines: s.Lines}
	if note.First.IsZero() {
		note.First, note.Last = m.report.From, m.report.To
	}
	if note.First.IsZero() || note.Last.IsZero() { // no lines: it covers no time that is known
		return nil
	}
	data, err := json.Marshal(note)
	if err != nil {
		return err
	}
	return m.note(&attempt.Once{Scope: scope("files", m.o.Place), ID: m.remember.digests[i], Data: data})
}

// readFiles reads which reports were matched before.
func (m *matcher) readFiles() error {
	filter := attempt.NoteFilter{Scope: scope("files", m.o.Place), Limit: 1000}
	for {
		notes, err := m.store.Notes(m.ctx, filter)
		if err != nil {
			return err
		}
		for _, n := range notes {
			f := noteOfFile{digest: n.ID}
			if err := json.Unmarshal(n.Data, &f); err != nil {
				return fmt.Errorf("match: what is kept of report %s: %w", n.ID, err)
			}
			filter.After = n.ID
			if slices.Contains(m.remember.digests, n.ID) {
				m.report.Again = append(m.report.Again, f.Name)
				continue
			}
			m.remember.files = append(m.remember.files, f)
		}
		if len(notes) < filter.Limit {
			return nil
		}
	}
}

// since returns from when on attempts are looked at: reports before this run's have left undecided what came within the
// margin before their end. Before the first report that was ever matched, nothing is known.
func (m *matcher) since() time.Time {
	from := m.report.From
	first, last := from, time.Time{}
	for _, f := range m.remember.files {
		if f.First.Before(first) {
			first = f.First
		}
		if f.First.Before(from) && f.Last.After(last) {
			last = f.Last
		}
	}
	since := from
	if !last.IsZero() && last.Before(since) {
		since = last
	}
	if since = since.Add(-m.o.Margin); since.Before(first) {
		return first
	}
	return since
}

// latest returns up to when reports were read.
func (m *matcher) latest() time.Time {
	latest := m.report.To
	for _, f := range m.remember.files {
		if f.Last.After(latest) {
			latest = f.Last
		}
	}
	return latest
}

// readHad reads which attempts had a line in former reports that may hold one of the time since then.
func (m *matcher) readHad(since time.Time) error {
	for _, f := range m.remember.files {
		if f.Last.Before(since.Add(-m.o.Margin)) {
			continue
		}
		filter := attempt.NoteFilter{Scope: scope("had", m.o.Place), After: f.digest + "/", Limit: 16}
		for more := true; more; {
			notes, err := m.store.Notes(m.ctx, filter)
			if err != nil {
				return err
			}
			more = len(notes) == filter.Limit
			for _, n := range notes {
				if !strings.HasPrefix(n.ID, f.digest+"/") {
					more = false
					break
				}
				filter.After = n.ID
				if len(n.Data)%16 != 0 {
					return fmt.Errorf("match: what is kept as %s is no list of attempts", n.ID)
				}
				for ids := n.Data; len(ids) > 0; ids = ids[16:] {
					if err := m.hadLine.add(entry{[16]byte(ids), hadBefore}); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

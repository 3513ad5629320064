package fakeprovider

import (
	"hash/maphash"
	"strconv"
	"time"
)

// State is where a charge, a refund or an order stands.
type State string

const (
	Succeeded State = "succeeded"
	Pending   State = "pending"
	Failed    State = "failed"
)

func parseState(s string) (State, error) {
	switch st := State(s); st {
	case Succeeded, Pending, Failed:
		return st, nil
	}
	return "", &badState{s}
}

type badState struct{ text string }

func (e *badState) Error() string {
	return strconv.Quote(e.text) + " is no status: want succeeded, pending or failed"
}

func (s State) compact() uint8 {
	switch s {
	case Pending:
		return 1
	case Failed:
		return 2
	}
	return 0
}

var states = [...]State{Succeeded, Pending, Failed}

// record is a charge or a refund, kept small: a load test makes millions.
type record struct {
	text     string // reference, source (refund: reason), description, in a row
	amount   int64
	booked   int64 // Unix time in nanoseconds
	next     uint32
	client   uint32
	parent   uint32 // a refund's charge
	refLen   uint16
	srcLen   uint16
	code     uint16 // decline code, an index into books.codes
	currency [3]byte
	state    uint8
	first    uint8 // the state as first answered, for the replay
	marks    uint8
}

// Marks of a record.
const (
	markAction uint8 = 1 << iota // the payer has to act while it is pending
	markVoided                   // failed because it was voided
)

// become changes the status. Voided stays what it is until somebody says
// otherwise.
func (r *record) become(to State, voided bool) {
	if voided || r.marks&markVoided != 0 && to == Failed {
		r.marks |= markVoided
	} else {
		r.marks &^= markVoided
	}
	r.state = to.compact()
}

// declineCodeOf says why a record has failed.
func (p *Provider) declineCodeOf(r *record) string {
	if r.marks&markVoided != 0 {
		return codeVoided
	}
	return p.codes[r.code]
}

func (r *record) reference() string   { return r.text[:r.refLen] }
func (r *record) source() string      { return r.text[r.refLen : r.refLen+r.srcLen] }
func (r *record) description() string { return r.text[r.refLen+r.srcLen:] }

// shelf holds the records of one kind, found by number or by reference.
type shelf struct {
	prefix  string
	list    table[record]
	byRef   map[uint64]uint32 // newest record's number per reference hash
	hidden  map[uint32]int64  // not found by searches before this time
	listing listing
}

func (s *shelf) reset(prefix string) {
	*s = shelf{prefix: prefix, byRef: map[uint64]uint32{}}
}

// add stores r and returns its number, counting from 1.
func (s *shelf) add(seed maphash.Seed, r record) uint32 {
	h := maphash.String(seed, r.reference())
	r.next = s.byRef[h]
	n := s.list.add(r)
	s.byRef[h] = n
	return n
}

// each calls f with the records of a client's reference, newest first.
func (s *shelf) each(seed maphash.Seed, client uint32, ref string, f func(n uint32, r *record)) {
	for n := s.byRef[maphash.String(seed, ref)]; n != 0; {
		r := s.list.at(n)
		if r.client == client && r.reference() == ref {
			f(n, r)
		}
		n = r.next
	}
}

func (s *shelf) id(n uint32) string {
	return string(appendID(nil, s.prefix, n))
}

// number is the inverse of id, 0 if there is no such record.
func (s *shelf) number(id string) uint32 {
	if len(id) <= len(s.prefix) || id[:len(s.prefix)] != s.prefix {
		return 0
	}
	n, err := strconv.ParseUint(id[len(s.prefix):], 10, 32)
	if err != nil || n == 0 || int(n) > s.list.len() || s.id(uint32(n)) != id {
		return 0
	}
	return uint32(n)
}

// appendID appends prefix and number, with six digits at least.
func appendID(b []byte, prefix string, n uint32) []byte {
	b = append(b, prefix...)
	for limit := uint32(100000); limit > n && limit > 1; limit /= 10 {
		b = append(b, '0')
	}
	return strconv.AppendUint(b, uint64(n), 10)
}

// table is a list that never moves its elements and so never holds room for
// twice of them. Elements are numbered from 1.
type table[T any] struct {
	chunks [][]T
}

const chunk = 512

func (t *table[T]) add(v T) uint32 {
	last := len(t.chunks) - 1
	if last < 0 || len(t.chunks[last]) == chunk {
		t.chunks = append(t.chunks, make([]T, 0, chunk))
		last++
	}
	t.chunks[last] = append(t.chunks[last], v)
	return uint32(last*chunk + len(t.chunks[last]))
}

func (t *table[T]) at(n uint32) *T {
	n--
	return &t.chunks[n/chunk][n%chunk]
}

func (t *table[T]) len() int {
	if len(t.chunks) == 0 {
		return 0
	}
	last := len(t.chunks) - 1
	return last*chunk + len(t.chunks[last])
}

// job is something the provider does later, whether or not anybody waits.
type job struct {
	due  int64
	run  func()
	flip *flip       // a change of status
	line func() line // a waiting booking, for the ledger file
}

// flip changes a record's status.
type flip struct {
	kind uint8
	n    uint32
	to   State
}

// later queues a job. The caller holds the lock.
func (p *Provider) later(due time.Time, run func()) *job {
	j := &job{due: due.UnixNano(), run: run}
	i := len(p.jobs)
	for i > 0 && p.jobs[i-1].due > j.due {
		i--
	}
	p.jobs = append(p.jobs, nil)
	copy(p.jobs[i+1:], p.jobs[i:])
	p.jobs[i] = j
	p.arm(j)
	return j
}

// arm has a job done in time although nobody asks: a ledger file is read by
// others, a webhook tells of it. Books in memory need no timer.
func (p *Provider) arm(j *job) {
	if (p.journal != nil || p.outbox.on) && !p.restoring {
		time.AfterFunc(time.Duration(j.due-p.config.Now().UnixNano()), p.tick)
	}
}

func (p *Provider) tick() {
	if p.settleNow() {
		defer p.active.Done()
		p.journal.sync() //nolint:errcheck // nobody waits here: it is kept, and every answer from now on and Close tell it
	}
}

func (p *Provider) settleNow() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.active.Add(1)
	p.settle(p.config.Now())
	return true
}

// settle does what is due: everything that asks the books calls it first, so
// that no goroutine has to wait for the time to come. The caller holds the
// lock.
func (p *Provider) settle(now time.Time) {
	for len(p.jobs) > 0 && p.jobs[0].due <= now.UnixNano() {
		j := p.jobs[0]
		p.jobs = p.jobs[1:]
		j.run()
	}
}

// force does one job now, whatever the clock of the books says: whoever waited
// for it has waited long enough.
func (p *Provider) force(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(p.config.Now())
	for i, other := range p.jobs {
		if other == j {
			p.jobs = append(p.jobs[:i:i], p.jobs[i+1:]...)
			j.run()
			return
		}
	}
}

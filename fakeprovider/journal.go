package fakeprovider

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// ErrInUse is returned by Open when another provider has the ledger file.
var ErrInUse = errors.New("the ledger file is in use by another fake provider")

// Open returns a provider whose books are kept in a file and survive a
// restart, kill -9 included: a charge is on disk before it is answered, a
// line that was being written when the process died is dropped, and a charge
// or refund that was accepted and not yet due (fault "book-after") is booked
// when its time has come, a webhook's event that nobody acknowledged is
// delivered. Faults are not kept. Only one provider may have a file; a second one
// gets ErrInUse. Close releases it. A file that is not there is made, and its
// books get an id, see [Provider.ID]; a copy of a file is the same provider.
//
// A charge that could not be written may have been lost: it, and every request
// after it, is answered with 500 and the code "ledger_failed", and Close
// returns the cause.
func Open(file string, c Config) (*Provider, error) {
	if _, err := c.Script.parse(); err != nil {
		return nil, err
	}
	if err := c.Webhook.Validate(); err != nil {
		return nil, err
	}
	p := New(c)
	p.restoring = true
	j, err := openJournal(file, p)
	if err != nil {
		return nil, fmt.Errorf("fake provider's ledger %s: %w", file, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.journal, p.restoring = j, false
	p.armOutbox()
	for _, waiting := range p.jobs {
		p.arm(waiting)
	}
	return p, nil
}

// journal is an append-only file of JSON lines. Lines are written under the
// provider's lock; a nil journal keeps nothing.
type journal struct {
	path  string
	lock  io.Closer
	file  ledgerFile
	size  int64  // where the next line goes; the provider's lock guards it
	later uint64 // last name of a waiting booking

	mu      sync.Mutex // guards the fields below
	written uint64     // lines that must be on disk before anybody is answered
	synced  uint64
	failed  error // the first failure, for good: what the file holds is no longer what the books hold

	syncing sync.Mutex // one fsync at a time
}

// ledgerFile is what a journal needs of its *os.File.
type ledgerFile interface {
	io.WriterAt
	io.Closer
	Sync() error
	Truncate(size int64) error
}

// line is one line of the file; t says which fields count.
type line struct {
	T        string       `json:"t"` // books, booked, accepted, order, key, state, request, event, told, count
	ID       string       `json:"id,omitempty"`
	Kind     string       `json:"kind,omitempty"`
	N        uint32       `json:"n,omitempty"`
	Later    uint64       `json:"later,omitempty"`
	At       int64        `json:"at,omitempty"` // Unix nanoseconds: booked, or due
	Client   string       `json:"client,omitempty"`
	State    State        `json:"status,omitempty"`
	First    State        `json:"first_status,omitempty"`
	Amount   int64        `json:"amount,omitempty"`
	Currency string       `json:"currency,omitempty"`
	Ref      string       `json:"merchant_reference,omitempty"`
	Source   string       `json:"source,omitempty"`
	Text     string       `json:"description,omitempty"`
	Code     string       `json:"decline_code,omitempty"`
	Parent   uint32       `json:"charge,omitempty"`
	Action   bool         `json:"action,omitempty"`
	Voided   bool         `json:"voided,omitempty"`
	Twice    bool         `json:"twice,omitempty"`
	Hide     int64        `json:"hide,omitempty"` // nanoseconds
	FlipTo   State        `json:"flip_to,omitempty"`
	FlipIn   int64        `json:"flip_after,omitempty"` // nanoseconds
	Slow     int64        `json:"slow,omitempty"`       // nanoseconds
	Key      *keyLine     `json:"key,omitempty"`
	Order    *orderLine   `json:"order,omitempty"`
	Request  *Request     `json:"request,omitempty"`
	Events   []eventLine  `json:"events,omitempty"`
	Count    *counterLine `json:"count,omitempty"`
}

type keyLine struct {
	Client string      `json:"client"`
	Key    string      `json:"key"`
	Print  string      `json:"print,omitempty"` // hex
	State  uint8       `json:"state"`
	End    int64       `json:"end,omitempty"`
	Kind   string      `json:"kind,omitempty"`
	Record uint32      `json:"record,omitempty"`
	Answer *answerLine `json:"answer,omitempty"`
}

type answerLine struct {
	Status int         `json:"status"`
	Type   string      `json:"type,omitempty"`
	Body   []byte      `json:"body,omitempty"`
	Header [][2]string `json:"header,omitempty"`
}

type orderLine struct {
	Order
	Visible int64 `json:"visible,omitempty"`
}

type counterLine struct {
	Requests int    `json:"requests"`
	Keys     int    `json:"keys"`
	Events   uint32 `json:"events,omitempty"`
}

var kindNames = [...]string{kindCharge: "charge", kindRefund: "refund"}

func kindOf(name string) (uint8, error) {
	for k, n := range kindNames {
		if n == name {
			return uint8(k), nil
		}
	}
	return 0, fmt.Errorf("unknown kind %q", name)
}

// openJournal locks the file, reads it into p, and makes it ready to append.
func openJournal(path string, p *Provider) (_ *journal, err error) {
	if path, err = resolved(path); err != nil {
		return nil, err
	}
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	lines, good, torn, err := readLines(path)
	if err != nil {
		return nil, err
	}
	j := &journal{path: path, lock: lock}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.restore(lines, j); err != nil {
		return nil, err
	}
	p.keys.sweepSome(p.seed, p.config.Now().UnixNano(), int64(p.config.KeyRetention), p.keys.list.len())
	live := p.snapshot()
	if len(lines) > 2*len(live)+1000 {
		if err := replaceFile(path, live); err != nil {
			return nil, err
		}
	} else if torn {
		if err := os.Truncate(path, good); err != nil {
			return nil, err
		}
	}
	_, statErr := os.Stat(path)
	// Not O_APPEND: on Windows such a file cannot be truncated.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	j.file = f
	j.size, err = f.Seek(0, io.SeekEnd)
	if err == nil && len(lines) == 0 { // begun here, or emptied, or torn before anything was answered
		j.append(true, p.booksLines()...)
		err = j.sync() // before anybody is told the id
	}
	if err == nil && errors.Is(statErr, os.ErrNotExist) {
		err = syncDir(path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// resolved is the file that a path leads to, also where that is not there yet: one file has one lock, by whatever links it is
// reached.
func resolved(path string) (string, error) {
	const most = 40 // links, as the kernel has it: path_resolution(7)
	for range most {
		target, err := os.Readlink(path)
		if err != nil { // no link, or nothing there
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			return filepath.Join(dir, filepath.Base(path)), err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return "", errors.New("too many symbolic links")
}

// readLines returns the lines of the file, how many bytes they take, and
// whether a torn last line follows them.
func readLines(path string) (lines []line, good int64, torn bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, false, nil
	}
	if err != nil {
		return nil, 0, false, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r := bufio.NewReaderSize(f, 1<<16)
	for number := 1; ; number++ {
		b, err := r.ReadBytes('\n')
		if err == io.EOF {
			return lines, good, len(b) > 0, nil
		}
		if err != nil {
			return nil, 0, false, err
		}
		var l line
		if err := json.Unmarshal(b, &l); err != nil {
			if _, more := r.Peek(1); more == io.EOF {
				return lines, good, true, nil
			}
			return nil, 0, false, fmt.Errorf("line %d is damaged: %w", number, err)
		}
		lines = append(lines, l)
		good += int64(len(b))
	}
}

// replaceFile writes the lines beside the file and puts them in its place.
func replaceFile(path string, lines []line) error {
	var b bytes.Buffer
	for i := range lines {
		if err := encodeLine(&b, &lines[i]); err != nil {
			return err
		}
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = tmp.Write(b.Bytes())
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return syncDir(path)
}

func encodeLine(b *bytes.Buffer, l *line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	b.Write(data)
	b.WriteByte('\n')
	return nil
}

// append writes lines, all or none. With must they have to be on disk before
// the next answer leaves. A failure is kept: from then on nothing more is
// written, for it would not follow what the file holds, and sync tells every
// caller. The caller holds the provider's lock.
func (j *journal) append(must bool, lines ...line) {
	if j == nil || len(lines) == 0 || j.failure() != nil {
		return
	}
	var b bytes.Buffer
	var err error
	for i := range lines {
		err = errors.Join(err, encodeLine(&b, &lines[i]))
	}
	if err == nil {
		_, err = j.file.WriteAt(b.Bytes(), j.size)
		if err != nil { // a charge without its key would be made again
			err = errors.Join(err, j.file.Truncate(j.size))
		}
	}
	if err != nil {
		j.fail(err)
		return
	}
	j.size += int64(b.Len())
	if must {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.written++
	}
}

func (j *journal) failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failed
}

// fail keeps the first failure.
func (j *journal) fail(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed == nil {
		j.failed = err
	}
}

// sync returns when all that has to be on disk is there. Callers that come
// while another one syncs share the next sync. After a failure, an earlier
// one included, it says that the file does not hold everything.
func (j *journal) sync() error {
	if j == nil {
		return nil
	}
	state := func() (written, synced uint64, failed error) {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.written, j.synced, j.failed
	}
	want, synced, err := state()
	if err != nil || synced >= want {
		return err
	}
	j.syncing.Lock()
	defer j.syncing.Unlock()
	upTo, synced, err := state()
	if err != nil || synced >= want {
		return err
	}
	if err := j.file.Sync(); err != nil {
		j.fail(err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.synced = max(j.synced, upTo)
	return j.failed
}

func (j *journal) close() error {
	if j == nil {
		return nil
	}
	return errors.Join(j.sync(), j.file.Close(), j.lock.Close())
}

// reset empties the file and begins it with lines of new books. A crash in
// between leaves an empty one, which Open begins. The caller holds the
// provider's lock.
func (j *journal) reset(begin []line) error {
	if j == nil {
		return nil
	}
	if err := errors.Join(j.file.Truncate(0), j.file.Sync()); err != nil {
		j.fail(err) // the books are empty, the file may not be
		return err
	}
	j.size = 0
	j.append(true, begin...)
	return j.sync()
}

// accepted notes a booking that waits for its time and returns its name.
func (j *journal) accepted(x *exchange, b *booking, due time.Time) uint64 {
	if j == nil {
		return 0
	}
	j.later++
	b.later = j.later
	j.append(true, x.acceptedLine(b, due))
	return j.later
}

func (x *exchange) acceptedLine(b *booking, due time.Time) line {
	l := x.p.bookingLine("accepted", b, due.UnixNano())
	l.Later, l.Slow = b.later, int64(x.slow)
	l.Key = x.p.keyLine(x.entry)
	return l
}

// concluded notes what an exchange changed.
func (j *journal) concluded(x *exchange) {
	if j == nil {
		return
	}
	p := x.p
	var lines []line
	for _, e := range x.booked {
		l := p.bookingLine("booked", &e.booking, e.at.UnixNano())
		l.N, l.Later, l.Events = e.n, e.later, eventLines(e.events...)
		lines = append(lines, l)
	}
	switch k := p.keyLine(x.entry); {
	case k == nil:
	case len(lines) > 0: // in one line: a crash must not part a charge from its key
		lines[len(lines)-1].Key = k
	case x.keeps || x.touched:
		lines = append(lines, line{T: "key", Key: k})
	}
	for n := x.firstOrder; n != 0 && int(n) <= p.orders.list.len(); n++ {
		lines = append(lines, line{T: "order", Order: p.orderLine(n)})
	}
	must := len(lines) > 0
	if x.number > 0 && p.log.keep > 0 {
		r := x.public()
		lines = append(lines, line{T: "request", Request: &r})
	}
	j.append(must, lines...)
}

func (p *Provider) bookingLine(t string, b *booking, at int64) line {
	r := &b.record
	return line{
		T: t, Kind: kindNames[b.kind], At: at, Client: p.names[r.client],
		State: states[r.state], First: states[r.first], Amount: r.amount, Currency: string(r.currency[:]),
		Ref: r.reference(), Source: r.source(), Text: r.description(), Code: p.codes[r.code],
		Parent: r.parent, Action: r.marks&markAction != 0, Voided: r.marks&markVoided != 0, Twice: b.twice, Hide: int64(b.hide),
		FlipTo: b.flipTo, FlipIn: int64(b.flipAfter),
	}
}

func (p *Provider) keyLine(n uint32) *keyLine {
	if n == 0 {
		return nil
	}
	e := p.keys.list.at(n)
	k := &keyLine{
		Client: p.names[e.client], Key: e.key, Print: hex.EncodeToString(e.print[:]),
		State: e.state, End: e.end, Kind: kindNames[e.kind], Record: e.record,
	}
	if a, ok := p.keys.answers[n]; ok {
		k.Answer = &answerLine{Status: a.status, Type: a.ctype, Body: a.body}
		for _, h := range a.header {
			k.Answer.Header = append(k.Answer.Header, [2]string{h.name, h.value})
		}
	}
	return k
}

func (p *Provider) orderLine(n uint32) *orderLine {
	o := p.orders.list.at(n)
	return &orderLine{p.publicOrder(n), o.visible}
}

// snapshot says the whole state in as few lines as possible. The caller holds
// the lock.
func (p *Provider) snapshot() []line {
	lines := p.booksLines()
	flips := map[flip]*job{}
	for _, j := range p.jobs {
		if j.flip != nil {
			flips[flip{kind: j.flip.kind, n: j.flip.n}] = j
		}
	}
	for kind, s := range []*shelf{&p.charges, &p.refunds} {
		for n := uint32(1); int(n) <= s.list.len(); n++ {
			r := *s.list.at(n)
			b := booking{kind: uint8(kind), record: r}
			if until, ok := s.hidden[n]; ok {
				b.hide = time.Duration(until - r.booked)
			}
			if j := flips[flip{kind: uint8(kind), n: n}]; j != nil {
				b.flipTo, b.flipAfter = j.flip.to, time.Duration(j.due-r.booked)
			}
			l := p.bookingLine("booked", &b, r.booked)
			l.N = n
			lines = append(lines, l)
		}
	}
	for n := uint32(1); int(n) <= p.orders.list.len(); n++ {
		lines = append(lines, line{T: "order", Order: p.orderLine(n)})
	}
	for n := uint32(1); int(n) <= p.keys.list.len(); n++ {
		if p.keys.list.at(n).state != keyFree {
			lines = append(lines, line{T: "key", Key: p.keyLine(n)})
		}
	}
	for _, j := range p.jobs {
		if j.line != nil {
			lines = append(lines, j.line())
		}
	}
	for _, r := range p.log.snapshot() {
		lines = append(lines, line{T: "request", Request: &r})
	}
	if len(p.outbox.waiting) > 0 {
		lines = append(lines, line{T: "event", Events: eventLines(p.outbox.waiting...)})
	}
	return append(lines, line{T: "count", Count: &counterLine{p.log.total, p.keys.distinct, p.outbox.made}})
}

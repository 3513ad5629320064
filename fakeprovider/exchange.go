package fakeprovider

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// inbound is one request as it arrived.
type inbound struct {
	method string
	path   string
	query  string
	uri    string // to redirect to itself
	header http.Header
	body   []byte
	cut    bool // the body did not arrive in full
	tooBig bool
	conn   string
	reused bool
	books  string // the id of the books that are meant; empty: any

	// what scripts look at, filled by look
	client     string
	authorised bool
	key        string
	rawKey     string
	keyErr     error
	reference  string
	source     string
	members    []member
	bodyErr    error
}

// look reads what the headers, the query and the body say.
func (in *inbound) look(c *Config) {
	in.lookHeader(c)
	in.lookBody()
}

func (in *inbound) lookBody() {
	switch {
	case in.method == http.MethodGet:
		if in.query != "" {
			if q, err := url.ParseQuery(in.query); err == nil {
				in.reference = q.Get("merchant_reference")
			}
		}
	case isForm(in.header):
		q, err := url.ParseQuery(string(in.body))
		in.bodyErr = err
		for name, values := range q {
			in.members = append(in.members, member{name, appendString(nil, values[0])})
		}
	default:
		in.members, in.bodyErr = scanObject(in.body)
	}
	for _, m := range in.members {
		switch m.name {
		case "merchant_reference":
			in.reference = loose(m.raw)
		case "source":
			in.source = loose(m.raw)
		}
	}
}

func (in *inbound) lookHeader(c *Config) {
	in.client, in.authorised = c.authorise(in.header)
	values := in.header["Idempotency-Key"]
	if len(values) > 0 {
		in.rawKey = strings.Join(values, ", ")
		in.key, in.keyErr = parseKey(values, c.AcceptRawKeys)
	}
}

// loose is a string's text, or nothing: validation comes later.
func loose(raw []byte) string {
	s, err := unquote(raw)
	if err != nil {
		return ""
	}
	return s
}

func isForm(h http.Header) bool {
	v := h["Content-Type"]
	return len(v) == 1 && strings.HasPrefix(v[0], "application/x-www-form-urlencoded")
}

// authorise returns the client a bearer token belongs to.
func (c *Config) authorise(h http.Header) (string, bool) {
	v := h["Authorization"]
	if len(v) != 1 {
		return "", false
	}
	scheme, token, ok := strings.Cut(v[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", false
	}
	if c.Tokens == nil {
		sum := sha256.Sum256([]byte(token)) // the ledger is no place for secrets
		name := [15]byte{'c', 'l', 'i', 'e', 'n', 't', '_'}
		hex.Encode(name[7:], sum[:4])
		return string(name[:]), true
	}
	name, ok := c.Tokens[token]
	return name, ok
}

// exchange is one request and what becomes of it.
type exchange struct {
	p     *Provider
	in    *inbound
	plan  *plan  // never nil
	entry uint32 // of the key, 0 without
	print [16]byte
	now   time.Time

	wait       time.Duration // before the answer, or what stands in its place
	slow       time.Duration
	end        end
	job        *job              // books later and sets ans
	ans        answer            // valid after finish
	booked     []entered         // what was written into the books
	firsts     []<-chan struct{} // closed when what has to be told before the answer is told
	firstOrder uint32            // the first order placed, 0 for none
	touched    bool              // the key was changed although its answer is another's
	keeps      bool              // this exchange owns the key's answer
	id         string            // the answer's Request-Id
	number     int               // in order of arrival, 0 for a request that was not seen
	concluded  bool              // ans is what is answered
	entered    bool              // counted in Provider.active
}

var honest = &plan{fault: Answer, readBytes: -1}

// arrive takes a request in: chooses its fault unless one is given, and does
// all that happens before the answer is due, which is after x.wait.
func (p *Provider) arrive(in *inbound, c choice) *exchange {
	x := &exchange{p: p, in: in, plan: c.plan}
	if in.key != "" {
		x.print = fingerprint(in)
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.active.Add(1)
		x.entered = true
	}
	x.now = p.config.Now()
	p.settle(x.now)
	if p.closed {
		x.plan, x.ans = honest, problem(probClosed)
		return x
	}
	if in.books != "" && in.books != p.id { // they were reset meanwhile
		x.plan, x.ans = honest, problem(probOtherBooks)
		return x
	}
	if x.plan == nil {
		c = p.choose(in)
		x.plan = c.plan
	}
	x.slow, x.wait, x.end = x.plan.slow, x.plan.slow, x.plan.end
	if x.plan.dial != dialOK {
		x.end = endReset // it is too late to refuse the dial
	}
	if x.plan.notSent {
		return x
	}
	p.log.add(x)
	x.id = string(appendID(make([]byte, 0, 16), "req_", uint32(x.number)))
	answered := false
	if in.key != "" && !p.config.IgnoreKeys {
		client := p.client(in.client)
		x.entry = p.keys.see(keyHash(p.seed, client, in.key), client, in.key)
		p.keys.sweep(p.seed, x.now.UnixNano(), int64(p.config.KeyRetention))
		answered = p.keys.list.at(x.entry).state == keyDone
	}
	switch {
	case c.refuse != nil:
		x.ans = *c.refuse
	case x.plan.executes() && !in.cut:
		x.ans = x.execute()
	}
	if x.end == endCrash && x.entry != 0 && !answered { // an answer that is stored outlives a crash
		e := p.keys.list.at(x.entry)
		e.state, e.print, e.end = keyLocked, x.print, x.now.Add(p.config.LockTimeout).UnixNano()
		x.keeps, x.touched = false, true
	}
	if x.job == nil {
		x.conclude()
	}
	return x
}

// fingerprint tells requests apart: method, path and body.
func fingerprint(in *inbound) (print [16]byte) {
	var short [512]byte // most requests need no allocation
	b := append(short[:0], in.method...)
	b = append(b, 0)
	b = append(b, in.path...)
	b = append(b, 0)
	b = append(b, in.body...)
	sum := sha256.Sum256(b)
	copy(print[:], sum[:])
	return print
}

// leave ends what arrive began: Close waits for it.
func (x *exchange) leave() {
	if x.entered {
		x.p.active.Done()
	}
}

// finish is called when x.wait is over and returns the answer. An answer
// without a status means that there is none, as after a Reset.
func (x *exchange) finish() answer {
	if x.job != nil {
		x.p.force(x.job)
	}
	if err := x.p.journal.sync(); err != nil {
		return problem(prob{500, "ledger_failed", "The ledger could not be written"}, detail(err.Error()))
	}
	return x.ans
}

// conclude puts the plan's answer in place, keeps it under the key where that
// is wanted, and logs it. It runs when the request has been executed, not when
// the answer leaves: what the key holds does not depend on a client who still
// listens. The caller holds the lock.
func (x *exchange) conclude() {
	p, plan := x.p, x.plan
	own := x.ans
	if plan.reply != nil {
		x.ans = plan.reply(x)
	}
	if x.ans.status != 0 {
		x.ans = x.dress(x.ans)
	}
	if x.entry != 0 {
		e := p.keys.list.at(x.entry)
		pin := plan.pin && x.ans.status != 0 || plan.reply != nil && p.config.Keep == KeepAll && x.ans.status >= 500
		switch {
		case plan.forget && x.keeps,
			x.keeps && p.config.Keep == KeepSuccesses && own.status/100 != 2:
			e.state = keySeen
		case pin && (x.keeps || e.state == keySeen):
			e.state, e.print, e.end = keyDone, x.print, x.now.Add(x.wait).UnixNano()
			x.touched = true
			p.keys.answers[x.entry] = x.ans
		}
	}
	x.concluded = true
	x.announceBooked()
	p.journal.concluded(x)
	x.in.header, x.in.members = nil, nil // the log needs neither
}

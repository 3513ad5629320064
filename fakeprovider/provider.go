package fakeprovider

import (
	"errors"
	"hash/maphash"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Provider is a payment provider with books of its own. It is safe for
// concurrent use. Make one with New or Open.
type Provider struct {
	config Config
	seed   maphash.Seed

	done        chan struct{} // closed by Close
	active      sync.WaitGroup
	busy        atomic.Bool  // a fault may apply: ask the script
	connections atomic.Int64 // named so far
	pool        pool         // of RoundTrip
	dialer      dialer
	journal     *journal // nil in memory; set before anybody knows the provider
	currency    map[[3]byte]bool

	mu        sync.Mutex // guards everything below
	closed    bool
	id        string // of the books
	clients   map[string]uint32
	names     []string // of clients, by number
	charges   shelf
	refunds   shelf
	refundsOf map[uint32][]uint32 // refunds by charge
	reserved  map[uint32]int64    // refunds accepted and not yet booked, by charge
	orders    orderBook
	keys      keyring
	codes     []string // decline codes, by number
	codeNo    map[string]uint16
	jobs      []*job // sorted by due
	log       requestLog
	script    script
	held      map[net.Conn]struct{} // taken over from net/http
	outbox    outbox
	restoring bool // what the ledger file tells is no news
}

// New returns a provider that keeps its books in memory. It holds nothing
// that has to be released unless DialContext, ServeHTTP or Config.Webhook are
// used; then Close ends what is still running. It panics on a Config.Script or
// a Config.Webhook that is not valid.
func New(c Config) *Provider {
	p := &Provider{config: c.withDefaults(), seed: maphash.MakeSeed(), done: make(chan struct{})}
	p.currency = currencySet(p.config.Currencies)
	p.held = map[net.Conn]struct{}{}
	p.pool.provider = p
	p.dialer.provider = p
	if err := errors.Join(c.Webhook.Validate(), p.outbox.setUp(c.Webhook)); err != nil {
		panic("fakeprovider: Config." + err.Error())
	}
	p.clear()
	p.script.strict = p.config.Strict != nil
	p.rescript()
	if err := p.Apply(p.config.Script); err != nil {
		panic("fakeprovider: Config.Script: " + err.Error())
	}
	return p
}

// clear empties the books. The caller holds the lock or is alone.
func (p *Provider) clear() {
	p.id = newID() // what was asked of the old books must not be answered by the new ones
	p.clients = map[string]uint32{"": 0}
	p.names = []string{""}
	p.charges.reset("ch_")
	p.refunds.reset("re_")
	p.refundsOf, p.reserved = map[uint32][]uint32{}, map[uint32]int64{}
	p.orders.reset()
	p.keys.reset()
	p.codes, p.codeNo = []string{""}, map[string]uint16{"": 0}
	p.jobs = nil
	p.outbox.clear()
	p.log = requestLog{keep: p.config.RecordRequests}
}

// Reset empties the books and forgets every key, request, webhook event and
// fault but those of Config.Script, which start anew. A ledger file is emptied
// too. The books are others from then on, with an id of their own: who has paid
// here before must not take their silence for an answer.
func (p *Provider) Reset() error {
	start, err := p.config.Script.parse()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.script.clear()
	p.apply(start)
	return errors.Join(err, p.journal.reset(p.booksLines()))
}

// Close ends what still waits: hanging requests, in-memory connections,
// deliveries of webhooks, and their goroutines. In strict mode it reports the steps that nobody used. The
// ledger stays readable. Close may be called more than once.
func (p *Provider) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	close(p.done)
	for c := range p.held {
		c.Close() // whoever uses it sees the error
	}
	p.outbox.close()
	unused := p.script.unused()
	p.mu.Unlock()
	if tb := p.config.Strict; tb != nil && len(unused) > 0 {
		tb.Helper()
		for _, u := range unused {
			tb.Errorf("fakeprovider: step never used: %s", u)
		}
	}
	err := p.dialer.close()
	p.active.Wait()
	if p.outbox.idle != nil {
		p.outbox.idle()
	}
	return errors.Join(err, p.journal.close())
}

var errClosed = errors.New("fakeprovider: provider is closed")

// hold keeps a connection to be closed by Close; false means that the
// provider is closed already.
func (p *Provider) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.held[c] = struct{}{}
	return true
}

// connName names an in-memory connection.
func (p *Provider) connName() string {
	return "client-" + strconv.FormatInt(p.connections.Add(1), 10)
}

func (p *Provider) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, c)
}

// Client returns an http.Client that reaches the provider in memory, by
// RoundTripper, and follows no redirect.
func (p *Provider) Client() *http.Client {
	return &http.Client{
		Transport:     p.RoundTripper(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// pause waits for d, or until stop or the provider's end; it reports whether
// the time passed.
func (p *Provider) pause(d time.Duration, stop <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-stop:
	case <-p.done:
	}
	return false
}

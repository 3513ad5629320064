package main

import (
	"bytes"
	"context"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

// dial makes a connection to the provider, or fails to.
func (i *instance) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	name := i.name
	if c, ok := ctx.Value(callKey{}).(*call); ok { // a dial keeps the values of the request that it was begun for
		name += c.order
	}
	i.thaw(name)
	w := i.w
	refused := &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	if i.dead() {
		return nil, refused
	}
	n := w.dice.next("dial", name)
	if !w.isCalm() {
		wait(ctx, w.dice.between(0, w.profile.latency/4, "dial latency", name, n))
		if w.outage() == "refuse-dial" {
			w.count("dial in an outage")
			return nil, refused
		}
		if w.dice.chance(w.profile.dialFaultRate, "dial", name, n) {
			how := pick(w.dice, []string{"refused", "timeout", "hang"}, "dial how", name, n)
			w.countFault("dial " + how)
			switch how {
			case "refused":
				return nil, refused
			case "timeout":
				wait(ctx, 2*time.Second)
				return nil, &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
			}
			wait(ctx, 3*time.Second) // the dialer's own time: a dial goes on when its request has ended
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.ErrDeadlineExceeded}
		}
	}
	c, err := w.bank.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	open := &conn{Conn: c, of: i, closing: make(chan struct{})}
	w.mu.Lock()
	w.connections[open] = true
	w.mu.Unlock()
	return open, nil
}

// conn is a connection to the provider on which requests and answers take their time, and at which the process may stand
// still or die.
type conn struct {
	net.Conn
	of *instance

	closing chan struct{}
	once    sync.Once

	mu      sync.Mutex
	writing bool // guarded by mu: a frozen process neither writes nor closes
	about   wire // guarded by mu: the request that the next answer belongs to
	fresh   bool // guarded by mu: no byte of that answer has come yet
}

var inBody = regexp.MustCompile(`"merchant_reference":"([^"]*)"`)

// readWire tells what a request is about.
func readWire(b []byte) (r wire, ok bool) {
	line, _, _ := bytes.Cut(b, []byte("\r\n"))
	parts := strings.Split(string(line), " ")
	if len(parts) != 3 || !strings.HasPrefix(parts[2], "HTTP/1.") {
		return wire{}, false
	}
	u, err := url.ParseRequestURI(parts[1])
	if err != nil {
		return wire{}, false
	}
	r = wire{method: parts[0], path: u.Path, reference: u.Query().Get("merchant_reference")}
	if m := inBody.FindSubmatch(b); m != nil {
		r.reference = string(m[1])
	}
	return r, true
}

func (c *conn) Write(b []byte) (int, error) {
	w, of := c.of.w, c.of
	r, begins := readWire(b)
	stood := of.thaw(r.method, r.reference)
	if !begins {
		return c.Conn.Write(b)
	}
	r.frozen = stood
	w.begins(r)
	name := r.method + r.path + r.reference
	n := w.dice.next("wire", name)
	if !w.isCalm() {
		if !c.wait(w.dice.between(0, w.profile.latency, "latency out", name, n)) {
			return 0, net.ErrClosed
		}
		r.frozen += of.thaw(name)
		if of.crash("before "+r.method, name) || of.dead() {
			return 0, net.ErrClosed
		}
		if r.method == "POST" && w.profile.freezes > 0 && w.dice.chance(w.profile.freezes, "freeze", name, n) {
			r.frozen = pick(w.dice, w.profile.freezeFor, "freeze for", name, n)
			c.mu.Lock()
			c.writing = true // what happens to the process happens after the write
			c.mu.Unlock()
			of.freeze(r.frozen)
			w.count("sender frozen before its first byte")
			of.thaw(name)
		}
		if w.profile.twice && r.path == "/v1/charges" && r.method == "POST" && w.dice.chance(0.05, "twice", name, n) {
			w.bank.ScriptFor(fakeprovider.Match{Path: r.path, Reference: r.reference}, "book-twice")
		}
		if r.method == "GET" && w.dice.chance(w.profile.askFaultRate, "ask fault", name, n) {
			fault := pick(w.dice, askFaults, "ask fault how", name, n)
			w.countFault("ask " + string(fault))
			w.bank.ScriptFor(fakeprovider.Match{Method: "GET", Path: r.path, Reference: r.reference}, fault)
		}
	}
	r.at, r.instance = time.Now(), of.name
	w.sent(r)
	c.mu.Lock()
	c.about, c.fresh = r, true
	c.mu.Unlock()
	k, err := c.Conn.Write(b)
	c.mu.Lock()
	c.writing = false
	c.mu.Unlock()
	select {
	case <-c.closing:
		_ = c.Conn.Close() // what was kept from it while the process stood still
	default:
	}
	if of.crash("written "+r.method, name) {
		return 0, net.ErrClosed
	}
	return k, err
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	about, fresh := c.about, c.fresh
	c.fresh = false
	c.mu.Unlock()
	if !fresh || n == 0 {
		return n, err
	}
	w := c.of.w
	name := about.method + about.path + about.reference
	if !w.isCalm() {
		_ = c.wait(w.dice.between(0, w.profile.latency, "latency back", name, w.dice.next("answer", name))) // a closed connection is for the next Read to tell
	}
	c.of.thaw(name)
	if c.of.crash("answered "+about.method, name) || c.of.dead() {
		return 0, net.ErrClosed
	}
	return n, err
}

// wait waits, but not longer than the connection is open.
func (c *conn) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.closing:
		return false
	}
}

func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closing)
		w := c.of.w
		w.mu.Lock()
		delete(w.connections, c)
		w.mu.Unlock()
	})
	c.mu.Lock()
	writing := c.writing
	c.mu.Unlock()
	if writing {
		return nil
	}
	return c.Conn.Close()
}

package wirerig

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// way is a direction in which bytes go.
type way int

const (
	toProvider way = iota
	toClient
)

func (w way) String() string { return [...]string{"request", "answer"}[w] }

// end is how a connection is ended.
type end int

const (
	byFIN end = iota
	byRST
)

func (e end) String() string { return [...]string{"FIN", "RST"}[e] }

// patience bounds every wait of the proxy, so that a mistake ends a test. No test waits for it.
const patience = 20 * time.Second

// cutter is a proxy that knows nothing of what it passes on.
type cutter struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu   sync.Mutex
	plan *plan // of the next connection; guarded by mu
}

// plan is what is to be done to one connection, and what was.
type plan struct {
	where way
	after int // bytes that are passed on before the cut; negative: no cut
	how   end

	ended chan struct{} // when the connection has; then what follows is there
	once  sync.Once
	cut   bool
	// passed counts the bytes in the direction of the cut. Only one goroutine counts, the one that may cut.
	passed int
}

func newCutter(t *testing.T, target string) *cutter {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{listener: l, target: target}
	c.running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.running.Go(func() { c.pass(conn.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); c.running.Wait() })
	return c
}

// set says where the next connection is cut. Those after it are not.
func (c *cutter) set(where way, after int, how end) *plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plan = &plan{where: where, after: after, how: how, ended: make(chan struct{})}
	return c.plan
}

func (c *cutter) take() *plan {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.plan
	c.plan = nil
	if p == nil {
		p = &plan{after: -1, ended: make(chan struct{})}
	}
	return p
}

func (c *cutter) pass(client *net.TCPConn) {
	p := c.take()
	defer close(p.ended)
	defer func() { _ = client.Close() }()
	onward, err := net.DialTimeout("tcp", c.target, patience)
	if err != nil {
		return
	}
	provider := onward.(*net.TCPConn)
	defer func() { _ = provider.Close() }()
	late := time.Now().Add(patience)
	_, _ = client.SetDeadline(late), provider.SetDeadline(late)

	var both sync.WaitGroup
	sever := func() {
		p.cut = true
		for _, side := range []*net.TCPConn{client, provider} {
			if p.how == byRST {
				_ = side.SetLinger(0)
				_ = side.Close()
			} else {
				_ = side.CloseWrite() // what still comes is read below: unread bytes would make it a reset
			}
		}
	}
	copyOne := func(from, to *net.TCPConn, way way) {
		counted := way == p.where && p.after >= 0
		left := p.after
		buf := make([]byte, 16<<10)
		for {
			if counted && left == 0 {
				p.once.Do(sever)
			}
			n, err := from.Read(buf)
			if err != nil {
				_ = to.CloseWrite()
				return
			}
			if counted {
				n = min(n, left)
				left -= n
				p.passed += n
			}
			if n > 0 {
				_, _ = to.Write(buf[:n]) // where the other side has gone, the rest is read all the same
			}
		}
	}
	both.Go(func() { copyOne(client, provider, toProvider) })
	both.Go(func() { copyOne(provider, client, toClient) })
	both.Wait()
}

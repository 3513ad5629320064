package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/jackc/pgx/v5"
)

// pool holds a number of connections for one kind of work, so that no kind can take those of another: outcomes are written also
// while readers and starts wait.
type pool struct {
	connect func(ctx context.Context) (*conn, error)
	room    chan struct{} // one place for each connection that may be in use

	mu     sync.Mutex
	idle   []*conn
	closed bool
}

// conn is a connection, with what was learnt when it was made.
type conn struct {
	*pgx.Conn
	made     time.Time
	explicit bool // a single statement needs BEGIN and COMMIT around it, since transactions are not READ COMMITTED by default
}

// lifetime bounds how long a connection is used, so that what a name means, and where the primary is, is looked up now and then.
const lifetime = time.Hour

func newPool(size int, connect func(context.Context) (*conn, error)) *pool {
	return &pool{connect: connect, room: make(chan struct{}, size)}
}

var errClosed = errors.New("closed")

// acquire waits for a connection. fresh: not one that has been idle, since those have turned out to be dead.
func (p *pool) acquire(ctx context.Context, fresh bool) (*conn, error) {
	select {
	case p.room <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		<-p.room
		return nil, errClosed
	}
	var old []*conn
	if fresh {
		old, p.idle = p.idle, nil
	}
	var c *conn
	for n := len(p.idle); n > 0 && c == nil; n = len(p.idle) {
		c, p.idle = p.idle[n-1], p.idle[:n-1]
		if time.Since(c.made) > lifetime {
			old, c = append(old, c), nil
		}
	}
	p.mu.Unlock()
	for _, o := range old {
		hangUp(o)
	}
	if c != nil {
		return c, nil
	}
	c, err := p.connect(ctx)
	if err != nil {
		<-p.room
		return nil, err
	}
	return c, nil
}

// own marks an error that neither the server nor the connection has brought about, so that it is not tried again: arguments that the
// driver cannot write, for instance.
func (c *conn) own(err error) error {
	switch {
	case err == nil, code(err) != "", c.IsClosed(), errors.Is(err, errHeld), errors.Is(err, attempt.ErrNotDurable),
		errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return err
	}
	return &rowError{err}
}

// broken tells whether the connection is of no use any more, after what f returned.
func (c *conn) broken(err error) bool {
	return c.IsClosed() || unusable(err) || c.PgConn().TxStatus() != 'I'
}

// release gives a connection back, or closes it.
func (p *pool) release(c *conn, broken bool) {
	defer func() { <-p.room }()
	if broken {
		hangUp(c)
		return
	}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if closed {
		hangUp(c)
	}
}

// hangUp closes a connection. Nobody learns anything from how that goes.
func hangUp(c *conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

// close closes the connections that nobody uses; the others are closed when they are released. It waits for those.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		hangUp(c)
	}
	for range cap(p.room) {
		p.room <- struct{}{}
	}
	for range cap(p.room) {
		<-p.room
	}
}

// with runs f on a connection. Where that turns out to have been dead before anything was sent, it is tried once more on a fresh
// one.
func (p *pool) with(ctx context.Context, f func(*conn) error) error {
	for fresh := false; ; fresh = true {
		c, err := p.acquire(ctx, fresh)
		if err != nil {
			return &noConnError{err}
		}
		returned := false
		defer func() {
			if !returned { // f has ended the goroutine, or panicked: nobody knows what state the connection is in
				p.release(c, true)
			}
		}()
		err = c.own(f(c))
		returned = true
		dead := c.broken(err)
		p.release(c, dead)
		if err == nil || fresh || ctx.Err() != nil || !dead || !unsent(err) {
			return err
		}
	}
}

// noConnError: there is no connection, so nothing was carried out.
type noConnError struct{ err error }

func (e *noConnError) Error() string { return e.err.Error() }
func (e *noConnError) Unwrap() error { return e.err }

// unsent tells whether surely nothing of what failed was carried out.
func unsent(err error) bool { return !mayBeWritten(err) || code(err) == codeReadOnly }

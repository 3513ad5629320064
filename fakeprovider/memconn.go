package fakeprovider

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// memConn is one end of an in-memory connection that behaves as TCP does
// where a payment can tell: writes are buffered, a closed end still lets the
// other read what was sent, then the end or the reset. Whoever waits does so on a
// sync.Cond, which a synctest bubble takes for durably blocked.
type memConn struct {
	local, remote memAddr
	in, out       *stream // what the other end wrote, what this end writes

	mu     sync.Mutex // guards linger and closed
	linger int
	closed bool
}

type memAddr string

func (memAddr) Network() string  { return "tcp" }
func (a memAddr) String() string { return string(a) }

// memPipe connects two ends.
func memPipe(client, server memAddr) (*memConn, *memConn) {
	up, down := newStream(), newStream()
	return &memConn{local: client, remote: server, in: down, out: up, linger: -1},
		&memConn{local: server, remote: client, in: up, out: down, linger: -1}
}

func (c *memConn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return n, c.wrap("read", err)
}

func (c *memConn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	return n, c.wrap("write", err)
}

func (c *memConn) wrap(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Close ends both directions. The other end reads what is on its way and then
// the end or, after SetLinger(0), a reset.
func (c *memConn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.wrap("close", net.ErrClosed)
	}
	c.closed = true
	reset := c.linger == 0
	c.mu.Unlock()
	if reset {
		c.out.fail(syscall.ECONNRESET, true)
	} else {
		c.out.end()
	}
	c.in.fail(syscall.EPIPE, false)
	c.in.closeReader()
	c.out.closeWriter()
	return nil
}

// CloseWrite ends this end's direction only.
func (c *memConn) CloseWrite() error {
	c.out.end()
	return nil
}

// SetLinger with 0 makes Close a reset.
func (c *memConn) SetLinger(sec int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.linger = sec
	return nil
}

func (c *memConn) LocalAddr() net.Addr  { return c.local }
func (c *memConn) RemoteAddr() net.Addr { return c.remote }

func (c *memConn) SetDeadline(t time.Time) error {
	c.in.readBy.set(c.in, t)
	c.out.writeBy.set(c.out, t)
	return nil
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	c.in.readBy.set(c.in, t)
	return nil
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.out.writeBy.set(c.out, t)
	return nil
}

// stream is one direction.
type stream struct {
	mu      sync.Mutex // guards everything below
	wake    *sync.Cond
	buf     []byte
	ended   bool  // the writer has finished
	failed  error // what a writer, or after a reset a reader, is told
	reset   bool
	rclosed bool // the reading end is closed here
	wclosed bool // the writing end is closed here
	readBy  deadline
	writeBy deadline
}

const streamSize = 64 << 10

func newStream() *stream {
	s := &stream{}
	s.wake = sync.NewCond(&s.mu)
	return s
}

func (s *stream) read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.rclosed:
			return 0, net.ErrClosed
		case s.readBy.passed:
			return 0, os.ErrDeadlineExceeded
		case len(s.buf) > 0:
			n := copy(b, s.buf)
			s.buf = s.buf[n:]
			s.wake.Broadcast()
			return n, nil
		case s.reset:
			return 0, s.failed
		case len(b) == 0:
			return 0, nil
		case s.ended:
			return 0, io.EOF
		}
		s.wake.Wait()
	}
}

func (s *stream) write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := 0
	for {
		switch {
		case s.wclosed:
			return sent, net.ErrClosed
		case s.writeBy.passed:
			return sent, os.ErrDeadlineExceeded
		case s.failed != nil:
			return sent, s.failed
		case s.ended:
			return sent, syscall.EPIPE
		case len(b) == 0:
			return sent, nil
		}
		if room := streamSize - len(s.buf); room > 0 {
			n := min(room, len(b))
			s.buf = append(s.buf, b[:n]...)
			b, sent = b[n:], sent+n
			s.wake.Broadcast()
			continue
		}
		s.wake.Wait()
	}
}

func (s *stream) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.wake.Broadcast()
}

func (s *stream) end()         { s.change(func() { s.ended = true }) }
func (s *stream) closeReader() { s.change(func() { s.rclosed = true; s.readBy.stop() }) }
func (s *stream) closeWriter() { s.change(func() { s.wclosed = true; s.writeBy.stop() }) }

// fail tells the writer err, and with reset the reader too, after the bytes
// that had arrived.
func (s *stream) fail(err error, reset bool) {
	s.change(func() {
		s.failed = err
		s.reset = s.reset || reset
	})
}

// deadline is one of a stream's; the stream's lock guards it.
type deadline struct {
	timer  *time.Timer
	passed bool
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
}

func (d *deadline) set(s *stream, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.stop()
	d.passed = false
	if t.IsZero() {
		return
	}
	wait := time.Until(t)
	if wait <= 0 {
		d.passed = true
		s.wake.Broadcast()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if d.timer == timer {
			d.passed = true
			s.wake.Broadcast()
		}
	})
	d.timer = timer
}

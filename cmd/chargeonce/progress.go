package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress shows on a terminal how far a run has come, on one line that is overwritten, and keeps it below whatever else is
// written there.
type progress struct {
	to    io.Writer  // nil: nobody is watching
	width func() int // of the terminal; 0: unknown

	mu    sync.Mutex
	shown time.Time
	text  string // what is shown; empty: nothing
}

func (p *progress) show(t *totals) {
	if p.to == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.text == "" || now.Sub(p.shown) >= 100*time.Millisecond {
		p.shown, p.text = now, t.line()
		p.draw()
	}
}

// draw writes the line. One that is longer than the terminal is wide would be wiped in part only.
func (p *progress) draw() {
	text := p.text
	if width := p.width(); width > 0 && len(text) >= width {
		text = text[:width-1]
	}
	_, _ = fmt.Fprint(p.to, "\r\x1b[K"+text)
}

func (p *progress) wipe() {
	if p.text != "" {
		_, _ = fmt.Fprint(p.to, "\r\x1b[K")
	}
}

// clear takes the line away for good.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	p.text = ""
}

// above returns a writer for what is written on the same terminal: it goes above the line.
func (p *progress) above(to io.Writer) io.Writer { return above{p, to} }

type above struct {
	p  *progress
	to io.Writer
}

func (a above) Write(b []byte) (int, error) {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	a.p.wipe()
	n, err := a.to.Write(b)
	if err == nil && a.p.text != "" {
		a.p.draw()
	}
	return n, err
}

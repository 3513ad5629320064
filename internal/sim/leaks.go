package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// remains are what a world has left behind when every process has ended in good order, and the provider too.
type remains struct {
	goroutines  []string        // where they stand
	connections []string        // who had made them
	due         []attempt.Brief // attempts that were due and that nobody has taken: they are lent to one who is gone
	claims      []string        // rights to send that still run
	undelivered int             // events that the host's relay holds
}

// collect looks for what remains. Nothing runs any more but what has leaked.
func (w *world) collect() {
	left := &w.records.remains
	w.mu.Lock()
	for c := range w.connections {
		left.connections = append(left.connections, c.of.name)
	}
	w.mu.Unlock()
	now := w.storeNow()
	for a, err := range w.memory.List(context.Background(), attempt.Filter{}) {
		if err != nil {
			w.broken("simulator", "%v", err)
			break
		}
		if !a.NextCheckAt.IsZero() && a.NextCheckAt.Before(now.Add(-overdue)) {
			left.due = append(left.due, attempt.Brief{ID: a.ID, Reference: a.Reference})
		}
		if until := a.ClaimedUntil(now); !until.IsZero() {
			left.claims = append(left.claims, fmt.Sprintf("%s until +%s", short(a.Reference), until.Sub(w.began)))
		}
	}
	lag, err := w.memory.Lag(context.Background(), hostRelay)
	if err != nil {
		w.broken("simulator", "%v", err)
	}
	left.undelivered = lag.Events
	synctest.Wait()
	left.goroutines = goroutines()
}

// overdue is how long after its time an attempt may wait for the last pass, which nobody follows.
const overdue = 4 * time.Hour

var bubbleOf = regexp.MustCompile(`^goroutine \d+ \[.*(synctest bubble \d+)`)

// goroutines tells where the other goroutines of this bubble stand.
func goroutines() (others []string) {
	buf := make([]byte, 64<<10)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	all := bytes.Split(buf, []byte("\n\n"))
	own := bubbleOf.FindSubmatch(all[0])
	if own == nil {
		return []string{"this one, which is in no bubble"}
	}
	for _, g := range all[1:] {
		if in := bubbleOf.FindSubmatch(g); in != nil && bytes.Equal(in[1], own[1]) && !bytes.Contains(g, []byte("testing/synctest.")) {
			lines := strings.Split(string(g), "\n")
			others = append(others, strings.Join(lines[:min(len(lines), 6)], " "))
		}
	}
	return others
}

func leaks(r *records) (broken []string) {
	for _, g := range r.remains.goroutines {
		broken = append(broken, "a goroutine goes on: "+g)
	}
	for _, c := range r.remains.connections {
		broken = append(broken, "a connection of "+c+" was never closed")
	}
	for _, b := range r.remains.due {
		broken = append(broken, fmt.Sprintf("attempt %s has been due for hours, and nobody takes it", short(b.Reference)))
	}
	for _, c := range r.remains.claims {
		broken = append(broken, "a claim still runs: "+c)
	}
	if n := r.remains.undelivered; n > 0 {
		broken = append(broken, fmt.Sprintf("%d events still wait in the host's relay", n))
	}
	return broken
}

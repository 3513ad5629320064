package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
)

// unstored is a client that cannot store what it has learnt, until a time.
type unstored struct {
	mu     sync.Mutex
	left   []payclient.NotRecorded // guarded by mu
	stores time.Time               // zero: never
}

func (u *unstored) NotRecorded() []payclient.NotRecorded {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.left
}

func (u *unstored) Close(ctx context.Context) error {
	var stored <-chan time.Time
	if !u.stores.IsZero() {
		stored = time.After(time.Until(u.stores))
	}
	select {
	case <-stored:
		u.mu.Lock()
		defer u.mu.Unlock()
		u.left = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("not stored: %w", context.Cause(ctx))
	}
}

// The end of a run never waits in silence for a database that does not take what was learnt, nor without limit; and no
// interrupt gives an outcome up of whom nobody has said that it would.
func TestTheEndWaitsForTheDatabaseAloud(t *testing.T) {
	const gone = `2 outcomes are not in the database yet \(it says: store unavailable: connection refused \[card number\]\). Waiting for it `
	const open = `: what is not stored then stays open in the database, and the next run asks again$`
	const told = `^chargeonce: `
	lost := func(orders ...string) (left []payclient.NotRecorded) {
		for _, id := range orders {
			left = append(left, payclient.NotRecorded{AttemptID: "a" + id, Slot: attempt.Slot{Order: id}.WithDefaults(),
				Err: fmt.Errorf("%w:\nconnection refused\n4242424242424242", attempt.ErrUnavailable)})
		}
		return left
	}
	refund := lost("7", "8")
	refund[1].Refund.ID = "R1"
	for _, c := range []struct {
		name       string
		left       []payclient.NotRecorded
		limit      time.Duration
		before     int             // interrupts before
		interrupts []time.Duration // after the beginning of the wait
		stores     time.Duration
		ends       time.Duration
		lines      []string // of stderr
		err        string
	}{
		{name: "at once", limit: time.Minute, stores: time.Second, ends: time.Second},
		{name: "the database comes back", left: lost("7", "9"), limit: 10 * time.Minute, stores: 40 * time.Second, ends: 40 * time.Second, lines: []string{
			told + gone + `until [0-9:]{8}, for 9m58s \(timings.give_up_after\). Two interrupts give up` + open,
			told + gone + `until [0-9:]{8}, for 9m28s \(timings.give_up_after\). Two interrupts give up` + open,
		}},
		{name: "it stays away", left: refund, limit: 5 * time.Second, ends: 5 * time.Second, lines: []string{
			told + gone + `until [0-9:]{8}, for 3s \(timings.give_up_after\). Two interrupts give up` + open,
		}, err: `^given up, the database did not take it for 5s \(timings.give_up_after\): what was learnt, and may be printed above, is not known to be in the database ` +
			`for 2 attempts: order 7, order 8 \(refund R1\). They stay open there, .*\. Run the same command again when the database can be written \(it says: store unavailable: connection refused \[card number\]\)$`},
		{name: "without limit", left: lost("7", "9"), stores: time.Hour, ends: time.Hour, lines: slicesOf(120,
			told+gone+`without limit \(timings.give_up_after\). Two interrupts give up`+open)},
		{name: "the first interrupt of the run gives nothing up", left: lost("7", "9"), limit: time.Minute, interrupts: []time.Duration{time.Second, 3 * time.Second},
			ends: 3 * time.Second, lines: []string{
				told + `interrupted: nothing is begun or sent any more, 2 outcomes are not in the database yet: waiting for it until [0-9:]{8}, for 59s .*once more: give up, what is not stored then stays open`,
				told + gone + `until [0-9:]{8}, for 58s \(timings.give_up_after\). An interrupt now gives up` + open,
				told + `interrupted: what the database does not take is given up`,
			}, err: `^given up, interrupted: .* order 7, order 9\. `},
		{name: "after one interrupt the next one says what it means", left: lost("7", "9"), before: 1, limit: time.Minute, interrupts: []time.Duration{time.Second, 1500 * time.Millisecond},
			ends: 1500 * time.Millisecond, lines: []string{
				told + `interrupted: nothing is begun or sent any more, .*once more: give up`,
				told + `interrupted: what the database does not take is given up`,
			}, err: `^given up, interrupted: `},
		{name: "after one interrupt and a warning the next one gives up", left: lost("7", "9"), before: 1, limit: time.Minute, interrupts: []time.Duration{3 * time.Second},
			ends: 3 * time.Second, lines: []string{
				told + gone + `until [0-9:]{8}, for 58s \(timings.give_up_after\). An interrupt now gives up` + open,
				told + `interrupted: what the database does not take is given up`,
			}, err: `^given up, interrupted: `},
		{name: "the third interrupt gives up", left: lost("7", "9"), before: 2, limit: time.Minute, interrupts: []time.Duration{time.Second},
			ends: time.Second, lines: []string{told + `interrupted: what the database does not take is given up`}, err: `^given up, interrupted: `},
		{name: "many", left: lost(strings.Fields(strings.Repeat("5 ", 23))...), limit: time.Second, ends: time.Second,
			err: `for 23 attempts: (order 5, ){20}and 3 more\. `},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				signals := make(chan os.Signal)
				taken := takeInterrupts(t.Context(), signals, func(int) {})
				defer taken.release()
				for range c.before {
					signals <- os.Interrupt
				}
				synctest.Wait()
				for _, after := range c.interrupts {
					time.AfterFunc(after, func() { signals <- os.Interrupt })
				}
				began := time.Now()
				client := &unstored{left: c.left}
				if c.stores > 0 {
					client.stores = began.Add(c.stores)
				}
				a := &app{streams: streams{err: &out}}
				err := a.closeWhenStored(client, taken, c.limit)
				if took := time.Since(began); took != c.ends {
					t.Errorf("ended after %s, want %s", took, c.ends)
				}
				lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
				if out.Len() == 0 {
					lines = nil
				}
				for i, line := range lines {
					if i >= len(c.lines) || !regexp.MustCompile(c.lines[i]).MatchString(line) {
						t.Errorf("line %d: %q, want %d lines: %q", i+1, line, len(c.lines), c.lines)
					}
				}
				if len(lines) < len(c.lines) {
					t.Errorf("%d lines, want %d: %q", len(lines), len(c.lines), lines)
				}
				if c.err == "" {
					if err != nil {
						t.Error(err)
					}
					return
				}
				var exit *exitError
				if !errors.As(err, &exit) || exit.code != exitUnknown || !regexp.MustCompile(c.err).MatchString(err.Error()) {
					t.Errorf("error %v, want code %d and %s", err, exitUnknown, c.err)
				}
			})
		})
	}
}

func slicesOf(n int, text string) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = text
	}
	return all
}

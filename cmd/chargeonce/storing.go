package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/chargeonce/chargeonce/internal/batch"
	"github.com/chargeonce/chargeonce/payclient"
)

const (
	// storingQuiet is for how long nothing is said of outcomes that are not stored yet.
	storingQuiet = 2 * time.Second
	// storingEvery is how often it is said again.
	storingEvery = 30 * time.Second
	// storingNamed bounds how many orders are named of which something was given up.
	storingNamed = 20
)

// errWaitedEnough ends the wait for a database that stays away.
var errWaitedEnough = errors.New("waited long enough")

// recordingClient is what a client tells of what it has not stored.
type recordingClient interface {
	Close(ctx context.Context) error
	NotRecorded() []payclient.NotRecorded
}

// storing is the end of a run: nothing is under way any more, and what was learnt is being stored.
type storing struct {
	*app
	client recordingClient
	limit  time.Duration // 0: none
	until  time.Time

	mu          sync.Mutex
	interrupted bool // guarded by mu, like warned
	warned      bool // it was said what an interrupt does now
}

// closeWhenStored closes a client when everything that it has learnt is stored, and tells what it waits for where that takes
// long. It gives up after the limit (0: never), or when somebody who was told what that means asks for it by an interrupt, but
// never at a run's first one; then the error says what is not stored.
func (a *app) closeWhenStored(client recordingClient, signals *interrupts, limit time.Duration) error {
	s := &storing{app: a, client: client, limit: limit, until: time.Now().Add(limit)}
	ctx := signals.storing
	if limit > 0 {
		bounded, cancel := context.WithTimeoutCause(ctx, limit, errWaitedEnough)
		defer cancel()
		ctx = bounded
	}
	s.mu.Lock()
	before := signals.onlyStoringIsLeft(s.interrupt)
	s.interrupted, s.warned = before > 0, before > 1 // the second one has said what the third does
	s.mu.Unlock()
	closed := make(chan error, 1)
	go func() { closed <- client.Close(ctx) }()
	timer := time.NewTimer(storingQuiet)
	defer timer.Stop()
	for {
		select {
		case err := <-closed:
			return s.end(err, context.Cause(ctx))
		case <-timer.C:
			s.warn()
			timer.Reset(storingEvery)
		}
	}
}

// warn says what is waited for, for how long, and what an interrupt does.
func (s *storing) warn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := s.client.NotRecorded()
	what := "what is under way has not ended yet: waiting for it " + s.howLong()
	if len(left) > 0 {
		what = fmt.Sprintf("%s not in the database yet (it says: %s). Waiting for it %s", pluralIs(len(left), "outcome"), databaseSays(left), s.howLong())
	}
	does := "An interrupt now gives up: "
	if !s.interrupted {
		does = "Two interrupts give up: "
	}
	s.warned = true
	s.tell("%s. %swhat is not stored then stays open in the database, and the next run asks again", what, does)
}

// interrupt takes one while nothing but storing is left; true: that gives up. The first of a run never does, and none does
// before it was said what it does here.
func (s *storing) interrupt() (giveUp bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupted && s.warned {
		s.tell("interrupted: what the database does not take is given up, the payments concerned stay open there")
		return true
	}
	s.interrupted, s.warned = true, true
	what := "what was learnt is being stored"
	if n := len(s.client.NotRecorded()); n > 0 {
		what = pluralIs(n, "outcome") + " not in the database yet"
	}
	s.tell("interrupted: nothing is begun or sent any more, %s: waiting for it %s (once more: give up, what is not stored then stays open in the database, and the next run asks again)",
		what, s.howLong())
	return false
}

func (s *storing) howLong() string {
	if s.limit == 0 {
		return "without limit (timings.give_up_after)"
	}
	left := max(time.Until(s.until).Round(time.Second), 0)
	return fmt.Sprintf("until %s, for %s (timings.give_up_after)", s.until.Format(time.TimeOnly), left)
}

// end says what is not stored, where something is not.
func (s *storing) end(err, cause error) error {
	if err == nil {
		return nil
	}
	why := "interrupted"
	if errors.Is(cause, errWaitedEnough) {
		why = fmt.Sprintf("the database did not take it for %s (timings.give_up_after)", s.limit)
	}
	left := s.client.NotRecorded()
	if len(left) == 0 {
		return exitWith(exitUnknown, fmt.Errorf("given up, %s: %w; run the same command again when the database can be written", why, err))
	}
	var names []string
	for i, n := range left {
		if i == storingNamed {
			names = append(names, fmt.Sprintf("and %d more", len(left)-storingNamed))
			break
		}
		name := "order " + cleanField(n.Slot.String())
		if n.Refund.ID != "" {
			name += " (refund " + cleanField(n.Refund.ID) + ")"
		}
		names = append(names, name)
	}
	return exitWith(exitUnknown, fmt.Errorf("given up, %s: what was learnt, and may be printed above, is not known to be in the database for %s: %s. They stay open there, "+
		"and the next run asks again or sends again under the same key, which charges nothing twice. Run the same command again when the database can be written (it says: %s)",
		why, pluralOf(len(left), "attempt", "attempts"), strings.Join(names, ", "), databaseSays(left)))
}

// saidOfDatabase bounds how much of an error of the database's is repeated.
const saidOfDatabase = 300

// databaseSays is what the store said last, in one line.
func databaseSays(left []payclient.NotRecorded) string {
	last := left[0].Err
	for _, n := range left {
		if n.Err != nil {
			last = n.Err
		}
	}
	return shortError(last)
}

// shortError is an error in one line, bounded, and without what may be a card number.
func shortError(err error) string {
	text := strings.Join(strings.Fields(cleanLines(batch.HideCards(err.Error()))), " ")
	if runes := []rune(text); len(runes) > saidOfDatabase {
		text = string(runes[:saidOfDatabase]) + "..."
	}
	return text
}

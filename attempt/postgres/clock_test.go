package postgres

import (
	"testing"
	"testing/synctest"
	"time"
)

// The server's time is told without asking, however far this machine's clock is from it.
func TestClockApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const apart, way = -5 * time.Minute, 20 * time.Millisecond
		server := func() time.Time { return time.Now().Add(apart) }
		var c clock
		if _, _, known := c.present(); known {
			t.Error("the time is known before anybody was asked")
		}
		ask := func(way, back time.Duration) {
			asked := time.Now()
			time.Sleep(way)
			told := server()
			time.Sleep(back)
			c.answered(told, asked)
		}
		last := time.Time{}
		check := func(most time.Duration) {
			t.Helper()
			now, latest, known := c.present()
			if behind := server().Sub(now); !known || behind < 0 || behind > most {
				t.Errorf("told %s, the server's clock is at %s: want at most %s behind, never ahead", now, server(), most)
			}
			if now.Before(last) || now.Before(latest) {
				t.Errorf("told %s after %s, latest %s", now, last, latest)
			}
			last = now
		}
		ask(way, way)
		check(way)
		ask(time.Millisecond, 300*time.Millisecond) // a late answer says less than an early one
		check(way + time.Second/drift)
		ask(0, time.Millisecond)
		check(2 * time.Millisecond)
		time.Sleep(time.Minute)
		check(time.Millisecond + time.Minute/drift + time.Millisecond)

		// What others were told is told here too, as long as it is only a little later.
		c.saw(server().Add(time.Millisecond))
		if now, latest, _ := c.present(); now.Before(latest) {
			t.Errorf("told %s, latest %s", now, latest)
		}
		time.Sleep(outdated)
		if _, _, known := c.present(); known {
			t.Error("a time from memory after so long")
		}
	})
}

// A server whose clock is set back, or another one that has taken its place, is believed, and the step sees it.
func TestServerClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		c.answered(time.Now(), time.Now())
		before, _, _ := c.present()
		back := time.Now().Add(-time.Hour)
		c.answered(back, time.Now())
		now, latest, known := c.present()
		if !known || now.After(back) || !latest.Equal(before.Truncate(time.Microsecond)) {
			t.Errorf("told %s and latest %s, want %s and %s", now, latest, back, before)
		}
		v := c.view(slotRow{}, nil, back, c.known())
		if !v.Now.Before(v.Latest) {
			t.Errorf("a step does not see that the clock was set back: %s, %s", v.Now, v.Latest)
		}
		c.answered(time.Now(), time.Now())
		time.Sleep(time.Millisecond)
		if now, latest, _ := c.present(); now.Before(latest) {
			t.Errorf("a clock that has caught up: %s, %s", now, latest)
		}
	})
}

// A time from memory that is too far from the server's is not written: the step is decided anew on the server's own.
func TestStaleTime(t *testing.T) {
	s := testStore(t, Options{MaxConns: leastConns})
	known := start(t, s, "known")
	for _, off := range []time.Duration{-time.Minute, time.Minute} {
		shift := func() {
			s.clock.mu.Lock()
			defer s.clock.mu.Unlock()
			s.clock.server, s.clock.latest = s.clock.server.Add(off), time.Time{}
		}
		shift()
		step := starts("order " + off.String())
		if err := s.Apply(t.Context(), &step.Step); err != nil || step.runs != 2 {
			t.Errorf("%s off: decided %d times: %v", off, step.runs, err)
		}
		v, err := s.Slot(t.Context(), step.Slot)
		if err != nil || v.Attempts[0].CreatedAt.After(v.Now) || v.Now.Sub(v.Attempts[0].CreatedAt) > within {
			t.Errorf("%s off: created at %s, now %s: %v", off, v.Attempts[0].CreatedAt, v.Now, err)
		}
		shift()
		outcome := approves(known)
		if err := s.Apply(t.Context(), outcome.Step(&known)); err != nil {
			t.Error(err)
		}
		if d := v.Now.Sub(outcome.Now).Abs(); d > within {
			t.Errorf("%s off: recorded at %s, now %s", off, outcome.Now, v.Now)
		}
		known = start(t, s, "known "+off.String())
	}
}

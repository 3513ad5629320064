package batch

import (
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// WaitKind says what is waited for.
type WaitKind uint8

// What a run may wait for.
const (
	WaitClaim    WaitKind = iota + 1 // the end of an earlier run's claim, which may be a dead one's
	WaitBeside                       // the end of the claim of a run beside this one
	WaitProvider                     // the provider's answer to a row that holds up the reports behind it
	WaitSettle                       // a row that is unknown, and holds up the reports behind it: the provider is asked about it
	WaitBreaker                      // the circuit breaker is open: no row is begun
)

// Wait is something that a run waits for.
type Wait struct {
	Kind WaitKind
	Line int          // the row's; 0 with WaitBreaker
	Slot attempt.Slot // the row's
	// For is how long it takes at most; with WaitProvider for how long the row has held up the reports.
	For time.Duration
}

const (
	// quiet is for how long nothing is said of a wait that may end at once.
	quiet = time.Second
	// slowAfter is for how long a row may hold up the reports before that is told.
	slowAfter = 3 * time.Second
)

// tell tells of a wait.
func (r *Run) tell(w Wait) {
	if r.Waits != nil {
		r.Waits(w)
	}
}

// await waits for the row whose report is next, and tells what it waits for if that takes long.
func (r *Run) await(e *entry) {
	select {
	case <-e.done:
		return
	default:
	}
	began := time.Now()
	told := waitsForNothing
	timer := time.NewTimer(slowAfter)
	defer timer.Stop()
	for {
		select {
		case <-e.done:
			return
		case <-timer.C:
			timer.Reset(time.Second)
		}
		p := e.payment.Load()
		if p == nil {
			continue // its turn has not come
		}
		switch now := standing(p.stands.Load()); {
		case now == told:
		case now == waitsForAnswer:
			r.tell(Wait{Kind: WaitProvider, Line: p.row.Line, Slot: p.row.Intent.Slot(), For: time.Since(began).Round(time.Second)})
			told = now
		case now == waitsToSettle:
			r.tell(Wait{Kind: WaitSettle, Line: p.row.Line, Slot: p.row.Intent.Slot(), For: r.SettleFor})
			told = now
		}
	}
}

// standing is what a row waits for.
type standing int32

const (
	waitsForNothing standing = iota // or for what is told elsewhere
	waitsForAnswer
	waitsToSettle
)

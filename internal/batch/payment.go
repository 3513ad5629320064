package batch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
)

// payment is one row on its way. Where it waits for something it gives its turn to another row.
type payment struct {
	run          *Run
	start, calls context.Context
	row          Row
	turn         bool
	sent         bool          // some call of this run has sent
	judged       chan struct{} // closed once the run has learnt from the row
	learnt       bool
}

// pay pays the row: it waits out the claim of another run, and the breaker, and asks about what is unknown.
func (p *payment) pay() Result {
	intent := p.row.Intent
	if p.run.RetryDeclined {
		again, err := p.declinedBefore()
		if err != nil {
			return p.result(payclient.Result{}, err)
		}
		intent.Again = again
	}
	claimEnds := time.Now().Add(p.run.Claim + claimMargin)
	breakerEnds := time.Now().Add(breakerPatience * p.run.BreakerWait)
	tripped := false
	for {
		paid, err := p.run.Client.Pay(p.calls, intent)
		p.sent = p.sent || err == nil && !paid.Existing
		switch {
		case p.inFlight(paid, err):
			if !p.waitForClaim(claimEnds) {
				return p.result(paid, err)
			}
		case reasonOf(err) == attempt.ReasonBreakerOpen:
			wait := time.Second
			if !tripped {
				wait, tripped = p.run.BreakerWait, true
			}
			if !time.Now().Add(wait).Before(breakerEnds) {
				return p.result(paid, err)
			}
			p.run.pauseFor(wait)
			if !p.rest(wait) {
				return p.result(paid, err)
			}
		case err == nil && paid.Open():
			return p.settle(paid)
		default:
			return p.result(paid, err)
		}
		if p.run.stop.Load() != nil {
			return p.result(paid, err)
		}
	}
}

const (
	// claimMargin is added to a claim's time, for what it takes to notice its end.
	claimMargin = time.Second
	// breakerPatience is for how many times the breaker's own wait a row waits for it.
	breakerPatience = 4
)

func (p *payment) result(paid payclient.Result, err error) Result {
	r := resultOf(p.row, paid, err)
	r.Existing = r.Existing && !p.sent
	if err != nil {
		r.Existing = false
	}
	return r
}

// inFlight tells whether somebody else's claim stands between the row and its payment.
func (p *payment) inFlight(paid payclient.Result, err error) bool {
	if inFlightUntil(paid, err, time.Time{}).IsZero() {
		return false // no claim at all, whatever the time
	}
	view, viewErr := p.run.Store.Slot(p.calls, p.row.Intent.Slot())
	return viewErr == nil && !inFlightUntil(paid, err, view.Now).IsZero()
}

// reasonOf returns why nothing was sent.
func reasonOf(err error) attempt.Reason {
	var notPaid *attempt.NotPaidError
	if errors.As(err, &notPaid) {
		return notPaid.Reason
	}
	return ""
}

// waitForClaim waits until nobody holds a claim in the slot any more, as whoever held it has ended or died; false: not by
// then, or the run is told to end.
func (p *payment) waitForClaim(until time.Time) bool {
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if !time.Now().Add(wait).Before(until) || !p.rest(wait) {
			return false
		}
		view, err := p.run.Store.Slot(p.calls, p.row.Intent.Slot())
		if err != nil {
			return false
		}
		if live, ok := view.Live(); !ok || live.ClaimedUntil(view.Now).IsZero() {
			return true
		}
	}
}

// judge lets the run learn from a result, at once and once: what is wrong with the provider is wrong for the next row too.
func (p *payment) judge(result Result) {
	if !p.learnt {
		p.learnt = true
		p.run.tally.add(p.run, result)
		close(p.judged)
	}
}

// settle asks about a payment that is unknown, for a while, before that is reported.
func (p *payment) settle(paid payclient.Result) Result {
	p.judge(p.result(paid, nil))
	until := time.Now().Add(p.run.SettleFor)
	for wait := 200 * time.Millisecond; p.mayAsk(paid); wait = min(2*wait, 5*time.Second) {
		wait = min(wait, time.Until(until))
		if wait <= 0 || !p.rest(wait) {
			break
		}
		checked, err := p.run.Client.Check(p.calls, p.row.Intent.Slot())
		if err != nil || checked.AttemptID != paid.AttemptID {
			break
		}
		paid = checked
	}
	return p.result(paid, nil)
}

// mayAsk tells whether a question now can settle the payment.
func (p *payment) mayAsk(paid payclient.Result) bool {
	return p.run.CanAsk && paid.Open() && paid.RecordErr == nil && paid.Reason != attempt.ReasonPayerAction &&
		paid.Reason != attempt.ReasonRefundOwed && p.run.stop.Load() == nil
}

// declinedBefore returns the id of the slot's newest attempt if it was declined before the run began. One that is declined
// later, by a run beside this one, is news to whoever began this run, and is not started anew.
func (p *payment) declinedBefore() (string, error) {
	view, err := p.run.Store.Slot(p.calls, p.row.Intent.Slot())
	if err != nil || len(view.Attempts) == 0 {
		return "", err
	}
	newest := view.Attempts[len(view.Attempts)-1]
	if newest.Status == attempt.StatusDeclined && newest.UpdatedAt.Before(p.run.began) {
		return newest.ID, nil
	}
	return "", nil
}

// fromStore tells of a row whose turn did not come by what is known of its slot: what an earlier run has paid is paid.
func (p *payment) fromStore(stop *Stop) Result {
	known, err := p.run.Client.Status(p.calls, p.row.Intent.Slot())
	switch {
	case errors.Is(err, attempt.ErrNotFound):
	case err != nil:
		return p.result(payclient.Result{}, err)
	case known.Attempt.Amount == p.row.Intent.Amount && (known.Open() || known.Outcome != payclient.UnknownOutcome):
		return p.result(known, nil)
	}
	return p.notBegun(Stopped, fmt.Sprintf("not tried: %v", stop.Err))
}

func (p *payment) notBegun(reason, message string) Result {
	return Result{
		Line: p.row.Line, LastLine: p.row.Line, Slot: p.row.Intent.Slot(), Amount: p.row.Intent.Amount,
		Outcome: NotSent, Moved: attempt.MovedNo, Reason: reason, Message: message,
	}
}

// takeTurn waits until the row may make a call; without a turn, the run is to end.
func (p *payment) takeTurn() bool {
	if !p.run.waitForPause(p.start) {
		return false
	}
	select {
	case p.run.turns <- struct{}{}:
		p.turn = true
	case <-p.start.Done():
	}
	return p.turn
}

func (p *payment) endTurn() {
	if p.turn {
		<-p.run.turns
		p.turn = false
	}
}

// rest waits without a turn; false: the run is to end.
func (p *payment) rest(d time.Duration) bool {
	p.endTurn()
	return sleep(p.start, d) && p.takeTurn()
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// pauseFor keeps rows from being begun.
func (r *Run) pauseFor(d time.Duration) {
	until := time.Now().Add(d).UnixNano()
	for {
		known := r.pause.Load()
		if known >= until || r.pause.CompareAndSwap(known, until) {
			return
		}
	}
}

func (r *Run) waitForPause(ctx context.Context) bool {
	for {
		wait := time.Until(time.Unix(0, r.pause.Load()))
		if wait <= 0 {
			return true
		}
		if !sleep(ctx, wait) {
			return false
		}
	}
}

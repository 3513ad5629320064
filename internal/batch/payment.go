package batch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
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
	asked        atomic.Bool   // some call of this run has asked, see Asked
	judged       chan struct{} // closed once the run has learnt from the row
	learnt       bool
	stands       atomic.Int32 // a standing
}

func (p *payment) waitsFor(s standing) { p.stands.Store(int32(s)) }

// pay pays the row: it waits out the claim of another run, and the breaker, and asks about what is unknown.
func (p *payment) pay() Result {
	claimEnds := time.Now().Add(p.run.Claim + claimMargin)
	breakerEnds := time.Now().Add(breakerPatience * p.run.BreakerWait)
	tripped := false
	for {
		intent := p.row.Intent
		known, done, err := p.before(&intent)
		if done || err != nil {
			return p.result(known, err)
		}
		p.waitsFor(waitsForAnswer)
		paid, err := p.run.Client.Pay(p.calls, intent)
		p.waitsFor(waitsForNothing)
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

// before looks at how the row stands before it is paid. done: it was refused by the provider as malformed, and it is still
// the same; nothing says that the provider would think otherwise now, and only a person does (RetryDeclined).
//
// Where such a row is to be started anew, or one that was declined, that is for what stood so when the run began: what a run
// beside this one has learnt since is news to whoever began this one.
func (p *payment) before(intent *attempt.Intent) (known payclient.Result, done bool, err error) {
	view, err := p.run.slot(p.calls, intent.Slot())
	if err != nil || len(view.Attempts) == 0 {
		return known, false, err
	}
	newest := view.Attempts[len(view.Attempts)-1]
	retry := p.run.RetryDeclined && newest.UpdatedAt.Before(p.run.began)
	switch newest.Status {
	case attempt.StatusDeclined:
		if retry {
			intent.Again = newest.ID
		}
	case attempt.StatusRejected:
		if retry || !p.same(newest) || newest.Description != intent.Description || misconfigured(newest.Answer.StatusCode) != nil {
			return known, false, nil
		}
		known, err = p.run.Client.Status(p.calls, intent.Slot())
		return known, err == nil && known.AttemptID == newest.ID, err
	}
	return known, false, nil
}

// same tells whether an attempt is the row's own payment, at the place where the run pays. A source that cannot be compared
// any more is taken for the same, as the client does.
func (p *payment) same(a attempt.Attempt) bool {
	same, known := p.run.Digester.Same(a.Source, p.row.Intent.Source)
	return (same || !known) && a.Amount == p.row.Intent.Amount && a.Place() == p.run.Place
}

// differs names what an attempt that is not the row's own has otherwise, in the words of [attempt.ConflictError].
func (p *payment) differs(a attempt.Attempt) string {
	switch {
	case a.Place() != p.run.Place:
		return "provider"
	case a.Amount != p.row.Intent.Amount:
		return "amount"
	}
	return "source"
}

const (
	// claimMargin is added to a claim's time, for what it takes to notice its end.
	claimMargin = time.Second
	// breakerPatience is for how many times the breaker's own wait a row waits for it.
	breakerPatience = 4
)

func (p *payment) result(paid payclient.Result, err error) Result {
	r := resultOf(p.row, paid, err)
	if r.Reason == StoreUnavailable {
		return p.storeFailed(r, err)
	}
	r.unsent = r.Existing && !p.sent
	r.Existing = r.unsent && !p.asked.Load()
	told := r.Payment
	if told == nil {
		told = r.Standing
	}
	r.KnownBefore = told != nil && told.Attempt.CreatedAt.Before(p.run.began)
	return r
}

// inFlight tells whether somebody else's claim stands between the row and its payment.
func (p *payment) inFlight(paid payclient.Result, err error) bool {
	if inFlightUntil(paid, err, time.Time{}).IsZero() {
		return false // no claim at all, whatever the time
	}
	view, viewErr := p.run.slot(p.calls, p.row.Intent.Slot())
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
	began, told := time.Now(), false
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		if !time.Now().Add(wait).Before(until) || !p.rest(wait) {
			return false
		}
		view, err := p.run.slot(p.calls, p.row.Intent.Slot())
		if err != nil {
			return false
		}
		live, ok := view.Live()
		ends := live.ClaimedUntil(view.Now)
		if !ok || ends.IsZero() {
			return true
		}
		if !told && time.Since(began) >= quiet {
			told = true
			kind := WaitBeside
			if live.UpdatedAt.Before(p.run.began) {
				kind = WaitClaim
			}
			p.run.tell(Wait{Kind: kind, Line: p.row.Line, Slot: p.row.Intent.Slot(), For: ends.Sub(view.Now)})
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
	p.waitsFor(waitsToSettle)
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

// fromStore tells of a row whose turn did not come by what is known of its slot: what an earlier run has paid is paid, and
// what is open is open. Of one about which nothing is known, the reason and the message say why it was not begun. It is to be
// asked when the row is told: another run may send meanwhile.
func (p *payment) fromStore(reason, message string) Result {
	if p.run.unread.Load() >= unreadLimit {
		return p.unreadable(errors.New("the database has failed before"))
	}
	stands, err := p.look()
	if err != nil {
		return p.unreadable(err)
	}
	if r, ok := p.known(stands); ok {
		return r
	}
	return p.notBegun(reason, message)
}

// stillNotSent is a result of a row that was not sent, told some time after it came about: it says what is so now.
func (p *payment) stillNotSent(r Result) Result {
	now := p.fromStore(r.Reason, r.Message)
	if now.Outcome == NotSent {
		return r
	}
	return now
}

// known tells of a row by how its slot stands, as a run that may send tells it; false: money of no attempt there has moved or may
// have, and a run that may send would begin one.
func (p *payment) known(stands payclient.Result) (Result, bool) {
	a := stands.Attempt
	came, left := moneyOf(a)
	switch {
	case !stands.CancelledAt.IsZero():
		return p.result(stands, &attempt.CancelledError{Slot: p.row.Intent.Slot(), At: stands.CancelledAt, Attempt: a}), true
	case stands.AttemptID == "":
		return Result{}, false
	case stands.Open() && p.same(a):
		return p.result(stands, nil), true
	case stands.Open():
		return p.result(stands, &attempt.ConflictError{Attempt: a, Differs: p.differs(a)}), true
	case came && !left:
		return p.result(stands, &attempt.RefundedError{Attempt: a}), true
	case stands.Outcome == payclient.Approved && p.same(a):
		return p.result(stands, nil), true
	case left, a.Status == attempt.StatusApproved:
		return p.result(stands, &attempt.PaidError{Attempt: a}), true
	case stands.Moved != attempt.MovedNo: // whatever it is, it is no row that was surely not paid
		return p.result(stands, &attempt.ConflictError{Attempt: a, Differs: p.differs(a)}), true
	case (a.Status == attempt.StatusDeclined || a.Status == attempt.StatusRejected) && p.same(a):
		return p.result(stands, nil), true
	}
	return Result{}, false
}

// moneyOf tells whether money has come in for an attempt, and whether some of it is left.
func moneyOf(a attempt.Attempt) (came, left bool) {
	for _, c := range a.Charges {
		if c.Status == attempt.ChargeSucceeded {
			came = true
			left = left || c.Refunded < c.Amount.Minor()
		}
	}
	return came, left
}

// storeFailed tells of a row for which a call has failed with the store, and so has sent nothing. Whether another run has, only a
// look at the slot can tell that comes after the failure: what was seen before may be old by now.
func (p *payment) storeFailed(r Result, err error) Result {
	cut := p.calls.Err() != nil // then it is not the store that has failed
	why := strings.TrimSuffix(r.Message, nothingSent)
	if !cut {
		p.run.stopBy(StopStore, errors.New(why))
	}
	stands, readErr := p.look()
	switch {
	case readErr == nil:
	case r.Payment != nil && r.Payment.Open(): // so much is known
		return r
	default:
		return p.unreadable(errors.New(why))
	}
	if known, ok := p.known(stands); ok {
		if known.Message == "" && known.Open() {
			known.Message = "the database failed: " + why
		}
		return known
	}
	if cut {
		return p.notBegun(Interrupted, "interrupted before it was sent")
	}
	return p.notBegun(StoreUnavailable, "nothing was sent: "+why)
}

const (
	// readTime bounds a look at a slot of which nothing is to be sent any more.
	readTime = 2 * time.Second
	// unreadLimit is how many such looks in a row may fail before none is taken any more.
	unreadLimit = 3
)

// nothingSent is what package payclient ends an error with of a call that has sent nothing.
const nothingSent = "; nothing was sent"

// look looks at how the row's slot stands; the zero Result: nothing was ever started there.
// An interrupt does not end it: that a row is told is what is left to do then.
func (p *payment) look() (payclient.Result, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.calls), readTime)
	defer cancel()
	known, err := p.run.Client.Status(ctx, p.row.Intent.Slot())
	if errors.Is(err, attempt.ErrNotFound) {
		known, err = payclient.Result{}, nil
	}
	if err != nil {
		p.run.unread.Add(1)
	} else {
		p.run.unread.Store(0)
	}
	return known, err
}

// unreadable tells of a row of which this run has sent nothing, and about which nobody can say what another has: never that it is
// not paid.
func (p *payment) unreadable(err error) Result {
	why := strings.TrimPrefix(err.Error(), fmt.Sprintf("order %s: ", p.row.Intent.Slot()))
	r := p.notBegun(StoreUnavailable, "nothing was sent by this run; whether another run has paid it cannot be read: "+HideCards(why))
	r.Outcome, r.Moved = Unknown, attempt.MovedMaybe
	return r
}

func (p *payment) notBegun(reason, message string) Result {
	return Result{
		Line: p.row.Line, LastLine: p.row.Line, Slot: p.row.Intent.Slot(), Amount: p.row.Intent.Amount, Currency: p.row.Intent.Amount.Currency(),
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
	now := time.Now()
	if told := r.told.Load(); now.Sub(time.Unix(0, told)) > r.BreakerWait && r.told.CompareAndSwap(told, now.UnixNano()) {
		r.tell(Wait{Kind: WaitBreaker, For: d})
	}
	until := now.Add(d).UnixNano()
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

package reconcile

import (
	"context"
	"errors"
	"log/slog"

	"github.com/chargeonce/chargeonce/attempt"
)

// Keys of the attributes in log lines: those of package payclient, so that one search for a key finds every line that names
// a payment.
const (
	logAttempt   = "attempt"
	logOrder     = "order"
	logKey       = "key"
	logReference = "reference"
	logCharge    = "charge"
	logStatus    = "status"
	logReason    = "reason"
	logDuty      = "duty"
	logNext      = "next"
	logPlace     = "provider"
	logStack     = "stack"
	logError     = "error"
)

// Observer is told what happens, for metrics and traces. Any func may be nil. They must be safe for concurrent use and return
// soon. A panic in one is logged and goes no further.
type Observer struct {
	// Recorded is told of each attempt whose look is stored: how it stood before, how it stands now, and the duties that were
	// opened by it.
	Recorded func(ctx context.Context, before, after attempt.Attempt, opened []attempt.Duty)
	// AskingEnded is told once of an attempt that is not asked about any more although nobody knows what became of it: a
	// person must decide.
	AskingEnded func(ctx context.Context, a attempt.Attempt)
	// Refunded is told of each look at a refund duty: the refund that pays it, as it stands.
	Refunded func(ctx context.Context, owing, refund attempt.Attempt, d attempt.Duty)
	// Failed is told of what could not be done for an attempt now; it is tried again. The attempt is zero for what concerns
	// none, such as a listing.
	Failed func(ctx context.Context, a attempt.Attempt, err error)
	// Passed is told of each pass when it has ended.
	Passed func(ctx context.Context, r Report, err error)
}

// tell calls an observer's func.
func (r *Reconciler) tell(ctx context.Context, f func()) {
	if err := contained(func() error { f(); return nil }); err != nil {
		r.log(ctx, slog.LevelError, "an observer has failed", append([]slog.Attr{slog.Any(logError, err)}, stackOf(err)...)...)
	}
}

func (r *Reconciler) log(ctx context.Context, level slog.Level, text string, attrs ...slog.Attr) {
	if r.cfg.Logger != nil {
		r.cfg.Logger.LogAttrs(ctx, level, text, attrs...)
	}
}

func (r *Reconciler) sawRecord(ctx context.Context, before *attempt.Attempt, rec *attempt.Record) {
	after := &rec.Attempt
	if r.cfg.Observer.Recorded != nil {
		r.tell(ctx, func() { r.cfg.Observer.Recorded(ctx, *before, *after, rec.Duties) })
	}
	ended := before.AskingEndedAt.IsZero() && !after.AskingEndedAt.IsZero()
	if ended && r.cfg.Observer.AskingEnded != nil {
		r.tell(ctx, func() { r.cfg.Observer.AskingEnded(ctx, *after) })
	}
	if r.cfg.Logger == nil {
		return
	}
	for _, d := range rec.Duties {
		r.log(ctx, slog.LevelError, "money that should not be there", append(about(after),
			slog.String(logDuty, string(d.Kind)), slog.String(logCharge, d.ChargeID), slog.String(logReason, d.Why))...)
	}
	switch {
	case ended:
		r.log(ctx, slog.LevelError, "asking has ended: a person must decide", about(after)...)
	case !before.Status.Final() && after.Status.Final():
		r.log(ctx, slog.LevelInfo, "settled", about(after)...)
	case !after.Status.Final() && after.Status != attempt.StatusPrepared && r.cfg.Logger.Enabled(ctx, slog.LevelDebug):
		r.log(ctx, slog.LevelDebug, "not settled yet, will ask again", append(about(after), slog.Time(logNext, after.NextCheckAt))...)
	}
}

func (r *Reconciler) sawFailure(ctx context.Context, a *attempt.Attempt, err error) {
	if r.cfg.Observer.Failed != nil {
		r.tell(ctx, func() { r.cfg.Observer.Failed(ctx, *a, err) })
	}
	attrs := append(about(a), slog.Any(logError, err))
	r.log(ctx, slog.LevelError, "not done, will try again", append(attrs, stackOf(err)...)...)
}

func stackOf(err error) []slog.Attr {
	if p, ok := errors.AsType[*panicError](err); ok {
		return []slog.Attr{slog.String(logStack, string(p.stack))}
	}
	return nil
}

func about(a *attempt.Attempt) []slog.Attr {
	if a.ID == "" {
		return nil
	}
	return []slog.Attr{
		slog.String(logAttempt, a.ID), slog.String(logOrder, a.Slot.String()), slog.String(logKey, a.Key),
		slog.String(logReference, a.Reference), slog.String(logStatus, a.Status.String()), slog.String(logReason, string(a.Reason)),
	}
}

func (r *Reconciler) sawNotAsked(ctx context.Context, a *attempt.Attempt, err error) {
	r.log(ctx, slog.LevelDebug, "not asked, will try again", append(about(a), slog.Any(logError, err))...)
}

func (r *Reconciler) sawDecision(ctx context.Context, a *attempt.Attempt, d attempt.Duty, decided attempt.Resolution) {
	level := slog.LevelInfo
	if decided.Kind == attempt.ResolvedReview {
		level = slog.LevelError
	}
	r.log(ctx, level, "the policy has decided about surplus money", append(about(a), slog.String(logDuty, string(decided.Kind)),
		slog.String(logCharge, d.ChargeID), slog.String(logReason, decided.Why))...)
}

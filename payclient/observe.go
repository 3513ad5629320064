package payclient

import (
	"context"
	"log/slog"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Keys of the attributes in log lines. One search for a key finds every line that names a payment.
const (
	LogAttempt   = "attempt"
	LogOrder     = "order"
	LogKey       = "key"
	LogReference = "reference"
	LogCharge    = "charge"
	LogStatus    = "status"
	LogReason    = "reason"
	LogSend      = "send"
	LogDuty      = "duty"
	LogRequest   = "request"
	LogError     = "error"
)

// Observer is told what happens, for metrics and traces. Any func may be nil. They run on the goroutine of the call, or on
// the one that stores evidence behind it, and must return soon. A panic in Sent ends the sending of that call, and its
// sends are stored; a panic in another reaches the caller, or ends the process, after the evidence was stored or while
// storing it goes on.
type Observer struct {
	// Sent is told of each request, when its answer was read or it ended without one.
	Sent func(ctx context.Context, a attempt.Attempt, s attempt.Send)
	// Recorded is told of each change that evidence brought to an attempt, once it is stored.
	Recorded func(ctx context.Context, a attempt.Attempt, opened []attempt.Duty)
	// NotRecorded is told that evidence could not be stored; storing it goes on. It is called for each failure.
	NotRecorded func(ctx context.Context, a attempt.Attempt, err error)
	// Asked is told of each lookup.
	Asked func(ctx context.Context, reference string, answer attempt.LookupAnswer, took time.Duration)
}

func (c *Client) sawSend(ctx context.Context, a *attempt.Attempt, s *attempt.Send) {
	if c.cfg.Observer.Sent != nil {
		c.cfg.Observer.Sent(ctx, *a, *s)
	}
	if c.cfg.Logger == nil || !c.cfg.Logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	c.cfg.Logger.DebugContext(ctx, "request ended", append(logAttempt(a),
		slog.String(LogSend, s.Verdict.String()), slog.String(LogReason, string(s.Reason)), slog.String(LogRequest, s.RequestID))...)
}

func (c *Client) sawRecord(ctx context.Context, a *attempt.Attempt, opened []attempt.Duty) {
	if c.cfg.Observer.Recorded != nil {
		c.cfg.Observer.Recorded(ctx, *a, opened)
	}
	if c.cfg.Logger == nil {
		return
	}
	for _, d := range opened {
		c.cfg.Logger.ErrorContext(ctx, "money that should not be there", append(logAttempt(a),
			slog.String(LogDuty, string(d.Kind)), slog.String(LogCharge, d.ChargeID), slog.String(LogReason, d.Why))...)
	}
	if a.Status == attempt.StatusUnknown {
		what := "payment not settled"
		if a.IsRefund() {
			what = "refund not settled"
		}
		c.cfg.Logger.WarnContext(ctx, what, logAttempt(a)...)
	}
}

func (c *Client) sawNotRecorded(ctx context.Context, a *attempt.Attempt, err error) {
	if c.cfg.Observer.NotRecorded != nil {
		c.cfg.Observer.NotRecorded(ctx, *a, err)
	}
	if c.cfg.Logger != nil {
		c.cfg.Logger.ErrorContext(ctx, "evidence not stored yet", append(logAttempt(a), slog.Any(LogError, err))...)
	}
}

func logAttempt(a *attempt.Attempt) []any {
	return []any{
		slog.String(LogAttempt, a.ID), slog.String(LogOrder, a.Slot.String()), slog.String(LogKey, a.Key),
		slog.String(LogReference, a.Reference), slog.String(LogStatus, a.Status.String()), slog.String(LogReason, string(a.Reason)),
	}
}

package payclient

import (
	"context"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// What stands around a request, outside in: retry, breaker, bulkhead, and the send's own time. Retry is outermost, so that
// each request has its own look at the breaker and its own permit. Breaker and bulkhead are shared by payments and lookups:
// both burden the provider, and both see it fail.

// repeater carries out the decision to repeat a request, which was taken by sending.finish, where all that has been sent is
// known: it waits, and ends with the context.
func repeater() failsafe.Executor[*sending] {
	return failsafe.With[*sending](retrypolicy.NewBuilder[*sending]().
		HandleIf(func(s *sending, err error) bool { return err == nil && s != nil && s.again }).
		WithMaxRetries(-1). // sending.finish counts
		WithDelayFunc(func(e failsafe.ExecutionAttempt[*sending]) time.Duration { return e.LastResult().wait }).
		ReturnLastFailure().
		Build())
}

// guard is the breaker and the bulkhead around one request.
type guard struct {
	breaker circuitbreaker.CircuitBreaker[any] // nil: none
	permits bulkhead.Bulkhead[any]
	maxWait time.Duration
}

func newGuard(cfg Config) *guard {
	g := &guard{
		permits: bulkhead.NewBuilder[any](uint(cfg.MaxConcurrent)).Build(), //nolint:gosec // validated
		maxWait: cfg.SendTimeout,
	}
	if b := cfg.Breaker; b.FailurePercent > 0 {
		g.breaker = circuitbreaker.NewBuilder[any]().
			WithFailureRateThreshold(float64(b.FailurePercent)/100, uint(b.MinRequests), b.Period). //nolint:gosec // validated
			WithDelay(b.OpenFor).
			Build()
	}
	return g
}

// health is what a request says about the provider's health.
type health uint8

const (
	healthUnknown health = iota // cancelled, or never made
	healthy
	failing
)

// enter asks for leave to make one request: circuitbreaker.ErrOpen, bulkhead.ErrFull, or the context's error say no. After
// nil, leave must be called.
func (g *guard) enter(ctx context.Context) error {
	if g.breaker != nil && !g.breaker.TryAcquirePermit() {
		return circuitbreaker.ErrOpen
	}
	if g.permits.TryAcquirePermit() {
		return nil
	}
	err := g.permits.AcquirePermitWithMaxWait(ctx, g.maxWait)
	if err != nil {
		g.record(healthUnknown)
	}
	return err
}

// leave gives the permits back and tells the breaker what the request said.
func (g *guard) leave(h health) {
	g.permits.ReleasePermit()
	g.record(h)
}

func (g *guard) record(h health) {
	switch {
	case g.breaker == nil:
	case h == healthy:
		g.breaker.RecordSuccess()
	case h == failing, g.breaker.IsHalfOpen():
		// A half-open breaker waits for the requests it let through: one that says nothing must not keep it waiting for ever,
		// and is no reason to trust the provider.
		g.breaker.RecordFailure()
	}
}

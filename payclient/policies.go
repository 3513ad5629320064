package payclient

import (
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// policies composes what stands around a request, outside in: retry, breaker, bulkhead. Retry is outermost, so that each
// request has its own look at the breaker and its own permit. Each request's time is its own context's, see sendOnce. Whether a
// request is repeated was decided by sending.finish, which sees all that has been sent: the policy only carries it out.
//
// Payments and lookups share the breaker and the bulkhead: both burden the provider, and both see it fail.
func policies(cfg Config) (failsafe.Executor[*sending], failsafe.Executor[*asking]) {
	retry := retrypolicy.NewBuilder[*sending]().
		HandleIf(func(s *sending, err error) bool { return err == nil && s != nil && s.again }).
		WithMaxRetries(-1).
		WithDelayFunc(func(e failsafe.ExecutionAttempt[*sending]) time.Duration { return e.LastResult().wait }).
		ReturnLastFailure().
		Build()
	permits := bulkhead.NewBuilder[any](uint(cfg.MaxConcurrent)).WithMaxWaitTime(cfg.SendTimeout).Build() //nolint:gosec // validated
	pay := failsafe.With[*sending](retry)
	ask := failsafe.With[*asking]()
	if cfg.Breaker.FailurePercent > 0 {
		breaker := circuitbreaker.NewBuilder[any]().
			HandleIf(func(r any, err error) bool {
				switch r := r.(type) {
				case *sending:
					return err == nil && r != nil && r.failed
				case *asking:
					return err == nil && r != nil && r.failed
				}
				return false
			}).
			WithFailureRateThreshold(float64(cfg.Breaker.FailurePercent), uint(cfg.Breaker.MinRequests), cfg.Breaker.Period). //nolint:gosec // validated
			WithDelay(cfg.Breaker.OpenFor).
			Build()
		pay, ask = pay.ComposeAny(breaker), ask.ComposeAny(breaker)
	}
	return pay.ComposeAny(permits), ask.ComposeAny(permits)
}

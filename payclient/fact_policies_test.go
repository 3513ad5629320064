package payclient_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/hedgepolicy"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
)

// More of what failsafe-go v0.9.8 does, by number: what the client goes around, and why its policies are built as they are.
// The rest is in wire_policies_test.go; what stays without a test is in fact_index_test.go.

var errLost = errors.New("lost after it was sent")

// S08: a policy's jitter goes both ways, so a wait that a provider asked for becomes shorter; and nothing bounds the wait but
// the context. So the client adds its own jitter, upwards, and caps the wait itself.
func TestFailsafeS08S27JitterComesTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const asked, times = 10 * time.Second, 64
		waits := func(jitter float64) (list []time.Duration) {
			last := time.Now()
			calls := 0
			_, err := failsafe.With[string](retrypolicy.NewBuilder[string]().WithMaxRetries(times).WithMaxDuration(0).
				WithDelayFunc(func(failsafe.ExecutionAttempt[string]) time.Duration { return asked }).
				WithJitterFactor(jitter).Build()).Get(func() (string, error) {
				if calls++; calls > 1 {
					list = append(list, time.Since(last))
				}
				last = time.Now()
				return "", errLost
			})
			if !errors.Is(err, errLost) || len(list) != times {
				t.Fatalf("%v after %d waits", err, len(list))
			}
			return list
		}
		early, late := 0, 0
		first := waits(0.5)
		for _, wait := range first {
			if wait < asked/2 || wait > asked*3/2 {
				t.Errorf("waited %s, want %s and half of it more or less", wait, asked)
			}
			if wait < asked {
				early++
			} else if wait > asked {
				late++
			}
		}
		if early == 0 || late == 0 { // one of 2^64 runs
			t.Errorf("%d waits were shorter than asked for, %d longer; it used to be both", early, late)
		}
		// S27: the random numbers are the process's own. No seed makes a second run like the first.
		same := 0
		for i, wait := range waits(0.5) {
			if wait == first[i] {
				same++
			}
		}
		if same == times {
			t.Error("two runs wait alike: the jitter can be seeded now")
		}
		// What the function says is what is waited: the way to have a test that repeats.
		for _, wait := range waits(0) {
			if wait != asked {
				t.Errorf("waited %s without jitter, want %s", wait, asked)
			}
		}
	})
}

// S12: an attempt under a time-out has a context of its own, which has the caller's values and deadline, and ends with the
// attempt: what is read later is cut off.
func TestFailsafeS12TheAttemptsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "trace"), time.Hour)
		defer cancel()
		var own context.Context
		_, err := failsafe.With[string](timeout.New[string](time.Second)).WithContext(ctx).
			GetWithExecution(func(e failsafe.Execution[string]) (string, error) { own = e.Context(); return "charged", own.Err() })
		if err != nil || own == ctx || own.Value(key{}) != "trace" {
			t.Errorf("%v, the caller's own: %t, value %v", err, own == ctx, own.Value(key{}))
		}
		want, _ := ctx.Deadline()
		if until, ok := own.Deadline(); !ok || !until.Equal(want) {
			t.Errorf("deadline %v, want the caller's %v: the time-out is none", until, want)
		}
		if !errors.Is(own.Err(), context.Canceled) || ctx.Err() != nil {
			t.Errorf("afterwards: %v, the caller's %v; want only the attempt's cancelled", own.Err(), ctx.Err())
		}
	})
}

// S15: a time-out waits for the function, drops what it then returns, and says neither Timeout nor DeadlineExceeded.
func TestFailsafeS15TimeoutsWaitAndForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var inside error
		got, err := failsafe.With[string](timeout.New[string](100 * time.Millisecond)).
			GetWithExecution(func(e failsafe.Execution[string]) (string, error) {
				if _, ok := e.Context().Deadline(); ok {
					t.Error("the attempt's context has a deadline")
				}
				time.Sleep(600 * time.Millisecond) // the bubble's; it does not look at its context
				inside = e.Context().Err()
				return "charged", nil
			})
		if took := time.Since(began); took != 600*time.Millisecond {
			t.Errorf("took %s, want to wait for the function", took)
		}
		if got != "" || !errors.Is(err, timeout.ErrExceeded) {
			t.Errorf("%q, %v; the result used to be dropped", got, err)
		}
		if timed := interface{ Timeout() bool }(nil); errors.As(err, &timed) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v looks like a time-out now", err)
		}
		if !errors.Is(inside, context.Canceled) {
			t.Errorf("inside: %v, want cancelled", inside)
		}
		_, err = failsafe.With[string](timeout.New[string](100 * time.Millisecond)).
			Get(func() (string, error) { time.Sleep(time.Second); return "", errLost })
		if errors.Is(err, errLost) {
			t.Errorf("%v keeps the function's own error now", err)
		}
	})
}

// S17: "abort on context.Canceled" does not see a context that was cancelled with a cause, if the error is the cause. That the
// policy asks the context itself stops it all the same.
func TestFailsafeS17CausesAreNotCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		impatient := errors.New("the payer has gone")
		aborting := failsafe.With[string](retrypolicy.NewBuilder[string]().WithMaxRetries(5).WithDelay(time.Second).
			AbortOnErrors(context.Canceled).ReturnLastFailure().Build())
		for _, c := range []struct {
			name   string
			err    error
			cancel bool
			calls  int
		}{
			{"cancelled", context.Canceled, false, 1},
			{"the cause alone", impatient, false, 6},
			{"the cause, and the context is done", impatient, true, 1},
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			calls := 0
			_, err := aborting.WithContext(ctx).Get(func() (string, error) {
				calls++
				if c.cancel {
					cancel(impatient)
				}
				return "", c.err
			})
			cancel(nil)
			if err == nil || calls != c.calls {
				t.Errorf("%s: %d calls, %v; want %d", c.name, calls, err, c.calls)
			}
		}
	})
}

// S18: the maximum duration is looked at between attempts. It cancels nothing, and a result that comes after it counts.
func TestFailsafeS18MaxDurationCancelsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := failsafe.With[string](retrypolicy.NewBuilder[string]().WithMaxRetries(5).WithMaxDuration(time.Second).Build())
		for _, c := range []struct {
			name string
			said string
			err  error
		}{{"charged, late", "charged", nil}, {"lost, late", "", errLost}} {
			began, calls := time.Now(), 0
			got, err := limited.GetWithExecution(func(e failsafe.Execution[string]) (string, error) {
				calls++
				select {
				case <-time.After(time.Minute):
				case <-e.Context().Done():
					t.Errorf("%s: it was cancelled", c.name)
				}
				return c.said, c.err
			})
			if got != c.said || !errors.Is(err, c.err) || calls != 1 || time.Since(began) != time.Minute {
				t.Errorf("%s: %q, %v, %d calls, after %s; want one call of a minute", c.name, got, err, calls, time.Since(began))
			}
		}
	})
}

// S20: an open breaker inside a retry costs the attempts and their waits, unless its error aborts.
func TestFailsafeS20AnOpenBreakerCostsTheRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := circuitbreaker.NewBuilder[string]().WithDelay(time.Hour).Build()
		open.Open()
		for _, c := range []struct {
			abort bool
			took  time.Duration
		}{{false, 3 * time.Second}, {true, 0}} {
			retry := retrypolicy.NewBuilder[string]().WithMaxRetries(3).WithDelay(time.Second)
			if c.abort {
				retry = retry.AbortOnErrors(circuitbreaker.ErrOpen)
			}
			began := time.Now()
			_, err := failsafe.With[string](retry.Build(), open).
				Get(func() (string, error) { t.Error("an open breaker lets a call through"); return "", nil })
			if !errors.Is(err, circuitbreaker.ErrOpen) || time.Since(began) != c.took {
				t.Errorf("abort %t: %v after %s, want the open breaker after %s", c.abort, err, time.Since(began), c.took)
			}
		}
	})
}

// countedCloser is a body that tells when it is closed.
type countedCloser struct {
	io.Reader
	closed *atomic.Int32
}

func (c countedCloser) Close() error { c.closed.Add(1); return nil }

// S24: a hedge has two calls in flight, and nobody closes what the slower one brings. So there is none around a POST, nor here
// around anything.
func TestFailsafeS24HedgesSendTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, now, most, made, closed atomic.Int32
		hedge := hedgepolicy.NewBuilderWithDelay[io.ReadCloser](100 * time.Millisecond).Build()
		got, err := failsafe.With[io.ReadCloser](hedge).Get(func() (io.ReadCloser, error) {
			n := calls.Add(1)
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			if n == 1 {
				time.Sleep(time.Second) // the bubble's; the slower one
			} else {
				time.Sleep(50 * time.Millisecond)
			}
			made.Add(1)
			return countedCloser{nil, &closed}, nil
		})
		if err != nil || got == nil || calls.Load() != 2 || most.Load() != 2 {
			t.Errorf("%v, %d calls, %d at once; want two at once", err, calls.Load(), most.Load())
		}
		time.Sleep(time.Second) // until the slower one has its body as well
		synctest.Wait()
		if made.Load() != 2 || closed.Load() != 0 {
			t.Errorf("%d bodies, %d of them closed; the one that lost used to stay open", made.Load(), closed.Load())
		}
	})
}

// S25: an exceeded budget takes the place of the attempt's own error, and the minimum concurrency lets the first retries
// through whatever the rate is.
func TestFailsafeS25BudgetsHideWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const free = 2
		shared := failsafe.With[string](retrypolicy.NewBuilder[string]().WithMaxRetries(1).WithDelay(time.Second).
			WithBudget(budget.NewBuilder().WithMaxRate(0.01).WithMinConcurrency(free).Build()).Build())
		var retries atomic.Int32
		errs := make(chan error, free+1)
		for n := range free + 1 {
			go func() {
				time.Sleep(time.Duration(n) * time.Millisecond) // one after another: at once, more than are free get through
				calls := 0
				_, err := shared.Get(func() (string, error) {
					if calls++; calls == 1 {
						return "", errLost
					}
					retries.Add(1)
					time.Sleep(time.Hour) // in flight while the others ask for leave
					return "charged", nil
				})
				errs <- err
			}()
		}
		exceeded := 0
		for range free + 1 {
			if err := <-errs; errors.Is(err, budget.ErrExceeded) {
				exceeded++
				if errors.Is(err, errLost) {
					t.Errorf("%v tells what was lost now", err)
				}
			} else if err != nil {
				t.Error(err)
			}
		}
		if exceeded != 1 || retries.Load() != free {
			t.Errorf("%d were refused, %d sent again; want 1 and %d", exceeded, retries.Load(), free)
		}
	})
}

// S26: listeners run on the caller's goroutine, so a panic in one is the caller's; the breaker unlocks around its own; and OnDone
// and Compose change the executor that they are called on.
func TestFailsafeS26Listeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noisy := failsafe.With[string](retrypolicy.NewBuilder[string]().WithMaxRetries(1).
			OnRetry(func(failsafe.ExecutionEvent[string]) { panic("of the listener") }).Build())
		func() {
			defer func() {
				if r := recover(); r != "of the listener" {
					t.Errorf("recovered %v; a listener's panic used to come to the caller", r)
				}
			}()
			_, err := noisy.Get(func() (string, error) { return "", errLost })
			t.Errorf("%v, and no panic", err)
		}()

		var b circuitbreaker.CircuitBreaker[any]
		heard := 0
		b = circuitbreaker.NewBuilder[any]().WithFailureThreshold(1).OnOpen(func(circuitbreaker.StateChangedEvent) {
			if heard++; !b.IsOpen() || b.TryAcquirePermit() { // under its lock this would never end
				t.Error("the breaker is not open in its own listener")
			}
		}).Build()
		b.RecordFailure()
		if heard != 1 {
			t.Errorf("OnOpen was called %d times", heard)
		}

		done, calls := 0, 0
		plain := failsafe.With[string]()
		copied := plain.WithContext(t.Context())
		plain.OnDone(func(failsafe.ExecutionDoneEvent[string]) { done++ })
		plain.Compose(retrypolicy.NewBuilder[string]().WithMaxRetries(1).Build())
		failing := func() (string, error) { calls++; return "", errLost }
		_, err := plain.Get(failing)
		if !errors.Is(err, errLost) || done != 1 || calls != 2 {
			t.Errorf("%v, heard %d times, %d calls; the executor used to be changed in place", err, done, calls)
		}
		_, err = copied.Get(failing)
		if !errors.Is(err, errLost) || done != 1 || calls != 3 {
			t.Errorf("a copy made before: %v, heard %d times, %d calls in all", err, done, calls)
		}
	})
}

package payclient_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/bulkhead"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// What failsafe-go v0.9.8 does where the client uses it, or goes around it. A release that does otherwise is a change to the
// payment path: then policies.go and send.go are to be read again, whichever way it has changed.

// repeatingPolicy is a retry policy as the client builds its own: it repeats what the function asks for, and waits a second.
func repeatingPolicy() failsafe.Executor[string] {
	return failsafe.With[string](retrypolicy.NewBuilder[string]().
		HandleIf(func(said string, err error) bool { return err == nil && said == "again" }).
		WithMaxRetries(-1).WithDelay(time.Second).ReturnLastFailure().Build())
}

// S14: a result that is there is dropped if the context is done by then. So the client decides by its own log.
func TestFailsafeS14RetryDropsAResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		got, err := repeatingPolicy().WithContext(ctx).Get(func() (string, error) { cancel(); return "charged", nil })
		if got != "" || !errors.Is(err, context.Canceled) {
			t.Errorf("%q, %v; the result used to be dropped", got, err)
		}
	})
}

// S16: a cancelled context ends the wait between two attempts at once, and none follows. The wait itself does not look at the
// deadline (S08).
func TestFailsafeS16CancellingEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, calls := time.Now(), 0
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		_, err := repeatingPolicy().WithContext(ctx).Get(func() (string, error) { calls++; return "again", nil })
		if !errors.Is(err, context.DeadlineExceeded) || calls != 3 || time.Since(began) != 2500*time.Millisecond {
			t.Errorf("%d calls, %v, after %s; want 3, and the end with the context", calls, err, time.Since(began))
		}
	})
}

// S09: of several attempts only the last one's error is returned.
func TestFailsafeS09TheLastHidesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost, refused := errors.New("lost after it was sent"), errors.New("connection refused")
		calls := 0
		_, err := failsafe.With[string](retrypolicy.NewBuilder[string]().WithMaxRetries(1).WithDelay(time.Second).Build()).
			Get(func() (string, error) {
				if calls++; calls == 1 {
					return "", lost
				}
				return "", refused
			})
		if !errors.Is(err, refused) || errors.Is(err, lost) {
			t.Errorf("%v; the first error used to be hidden", err)
		}
	})
}

// S19: left to itself a breaker counts any error, cancellations by callers too; told by hand, as the client does, only what it
// is told.
func TestFailsafeS19WhatABreakerCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := circuitbreaker.NewBuilder[any]().WithFailureThreshold(3).Build()
		for range 3 {
			_ = failsafe.With[any](own).Run(func() error { return context.Canceled }) // the error is what is given
		}
		if !own.IsOpen() {
			t.Error("three cancellations used to open a breaker")
		}
		told := circuitbreaker.NewBuilder[any]().WithFailureRateThreshold(0.5, 4, time.Minute).WithDelay(time.Second).Build()
		for range 10 {
			if !told.TryAcquirePermit() {
				t.Fatal("a breaker that was told nothing refuses")
			}
		}
		for range 4 {
			told.RecordFailure()
		}
		if !told.IsOpen() || told.TryAcquirePermit() {
			t.Error("four failures of four do not open it")
		}
	})
}

// S21: a half-open breaker whose probe never tells how it went refuses for ever. So the client tells in every case.
func TestFailsafeS21AProbeThatNeverTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := circuitbreaker.NewBuilder[any]().WithFailureThreshold(1).WithDelay(time.Second).Build()
		b.RecordFailure()
		time.Sleep(time.Second) // the bubble's
		if !b.TryAcquirePermit() || !b.IsHalfOpen() {
			t.Fatal("no probe is let through after the delay")
		}
		time.Sleep(1000 * time.Hour)
		if b.TryAcquirePermit() {
			t.Error("a second probe is let through, although the first has not told")
		}
		b.RecordFailure()
		if !b.IsOpen() {
			t.Error("a probe that failed does not open it again")
		}
	})
}

// S21: a panic in the function costs a bulkhead's permit for good. So the client recovers inside, and releases by hand.
func TestFailsafeS21APanicCostsThePermit(t *testing.T) {
	b := bulkhead.New[any](1)
	func() {
		defer func() { _ = recover() }()
		_ = failsafe.With[any](b).Run(func() error { panic("in the function") })
	}()
	if b.TryAcquirePermit() {
		t.Error("the permit used to be lost")
	}
}

// S22: a bulkhead without a wait refuses at once; with one it waits as long, and no longer than the context.
func TestFailsafeS22Bulkheads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bulkhead.New[any](1)
		if !b.TryAcquirePermit() {
			t.Fatal("an empty bulkhead refuses")
		}
		began := time.Now()
		if err := failsafe.With[any](b).Run(func() error { return nil }); !errors.Is(err, bulkhead.ErrFull) || time.Since(began) != 0 {
			t.Errorf("%v after %s, want refused at once", err, time.Since(began))
		}
		if err := b.AcquirePermitWithMaxWait(t.Context(), 3*time.Second); !errors.Is(err, bulkhead.ErrFull) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %s, want full after 3 s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := b.AcquirePermitWithMaxWait(ctx, 3*time.Second); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 4*time.Second {
			t.Errorf("%v after %s, want the context's end after 1 s more", err, time.Since(began))
		}
		b.ReleasePermit()
		if !b.TryAcquirePermit() {
			t.Error("a permit that was given back is not to be had")
		}
	})
}

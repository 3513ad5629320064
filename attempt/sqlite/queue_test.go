package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// What waits while a commit is under way shares the next one.
func TestStepsShareCommits(t *testing.T) {
	s := testStore(t, testFile(t), Options{})
	release := hold(t, s)
	const callers = 64
	var wg sync.WaitGroup
	steps := make([]*starting, callers)
	for i := range steps {
		steps[i] = starts(fmt.Sprint(i))
		wg.Go(func() {
			if err := s.Apply(t.Context(), &steps[i].Step); err != nil {
				t.Error(err)
			}
		})
	}
	queued(s, callers)
	before := s.write.commits // the writer is held
	release()
	wg.Wait()
	if n := s.write.commits - before; n > 2 { // the held step's own, and one for all the others
		t.Errorf("%d steps took %d commits", callers+1, n)
	}
	for _, step := range steps {
		if !step.began {
			t.Errorf("%s was not started", step.Slot)
		}
		wantStatus(t, s, step.got.ID, attempt.StatusSending, 1)
	}
}

// One caller's many steps are not one endless transaction, and none is left behind.
func TestBatchesAreBounded(t *testing.T) {
	s := testStore(t, testFile(t), Options{})
	var steps []*attempt.Step
	for i := range 3*batchLimit + 1 {
		steps = append(steps, &starts(fmt.Sprint(i)).Step)
	}
	before := s.write.commits
	if err := s.Apply(t.Context(), steps...); err != nil {
		t.Fatal(err)
	}
	if n := s.write.commits - before; n != 4 {
		t.Errorf("%d commits for %d steps, want 4", n, len(steps))
	}
}

func TestOutcomesGoBeforeStarts(t *testing.T) {
	s := testStore(t, testFile(t), Options{})
	var mu sync.Mutex
	var ran []string
	release := hold(t, s)
	var wg sync.WaitGroup
	for i, name := range []string{"start", "outcome", "start", "outcome"} {
		wg.Go(func() {
			err := s.Apply(t.Context(), &attempt.Step{
				Slot: starts(name).Slot, Outcome: name == "outcome",
				Do: func(attempt.View) ([]attempt.Write, error) {
					mu.Lock()
					defer mu.Unlock()
					ran = append(ran, name)
					return nil, nil
				}})
			if err != nil {
				t.Error(err)
			}
		})
		queued(s, i+1)
	}
	release()
	wg.Wait()
	if want := []string{"outcome", "outcome", "start", "start"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
}

// A step that the database refuses, in a batch with others: the batch is undone and each goes alone.
func TestOneStepsFailureIsItsOwn(t *testing.T) {
	s := testStore(t, testFile(t), Options{})
	broken := start(t, s, "broken")
	// Somebody has tampered with the file: the next event of this attempt is there already.
	err := s.write.with(func(r *rawSession) error {
		return r.exec1("INSERT INTO chargeonce_events (attempt_id, version, what, from_status, to_status, who) VALUES (?, 2, '', 'unknown', 'unknown', '')", broken.ID)
	})
	if err != nil {
		t.Fatal(err)
	}
	good := start(t, s, "good")
	release := hold(t, s)
	var wg sync.WaitGroup
	var fresh []*starting
	for i := range 10 {
		step := starts(fmt.Sprint(i))
		fresh = append(fresh, step)
		wg.Go(func() {
			if err := s.Apply(t.Context(), &step.Step); err != nil {
				t.Errorf("a step beside the broken one: %v", err)
			}
		})
	}
	var brokenErr error
	brokenStep, goodStep := approves(broken), approves(good)
	wg.Go(func() { brokenErr = s.Apply(t.Context(), brokenStep.Step(&broken)) })
	queued(s, 11)
	wg.Go(func() {
		if err := s.Apply(t.Context(), goodStep.Step(&good)); err != nil {
			t.Errorf("an outcome beside the broken one: %v", err)
		}
	})
	queued(s, 12)
	release()
	wg.Wait()
	if !errors.Is(brokenErr, attempt.ErrUnavailable) {
		t.Errorf("the broken step: %v", brokenErr)
	}
	wantStatus(t, s, broken.ID, attempt.StatusSending, 1)
	wantStatus(t, s, good.ID, attempt.StatusApproved, 2)
	for _, f := range fresh {
		if !f.began {
			t.Errorf("%s was not started", f.Slot)
		}
		wantStatus(t, s, f.got.ID, attempt.StatusSending, 1)
	}
}

// Who waits too long for the writer of its own process is told so, and is not written later.
func TestWaitingEnds(t *testing.T) {
	path := testFile(t)
	synctest.Test(t, func(t *testing.T) {
		s := testStore(t, path, Options{})
		a := start(t, s, "1001")
		release := hold(t, s)
		begun := time.Now()
		late := starts("1002")
		err := s.Apply(t.Context(), &late.Step)
		if !errors.Is(err, attempt.ErrUnavailable) || time.Since(begun) != lockLimit {
			t.Errorf("a start ended after %s: %v", time.Since(begun), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		begun = time.Now()
		gaveUp := approves(a)
		err = s.Apply(ctx, gaveUp.Step(&a))
		if !errors.Is(err, attempt.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Hour {
			t.Errorf("an outcome ended after %s: %v", time.Since(begun), err)
		}
		// Both kinds in one call: the start gives up, the outcome goes on.
		outcome, beside := approves(a), starts("1003")
		step := outcome.Step(&a)
		done := make(chan error)
		go func() { done <- s.Apply(t.Context(), step, &beside.Step) }()
		time.Sleep(time.Minute) // of the bubble's time
		release()
		if err := <-done; !errors.Is(err, attempt.ErrUnavailable) || step.Err != nil || !errors.Is(beside.Err, attempt.ErrUnavailable) {
			t.Errorf("outcome: %v, start: %v", step.Err, beside.Err)
		}
		wantStatus(t, s, a.ID, attempt.StatusApproved, 2)
		for _, order := range []string{"1002", "1003"} {
			if v, err := s.Slot(t.Context(), starts(order).Slot); err != nil || len(v.Attempts) != 0 {
				t.Errorf("%s was written after its time: %v", order, err)
			}
		}
	})
}

// A Do that ends its goroutine, as t.FailNow does, takes the writer with it to nobody.
func TestStepThatEndsItsGoroutine(t *testing.T) {
	s := testStore(t, testFile(t), Options{})
	running, exit := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = s.Apply(t.Context(), &attempt.Step{Slot: starts("1001").Slot, Do: func(attempt.View) ([]attempt.Write, error) {
			close(running)
			<-exit
			runtime.Goexit()
			return nil, nil
		}})
		t.Error("the step did not end its goroutine")
	})
	<-running
	beside := starts("1002")
	wg.Go(func() {
		if err := s.Apply(t.Context(), &beside.Step); err != nil {
			t.Errorf("a step that waited: %v", err)
		}
	})
	queued(s, 1)
	close(exit)
	wg.Wait()
	wantStatus(t, s, beside.got.ID, attempt.StatusSending, 1)
	start(t, s, "1003")
}

// Close waits for whoever is inside.
func TestCloseWaits(t *testing.T) {
	path := testFile(t)
	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	release := hold(t, s)
	step := starts("1001")
	done := make(chan error, 1)
	go func() { done <- s.Apply(t.Context(), &step.Step) }()
	queued(s, 1)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for begun := false; !begun; runtime.Gosched() {
		s.queue.mu.Lock()
		begun = s.queue.closed
		s.queue.mu.Unlock()
	}
	if err := s.Apply(t.Context(), &starts("1002").Step); !errors.Is(err, attempt.ErrUnavailable) {
		t.Errorf("a step was let in: %v", err)
	}
	select {
	case err := <-closed:
		t.Fatalf("Close did not wait: %v", err)
	default:
	}
	release()
	if err := errors.Join(<-done, <-closed); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, testStore(t, path, Options{}), step.got.ID, attempt.StatusSending, 1)
}

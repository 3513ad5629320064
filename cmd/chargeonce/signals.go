package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

var errInterrupted = errors.New("interrupted")

// interrupts turns signals into the ends of two contexts: the first signal says to begin nothing more, the second that
// calls under way are to end too. What they have learnt is stored all the same, until somebody gives that up as well.
type interrupts struct {
	start, calls context.Context
	storing      context.Context // ends with the third, or as onlyStoringIsLeft has it: what cannot be stored is given up
	release      func()

	mu     sync.Mutex
	taken  int         // guarded by mu
	ending func() bool // guarded by mu: what decides when only storing is left
}

func catchInterrupts(parent context.Context, told func(n int)) *interrupts {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	i := takeInterrupts(parent, signals, told)
	release := i.release
	i.release = func() {
		signal.Stop(signals)
		release()
	}
	return i
}

// takeInterrupts is catchInterrupts for signals from wherever.
func takeInterrupts(parent context.Context, signals <-chan os.Signal, told func(n int)) *interrupts {
	start, stop := context.WithCancelCause(parent)
	calls, cut := context.WithCancelCause(parent)
	storing, giveUp := context.WithCancelCause(context.WithoutCancel(parent))
	i := &interrupts{start: start, calls: calls, storing: storing}
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		for {
			select {
			case <-signals:
			case <-done:
				return
			}
			n, ending := i.take()
			give := n > 2
			if ending != nil {
				give = ending()
			} else {
				told(n)
			}
			stop(errInterrupted)
			if n > 1 {
				cut(errInterrupted)
			}
			if give {
				giveUp(errInterrupted)
			}
		}
	})
	i.release = func() {
		close(done)
		ended.Wait()
		stop(nil)
		cut(nil)
		giveUp(nil)
	}
	return i
}

func (i *interrupts) take() (n int, ending func() bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.taken++
	return i.taken, i.ending
}

// onlyStoringIsLeft has a func told of each interrupt from now on, in place of the one that was told before: it says whether
// what is not stored is given up. It returns how many there were before.
func (i *interrupts) onlyStoringIsLeft(ending func() (giveUp bool)) (before int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ending = ending
	return i.taken
}

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
// calls under way are to end too. What they have learnt is stored all the same.
type interrupts struct {
	start, calls context.Context
	storing      context.Context // ends with the third: what cannot be stored is given up
	release      func()
}

func catchInterrupts(parent context.Context, told func(n int)) *interrupts {
	start, stop := context.WithCancelCause(parent)
	calls, cut := context.WithCancelCause(parent)
	storing, giveUp := context.WithCancelCause(context.WithoutCancel(parent))
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-signals:
			case <-done:
				return
			}
			told(n)
			stop(errInterrupted)
			if n > 1 {
				cut(errInterrupted)
			}
			if n > 2 {
				giveUp(errInterrupted)
			}
		}
	})
	return &interrupts{start: start, calls: calls, storing: storing, release: func() {
		signal.Stop(signals)
		close(done)
		ended.Wait()
		stop(nil)
		cut(nil)
		giveUp(nil)
	}}
}

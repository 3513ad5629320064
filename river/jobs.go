package chargeonceriver

import (
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

// The kinds of jobs. They are part of what River stores and never change.
const (
	kindLook  = "chargeonce_look"
	kindSweep = "chargeonce_sweep"
)

// LookArgs is the job that looks at one attempt until it is settled. A trigger inserts it; a host may too, to have an attempt
// looked at that has none.
type LookArgs struct {
	AttemptID string `json:"attempt_id"`
}

// Kind implements river.JobArgs.
func (LookArgs) Kind() string { return kindLook }

// InsertOpts makes the job the only one of its attempt that is not finished.
func (LookArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: unfinished()}}
}

// SweepArgs is the job that looks at all that is due.
type SweepArgs struct{}

// Kind implements river.JobArgs.
func (SweepArgs) Kind() string { return kindSweep }

// InsertOpts keeps sweeps from piling up where one takes longer than the time between them. A sweep that fails is not repeated:
// the next one does the same.
func (SweepArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{MaxAttempts: 1, UniqueOpts: river.UniqueOpts{ByState: unfinished()}}
}

func unfinished() []rivertype.JobState {
	return []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRetryable, rivertype.JobStateRunning,
		rivertype.JobStateScheduled,
	}
}

// DefaultSweepEvery is the time between sweeps.
const DefaultSweepEvery = time.Minute

// SweepOptions sets up the sweep. The zero SweepOptions are the defaults.
type SweepOptions struct {
	// Every is the time between sweeps; less than a second counts as one. Zero: 1 min.
	Every time.Duration
	// Queue is the queue of the sweep. Empty: River's default queue.
	Queue string
}

// Sweep returns the periodic job that looks at all that is due. It runs when a client starts to lead, and then regularly.
func Sweep(opts SweepOptions) *river.PeriodicJob {
	every := opts.Every
	if every == 0 {
		every = DefaultSweepEvery
	}
	every = max(every, time.Second)
	return river.NewPeriodicJob(river.PeriodicInterval(every), func() (river.JobArgs, *river.InsertOpts) {
		return SweepArgs{}, &river.InsertOpts{Queue: opts.Queue}
	}, &river.PeriodicJobOpts{ID: kindSweep, RunOnStart: true})
}

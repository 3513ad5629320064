package chargeonceriver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/riverqueue/river"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/reconcile"
)

// Looker looks at attempts. *reconcile.Reconciler is one.
type Looker interface {
	// Look looks at one attempt now.
	Look(ctx context.Context, id string) (reconcile.Looked, error)
	// RunOnce looks at all that is due.
	RunOnce(ctx context.Context) (reconcile.Report, error)
}

// Reader reads attempts, and the present by the store's clock. Every attempt.Store is one.
type Reader interface {
	Attempt(ctx context.Context, id string) (attempt.Attempt, error)
	Slot(ctx context.Context, slot attempt.Slot) (attempt.View, error)
}

// Config configures the workers. Reconciler and Store are required.
type Config struct {
	// Reconciler asks about attempts and meets what is owed. It needs no Run: the jobs call it.
	Reconciler Looker
	// Store is the reconciler's.
	Store Reader
	// LookTimeout bounds the work on one attempt. Zero: 2 min, which holds a question, a refund and their storing at the
	// reconciler's default times.
	LookTimeout time.Duration
	// SweepTimeout bounds a sweep; what is left comes back with the next one. Zero: 30 min. It must stay below River's
	// RescueStuckJobsAfter (1 h).
	SweepTimeout time.Duration
	// Logger gets a line for each sweep that could not do all of its work. Nil: none.
	Logger *slog.Logger
}

// Defaults of a Config.
const (
	DefaultLookTimeout  = 2 * time.Minute
	DefaultSweepTimeout = 30 * time.Minute
)

// Waits of a job that is not the one to do the work now.
const (
	// elsewhere is how long a job waits for a process that asks the attempt's place.
	elsewhere = time.Minute
	// again is how long a job waits after a look that has changed nothing, because the provider could not be asked or the answer not
	// be stored: as long as a client's breaker stays open by default.
	again = 15 * time.Second
	// shortest is the shortest snooze, so that a job whose time has all but come does not go round in circles.
	shortest = time.Second
)

// AddWorkers adds the workers of the package's jobs to a bundle. It reports every mistake in the configuration at once, and fails
// where the bundle has such workers.
func AddWorkers(workers *river.Workers, cfg Config) error {
	var errs []error
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if workers == nil {
		fail("workers: missing")
	}
	if missing(cfg.Reconciler) {
		fail("Reconciler: missing")
	}
	if missing(cfg.Store) {
		fail("Store: missing")
	}
	for _, f := range []struct {
		name     string
		value    *time.Duration
		standard time.Duration
	}{{"LookTimeout", &cfg.LookTimeout, DefaultLookTimeout}, {"SweepTimeout", &cfg.SweepTimeout, DefaultSweepTimeout}} {
		switch {
		case *f.value < 0:
			fail("%s: %s is negative", f.name, *f.value)
		case *f.value == 0:
			*f.value = f.standard
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if errs == nil {
		errs = append(errs, river.AddWorkerSafely(workers, &lookWorker{cfg: cfg}), river.AddWorkerSafely(workers, &sweepWorker{cfg: cfg}))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("chargeonceriver: %w", err)
	}
	return nil
}

func missing(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// lookWorker looks at one attempt until it is settled.
type lookWorker struct {
	river.WorkerDefaults[LookArgs]
	cfg Config
}

// Timeout implements river.Worker.
func (w *lookWorker) Timeout(*river.Job[LookArgs]) time.Duration { return w.cfg.LookTimeout }

// Work implements river.Worker. An error is for River to retry: the store could not be read.
func (w *lookWorker) Work(ctx context.Context, job *river.Job[LookArgs]) error {
	a, now, err := w.read(ctx, job.Args.AttemptID)
	switch {
	case errors.Is(err, attempt.ErrNotFound):
		return river.JobCancel(err) // of another store: nobody will ever find it here
	case err != nil:
		return err
	case settled(&a):
		return nil
	case a.NextCheckAt.After(now): // somebody else is at it, or has been
		return snooze(&a, now)
	}
	l, err := w.cfg.Reconciler.Look(ctx, a.ID)
	switch {
	case errors.Is(err, reconcile.ErrNoAsker):
		return river.JobSnooze(elsewhere)
	case err != nil:
		return err
	case settled(&l.Attempt):
		return nil
	}
	return snooze(&l.Attempt, l.Now)
}

func (w *lookWorker) read(ctx context.Context, id string) (attempt.Attempt, time.Time, error) {
	a, err := w.cfg.Store.Attempt(ctx, id)
	if err != nil {
		return a, time.Time{}, err
	}
	v, err := w.cfg.Store.Slot(ctx, a.Slot)
	if err != nil {
		return a, time.Time{}, err
	}
	a, ok := v.Find(id)
	if !ok {
		return a, time.Time{}, fmt.Errorf("attempt %s: %w", id, attempt.ErrNotFound)
	}
	return a, v.Now, nil
}

// settled tells whether there is nothing more for a job to find out: the attempt has ended, nothing can have left any more, or a
// person has to decide. What is owed after the end, and what is watched on, is the sweep's.
func settled(a *attempt.Attempt) bool {
	open := a.Status == attempt.StatusSending || a.Status == attempt.StatusUnknown
	return !open || !a.AskingEndedAt.IsZero() || a.NextCheckAt.IsZero()
}

// snooze puts a job off until its attempt's next check. The wait is measured by the store's clock, whatever this machine's says.
func snooze(a *attempt.Attempt, now time.Time) error {
	wait := a.NextCheckAt.Sub(now)
	if wait <= 0 {
		wait = again
	}
	return river.JobSnooze(max(wait, shortest))
}

// sweepWorker looks at all that is due.
type sweepWorker struct {
	river.WorkerDefaults[SweepArgs]
	cfg Config
}

// Timeout implements river.Worker.
func (w *sweepWorker) Timeout(*river.Job[SweepArgs]) time.Duration { return w.cfg.SweepTimeout }

// Work implements river.Worker.
func (w *sweepWorker) Work(ctx context.Context, _ *river.Job[SweepArgs]) error {
	report, err := w.cfg.Reconciler.RunOnce(ctx)
	if report.Failed > 0 || report.Left > 0 {
		w.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a sweep has left work to the next one",
			slog.Int("taken", report.Taken), slog.Int("left", report.Left), slog.Int("failed", report.Failed))
	}
	return err
}

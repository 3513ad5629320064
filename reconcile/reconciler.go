package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/chance"
)

// Reconciler looks after open attempts and owed money. It is safe for concurrent use, and any number of them may work on one
// store, in whatever processes.
type Reconciler struct {
	cfg   Config
	sites []*site
}

// site is a place and what asks there.
type site struct {
	place    attempt.Place
	schedule attempt.Schedule
	asker    Asker
	lister   Lister   // nil: none
	refunder Refunder // nil: none
	voider   Voider   // nil: none

	unlisted atomic.Bool // the lister has said that it cannot list
}

// New makes a reconciler. It reports every mistake in the configuration at once.
func New(cfg Config) (*Reconciler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Reconciler{cfg: cfg.withDefaults()}
	for _, a := range cfg.Askers {
		s := &site{place: a.Place(), schedule: a.Schedule(), asker: a}
		s.lister, _ = a.(Lister)
		s.refunder, _ = a.(Refunder)
		s.voider, _ = a.(Voider)
		r.sites = append(r.sites, s)
	}
	return r, nil
}

// RunOnce looks at everything that is due now, and returns when all of it was looked at. An error says that the store could
// not be asked for work, that a func of Config.Also failed, or that ctx has ended; what the report counts was done all the
// same. What fails for one attempt is counted in the report and is no error of the pass.
//
// When ctx ends, no more questions leave; an answer that was had is stored.
func (r *Reconciler) RunOnce(ctx context.Context) (Report, error) {
	p := newPass(r)
	errs := p.also(ctx)
	if err := p.run(ctx); err != nil {
		errs = append(errs, err)
	}
	report := p.end()
	err := errors.Join(errs...)
	if r.cfg.Observer.Passed != nil {
		r.tell(ctx, func() { r.cfg.Observer.Passed(ctx, report, err) })
	}
	return report, err
}

// Run makes pass after pass until ctx ends, and returns its error. It wakes when something is known to be due, and after
// Config.Every at the latest. A pass that fails is logged, and the next one tries again.
func (r *Reconciler) Run(ctx context.Context) error {
	for {
		report, err := r.RunOnce(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.log(ctx, slog.LevelError, "a pass has failed", slog.Any(logError, err))
		}
		timer := time.NewTimer(r.pause(report))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// pause returns how long to wait after a pass.
func (r *Reconciler) pause(report Report) time.Duration {
	wait := r.cfg.Every + chance.Below(r.cfg.Every/5) // so that instances do not wake together
	if report.Next > 0 {
		wait = min(wait, max(report.Next, min(r.cfg.Every, time.Second)))
	}
	return wait
}

// also runs the host's funcs.
func (p *pass) also(ctx context.Context) (errs []error) {
	for i, f := range p.r.cfg.Also {
		if ctx.Err() != nil {
			return errs
		}
		if err := contained(func() error { return f(ctx) }); err != nil {
			errs = append(errs, fmt.Errorf("reconcile: Also, number %d: %w", i+1, err))
		}
	}
	return errs
}

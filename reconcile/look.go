package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// ErrNoAsker: none of the reconciler's askers asks the place that the attempt belongs to. Nothing was asked.
var ErrNoAsker = errors.New("no asker for the attempt's place")

// Looked is what came of a look at one attempt.
type Looked struct {
	Attempt attempt.Attempt // as it stands after the look
	Now     time.Time       // by the store's clock, when it was read then
	Report  Report          // what was done; all zero: nothing had to be
}

// Look looks at one attempt now, a refund too, whether it is due or not: it asks, stores the answer, plans the next look, and
// meets what is owed, as a pass does. What only time can change is left alone until it is due: an attempt that is prepared or
// under an unexpired claim, one that has ended and of which nobody knows of money, and one about which asking has ended.
//
// It takes no lease and pays no heed to those of others: asking needs none. Two who look at once ask twice, and both answers
// count.
//
// It fails with [attempt.ErrNotFound], [attempt.ErrUnavailable] or [ErrNoAsker], and with ctx's error when that has ended. What
// could not be asked or stored is counted in the report, as in that of a pass, and comes back by itself.
func (r *Reconciler) Look(ctx context.Context, id string) (Looked, error) {
	p := newPass(r)
	before, now, err := r.read(ctx, id)
	if err != nil {
		return Looked{}, err
	}
	b := batch{now: now, taken: time.Now(), lease: r.cfg.Lease}
	s := p.sites[before.Place()]
	if s == nil {
		return Looked{Attempt: before, Now: now}, fmt.Errorf("reconcile: look at attempt %s: %w (provider %s, account %q, environment %q)",
			id, ErrNoAsker, before.Provider, before.ProviderAccount, before.Environment)
	}
	one := &row{attempt: before, site: s}
	due := !before.NextCheckAt.IsZero() && !before.NextCheckAt.After(now)
	if !due && one.decidedByTime(b) && !owesNow(&before, s, now) {
		return Looked{Attempt: before, Now: now}, nil
	}
	var owed []owing
	p.each(ctx, b, []*row{one}, &owed)
	p.pay(ctx, owed)
	after, now, err := r.read(ctx, id)
	return Looked{Attempt: after, Now: now, Report: p.end()}, err
}

// owesNow tells whether there is a refund duty to be met.
func owesNow(a *attempt.Attempt, s *siteInPass, now time.Time) bool {
	return len(owedBy(&attempt.Record{Attempt: *a, Now: now}, s)) > 0
}

// read reads an attempt, and the present by the store's clock.
func (r *Reconciler) read(ctx context.Context, id string) (attempt.Attempt, time.Time, error) {
	a, err := r.cfg.Store.Attempt(ctx, id)
	if err != nil {
		return a, time.Time{}, fmt.Errorf("reconcile: look at an attempt: %w", err)
	}
	v, err := r.cfg.Store.Slot(ctx, a.Slot)
	if err != nil {
		return a, time.Time{}, fmt.Errorf("reconcile: look at an attempt: %w", err)
	}
	a, ok := v.Find(id)
	if !ok {
		return a, time.Time{}, fmt.Errorf("reconcile: look at an attempt: attempt %s: %w", id, attempt.ErrNotFound)
	}
	return a, v.Now, nil
}

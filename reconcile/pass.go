package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// pass is one look at everything that is due.
type pass struct {
	r       *Reconciler
	started time.Time
	sites   map[attempt.Place]*siteInPass
	seen    map[string]struct{} // ids of the attempts taken so far

	mu     sync.Mutex // guards report, next and what siteInPass says it does
	report Report
	next   time.Time // by our clock; zero: none known
}

// siteInPass is what a pass knows of a site.
type siteInPass struct {
	*site
	listing listing

	inARow int // questions in a row that did not leave; guarded by pass.mu
}

// notAskedLimit is how many questions in a row must have been turned away until no more are tried in the pass.
const notAskedLimit = 3

func newPass(r *Reconciler) *pass {
	p := &pass{r: r, started: time.Now(), sites: make(map[attempt.Place]*siteInPass), seen: make(map[string]struct{})}
	for _, s := range r.sites {
		p.sites[s.place] = &siteInPass{site: s}
	}
	return p
}

// end returns the report.
func (p *pass) end() Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.report.Took = time.Since(p.started)
	if !p.next.IsZero() {
		p.report.Next = max(time.Until(p.next), time.Microsecond)
	}
	return p.report
}

// row is an attempt that was taken as due.
type row struct {
	attempt attempt.Attempt
	site    *siteInPass
}

// batch is what was taken at once.
type batch struct {
	now   time.Time // by the store's clock, when it was taken
	taken time.Time // by ours, and not before that
	lease time.Duration
}

// asked returns a time by the store's clock that is not later than the present: the time of the take, and what has passed
// since, less a thousandth for two clocks that run at different rates (Linux slews one by 500 ppm at most, adjtimex(2)). A
// question that leaves after this call was asked no earlier.
func (b batch) asked() time.Time {
	passed := time.Since(b.taken)
	return b.now.Add(passed - passed/1000).Truncate(time.Microsecond)
}

// rest returns how long the lease still lasts.
func (b batch) rest() time.Duration { return b.lease - time.Since(b.taken) }

// run takes batch after batch, until nothing is due that this pass has not looked at.
func (p *pass) run(ctx context.Context) error {
	for {
		b, view, err := p.take(ctx, p.r.cfg.Batch, p.r.cfg.Lease)
		if err != nil || len(view.Attempts) == 0 {
			return err
		}
		more := len(view.Attempts) == p.r.cfg.Batch
		if rest := p.r.cfg.ListBatch - len(view.Attempts); more && rest > 0 && p.mayList() {
			// So many are shown by a listing of their time at once. That it takes longer than the lease of the first ones does no
			// harm: somebody else may ask about them too.
			long, others, err := p.take(ctx, rest, max(p.r.cfg.Lease, leastListLease))
			if err != nil {
				p.look(ctx, b, p.rows(view))
				return err
			}
			b.lease, more = max(b.lease, long.lease), len(others.Attempts) == rest
			view.Attempts = append(view.Attempts, others.Attempts...)
		}
		known := len(p.seen)
		p.look(ctx, b, p.rows(view))
		if !more || len(p.seen) == known { // what is due again before the pass has ended must not keep it going for ever
			return ctx.Err()
		}
	}
}

// take takes what is due; nothing where nobody may be asked.
func (p *pass) take(ctx context.Context, limit int, lease time.Duration) (batch, attempt.View, error) {
	places := p.askable()
	if err := ctx.Err(); err != nil || len(places) == 0 {
		return batch{}, attempt.View{}, err
	}
	view, err := p.r.cfg.Store.TakeDue(ctx, limit, lease, places...)
	if err != nil {
		return batch{}, attempt.View{}, fmt.Errorf("reconcile: take what is due: %w", err)
	}
	return batch{now: view.Now, taken: time.Now(), lease: lease}, view, nil
}

// askable returns the places whose askers do not turn questions away.
func (p *pass) askable() []attempt.Place {
	p.mu.Lock()
	defer p.mu.Unlock()
	var places []attempt.Place
	for _, s := range p.r.sites {
		if p.sites[s.place].inARow < notAskedLimit {
			places = append(places, s.place)
		}
	}
	return places
}

// rows makes the rows of what was taken.
func (p *pass) rows(view attempt.View) (rows []*row) {
	for _, a := range view.Attempts {
		s := p.sites[a.Place()]
		if s == nil {
			continue // a store that gives more than it was asked for
		}
		p.seen[a.ID] = struct{}{}
		rows = append(rows, &row{attempt: a, site: s})
	}
	p.count(func(r *Report) { r.Taken += len(rows) })
	return rows
}

func (p *pass) count(f func(*Report)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.report)
}

// dueAt notes when something is due, by our clock.
func (p *pass) dueAt(at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next.IsZero() || at.Before(p.next) {
		p.next = at
	}
}

// look looks at a batch: what a listing shows first, then each attempt that is left, then what is owed.
func (p *pass) look(ctx context.Context, b batch, rows []*row) {
	var owed []owing
	rows = p.list(ctx, b, rows, &owed)
	p.each(ctx, b, rows, &owed)
	p.pay(ctx, owed)
}

// dueIn notes how long from now something is due.
func (p *pass) dueIn(wait time.Duration) { p.dueAt(time.Now().Add(wait)) }

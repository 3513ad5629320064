package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/chargeonce/chargeonce/attempt"
)

// finding is what a look at an attempt has brought.
type finding struct {
	row      *row
	evidence attempt.Evidence
	due      bool // it was looked at as it should be, so that the next look is planned
}

// each looks at attempts one by one. Answers are stored many at a time, while the next questions are under way.
//
// An answer that cannot be relied on may be one only because other questions were under way: an asker believes that the
// provider holds nothing only on a connection of the question's own, which it may not get beside others. Such questions are
// asked once more at the end, one after another.
func (p *pass) each(ctx context.Context, b batch, rows []*row, owed *[]owing) {
	findings, again := make(chan finding, min(len(rows), 1024)), make([][]finding, p.r.cfg.Concurrency)
	var next atomic.Int64
	var workers sync.WaitGroup
	for w := range min(p.r.cfg.Concurrency, len(rows)) {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(rows) {
					return
				}
				switch f, ok := p.find(ctx, b, rows[i]); {
				case !ok:
				case f.unreadable():
					again[w] = append(again[w], f)
				default:
					findings <- f
				}
			}
		})
	}
	go func() { // ends before the loop below does
		workers.Wait()
		p.askAgain(ctx, b, slices.Concat(again...), findings)
		close(findings)
	}()
	for f := range findings {
		p.record(ctx, gather(f, findings), owed)
	}
}

func (f *finding) unreadable() bool {
	return f.evidence.Kind == attempt.EvidenceLookup && f.evidence.Lookup == attempt.LookupUnreadable
}

// unreadableLimit is how many answers in a row must be unreadable again until no more are tried: then it is the provider.
const unreadableLimit = 3

// askAgain asks once more about what had an answer that cannot be relied on. Of two such answers the first is stored.
func (p *pass) askAgain(ctx context.Context, b batch, found []finding, findings chan<- finding) {
	inARow := 0
	for _, f := range found {
		if inARow < unreadableLimit {
			second, ok := p.find(ctx, b, f.row)
			if ok && second.due && !second.unreadable() {
				f, inARow = second, 0
			} else {
				inARow++
			}
		}
		findings <- f
	}
}

// maxCommit is how many findings are given to the store at once.
const maxCommit = 256

// gather returns a finding with those that wait behind it.
func gather(first finding, rest <-chan finding) []finding {
	group := []finding{first}
	for len(group) < maxCommit {
		select {
		case f, ok := <-rest:
			if !ok {
				return group
			}
			group = append(group, f)
		default:
			return group
		}
	}
	return group
}

// find looks at one attempt. Nothing is found where the row is left to its lease.
func (p *pass) find(ctx context.Context, b batch, row *row) (f finding, ok bool) {
	if ctx.Err() != nil {
		p.leave(b)
		return finding{}, false
	}
	if row.decidedByTime(b) {
		return finding{row, row.timeEvidence(), true}, true
	}
	if p.turnedAway(row.site) || b.rest() < p.r.cfg.AskTimeout {
		p.leave(b)
		return p.unasked(b, row)
	}
	e, err := p.ask(ctx, b, row)
	answered := e.Lookup == attempt.LookupFound || e.Lookup == attempt.LookupNone
	switch {
	case err != nil && ctx.Err() == nil:
		p.turnAway(row.site)
		p.dueAt(b.taken.Add(b.lease))
		p.r.sawNotAsked(ctx, &row.attempt, err)
		return p.unasked(b, row)
	case err != nil, ctx.Err() != nil && !answered: // it failed because we stopped waiting
		p.leave(b)
		return p.unasked(b, row)
	}
	p.mu.Lock()
	row.site.inARow = 0
	p.report.Asked++
	p.mu.Unlock()
	return finding{row, e, true}, true
}

// decidedByTime tells whether asking is of no use, so that only time can have changed anything.
func (r *row) decidedByTime(b batch) bool {
	a := &r.attempt
	switch {
	case r.site.schedule.CannotAsk, !a.ClaimedUntil(b.now).IsZero(), !a.AskingEndedAt.IsZero():
		return true
	case a.Status == attempt.StatusPrepared:
		return true
	case a.Status.Final():
		return !r.site.schedule.Watches(*a)
	}
	return false
}

func (r *row) timeEvidence() attempt.Evidence {
	return attempt.Evidence{Kind: attempt.EvidenceTime, Rule: &r.site.schedule.Rule}
}

// unasked is what remains to be done for an attempt that could not be asked about: once its claim has expired, evidence that
// had to wait for that is judged.
func (p *pass) unasked(b batch, row *row) (finding, bool) {
	a := &row.attempt
	if a.Status != attempt.StatusSending || !a.ClaimedUntil(b.now).IsZero() {
		return finding{}, false
	}
	return finding{row, row.timeEvidence(), false}, true
}

// ask asks about one attempt. A panic of the asker is a question that failed: whether it left nobody knows.
func (p *pass) ask(ctx context.Context, b batch, row *row) (e attempt.Evidence, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.r.cfg.AskTimeout)
	defer cancel()
	asked := b.asked()
	err = contained(func() (err error) {
		e, err = row.site.asker.Ask(ctx, row.attempt, asked)
		return err
	})
	if panicked, ok := errors.AsType[*panicError](err); ok {
		p.failed(ctx, &row.attempt, fmt.Errorf("ask: %w", panicked))
		e, err = attempt.Evidence{Lookup: attempt.LookupNotAsked}, nil
	}
	e.Kind, e.AskedAt = attempt.EvidenceLookup, asked
	return e, err
}

// turnedAway tells whether the site's asker lets no question leave.
func (p *pass) turnedAway(s *siteInPass) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.inARow >= notAskedLimit
}

func (p *pass) turnAway(s *siteInPass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.inARow++
	p.report.NotAsked++
}

// leave leaves a row to its lease.
func (p *pass) leave(b batch) {
	p.count(func(r *Report) { r.Left++ })
	p.dueAt(b.taken.Add(b.lease))
}

func (p *pass) failed(ctx context.Context, a *attempt.Attempt, err error) {
	p.count(func(r *Report) { r.Failed++ })
	p.r.sawFailure(ctx, a, err)
}

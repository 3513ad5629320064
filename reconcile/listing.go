package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// A listing costs a request for each page of 100 or so, wanted or not; a lookup costs one for each attempt. It goes on as long
// as it shows more than one wanted attempt in so many entries, once it has shown enough to tell.
const (
	listedPerPage  = 100
	listedToJudge  = 1_000
	listedHeldMost = 200_000 // entries in memory that nobody has wanted yet
)

// listing is what a site's provider has shown in a pass. What one batch does not want the next may.
type listing struct {
	off      bool // it has failed, or does not pay
	from, to time.Time
	held     map[string][]attempt.Notice // by the attempt's id
	entries  int
	wanted   int
}

// list settles what listings show, and returns the rows that are left.
func (p *pass) list(ctx context.Context, b batch, rows []*row, owed *[]owing) []*row {
	if p.r.cfg.ListFrom < 0 {
		return rows
	}
	for _, at := range p.r.sites {
		s := p.sites[at.place]
		if !s.canList() {
			continue
		}
		candidates := slices.DeleteFunc(slices.Clone(rows), func(r *row) bool { return r.site != s || !r.listable(b) })
		if len(candidates) < p.r.cfg.ListFrom {
			continue
		}
		for _, w := range p.windows(candidates) {
			p.read(ctx, b, s, w)
		}
		rows = p.settle(ctx, b, s, rows, owed)
	}
	return rows
}

// mayList tells whether there is a listing that may pay.
func (p *pass) mayList() bool {
	if p.r.cfg.ListFrom < 0 {
		return false
	}
	for _, s := range p.sites {
		if s.canList() {
			return true
		}
	}
	return false
}

func (s *siteInPass) canList() bool { return s.lister != nil && !s.listing.off && !s.unlisted.Load() }

// listable tells whether a listing may settle the attempt: what was asked about for long, or has ended, would stretch the range.
func (r *row) listable(b batch) bool {
	return !r.decidedByTime(b) && !r.attempt.Status.Final() && !r.attempt.FirstClaimAt.IsZero()
}

// window is a range of time in which sends of many attempts may have left.
type window struct {
	from, to time.Time
	ids      map[string]struct{}
}

// windows returns the ranges in which enough of the rows may have been sent to be listed.
func (p *pass) windows(rows []*row) []window {
	slices.SortFunc(rows, func(a, b *row) int { return a.attempt.FirstClaimAt.Compare(b.attempt.FirstClaimAt) })
	var all []window
	for _, r := range rows {
		from, to := r.attempt.FirstClaimAt.Add(-p.r.cfg.ListMargin), r.attempt.LastPossibleSend().Add(p.r.cfg.ListMargin)
		if last := len(all) - 1; last >= 0 && !from.After(all[last].to) {
			if to.After(all[last].to) {
				all[last].to = to
			}
			all[last].ids[r.attempt.ID] = struct{}{}
			continue
		}
		all = append(all, window{from, to, map[string]struct{}{r.attempt.ID: {}}})
	}
	return slices.DeleteFunc(all, func(w window) bool { return len(w.ids) < p.r.cfg.ListFrom })
}

// missingParts returns the parts of a window that were not listed yet in this pass.
func (l *listing) missingParts(w window) (parts [][2]time.Time) {
	if l.to.IsZero() || w.to.Before(l.from) || w.from.After(l.to) {
		return [][2]time.Time{{w.from, w.to}}
	}
	if w.from.Before(l.from) {
		parts = append(parts, [2]time.Time{w.from, l.from})
	}
	if w.to.After(l.to) {
		parts = append(parts, [2]time.Time{l.to, w.to})
	}
	return parts
}

// listed notes that a part was listed.
func (l *listing) listed(part [2]time.Time) {
	switch {
	case !l.to.IsZero() && part[1].Equal(l.from):
		l.from = part[0]
	case !l.to.IsZero() && part[0].Equal(l.to):
		l.to = part[1]
	default: // elsewhere: what is there now is of more use than what was
		l.from, l.to = part[0], part[1]
	}
}

// read lists a window, as far as that is not done, and keeps what may be ours.
func (p *pass) read(ctx context.Context, b batch, s *siteInPass, w window) {
	l := &s.listing
	if l.held == nil {
		l.held = make(map[string][]attempt.Notice)
	}
	ctx, cancel := context.WithTimeout(ctx, b.rest()/2) // the other half is for storing, and for what is not shown
	defer cancel()
	for id := range w.ids {
		if _, known := l.held[id]; known {
			l.wanted++
		}
	}
	for _, part := range l.missingParts(w) {
		if l.off || ctx.Err() != nil {
			return
		}
		enough := false
		err := contained(func() error {
			for n, err := range s.lister.ListCharges(ctx, part[0], part[1]) {
				if err != nil {
					return err
				}
				if enough = !l.keep(n, w); enough {
					return nil
				}
			}
			return nil
		})
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			l.off = true
			s.unlisted.Store(true)
		case err != nil:
			l.off = true
			if ctx.Err() == nil {
				p.r.sawFailure(ctx, &attempt.Attempt{}, fmt.Errorf("list charges at %s, ask about each instead: %w", s.place.Provider, err))
			}
		case enough:
			l.off = true
		default:
			l.listed(part)
		}
	}
}

// keep keeps an entry that may be ours, and tells whether to go on.
func (l *listing) keep(n attempt.Notice, w window) bool {
	l.entries++
	if id, ok := attempt.IDOf(n.Reference); ok {
		if _, wanted := w.ids[id]; wanted && l.held[id] == nil {
			l.wanted++
		}
		l.held[id] = append(l.held[id], n)
	}
	return len(l.held) <= listedHeldMost && (l.entries < listedToJudge || l.wanted*listedPerPage >= l.entries)
}

// settle settles the rows of a site that its listing has shown, and returns all others.
func (p *pass) settle(ctx context.Context, b batch, s *siteInPass, rows []*row, owed *[]owing) (left []*row) {
	var found []finding
	for _, r := range rows {
		e, shown := attempt.Evidence{}, false
		if r.site == s && r.listable(b) {
			e, shown = s.listing.evidence(&r.attempt, b)
		}
		if !shown {
			left = append(left, r)
			continue
		}
		delete(s.listing.held, r.attempt.ID)
		found = append(found, finding{r, e, true})
	}
	p.count(func(r *Report) { r.Listed += len(found) })
	for group := range slices.Chunk(found, maxCommit) {
		p.record(ctx, group, owed)
	}
	return left
}

// evidence returns what was shown of an attempt. Charges that have failed only are no news that a listing can tell: whether
// the answer holds for every send is known to the asker.
func (l *listing) evidence(a *attempt.Attempt, b batch) (e attempt.Evidence, shown bool) {
	for _, n := range l.held[a.ID] {
		if n.Reference != a.Reference || n.Refund != a.IsRefund() {
			continue
		}
		one := n.Evidence(attempt.EvidenceLookup, false)
		one.Charges = append(e.Charges, one.Charges...)
		e = one
		shown = shown || n.Charge.Status != attempt.ChargeFailed
	}
	e.AskedAt = b.asked()
	return e, shown
}

package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// recordTimeout bounds one commit. What is not stored by then is asked again.
const recordTimeout = 15 * time.Second

// record stores findings, each for itself, and collects what is owed. Also when ctx has ended: answers that were had count.
func (p *pass) record(ctx context.Context, findings []finding, owed *[]owing) {
	records := make([]*attempt.Record, len(findings))
	steps := make([]*attempt.Step, len(findings))
	for i, f := range findings {
		records[i] = &attempt.Record{
			ID: f.row.attempt.ID, Evidence: f.evidence, Who: p.r.cfg.Who, Schedule: &f.row.site.schedule, Due: f.due,
		}
		steps[i] = records[i].Step(&f.row.attempt)
	}
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer cancel()
	_ = p.r.cfg.Store.Apply(storing, steps...) // each step's own error is looked at
	for i, f := range findings {
		if err := steps[i].Err; err != nil {
			p.failed(ctx, &f.row.attempt, fmt.Errorf("store what was learnt: %w", err))
			continue
		}
		rec := records[i]
		p.count(func(r *Report) { r.count(&f.row.attempt, &rec.Attempt, rec.Duties) })
		if at := rec.Attempt.NextCheckAt; !at.IsZero() {
			p.dueIn(at.Sub(rec.Now))
		}
		p.r.sawRecord(ctx, &f.row.attempt, rec)
		if f.due {
			*owed = append(*owed, owedBy(rec, f.row.site)...)
		}
	}
}

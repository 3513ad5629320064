package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// OrphanEvent is an event that the provider has signed and that fits no attempt.
type OrphanEvent struct {
	EventID string
	Why     Why
	At      time.Time // when it came, by the store's clock, UTC
	Notice  attempt.Notice

	// Of a payload that could not be read: its digest, 64 hexadecimal digits, and its length in bytes.
	SHA256 string
	Size   int
}

// pageSize is how many orphans are read at a time.
const pageSize = 500

// Orphans yields the events of a place that fit no attempt, by id. After an error it yields no more.
func Orphans(ctx context.Context, store attempt.Store, place attempt.Place) iter.Seq2[OrphanEvent, error] {
	return func(yield func(OrphanEvent, error) bool) {
		for page, err := range orphanPages(ctx, store, scopeOf(place)) {
			if err != nil {
				yield(OrphanEvent{}, err)
				return
			}
			for _, o := range page {
				if !yield(o, nil) {
					return
				}
			}
		}
	}
}

// Orphans yields the events of the handler's place that fit no attempt, by id. After an error it yields no more.
func (h *Handler) Orphans(ctx context.Context) iter.Seq2[OrphanEvent, error] {
	return Orphans(ctx, h.cfg.Store, h.cfg.Place)
}

func orphanPages(ctx context.Context, store attempt.Store, scope string) iter.Seq2[[]OrphanEvent, error] {
	return func(yield func([]OrphanEvent, error) bool) {
		filter := attempt.NoteFilter{Scope: scope, Orphans: true, Limit: pageSize}
		for {
			notes, err := store.Notes(ctx, filter)
			if err != nil {
				yield(nil, fmt.Errorf("list orphaned events: %w", err))
				return
			}
			page := make([]OrphanEvent, 0, len(notes))
			for _, n := range notes {
				o, err := orphanOf(n)
				if err != nil {
					yield(nil, err)
					return
				}
				page = append(page, o)
			}
			if len(page) > 0 && !yield(page, nil) || len(notes) < pageSize {
				return
			}
			filter.After = notes[len(notes)-1].ID
		}
	}
}

func orphanOf(n attempt.Note) (OrphanEvent, error) {
	var k kept
	if err := json.Unmarshal(n.Data, &k); err != nil {
		return OrphanEvent{}, fmt.Errorf("event %s: what was kept of it cannot be read: %w", n.ID, err)
	}
	return OrphanEvent{EventID: n.ID, Why: k.Why, At: n.At, Notice: k.Notice, SHA256: k.SHA256, Size: k.Size}, nil
}

// Adopt makes orphans evidence whose attempt has appeared since: of a host's transaction that committed late, or of a store
// that was restored. It returns how many, and every failure; one event's failure keeps no other back, a store that is not
// there ends it. It can run at any time, also at the same time elsewhere.
func (h *Handler) Adopt(ctx context.Context) (n int, err error) {
	var errs []error
	for page, err := range orphanPages(ctx, h.cfg.Store, h.scope) {
		if err != nil {
			errs = append(errs, err)
			break
		}
		adopted, err := h.adopt(ctx, page)
		n += adopted
		if err != nil {
			errs = append(errs, err)
		}
		if errors.Is(err, attempt.ErrUnavailable) {
			break
		}
	}
	return n, errors.Join(errs...)
}

// adopt looks for the attempts of a page of orphans.
func (h *Handler) adopt(ctx context.Context, page []OrphanEvent) (adopted int, err error) {
	var ids []string
	for _, o := range page {
		if id, ok := attempt.IDOf(o.Notice.Reference); ok && o.Why != WhyUnreadable {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	briefs, err := h.cfg.Store.Briefs(ctx, ids, nil)
	if err != nil {
		return 0, fmt.Errorf("look for the attempts of orphaned events: %w", err)
	}
	known := make(map[string]attempt.Brief, len(briefs))
	for _, b := range briefs {
		known[b.Reference] = b
	}
	var errs []error
	for _, o := range page {
		b, ok := known[o.Notice.Reference]
		if !ok || fits(&o.Notice, h.cfg.Place, b) != "" {
			continue
		}
		d := h.record(ctx, b.ID, o.EventID, o.Notice)
		switch d.Result {
		case Stored:
			d.Result = Adopted
			adopted++
			h.tell(ctx, d)
		case Seen: // somebody else was faster
		default:
			errs = append(errs, fmt.Errorf("event %s: %w", o.EventID, d.Err))
			if errors.Is(d.Err, attempt.ErrUnavailable) {
				return adopted, errors.Join(errs...)
			}
		}
	}
	return adopted, errors.Join(errs...)
}

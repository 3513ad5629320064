package attempt

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"
)

// Briefs implements [Store].
func (m *Memory) Briefs(ctx context.Context, ids, chargeIDs []string) ([]Brief, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	var found []Brief
	for _, id := range ids {
		if slot, ok := m.where[id]; ok {
			found = append(found, find(m.slots[slot], id).Brief())
		}
	}
	for _, id := range chargeIDs {
		for attemptID := range m.charged[id] {
			found = append(found, find(m.slots[m.where[attemptID]], attemptID).Brief())
		}
	}
	return found, nil
}

// Sent implements [Store].
func (m *Memory) Sent(ctx context.Context, place Place, from, to time.Time) iter.Seq2[Sent, error] {
	return func(yield func(Sent, error) bool) {
		const page = 1000 // nobody else waits for longer than that takes
		var found []Sent
		for seen, more := 0, true; more; {
			m.mu.Lock()
			err := m.usable(ctx)
			found = found[:0]
			next := m.order[seen:min(seen+page, len(m.order))]
			for _, id := range next {
				attempts := m.slots[m.where[id]]
				a := &attempts[slices.IndexFunc(attempts, func(a Attempt) bool { return a.ID == id })]
				if sent := a.Sent(); a.Status == StatusApproved && a.Place() == place && !sent.At.Before(from) && !sent.At.After(to) {
					found = append(found, sent)
				}
			}
			seen, more = seen+len(next), seen+len(next) < len(m.order)
			m.mu.Unlock()
			if err != nil {
				yield(Sent{}, err)
				return
			}
			for _, s := range found {
				if !yield(s, nil) {
					return
				}
			}
		}
	}
}

// Notes implements [Store].
func (m *Memory) Notes(ctx context.Context, f NoteFilter) ([]Note, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	var notes []Note
	for id, n := range m.notes[f.Scope] {
		if id > f.After && (!f.Orphans || n.AttemptID == "") && (f.AttemptID == "" || f.AttemptID == n.AttemptID) {
			notes = append(notes, n)
		}
	}
	slices.SortFunc(notes, func(a, b Note) int { return cmp.Compare(a.ID, b.ID) })
	limit := f.Limit
	if limit <= 0 {
		limit = 1000
	}
	return notes[:min(limit, len(notes))], nil
}

// AddRelay implements [Outbox].
func (m *Memory) AddRelay(ctx context.Context, relay string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return err
	}
	if m.relays == nil {
		m.relays = make(map[string]map[string]*undelivered)
	}
	if m.relays[relay] == nil {
		m.relays[relay] = make(map[string]*undelivered)
	}
	return nil
}

// RemoveRelay implements [Outbox].
func (m *Memory) RemoveRelay(ctx context.Context, relay string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return err
	}
	delete(m.relays, relay)
	return nil
}

func (m *Memory) outbox(ctx context.Context, relay string) (map[string]*undelivered, error) {
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	outbox, ok := m.relays[relay]
	if !ok {
		return nil, fmt.Errorf("relay %q: %w", relay, ErrNotFound)
	}
	return outbox, nil
}

// TakeUndelivered implements [Outbox].
func (m *Memory) TakeUndelivered(ctx context.Context, relay string, limit int, lease time.Duration) ([]Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	outbox, err := m.outbox(ctx, relay)
	if err != nil {
		return nil, err
	}
	now := m.now()
	var free []*undelivered
	for _, u := range outbox {
		if len(u.events) > 0 && !u.taken.After(now) {
			free = append(free, u)
		}
	}
	slices.SortFunc(free, func(a, b *undelivered) int {
		return cmp.Or(a.events[0].At.Compare(b.events[0].At), cmp.Compare(a.events[0].AttemptID, b.events[0].AttemptID))
	})
	var events []Event
	for _, u := range free[:min(max(limit, 0), len(free))] {
		u.taken = now.Add(lease)
		events = append(events, u.events...)
	}
	return events, nil
}

// Delivered implements [Outbox].
func (m *Memory) Delivered(ctx context.Context, relay, attemptID string, version int, again time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	outbox, err := m.outbox(ctx, relay)
	if err != nil || outbox[attemptID] == nil {
		return err
	}
	u := outbox[attemptID]
	u.events = slices.DeleteFunc(slices.Clone(u.events), func(e Event) bool { return e.Version <= version })
	u.taken = m.now().Add(again)
	if len(u.events) == 0 { // nothing is left to be held back
		delete(outbox, attemptID)
	}
	return nil
}

// Lag implements [Outbox].
func (m *Memory) Lag(ctx context.Context, relay string) (lag RelayLag, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	outbox, err := m.outbox(ctx, relay)
	if err != nil {
		return lag, err
	}
	for _, u := range outbox {
		for _, e := range u.events {
			lag.Events++
			if lag.Oldest.IsZero() || e.At.Before(lag.Oldest) {
				lag.Oldest = e.At
			}
		}
	}
	return lag, nil
}

package attempt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
)

// Memory is a store that keeps everything in memory and forgets it with the process: for tests and examples. The zero
// Memory is ready to use.
type Memory struct {
	// Now is the store's clock; nil means time.Now. Set it before first use.
	Now func() time.Time

	mu     sync.Mutex
	closed bool
	latest time.Time // that now has told
	slots  map[Slot][]Attempt
	where  map[string]Slot // by attempt id
	events map[string][]Event
	order  []string            // attempt ids by creation
	open   map[string]struct{} // ids of attempts with a NextCheckAt
}

func (m *Memory) now() time.Time {
	now := time.Now
	if m.Now != nil {
		now = m.Now
	}
	told := now().UTC().Truncate(time.Microsecond)
	if told.After(m.latest) {
		m.latest = told
	}
	return told
}

// view is what a step sees now. m.mu is held.
func (m *Memory) view(attempts []Attempt) View {
	now := m.now()
	return View{Now: now, Latest: m.latest, Attempts: attempts}
}

// Apply implements [Store].
func (m *Memory) Apply(ctx context.Context, steps ...*Step) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, outcome := range [...]bool{true, false} {
		for _, s := range steps {
			if s.Outcome == outcome {
				s.Err = m.apply(ctx, s)
			}
		}
	}
	return JoinStepErrors(steps)
}

func (m *Memory) apply(ctx context.Context, s *Step) error {
	if err := m.usable(ctx); err != nil {
		return err
	}
	slot := s.Slot
	if s.ID != "" {
		known, ok := m.where[s.ID]
		if !ok {
			return fmt.Errorf("attempt %s: %w", s.ID, ErrNotFound)
		}
		slot = known
	}
	writes, err := s.Do(m.view(m.slots[slot]))
	if err != nil {
		return err
	}
	if err := CheckWrites(slot, m.slots[slot], writes); err != nil {
		return err
	}
	for _, w := range writes {
		m.write(slot, w)
	}
	return nil
}

func (m *Memory) usable(ctx context.Context) error {
	if m.closed {
		return fmt.Errorf("%w: closed", ErrUnavailable)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return nil
}

func (m *Memory) write(slot Slot, w Write) {
	if m.slots == nil {
		m.slots, m.where = make(map[Slot][]Attempt), make(map[string]Slot)
		m.events, m.open = make(map[string][]Event), make(map[string]struct{})
	}
	a := *w.Attempt
	if a.Version == 1 {
		m.slots[slot] = append(m.slots[slot], a)
		m.where[a.ID] = slot
		m.order = append(m.order, a.ID)
	} else {
		attempts := slices.Clone(m.slots[slot]) // views given out keep what they saw
		attempts[slices.IndexFunc(attempts, func(k Attempt) bool { return k.ID == a.ID })] = a
		m.slots[slot] = attempts
	}
	m.events[a.ID] = append(m.events[a.ID], w.Event)
	if a.NextCheckAt.IsZero() {
		delete(m.open, a.ID)
	} else {
		m.open[a.ID] = struct{}{}
	}
}

// Attempt implements [Store].
func (m *Memory) Attempt(ctx context.Context, id string) (Attempt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return Attempt{}, err
	}
	return m.attempt(id)
}

func (m *Memory) attempt(id string) (Attempt, error) {
	if slot, ok := m.where[id]; ok {
		if a, ok := (View{Attempts: m.slots[slot]}).Find(id); ok {
			return a, nil
		}
	}
	return Attempt{}, fmt.Errorf("attempt %s: %w", id, ErrNotFound)
}

// Slot implements [Store].
func (m *Memory) Slot(ctx context.Context, slot Slot) (View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return View{}, err
	}
	return m.view(slices.Clone(m.slots[slot])), nil
}

// Events implements [Store].
func (m *Memory) Events(ctx context.Context, id string) ([]Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return nil, err
	}
	if _, ok := m.where[id]; !ok {
		return nil, fmt.Errorf("attempt %s: %w", id, ErrNotFound)
	}
	return slices.Clone(m.events[id]), nil
}

// List implements [Store].
func (m *Memory) List(ctx context.Context, filter Filter) iter.Seq2[Attempt, error] {
	return func(yield func(Attempt, error) bool) {
		m.mu.Lock()
		ids := slices.Clone(m.order)
		m.mu.Unlock()
		n := 0
		for _, id := range ids {
			a, err := m.Attempt(ctx, id)
			if err == nil && !filter.Selects(a) {
				continue
			}
			if !yield(a, err) || err != nil {
				return
			}
			if n++; n == filter.Limit {
				return
			}
		}
	}
}

// TakeDue implements [Store].
func (m *Memory) TakeDue(ctx context.Context, limit int, lease time.Duration) (View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return View{}, err
	}
	v := m.view(nil)
	for id := range m.open {
		a, err := m.attempt(id)
		if err != nil {
			return View{}, err
		}
		if !a.NextCheckAt.After(v.Now) {
			v.Attempts = append(v.Attempts, a)
		}
	}
	slices.SortFunc(v.Attempts, func(a, b Attempt) int {
		return cmp.Or(a.NextCheckAt.Compare(b.NextCheckAt), cmp.Compare(a.ID, b.ID))
	})
	v.Attempts = v.Attempts[:min(max(limit, 0), len(v.Attempts))]
	for i, a := range v.Attempts {
		a.NextCheckAt = v.Now.Add(lease)
		v.Attempts[i] = a
		attempts := slices.Clone(m.slots[a.Slot])
		attempts[slices.IndexFunc(attempts, func(k Attempt) bool { return k.ID == a.ID })] = a
		m.slots[a.Slot] = attempts
	}
	return v, nil
}

// Close implements [Store].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

// JoinStepErrors returns what [Store.Apply] returns for these steps: nil, the error of a single step, or all joined.
func JoinStepErrors(steps []*Step) error {
	if len(steps) == 1 {
		return steps[0].Err
	}
	var errs []error
	for _, s := range steps {
		errs = append(errs, s.Err)
	}
	return errors.Join(errs...)
}

// CheckWrites is the last guard before a store writes what a step decided: against a second live attempt in the slot, a
// move that is not legal, a version that does not follow, an attempt written twice, and a change of what never changes. It
// fails only by a mistake in the program; the step then writes nothing.
func CheckWrites(slot Slot, before []Attempt, writes []Write) error {
	live := 0
	for i := range before {
		if before[i].Status.Live() {
			live++
		}
	}
	for i := range writes {
		a, e := writes[i].Attempt, &writes[i].Event
		old := find(before, a.ID)
		switch {
		case a.Slot != slot:
			return fmt.Errorf("attempt %s: written to slot %s, belongs to %s", a.ID, slot, a.Slot)
		case e.AttemptID != a.ID || e.Version != a.Version || e.To != a.Status:
			return fmt.Errorf("attempt %s: event and attempt do not fit", a.ID)
		case slices.ContainsFunc(writes[:i], func(w Write) bool { return w.Attempt.ID == a.ID }):
			return fmt.Errorf("attempt %s: written twice by one step", a.ID)
		case old == nil && a.Version != 1, old != nil && a.Version != old.Version+1:
			return fmt.Errorf("attempt %s: version %d does not follow", a.ID, a.Version)
		case old == nil && slices.ContainsFunc(before, func(b Attempt) bool { return b.Ordinal == a.Ordinal }):
			return fmt.Errorf("attempt %s: ordinal %d is taken", a.ID, a.Ordinal)
		case old != nil && !old.sameFixed(a):
			return fmt.Errorf("attempt %s: what never changes would change", a.ID)
		case old != nil && !CanMove(old.Status, a.Status):
			return fmt.Errorf("attempt %s: from %s to %s is no legal move", a.ID, old.Status, a.Status)
		}
		if old != nil && old.Status.Live() {
			live--
		}
		if a.Status.Live() {
			live++
		}
	}
	if live > 1 {
		return fmt.Errorf("slot %s: would have %d live attempts", slot, live)
	}
	return nil
}

func find(attempts []Attempt, id string) *Attempt {
	for i := range attempts {
		if attempts[i].ID == id {
			return &attempts[i]
		}
	}
	return nil
}

// sameFixed tells whether two states of an attempt agree in what is settled when it is made. A store writes that once.
func (a *Attempt) sameFixed(b *Attempt) bool {
	return a.Key == b.Key && a.Reference == b.Reference && a.Slot == b.Slot && a.Ordinal == b.Ordinal && a.Amount == b.Amount &&
		a.Source == b.Source && a.Description == b.Description && a.Provider == b.Provider &&
		a.ProviderAccount == b.ProviderAccount && a.Environment == b.Environment && a.CreatedAt.Equal(b.CreatedAt)
}

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
	ended  bool
	latest time.Time          // that now has told
	slots  map[Slot][]Attempt // payments and refunds
	where  map[string]Slot    // by attempt id
	events map[string][]Event
	order  []string            // attempt ids by creation
	open   map[string]struct{} // ids of attempts with a NextCheckAt
	closed map[Slot]Closing
	// charged are the ids of the attempts that a charge has approved, by the charge's id.
	charged map[string]map[string]struct{}
	notes   map[string]map[string]Note // by scope and id
	relays  map[string]map[string]*undelivered
}

// undelivered are the events of an attempt that stand in the outbox for a relay.
type undelivered struct {
	events []Event
	taken  time.Time // until when they are leased
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

// view is what a step sees of a slot now. m.mu is held.
func (m *Memory) view(slot Slot) View {
	now := m.now()
	v := View{Now: now, Latest: m.latest, ClosedAt: m.closed[slot].At}
	all := m.slots[slot]
	if !slices.ContainsFunc(all, func(a Attempt) bool { return a.IsRefund() }) {
		v.Attempts = all
		return v
	}
	for _, a := range all {
		v.Add(a)
	}
	return v
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
	if m.seen(s) {
		return fmt.Errorf("%s %s: %w", s.Once.Scope, s.Once.ID, ErrSeen)
	}
	v := m.view(slot)
	if s.Do != nil {
		writes, err := s.Do(v)
		if err != nil {
			return err
		}
		if err := CheckWrites(slot, v, writes); err != nil {
			return err
		}
		for _, w := range writes {
			m.write(slot, w)
		}
	}
	m.keep(s, v.Now)
	return nil
}

// seen tells whether the step is to happen once and has happened.
func (m *Memory) seen(s *Step) bool {
	if s.Once == nil {
		return false
	}
	note, ok := m.notes[s.Once.Scope][s.Once.ID]
	return ok && (note.AttemptID != "" || s.ID == "")
}

// keep keeps what makes the step happen once.
func (m *Memory) keep(s *Step, now time.Time) {
	if s.Once == nil {
		return
	}
	if m.notes == nil {
		m.notes = make(map[string]map[string]Note)
	}
	if m.notes[s.Once.Scope] == nil {
		m.notes[s.Once.Scope] = make(map[string]Note)
	}
	note := Note{Once: *s.Once, AttemptID: s.ID, At: now}
	note.Data = slices.Clone(note.Data)
	m.notes[s.Once.Scope][s.Once.ID] = note
}

func (m *Memory) usable(ctx context.Context) error {
	if m.ended {
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
		m.charged = make(map[string]map[string]struct{})
	}
	if w.Closing != nil {
		if m.closed == nil {
			m.closed = make(map[Slot]Closing)
		}
		m.closed[slot] = *w.Closing
		return
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
	if a.ChargeID != "" {
		if m.charged[a.ChargeID] == nil {
			m.charged[a.ChargeID] = make(map[string]struct{})
		}
		m.charged[a.ChargeID][a.ID] = struct{}{}
	}
	m.events[a.ID] = append(m.events[a.ID], w.Event)
	for _, outbox := range m.relays {
		if outbox[a.ID] == nil {
			outbox[a.ID] = new(undelivered)
		}
		outbox[a.ID].events = append(outbox[a.ID].events, w.Event)
	}
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
		if a := find(m.slots[slot], id); a != nil {
			return *a, nil
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
	v := m.view(slot)
	v.Attempts = slices.Clone(v.Attempts)
	return v, nil
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
func (m *Memory) TakeDue(ctx context.Context, limit int, lease time.Duration, places ...Place) (View, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.usable(ctx); err != nil {
		return View{}, err
	}
	v := View{Now: m.now()}
	v.Latest = m.latest
	for id := range m.open {
		a, err := m.attempt(id)
		if err != nil {
			return View{}, err
		}
		if !a.NextCheckAt.After(v.Now) && (len(places) == 0 || slices.Contains(places, a.Place())) {
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
	m.ended = true
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

// CheckWrites is the last guard before a store writes what a step decided on what it saw: against a second live attempt in
// the slot or of a refund, a move that is not legal, a version that does not follow, an attempt written twice, a change of
// what never changes, and money that would leave twice. It fails only by a mistake in the program; the step then writes nothing.
func CheckWrites(slot Slot, before View, writes []Write) error {
	live := 0
	for i := range before.Attempts {
		if before.Attempts[i].Status.Live() {
			live++
		}
	}
	for i := range writes {
		if writes[i].Closing != nil {
			if writes[i].Attempt != nil || !before.ClosedAt.IsZero() {
				return fmt.Errorf("slot %s: closed twice, or together with an attempt", slot)
			}
			continue
		}
		a := writes[i].Attempt
		old := find(before.Attempts, a.ID)
		if old == nil && a.IsRefund() {
			old = find(before.Refunds, a.ID)
		}
		if err := checkWrite(slot, before, old, writes[:i], &writes[i]); err != nil {
			return err
		}
		if a.IsRefund() {
			continue
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
	return checkRefunds(before, writes)
}

func checkWrite(slot Slot, before View, old *Attempt, earlier []Write, w *Write) error {
	a, e := w.Attempt, &w.Event
	taken := func(b Attempt) bool { return b.Ordinal == a.Ordinal }
	switch {
	case a.Slot != slot:
		return fmt.Errorf("attempt %s: written to slot %s, belongs to %s", a.ID, slot, a.Slot)
	case e.AttemptID != a.ID || e.Version != a.Version || e.To != a.Status:
		return fmt.Errorf("attempt %s: event and attempt do not fit", a.ID)
	case slices.ContainsFunc(earlier, func(w Write) bool { return w.Attempt != nil && w.Attempt.ID == a.ID }):
		return fmt.Errorf("attempt %s: written twice by one step", a.ID)
	case old == nil && a.Version != 1, old != nil && a.Version != old.Version+1:
		return fmt.Errorf("attempt %s: version %d does not follow", a.ID, a.Version)
	case old == nil && (slices.ContainsFunc(before.Attempts, taken) || slices.ContainsFunc(before.Refunds, taken)):
		return fmt.Errorf("attempt %s: ordinal %d is taken", a.ID, a.Ordinal)
	case old == nil && !before.ClosedAt.IsZero() && !a.IsRefund():
		return fmt.Errorf("attempt %s: started in a closed slot", a.ID)
	case old == nil && a.IsRefund() && find(before.Attempts, a.Refund.AttemptID) == nil:
		return fmt.Errorf("attempt %s: gives back attempt %s, which is not of its slot", a.ID, a.Refund.AttemptID)
	case old != nil && !old.sameFixed(a):
		return fmt.Errorf("attempt %s: what never changes would change", a.ID)
	case old != nil && !CanMove(old.Status, a.Status):
		return fmt.Errorf("attempt %s: from %s to %s is no legal move", a.ID, old.Status, a.Status)
	}
	return nil
}

// checkRefunds looks at the refunds as they would stand after the writes.
func checkRefunds(before View, writes []Write) error {
	if !slices.ContainsFunc(writes, func(w Write) bool { return w.Attempt != nil && w.Attempt.IsRefund() }) {
		return nil
	}
	after := View{Refunds: slices.Clone(before.Refunds)}
	for _, w := range writes {
		if w.Attempt == nil || !w.Attempt.IsRefund() {
			continue
		}
		if i := slices.IndexFunc(after.Refunds, func(r Attempt) bool { return r.ID == w.Attempt.ID }); i >= 0 {
			after.Refunds[i] = *w.Attempt
		} else {
			after.Refunds = append(after.Refunds, *w.Attempt)
		}
	}
	for i := range after.Refunds {
		r := &after.Refunds[i]
		for k := range i {
			other := &after.Refunds[k]
			same := other.Refund.AttemptID == r.Refund.AttemptID && other.Refund.ID == r.Refund.ID
			if same && r.Status.Live() && other.Status.Live() {
				return fmt.Errorf("refund %s of attempt %s: would have two live attempts", r.Refund.ID, r.Refund.AttemptID)
			}
		}
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
		a.ProviderAccount == b.ProviderAccount && a.Environment == b.Environment && a.CreatedAt.Equal(b.CreatedAt) &&
		a.Refund == b.Refund
}

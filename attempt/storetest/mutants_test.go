package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// mutant is a right store with one thing wrong.
type mutant struct {
	*attempt.Memory
	asked  sentQuestion
	step   func(m *attempt.Memory, s *attempt.Step)                                      // before it is applied
	view   func(s *attempt.Step, v *attempt.View)                                        // what it sees
	writes func(v attempt.View, w []attempt.Write, err error) ([]attempt.Write, error)   // what it has decided
	apply  func(m *attempt.Memory, s *attempt.Step) error                                // instead of the store
	err    func(s *attempt.Step, err error) error                                        // what is said of it
	slot   func(v *attempt.View)                                                         // what Slot tells
	due    func(m *attempt.Memory, limit int, p []attempt.Place) (int, []attempt.Place)  // what TakeDue is asked for
	took   func(v *attempt.View, p []attempt.Place)                                      // what it tells
	filter func(f *attempt.Filter)                                                       // what List is asked for
	briefs func(m *attempt.Memory, ids, charges []string) ([]string, []string)           // what Briefs is asked for
	brief  func(b []attempt.Brief) []attempt.Brief                                       // what it tells
	sent   func(s attempt.Sent, a attempt.Attempt) (attempt.Sent, bool)                  // what Sent tells of one that it was not asked to leave out
	notes  func(f *attempt.NoteFilter)                                                   // what Notes is asked for
	note   func(n []attempt.Note) []attempt.Note                                         // what it tells
	add    func(m *attempt.Memory, relay string) error                                   // instead of AddRelay
	remove func(m *attempt.Memory, relay string) error                                   // instead of RemoveRelay
	take   func(relay *string, limit *int, lease *time.Duration)                         // what TakeUndelivered is asked for
	events func(limit int, e []attempt.Event, err error) ([]attempt.Event, error)        // what it tells
	done   func(relay *string, version *int, again *time.Duration)                       // what Delivered is asked for
	lag    func(lag *attempt.RelayLag)                                                   // what Lag tells
	inTx   func(m attempt.Store, f func(ctx context.Context, tx attempt.Tx) error) error // the host's transaction
	handle func(shared *attempt.Memory) *attempt.Memory                                  // what another handle is on
}

func (m *mutant) Apply(ctx context.Context, steps ...*attempt.Step) error {
	copies := make([]*attempt.Step, len(steps))
	for i, s := range steps {
		c := *s
		if m.step != nil {
			m.step(m.Memory, &c)
		}
		if do := c.Do; do != nil {
			c.Do = func(v attempt.View) ([]attempt.Write, error) {
				whole := v
				if m.view != nil {
					m.view(s, &v)
				}
				w, err := do(v)
				if m.writes != nil {
					w, err = m.writes(whole, w, err)
				}
				return w, err
			}
		}
		copies[i] = &c
	}
	if m.apply == nil {
		_ = m.Memory.Apply(ctx, copies...)
	}
	for i, s := range steps {
		if m.apply != nil {
			copies[i].Err = m.apply(m.Memory, copies[i])
		}
		if s.Err = copies[i].Err; m.err != nil {
			s.Err = m.err(s, s.Err)
		}
	}
	return attempt.JoinStepErrors(steps)
}

func (m *mutant) Slot(ctx context.Context, sl attempt.Slot) (attempt.View, error) {
	v, err := m.Memory.Slot(ctx, sl)
	v.Refunds = slices.Clone(v.Refunds)
	if m.slot != nil {
		m.slot(&v)
	}
	return v, err
}

func (m *mutant) TakeDue(ctx context.Context, limit int, lease time.Duration, places ...attempt.Place) (attempt.View, error) {
	asked := places
	if m.due != nil {
		limit, asked = m.due(m.Memory, limit, places)
	}
	v, err := m.Memory.TakeDue(ctx, limit, lease, asked...)
	if m.took != nil {
		m.took(&v, places)
	}
	return v, err
}

func (m *mutant) List(ctx context.Context, f attempt.Filter) iter.Seq2[attempt.Attempt, error] {
	if m.filter != nil {
		m.filter(&f)
	}
	return m.Memory.List(ctx, f)
}

func (m *mutant) Briefs(ctx context.Context, ids, charges []string) ([]attempt.Brief, error) {
	if m.briefs != nil {
		ids, charges = m.briefs(m.Memory, ids, charges)
	}
	b, err := m.Memory.Briefs(ctx, ids, charges)
	if m.brief != nil {
		b = m.brief(b)
	}
	return b, err
}

func (m *mutant) Sent(ctx context.Context, place attempt.Place, from, to time.Time) iter.Seq2[attempt.Sent, error] {
	return func(yield func(attempt.Sent, error) bool) {
		if m.sent == nil {
			m.Memory.Sent(ctx, place, from, to)(yield)
			return
		}
		for a, err := range m.List(ctx, attempt.Filter{}) {
			s := a.Sent()
			right := a.Status == attempt.StatusApproved && a.Place() == place && !s.At.Before(from) && !s.At.After(to)
			m.asked = sentQuestion{place, from, to, right}
			s, tells := m.sent(s, a)
			if err == nil && !tells {
				continue
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// sentQuestion is what Sent was asked, and whether an attempt belongs to its answer.
type sentQuestion struct {
	place    attempt.Place
	from, to time.Time
	right    bool
}

func (m *mutant) Notes(ctx context.Context, f attempt.NoteFilter) ([]attempt.Note, error) {
	if m.notes != nil {
		m.notes(&f)
	}
	n, err := m.Memory.Notes(ctx, f)
	if m.note != nil {
		n = m.note(n)
	}
	return n, err
}

func (m *mutant) AddRelay(ctx context.Context, relay string) error {
	if m.add != nil {
		return m.add(m.Memory, relay)
	}
	return m.Memory.AddRelay(ctx, relay)
}

func (m *mutant) RemoveRelay(ctx context.Context, relay string) error {
	if m.remove != nil {
		return m.remove(m.Memory, relay)
	}
	return m.Memory.RemoveRelay(ctx, relay)
}

func (m *mutant) TakeUndelivered(ctx context.Context, relay string, limit int, lease time.Duration) ([]attempt.Event, error) {
	if m.take != nil {
		m.take(&relay, &limit, &lease)
	}
	e, err := m.Memory.TakeUndelivered(ctx, relay, limit, lease)
	if m.events != nil {
		e, err = m.events(limit, e, err)
	}
	return e, err
}

func (m *mutant) Delivered(ctx context.Context, relay, id string, version int, again time.Duration) error {
	if m.done != nil {
		m.done(&relay, &version, &again)
	}
	return m.Memory.Delivered(ctx, relay, id, version, again)
}

func (m *mutant) Lag(ctx context.Context, relay string) (attempt.RelayLag, error) {
	lag, err := m.Memory.Lag(ctx, relay)
	if m.lag != nil {
		m.lag(&lag)
	}
	return lag, err
}

// Close leaves what other handles share.
func (m *mutant) Close() error {
	if m.handle != nil {
		return nil
	}
	return m.Memory.Close()
}

// atOnce is a transaction that is none: each step is there at once, and stays.
type atOnce struct{ store attempt.Store }

func (a atOnce) ApplyTx(ctx context.Context, s *attempt.Step) error { return a.store.Apply(ctx, s) }

func ctx() context.Context { return context.Background() }

// mistake is something that somebody has done, and the rule that must see it.
type mistake struct {
	rule, what string
	change     func(m *mutant)
}

var mistakes = []mistake{
	{"refunds beside payments", "refunds among the payments", func(m *mutant) {
		m.slot = func(v *attempt.View) { v.Attempts, v.Refunds = append(v.Attempts, v.Refunds...), nil }
	}},
	{"refunds beside payments", "steps see no refunds", func(m *mutant) {
		m.view = func(_ *attempt.Step, v *attempt.View) { v.Refunds = nil }
	}},
	{"refunds beside payments", "a live refund holds the slot", func(m *mutant) {
		m.writes = func(v attempt.View, w []attempt.Write, err error) ([]attempt.Write, error) {
			for i := range w {
				live := slices.ContainsFunc(v.Refunds, func(r attempt.Attempt) bool { return r.Status.Live() })
				if live && w[i].Attempt.Version == 1 && !w[i].Attempt.IsRefund() {
					return nil, errors.New("the slot has a live attempt")
				}
			}
			return w, err
		}
	}},
	{"refunds beside payments", "a refund's id is forgotten", func(m *mutant) {
		m.slot = func(v *attempt.View) {
			for i := range v.Refunds {
				v.Refunds[i].Refund.ID = ""
			}
		}
	}},
	{"refunds beside payments", "refunds are never due", func(m *mutant) {
		m.took = func(v *attempt.View, _ []attempt.Place) {
			v.Attempts = slices.DeleteFunc(v.Attempts, attempt.Attempt.IsRefund)
		}
	}},
	{"refunds beside payments", "due refunds apart", func(m *mutant) {
		m.took = func(v *attempt.View, _ []attempt.Place) {
			all := v.Attempts
			v.Attempts = nil
			for _, a := range all {
				v.Add(a)
			}
		}
	}},
	{"refused refunds", "says yes to what it has refused", func(m *mutant) {
		m.err = func(*attempt.Step, error) error { return nil }
	}},
	{"refund and its charge", "writes the first of two", func(m *mutant) {
		m.writes = func(_ attempt.View, w []attempt.Write, err error) ([]attempt.Write, error) {
			return w[:min(1, len(w))], err
		}
	}},
	{"refund and its charge", "believes a guess of a refund", func(m *mutant) {
		m.view = func(s *attempt.Step, v *attempt.View) {
			if s.Guess != nil && s.Guess.IsRefund() {
				v.Attempts, v.Refunds = nil, []attempt.Attempt{*s.Guess}
			}
		}
	}},
	{"refund and its charge", "writes what a failed step has decided", keepFailed},
	{"refunds at once", "refunds under way are not counted", func(m *mutant) {
		m.view = func(_ *attempt.Step, v *attempt.View) {
			v.Refunds = slices.DeleteFunc(slices.Clone(v.Refunds), func(r attempt.Attempt) bool { return r.Status.Live() })
		}
		m.writes = func(v attempt.View, w []attempt.Write, err error) ([]attempt.Write, error) {
			if len(w) > 0 {
				w[0].Attempt.Ordinal = next(v)
			}
			return w, err
		}
		m.err = func(*attempt.Step, error) error { return nil }
	}},
	{"refunds on two handles", "each handle has a store of its own", ownStore},
	{"closed slot", "only what was seen can be closed", func(m *mutant) {
		m.writes = func(v attempt.View, w []attempt.Write, err error) ([]attempt.Write, error) {
			if len(v.Attempts) == 0 {
				w = slices.DeleteFunc(w, func(w attempt.Write) bool { return w.Closing != nil })
			}
			return w, err
		}
	}},
	{"closed slot", "Slot does not tell", func(m *mutant) { m.slot = func(v *attempt.View) { v.ClosedAt = time.Time{} } }},
	{"closed slot", "steps are not told", func(m *mutant) {
		m.view = func(_ *attempt.Step, v *attempt.View) { v.ClosedAt = time.Time{} }
	}},
	{"closed slot", "a fresh slot is believed in", func(m *mutant) {
		m.view = func(s *attempt.Step, v *attempt.View) {
			if s.Fresh {
				*v = attempt.View{Now: v.Now}
			}
		}
	}},
	{"closed slot", "says yes to what it has refused", func(m *mutant) {
		m.err = func(*attempt.Step, error) error { return nil }
	}},
	{"closed slot", "closes although the step has failed", keepFailed},
	{"cancelled orders", "the marks are not written", func(m *mutant) {
		m.writes = func(_ attempt.View, w []attempt.Write, err error) ([]attempt.Write, error) {
			if len(w) > 0 && w[0].Closing != nil {
				w = w[:1]
			}
			return w, err
		}
	}},
	{"cancelled orders", "nothing but the marks is written", func(m *mutant) {
		m.writes = func(_ attempt.View, w []attempt.Write, err error) ([]attempt.Write, error) {
			if len(w) > 0 && w[0].Closing != nil {
				w = w[1:]
			}
			return w, err
		}
	}},
	{"cancelled orders", "the mark is forgotten", func(m *mutant) {
		m.slot = func(v *attempt.View) {
			for i := range v.Attempts {
				v.Attempts[i].UnwantedAt = time.Time{}
			}
		}
	}},
	{"cancel at once", "an outcome is written over what came meanwhile", overwrite},
	{"cancel at once", "a closed slot takes what was decided before", func(m *mutant) {
		m.view = func(_ *attempt.Step, v *attempt.View) { v.ClosedAt = time.Time{} }
	}},
	{"cancel on two handles", "each handle has a store of its own", ownStore},
	{"once", "counts again", func(m *mutant) {
		m.err = func(_ *attempt.Step, err error) error { return without(err, attempt.ErrSeen) }
	}},
	{"once", "the note before the effect", func(m *mutant) {
		m.apply = func(m *attempt.Memory, s *attempt.Step) error {
			if s.Once != nil {
				if err := m.Apply(ctx(), &attempt.Step{ID: s.ID, Once: s.Once}); err != nil {
					return err
				}
				s.Once = nil
			}
			return m.Apply(ctx(), s)
		}
	}},
	{"once", "the effect before the note", effectFirst},
	{"once", "ids without their scope", func(m *mutant) {
		m.step = func(_ *attempt.Memory, s *attempt.Step) {
			if s.Once != nil {
				s.Once = &attempt.Once{Scope: "webhook", ID: s.Once.ID, Data: s.Once.Data}
			}
		}
	}},
	{"once", "seen is a failure of the store", func(m *mutant) {
		m.err = func(_ *attempt.Step, err error) error {
			if errors.Is(err, attempt.ErrSeen) {
				return errors.Join(attempt.ErrUnavailable, err)
			}
			return err
		}
	}},
	{"once", "a guess that holds looks for no note", func(m *mutant) {
		m.step = func(_ *attempt.Memory, s *attempt.Step) {
			if s.Guess != nil {
				s.Once = nil
			}
		}
	}},
	{"once", "an unknown attempt has been seen", func(m *mutant) {
		m.err = func(s *attempt.Step, err error) error {
			if s.Once != nil && s.Once.ID == "1" && errors.Is(err, attempt.ErrNotFound) {
				return attempt.ErrSeen
			}
			return err
		}
	}},
	{"orphans", "an orphan has been seen", func(m *mutant) {
		m.step = func(m *attempt.Memory, s *attempt.Step) {
			if s.Once == nil || s.ID == "" {
				return
			}
			notes, _ := m.Notes(ctx(), attempt.NoteFilter{Scope: s.Once.Scope, Orphans: true})
			if slices.ContainsFunc(notes, func(n attempt.Note) bool { return n.ID == s.Once.ID }) {
				s.Do = func(attempt.View) ([]attempt.Write, error) { return nil, attempt.ErrSeen }
			}
		}
	}},
	{"orphans", "an orphan stays one", func(m *mutant) {
		m.note = func(n []attempt.Note) []attempt.Note {
			for i := range n {
				n[i].AttemptID = ""
			}
			return n
		}
	}},
	{"orphans", "an orphan may come again", func(m *mutant) {
		m.err = func(s *attempt.Step, err error) error {
			if s.ID == "" {
				return without(err, attempt.ErrSeen)
			}
			return err
		}
	}},
	{"orphans", "an orphan keeps what was told first", func(m *mutant) {
		m.step = func(_ *attempt.Memory, s *attempt.Step) {
			if s.Once != nil && s.ID != "" {
				s.Once = eventOf(s.Once.ID)
			}
		}
	}},
	{"once at once", "looks first and writes then", func(m *mutant) {
		m.apply = func(m *attempt.Memory, s *attempt.Step) error {
			if s.Once == nil {
				return m.Apply(ctx(), s)
			}
			notes, _ := m.Notes(ctx(), attempt.NoteFilter{Scope: s.Once.Scope})
			if slices.ContainsFunc(notes, func(n attempt.Note) bool { return n.ID == s.Once.ID && (n.AttemptID != "" || s.ID == "") }) {
				return attempt.ErrSeen
			}
			for range 20 {
				runtime.Gosched()
			}
			once := s.Once
			s.Once = nil
			if s.ID == "" {
				return m.Apply(ctx(), &attempt.Step{Once: once})
			}
			err := m.Apply(ctx(), s)
			_ = m.Apply(ctx(), &attempt.Step{ID: s.ID, Once: once})
			return err
		}
	}},
	{"once on two handles", "each handle has a store of its own", ownStore},
	{"once in a transaction", "what is rolled back stays", func(m *mutant) { m.inTx = noTransaction }},
	{"notes", "no limit", func(m *mutant) { m.notes = func(f *attempt.NoteFilter) { f.Limit = math.MaxInt } }},
	{"notes", "a limit of its own", func(m *mutant) { m.notes = func(f *attempt.NoteFilter) { f.Limit = min(max(f.Limit, 0), 500) } }},
	{"notes", "the page begins with the last of the page before", func(m *mutant) {
		m.notes = func(f *attempt.NoteFilter) {
			if f.After != "" {
				f.After = f.After[:len(f.After)-1]
			}
		}
	}},
	{"notes", "those with an attempt are orphans too", func(m *mutant) { m.notes = func(f *attempt.NoteFilter) { f.Orphans = false } }},
	{"notes", "those of all attempts", func(m *mutant) { m.notes = func(f *attempt.NoteFilter) { f.AttemptID = "" } }},
	{"notes", "one scope", func(m *mutant) { m.notes = func(f *attempt.NoteFilter) { f.Scope = "webhook" } }},
	{"notes", "what is long is cut", func(m *mutant) {
		m.note = func(n []attempt.Note) []attempt.Note {
			for i := range n {
				n[i].Data = n[i].Data[:min(len(n[i].Data), 60_000)]
			}
			return n
		}
	}},
	{"notes", "the order of a language", func(m *mutant) {
		m.note = func(n []attempt.Note) []attempt.Note {
			slices.SortStableFunc(n, func(a, b attempt.Note) int {
				return bytes.Compare(bytes.ToLower([]byte(a.ID)), bytes.ToLower([]byte(b.ID)))
			})
			return n
		}
	}},
	{"sent", "the ends of the time are left out", func(m *mutant) {
		m.sent = func(s attempt.Sent, _ attempt.Attempt) (attempt.Sent, bool) {
			return s, m.asked.right && s.At.After(m.asked.from) && s.At.Before(m.asked.to)
		}
	}},
	{"sent", "the time is not looked at", func(m *mutant) {
		m.sent = func(s attempt.Sent, a attempt.Attempt) (attempt.Sent, bool) {
			return s, a.Status == attempt.StatusApproved && a.Place() == m.asked.place
		}
	}},
	{"sent", "the provider's account is not looked at", func(m *mutant) {
		m.sent = func(s attempt.Sent, a attempt.Attempt) (attempt.Sent, bool) {
			a.ProviderAccount = m.asked.place.Account
			return s, a.Status == attempt.StatusApproved && a.Place() == m.asked.place && !s.At.Before(m.asked.from) && !s.At.After(m.asked.to)
		}
	}},
	{"sent", "the status is not looked at", func(m *mutant) {
		m.sent = func(s attempt.Sent, a attempt.Attempt) (attempt.Sent, bool) {
			return s, a.Place() == m.asked.place && !s.At.Before(m.asked.from) && !s.At.After(m.asked.to)
		}
	}},
	{"sent", "no refunds", func(m *mutant) {
		m.sent = func(s attempt.Sent, a attempt.Attempt) (attempt.Sent, bool) { return s, m.asked.right && !a.IsRefund() }
	}},
	{"sent", "only those whose last send is known", func(m *mutant) {
		m.sent = func(s attempt.Sent, a attempt.Attempt) (attempt.Sent, bool) {
			return s, m.asked.right && !a.LastSentAt.IsZero()
		}
	}},
	{"sent", "when they were stored", func(m *mutant) {
		m.sent = func(s attempt.Sent, a attempt.Attempt) (attempt.Sent, bool) {
			s.At = a.CreatedAt
			return s, m.asked.right
		}
	}},
	{"sent", "one page", func(m *mutant) {
		n, before := 0, sentQuestion{}
		m.sent = func(s attempt.Sent, _ attempt.Attempt) (attempt.Sent, bool) {
			if m.asked.right {
				if q := m.asked; q != before {
					n, before = 0, q
				}
				n++
			}
			return s, m.asked.right && n <= 500
		}
	}},
	{"sent while writing", "what has changed is told no more", func(m *mutant) {
		first := ""
		m.sent = func(s attempt.Sent, _ attempt.Attempt) (attempt.Sent, bool) {
			if first == "" {
				first = s.ID
			}
			return s, m.asked.right && s.ID == first
		}
	}},
	{"briefs", "no charge is a charge too", func(m *mutant) {
		m.briefs = func(m *attempt.Memory, ids, charges []string) ([]string, []string) {
			if slices.Contains(charges, "") {
				for a := range m.List(ctx(), attempt.Filter{}) { //nolint:errcheck // the memory store does not fail
					if a.ChargeID == "" {
						ids = append(slices.Clone(ids), a.ID)
					}
				}
			}
			return ids, charges
		}
	}},
	{"briefs", "one attempt for each charge", func(m *mutant) {
		m.brief = func(b []attempt.Brief) []attempt.Brief {
			seen := map[string]bool{}
			return slices.DeleteFunc(b, func(b attempt.Brief) bool {
				was := seen[b.ChargeID] && b.ChargeID != ""
				seen[b.ChargeID] = true
				return was
			})
		}
	}},
	{"briefs", "ids for charge ids", func(m *mutant) {
		m.briefs = func(_ *attempt.Memory, ids, charges []string) ([]string, []string) {
			return slices.Concat(ids, charges), charges
		}
	}},
	{"briefs", "no refunds", func(m *mutant) {
		m.brief = func(b []attempt.Brief) []attempt.Brief {
			return slices.DeleteFunc(b, func(b attempt.Brief) bool { return b.Refund.ID != "" })
		}
	}},
	{"briefs", "the status is forgotten", func(m *mutant) {
		m.brief = func(b []attempt.Brief) []attempt.Brief {
			for i := range b {
				b[i].Status = attempt.StatusUnknown
			}
			return b
		}
	}},
	{"briefs", "a hundred at a time", func(m *mutant) {
		m.briefs = func(_ *attempt.Memory, ids, charges []string) ([]string, []string) {
			return ids[:min(100, len(ids))], charges[:min(100, len(charges))]
		}
	}},
	{"outbox", "a limit of events", func(m *mutant) {
		m.events = func(limit int, e []attempt.Event, err error) ([]attempt.Event, error) {
			return e[:min(max(limit, 0), len(e))], err
		}
	}},
	{"outbox", "one outbox for all relays", func(m *mutant) {
		m.take = func(relay *string, _ *int, _ *time.Duration) { *relay = "host" }
		m.done = func(relay *string, _ *int, _ *time.Duration) { *relay = "host" }
	}},
	{"outbox", "a relay that comes again begins anew", func(m *mutant) {
		m.add = func(m *attempt.Memory, relay string) error {
			_ = m.RemoveRelay(ctx(), relay)
			return m.AddRelay(ctx(), relay)
		}
	}},
	{"outbox", "what was taken counts as delivered", func(m *mutant) {
		m.done = func(_ *string, version *int, _ *time.Duration) { *version = math.MaxInt }
	}},
	{"outbox", "a wait that is none", func(m *mutant) { m.done = func(_ *string, _ *int, again *time.Duration) { *again = 0 } }},
	{"outbox", "no lease", func(m *mutant) { m.take = func(_ *string, _ *int, lease *time.Duration) { *lease = 0 } }},
	{"outbox", "a lease that outlasts its delivery", func(m *mutant) {
		m.done = func(_ *string, _ *int, again *time.Duration) { *again = max(*again, time.Minute) }
	}},
	{"outbox", "the newest first", func(m *mutant) {
		m.events = func(_ int, e []attempt.Event, err error) ([]attempt.Event, error) { slices.Reverse(e); return e, err }
	}},
	{"outbox", "a cursor of time", func(m *mutant) {
		var last time.Time
		m.events = func(_ int, e []attempt.Event, err error) ([]attempt.Event, error) {
			kept := slices.DeleteFunc(e, func(e attempt.Event) bool { return e.At.Before(last) })
			for _, e := range kept {
				last = e.At
			}
			return kept, err
		}
	}},
	{"outbox", "a relay that is removed stays", func(m *mutant) { m.remove = func(*attempt.Memory, string) error { return nil } }},
	{"outbox", "an unknown relay has nothing", func(m *mutant) {
		m.events = func(_ int, e []attempt.Event, err error) ([]attempt.Event, error) {
			return e, without(err, attempt.ErrNotFound)
		}
	}},
	{"outbox", "the evidence is left out", func(m *mutant) {
		m.events = func(_ int, e []attempt.Event, err error) ([]attempt.Event, error) {
			for i := range e {
				e[i].Evidence = nil
			}
			return e, err
		}
	}},
	{"outbox", "counts no lag", func(m *mutant) { m.lag = func(l *attempt.RelayLag) { *l = attempt.RelayLag{} } }},
	{"outbox by one only", "no lease", func(m *mutant) { m.take = func(_ *string, _ *int, lease *time.Duration) { *lease = 0 } }},
	{"outbox by one only", "some are left out", func(m *mutant) {
		n := 0
		var mu sync.Mutex
		m.events = func(_ int, e []attempt.Event, err error) ([]attempt.Event, error) {
			mu.Lock()
			defer mu.Unlock()
			return slices.DeleteFunc(e, func(attempt.Event) bool { n++; return n%50 == 0 }), err
		}
	}},
	{"outbox lease", "a lease without end", func(m *mutant) { m.take = func(_ *string, _ *int, lease *time.Duration) { *lease *= 1000 } }},
	{"outbox lease", "a wait without end", func(m *mutant) { m.done = func(_ *string, _ *int, again *time.Duration) { *again *= 1000 } }},
	{"outbox on two handles", "each handle has a store of its own", ownStore},
	{"outbox of transactions", "a transaction tells nobody", func(m *mutant) {
		m.inTx = func(store attempt.Store, f func(context.Context, attempt.Tx) error) error {
			_ = m.Memory.RemoveRelay(ctx(), "host")
			defer func() { _ = m.Memory.AddRelay(ctx(), "host") }()
			return noTransaction(store, f)
		}
	}},
	{"due by place", "any place", func(m *mutant) {
		m.due = func(_ *attempt.Memory, limit int, _ []attempt.Place) (int, []attempt.Place) { return limit, nil }
	}},
	{"due by place", "the provider is the place", func(m *mutant) {
		m.due = func(_ *attempt.Memory, limit int, p []attempt.Place) (int, []attempt.Place) {
			for _, of := range p {
				for _, other := range []attempt.Place{{Provider: of.Provider, Account: "a"}, {Provider: of.Provider, Environment: "a"}} {
					p = append(slices.Clone(p), other)
				}
			}
			return limit, p
		}
	}},
	{"due by place", "takes, and then looks where it is", func(m *mutant) {
		m.due = func(_ *attempt.Memory, limit int, _ []attempt.Place) (int, []attempt.Place) { return limit, nil }
		m.took = func(v *attempt.View, p []attempt.Place) {
			v.Attempts = slices.DeleteFunc(v.Attempts, func(a attempt.Attempt) bool { return len(p) > 0 && !slices.Contains(p, a.Place()) })
		}
	}},
	{"list", "all for those that owe", func(m *mutant) { m.filter = func(f *attempt.Filter) { f.Owing = false } }},
	{"list", "an end owes nothing", func(m *mutant) {
		m.filter = func(f *attempt.Filter) {
			if f.Owing {
				f.Open = true
			}
		}
	}},
}

// keepFailed writes what a step has decided that failed, and tells the failure.
func keepFailed(m *mutant) {
	failed := make(map[*attempt.Step]error)
	m.apply = func(m *attempt.Memory, s *attempt.Step) error {
		do := s.Do
		s.Do = func(v attempt.View) ([]attempt.Write, error) {
			w, err := do(v)
			failed[s] = err
			return w, nil
		}
		err := m.Apply(ctx(), s)
		return errors.Join(err, failed[s])
	}
}

// overwrite decides on a guess whatever the store holds, and writes it.
func overwrite(m *mutant) {
	m.view = func(s *attempt.Step, v *attempt.View) {
		if s.Guess == nil {
			return
		}
		known := *s.Guess
		if is, ok := v.Find(known.ID); ok {
			known.Version = is.Version
		}
		v.Attempts, v.Refunds = []attempt.Attempt{known}, nil
	}
}

func ownStore(m *mutant) {
	m.handle = func(*attempt.Memory) *attempt.Memory { return new(attempt.Memory) }
}

func effectFirst(m *mutant) {
	m.apply = func(m *attempt.Memory, s *attempt.Step) error {
		once := s.Once
		s.Once = nil
		err := m.Apply(ctx(), s)
		if err == nil && once != nil {
			err = m.Apply(ctx(), &attempt.Step{ID: s.ID, Once: once})
		}
		return err
	}
}

func noTransaction(store attempt.Store, f func(context.Context, attempt.Tx) error) error {
	return f(ctx(), atOnce{store})
}

// without is err, or nil where that is it.
func without(err, it error) error {
	if errors.Is(err, it) {
		return nil
	}
	return err
}

const mutantVariable = "CHARGEONCE_STORETEST_MISTAKE"

// TestRules runs the suite on the memory store, as it is or with the mistake that is asked for.
func TestRules(t *testing.T) {
	change := func(*mutant) {}
	for _, m := range mistakes {
		if m.name() == os.Getenv(mutantVariable) {
			change = m.change
		}
	}
	mutate := func(m *attempt.Memory) *mutant {
		changed := &mutant{Memory: m}
		change(changed)
		return changed
	}
	options := []Option{
		WithClock(func(_ *testing.T, now func() time.Time) attempt.Store { return mutate(&attempt.Memory{Now: now}) }),
	}
	shared := func(*testing.T) func(*testing.T) attempt.Store {
		memory := new(attempt.Memory)
		return func(*testing.T) attempt.Store {
			m := mutate(memory)
			if m.handle == nil {
				m.handle = func(shared *attempt.Memory) *attempt.Memory { return shared }
			}
			m.Memory = m.handle(memory)
			return m
		}
	}
	if os.Getenv(mutantVariable) == "" {
		options = append(options, Without(Transactions, "there is no transaction that a host could bring"),
			Without(Database, "it forgets with the process, and one handle is all there is"))
	} else {
		options = append(options, WithDatabase(shared), WithTransactions(func(store attempt.Store, f func(context.Context, attempt.Tx) error) error {
			return store.(*mutant).inTx(store, f)
		}))
	}
	Run(t, func(*testing.T) attempt.Store { return mutate(new(attempt.Memory)) }, options...)
}

func (m mistake) name() string { return m.rule + ": " + m.what }

// Each mistake is seen by its rule: in another process, where a test may fail.
func TestMistakesAreSeen(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mistakes {
		t.Run(m.name(), func(t *testing.T) {
			t.Parallel()
			rule := strings.ReplaceAll(m.rule, " ", "_")
			cmd := exec.CommandContext(t.Context(), exe, "-test.timeout=30s", "-test.run=^TestRules$/^"+rule+"$")
			cmd.Env = append(os.Environ(), mutantVariable+"="+m.name())
			out, err := cmd.CombinedOutput()
			if failed := (*exec.ExitError)(nil); !errors.As(err, &failed) || !strings.Contains(string(out), fmt.Sprintf("--- FAIL: TestRules/%s ", rule)) {
				t.Errorf("the mistake is not seen: %v\n%s", err, out)
			}
			if strings.Contains(string(out), "panic:") {
				t.Errorf("the mistake makes the rule panic:\n%s", out)
			}
		})
	}
}

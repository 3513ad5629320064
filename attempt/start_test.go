package attempt_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

var (
	oldKey = attempt.DigestKey{ID: "2025", Secret: []byte(strings.Repeat("o", 32))}
	newKey = attempt.DigestKey{ID: "2026", Secret: []byte(strings.Repeat("n", 32))}
)

func digester(t *testing.T, keys ...attempt.DigestKey) attempt.Digester {
	t.Helper()
	d, err := attempt.NewDigester(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// shop is a slot in a store, and callers who want to pay it.
type shop struct {
	t     *testing.T
	store *attempt.Memory
	now   time.Time

	provider, account, environment string
	digester                       attempt.Digester
	resend                         attempt.Resend
	cannotAsk                      bool
	started                        int
	rendered                       int
}

var visa, mastercard = attempt.Token("tok_visa"), attempt.Token("tok_mastercard")

func open(t *testing.T) *shop {
	s := &shop{t: t, now: epoch, provider: "standard", resend: keepsAll, digester: digester(t, oldKey)}
	s.store = &attempt.Memory{Now: func() time.Time { return s.now }}
	return s
}

type wants struct {
	amount    int64 // of EUR; zero: 1999
	source    attempt.Source
	again     string
	id        string // send by id
	startOnly bool
	asked     bool
	newErr    error
	renderErr error
}

// pay decides once, as a client's call does at first.
func (s *shop) pay(w wants) attempt.Decision {
	s.t.Helper()
	return s.decide(s.call(w))
}

func (s *shop) decide(call *attempt.Start) attempt.Decision {
	s.t.Helper()
	step := call.Step()
	if step.Slot != call.Slot || step.ID != call.ID || step.Fresh != (call.ID == "") || step.Outcome {
		s.t.Fatalf("step %+v", step)
	}
	if err := s.store.Apply(context.Background(), step); err != nil {
		if !errors.Is(err, attempt.ErrNotFound) {
			s.t.Fatal(err)
		}
		return attempt.Decision{Kind: attempt.DecidedRefuse, Err: err}
	}
	return call.Decision
}

func (s *shop) call(w wants) *attempt.Start {
	s.t.Helper()
	if w.amount == 0 {
		w.amount = asked.Minor()
	}
	if w.source.IsZero() {
		w.source = visa
	}
	intent := attempt.Intent{Order: "1001", Amount: amountOf(w.amount, "EUR"), Source: w.source, Again: w.again}
	st := &attempt.Start{
		Slot: intent.Slot(), Intent: intent, ID: w.id,
		Provider: s.provider, ProviderAccount: s.account, Environment: s.environment,
		Digester: s.digester, Resend: s.resend, CannotAsk: s.cannotAsk, Asked: w.asked,
		Claim: claimLasts, SendSpan: 3 * time.Second, FirstCheck: firstCheck, PreparedAfter: 24 * time.Hour, Who: "test",
	}
	if w.startOnly {
		st.Claim = 0
	}
	if w.id != "" {
		st.Slot, st.Intent = attempt.Slot{}, attempt.Intent{Source: w.source}
	}
	st.New = func(ordinal int) (attempt.Attempt, error) {
		if w.newErr != nil {
			return attempt.Attempt{}, w.newErr
		}
		s.started++
		a := newAttempt(ordinal)
		digest, err := s.digester.Digest(intent.Source)
		if err != nil {
			return attempt.Attempt{}, err
		}
		return attempt.Attempt{
			ID: a.ID, Key: a.Key, Reference: a.Reference, Amount: intent.Amount, Source: digest, Body: a.Body, BodyDigest: a.BodyDigest,
			Provider: s.provider, ProviderAccount: s.account, Environment: s.environment,
		}, nil
	}
	st.Render = func(a *attempt.Attempt) error {
		s.rendered++
		a.Body = []byte("rendered")
		return w.renderErr
	}
	return st
}

func (s *shop) attempts() []attempt.Attempt {
	s.t.Helper()
	v, err := s.store.Slot(context.Background(), attempt.Slot{Order: "1001", Purpose: attempt.PurposeCharge})
	if err != nil {
		s.t.Fatal(err)
	}
	return v.Attempts
}

// nth returns the slot's n-th attempt.
func (s *shop) nth(n int) attempt.Attempt { s.t.Helper(); return s.attempts()[n-1] }

func (s *shop) learn(n int, e attempt.Evidence) {
	s.t.Helper()
	r := &attempt.Record{ID: s.nth(n).ID, Evidence: e}
	if err := s.store.Apply(context.Background(), r.Step(nil)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) end(n int, sends ...attempt.Send) {
	s.t.Helper()
	s.learn(n, attempt.Evidence{Kind: attempt.EvidenceSends, Fence: s.nth(n).Fence, Sends: sends})
}

func (s *shop) webhook(n int, charges ...attempt.Charge) {
	s.t.Helper()
	s.learn(n, attempt.Evidence{Kind: attempt.EvidenceWebhook, Charges: charges})
}

func (s *shop) none(n int) {
	s.t.Helper()
	s.learn(n, attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: attempt.LookupNone, AskedAt: s.now, Rule: usualRule})
}

// abandon lets time pass until the n-th attempt, whose sends are recorded as lost, is abandoned.
func (s *shop) abandon(n int) {
	s.t.Helper()
	s.now = s.now.Add(time.Hour)
	s.none(n)
	s.now = s.now.Add(time.Minute)
	s.none(n)
	s.is(n, attempt.StatusAbandoned)
}

func (s *shop) is(n int, want attempt.Status) {
	s.t.Helper()
	if a := s.nth(n); a.Status != want {
		s.t.Fatalf("attempt %d is %s (%s), want %s", n, a.Status, a.Reason, want)
	}
}

func (s *shop) count(want int) {
	s.t.Helper()
	if got := len(s.attempts()); got != want {
		s.t.Fatalf("%d attempts, want %d", got, want)
	}
}

var kindNames = map[attempt.DecisionKind]string{
	attempt.DecidedTell: "tell", attempt.DecidedSend: "send", attempt.DecidedStarted: "started",
	attempt.DecidedAsk: "ask", attempt.DecidedRefuse: "refuse",
}

// decided checks what was decided and about which attempt.
func (s *shop) decided(d attempt.Decision, kind attempt.DecisionKind, about int, wantErr error) attempt.Decision {
	s.t.Helper()
	if d.Kind != kind {
		s.t.Fatalf("decided to %s (%v), want %s", kindNames[d.Kind], d.Err, kindNames[kind])
	}
	if about > 0 && d.Attempt.ID != newAttempt(about).ID {
		s.t.Fatalf("decided about attempt %q, want the %d.", d.Attempt.ID, about)
	}
	if (kind == attempt.DecidedRefuse) != (d.Err != nil) || wantErr != nil && !errors.Is(d.Err, wantErr) {
		s.t.Fatalf("error %v, want %v", d.Err, wantErr)
	}
	if kind == attempt.DecidedSend {
		stored := s.nth(about)
		if stored.Status != attempt.StatusSending || stored.Fence != d.Attempt.Fence || stored.Version != d.Attempt.Version {
			s.t.Fatalf("told to send what the store does not hold as claimed: %+v", stored)
		}
		if d.Existing != (stored.Version > 1) {
			s.t.Fatalf("existing %v at version %d", d.Existing, stored.Version)
		}
	} else if !d.Existing && kind != attempt.DecidedStarted && d.Attempt.ID != "" {
		s.t.Fatal("an attempt that was there before is told as this call's")
	}
	return d
}

// The first call starts and claims in one commit.
func TestStart_FirstCall(t *testing.T) {
	s := open(t)
	d := s.decided(s.pay(wants{}), attempt.DecidedSend, 1, nil)
	a := s.nth(1)
	if a.Version != 1 || a.Fence != 1 || a.Ordinal != 1 || !a.CreatedAt.Equal(epoch) || d.Existing || s.rendered != 0 {
		t.Errorf("started as %+v", a)
	}
	if !a.NextCheckAt.Equal(epoch.Add(firstCheck)) {
		t.Errorf("a crash would leave no work: next check at %v", a.NextCheckAt)
	}
	events, err := s.store.Events(context.Background(), a.ID)
	if err != nil || len(events) != 1 || events[0].What != attempt.WhatStartedClaimed || events[0].Who != "test" {
		t.Errorf("events %+v, %v", events, err)
	}

	s = open(t)
	d = s.decided(s.pay(wants{startOnly: true}), attempt.DecidedStarted, 1, nil)
	a = s.nth(1)
	if a.Status != attempt.StatusPrepared || a.Fence != 0 || !a.NextCheckAt.Equal(epoch.Add(24*time.Hour)) || d.Existing {
		t.Errorf("started as %+v", a)
	}

	s = open(t)
	s.decided(s.pay(wants{newErr: errors.New("amount: missing")}), attempt.DecidedRefuse, 0, attempt.ErrInvalidIntent)
	s.count(0)
}

// A live attempt decides first: line (1) and (2) of "pay for a slot".
func TestStart_LiveAttempt(t *testing.T) {
	prepared := func(s *shop) { s.pay(wants{startOnly: true}) }
	claimed := func(s *shop) { s.pay(wants{}) }
	expired := func(s *shop) { s.pay(wants{}); s.now = s.now.Add(time.Minute) }
	unknown := func(s *shop) { s.pay(wants{}); s.end(1, lost()); s.now = s.now.Add(time.Minute) }
	old := func(s *shop) { unknown(s); s.now = s.now.Add(24 * time.Hour) }
	waiting := func(s *shop) { s.pay(wants{}); s.end(1, charged(pending("ch_1"))) }
	approved := func(s *shop) { s.pay(wants{}); s.end(1, charged(succeeded("ch_1", asked))) }
	mismatch := func(s *shop) { unknown(s); s.webhook(1, succeeded("ch_1", lessMoney)) }
	notLeft := func(s *shop) { s.pay(wants{}); s.end(1, notSent()) }

	same, other, card := wants{}, wants{amount: 2999}, wants{source: mastercard}
	for _, c := range []struct {
		name    string
		slot    func(*shop)
		w       wants
		kind    attempt.DecisionKind
		about   int
		err     error
		differs string
	}{
		{"prepared, same", prepared, same, attempt.DecidedSend, 1, nil, ""},
		{"prepared, same, start only", prepared, wants{startOnly: true}, attempt.DecidedStarted, 1, nil, ""},
		{"prepared, another amount", prepared, other, attempt.DecidedSend, 2, nil, ""},
		{"prepared, another card", prepared, card, attempt.DecidedSend, 2, nil, ""},
		{"prepared, another card, start only", prepared, wants{source: mastercard, startOnly: true}, attempt.DecidedStarted, 2, nil, ""},
		{"not sent, same", notLeft, same, attempt.DecidedSend, 1, nil, ""},
		{"not sent, another card", notLeft, card, attempt.DecidedSend, 2, nil, ""},
		{"in flight, same", claimed, same, attempt.DecidedTell, 1, nil, ""},
		{"in flight, same, start only", claimed, wants{startOnly: true}, attempt.DecidedTell, 1, nil, ""},
		{"in flight, another card: at once, without asking", claimed, card, attempt.DecidedRefuse, 1, attempt.ErrConflict, "source"},
		{"in flight, another amount", claimed, other, attempt.DecidedRefuse, 1, attempt.ErrConflict, "amount"},
		{"the claim has run out, same: taken over", expired, same, attempt.DecidedSend, 1, nil, ""},
		{"the claim has run out, another card: asked", expired, card, attempt.DecidedAsk, 1, nil, ""},
		{"unknown, same (P4)", unknown, same, attempt.DecidedSend, 1, nil, ""},
		{"unknown, same, start only", unknown, wants{startOnly: true}, attempt.DecidedTell, 1, nil, ""},
		{"unknown, another card (P3)", unknown, card, attempt.DecidedAsk, 1, nil, ""},
		{"unknown, another card, asked before (P3)", unknown, wants{source: mastercard, asked: true}, attempt.DecidedRefuse, 1, attempt.ErrConflict, "source"},
		{"unknown, another amount, start only", unknown, wants{amount: 2999, startOnly: true}, attempt.DecidedRefuse, 1, attempt.ErrConflict, "amount"},
		{"key too old, same (C04): asked, not sent", old, same, attempt.DecidedAsk, 1, nil, ""},
		{"key too old, same, asked before", old, wants{asked: true}, attempt.DecidedTell, 1, nil, ""},
		{"pending, same: asked, not sent", waiting, same, attempt.DecidedAsk, 1, nil, ""},
		{"pending, same, asked before", waiting, wants{asked: true}, attempt.DecidedTell, 1, nil, ""},
		{"approved, same", approved, same, attempt.DecidedTell, 1, nil, ""},
		{"approved, same, again", approved, wants{again: newAttempt(1).ID}, attempt.DecidedTell, 1, nil, ""},
		{"approved, another card", approved, card, attempt.DecidedRefuse, 1, attempt.ErrAlreadyPaid, ""},
		{"approved, another amount", approved, other, attempt.DecidedRefuse, 1, attempt.ErrAlreadyPaid, ""},
		{"another amount was charged, same", mismatch, same, attempt.DecidedTell, 1, nil, ""},
		{"another amount was charged, another card", mismatch, card, attempt.DecidedRefuse, 1, attempt.ErrConflict, "source"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			c.slot(s)
			d := s.decided(s.pay(c.w), c.kind, c.about, c.err)
			var conflict *attempt.ConflictError
			if errors.As(d.Err, &conflict) && (conflict.Differs != c.differs || conflict.Attempt.ID != newAttempt(c.about).ID) {
				t.Errorf("conflict %q about %s", conflict.Differs, conflict.Attempt.ID)
			}
			s.count(max(c.about, 1))
			if c.about == 2 {
				s.is(1, attempt.StatusAbandoned)
				if a := s.nth(1); a.Reason != attempt.ReasonSuperseded {
					t.Errorf("ended because of %q", a.Reason)
				}
			}
		})
	}
}

// Where the provider's rules forbid another send, Pay asks and goes on from what results.
func TestStart_AsksWhereSendingIsForbidden(t *testing.T) {
	s := open(t)
	s.resend = keepsNone
	s.pay(wants{})
	s.end(1, lost())
	s.now = s.now.Add(time.Minute)
	s.decided(s.pay(wants{}), attempt.DecidedAsk, 1, nil)
	s.decided(s.pay(wants{asked: true}), attempt.DecidedTell, 1, nil)
	s.decided(s.pay(wants{source: mastercard}), attempt.DecidedAsk, 1, nil)
	s.webhook(1, failed("ch_1"))
	// The end without money lets another card pay; the same one gets its answer.
	s.decided(s.pay(wants{asked: true}), attempt.DecidedTell, 1, nil)
	s.decided(s.pay(wants{source: mastercard, asked: true}), attempt.DecidedSend, 2, nil)

	s = open(t)
	s.resend, s.cannotAsk = keepsNone, true
	s.pay(wants{})
	s.end(1, lost())
	s.decided(s.pay(wants{}), attempt.DecidedTell, 1, nil)
	s.decided(s.pay(wants{source: mastercard}), attempt.DecidedRefuse, 1, attempt.ErrConflict)

	s = open(t)
	s.pay(wants{})
	s.end(1, lost())
	s.decided(s.pay(wants{source: mastercard}), attempt.DecidedAsk, 1, nil)
	s.webhook(1, succeeded("ch_1", asked))
	s.decided(s.pay(wants{source: mastercard, asked: true}), attempt.DecidedRefuse, 1, attempt.ErrAlreadyPaid)
}

// Another provider, account or environment is another intent: superseded while nothing left, never asked or sent elsewhere.
func TestStart_AnotherProvider(t *testing.T) {
	for _, move := range []func(*shop){
		func(s *shop) { s.provider = "other" }, func(s *shop) { s.account = "shop-b" }, func(s *shop) { s.environment = "live" },
	} {
		s := open(t)
		s.pay(wants{startOnly: true})
		move(s)
		s.decided(s.pay(wants{}), attempt.DecidedSend, 2, nil)
		s.is(1, attempt.StatusAbandoned)

		s = open(t)
		s.pay(wants{})
		s.end(1, lost())
		move(s)
		var conflict *attempt.ConflictError
		if d := s.decided(s.pay(wants{}), attempt.DecidedRefuse, 1, attempt.ErrConflict); !errors.As(d.Err, &conflict) || conflict.Differs != "provider" {
			t.Errorf("error %v", d.Err)
		}
		d := s.decided(s.pay(wants{id: s.nth(1).ID}), attempt.DecidedTell, 1, nil)
		if d.Reason != attempt.ReasonProviderChange {
			t.Errorf("told %q", d.Reason)
		}

		s = open(t)
		s.pay(wants{startOnly: true})
		move(s)
		s.decided(s.pay(wants{id: s.nth(1).ID}), attempt.DecidedRefuse, 1, attempt.ErrNotPaid)
		s.is(1, attempt.StatusPrepared)

		// A decline answers at its place only.
		s = open(t)
		s.pay(wants{})
		s.end(1, refused(true))
		s.decided(s.pay(wants{}), attempt.DecidedTell, 1, nil)
		move(s)
		s.decided(s.pay(wants{}), attempt.DecidedSend, 2, nil)
	}
}

// No live attempt: line (3). A queue that redelivers and a batch that reruns never charge anew.
func TestStart_AnsweredBefore(t *testing.T) {
	s := open(t)
	s.pay(wants{})
	s.end(1, refused(true))
	s.decided(s.pay(wants{}), attempt.DecidedTell, 1, nil)
	s.decided(s.pay(wants{startOnly: true}), attempt.DecidedTell, 1, nil)
	s.decided(s.pay(wants{again: "01900000-0000-7000-8000-00000000dead"}), attempt.DecidedTell, 1, nil)
	s.decided(s.pay(wants{source: mastercard}), attempt.DecidedSend, 2, nil)
	s.end(2, refused(true))
	// Any declined attempt counts, not only the newest.
	s.decided(s.pay(wants{}), attempt.DecidedTell, 1, nil)
	s.decided(s.pay(wants{source: mastercard}), attempt.DecidedTell, 2, nil)
	s.decided(s.pay(wants{again: s.nth(1).ID}), attempt.DecidedTell, 1, nil) // not the newest any more
	s.count(2)
	s.decided(s.pay(wants{again: s.nth(2).ID}), attempt.DecidedSend, 3, nil)
	// The message that asked again is delivered once more: while the new attempt runs, and after it was rejected.
	s.decided(s.pay(wants{again: s.nth(2).ID}), attempt.DecidedTell, 3, nil)
	s.end(3, rejected())
	s.decided(s.pay(wants{again: s.nth(2).ID}), attempt.DecidedTell, 1, nil)
	s.count(3)
	// After a rejection a new intent starts anew.
	s.decided(s.pay(wants{amount: 3000}), attempt.DecidedSend, 4, nil)
	s.end(4, rejected())
	s.decided(s.pay(wants{amount: 3000}), attempt.DecidedSend, 5, nil)
}

// An old message again, while what came after it is prepared or approved.
func TestStart_Redelivered(t *testing.T) {
	s := open(t)
	s.pay(wants{})
	s.end(1, refused(true))
	s.decided(s.pay(wants{source: mastercard, startOnly: true}), attempt.DecidedStarted, 2, nil)
	s.decided(s.pay(wants{}), attempt.DecidedTell, 1, nil)
	s.is(2, attempt.StatusPrepared)
	s.decided(s.pay(wants{source: mastercard}), attempt.DecidedSend, 2, nil)
	s.end(2, charged(succeeded("ch_1", asked)))
	s.decided(s.pay(wants{}), attempt.DecidedRefuse, 2, attempt.ErrAlreadyPaid)

	// Superseded: the message of the first intent comes again.
	s = open(t)
	s.pay(wants{startOnly: true})
	s.pay(wants{source: mastercard, startOnly: true})
	s.decided(s.pay(wants{}), attempt.DecidedTell, 1, nil)
	s.is(2, attempt.StatusPrepared)
	s.decided(s.pay(wants{source: mastercard}), attempt.DecidedSend, 2, nil)
	s.end(2, rejected())
	s.decided(s.pay(wants{}), attempt.DecidedTell, 1, nil)
	if told := s.nth(1).Tell(s.now); !told.NotPaid || told.Reason != attempt.ReasonSuperseded {
		t.Errorf("told %+v", told)
	}

	// A record of the superseded attempt that comes late does not make it another.
	s.learn(1, attempt.Evidence{Kind: attempt.EvidenceSends, Fence: 4, Sends: []attempt.Send{notSent()}})
	s.decided(s.pay(wants{}), attempt.DecidedTell, 1, nil)
}

func TestStart_SendByID(t *testing.T) {
	id := newAttempt(1).ID
	s := open(t)
	if d := s.pay(wants{id: id}); !errors.Is(d.Err, attempt.ErrNotFound) {
		t.Errorf("missing: %v", d.Err)
	}
	s.pay(wants{startOnly: true})
	s.decided(s.pay(wants{id: id, source: mastercard}), attempt.DecidedRefuse, 1, attempt.ErrConflict)
	s.is(1, attempt.StatusPrepared)
	s.decided(s.pay(wants{id: id}), attempt.DecidedSend, 1, nil)
	s.decided(s.pay(wants{id: id}), attempt.DecidedTell, 1, nil) // in flight
	s.end(1, lost())
	s.decided(s.pay(wants{id: id, source: mastercard}), attempt.DecidedRefuse, 1, attempt.ErrConflict)
	s.decided(s.pay(wants{id: id}), attempt.DecidedSend, 1, nil)
	s.end(1, lost())
	s.now = s.now.Add(25 * time.Hour)
	s.decided(s.pay(wants{id: id}), attempt.DecidedAsk, 1, nil)
	if d := s.decided(s.pay(wants{id: id, asked: true}), attempt.DecidedTell, 1, nil); d.Reason != attempt.ReasonNotSendable {
		t.Errorf("told %q", d.Reason)
	}
	s.webhook(1, pending("ch_1"))
	if d := s.decided(s.pay(wants{id: id, asked: true}), attempt.DecidedTell, 1, nil); d.Reason != "" {
		t.Errorf("a pending charge is told as %q", d.Reason)
	}
	s.webhook(1, failed("ch_1"))
	s.webhook(1, succeeded("ch_1", asked))
	s.is(1, attempt.StatusApproved)
	s.decided(s.pay(wants{id: id}), attempt.DecidedTell, 1, nil)

	// Superseded: nothing is sent, and nothing is started.
	s = open(t)
	s.pay(wants{startOnly: true})
	s.pay(wants{source: mastercard, startOnly: true})
	s.decided(s.pay(wants{id: id}), attempt.DecidedTell, 1, nil)
	s.count(2)
	s.is(2, attempt.StatusPrepared)
}

// The body is rendered at the first claim only, and not being able to is an error only where nothing has left.
func TestStart_Render(t *testing.T) {
	s := open(t)
	s.pay(wants{startOnly: true})
	strip := func(s *shop) {
		a := s.nth(1)
		a.Body = nil
		a.Version++
		err := s.store.Apply(context.Background(), &attempt.Step{ID: a.ID, Do: func(attempt.View) ([]attempt.Write, error) {
			return []attempt.Write{{Attempt: &a, Event: attempt.Event{AttemptID: a.ID, Version: a.Version, From: a.Status, To: a.Status}}}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	strip(s)
	s.decided(s.pay(wants{renderErr: errors.New("amount: too small")}), attempt.DecidedRefuse, 1, attempt.ErrNotPaid)
	s.is(1, attempt.StatusPrepared)
	s.decided(s.pay(wants{}), attempt.DecidedSend, 1, nil)
	if string(s.nth(1).Body) != "rendered" {
		t.Errorf("claimed with the body %q", s.nth(1).Body)
	}
	s.end(1, lost())
	strip(s)
	if d := s.decided(s.pay(wants{renderErr: errors.New("amount: too small")}), attempt.DecidedTell, 1, nil); d.Reason != attempt.ReasonBodyChanged {
		t.Errorf("told %q", d.Reason)
	}
}

// Keys for digests change; a former key still recognises, a missing one is never taken for a match to send by.
func TestStart_DigestKeys(t *testing.T) {
	rotated := func(s *shop) { s.digester = digester(t, newKey, oldKey) }
	removed := func(s *shop) { s.digester = digester(t, newKey) }

	s := open(t)
	s.pay(wants{})
	s.end(1, lost())
	rotated(s)
	s.decided(s.pay(wants{}), attempt.DecidedSend, 1, nil)
	if s.nth(1).Source.KeyID != oldKey.ID {
		t.Error("the stored digest changed its key")
	}

	s = open(t)
	s.pay(wants{})
	s.end(1, lost())
	removed(s)
	s.decided(s.pay(wants{}), attempt.DecidedAsk, 1, nil)
	s.decided(s.pay(wants{asked: true}), attempt.DecidedRefuse, 1, attempt.ErrConflict)
	if d := s.decided(s.pay(wants{id: s.nth(1).ID}), attempt.DecidedTell, 1, nil); d.Reason != attempt.ReasonSourceUnknown {
		t.Errorf("told %q", d.Reason)
	}

	s = open(t)
	s.pay(wants{startOnly: true})
	removed(s)
	s.decided(s.pay(wants{id: s.nth(1).ID}), attempt.DecidedRefuse, 1, attempt.ErrDigestKeyMissing)
	s.decided(s.pay(wants{}), attempt.DecidedSend, 2, nil) // nothing had left: started anew under the present key
	if s.nth(2).Source.KeyID != newKey.ID {
		t.Error("digested under a former key")
	}

	s = open(t)
	s.pay(wants{})
	s.end(1, refused(true))
	removed(s)
	s.decided(s.pay(wants{}), attempt.DecidedTell, 1, nil) // nobody can tell that it is another: not charged by a guess
	s.decided(s.pay(wants{amount: 2999}), attempt.DecidedSend, 2, nil)

	s = open(t)
	s.pay(wants{})
	s.end(1, charged(succeeded("ch_1", asked)))
	removed(s)
	s.decided(s.pay(wants{}), attempt.DecidedRefuse, 1, attempt.ErrAlreadyPaid)
}

// Before the first send after an abandonment the provider is asked once more about every abandoned attempt.
func TestStart_AbandonedIsAskedAgain(t *testing.T) {
	abandoned := func() *shop {
		s := open(t)
		s.pay(wants{})
		s.end(1, lost())
		s.abandon(1)
		return s
	}
	s := abandoned()
	d := s.decided(s.pay(wants{}), attempt.DecidedAsk, 1, nil)
	if len(d.Ask) != 1 || d.Ask[0].ID != newAttempt(1).ID {
		t.Errorf("asks about %d attempts", len(d.Ask))
	}
	s.count(1)
	s.decided(s.pay(wants{asked: true}), attempt.DecidedSend, 2, nil)
	// Once: the second send of the slot after it does not ask again.
	s.end(2, refused(true))
	s.decided(s.pay(wants{source: mastercard}), attempt.DecidedSend, 3, nil)
	// Both abandoned: both are asked about.
	s = abandoned()
	s.pay(wants{asked: true})
	s.end(2, lost())
	s.abandon(2)
	if d = s.decided(s.pay(wants{}), attempt.DecidedAsk, 1, nil); len(d.Ask) != 2 {
		t.Errorf("asks about %d attempts, want 2", len(d.Ask))
	}

	// The new attempt's claim ended without a request: still no send after the abandonment.
	s = abandoned()
	s.pay(wants{asked: true})
	s.end(2, notSent())
	s.decided(s.pay(wants{}), attempt.DecidedAsk, 1, nil)
	s.decided(s.pay(wants{asked: true}), attempt.DecidedSend, 2, nil)

	// The money is found: nothing is sent.
	s = abandoned()
	s.decided(s.pay(wants{}), attempt.DecidedAsk, 1, nil)
	s.webhook(1, succeeded("ch_1", asked))
	s.decided(s.pay(wants{asked: true}), attempt.DecidedTell, 1, nil)
	s.count(1)
	// A charge that is not final is found: it may become money.
	s = abandoned()
	s.webhook(1, pending("ch_1"))
	s.decided(s.pay(wants{asked: true}), attempt.DecidedTell, 1, nil)
	s.count(1)
	// It comes to nothing.
	s.webhook(1, failed("ch_1"))
	s.decided(s.pay(wants{asked: true}), attempt.DecidedSend, 2, nil)

	// Started in a transaction, which asks nobody; the send asks, by id and by intent, and superseding does not get around it.
	s = abandoned()
	s.decided(s.pay(wants{startOnly: true}), attempt.DecidedStarted, 2, nil)
	s.decided(s.pay(wants{id: s.nth(2).ID}), attempt.DecidedAsk, 1, nil)
	s.decided(s.pay(wants{}), attempt.DecidedAsk, 1, nil)
	s.decided(s.pay(wants{source: mastercard}), attempt.DecidedAsk, 1, nil)
	s.is(2, attempt.StatusPrepared)
	s.decided(s.pay(wants{source: mastercard, startOnly: true}), attempt.DecidedStarted, 3, nil)
	s.decided(s.pay(wants{id: s.nth(3).ID, source: mastercard}), attempt.DecidedAsk, 1, nil)
	s.decided(s.pay(wants{id: s.nth(3).ID, source: mastercard, asked: true}), attempt.DecidedSend, 3, nil)

	// Never sent, or superseded: there is nothing to ask about.
	s = open(t)
	s.pay(wants{startOnly: true})
	s.now = s.now.Add(25 * time.Hour)
	s.learn(1, attempt.Evidence{Kind: attempt.EvidenceTime, Rule: usualRule})
	s.is(1, attempt.StatusAbandoned)
	s.decided(s.pay(wants{}), attempt.DecidedSend, 2, nil)

	// Superseded, and then the provider reports a charge under its reference: something was sent after all.
	s = open(t)
	s.pay(wants{startOnly: true})
	s.pay(wants{source: mastercard, startOnly: true})
	s.webhook(1, failed("ch_1"))
	s.decided(s.pay(wants{source: mastercard}), attempt.DecidedAsk, 1, nil)

	// The sender died, and its claim is all that is known.
	s = open(t)
	s.pay(wants{})
	s.abandon(1)
	s.decided(s.pay(wants{}), attempt.DecidedAsk, 1, nil)

	// While one attempt is asked about, a late record shows that nothing of it had left: the abandoned one before it has
	// not been asked about by this call.
	s = abandoned()
	s.decided(s.pay(wants{startOnly: true}), attempt.DecidedStarted, 2, nil)
	s.decided(s.pay(wants{asked: true}), attempt.DecidedSend, 2, nil)
	s.now = s.now.Add(time.Minute)
	call := s.call(wants{source: mastercard})
	s.decided(s.decide(call), attempt.DecidedAsk, 2, nil)
	s.end(2, notSent())
	call.Asked = true
	s.decided(s.decide(call), attempt.DecidedAsk, 1, nil)
	s.decided(s.decide(call), attempt.DecidedSend, 3, nil)

	// Abandoned at another provider: the question cannot be asked from here, so nothing is sent or ended.
	s = abandoned()
	s.provider = "other"
	s.decided(s.pay(wants{}), attempt.DecidedRefuse, 1, attempt.ErrNotPaid)
	s.decided(s.pay(wants{asked: true}), attempt.DecidedRefuse, 1, attempt.ErrNotPaid)
	s.count(1)
	s.decided(s.pay(wants{startOnly: true}), attempt.DecidedStarted, 2, nil)
	for _, w := range []wants{{}, {asked: true}, {id: s.nth(2).ID}, {source: mastercard}} {
		d := s.decided(s.pay(w), attempt.DecidedRefuse, 0, attempt.ErrNotPaid)
		var notPaid *attempt.NotPaidError
		if !errors.As(d.Err, &notPaid) || notPaid.Reason != attempt.ReasonNotAsked {
			t.Errorf("error %v", d.Err)
		}
		s.is(2, attempt.StatusPrepared)
	}
}

// An open duty blocks the slot, whatever is prepared or wanted there.
func TestStart_OpenDutyBlocks(t *testing.T) {
	blocked := func(second func(*shop)) *shop {
		s := open(t)
		s.pay(wants{})
		s.end(1, lost())
		s.abandon(1)
		second(s)
		s.now = s.now.Add(time.Hour)
		s.webhook(1, succeeded("ch_1", asked)) // R9
		return s
	}
	all := []wants{{}, {source: mastercard}, {amount: 2999}, {startOnly: true}, {source: mastercard, startOnly: true}, {asked: true}, {again: newAttempt(1).ID}}

	s := blocked(func(*shop) {})
	for _, w := range all {
		d := s.decided(s.pay(w), attempt.DecidedTell, 1, nil)
		if told := d.Attempt.Tell(d.Now); told.Moved != attempt.MovedYes || !told.Open() {
			t.Errorf("told %+v", told)
		}
	}
	s.count(1)

	// The second attempt is prepared: it must not be sent beside the money, nor superseded.
	s = blocked(func(s *shop) { s.pay(wants{startOnly: true}) })
	for _, w := range all {
		s.decided(s.pay(w), attempt.DecidedTell, 1, nil)
	}
	for _, w := range []wants{{id: newAttempt(2).ID}, {id: newAttempt(2).ID, asked: true}} {
		d := s.decided(s.pay(w), attempt.DecidedTell, 1, nil) // the attempt that owes
		if told := d.Attempt.Tell(d.Now); told.Moved != attempt.MovedYes || !told.Open() {
			t.Errorf("told %+v", told)
		}
	}
	s.is(2, attempt.StatusPrepared)
	s.count(2)

	// The second attempt may have been sent: it is told, and not sent again.
	s = blocked(func(s *shop) { s.pay(wants{asked: true}); s.end(2, lost()) })
	for _, w := range []wants{{}, {startOnly: true}, {asked: true}, {id: newAttempt(2).ID}} {
		s.decided(s.pay(w), attempt.DecidedTell, 2, nil)
	}
	s.decided(s.pay(wants{source: mastercard}), attempt.DecidedRefuse, 2, attempt.ErrConflict)

	// The second attempt has paid: that is the answer.
	s = blocked(func(s *shop) { s.pay(wants{asked: true}); s.end(2, charged(succeeded("ch_2", asked))) })
	s.decided(s.pay(wants{}), attempt.DecidedTell, 2, nil)
	s.decided(s.pay(wants{source: mastercard}), attempt.DecidedRefuse, 2, attempt.ErrAlreadyPaid)

	// A duty of an attempt further back, behind a decline.
	s = open(t)
	s.pay(wants{})
	s.end(1, refused(true))
	s.pay(wants{source: mastercard})
	s.end(2, refused(true))
	s.webhook(1, succeeded("ch_1", asked))
	s.decided(s.pay(wants{source: mastercard}), attempt.DecidedTell, 1, nil)
	s.decided(s.pay(wants{amount: 2999}), attempt.DecidedTell, 1, nil)
}

// What a client must not be told twice: the decision of an earlier run of the step.
func TestStart_DecideRunsAgain(t *testing.T) {
	st := &attempt.Start{Slot: attempt.Slot{Order: "1001"}, Intent: attempt.Intent{Amount: asked, Source: visa}, Claim: claimLasts}
	st.New = func(int) (attempt.Attempt, error) { return attempt.Attempt{}, errors.New("no") }
	if _, err := st.Decide(attempt.View{Now: epoch}); err != nil || st.Decision.Err == nil {
		t.Fatal(err, st.Decision.Err)
	}
	paid := newAttempt(1)
	paid.Status, paid.Source = attempt.StatusApproved, mustDigest(t, attempt.Digester{}, visa)
	st.Provider = paid.Provider
	if _, err := st.Decide(attempt.View{Now: epoch, Attempts: []attempt.Attempt{paid}}); err != nil {
		t.Fatal(err)
	}
	if st.Decision.Err != nil || st.Decision.Kind != attempt.DecidedTell || st.Decision.Attempt.ID != paid.ID {
		t.Errorf("decision %+v", st.Decision)
	}
}

func mustDigest(t *testing.T, d attempt.Digester, s attempt.Source) attempt.Digest {
	t.Helper()
	digest, err := d.Digest(s)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func TestRecord(t *testing.T) {
	s := open(t)
	r := &attempt.Record{ID: newAttempt(1).ID}
	if err := s.store.Apply(context.Background(), r.Step(nil)); !errors.Is(err, attempt.ErrNotFound) {
		t.Errorf("no attempt: %v", err)
	}
	s.pay(wants{})
	s.now = s.now.Add(time.Second)
	r = &attempt.Record{ID: newAttempt(1).ID, Who: "shop-1", Evidence: attempt.Evidence{Kind: attempt.EvidenceSends, Fence: 1, Sends: []attempt.Send{lost()}}}
	step := r.Step(nil)
	if !step.Outcome {
		t.Error("evidence does not go before starts")
	}
	if err := s.store.Apply(context.Background(), step); err != nil {
		t.Fatal(err)
	}
	events, err := s.store.Events(context.Background(), newAttempt(1).ID)
	if err != nil || len(events) != 2 {
		t.Fatal(events, err)
	}
	e := events[1]
	if e.What != attempt.WhatLearnt || e.From != attempt.StatusSending || e.To != attempt.StatusUnknown || e.Who != "shop-1" ||
		e.Version != 2 || !e.At.Equal(s.now) || e.Evidence == nil || len(e.Evidence.Sends) != 1 || !e.Evidence.At.Equal(s.now) {
		t.Errorf("event %+v", e)
	}
	if r.Attempt.Version != 2 || r.Attempt.Status != attempt.StatusUnknown || !r.Now.Equal(s.now) {
		t.Errorf("record %+v", r)
	}
	// A clock that runs backwards does not take UpdatedAt along, through claims neither.
	s.now = s.now.Add(-time.Minute)
	s.learn(1, attempt.Evidence{Kind: attempt.EvidenceTime})
	if a := s.nth(1); !a.UpdatedAt.Equal(epoch.Add(time.Second)) {
		t.Errorf("updated at %v", a.UpdatedAt)
	}
}

func TestCheckWrites(t *testing.T) {
	slot := attempt.Slot{Order: "1001", Purpose: attempt.PurposeCharge}
	old := newAttempt(1)
	second := newAttempt(2)
	ended := newAttempt(3)
	ended.Status, ended.NextCheckAt = attempt.StatusDeclined, time.Time{}
	write := func(a attempt.Attempt, change func(*attempt.Attempt, *attempt.Event)) attempt.Write {
		a.Version++
		w := attempt.Write{Attempt: &a}
		e := attempt.Event{AttemptID: a.ID, Version: a.Version}
		change(w.Attempt, &e)
		if e.To == 0 {
			e.To = w.Attempt.Status
		}
		w.Event = e
		return w
	}
	fresh := func(a attempt.Attempt) attempt.Attempt { a.Version = 0; return a }
	keep := func(*attempt.Attempt, *attempt.Event) {}
	to := func(s attempt.Status) func(*attempt.Attempt, *attempt.Event) {
		return func(a *attempt.Attempt, _ *attempt.Event) { a.Status = s }
	}
	for _, c := range []struct {
		name   string
		before []attempt.Attempt
		writes []attempt.Write
		want   string // part of the error; empty: none
	}{
		{"nothing", []attempt.Attempt{old}, nil, ""},
		{"the first", nil, []attempt.Write{write(fresh(old), keep)}, ""},
		{"a change", []attempt.Attempt{old}, []attempt.Write{write(old, to(attempt.StatusSending))}, ""},
		{"superseded and started", []attempt.Attempt{old}, []attempt.Write{write(old, to(attempt.StatusAbandoned)), write(fresh(second), keep)}, ""},
		{"started beside an end", []attempt.Attempt{ended}, []attempt.Write{write(fresh(second), keep)}, ""},
		{"a second live one", []attempt.Attempt{old}, []attempt.Write{write(fresh(second), keep)}, "2 live attempts"},
		{"two new ones", nil, []attempt.Write{write(fresh(old), keep), write(fresh(second), keep)}, "2 live attempts"},
		{"an end undone", []attempt.Attempt{ended}, []attempt.Write{write(ended, to(attempt.StatusUnknown))}, "no legal move"},
		{"un-approved", []attempt.Attempt{func() attempt.Attempt { a := old; a.Status = attempt.StatusApproved; return a }()},
			[]attempt.Write{write(old, to(attempt.StatusDeclined))}, "no legal move"},
		{"unsent", []attempt.Attempt{func() attempt.Attempt { a := old; a.Status = attempt.StatusUnknown; return a }()},
			[]attempt.Write{write(old, to(attempt.StatusPrepared))}, ""},
		{"another slot", []attempt.Attempt{old}, []attempt.Write{write(old, func(a *attempt.Attempt, _ *attempt.Event) { a.Slot.Order = "1002" })}, "belongs to"},
		{"another key", []attempt.Attempt{old}, []attempt.Write{write(old, func(a *attempt.Attempt, _ *attempt.Event) { a.Key = "k" })}, "would change"},
		{"another reference", []attempt.Attempt{old}, []attempt.Write{write(old, func(a *attempt.Attempt, _ *attempt.Event) { a.Reference = "r" })}, "would change"},
		{"another amount", []attempt.Attempt{old}, []attempt.Write{write(old, func(a *attempt.Attempt, _ *attempt.Event) { a.Amount = lessMoney })}, "would change"},
		{"another source", []attempt.Attempt{old}, []attempt.Write{write(old, func(a *attempt.Attempt, _ *attempt.Event) { a.Source.Sum = "x" })}, "would change"},
		{"another description", []attempt.Attempt{old}, []attempt.Write{write(old, func(a *attempt.Attempt, _ *attempt.Event) { a.Description = "x" })}, "would change"},
		{"another provider", []attempt.Attempt{old}, []attempt.Write{write(old, func(a *attempt.Attempt, _ *attempt.Event) { a.Provider = "x" })}, "would change"},
		{"another account at the provider", []attempt.Attempt{old}, []attempt.Write{write(old, func(a *attempt.Attempt, _ *attempt.Event) { a.ProviderAccount = "x" })}, "would change"},
		{"another environment", []attempt.Attempt{old}, []attempt.Write{write(old, func(a *attempt.Attempt, _ *attempt.Event) { a.Environment = "x" })}, "would change"},
		{"created at another time", []attempt.Attempt{old}, []attempt.Write{write(old, func(a *attempt.Attempt, _ *attempt.Event) { a.CreatedAt = epoch.Add(1) })}, "would change"},
		{"written twice", []attempt.Attempt{old}, []attempt.Write{write(old, to(attempt.StatusAbandoned)), write(old, to(attempt.StatusSending)), write(fresh(second), keep)}, "twice"},
		{"an ordinal that is taken", []attempt.Attempt{ended}, []attempt.Write{write(fresh(second), func(a *attempt.Attempt, _ *attempt.Event) { a.Ordinal = 3 })}, "is taken"},
		{"another ordinal", []attempt.Attempt{old}, []attempt.Write{write(old, func(a *attempt.Attempt, _ *attempt.Event) { a.Ordinal = 7 })}, "would change"},
		{"a version left out", []attempt.Attempt{old}, []attempt.Write{write(old, func(a *attempt.Attempt, e *attempt.Event) { a.Version++; e.Version++ })}, "does not follow"},
		{"the same version", []attempt.Attempt{old}, []attempt.Write{write(old, func(a *attempt.Attempt, e *attempt.Event) { a.Version--; e.Version-- })}, "does not follow"},
		{"new at version 2", nil, []attempt.Write{write(old, keep)}, "does not follow"},
		{"the event of another attempt", []attempt.Attempt{old}, []attempt.Write{write(old, func(_ *attempt.Attempt, e *attempt.Event) { e.AttemptID = "x" })}, "do not fit"},
		{"the event of another version", []attempt.Attempt{old}, []attempt.Write{write(old, func(_ *attempt.Attempt, e *attempt.Event) { e.Version = 9 })}, "do not fit"},
		{"the event of another status", []attempt.Attempt{old}, []attempt.Write{write(old, func(_ *attempt.Attempt, e *attempt.Event) { e.To = attempt.StatusApproved })}, "do not fit"},
	} {
		err := attempt.CheckWrites(slot, attempt.View{Attempts: c.before}, c.writes)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// The errors say what to do with the money, and carry the attempt.
func TestErrors(t *testing.T) {
	a := newAttempt(1)
	cause := errors.New("dial refused")
	for _, c := range []struct {
		err  error
		is   []error
		says []string
	}{
		{&attempt.PaidError{Attempt: a}, []error{attempt.ErrAlreadyPaid}, []string{"1001", a.ID, "19.99 EUR", "nothing was sent"}},
		{&attempt.ConflictError{Attempt: a, Differs: "source"}, []error{attempt.ErrConflict}, []string{"1001", a.ID, "prepared", "source", "nothing was sent"}},
		{&attempt.NotPaidError{Attempt: a, Reason: attempt.ReasonNotFound}, []error{attempt.ErrNotPaid}, []string{"1001", "not_found", "no money moved under attempt " + a.ID}},
		{&attempt.NotPaidError{Attempt: a, Err: cause}, []error{attempt.ErrNotPaid, cause}, []string{"dial refused", "no money moved"}},
	} {
		wrapped := fmt.Errorf("pay: %w", c.err)
		all := []error{attempt.ErrAlreadyPaid, attempt.ErrConflict, attempt.ErrNotPaid, cause, attempt.ErrUnavailable, attempt.ErrNotFound}
		for _, target := range all {
			if want := slices.Contains(c.is, target); errors.Is(wrapped, target) != want {
				t.Errorf("%v: is %v: %v", c.err, target, !want)
			}
		}
		for _, text := range c.says {
			if !strings.Contains(c.err.Error(), text) {
				t.Errorf("%q does not say %q", c.err, text)
			}
		}
	}
}

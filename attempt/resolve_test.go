package attempt_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

func (s *shop) resolve(n, version int, r attempt.Resolution) (*attempt.Resolve, error) {
	s.t.Helper()
	if r.Why == "" {
		r.Why = "the provider's support says so"
	}
	step := &attempt.Resolve{ID: s.nth(n).ID, Version: version, Who: "an operator", Resolution: r, Schedule: &attempt.Schedule{Rule: *usualRule}}
	return step, s.store.Apply(s.t.Context(), step.Step())
}

var (
	held     = attempt.Charge{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: asked}
	heldLess = attempt.Charge{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: lessMoney}
	waiting  = attempt.Charge{ID: "ch_1", Status: attempt.ChargePending, Amount: asked}
)

// situations are those in which a person may be asked to decide.
var situations = map[string]func(*shop){
	"prepared":  func(s *shop) { s.pay(wants{startOnly: true}) },
	"in flight": func(s *shop) { s.pay(wants{}) },
	"unknown":   func(s *shop) { s.pay(wants{}); s.end(1, attempt.Send{}) },
	"asking has ended": func(s *shop) {
		s.pay(wants{})
		s.end(1, attempt.Send{})
		s.now = s.now.Add(8 * 24 * time.Hour)
		s.record(s.nth(1).ID, &attempt.Schedule{}, attempt.Evidence{Kind: attempt.EvidenceTime}, true)
	},
	"pending":   func(s *shop) { s.pay(wants{}); s.end(1, attempt.Send{}); s.webhook(1, waiting) },
	"different": func(s *shop) { s.pay(wants{}); s.end(1, attempt.Send{}); s.webhook(1, heldLess) },
	"approved":  func(s *shop) { s.pay(wants{}); s.end(1, attempt.Send{}); s.webhook(1, held) },
	"second charge": func(s *shop) {
		s.pay(wants{})
		s.end(1, attempt.Send{})
		s.webhook(1, held)
		s.webhook(1, attempt.Charge{ID: "ch_2", Status: attempt.ChargeSucceeded, Amount: asked})
	},
	"abandoned":  func(s *shop) { s.pay(wants{}); s.end(1, attempt.Send{}); s.abandon(1) },
	"late money": func(s *shop) { s.pay(wants{}); s.end(1, attempt.Send{}); s.abandon(1); s.webhook(1, held) },
	"reversed": func(s *shop) {
		s.pay(wants{})
		s.end(1, attempt.Send{})
		s.webhook(1, held)
		s.webhook(1, attempt.Charge{ID: "ch_1", Status: attempt.ChargeFailed, Amount: asked})
	},
	"cancelled with money": func(s *shop) { s.pay(wants{}); s.end(1, attempt.Send{}); s.webhook(1, held); s.cancel() },
}

// K7: what a person may decide, and what must be refused.
func TestResolve_K7(t *testing.T) {
	const (
		charged, notCharged, askAgain = attempt.ResolvedCharged, attempt.ResolvedNotCharged, attempt.ResolvedAskAgain
		refund, review                = attempt.ResolvedRefund, attempt.ResolvedReview
		keep, dismiss                 = attempt.ResolvedKeep, attempt.ResolvedDismiss
	)
	type ends map[attempt.ResolutionKind]attempt.Status // allowed, and the status afterwards
	const unknown, approved, abandoned = attempt.StatusUnknown, attempt.StatusApproved, attempt.StatusAbandoned
	allowed := map[string]ends{
		"prepared":             {},
		"in flight":            {},
		"unknown":              {charged: approved, notCharged: abandoned, askAgain: unknown},
		"asking has ended":     {charged: approved, notCharged: abandoned, askAgain: unknown},
		"pending":              {askAgain: unknown},
		"different":            {askAgain: unknown, refund: unknown, review: unknown, keep: abandoned},
		"approved":             {},
		"second charge":        {refund: approved, review: approved, dismiss: approved},
		"abandoned":            {charged: abandoned},
		"late money":           {refund: abandoned, review: abandoned, keep: abandoned, dismiss: abandoned},
		"reversed":             {review: approved, dismiss: approved},
		"cancelled with money": {refund: approved, review: approved, dismiss: approved},
	}
	for name, situation := range situations {
		for _, kind := range []attempt.ResolutionKind{charged, notCharged, askAgain, refund, review, keep, dismiss, "retry", ""} {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				s := open(t)
				situation(s)
				before := s.nth(1)
				r := attempt.Resolution{Kind: kind}
				switch {
				case name == "second charge" && kind != charged:
					r.ChargeID = "ch_2"
				case kind != notCharged && kind != askAgain:
					r.ChargeID = "ch_1"
				}
				step, err := s.resolve(1, before.Version, r)
				after := s.nth(1)
				want, ok := allowed[name][kind]
				if !ok {
					if !errors.Is(err, attempt.ErrNotResolvable) || after.Version != before.Version {
						t.Fatalf("want it refused: %v, version %d after %d", err, after.Version, before.Version)
					}
					return
				}
				if err != nil || after.Status != want || after.Version != before.Version+1 || step.Attempt.Version != after.Version {
					t.Fatalf("%v: %s, want %s: %+v", err, after.Status, want, after)
				}
				events, err := s.store.Events(t.Context(), after.ID)
				last := events[len(events)-1]
				if err != nil || last.What != attempt.WhatResolved || last.Who != "an operator" || last.Evidence.Resolution.Why == "" {
					t.Errorf("the history says %+v, %v", last, err)
				}
				switch kind {
				case askAgain:
					if !after.NextCheckAt.Equal(s.now) || !after.AskingEndedAt.IsZero() {
						t.Errorf("next %s, asking ended %s", after.NextCheckAt, after.AskingEndedAt)
					}
				case refund:
					if d, owed := after.OpenDuty(); !owed || d.Kind != attempt.DutyRefund || after.NextCheckAt.IsZero() {
						t.Errorf("nothing to refund: %+v", after)
					}
				case keep, dismiss:
					if d, owed := after.OpenDuty(); owed {
						t.Errorf("still owed: %+v", d)
					}
				}
			})
		}
	}
}

// A decision is taken on what a person saw. What has come since is news.
func TestResolve_NewerEvidence(t *testing.T) {
	s := open(t)
	situations["unknown"](s)
	seen := s.nth(1).Version
	s.webhook(1, held)
	step, err := s.resolve(1, seen, attempt.Resolution{Kind: attempt.ResolvedNotCharged})
	if !errors.Is(err, attempt.ErrNewerEvidence) || step.Attempt.Status != attempt.StatusApproved {
		t.Errorf("%v; %s is new", err, step.Attempt.Status)
	}
	if _, err := s.resolve(1, 0, attempt.Resolution{Kind: attempt.ResolvedNotCharged}); !errors.Is(err, attempt.ErrNotResolvable) {
		t.Errorf("without a version: %v", err)
	}
}

// Late money that is kept is the order's payment: nobody pays again, and nobody is told that nothing was paid.
func TestResolve_Kept(t *testing.T) {
	s := open(t)
	situations["late money"](s)
	if d := s.pay(wants{source: mastercard}); d.Kind != attempt.DecidedTell {
		t.Fatalf("with an open duty: %+v", d)
	}
	if _, err := s.resolve(1, 0, attempt.Resolution{Kind: attempt.ResolvedKeep, ChargeID: "ch_1"}); err != nil {
		t.Fatal(err)
	}
	for _, w := range []wants{{}, {source: mastercard}, {startOnly: true}} {
		if d := s.pay(w); !errors.Is(d.Err, attempt.ErrAlreadyPaid) {
			t.Errorf("%+v: %+v", w, d)
		}
	}
	if told := s.nth(1).Tell(s.now); told.Outcome != attempt.Approved || told.Moved != attempt.MovedYes || told.Reason != attempt.ReasonKept {
		t.Errorf("told %+v", told)
	}
	// The provider says so again: that is no news.
	s.webhook(1, held)
	if a := s.nth(1); len(a.Duties) != 1 {
		t.Errorf("duties %+v", a.Duties)
	}
}

// A decision that nothing was charged ends an attempt; money that turns up all the same is owed back.
func TestResolve_NotChargedAndYetIs(t *testing.T) {
	s := open(t)
	situations["unknown"](s)
	if _, err := s.resolve(1, 0, attempt.Resolution{Kind: attempt.ResolvedNotCharged, Proof: "ticket 4711"}); err != nil {
		t.Fatal(err)
	}
	s.webhook(1, held)
	s.owesRefund(1, attempt.WhyLateMoney)
}

// What was decided about surplus money does not turn back by itself.
func TestResolve_DecisionStands(t *testing.T) {
	s := open(t)
	situations["second charge"](s)
	s.cancel()
	if _, err := s.resolve(1, 0, attempt.Resolution{Kind: attempt.ResolvedReview, ChargeID: "ch_2"}); err != nil {
		t.Fatal(err)
	}
	s.webhook(1, held)
	for _, d := range s.nth(1).Duties {
		if want := map[string]attempt.DutyKind{"ch_1": attempt.DutyRefund, "ch_2": attempt.DutyReview}[d.ChargeID]; d.Kind != want {
			t.Errorf("charge %s: %s, want %s", d.ChargeID, d.Kind, want)
		}
	}
	s = open(t)
	situations["different"](s)
	s.cancel()
	if _, err := s.resolve(1, 0, attempt.Resolution{Kind: attempt.ResolvedReview, ChargeID: "ch_1"}); err != nil {
		t.Fatal(err)
	}
	s.webhook(1, heldLess)
	if d := s.nth(1).Duties[0]; d.Kind != attempt.DutyReview {
		t.Errorf("turned back into %s", d.Kind)
	}
}

// What a person writes is kept and shown for years: no card number gets into it.
func TestResolve_Texts(t *testing.T) {
	s := open(t)
	situations["unknown"](s)
	for _, r := range []attempt.Resolution{
		{Kind: attempt.ResolvedNotCharged, Why: "card 4111 1111 1111 1111 was not charged"},
		{Kind: attempt.ResolvedNotCharged, Why: "fine", Proof: "mail about 4111111111111111"},
		{Kind: attempt.ResolvedNotCharged, Why: "two\nlines"},
		{Kind: attempt.ResolvedNotCharged, Why: strings.Repeat("x", 501)},
		{Kind: attempt.ResolvedCharged, Why: "fine", ChargeID: "ch_\x00"},
	} {
		if _, err := s.resolve(1, 0, r); !errors.Is(err, attempt.ErrNotResolvable) || strings.Contains(err.Error(), "1111") {
			t.Errorf("%+v: %v", r, err)
		}
	}
	c := attempt.Cancel{Slot: s.slot(), Why: "card 4111 1111 1111 1111"}
	if err := c.Validate(); err == nil || strings.Contains(err.Error(), "1111") {
		t.Errorf("cancelled because of a card number: %v", err)
	}
}

package attempt

import (
	"fmt"
	"slices"
	"time"
)

// Void is the step that claims an attempt in order to cancel its charges at the provider: those that are not final. It grants
// the claim only where nobody else holds one and the provider holds such a charge, so that no request of ours can make
// another charge meanwhile. The claim ends as any other, with evidence of kind [EvidenceSends]: the charges that the
// provider has confirmed to be cancelled are in its Charges, as failed, and its Answer names the reason [ReasonVoided].
type Void struct {
	ID         string
	Who        string
	Claim      time.Duration // how long the claim lasts
	FirstCheck time.Duration // when the reconciler asks at the latest

	Granted bool    // once Apply has returned nil
	Attempt Attempt // with the claim, or as it stands without
	Now     time.Time
}

// Step returns the step to apply.
func (s *Void) Step() *Step { return &Step{ID: s.ID, Do: s.Do} }

// Do is the Do of the step.
func (s *Void) Do(v View) ([]Write, error) {
	a, ok := v.Find(s.ID)
	if !ok {
		return nil, fmt.Errorf("attempt %s: %w", s.ID, ErrNotFound)
	}
	s.Attempt, s.Now, s.Granted = a, v.Now, false
	open := a.Status == StatusUnknown || a.Status == StatusSending
	pending := slices.ContainsFunc(a.Charges, func(c Charge) bool { return c.Status == ChargePending })
	if !open || !pending || a.IsRefund() || !a.ClaimedUntil(v.Now).IsZero() {
		return nil, nil
	}
	first := s.FirstCheck
	if !a.UnwantedAt.IsZero() { // a charge that the provider does not cancel is tried ever more rarely, once a day at least
		first = max(first, min(v.Now.Sub(a.UnwantedAt)/2, 24*time.Hour))
	}
	s.Granted, s.Attempt = true, a.Grant(v.Now, s.Claim, first)
	return []Write{change(a.Version, a.Status, &s.Attempt, WhatClaimed, s.Who, v.Now, nil, nil)}, nil
}

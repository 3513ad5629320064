package attempt

import (
	"fmt"
	"slices"
	"time"
)

// Start decides what an intent may do with its slot. It is a pure decision over what the slot holds, to be run as a
// [Step]: Decide is the step's Do, and Decision is the answer once Apply has returned nil.
type Start struct {
	Slot            Slot
	Intent          Intent
	ID              string // only this attempt is sent, none is started; the intent then needs its Source only
	Refund          Refund // a refund instead of a payment: of the attempt it names, whose slot is then the step's
	Provider        string
	ProviderAccount string
	Environment     string

	Digester Digester
	Resend   Resend

	// New makes the slot's next attempt, or the refund's, identity, amount, digest and (with Claim) body included; ordinal
	// counts them from 1. Its error, of an intent that cannot be paid for instance, counts only where a new attempt would be
	// made. For a refund, RefundIntent tells what was completed.
	New func(ordinal int) (Attempt, error)
	// Render fills in Body and BodyDigest of a stored attempt that was never claimed before.
	Render func(*Attempt) error

	Claim         time.Duration // how long the claim to send lasts; zero: start only
	SendSpan      time.Duration // how long sending under the claim may take
	FirstCheck    time.Duration // when the reconciler asks first
	PreparedAfter time.Duration // when a prepared attempt is given up
	Who           string

	// CannotAsk says that the provider cannot be asked by reference: nothing is decided to be asked.
	CannotAsk bool
	// Asked says that the provider has just been asked about every attempt in question: what is not known now is not asked again.
	Asked bool

	// Unanswered are the ids of attempts about which the provider was asked in vain: they do not count as asked about.
	Unanswered []string

	Decision Decision

	whole View // all of the slot, as the last run saw it
	// Of a refund, as the last run completed them.
	refundCharge string
	refundID     string

	room  [1]Write // of the last run, where one write is all
	step  Step
	asked []string // ids of the attempts asked about so far, where Step is what asks for each decision
}

// Step returns the step to apply; its Do is Decide. A call decides anew each time it is applied; with Asked set, the
// attempts of the decision before count as those that were asked about.
func (s *Start) Step() *Step {
	if s.Decision.Kind == DecidedAsk {
		for _, a := range s.Decision.Ask {
			s.asked = append(s.asked, a.ID)
		}
	}
	s.step = Step{Slot: s.Slot, ID: s.ID, Fresh: s.ID == "", Do: s.Decide}
	if s.isRefund() {
		s.step.ID, s.step.Fresh = s.Refund.AttemptID, false
	}
	return &s.step
}

// DecisionKind says what a caller is to do.
type DecisionKind uint8

// What may be decided for an intent.
const (
	DecidedTell    DecisionKind = iota // nothing to do: the attempt as it stands is the answer
	DecidedSend                        // the attempt is claimed for the caller: send it
	DecidedStarted                     // the attempt is stored as prepared, new or found so; nobody sends it yet
	DecidedAsk                         // ask the provider about the attempts in Ask, record the answers, decide again
	DecidedRefuse                      // Err says why nothing was or will be sent
)

// Decision is what was decided for an intent.
type Decision struct {
	Kind    DecisionKind
	Attempt Attempt
	Now     time.Time
	Ask     []Attempt
	Err     error
	// Existing: the attempt is not one of this call.
	Existing bool
	// Reason says why an attempt that may have been sent is not sent now, where that is not in the attempt itself.
	Reason Reason
}

// Decide is the Do of the step. It decides in this order:
//
//  1. A slot whose order was cancelled takes nothing more: [CancelledError].
//  2. An approved attempt is the answer: told to an intent of the same amount and source, [PaidError] to any other, and
//     [RefundedError] to all where its money was given back. So is one whose late money stays as the order's payment.
//  3. An open duty of any attempt blocks the slot: nothing is sent beside money that should not be there.
//  4. Another live attempt decides next. The same amount and source take it up again, if it may be sent; otherwise the
//     provider is asked once, and the state that results decides. Anything else supersedes it while it is prepared; one
//     that may have been sent is asked about once and then refuses with [ConflictError]. During a claim nobody is asked.
//  5. An intent equal in amount and source to a declined or superseded attempt gets that one's result, unless Again names
//     the slot's newest attempt.
//  6. A new attempt starts.
//
// A refund is decided in the same way among the attempts of that refund; a new one takes no more than is left of the charge.
//
// Before the first send after an abandonment the provider is asked once more about every abandoned attempt.
func (s *Start) Decide(v View) ([]Write, error) {
	s.Decision, s.whole = Decision{Now: v.Now}, v
	switch {
	case s.isRefund():
		return s.refund(v)
	case s.ID != "":
		return s.withID(v)
	case !v.ClosedAt.IsZero():
		return s.cancelled(v, v.standing())
	}
	live, ok := v.Live()
	if ok && live.Status == StatusApproved {
		if c, _ := live.Charge(live.ChargeID); c.refundedInFull() {
			return s.refuse(live, &RefundedError{Attempt: live})
		}
		if s.differs(live) == "" {
			return s.tell(live)
		}
		return s.refuse(live, &PaidError{Attempt: live})
	}
	if owing, owed := owing(v); owed {
		return s.blocked(live, owing)
	}
	if kept, ok := kept(v); ok {
		return s.paidBy(kept)
	}
	if ok {
		return s.withLive(v, live)
	}
	if stood, ok := s.answeredBefore(v.Attempts); ok {
		return s.tell(stood)
	}
	return s.begin(v, nil)
}

func (s *Start) isRefund() bool { return s.Refund.AttemptID != "" }

// cancelled refuses: the order was cancelled.
func (s *Start) cancelled(v View, a Attempt) ([]Write, error) {
	slot := s.Slot
	if a.ID != "" {
		slot = a.Slot
	}
	return s.refuse(a, &CancelledError{Slot: slot, At: v.ClosedAt, Attempt: a})
}

// kept returns an attempt whose late money stays as the order's payment, or did until it was given back.
func kept(v View) (Attempt, bool) {
	for _, a := range v.Attempts {
		if a.Status.Final() && a.Status != StatusApproved && (a.keeps() || a.keptAndRefunded()) {
			return a, true
		}
	}
	return Attempt{}, false
}

// paidBy refuses because an attempt has paid the slot, by a decision about money found late.
func (s *Start) paidBy(a Attempt) ([]Write, error) {
	if !a.keeps() {
		return s.refuse(a, &RefundedError{Attempt: a})
	}
	return s.refuse(a, &PaidError{Attempt: a})
}

// owing returns an attempt of the slot with an open duty.
func owing(v View) (Attempt, bool) {
	for _, a := range v.Attempts {
		if _, owed := a.OpenDuty(); owed {
			return a, true
		}
	}
	return Attempt{}, false
}

// blocked decides for a slot with an open duty: nothing is sent, started or ended there.
func (s *Start) blocked(live, owing Attempt) ([]Write, error) {
	if live.ID == "" || live.Status == StatusPrepared {
		return s.tell(owing)
	}
	if differs := s.differs(live); differs != "" {
		return s.refuse(live, &ConflictError{Attempt: live, Differs: differs})
	}
	return s.tell(live)
}

// withLive decides for a slot whose live attempt is open.
func (s *Start) withLive(v View, live Attempt) ([]Write, error) {
	differs := s.differs(live)
	if live.Status == StatusPrepared {
		if differs == "" {
			return s.takeUp(v, live)
		}
		if stood, ok := s.answeredBefore(v.Attempts); ok {
			return s.tell(stood) // an old message again: it neither charges anew nor ends what came after it
		}
		return s.supersede(v, live)
	}
	if !live.ClaimedUntil(v.Now).IsZero() {
		if differs == "" {
			return s.tell(live)
		}
		return s.refuse(live, &ConflictError{Attempt: live, Differs: differs})
	}
	if differs == "" && s.Claim > 0 && v.maySend(live, s.Resend, s.SendSpan) {
		return s.takeUp(v, live)
	}
	if s.Claim > 0 && s.mayAsk() && s.ours(live) {
		return s.ask([]Attempt{live})
	}
	if differs != "" {
		return s.refuse(live, &ConflictError{Attempt: live, Differs: differs})
	}
	return s.tell(live)
}

func (s *Start) mayAsk() bool { return !s.Asked && !s.CannotAsk }

// differs says in what the intent is another than the attempt's; empty: in nothing.
func (s *Start) differs(a Attempt) string {
	switch {
	case !s.ours(a):
		return "provider"
	case a.Amount != s.Intent.Amount:
		return "amount"
	}
	if s.isRefund() {
		if a.Refund.ChargeID != s.refundCharge {
			return "charge"
		}
		return ""
	}
	if same, _ := s.Digester.Same(a.Source, s.Intent.Source); !same {
		return "source"
	}
	return ""
}

// ours tells whether the attempt is at the provider that this call can send to and ask.
func (s *Start) ours(a Attempt) bool {
	return a.Place() == Place{Provider: s.Provider, Account: s.ProviderAccount, Environment: s.Environment}
}

// answeredBefore returns the newest attempt that has answered this very intent: declined, or superseded by another.
// An attempt whose source cannot be compared any more is taken for the same, so that nothing is charged anew by a guess.
func (s *Start) answeredBefore(attempts []Attempt) (Attempt, bool) {
	if len(attempts) == 0 {
		return Attempt{}, false
	}
	newest := attempts[len(attempts)-1]
	if s.Intent.Again != "" && s.Intent.Again == newest.ID {
		return Attempt{}, false
	}
	for i := len(attempts) - 1; i >= 0; i-- {
		a := attempts[i]
		if a.Status != StatusDeclined && !(a.Status == StatusAbandoned && a.Reason == ReasonSuperseded) {
			continue
		}
		if a.Amount != s.Intent.Amount || !s.ours(a) {
			continue // another payment, or another place: what was declined there may be tried here
		}
		if s.isRefund() {
			if a.Refund.ChargeID == s.refundCharge {
				return a, true
			}
			continue
		}
		if same, known := s.Digester.Same(a.Source, s.Intent.Source); same || !known {
			return a, true
		}
	}
	return Attempt{}, false
}

// unconfirmed returns the abandoned attempts that may have been sent, if none has been sent since the last of them: before
// the first send after an abandonment the provider is asked once more about all of them.
func (s *Start) unconfirmed(attempts []Attempt) []Attempt {
	var ask []Attempt
	for _, a := range attempts {
		switch {
		case a.Status == StatusAbandoned && a.mayHaveBeenSent():
			ask = append(ask, a)
		case a.mayHaveBeenSent():
			ask = nil
		}
	}
	return ask
}

func (s *Start) tell(a Attempt) ([]Write, error) {
	s.Decision.Kind, s.Decision.Attempt, s.Decision.Existing = DecidedTell, a, true
	if a.Status == StatusPrepared {
		s.Decision.Kind = DecidedStarted
	}
	return nil, nil
}

func (s *Start) refuse(a Attempt, err error) ([]Write, error) {
	s.Decision.Kind, s.Decision.Attempt, s.Decision.Existing, s.Decision.Err = DecidedRefuse, a, true, err
	return nil, nil
}

func (s *Start) ask(about []Attempt) ([]Write, error) {
	s.Decision.Kind, s.Decision.Attempt, s.Decision.Existing, s.Decision.Ask = DecidedAsk, about[0], true, about
	return nil, nil
}

// confirm comes before a first send: if one is to follow an abandonment, the provider is asked once more about every
// abandoned attempt. Of one at another provider, account or environment this call cannot ask: then nothing is sent.
func (s *Start) confirm(v View, next Attempt) (decided bool) {
	if s.Claim <= 0 {
		return false
	}
	ask := s.unconfirmed(v.Attempts)
	for _, a := range ask {
		why := " at another provider, account or environment, and cannot be asked about from here"
		switch {
		case !s.ours(a):
		case s.CannotAsk:
			why = ", and the provider cannot be asked about it from here"
		default:
			continue
		}
		about := next
		if about.ID == "" {
			about = a
		}
		_, _ = s.refuse(about, &NotPaidError{Attempt: about, Reason: ReasonNotAsked, Err: fmt.Errorf("attempt %s was abandoned%s", a.ID, why)})
		return true
	}
	if len(ask) == 0 || s.Asked && s.askedAbout(ask) {
		return false
	}
	_, _ = s.ask(ask)
	return true
}

// askedAbout tells whether the questions before this decision were about all these attempts. They were not if the one asked
// about has turned out never to have been sent, and so does not stand between an abandonment and the next send any more.
func (s *Start) askedAbout(attempts []Attempt) bool {
	if slices.ContainsFunc(attempts, func(a Attempt) bool { return slices.Contains(s.Unanswered, a.ID) }) {
		return false
	}
	if s.asked == nil {
		return true
	}
	return !slices.ContainsFunc(attempts, func(a Attempt) bool { return !slices.Contains(s.asked, a.ID) })
}

// takeUp claims a stored attempt for the caller, or leaves it as it is where the call only starts.
func (s *Start) takeUp(v View, a Attempt) ([]Write, error) {
	if s.Claim <= 0 {
		return s.tell(a)
	}
	if a.Status == StatusPrepared && s.confirm(v, a) {
		return nil, nil
	}
	before := a
	if a.Body == nil {
		if err := s.Render(&a); err != nil {
			if a.Status == StatusPrepared {
				return s.refuse(before, &NotPaidError{Attempt: before, Reason: ReasonNotSent, Err: err})
			}
			return s.keep(before, ReasonBodyChanged, err)
		}
	}
	s.Decision.Kind, s.Decision.Existing = DecidedSend, true
	s.Decision.Attempt = a.Grant(v.Now, s.Claim, s.FirstCheck)
	return s.write(before.Version, before.Status, WhatClaimed, v.Now), nil
}

// write makes the write of the attempt that was decided for.
func (s *Start) write(version int, from Status, what What, now time.Time) []Write {
	s.room[0] = change(version, from, &s.Decision.Attempt, what, s.Who, now, nil, nil)
	return s.room[:]
}

// withID decides for an attempt that is to be sent by its id: the committed one, as it stands, and no other.
func (s *Start) withID(v View) ([]Write, error) {
	a, ok := v.Find(s.ID)
	if !ok {
		return nil, ErrNotFound
	}
	if a.IsRefund() {
		return nil, fmt.Errorf("%w: attempt %s is a refund, which is sent by asking for it again", ErrInvalidIntent, a.ID)
	}
	if !v.ClosedAt.IsZero() {
		return s.cancelled(v, a)
	}
	if _, owed := a.OpenDuty(); owed || a.Status.Final() || !a.ClaimedUntil(v.Now).IsZero() {
		return s.tell(a)
	}
	if !s.ours(a) {
		return s.keep(a, ReasonProviderChange, &ConflictError{Attempt: a, Differs: "provider"})
	}
	if same, known := s.Digester.Same(a.Source, s.Intent.Source); !same {
		if !known {
			return s.keep(a, ReasonSourceUnknown, fmt.Errorf("source: digest key %q: %w", a.Source.KeyID, ErrDigestKeyMissing))
		}
		return s.refuse(a, &ConflictError{Attempt: a, Differs: "source"})
	}
	if other, ok := kept(v); ok && a.Status == StatusPrepared {
		return s.paidBy(other)
	}
	if other, owed := owing(v); owed { // money is there that should not be: nothing is sent beside it
		if a.Status == StatusPrepared {
			return s.tell(other)
		}
		return s.keep(a, ReasonRefundOwed, nil)
	}
	if v.maySend(a, s.Resend, s.SendSpan) {
		return s.takeUp(v, a)
	}
	if s.mayAsk() {
		return s.ask([]Attempt{a})
	}
	if len(a.Charges) > 0 {
		return s.tell(a) // the attempt itself says what it waits for
	}
	return s.keep(a, ReasonNotSendable, nil)
}

// keep leaves an attempt unsent: an error where it was never sent, news of it where it may have been.
func (s *Start) keep(a Attempt, why Reason, err error) ([]Write, error) {
	if a.Status == StatusPrepared {
		return s.refuse(a, &NotPaidError{Attempt: a, Reason: why, Err: err})
	}
	s.Decision.Reason = why
	return s.tell(a)
}

// supersede ends a prepared attempt that nobody has claimed and starts the intent's own, in one change of the slot.
func (s *Start) supersede(v View, old Attempt) ([]Write, error) {
	after := old
	after.end(StatusAbandoned, ReasonSuperseded)
	ended := change(old.Version, old.Status, &after, WhatSuperseded, s.Who, v.Now, nil, nil)
	return s.begin(v, []Write{ended})
}

// begin makes the slot's next attempt, claimed at once where the call sends.
func (s *Start) begin(v View, before []Write) ([]Write, error) {
	if s.confirm(v, Attempt{}) {
		return nil, nil
	}
	slot := s.Slot
	if s.isRefund() {
		if e := s.refundable(before); e != nil {
			return s.refuse(e.Attempt, e)
		}
		charge, _ := s.whole.Find(s.Refund.AttemptID)
		slot = charge.Slot
	}
	a, err := s.New(len(v.Attempts) + 1)
	if err != nil {
		s.Decision.Kind, s.Decision.Err = DecidedRefuse, fmt.Errorf("%w: %w; nothing was stored or sent", ErrInvalidIntent, err)
		return nil, nil
	}
	a.Slot, a.Ordinal, a.Status, a.CreatedAt = slot, len(s.whole.Attempts)+len(s.whole.Refunds)+1, StatusPrepared, v.Now
	what := WhatStarted
	a.NextCheckAt = v.Now.Add(s.PreparedAfter)
	s.Decision.Kind = DecidedStarted
	if s.Claim > 0 {
		a = a.Grant(v.Now, s.Claim, s.FirstCheck)
		what = WhatStartedClaimed
		s.Decision.Kind = DecidedSend
	}
	s.Decision.Attempt = a
	w := s.write(0, StatusPrepared, what, v.Now)
	if len(before) > 0 {
		return append(before, w...), nil
	}
	return w, nil
}

// Record is the step that adds evidence to an attempt: Next, and the event that tells of it.
type Record struct {
	ID       string
	Evidence Evidence
	Who      string

	// Schedule plans when the attempt is looked at again; nil: as before. Due says that it was taken as due, so that its
	// next look has to be planned anew.
	Schedule *Schedule
	Due      bool
	Once     *Once // the evidence counts once, see Step

	Attempt Attempt   // the attempt after the evidence, once Apply has returned nil
	Duties  []Duty    // opened by it
	Now     time.Time // by the store's clock

	room [1]Write // of the last run
	step Step
}

// Step returns the step to apply. before is the attempt as the caller knows it, nil where it does not.
func (r *Record) Step(before *Attempt) *Step {
	if before != nil && before.IsRefund() {
		before = nil // what a refund brings to its charge is written with it
	}
	r.step = Step{ID: r.ID, Guess: before, Outcome: true, Do: r.Do, Once: r.Once}
	return &r.step
}

// Do is the Do of the step.
func (r *Record) Do(v View) ([]Write, error) {
	before, ok := v.Find(r.ID)
	if !ok {
		return nil, fmt.Errorf("attempt %s: %w", r.ID, ErrNotFound)
	}
	e := r.Evidence
	e.At = v.Now
	r.Attempt, r.Duties = Next(before, e)
	r.Now = v.Now
	if r.Schedule != nil {
		r.Schedule.plan(&r.Attempt, v.Now, r.Due)
	}
	r.room[0] = change(before.Version, before.Status, &r.Attempt, WhatLearnt, r.Who, v.Now, &e, r.Duties)
	if !before.IsRefund() {
		return r.room[:], nil
	}
	return v.withCharge(r.room[:], &r.Attempt, r.Schedule, r.Who), nil
}

package attempt_test

import (
	"slices"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

var sum1999 = asked // under a name that does not get in the way of a test's own

// plannedAttempt is an attempt of which one request was lost, and a store with its clock.
func plannedAttempt(t *testing.T) (*shop, attempt.Attempt) {
	t.Helper()
	s := open(t)
	d := s.pay(wants{})
	if d.Kind != attempt.DecidedSend {
		t.Fatalf("decided %+v", d)
	}
	s.record(d.Attempt.ID, nil, attempt.Evidence{Kind: attempt.EvidenceSends, Fence: d.Attempt.Fence, Sends: []attempt.Send{{}}}, false)
	return s, s.stored(d.Attempt.ID)
}

func (s *shop) stored(id string) attempt.Attempt {
	s.t.Helper()
	a, err := s.store.Attempt(s.t.Context(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func (s *shop) record(id string, schedule *attempt.Schedule, e attempt.Evidence, due bool) attempt.Attempt {
	s.t.Helper()
	r := &attempt.Record{ID: id, Evidence: e, Schedule: schedule, Due: due}
	if err := s.store.Apply(s.t.Context(), r.Step(nil)); err != nil {
		s.t.Fatal(err)
	}
	return r.Attempt
}

// asksWhenDue asks whenever the attempt is due and gets the same answer each time, until it is never due again or for so long.
// It returns when it was asked, counted from the first moment, and the attempt in the end.
func (s *shop) asksWhenDue(a attempt.Attempt, schedule *attempt.Schedule, answer attempt.LookupAnswer, forAll time.Duration) (asked []time.Duration, after attempt.Attempt) {
	s.t.Helper()
	began := s.now
	for range 10000 {
		if a.NextCheckAt.IsZero() || a.NextCheckAt.Sub(began) > forAll {
			return asked, a
		}
		s.now = a.NextCheckAt
		asked = append(asked, s.now.Sub(began))
		e := attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: answer, AskedAt: s.now}
		if answer == attempt.LookupNone {
			e.Rule = &schedule.Rule
		}
		a = s.record(a.ID, schedule, e, true)
	}
	s.t.Fatal("asked without end")
	return nil, a
}

// R1 and R2: the first question after 10 s, then every 5 s, abandoned when 40 s have passed since the last send.
func TestSchedule_R2_AbandonedAtTheFirstPossibleMoment(t *testing.T) {
	s, a := plannedAttempt(t)
	a.NextCheckAt = s.now.Add(10 * time.Second)
	schedule := &attempt.Schedule{
		First: 10 * time.Second, Waits: []time.Duration{5 * time.Second}, WatchFor: -1,
		Rule: attempt.AbandonRule{After: 40 * time.Second, Lag: time.Second},
	}
	asked, after := s.asksWhenDue(a, schedule, attempt.LookupNone, time.Hour)
	if after.Status != attempt.StatusAbandoned || after.Reason != attempt.ReasonNotFound {
		t.Fatalf("%s (%s) after questions at %v", after.Status, after.Reason, asked)
	}
	if last := asked[len(asked)-1]; last != 40*time.Second {
		t.Errorf("abandoned at %s: %v", last, asked)
	}
	if len(asked) < 6 || asked[0] != 10*time.Second {
		t.Errorf("asked at %v", asked)
	}
	for i := 1; i < len(asked)-1; i++ {
		if wait := asked[i] - asked[i-1]; wait < 5*time.Second || wait > 5500*time.Millisecond {
			t.Errorf("waited %s before question %d", wait, i+1)
		}
	}
}

func TestSchedule_DefaultWaits(t *testing.T) {
	s, a := plannedAttempt(t)
	schedule := &attempt.Schedule{First: firstCheck}
	asked, after := s.asksWhenDue(a, schedule, attempt.LookupUnreadable, 30*24*time.Hour)
	want := []time.Duration{time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 24 * time.Hour}
	if asked[0] != 2*time.Minute {
		t.Errorf("first asked at %s", asked[0])
	}
	for i, least := range want {
		if wait := asked[i+1] - asked[i]; wait < least || wait > least+least/10 {
			t.Errorf("wait %d: %s, want %s and at most a tenth more", i+1, wait, least)
		}
	}
	// Asking ends after seven days; the attempt stays open.
	if after.Status != attempt.StatusUnknown || after.AskingEndedAt.IsZero() || !after.NextCheckAt.IsZero() {
		t.Errorf("%s, asking ended at %s, next %s", after.Status, after.AskingEndedAt, after.NextCheckAt)
	}
	if last := asked[len(asked)-1]; last < 7*24*time.Hour || last > 8*24*time.Hour+3*time.Hour {
		t.Errorf("last asked at %s", last)
	}
	// Evidence of another kind still settles it.
	a = s.record(a.ID, schedule, attempt.Evidence{
		Kind: attempt.EvidenceSettlement, Charges: []attempt.Charge{{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: sum1999}},
	}, false)
	if a.Status != attempt.StatusApproved {
		t.Errorf("%s after a settlement line", a.Status)
	}
}

// A question that fails is no reason to abandon, at whatever age (R5).
func TestSchedule_R5_NothingClosesByAge(t *testing.T) {
	s, a := plannedAttempt(t)
	schedule := &attempt.Schedule{Rule: *usualRule}
	asked, after := s.asksWhenDue(a, schedule, attempt.LookupNotAsked, 30*time.Hour)
	if after.Status != attempt.StatusUnknown || len(asked) < 5 {
		t.Fatalf("%s after %v", after.Status, asked)
	}
	s.now = s.now.Add(time.Minute)
	after = s.record(a.ID, schedule, attempt.Evidence{
		Kind: attempt.EvidenceLookup, Lookup: attempt.LookupFound, AskedAt: s.now, Rule: usualRule,
		Charges: []attempt.Charge{{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: sum1999}},
	}, true)
	if after.Status != attempt.StatusApproved || !after.NextCheckAt.IsZero() {
		t.Errorf("%s, next %s", after.Status, after.NextCheckAt)
	}
}

// What was given up is watched on, ever more rarely, and for a limited time.
func TestSchedule_Watch(t *testing.T) {
	s, a := plannedAttempt(t)
	schedule := &attempt.Schedule{Rule: *usualRule}
	asked, after := s.asksWhenDue(a, schedule, attempt.LookupNone, 90*24*time.Hour)
	if after.Status != attempt.StatusAbandoned || !after.NextCheckAt.IsZero() {
		t.Fatalf("%s, next %s", after.Status, after.NextCheckAt)
	}
	ended := slices.IndexFunc(asked, func(d time.Duration) bool { return d >= 30*time.Minute })
	watch := asked[ended+1:]
	if len(watch) < 5 || len(watch) > 30 || watch[len(watch)-1] < 30*24*time.Hour {
		t.Errorf("watched at %v", watch)
	}
	// Late money is found by it (R9).
	s, a = plannedAttempt(t)
	_, a = s.asksWhenDue(a, schedule, attempt.LookupNone, 31*time.Minute)
	s.now = a.NextCheckAt
	schedule.Grace = time.Hour
	a = s.record(a.ID, schedule, attempt.Evidence{
		Kind: attempt.EvidenceLookup, Lookup: attempt.LookupFound, AskedAt: s.now, Rule: usualRule,
		Charges: []attempt.Charge{{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: sum1999}},
	}, true)
	if d, owed := a.OpenDuty(); !owed || d.Kind != attempt.DutyRefund || a.Status != attempt.StatusAbandoned {
		t.Fatalf("late money: %+v", a)
	}
	if want := s.now.Add(time.Hour); !a.NextCheckAt.Equal(want) {
		t.Errorf("the duty is due at %s, want after its grace at %s", a.NextCheckAt, want)
	}
}

// A provider that cannot be asked leaves an attempt to a person: nothing is abandoned, nothing is planned in vain.
func TestSchedule_CannotAsk(t *testing.T) {
	s := open(t)
	d := s.pay(wants{})
	s.now = s.now.Add(time.Hour)
	schedule := &attempt.Schedule{Rule: *usualRule, CannotAsk: true}
	a := s.record(d.Attempt.ID, schedule, attempt.Evidence{Kind: attempt.EvidenceTime, Rule: usualRule}, true)
	if a.Status != attempt.StatusUnknown || a.AskingEndedAt.IsZero() || !a.NextCheckAt.IsZero() {
		t.Errorf("%s, asking ended %s, next %s", a.Status, a.AskingEndedAt, a.NextCheckAt)
	}
}

// A prepared attempt is given up when its time has come, without a question.
func TestSchedule_Prepared(t *testing.T) {
	s := open(t)
	d := s.pay(wants{startOnly: true})
	schedule := &attempt.Schedule{Rule: *usualRule}
	s.now = s.now.Add(time.Hour)
	a := s.record(d.Attempt.ID, schedule, attempt.Evidence{Kind: attempt.EvidenceTime, Rule: usualRule}, true)
	if want := a.CreatedAt.Add(24 * time.Hour); a.Status != attempt.StatusPrepared || !a.NextCheckAt.Equal(want) {
		t.Fatalf("%s, next %s, want %s", a.Status, a.NextCheckAt, want)
	}
	s.now = a.NextCheckAt
	a = s.record(a.ID, schedule, attempt.Evidence{Kind: attempt.EvidenceTime, Rule: usualRule}, true)
	if a.Status != attempt.StatusAbandoned || a.Reason != attempt.ReasonNeverSent || !a.NextCheckAt.IsZero() {
		t.Errorf("%s (%s), next %s", a.Status, a.Reason, a.NextCheckAt)
	}
}

// When the question that could have ended an attempt has failed, the next ones come soon: the attempt is given up shortly after
// the provider answers again, and not a day later.
func TestSchedule_AbandonedSoonAfterAnOutage(t *testing.T) {
	s, a := plannedAttempt(t)
	schedule := &attempt.Schedule{Rule: *usualRule, WatchFor: -1}
	began := s.now
	_, a = s.asksWhenDue(a, schedule, attempt.LookupNotAsked, 6*time.Hour)
	healed := s.now
	_, a = s.asksWhenDue(a, schedule, attempt.LookupNone, 30*24*time.Hour)
	if a.Status != attempt.StatusAbandoned {
		t.Fatalf("%s", a.Status)
	}
	if outage, after := healed.Sub(began), s.now.Sub(healed); after > outage+10*time.Minute {
		t.Errorf("an outage of %s, abandoned %s after it", outage, after)
	}
}

// Nobody has asked for eight days. One answer is not enough to end it, and not the end of asking either.
func TestSchedule_AskingDoesNotEndBeforeTheSecondAnswer(t *testing.T) {
	s, a := plannedAttempt(t)
	schedule := &attempt.Schedule{Rule: *usualRule, WatchFor: -1}
	s.now = s.now.Add(8 * 24 * time.Hour)
	a.NextCheckAt = s.now
	asked, a := s.asksWhenDue(a, schedule, attempt.LookupNone, time.Hour)
	if a.Status != attempt.StatusAbandoned || len(asked) != 2 {
		t.Errorf("%s, asked at %v", a.Status, asked)
	}
	// One that failed ends it: a person decides.
	s, a = plannedAttempt(t)
	s.now = s.now.Add(8 * 24 * time.Hour)
	a.NextCheckAt = s.now
	if _, a = s.asksWhenDue(a, schedule, attempt.LookupNotAsked, time.Hour); a.AskingEndedAt.IsZero() {
		t.Errorf("%s, next %s", a.Status, a.NextCheckAt)
	}
}

// A customer who looks again and again, or a batch that waits for its end, makes no question come later.
func TestSchedule_OthersWhoAskPutNothingOff(t *testing.T) {
	s, a := plannedAttempt(t)
	schedule := &attempt.Schedule{First: firstCheck, Rule: *usualRule}
	pending := attempt.Charge{ID: "ch_1", Status: attempt.ChargePending, Amount: asked}
	ask := func(due bool) {
		a = s.record(a.ID, schedule, attempt.Evidence{
			Kind: attempt.EvidenceLookup, Lookup: attempt.LookupFound, AskedAt: s.now, Rule: usualRule, Charges: []attempt.Charge{pending},
		}, due)
	}
	for range 20 {
		s.now = s.now.Add(time.Second)
		ask(false)
	}
	s.now = a.NextCheckAt
	ask(true)
	if wait := a.NextCheckAt.Sub(s.now); wait > 70*time.Second {
		t.Errorf("asked again after %s", wait)
	}
}

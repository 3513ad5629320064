package sqlite

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// A row that somebody has spoilt is an error that names it, never an attempt.
func TestDamagedAttempts(t *testing.T) {
	for column, spoilt := range map[string]string{
		"status":        "'paid'",
		"currency":      "'XYZ'",
		"decimals":      "3", // the currency has another exponent than when it was written
		"version":       "-1",
		"sends":         "99999999999",
		"claims":        "'[{]'",
		"answer":        "'{\"verdict\":\"maybe\"}'",
		"charges":       "'[{\"id\":\"c\",\"status\":\"succeeded\",\"amount\":\"12.5 EUR\"}]'", // not as it was written
		"refusal":       "'[]'",
		"none_asked_at": "'[\"yesterday\"]'",
		"duties":        "'5'",
		"amount":        "'12.50'", // only where the table is not strict
		"created_at":    "'yesterday'",
	} {
		t.Run(column, func(t *testing.T) {
			s := testStore(t, testFile(t), Options{})
			good, bad := start(t, s, "good"), start(t, s, "bad")
			update := "UPDATE chargeonce_attempts SET " + column + " = " + spoilt + " WHERE id = ?"
			err := s.write.with(func(r *rawSession) error {
				if err := r.exec1(update, bad.ID); err == nil {
					return nil
				}
				// The table's types stand in the way: whoever rewrites the schema can do it all the same.
				for _, text := range []string{
					"PRAGMA writable_schema = ON",
					"UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name = 'chargeonce_attempts'",
					"PRAGMA writable_schema = RESET",
				} {
					if err := r.exec1(text); err != nil {
						return err
					}
				}
				return r.exec1(strings.Replace(update, "= '", "= 'x", 1), bad.ID)
			})
			if err != nil {
				t.Fatal(err)
			}
			named := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, attempt.ErrUnavailable) || !strings.Contains(err.Error(), bad.ID) ||
					!strings.Contains(err.Error(), "column "+column) && !(column == "amount" && strings.Contains(err.Error(), "column amount")) {
					t.Errorf("%s: %v, want attempt %s and column %s", what, err, bad.ID, column)
				}
			}
			got, err := s.Attempt(t.Context(), bad.ID)
			named("Attempt", err)
			if got.ID != "" {
				t.Errorf("Attempt gave %+v beside the error", got)
			}
			_, err = s.Slot(t.Context(), bad.Slot)
			named("Slot", err)
			outcome := approves(bad)
			err = s.Apply(t.Context(), outcome.Step(nil))
			named("Apply", err)
			again := starts("bad")
			named("Apply", s.Apply(t.Context(), &again.Step))
			n := 0
			for a, err := range s.List(t.Context(), attempt.Filter{}) {
				if n++; n == 1 && (err != nil || a.ID != good.ID) || n == 2 && err == nil {
					t.Errorf("List, %d: %s, %v", n, a.ID, err)
				}
				if n == 2 {
					named("List", err)
				}
			}
			if n != 2 {
				t.Errorf("List yielded %d times, want the good one and an error", n)
			}
			// The other attempts are served as before.
			outcome = approves(good)
			if err := s.Apply(t.Context(), outcome.Step(&good)); err != nil {
				t.Errorf("the good attempt: %v", err)
			}
			wantStatus(t, s, good.ID, attempt.StatusApproved, 2)
		})
	}
}

// One damaged attempt does not keep the reconciler from the others, and is told of when it is alone.
func TestTakeDueBesideDamage(t *testing.T) {
	clock := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	s := testStore(t, testFile(t), Options{Now: func() time.Time { return clock }})
	bad, good := start(t, s, "bad"), start(t, s, "good")
	err := s.write.with(func(r *rawSession) error {
		return r.exec1("UPDATE chargeonce_attempts SET status = 'sent' WHERE id = ?", bad.ID)
	})
	if err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(time.Hour)
	for _, want := range []int{0, 1, 0} { // the damaged one, the good one, none
		v, err := s.TakeDue(t.Context(), 1, time.Minute)
		if len(v.Attempts) != want || want == 1 && (err != nil || v.Attempts[0].ID != good.ID) {
			t.Fatalf("took %d, %v, want %d", len(v.Attempts), err, want)
		}
		if err != nil && !strings.Contains(err.Error(), bad.ID) {
			t.Error(err)
		}
	}
	clock = clock.Add(time.Hour)
	v, err := s.TakeDue(t.Context(), 10, time.Minute)
	if err != nil || len(v.Attempts) != 1 || v.Attempts[0].ID != good.ID {
		t.Errorf("took %d beside the damaged one: %v", len(v.Attempts), err)
	}
	clock = clock.Add(time.Second)
	if v, err := s.TakeDue(t.Context(), 10, time.Minute); err != nil || len(v.Attempts) != 0 {
		t.Errorf("took %d under the lease: %v", len(v.Attempts), err)
	}
	outcome := approves(good)
	if err := s.Apply(t.Context(), outcome.Step(nil)); err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(time.Hour)
	if _, err := s.TakeDue(t.Context(), 10, time.Minute); !errors.Is(err, attempt.ErrUnavailable) || !strings.Contains(err.Error(), bad.ID) {
		t.Errorf("the damaged attempt alone: %v", err)
	}
}

// The slot's row names its live attempt: a second writer that goes around the steps is found out.
func TestLiveAttemptIsGuarded(t *testing.T) {
	s := testStore(t, testFile(t), Options{})
	a := start(t, s, "1001")
	set := func(live any) {
		t.Helper()
		err := s.write.with(func(r *rawSession) error {
			return r.exec1("UPDATE chargeonce_slots SET live = ?", live)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	decline := func() *attempt.Record {
		return &attempt.Record{ID: a.ID, Evidence: attempt.Evidence{Kind: attempt.EvidenceSends, Fence: 1, Sends: []attempt.Send{{
			Kept: true, Answer: attempt.Answer{Verdict: attempt.Refused, Reason: attempt.ReasonDeclined},
		}}}}
	}
	set("somebody else")
	for _, known := range []*attempt.Attempt{&a, nil} {
		outcome := decline()
		if err := s.Apply(t.Context(), outcome.Step(known)); !errors.Is(err, attempt.ErrUnavailable) || !strings.Contains(err.Error(), "live attempt") {
			t.Errorf("the slot was freed of another's attempt: %v", err)
		}
	}
	wantStatus(t, s, a.ID, attempt.StatusSending, 1)
	set(a.ID)
	outcome := decline()
	if err := s.Apply(t.Context(), outcome.Step(&a)); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, a.ID, attempt.StatusDeclined, 2)
	start(t, s, "1001")
}

// The same for refunds: of one refund there is room for one live attempt, also for a writer that goes around the steps.
func TestLiveRefundIsGuarded(t *testing.T) {
	s := testStore(t, testFile(t), Options{})
	a := start(t, s, "1001")
	outcome := approves(a)
	if err := s.Apply(t.Context(), outcome.Step(&a)); err != nil {
		t.Fatal(err)
	}
	var refunds [2]attempt.Attempt
	for i, end := range []attempt.Status{attempt.StatusDeclined, attempt.StatusSending} {
		step := starts("1001")
		refund := &attempt.Step{ID: a.ID, Do: func(v attempt.View) ([]attempt.Write, error) {
			writes, err := step.Do(attempt.View{Now: v.Now})
			r := writes[0].Attempt
			r.Ordinal, r.Status = 2+i, end
			r.Refund = attempt.RefundOf{AttemptID: a.ID, ChargeID: "ch_" + a.ID, ID: "1"}
			writes[0].Event.To = end
			refunds[i] = *r
			return writes, err
		}}
		if err := s.Apply(t.Context(), refund); err != nil {
			t.Fatal(err)
		}
	}
	err := s.write.with(func(r *rawSession) error {
		return r.exec1("UPDATE chargeonce_attempts SET refund_live = 1, status = 'sending' WHERE id = ?", refunds[0].ID)
	})
	if err == nil || !strings.Contains(err.Error(), "UNIQUE") {
		t.Errorf("two live attempts of a refund: %v", err)
	}
	ended := &attempt.Record{ID: refunds[1].ID, Evidence: attempt.Evidence{Kind: attempt.EvidenceSends, Fence: 1, Sends: []attempt.Send{{
		Kept: true, Answer: attempt.Answer{Verdict: attempt.Refused, Reason: attempt.ReasonDeclined},
	}}}}
	if err := s.Apply(t.Context(), ended.Step(nil)); err != nil || ended.Attempt.Status != attempt.StatusDeclined {
		t.Fatalf("%s: %v", ended.Attempt.Status, err)
	}
	err = s.write.with(func(r *rawSession) error { // the place is free
		return r.exec1("UPDATE chargeonce_attempts SET refund_live = 1 WHERE id = ?", refunds[0].ID)
	})
	if err != nil {
		t.Errorf("an ended refund holds its place: %v", err)
	}
}

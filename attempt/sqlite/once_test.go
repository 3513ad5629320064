package sqlite

import (
	"errors"
	"fmt"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

func toldBy(id string) *attempt.Once {
	return &attempt.Once{Scope: "webhook", ID: id, Data: []byte("told by " + id)}
}

// C06 for what happens once: a commit whose answer is lost is read back, so that its own note is not taken for an earlier
// one, and nothing is counted as seen that is not there.
func TestC06OnceAfterAnAmbiguousCommit(t *testing.T) {
	for _, takeEffect := range []bool{false, true} {
		for _, believed := range []bool{false, true} {
			t.Run(fmt.Sprintf("took effect %v, believed %v", takeEffect, believed), func(t *testing.T) {
				s, f := faultyStore(t, testFile(t))
				ctx := t.Context()
				a := start(t, s, "1001")
				known := &a
				if !believed {
					known = nil
				}
				outcome := approves(a)
				outcome.Once = toldBy("1")
				nothing := &attempt.Step{ID: a.ID, Once: toldBy("2"), Do: func(attempt.View) ([]attempt.Write, error) { return nil, nil }}
				orphan := &attempt.Step{Once: toldBy("3")}
				never := attempt.Slot{Order: "never seen", Purpose: attempt.PurposeCharge}
				cancel := &attempt.Cancel{Slot: never, Who: "host", Why: "changed my mind"}
				for name, step := range map[string]*attempt.Step{
					"outcome": outcome.Step(known), "nothing to write": nothing, "orphan": orphan, "cancel": cancel.Step(),
				} {
					f.fault = failCommits(1, takeEffect)
					if err := s.Apply(ctx, step); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
				}
				f.fault = nil
				wantStatus(t, s, a.ID, attempt.StatusApproved, 2)
				if v, err := s.Slot(ctx, never); err != nil || !v.ClosedAt.Equal(cancel.View.ClosedAt) || cancel.Before {
					t.Errorf("closed at %s, told %s, before %v: %v", v.ClosedAt, cancel.View.ClosedAt, cancel.Before, err)
				}
				notes, err := s.Notes(ctx, attempt.NoteFilter{Scope: "webhook"})
				if err != nil || len(notes) != 3 || notes[0].AttemptID != a.ID || notes[1].AttemptID != a.ID || notes[2].AttemptID != "" {
					t.Errorf("notes %+v: %v", notes, err)
				}
				for _, id := range []string{"1", "2"} {
					again := &attempt.Record{ID: a.ID, Once: toldBy(id), Evidence: attempt.Evidence{Kind: attempt.EvidenceWebhook}}
					if err := s.Apply(ctx, again.Step(nil)); !errors.Is(err, attempt.ErrSeen) {
						t.Errorf("event %s again: %v", id, err)
					}
				}
			})
		}
	}
}

// Any statement may fail: then neither the note nor its effect is there, and the next try succeeds.
func TestOnceIsAllOrNothing(t *testing.T) {
	s, f := faultyStore(t, testFile(t))
	failed := 0
	for n := 1; ; n++ {
		a := start(t, s, fmt.Sprint(n))
		left := n
		f.fault = failStatements(&left)
		outcome := approves(a)
		outcome.Once = toldBy(fmt.Sprint(n))
		err := s.Apply(t.Context(), outcome.Step(&a))
		f.fault = nil
		if err == nil {
			if failed < 5 {
				t.Errorf("only %d statements were made to fail", failed)
			}
			return
		}
		failed++
		wantStatus(t, s, a.ID, attempt.StatusSending, 1)
		notes, notesErr := s.Notes(t.Context(), attempt.NoteFilter{Scope: "webhook", AttemptID: a.ID})
		if !errors.Is(err, attempt.ErrUnavailable) || notesErr != nil || len(notes) != 0 {
			t.Errorf("statement %d: %v, and %d notes: %v", n, err, len(notes), notesErr)
		}
		if err := s.Apply(t.Context(), outcome.Step(&a)); err != nil {
			t.Fatalf("statement %d: the next try: %v", n, err)
		}
	}
}

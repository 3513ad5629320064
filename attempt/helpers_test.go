package attempt_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func amountOf(minor int64, currency string) money.Amount {
	a, err := money.New(minor, currency)
	if err != nil {
		panic(err)
	}
	return a
}

var (
	asked     = amountOf(1999, "EUR") // what the attempts of these tests ask for
	lessMoney = amountOf(1500, "EUR")
	foreign   = amountOf(1999, "USD")
)

const (
	claimLasts = 15 * time.Second
	firstCheck = 2 * time.Minute
)

// usualRule is what a reconciler says of a provider whose lookups lag a minute.
var usualRule = &attempt.AbandonRule{After: 30 * time.Minute, Lag: time.Minute, PreparedAfter: 24 * time.Hour}

// keepsAll is a provider that keeps every answer for a day; keepsNone keeps none.
var (
	keepsAll  = attempt.Resend{KeepsEveryAnswer: true, Retention: 24 * time.Hour, Margin: time.Hour}
	keepsNone = attempt.Resend{Retention: 24 * time.Hour, Margin: time.Hour}
)

func newAttempt(n int) attempt.Attempt {
	id := fmt.Sprintf("01900000-0000-7000-8000-%012d", n)
	return attempt.Attempt{
		ID: id, Key: fmt.Sprintf("01900000-0000-7000-9000-%012d", n), Reference: "ord-" + id,
		Slot: attempt.Slot{Order: "1001", Purpose: attempt.PurposeCharge}, Ordinal: n, Amount: asked, Provider: "standard",
		Status: attempt.StatusPrepared, Version: 1, CreatedAt: epoch, UpdatedAt: epoch, NextCheckAt: epoch.Add(24 * time.Hour),
		Body: []byte(`{"amount":1999}`), BodyDigest: "d",
	}
}

// timeline tells one attempt's story and checks at each step what must hold at every step.
type timeline struct {
	t   *testing.T
	a   attempt.Attempt
	now time.Time
}

func begin(t *testing.T) *timeline {
	t.Helper()
	return &timeline{t: t, a: newAttempt(1), now: epoch}
}

func (x *timeline) after(d time.Duration) *timeline { x.now = x.now.Add(d); return x }

// claim grants a claim whatever the rules say: the tests are about what the record makes of it.
func (x *timeline) claim() int {
	x.t.Helper()
	before := x.a
	x.a = x.a.Grant(x.now, claimLasts, firstCheck)
	if !attempt.CanMove(before.Status, x.a.Status) {
		x.t.Fatalf("claimed in status %s", before.Status)
	}
	return x.a.Fence
}

// learn adds evidence through the step that stores apply, and its guard.
func (x *timeline) learn(e attempt.Evidence) *timeline {
	x.t.Helper()
	before := deepCopy(x.a)
	r := attempt.Record{ID: x.a.ID, Evidence: e}
	writes, err := r.Do(attempt.View{Now: x.now, Attempts: []attempt.Attempt{x.a}})
	if err != nil {
		x.t.Fatal(err)
	}
	if err := attempt.CheckWrites(x.a.Slot, attempt.View{Attempts: []attempt.Attempt{x.a}}, writes); err != nil {
		x.t.Fatal(err)
	}
	if !reflect.DeepEqual(before, x.a) {
		x.t.Fatalf("Next changed the attempt that it was given:\n%+v\n%+v", before, x.a)
	}
	x.a = r.Attempt
	checkAlways(x.t, x.a, x.now)
	return x
}

func (x *timeline) end(fence int, sends ...attempt.Send) *timeline {
	x.t.Helper()
	return x.learn(attempt.Evidence{Kind: attempt.EvidenceSends, Fence: fence, Sends: sends})
}

func (x *timeline) found(charges ...attempt.Charge) *timeline {
	x.t.Helper()
	return x.learn(attempt.Evidence{
		Kind: attempt.EvidenceLookup, Lookup: attempt.LookupFound, AskedAt: x.now, Charges: charges, Rule: usualRule,
	})
}

func (x *timeline) none() *timeline {
	x.t.Helper()
	return x.learn(attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: attempt.LookupNone, AskedAt: x.now, Rule: usualRule})
}

func (x *timeline) lookup(l attempt.LookupAnswer) *timeline {
	x.t.Helper()
	return x.learn(attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: l, AskedAt: x.now, Rule: usualRule})
}

func (x *timeline) webhook(charges ...attempt.Charge) *timeline {
	x.t.Helper()
	return x.learn(attempt.Evidence{Kind: attempt.EvidenceWebhook, Charges: charges})
}

func (x *timeline) time() *timeline {
	x.t.Helper()
	return x.learn(attempt.Evidence{Kind: attempt.EvidenceTime, Rule: usualRule})
}

func (x *timeline) is(s attempt.Status) *timeline {
	x.t.Helper()
	if x.a.Status != s {
		x.t.Fatalf("status %s (%s), want %s", x.a.Status, x.a.Reason, s)
	}
	return x
}

func (x *timeline) told(o attempt.Outcome, m attempt.Moved, why attempt.Reason) *timeline {
	x.t.Helper()
	if got, want := x.a.Tell(x.now), (attempt.Told{Outcome: o, Moved: m, Reason: why}); got != want {
		x.t.Fatalf("told %+v, want %+v", got, want)
	}
	return x
}

func (x *timeline) notPaid(why attempt.Reason) *timeline {
	x.t.Helper()
	if got, want := x.a.Tell(x.now), (attempt.Told{Moved: attempt.MovedNo, Reason: why, NotPaid: true}); got != want {
		x.t.Fatalf("told %+v, want %+v", got, want)
	}
	return x
}

// owes checks the open duties, as "kind why charge".
func (x *timeline) owes(want ...string) *timeline {
	x.t.Helper()
	var got []string
	for _, d := range x.a.Duties {
		if d.MetAt.IsZero() {
			got = append(got, fmt.Sprintf("%s %s %s", d.Kind, d.Why, d.ChargeID))
		}
	}
	if !slices.Equal(got, want) {
		x.t.Fatalf("owes %q, want %q", got, want)
	}
	return x
}

func (x *timeline) maySend(r attempt.Resend, want bool) *timeline {
	x.t.Helper()
	if got := x.a.MaySend(r, x.now, 3*time.Second); got != want {
		x.t.Fatalf("MaySend %v, want %v (%s, %d maybe, claims %v)", got, want, x.a.Status, x.a.MaybeSends, x.a.Claims)
	}
	return x
}

// fataler is a test or a property check.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkAlways holds what is true of every attempt at all times.
func checkAlways(t fataler, a attempt.Attempt, now time.Time) {
	t.Helper()
	told := a.Tell(now)
	if !a.Status.Final() && a.NextCheckAt.IsZero() && a.AskingEndedAt.IsZero() {
		t.Fatalf("open (%s) and nobody will look: no NextCheckAt, no AskingEndedAt", a.Status)
	}
	refund := slices.ContainsFunc(a.Duties, func(d attempt.Duty) bool { return d.Kind == attempt.DutyRefund && d.MetAt.IsZero() })
	if refund && a.NextCheckAt.IsZero() {
		t.Fatalf("owes a refund and nobody will pay it: %+v", a.Duties)
	}
	if a.Status.Final() && !a.NextCheckAt.IsZero() && len(a.Duties) == 0 {
		t.Fatalf("%s and still to be checked at %v", a.Status, a.NextCheckAt)
	}
	if told.NotPaid && told.Moved != attempt.MovedNo && told.Reason != attempt.ReasonResolved {
		t.Fatalf("not paid, but moved %s", told.Moved)
	}
	if (told.Outcome == attempt.Approved) != (a.Status == attempt.StatusApproved) {
		t.Fatalf("status %s told as %s", a.Status, told.Outcome)
	}
	if told.Moved == attempt.MovedNo {
		for _, c := range a.Charges {
			if c.Status != attempt.ChargeFailed && !metAll(a, c.ID) {
				t.Fatalf("told moved no (%s) while the provider holds %s, %s", a.Status, c.ID, c.Status)
			}
		}
	}
	if !a.Status.Final() && !told.NotPaid && !told.Open() {
		t.Fatalf("status %s told as if it had ended: %+v", a.Status, told)
	}
	if told.Reason == attempt.ReasonInFlight && a.ClaimedUntil(now).IsZero() {
		t.Fatalf("told in flight, and no claim runs (%s)", a.Status)
	}
}

// metAll tells whether every duty about a charge has been met, and there was one.
func metAll(a attempt.Attempt, id string) bool {
	met := false
	for _, d := range a.Duties {
		if d.ChargeID == id {
			if d.MetAt.IsZero() {
				return false
			}
			met = true
		}
	}
	return met
}

func deepCopy(a attempt.Attempt) attempt.Attempt {
	a.Body = slices.Clone(a.Body)
	a.Claims = slices.Clone(a.Claims)
	a.Charges = slices.Clone(a.Charges)
	a.NoneAskedAt = slices.Clone(a.NoneAskedAt)
	a.Duties = slices.Clone(a.Duties)
	return a
}

// Sends, as a classified answer or its absence gives them.

func sent(v attempt.Verdict, why attempt.Reason, status int) attempt.Send {
	return attempt.Send{Answer: attempt.Answer{Verdict: v, Reason: why, StatusCode: status}}
}

func lost() attempt.Send        { return sent(attempt.Lost, attempt.ReasonTimeout, 0) }
func notSent() attempt.Send     { return sent(attempt.NotSent, attempt.ReasonUnreachable, 0) }
func running() attempt.Send     { return sent(attempt.Running, attempt.ReasonStillRunning, 409) }
func unavailable() attempt.Send { return sent(attempt.Unavailable, attempt.ReasonUnavailable, 503) }
func rejected() attempt.Send    { return sent(attempt.Rejected, attempt.ReasonRefused, 401) }
func keyReused() attempt.Send   { return sent(attempt.KeyReused, attempt.ReasonKeyReused, 422) }
func violated() attempt.Send    { return sent(attempt.Violated, attempt.ReasonUnreadable, 200) }

func refused(kept bool) attempt.Send {
	s := sent(attempt.Refused, attempt.ReasonDeclined, 402)
	s.Kept = kept
	return s
}

func charged(c attempt.Charge) attempt.Send {
	s := sent(attempt.Charged, "", 201)
	s.Charge, s.ChargeID = &c, c.ID
	return s
}

func succeeded(id string, amount money.Amount) attempt.Charge {
	return attempt.Charge{ID: id, Status: attempt.ChargeSucceeded, Amount: amount}
}

func pending(id string) attempt.Charge {
	return attempt.Charge{ID: id, Status: attempt.ChargePending, Amount: asked}
}

func failed(id string) attempt.Charge {
	return attempt.Charge{ID: id, Status: attempt.ChargeFailed, Amount: asked, DeclineCode: "card_declined"}
}

func reversed(id string) attempt.Charge {
	return attempt.Charge{ID: id, Status: attempt.ChargeReversed, Amount: asked}
}

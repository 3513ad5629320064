package attempt_test

import (
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

func TestResend_Allows(t *testing.T) {
	const span = 3 * time.Second
	for _, c := range []struct {
		name    string
		resend  attempt.Resend
		maybe   int
		running bool
		age     time.Duration
		want    bool
	}{
		{"nothing can have been executed", attempt.Resend{}, 0, false, 0, true},
		{"nothing can have been executed, years ago", attempt.Resend{}, 0, false, 100000 * time.Hour, true},
		{"nothing can have been executed, clock behind", attempt.Resend{}, 0, false, -time.Hour, true},
		{"every answer is kept", keepsAll, 1, false, time.Minute, true},
		{"every answer is kept, many sends", keepsAll, 9, false, time.Minute, true},
		{"no answer is kept", keepsNone, 1, false, time.Minute, false},
		{"no answer is kept, and the first runs", keepsNone, 1, true, time.Minute, true},
		{"the first runs, too old", keepsNone, 1, true, 24 * time.Hour, false},
		{"the last moment", keepsAll, 1, false, 23*time.Hour - span, true},
		{"past the last moment", keepsAll, 1, false, 23*time.Hour - span + time.Microsecond, false},
		{"no retention is known", attempt.Resend{KeepsEveryAnswer: true}, 1, false, 0, false},
		{"the margin is longer than the retention", attempt.Resend{KeepsEveryAnswer: true, Retention: time.Hour, Margin: 2 * time.Hour}, 1, false, 0, false},
		{"the clock stands before the first claim", keepsAll, 1, false, -time.Microsecond, false},
	} {
		if got := c.resend.Allows(c.maybe, c.running, epoch, epoch.Add(c.age), span); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if keepsAll.Allows(1, false, time.Time{}, epoch, span) {
		t.Error("allowed although nobody knows when the key was first used")
	}
}

func TestGrant(t *testing.T) {
	before := newAttempt(1)
	before.Claims = make([]attempt.Claim, 1, 4)
	before.Claims[0] = attempt.Claim{Fence: 1, Until: epoch}
	before.Fence, before.FirstClaimAt = 1, epoch.Add(-time.Minute)
	one := before.Grant(epoch.Add(time.Second), claimLasts, firstCheck)
	two := before.Grant(epoch.Add(2*time.Second), claimLasts, firstCheck)
	if one.Fence != 2 || len(one.Claims) != 2 || !one.Claims[1].Until.Equal(epoch.Add(time.Second+claimLasts)) {
		t.Errorf("granted %+v", one.Claims)
	}
	if one.Claims[1] == two.Claims[1] {
		t.Error("two claims on copies of an attempt share memory")
	}
	if !one.FirstClaimAt.Equal(before.FirstClaimAt) {
		t.Error("the key's age counts from a later claim")
	}
	if first := newAttempt(1).Grant(epoch, claimLasts, firstCheck); !first.FirstClaimAt.Equal(epoch) || first.Status != attempt.StatusSending {
		t.Errorf("first claim: %+v", first)
	}
	if back := before.Grant(epoch.Add(-time.Hour), claimLasts, firstCheck); !back.UpdatedAt.Equal(epoch) {
		t.Errorf("UpdatedAt went back to %v", back.UpdatedAt)
	}
	if until := one.ClaimedUntil(epoch.Add(time.Second + claimLasts)); !until.IsZero() {
		t.Errorf("claimed until %v, at that very moment", until)
	}
	if until := one.ClaimedUntil(epoch.Add(claimLasts)); !until.Equal(epoch.Add(time.Second + claimLasts)) {
		t.Errorf("claimed until %v", until)
	}
}

package chance_test

import (
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/internal/chance"
)

func TestBelow(t *testing.T) {
	seen := make(map[time.Duration]bool)
	for range 1000 {
		d := chance.Below(3)
		if d < 0 || d >= 3 {
			t.Fatalf("got %d, want 0, 1 or 2", d)
		}
		seen[d] = true
	}
	if len(seen) != 3 {
		t.Errorf("1,000 draws below 3 gave only %v", seen)
	}
	for _, n := range []time.Duration{0, -1} {
		if d := chance.Below(n); d != 0 {
			t.Errorf("below %d: got %d, want 0", n, d)
		}
	}
}

func TestReplace(t *testing.T) {
	restore := chance.Replace(func(n int64) int64 { return n - 1 })
	if d := chance.Below(time.Minute); d != time.Minute-1 {
		t.Errorf("got %d, want what the replacement draws", d)
	}
	restore()
	for range 100 {
		if chance.Below(time.Hour) != time.Hour-1 {
			return
		}
	}
	t.Error("the replacement still draws")
}

//go:build amd64 || arm64

package crashrig

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
)

// audit holds ledger and store against each other after every death of the program, and remembers what was seen.
type audit struct {
	seen  map[string]attempt.Attempt // ended attempts, and those that had not, by id
	told  map[string]told            // final results, by order
	wrong []string
}

type told struct {
	Order      string `json:"order"`
	Outcome    string `json:"outcome"`
	ProviderID string `json:"provider_id"`
	Kind       string `json:"kind"` // of an attempt; empty: a row of pay
}

func newAudit() *audit {
	return &audit{seen: make(map[string]attempt.Attempt), told: make(map[string]told)}
}

func (u *audit) fail(format string, args ...any) {
	u.wrong = append(u.wrong, fmt.Sprintf(format, args...))
}

// hear takes what a run has printed, the line at which it was killed left off.
func (u *audit) hear(stdout string) {
	lines := bufio.NewScanner(strings.NewReader(stdout))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var now told
		if json.Unmarshal(lines.Bytes(), &now) != nil || now.Kind != "" || now.Outcome != "approved" && now.Outcome != "declined" {
			continue
		}
		if before, ok := u.told[now.Order]; ok && before != now {
			u.fail("order %s was told as %+v, and later as %+v", now.Order, before, now)
		}
		u.told[now.Order] = now
	}
}

// look reads both records. What must hold at any moment is checked.
func (u *audit) look(ctx context.Context, w *world) ([]attempt.Attempt, fakeprovider.Ledger, error) {
	ledger, err := w.bank.ledger() // before the store: what it knows by now must be there
	if err != nil {
		return nil, ledger, err
	}
	list, err := w.attempts(ctx)
	if err != nil {
		return nil, ledger, err
	}
	keys, references := make(map[string]bool), make(map[string]bool)
	now := make(map[string]bool)
	for _, a := range list {
		keys[a.Key], references[a.Reference], now[a.ID] = true, true, true
		before, ok := u.seen[a.ID]
		if ok && before.Status.Final() && before.Status != a.Status {
			u.fail("attempt %s was %s, and is %s", a.ID, before.Status, a.Status)
		}
		if ok && (before.Key != a.Key || before.Reference != a.Reference) {
			u.fail("attempt %s changed its key or its reference", a.ID)
		}
		u.seen[a.ID] = a
	}
	for id := range u.seen {
		if !now[id] {
			u.fail("attempt %s is lost", id)
		}
	}
	for _, q := range ledger.Requests {
		if q.Method == http.MethodPost && (q.Key == "" || !keys[q.Key]) {
			u.fail("the provider got %s with key %q, which is not stored", q.Path, q.Key)
		}
	}
	once := make(map[string]int)
	for _, c := range ledger.Charges {
		once["charge "+c.Reference]++
		if !references[c.Reference] {
			u.fail("charge %s has reference %s, which is not stored", c.ID, c.Reference)
		}
	}
	for _, r := range ledger.Refunds {
		once["refund "+r.Reference]++
	}
	for what, n := range once {
		if n > 1 {
			u.fail("%s is %d times in the ledger", what, n)
		}
	}
	return list, ledger, nil
}

// end checks how it all has ended: what ledger and store hold of each order.
func (u *audit) end(ctx context.Context, w *world, want map[string]ending) error {
	list, ledger, err := u.look(ctx, w)
	if err != nil {
		return err
	}
	byReference := make(map[string]attempt.Attempt)
	charges, refunds := make(map[string]attempt.Attempt), make(map[string][]attempt.Attempt)
	for _, a := range list {
		byReference[a.Reference] = a
		if a.IsRefund() {
			refunds[a.Refund.AttemptID] = append(refunds[a.Refund.AttemptID], a)
			continue
		}
		if other, ok := charges[a.Slot.Order]; ok {
			u.fail("order %s has two attempts, %s and %s", a.Slot.Order, other.ID, a.ID)
		}
		charges[a.Slot.Order] = a
	}
	held, back := make(map[string]fakeprovider.Charge), make(map[string]int64)
	for _, c := range ledger.Charges {
		order := byReference[c.Reference].Slot.Order
		if _, ok := held[order]; ok {
			u.fail("order %s is charged twice", order)
		}
		held[order] = c
	}
	for _, r := range ledger.Refunds {
		back[r.Charge] += r.Amount
	}
	for order, e := range want {
		a, ok := charges[order]
		if !ok {
			u.fail("order %s has no attempt", order)
			continue
		}
		c, charged := held[order]
		if a.Status != e.status || charged != e.charged {
			u.fail("order %s: attempt is %s, want %s; charged is %v, want %v", order, a.Status, e.status, charged, e.charged)
		}
		if a.Status == attempt.StatusApproved && (len(a.Charges) != 1 || a.Charges[0].ID != c.ID || a.Amount.Minor() != c.Amount) {
			u.fail("order %s is approved with %+v, the ledger has %+v", order, a.Charges, c)
		}
		for _, d := range a.Duties {
			if d.MetAt.IsZero() {
				u.fail("order %s: a %s is still owed", order, d.Kind)
			}
		}
		if back[c.ID] != e.back {
			u.fail("order %s: %d given back, want %d", order, back[c.ID], e.back)
		}
		n := 0
		for _, r := range refunds[a.ID] {
			if r.Status == attempt.StatusApproved {
				n++
			} else if !r.Status.Final() {
				u.fail("order %s: refund %s is %s", order, r.ID, r.Status)
			}
		}
		if (n == 1) != (e.back > 0) || n > 1 {
			u.fail("order %s: %d refunds are approved", order, n)
		}
		if t, ok := u.told[order]; ok && (t.Outcome != e.status.String() || t.Outcome == "approved" && t.ProviderID != c.ID) {
			u.fail("order %s was told as %+v, and ended as %s with charge %q", order, t, a.Status, c.ID)
		}
	}
	if len(held) > len(want) || len(charges) != len(want) {
		u.fail("%d orders are charged, %d have attempts, want %d", len(held), len(charges), len(want))
	}
	return nil
}

// ending is how an order must end.
type ending struct {
	status  attempt.Status
	charged bool
	back    int64 // given back, in minor units
}

package attempt_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/chargeonce/chargeonce/attempt"
)

// RFC 9562 section 4: version in the 13th digit, variant 10 in the 17th.
var (
	version7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	version8 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
)

func TestNewIdentity(t *testing.T) {
	seen, last := map[string]bool{}, ""
	for range 1000 {
		i, err := attempt.NewIdentity("shop-")
		if err != nil {
			t.Fatal(err)
		}
		if !version7.MatchString(i.ID) || !version7.MatchString(i.Key) || i.Reference != "shop-"+i.ID {
			t.Fatalf("identity %+v", i)
		}
		if seen[i.ID] || seen[i.Key] {
			t.Fatalf("given twice: %+v", i)
		}
		seen[i.ID], seen[i.Key] = true, true
		if i.ID <= last {
			t.Fatalf("%s after %s: does not sort by time", i.ID, last)
		}
		last = i.ID
	}
}

// After a lost store the same slot must get the same bytes, from every later release too.
func TestDeriveIdentity_Stable(t *testing.T) {
	namespace := uuid.MustParse("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
	for _, c := range []struct {
		slot    attempt.Slot
		ordinal int
		id, key string
	}{
		{attempt.Slot{Order: "1001", Purpose: "charge"}, 1, "97fec905-1b5a-8ebb-99a9-a17f80c61bb5", "04332d77-916a-8f19-abfd-4fcb14fe2c76"},
		{attempt.Slot{Account: "shop-a", Order: "1001", Purpose: "deposit"}, 2, "373ca593-fd74-8f96-a5de-d22b4ffdfc0b", "261de10b-813c-83fb-ac31-c6dc6bb88d1e"},
	} {
		i := attempt.DeriveIdentity(namespace, "shop-", c.slot, c.ordinal)
		if i.ID != c.id || i.Key != c.key || i.Reference != "shop-"+c.id {
			t.Errorf("%s #%d: %+v", c.slot, c.ordinal, i)
		}
	}
	named := attempt.DeriveIdentity(namespace, "", attempt.Slot{Order: "1001", Purpose: attempt.PurposeCharge}, 1)
	if unnamed := attempt.DeriveIdentity(namespace, "", attempt.Slot{Order: "1001"}, 1); unnamed != named {
		t.Errorf("the default purpose, named or not, is one slot: %+v, %+v", unnamed, named)
	}
}

// No two slots, ordinals or namespaces share an id or a key, however their texts are cut.
func TestDeriveIdentity_Injective(t *testing.T) {
	seen := map[string]string{}
	note := func(what, text string) {
		if other, ok := seen[text]; ok && other != what {
			t.Fatalf("%s and %s derive %s", what, other, text)
		}
		seen[text] = what
	}
	parts := []string{"", "a", "b", "ab", "a\x00", "aid", "key", "1", "11"}
	for n, namespace := range []uuid.UUID{uuid.Nil, uuid.Max} {
		for _, account := range parts {
			for _, order := range parts {
				for _, purpose := range parts {
					for _, ordinal := range []int{1, 2, 256} {
						slot := attempt.Slot{Account: account, Order: order, Purpose: purpose}
						i := attempt.DeriveIdentity(namespace, "", slot, ordinal)
						if !version8.MatchString(i.ID) || !version8.MatchString(i.Key) {
							t.Fatalf("identity %+v", i)
						}
						what := fmt.Sprintf("%d %q %q %q %d", n, account, order, purpose, ordinal)
						note(what+" id", i.ID)
						note(what+" key", i.Key)
					}
				}
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 12, 30)
		draw := func(label string) attempt.Slot {
			return attempt.Slot{Account: text.Draw(t, label+" account"), Order: text.Draw(t, label+" order"), Purpose: text.Draw(t, label+" purpose")}.WithDefaults()
		}
		one, two := draw("one"), draw("two")
		a, b := attempt.DeriveIdentity(uuid.Nil, "", one, 1), attempt.DeriveIdentity(uuid.Nil, "", two, 1)
		if (one == two) != (a == b) || a.ID == a.Key {
			t.Fatalf("%q and %q derive %+v and %+v", one, two, a, b)
		}
	})
	if strings.Contains(attempt.DeriveIdentity(uuid.Nil, "", attempt.Slot{Order: "secret"}, 1).Key, "secret") {
		t.Error("the key shows the order")
	}
}

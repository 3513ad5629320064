package attempt_test

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

type text interface {
	encoding.TextMarshaler
	fmt.Stringer
}

// Names are what stores and JSON hold: all of them, written and read back.
func TestNames(t *testing.T) {
	want := map[string]string{
		"verdict":       "lost not_sent charged refused rejected running unavailable violated key_reused",
		"charge status": "pending succeeded failed reversed",
		"lookup answer": "unreadable found none not_asked",
		"outcome":       "unknown approved declined contract_violation",
		"moved":         "maybe no yes",
	}
	names := map[string]func(uint8) text{
		"verdict":       func(n uint8) text { return attempt.Verdict(n) },
		"charge status": func(n uint8) text { return attempt.ChargeStatus(n) },
		"lookup answer": func(n uint8) text { return attempt.LookupAnswer(n) },
		"outcome":       func(n uint8) text { return attempt.Outcome(n) },
		"moved":         func(n uint8) text { return attempt.Moved(n) },
	}
	for what, named := range names {
		all := strings.Fields(want[what])
		for n, name := range all {
			v := named(uint8(n))
			out, err := v.MarshalText()
			if v.String() != name || string(out) != name || err != nil {
				t.Errorf("%s %d is written %q and %q, want %q", what, n, v, out, name)
			}
		}
		beyond := named(uint8(len(all))).String()
		if beyond == "" || strings.Contains(" "+want[what]+" ", " "+beyond+" ") {
			t.Errorf("%s: an undefined one is named %q", what, beyond)
		}
	}
	for _, v := range []encoding.TextUnmarshaler{new(attempt.Verdict), new(attempt.ChargeStatus), new(attempt.LookupAnswer), new(attempt.Status)} {
		for _, bad := range []string{"", "Found", "9", "verdict(9)"} {
			if err := v.UnmarshalText([]byte(bad)); err == nil {
				t.Errorf("%T reads %q", v, bad)
			}
		}
		if !reflect.ValueOf(v).Elem().IsZero() {
			t.Errorf("%T changed by an error", v)
		}
	}
}

// The audit trail must be readable for as long as it is kept: what is written comes back.
func TestEvidence_JSON(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	act := pending("ch_2")
	act.NextAction = "https://bank.example/3ds"
	s := charged(act)
	s.StartedAt, s.Took, s.Kept, s.Replayed, s.RequestID, s.Detail = at, 3*time.Second, true, true, "req_1", "amount: missing"
	all := []attempt.Evidence{
		{Kind: attempt.EvidenceSends, Fence: 2, Sends: []attempt.Send{s, lost(), notSent(), refused(true), keyReused()}},
		{Kind: attempt.EvidenceWebhook, Charges: []attempt.Charge{{ID: "ch_1", Status: attempt.ChargeSucceeded}, failed("ch_3"), reversed("ch_4")}},
		{Kind: attempt.EvidenceTime},
	}
	for _, l := range []attempt.LookupAnswer{attempt.LookupUnreadable, attempt.LookupFound, attempt.LookupNone, attempt.LookupNotAsked} {
		all = append(all, attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: l, AskedAt: at, Answer: &attempt.Answer{Verdict: attempt.Unavailable, StatusCode: 503}})
	}
	for _, e := range all {
		out, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back attempt.Evidence
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if !reflect.DeepEqual(e, back) {
			t.Errorf("written %+v\nread    %+v\n%s", e, back, out)
		}
		if strings.Contains(string(out), "0001-01-01") || strings.Contains(string(out), "no amount") {
			t.Errorf("zero values are written out: %s", out)
		}
	}
}

func FuzzEvidence_UnmarshalJSON(f *testing.F) {
	for _, seed := range []string{
		`{"kind":"sends","fence":1,"sends":[{"verdict":"refused","kept":true,"reason":"declined"}]}`,
		`{"kind":"lookup","lookup":"none","asked_at":"2026-03-01T12:00:00Z"}`,
		`{"kind":"webhook","charges":[{"id":"ch_1","status":"succeeded","amount":"19.99 EUR"}]}`,
		`{"lookup":"maybe"}`, `{"sends":[{"verdict":7}]}`, `null`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		var e attempt.Evidence
		if json.Unmarshal([]byte(in), &e) != nil {
			return
		}
		out, err := json.Marshal(e)
		if err != nil {
			return // a time beyond the year 9999
		}
		var back attempt.Evidence
		if err := json.Unmarshal(out, &back); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		again, err := json.Marshal(back)
		if err != nil || string(again) != string(out) {
			t.Fatalf("%s is read and written as %s (%v)", out, again, err)
		}
		// Whatever was stored, it can be folded.
		e.At = epoch
		a, _ := attempt.Next(newAttempt(1), e)
		if !attempt.CanMove(attempt.StatusPrepared, a.Status) {
			t.Fatalf("moved to %s", a.Status)
		}
	})
}

func FuzzUnmarshalText(f *testing.F) {
	for _, seed := range []string{"lost", "charged", "pending", "reversed", "found", "not_asked", "approved", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for _, v := range []interface {
			encoding.TextUnmarshaler
			text
		}{new(attempt.Verdict), new(attempt.ChargeStatus), new(attempt.LookupAnswer), new(attempt.Status)} {
			if v.UnmarshalText([]byte(in)) == nil && v.String() != in {
				t.Fatalf("%T reads %q as %q", v, in, v)
			}
		}
	})
}

func TestTold_Open(t *testing.T) {
	for _, c := range []struct {
		told attempt.Told
		want bool
	}{
		{attempt.Told{}, true},
		{attempt.Told{Outcome: attempt.UnknownOutcome, Moved: attempt.MovedYes}, true},
		{attempt.Told{Outcome: attempt.ContractViolation}, true},
		{attempt.Told{Outcome: attempt.ContractViolation, Moved: attempt.MovedYes}, true},
		{attempt.Told{Outcome: attempt.ContractViolation, Moved: attempt.MovedNo}, false},
		{attempt.Told{Outcome: attempt.Approved, Moved: attempt.MovedYes}, false},
		{attempt.Told{Outcome: attempt.Declined, Moved: attempt.MovedNo}, false},
		{attempt.Told{Moved: attempt.MovedNo, NotPaid: true}, false},
	} {
		if got := c.told.Open(); got != c.want {
			t.Errorf("%+v: open %v", c.told, got)
		}
	}
}

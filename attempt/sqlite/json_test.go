package sqlite

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// What is written by hand is what encoding/json writes, field by field and character by character.
func TestJSONTextIsEncodingJSON(t *testing.T) {
	if !handWritten {
		t.Error("a field was added to a type that jsonText writes: encoding/json does its work until jsonText knows the field")
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 60_000, time.UTC)
	amount := money.MustParse("12.50", "EUR")
	answer := attempt.Answer{
		Verdict: attempt.Violated, Reason: attempt.ReasonMismatch, StatusCode: 201, RequestID: "req", Code: "c", DeclineCode: "d",
		ChargeID: "ch", Detail: "amount: 1 <> 2 & \"3\" \\ \u2028 \u00fc \U0001F4B3 \x00\x1f\x7f \xff", MoneyMoved: true, Replayed: true,
	}
	charge := attempt.Charge{
		ID: "ch_1", Status: attempt.ChargeReversed, Amount: amount, DeclineCode: "d", NextAction: "https://example.com/?a=1&b=<2>",
		SeenAt: at, Answered: true, ChangedAt: at.Add(1), Refunded: math.MaxInt64, FailedFirst: true,
	}
	send := attempt.Send{StartedAt: at.Add(1), Took: time.Hour + 1, Kept: true, Charge: &charge, Answer: answer}
	evidence := attempt.Evidence{
		Kind: attempt.EvidenceSends, Fence: 7, Sends: []attempt.Send{send, {}}, Overdue: true, Lookup: attempt.LookupNone, AskedAt: at,
		Charges: []attempt.Charge{charge, {}}, Answer: &answer,
		Resolution: &attempt.Resolution{Kind: attempt.ResolvedKeep, ChargeID: "ch", Why: "a < b & \"c\"", Proof: "\xff"},
	}
	claim := attempt.Claim{Fence: math.MaxInt, Until: at.In(time.FixedZone("", 3*3600+1800))}
	for _, v := range []any{answer, charge, send, claim, evidence} { // so that a field that is added is tried here too
		for f, i := reflect.ValueOf(v), 0; i < f.NumField(); i++ {
			if f.Type().Field(i).Tag.Get("json") != "-" && f.Field(i).IsZero() {
				t.Errorf("%T.%s is not tried", v, f.Type().Field(i).Name)
			}
		}
	}
	compare(t, appendAnswer, answer, attempt.Answer{}, attempt.Answer{Verdict: 99})
	compare(t, appendCharge, charge, attempt.Charge{}, attempt.Charge{Amount: money.MustParse("80", "JPY")})
	compare(t, appendSend, send, attempt.Send{}, attempt.Send{Took: -1})
	compare(t, appendClaim, claim, attempt.Claim{})
	compare(t, appendEvidence, evidence, attempt.Evidence{}, attempt.Evidence{Answer: &attempt.Answer{}})
}

func compare[T any](t *testing.T, write func(*jsonText, *T), values ...T) {
	t.Helper()
	for _, v := range values {
		want, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var got jsonText
		write(&got, &v)
		if got.err != nil || string(got.b) != string(want) {
			t.Errorf("%T:\n got %s\nwant %s\n%v", v, got.b, want, got.err)
		}
	}
}

// What JSON cannot hold is the step's own error, before anything is written.
func TestTimesThatCannotBeStored(t *testing.T) {
	s := testStore(t, testFile(t), Options{})
	good, step := starts("good"), starts("bad")
	do := step.Do
	step.Do = func(v attempt.View) ([]attempt.Write, error) {
		writes, err := do(v)
		writes[0].Attempt.Claims[0].Until = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
		return writes, err
	}
	if err := s.Apply(t.Context(), &step.Step, &good.Step); err == nil || step.Err == nil || good.Err != nil {
		t.Errorf("the year 10000: %v, beside it: %v", step.Err, good.Err)
	}
	if v, err := s.Slot(t.Context(), step.Slot); err != nil || len(v.Attempts) != 0 {
		t.Errorf("it was written: %v", err)
	}
	wantStatus(t, s, good.got.ID, attempt.StatusSending, 1)
}

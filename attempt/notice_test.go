package attempt_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

func paidNotice() attempt.Notice {
	return attempt.Notice{
		ID: "evt_1", Type: "charge.succeeded", Reference: newAttempt(1).Reference,
		Charge: attempt.Charge{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: asked},
	}
}

func TestNoticeEvidenceHoldsOnlyWhatAProviderCanSay(t *testing.T) {
	n := paidNotice()
	n.Charge.DeclineCode, n.Charge.NextAction = "code", "https://bank.example/3ds"
	want := n.Charge
	n.Charge.SeenAt, n.Charge.Answered, n.Charge.Refunded, n.Charge.FailedFirst = time.Unix(1, 0), true, 1999, true
	got := n.Evidence(attempt.EvidenceWebhook, true)
	if len(got.Charges) != 1 || got.Charges[0] != want {
		t.Errorf("charges %+v, want only %+v", got.Charges, want)
	}
	if got.Kind != attempt.EvidenceWebhook || !got.KeepsAnswers || got.Lookup != attempt.LookupUnreadable || got.Rule != nil {
		t.Errorf("evidence %+v", got)
	}
	got = n.Evidence(attempt.EvidenceLookup, false)
	if got.Kind != attempt.EvidenceLookup || got.Lookup != attempt.LookupFound || got.KeepsAnswers || !got.AskedAt.IsZero() {
		t.Errorf("evidence %+v", got)
	}
}

// A webhook approves while the claim runs; what it says of a failure waits for the claim's end.
func TestNoticeDuringAClaim(t *testing.T) {
	x := begin(t)
	x.claim()
	failed := paidNotice()
	failed.Charge.Status, failed.Charge.DeclineCode = attempt.ChargeFailed, "do_not_honor"
	x.learn(failed.Evidence(attempt.EvidenceWebhook, true)).is(attempt.StatusSending)
	paid := paidNotice()
	paid.Charge.ID = "ch_2"
	x.learn(paid.Evidence(attempt.EvidenceWebhook, true)).is(attempt.StatusApproved)
}

func TestNoticeIsReadBackAsWritten(t *testing.T) {
	for _, n := range []attempt.Notice{
		paidNotice(),
		{Reference: "somebody else's", Refund: true, Charge: attempt.Charge{ID: "re_1", Status: attempt.ChargeFailed, DeclineCode: "x"}},
	} {
		text, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		var back attempt.Notice
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(n, back) {
			t.Errorf("%+v\nread back as %+v", n, back)
		}
	}
}

func TestNoticeValidate(t *testing.T) {
	if err := paidNotice().Validate(); err != nil {
		t.Error(err)
	}
	if err := (attempt.Notice{Charge: attempt.Charge{ID: "x"}}).Validate(); err != nil {
		t.Errorf("a listing's entry without a reference: %v", err)
	}
	for name, spoil := range map[string]func(*attempt.Notice){
		"charge id":     func(n *attempt.Notice) { n.Charge.ID = "" },
		"event id":      func(n *attempt.Notice) { n.ID = strings.Repeat("e", attempt.MaxNoticeIDLength+1) },
		"type":          func(n *attempt.Notice) { n.Type = "a\nb" },
		"reference":     func(n *attempt.Notice) { n.Reference = strings.Repeat("r", attempt.MaxReferenceLength+1) },
		"decline code":  func(n *attempt.Notice) { n.Charge.DeclineCode = "a\x00" },
		"next action":   func(n *attempt.Notice) { n.Charge.NextAction = strings.Repeat("u", attempt.MaxNextActionLength+1) },
		"charge status": func(n *attempt.Notice) { n.Charge.Status = 99 },
		"card number":   func(n *attempt.Notice) { n.Charge.DeclineCode = "card 4111 1111 1111 1111 refused" },
	} {
		t.Run(name, func(t *testing.T) {
			n := paidNotice()
			spoil(&n)
			err := n.Validate()
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%v, want a complaint about the %s", err, name)
			}
			if err != nil && strings.Contains(err.Error(), "4111") {
				t.Errorf("the complaint shows the number: %v", err)
			}
		})
	}
}

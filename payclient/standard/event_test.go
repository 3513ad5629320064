package standard_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

const (
	chargeEvent = `{"id":"evt_000001","type":"charge.succeeded","created":"2026-03-01T12:00:00Z","data":{"id":"ch_000001","status":"succeeded",` +
		`"amount":54890,"currency":"TRY","merchant_reference":"ref-1","created":"2026-03-01T12:00:00Z"}}`
	refundEvent = `{"id":"evt_000002","type":"refund.failed","created":"2026-03-01T12:00:00Z","data":{"id":"re_000001","status":"failed",` +
		`"amount":4890,"currency":"TRY","merchant_reference":"ref-2","charge":"ch_000001","decline_code":"expired_card"}}`
)

func TestReadEvent(t *testing.T) {
	for _, tt := range []struct {
		payload string
		want    attempt.Notice
	}{
		{chargeEvent, attempt.Notice{ID: "evt_000001", Type: "charge.succeeded", Reference: "ref-1", Charge: attempt.Charge{
			ID: "ch_000001", Status: attempt.ChargeSucceeded, Amount: money.MustParse("548.90", "TRY"),
		}}},
		{refundEvent, attempt.Notice{ID: "evt_000002", Type: "refund.failed", Reference: "ref-2", Refund: true, Charge: attempt.Charge{
			ID: "re_000001", Status: attempt.ChargeFailed, Amount: money.MustParse("48.90", "TRY"), DeclineCode: "expired_card",
		}}},
		{strings.Replace(chargeEvent, `"ref-1"`, `"ref-1","next_action":{"type":"redirect","url":"https://payer.invalid/1"},"new":[1]`, 1),
			attempt.Notice{ID: "evt_000001", Type: "charge.succeeded", Reference: "ref-1", Charge: attempt.Charge{
				ID: "ch_000001", Status: attempt.ChargeSucceeded, Amount: money.MustParse("548.90", "TRY"), NextAction: "https://payer.invalid/1",
			}}},
		{strings.Replace(chargeEvent, `"ref-1"`, `null`, 1), attempt.Notice{ID: "evt_000001", Type: "charge.succeeded", Charge: attempt.Charge{
			ID: "ch_000001", Status: attempt.ChargeSucceeded, Amount: money.MustParse("548.90", "TRY"),
		}}},
	} {
		got, err := standard.ReadEvent([]byte(tt.payload))
		if err != nil || got != tt.want {
			t.Errorf("%s\nread as %+v, %v\nwant    %+v", tt.payload, got, err, tt.want)
		}
	}
}

func TestReadEventOfAnotherKind(t *testing.T) {
	for _, payload := range []string{
		`{"id":"evt_1","type":"payout.paid","data":{"id":"po_1"}}`,
		`{"id":"evt_1","type":"ping"}`,
		`{"id":"evt_1","type":"charges.succeeded","data":null}`,
	} {
		if n, err := standard.ReadEvent([]byte(payload)); !errors.Is(err, attempt.ErrNoCharge) || n.ID != "evt_1" || n.Charge.ID != "" {
			t.Errorf("%s: %+v, %v; want that it tells of no charge", payload, n, err)
		}
	}
}

func TestReadEventRefusesWhatIsNotWhole(t *testing.T) {
	replace := func(event string, pairs ...string) string {
		out := strings.NewReplacer(pairs...).Replace(event)
		if out == event {
			t.Fatalf("nothing to replace: %v", pairs)
		}
		return out
	}
	for name, payload := range map[string]string{
		"nothing":               "",
		"a list":                "[" + chargeEvent + "]",
		"two":                   chargeEvent + chargeEvent,
		"cut":                   chargeEvent[:len(chargeEvent)-1],
		"no event id":           replace(chargeEvent, `"evt_000001"`, `""`),
		"no event id, no kind":  `{"id":"","type":"ping"}`,
		"no type":               replace(chargeEvent, `"charge.succeeded"`, `null`),
		"no data":               replace(chargeEvent, `"data"`, `"date"`),
		"data of null":          `{"id":"evt_1","type":"charge.succeeded","data":null}`,
		"data twice":            replace(chargeEvent, `"data"`, `"data":{},"data"`),
		"data in capitals":      replace(chargeEvent, `"data"`, `"Data"`),
		"no charge id":          replace(chargeEvent, `"ch_000001"`, `""`),
		"no amount":             replace(chargeEvent, `54890`, `null`),
		"an amount with point":  replace(chargeEvent, `54890`, `54890.0`),
		"an amount as text":     replace(chargeEvent, `54890`, `"54890"`),
		"no currency":           replace(chargeEvent, `"TRY"`, `""`),
		"a currency of nobody":  replace(chargeEvent, `"TRY"`, `"QQQ"`),
		"another status":        replace(chargeEvent, `"charge.succeeded"`, `"charge.failed"`),
		"no status":             replace(chargeEvent, `"charge.succeeded"`, `"charge."`, `"succeeded"`, `""`),
		"a status of nobody":    replace(chargeEvent, `succeeded`, `won`),
		"a refund of no charge": replace(refundEvent, `"ch_000001"`, `null`),
		"a control character":   replace(chargeEvent, `"ch_000001"`, `"ch\u0007"`),
		"bytes that are none":   replace(chargeEvent, `ref-1`, "ref\xff"),
		"a card number":         replace(refundEvent, `"expired_card"`, `"4111111111111111"`),
	} {
		n, err := standard.ReadEvent([]byte(payload))
		if err == nil || errors.Is(err, attempt.ErrNoCharge) || n != (attempt.Notice{}) {
			t.Errorf("%s: %+v, %v; want it refused", name, n, err)
		}
	}
}

// What an event that can be read says is what it holds, and its errors repeat nothing of it.
func FuzzReadEvent(f *testing.F) {
	for _, seed := range []string{chargeEvent, refundEvent, `{"id":"evt_1","type":"ping"}`, "{}", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		n, err := standard.ReadEvent(payload)
		again, errAgain := standard.ReadEvent(payload)
		if n != again || (err == nil) != (errAgain == nil) {
			t.Fatalf("%+v, %v, and then %+v, %v", n, err, again, errAgain)
		}
		if err != nil {
			return
		}
		if err := n.Validate(); err != nil {
			t.Errorf("%+v: %v", n, err)
		}
		if n.ID == "" || n.Charge.ID == "" || !n.Charge.Amount.Valid() {
			t.Errorf("%+v is not whole", n)
		}
	})
}

package payclient_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// TestWireRefunds spoils the answer to one refund request in every kind of way. What a refund is told as is what a charge
// would be; afterwards, the fault gone, the same refund is asked for again, and the books hold it once.
func TestWireRefunds(t *testing.T) {
	const (
		approved  = payclient.Approved
		declined  = payclient.Declined
		unknown   = payclient.UnknownOutcome
		violation = payclient.ContractViolation
	)
	book := fakeprovider.Book
	for _, tt := range []struct {
		name    string
		fault   fakeprovider.Fault
		outcome payclient.Outcome
		moved   payclient.Moved
		reason  attempt.Reason
		later   payclient.Outcome
		books   int // what the books hold in the end, in minor units
	}{
		{"whole", fakeprovider.Answer, approved, payclient.MovedYes, "", approved, 10000},
		{"lost", fakeprovider.LoseAnswer, unknown, payclient.MovedMaybe, attempt.ReasonConnectionLost, approved, 10000},
		{"request lost", fakeprovider.LoseRequest, unknown, payclient.MovedMaybe, attempt.ReasonConnectionLost, approved, 10000},
		{"too late", "slow:5s", unknown, payclient.MovedMaybe, attempt.ReasonTimeout, approved, 10000},
		{"cut", "cut-body:50", unknown, payclient.MovedMaybe, attempt.ReasonUnreadable, approved, 10000},
		{"unframed", "no-length", unknown, payclient.MovedMaybe, attempt.ReasonUnreadable, approved, 10000},
		{"a gateway's page", book.And("status:502"), unknown, payclient.MovedMaybe, attempt.ReasonUnavailable, approved, 10000},
		{"html", book.And("html"), violation, payclient.MovedMaybe, attempt.ReasonUnreadable, approved, 10000},
		{"redirected", book.And("redirect:302"), violation, payclient.MovedMaybe, attempt.ReasonRedirected, approved, 10000},
		{"429", "status:429", unknown, payclient.MovedMaybe, attempt.ReasonUnavailable, approved, 10000},
		{"401 on a used connection, executed", book.And("status:401"), unknown, payclient.MovedMaybe, attempt.ReasonUnproven, approved, 10000},
		{"still running", "running", unknown, payclient.MovedMaybe, attempt.ReasonStillRunning, approved, 10000},
		{"declined", "decline:refused", declined, payclient.MovedNo, attempt.ReasonDeclined, declined, 0},
		{"declined, another reference", "decline:refused+set:merchant_reference=x", violation, payclient.MovedMaybe, attempt.ReasonMismatch, declined, 0},
		{"pending", "pending", unknown, payclient.MovedMaybe, attempt.ReasonPending, unknown, 10000},
		{"failed in a 201", "set:status=failed", declined, payclient.MovedNo, attempt.ReasonDeclined, declined, 10000},
		{"a status of no API", "set:status=frobnicated", violation, payclient.MovedMaybe, attempt.ReasonUnreadable, approved, 10000},
		{"less, says the answer only", "set:amount=9999", violation, payclient.MovedYes, attempt.ReasonMismatch, approved, 10000},
		{"less", "book-amount:9999", violation, payclient.MovedYes, attempt.ReasonMismatch, violation, 9999},
		{"more", "book-amount:10001", violation, payclient.MovedYes, attempt.ReasonMismatch, violation, 10001},
		{"no amount", "set:amount=null", violation, payclient.MovedMaybe, attempt.ReasonMismatch, approved, 10000},
		{"nothing", "set:amount=0", violation, payclient.MovedMaybe, attempt.ReasonMismatch, approved, 10000},
		{"amount as text", "set:amount=%2210000%22", violation, payclient.MovedMaybe, attempt.ReasonUnreadable, approved, 10000},
		{"another currency", "book-currency:USD", violation, payclient.MovedYes, attempt.ReasonMismatch, violation, 10000},
		{"no currency", "set:currency=null", violation, payclient.MovedMaybe, attempt.ReasonMismatch, approved, 10000},
		{"another charge", "set:charge=ch_000099", violation, payclient.MovedYes, attempt.ReasonMismatch, approved, 10000},
		{"no charge", "set:charge=null", violation, payclient.MovedMaybe, attempt.ReasonMismatch, approved, 10000},
		{"another reference", "set:merchant_reference=x", violation, payclient.MovedMaybe, attempt.ReasonMismatch, approved, 10000},
		{"no reference", "set:merchant_reference=null", violation, payclient.MovedMaybe, attempt.ReasonMismatch, approved, 10000},
		{"no id", "set:id=null", violation, payclient.MovedMaybe, attempt.ReasonMismatch, approved, 10000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) { c.Retries = -1 })
				paid := s.pay(order("1001"))
				s.bank.Script(tt.fault)
				s.bank.Always(fakeprovider.Lookups, fakeprovider.Status(503))
				res := s.refund(part(paid, "r1", "100"))
				s.want(res, tt.outcome, tt.moved)
				if res.Reason != tt.reason || res.Sends != 1 {
					t.Errorf("reason %q after %d sends, want %q after 1", res.Reason, res.Sends, tt.reason)
				}
				if wantOpen := tt.outcome != approved && tt.moved != payclient.MovedNo; res.Open() != wantOpen {
					t.Errorf("open %t", res.Open())
				}
				s.bank.ClearFaults()
				var later payclient.Result
				for range 2 { // the first may find the provider still at work, or have to ask
					later = s.refund(part(paid, "r1", "100"))
				}
				if later.Outcome != tt.later || later.AttemptID != res.AttemptID || later.Key != res.Key {
					t.Errorf("later %s, moved %s (%s), want %s of the same attempt", later.Outcome, later.Moved, later.Reason, tt.later)
				}
				if got := s.refunded(); got != int64(tt.books) {
					t.Errorf("the books hold %d, want %d", got, tt.books)
				}
				// Nothing of it is free for another refund, whatever was told.
				if tt.later != declined {
					if _, err := s.client.Refund(t.Context(), part(paid, "r2", "448.91")); !errors.Is(err, attempt.ErrNotRefundable) {
						t.Errorf("more than what is left: %v", err)
					}
				}
				// The payment is what it was.
				if status, err := s.client.Status(t.Context(), paid.Attempt.Slot); err != nil || status.Outcome != approved {
					t.Errorf("the payment: %s, %v", status.Outcome, err)
				}
			})
		})
	}
}

// A lookup that shows a refund of another charge, or none at all, under our reference is no answer.
func TestWireRefundLookups(t *testing.T) {
	for name, fault := range map[string]fakeprovider.Fault{
		"another charge": "set:charge=ch_000099", "no charge": "set:charge=null", "another reference": fakeprovider.LookupForeign,
		"null": "lookup-null", "no amount": "set:amount=null", "stuck": "lookup-stuck",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := open(t, fakeprovider.Config{}, standard.Config{}, nil)
				paid := s.pay(order("1001"))
				refund := s.refund(part(paid, "r1", "100"))
				s.bank.Always(fakeprovider.Lookups, fault)
				e, err := s.client.Ask(t.Context(), refund.Attempt, refund.Attempt.UpdatedAt)
				if err != nil || e.Lookup != attempt.LookupUnreadable || len(e.Charges) > 0 {
					t.Errorf("%s with %d refunds, %v; want it unreadable", e.Lookup, len(e.Charges), err)
				}
				l, err := s.client.FindRefundByReference(t.Context(), refund.Reference)
				if name == "another charge" { // of whichever charge, here
					if err != nil || l.Answer != attempt.LookupFound {
						t.Errorf("found %+v, %v", l, err)
					}
				} else if l.Answer != attempt.LookupUnreadable {
					t.Errorf("found %+v, %v; want it unreadable", l, err)
				}
				s.bank.ClearFaults()
				l, err = s.client.FindRefundByReference(t.Context(), refund.Reference)
				if err != nil || l.Answer != attempt.LookupFound || len(l.Charges) != 1 || l.Charges[0].ID != refund.ChargeID {
					t.Errorf("found %+v, %v", l, err)
				}
				if l, err = s.client.FindByReference(t.Context(), refund.Reference); err != nil || l.Answer != attempt.LookupNone {
					t.Errorf("a charge under a refund's reference: %+v, %v", l, err)
				}
			})
		})
	}
}

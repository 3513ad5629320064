package providertest

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
)

// Suite is one adapter, and what the suite has to know of the API that it speaks.
type Suite struct {
	// New makes the adapter. Each call makes another one, configured alike. Required.
	New func(t *testing.T) payclient.Provider

	// Golden is the folder of the golden exchanges, see the package's documentation. Required.
	Golden string
	// Update writes the golden requests, replies and pages anew instead of comparing them.
	Update bool

	// Read reads a charge request as the provider does. It is the test's own, so that it does not share the adapter's
	// mistakes. Required.
	Read func(request payclient.Request, body []byte) (Sent, error)
	// ReadRefund reads a refund request as the provider does. Required if the adapter declares refunds.
	ReadRefund func(request payclient.Request, body []byte) (SentRefund, error)
	// Source makes a payment source out of any text; Sent.Source must give the text back. Nil: [attempt.Token].
	Source func(text string) attempt.Source
	// Amounts must all be taken and be read back exactly. Nil: yen, lira and Kuwaiti dinar, for exponents 0, 2 and 3.
	Amounts []money.Amount

	// Secrets are the credentials that New configures. Each must be in a header of the charge request, and nowhere else.
	Secrets []string

	// Fake starts a provider that speaks the API, its books empty. It is called inside a synctest bubble. Required.
	Fake func(t *testing.T) Fake

	// Without says why a rule does not apply to this adapter, by the rule's name. The log tells of each.
	Without map[string]string
}

// Sent is what a charge request asks for, as the provider reads it.
type Sent struct {
	Source    string
	Reference string
	Amount    money.Amount // by the provider's own exponents
}

// SentRefund is what a refund request asks for, as the provider reads it.
type SentRefund struct {
	ChargeID  string
	Reference string
	Amount    money.Amount
}

// Fake is a provider that the suite can pay at. It is served in memory, on the calling goroutine: a handler that waits
// must end with the request's context.
type Fake struct {
	Handler http.Handler
	// Charges counts, in the provider's books, the charges under a reference that took money.
	Charges func(reference string) int
	// Approved and Declined return intents for an order, of which the fake approves the one and declines the other.
	Approved, Declined func(order string) attempt.Intent

	// Refunds counts the refunds under a reference that gave money back. Needed if the adapter declares refunds.
	Refunds func(reference string) int
	// Pending returns an intent for an order whose charge stays pending. Needed if the adapter declares voids.
	Pending func(order string) attempt.Intent
}

// rule is one thing that an adapter must do, and why.
type rule struct {
	name    string
	because string
	applies func(*suite) string // why it does not; empty: it does. Nil: always
	check   func(*testing.T, *suite) error
}

// suite is a Suite at work.
type suite struct {
	Suite
	provider payclient.Provider
	caps     payclient.Capabilities
	golden   []*exchange
	side     side
	sides    map[side]*suite // what the adapter declares beside charging
}

// Run checks an adapter, each rule in a test of its own.
func Run(t *testing.T, config Suite) {
	t.Helper()
	s, err := open(t, config)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if why := s.leftOut(r); why != "" {
				t.Logf("LEFT OUT: %s\nthe rule: %s", why, r.because)
				return
			}
			if err := r.run(t, s); err != nil {
				t.Errorf("%v\nthe rule: %s", err, r.because)
			}
		})
	}
}

// run checks the rule. An adapter that panics breaks it.
func (r rule) run(t *testing.T, s *suite) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the adapter panics: %v", p)
		}
	}()
	return r.check(t, s)
}

// leftOut says why a rule is not checked; empty: it is.
func (s *suite) leftOut(r rule) string {
	if why := s.Without[r.name]; why != "" {
		return why
	}
	if r.applies != nil {
		return r.applies(s)
	}
	return ""
}

func open(t *testing.T, config Suite) (*suite, error) {
	var errs []error
	for _, f := range []struct {
		name    string
		missing bool
	}{
		{"New", config.New == nil}, {"Golden", config.Golden == ""}, {"Read", config.Read == nil}, {"Fake", config.Fake == nil},
	} {
		if f.missing {
			errs = append(errs, fmt.Errorf("providertest: Suite.%s: missing", f.name))
		}
	}
	for name := range config.Without {
		if !known(name) {
			errs = append(errs, fmt.Errorf("providertest: Suite.Without: there is no rule %q", name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if config.Source == nil {
		config.Source = attempt.Token
	}
	if config.Amounts == nil {
		for _, a := range []struct{ decimal, currency string }{
			{"1", "JPY"}, {"500", "JPY"}, {"0.01", "TRY"}, {"548.90", "TRY"}, {"0.001", "KWD"}, {"12.345", "KWD"},
		} {
			config.Amounts = append(config.Amounts, money.MustParse(a.decimal, a.currency))
		}
	}
	s := &suite{Suite: config, provider: config.New(t)}
	s.caps = s.provider.Capabilities()
	if s.caps.Refunds && config.ReadRefund == nil {
		return nil, errors.New("providertest: Suite.ReadRefund: missing, and the adapter declares refunds")
	}
	golden, err := readGolden(config.Golden)
	s.golden = ofSide(golden, charging)
	s.openSides(golden)
	return s, err
}

func known(name string) bool {
	for _, r := range rules {
		if r.name == name {
			return true
		}
	}
	return false
}

// findings gathers what breaks a rule: the first few in words, the rest counted.
type findings struct {
	errs []error
	more int
}

const maxFindings = 8

func (f *findings) addf(format string, args ...any) {
	if len(f.errs) == maxFindings {
		f.more++
		return
	}
	f.errs = append(f.errs, fmt.Errorf(format, args...))
}

func (f *findings) err() error {
	if f.more > 0 {
		f.errs = append(f.errs, fmt.Errorf("and %d more", f.more))
	}
	return errors.Join(f.errs...)
}

// The attempt that the suite renders requests for. Golden files name its reference.
const (
	fixedID  = "0190aabb-0000-7000-8000-00000000c0de"
	fixedKey = "0190aabb-0000-7000-8000-0000000000ff"

	fixedCharge = "0190aabb-0000-7000-8000-0000000000aa" // the attempt that a refund gives back
)

// attemptOf makes the attempt of an intent, with the ids that golden files name.
func (s *suite) attemptOf(i attempt.Intent) attempt.Attempt {
	a := attempt.Attempt{
		ID: fixedID, Key: fixedKey, Reference: fixedID, Slot: i.Slot(), Ordinal: 1, Amount: i.Amount, Description: i.Description,
		Provider: s.caps.Name, Environment: "test", Status: attempt.StatusSending, Version: 1,
	}
	if s.side == refunding || s.side == voiding {
		a.Refund = attempt.RefundOf{AttemptID: fixedCharge, ChargeID: "ch_000001", ID: "return-1"}
	}
	return a
}

// intent is an ordinary intent in the first of the suite's amounts.
func (s *suite) intent(source string) attempt.Intent {
	return attempt.Intent{Order: "1001", Amount: s.Amounts[len(s.Amounts)/2], Source: s.Source(source)}
}

// undecided tells whether a verdict leaves an attempt as open as it was: no approval, no refusal, no leave to send again.
func undecided(v attempt.Verdict) bool {
	return v == attempt.Lost || v == attempt.Unavailable || v == attempt.Violated
}

// readCharge reads an answer with the adapter. A panic is an error: it would take the host's process along.
func (s *suite) readCharge(r payclient.Response) (reply payclient.Reply, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("ReadCharge panics: %v", p)
		}
	}()
	return s.provider.ReadCharge(r), nil
}

func (s *suite) readLookup(r payclient.Response) (page payclient.LookupPage, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("ReadLookup panics: %v", p)
		}
	}()
	return s.provider.ReadLookup(r), nil
}

// rendered is a charge request as it leaves, but for the key.
type rendered struct {
	request payclient.Request
	stored  []byte // the body with holes
	body    []byte
}

// render renders a charge request as the client does.
func (s *suite) render(p payclient.Provider, a attempt.Attempt, source attempt.Source) (r rendered, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("rendering a request panics: %v", p)
		}
	}()
	if r.stored, err = p.ChargeBody(a); err != nil {
		return r, fmt.Errorf("ChargeBody: %w", err)
	}
	for _, c := range r.stored {
		if c != 0 {
			r.body = append(r.body, c)
			continue
		}
		n := len(r.body)
		before := string(r.body)
		if r.body, err = p.AppendSource(r.body, source); err != nil {
			return r, fmt.Errorf("AppendSource: %w", err)
		}
		if len(r.body) < n || string(r.body[:n]) != before {
			return r, errors.New("AppendSource changes what was there before it, want it to append")
		}
	}
	r.request = p.ChargeRequest(a)
	return r, nil
}

package standard_test

import (
	"encoding/json"
	"flag"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/providertest"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

var update = flag.Bool("update", false, "write the golden requests and readings anew")

const token = "sk_test_0123456789"

// suite is the conformance suite for an adapter and a fake that agree about what the provider does.
func suite(cfg standard.Config, bank fakeprovider.Config) providertest.Suite {
	cfg.Token = payclient.NewSecret(token)
	return providertest.Suite{
		New: func(t *testing.T) payclient.Provider {
			p, err := standard.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			return p
		},
		Golden:  "testdata",
		Update:  *update,
		Secrets: []string{token},
		Read: func(_ payclient.Request, body []byte) (sent providertest.Sent, err error) {
			var b struct {
				Amount    int64  `json:"amount"`
				Currency  string `json:"currency"`
				Source    string `json:"source"`
				Reference string `json:"merchant_reference"`
			}
			if err = json.Unmarshal(body, &b); err != nil {
				return sent, err
			}
			amount, err := money.New(b.Amount, b.Currency)
			return providertest.Sent{Source: b.Source, Reference: b.Reference, Amount: amount}, err
		},
		ReadRefund: func(_ payclient.Request, body []byte) (sent providertest.SentRefund, err error) {
			var b struct {
				Charge    string `json:"charge"`
				Amount    int64  `json:"amount"`
				Currency  string `json:"currency"`
				Reference string `json:"merchant_reference"`
			}
			if err = json.Unmarshal(body, &b); err != nil {
				return sent, err
			}
			amount, err := money.New(b.Amount, b.Currency)
			return providertest.SentRefund{ChargeID: b.Charge, Reference: b.Reference, Amount: amount}, err
		},
		Fake: func(t *testing.T) providertest.Fake {
			p := fakeprovider.New(bank)
			t.Cleanup(func() { _ = p.Close() })
			intent := func(order, source string) attempt.Intent {
				return attempt.Intent{Order: order, Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token(source)}
			}
			return providertest.Fake{
				Handler:  p,
				Charges:  func(reference string) int { return len(p.Charges(reference)) },
				Approved: func(order string) attempt.Intent { return intent(order, "tok_visa") },
				Declined: func(order string) attempt.Intent { return intent(order, "tok_insufficient_funds") },
				Pending:  func(order string) attempt.Intent { return intent(order, "tok_requires_action") },
				Refunds: func(reference string) (n int) {
					for _, r := range p.Refunds(reference) {
						if r.Status != fakeprovider.Failed {
							n++
						}
					}
					return n
				},
			}
		},
	}
}

func TestConformance(t *testing.T) {
	providertest.Run(t, suite(standard.Config{}, fakeprovider.Config{}))
}

func TestConformanceSuccessesOnly(t *testing.T) {
	providertest.Run(t, suite(standard.Config{KeepsSuccessesOnly: true}, fakeprovider.Config{Keep: fakeprovider.KeepSuccesses}))
}

func TestConformanceNoKeys(t *testing.T) {
	providertest.Run(t, suite(standard.Config{NoKeys: true}, fakeprovider.Config{IgnoreKeys: true}))
}

func TestConformanceNoLookup(t *testing.T) {
	providertest.Run(t, suite(standard.Config{NoLookup: true}, fakeprovider.Config{}))
}

// The least that a provider can do: no keys, no lookup, and charges only.
func TestConformanceNothing(t *testing.T) {
	least := standard.Config{NoKeys: true, NoLookup: true, NoRefunds: true, NoVoids: true, NoLists: true}
	providertest.Run(t, suite(least, fakeprovider.Config{IgnoreKeys: true}))
}

func FuzzRead(f *testing.F) { providertest.Fuzz(f, suite(standard.Config{}, fakeprovider.Config{})) }

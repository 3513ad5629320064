package panel_test

import (
	"encoding/json"
	"flag"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/internal/panel"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/providertest"
)

var update = flag.Bool("update", false, "write the golden requests and readings anew")

const token = "sk_panel_0123456789"

func config(lookup bool) panel.Config {
	return panel.Config{Token: payclient.NewSecret(token), Currency: "TRY", Prices: map[int]int64{1: 1}, Lookup: lookup}
}

func adapter(t *testing.T, lookup bool) *panel.Provider {
	t.Helper()
	p, err := panel.New(config(lookup))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// line is an order that the fake takes: it sells 10 to 10000 pieces of service 1.
func line(quantity int) panel.Line {
	return panel.Line{Service: 1, Quantity: quantity, Link: "https://example.com/post/1"}
}

func suite(lookup bool) providertest.Suite {
	return providertest.Suite{
		New:     func(t *testing.T) payclient.Provider { return adapter(t, lookup) },
		Golden:  "testdata",
		Update:  *update,
		Secrets: []string{token},
		Amounts: []money.Amount{money.MustParse("1.00", "TRY")},
		Source: func(text string) attempt.Source {
			return panel.Line{Service: 1, Quantity: 100, Link: text}.Source()
		},
		Read: func(_ payclient.Request, body []byte) (providertest.Sent, error) {
			var b struct {
				Service   int    `json:"service"`
				Quantity  int64  `json:"quantity"`
				Link      string `json:"link"`
				Reference string `json:"merchant_reference"`
			}
			if err := json.Unmarshal(body, &b); err != nil {
				return providertest.Sent{}, err
			}
			amount, err := money.New(b.Quantity, "TRY") // a piece costs one kurus
			return providertest.Sent{Source: b.Link, Reference: b.Reference, Amount: amount}, err
		},
		Fake: func(t *testing.T) providertest.Fake {
			bank := fakeprovider.New(fakeprovider.Config{Orders: fakeprovider.OrdersConfig{Lookup: lookup}})
			t.Cleanup(func() { _ = bank.Close() })
			p := adapter(t, lookup)
			intent := func(order string, quantity int) attempt.Intent {
				i, err := p.Intent(order, line(quantity))
				if err != nil {
					t.Fatal(err)
				}
				return i
			}
			return providertest.Fake{
				Handler:  bank,
				Charges:  func(reference string) int { return len(bank.Orders(reference)) },
				Approved: func(order string) attempt.Intent { return intent(order, 100) },
				Declined: func(order string) attempt.Intent { return intent(order, 5) },
			}
		},
		Without: map[string]string{
			"amounts exact": "no amount is sent: it follows from the line, which is the source",
		},
	}
}

func TestConformance(t *testing.T) { providertest.Run(t, suite(true)) }

func TestConformanceNoLookup(t *testing.T) {
	s := suite(false)
	const why = "the panel's answer names no reference, and nobody can be asked: an order that was taken stays open"
	s.Without["pays once"], s.Without["same order at once"] = why, why
	providertest.Run(t, s)
}

func FuzzRead(f *testing.F) { providertest.Fuzz(f, suite(true)) }

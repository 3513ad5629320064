package payclient_test

import (
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// panicking is an adapter that an answer has taken by surprise.
type panicking struct{ *standard.Provider }

func (panicking) ReadLookup(r payclient.Response) payclient.LookupPage {
	_ = r.Body[len(r.Body)]
	return payclient.LookupPage{Readable: true}
}

func TestAnAdapterThatPanicsOnALookupHasReadNothing(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("sk_test")})
	if err != nil {
		t.Fatal(err)
	}
	client, err := payclient.New(payclient.Config{
		Provider: panicking{adapter}, Store: new(attempt.Memory), BaseURL: "http://127.0.0.1", Transport: bank, Retries: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := client.FindByReference(t.Context(), "r1")
	if err != nil || l.Answer != attempt.LookupUnreadable || l.Detail == "" {
		t.Errorf("%+v, %v; want an unreadable answer", l, err)
	}
	bank.Script(fakeprovider.LoseAnswer)
	res, err := client.Pay(t.Context(), order("1001"))
	if err != nil || !res.Open() {
		t.Errorf("%+v, %v; want the payment to stay open", res, err)
	}
	if err := client.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

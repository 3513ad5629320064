package main

import (
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// A host that pays from the same database without naming a place has the same one as this program.
func TestAnUnnamedPlaceIsTheClients(t *testing.T) {
	for _, url := range []string{"https://api.provider.example", "https://API.Provider.example:8443/v1/", "http://127.0.0.1:8089/a%2Fb"} {
		s := defaults()
		s.provider, s.url, s.standard.token = providerStandard, url, payclient.NewSecret("sk_x")
		if err := s.check(); err != nil {
			t.Fatal(err)
		}
		adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("sk_x")})
		if err != nil {
			t.Fatal(err)
		}
		client, err := payclient.New(payclient.Config{Provider: adapter, BaseURL: url, Store: new(attempt.Memory)})
		if err != nil {
			t.Fatal(err)
		}
		started, err := client.Start(t.Context(), attempt.Intent{Order: "1", Amount: money.MustParse("1.00", "EUR"), Source: attempt.Token("tok_visa")})
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.clientConfig(adapter, url)
		if got, want := (attempt.Place{Provider: "standard", Account: cfg.ProviderAccount, Environment: cfg.Environment}), started.Attempt.Place(); got != want {
			t.Errorf("%s: %+v, want %+v", url, got, want)
		}
	}
}

func TestWhatToDoAboutAnotherPlace(t *testing.T) {
	here := attempt.Place{Provider: "standard", Account: "acct_1", Environment: "a.example"}
	const toFake = "Settle it with the fake provider that has it, whose books are in another file: name --provider fake, and start the command in the folder it was paid in, " +
		"or name the file in CHARGEONCE_FAKE_LEDGER (fake_ledger in the config file)"
	for _, c := range []struct {
		there attempt.Place
		want  string
	}{
		{attempt.Place{Provider: "fake", Account: "acct_1", Environment: "test"}, toFake},
		{attempt.Place{Provider: "standard", Account: "shop 2", Environment: "a.example"},
			"Settle it with the token of that account; or, if this token is only a new one of the same account, add --provider-account 'shop 2'"},
		{attempt.Place{Provider: "standard", Account: "acct_1", Environment: "b.example/v1"},
			"Settle it with the old address (--url); or, if the provider has only moved, add --environment b.example/v1"},
		{attempt.Place{Provider: "standard", Account: "", Environment: "b.example"},
			"Settle it with the old address (--url) and the old token; or, if only the provider's address and the token have changed, add --environment b.example --provider-account ''"},
		{attempt.Place{Provider: "fake", Account: "acct_1", Environment: "fake-0123456789abcdef"},
			toFake},
	} {
		if got := advice(c.there, here); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.there, got, c.want)
		}
	}
}

// No advice leads to another fake provider by its name: whoever took that would ask the wrong books, and believe them.
func TestWhatToDoAboutOtherBooks(t *testing.T) {
	here := attempt.Place{Provider: "fake", Account: "token-1", Environment: "fake-0123456789abcdef"}
	for _, there := range []attempt.Place{
		{Provider: "fake", Account: "token-1", Environment: "fake-fedcba9876543210"},
		{Provider: "fake", Account: "token-1", Environment: "test"},
		{Provider: "fake", Account: "acct_1", Environment: "fake-fedcba9876543210"},
		{Provider: "fake", Account: "token-1", Environment: "staging"},
	} {
		for _, text := range []string{advice(there, here), wayTo(there, here)} {
			if !strings.Contains(text, "start the command in the folder it was paid in, or name the file in CHARGEONCE_FAKE_LEDGER") || strings.Contains(text, "--") {
				t.Errorf("%+v: %s", there, text)
			}
		}
	}
}

package payclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
)

// New reports every mistake at once, and what contradicts each other too.
func ExampleConfig_Validate() {
	err := payclient.Config{
		Store:           new(attempt.Memory),
		BaseURL:         "http://provider.example",
		SendTimeout:     20 * time.Second,
		AbandonAfter:    time.Minute,
		ReferencePrefix: "shop/",
	}.Validate()
	fmt.Println(err)
	// Output:
	// payclient configuration; nothing was sent:
	// Provider: missing
	// BaseURL: http is for this machine only, want https
	// CallTimeout: 10s, want more than SendTimeout (20s)
	// AbandonAfter: 1m0s, want more than MinAge (2m0s)
	// ReferencePrefix: "shop/", want letters, digits, '-' and '_'
}

// The key under which card details are digested is changed while a payment is open: the former key stays until that one is
// settled. Without it nobody can tell whether the same card came again, and nothing is sent.
func ExampleConfig_digestKeys() {
	spring := attempt.DigestKey{ID: "2026-spring", Secret: bytes.Repeat([]byte{1}, 32)}
	autumn := attempt.DigestKey{ID: "2026-autumn", Secret: bytes.Repeat([]byte{2}, 32)}
	bank, store, ctx := fakeprovider.New(fakeprovider.Config{}), new(attempt.Memory), context.Background()
	intent := attempt.Intent{Order: "1001", Amount: money.MustParse("548.90", "TRY"), Source: attempt.Sensitive("tok_card_details")}

	withKeys := func(keys ...attempt.DigestKey) *payclient.Client {
		return exampleClient(bank, store, func(c *payclient.Config) { c.DigestKeys, c.Retries = keys, -1 })
	}
	bank.Always(fakeprovider.Match{}, fakeprovider.LoseRequest)
	bank.Always(fakeprovider.Lookups, fakeprovider.Status(503))
	res, err := withKeys(spring).Pay(ctx, intent)
	fmt.Println("spring:", res.Outcome, res.Reason, err)
	bank.ClearFaults()

	_, err = withKeys(autumn).Pay(ctx, intent)
	fmt.Println("autumn alone, taken for another card:", errors.Is(err, attempt.ErrConflict))

	res, err = withKeys(autumn, spring).Pay(ctx, intent)
	fmt.Println("autumn, then spring:", res.Outcome, err)
	fmt.Println("keys at the provider:", bank.DistinctKeys(), "charges:", len(bank.Charges()))
	// Output:
	// spring: unknown connection_lost <nil>
	// autumn alone, taken for another card: true
	// autumn, then spring: approved <nil>
	// keys at the provider: 1 charges: 1
}

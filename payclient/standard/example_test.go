package standard_test

import (
	"fmt"
	"log"
	"time"

	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// What the adapter declares decides what the client does: a provider that keeps successes only is never sent a request
// again that it may have executed, and asked by reference instead.
func ExampleNew() {
	token := payclient.NewSecret("sk_test_0123456789")
	for _, cfg := range []standard.Config{
		{Token: token},
		{Token: token, KeyRetention: time.Hour, KeepsSuccessesOnly: true, LookupLag: 5 * time.Minute},
		{Token: token, NoKeys: true},
	} {
		p, err := standard.New(cfg)
		if err != nil {
			log.Fatal(err)
		}
		key, lookup := p.Capabilities().Key, p.Capabilities().Lookup
		fmt.Printf("key header %q kept for %s, every answer %t; found by reference %t, within %s\n",
			key.Header, key.Retention, key.KeepsEveryAnswer, lookup.ByReference, lookup.Lag)
	}
	fmt.Println("the token, printed:", token)
	// Output:
	// key header "Idempotency-Key" kept for 24h0m0s, every answer true; found by reference true, within 1m0s
	// key header "Idempotency-Key" kept for 1h0m0s, every answer false; found by reference true, within 5m0s
	// key header "" kept for 0s, every answer false; found by reference true, within 1m0s
	// the token, printed: [secret]
}

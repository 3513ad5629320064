package payclient_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// exampleClient makes a client at a fake provider; change may be nil. The wait before a repetition is short: nobody reads
// an example for a second.
func exampleClient(bank *fakeprovider.Provider, store attempt.Store, change func(*payclient.Config)) *payclient.Client {
	provider, err := standard.New(standard.Config{Token: payclient.NewSecret("sk_test")})
	if err != nil {
		log.Fatal(err)
	}
	cfg := payclient.Config{
		Provider: provider, Store: store, BaseURL: "https://provider.example", Transport: bank, FirstWait: time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	client, err := payclient.New(cfg)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// The provider charges and the answer is lost. The client asks again with the same key and gets the first answer: one charge.
func ExampleClient_Pay() {
	bank := fakeprovider.New(fakeprovider.Config{})
	bank.Script(fakeprovider.LoseAnswer)

	provider, err := standard.New(standard.Config{Token: payclient.NewSecret("sk_test")})
	if err != nil {
		log.Fatal(err)
	}
	client, err := payclient.New(payclient.Config{
		Provider:  provider,
		Store:     new(attempt.Memory), // a durable one in production
		BaseURL:   "https://provider.example",
		Transport: bank, // in production nil
		FirstWait: time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())

	res, err := client.Pay(context.Background(), attempt.Intent{
		Order: "1001", Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token("tok_visa"),
	})
	switch {
	case err != nil:
		fmt.Println("nothing was sent:", err)
	case res.Outcome == payclient.Approved:
		fmt.Println("fulfil: charge", res.ChargeID, "after", res.Sends, "requests")
	case res.Open():
		fmt.Println("202: the payment is being verified")
	default:
		fmt.Println("not paid:", res.Reason, res.DeclineCode)
	}
	fmt.Println("charges in the provider's books:", len(bank.Charges()))
	// Output:
	// fulfil: charge ch_000001 after 2 requests
	// charges in the provider's books: 1
}

// A decline is final for its card, and told again without asking the provider; another card is another attempt of the order.
func ExampleClient_Pay_declined() {
	bank := fakeprovider.New(fakeprovider.Config{})
	client := exampleClient(bank, new(attempt.Memory), nil)
	defer client.Close(context.Background())
	ctx := context.Background()

	intent := attempt.Intent{Order: "1001", Amount: money.MustParse("80", "JPY"), Source: attempt.Token("tok_insufficient_funds")}
	for range 2 {
		res, err := client.Pay(ctx, intent)
		fmt.Println(res.Outcome, res.DeclineCode, "money moved:", res.Moved, "told from the store:", res.Existing, err)
	}

	intent.Source = attempt.Token("tok_mastercard")
	res, err := client.Pay(ctx, intent)
	fmt.Println(res.Outcome, err)
	fmt.Println("requests:", bank.RequestCount(), "charges:", len(bank.Charges()))
	// Output:
	// declined insufficient_funds money moved: no told from the store: false <nil>
	// declined insufficient_funds money moved: no told from the store: true <nil>
	// approved <nil>
	// requests: 2 charges: 1
}

// The provider charges, and answers with nothing but errors, to questions too. The payment is open: the shop answers 202,
// another card is refused, and asking later tells what became of it.
func ExampleClient_Pay_open() {
	bank := fakeprovider.New(fakeprovider.Config{Keep: fakeprovider.KeepAll})
	bank.Always(fakeprovider.Match{}, fakeprovider.Book.And(fakeprovider.Status(500)))
	bank.Always(fakeprovider.Lookups, fakeprovider.Status(503))
	client := exampleClient(bank, new(attempt.Memory), nil)
	defer client.Close(context.Background())
	ctx := context.Background()

	intent := attempt.Intent{Order: "1001", Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token("tok_visa")}
	res, err := client.Pay(ctx, intent)
	fmt.Println(res.Outcome, "money moved:", res.Moved, "answer 202:", res.Open(), err)

	intent.Source = attempt.Token("tok_mastercard")
	_, err = client.Pay(ctx, intent)
	fmt.Println("another card refused:", errors.Is(err, attempt.ErrConflict))

	bank.ClearFaults() // the provider has recovered
	res, err = client.Check(ctx, intent.Slot())
	fmt.Println(res.Outcome, err)
	fmt.Println("keys:", bank.DistinctKeys(), "charges:", len(bank.Charges()))
	// Output:
	// unknown money moved: maybe answer 202: true <nil>
	// another card refused: true
	// approved <nil>
	// keys: 1 charges: 1
}

// What a metrics library would count: every request with its verdict, and every change that is stored.
func ExampleObserver() {
	bank := fakeprovider.New(fakeprovider.Config{})
	bank.Script(fakeprovider.Status(503), fakeprovider.LoseAnswer)
	client := exampleClient(bank, new(attempt.Memory), func(c *payclient.Config) {
		c.Observer = payclient.Observer{
			Sent: func(_ context.Context, a attempt.Attempt, s attempt.Send) {
				fmt.Printf("order %s, request: %s %q\n", a.Slot, s.Verdict, s.Reason)
			},
			Recorded: func(_ context.Context, a attempt.Attempt, opened []attempt.Duty) {
				fmt.Printf("order %s, stored: %s, duties opened: %d\n", a.Slot, a.Status, len(opened))
			},
		}
	})
	defer client.Close(context.Background())

	_, err := client.Pay(context.Background(), attempt.Intent{
		Order: "1001", Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token("tok_visa"),
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// order 1001, request: unavailable "unavailable"
	// order 1001, request: lost "connection_lost"
	// order 1001, request: charged ""
	// order 1001, stored: approved, duties opened: 0
}

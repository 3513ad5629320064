package payclient_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
)

// Part of an order comes back. The refund has an id of its own, the return's number: asked for again, after whatever has gone
// wrong meanwhile, it is made once.
func ExampleClient_Refund() {
	bank := fakeprovider.New(fakeprovider.Config{})
	client := exampleClient(bank, new(attempt.Memory), nil) // payclient.New, see the first example
	ctx := context.Background()
	defer client.Close(ctx)

	paid, err := client.Pay(ctx, attempt.Intent{Order: "1001", Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token("tok_visa")})
	if err != nil {
		log.Fatal(err)
	}
	bank.Script(fakeprovider.LoseAnswer)
	part := attempt.Refund{AttemptID: paid.AttemptID, ID: "return-17", Amount: money.MustParse("48.90", "TRY")}
	for range 2 {
		res, err := client.Refund(ctx, part)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Outcome, res.Attempt.Amount)
	}
	_, err = client.Refund(ctx, attempt.Refund{AttemptID: paid.AttemptID, ID: "return-18", Amount: money.MustParse("500.01", "TRY")})
	fmt.Println(errors.Is(err, attempt.ErrNotRefundable), "refunds:", len(bank.Refunds()))
	// Output:
	// approved 48.90 TRY
	// approved 48.90 TRY
	// true refunds: 1
}

// The customer has left the 3-D Secure page open and the order has run out of time. Its slot closes first; then the charge is
// cancelled at the provider, and a payment message that comes late sends nothing.
func ExampleClient_CancelOrder() {
	bank := fakeprovider.New(fakeprovider.Config{})
	client := exampleClient(bank, new(attempt.Memory), nil)
	ctx := context.Background()
	defer client.Close(ctx)

	order := attempt.Intent{Order: "1001", Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token("tok_requires_action")}
	if _, err := client.Pay(ctx, order); err != nil {
		log.Fatal(err)
	}
	res, err := client.CancelOrder(ctx, order.Slot(), "not paid in time")
	if err != nil {
		log.Fatal(err) // not known to be cancelled: again later
	}
	fmt.Println("money moved:", res.Moved, "because", res.Reason)
	_, err = client.Pay(ctx, order)
	fmt.Println(errors.Is(err, attempt.ErrCancelled), "charges:", len(bank.Charges()))
	// Output:
	// money moved: no because voided
	// true charges: 0
}

package reconcile_test

import (
	"context"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/chargeonce/chargeonce/reconcile"
)

// The provider charges and its answer is lost, also to the question at the end of the call. One pass of a reconciler finds the
// charge. The store's clock is put on so that the example does not wait for the first question.
func ExampleReconciler_RunOnce() {
	ctx := context.Background()
	bank := fakeprovider.New(fakeprovider.Config{})
	bank.Script(fakeprovider.LoseAnswer)
	bank.ScriptFor(fakeprovider.Lookups, fakeprovider.Status(503))

	late := time.Duration(0)
	store := &attempt.Memory{Now: func() time.Time { return time.Now().Add(late) }}
	provider, err := standard.New(standard.Config{Token: payclient.NewSecret("example")})
	if err != nil {
		panic(err)
	}
	client, err := payclient.New(payclient.Config{
		Provider: provider, Store: store, BaseURL: "https://provider.example", Transport: bank.RoundTripper(), Retries: -1,
	})
	if err != nil {
		panic(err)
	}
	res, err := client.Pay(ctx, attempt.Intent{Order: "1001", Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token("tok_visa")})
	fmt.Println(res.Outcome, res.Moved, err)

	reconciler, err := reconcile.New(reconcile.Config{Store: store, Askers: []reconcile.Asker{client}})
	if err != nil {
		panic(err)
	}
	late = 2 * time.Minute
	report, err := reconciler.RunOnce(ctx)
	fmt.Println("asked:", report.Asked, "approved:", report.Approved, "open:", report.Open, err)

	a, err := store.Attempt(ctx, res.AttemptID)
	fmt.Println(a.Status, "charges:", len(bank.Charges()), err)
	// Output:
	// unknown maybe <nil>
	// asked: 1 approved: 1 open: 0 <nil>
	// approved charges: 1 <nil>
}

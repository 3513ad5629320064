package attempt_test

import (
	"context"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// A request times out, the provider's lookup finds the charge, and a second charge beside it is somebody's duty.
func ExampleNext() {
	price, err := money.Parse("19.99", "EUR")
	if err != nil {
		fmt.Println(err)
		return
	}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := attempt.Attempt{Amount: price, Status: attempt.StatusPrepared}
	a = a.Grant(noon, 15*time.Second, 2*time.Minute)

	a, _ = attempt.Next(a, attempt.Evidence{
		Kind: attempt.EvidenceSends, At: noon.Add(3 * time.Second), Fence: 1,
		Sends: []attempt.Send{{Answer: attempt.Answer{Verdict: attempt.Lost, Reason: attempt.ReasonTimeout}}},
	})
	told := a.Tell(noon.Add(3 * time.Second))
	fmt.Println(a.Status, told.Outcome, "moved:", told.Moved, "open:", told.Open())

	a, duties := attempt.Next(a, attempt.Evidence{
		Kind: attempt.EvidenceLookup, At: noon.Add(2 * time.Minute), AskedAt: noon.Add(2 * time.Minute), Lookup: attempt.LookupFound,
		Charges: []attempt.Charge{
			{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: price},
			{ID: "ch_2", Status: attempt.ChargeSucceeded, Amount: price},
		},
	})
	told = a.Tell(noon.Add(2 * time.Minute))
	fmt.Println(a.Status, told.Outcome, "moved:", told.Moved, "by", a.ChargeID)
	fmt.Println("duty:", duties[0].Kind, duties[0].Why, duties[0].ChargeID)
	// Output:
	// unknown unknown moved: maybe open: true
	// approved approved moved: yes by ch_1
	// duty: review second_charge ch_2
}

// Two callers want to pay the same order. The store lets one of them send; the other is told that a send is under way.
func ExampleStart() {
	price, err := money.Parse("19.99", "EUR")
	if err != nil {
		fmt.Println(err)
		return
	}
	intent := attempt.Intent{Order: "1001", Amount: price, Source: attempt.Token("tok_visa")}
	var digester attempt.Digester
	store := new(attempt.Memory)
	for range 2 {
		s := &attempt.Start{Slot: intent.Slot(), Intent: intent, Provider: "standard", Claim: 15 * time.Second, FirstCheck: 2 * time.Minute}
		s.New = func(ordinal int) (attempt.Attempt, error) {
			if err := intent.Validate(); err != nil {
				return attempt.Attempt{}, err
			}
			digest, err := digester.Digest(intent.Source)
			if err != nil {
				return attempt.Attempt{}, err
			}
			identity, err := attempt.NewIdentity("shop-")
			return attempt.Attempt{
				ID: identity.ID, Key: identity.Key, Reference: identity.Reference, Amount: intent.Amount, Source: digest,
				Provider: "standard", Body: []byte(`{"amount":1999}`),
			}, err
		}
		if err := store.Apply(context.Background(), &attempt.Step{Slot: s.Slot, Do: s.Decide}); err != nil {
			fmt.Println(err)
			return
		}
		d := s.Decision
		fmt.Println("send:", d.Kind == attempt.DecidedSend, "key:", len(d.Attempt.Key), "characters,", d.Attempt.Tell(d.Now).Reason)
	}
	// Output:
	// send: true key: 36 characters, in_flight
	// send: false key: 36 characters, in_flight
}

// A source is for the provider's eyes only.
func ExampleSource() {
	source := attempt.Sensitive("4242424242424242;12/29")
	fmt.Println(source)
	fmt.Printf("%+v\n", attempt.Intent{Order: "1001", Source: source})
	// Output:
	// [source]
	// {Account: Order:1001 Purpose: Amount:no amount Source:[source] Description: Again:}
}

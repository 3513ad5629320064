// Package reconcile finds out what became of payments whose outcome nobody knows, and gives back money that nobody is owed.
//
// It promises, for any number of reconcilers at once, beside customers who come back, and through crashes at any point:
//
//   - An attempt that may have been sent is asked about until it is known, given up by the rule of [attempt.Next], or handed
//     to a person after days of asking. Nothing is ever closed because it is old.
//   - A question that fails, a row that cannot be stored, a provider that is down and an adapter that panics hold back
//     nothing but themselves. A row that was taken and not finished comes back when its lease ends.
//   - Surplus money is given back once, under a key of its own, or kept or shown to a person, as [Policy] says.
//   - It holds no claim, so no customer waits for it; and it asks no provider that refuses to be asked, so it never becomes
//     the outage.
//
// Make a [Reconciler] with [New] from the store and from what asks about each place; [*payclient.Client] is an [Asker]. Then
// call [Reconciler.RunOnce] by hand, or let [Reconciler.Run] run beside the service. [ReadHealth] tells from the store alone
// whether anybody does.
//
// [*payclient.Client]: https://pkg.go.dev/github.com/chargeonce/chargeonce/payclient#Client
package reconcile

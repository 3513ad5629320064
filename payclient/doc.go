// Package payclient calls payment providers so that an intent is paid at most once and every attempt ends in a known state.
//
// [Client.Pay] stores an attempt with its idempotency key before the first byte leaves, sends it, repeats it only where the
// provider's declared rules make that safe, and tells what became of it: Approved, Declined, UnknownOutcome or
// ContractViolation, and with each of them whether money moved. An error means that the call sent nothing. Services that
// commit an order and its payment together call [Client.StartTx] in their transaction and [Client.Send] after it.
//
// [Client.Refund] gives money back under the same promise: a refund is an attempt of its own, made once however often it is asked
// for, and all refunds of a charge together are never above it. [Client.CancelOrder] closes an order for ever and says what
// may have been charged.
//
// A provider is an adapter, see [Provider]; payclient/standard is the first. Errors to decide by are in package attempt:
// ErrConflict, ErrAlreadyPaid, ErrCancelled, ErrRefunded, ErrNotRefundable, ErrNotPaid, ErrUnavailable, ErrInvalidIntent.
//
// What was not settled when a call returned stays open in the store, with the time when it is to be looked at. Package
// reconcile asks about it in the background, by [Client.Ask]. Call [Client.Check], or [Client.Pay], [Client.Send] or
// [Client.Refund] again, for one: they go on with the attempt that is there.
package payclient

// Package payclient calls payment providers so that an intent is paid at most once and every attempt ends in a known state.
//
// [Client.Pay] stores an attempt with its idempotency key before the first byte leaves, sends it, repeats it only where the
// provider's declared rules make that safe, and tells what became of it: Approved, Declined, UnknownOutcome or
// ContractViolation, and with each of them whether money moved. An error means that the call sent nothing. Services that
// commit an order and its payment together call [Client.StartTx] in their transaction and [Client.Send] after it.
//
// A provider is an adapter, see [Provider]; payclient/standard is the first. What was not settled when a call returned is
// settled by package reconcile, or by [Client.Check].
package payclient

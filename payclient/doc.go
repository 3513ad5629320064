// Package payclient calls payment providers so that an intent is paid at most once and every attempt ends in a known state.
//
// [Client.Pay] stores an attempt with its idempotency key before the first byte leaves, sends it, repeats it only where the
// provider's declared rules make that safe, and tells what became of it: Approved, Declined, UnknownOutcome or
// ContractViolation, and with each of them whether money moved. An error means that the call sent nothing. Services that
// commit an order and its payment together call [Client.StartTx] in their transaction and [Client.Send] after it.
//
// A provider is an adapter, see [Provider]; payclient/standard is the first. Errors to decide by are in package attempt:
// ErrConflict, ErrAlreadyPaid, ErrNotPaid, ErrUnavailable, ErrInvalidIntent.
//
// What was not settled when a call returned stays open in the store, with the time when it is to be looked at. Call
// [Client.Check] for it, or [Client.Pay] or [Client.Send] again: both go on with the attempt that is there. The store's
// TakeDue and List find what is open.
package payclient

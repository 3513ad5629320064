// Package attempt remembers payments: one record per payment intent, written before anything leaves the machine, and
// changed only by one pure function over the evidence learnt about it.
//
// It promises three things, for every [Store] that passes the suite in attempt/storetest:
//
//   - A slot (account, order, purpose) has at most one live [Attempt], so at most one key can be in use for it.
//   - An attempt that may have been executed is never told as "not sent", and is never closed without money as long as
//     one of its sends is unaccounted for.
//   - An end is final. Money that turns up after an end is not forgotten: it opens a [Duty].
//
// The state machine is [Next]; docs/state-machine.md draws it and [CanMove] is the map of its legal moves. Stores hold
// no rule of their own: they load, call and write, see [Step].
//
// The package asks nobody and sends nothing; package payclient does.
package attempt

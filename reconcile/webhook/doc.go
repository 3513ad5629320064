// Package webhook takes a provider's events and makes evidence of them.
//
// A [Handler] promises:
//
//   - Only what is proved to come from the provider has an effect. A request that is forged, stale, malformed or too large
//     changes nothing, is counted, and is told nothing but a status code.
//   - An event is acknowledged when it is stored, its effect in the same commit, and not before: what a crash or a store that
//     is down takes away is delivered again.
//   - An event has its effect once, however often, late, out of order or at the same time it is delivered, and also while the
//     answer to the payment's own request is still on its way.
//   - It counts only for the attempt whose reference it carries, at the provider, account and environment that the endpoint
//     belongs to. An event that fits no attempt is no evidence: it is kept, listed by [Handler.Orphans], and applied by
//     [Handler.Adopt] once its attempt is there.
//   - What is kept is what was read of the event, an [attempt.Notice], and never the payload.
//
// [Standard] proves events as Standard Webhooks 1.0.0 describes it; another [Verifier] proves those of a provider that signs
// in its own way.
//
// A payload that is proved to come from the provider and cannot be read is acknowledged, kept as an orphan and logged as an
// error: delivered again it would be as unreadable, and senders disable an endpoint that fails for long, which would lose the
// events that can be read. Nothing is decided by it: the attempt stays as open as it was, and is asked about where its provider
// can be asked by reference. A release that reads such payloads takes them when the provider is told to send them again.
package webhook

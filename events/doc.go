// Package events takes what happens to attempts out of the process: targets for [attempt.Relay], beside a func of the host's
// own. [Webhook] posts each event to a receiver, signed; [JSONLines] writes it as a line of JSON.
//
// A target promises:
//
//   - It has taken an event when it returns nil, and not before. Until then the event stands in the store, and the relay delivers
//     it again: at least once, in order per attempt. A receiver tells a repetition by the event's attempt_id and version.
//   - What it tells of the money, outcome and moved, is what the store holds when the event is delivered, never less than the
//     event itself: a late delivery of an old event is no reason to fulfil an order that was paid back meanwhile.
//   - It tells nothing secret and nothing of the payer: no key, no payment source, no request, no description, no answer of the
//     provider's, and not who has changed the attempt.
//
// [Record] is the schema of both.
package events

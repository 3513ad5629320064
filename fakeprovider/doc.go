// Package fakeprovider is a payment provider that misbehaves on request.
//
// It keeps books of its own, under one lock, so that a test can count what
// really happened: how many charges were made for a reference, how many
// requests arrived, how many different keys they carried. Nothing is inferred
// from what a client believes. It shares no code with any client.
//
// # Ways in
//
// One [Provider] can be reached in several ways at once; all of them see the
// same books and the same faults:
//
//   - [Provider.ServeHTTP] on a socket. Faults below HTTP take the connection
//     over with [net/http.Hijacker].
//   - [Provider.RoundTrip], [Provider.RoundTripper] and [Provider.Client] in
//     memory: no goroutine, no I/O, waits only on timers and contexts, so a
//     testing/synctest bubble's clock moves on. The httptrace hooks of the
//     request's context fire as net/http's Transport fires them.
//   - [Provider.DialContext] and [Provider.Transport]: a real
//     [net/http.Transport] over in-memory connections with an HTTP/1.1 server
//     at the other end.
//   - [Provider.Responder] for github.com/jarcoal/httpmock.
//   - [ListenAndServe] as a process of its own, its ledger in a file.
//
// In a synctest bubble create the Provider inside the bubble.
//
// # The API it speaks
//
// POST /v1/charges takes {"amount","currency","source","merchant_reference"}
// and optionally "description", amounts in minor units, and needs
// "Authorization: Bearer" and an Idempotency-Key written as an RFC 9651
// String, in quotes. It answers 201 with the charge, 402 problem+json for a
// decline, and
//
//	201 + Idempotent-Replayed   the key has a stored answer
//	409                         the first request of this key still runs
//	422                         the key was used with another request
//	400                         no key, or a malformed request
//
// GET /v1/charges?merchant_reference=R finds charges, GET /v1/charges/{id}
// reads one. Refunds are made and found alike under /v1/refunds. POST
// /v1/orders is an order panel's API without keys. See [Config] for the dials.
//
// Some sources decide without any configuration, see [Sources].
//
// # Faults
//
// A [Fault] has a name that can be written in Go, in a JSON script, on a
// command line or in a scenario file, and parts are joined with "+":
//
//	book+close               the charge is made, the answer is lost
//	close                    the request is lost, no charge is made
//	book-after:15s           the charge is made 15 s later, the key stays locked
//	book+status:500          the charge is made, the answer is a 500
//	slow:5s+cut-body:30      a late answer, of which 30 bytes arrive
//
// One rule tells which faults make the charge: a part that stands in place of
// the answer (close, status, html, redirect, ...) means the request was not
// executed, unless "book" says otherwise; a part that damages the answer
// (cut-body, drip, set, ...) leaves the execution as it is. [Catalogue] lists
// every part.
//
// Faults are scripted with [Provider.Script] and [Provider.ScriptFor], set for
// good with [Provider.Always], or drawn with [Provider.Draw].
package fakeprovider

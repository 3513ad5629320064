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
// reads one. GET /v1/charges?created_from=F&created_to=T lists what was made
// in [F, T), in Unix seconds or as RFC 3339 times, oldest first; T may be left
// out. Both come in pages ({"data":[...],"has_more":true}) that "limit" (1 to
// 100) and "starting_after" choose. Refunds are made, found and listed alike
// under /v1/refunds. POST /v1/charges/{id}/void makes a pending charge fail
// with decline_code "voided", as often as it is asked; 409 with the code
// "charge_not_voidable" says that the charge is not pending. POST /v1/orders is an order panel's API without keys. See
// [Config] for the dials.
//
// Some sources decide without any configuration, see [Sources].
//
// [Config.Webhook] has every change of a charge's or a refund's status told to
// a URL, a handler or a function, signed and repeated as Standard Webhooks
// describes it. [Provider.WriteReport] writes what a provider settles with its
// merchant, as CSV, and on request wrongly.
//
// # Control
//
// For tests, and no part of the API, under every way in:
//
//	GET  /_fake/id        which books these are, see [Provider.ID]
//	GET  /_fake/ledger    the books, as [Ledger]
//	GET  /_fake/faults    the catalogue, the sources, the steps not used yet
//	POST /_fake/faults    a [Script]
//	POST /_fake/settle    {"id":"ch_000001","status":"succeeded"}, see [Provider.Settle]
//	GET  /_fake/webhooks  what was delivered, as [Delivery], and how many events wait
//	GET  /_fake/report    a settlement report: from and to as in a listing, and
//	                      client, leave_out=ID, double=ID, amount=ID:MINOR, foreign=N
//	                      and no_trailer=true as [ReportOptions] has them
//	POST /_fake/reset     empties everything: other books, with another id
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
// (cut-body, drip, set, ...) leaves the execution as it is.
//
// The parts that begin with "webhook" hold for all events about what a request
// makes, whatever becomes of its answer.
//
// Faults are scripted with [Provider.Script] and [Provider.ScriptFor], set for
// good with [Provider.Always], or drawn with [Provider.Draw].
//
// # Parts of a fault
//
// In the order in which they act, as [Catalogue] lists them; in brackets the
// numbers that the project's fault catalogue gives to what they show (S08 is
// about Retry-After):
//
//	answer                     no fault
//	refuse-dial                connection refused; on a socket: reset unread (F28)
//	dns-failure                no such host; on a socket: reset unread (F27)
//	hang-dial                  no connection until the context ends; on a socket: reset unread (F25 F26)
//	dial-timeout               the dialer's own time-out; on a socket: reset unread (F29)
//	proxy-refused              a proxy answers CONNECT with 407; on a socket: reset unread (F20)
//	tls-reset                  reset in the TLS handshake; on a socket: reset unread (F31)
//	tls-unknown-authority      certificate of an unknown authority; on a socket: reset unread (F32)
//	tls-expired                certificate has expired; on a socket: reset unread (F32)
//	tls-wrong-name             certificate of another name; on a socket: reset unread (F32)
//	tls-timeout                TLS handshake time-out; on a socket: reset unread (F30)
//	no-hooks                   RoundTrip calls no httptrace hook (F22)
//	not-sent                   a connection is had, the write fails, the provider sees nothing (F07)
//	early:STATUS               answers with a status before the body is read (F47)
//	read:N                     reads n bytes of the body, then resets the connection (F44)
//	book                       executes the request although its answer is replaced
//	book-after:DURATION        executes the request after a while, the key locked until then (F45 F57)
//	slow:DURATION              executes at once, answers after a while, the key running until then (F45)
//	decline[:CODE]             declines whatever the source is
//	pending                    the charge or refund stays pending
//	requires-action            the charge stays pending and names a URL for the payer
//	flip:DURATION:STATUS       changes the status later: a late approval, a late failure
//	book-amount:N              charges another amount than asked (F72)
//	book-currency:CODE         charges in another currency than asked (F72)
//	book-twice                 one request makes two charges
//	hide:DURATION              keeps what is made out of searches for a while
//	pin                        the key remembers the answer as it was sent
//	forget                     the key remembers nothing of this request
//	close                      closes the connection without a byte (F01 F03 F44)
//	reset                      resets the connection (F02 F44)
//	hang                       silence until the client gives up (F45)
//	crash                      closes, the key stays locked until the lock times out
//	lose-answer                book+close (F01 F44)
//	lose-request               close (F44)
//	never-arrives              hang (F45)
//	garbage                    bytes that are no HTTP (F49)
//	flood-1xx                  informational answers without end (F66)
//	continue-close             100 Continue, then the connection ends (F46)
//	status:STATUS              answers with a status, as problem+json (F64 F65)
//	reply:STATUS:BODY          answers with a status and a body (F62 F71 F74)
//	html[:STATUS]              answers with a page of HTML, 200 unless said (F71)
//	redirect:STATUS[:LOCATION] answers with a redirect to a URL, to itself, or (none) without Location (F14 F15 F19)
//	running                    409: the first request of this key still runs
//	key-reused                 422: the key was used with another request
//	gzip-bomb[:N]              200 with a gzip body that unpacks to n bytes (16 MiB unless said) (F67)
//	lookup-empty               a search finds nothing
//	lookup-twice               a search shows each record twice, with another id
//	lookup-foreign             a search shows a record of another reference (F72)
//	lookup-stuck               every page of a search is the first, has_more true
//	lookup-null                a search answers {"data":null} (F74)
//	lookup-cut                 a search leaves its last record out and says there is no more
//	set:FIELD=VALUE            puts a JSON value (else a string) into a field, in a search into each record (F72 F75)
//	add:FIELD=VALUE            adds a field, leaving one of that name in place (F73)
//	omit:FIELD                 takes a field out (F72)
//	bad-utf8                   puts the byte FF into every string that holds the reference
//	bom                        a byte order mark before the body (F71)
//	trailing[:TEXT]            text after the body, {} unless said (F74)
//	pad:N                      n blanks after the body
//	type[:TYPE]                another Content-Type, or none (F71)
//	encoding:NAME              labels the plain body as gzip, deflate, ... (F68)
//	header:NAME=VALUE          adds a header
//	retry-after:TEXT           Retry-After with any text: seconds, a fraction, a negative or too large number, a date (S08)
//	retry-after-date:DURATION  Retry-After as a date this far from now, in the past if negative (S08)
//	no-replay-mark             a replay without Idempotent-Replayed
//	cut-body:N                 promises the whole body, closes after n bytes of it (F58)
//	cut-chunked[:N]            chunked, closes after n bytes (all unless said) without the last chunk (F59)
//	no-length[:N]              no length at all, closes after n bytes (all unless said): a clean end (F60)
//	wrong-length:N             announces the body's length plus n (F58 F61)
//	empty                      the status with Content-Length 0 (F62)
//	no-content                 204 without a body (F62)
//	half-headers               the connection ends inside the headers (F49)
//	reset-body:N               resets the connection after n bytes of the body (F58)
//	stall-body:N               headers and n bytes of the body, then silence (F55 F56)
//	pause-body:DURATION        headers, a wait, then the body (F55)
//	drip:DURATION              one byte of the body at a time, with a wait before each (F70)
//	both-lengths               Content-Length and chunked (F63)
//	two-lengths                two different Content-Length headers (F49)
//	length:TEXT                any text as Content-Length, a negative number say (F49)
//	status-line:TEXT           any status line, such as HTTP/1.0%20201%20Created (F64)
//	huge-headers:N             n bytes of additional headers (F50)
//	two-answers                the answer is written twice at once (F92)
//	extra-answer               the next request on this connection gets this answer before its own (F69)
//	close-after-answer         the connection is promised to stay and closed after the answer (F13)
//	webhook-lost               no event about what is made is delivered
//	webhook-first              the event is delivered before the API answers
//	webhook-reordered          the event comes after the next one about the same record, or an hour late
//	webhook-late:DURATION      each event comes this much later
//	webhook-twice              each event is delivered again after it was acknowledged
//	webhook-bad-signature[:N]  the first n deliveries of each event (all unless said) are signed with another secret
//	webhook-stale[:DURATION]   each delivery is dated this far (1h unless said) in the past, and signed so
package fakeprovider

// Package providertest is the conformance suite of provider adapters: an adapter is fit to pay when it says so.
//
// An adapter's test calls [Run] with the adapter, a folder of golden exchanges and a fake that speaks the provider's API:
//
//	func TestConformance(t *testing.T) {
//		providertest.Run(t, providertest.Suite{
//			New:     newAdapter,          // func(*testing.T) payclient.Provider
//			Golden:  "testdata",          // exchanges with the provider, *.txtar
//			Read:    readAsProviderDoes,  // what a charge request asks for
//			Fake:    newFake,             // an http.Handler with books that can be counted
//			Secrets: []string{"sk_test"}, // the credentials that newAdapter configures
//		})
//	}
//
// It promises that an adapter which passes
//
//   - renders the same request for the same attempt, with the source, the amount and the reference exactly as they are,
//     and with no credential but in a header;
//   - takes an answer for an approval or a refusal only where a golden exchange says so: not when it was cut, said twice,
//     written otherwise, framed by a gateway or sent under another status;
//   - takes no answer to a lookup for "no such charge" unless it is a whole answer of the API that says so;
//   - charges once, and gives back once, by the fake's books, when answers are lost, requests repeated, processes restarted;
//   - cancels a charge, and lists charges, as it declares.
//
// Every rule has a name and says why it is one; [Suite].Without names a rule that does not apply, and the log tells.
//
// # Golden exchanges
//
// A file is one exchange, in the words of the wire. Before its first section it says in a sentence what happens. The
// sections of a charge:
//
//	-- intent --    amount, source, description; each may be left out, and the section too
//	-- request --   method and path, headers, an empty line, the body; without the key, which the client adds
//	-- response --  status, headers, an empty line, the body
//	-- reply --     what the adapter must read: the fields of payclient.Reply that are not zero
//
// and of a lookup:
//
//	-- lookup --    reference, cursor
//	-- request --
//	-- response --
//	-- page --      what the adapter must read: the fields of payclient.LookupPage that are not zero
//
// Where the adapter declares refunds, voids or listings, their exchanges have another first section: refund (charge, amount) and
// refund-lookup (reference, cursor), void (charge), and list (cursor; the times are the suite's own). The rules for charges that
// hold there too have the side before their name, as "refunds: cut answers".
//
// A request may be left out where only the answer matters. The line break at a section's end is not part of a body.
// [Suite].Update writes requests, replies and pages as the adapter has them: read the difference before it is kept.
package providertest

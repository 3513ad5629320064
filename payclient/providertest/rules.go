package providertest

import "slices"

// rules are what every adapter must keep to. Names are part of the package's contract: Suite.Without uses them.
var rules = slices.Concat(chargeRules, sideRules)

// chargeRules hold for charges, and many of them for all that an adapter declares beside.
var chargeRules = []rule{
	{"capabilities constant",
		"the client derives from them once what may be sent again: a change would send stored attempts under other rules",
		nil, capabilitiesConstant},
	{"capabilities consistent",
		"what a declaration contradicts itself about, nobody can rely on, and the client refuses it before the first payment",
		nil, capabilitiesConsistent},

	{"source left out",
		"a source is never stored: the stored body has a NUL byte in its place, and what is sent has none",
		nil, sourceLeftOut},
	{"source exact",
		"a source that arrives otherwise pays with something else, or not at all",
		nil, sourceExact},
	{"amounts exact",
		"an amount off by a power of ten is a wrong charge that nobody refuses",
		nil, amountsExact},
	{"reference sent",
		"a charge without our reference is never found again when its answer is lost",
		nil, referenceSent},
	{"request well formed",
		"what net/http would refuse or rewrite fails at the first payment, after the attempt was stored",
		nil, requestWellFormed},
	{"key left to the client",
		"the client alone knows the attempt's key, and looks at the header as the request leaves",
		nil, keyLeftToClient},
	{"credentials in headers only",
		"bodies are stored, and paths and queries are logged along the way",
		nil, credentialsInHeaders},
	{"same request",
		"a repetition must be byte for byte the first request, in a later process too, or the provider refuses the key",
		nil, sameRequest},
	{"requests not shared",
		"what one request's transport does to its headers must not reach the next request",
		nil, requestsNotShared},
	{"concurrent use",
		"one adapter serves all calls of a client at once",
		nil, concurrentUse},

	{"golden set",
		"what no exchange shows was never compared with the provider's documentation",
		nil, goldenSet},
	{"golden exchanges",
		"the requests and the reading of answers are facts of the provider, written down",
		nil, goldenExchanges},

	{"fields are read",
		"the client compares what the answer says with what was asked for; a field that the adapter fills in itself proves nothing",
		nil, fieldsAreRead},
	{"answers left alone",
		"an answer is read only, and what was read from it must not change with the buffer",
		nil, answersLeftAlone},
	{"cut answers",
		"a proxy that cuts an answer and states its new length makes it look whole",
		nil, cutAnswers},
	{"names twice",
		"of a name given twice one reader sees the first value and another the last",
		nil, namesTwice},
	{"names exact",
		"a name in another case is another name: a gateway's own field must not decide about money",
		nil, namesExact},
	{"new names",
		"providers add fields without notice; an answer with one more is the same answer",
		nil, newNames},
	{"one value",
		"text after the value is part of another answer, or of an attack",
		nil, oneValue},
	{"encoding",
		"what is not valid UTF-8, or begins with a byte order mark, was not written by the API",
		nil, encoding},
	{"content type",
		"a page of a gateway may hold any text; a refusal counts only in the form the API gives its refusals",
		nil, contentType},
	{"other status",
		"an answer under another status than the API's own was changed on its way",
		nil, otherStatus},
	{"foreign answers",
		"gateways, proxies and captive portals answer in the provider's name, with any status",
		nil, foreignAnswers},

	{"lookup names the reference",
		"a question about everything, or about nothing, finds what is not ours",
		withLookup, lookupNamesReference},
	{"pages cut or doubled",
		"a list that is not whole must not be taken for one that ends before our charge",
		withLookup, pagesCutOrDoubled},
	{"pages complete",
		"a list without its list, or without word of a next page, proves no absence",
		withLookup, pagesComplete},
	{"pages names exact",
		"a name in another case is another name",
		withLookup, pagesNamesExact},
	{"foreign pages",
		"an error, whatever its status, never says that there is no charge",
		withLookup, foreignPages},
	{"finds",
		"foreign charges, pages that do not end and pages that fail are no answer",
		withLookup, finds},

	{"pays once",
		"an approval is told once the provider's books hold the charge, and asking again charges nothing",
		nil, paysOnce},
	{"declines",
		"a decline is an answer: it is told, kept, and never repeated",
		nil, declines},
	{"lost answers",
		"whatever becomes of an answer, the books hold one charge, and where keys or lookups allow it the client learns of it",
		nil, lostAnswers},
	{"still running",
		"the answer that the first request still runs asks for patience, not for a new charge",
		withReplay, stillRunning},
	{"restarts",
		"a process that dies between the charge and its record must not charge again",
		nil, restarts},
	{"same order at once",
		"a double click and a queue that delivers twice are one payment",
		nil, sameOrderAtOnce},
	{"nothing secret stored",
		"a store outlives its permissions: neither source nor credential may be in it",
		nil, nothingSecretStored},
}

func withLookup(s *suite) string {
	if !s.caps.Lookup.ByReference {
		return "the provider cannot be asked by reference"
	}
	return ""
}

func withReplay(s *suite) string {
	if !s.caps.Key.KeepsEveryAnswer {
		return "the provider does not keep every answer under a key"
	}
	return ""
}

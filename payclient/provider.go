package payclient

import (
	"net/http"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Provider is the adapter for one payment provider's API. It is pure: it turns an attempt into request bytes and a response
// into a reply, does no I/O, keeps no state, and is safe for concurrent use. Whoever writes one runs
// payclient/providertest on it.
//
// The client adds the idempotency key, sends, reads the answer and judges it; an adapter cannot make a payment unsafe by
// forgetting something, only by claiming in Capabilities what the provider does not do.
type Provider interface {
	// Capabilities declares what the provider does. It always returns the same.
	Capabilities() Capabilities

	// ChargeBody renders the request's body with a NUL byte where AppendSource's output goes. It fails for an attempt that
	// the provider cannot take (a currency, an amount); nothing is stored or sent then.
	ChargeBody(a attempt.Attempt) ([]byte, error)
	// AppendSource appends the payment source to dst as the body writes it. The output must hold no NUL byte.
	AppendSource(dst []byte, source attempt.Source) ([]byte, error)
	// ChargeRequest says where the body goes, and sets headers, credentials among them.
	ChargeRequest(a attempt.Attempt) Request
	// ReadCharge reads the answer to a charge request. The response is complete: its framing was explicit and ended cleanly.
	ReadCharge(r Response) Reply

	// LookupRequest asks for the charges with a reference; cursor is empty for the first page.
	// It is called only if Capabilities say that the provider can be asked.
	LookupRequest(reference, cursor string) Request
	// ReadLookup reads one page of the answer.
	ReadLookup(r Response) LookupPage
}

// Capabilities is what a provider declares about its API. The client derives its behaviour from it, and New refuses what
// cannot be safe.
type Capabilities struct {
	// Name is the adapter's name, as stored with each attempt: lower case, never changed.
	Name string

	// CredentialID tells one set of credentials from another and reveals nothing of them: a digest of the credential, cut
	// short. It stands for the merchant account where Config.ProviderAccount names none.
	CredentialID string

	Key       KeyCapability
	Reference ReferenceCapability
	Lookup    LookupCapability

	// Refunds, Voids and Lists say that the provider can give money back, cancel a charge that is not final, and list its
	// charges by time; the adapter then is a Refunder, a Voider, a Lister.
	Refunds, Voids, Lists bool

	// LateApprovals says that a charge may succeed long after it was reported as failed.
	LateApprovals bool
	// IdleTimeout is after how long the provider closes an idle connection; zero: not known.
	IdleTimeout time.Duration
}

// KeyCapability says what the provider does with idempotency keys.
type KeyCapability struct {
	// Header is the header that carries the key, in canonical form; empty: the provider knows no keys, and an attempt has
	// at most one send that may have been executed.
	Header string
	// Quoted says that the header is a structured field string (RFC 9651 section 3.3.3), in double quotes.
	Quoted bool
	// MaxLength is the longest key the provider takes; zero: not known to be limited.
	MaxLength int
	// Retention is how long the provider keeps a key, counted from its first use.
	Retention time.Duration
	// KeepsEveryAnswer says that refusals and failures are stored under the key and repeated like successes. Without it
	// nothing is sent again that may have been executed.
	KeepsEveryAnswer bool
}

// ReferenceCapability says what the provider takes as a merchant reference.
type ReferenceCapability struct {
	MaxLength int // zero: not known to be limited
}

// LookupCapability says how charges can be found by reference.
type LookupCapability struct {
	ByReference bool
	// Lag is the worst known time, incidents included, for which a charge may be missing from lookups.
	Lag time.Duration
}

// Request is what an adapter wants sent. The client adds the base URL, the key and the body.
type Request struct {
	Method string
	Path   string      // begins with a slash
	Query  string      // encoded; empty for none. Never a secret
	Header http.Header // read only for the client, so that all requests may share one
}

// Response is a complete answer of the provider.
type Response struct {
	StatusCode int
	Header     http.Header // read only
	Body       []byte      // whole, read only
}

// Reply is what an answer to a charge request says. The zero Reply is [attempt.Lost]: it decides nothing.
type Reply struct {
	// Verdict is what the answer says about this request: Charged, Refused, Rejected, Running, Unavailable, Violated or
	// KeyReused. The client checks Charged against the attempt and may come to another.
	Verdict attempt.Verdict
	// Reason says why, where the verdict leaves it open.
	Reason attempt.Reason
	// Charge is the charge as the provider names it, with Charged.
	Charge ChargeData
	// Reference is the merchant reference that a refusal names; empty: none.
	Reference   string
	Code        string
	DeclineCode string
	Detail      string // what is wrong with the answer; the client redacts it
	RequestID   string
	Replayed    bool // the provider says that it repeats a stored answer
	// NoRetry: the provider asks that the request not be repeated.
	NoRetry bool
	// Ask: the answer names a charge whose state must be asked for; the client looks it up instead of sending again.
	Ask bool
	// AskFirst, with a refusal: it may be about money that this very request has moved already, when it came twice (a refund
	// of more than is left). The client asks by reference before it believes the refusal.
	AskFirst bool
}

// ChargeData is a charge, or a refund, in the words of the provider's answer. What the answer does not hold is left out: nothing
// of ours is filled in.
type ChargeData struct {
	ID          string
	Status      attempt.ChargeStatus
	Reference   string
	Minor       *int64 // the amount in ISO 4217 minor units; nil: absent
	Currency    string // any case
	DeclineCode string
	NextAction  string
	ChargeID    string // of a refund: the charge whose money it gives back
}

// LookupPage is one page of an answer to a lookup or a listing.
type LookupPage struct {
	// Readable: the answer is complete and of the form that the API promises. Anything else, 404 and null included, is not.
	Readable bool
	Charges  []ChargeData
	// Next is the cursor of the next page; empty: this was the last.
	Next      string
	Detail    string // why it is not readable
	RequestID string
}

// VerdictOf gives the verdict on an answer by its status alone, for answers in the provider's own schema: what to fall back
// on where the provider's documents say nothing else. 2xx are Violated: they need a charge.
func VerdictOf(statusCode int) attempt.Verdict {
	switch statusCode {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType, http.StatusRequestEntityTooLarge,
		http.StatusUnprocessableEntity, http.StatusNotAcceptable, http.StatusGone:
		return attempt.Rejected
	case http.StatusConflict:
		return attempt.Running
	}
	if IsUnavailable(statusCode) {
		return attempt.Unavailable
	}
	return attempt.Violated
}

// IsUnavailable tells whether a status decides nothing, whoever sent it: a gateway may say so after it has passed the
// request on. 408, 425, 429 and all of 5xx.
func IsUnavailable(statusCode int) bool {
	switch statusCode {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return statusCode >= 500 && statusCode <= 599
}

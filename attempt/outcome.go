package attempt

import "fmt"

// Outcome is what a caller is told. The zero Outcome is [UnknownOutcome]. Decide by [Moved]; the outcome says why.
type Outcome uint8

// The outcomes.
const (
	UnknownOutcome    Outcome = iota // money may have moved; the attempt stays open until evidence decides
	Approved                         // the provider holds the charge: amount, currency and reference are ours
	Declined                         // definite business refusal; paying again is a new intent
	ContractViolation                // one side broke the contract; moved says whether money may be involved
)

// String returns the outcome's name in snake case, as JSON writes it.
func (o Outcome) String() string {
	switch o {
	case UnknownOutcome:
		return "unknown"
	case Approved:
		return "approved"
	case Declined:
		return "declined"
	case ContractViolation:
		return "contract_violation"
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// MarshalText writes the outcome's name.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Moved tells whether money moved. The zero Moved is [MovedMaybe].
type Moved uint8

// What may have become of the money.
const (
	MovedMaybe Moved = iota
	MovedNo
	MovedYes
)

// String returns "maybe", "no" or "yes".
func (m Moved) String() string {
	switch m {
	case MovedMaybe:
		return "maybe"
	case MovedNo:
		return "no"
	case MovedYes:
		return "yes"
	}
	return fmt.Sprintf("moved(%d)", uint8(m))
}

// MarshalText writes "maybe", "no" or "yes".
func (m Moved) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Reason says in one machine-readable word why an attempt is where it is. New reasons may be added.
type Reason string

// The reasons.
const (
	ReasonInFlight       Reason = "in_flight"        // another caller's claim is running
	ReasonNotRecorded    Reason = "not_recorded"     // a refusal was received and could not be stored yet
	ReasonRefundOwed     Reason = "refund_owed"      // money on an attempt that had ended without it
	ReasonReviewOwed     Reason = "review_owed"      // a person must look: a charge that differs from what was asked
	ReasonBodyChanged    Reason = "body_changed"     // the stored request cannot be sent again unchanged
	ReasonSourceUnknown  Reason = "source_unknown"   // the digest key of the stored source is not configured any more
	ReasonSuperseded     Reason = "superseded"       // another intent took the slot before anything was sent
	ReasonNeverSent      Reason = "never_sent"       // nobody sent the prepared attempt in time
	ReasonNotFound       Reason = "not_found"        // the provider was asked, late and often enough, and holds no charge
	ReasonNotSent        Reason = "not_sent"         // every send is proven not to have left
	ReasonTimeout        Reason = "timeout"          // no answer within the send's time
	ReasonConnectionLost Reason = "connection_lost"  // the connection ended without a usable answer
	ReasonCancelled      Reason = "cancelled"        // the caller stopped waiting after the request may have left
	ReasonStillRunning   Reason = "still_running"    // the provider says that the first request is still being worked on
	ReasonUnavailable    Reason = "unavailable"      // the provider answered that it cannot answer (5xx, 429, 408)
	ReasonPending        Reason = "pending"          // the provider holds the charge, and it is not final yet
	ReasonPayerAction    Reason = "payer_action"     // the payer must act, see NextAction
	ReasonUnreadable     Reason = "unreadable"       // the answer cannot be read, or contradicts itself
	ReasonMismatch       Reason = "mismatch"         // the answer names another reference, amount or currency
	ReasonUnproven       Reason = "unproven"         // a refusal that does not name our reference came on a used connection
	ReasonKeyReused      Reason = "key_reused"       // the provider knows the key with another body
	ReasonRefused        Reason = "refused"          // refused as malformed or unauthorised
	ReasonDeclined       Reason = "declined"         // definite refusal by the provider
	ReasonVoided         Reason = "voided"           // cancelled at the provider before it was final
	ReasonClaimExpired   Reason = "claim_expired"    // the sender's time ran out, or it died
	ReasonNotSendable    Reason = "not_sendable"     // may have been executed, and the provider's rules forbid another send
	ReasonUnreachable    Reason = "unreachable"      // no connection to the provider: nothing left
	ReasonCertificate    Reason = "certificate"      // the provider's certificate is not trusted: nothing left
	ReasonBreakerOpen    Reason = "breaker_open"     // the circuit breaker is open: nothing left
	ReasonBusy           Reason = "busy"             // too many requests under way here: nothing left
	ReasonNoTime         Reason = "no_time"          // not enough of the call's time was left for another request
	ReasonRedirected     Reason = "redirected"       // the provider's address answered with a redirect, which is never followed
	ReasonNotAsked       Reason = "not_asked"        // a question that had to come first could not be asked
	ReasonOrderCancelled Reason = "order_cancelled"  // the order was cancelled before anything was sent
	ReasonRefunded       Reason = "refunded"         // all its money was given back
	ReasonResolved       Reason = "resolved"         // a person has decided that the provider holds nothing
	ReasonKept           Reason = "kept"             // it was decided that money found late stays as the order's payment
	ReasonProviderChange Reason = "provider_changed" // the attempt belongs to another provider, account or environment
)

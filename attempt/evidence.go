package attempt

import (
	"fmt"
	"slices"
	"time"
)

// EvidenceKind says where evidence comes from.
type EvidenceKind string

// The kinds of evidence.
const (
	EvidenceSends      EvidenceKind = "sends"      // the end of a claim, with the log of its sends
	EvidenceLookup     EvidenceKind = "lookup"     // the provider was asked by reference
	EvidenceWebhook    EvidenceKind = "webhook"    // the provider told us
	EvidenceSettlement EvidenceKind = "settlement" // a line of a settlement report
	EvidenceDecision   EvidenceKind = "decision"   // a person, or a policy of the host's, has decided
	EvidenceTime       EvidenceKind = "time"       // nothing was learnt but that time has passed
)

// LookupAnswer is what came of asking the provider by reference. The zero answer is [LookupUnreadable].
type LookupAnswer uint8

// The answers of a lookup.
const (
	LookupUnreadable LookupAnswer = iota // an answer came and cannot be relied on: it counts for nothing
	LookupFound                          // one charge or several, in Charges
	LookupNone                           // a complete answer that holds no charge with our reference
	LookupNotAsked                       // the query failed, or the provider cannot be asked
)

var lookupNames = [...]string{"unreadable", "found", "none", "not_asked"}

// String returns the answer's name.
func (l LookupAnswer) String() string {
	if int(l) < len(lookupNames) {
		return lookupNames[l]
	}
	return fmt.Sprintf("lookup_answer(%d)", uint8(l))
}

// MarshalText writes the answer's name.
func (l LookupAnswer) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads the answer's name.
func (l *LookupAnswer) UnmarshalText(text []byte) error {
	i := slices.Index(lookupNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("lookup answer %q: want one of %v", text, lookupNames)
	}
	*l = LookupAnswer(i)
	return nil
}

// Evidence is one thing learnt about an attempt. Money always counts, whoever reports it, and whenever.
type Evidence struct {
	Kind EvidenceKind `json:"kind"`
	At   time.Time    `json:"-"` // by the store's clock, when it is stored; the event carries it

	Fence int    `json:"fence,omitempty"` // EvidenceSends: which claim ended
	Sends []Send `json:"sends,omitempty"` // EvidenceSends: all requests of the claim, in order
	// Overdue, with EvidenceSends: the claim was over when its sender stopped sending, because it had stood still. A request of
	// it may have left as late as this is stored.
	Overdue bool `json:"overdue,omitempty"`

	Lookup  LookupAnswer `json:"lookup,omitzero"`   // EvidenceLookup
	AskedAt time.Time    `json:"asked_at,omitzero"` // EvidenceLookup: by the store's clock, before the question left
	Charges []Charge     `json:"charges,omitempty"` // found, told, or listed under our reference
	Answer  *Answer      `json:"answer,omitempty"`  // what the provider answered to a lookup, or to the request to cancel a charge

	Resolution *Resolution `json:"resolution,omitempty"` // EvidenceDecision

	// KeepsAnswers says that the provider keeps every answer under the key: a charge that failed speaks for every send.
	KeepsAnswers bool `json:"-"`
	// Rule says when an attempt may be abandoned; nil: not on this evidence.
	Rule *AbandonRule `json:"-"`
}

// AbandonRule holds the times after which an attempt may be abandoned. See [Next].
type AbandonRule struct {
	After         time.Duration // since the last moment at which a request may have left
	Lag           time.Duration // the provider's worst: how long a charge may be missing from lookups
	PreparedAfter time.Duration // a prepared attempt that nobody sent; zero: never
}

// Event is one change of an attempt: the audit trail, written in the change's own transaction and never altered.
type Event struct {
	AttemptID string
	Version   int // of the attempt after the change
	What      What
	From, To  Status
	At        time.Time // by the store's clock, UTC
	Who       string    // the instance or person that brought it about; may be empty
	Evidence  *Evidence // redacted; nil where nothing was learnt
	Duties    []Duty    // opened by this change
}

// What says what happened in an event.
type What string

// What may happen to an attempt.
const (
	WhatStarted        What = "started"         // stored as prepared
	WhatStartedClaimed What = "started_claimed" // stored and claimed in one commit
	WhatClaimed        What = "claimed"
	WhatLearnt         What = "learnt" // evidence was added
	WhatSuperseded     What = "superseded"
	WhatCancelled      What = "cancelled" // the order was cancelled
	WhatRefunded       What = "refunded"  // a refund of its money has changed
	WhatResolved       What = "resolved"  // a decision was added
)

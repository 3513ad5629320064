package attempt

import (
	"errors"
	"fmt"
	"net/url"
)

// Bounds of a notice's texts, in bytes.
const (
	MaxNoticeIDLength   = 300 // of an event's id, and of a charge's
	MaxNoticeTextLength = 200 // of a type, and of a decline code
	MaxReferenceLength  = 300
	MaxNextActionLength = 4096
)

// Notice is what somebody else's record says of one charge or refund: a webhook event, an entry of a provider's listing, a
// line of a settlement report. It says nothing of the place that it comes from; who read it knows that.
type Notice struct {
	ID        string `json:"id,omitempty"`   // of the event, the same whenever it is delivered again; empty in a listing
	Type      string `json:"type,omitempty"` // in the provider's words, such as "charge.succeeded"; nothing is decided by it
	Reference string `json:"reference"`      // ours, if [IDOf] and the store say so
	Refund    bool   `json:"refund,omitempty"`
	// Charge is the provider's charge, or its refund if Refund is set. Only what the provider itself can say of it counts:
	// ID, Status, Amount, DeclineCode and NextAction. Amount may be missing where the provider does not tell it; then a
	// success proves no payment, and keeps the attempt open.
	Charge Charge `json:"charge"`
}

// ErrNoCharge: the event is about no charge and no refund. There is nothing to learn from it; it is no failure.
var ErrNoCharge = errors.New("about no charge")

// Validate reports every part that cannot be kept: a charge without an id, an unknown status, a text that is too long or holds
// a control character, and a Type or DeclineCode with what looks like a card number. A reference that is not ours, or none,
// is no mistake.
func (n Notice) Validate() error {
	errs := []error{
		validText("event id", n.ID, 0, MaxNoticeIDLength),
		validText("type", n.Type, 0, MaxNoticeTextLength),
		validText("reference", n.Reference, 0, MaxReferenceLength),
		validText("charge id", n.Charge.ID, 1, MaxNoticeIDLength),
		validText("decline code", n.Charge.DeclineCode, 0, MaxNoticeTextLength),
		validText("next action", n.Charge.NextAction, 0, MaxNextActionLength),
	}
	if int(n.Charge.Status) >= len(chargeStatusNames) {
		errs = append(errs, fmt.Errorf("charge status: %s is unknown", n.Charge.Status))
	}
	if text := n.Charge.NextAction; text != "" {
		if u, err := url.Parse(text); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			errs = append(errs, errors.New("next action: not a web address"))
		}
	}
	if holdsCard(n.Type) || holdsCard(n.Charge.DeclineCode) {
		errs = append(errs, errors.New("type or decline code: holds what looks like a card number"))
	}
	return errors.Join(errs...)
}

// WithoutCards returns the notice with every text in it that holds what looks like a card number left out: for notices of charges
// that are none of ours, whose texts nobody here has made.
func (n Notice) WithoutCards() Notice {
	const hidden = "[card number]"
	for _, text := range []*string{&n.ID, &n.Type, &n.Reference, &n.Charge.ID, &n.Charge.DeclineCode, &n.Charge.NextAction} {
		if holdsCard(*text) || isCardToken(*text) {
			*text = hidden
		}
	}
	return n
}

// Evidence returns what the notice proves for the attempt that its reference belongs to, and for no other: whether that is an
// attempt of the place that the notice comes from is for the caller to see. keepsAnswers says that the provider keeps every
// answer under the key, so that a charge that failed speaks for every send.
//
// With [EvidenceLookup] it is the answer of a question, and the caller sets AskedAt.
func (n Notice) Evidence(kind EvidenceKind, keepsAnswers bool) Evidence {
	c := n.Charge
	e := Evidence{
		Kind: kind, KeepsAnswers: keepsAnswers,
		Charges: []Charge{{ID: c.ID, Status: c.Status, Amount: c.Amount, DeclineCode: c.DeclineCode, NextAction: c.NextAction}},
	}
	if kind == EvidenceLookup {
		e.Lookup = LookupFound
	}
	return e
}

package standard

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/strictjson"
	"github.com/chargeonce/chargeonce/money"
)

var eventMembers = []string{"id", "type", "created", "data"}

// ReadEvent reads a webhook event of the API, whose signature was verified: the charge or the refund that it tells of, as it
// stood when the event was made. One that was not made by us may have no reference. It fails with [attempt.ErrNoCharge] for an
// event of another kind, and for every event that is not whole: one strict JSON object with an id, a type "charge.STATUS" or
// "refund.STATUS", and the object in that status. Its errors quote nothing of the payload.
func ReadEvent(payload []byte) (attempt.Notice, error) {
	var n attempt.Notice
	var data jsontext.Value
	err := strictjson.Object(payload, eventMembers, func(i int, v jsontext.Value) (err error) {
		switch eventMembers[i] {
		case "id":
			n.ID, err = strictjson.String(v)
		case "type":
			n.Type, err = strictjson.String(v)
		case "data":
			data = v.Clone()
		}
		return err
	})
	if err != nil {
		return attempt.Notice{}, errors.New("standard: event: not one whole object of the API")
	}
	about, status, _ := strings.Cut(n.Type, ".")
	members := chargeMembers
	switch about {
	case "charge":
	case "refund":
		n.Refund, members = true, refundMembers
	default:
		if n.ID == "" || n.Type == "" {
			return attempt.Notice{}, errors.New("standard: event: id or type: missing")
		}
		return attempt.Notice{ID: n.ID, Type: n.Type}, fmt.Errorf("standard: event: %w", attempt.ErrNoCharge)
	}
	c, text, err := readChargeObject(data, members)
	if err != nil {
		return attempt.Notice{}, errors.New("standard: event: data: not one whole object of the API")
	}
	known := false
	n.Reference = c.Reference
	n.Charge = attempt.Charge{ID: c.ID, DeclineCode: c.DeclineCode, NextAction: c.NextAction}
	n.Charge.Status, known = chargeStatus(text)
	switch {
	case n.ID == "" || c.ID == "" || c.Minor == nil:
		return attempt.Notice{}, errors.New("standard: event: an id or the amount: missing")
	case n.Refund && c.ChargeID == "":
		return attempt.Notice{}, errors.New("standard: event: the charge of a refund: missing")
	case !known || text != status:
		return attempt.Notice{}, errors.New("standard: event: the status is not the one of its type")
	}
	if n.Charge.Amount, err = money.Restore(*c.Minor, c.Currency); err != nil {
		return attempt.Notice{}, errors.New("standard: event: currency: missing or unknown")
	}
	if err := n.Validate(); err != nil {
		return attempt.Notice{}, errors.New("standard: event: holds what cannot be kept")
	}
	return n, nil
}

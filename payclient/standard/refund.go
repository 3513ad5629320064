package standard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
)

var (
	_ payclient.Refunder = (*Provider)(nil)
	_ payclient.Voider   = (*Provider)(nil)
	_ payclient.Lister   = (*Provider)(nil)
)

// RefundBody implements [payclient.Refunder].
func (p *Provider) RefundBody(a attempt.Attempt) ([]byte, error) {
	b, err := jsontext.AppendQuote([]byte(`{"charge":`), a.Refund.ChargeID)
	if err != nil {
		return nil, fmt.Errorf("charge: %w", err)
	}
	b = append(b, `,"amount":`...)
	b = strconv.AppendInt(b, a.Amount.Minor(), 10)
	b = append(b, `,"currency":"`...)
	b = append(b, a.Amount.Currency()...)
	b = append(b, `","merchant_reference":`...)
	if b, err = jsontext.AppendQuote(b, a.Reference); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	return append(b, '}'), nil
}

// RefundRequest implements [payclient.Refunder].
func (p *Provider) RefundRequest(attempt.Attempt) payclient.Request {
	h := p.header()
	h["Content-Type"] = jsonType
	return payclient.Request{Method: http.MethodPost, Path: "/v1/refunds", Header: h}
}

// refundMembers are the members of the API's refund object.
var refundMembers = append(slices.Clone(chargeMembers), "charge")

// ReadRefund implements [payclient.Refunder].
func (p *Provider) ReadRefund(r payclient.Response) payclient.Reply {
	reply := p.read(r, refundMembers)
	switch reply.Code {
	case "charge_already_refunded", "refund_too_large":
		reply.AskFirst = reply.Verdict == attempt.Rejected // what was refunded may be this very refund
	}
	return reply
}

// RefundLookupRequest implements [payclient.Refunder].
func (p *Provider) RefundLookupRequest(reference, cursor string) payclient.Request {
	r := p.LookupRequest(reference, cursor)
	r.Path = "/v1/refunds"
	return r
}

// ReadRefundLookup implements [payclient.Refunder].
func (p *Provider) ReadRefundLookup(r payclient.Response) payclient.LookupPage {
	return readList(r, refundMembers)
}

// VoidRequest implements [payclient.Voider].
func (p *Provider) VoidRequest(_ attempt.Attempt, chargeID string) payclient.Request {
	return payclient.Request{Method: http.MethodPost, Path: "/v1/charges/" + chargeID + "/void", Header: p.header()}
}

// ReadVoid implements [payclient.Voider].
func (p *Provider) ReadVoid(r payclient.Response) payclient.Reply {
	reply := p.read(r, chargeMembers)
	if r.StatusCode == http.StatusConflict && reply.Verdict == attempt.Running {
		reply.Verdict = attempt.Rejected // the charge is final
	}
	return reply
}

// ListRequest implements [payclient.Lister].
func (p *Provider) ListRequest(from, to time.Time, cursor string) payclient.Request {
	q := url.Values{
		"created_from": {from.UTC().Format(time.RFC3339Nano)}, "created_to": {to.UTC().Format(time.RFC3339Nano)}, "limit": {"100"},
	}
	if cursor != "" {
		q.Set("starting_after", cursor)
	}
	return payclient.Request{Method: http.MethodGet, Path: "/v1/charges", Query: q.Encode(), Header: p.header()}
}

// ReadList implements [payclient.Lister].
func (p *Provider) ReadList(r payclient.Response) payclient.LookupPage { return p.ReadLookup(r) }

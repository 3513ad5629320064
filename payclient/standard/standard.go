// Package standard is the adapter for the standard charges API: JSON over HTTP, amounts in minor units, the
// Idempotency-Key header as the IETF draft writes it (draft-ietf-httpapi-idempotency-key-header: a structured field
// string, in quotes), errors as problem details (RFC 9457), charges found by merchant reference. fakeprovider speaks it.
//
// It promises what every adapter does: it is pure, and it reads an answer strictly. A name in another case, a name given
// twice, text after the value or invalid UTF-8 make an answer unreadable, never an approval and never a refusal.
package standard

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
)

// Name is the adapter's name, as stored with each attempt.
const Name = "standard"

// Config configures the adapter. What the API leaves to its operator is declared here: wrong declarations make payments
// unsafe.
type Config struct {
	// Token is the bearer token (RFC 6750). Required.
	Token payclient.Secret
	// KeyRetention is how long the provider keeps a key. Zero: 24 h.
	KeyRetention time.Duration
	// KeepsSuccessesOnly says that refusals and failures are not stored under the key. Then nothing is sent again that may
	// have been executed.
	KeepsSuccessesOnly bool
	// NoKeys says that the provider ignores the key header.
	NoKeys bool
	// LookupLag is the worst known time for which a charge may be missing from lookups. Zero: 1 min.
	LookupLag time.Duration
	// NoLookup says that charges cannot be found by reference.
	NoLookup bool
	// IdleTimeout is after how long the provider closes idle connections. Zero: not known.
	IdleTimeout time.Duration
}

// Provider is the adapter.
type Provider struct {
	cfg  Config
	caps payclient.Capabilities

	authorization []string // shared by all requests, never changed
}

var _ payclient.Provider = (*Provider)(nil)

// New makes the adapter. It fails for a missing or unusable token.
func New(cfg Config) (*Provider, error) {
	token := cfg.Token.Reveal()
	if token == "" {
		return nil, errors.New("standard: Token: missing")
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, errors.New("standard: Token: holds a space, a control character or a non-ASCII one")
	}
	if cfg.KeyRetention < 0 || cfg.LookupLag < 0 || cfg.IdleTimeout < 0 {
		return nil, errors.New("standard: a time is negative")
	}
	if cfg.KeyRetention == 0 {
		cfg.KeyRetention = 24 * time.Hour
	}
	if cfg.LookupLag == 0 {
		cfg.LookupLag = time.Minute
	}
	caps := payclient.Capabilities{
		Name:        Name,
		Reference:   payclient.ReferenceCapability{MaxLength: 100},
		Lookup:      payclient.LookupCapability{ByReference: !cfg.NoLookup, Lag: cfg.LookupLag},
		IdleTimeout: cfg.IdleTimeout,
	}
	if !cfg.NoKeys {
		caps.Key = payclient.KeyCapability{
			Header: "Idempotency-Key", Quoted: true, MaxLength: 255,
			Retention: cfg.KeyRetention, KeepsEveryAnswer: !cfg.KeepsSuccessesOnly,
		}
	}
	return &Provider{cfg: cfg, caps: caps, authorization: []string{"Bearer " + token}}, nil
}

// Capabilities implements [payclient.Provider].
func (p *Provider) Capabilities() payclient.Capabilities { return p.caps }

// ChargeBody implements [payclient.Provider].
func (p *Provider) ChargeBody(a attempt.Attempt) ([]byte, error) {
	b := make([]byte, 0, 192)
	b = append(b, `{"amount":`...)
	b = strconv.AppendInt(b, a.Amount.Minor(), 10)
	b = append(b, `,"currency":"`...)
	b = append(b, a.Amount.Currency()...)
	b = append(b, `","source":`...)
	b = append(b, 0)
	var err error
	if a.Description != "" {
		b = append(b, `,"description":`...)
		if b, err = jsontext.AppendQuote(b, a.Description); err != nil {
			return nil, fmt.Errorf("description: %w", err)
		}
	}
	b = append(b, `,"merchant_reference":`...)
	if b, err = jsontext.AppendQuote(b, a.Reference); err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	return append(b, '}'), nil
}

// AppendSource implements [payclient.Provider].
func (p *Provider) AppendSource(dst []byte, source attempt.Source) ([]byte, error) {
	out, err := jsontext.AppendQuote(dst, source.Reveal())
	if err != nil {
		return nil, errors.New("not valid UTF-8")
	}
	return out, nil
}

// ChargeRequest implements [payclient.Provider].
func (p *Provider) ChargeRequest(attempt.Attempt) payclient.Request {
	h := p.header()
	h["Content-Type"] = jsonType
	return payclient.Request{Method: http.MethodPost, Path: "/v1/charges", Header: h}
}

var jsonType = []string{"application/json"}

func (p *Provider) header() http.Header {
	h := make(http.Header, 5)
	h["Authorization"] = p.authorization
	h["Accept"] = acceptedTypes
	return h
}

var acceptedTypes = []string{"application/json, application/problem+json"}

// LookupRequest implements [payclient.Provider].
func (p *Provider) LookupRequest(reference, cursor string) payclient.Request {
	q := url.Values{"merchant_reference": {reference}}
	if cursor != "" {
		q.Set("starting_after", cursor)
	}
	return payclient.Request{Method: http.MethodGet, Path: "/v1/charges", Query: q.Encode(), Header: p.header()}
}

// charge is the API's charge object.
type charge struct {
	ID          string  `json:"id"`
	Status      string  `json:"status"`
	Amount      *int64  `json:"amount"`
	Currency    *string `json:"currency"`
	Reference   *string `json:"merchant_reference"`
	DeclineCode string  `json:"decline_code"`
	NextAction  *struct {
		URL string `json:"url"`
	} `json:"next_action"`
	Created ignored        `json:"created"`
	Others  jsontext.Value `json:",embed"`
}

var chargeNames = []string{"id", "status", "amount", "currency", "merchant_reference", "decline_code", "next_action", "created"}

// problem is the API's error object: problem details with members of its own (RFC 9457 section 3.2).
type problem struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Status      *int   `json:"status"`
	Detail      string `json:"detail"`
	Code        string `json:"code"`
	DeclineCode string `json:"decline_code"`
	Reference   string `json:"merchant_reference"`

	Others jsontext.Value `json:",embed"`
}

var problemNames = []string{"type", "title", "status", "detail", "code", "decline_code", "merchant_reference"}

// ignored is a member that the API has and nobody needs.
type ignored struct{}

// UnmarshalJSONFrom skips the value.
func (*ignored) UnmarshalJSONFrom(d *jsontext.Decoder) error { return d.SkipValue() }

// ReadCharge implements [payclient.Provider].
func (p *Provider) ReadCharge(r payclient.Response) payclient.Reply {
	reply := payclient.Reply{
		Verdict: attempt.Violated, Reason: attempt.ReasonUnreadable,
		RequestID: r.Header.Get("Request-Id"), Replayed: r.Header.Get("Idempotent-Replayed") == "true",
		NoRetry: r.Header.Get("Should-Retry") == "false",
	}
	switch {
	case r.StatusCode == http.StatusOK || r.StatusCode == http.StatusCreated:
		p.readCharge(r, &reply)
	case r.StatusCode >= 200 && r.StatusCode <= 299:
		// Accepted or empty: the charge has to be asked for.
		reply.Detail = "status " + strconv.Itoa(r.StatusCode) + " without a charge"
		reply.Ask = true
	case payclient.IsUnavailable(r.StatusCode):
		reply.Verdict, reply.Reason = attempt.Unavailable, attempt.ReasonUnavailable
		if e, err := readProblem(r); err == nil { // a gateway may answer with anything
			reply.Code, reply.Detail = e.Code, e.Detail
		}
	case r.StatusCode >= 400 && r.StatusCode <= 499:
		p.readRefusal(r, &reply)
	default:
		reply.Detail = "status " + strconv.Itoa(r.StatusCode) + " is not one of the API"
	}
	return reply
}

func (p *Provider) readCharge(r payclient.Response, reply *payclient.Reply) {
	var c charge
	err := readStrictly(r.Body, &c)
	if err == nil {
		err = otherCase(c.Others, chargeNames)
	}
	if err != nil {
		reply.Detail = notReadable(r, err)
		return
	}
	data, known := c.data()
	reply.Charge = data
	if !known {
		reply.Verdict, reply.Reason = attempt.Violated, attempt.ReasonUnreadable
		reply.Detail = "status: " + strconv.Quote(c.Status) + " is not one of the API"
		return
	}
	reply.Verdict, reply.Reason = attempt.Charged, ""
}

// data reads the charge object; known tells whether its status is one of the API, written exactly so.
func (c *charge) data() (data payclient.ChargeData, known bool) {
	data = payclient.ChargeData{ID: c.ID, Minor: c.Amount, DeclineCode: c.DeclineCode}
	if c.Reference != nil {
		data.Reference = *c.Reference
	}
	if c.Currency != nil {
		data.Currency = *c.Currency
	}
	if c.NextAction != nil {
		data.NextAction = c.NextAction.URL
	}
	switch c.Status {
	case "succeeded":
		data.Status = attempt.ChargeSucceeded
	case "pending":
		data.Status = attempt.ChargePending
	case "failed":
		data.Status = attempt.ChargeFailed
	default:
		return data, false
	}
	return data, true
}

// readRefusal reads a 4xx. It refuses only in the API's own words: a problem object with a code. The same status with
// anything else comes from somewhere on the way.
func (p *Provider) readRefusal(r payclient.Response, reply *payclient.Reply) {
	e, err := readProblem(r)
	if err != nil {
		reply.Detail = notReadable(r, err)
		return
	}
	reply.Code, reply.DeclineCode, reply.Reference, reply.Detail = e.Code, e.DeclineCode, e.Reference, e.Detail
	reply.Reason = ""
	switch r.StatusCode {
	case http.StatusPaymentRequired:
		reply.Verdict = attempt.Refused
	case http.StatusUnprocessableEntity:
		// The draft, section 2.7: the key is in use with another payload.
		reply.Verdict = attempt.KeyReused
	default:
		reply.Verdict = payclient.VerdictOf(r.StatusCode)
		if reply.Verdict == attempt.Violated {
			reply.Reason, reply.Detail = attempt.ReasonUnreadable, "status "+strconv.Itoa(r.StatusCode)+" is not one of the API"
		}
	}
}

func readProblem(r payclient.Response) (problem, error) {
	var e problem
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/problem+json" && media != "application/json" {
		return e, errors.New("the content type is not that of a problem")
	}
	if err := readStrictly(r.Body, &e); err != nil {
		return e, err
	}
	if err := otherCase(e.Others, problemNames); err != nil {
		return e, err
	}
	if e.Code == "" && (e.Type == "" || e.Type == "about:blank") {
		return e, errors.New("no code and no type: not an error of the API")
	}
	if e.Status != nil && *e.Status != r.StatusCode {
		// RFC 9457 section 3.1.3: the status as the API gave it, to be compared where somebody on the way has changed it.
		return e, fmt.Errorf("the problem is one of status %d", *e.Status)
	}
	return e, nil
}

// ReadLookup implements [payclient.Provider]. What it says of an unreadable page quotes nothing of it: the page may hold
// payment sources, and whoever looks up does not know which to take out.
func (p *Provider) ReadLookup(r payclient.Response) payclient.LookupPage {
	page := payclient.LookupPage{RequestID: r.Header.Get("Request-Id")}
	if r.StatusCode != http.StatusOK {
		page.Detail = "status " + strconv.Itoa(r.StatusCode)
		return page
	}
	var list struct {
		Data    *[]charge `json:"data"`
		HasMore *bool     `json:"has_more"`

		Others jsontext.Value `json:",embed"`
	}
	err := readStrictly(r.Body, &list)
	if err == nil {
		err = otherCase(list.Others, []string{"data", "has_more"})
	}
	if err != nil {
		page.Detail = err.Error()
		return page
	}
	if list.Data == nil || list.HasMore == nil {
		page.Detail = "data or has_more: missing"
		return page
	}
	for i := range *list.Data {
		c := &(*list.Data)[i]
		if err := otherCase(c.Others, chargeNames); err != nil {
			page.Detail = err.Error()
			return page
		}
		data, known := c.data()
		if !known {
			page.Detail = "status: " + strconv.Quote(c.Status) + " is not one of the API"
			return page
		}
		page.Charges = append(page.Charges, data)
	}
	if *list.HasMore {
		if len(*list.Data) == 0 || (*list.Data)[len(*list.Data)-1].ID == "" {
			page.Detail = "has_more without a charge to go on from"
			return page
		}
		page.Next = (*list.Data)[len(*list.Data)-1].ID
	}
	page.Readable = true
	return page
}

// readStrictly reads exactly one JSON object: exact names, none twice, valid UTF-8, nothing after it.
func readStrictly(body []byte, into any) error {
	if kind := jsontext.Value(body).Kind(); kind != '{' {
		return errors.New("not a JSON object")
	}
	return json.Unmarshal(body, into)
}

// otherCase fails if one of an object's other members is one of the API's written in another case. Programs disagree about
// whether such a name counts (encoding/json takes it), so the object means one thing to one reader and another to the next.
func otherCase(others jsontext.Value, names []string) error {
	if len(others) == 0 {
		return nil
	}
	d := jsontext.NewDecoder(bytes.NewReader(others))
	for {
		t, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if t.Kind() != '"' {
			continue // the object's brackets
		}
		for _, name := range names {
			if strings.EqualFold(t.String(), name) {
				return fmt.Errorf("%s: written in another case", name)
			}
		}
		if err := d.SkipValue(); err != nil {
			return err
		}
	}
}

// notReadable describes an answer that could not be read, with its first bytes.
func notReadable(r payclient.Response, err error) string {
	first := r.Body[:min(len(r.Body), 80)]
	why := err.Error()
	if i := strings.IndexByte(why, '\n'); i >= 0 {
		why = why[:i]
	}
	return fmt.Sprintf("%s, %d bytes, begins %q: %s", r.Header.Get("Content-Type"), len(r.Body), first, why)
}

// Package standard is the adapter for the standard charges API: JSON over HTTP, amounts in minor units, the
// Idempotency-Key header as the IETF draft writes it (draft-ietf-httpapi-idempotency-key-header: a structured field
// string, in quotes), errors as problem details (RFC 9457), charges found by merchant reference. fakeprovider speaks it.
//
// It promises what every adapter does: it is pure, and it reads an answer strictly. A name in another case, a name given
// twice, text after the value or invalid UTF-8 make an answer unreadable, never an approval and never a refusal.
package standard

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/strictjson"
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
	// NoRefunds, NoVoids and NoLists say that the provider does not offer refunds, the cancelling of charges that are not
	// final, and the list of charges by time.
	NoRefunds, NoVoids, NoLists bool
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

// New makes the adapter. It reports every mistake in the configuration at once.
func New(cfg Config) (*Provider, error) {
	var errs []error
	token := cfg.Token.Reveal()
	switch {
	case token == "":
		errs = append(errs, errors.New("standard: Token: missing"))
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		errs = append(errs, errors.New("standard: Token: holds a space, a control character or a non-ASCII one"))
	}
	for _, f := range []struct {
		name  string
		value time.Duration
	}{{"KeyRetention", cfg.KeyRetention}, {"LookupLag", cfg.LookupLag}, {"IdleTimeout", cfg.IdleTimeout}} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("standard: %s: %s is negative", f.name, f.value))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.KeyRetention == 0 {
		cfg.KeyRetention = 24 * time.Hour
	}
	if cfg.LookupLag == 0 {
		cfg.LookupLag = time.Minute
	}
	caps := payclient.Capabilities{
		Name:         Name,
		CredentialID: credentialID(token),
		Reference:    payclient.ReferenceCapability{MaxLength: 100},
		Lookup:       payclient.LookupCapability{ByReference: !cfg.NoLookup, Lag: cfg.LookupLag},
		IdleTimeout:  cfg.IdleTimeout,
		Refunds:      !cfg.NoRefunds, Voids: !cfg.NoVoids, Lists: !cfg.NoLists,
	}
	if !cfg.NoKeys {
		caps.Key = payclient.KeyCapability{
			Header: "Idempotency-Key", Quoted: true, MaxLength: 255,
			Retention: cfg.KeyRetention, KeepsEveryAnswer: !cfg.KeepsSuccessesOnly,
		}
	}
	return &Provider{cfg: cfg, caps: caps, authorization: []string{"Bearer " + token}}, nil
}

// credentialID tells tokens apart without telling anything about them: 64 bits of a digest.
func credentialID(token string) string {
	sum := sha256.Sum256([]byte("chargeonce standard token\x00" + token))
	return "token-" + hex.EncodeToString(sum[:8])
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

// chargeMembers are the members of the API's charge object.
var chargeMembers = []string{"id", "status", "amount", "currency", "merchant_reference", "decline_code", "next_action", "created"}

// readChargeObject reads a charge, or a refund by its members. A member that is null is taken for absent: nothing of ours is
// filled in for it.
func readChargeObject(object []byte, members []string) (data payclient.ChargeData, status string, err error) {
	err = strictjson.Object(object, members, func(i int, v jsontext.Value) (err error) {
		if strictjson.IsNull(v) {
			return nil
		}
		switch members[i] {
		case "id":
			data.ID, err = strictjson.String(v)
		case "status":
			status, err = strictjson.String(v, "succeeded", "pending", "failed")
		case "amount":
			var minor int64
			minor, err = strictjson.Int(v)
			data.Minor = &minor
		case "currency":
			data.Currency, err = strictjson.String(v)
		case "merchant_reference":
			data.Reference, err = strictjson.String(v)
		case "decline_code":
			data.DeclineCode, err = strictjson.String(v)
		case "charge":
			data.ChargeID, err = strictjson.String(v)
		case "next_action":
			err = strictjson.Object(v, nextActionMembers, func(_ int, v jsontext.Value) (err error) {
				if !strictjson.IsNull(v) {
					data.NextAction, err = strictjson.String(v)
				}
				return err
			})
		}
		return err
	})
	return data, status, err
}

var nextActionMembers = []string{"url"}

// chargeStatus reads a charge's status; known tells whether it is one of the API, written exactly so.
func chargeStatus(text string) (status attempt.ChargeStatus, known bool) {
	switch text {
	case "succeeded":
		return attempt.ChargeSucceeded, true
	case "pending":
		return attempt.ChargePending, true
	case "failed":
		return attempt.ChargeFailed, true
	}
	return attempt.ChargePending, false
}

// problem is the API's error object: problem details with members of its own (RFC 9457 section 3.2).
type problem struct {
	kind        string // its type: a URI
	status      int64  // 0: not given
	detail      string
	code        string
	declineCode string
	reference   string
}

var problemMembers = []string{"type", "title", "status", "detail", "code", "decline_code", "merchant_reference"}

func readProblemObject(object []byte) (e problem, err error) {
	err = strictjson.Object(object, problemMembers, func(i int, v jsontext.Value) (err error) {
		if strictjson.IsNull(v) {
			return nil
		}
		switch problemMembers[i] {
		case "type":
			e.kind, err = strictjson.String(v)
		case "title":
			_, err = strictjson.String(v)
		case "status":
			e.status, err = strictjson.Int(v)
		case "detail":
			e.detail, err = strictjson.String(v)
		case "code":
			e.code, err = strictjson.String(v)
		case "decline_code":
			e.declineCode, err = strictjson.String(v)
		case "merchant_reference":
			e.reference, err = strictjson.String(v)
		}
		return err
	})
	return e, err
}

// ReadCharge implements [payclient.Provider].
func (p *Provider) ReadCharge(r payclient.Response) payclient.Reply { return p.read(r, chargeMembers) }

// read reads the answer to a request that makes a charge or a refund.
func (p *Provider) read(r payclient.Response, members []string) payclient.Reply {
	reply := payclient.Reply{
		Verdict: attempt.Violated, Reason: attempt.ReasonUnreadable,
		RequestID: r.Header.Get("Request-Id"), Replayed: r.Header.Get("Idempotent-Replayed") == "true",
		NoRetry: r.Header.Get("Should-Retry") == "false",
	}
	switch {
	case r.StatusCode == http.StatusOK || r.StatusCode == http.StatusCreated:
		readCharge(r, members, &reply)
	case r.StatusCode >= 200 && r.StatusCode <= 299:
		// Accepted or empty: the charge has to be asked for.
		reply.Detail = "status " + strconv.Itoa(r.StatusCode) + " without a charge"
		reply.Ask = true
	case payclient.IsUnavailable(r.StatusCode):
		reply.Verdict, reply.Reason = attempt.Unavailable, attempt.ReasonUnavailable
		if e, err := readProblem(r); err == nil { // a gateway may answer with anything
			reply.Code, reply.Detail = e.code, e.detail
		}
	case r.StatusCode >= 400 && r.StatusCode <= 499:
		p.readRefusal(r, &reply)
	default:
		reply.Detail = "status " + strconv.Itoa(r.StatusCode) + " is not one of the API"
	}
	return reply
}

func readCharge(r payclient.Response, members []string, reply *payclient.Reply) {
	data, text, err := readChargeObject(r.Body, members)
	if err != nil {
		reply.Detail = notReadable(r, err)
		return
	}
	status, known := chargeStatus(text)
	data.Status = status
	reply.Charge = data
	if !known {
		reply.Detail = "status: " + strconv.Quote(text) + " is not one of the API"
		return
	}
	reply.Verdict, reply.Reason = attempt.Charged, ""
}

// readRefusal reads a 4xx. It refuses only in the API's own words: a problem object with a code. The same status with
// anything else comes from somewhere on the way.
func (p *Provider) readRefusal(r payclient.Response, reply *payclient.Reply) {
	e, err := readProblem(r)
	if err != nil {
		reply.Detail = notReadable(r, err)
		return
	}
	reply.Code, reply.DeclineCode, reply.Reference, reply.Detail = e.code, e.declineCode, e.reference, e.detail
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
	e, err = readProblemObject(r.Body)
	if err != nil {
		return e, err
	}
	if e.code == "" && (e.kind == "" || e.kind == "about:blank") {
		return e, errors.New("no code and no type: not an error of the API")
	}
	if e.status != 0 && e.status != int64(r.StatusCode) {
		// RFC 9457 section 3.1.3: the status as the API gave it, to be compared where somebody on the way has changed it.
		return e, fmt.Errorf("the problem is one of status %d", e.status)
	}
	return e, nil
}

// ReadLookup implements [payclient.Provider]. What it says of an unreadable page quotes nothing of it: the page may hold
// payment sources, and whoever looks up does not know which to take out.
func (p *Provider) ReadLookup(r payclient.Response) payclient.LookupPage {
	return readList(r, chargeMembers)
}

func readList(r payclient.Response, members []string) payclient.LookupPage {
	page := lookupPage{payclient.LookupPage{RequestID: r.Header.Get("Request-Id")}, members}
	if r.StatusCode != http.StatusOK {
		page.Detail = "status " + strconv.Itoa(r.StatusCode)
		return page.LookupPage
	}
	var hasMore, hasData, hasMoreGiven bool
	err := strictjson.Object(r.Body, listMembers, func(i int, v jsontext.Value) (err error) {
		switch {
		case strictjson.IsNull(v):
		case listMembers[i] == "has_more":
			hasMoreGiven = true
			hasMore, err = strictjson.Bool(v)
		default:
			hasData = true
			err = strictjson.Array(v, page.add)
		}
		return err
	})
	switch {
	case err != nil:
		page.Detail = err.Error()
	case !hasData || !hasMoreGiven:
		page.Detail = "data or has_more: missing"
	case hasMore && (len(page.Charges) == 0 || page.Charges[len(page.Charges)-1].ID == ""):
		page.Detail = "has_more without a charge to go on from"
	default:
		page.Readable = true
		if hasMore {
			page.Next = page.Charges[len(page.Charges)-1].ID
		}
	}
	return page.LookupPage
}

var listMembers = []string{"data", "has_more"}

// lookupPage is a page that is being read.
type lookupPage struct {
	payclient.LookupPage
	members []string // of the objects in it
}

func (p *lookupPage) add(object jsontext.Value) error {
	data, text, err := readChargeObject(object, p.members)
	if err != nil {
		return err
	}
	status, known := chargeStatus(text)
	if !known {
		return fmt.Errorf("status: %q is not one of the API", text)
	}
	data.Status = status
	p.Charges = append(p.Charges, data)
	return nil
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

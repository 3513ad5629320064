package panel

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
)

// Name is the adapter's name, as stored with each attempt.
const Name = "panel"

// Config configures the adapter.
type Config struct {
	// Token is the bearer token. Required.
	Token payclient.Secret
	// Currency is that of the balance. Required.
	Currency string
	// Prices are the services on offer and what a piece costs, in minor units. Required.
	Prices map[int]int64
	// Lookup says that the panel finds orders by merchant reference. Without it nothing is ever approved, see the package.
	Lookup bool
	// LookupLag is the worst known time for which an order may be missing from lookups. Zero: 1 min.
	LookupLag time.Duration
}

// Provider is the adapter.
type Provider struct {
	cfg  Config
	caps payclient.Capabilities
}

var _ payclient.Provider = (*Provider)(nil)

// New makes the adapter. It reports every mistake in the configuration at once.
func New(cfg Config) (*Provider, error) {
	var errs []error
	token := cfg.Token.Reveal()
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		errs = append(errs, errors.New("panel: Token: want printable ASCII without spaces"))
	}
	if _, err := money.New(0, cfg.Currency); err != nil {
		errs = append(errs, fmt.Errorf("panel: Currency: %w", err))
	}
	if len(cfg.Prices) == 0 {
		errs = append(errs, errors.New("panel: Prices: missing"))
	}
	for service, each := range cfg.Prices {
		if service <= 0 || each <= 0 {
			errs = append(errs, fmt.Errorf("panel: Prices: service %d at %d, want both positive", service, each))
		}
	}
	if cfg.LookupLag < 0 {
		errs = append(errs, fmt.Errorf("panel: LookupLag: %s is negative", cfg.LookupLag))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if cfg.LookupLag == 0 {
		cfg.LookupLag = time.Minute
	}
	cfg.Prices = maps.Clone(cfg.Prices)
	p := &Provider{cfg: cfg, caps: payclient.Capabilities{Name: Name, Reference: payclient.ReferenceCapability{MaxLength: 255}}}
	if cfg.Lookup {
		p.caps.Lookup = payclient.LookupCapability{ByReference: true, Lag: cfg.LookupLag}
	}
	return p, nil
}

// Capabilities implements [payclient.Provider]: no keys.
func (p *Provider) Capabilities() payclient.Capabilities { return p.caps }

// ChargeBody implements [payclient.Provider]. The whole line is the source: the body holds nothing else but the reference.
func (p *Provider) ChargeBody(a attempt.Attempt) ([]byte, error) {
	if a.Amount.Currency() != strings.ToUpper(p.cfg.Currency) {
		return nil, fmt.Errorf("amount: %s, the balance is in %s", a.Amount, p.cfg.Currency)
	}
	b := append([]byte{'{', 0}, `,"merchant_reference":`...)
	b, err := jsontext.AppendQuote(b, a.Reference)
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	return append(b, '}'), nil
}

// AppendSource implements [payclient.Provider].
func (p *Provider) AppendSource(dst []byte, source attempt.Source) ([]byte, error) {
	l, err := lineOf(source)
	if err != nil {
		return nil, err
	}
	return l.appendFields(dst)
}

// ChargeRequest implements [payclient.Provider].
func (p *Provider) ChargeRequest(attempt.Attempt) payclient.Request {
	h := p.header()
	h.Set("Content-Type", "application/json")
	return payclient.Request{Method: http.MethodPost, Path: "/v1/orders", Header: h}
}

// header asks that each connection be used once: the panel's refusals do not name our reference, and only the first answer
// on a connection is surely ours.
func (p *Provider) header() http.Header {
	return http.Header{
		"Accept": {"application/json"}, "Authorization": {"Bearer " + p.cfg.Token.Reveal()}, "Connection": {"close"},
	}
}

// LookupRequest implements [payclient.Provider]. The panel's answer is one page.
func (p *Provider) LookupRequest(reference, _ string) payclient.Request {
	return payclient.Request{
		Method: http.MethodGet, Path: "/v1/orders", Query: url.Values{"merchant_reference": {reference}}.Encode(), Header: p.header(),
	}
}

// ReadCharge implements [payclient.Provider].
func (p *Provider) ReadCharge(r payclient.Response) payclient.Reply {
	reply := payclient.Reply{Verdict: attempt.Violated, Reason: attempt.ReasonUnreadable, RequestID: r.Header.Get("Request-Id")}
	if payclient.IsUnavailable(r.StatusCode) {
		reply.Verdict, reply.Reason = attempt.Unavailable, attempt.ReasonUnavailable
		return reply
	}
	var answer struct {
		Order *int64  `json:"order"`
		Error *string `json:"error"`
	}
	if err := read(r, &answer); err != nil {
		reply.Detail = err.Error()
		return reply
	}
	switch {
	case answer.Order != nil && answer.Error != nil:
		reply.Detail = "an order and an error"
	case answer.Order != nil && *answer.Order > 0:
		// Taken, says the panel, and not whose order or what for: that is asked for.
		reply.Verdict, reply.Reason, reply.Ask = attempt.Unavailable, attempt.ReasonPending, true
		reply.Charge.ID = strconv.FormatInt(*answer.Order, 10)
	case answer.Error != nil:
		refuse(&reply, *answer.Error)
	default:
		reply.Detail = "neither an order nor an error"
	}
	return reply
}

// errorTexts are the panel's errors, which it tells apart by their texts alone. A line that it will never take is a
// refusal, told again and never sent again; what is wrong with us and not with the line is a rejection, so that the line
// can be ordered once that is put right. An error that is not listed decides nothing.
var errorTexts = []struct {
	text    string
	limit   bool // a number follows
	code    string
	verdict attempt.Verdict
}{
	{"Incorrect service ID", false, "service_unknown", attempt.Refused},
	{"Incorrect quantity", false, "quantity_invalid", attempt.Refused},
	{"Quantity less than minimal ", true, "quantity_too_small", attempt.Refused},
	{"Quantity more than maximum ", true, "quantity_too_large", attempt.Refused},
	{"Bad link", false, "link_bad", attempt.Refused},
	{"Not enough funds on balance", false, "balance_too_low", attempt.Refused},
	{"Incorrect request", false, "request_malformed", attempt.Rejected},
	{"Invalid API key", false, "unauthorized", attempt.Rejected},
}

func refuse(reply *payclient.Reply, text string) {
	reply.Detail = text
	for _, e := range errorTexts {
		rest, ok := strings.CutPrefix(text, e.text)
		if ok && e.limit {
			_, err := strconv.ParseUint(rest, 10, 32)
			ok, rest = err == nil, ""
		}
		if !ok || rest != "" {
			continue
		}
		reply.Verdict, reply.Reason, reply.Code = e.verdict, "", e.code
		if e.verdict == attempt.Refused {
			reply.DeclineCode = e.code
		}
		return
	}
}

// ReadLookup implements [payclient.Provider].
func (p *Provider) ReadLookup(r payclient.Response) payclient.LookupPage {
	page := payclient.LookupPage{RequestID: r.Header.Get("Request-Id")}
	var list struct {
		Data *[]struct {
			Order     int64  `json:"order"`
			Status    string `json:"status"`
			Service   int    `json:"service"`
			Quantity  *int64 `json:"quantity"`
			Reference string `json:"merchant_reference"`
		} `json:"data"`
		HasMore *bool `json:"has_more"`
	}
	if err := read(r, &list); err != nil {
		page.Detail = err.Error()
		return page
	}
	if list.Data == nil || list.HasMore == nil || *list.HasMore {
		page.Detail = "data or has_more: missing, or more than the one page there is"
		return page
	}
	for _, o := range *list.Data {
		if o.Status != "Pending" || o.Order <= 0 {
			page.Detail = fmt.Sprintf("order %d, status %q: not one of the API", o.Order, o.Status)
			return page
		}
		// The balance is debited when an order is taken, whatever its delivery waits for.
		c := payclient.ChargeData{ID: strconv.FormatInt(o.Order, 10), Status: attempt.ChargeSucceeded, Reference: o.Reference}
		if o.Quantity != nil {
			if minor, err := p.price(o.Service, *o.Quantity); err == nil {
				c.Minor, c.Currency = &minor, p.cfg.Currency
			}
		}
		page.Charges = append(page.Charges, c)
	}
	page.Readable = true
	return page
}

// read reads an answer of the panel, which is always 200 with one JSON object: exact names, none twice, nothing after it.
func read(r payclient.Response, into any) error {
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case r.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d is not one of the API", r.StatusCode)
	case err != nil || media != "application/json":
		return errors.New("the content type is not the API's")
	case jsontext.Value(r.Body).Kind() != '{':
		return errors.New("not a JSON object")
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		return fmt.Errorf("%d bytes: not the API's object", len(r.Body))
	}
	return nil
}

package providertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

const token = "sk_test_0123456789"

// mutant is a right adapter with one thing wrong.
type mutant struct {
	*standard.Provider
	capabilities  func(payclient.Capabilities) payclient.Capabilities
	chargeBody    func(attempt.Attempt, []byte) ([]byte, error)
	appendSource  func(dst []byte, source string) ([]byte, error)
	chargeRequest func(attempt.Attempt, payclient.Request) payclient.Request
	readCharge    func(payclient.Response, payclient.Reply) payclient.Reply
	lookupRequest func(reference, cursor string, r payclient.Request) payclient.Request
	readLookup    func(payclient.Response, payclient.LookupPage) payclient.LookupPage

	refundBody    func(attempt.Attempt, []byte) ([]byte, error)
	refundRequest func(attempt.Attempt, payclient.Request) payclient.Request
	readRefund    func(payclient.Response, payclient.Reply) payclient.Reply
	refundLookup  func(reference, cursor string, r payclient.Request) payclient.Request
	readRefunds   func(payclient.Response, payclient.LookupPage) payclient.LookupPage
	voidRequest   func(chargeID string, r payclient.Request) payclient.Request
	readVoid      func(payclient.Response, payclient.Reply) payclient.Reply
	listRequest   func(from, to time.Time, cursor string) payclient.Request
	readList      func(payclient.Response, payclient.LookupPage) payclient.LookupPage
}

func (m *mutant) RefundBody(a attempt.Attempt) ([]byte, error) {
	b, err := m.Provider.RefundBody(a)
	if err == nil && m.refundBody != nil {
		return m.refundBody(a, b)
	}
	return b, err
}

func (m *mutant) RefundRequest(a attempt.Attempt) payclient.Request {
	r := m.Provider.RefundRequest(a)
	if m.refundRequest != nil {
		return m.refundRequest(a, r)
	}
	return r
}

func (m *mutant) ReadRefund(r payclient.Response) payclient.Reply {
	reply := m.Provider.ReadRefund(r)
	if m.readRefund != nil {
		return m.readRefund(r, reply)
	}
	return reply
}

func (m *mutant) RefundLookupRequest(reference, cursor string) payclient.Request {
	r := m.Provider.RefundLookupRequest(reference, cursor)
	if m.refundLookup != nil {
		return m.refundLookup(reference, cursor, r)
	}
	return r
}

func (m *mutant) ReadRefundLookup(r payclient.Response) payclient.LookupPage {
	page := m.Provider.ReadRefundLookup(r)
	if m.readRefunds != nil {
		return m.readRefunds(r, page)
	}
	return page
}

func (m *mutant) VoidRequest(a attempt.Attempt, chargeID string) payclient.Request {
	r := m.Provider.VoidRequest(a, chargeID)
	if m.voidRequest != nil {
		return m.voidRequest(chargeID, r)
	}
	return r
}

func (m *mutant) ReadVoid(r payclient.Response) payclient.Reply {
	reply := m.Provider.ReadVoid(r)
	if m.readVoid != nil {
		return m.readVoid(r, reply)
	}
	return reply
}

func (m *mutant) ListRequest(from, to time.Time, cursor string) payclient.Request {
	if m.listRequest != nil {
		return m.listRequest(from, to, cursor)
	}
	return m.Provider.ListRequest(from, to, cursor)
}

func (m *mutant) ReadList(r payclient.Response) payclient.LookupPage {
	page := m.Provider.ReadList(r)
	if m.readList != nil {
		return m.readList(r, page)
	}
	return page
}

func (m *mutant) Capabilities() payclient.Capabilities {
	if m.capabilities != nil {
		return m.capabilities(m.Provider.Capabilities())
	}
	return m.Provider.Capabilities()
}

func (m *mutant) ChargeBody(a attempt.Attempt) ([]byte, error) {
	b, err := m.Provider.ChargeBody(a)
	if err == nil && m.chargeBody != nil {
		return m.chargeBody(a, b)
	}
	return b, err
}

func (m *mutant) AppendSource(dst []byte, source attempt.Source) ([]byte, error) {
	if m.appendSource != nil {
		return m.appendSource(dst, source.Reveal())
	}
	return m.Provider.AppendSource(dst, source)
}

func (m *mutant) ChargeRequest(a attempt.Attempt) payclient.Request {
	r := m.Provider.ChargeRequest(a)
	if m.chargeRequest != nil {
		return m.chargeRequest(a, r)
	}
	return r
}

func (m *mutant) ReadCharge(r payclient.Response) payclient.Reply {
	reply := m.Provider.ReadCharge(r)
	if m.readCharge != nil {
		return m.readCharge(r, reply)
	}
	return reply
}

func (m *mutant) LookupRequest(reference, cursor string) payclient.Request {
	r := m.Provider.LookupRequest(reference, cursor)
	if m.lookupRequest != nil {
		return m.lookupRequest(reference, cursor, r)
	}
	return r
}

func (m *mutant) ReadLookup(r payclient.Response) payclient.LookupPage {
	page := m.Provider.ReadLookup(r)
	if m.readLookup != nil {
		return m.readLookup(r, page)
	}
	return page
}

// suiteOf is the suite for the standard adapter, changed by change at each call of New.
func suiteOf(cfg standard.Config, bank fakeprovider.Config, change func(*mutant)) Suite {
	cfg.Token = payclient.NewSecret(token)
	return Suite{
		New: func(t *testing.T) payclient.Provider {
			p, err := standard.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			m := &mutant{Provider: p}
			if change != nil {
				change(m)
			}
			return m
		},
		Golden:  "../standard/testdata",
		Secrets: []string{token},
		Read: func(_ payclient.Request, body []byte) (sent Sent, err error) {
			var b struct {
				Amount    int64  `json:"amount"`
				Currency  string `json:"currency"`
				Source    string `json:"source"`
				Reference string `json:"merchant_reference"`
			}
			if err = json.Unmarshal(body, &b); err != nil {
				return sent, err
			}
			amount, err := money.New(b.Amount, b.Currency)
			return Sent{Source: b.Source, Reference: b.Reference, Amount: amount}, err
		},
		ReadRefund: func(_ payclient.Request, body []byte) (sent SentRefund, err error) {
			var b struct {
				Charge    string `json:"charge"`
				Amount    int64  `json:"amount"`
				Currency  string `json:"currency"`
				Reference string `json:"merchant_reference"`
			}
			if err = json.Unmarshal(body, &b); err != nil {
				return sent, err
			}
			amount, err := money.New(b.Amount, b.Currency)
			return SentRefund{ChargeID: b.Charge, Reference: b.Reference, Amount: amount}, err
		},
		Fake: func(t *testing.T) Fake {
			p := fakeprovider.New(bank)
			t.Cleanup(func() { _ = p.Close() })
			intent := func(order, source string) attempt.Intent {
				return attempt.Intent{Order: order, Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token(source)}
			}
			return Fake{
				Handler:  p,
				Charges:  func(reference string) int { return len(p.Charges(reference)) },
				Approved: func(order string) attempt.Intent { return intent(order, "tok_visa") },
				Declined: func(order string) attempt.Intent { return intent(order, "tok_insufficient_funds") },
				Pending:  func(order string) attempt.Intent { return intent(order, "tok_requires_action") },
				Refunds:  func(reference string) int { return len(p.Refunds(reference)) },
			}
		},
	}
}

// found checks the rules that are named, or all, and returns what each of them finds. left names those left out.
func found(t *testing.T, config Suite, names ...string) (errs map[string]error, left []string) {
	t.Helper()
	s, err := open(t, config)
	if err != nil {
		t.Fatal(err)
	}
	errs = make(map[string]error)
	for _, r := range rules {
		if len(names) > 0 && !slices.Contains(names, r.name) {
			continue
		}
		if s.leftOut(r) != "" {
			left = append(left, r.name)
		} else if err := r.run(t, s); err != nil {
			errs[r.name] = err
		}
	}
	return errs, left
}

func TestARightAdapterBreaksNoRule(t *testing.T) {
	errs, left := found(t, suiteOf(standard.Config{}, fakeprovider.Config{}, nil))
	for name, err := range errs {
		t.Errorf("%s: %v", name, err)
	}
	if len(left) > 0 {
		t.Errorf("left out: %v", left)
	}
}

// looseCharge reads a charge as careless code does: encoding/json, which folds the case of names and takes the last of two.
func looseCharge(body []byte) (payclient.ChargeData, bool) {
	var c struct {
		ID        string `json:"id"`
		Status    string `json:"status"`
		Amount    *int64 `json:"amount"`
		Currency  string `json:"currency"`
		Reference string `json:"merchant_reference"`
	}
	if json.Unmarshal(body, &c) != nil || c.Status != "succeeded" {
		return payclient.ChargeData{}, false
	}
	return payclient.ChargeData{ID: c.ID, Status: attempt.ChargeSucceeded, Reference: c.Reference, Minor: c.Amount, Currency: c.Currency}, true
}

// charged is the reply that a careless reader gives where it sees a charge.
func charged(reply payclient.Reply, c payclient.ChargeData) payclient.Reply {
	return payclient.Reply{Verdict: attempt.Charged, Charge: c, RequestID: reply.RequestID, Replayed: reply.Replayed}
}

// mistake is something that somebody has done, and the rule that must see it.
type mistake struct {
	rule, what string
	change     func(*mutant)
}

func mistakes() []mistake {
	var requests atomic.Int64
	shared := http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}
	return []mistake{
		{"capabilities constant", "retention counts down", func(m *mutant) {
			m.capabilities = func(c payclient.Capabilities) payclient.Capabilities {
				c.Key.Retention -= time.Duration(requests.Add(1))
				return c
			}
		}},
		{"capabilities consistent", "the key's header in lower case", func(m *mutant) {
			m.capabilities = func(c payclient.Capabilities) payclient.Capabilities {
				c.Key.Header = "idempotency-key"
				return c
			}
		}},
		{"capabilities consistent", "found at once", func(m *mutant) {
			m.capabilities = func(c payclient.Capabilities) payclient.Capabilities {
				c.Lookup.Lag = 0
				return c
			}
		}},
		{"source left out", "no hole", func(m *mutant) {
			m.chargeBody = func(_ attempt.Attempt, b []byte) ([]byte, error) {
				return bytes.ReplaceAll(b, []byte{0}, []byte(`"tok_visa"`)), nil
			}
		}},
		{"source exact", "quoted as Go does", func(m *mutant) {
			m.appendSource = func(dst []byte, source string) ([]byte, error) { return strconv.AppendQuoteToASCII(dst, source), nil }
		}},
		{"source exact", "not quoted at all", func(m *mutant) {
			m.appendSource = func(dst []byte, source string) ([]byte, error) {
				return append(append(append(dst, '"'), source...), '"'), nil
			}
		}},
		{"amounts exact", "through a float", func(m *mutant) {
			m.chargeBody = func(a attempt.Attempt, b []byte) ([]byte, error) {
				minor := strconv.FormatInt(a.Amount.Minor(), 10)
				rounded := int64(math.Min(float64(a.Amount.Minor()), math.MaxInt64-1<<10))
				return bytes.Replace(b, []byte(minor), []byte(strconv.FormatInt(rounded, 10)), 1), nil
			}
		}},
		{"amounts exact", "two decimals for everything", func(m *mutant) {
			m.chargeBody = func(a attempt.Attempt, b []byte) ([]byte, error) {
				if a.Amount.Currency() == "JPY" {
					b = bytes.Replace(b, []byte(`,"currency"`), []byte(`00,"currency"`), 1)
				}
				return b, nil
			}
		}},
		{"reference sent", "cut to 20 characters", func(m *mutant) {
			m.chargeBody = func(a attempt.Attempt, b []byte) ([]byte, error) {
				return bytes.Replace(b, []byte(a.Reference), []byte(a.Reference[:20]), 1), nil
			}
		}},
		{"request well formed", "a query in the path", func(m *mutant) {
			m.chargeRequest = func(_ attempt.Attempt, r payclient.Request) payclient.Request {
				r.Path += "?expand=all"
				return r
			}
		}},
		{"request well formed", "PUT, which net/http repeats", func(m *mutant) {
			m.chargeRequest = func(_ attempt.Attempt, r payclient.Request) payclient.Request {
				r.Method = http.MethodPut
				return r
			}
		}},
		{"key left to the client", "sets the key itself", func(m *mutant) {
			m.chargeRequest = func(a attempt.Attempt, r payclient.Request) payclient.Request {
				r.Header.Set("Idempotency-Key", `"`+a.Key+`"`)
				return r
			}
		}},
		{"credentials in headers only", "the token in the query", func(m *mutant) {
			m.lookupRequest = func(_, _ string, r payclient.Request) payclient.Request {
				r.Query += "&api_key=" + url.QueryEscape(token)
				return r
			}
		}},
		{"same request", "a time in the body", func(m *mutant) {
			m.chargeBody = func(_ attempt.Attempt, b []byte) ([]byte, error) {
				return fmt.Appendf(b[:len(b)-1], `,"sent":%d}`, requests.Add(1)), nil
			}
		}},
		{"requests not shared", "one header for all requests", func(m *mutant) {
			m.chargeRequest = func(_ attempt.Attempt, r payclient.Request) payclient.Request {
				r.Header = shared
				return r
			}
		}},
		{"concurrent use", "an adapter that remembers the last attempt", func(m *mutant) {
			var last atomic.Pointer[string]
			m.chargeBody = func(a attempt.Attempt, b []byte) ([]byte, error) {
				text := a.Amount.String()
				last.Store(&text)
				for range 10 {
					runtime.Gosched() // so that others come in between
				}
				return b, nil
			}
			m.chargeRequest = func(_ attempt.Attempt, r payclient.Request) payclient.Request {
				if p := last.Load(); p != nil {
					r.Header.Set("X-Amount", *p)
				}
				return r
			}
		}},
		{"golden exchanges", "reads a decline's code no more", func(m *mutant) {
			m.readCharge = func(_ payclient.Response, reply payclient.Reply) payclient.Reply {
				reply.DeclineCode = ""
				return reply
			}
		}},
		{"fields are read", "fills in the currency", func(m *mutant) {
			m.readCharge = func(_ payclient.Response, reply payclient.Reply) payclient.Reply {
				if reply.Verdict == attempt.Charged {
					reply.Charge.Currency = "TRY"
				}
				return reply
			}
		}},
		{"answers left alone", "writes into the answer", func(m *mutant) {
			m.readCharge = func(r payclient.Response, reply payclient.Reply) payclient.Reply {
				copy(r.Body, bytes.ToLower(r.Body))
				return reply
			}
		}},
		{"cut answers", "mends what was cut", func(m *mutant) {
			m.readCharge = func(r payclient.Response, reply payclient.Reply) payclient.Reply {
				if c, ok := looseCharge(append(slices.Clone(r.Body), `Z"}`...)); ok {
					return charged(reply, c)
				}
				return reply
			}
		}},
		{"names twice", "encoding/json", looseReading},
		{"names exact", "encoding/json", looseReading},
		{"new names", "refuses what it does not know", func(m *mutant) {
			m.readCharge = func(r payclient.Response, reply payclient.Reply) payclient.Reply {
				if bytes.Contains(r.Body, []byte(`"x_new"`)) {
					return payclient.Reply{Verdict: attempt.Violated}
				}
				return reply
			}
		}},
		{"one value", "json.Decoder, which stops after the first value", func(m *mutant) {
			m.readCharge = func(r payclient.Response, reply payclient.Reply) payclient.Reply {
				var first json.RawMessage
				if json.NewDecoder(bytes.NewReader(r.Body)).Decode(&first) == nil {
					if c, ok := looseCharge(first); ok && r.StatusCode == http.StatusCreated {
						return charged(reply, c)
					}
				}
				return reply
			}
		}},
		{"encoding", "strips a byte order mark", func(m *mutant) {
			m.readCharge = func(r payclient.Response, reply payclient.Reply) payclient.Reply {
				if body, ok := bytes.CutPrefix(r.Body, []byte("\xef\xbb\xbf")); ok {
					r.Body = body
					return m.Provider.ReadCharge(r)
				}
				return reply
			}
		}},
		{"content type", "takes any page for a refusal", func(m *mutant) {
			m.readCharge = func(r payclient.Response, reply payclient.Reply) payclient.Reply {
				r.Header = r.Header.Clone()
				r.Header.Set("Content-Type", "application/json")
				return m.Provider.ReadCharge(r)
			}
		}},
		{"other status", "looks at the body only", func(m *mutant) {
			m.readCharge = func(r payclient.Response, reply payclient.Reply) payclient.Reply {
				if c, ok := looseCharge(r.Body); ok {
					return charged(reply, c)
				}
				return reply
			}
		}},
		{"foreign answers", "looks at the status only", func(m *mutant) {
			m.readCharge = func(r payclient.Response, reply payclient.Reply) payclient.Reply {
				if v := payclient.VerdictOf(r.StatusCode); v == attempt.Rejected && reply.Verdict == attempt.Violated {
					return payclient.Reply{Verdict: v}
				}
				return reply
			}
		}},
		{"foreign answers", "panics on an empty body", func(m *mutant) {
			m.readCharge = func(r payclient.Response, reply payclient.Reply) payclient.Reply {
				_ = r.Body[0]
				return reply
			}
		}},
		{"lookup names the reference", "asks for everything", func(m *mutant) {
			m.lookupRequest = func(_, _ string, r payclient.Request) payclient.Request {
				r.Query = ""
				return r
			}
		}},
		{"lookup names the reference", "does not encode", func(m *mutant) {
			m.lookupRequest = func(reference, _ string, r payclient.Request) payclient.Request {
				r.Query = "merchant_reference=" + reference
				return r
			}
		}},
		{"pages cut or doubled", "json.Decoder", func(m *mutant) {
			m.readLookup = func(r payclient.Response, page payclient.LookupPage) payclient.LookupPage {
				var first json.RawMessage
				if json.NewDecoder(bytes.NewReader(r.Body)).Decode(&first) == nil {
					r.Body = first
					return m.Provider.ReadLookup(r)
				}
				return page
			}
		}},
		{"pages complete", "has_more is optional", func(m *mutant) {
			m.readLookup = func(r payclient.Response, page payclient.LookupPage) payclient.LookupPage {
				if !page.Readable && r.StatusCode == http.StatusOK && !bytes.Contains(r.Body, []byte("has_more")) {
					r.Body = append(slices.Clone(bytes.TrimSuffix(r.Body, []byte("}"))), `,"has_more":false}`...)
					return m.Provider.ReadLookup(r)
				}
				return page
			}
		}},
		{"pages complete", "null is an empty list", func(m *mutant) {
			m.readLookup = func(r payclient.Response, page payclient.LookupPage) payclient.LookupPage {
				r.Body = bytes.Replace(r.Body, []byte(`"data":null`), []byte(`"data":[]`), 1)
				return m.Provider.ReadLookup(r)
			}
		}},
		{"pages names exact", "names in lower case", func(m *mutant) {
			m.readLookup = func(r payclient.Response, page payclient.LookupPage) payclient.LookupPage {
				r.Body = []byte(strings.ToLower(string(r.Body)))
				return m.Provider.ReadLookup(r)
			}
		}},
		{"foreign pages", "404 means that there is none", func(m *mutant) {
			m.readLookup = func(r payclient.Response, page payclient.LookupPage) payclient.LookupPage {
				if r.StatusCode == http.StatusNotFound {
					return payclient.LookupPage{Readable: true}
				}
				return page
			}
		}},
		{"finds", "does not read the reference", func(m *mutant) {
			m.readLookup = func(_ payclient.Response, page payclient.LookupPage) payclient.LookupPage {
				for i := range page.Charges {
					page.Charges[i].Reference = ""
				}
				return page
			}
		}},
		{"finds", "asks for the first page for ever", func(m *mutant) {
			m.lookupRequest = func(reference, _ string, _ payclient.Request) payclient.Request {
				return m.Provider.LookupRequest(reference, "")
			}
		}},
		{"pays once", "a body that the provider refuses", func(m *mutant) {
			m.chargeBody = func(a attempt.Attempt, b []byte) ([]byte, error) {
				minor := strconv.FormatInt(a.Amount.Minor(), 10)
				return bytes.Replace(b, []byte(minor), []byte(`"`+minor+`"`), 1), nil
			}
		}},
		{"declines", "a decline asks for patience", func(m *mutant) {
			m.readCharge = func(_ payclient.Response, reply payclient.Reply) payclient.Reply {
				if reply.Verdict == attempt.Refused {
					reply.Verdict = attempt.Unavailable
				}
				return reply
			}
		}},
		{"still running", "a 409 is a rejection", func(m *mutant) {
			m.readCharge = func(_ payclient.Response, reply payclient.Reply) payclient.Reply {
				if reply.Verdict == attempt.Running {
					reply.Verdict = attempt.Rejected
				}
				return reply
			}
		}},
		{"same order at once", "an approval is not seen", func(m *mutant) {
			m.readCharge = func(_ payclient.Response, reply payclient.Reply) payclient.Reply {
				if reply.Verdict == attempt.Charged {
					reply.Charge.ID = ""
				}
				return reply
			}
			m.readLookup = func(payclient.Response, payclient.LookupPage) payclient.LookupPage { return payclient.LookupPage{} }
		}},
		{"nothing secret stored", "the source in the body beside the hole", func(m *mutant) {
			m.chargeBody = func(a attempt.Attempt, b []byte) ([]byte, error) {
				return append(b[:len(b)-1], `,"hint":"tok_visa"}`...), nil
			}
		}},
	}
}

// sideMistakes are made with refunds, voids and listings.
func sideMistakes() []mistake {
	var requests atomic.Int64
	readBody := func(read func(payclient.Response) payclient.Reply, change func([]byte) []byte) func(payclient.Response, payclient.Reply) payclient.Reply {
		return func(r payclient.Response, _ payclient.Reply) payclient.Reply {
			r.Body = change(slices.Clone(r.Body))
			return read(r)
		}
	}
	return []mistake{
		{"refunds: charge sent", "of the first charge that there ever was", func(m *mutant) {
			m.refundBody = func(a attempt.Attempt, b []byte) ([]byte, error) {
				a.Refund.ChargeID = "ch_000001"
				return m.Provider.RefundBody(a)
			}
		}},
		{"refunds: charge sent", "does not quote", func(m *mutant) {
			m.refundBody = func(a attempt.Attempt, b []byte) ([]byte, error) {
				return fmt.Appendf(nil, `{"charge":"%s","amount":%d,"currency":"TRY","merchant_reference":"%s"}`, a.Refund.ChargeID, a.Amount.Minor(), a.Reference), nil
			}
		}},
		{"refunds: amounts exact", "in whole units", func(m *mutant) {
			m.refundBody = func(a attempt.Attempt, b []byte) ([]byte, error) {
				minor := strconv.FormatInt(a.Amount.Minor(), 10)
				return bytes.Replace(b, []byte(minor), []byte(strconv.FormatInt(a.Amount.Minor()/100, 10)), 1), nil
			}
		}},
		{"refunds: reference sent", "the charge's reference", func(m *mutant) {
			m.refundBody = func(a attempt.Attempt, b []byte) ([]byte, error) {
				return bytes.Replace(b, []byte(a.Reference), []byte(a.Refund.AttemptID), 1), nil
			}
		}},
		{"refunds: same request", "a time in the body", func(m *mutant) {
			m.refundBody = func(_ attempt.Attempt, b []byte) ([]byte, error) {
				return fmt.Appendf(b[:len(b)-1], `,"sent":%d}`, requests.Add(1)), nil
			}
		}},
		{"refunds: key left to the client", "sets the key itself", func(m *mutant) {
			m.refundRequest = func(a attempt.Attempt, r payclient.Request) payclient.Request {
				r.Header.Set("Idempotency-Key", a.Key)
				return r
			}
		}},
		{"refunds: fields are read", "fills in the charge", func(m *mutant) {
			m.readRefund = func(_ payclient.Response, reply payclient.Reply) payclient.Reply {
				if reply.Verdict == attempt.Charged {
					reply.Charge.ChargeID = "ch_000001"
				}
				return reply
			}
		}},
		{"refunds: one value", "reads the first value only", func(m *mutant) {
			m.readRefund = readBody(m.Provider.ReadRefund, func(b []byte) []byte {
				var first json.RawMessage
				if json.NewDecoder(bytes.NewReader(b)).Decode(&first) == nil {
					return first
				}
				return b
			})
		}},
		{"refunds: foreign pages", "404 means that there is none", func(m *mutant) {
			m.readRefunds = func(r payclient.Response, page payclient.LookupPage) payclient.LookupPage {
				if r.StatusCode == http.StatusNotFound {
					return payclient.LookupPage{Readable: true}
				}
				return page
			}
		}},
		{"refunds: finds", "does not read the reference", func(m *mutant) {
			m.readRefunds = func(_ payclient.Response, page payclient.LookupPage) payclient.LookupPage {
				for i := range page.Charges {
					page.Charges[i].Reference = ""
				}
				return page
			}
		}},
		{"refunds: made once", "does not read the charge", func(m *mutant) {
			m.readRefund = func(_ payclient.Response, reply payclient.Reply) payclient.Reply {
				reply.Charge.ChargeID = ""
				return reply
			}
			m.readRefunds = func(payclient.Response, payclient.LookupPage) payclient.LookupPage { return payclient.LookupPage{} }
		}},
		{"voids: other status", "an accepted request is a cancelled charge", func(m *mutant) {
			m.readVoid = func(r payclient.Response, reply payclient.Reply) payclient.Reply {
				if r.StatusCode == http.StatusConflict {
					r.StatusCode = http.StatusOK
					return m.Provider.ReadVoid(r)
				}
				if c, ok := looseCharge(bytes.ReplaceAll(r.Body, []byte("failed"), []byte("succeeded"))); ok {
					c.Status = attempt.ChargeFailed
					return charged(reply, c)
				}
				return reply
			}
		}},
		{"voids: names the charge", "cancels the newest charge", func(m *mutant) {
			m.voidRequest = func(_ string, r payclient.Request) payclient.Request {
				r.Path = "/v1/charges/newest/void"
				return r
			}
		}},
		{"voids: confirmed", "takes every answer for a refusal", func(m *mutant) {
			m.readVoid = func(payclient.Response, payclient.Reply) payclient.Reply {
				return payclient.Reply{Verdict: attempt.Rejected}
			}
		}},
		{"voids: confirmed", "another address", func(m *mutant) {
			m.voidRequest = func(_ string, r payclient.Request) payclient.Request {
				r.Path = strings.TrimSuffix(r.Path, "/void") + "/cancel"
				return r
			}
		}},
		{"lists: asks for the times", "leaves the end out", func(m *mutant) {
			m.listRequest = func(from, _ time.Time, cursor string) payclient.Request {
				return m.Provider.ListRequest(from, from.AddDate(1, 0, 0), cursor)
			}
		}},
		{"lists: asks for the times", "in the time of the machine", func(m *mutant) {
			m.listRequest = func(from, to time.Time, cursor string) payclient.Request {
				r := m.Provider.ListRequest(from, to, cursor)
				r.Query = "created_from=" + url.QueryEscape(from.Format("2006-01-02 15:04:05")) + "&created_to=" + url.QueryEscape(to.Format("2006-01-02 15:04:05.999")) + "&starting_after=" + cursor
				return r
			}
		}},
		{"lists: pages complete", "has_more is optional", func(m *mutant) {
			m.readList = func(r payclient.Response, page payclient.LookupPage) payclient.LookupPage {
				if !page.Readable && !bytes.Contains(r.Body, []byte("has_more")) {
					r.Body = append(slices.Clone(bytes.TrimSuffix(r.Body, []byte("}"))), `,"has_more":false}`...)
					return m.Provider.ReadList(r)
				}
				return page
			}
		}},
		{"lists: all that was charged", "one page is enough", func(m *mutant) {
			m.readList = func(_ payclient.Response, page payclient.LookupPage) payclient.LookupPage {
				page.Next = ""
				return page
			}
		}},
		{"lists: all that was charged", "a charge a page", func(m *mutant) {
			m.listRequest = func(from, to time.Time, cursor string) payclient.Request {
				r := m.Provider.ListRequest(from, to, cursor)
				r.Query = strings.Replace(r.Query, "limit=100", "limit=1", 1)
				return r
			}
		}},
	}
}

// keylessSideMistakes claim keys at a provider that ignores them.
func keylessSideMistakes() []mistake {
	return []mistake{
		{"refunds: lost answers", "claims keys that the provider ignores", nil},
		{"refunds: restarts", "claims keys that the provider ignores", nil},
	}
}

// keylessMistakes claim keys at a provider that ignores them.
func keylessMistakes() []mistake {
	var starts atomic.Int64
	return []mistake{
		{"lost answers", "claims keys that the provider ignores", nil},
		{"lost answers", "claims the quoted key of another provider", func(m *mutant) {
			m.capabilities = func(c payclient.Capabilities) payclient.Capabilities {
				c.Key.Header = "X-Request-Id"
				return c
			}
		}},
		{"restarts", "another body at each start", func(m *mutant) {
			start := starts.Add(1)
			m.chargeBody = func(_ attempt.Attempt, b []byte) ([]byte, error) {
				return fmt.Appendf(b[:len(b)-1], `,"instance":%d}`, start), nil
			}
			m.readLookup = func(payclient.Response, payclient.LookupPage) payclient.LookupPage { return payclient.LookupPage{} }
		}},
	}
}

func TestEveryMistakeIsSeenByItsRule(t *testing.T) {
	see := func(m mistake, bank fakeprovider.Config) {
		t.Run(m.rule+"/"+m.what, func(t *testing.T) {
			errs, _ := found(t, suiteOf(standard.Config{}, bank, m.change), m.rule)
			if errs[m.rule] == nil {
				t.Fatal("not seen")
			}
			t.Log(errs[m.rule])
		})
	}
	for _, m := range slices.Concat(mistakes(), sideMistakes()) {
		see(m, fakeprovider.Config{})
	}
	for _, m := range slices.Concat(keylessMistakes(), keylessSideMistakes()) {
		see(m, fakeprovider.Config{IgnoreKeys: true})
	}
}

func TestEveryRuleCanFail(t *testing.T) {
	seen := map[string]bool{ // by TestGoldenSetMustBeWhole
		"golden set": true, "refunds: golden set": true, "voids: golden set": true, "lists: golden set": true,
	}
	for _, m := range slices.Concat(mistakes(), keylessMistakes(), sideMistakes(), keylessSideMistakes()) {
		seen[m.rule] = true
	}
	names := make(map[string]bool)
	for _, r := range rules {
		// A rule for charges that holds on another side too is the same code: it is enough that some of them can fail there.
		which, of, _ := strings.Cut(r.name, ": ")
		shared := slices.ContainsFunc(asRulesOf(side(which), slices.Concat(requestRules, readingRules, pageRules, lookupRules)), func(k rule) bool { return k.name == r.name })
		if shared && seen[of] {
			seen[r.name] = true
		}
		if !seen[r.name] {
			t.Errorf("rule %q: no mistake shows that it can fail", r.name)
		}
		if r.because == "" || names[r.name] {
			t.Errorf("rule %q: want a reason, and a name of its own", r.name)
		}
		names[r.name] = true
	}
}

func looseReading(m *mutant) {
	m.readCharge = func(r payclient.Response, reply payclient.Reply) payclient.Reply {
		if c, ok := looseCharge(r.Body); ok && r.StatusCode == http.StatusCreated {
			return charged(reply, c)
		}
		return reply
	}
}

func TestGoldenSetMustBeWhole(t *testing.T) {
	golden := t.TempDir()
	text, err := os.ReadFile("../standard/testdata/gateway-page.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(golden, "gateway-page.txtar"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	config := suiteOf(standard.Config{}, fakeprovider.Config{}, nil)
	config.Golden = golden
	errs, _ := found(t, config, "golden set", "refunds: golden set", "voids: golden set", "lists: golden set")
	for name, what := range map[string]string{
		"refunds: golden set": "more than is left", "voids: golden set": "cannot be cancelled", "lists: golden set": "another after it",
	} {
		if errs[name] == nil || !strings.Contains(errs[name].Error(), what) {
			t.Errorf("%s: %v\nwant it to miss %q", name, errs[name], what)
		}
	}
	for _, what := range []string{"approval", "decline", "rejection", "still runs", "finds a charge", "finds none", "charge request"} {
		if errs["golden set"] == nil || !strings.Contains(errs["golden set"].Error(), what) {
			t.Errorf("%v\nwant it to miss %q", errs["golden set"], what)
		}
	}
}

func TestUpdateWritesWhatTheAdapterHas(t *testing.T) {
	golden := t.TempDir()
	file := filepath.Join(golden, "declined.txtar")
	want, err := os.ReadFile("../standard/testdata/declined.txtar")
	if err != nil {
		t.Fatal(err)
	}
	stale := strings.NewReplacer("decline_code: insufficient_funds", "decline_code: old", `"amount":54890`, `"amount":1`).Replace(string(want))
	if err := os.WriteFile(file, []byte(stale), 0o600); err != nil {
		t.Fatal(err)
	}
	config := suiteOf(standard.Config{}, fakeprovider.Config{}, nil)
	config.Golden = golden
	if errs, _ := found(t, config, "golden exchanges"); errs["golden exchanges"] == nil {
		t.Error("a stale file went unseen")
	}
	config.Update = true
	if errs, _ := found(t, config, "golden exchanges"); errs["golden exchanges"] != nil {
		t.Error(errs["golden exchanges"])
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want) { //nolint:gosec // the test's own file
		t.Errorf("written: %v\n%s\nwant\n%s", err, got, want)
	}
}

func TestSuiteSaysWhatItLacks(t *testing.T) {
	_, err := open(t, Suite{Without: map[string]string{"no such rule": "because"}})
	for _, what := range []string{"New", "Golden", "Read", "Fake", "no such rule"} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v\nwant it to name %s", err, what)
		}
	}
}

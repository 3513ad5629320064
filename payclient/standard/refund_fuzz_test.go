package standard_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"
	"unicode/utf8"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// FuzzReadRefund: answers to refunds, to lookups of them and to voids decide only if a second reader finds one object, and the
// word that decides, in them. The first bytes of one decide nothing.
func FuzzReadRefund(f *testing.F) {
	const refund = `{"id":"re_1","charge":"ch_1","status":"succeeded","amount":200,"currency":"EUR","merchant_reference":"r"}`
	for _, body := range []string{
		refund, `{"id":"re_1","charge":"ch_1","status":"failed","decline_code":"x","amount":200,"currency":"EUR","merchant_reference":"r"}`,
		`{"data":[` + refund + `],"has_more":false}`, `{"data":[],"has_more":false}`, `{"data":[` + refund + `],"has_more":true}`,
		`{"type":"urn:x","code":"amount_too_large","merchant_reference":"r"}`, refund + refund, `null`, `[]`, ``,
		`{"id":"re_1","id":"re_2"}`, `{"id":"ch_1","status":"failed","amount":200,"currency":"EUR","merchant_reference":"r","created":"2026-03-01T12:00:00Z"}`,
	} {
		f.Add(http.StatusCreated, "application/json", []byte(body), uint16(5))
		f.Add(http.StatusPaymentRequired, "application/problem+json", []byte(body), uint16(5))
		f.Add(http.StatusOK, "application/json", []byte(body), uint16(5))
	}
	p, err := standard.New(standard.Config{Token: payclient.NewSecret("sk_test")})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte, cut uint16) {
		answer := func(body []byte) payclient.Response {
			return payclient.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, Body: body}
		}
		var object map[string]json.RawMessage
		whole := utf8.Valid(body) && json.Unmarshal(body, &object) == nil && object != nil
		decides := func(r payclient.Reply) bool {
			return r.Verdict == attempt.Charged || r.Verdict == attempt.Refused || r.Verdict == attempt.Rejected
		}
		for name, read := range map[string]func(payclient.Response) payclient.Reply{"refund": p.ReadRefund, "void": p.ReadVoid} {
			reply := read(answer(body))
			if again := read(answer(body)); !reflect.DeepEqual(reply, again) {
				t.Fatalf("%s: read as %+v, and then as %+v", name, reply, again)
			}
			if !decides(reply) {
				continue
			}
			if !whole {
				t.Fatalf("%s: %v by %q, which is no object", name, reply.Verdict, body)
			}
			// Id, amount, currency and reference are the client's to compare.
			if reply.Verdict == attempt.Charged && object["status"] == nil {
				t.Fatalf("%s: %v by %q", name, reply.Verdict, body)
			}
			if n := int(cut); n < len(body) && !json.Valid(body[:n]) && decides(read(answer(body[:n]))) {
				t.Fatalf("%s: decided by the first %d bytes of %q", name, n, body)
			}
		}
		for name, read := range map[string]func(payclient.Response) payclient.LookupPage{"refunds": p.ReadRefundLookup, "list": p.ReadList} {
			page := read(answer(body))
			if page.Readable && (!whole || object["data"] == nil) {
				t.Fatalf("%s: %+v read in %q", name, page, body)
			}
			if n := int(cut); page.Readable && n < len(body) && !json.Valid(body[:n]) && read(answer(body[:n])).Readable {
				t.Fatalf("%s: read in the first %d bytes of %q", name, n, body)
			}
		}
	})
}

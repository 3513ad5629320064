package fakeprovider_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

func TestChargeAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		c := call(t, bank)
		r := c.do("POST", "/v1/charges", `"k"`,
			`{"amount":54890,"currency":"TRY","source":"tok_visa","description":"two \"tickets\"","merchant_reference":"o-1"}`)
		want(t, "body", r.body, `{"id":"ch_000001","status":"succeeded","amount":54890,"currency":"TRY","merchant_reference":"o-1",`+
			`"created":"2000-01-01T00:00:00Z","description":"two \"tickets\""}`)
		want(t, "type", r.header.Get("Content-Type"), "application/json")
		want(t, "request id", r.header.Get("Request-Id"), "req_000001")
		want(t, "by id", c.do("GET", "/v1/charges/ch_000001", "", "").body, r.body)
		want(t, "by reference", c.find("o-1").body, `{"data":[`+r.body+`],"has_more":false}`)
		got := bank.Charges("o-1")[0]
		want(t, "decimal", got.Decimal, "548.90")
		want(t, "source", got.Source, "tok_visa")
		want(t, "description", got.Description, `two "tickets"`)
		want(t, "the log's id", bank.Requests()[0].ID, r.header.Get("Request-Id"))
		want(t, "the log's answer", bank.Requests()[0].Answer, r.body)
	})
}

func TestValidation(t *testing.T) {
	ok := payment("r", "tok_visa")
	change := func(old, new string) string { return strings.Replace(ok, old, new, 1) }
	for _, test := range []struct{ body, want string }{
		{ok, "201"},
		{change(`"amount":1000`, `"amount":0`), "amount_invalid"},
		{change(`"amount":1000`, `"amount":-5`), "amount_invalid"},
		{change(`"amount":1000`, `"amount":12.0`), "amount_invalid"},
		{change(`"amount":1000`, `"amount":1e3`), "amount_invalid"},
		{change(`"amount":1000`, `"amount":"1000"`), "amount_invalid"},
		{change(`"amount":1000`, `"amount":null`), "amount_invalid"},
		{change(`"amount":1000`, `"amount":99999999999999999999`), "amount_invalid"},
		{change(`"amount":1000`, `"amount":999999999999`), "201"},
		{change(`"amount":1000`, `"amount":1000000000000`), "amount_invalid"},
		{change(`"amount":1000,`, ``), "amount_invalid"},
		{change(`"amount"`, `"Amount"`), "amount_invalid"},
		{change(`"EUR"`, `"eur"`), "currency_unsupported"},
		{change(`"EUR"`, `"XYZ"`), "currency_unsupported"},
		{change(`"EUR"`, `"EURO"`), "currency_unsupported"},
		{change(`"EUR"`, `978`), "field_invalid"},
		{change(`"currency":"EUR",`, ``), "currency_unsupported"},
		{change(`"EUR"`, `"JPY"`), "201"},
		{change(`"r"`, `""`), "reference_invalid"},
		{change(`"r"`, `"a\u0000b"`), "reference_invalid"},
		{change(`"r"`, `"`+strings.Repeat("x", 256)+`"`), "reference_invalid"},
		{change(`"r"`, `"ord\u2116 7"`), "201"},
		{change(`"tok_visa"`, `"4111"`), "source_invalid"},
		{change(`"tok_visa"`, `"tok_"`), "source_invalid"},
		{change(`"tok_visa"`, `7`), "field_invalid"},
		{change(`}`, `,"amount":2000}`), "malformed_json"},
		{change(`}`, `}{}`), "malformed_json"},
		{change(`}`, ``), "malformed_json"},
		{change(`"r"`, "\"\xff\""), "malformed_json"},
		{change(`"r"`, `"\x"`), "malformed_json"},
		{change(`}`, `,"more":{"a":[1,{"b":null}]}}`), "201"},
		{change(`}`, `,"more":{"a":1,"a":2}}`), "malformed_json"},
		{"[]", "malformed_json"},
		{"null", "malformed_json"},
		{"", "malformed_json"},
		{" " + ok + "\n", "201"},
		{ok + strings.Repeat(" ", 64<<10), "body_too_large"},
	} {
		bank := fakeprovider.New(fakeprovider.Config{})
		r := call(t, bank).do("POST", "/v1/charges", `"k"`, test.body)
		got := fmt.Sprint(r)
		if got != "201" {
			got = r.field("code")
		}
		want(t, clipText(test.body), got, test.want)
		n := 0
		if test.want == "201" {
			n = 1
		}
		want(t, clipText(test.body)+": charges", charges(bank), n)
	}
}

func clipText(s string) string { return s[:min(len(s), 120)] }

func TestOneMistakeDoesNotSpendTheKey(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	want(t, "mistake", c.do("POST", "/v1/charges", `"k"`, `{"amount":1}`), "400")
	want(t, "corrected", c.pay("k", "r", "tok_visa"), "201")
}

func TestEndpoints(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	nobody := c
	nobody.token = ""
	for _, test := range []struct {
		c            caller
		method, path string
		want         string
	}{
		{c, "GET", "/v1/charges?created_from=0", "200"},
		{c, "GET", "/v1/refunds?created_from=0", "200"},
		{c, "GET", "/v1/charges", "400"},
		{c, "GET", "/v1/refunds", "400"},
		{c, "GET", "/v1/charges?created_to=5", "400"},
		{c, "GET", "/v1/charges/ch_1", "404"},
		{c, "GET", "/v1/charges/ch_000001", "404"},
		{c, "GET", "/v1/charges/", "404"},
		{c, "POST", "/v1/charges/", "405"},
		{c, "DELETE", "/v1/charges", "405"},
		{c, "GET", "/v1/payouts", "404"},
		{c, "GET", "/", "404"},
		{c, "GET", "/v1/charges?created_from=0&limit=0", "400"},
		{c, "GET", "/v1/charges?created_from=0&limit=101", "400"},
		{c, "GET", "/v1/charges?created_from=0&starting_after=ch_000009", "400"},
		{c, "GET", "/v1/charges?merchant_reference=%zz", "400"},
		{nobody, "POST", "/v1/charges", "401"},
		{nobody, "GET", "/v1/charges", "401"},
		{c, "GET", "/_fake/nothing", "404"},
	} {
		want(t, test.method+" "+test.path, test.c.do(test.method, test.path, "", ""), test.want)
	}
	r := nobody.do("GET", "/v1/charges", "", "")
	want(t, "challenge", r.header.Get("Www-Authenticate"), `Bearer realm="fakeprovider"`)
	want(t, "problem", r.header.Get("Content-Type"), "application/problem+json")
}

func TestPaging(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	for i := range 25 {
		ref := "even"
		if i%2 == 1 {
			ref = "odd"
		}
		want(t, "pay", c.pay(fmt.Sprint("k", i), ref, "tok_visa"), "201")
	}
	var ids []string
	after := ""
	for page := 1; ; page++ {
		r := c.do("GET", "/v1/charges?merchant_reference=even&limit=5"+after, "", "")
		ids = append(ids, strings.Fields(r.ids())...)
		if r.field("has_more") == "false" {
			want(t, "pages", page, 3)
			break
		}
		after = "&starting_after=" + ids[len(ids)-1]
	}
	want(t, "records", len(ids), 13)
	want(t, "order", ids[0]+" "+ids[12], "ch_000001 ch_000025")
	want(t, "ten unless said", len(strings.Fields(c.find("even").ids())), 10)
	want(t, "everything", len(strings.Fields(c.do("GET", "/v1/charges?created_from=0", "", "").ids())), 25)
}

// R6, C42: a search does not see what was made a moment ago.
func TestR6SearchLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{SearchLag: 20 * time.Second})
		c := call(t, bank)
		c.pay("k", "r", "tok_visa")
		want(t, "at once", c.find("r").body, `{"data":[],"has_more":false}`)
		want(t, "by id", c.do("GET", "/v1/charges/ch_000001", "", ""), "200")
		time.Sleep(20*time.Second - 1)
		want(t, "a moment before", c.find("r").ids(), "")
		time.Sleep(time.Nanosecond)
		want(t, "afterwards", c.find("r").ids(), "ch_000001")
		bank.Script(fakeprovider.Hide(time.Hour))
		c.pay("k2", "r", "tok_visa")
		time.Sleep(time.Hour - 1)
		want(t, "hidden", c.find("r").ids(), "ch_000001")
		time.Sleep(time.Nanosecond)
		want(t, "shown", c.find("r").ids(), "ch_000001 ch_000002")
	})
}

// The lookup modes of section 13 and of C42.
func TestLookupFaults(t *testing.T) {
	for _, test := range []struct{ fault, want string }{
		{"answer", `"ch_000001"`},
		{"lookup-empty", `{"data":[],"has_more":false}`},
		{"lookup-null", `{"data":null,"has_more":false}`},
		{"lookup-twice", `"ch_900001"`},
		{"lookup-foreign", `"merchant_reference":"foreign"`},
		{"lookup-stuck", `"has_more":true`},
		{"lookup-cut", `{"data":[],"has_more":false}`},
		{"status:404", `"not_found"`},
		{"status:503", `"unavailable"`},
		{"set:amount=1500", `"amount":1500`},
		{"set:status=frobnicated", `"status":"frobnicated"`},
		{"omit:amount", `"status":"succeeded","currency"`},
		{"html", "<!DOCTYPE html>"},
	} {
		bank := fakeprovider.New(fakeprovider.Config{})
		c := call(t, bank)
		c.pay("k", "r", "tok_visa")
		bank.ScriptFor(fakeprovider.Lookups, fakeprovider.Fault(test.fault))
		if r := c.find("r"); !strings.Contains(r.body, test.want) {
			t.Errorf("%s: %s lacks %s", test.fault, r.body, test.want)
		}
		want(t, test.fault+": the next lookup", c.find("r").ids(), "ch_000001")
	}
}

func TestSlowLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		c := call(t, bank)
		c.pay("k", "r", "tok_visa")
		for _, f := range []fakeprovider.Fault{fakeprovider.Slow(time.Minute), fakeprovider.Slow(time.Minute).And(fakeprovider.Status(503))} {
			bank.ScriptFor(fakeprovider.Any, f, f)
			start := time.Now()
			c.find("r")
			c.do("GET", "/v1/charges/ch_000001", "", "")
			want(t, string(f), time.Since(start), 2*time.Minute)
		}
	})
}

func TestStuckCursor(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	for i := range 3 {
		c.pay(fmt.Sprint("k", i), "r", "tok_visa")
	}
	bank.Always(fakeprovider.Lookups, fakeprovider.LookupStuck)
	for range 3 {
		r := c.do("GET", "/v1/charges?merchant_reference=r&limit=1&starting_after=ch_000001", "", "")
		want(t, "page", r.ids()+" "+r.field("has_more"), "ch_000001 true")
	}
}

func TestMagicSources(t *testing.T) {
	for _, test := range []struct {
		source string
		answer string // status and the charge's status, or the decline code
		after  string // the charge's status an hour later
	}{
		{"tok_visa", "201 succeeded", "succeeded"},
		{"tok_mastercard", "201 succeeded", "succeeded"},
		{"tok_anything", "201 succeeded", "succeeded"},
		{"tok_declined", "402 generic_decline", "failed"},
		{"tok_insufficient_funds", "402 insufficient_funds", "failed"},
		{"tok_declined_stolen_card", "402 stolen_card", "failed"},
		{"tok_pending", "201 pending", "pending"},
		{"tok_pending_then_succeeded_30m", "201 pending", "succeeded"},
		{"tok_pending_then_failed_30m", "201 pending", "failed"},
		{"tok_requires_action", "201 pending", "pending"},
		{"tok_slow_5s", "201 succeeded", "succeeded"},
		{"tok_book_after_5s", "201 succeeded", "succeeded"},
		{"tok_lost_answer", "error: EOF ", "succeeded"},
	} {
		synctest.Test(t, func(t *testing.T) {
			bank := fakeprovider.New(fakeprovider.Config{})
			c := call(t, bank)
			r := c.pay("k", "r", test.source)
			got := r.String() + " "
			if r.err == nil {
				got += r.field("status")
				if r.status == 402 {
					got = "402 " + r.field("decline_code")
				}
			}
			want(t, test.source, got, test.answer)
			time.Sleep(time.Hour)
			want(t, test.source+" an hour later", c.do("GET", "/v1/charges/ch_000001", "", "").field("status"), test.after)
			if r.err == nil {
				want(t, test.source+" replayed", c.pay("k", "r", test.source).body, r.body)
			}
		})
	}
}

func TestLostAnswerLosesTheFirstOnly(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{IgnoreKeys: true})
	c := call(t, bank)
	want(t, "first", c.pay("", "r", "tok_lost_answer"), "error: EOF")
	want(t, "second", c.pay("", "r", "tok_lost_answer"), "201")
	want(t, "another reference", c.pay("", "r2", "tok_lost_answer"), "error: EOF")
	want(t, "charges", charges(bank, "r"), 2)
}

func TestNeverArrives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		defer bank.Close()
		for _, rt := range []http.RoundTripper{bank.RoundTripper(), bank.Transport()} {
			s := send(rt, "https://bank", "k", strings.Replace(chargeBody, "tok_visa", "tok_never_arrives", 1))
			want(t, "error", s.Err, "context deadline exceeded")
			want(t, "took", s.Took, 10*time.Second)
		}
		want(t, "charges", charges(bank), 0)
	})
}

func TestUniqueReferences(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{UniqueReferences: true})
	c := call(t, bank)
	want(t, "first", c.pay("k", "r", "tok_visa"), "201")
	want(t, "same key", c.pay("k", "r", "tok_visa"), "201 replayed")
	want(t, "another key", c.pay("k2", "r", "tok_visa").field("code"), "duplicate_reference")
	want(t, "charges", charges(bank), 1)
}

// C28: declined, and paid after all.
func TestC28LateFlip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		c := call(t, bank)
		bank.Script(fakeprovider.Decline("pin_required").And(fakeprovider.Flip(30*time.Second, fakeprovider.Succeeded)))
		want(t, "declined", c.pay("k", "r", "tok_visa"), "402")
		want(t, "no money", charges(bank, "r"), 0)
		time.Sleep(30 * time.Second)
		want(t, "late money", charges(bank, "r"), 1)
		want(t, "the key still says", c.pay("k", "r", "tok_visa"), "402 replayed")
	})
}

func TestSettle(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	r := c.pay("k", "r", "tok_requires_action")
	want(t, "next action", strings.Contains(r.body, `"next_action":{"type":"redirect","url":"https://`), true)
	if err := bank.Settle("ch_000001", fakeprovider.Failed); err != nil {
		t.Error(err)
	}
	want(t, "failed", c.do("GET", "/v1/charges/ch_000001", "", "").field("status"), "failed")
	want(t, "no money", charges(bank), 0)
	want(t, "unknown id", bank.Settle("ch_000002", fakeprovider.Failed), "settle ch_000002: there is no such charge or refund")
	want(t, "unknown status", bank.Settle("ch_000001", "paid"), `settle ch_000001: "paid" is no status: want succeeded, pending or failed`)
}

// C47: refunds of their own, never above what is left.
func TestC47Refunds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		defer bank.Close()
		c := call(t, bank)
		c.pay("k", "r", "tok_visa")
		first := c.refund("f1", "rf1", "ch_000001", 400)
		want(t, "body", first.body, `{"id":"re_000001","status":"succeeded","amount":400,"currency":"EUR",`+
			`"merchant_reference":"rf1","charge":"ch_000001","created":"2000-01-01T00:00:00Z"}`)
		want(t, "again", c.refund("f1", "rf1", "ch_000001", 400), "201 replayed")
		want(t, "the charge's key", c.refund("k", "rf1", "ch_000001", 400).field("code"), "idempotency_key_reused")
		want(t, "too much", c.refund("f2", "rf2", "ch_000001", 601).field("code"), "refund_too_large")
		want(t, "another currency", c.do("POST", "/v1/refunds", `"f3"`,
			`{"charge":"ch_000001","amount":1,"currency":"USD","merchant_reference":"rf"}`).field("code"), "currency_unsupported")

		bank.Script("book-after:10s")
		go c.refund("f4", "rf4", "ch_000001", 500)
		synctest.Wait()
		want(t, "an accepted one counts", c.refund("f5", "rf5", "ch_000001", 200).field("code"), "refund_too_large")
		want(t, "the rest", c.refund("f6", "rf6", "ch_000001", 100), "201")
		want(t, "nothing left", c.refund("f7", "rf7", "ch_000001", 1).field("code"), "charge_already_refunded")
		time.Sleep(10 * time.Second)
		want(t, "booked", len(bank.Refunds()), 3)
		want(t, "found", c.do("GET", "/v1/refunds?merchant_reference=rf4", "", "").ids(), "re_000003")
		want(t, "by id", c.do("GET", "/v1/refunds/re_000001", "", "").body, first.body)
		want(t, "no charge", c.refund("f8", "rf8", "ch_000009", 1), "404")
		want(t, "charges", charges(bank), 1)
	})
}

func TestRefundMagic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		c := call(t, bank)
		for i, test := range []struct{ source, first, later string }{
			{"tok_visa", "succeeded", "succeeded"},
			{"tok_refund_pending", "pending", "pending"},
			{"tok_refund_pending_then_succeeded_72h", "pending", "succeeded"},
			{"tok_refund_pending_then_failed_72h", "pending", "failed"},
			{"tok_refund_declined", "402", "failed"},
		} {
			start := time.Now()
			n := fmt.Sprint(i)
			charge := c.pay("c"+n, "r"+n, test.source)
			want(t, test.source, charge.field("status"), "succeeded")
			r := c.refund("f"+n, "rf"+n, charge.field("id"), 1000)
			want(t, test.source, r.field("status"), test.first)
			time.Sleep(72*time.Hour - time.Since(start))
			want(t, test.source+" later", bank.Refunds("rf" + n)[0].Status, test.later)
			// What failed may be refunded again, nothing else.
			code := c.refund("g"+n, "rg"+n, charge.field("id"), 1000).field("code")
			want(t, test.source+" again", code != "charge_already_refunded", test.later == "failed")
		}
		want(t, "declined charge", c.pay("x", "x", "tok_declined").status, 402)
		want(t, "no refund of it", c.refund("y", "y", "ch_000006", 1).field("code"), "charge_not_refundable")
	})
}

func TestCurrencies(t *testing.T) {
	for _, test := range []struct {
		currency string
		amount   string
		decimal  string
	}{
		{"JPY", "80", "80"}, {"KWD", "35200", "35.200"}, {"EUR", "7", "0.07"}, {"UYW", "12345", "1.2345"}, {"TRY", "100", "1.00"},
	} {
		bank := fakeprovider.New(fakeprovider.Config{})
		r := call(t, bank).do("POST", "/v1/charges", `"k"`,
			`{"amount":`+test.amount+`,"currency":"`+test.currency+`","source":"tok_visa","merchant_reference":"r"}`)
		want(t, test.currency, r, "201")
		want(t, test.currency, bank.Charges()[0].Decimal, test.decimal)
	}
	bank := fakeprovider.New(fakeprovider.Config{Currencies: []string{"TRY"}})
	want(t, "limited", call(t, bank).pay("k", "r", "tok_visa").field("code"), "currency_unsupported")
}

// A request of which a part is missing is not executed.
func TestC14CutRequest(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	srv := httptest.NewServer(bank)
	defer srv.Close()
	defer bank.Close()
	body := payment("r", "tok_visa")
	req, err := http.NewRequest("POST", srv.URL+"/v1/charges", strings.NewReader(body[:20]))
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = int64(len(body))
	req.Header = http.Header{"Authorization": {"Bearer x"}, "Idempotency-Key": {`"k"`}}
	if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
		resp.Body.Close()
		t.Error("a short body was sent without an error")
	}
	bank.Close() // waits for the handler
	want(t, "charges", charges(bank), 0)
	for _, r := range bank.Requests() {
		want(t, "cut", r.Cut, true)
	}
}

func TestRequestLogIsBounded(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{RecordRequests: 3})
	c := call(t, bank)
	for i := range 5 {
		c.pay(fmt.Sprint("k", i), "r", "tok_visa")
	}
	var kept []string
	for _, r := range bank.Requests() {
		kept = append(kept, fmt.Sprint(r.Number, r.Key))
	}
	want(t, "kept", kept, "[3k2 4k3 5k4]")
	want(t, "counted", bank.RequestCount(), 5)
	none := fakeprovider.New(fakeprovider.Config{RecordRequests: -1})
	call(t, none).pay("k", "r", "tok_visa")
	want(t, "none kept", len(none.Requests()), 0)
	want(t, "counted all the same", none.RequestCount(), 1)
}

func TestLedgerHoldsNoToken(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	c.token = "sk_live_verysecret"
	c.pay("k", "r", "tok_visa")
	r := c.do("GET", "/_fake/ledger", "", "")
	if strings.Contains(r.body, "verysecret") {
		t.Errorf("the ledger shows the token: %s", r.body)
	}
	want(t, "counts", r.field("request_count")+r.field("distinct_keys"), "11")
}

func TestClosedProvider(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	c.pay("k", "r", "tok_visa")
	if err := bank.Close(); err != nil {
		t.Error(err)
	}
	if err := bank.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
	want(t, "after Close", c.pay("k2", "r", "tok_visa"), "503")
	want(t, "the books stay readable", charges(bank), 1)
	_, err := bank.DialContext(t.Context(), "tcp", "bank:80")
	want(t, "dial", err, "dial tcp bank:80: fakeprovider: provider is closed")
}

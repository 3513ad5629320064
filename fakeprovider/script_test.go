package fakeprovider_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

func TestScriptInOrder(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	bank.Script(fakeprovider.Status(503), fakeprovider.Answer)
	bank.Script(fakeprovider.Decline("x"))
	want(t, "unused", bank.Unused(), "[status:503 for POST answer for POST decline:x for POST]")
	want(t, "a lookup takes no step", c.find("r"), "200")
	want(t, "first", c.pay("k", "r", "tok_visa"), "503")
	want(t, "second", c.pay("k", "r", "tok_visa"), "201")
	want(t, "third", c.pay("k2", "r2", "tok_visa"), "402")
	want(t, "past the script", c.pay("k3", "r3", "tok_visa"), "201")
	want(t, "unused", len(bank.Unused()), 0)
	want(t, "recorded", bank.Requests("r2")[0].Fault, "decline:x")
}

func TestMostParticularScriptWins(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{Tokens: map[string]string{"secret": "shop", "other": "other shop"}})
	c := call(t, bank)
	bank.Script(fakeprovider.Status(500))
	bank.ScriptFor(fakeprovider.Match{Path: "/v1/refunds"}, fakeprovider.Status(501))
	bank.ScriptFor(fakeprovider.Match{Source: "tok_mastercard"}, fakeprovider.Status(502))
	bank.ScriptFor(fakeprovider.Match{Reference: "r"}, fakeprovider.Status(503))
	bank.ScriptFor(fakeprovider.Match{Key: "k"}, fakeprovider.Status(504))
	bank.ScriptFor(fakeprovider.Match{Client: "other shop", Path: "/v1/*"}, fakeprovider.Status(505))
	bank.ScriptFor(fakeprovider.Match{Method: "GET", Path: "/v1/charges/*"}, fakeprovider.Status(506))
	bank.Always(fakeprovider.Any, fakeprovider.Status(599))
	other := c
	other.token = "other"
	for _, test := range []struct {
		what string
		got  reply
		want string
	}{
		{"by key", c.pay("k", "r", "tok_visa"), "504"},
		{"by reference", c.pay("k", "r", "tok_visa"), "503"},
		{"by source", c.pay("k", "r", "tok_mastercard"), "502"},
		{"by path", c.refund("k", "x", "ch_1", 1), "501"},
		{"any POST", c.pay("k", "r", "tok_visa"), "500"},
		{"by client", other.pay("k", "r", "tok_visa"), "505"},
		{"by method", c.do("GET", "/v1/charges/ch_000001", "", ""), "506"},
		{"standing", c.pay("k", "r", "tok_visa"), "599"},
		{"standing, a GET", c.find("r"), "599"},
	} {
		want(t, test.what, test.got, test.want)
	}
	bank.Always(fakeprovider.Any, fakeprovider.Answer)
	want(t, "taken away", c.find("r"), "200")
	bank.Always(fakeprovider.Lookups, fakeprovider.Status(418))
	bank.ClearFaults()
	want(t, "cleared", c.find("r"), "200")
	want(t, "charges", charges(bank), 0)
}

// recorder is a TB that takes errors down.
type recorder struct{ errors []string }

func (r *recorder) Helper() {}
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func TestStrictMode(t *testing.T) {
	tb := &recorder{}
	bank := fakeprovider.New(fakeprovider.Config{Strict: tb})
	c := call(t, bank)
	r := c.pay("k", "r", "tok_visa")
	want(t, "nothing scripted", r, "500")
	want(t, "code", r.field("code"), "unscripted_request")

	bank.ScriptFor(fakeprovider.Match{Key: "other", Reference: "r"}, fakeprovider.LoseAnswer)
	bank.ScriptFor(fakeprovider.Match{Path: "/v1/refunds", Source: "x", Reference: "y"}, fakeprovider.Answer)
	c.pay("k", "r", "tok_visa")
	want(t, "a lookup needs no step", c.find("r"), "200")
	bank.ClearFaults()
	bank.Script(fakeprovider.Answer)
	want(t, "scripted", c.pay("k", "r", "tok_visa"), "201")
	c.pay("k", "r", "tok_visa")
	bank.Script(fakeprovider.Status(500), fakeprovider.Answer)
	bank.Close()
	client := bank.Requests()[0].Client
	asked := "POST /v1/charges client " + client + " key k reference r source tok_visa"
	want(t, "what the test is told", strings.Join(tb.errors, "\n"), strings.Join([]string{
		"fakeprovider: no step for " + asked + "; nothing is scripted",
		"fakeprovider: no step for " + asked + `; the closest is "lose-answer" for POST key other reference r, which differs in key`,
		"fakeprovider: no step for " + asked + "; all 1 scripted steps are used up",
		"fakeprovider: step never used: status:500 for POST",
		"fakeprovider: step never used: answer for POST",
	}, "\n"))
	want(t, "charges", charges(bank), 1)
}

// P6: what a request gets depends on seed, key and its number, not on the
// order in which requests arrive.
func TestDrawIsRepeatable(t *testing.T) {
	play := func(seed uint64, order func(i int) int) map[string]string {
		bank := fakeprovider.New(fakeprovider.Config{})
		bank.Draw(fakeprovider.Draw{Seed: seed, Rate: 0.2})
		c := call(t, bank)
		for range 3 {
			for i := range 100 {
				n := fmt.Sprint(order(i))
				c.pay("key-"+n, "r-"+n, "tok_visa")
			}
		}
		faults := map[string]string{}
		for _, r := range bank.Requests() {
			faults[r.Key] += string(r.Fault) + ","
		}
		for ref := range faults {
			if n := charges(bank, strings.Replace(ref, "key-", "r-", 1)); n > 1 {
				t.Errorf("%s: %d charges", ref, n)
			}
		}
		return faults
	}
	forward := play(7, func(i int) int { return i })
	backward := play(7, func(i int) int { return 99 - i })
	want(t, "another order, the same faults", fmt.Sprint(forward), fmt.Sprint(backward))
	if fmt.Sprint(forward) == fmt.Sprint(play(8, func(i int) int { return i })) {
		t.Error("another seed draws the same")
	}
	drawn := 0
	for _, f := range forward {
		for step := range strings.SplitSeq(f, ",") {
			if step != "" {
				drawn++
			}
		}
	}
	if drawn < 40 || drawn > 80 {
		t.Errorf("%d of 300 requests got a fault at a rate of 0.2", drawn)
	}
	// Pinned: a later release draws as this one.
	want(t, "key-0", forward["key-0"], "lose-request,,,")
}

func TestDrawWithoutKeysAndWithScripts(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{IgnoreKeys: true})
	c := call(t, bank)
	bank.Draw(fakeprovider.Draw{Rate: 1, Faults: []fakeprovider.Fault{fakeprovider.Status(503)}, Match: fakeprovider.Match{Path: "/v1/charges"}})
	bank.Script(fakeprovider.Answer)
	want(t, "a script comes first", c.do("POST", "/v1/charges", "", payment("r", "tok_visa")), "201")
	want(t, "drawn", c.do("POST", "/v1/charges", "", payment("r", "tok_visa")), "503")
	want(t, "outside the match", c.refund("f", "rf", "ch_000001", 1), "201")
	bank.Draw(fakeprovider.Draw{})
	want(t, "switched off", c.do("POST", "/v1/charges", "", payment("r", "tok_visa")), "201")
}

func TestParseFault(t *testing.T) {
	for _, ok := range []string{
		"", "answer", "lose-answer", "book+close", "slow:5s+cut-body:30", "status:503+retry-after:1.5",
		"redirect:307:https://other.invalid/a?b=c", "retry-after:Wed,%2021%20Oct%202026%2007:28:00%20GMT", "wrong-length:%2B20",
		"retry-after:9223372037", "retry-after:-1", "retry-after-date:-30s",
	} {
		f, err := fakeprovider.ParseFault(ok)
		if err != nil || string(f) != ok {
			t.Errorf("ParseFault(%q) = %q, %v", ok, f, err)
		}
	}
	for bad, says := range map[string]string{
		"lose":                   `unknown part "lose" (did you mean lose-answer, lose-request?)`,
		"answer+":                `unknown part ""`,
		"close:1":                "close takes no argument",
		"slow":                   "slow needs an argument: slow:DURATION",
		"slow:5":                 "missing unit",
		"slow:-5s":               "negative duration",
		"status:50":              "want a status of three digits",
		"status:abc":             "want a status of three digits",
		"redirect:200":           "a redirect's status is 300 to 399",
		"cut-body:x":             "want a whole number",
		"cut-body:-1":            "out of range",
		"close+status:500":       "close and status cannot both stand in place of the answer",
		"book+close+cut-body:30": "close leaves no answer that cut-body could damage",
		"drip:1s+cut-body:3":     "drip and cut-body cannot both frame the answer",
		"set:amount":             "want FIELD=VALUE",
		"header:A%0d%0aB=1":      "without line breaks",
		"retry-after:1%0a":       "no line breaks",
		"flip:1s:paid":           `"paid" is no status`,
		"slow:%zz":               "invalid URL escape",
		"book-currency:EURO":     "three letters",
		"book+refuse-dial":       "nothing is executed without a connection",
		"zzz":                    `unknown part "zzz"`,
	} {
		if _, err := fakeprovider.ParseFault(bad); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("ParseFault(%q): %v, want %q", bad, err, says)
		}
	}
}

func TestParseScript(t *testing.T) {
	steps, err := fakeprovider.ParseScript("lose-answer 2*status:500\n answer")
	want(t, "steps", fmt.Sprint(steps, err), "[lose-answer status:500 status:500 answer] <nil>")
	_, err = fakeprovider.ParseScript("0*close lose hang-dia")
	for _, says := range []string{`step "0*close"`, `"lose"`, "did you mean hang-dial?"} {
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v lacks %q", err, says)
		}
	}
}

func TestConstructorsParse(t *testing.T) {
	for _, f := range []fakeprovider.Fault{
		fakeprovider.Reply(422, `{"name":"A+B % C"}`), fakeprovider.Redirect(302, ""), fakeprovider.Redirect(308, "https://x.invalid/?a=b+c"),
		fakeprovider.RetryAfter("Wed, 21 Oct 2026 07:28:00 GMT"), fakeprovider.Header("Should-Retry", "a + b"),
		fakeprovider.SetField("a", `{"b":"+"}`), fakeprovider.AddField("Status", "failed"), fakeprovider.WrongLength(20), fakeprovider.CutChunked(-1),
		fakeprovider.CutChunked(3), fakeprovider.NoLength(-1), fakeprovider.Trailing("<!-- + -->"), fakeprovider.Decline("a b"),
		fakeprovider.EchoReference("ord 2+2"), fakeprovider.Book.And(fakeprovider.Hang, fakeprovider.Answer),
	} {
		if _, err := fakeprovider.ParseFault(string(f)); err != nil {
			t.Error(err)
		}
		if strings.ContainsAny(string(f), " \t\n") {
			t.Errorf("%q cannot stand in a script", f)
		}
	}
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	bank.Script(fakeprovider.Reply(422, `{"name":"A+B % C"}`), fakeprovider.EchoReference("ord 2+2"), fakeprovider.Book.And())
	want(t, "reply", c.pay("k", "r", "tok_visa").body, `{"name":"A+B % C"}`)
	want(t, "echo", c.pay("k", "r", "tok_visa").field("merchant_reference"), "ord 2+2")
	want(t, "nothing to add", fakeprovider.Answer.And(), "answer")
}

func TestScriptPanicsOnNonsense(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	for name, f := range map[string]func(){
		"Script":    func() { bank.Script("nonsense") },
		"ScriptFor": func() { bank.ScriptFor(fakeprovider.Any, "nonsense") },
		"Always":    func() { bank.Always(fakeprovider.Any, "nonsense") },
		"Draw":      func() { bank.Draw(fakeprovider.Draw{Rate: 1, Faults: []fakeprovider.Fault{"nonsense"}}) },
		"Config.Script": func() {
			fakeprovider.New(fakeprovider.Config{Script: fakeprovider.Script{Steps: []fakeprovider.Fault{"nonsense"}}})
		},
	} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "nonsense") {
					t.Errorf("%s: recovered %v", name, r)
				}
			}()
			f()
		}()
	}
}

func TestControlEndpoints(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	c.token = "" // none needed
	r := c.do("POST", "/_fake/faults", "", `{"steps":["lose-answer"],"rules":[{"match":{"method":"GET"},"always":"status:503"}],
		"draw":{"seed":1,"rate":1,"faults":["status:429"],"match":{"path":"/v1/refunds"}}}`)
	want(t, "accepted", r.body, `{"unused":["lose-answer for POST"]}`)
	c.token = "t"
	want(t, "lost", c.pay("k", "r", "tok_visa"), "error: EOF")
	want(t, "standing", c.find("r"), "503")
	want(t, "drawn", c.refund("f", "rf", "ch_000001", 1), "429")
	for body, says := range map[string]string{
		`{"steps":["nonsense"],"clear":true}`: "unknown part",
		`{"steps":[],"steps":[]}`:             "duplicate name",
		`{"step":[]}`:                         "unknown field",
		`{"draw":{"rate":2}}`:                 "not between 0 and 1",
		`{} {}`:                               "data after the object",
		``:                                    "not a JSON object",
	} {
		r := c.do("POST", "/_fake/faults", "", body)
		if r.status != 400 || !strings.Contains(r.body, says) {
			t.Errorf("%s: %s %s", body, r, r.body)
		}
	}
	want(t, "a refused script changes nothing", c.find("r"), "503")
	c.do("POST", "/_fake/faults", "", `{"clear":true,"steps":["status:502"]}`)
	want(t, "cleared", c.find("r"), "200")
	want(t, "anew", c.pay("k", "r", "tok_visa"), "502")
	want(t, "settle", c.do("POST", "/_fake/settle", "", `{"id":"ch_000001","status":"failed"}`), "200")
	want(t, "settle nothing", c.do("POST", "/_fake/settle", "", `{"id":"ch_000009","status":"failed"}`), "400")
	ledger := c.do("GET", "/_fake/ledger", "", "")
	want(t, "control requests do not count", ledger.field("request_count"), "6")
	want(t, "ledger", strings.Contains(ledger.body, `"declines":[{"id":"ch_000001"`), true)
	faults := c.do("GET", "/_fake/faults", "", "")
	for _, says := range []string{`"name":"lose-answer"`, `"tok_lost_answer"`, `"unused":null`} {
		if !strings.Contains(faults.body, says) {
			t.Errorf("GET /_fake/faults lacks %s", says)
		}
	}
	want(t, "reset", c.do("POST", "/_fake/reset", "", ""), "200")
	l := bank.Ledger()
	want(t, "empty", fmt.Sprint(len(l.Charges), len(l.Declines), len(l.Refunds), l.RequestCount, l.DistinctKeys), "0 0 0 0 0")
	want(t, "faults gone", c.find("r"), "200")
}

func TestConfigScriptOutlivesReset(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{Script: fakeprovider.Script{Rules: []fakeprovider.Rule{{Always: fakeprovider.Status(500)}}}})
	c := call(t, bank)
	want(t, "from the start", c.pay("k", "r", "tok_visa"), "500")
	bank.ClearFaults()
	want(t, "cleared", c.pay("k", "r", "tok_visa"), "201")
	if err := bank.Reset(); err != nil {
		t.Error(err)
	}
	want(t, "again", c.pay("k", "r", "tok_visa"), "500")
}

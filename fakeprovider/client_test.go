package fakeprovider_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

// caller is a plain client of the API: it neither retries nor interprets.
type caller struct {
	t     *testing.T
	rt    http.RoundTripper
	base  string
	token string
}

func call(t *testing.T, rt http.RoundTripper) caller {
	return caller{t, rt, "http://bank", "secret"}
}

// reply is an answer in short.
type reply struct {
	status   int
	replayed bool
	header   http.Header
	body     string
	err      error
}

func (r reply) String() string {
	if r.err != nil {
		return "error: " + r.err.Error()
	}
	s := fmt.Sprint(r.status)
	if r.replayed {
		s += " replayed"
	}
	return s
}

// field returns a member of the answer's object as JSON text.
func (r reply) field(name string) string {
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.body), &m); err != nil {
		return "no object: " + err.Error()
	}
	return strings.Trim(string(m[name]), `"`)
}

// ids lists the ids of a search's records.
func (r reply) ids() string {
	var page struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(r.body), &page); err != nil {
		return err.Error()
	}
	var ids []string
	for _, d := range page.Data {
		ids = append(ids, d.ID)
	}
	return strings.Join(ids, " ")
}

// do sends a request; key is the header's text as it stands.
func (c caller) do(method, path, key, body string) reply {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	req.GetBody = nil
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.send(req)
}

func (c caller) send(req *http.Request) reply {
	resp, err := c.rt.RoundTrip(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header.Get("Idempotent-Replayed") == "true", resp.Header, string(b), err}
}

// pay charges 10.00 EUR.
func (c caller) pay(key, ref, source string) reply {
	return c.do("POST", "/v1/charges", `"`+key+`"`, payment(ref, source))
}

func (c caller) find(ref string) reply {
	return c.do("GET", "/v1/charges?merchant_reference="+ref, "", "")
}

func (c caller) refund(key, ref, charge string, amount int) reply {
	return c.do("POST", "/v1/refunds", `"`+key+`"`,
		fmt.Sprintf(`{"charge":%q,"amount":%d,"currency":"EUR","merchant_reference":%q}`, charge, amount, ref))
}

func payment(ref, source string) string {
	return fmt.Sprintf(`{"amount":1000,"currency":"EUR","source":%q,"merchant_reference":%q}`, source, ref)
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

func charges(p *fakeprovider.Provider, refs ...string) int { return len(p.Charges(refs...)) }

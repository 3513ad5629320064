package fakeprovider_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

// order sends a form, as most panels want it.
func (c caller) order(form string) reply {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), "POST", c.base+"/v1/orders", strings.NewReader(form))
	if err != nil {
		return reply{err: err}
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return c.send(req)
}

const orderForm = "service=1&link=https%3A%2F%2Fa.example%2Fp&quantity=100&merchant_reference=o1"

// K3: business errors come with status 200 and no order.
func TestK3OrderErrors(t *testing.T) {
	for form, answer := range map[string]string{
		orderForm: `{"order":1}`,
		strings.Replace(orderForm, "service=1", "service=2", 1):       `{"error":"Incorrect service ID"}`,
		strings.Replace(orderForm, "service=1&", "", 1):               `{"error":"Incorrect service ID"}`,
		strings.Replace(orderForm, "=100", "=9", 1):                   `{"error":"Quantity less than minimal 10"}`,
		strings.Replace(orderForm, "=100", "=10001", 1):               `{"error":"Quantity more than maximum 10000"}`,
		strings.Replace(orderForm, "=100", "=1e2", 1):                 `{"error":"Incorrect quantity"}`,
		strings.Replace(orderForm, "https%3A%2F%2Fa.example", "a", 1): `{"error":"Bad link"}`,
		strings.Replace(orderForm, "https%3A", "javascript%3A", 1):    `{"error":"Bad link"}`,
		"%zz": `{"error":"Incorrect request"}`,
	} {
		bank := fakeprovider.New(fakeprovider.Config{})
		r := call(t, bank).order(form)
		want(t, form, fmt.Sprint(r, " ", r.body), "200 "+answer)
		n := 0
		if strings.Contains(answer, `"order"`) {
			n = 1
		}
		want(t, form+": orders", len(bank.Orders()), n)
	}
	bank := fakeprovider.New(fakeprovider.Config{Orders: fakeprovider.OrdersConfig{
		Services: map[int]fakeprovider.Service{7: {Min: 1, Price: 30}}, Balance: 100,
	}})
	c := call(t, bank)
	for _, answer := range []string{`{"order":1}`, `{"order":2}`, `{"order":3}`, `{"error":"Not enough funds on balance"}`} {
		want(t, "balance", c.order("service=7&link=http://a.example&quantity=1").body, answer)
	}
	c.token = ""
	want(t, "no token", c.order(orderForm).body, `{"error":"Invalid API key"}`)
}

// K2, K4: without keys a second POST is a second order.
func TestKOrdersAreKeyless(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	bank.Script(fakeprovider.LoseAnswer)
	want(t, "lost", c.order(orderForm), "error: EOF")
	want(t, "sent again", c.order(orderForm).body, `{"order":2}`)
	want(t, "JSON", c.do("POST", "/v1/orders", `"k"`, `{"service":1,"link":"http://a.example","quantity":"50","merchant_reference":"o1"}`).body, `{"order":3}`)
	want(t, "the key means nothing", c.do("POST", "/v1/orders", `"k"`, `{"service":1,"link":"http://a.example","quantity":50,"merchant_reference":"o1"}`).body, `{"order":4}`)
	want(t, "orders", len(bank.Orders("o1")), 4)
	want(t, "no lookup", c.do("GET", "/v1/orders?merchant_reference=o1", "", ""), "404")
	want(t, "by number", c.do("GET", "/v1/orders/1", "", "").body,
		`{"order":1,"status":"Pending","service":1,"quantity":100,"link":"https://a.example/p","merchant_reference":"o1"}`)
	want(t, "no such number", c.do("GET", "/v1/orders/9", "", "").body, `{"error":"Incorrect order ID"}`)
	bank.Script(fakeprovider.Fault("book-twice"), fakeprovider.Decline(""))
	want(t, "twice", c.order(orderForm).body, `{"order":5}`)
	want(t, "orders", len(bank.Orders()), 6)
	want(t, "declined", c.order(orderForm).body, `{"error":"Not enough funds on balance"}`)
}

// K2: settled by a lookup, if the API has one.
func TestK2OrderLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{SearchLag: time.Second, Orders: fakeprovider.OrdersConfig{Lookup: true}})
		defer bank.Close()
		c := call(t, bank)
		bank.Script(fakeprovider.BookAfter(5 * time.Second))
		go c.order(orderForm)
		find := func() string {
			r := c.do("GET", "/v1/orders?merchant_reference=o1", "", "")
			return fmt.Sprint(strings.Count(r.body, `"order":`), len(bank.Orders("o1")))
		}
		synctest.Wait()
		want(t, "not yet", find(), "0 0")
		time.Sleep(5 * time.Second)
		want(t, "made, not shown", find(), "0 1")
		time.Sleep(time.Second)
		want(t, "shown", find(), "1 1")
		bank.ScriptFor(fakeprovider.Lookups, fakeprovider.LookupEmpty)
		want(t, "hidden", find(), "0 1")
		other := c
		other.token = "somebody else"
		want(t, "another client", other.do("GET", "/v1/orders?merchant_reference=o1", "", "").body, `{"data":[],"has_more":false}`)
	})
}

// K5: bulk calls are not atomic; each line has an order or an error by its
// position.
func TestK5BulkOrders(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	line := `{"service":1,"link":"http://a.example","quantity":10}`
	r := c.do("POST", "/v1/orders/bulk", "", `{"orders":[`+line+`,{"service":9},`+line+`]}`)
	want(t, "lines", r.body, `{"results":[{"order":1},{"error":"Incorrect service ID"},{"order":2}]}`)
	for _, body := range []string{`{"orders":[]}`, `{"orders":7}`, `{"orders":[7]}`, `{}`, `[]`, `{"orders":[` + strings.Repeat(line+",", 100) + line + `]}`} {
		want(t, clipText(body), c.do("POST", "/v1/orders/bulk", "", body).body, `{"error":"Incorrect request"}`)
	}
	bank.Script(fakeprovider.LoseAnswer)
	want(t, "lost", c.do("POST", "/v1/orders/bulk", "", `{"orders":[`+line+`,`+line+`]}`), "error: EOF")
	want(t, "orders", len(bank.Orders()), 4)
}

package panel_test

import (
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/internal/panel"
	"github.com/chargeonce/chargeonce/payclient"
)

// desk is a host with a client at a fake order panel, over a real http.Transport without a network, in a bubble.
type desk struct {
	t         *testing.T
	bank      *fakeprovider.Provider
	store     *attempt.Memory
	transport http.RoundTripper
	adapter   *panel.Provider
	client    *payclient.Client
	began     time.Time
}

func openDesk(t *testing.T, lookup bool, orders fakeprovider.OrdersConfig) *desk {
	t.Helper()
	orders.Lookup = lookup
	d := &desk{
		t: t, bank: fakeprovider.New(fakeprovider.Config{Orders: orders}), store: new(attempt.Memory),
		adapter: adapter(t, lookup), began: time.Now(),
	}
	transport := d.bank.Transport()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := d.bank.Close(); err != nil {
			t.Error(err)
		}
	})
	d.transport = transport
	d.client = d.open()
	return d
}

func (d *desk) open() *payclient.Client {
	d.t.Helper()
	client, err := payclient.New(payclient.Config{
		Provider: d.adapter, Store: d.store, BaseURL: "http://127.0.0.1", Transport: d.transport,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return client
}

func (d *desk) intent(order string, l panel.Line) attempt.Intent {
	d.t.Helper()
	i, err := d.adapter.Intent(order, l)
	if err != nil {
		d.t.Fatal(err)
	}
	return i
}

// posts counts the order requests that the panel saw.
func (d *desk) posts() (n int) {
	for _, r := range d.bank.Requests() {
		if r.Method == http.MethodPost {
			n++
		}
	}
	return n
}

func (d *desk) want(what string, posts, orders int) {
	d.t.Helper()
	if got := d.posts(); got != posts {
		d.t.Errorf("%s: %d requests to order, want %d", what, got, posts)
	}
	if got := len(d.bank.Orders()); got != orders {
		d.t.Errorf("%s: the panel holds %d orders, want %d", what, got, orders)
	}
}

func TestOrdersAreApprovedOnceThePanelShowsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t, true, fakeprovider.OrdersConfig{})
		for n, order := range []string{"1001", "1002", "1003"} {
			res, err := d.client.Pay(t.Context(), d.intent(order, line(100)))
			if err != nil || res.Outcome != payclient.Approved || res.ChargeID == "" || res.Sends != 1 {
				t.Fatalf("order %s: %+v, %v", order, res, err)
			}
			d.want("order "+order, n+1, n+1)
		}
		for _, r := range d.bank.Requests() {
			if r.Reused || r.RawKey != "" {
				t.Errorf("%s %s: on a used connection: %t, key %q; want neither", r.Method, r.Path, r.Reused, r.RawKey)
			}
		}
	})
}

func TestK1NothingLeftIsRetried(t *testing.T) {
	for _, fault := range []fakeprovider.Fault{fakeprovider.RefuseDial, fakeprovider.DNSFailure} {
		t.Run(string(fault), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := openDesk(t, true, fakeprovider.OrdersConfig{})
				d.bank.Script(fault, fault)
				res, err := d.client.Pay(t.Context(), d.intent("1001", line(100)))
				if err != nil || res.Outcome != payclient.Approved || res.Sends != 3 {
					t.Fatalf("%+v, %v; want an approval by the third request", res, err)
				}
				// 1 and 1.5 s, each up to 20 % longer.
				if took := time.Since(d.began); took < 2500*time.Millisecond || took > 3*time.Second {
					t.Errorf("took %s, want growing waits of 2.5 to 3 s", took)
				}
				d.want("at the end", 1, 1)

				d.bank.Always(fakeprovider.Match{}, fault)
				_, err = d.client.Pay(t.Context(), d.intent("1002", line(100)))
				var notPaid *attempt.NotPaidError
				if !errors.As(err, &notPaid) || notPaid.Attempt.Sends != 4 || notPaid.Attempt.MaybeSends != 0 {
					t.Fatalf("got %v, want that nothing left in four requests", err)
				}
				d.want("for ever", 1, 1)
			})
		})
	}
}

func TestK2ATimeoutIsNeverSentAgain(t *testing.T) {
	for _, lookup := range []bool{true, false} {
		t.Run(map[bool]string{true: "lookup", false: "no lookup"}[lookup], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := openDesk(t, lookup, fakeprovider.OrdersConfig{})
				d.bank.Script(fakeprovider.BookAfter(8 * time.Second))
				intent := d.intent("1001", line(100))
				res, err := d.client.Pay(t.Context(), intent)
				if err != nil || res.Outcome != payclient.UnknownOutcome || res.Moved != payclient.MovedMaybe || res.Reason != attempt.ReasonTimeout {
					t.Fatalf("%+v, %v; want an open order", res, err)
				}
				time.Sleep(10 * time.Second) // in the bubble: the panel books
				for range 3 {
					res, err = d.client.Pay(t.Context(), intent)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Hour) // in the bubble
				}
				want := payclient.UnknownOutcome // for a person
				if lookup {
					want = payclient.Approved
				}
				if res.Outcome != want || !res.Existing {
					t.Errorf("%s (existing %t), want %s", res.Outcome, res.Existing, want)
				}
				d.want("at the end", 1, 1)
			})
		})
	}
}

// A panel that cannot be asked: an accepted order stays open, and a person finds the panel's number in the result.
func TestK2AnAcceptedOrderKeepsItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t, false, fakeprovider.OrdersConfig{})
		res, err := d.client.Pay(t.Context(), d.intent("1001", line(100)))
		if err != nil || !res.Open() || res.Reason != attempt.ReasonPending || res.ChargeID != "1" {
			t.Fatalf("%s %s, charge %q, %v; want an open order with the number 1", res.Outcome, res.Reason, res.ChargeID, err)
		}
		status, err := d.client.Status(t.Context(), res.Attempt.Slot)
		if err != nil || status.ChargeID != "1" {
			t.Errorf("from the store: charge %q, %v", status.ChargeID, err)
		}
	})
}

func TestK3BusinessErrorsAreNeverSentAgain(t *testing.T) {
	for _, tt := range []struct {
		what   string
		line   panel.Line
		orders fakeprovider.OrdersConfig
		code   string
	}{
		{"unknown service", panel.Line{Service: 2, Quantity: 100, Link: "https://example.com/"}, fakeprovider.OrdersConfig{}, "service_unknown"},
		{"too few", line(9), fakeprovider.OrdersConfig{}, "quantity_too_small"},
		{"too many", line(10001), fakeprovider.OrdersConfig{}, "quantity_too_large"},
		{"bad link", panel.Line{Service: 1, Quantity: 100, Link: "example"}, fakeprovider.OrdersConfig{}, "link_bad"},
		{"no balance", line(100), fakeprovider.OrdersConfig{Balance: 99}, "balance_too_low"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := openDesk(t, true, tt.orders)
				cfg := config(true)
				cfg.Prices[2] = 1
				var err error
				if d.adapter, err = panel.New(cfg); err != nil {
					t.Fatal(err)
				}
				d.client = d.open()
				for n, order := range []string{"1001", "1002"} { // the second one would meet a used connection
					intent := d.intent(order, tt.line)
					for range 2 {
						res, err := d.client.Pay(t.Context(), intent)
						if err != nil || res.Outcome != payclient.Declined || res.Moved != payclient.MovedNo || res.DeclineCode != tt.code {
							t.Fatalf("order %s: %s %s %q, %v; want a decline, %s", order, res.Outcome, res.Reason, res.DeclineCode, err, tt.code)
						}
					}
					d.want("order "+order, n+1, 0)
				}
				// Corrected, it is another line and another attempt.
				if tt.orders.Balance == 0 {
					res, err := d.client.Pay(t.Context(), d.intent("1001", line(50)))
					if err != nil || res.Outcome != payclient.Approved {
						t.Errorf("corrected: %s, %v", res.Outcome, err)
					}
					d.want("corrected", 3, 1)
				}
			})
		})
	}
}

// A wrong token is our mistake, not the line's: put right, the same line can be ordered.
func TestK3AWrongTokenIsARejection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t, true, fakeprovider.OrdersConfig{})
		d.bank.Script(fakeprovider.Reply(200, `{"error":"Invalid API key"}`))
		intent := d.intent("1001", line(100))
		res, err := d.client.Pay(t.Context(), intent)
		if err != nil || res.Outcome != payclient.ContractViolation || res.Moved != payclient.MovedNo || res.Code != "unauthorized" {
			t.Fatalf("%+v, %v; want a rejection", res, err)
		}
		if res, err = d.client.Pay(t.Context(), intent); err != nil || res.Outcome != payclient.Approved {
			t.Fatalf("put right: %+v, %v", res, err)
		}
		d.want("at the end", 2, 1)
	})
}

// dying is a transport whose process ends between the call and the acknowledgement.
type dying struct{ next http.RoundTripper }

func (d dying) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := d.next.RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	runtime.Goexit()
	return resp, err
}

func TestK4AMessageDeliveredTwiceIsOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t, true, fakeprovider.OrdersConfig{})
		intent := d.intent("1001", line(100))
		transport := d.transport
		d.transport = dying{transport}
		doomed := d.open()
		d.transport = transport
		done := make(chan struct{})
		go func() { // the worker that dies after the call
			defer close(done)
			res, err := doomed.Pay(t.Context(), intent)
			t.Errorf("did not die: %+v, %v", res, err)
		}()
		<-done
		res, err := d.client.Pay(t.Context(), intent) // delivered again at once
		if err != nil || res.Reason != attempt.ReasonInFlight {
			t.Fatalf("%s %s, %v; want that another worker has it", res.Outcome, res.Reason, err)
		}
		time.Sleep(16 * time.Second) // in the bubble: the dead worker's claim runs out
		for range 2 {
			if res, err = d.client.Pay(t.Context(), intent); err != nil || res.Outcome != payclient.Approved {
				t.Fatalf("%s %s, %v; want the order that the dead worker placed", res.Outcome, res.Reason, err)
			}
		}
		d.want("at the end", 1, 1)
	})
}

func TestK6AnotherLineIsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDesk(t, true, fakeprovider.OrdersConfig{})
		if _, err := d.client.Pay(t.Context(), d.intent("1001", line(100))); err != nil {
			t.Fatal(err)
		}
		other := line(100)
		other.Link += "?other"
		if _, err := d.client.Pay(t.Context(), d.intent("1001", other)); !errors.Is(err, attempt.ErrAlreadyPaid) {
			t.Errorf("another link after the order was taken: %v, want already paid", err)
		}
		d.bank.Always(fakeprovider.Match{}, fakeprovider.NeverArrives)
		if res, err := d.client.Pay(t.Context(), d.intent("1002", line(100))); err != nil || !res.Open() {
			t.Fatalf("%+v, %v; want an open order", res, err)
		}
		if _, err := d.client.Pay(t.Context(), d.intent("1002", other)); !errors.Is(err, attempt.ErrConflict) {
			t.Errorf("another link while the order is open: %v, want a conflict", err)
		}
		// An amount that is not the line's price is seen in what the panel shows, and is never the order's payment.
		d.bank.ClearFaults()
		cheap := d.intent("1003", line(100))
		cheap.Amount = d.intent("1003", line(50)).Amount
		res, err := d.client.Pay(t.Context(), cheap)
		if err != nil || res.Outcome == payclient.Approved || res.Moved != payclient.MovedYes {
			t.Errorf("another amount: %s, moved %s, %v; want money that a person must look at", res.Outcome, res.Moved, err)
		}
	})
}

func TestNewReportsEveryMistake(t *testing.T) {
	_, err := panel.New(panel.Config{Currency: "TRX", Prices: map[int]int64{0: 5}, LookupLag: -1})
	for _, field := range []string{"Token", "Currency", "Prices", "LookupLag"} {
		if err == nil || !strings.Contains(err.Error(), "panel: "+field+":") {
			t.Errorf("%v\nwant it to name %s", err, field)
		}
	}
	p := adapter(t, true)
	for _, l := range []panel.Line{{Service: 7, Quantity: 1}, {Service: 1, Quantity: -1}} {
		if i, err := p.Intent("1001", l); err == nil {
			t.Errorf("%+v costs %s, want an error", l, i.Amount)
		}
	}
}

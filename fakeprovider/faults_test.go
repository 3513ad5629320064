package fakeprovider_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

// faultCase says what one fault shows on a POST of 134 bytes of answer.
type faultCase struct {
	fault   fakeprovider.Fault
	charges int    // in the books after one request
	want    string // a status, or a piece of the error's text
	body    string // a piece of the body
	readErr string // a piece of the error while the body is read
}

var faultCases = []faultCase{
	{fault: "answer", charges: 1, want: "201", body: `"status":"succeeded"`},
	{fault: "refuse-dial", want: "connection refused"},                             // F28
	{fault: "dns-failure", want: "no such host"},                                   // F27
	{fault: "hang-dial", want: "deadline exceeded"},                                // F25, F26
	{fault: "dial-timeout", want: "i/o timeout"},                                   // F29
	{fault: "proxy-refused", want: "Proxy Authentication Required"},                // F20
	{fault: "tls-reset", want: "connection reset"},                                 // F31
	{fault: "tls-unknown-authority", want: "unknown authority"},                    // F32
	{fault: "tls-expired", want: "expired"},                                        // F32
	{fault: "tls-wrong-name", want: "valid for other.invalid"},                     // F32
	{fault: "tls-timeout", want: "TLS handshake timeout"},                          // F30
	{fault: "no-hooks", charges: 1, want: "201"},                                   // F22
	{fault: "not-sent", want: "connection reset"},                                  // F07; in memory a broken pipe
	{fault: "early:401", want: "401"},                                              // F47
	{fault: "read:10", want: "connection reset"},                                   // F44
	{fault: "book", charges: 1, want: "201"},                                       //
	{fault: "book-after:3s", charges: 1, want: "201"},                              // F45
	{fault: "book-after:30s", want: "deadline exceeded"},                           // F45, F57
	{fault: "slow:3s", charges: 1, want: "201"},                                    //
	{fault: "slow:30s", charges: 1, want: "deadline exceeded"},                     // F45
	{fault: "decline:stolen_card", want: "402", body: `"stolen_card"`},             //
	{fault: "pending", charges: 1, want: "201", body: `"status":"pending"`},        // C22
	{fault: "requires-action", charges: 1, want: "201", body: `"next_action"`},     // C22
	{fault: "flip:1h:failed", charges: 1, want: "201", body: `"succeeded"`},        // C28
	{fault: "book-amount:1500", charges: 1, want: "201", body: `"amount":1500`},    // C29
	{fault: "book-currency:USD", charges: 1, want: "201", body: `"USD"`},           // C29
	{fault: "book-twice", charges: 2, want: "201", body: `"ch_000001"`},            //
	{fault: "hide:20s", charges: 1, want: "201"},                                   // C42
	{fault: "pin+book+status:500", charges: 1, want: "500"},                        // C17
	{fault: "forget", charges: 1, want: "201"},                                     // C17
	{fault: "close", want: "EOF"},                                                  // F44
	{fault: "book+close", charges: 1, want: "EOF"},                                 // F44
	{fault: "reset", want: "connection reset"},                                     // F44
	{fault: "book+reset", charges: 1, want: "connection reset"},                    // F44
	{fault: "hang", want: "deadline exceeded"},                                     // F45
	{fault: "book+hang", charges: 1, want: "deadline exceeded"},                    // F45
	{fault: "crash", want: "EOF"},                                                  //
	{fault: "book+crash", charges: 1, want: "EOF"},                                 //
	{fault: "lose-answer", charges: 1, want: "EOF"},                                //
	{fault: "lose-request", want: "EOF"},                                           //
	{fault: "never-arrives", want: "deadline exceeded"},                            //
	{fault: "garbage", want: "malformed HTTP"},                                     // F49
	{fault: "book+garbage", charges: 1, want: "malformed HTTP"},                    // F49
	{fault: "flood-1xx", want: "headers exceeded"},                                 // F66
	{fault: "continue-close", want: "unexpected EOF"},                              // F46
	{fault: "status:500", want: "500"},                                             //
	{fault: "book+status:500", charges: 1, want: "500"},                            //
	{fault: "status:000", want: "0"},                                               // F64
	{fault: "status:101", want: "101", body: "{}"},                                 // F65
	{fault: "status:100", want: "unexpected EOF"},                                  // F46
	{fault: "status:999", want: "999"},                                             // F64
	{fault: "reply:422:{%22a%22:1}", want: "422", body: `{"a":1}`},                 // C24
	{fault: "book+reply:201:null", charges: 1, want: "201", body: "null"},          // F74
	{fault: "html", want: "200", body: "<!DOCTYPE html>"},                          // F71
	{fault: "html:502", want: "502", body: "<!DOCTYPE html>"},                      // F71
	{fault: "redirect:307", want: "307"},                                           // F15
	{fault: "redirect:302:http://other.invalid/x", want: "302"},                    // F14
	{fault: "redirect:301:none", want: "301"},                                      // F19
	{fault: "running", want: "409", body: "idempotency_key_in_use"},                //
	{fault: "key-reused", want: "422", body: "idempotency_key_reused"},             //
	{fault: "gzip-bomb:1000000", want: "200", body: "\x1f\x8b"},                    // F67
	{fault: "gzip-bomb:1000+cut-body:20", want: "200", readErr: "unexpected EOF"},  // F68
	{fault: "lookup-empty", charges: 1, want: "201"},                               // GETs only
	{fault: "lookup-twice", charges: 1, want: "201"},                               //
	{fault: "lookup-foreign", charges: 1, want: "201"},                             //
	{fault: "lookup-stuck", charges: 1, want: "201"},                               //
	{fault: "lookup-null", charges: 1, want: "201"},                                //
	{fault: "lookup-cut", charges: 1, want: "201"},                                 //
	{fault: "set:amount=%221999%22", charges: 1, want: "201", body: `"1999"`},      // F75
	{fault: "set:amount=1e3", charges: 1, want: "201", body: `"amount":1e3,`},      // F75
	{fault: "add:status=failed", charges: 1, want: "201", body: `"status":"fai`},   // F73
	{fault: "add:Status=failed", charges: 1, want: "201", body: `"Status":"fai`},   // F73
	{fault: "omit:id", charges: 1, want: "201", body: `{"status":`},                // F72
	{fault: "bad-utf8", charges: 1, want: "201", body: "\xff"},                     // C32
	{fault: "bom", charges: 1, want: "201", body: "\xef\xbb\xbf{"},                 //
	{fault: "trailing", charges: 1, want: "201", body: "}{}"},                      // F74
	{fault: "trailing:<!--%20trace%20-->", charges: 1, want: "201", body: "}<!--"}, // F74
	{fault: "pad:65536", charges: 1, want: "201", body: "}      "},                 // C39
	{fault: "type:text/html", charges: 1, want: "201"},                             // F71
	{fault: "type", charges: 1, want: "201"},                                       //
	{fault: "encoding:gzip", charges: 1, want: "201", body: "{"},                   // F68
	{fault: "header:Should-Retry=false+status:500", want: "500"},                   // C18
	{fault: "status:429+retry-after:1.5", want: "429"},                             // S08
	{fault: "status:503+retry-after-date:30s", want: "503"},                        // S08
	{fault: "no-replay-mark", charges: 1, want: "201"},                             //
	{fault: "cut-body:30", charges: 1, want: "201", readErr: "unexpected EOF"},     // F58, C33
	{fault: "cut-chunked", charges: 1, want: "201", body: "}", readErr: "unexpected EOF"},
	{fault: "cut-chunked:30", charges: 1, want: "201", readErr: "unexpected EOF"},
	{fault: "no-length", charges: 1, want: "201", body: "}"},                            // F60
	{fault: "no-length:30", charges: 1, want: "201"},                                    // F60
	{fault: "wrong-length:-20", charges: 1, want: "201"},                                // F61
	{fault: "wrong-length:20", charges: 1, want: "201", readErr: "unexpected EOF"},      // F58
	{fault: "empty", charges: 1, want: "201"},                                           // F62
	{fault: "no-content", charges: 1, want: "204"},                                      // F62
	{fault: "half-headers", charges: 1, want: "unexpected EOF"},                         // F49
	{fault: "reset-body:30", charges: 1, want: "201", readErr: "connection reset"},      // F58
	{fault: "stall-body:30", charges: 1, want: "201", readErr: "deadline exceeded"},     // F55
	{fault: "pause-body:50ms", charges: 1, want: "201", body: "}"},                      // C39
	{fault: "drip:10ms", charges: 1, want: "201", body: "}"},                            // F70
	{fault: "drip:9s", charges: 1, want: "201", readErr: "deadline exceeded"},           // F70
	{fault: "both-lengths", charges: 1, want: "201", body: "}"},                         // F63
	{fault: "two-lengths", charges: 1, want: "Content-Length"},                          // F49
	{fault: "length:-5", charges: 1, want: "Content-Length"},                            // F49
	{fault: "status-line:HTTP/1.0%20201%20Created", charges: 1, want: "201"},            // F64
	{fault: "huge-headers:11000000", charges: 1, want: "headers exceeded"},              // F50
	{fault: "huge-headers:9000", charges: 1, want: "201", body: "}"},                    // F50
	{fault: "two-answers", charges: 1, want: "201", body: "}"},                          // F92
	{fault: "extra-answer", charges: 1, want: "201", body: "}"},                         // F69
	{fault: "close-after-answer", charges: 1, want: "201", body: "}"},                   // F13
	{fault: "decline+cut-body:30", want: "402", readErr: "unexpected EOF"},              // C33 (f)
	{fault: "slow:1s+book+status:503+retry-after:2+pin", charges: 1, want: "503"},       //
	{fault: "book-after:1s+close", charges: 1, want: "EOF"},                             //
	{fault: "book+status:500+cut-body:10", charges: 1, want: "500", readErr: "unexpec"}, //
	{fault: "book-after:2s+book-twice+no-length:9", charges: 2, want: "201"},            //
}

const chargeBody = `{"amount":54890,"currency":"TRY","source":"tok_visa","merchant_reference":"r1"}`

// seen is what a client saw of one request.
type seen struct {
	Err     string
	Timeout bool
	Status  int
	Header  http.Header
	Body    string
	ReadErr string
	Took    time.Duration
	Hooks   []string
}

// send makes one POST with a deadline of 10 s and no silent re-sending.
func send(rt http.RoundTripper, base, key, body string) seen {
	start := time.Now()
	var s seen
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var mu sync.Mutex
	hook := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		s.Hooks = append(s.Hooks, name)
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(hostPort string) { hook("GetConn " + hostPort) },
		GotConn:              func(i httptrace.GotConnInfo) { hook(fmt.Sprint("GotConn ", i.Reused)) },
		WroteHeaders:         func() { hook("WroteHeaders") },
		WroteRequest:         func(i httptrace.WroteRequestInfo) { hook("WroteRequest") },
		GotFirstResponseByte: func() { hook("GotFirstResponseByte") },
	})
	req, err := http.NewRequestWithContext(ctx, "POST", base+"/v1/charges", strings.NewReader(body))
	if err != nil {
		s.Err = err.Error()
		return s
	}
	req.GetBody = nil
	req.Header.Set("Authorization", "Bearer secret")
	if key != "" {
		req.Header.Set("Idempotency-Key", `"`+key+`"`)
	}
	resp, err := rt.RoundTrip(req)
	if err != nil {
		var t interface{ Timeout() bool }
		mu.Lock()
		defer mu.Unlock()
		s.Err, s.Timeout, s.Took = err.Error(), errors.As(err, &t) && t.Timeout(), time.Since(start)
		return s
	}
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		s.ReadErr = err.Error()
	}
	s.Status, s.Body, s.Took, s.Header = resp.StatusCode, string(b), time.Since(start), resp.Header.Clone()
	s.Header.Del("Date")
	s.Header.Del("Request-Id")
	s.Header.Del("Connection")
	mu.Lock()
	defer mu.Unlock()
	return s
}

func (c faultCase) check(t *testing.T, s seen) {
	t.Helper()
	if got := fmt.Sprint(s.Status); s.Err == "" && got != c.want {
		t.Errorf("%s: status %s, want %s (%q)", c.fault, got, c.want, s.Body)
	}
	if s.Err != "" && !strings.Contains(s.Err, c.want) {
		t.Errorf("%s: error %q, want %q", c.fault, s.Err, c.want)
	}
	if !strings.Contains(s.Body, c.body) {
		t.Errorf("%s: body %.200q lacks %q", c.fault, s.Body, c.body)
	}
	if s.ReadErr != c.readErr && (c.readErr == "" || !strings.Contains(s.ReadErr, c.readErr)) {
		t.Errorf("%s: reading the body: %q, want %q", c.fault, s.ReadErr, c.readErr)
	}
}

// TestCatalogueIsCovered keeps the table above, and that of the webhooks,
// complete.
func TestCatalogueIsCovered(t *testing.T) {
	covered := map[string]bool{}
	cover := func(f fakeprovider.Fault) {
		for part := range strings.SplitSeq(string(f), "+") {
			name, _, _ := strings.Cut(part, ":")
			covered[name] = true
		}
	}
	for _, c := range faultCases {
		cover(c.fault)
	}
	for _, c := range webhookCases {
		cover(c.fault)
	}
	for _, f := range fakeprovider.Catalogue() {
		if !covered[f.Name] {
			t.Errorf("no case shows the fault %s", f.Name)
		}
	}
}

// TestFaultsAlike runs every fault twice in a bubble, through net/http's own
// Transport and through RoundTrip, and wants the same: status, headers, body,
// errors, times, hooks, charges. Then it tries the same key again.
func TestFaultsAlike(t *testing.T) {
	for _, c := range faultCases {
		t.Run(string(c.fault), func(t *testing.T) {
			play := func(t *testing.T, transport func(*fakeprovider.Provider) http.RoundTripper) (list []seen, charges int) {
				synctest.Test(t, func(t *testing.T) {
					bank := fakeprovider.New(fakeprovider.Config{})
					defer bank.Close()
					bank.Script(c.fault)
					rt := transport(bank)
					list = append(list, send(rt, "https://bank", "k", chargeBody))
					charges = len(bank.Charges())
					if c.fault != "not-sent" && c.want == "connection refused" && bank.RequestCount() != 0 {
						t.Errorf("%s: the provider saw a request", c.fault)
					}
					synctest.Wait()
					list = append(list, send(rt, "https://bank", "k", chargeBody))
					synctest.Wait()
					list = append(list, send(rt, "https://bank", "k2", chargeBody))
				})
				return list, charges
			}
			real, realCharges := play(t, func(p *fakeprovider.Provider) http.RoundTripper {
				tr := p.Transport()
				tr.MaxResponseHeaderBytes = 0
				return tr
			})
			memory, memoryCharges := play(t, func(p *fakeprovider.Provider) http.RoundTripper { return p.RoundTripper() })
			for who, charges := range map[string]int{"Transport": realCharges, "RoundTrip": memoryCharges} {
				if charges != c.charges {
					t.Errorf("%s over %s: %d charges, want %d", c.fault, who, charges, c.charges)
				}
			}
			c.check(t, real[0])
			switch c.fault {
			case "not-sent":
				if !strings.Contains(memory[0].Err, "broken pipe") {
					t.Errorf("not-sent over RoundTrip: %q", memory[0].Err)
				}
				return
			case "no-hooks":
				if len(memory[0].Hooks) != 0 {
					t.Errorf("no-hooks: RoundTrip called %q", memory[0].Hooks)
				}
				return
			}
			for i := range real {
				if !reflect.DeepEqual(real[i], memory[i]) {
					t.Errorf("%s, request %d:\nTransport %+v\nRoundTrip %+v", c.fault, i+1, clip(real[i]), clip(memory[i]))
				}
			}
		})
	}
}

func clip(s seen) seen {
	s.Body = s.Body[:min(len(s.Body), 300)]
	return s
}

// TestFaultsOnSocket shows every fault that needs no long wait over TCP.
func TestFaultsOnSocket(t *testing.T) {
	for _, c := range faultCases {
		wait := strings.Contains(c.want+c.readErr, "deadline") || strings.Contains(string(c.fault), ":3s")
		dial := strings.Contains(string(c.fault), "dial") || strings.Contains(string(c.fault), "dns") ||
			strings.Contains(string(c.fault), "tls") || strings.Contains(string(c.fault), "proxy")
		if wait || strings.Contains(string(c.fault), "s+") {
			continue
		}
		t.Run(string(c.fault), func(t *testing.T) {
			t.Parallel()
			bank := fakeprovider.New(fakeprovider.Config{})
			srv := httptest.NewUnstartedServer(bank)
			srv.Config.ConnContext = bank.ConnContext
			srv.Start()
			defer srv.Close()
			defer bank.Close()
			bank.Script(c.fault)
			tr := &http.Transport{DisableCompression: true, MaxResponseHeaderBytes: 64 << 10}
			defer tr.CloseIdleConnections()
			got := send(tr, srv.URL, "k", chargeBody)
			if dial {
				c.want = "connection reset" // there is no dial to refuse any more
			}
			c.check(t, got)
			if n := len(bank.Charges()); n != c.charges {
				t.Errorf("%d charges, want %d", n, c.charges)
			}
		})
	}
}

func TestMain(m *testing.M) {
	if os.Getenv("FAKEPROVIDER_SERVE") != "" {
		serveForKill()
		return
	}
	log.SetOutput(io.Discard) // net/http's "Unsolicited response", which F92 is about
	os.Exit(m.Run())
}

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

// asService makes the test binary the service itself, so that a test can kill it.
const asService = "CHECKOUT_TEST_AS_SERVICE"

func TestMain(m *testing.M) {
	if args := os.Getenv(asService); args != "" {
		os.Args = append([]string{"checkout", "-listen", "127.0.0.1:0"}, strings.Split(args, "\n")...)
		main()
		return
	}
	os.Exit(m.Run())
}

// The service is killed while a payment is on its way, and while another one waits for the provider's word: after a restart both
// orders are confirmed, each charged once, and no reservation is left behind.
func TestKilledServiceGoesOn(t *testing.T) { everywhere(t, killedServiceGoesOn) }

func killedServiceGoesOn(t *testing.T, at place) {
	p := startProcess(t, at)
	sent, waiting := p.order(t), p.order(t)
	if status, v := p.do(t, "POST", "/orders/"+waiting+"/pay", `{"source":"tok_requires_action"}`); status != http.StatusAccepted {
		t.Fatalf("pay: %d %+v", status, v)
	}
	answer := p.payBehind(t, sent, "tok_slow_1m")
	eventually(t, "the charge is made", func() bool { return len(p.ledger(t).Charges) == 2 })
	p.kill(t)
	if status := <-answer; status != 0 {
		t.Errorf("the request that was cut by the kill is answered with %d", status)
	}

	p = startProcess(t, at)
	charges := p.ledger(t).Charges
	if len(charges) != 2 {
		t.Fatalf("charges after the restart: %+v, want 2", charges)
	}
	if status, v := p.do(t, "POST", "/orders/"+sent+"/pay", `{"source":"tok_mastercard"}`); status != http.StatusConflict {
		t.Errorf("pay with another card after the restart: %d %+v", status, v)
	}
	p.do(t, "POST", "/_fake/settle", fmt.Sprintf(`{"id":%q,"status":"succeeded"}`, charges[0].ID))
	for _, id := range []string{sent, waiting} {
		eventually(t, "order "+id+" is confirmed", func() bool {
			_, v := p.do(t, "GET", "/orders/"+id, "")
			return v.State == StateConfirmed
		})
	}
	if l := p.ledger(t); len(l.Charges) != 2 || len(l.Refunds) != 0 || l.DistinctKeys != 2 {
		t.Errorf("%d charges, %d refunds, %d keys, want 2, 0 and 2", len(l.Charges), len(l.Refunds), l.DistinctKeys)
	}
}

// The service is told to stop while a payment is on its way: the customer gets the answer, and it is stored (P11).
func TestStopWhileASendIsOut(t *testing.T) { everywhere(t, stopWhileASendIsOut) }

func stopWhileASendIsOut(t *testing.T, at place) {
	s := serve(t, at)
	id := s.order(t)
	answer := s.payBehind(t, id, "tok_slow_1s")
	eventually(t, "the charge is made", func() bool { return len(s.ledger(t).Charges) == 1 })
	s.stop()
	if status := <-answer; status != http.StatusOK {
		t.Errorf("the payment under way is answered with %d, want 200", status)
	}
	s = serve(t, at)
	if _, v := s.do(t, "GET", "/orders/"+id, ""); v.State != StateConfirmed {
		t.Errorf("after the restart: %+v, want it confirmed", v)
	}
}

// process is the service in a process of its own.
type process struct {
	site
	cmd    *exec.Cmd
	killed bool
}

func startProcess(t *testing.T, at place) *process {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // this very program
	cmd.Env = append(os.Environ(), asService+"=-db\n"+at.db+"\n-books\n"+at.books)
	cmd.Stderr = t.Output()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd}
	t.Cleanup(func() { p.kill(t) })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "checkout: ")
	if err != nil || !ok {
		t.Fatalf("the service says %q: %v", line, err)
	}
	p.site = siteAt(url)
	return p
}

// kill ends the process as kill -9 does.
func (p *process) kill(t *testing.T) {
	t.Helper()
	if p.killed {
		return
	}
	p.killed = true
	if err := p.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = p.cmd.Wait() // "signal: killed"
}

// site is the service as its customers see it.
type site struct {
	url    string
	client *http.Client
}

func siteAt(url string) site {
	return site{url, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}}
}

func (s site) do(t *testing.T, method, path, body string) (status int, v View) {
	t.Helper()
	status, text := s.ask(t, method, path, body)
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s %s: %d %q: %v", method, path, status, text, err)
	}
	return status, v
}

func (s site) ask(t *testing.T, method, path, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, text
}

// payBehind pays an order behind the test and tells the answer's status; 0: there was none.
func (s site) payBehind(t *testing.T, id, source string) <-chan int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/orders/"+id+"/pay", strings.NewReader(`{"source":"`+source+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan int, 1)
	go func() {
		resp, err := s.client.Do(req)
		if err != nil {
			answer <- 0
			return
		}
		_ = resp.Body.Close() // its status is all that is wanted
		answer <- resp.StatusCode
	}()
	return answer
}

func (s site) order(t *testing.T) string {
	t.Helper()
	status, v := s.do(t, "POST", "/orders", `{"items":[`+oneMug+`]}`)
	if status != http.StatusCreated {
		t.Fatalf("order: %d %+v", status, v)
	}
	return v.Order
}

func (s site) ledger(t *testing.T) (l fakeprovider.Ledger) {
	t.Helper()
	_, text := s.ask(t, "GET", "/_fake/ledger", "")
	if err := json.Unmarshal(text, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// eventually waits for something that another process does in its own time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(time.Minute); !ok(); <-look.C {
		if time.Now().After(end) {
			t.Fatalf("still waiting: %s", what)
		}
	}
}

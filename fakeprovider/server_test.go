package fakeprovider_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

// serve runs a server and returns a client of it.
func serve(t *testing.T, config fakeprovider.ServerConfig) (caller, *fakeprovider.Server) {
	t.Helper()
	config.Listen = "127.0.0.1:0"
	srv, err := fakeprovider.Listen(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx) }()
	tr := &http.Transport{}
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		stop()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	c := call(t, tr)
	c.base = srv.URL()
	return c, srv
}

func TestServerModes(t *testing.T) {
	for _, test := range []struct {
		mode  fakeprovider.Mode
		delay time.Duration
		want  string
		n     int
	}{
		{"", 0, "201", 1},
		{fakeprovider.ModeNormal, time.Millisecond, "201", 1},
		{fakeprovider.ModeSlow, time.Millisecond, "201", 1},
		{fakeprovider.ModeError, 0, "500", 0},
		{fakeprovider.ModeDecline, time.Millisecond, "402", 0},
	} {
		c, srv := serve(t, fakeprovider.ServerConfig{Mode: test.mode, Delay: test.delay})
		want(t, string(test.mode), c.pay("k", "r", "tok_visa"), test.want)
		want(t, string(test.mode)+": a lookup", c.find("r"), "200")
		want(t, string(test.mode)+": charges", charges(srv.Provider()), test.n)
		want(t, string(test.mode)+": reset", c.do("POST", "/_fake/reset", "", ""), "200")
		want(t, string(test.mode)+": the mode stays", c.pay("k", "r", "tok_visa"), test.want)
	}
}

// In the modes slow and drop a client waits; the end of the server ends that,
// in order.
func TestServerEndsWhatWaits(t *testing.T) {
	for _, mode := range []fakeprovider.Mode{fakeprovider.ModeSlow, fakeprovider.ModeDrop} {
		srv, err := fakeprovider.Listen(fakeprovider.ServerConfig{Listen: "127.0.0.1:0", Mode: mode, Delay: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		served := make(chan error, 1)
		go func() { served <- srv.Serve(ctx) }()
		tr := &http.Transport{}
		c := call(t, tr)
		c.base = srv.URL()
		answer := make(chan reply, 1)
		go func() { answer <- c.pay("k", "r", "tok_visa") }()
		for srv.Provider().RequestCount() == 0 {
			c.do("GET", "/_fake/ledger", "", "") // until the other one has arrived
		}
		stop()
		if r := <-answer; r.err == nil {
			t.Errorf("%s: answered %s", mode, r)
		}
		if err := <-served; err != nil {
			t.Errorf("%s: Serve: %v", mode, err)
		}
		tr.CloseIdleConnections()
		if _, err := net.Dial("tcp", srv.Addr()); err == nil {
			t.Errorf("%s: still listening", mode)
		}
	}
}

func TestServerFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	ctx, stop := context.WithCancel(context.Background())
	ready := make(chan string)
	done := make(chan error)
	config := fakeprovider.ServerConfig{Listen: "127.0.0.1:0", File: file, Ready: func(addr string) { ready <- addr }}
	go func() { done <- fakeprovider.ListenAndServe(ctx, config) }()
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	c := call(t, tr)
	c.base = "http://" + <-ready
	want(t, "pay", c.pay("k", "r", "tok_visa"), "201")
	if err := fakeprovider.ListenAndServe(ctx, config); !errors.Is(err, fakeprovider.ErrInUse) {
		t.Errorf("a second server on the file: %v", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("ListenAndServe: %v", err)
	}
	_, again := serve(t, fakeprovider.ServerConfig{File: file})
	want(t, "charges", charges(again.Provider(), "r"), 1)
}

func TestServerFaultRate(t *testing.T) {
	c, srv := serve(t, fakeprovider.ServerConfig{FaultRate: 1, Seed: 7})
	for range 20 {
		c.pay("k", "r", "tok_visa")
	}
	for _, r := range srv.Provider().Requests() {
		if r.Fault == "" {
			t.Errorf("request %d had no fault", r.Number)
		}
	}
	want(t, "charges", charges(srv.Provider()) <= 1, true)
}

func TestServerConfigMistakes(t *testing.T) {
	for says, config := range map[string]fakeprovider.ServerConfig{
		"not on the loopback interface":             {Listen: "0.0.0.0:8089"},
		":0 is not on the loopback interface":       {Listen: ":0"},
		"missing port":                              {Listen: "127.0.0.1"},
		`Mode: "fast" is none of`:                   {Mode: "fast"},
		"Delay: -1s is negative":                    {Delay: -time.Second},
		"FaultRate: 1.5 is not between 0 and 1":     {FaultRate: 1.5},
		"Provider.Script: fault \"x\": unknown par": {Provider: fakeprovider.Config{Script: fakeprovider.Script{Steps: []fakeprovider.Fault{"x"}}}},
	} {
		if _, err := fakeprovider.Listen(config); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v lacks %q", err, says)
		}
	}
	err := fakeprovider.ServerConfig{Listen: "x", Mode: "y", Delay: -1, FaultRate: -1}.Validate()
	if n := strings.Count(err.Error(), "\n"); n != 3 {
		t.Errorf("not every mistake is told at once: %v", err)
	}
	for _, ok := range []string{"", "127.0.0.1:0", "localhost:80", "[::1]:80", "127.0.0.2:1"} {
		if err := (fakeprovider.ServerConfig{Listen: ok}).Validate(); err != nil {
			t.Errorf("%s: %v", ok, err)
		}
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	file := filepath.Join(t.TempDir(), "ledger.db")
	if _, err := fakeprovider.Listen(fakeprovider.ServerConfig{Listen: busy.Addr().String(), File: file}); err == nil {
		t.Error("a busy address was taken")
	}
	open(t, file, fakeprovider.Config{}) // the failed server has let go of it
}

func TestServerThatNeverServed(t *testing.T) {
	srv, err := fakeprovider.Listen(fakeprovider.ServerConfig{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", srv.Addr()); err == nil {
		conn.Close()
		t.Error("still listening")
	}
}

// A client that goes away in the middle leaves nothing behind that answers.
func TestServerRequestLineOnly(t *testing.T) {
	c, srv := serve(t, fakeprovider.ServerConfig{})
	conn, err := net.Dial("tcp", srv.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST /v1/charges HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\nIdempotency-Key: \"k\"\r\nContent-Length: 100\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	want(t, "another request", c.pay("k", "r", "tok_visa"), "201")
	want(t, "charges", charges(srv.Provider()), 1)
}

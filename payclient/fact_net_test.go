package payclient_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/internal/wiretest"
	"github.com/chargeonce/chargeonce/payclient"
)

// F96: what comes on an idle connection is written to the process's own log, a few bytes of it too.
func TestGoF96UnaskedAnswersAreLogged(t *testing.T) {
	var said bytes.Buffer // guarded by the logger
	log.SetOutput(&said)
	defer log.SetOutput(os.Stderr)
	gone := make(chan struct{})
	server := wiretest.Listen(t, func(c *wiretest.Conn) {
		if q, ok := c.Request(); ok {
			c.Say(wireApprove(q) + "unasked for")
			c.Hang() // until the transport has noticed
			close(gone)
		}
	})
	transport := payclient.NewTransport(payclient.TransportConfig{})
	resp, err := transport.RoundTrip(factPost(t, server.URL()))
	if err := factRead(t, resp, err); err != nil {
		t.Fatal(err)
	}
	<-gone
	log.SetOutput(os.Stderr)
	if !strings.Contains(said.String(), "Unsolicited response received on idle HTTP channel") || !strings.Contains(said.String(), "unasked") {
		t.Errorf("logged %q", said.String())
	}
	server.Drained()
}

// F86: a dialer that tries both address families at once may connect twice, and still sends each request once. (Where there is no
// IPv6, it tries in vain.)
func TestGoF86ConnectsAreNoRequests(t *testing.T) {
	t.Parallel()
	const posts = 20
	var connects, requests atomic.Int32
	server := &http.Server{ //nolint:gosec // of a test
		Handler:   http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }),
		ConnState: func(_ net.Conn, s http.ConnState) { connects.Add(map[http.ConnState]int32{http.StateNew: 1}[s]) },
	}
	l, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // it is closed below
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	if l6, err := net.Listen("tcp6", "[::1]:"+port); err == nil { //nolint:noctx // as above
		serving.Go(func() { _ = server.Serve(l6) })
	}
	dialer := &net.Dialer{Resolver: wiretest.Resolves(t, "::1", "127.0.0.1"), FallbackDelay: time.Millisecond}
	dialer.ControlContext = func(ctx context.Context, network, _ string, _ syscall.RawConn) error {
		if network == "tcp6" {
			time.Sleep(20 * time.Millisecond) // the slower family, which the other one overtakes
		}
		return nil
	}
	transport := payclient.NewTransport(payclient.TransportConfig{CloseAfterUse: true})
	transport.DialContext = dialer.DialContext
	for range posts {
		resp, err := transport.RoundTrip(factPost(t, "http://provider.test:"+port))
		if err := factRead(t, resp, err); err != nil {
			t.Error(err)
		}
	}
	_ = server.Close()
	serving.Wait()
	if requests.Load() != posts || connects.Load() < posts {
		t.Errorf("%d requests over %d connects for %d posts", requests.Load(), connects.Load(), posts)
	}
	t.Logf("%d connects for %d requests", connects.Load(), requests.Load())
}

// F87: a dialer's time-out is shared out over the addresses of a name, and of several errors the first one is told.
func TestGoF87DialersShareTheirTime(t *testing.T) {
	t.Parallel()
	const whole = time.Hour // of which nothing is waited for: both are refused at once
	var mu sync.Mutex
	var tried []string
	var left []time.Duration
	dialer := net.Dialer{Timeout: whole, Resolver: wiretest.Resolves(t, "127.0.0.2", "127.0.0.3")}
	dialer.ControlContext = func(ctx context.Context, _, address string, _ syscall.RawConn) error {
		until, _ := ctx.Deadline()
		mu.Lock()
		defer mu.Unlock()
		tried, left = append(tried, address), append(left, time.Until(until))
		return &net.AddrError{Err: "refused here", Addr: address} // no socket is needed for this
	}
	conn, err := dialer.DialContext(t.Context(), "tcp", "provider.test:443")
	if err == nil {
		_ = conn.Close()
	}
	if len(tried) != 2 || tried[0] != "127.0.0.2:443" || tried[1] != "127.0.0.3:443" {
		t.Fatalf("tried %q, %v; want both, in their order", tried, err)
	}
	if err == nil || !strings.Contains(err.Error(), "127.0.0.2") || strings.Contains(err.Error(), "127.0.0.3") {
		t.Errorf("%v; want the first address's", err)
	}
	if left[0] > whole/2 || left[1] <= whole/2 {
		t.Errorf("%v left for them; want half of the %s for the first", left, whole)
	}
}

// envFact makes this program look at its environment as a host's would, which net/http and crypto/x509 read once per process.
const envFact = "CHARGEONCE_FACT"

// inProcess runs one test again in a process of its own, with these variables, and returns what it says on standard output.
func inProcess(t *testing.T, test string, variables ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+test+"$", "-test.count=1")
	cmd.Env = append(append(os.Environ(), "http_proxy=", "https_proxy=", "no_proxy=", "NO_PROXY=", "GORACE=atexit_sleep_ms=0"), variables...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	said, _, _ := strings.Cut(string(out), "\n")
	return said
}

// F94: a process's environment leads https payments through a proxy, plain ones through another; ALL_PROXY and a malformed value do
// nothing; and this machine is always exempt, so that no test on it would see any of that.
func TestGoF94ProxiesOfTheEnvironment(t *testing.T) {
	if os.Getenv(envFact) != "" {
		for _, to := range []string{"https://api.example/", "http://api.example/", "https://localhost/", "https://127.1.2.3/"} {
			u, err := url.Parse(to)
			if err != nil {
				t.Fatal(err)
			}
			proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u})
			fmt.Printf("%v %v ", proxy, err)
		}
		fmt.Println()
		return
	}
	t.Parallel()
	const none = "<nil> <nil> "
	for name, c := range map[string]struct {
		variables []string
		want      string
	}{
		"HTTPS_PROXY": {[]string{"HTTPS_PROXY=http://p.example:1", "HTTP_PROXY="}, "http://p.example:1 <nil> " + none + none + none},
		"https_proxy": {[]string{"HTTPS_PROXY=", "HTTP_PROXY=", "https_proxy=p.example:1"}, "http://p.example:1 <nil> " + none + none + none},
		"HTTP_PROXY":  {[]string{"HTTPS_PROXY=", "HTTP_PROXY=http://p.example:2"}, none + "http://p.example:2 <nil> " + none + none},
		"ALL_PROXY":   {[]string{"HTTPS_PROXY=", "HTTP_PROXY=", "ALL_PROXY=http://p.example:3"}, none + none + none + none},
		"malformed":   {[]string{"HTTPS_PROXY=http://%zz", "HTTP_PROXY="}, none + none + none + none},
	} {
		if got := inProcess(t, "TestGoF94ProxiesOfTheEnvironment", append(c.variables, envFact+"=1")...); strings.TrimSpace(got) != strings.TrimSpace(c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if payclient.NewTransport(payclient.TransportConfig{}).Proxy != nil {
		t.Error("the client's own transport asks the environment")
	}
}

// F95: SSL_CERT_FILE replaces the roots that a process trusts, unless the transport has its own.
func TestGoF95RootsOfTheEnvironment(t *testing.T) {
	if to := os.Getenv(envFact); to != "" {
		resp, err := payclient.NewTransport(payclient.TransportConfig{}).RoundTrip(factPost(t, to))
		fmt.Println("answered:", factRead(t, resp, err) == nil)
		return
	}
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(roots, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	replaced := "answered: true"
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" { // where the system's own verifier is asked
		replaced = "answered: false"
	}
	for file, want := range map[string]string{"": "answered: false", roots: replaced} {
		if got := inProcess(t, "TestGoF95RootsOfTheEnvironment", "SSL_CERT_FILE="+file, envFact+"="+server.URL); got != want {
			t.Errorf("SSL_CERT_FILE=%q: %q, want %q", file, got, want)
		}
	}
}

// F88, F89: what a transport has by default. A program that takes it for payments has a proxy of the environment, no bound on the
// wait for an answer, and two idle connections.
func TestGoF88F89DefaultTransports(t *testing.T) {
	d, ok := http.DefaultTransport.(*http.Transport)
	if !ok || d.Proxy == nil || d.TLSHandshakeTimeout != 10*time.Second || d.IdleConnTimeout != 90*time.Second ||
		d.ExpectContinueTimeout != time.Second || d.ResponseHeaderTimeout != 0 || !d.ForceAttemptHTTP2 || d.MaxIdleConnsPerHost != 0 || d.MaxConnsPerHost != 0 {
		t.Errorf("the default transport is another one: %+v", d)
	}
	if http.DefaultMaxIdleConnsPerHost != 2 || http.DefaultClient.Timeout != 0 || http.DefaultMaxHeaderBytes != 1<<20 {
		t.Error("other defaults")
	}
}

package wirerig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/internal/wiretest"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

var sample = flag.Bool("cut.sample", false, "under TLS do not cut after every byte of the handshake, as with -short")

// minor is what every payment here is of.
const minor = 54890

// rig is a client, a provider, and the wire between them.
type rig struct {
	t        *testing.T
	provider *fakeprovider.Provider
	cutter   *cutter
	store    *attempt.Memory
	once     *payclient.Client // sends once, and asks nobody
	asks     *payclient.Client
	again    *payclient.Client // whose wire is whole: it does not go through the cutter, and not under TLS
	sent     []attempt.Send    // by once, since forget
	n        int
}

func newRig(t *testing.T, secure bool) *rig {
	t.Helper()
	r := &rig{t: t, provider: fakeprovider.New(fakeprovider.Config{RecordRequests: 16, Now: wholeSeconds}), store: new(attempt.Memory)}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.cutter = newCutter(t, l.Addr().String())
	across, direct, roots := "http://"+r.cutter.listener.Addr().String(), "http://"+whole.Addr().String(), (*x509.CertPool)(nil)
	if secure {
		authority := wiretest.NewAuthority(t)
		roots, across = authority.Pool(), "https://"+r.cutter.listener.Addr().String()
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{authority.Certificate(time.Now().Add(time.Hour))}})
	}
	server := &http.Server{Handler: r.provider, ConnContext: r.provider.ConnContext, ErrorLog: log.New(io.Discard, "", 0)}
	var served sync.WaitGroup
	for _, l := range []net.Listener{l, whole} {
		served.Go(func() { _ = server.Serve(l) }) // until it is closed
	}
	t.Cleanup(func() {
		_ = server.Close()
		served.Wait()
		_ = r.provider.Close()
	})

	connect := func(url string, retries int, noLookup bool) *payclient.Client {
		adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("sk_cut_0123456789"), NoLookup: noLookup})
		if err != nil {
			t.Fatal(err)
		}
		client, err := payclient.New(payclient.Config{
			Provider: adapter, Store: r.store, BaseURL: url, Environment: "rig",
			Transport: payclient.NewTransport(payclient.TransportConfig{RootCAs: roots, CloseAfterUse: url == across}),
			Retries:   retries, FirstWait: time.Millisecond, MaxWait: 2 * time.Millisecond,
			SendTimeout: 10 * time.Second, CallTimeout: 40 * time.Second, // no cut is waited for
			Breaker: payclient.BreakerConfig{FailurePercent: -1},
			Observer: payclient.Observer{Sent: func(_ context.Context, _ attempt.Attempt, s attempt.Send) {
				if noLookup {
					r.sent = append(r.sent, s)
				}
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := client.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return client
	}
	r.once, r.asks, r.again = connect(across, -1, true), connect(across, -1, false), connect(direct, 20, false)
	return r
}

// wholeSeconds is a clock whose times are all as long, so that answers are.
func wholeSeconds() time.Time { return time.Now().Truncate(time.Second) }

// intent is a new payment, as long as any other.
func (r *rig) intent() attempt.Intent {
	r.n++
	amount, err := money.New(minor, "TRY")
	if err != nil {
		r.t.Fatal(err)
	}
	return attempt.Intent{Order: fmt.Sprintf("%08d", r.n), Amount: amount, Source: attempt.Token("tok_visa")}
}

// pay pays over a whole wire.
func (r *rig) pay(intent attempt.Intent) payclient.Result {
	r.t.Helper()
	res, err := r.again.Pay(r.t.Context(), intent)
	if err != nil || res.Outcome != payclient.Approved {
		r.t.Fatalf("over a whole wire: %v (%s), %v", res.Outcome, res.Reason, err)
	}
	return res
}

// said is what the client made of one exchange.
type said struct {
	final     bool // Approved, or found
	sure      bool // that nothing was sent
	wrong     string
	reference string
}

// operation is one thing that a client does in one exchange.
type operation struct {
	name string
	// do does it, after before has been done over a whole wire; then it is done again over a whole wire, and the ledger
	// looked at.
	do func(r *rig, cut func()) said
}

var operations = []operation{
	{"charge", func(r *rig, cut func()) said {
		intent := r.intent()
		cut()
		res, err := r.once.Pay(r.t.Context(), intent)
		s := r.judge(res, err)
		res = r.pay(intent)
		if charges := r.provider.Charges(res.Reference); len(charges) != 1 || charges[0].Amount != minor {
			s.wrong += fmt.Sprintf("; the ledger has %d charges", len(charges))
		}
		s.reference = res.Reference
		return s
	}},
	{"refund", func(r *rig, cut func()) said {
		refund := attempt.Refund{AttemptID: r.pay(r.intent()).AttemptID, ID: "R1"}
		r.sent = nil
		cut()
		res, err := r.once.Refund(r.t.Context(), refund)
		s := r.judge(res, err)
		res, err = r.again.Refund(r.t.Context(), refund)
		if err != nil || res.Outcome != payclient.Approved {
			s.wrong += fmt.Sprintf("; over a whole wire: %v (%s), %v", res.Outcome, res.Reason, err)
		}
		if refunds := r.provider.Refunds(res.Reference); len(refunds) != 1 || refunds[0].Amount != minor {
			s.wrong += fmt.Sprintf("; the ledger has %d refunds", len(refunds))
		}
		s.reference = res.Reference
		return s
	}},
	{"lookup", func(r *rig, cut func()) said {
		reference := r.pay(r.intent()).Reference
		cut()
		answer, err := r.asks.FindByReference(r.t.Context(), reference)
		s := said{final: answer.Answer == attempt.LookupFound}
		switch {
		case answer.Answer == attempt.LookupNone:
			s.wrong = "a charge is said not to be there"
		case s.final && (err != nil || len(answer.Charges) != 1 || answer.Charges[0].Amount.Minor() != minor):
			s.wrong = fmt.Sprintf("found %+v, %v", answer.Charges, err)
		}
		return s
	}},
}

// judge holds what a payment or a refund was told to be against the rules that need no ledger.
func (r *rig) judge(res payclient.Result, err error) said {
	s := said{final: err == nil && res.Outcome == payclient.Approved, sure: err != nil}
	for _, one := range r.sent {
		if one.Verdict == attempt.NotSent {
			s.sure = true
		}
	}
	switch {
	case err == nil && res.Outcome == payclient.Declined, err == nil && res.Moved == payclient.MovedNo:
		s.wrong = fmt.Sprintf("%v (%s), no money moved", res.Outcome, res.Reason)
	case len(r.sent) > 1:
		s.wrong = fmt.Sprintf("%d sends, wanted one", len(r.sent))
	}
	return s
}

// check does an operation once, cut after so many bytes; it says how many bytes passed, and whether the cut came in time.
func (r *rig) check(o operation, where way, after int, how end) (s said, cut bool, passed int) {
	r.sent = nil
	var p *plan
	s = o.do(r, func() { p = r.cutter.set(where, after, how) })
	<-p.ended
	if s.sure {
		// One request is the one over the whole wire.
		whole := 0
		for _, q := range r.provider.Requests(s.reference) {
			if q.Method == http.MethodPost && !q.Cut {
				whole++
			}
		}
		if whole > 1 {
			s.wrong += "; told that nothing was sent, and the provider has it"
		}
	}
	return s, p.cut, p.passed
}

// F44, F46, F49, F58, F31, F36: whatever byte an exchange ends with, it is approved only by a whole answer and never declined;
// not sent is said only of what did not arrive; and done again, it has been done once.
func TestCutAfterEveryByte(t *testing.T) {
	for _, secure := range []bool{false, true} {
		for _, o := range operations {
			for _, how := range []end{byFIN, byRST} {
				name := fmt.Sprintf("plain/%s/%v", o.name, how)
				if secure {
					name = fmt.Sprintf("TLS/%s/%v", o.name, how)
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					for _, where := range []way{toProvider, toClient} {
						cutEverywhere(t, o, secure, where, how)
					}
				})
			}
		}
	}
}

// Of TLS 1.3: the close_notify that follows an answer, and by how much signatures differ in length.
const (
	closeNotify = 24
	signature   = 8
)

func cutEverywhere(t *testing.T, o operation, secure bool, where way, how end) {
	t.Helper()
	r := newRig(t, secure)
	const never = 1 << 30
	s, cut, whole := r.check(o, where, never, how)
	if cut || !s.final || s.wrong != "" {
		t.Fatalf("a whole exchange: cut %v, %+v", cut, s)
	}
	slack := 0
	if secure {
		slack = closeNotify + signature
	}
	cuts, sure, final := 0, 0, 0
	for after := 0; ; {
		s, cut, passed := r.check(o, where, after, how)
		if s.wrong != "" {
			t.Fatalf("%v cut by %v after %d of %d bytes: %s", where, how, after, whole, s.wrong)
		}
		if s.final {
			final++
			if cut && (passed < whole-slack || where == toProvider && !secure) {
				t.Fatalf("%v cut by %v after %d of %d bytes: final", where, how, passed, whole)
			}
		}
		if !cut {
			if after < whole-slack {
				t.Fatalf("%v by %v: nothing was cut after %d of %d bytes", where, how, after, whole)
			}
			break // the exchange ended before
		}
		cuts++
		if s.sure {
			sure++
		}
		if after += 1; secure && (*sample || testing.Short()) {
			switch left := whole - after; {
			case left > 700: // the handshake
				after += 36
			case left > 60:
				after += 6
			}
		}
	}
	t.Logf("%d bytes of %v, %d cuts by %v: %d surely not sent, %d final, the others unknown", whole, where, cuts, how, sure, final)
}

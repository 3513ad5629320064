package webhook_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/reconcile/webhook"
)

// Whatever stands in the headers: what is taken carries an entry that the owner of a secret has made of just this id, timestamp
// and body, and is of the present.
func FuzzStandard(f *testing.F) {
	ts := strconv.Itoa(vectorTime)
	f.Add(vectorID, ts, vectorSignature, []byte(vectorBody))
	f.Add(vectorID, ts, wrongSignature+" "+vectorSignature, []byte(vectorBody))
	f.Add("a.b", ts, "v1,", []byte("{}"))
	f.Add("", "-1", "v1a,x v1,y  ", []byte{})
	f.Add(vectorID, ts+"000", vectorSignature+"=", []byte(vectorBody))
	f.Add("é", "１２", "\x00", []byte{0xff})
	s := newStandard(f, otherText, secretText)
	now := time.Unix(vectorTime, 0)
	f.Fuzz(func(t *testing.T, id, timestamp, signatures string, body []byte) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {timestamp}, "Webhook-Signature": {signatures}}
		got, err := s.Verify(h, body, now)
		if err != nil {
			if got != "" || !errors.Is(err, webhook.ErrForged) && !errors.Is(err, webhook.ErrMalformed) && !errors.Is(err, webhook.ErrStale) {
				t.Fatalf("%q, %v", got, err)
			}
		} else {
			seconds, parsed := strconv.Atoi(timestamp)
			made := false
			for entry := range strings.SplitSeq(signatures, " ") {
				made = made || entry == signature(secretText, id, timestamp, body) || entry == signature(otherText, id, timestamp, body)
			}
			if got != id || strings.Contains(id, ".") || parsed != nil || seconds < vectorTime-300 || seconds > vectorTime+300 || !made {
				t.Fatalf("took %q at %q with %q", id, timestamp, signatures)
			}
		}
		// The same, signed: taken, or its headers are such as no provider sends.
		h["Webhook-Signature"] = []string{signature(secretText, id, timestamp, body)}
		if got, err := s.Verify(h, body, now); errors.Is(err, webhook.ErrForged) || err == nil && got != id {
			t.Fatalf("signed: %q, %v", got, err)
		}
	})
}

// Whatever the request: no panic, one of the known answers, and no effect that is not acknowledged or not signed.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "evt_1", "charge.succeeded", []byte(nil), true)
	f.Add("POST", "evt_1", "refund.failed", []byte(`{"id":"evt_1","type":"charge.succeeded","data":{"id":"ch_1"}}`), true)
	f.Add("POST", "evt_1", "", []byte("\xff{"), false)
	f.Add("GET", "a.b", "payout.paid", []byte(`[]`), true)
	f.Add("POST", "", "charge.pending", []byte(strings.Repeat("9", 1025)), true)
	f.Fuzz(func(t *testing.T, method, id, typ string, body []byte, signed bool) {
		r := newRig(t, func(c *webhook.Config) { c.MaxBody = 1024 })
		a := r.start()
		if len(body) == 0 {
			body = payload(id, typ, "ch_1", a.Reference, "succeeded", price)
		}
		req := r.request(nil, strings.NewReader(string(body)))
		req.Method = method
		req.Header = signedHeader(secretText, id, r.clock(), body)
		if !signed {
			req.Header = signedHeader(otherText, id, r.clock(), body)
		}
		w := httptest.NewRecorder()
		r.handler.ServeHTTP(w, req)
		changed := len(r.notes()) > 0 || r.attempt(a.ID).Version > 1
		switch w.Code {
		case 200:
			if ignored := r.handler.Counts().Ignored == 1; changed == ignored || !signed || method != "POST" {
				t.Fatalf("acknowledged, changed %t, signed %t", changed, signed)
			}
		case 400, 401, 405, 413:
			if changed || w.Body.Len() > 0 {
				t.Fatalf("answered %d, changed %t", w.Code, changed)
			}
		default:
			t.Fatalf("answered %d: %+v", w.Code, r.last())
		}
		if w.Code == 200 && method == "POST" {
			if again := r.do(r.handler, r.againOf(req, body)); again != 200 {
				t.Fatalf("delivered again: %d", again)
			}
			if version := r.attempt(a.ID).Version; version > 2 {
				t.Fatalf("had its effect %d times", version-1)
			}
		}
		for _, n := range r.notes() {
			if len(n.Data) > 64<<10 || strings.Contains(string(n.Data), "tok_visa") && !strings.Contains(id+typ, "tok_visa") {
				t.Fatalf("kept %d bytes: %.200s", len(n.Data), n.Data)
			}
		}
		if a := r.attempt(a.ID); a.Version > 1 && a.Status != attempt.StatusApproved && a.Status != attempt.StatusUnknown && a.Status != attempt.StatusDeclined {
			t.Fatalf("attempt is %s", a.Status)
		}
	})
}

// againOf is the same request again.
func (r *rig) againOf(req *http.Request, body []byte) *http.Request {
	return r.request(req.Header, strings.NewReader(string(body)))
}

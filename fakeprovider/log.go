package fakeprovider

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Request is one request as the provider saw it.
type Request struct {
	Number    int       `json:"number"` // from 1, in order of arrival
	Time      time.Time `json:"time"`
	ID        string    `json:"id"` // the answer's Request-Id
	Client    string    `json:"client,omitempty"`
	Method    string    `json:"method"`
	Path      string    `json:"path"`
	Query     string    `json:"query,omitempty"`
	Key       string    `json:"key,omitempty"`     // the idempotency key
	RawKey    string    `json:"raw_key,omitempty"` // its header as sent, quotes included
	Reference string    `json:"merchant_reference,omitempty"`
	Source    string    `json:"source,omitempty"`
	Body      string    `json:"body,omitempty"`
	BodyHash  string    `json:"body_sha256,omitempty"` // hex
	Cut       bool      `json:"cut,omitempty"`         // the body did not arrive in full
	Conn      string    `json:"conn,omitempty"`        // names the connection
	Reused    bool      `json:"reused,omitempty"`      // an earlier request came on this connection
	Fault     Fault     `json:"fault,omitempty"`
	Status    int       `json:"status,omitempty"` // 0: no answer, or none yet
	Answer    string    `json:"answer,omitempty"` // its body, before any damage in transit
	Replayed  bool      `json:"replayed,omitempty"`
}

// requestLog keeps the latest requests and counts all.
type requestLog struct {
	keep  int
	total int
	start int // of the ring, once it is full
	ring  []seen
}

// seen is a request that is kept: an exchange, or a line of the ledger file.
type seen interface{ public() Request }

// restored is a Request from the ledger file.
type restored Request

func (r *restored) public() Request { return Request(*r) }

func (x *exchange) public() Request {
	in := x.in
	r := Request{
		Number: x.number, Time: x.now, ID: x.id, Client: in.client, Method: in.method, Path: in.path, Query: in.query,
		Key: in.key, RawKey: in.rawKey, Reference: in.reference, Source: in.source, Body: string(in.body),
		Cut: in.cut, Conn: in.conn, Reused: in.reused,
	}
	if x.plan.fault != Answer {
		r.Fault = x.plan.fault
	}
	if x.concluded && x.end == endAnswer {
		r.Status, r.Answer, r.Replayed = x.ans.status, string(x.ans.body), x.ans.replayed
	}
	if r.Body != "" {
		sum := sha256.Sum256(in.body)
		r.BodyHash = hex.EncodeToString(sum[:])
	}
	return r
}

// add counts a request and keeps it.
func (l *requestLog) add(x *exchange) {
	l.total++
	x.number = l.total
	l.put(x)
}

func (l *requestLog) put(r seen) {
	switch {
	case l.keep == 0:
	case len(l.ring) < l.keep:
		l.ring = append(l.ring, r)
	default:
		l.ring[l.start] = r
		l.start = (l.start + 1) % l.keep
	}
}

// snapshot returns the kept requests in order of arrival.
func (l *requestLog) snapshot() []Request {
	list := make([]Request, 0, len(l.ring))
	for i := range l.ring {
		list = append(list, l.ring[(l.start+i)%len(l.ring)].public())
	}
	return list
}

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

// logged is a Request while it is kept: the bytes are the request's own,
// which nobody changes any more.
type logged struct {
	Request
	body, answer []byte
}

func (l *logged) public() Request {
	r := l.Request
	if l.body != nil {
		r.Body = string(l.body)
	}
	if l.answer != nil {
		r.Answer = string(l.answer)
	}
	if r.Body != "" && r.BodyHash == "" {
		sum := sha256.Sum256([]byte(r.Body))
		r.BodyHash = hex.EncodeToString(sum[:])
	}
	return r
}

// requestLog keeps the latest requests and counts all.
type requestLog struct {
	keep  int
	total int
	start int // of the ring, once it is full
	ring  []*logged
}

func (l *requestLog) add(x *exchange) *logged {
	l.total++
	if l.keep == 0 {
		return nil
	}
	in := x.in
	r := &logged{body: in.body, Request: Request{
		Number: l.total, Time: x.now, Client: in.client, Method: in.method, Path: in.path, Query: in.query,
		Key: in.key, RawKey: in.rawKey, Reference: in.reference, Source: in.source,
		Cut: in.cut, Conn: in.conn, Reused: in.reused,
	}}
	if x.plan.fault != Answer {
		r.Fault = x.plan.fault
	}
	l.keepLine(r)
	return r
}

func (l *requestLog) keepLine(r *logged) {
	switch {
	case l.keep == 0:
	case len(l.ring) < l.keep:
		l.ring = append(l.ring, r)
	default:
		l.ring[l.start] = r
		l.start = (l.start + 1) % l.keep
	}
}

// answered completes the request's line.
func (l *requestLog) answered(x *exchange) {
	if x.log == nil {
		return
	}
	x.log.ID = x.id
	if x.end == endAnswer {
		x.log.Status, x.log.answer, x.log.Replayed = x.ans.status, x.ans.body, x.ans.replayed
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

package fakeprovider

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
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

// logged is a Request while it is kept.
type logged struct {
	Request
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
	r := &logged{Request{
		Number: l.total, Time: x.now, Client: in.client, Method: in.method, Path: in.path, Query: in.query,
		Key: in.key, RawKey: in.rawKey, Reference: in.reference, Source: in.source,
		Body: string(in.body), Cut: in.cut, Conn: in.conn, Reused: in.reused,
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
	x.log.ID = x.requestID()
	if x.end == endAnswer {
		x.log.Status, x.log.Answer, x.log.Replayed = x.ans.status, string(x.ans.body), x.ans.replayed
	}
}

// snapshot returns the kept requests in order of arrival.
func (l *requestLog) snapshot() []Request {
	list := make([]Request, 0, len(l.ring))
	for i := range l.ring {
		r := l.ring[(l.start+i)%len(l.ring)].Request
		if r.Body != "" {
			sum := sha256.Sum256([]byte(r.Body))
			r.BodyHash = hex.EncodeToString(sum[:])
		}
		list = append(list, r)
	}
	return list
}

func (x *exchange) requestID() string {
	b := make([]byte, 0, 32)
	b = append(b, x.p.prefix...)
	return string(strconv.AppendUint(b, x.number, 10))
}

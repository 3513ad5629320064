package webhook

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/chargeonce/chargeonce/attempt"
)

// Result says what became of a request.
type Result uint8

// What may become of a request. Only Stored, Orphan, Unreadable and Adopted change anything.
const (
	NotStored   Result = iota // proved and read, and the store did not take it: the provider delivers it again
	Stored                    // evidence was added to its attempt
	Orphan                    // kept: it fits no attempt, see Why
	Unreadable                // kept as an orphan: proved to come from the provider, and cannot be read
	Adopted                   // by Handler.Adopt: an orphan became evidence. No request has this result
	Seen                      // the event was stored before
	Ignored                   // the event is about no charge and no refund
	Forged                    // not proved to come from the provider
	Stale                     // signed by the provider, too long ago or in the future
	Malformed                 // the headers that prove its origin, or the body's framing, cannot be read
	TooLarge                  // the body is longer than MaxBody
	WrongMethod               // no POST
	results
)

var resultNames = [...]string{
	"not_stored", "stored", "orphan", "unreadable", "adopted", "seen", "ignored", "forged", "stale", "malformed", "too_large",
	"wrong_method",
}

// String returns the result's name.
func (r Result) String() string {
	if r < results {
		return resultNames[r]
	}
	return "unknown"
}

// status is what the sender is told: 2xx when the event needs no other delivery, and no reason for anything else.
func (r Result) status() int {
	switch r {
	case Stored, Orphan, Unreadable, Adopted, Seen, Ignored:
		return http.StatusOK
	case Forged:
		return http.StatusUnauthorized
	case Stale, Malformed:
		return http.StatusBadRequest
	case TooLarge:
		return http.StatusRequestEntityTooLarge
	case WrongMethod:
		return http.StatusMethodNotAllowed
	case NotStored, results:
	}
	return http.StatusServiceUnavailable
}

// Delivery is what became of one request, or of one orphan that was adopted.
type Delivery struct {
	Result  Result
	Why     Why            // of an orphan
	EventID string         // empty where the request's origin is not proved
	Notice  attempt.Notice // what was read of it
	Attempt attempt.Attempt
	Duties  []attempt.Duty // opened by it
	Err     error          // why it was refused, not read or not stored
}

// Observer is told what happens, for metrics and alarms. It runs on the request's goroutine, when everything is stored, and
// must return soon.
type Observer struct {
	// Delivered is told of every request, and of every orphan that was adopted.
	Delivered func(context.Context, Delivery)
}

// Counts counts requests by what became of them, since the handler was made.
type Counts struct {
	NotStored, Stored, Orphan, Unreadable, Adopted, Seen, Ignored uint64

	Forged, Stale, Malformed, TooLarge, WrongMethod uint64
}

type counters [results]atomic.Uint64

func (c *counters) counts() Counts {
	n := func(r Result) uint64 { return c[r].Load() }
	return Counts{
		NotStored: n(NotStored), Stored: n(Stored), Orphan: n(Orphan), Unreadable: n(Unreadable), Adopted: n(Adopted),
		Seen: n(Seen), Ignored: n(Ignored), Forged: n(Forged), Stale: n(Stale), Malformed: n(Malformed), TooLarge: n(TooLarge),
		WrongMethod: n(WrongMethod),
	}
}

package payclient

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// recorder gathers the only evidence that counts for "not sent": that the transport asked for a connection and never had
// one. The hooks run on other goroutines and, after a dial that outlives its request, long after the request has ended:
// hence atomics, and a recorder for each request.
type recorder struct {
	asked  atomic.Int32
	had    atomic.Int32
	reused atomic.Bool

	claimUntil time.Time
	cancel     context.CancelFunc
	claimOver  atomic.Bool
	trace      httptrace.ClientTrace
}

// watch makes the trace to put on the request's context. When the connection is had, the claim is looked at once more: what
// was frozen in between must not leave under a claim that another may hold by now.
func (r *recorder) watch() *httptrace.ClientTrace {
	r.trace.GetConn = func(string) { r.asked.Add(1) }
	r.trace.GotConn = func(info httptrace.GotConnInfo) {
		r.had.Add(1)
		if info.Reused {
			r.reused.Store(true)
		}
		if past(r.claimUntil, time.Now()) && r.cancel != nil {
			r.claimOver.Store(true)
			r.cancel()
		}
	}
	return &r.trace
}

// provesNotSent tells whether no complete request can have left. The hooks must be alive for that: a transport that calls
// none proves nothing.
func (r *recorder) provesNotSent() bool { return r.asked.Load() > 0 && r.had.Load() == 0 }

// past tells whether a deadline is over by the wall clock or by the monotonic one: the first goes on while a machine
// sleeps, the second is not set back.
func past(deadline, now time.Time) bool {
	return !now.Before(deadline) || !now.Round(0).Before(deadline.Round(0))
}

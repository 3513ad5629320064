package batch

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/chargeonce/chargeonce/attempt"
)

// How many rows in a row must end in the same way before the run stops because of it.
const (
	unreachableLimit = 10
	unreadableLimit  = 5
)

// tally watches how rows end, and stops the run where the next one cannot end otherwise.
type tally struct {
	mu          sync.Mutex
	unreachable int // rows in a row
	unreadable  int
}

// outOfReach are the reasons of a row that was not sent because the provider was out of reach.
var outOfReach = map[attempt.Reason]bool{
	attempt.ReasonUnreachable: true, attempt.ReasonBreakerOpen: true, attempt.ReasonNotAsked: true,
}

func (t *tally) add(r *Run, result Result) {
	if kind, err := lasting(result); err != nil {
		r.stopBy(kind, err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case result.unsent || result.Outcome == Refused:
		return // says nothing about the provider
	case result.Outcome == NotSent && outOfReach[attempt.Reason(result.Reason)]:
		if t.unreachable++; t.unreachable >= unreachableLimit {
			r.stopBy(StopUnreachable, fmt.Errorf("%d payments in a row could not be sent (%s)", t.unreachable, result.Reason))
		}
		return
	case result.Outcome == Violation && result.Open():
		if t.unreadable++; t.unreadable >= unreadableLimit {
			r.stopBy(StopUnreadable, fmt.Errorf("%d answers in a row were not those of the provider's API (%s)", t.unreadable, result.Message))
		}
	case result.Outcome != Unknown:
		t.unreadable = 0
	}
	if result.Payment != nil && result.Payment.StatusCode != 0 {
		t.unreachable = 0
		r.heard.Store(true)
	}
}

// lasting tells whether the result shows a fault that every other row would meet too.
func lasting(result Result) (StopKind, error) {
	if result.unsent {
		return 0, nil
	}
	switch result.Reason {
	case string(attempt.ReasonCertificate):
		return StopProvider, fmt.Errorf("the provider's certificate is not trusted: %s", result.Message)
	case string(attempt.ReasonRedirected):
		return StopProvider, fmt.Errorf("the provider's address answers with a redirect, which is not followed: %s", result.Message)
	}
	if result.Outcome == Violation && result.Payment != nil {
		if err := misconfigured(result.Payment.StatusCode); err != nil {
			return StopProvider, err
		}
	}
	return 0, nil
}

// misconfigured tells of an answer's status that has nothing to do with the row: credentials or address are at fault.
func misconfigured(code int) error {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("the provider refuses the credentials (%d %s)", code, http.StatusText(code))
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		return fmt.Errorf("the provider has no such API at this address (%d %s)", code, http.StatusText(code))
	}
	return nil
}

package webhook

import (
	"errors"
	"net/http"
	"time"
)

// Verifier proves that a request comes from the provider. It is safe for concurrent use and keeps nothing of its arguments.
type Verifier interface {
	// Verify returns the id of the event, the same whenever the event is delivered again, or "" where the proof covers none
	// and the payload tells it. body is the raw body, and now the present by the receiver's clock. It fails with [ErrForged],
	// [ErrStale] or [ErrMalformed]; any other error, and a panic, counts as ErrForged. Signatures are compared in constant
	// time.
	Verify(header http.Header, body []byte, now time.Time) (eventID string, err error)
}

// Why a request is refused. Nothing was changed by it.
var (
	// ErrForged: it is not proved that the request comes from the provider.
	ErrForged = errors.New("not signed by the provider")
	// ErrStale: it is signed by the provider, and so long ago, or so far in the future, that somebody may have kept it, or one
	// of the clocks is wrong.
	ErrStale = errors.New("signed too long ago or in the future")
	// ErrMalformed: what proves the request's origin is missing, there twice, or cannot be read.
	ErrMalformed = errors.New("malformed")
)

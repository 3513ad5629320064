package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Handler takes a provider's events. See the package documentation for what it promises. It is safe for concurrent use, by
// several processes that share a store too.
//
// It tells a sender nothing but a status code: 200 for what needs no other delivery, 401 for what is not proved to come from
// the provider, 400 for what is stale or malformed, 413, 405, and 503 where the store did not take the event. The server that
// it is mounted on bounds how long a body may take to arrive.
type Handler struct {
	cfg    Config
	scope  string
	n      counters
	warned atomic.Int64 // when a request without proof was last logged as a warning, Unix time in nanoseconds
}

// storeWait bounds how long a delivery waits for the store. Senders wait 15 s to 30 s (Standard Webhooks 1.0.0, "Request
// timeouts"), and deliver again.
const storeWait = 10 * time.Second

// Keys of the attributes in log lines.
const (
	logResult    = "result"
	logWhy       = "why"
	logEvent     = "event"
	logType      = "type"
	logReference = "reference"
	logCharge    = "charge"
	logAttempt   = "attempt"
	logOrder     = "order"
	logStatus    = "status"
	logDuty      = "duty"
	logError     = "error"
)

// Counts returns how many requests had which result.
func (h *Handler) Counts() Counts { return h.n.counts() }

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d := h.take(w, r)
	if d.Result == WrongMethod {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.WriteHeader(d.Result.status())
	h.tell(r.Context(), d)
}

// take does everything but the answer.
func (h *Handler) take(w http.ResponseWriter, r *http.Request) Delivery {
	if r.Method != http.MethodPost {
		return Delivery{Result: WrongMethod}
	}
	body, refused := h.body(w, r)
	if refused.Err != nil {
		return refused
	}
	id, err := h.verify(r.Header, body)
	if err != nil {
		return Delivery{Result: refusal(err), Err: err}
	}
	n, err := h.read(body)
	if errors.Is(err, attempt.ErrNoCharge) {
		return Delivery{Result: Ignored, EventID: id, Notice: n}
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeWait)
	defer cancel()
	if id == "" {
		id = n.ID
	}
	if err == nil && id == "" {
		err = errors.New("the event has no id")
	}
	if err != nil {
		return h.keepUnreadable(ctx, id, body, err)
	}
	return h.apply(ctx, id, n)
}

// body reads the raw body.
func (h *Handler) body(w http.ResponseWriter, r *http.Request) (body []byte, refused Delivery) {
	if r.ContentLength > h.cfg.MaxBody {
		return nil, Delivery{Result: TooLarge, Err: &http.MaxBytesError{Limit: h.cfg.MaxBody}}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.cfg.MaxBody))
	if err == nil {
		return body, Delivery{}
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, Delivery{Result: TooLarge, Err: err}
	}
	return nil, Delivery{Result: Malformed, Err: err}
}

// verify asks the verifier. What it panics about is not proved.
func (h *Handler) verify(header http.Header, body []byte) (id string, err error) {
	defer func() {
		if p := recover(); p != nil {
			id, err = "", fmt.Errorf("%w: the verifier panicked", ErrForged)
		}
	}()
	id, err = h.cfg.Verifier.Verify(header, body, h.cfg.Now())
	if err == nil && !keepable(id) {
		return "", fmt.Errorf("event id: %w", ErrMalformed)
	}
	return id, err
}

// keepable tells whether a text can be an event's id.
func keepable(id string) bool {
	return attempt.Notice{ID: id, Charge: attempt.Charge{ID: "-"}}.Validate() == nil
}

func refusal(err error) Result {
	switch {
	case errors.Is(err, ErrStale):
		return Stale
	case errors.Is(err, ErrMalformed):
		return Malformed
	}
	return Forged
}

// read reads the payload and checks what was read. A reader that panics has not read it.
func (h *Handler) read(body []byte) (n attempt.Notice, err error) {
	defer func() {
		if p := recover(); p != nil {
			n, err = attempt.Notice{}, errors.New("the reader panicked") // with what might be a part of the payload
		}
	}()
	n, err = h.cfg.Read(body)
	if err != nil {
		return attempt.Notice{}, err
	}
	if err := n.Validate(); err != nil {
		return attempt.Notice{}, err
	}
	return n, nil
}

// tell counts, logs and reports what became of a request.
func (h *Handler) tell(ctx context.Context, d Delivery) {
	h.n[d.Result].Add(1)
	if level := h.level(d.Result); h.cfg.Logger.Enabled(ctx, level) {
		h.cfg.Logger.LogAttrs(ctx, level, "webhook event", d.attrs()...)
	}
	for _, duty := range d.Duties {
		h.cfg.Logger.LogAttrs(ctx, slog.LevelError, "money that should not be there",
			append(d.attrs(), slog.String(logDuty, string(duty.Kind)), slog.String(logWhy, duty.Why))...)
	}
	if h.cfg.Observer.Delivered != nil {
		h.cfg.Observer.Delivered(ctx, d)
	}
}

// warnEvery is how often requests without proof are warned of: a wrong secret shows, and a flood does not fill the log.
const warnEvery = time.Minute

func (h *Handler) level(r Result) slog.Level {
	switch r {
	case NotStored, Unreadable:
		return slog.LevelError
	case Orphan, Stale:
		return slog.LevelWarn
	case Stored, Adopted:
		return slog.LevelInfo
	case Forged, Malformed, TooLarge:
		now, last := h.cfg.Now().UnixNano(), h.warned.Load()
		if (last == 0 || now-last >= int64(warnEvery)) && h.warned.CompareAndSwap(last, now) {
			return slog.LevelWarn
		}
	case Seen, Ignored, WrongMethod, results:
	}
	return slog.LevelDebug
}

func (d *Delivery) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String(logResult, d.Result.String())}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add(logWhy, string(d.Why))
	add(logEvent, d.EventID)
	add(logType, d.Notice.Type)
	add(logReference, d.Notice.Reference)
	add(logCharge, d.Notice.Charge.ID)
	if d.Attempt.ID != "" {
		add(logAttempt, d.Attempt.ID)
		add(logOrder, d.Attempt.Slot.Order)
		add(logStatus, d.Attempt.Status.String())
	}
	if d.Err != nil {
		add(logError, d.Err.Error())
	}
	return attrs
}

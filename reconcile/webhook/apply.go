package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/chargeonce/chargeonce/attempt"
)

// Why says why an event is an orphan.
type Why string

// Why an event fits no attempt.
const (
	WhyNotOurs    Why = "not_ours"    // its reference is none that an attempt could have, or there is none
	WhyNoAttempt  Why = "no_attempt"  // there is no attempt with that reference
	WhyOtherPlace Why = "other_place" // the attempt belongs to another provider, account or environment
	WhyOtherKind  Why = "other_kind"  // it is about a refund and the attempt is a payment, or the other way round
	WhyUnreadable Why = "unreadable"  // the payload could not be read
)

// noFit is the error of a step on an attempt that the event does not belong to.
type noFit struct{ why Why }

func (e *noFit) Error() string { return "the event fits no attempt: " + string(e.why) }

// fits says why a notice is not about an attempt; empty: it is.
func fits(n *attempt.Notice, place attempt.Place, b attempt.Brief) Why {
	switch {
	case b.Reference != n.Reference:
		return WhyNoAttempt
	case b.Place != place:
		return WhyOtherPlace
	case (b.Refund.AttemptID != "") != n.Refund:
		return WhyOtherKind
	}
	return ""
}

// kept is what is kept of an event, as JSON.
type kept struct {
	Why    Why            `json:"why,omitempty"`
	Notice attempt.Notice `json:"notice,omitzero"`
	// Of a payload that could not be read: how the provider's records can tell which it was.
	SHA256 string `json:"sha256,omitempty"`
	Size   int    `json:"size,omitempty"`
}

// scopeOf is what the ids of a place's events are unique in. A slash within a part is escaped, so that no two places share one.
func scopeOf(p attempt.Place) string {
	return "webhook:" + url.PathEscape(p.Provider) + "/" + url.PathEscape(p.Account) + "/" + url.PathEscape(p.Environment)
}

func (h *Handler) once(id string, k kept) (*attempt.Once, error) {
	data, err := json.Marshal(k)
	if err != nil {
		return nil, fmt.Errorf("event %s: %w", id, err)
	}
	return &attempt.Once{Scope: h.scope, ID: id, Data: data}, nil
}

// apply makes an event evidence of its attempt, or keeps it as an orphan.
func (h *Handler) apply(ctx context.Context, id string, n attempt.Notice) Delivery {
	attemptID, ours := attempt.IDOf(n.Reference)
	if !ours {
		// What is not ours may name anything, and is kept for years.
		if clean := n.WithoutCards(); clean != n {
			sum := sha256.Sum256([]byte(id))
			id, n = "sha256:"+hex.EncodeToString(sum[:]), clean
		}
		return h.keepOrphan(ctx, id, kept{Why: WhyNotOurs, Notice: n}, nil)
	}
	d := h.record(ctx, attemptID, id, n)
	if misfit, ok := errors.AsType[*noFit](d.Err); ok {
		return h.keepOrphan(ctx, id, kept{Why: misfit.why, Notice: n}, nil)
	}
	return d
}

// record adds an event to an attempt. Whether it belongs there is looked at in the step, on the attempt that the step changes.
func (h *Handler) record(ctx context.Context, attemptID, id string, n attempt.Notice) Delivery {
	d := Delivery{EventID: id, Notice: n}
	rec := attempt.Record{
		ID: attemptID, Who: h.cfg.Who, Schedule: &h.cfg.Schedule,
		Evidence: n.Evidence(attempt.EvidenceWebhook, h.cfg.KeepsAnswers),
	}
	if rec.Once, d.Err = h.once(id, kept{Notice: n}); d.Err != nil {
		return d
	}
	step := rec.Step(nil)
	step.Do = func(v attempt.View) ([]attempt.Write, error) {
		if a, ok := v.Find(attemptID); ok {
			if why := fits(&n, h.cfg.Place, a.Brief()); why != "" {
				return nil, &noFit{why}
			}
		}
		return rec.Do(v)
	}
	switch err := h.cfg.Store.Apply(ctx, step); {
	case err == nil:
		d.Result, d.Attempt, d.Duties = Stored, rec.Attempt, rec.Duties
	case errors.Is(err, attempt.ErrSeen):
		d.Result = Seen
	case errors.Is(err, attempt.ErrNotFound):
		d.Err = &noFit{WhyNoAttempt}
	default:
		d.Err = err
	}
	return d
}

// keepOrphan keeps an event that fits no attempt.
func (h *Handler) keepOrphan(ctx context.Context, id string, k kept, cause error) Delivery {
	d := Delivery{Result: Orphan, Why: k.Why, EventID: id, Notice: k.Notice, Err: cause}
	if k.Why == WhyUnreadable {
		d.Result = Unreadable
	}
	once, err := h.once(id, k)
	if err == nil {
		err = h.cfg.Store.Apply(ctx, &attempt.Step{Once: once})
	}
	switch {
	case err == nil:
	case errors.Is(err, attempt.ErrSeen):
		d.Result = Seen
	default:
		d.Result, d.Err = NotStored, errors.Join(cause, err)
	}
	return d
}

// keepUnreadable keeps that an event came which could not be read. Its payload is not kept: nobody knows what is in it.
func (h *Handler) keepUnreadable(ctx context.Context, id string, body []byte, cause error) Delivery {
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	if id == "" {
		id = "sha256:" + digest
	}
	return h.keepOrphan(ctx, id, kept{Why: WhyUnreadable, SHA256: digest, Size: len(body)}, cause)
}

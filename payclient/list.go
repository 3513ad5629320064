package payclient

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// maxListPages bounds how many pages of one listing are read: ten million charges, at a hundred a page.
const maxListPages = 100_000

// ListCharges yields what the provider lists as made from a time on and before another, by the provider's own clock:
// charges of other references too, which are for the caller to pass over, unless such a one is unreadable. A hundred open attempts are found with one
// question. What is not listed may be there all the same.
//
// After an error it yields no more: [errors.ErrUnsupported] where the provider's adapter cannot list, [ErrNotAsked] where the
// next page could not be asked for, and a page that failed or cannot be relied on; what came before it counts. Each page has
// the time of one call, and shares the client's breaker and its bound on requests under way.
func (c *Client) ListCharges(ctx context.Context, from, to time.Time) iter.Seq2[attempt.Notice, error] {
	return func(yield func(attempt.Notice, error) bool) {
		cursor := ""
		for range maxListPages {
			notices, next, err := c.listPage(ctx, from, to, cursor)
			for _, n := range notices {
				if !yield(n, nil) {
					return
				}
			}
			switch {
			case err != nil:
			case next == "":
				return
			case next == cursor:
				err = errors.New("the pages of the answer do not end")
			}
			if err != nil {
				yield(attempt.Notice{}, fmt.Errorf("list charges from %s to %s: %w", from.Format(time.RFC3339), to.Format(time.RFC3339), err))
				return
			}
			cursor = next
		}
		yield(attempt.Notice{}, errors.New("list charges: the pages of the answer do not end"))
	}
}

// listPage asks for one page. With an error there are no notices.
func (c *Client) listPage(ctx context.Context, from, to time.Time, cursor string) (notices []attempt.Notice, next string, err error) {
	if c.can.lister == nil {
		return nil, "", fmt.Errorf("%w by the adapter %s", errors.ErrUnsupported, c.caps.Name)
	}
	if err := c.begin(); err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrNotAsked, err)
	}
	defer c.pending.Done()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	q := &asking{client: c, request: c.can.lister.ListRequest(from, to, cursor)}
	clean := q.clean()
	q.run(ctx)
	switch {
	case q.notMade:
		return nil, "", fmt.Errorf("%w: %s", ErrNotAsked, clean.text(q.err.Error()))
	case q.err != nil:
		return nil, "", errors.New(clean.text(q.err.Error()))
	}
	page := readPage(c.can.lister.ReadList, q.response)
	if IsUnavailable(q.response.StatusCode) || !page.Readable {
		return nil, "", fmt.Errorf("status %d: %s", q.response.StatusCode, clean.text(page.Detail))
	}
	for _, d := range page.Charges {
		n, err := noticeOf(d, clean)
		if _, ours := attempt.IDOf(d.Reference); err != nil && !ours {
			continue // whatever somebody else has charged, it cannot be one of ours
		}
		if err != nil {
			return nil, "", fmt.Errorf("a charge in the answer: %w", err)
		}
		notices = append(notices, n)
	}
	return notices, page.Next, nil
}

// noticeOf reads a charge of whatever reference.
func noticeOf(d ChargeData, clean cleaner) (attempt.Notice, error) {
	n := attempt.Notice{Reference: d.Reference, Charge: attempt.Charge{
		ID: d.ID, Status: d.Status, DeclineCode: clean.text(d.DeclineCode), NextAction: clean.link(d.NextAction),
	}}
	if !clean.id(d.ID) {
		return attempt.Notice{}, errors.New("id: not fit to be stored")
	}
	if d.Minor == nil {
		return attempt.Notice{}, errors.New("amount: missing")
	}
	amount, err := money.Restore(*d.Minor, d.Currency)
	if err != nil {
		return attempt.Notice{}, errors.New("currency: missing or unknown")
	}
	n.Charge.Amount = amount
	if err := n.Validate(); err != nil {
		return attempt.Notice{}, errors.New("holds what cannot be kept")
	}
	return n, nil
}

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/batch"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
)

// refunding is one refund that a person asks for.
type refunding struct {
	*work
	slot   attempt.Slot
	refund attempt.Refund
	amount string
}

func (a *app) refundCommand() *cobra.Command {
	r := &refunding{}
	cmd := &cobra.Command{
		Use:   "refund ORDER --id ID | refund --attempt ATTEMPT --id ID",
		Short: "Give money of a payment back, once",
		Long: `Give money of a payment back. A refund is an attempt of its own, with a key of its own, in
the order's history: its id, which you choose (the number of a return, for instance), names
it. The same id again is the same refund, made once, whoever asks for it, how often, and
whatever was killed meanwhile; another amount under the id is refused. All refunds of a
charge together are never above it.

Without --amount all that is left goes back. A refund that the provider has declined is told
again, unless --again names that attempt.

One result goes to standard output: the refund's attempt, with the fields of chargeonce
attempts list. A refund may be pending for days and then fail: chargeonce reconcile asks.

Exit codes: 0 given back; 3 declined by the provider; 5 unknown or pending: run the same
command again, or chargeonce reconcile; 7 refused, and nothing was sent (more than is left,
another amount under the same id, no such charge), or not sent; 1 the database, 2 the
command line or the settings, 4 the provider's configuration or credentials, or a provider
that cannot refund.`,
		Args:        cobra.MaximumNArgs(1),
		Annotations: leavesUndone("nothing was sent"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				r.slot.Order = args[0]
			}
			if err := r.check(); err != nil {
				return usage(err)
			}
			return a.working(cmd, func(w *work) error {
				r.work = w
				return r.run()
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.refund.AttemptID, "attempt", "", "the payment's attempt, instead of ORDER")
	flags.StringVar(&r.refund.ID, "id", "", "the refund's own id: the same id again is the same refund")
	flags.StringVar(&r.amount, "amount", "", "how much, in the charge's currency: 12.34 (default: all that is left)")
	flags.StringVar(&r.refund.ChargeID, "charge", "", "the provider's charge, where the attempt holds several")
	flags.StringVar(&r.refund.Again, "again", "", "refund anew although this attempt of the refund was declined")
	flags.String("settle", "", "how long the provider is asked about a refund that is unknown (default 10s)")
	slotFlags(cmd, &r.slot)
	return cmd
}

// check reports every mistake in what was given.
func (r *refunding) check() error {
	r.slot = r.slot.WithDefaults()
	var errs []error
	switch {
	case (r.slot.Order == "") == (r.refund.AttemptID == ""):
		errs = append(errs, errors.New("want an ORDER or --attempt, and not both"))
	case r.slot.Order != "":
		errs = append(errs, r.slot.Validate())
	}
	if r.refund.ID == "" {
		errs = append(errs, errors.New("--id: missing; it names the refund, so that it is made once: the number of a return, for instance"))
	} else {
		errs = append(errs, storedText("--id", r.refund.ID, 1, attempt.MaxRefundIDLength))
	}
	errs = append(errs, plainText("--charge", r.refund.ChargeID, 0, attempt.MaxRefundIDLength))
	return errors.Join(errs...)
}

// claimMargin is added to a claim's time, for what it takes to notice its end.
const claimMargin = time.Second

func (r *refunding) run() error {
	if err := r.choose(); err != nil {
		return err
	}
	began := time.Now()
	settled := began.Add(r.settings.settleFor)
	claimed := began.Add(r.client.config.CallTimeout + r.client.config.RecordTimeout + claimMargin)
	told := false
	r.begin()
	var sent payclient.Result // what a call of this run has come to that may have sent
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		res, err := r.client.Refund(r.signals.calls, r.refund)
		switch {
		case err == nil && res.Open() && !res.Existing:
			sent = res
		case err != nil && sent.AttemptID != "" && !r.knows(res):
			// This call has sent nothing, and says nothing of what an earlier one has.
			return r.notSettled(sent, err)
		}
		until := settled
		if err == nil && res.Reason == attempt.ReasonInFlight {
			until = claimed
			if !told {
				r.tell("the refund is being sent by another run, or by one that has died: waiting for its claim to end (at most %.0f s)", max(time.Until(claimed).Seconds(), 1))
			}
			told = true
		}
		rest := min(wait, time.Until(until))
		if err != nil || !res.Open() || rest <= 0 || r.signals.start.Err() != nil {
			return r.end(res, err)
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-r.signals.start.Done():
			timer.Stop()
		}
	}
}

// knows tells whether a result is of the refund, so that it tells how that stands.
func (r *refunding) knows(res payclient.Result) bool { return res.Attempt.IsRefund() }

// notSettled ends the program for a refund that this run may have sent, and of which no more can be learnt.
func (r *refunding) notSettled(sent payclient.Result, err error) error {
	ended := r.end(sent, nil)
	return exitWith(exitUnknown, fmt.Errorf("%w (%w)", ended, withoutSent(err)))
}

// withoutSent is an error of a call without that the call has sent nothing, which would be read of the whole command.
func withoutSent(err error) error {
	return errors.New(strings.ReplaceAll(withoutCards(err).Error(), "; nothing was sent", ""))
}

// choose finds the attempt whose money goes back, and reads the amount in its currency.
func (r *refunding) choose() error {
	ctx := r.signals.calls
	var view attempt.View
	slot := r.slot
	if r.refund.AttemptID != "" {
		a, err := r.store.Attempt(ctx, r.refund.AttemptID)
		if errors.Is(err, attempt.ErrNotFound) {
			return r.refuse(named(r.refund.AttemptID, err))
		}
		if err != nil {
			return fatal(err)
		}
		slot = a.Slot
	}
	view, err := r.store.Slot(ctx, slot)
	if err != nil {
		return fatal(err)
	}
	a, err := r.paidBy(view)
	if err != nil {
		return r.refuse(err)
	}
	r.refund.AttemptID = a.ID
	if r.amount == "" {
		return nil
	}
	// What came in may go back in a currency that was withdrawn since.
	if r.refund.Amount, err = money.RestoreDecimal(r.amount, r.currencyOf(a)); err != nil {
		var refused *money.Error
		if errors.As(err, &refused) {
			err = fmt.Errorf("%q: %w, want %s", cleanField(refused.Text), refused.Err, refused.Want)
		}
		return usage(fmt.Errorf("--amount: %w; nothing was sent", err))
	}
	if r.refund.Amount.Minor() <= 0 {
		return usage(fmt.Errorf("--amount: %s is not positive; nothing was sent", r.refund.Amount))
	}
	return nil
}

// currencyOf returns the currency of the charge whose money goes back.
func (r *refunding) currencyOf(a attempt.Attempt) string {
	id := orElse(r.refund.ChargeID, a.ChargeID)
	for _, c := range a.Charges {
		if c.Amount.Valid() && (c.ID == id || id == "" && c.Status == attempt.ChargeSucceeded) {
			return c.Amount.Currency()
		}
	}
	return a.Amount.Currency()
}

// paidBy returns the attempt whose money goes back: the one that was named, or the only one of the order that holds money.
func (r *refunding) paidBy(v attempt.View) (attempt.Attempt, error) {
	if r.refund.AttemptID != "" {
		a, _ := v.Find(r.refund.AttemptID)
		if a.IsRefund() {
			return a, fmt.Errorf("attempt %s is a refund itself, of attempt %s", a.ID, a.Refund.AttemptID)
		}
		return a, nil
	}
	var hold []attempt.Attempt
	for _, a := range v.Attempts {
		for _, c := range a.Charges {
			if c.Status == attempt.ChargeSucceeded && (r.refund.ChargeID == "" || c.ID == r.refund.ChargeID) {
				hold = append(hold, a)
				break
			}
		}
	}
	switch {
	case len(hold) == 1:
		return hold[0], nil
	case len(hold) > 1:
		ids := make([]string, len(hold))
		for i, a := range hold {
			ids[i] = "--attempt " + a.ID
		}
		return attempt.Attempt{}, fmt.Errorf("order %s: several attempts hold money, name one: %s", r.slot, strings.Join(ids, ", "))
	case len(v.Attempts) == 0:
		return attempt.Attempt{}, fmt.Errorf("order %s: it was never paid for", r.slot)
	case r.refund.ChargeID != "":
		return attempt.Attempt{}, fmt.Errorf("order %s: no attempt holds money of a charge %s", r.slot, cleanField(r.refund.ChargeID))
	}
	a, _ := v.Standing()
	return attempt.Attempt{}, fmt.Errorf("order %s: no charge of it is known that could be given back, attempt %s is %s", r.slot, a.ID, a.Status)
}

// refuse ends the program with a whole answer that holds no refund.
func (r *refunding) refuse(err error) error {
	if closed := newWriter(r.out, r.settings.output, listColumns...).close(); closed != nil {
		return fatal(closed)
	}
	return exitWith(exitRefused, fmt.Errorf("%s; nothing was sent", strings.TrimSuffix(err.Error(), "; nothing was sent")))
}

// end writes the refund and says with which code the program ends.
func (r *refunding) end(res payclient.Result, err error) error {
	if err != nil && !res.Attempt.IsRefund() {
		return r.failed(res, err)
	}
	rec := attemptRecordOf(res.Attempt, time.Now())
	out := newWriter(r.out, r.settings.output, listColumns...)
	if err := out.add(rec, func() []string { return listCells(res.Attempt, rec) }); err != nil {
		return fatal(err)
	}
	if err := out.close(); err != nil {
		return fatal(err)
	}
	name := fmt.Sprintf("refund %s of charge %s", res.Attempt.Refund.ID, res.Attempt.Refund.ChargeID)
	switch {
	case err != nil:
		return r.failed(res, err)
	case res.RecordErr != nil && res.Outcome != payclient.Approved:
		return exitWith(exitUnknown, fmt.Errorf("%s: what the provider answered is not stored: %w; run the same command again", name, res.RecordErr))
	case res.Outcome == payclient.Approved:
		r.tell("%s: %s given back as %s%s", name, res.Attempt.Amount, res.ChargeID, existingText(res))
		return nil
	case res.Open():
		return exitWith(exitUnknown, fmt.Errorf("%s: not settled (%s), the money may have left. Run the same command again, or chargeonce reconcile: nothing is given back twice",
			name, orElse(reasonText(res.Reason), "unknown")))
	case res.Outcome == payclient.Declined:
		return exitWith(exitDeclined, fmt.Errorf("%s: declined by the provider (%s), nothing was given back%s. To try once more: --again %s",
			name, orElse(orElse(res.DeclineCode, res.Code), "without a code"), existingText(res), res.AttemptID))
	}
	return exitWith(exitRefused, fmt.Errorf("%s: not given back (%s)", name, reasonText(res.Reason)))
}

func existingText(res payclient.Result) string {
	if res.Existing {
		return ", as known from an earlier run"
	}
	return ""
}

// failed ends the program for a refund of which this run has sent nothing.
func (r *refunding) failed(res payclient.Result, err error) error {
	var conflict *attempt.ConflictError
	if res.Attempt.IsRefund() {
		if errors.As(err, &conflict) {
			return exitWith(exitRefused, fmt.Errorf("the refund %s is another one: attempt %s is %s and gives back %s of charge %s; nothing was sent",
				res.Attempt.Refund.ID, res.AttemptID, res.Attempt.Status, res.Attempt.Amount, res.Attempt.Refund.ChargeID))
		}
		return exitWith(exitRefused, withoutCards(err))
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return provider(err)
	case errors.Is(err, attempt.ErrInvalidIntent):
		return usage(err)
	case errors.Is(err, attempt.ErrUnavailable):
		return fatal(err)
	case errors.As(err, &conflict) && conflict.Differs == "provider":
		there, here := conflict.Attempt.Place(), r.client.Place()
		err = fmt.Errorf("attempt %s was paid at %s, this command refunds at %s. %s", conflict.Attempt.ID, placeText(there), placeText(here), wayTo(there, here))
	}
	return r.refuse(withoutCards(err))
}

// withoutCards is an error fit to be shown: what the provider or a person wrote may hold a card number.
func withoutCards(err error) error { return errors.New(batch.HideCards(err.Error())) }

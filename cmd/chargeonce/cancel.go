package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
)

func (a *app) cancelCommand() *cobra.Command {
	slot, reason := attempt.Slot{}, ""
	cmd := &cobra.Command{
		Use:   "cancel ORDER --reason TEXT",
		Short: "Cancel an order: it takes no payment any more, and money of it is owed back",
		Long: `Cancel an order. It takes no payment any more, for ever, also where nothing of it was ever
paid or started; that is stored first. What was only prepared ends; about what may have been
sent the provider is asked, and a charge that is not final is cancelled there, where the
provider can. Money of the order, found now or later, is owed back: chargeonce reconcile
gives it back, once. Cancelling again is the same question once more.

What became of the money is printed. In JSON, "moved" is no, maybe or yes, "message" says it
in words, and "attempt" has the fields of chargeonce attempts list, null where the order was
never paid for.

Exit codes: 0 cancelled, and no money of it is there; 5 cancelled, and money of it may have
moved or is owed back: see chargeonce reconcile; 1 the database, 2 the command line or the
settings, 4 the provider's configuration; with these three the order is not cancelled.`,
		Args:        cobra.ExactArgs(1),
		Annotations: leavesUndone("nothing was cancelled or sent"),
		RunE: func(cmd *cobra.Command, args []string) error {
			slot.Order = args[0]
			slot = slot.WithDefaults()
			if err := errors.Join(slot.Validate(), storedText("--reason", reason, 1, maxReason)); err != nil {
				return usage(fmt.Errorf("%w; the order is not cancelled", err))
			}
			return a.working(cmd, func(w *work) error { return w.cancel(slot, reason) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&reason, "reason", "", "why it is cancelled; kept with the order")
	slotFlags(cmd, &slot)
	return cmd
}

// slotFlags are the flags that name a slot beside its order.
func slotFlags(cmd *cobra.Command, slot *attempt.Slot) {
	cmd.Flags().StringVar(&slot.Account, "account", "", "the merchant in whose name the order is paid")
	cmd.Flags().StringVar(&slot.Purpose, "purpose", attempt.PurposeCharge, "what of the order is paid")
}

// cancelRecord is the JSON of a cancelled order: a contract. Fields may be added, none is removed or changes its meaning.
type cancelRecord struct {
	Order   string          `json:"order"`
	Account string          `json:"account"`
	Purpose string          `json:"purpose"`
	Outcome string          `json:"outcome"` // as attempts list has it; not_paid: no money, and none will come
	Moved   payclient.Moved `json:"moved"`
	Reason  attempt.Reason  `json:"reason"`
	Message string          `json:"message"`
	Attempt *attemptRecord  `json:"attempt"` // the one that speaks for the order; null: it was never paid for
}

var cancelColumns = []column{{name: "ORDER", width: 14}, {name: "MOVED", width: 5}, {name: "ATTEMPT", width: 36}, {name: "DETAIL"}}

func (w *work) cancel(slot attempt.Slot, reason string) error {
	w.begin()
	res, err := w.client.CancelOrder(w.signals.calls, slot, reason)
	switch {
	case errors.Is(err, attempt.ErrInvalidIntent):
		return usage(err)
	case err != nil:
		return fatal(fmt.Errorf("%w; it is not known to be cancelled, run the same command again", err))
	}
	rec := cancelRecord{
		Order: slot.Order, Account: slot.Account, Purpose: slot.Purpose, Outcome: notPaid, Moved: res.Moved, Reason: res.Reason,
		Message: cancelText(res, w.client.Place()),
	}
	if res.AttemptID != "" {
		told := attemptRecordOf(res.Attempt, time.Now())
		rec.Outcome, rec.Attempt = told.Outcome, &told
	}
	out := newWriter(w.out, w.settings.output, cancelColumns...)
	if err := out.add(rec, func() []string { return []string{slot.String(), res.Moved.String(), res.AttemptID, rec.Message} }); err != nil {
		return fatal(err)
	}
	if err := out.close(); err != nil {
		return fatal(err)
	}
	if res.RecordErr != nil {
		w.tell("the order is cancelled, but what the provider answered is not stored: %v", res.RecordErr)
	}
	if res.Moved == payclient.MovedNo {
		return nil
	}
	return &exitError{code: exitUnknown}
}

// cancelText says what became of a cancelled order's money.
func cancelText(res payclient.Result, here attempt.Place) string {
	switch {
	case res.AttemptID == "":
		return "cancelled; it was never paid for"
	case res.Moved == payclient.MovedNo:
		return strings.Join(nonEmpty([]string{"cancelled; no money of it is there", reasonText(res.Reason)}), ": ")
	case res.NotPaid():
		return "cancelled; money of it is there, and was left there by a decision: chargeonce attempts show tells whose"
	case res.Moved == payclient.MovedYes:
		for _, d := range res.Attempt.Duties {
			if d.MetAt.IsZero() {
				return fmt.Sprintf("cancelled; %s of charge %s is owed back (%s): chargeonce reconcile does it", d.Amount, d.ChargeID, d.Kind)
			}
		}
		return "cancelled; money of it is there, and owed back"
	}
	text := fmt.Sprintf("cancelled; money of it may have moved (%s): chargeonce reconcile asks on, and gives back what turns up", reasonText(res.Reason))
	if there := res.Attempt.Place(); there != here {
		text += fmt.Sprintf(". It was sent to %s, and this command asks %s. %s", placeText(there), placeText(here), advice(there, here))
	}
	return text
}

func reasonText(r attempt.Reason) string { return strings.ReplaceAll(string(r), "_", " ") }

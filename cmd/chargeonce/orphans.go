package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/reconcile/webhook"
)

// orphanRecord is the JSON of an event that fits no attempt: a contract. Fields may be added, none is removed or changes its
// meaning.
type orphanRecord struct {
	Event       string                `json:"event"`
	Why         webhook.Why           `json:"why"`
	At          *time.Time            `json:"at"`
	Type        string                `json:"type"`
	Refund      bool                  `json:"refund"`
	Reference   string                `json:"reference"`
	ProviderID  string                `json:"provider_id"` // the charge's, or the refund's
	Status      *attempt.ChargeStatus `json:"status"`      // null: the event cannot be read
	Amount      string                `json:"amount"`
	AmountMinor int64                 `json:"amount_minor"`
	Currency    string                `json:"currency"`
	SHA256      string                `json:"sha256"` // of a payload that cannot be read
	Size        int                   `json:"size"`
}

var orphanColumns = []column{
	{name: "EVENT", width: 14}, {name: "CAME", width: 24}, {name: "WHY", width: 16}, {name: "TYPE", width: 18}, {name: "CHARGE", width: 10},
	{name: "AMOUNT", width: 14, right: true}, {name: "REFERENCE"},
}

func (a *app) orphansCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "orphans",
		Short: "List events that the provider has signed and that fit no attempt",
		Long: `List the webhook events that a service has taken from the provider of the settings, and that
fit no attempt of its place: somebody else uses the account, or the database has lost an
attempt. Those whose attempt appears later are taken up by chargeonce reconcile. The
provider is not asked.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.settings(cmd)
			if err != nil {
				return usage(errors.Join(err, s.check()))
			}
			if err := s.mistakes(); err != nil {
				return err
			}
			place, err := s.place()
			if err != nil {
				return provider(err)
			}
			return a.looking(cmd, func(ctx context.Context, s settings, store attempt.Store) error {
				return fatal(a.orphans(ctx, s, store, place))
			})
		},
	}
}

func (a *app) orphans(ctx context.Context, s settings, store attempt.Store, place attempt.Place) error {
	w := newWriter(a.out, s.output, orphanColumns...)
	for o, err := range webhook.Orphans(ctx, store, place) {
		if err != nil {
			return err
		}
		n := o.Notice
		rec := orphanRecord{
			Event: o.EventID, Why: o.Why, At: timeOf(o.At), Type: n.Type, Refund: n.Refund, Reference: n.Reference, ProviderID: n.Charge.ID,
			SHA256: o.SHA256, Size: o.Size,
		}
		if o.SHA256 == "" {
			rec.Status = &n.Charge.Status
		}
		rec.Amount, rec.AmountMinor, rec.Currency = amountOf(n.Charge.Amount)
		err := w.add(rec, func() []string {
			return []string{o.EventID, stamp(o.At), string(o.Why), n.Type, n.Charge.ID, amountText(n.Charge), n.Reference}
		})
		if err != nil {
			return err
		}
	}
	return w.close()
}

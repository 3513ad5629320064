package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chargeonce/chargeonce/attempt"
)

func (a *app) attemptsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "attempts",
		Short: "See what became of payments, and decide where nothing else does",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.listCommand(), a.showCommand(), a.resolveCommand(), a.orphansCommand(), a.exportCommand())
	return cmd
}

// looking opens the database for a command that only reads it.
func (a *app) looking(cmd *cobra.Command, look func(ctx context.Context, s settings, store attempt.Store) error) (err error) {
	s, err := a.settings(cmd)
	if err != nil {
		return usage(err)
	}
	store, err := s.db.openExisting(cmd.Context(), true)
	if err != nil {
		return fatal(err)
	}
	defer func() { err = keep(err, store.Close()) }()
	return look(cmd.Context(), s, store)
}

func (a *app) listCommand() *cobra.Command {
	var filter attempt.Filter
	var statuses []string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List attempts, oldest first",
		Long: `List attempts, oldest first.

In JSON, "amount" is a text in major units ("548.90") and "amount_minor" the same in
minor units (54890). "outcome" is approved, declined, unknown, contract_violation, or
not_paid for an attempt that is prepared or abandoned, or whose money was given back in
full. "kind" is charge or refund: a refund is an attempt of its own, which gives money of
the charge in "refund" back, and its amount is what goes out. "duties" are what is owed:
a refund, or a person's review; those without "met_at" are open, and in "owes".`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, text := range statuses {
				status, err := attempt.ParseStatus(text)
				if err != nil {
					return usage(fmt.Errorf("--status: %w", err))
				}
				filter.Statuses = append(filter.Statuses, status)
			}
			if filter.Limit < 0 {
				return usage(fmt.Errorf("--limit: %d is negative", filter.Limit))
			}
			return a.looking(cmd, func(ctx context.Context, s settings, store attempt.Store) error {
				return fatal(a.list(ctx, s, store, filter))
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&filter.Open, "open", false, "only those that have not ended: prepared, sending, unknown")
	flags.BoolVar(&filter.Owing, "owing", false, "only those that owe something: a refund, or a person's review")
	flags.StringSliceVar(&statuses, "status", nil, "only those with this status; several with commas")
	flags.StringVar(&filter.Order, "order", "", "only those of this order")
	flags.IntVar(&filter.Limit, "limit", 0, "at most this many")
	var names []string
	for _, s := range attempt.Statuses() {
		names = append(names, s.String())
	}
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

var listColumns = []column{
	{name: "ATTEMPT", width: 36}, {name: "ORDER", width: 14}, {name: "AMOUNT", width: 14, right: true}, {name: "STATUS", width: 9},
	{name: "OUTCOME", width: 9}, {name: "MOVED", width: 5}, {name: "CHARGE", width: 10}, {name: "CREATED", width: 20}, {name: "DETAIL"},
}

func (a *app) list(ctx context.Context, s settings, store attempt.Store, filter attempt.Filter) error {
	w := newWriter(a.out, s.output, listColumns...)
	for one, err := range store.List(ctx, filter) {
		if err != nil {
			return err
		}
		r := attemptRecordOf(one, time.Now())
		if err := w.add(r, func() []string { return listCells(one, r) }); err != nil {
			return err
		}
	}
	return w.close()
}

func listCells(a attempt.Attempt, r attemptRecord) []string {
	return []string{
		a.ID, a.Slot.String(), a.Amount.String(), a.Status.String(), r.Outcome, r.Moved.String(), r.ProviderID,
		a.CreatedAt.UTC().Format(time.RFC3339), listDetail(a, r),
	}
}

// listDetail says why an attempt stands as it does, and what a person must know of it.
func listDetail(a attempt.Attempt, r attemptRecord) string {
	parts := []string{string(r.Reason)}
	if a.IsRefund() {
		parts = append(parts, "refund "+a.Refund.ID+" of "+a.Refund.ChargeID)
	}
	for _, c := range a.Charges {
		if c.Refunded != 0 {
			parts = append(parts, fmt.Sprintf("%s given back", refundedOf(c)))
		}
	}
	for _, kind := range owed(a) {
		if string(r.Reason) != kind+"_owed" {
			parts = append(parts, kind+" owed")
		}
	}
	if !a.UnwantedAt.IsZero() {
		parts = append(parts, "order cancelled")
	}
	if !a.AskingEndedAt.IsZero() {
		parts = append(parts, "asking ended")
	}
	return strings.Join(nonEmpty(parts), ", ")
}

func (a *app) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Write all attempts with their history as JSON Lines",
		Long: `Write all attempts with their history to standard output, one JSON object per line:
the fields of "attempts list --output json", and "events".`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f := cmd.Flags().Lookup("output"); f.Changed && f.Value.String() == string(outputTable) {
				return usage(errors.New("--output: export writes JSON Lines; for a table, chargeonce attempts list"))
			}
			return a.looking(cmd, func(ctx context.Context, _ settings, store attempt.Store) error {
				w := newWriter(a.out, outputJSONL)
				for one, err := range store.List(ctx, attempt.Filter{}) {
					if err != nil {
						return fatal(err)
					}
					if err := addWithEvents(ctx, w, store, one); err != nil {
						return fatal(err)
					}
				}
				return fatal(w.close())
			})
		},
	}
}

func addWithEvents(ctx context.Context, w *writer, store attempt.Store, a attempt.Attempt) error {
	events, err := store.Events(ctx, a.ID)
	if err != nil {
		return err
	}
	r := attemptRecordOf(a, time.Now())
	r.Events = eventRecords(events)
	return w.add(r, nil)
}

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID|ORDER",
		Short: "Show an attempt, or all attempts of an order, with their history",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.looking(cmd, func(ctx context.Context, s settings, store attempt.Store) error {
				found, err := find(ctx, store, args[0])
				if err != nil {
					return fatal(err)
				}
				if s.output != outputTable {
					w := newWriter(a.out, s.output)
					for _, one := range found {
						if err := addWithEvents(ctx, w, store, one); err != nil {
							return fatal(err)
						}
					}
					return fatal(w.close())
				}
				for i, one := range found {
					if i > 0 {
						if _, err := fmt.Fprintln(a.out); err != nil {
							return fatal(err)
						}
					}
					if err := a.show(ctx, store, one); err != nil {
						return fatal(err)
					}
				}
				return nil
			})
		},
	}
}

// find returns the attempt with that id, or the attempts of that order, oldest first.
func find(ctx context.Context, store attempt.Store, name string) ([]attempt.Attempt, error) {
	one, err := store.Attempt(ctx, name)
	if err == nil {
		return []attempt.Attempt{one}, nil
	}
	if !errors.Is(err, attempt.ErrNotFound) {
		return nil, err
	}
	var found []attempt.Attempt
	for one, err := range store.List(ctx, attempt.Filter{Order: name}) {
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	if len(found) == 0 {
		slot := attempt.Slot{Order: name}.WithDefaults()
		if view, err := store.Slot(ctx, slot); err == nil && slot.Validate() == nil && !view.ClosedAt.IsZero() {
			return nil, fmt.Errorf("order %s: cancelled %s, and never paid for", slot, stamp(view.ClosedAt))
		}
		return nil, fmt.Errorf("%s: no attempt and no order of that name", cleanField(name))
	}
	return found, nil
}

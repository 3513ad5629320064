package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/chargeonce/chargeonce/attempt"
)

// decision is what a person may decide, as the command line writes it.
type decision struct {
	name string
	kind attempt.ResolutionKind
	what string
}

var decisions = []decision{
	{"charged", attempt.ResolvedCharged, "the provider holds the charge --charge, of the attempt's amount"},
	{"not-charged", attempt.ResolvedNotCharged, "the provider holds nothing, and will not"},
	{"ask-again", attempt.ResolvedAskAgain, "the provider is asked on, although asking had ended"},
	{"refund", attempt.ResolvedRefund, "the money of --charge goes back (chargeonce reconcile does it)"},
	{"review", attempt.ResolvedReview, "a person looks before the money of --charge goes back"},
	{"keep", attempt.ResolvedKeep, "the money of --charge stays, as the order's payment"},
	{"dismiss", attempt.ResolvedDismiss, "there is nothing to do about --charge"},
}

func decisionNames() []string {
	names := make([]string, len(decisions))
	for i, d := range decisions {
		names[i] = d.name
	}
	return names
}

func decisionsText() string {
	var b strings.Builder
	for _, d := range decisions {
		fmt.Fprintf(&b, "  %-12s %s\n", d.name, d.what)
	}
	return b.String()
}

// resolving is one decision of a person's.
type resolving struct {
	*app
	settings settings
	id       string
	as       string
	decision attempt.Resolution
	by       string
	version  int
	offline  bool
}

func (a *app) resolveCommand() *cobra.Command {
	r := &resolving{}
	cmd := &cobra.Command{
		Use:   "resolve ATTEMPT --as DECISION --reason TEXT --by NAME",
		Short: "Decide about an attempt where no evidence decides",
		Long: `Decide about an attempt where no evidence decides. The decision is added to the attempt's
history, with the reason and the name of who decides: it edits nothing, and whatever the
provider says later counts all the same. DECISION is one of

` + decisionsText() + `
There is no decision to send again: what was surely not sent is sent by paying, and what
may have been sent is not sent again because somebody says so.

First the provider is asked, where it can be, and its answer recorded. The decision counts
for the version that the person saw: --version, which attempts show prints. Without it the
decision is refused if the answer brings news. --offline asks nobody, and needs --version.

Exit codes: 0 decided, 1 the database, 2 the command line, 4 the provider's configuration
or credentials, or it could not be asked, 7 refused, with what is new or possible instead;
nothing was decided then.`,
		Args:        cobra.ExactArgs(1),
		Annotations: leavesUndone("nothing was decided"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.app, r.id = a, args[0]
			if err := r.check(cmd); err != nil {
				return usage(err)
			}
			if r.offline {
				return a.looking(cmd, func(ctx context.Context, s settings, store attempt.Store) error {
					r.settings = s
					return r.decide(ctx, store, nil)
				})
			}
			return a.working(cmd, func(w *work) error {
				r.settings = w.settings
				return r.decide(w.signals.calls, w.store, w.client)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.as, "as", "", "the decision, see above")
	flags.StringVar(&r.decision.Why, "reason", "", "why it is decided so; kept in the history")
	flags.StringVar(&r.by, "by", "", "who decides; kept in the history")
	flags.StringVar(&r.decision.ChargeID, "charge", "", "the provider's charge that it is about; where one duty is open, the default is its charge")
	flags.StringVar(&r.decision.Proof, "evidence", "", "where the evidence is kept: a ticket, a letter")
	flags.IntVar(&r.version, "version", 0, "the version of the attempt that was looked at")
	flags.BoolVar(&r.offline, "offline", false, "do not ask the provider first")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("as", cobra.FixedCompletions(decisionNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check reports every mistake in what was given.
func (r *resolving) check(cmd *cobra.Command) error {
	errs := []error{
		storedText("--reason", r.decision.Why, 1, maxReason),
		storedText("--by", r.by, 1, maxName),
		storedText("--evidence", r.decision.Proof, 0, maxReason),
		plainText("--charge", r.decision.ChargeID, 0, attempt.MaxNoticeIDLength),
	}
	i := slices.IndexFunc(decisions, func(d decision) bool { return d.name == r.as })
	if i < 0 {
		errs = append(errs, fmt.Errorf("--as: %q: want one of %s", cleanField(r.as), strings.Join(decisionNames(), ", ")))
	} else {
		r.decision.Kind = decisions[i].kind
	}
	if r.decision.Kind == attempt.ResolvedCharged && r.decision.ChargeID == "" {
		errs = append(errs, errors.New("--charge: missing, want the provider's id of the charge"))
	}
	if r.version < 0 || r.version == 0 && cmd.Flags().Changed("version") {
		errs = append(errs, errors.New("--version: want a number from 1, as attempts show prints it"))
	}
	if r.offline && r.version == 0 {
		errs = append(errs, errors.New("--version: missing; with --offline nothing else tells what was looked at"))
	}
	return errors.Join(errs...)
}

// decide asks, and adds the decision. Without a client nobody is asked.
func (r *resolving) decide(ctx context.Context, store attempt.Store, client *connection) error {
	before, err := store.Attempt(ctx, r.id)
	if err != nil {
		return fatal(fmt.Errorf("%w; nothing was decided", named(r.id, err)))
	}
	if r.version != 0 && r.version != before.Version {
		return r.refuseNews(ctx, store, before, r.version, fmt.Sprintf("it is at version %d, the decision was taken on %d", before.Version, r.version))
	}
	now, schedule := before, &attempt.Schedule{}
	if client != nil {
		planned := client.Schedule()
		schedule = &planned
		if now, err = r.ask(ctx, store, client, before); err != nil {
			return err
		}
		if news(before, now) {
			return r.refuseNews(ctx, store, now, before.Version, "the provider was asked first, and its answer brings news")
		}
	}
	r.chooseCharge(now)
	step := &attempt.Resolve{ID: r.id, Version: now.Version, Who: r.by, Resolution: r.decision, Schedule: schedule}
	r.begin()
	err = store.Apply(ctx, step.Step())
	switch {
	case errors.Is(err, attempt.ErrNewerEvidence):
		return r.refuseNews(ctx, store, step.Attempt, now.Version, "something was learnt at this very moment")
	case errors.Is(err, attempt.ErrNotResolvable):
		return r.refuse(ctx, store, err)
	case err != nil:
		return fatal(err)
	}
	return fatal(r.writeAttempt(ctx, r.settings, store, r.id))
}

// named says which attempt is missing.
func named(id string, err error) error {
	if errors.Is(err, attempt.ErrNotFound) {
		return fmt.Errorf("%s: no such attempt; attempts list names them", cleanField(id))
	}
	return err
}

// chooseCharge takes the charge of the only open duty where none was named.
func (r *resolving) chooseCharge(a attempt.Attempt) {
	switch r.decision.Kind {
	case attempt.ResolvedRefund, attempt.ResolvedReview, attempt.ResolvedKeep, attempt.ResolvedDismiss:
	default:
		return
	}
	var charges []string
	for _, d := range a.Duties {
		if d.MetAt.IsZero() && !slices.Contains(charges, d.ChargeID) {
			charges = append(charges, d.ChargeID)
		}
	}
	if r.decision.ChargeID == "" && len(charges) == 1 {
		r.decision.ChargeID = charges[0]
	}
}

// ask asks the provider about the attempt and records the answer.
func (r *resolving) ask(ctx context.Context, store attempt.Store, client *connection, a attempt.Attempt) (attempt.Attempt, error) {
	if here, there := client.Place(), a.Place(); here != there {
		return a, provider(fmt.Errorf("attempt %s belongs to %s, this command asks %s: nothing was decided. %s; or decide with --offline",
			a.ID, placeText(there), placeText(here), wayTo(there, here)))
	}
	if client.Schedule().CannotAsk || a.Status == attempt.StatusPrepared {
		return a, nil
	}
	view, err := store.Slot(ctx, a.Slot)
	if err != nil {
		return a, fatal(err)
	}
	if !a.ClaimedUntil(view.Now).IsZero() {
		return a, nil // it is being sent: what is decided says so
	}
	r.begin()
	evidence, err := client.Ask(ctx, a, view.Now)
	if err == nil && evidence.Lookup != attempt.LookupFound && evidence.Lookup != attempt.LookupNone {
		err = fmt.Errorf("it gave no usable answer (%s)", evidence.Lookup)
	}
	if err != nil {
		return a, provider(fmt.Errorf("the provider could not be asked first: %w; nothing was decided. Try again, or decide with --offline --version %d", err, a.Version))
	}
	schedule := client.Schedule()
	rec := &attempt.Record{ID: a.ID, Who: r.settings.whoami(), Evidence: evidence, Schedule: &schedule}
	if err := store.Apply(ctx, rec.Step(&a)); err != nil {
		return a, fatal(fmt.Errorf("attempt %s: record the provider's answer: %w; nothing was decided", a.ID, err))
	}
	return rec.Attempt, nil
}

// news tells whether something is known of an attempt that was not: more than that the provider has said the same once more.
func news(before, after attempt.Attempt) bool {
	return before.Status != after.Status || before.Fence != after.Fence || before.Sends != after.Sends || !slices.Equal(before.Charges, after.Charges) || !slices.Equal(before.Duties, after.Duties) ||
		before.AskingEndedAt != after.AskingEndedAt || before.UnwantedAt != after.UnwantedAt
}

// refuseNews refuses a decision and says what is new since a version.
func (r *resolving) refuseNews(ctx context.Context, store attempt.Store, a attempt.Attempt, since int, why string) error {
	events, err := store.Events(ctx, a.ID)
	if err != nil {
		return fatal(err)
	}
	var b strings.Builder
	for _, e := range events {
		if e.Version > since {
			writeEvent(&b, e)
		}
	}
	text := fmt.Sprintf("attempt %s: nothing was decided: %s.", a.ID, why)
	if b.Len() > 0 {
		text += " New is:\n" + b.String()
	}
	told := a.Tell(time.Now())
	text += fmt.Sprintf("\nIt is %s now, money moved: %s, version %d.%s", a.Status, told.Moved, a.Version, r.possible(ctx, store))
	return exitWith(exitRefused, errors.New(strings.TrimRight(text, "\n")))
}

func (r *resolving) refuse(ctx context.Context, store attempt.Store, err error) error {
	return exitWith(exitRefused, fmt.Errorf("%w.%s", err, r.possible(ctx, store)))
}

// possible says what may be decided about the attempt as it stands.
func (r *resolving) possible(ctx context.Context, store attempt.Store) string {
	a, err := store.Attempt(ctx, r.id)
	if err != nil {
		return ""
	}
	view, err := store.Slot(ctx, a.Slot)
	if err != nil {
		return ""
	}
	var can []string
	for _, d := range decisions {
		// The rules are those of the decision itself, tried on what is there and not stored.
		charges := []string{""}
		switch d.kind {
		case attempt.ResolvedCharged:
			charges = []string{"CHARGE"}
		case attempt.ResolvedNotCharged, attempt.ResolvedAskAgain:
		default:
			charges = nil
			for _, duty := range a.Duties {
				if duty.MetAt.IsZero() && !slices.Contains(charges, duty.ChargeID) {
					charges = append(charges, duty.ChargeID)
				}
			}
		}
		for _, charge := range charges {
			try := attempt.Resolve{ID: a.ID, Who: r.by, Resolution: attempt.Resolution{Kind: d.kind, ChargeID: charge, Why: r.decision.Why}}
			if _, err := try.Do(view); err != nil {
				continue
			}
			text := "--as " + d.name
			if charge != "" {
				text += " --charge " + charge
			}
			can = append(can, text)
		}
	}
	if len(can) == 0 {
		return " There is nothing to decide about it as it stands"
	}
	return " Possible is: " + strings.Join(can, ", ")
}

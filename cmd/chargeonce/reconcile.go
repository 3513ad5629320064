package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/batch"
	"github.com/chargeonce/chargeonce/reconcile"
)

func (a *app) reconcileCommand() *cobra.Command {
	var watch, all bool
	cmd := &cobra.Command{
		Use:   "reconcile",
		Short: "Ask about payments whose outcome nobody knows, and give surplus money back",
		Long: `Ask the provider about every payment and refund that is due to be asked about, and give
surplus money back whose grace is over: one pass, or pass after pass with --watch, until
SIGINT or SIGTERM. Any number of runs may work on one database, beside pay.

A payment is asked about 2 minutes after it was sent, and then ever more rarely
(timings.min_age, timings.ask_waits); --all asks at once about all that are open. One that
the provider does not know is abandoned by the rule of chargeonce doctor's timings, no
sooner than --abandon-after since it was sent; then its order can be paid again. One that
nobody could tell about for 7 days (timings.ask_for) is left to a person: attempts resolve.

What was looked at goes to standard output, one line for each. In JSON, a line has "type"
attempt ("was": the status before, null for a refund that is owed; "changed", "message", "attempt" with the fields of
chargeonce attempts list, "opened": new duties), or type pass, at the end of each pass, with
its counts: taken, asked, listed, approved, declined, rejected, abandoned, open,
asking_ended, duties_opened, refunds (made, waiting, refused), kept, reviewed, failed, and
"standing", what the database then holds: open, refunds_owed, reviews_owed, asking_ended,
elsewhere.

Exit codes: 0 nothing is open and nothing owed; 5 something is, at whatever place; 130
interrupted, 1 the database or the output (5 goes before both), 2 the command line or the
settings, 4 the provider's configuration or credentials.`,
		Args:        cobra.NoArgs,
		Annotations: leavesUndone("nothing was asked"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.working(cmd, func(w *work) error { return w.reconcile(watch, all) })
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&watch, "watch", false, "pass after pass, until interrupted")
	flags.BoolVar(&all, "all", false, "also what is not due yet")
	flags.String("late-money", "", `what becomes of money that comes too late: refund, review, keep (default "refund")`)
	flags.String("every", "", "how long --watch waits where nothing is due sooner (default 10s)")
	flags.Int("concurrency", 0, "questions under way at once (default 8)")
	timingFlags(cmd)
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("late-money", cobra.FixedCompletions(lateMoneys, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// timingFlags are the flags of the times at which a payment is asked about and given up.
func timingFlags(cmd *cobra.Command) {
	cmd.Flags().String("ask-after", "", "when a payment is asked about first, counted from its claim (default 2m)")
	cmd.Flags().String("abandon-after", "", "when one that the provider does not know is given up, or never (default: the larger of 30m and 3 lags)")
}

// reconcileRecord is the JSON of one attempt that was looked at, and passRecord that of a pass: a contract. Fields may be
// added, none is removed or changes its meaning.
type reconcileRecord struct {
	Type    string          `json:"type"`    // attempt
	Was     *attempt.Status `json:"was"`     // null: a refund by which the pass pays a duty
	Changed bool            `json:"changed"` // more is known than before
	Message string          `json:"message"`
	Opened  []dutyRecord    `json:"opened"` // duties that were found
	Attempt attemptRecord   `json:"attempt"`
}

type passRecord struct {
	Type string `json:"type"` // pass
	reconcile.Report
	Standing standing `json:"standing"`
}

// standing is what the database holds after a pass.
type standing struct {
	Open        int `json:"open"` // money may have moved, and it is not settled
	RefundsOwed int `json:"refunds_owed"`
	ReviewsOwed int `json:"reviews_owed"`
	AskingEnded int `json:"asking_ended"` // of the open ones, those that a person has to decide about
	Elsewhere   int `json:"elsewhere"`    // of all these attempts, those of other places

	places map[attempt.Place]int
	notDue int       // of the open ones here, those that nobody was to look at yet
	next   time.Time // of those, when the first is
	todo   []string  // what is to be done
}

func (s *standing) settled() bool { return s.Open+s.RefundsOwed+s.ReviewsOwed == 0 }

var reconcileColumns = []column{
	{name: "ATTEMPT", width: 36}, {name: "ORDER", width: 14}, {name: "AMOUNT", width: 14, right: true}, {name: "STATUS", width: 9},
	{name: "MOVED", width: 5}, {name: "CHARGE", width: 10}, {name: "DETAIL"},
}

// reconciling is one run of reconcile.
type reconciling struct {
	*work
	here  attempt.Place
	watch bool

	mu      sync.Mutex // guards all below, and the output
	out     *writer
	failed  error // of the output
	told    map[string]attempt.LookupAnswer
	asked   int
	useless int // answers that cannot be relied on
	last    standing
	counts  string // of what stood after the pass before
}

func (w *work) reconcile(watch, all bool) error {
	r := &reconciling{
		work: w, here: w.client.Place(), watch: watch, told: make(map[string]attempt.LookupAnswer),
		out: newWriter(w.out, w.settings.output, reconcileColumns...),
	}
	r.out.flush = true
	w.client.asked = r.sawAnswer
	store := w.store
	if all {
		every := &everything{Store: w.store}
		defer every.end()
		store = every
	}
	call := w.client.config.CallTimeout + w.client.config.RecordTimeout
	ask := max(reconcile.DefaultAskTimeout, 2*call)
	listFrom := w.settings.reconcile.listFrom
	if listFrom == 0 {
		listFrom = -1
	}
	adopt, err := w.adopting()
	if err != nil {
		return fatal(err)
	}
	engine, err := reconcile.New(reconcile.Config{
		Store: store, Askers: []reconcile.Asker{w.client.Client}, Concurrency: w.settings.concurrency,
		AskTimeout: ask, Lease: max(reconcile.DefaultLease, 2*ask), Every: w.settings.reconcile.every, ListFrom: listFrom,
		Policy: reconcile.Policy{LateMoney: w.settings.reconcile.lateMoney}, Also: []func(context.Context) error{adopt},
		Who:      w.settings.whoami(),
		Observer: reconcile.Observer{Recorded: r.recorded, Refunded: r.refunded, Failed: r.notDone, Passed: r.passed},
	})
	if err != nil {
		return usage(inOwnWords(err)) // of what only this command has, nothing is the provider's
	}
	w.begin()
	if watch {
		w.tell("asking until interrupted")
		err = engine.Run(w.signals.start)
	} else {
		_, err = engine.RunOnce(w.signals.start)
	}
	return r.end(err)
}

// standTime bounds the last look at what is open, of a run that is to end.
const standTime = 5 * time.Second

// end says with which code the program ends.
func (r *reconciling) end(err error) error {
	if closed := r.out.close(); r.failed == nil {
		r.failed = closed
	}
	interrupted := r.signals.start.Err() != nil
	var unread error
	if interrupted { // nothing was summed up after the end
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.signals.calls), standTime)
		defer cancel()
		var last standing
		if last, unread = r.stand(ctx); unread == nil {
			r.last = last
		}
	}
	code, why := exitOK, error(nil)
	switch {
	case r.failed != nil:
		code, why = exitFatal, fmt.Errorf("write the results: %w", r.failed)
	case interrupted && r.watch && unread != nil:
		code, why = exitFatal, fmt.Errorf("interrupted, and what is open could not be read: %w", withoutCards(unread))
	case interrupted && r.watch: // its way to end
	case interrupted:
		code, why = exitInterrupted, errors.New("interrupted; run the same command again to go on: nothing is asked or given back twice")
	case err != nil:
		code, why = exitFatal, withoutCards(err)
	}
	if !r.last.settled() {
		code = exitUnknown
	}
	if code == exitOK {
		return nil
	}
	return &exitError{code: code, err: why}
}

func (r *reconciling) sawAnswer(reference string, answer attempt.LookupAnswer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told[reference] = answer
	r.asked++
	if answer != attempt.LookupFound && answer != attempt.LookupNone {
		r.useless++
	}
}

// recorded tells of an attempt that was looked at.
func (r *reconciling) recorded(_ context.Context, before, after attempt.Attempt, opened []attempt.Duty) {
	r.mu.Lock()
	defer r.mu.Unlock()
	answer, asked := r.told[after.Reference]
	delete(r.told, after.Reference)
	changed := news(before, after)
	if !changed && after.Status.Final() {
		return // it was watched, or owes something: what comes of that is told elsewhere
	}
	r.write(&before.Status, after, changed, opened, lookText(before, after, opened, answer, asked))
}

// write writes the line of an attempt. The caller holds mu.
func (r *reconciling) write(was *attempt.Status, a attempt.Attempt, changed bool, opened []attempt.Duty, message string) {
	rec := attemptRecordOf(a, time.Now())
	line := reconcileRecord{Type: "attempt", Was: was, Changed: changed, Message: message, Opened: dutyRecords(opened), Attempt: rec}
	err := r.out.add(line, func() []string {
		return []string{a.ID, a.Slot.String(), a.Amount.String(), a.Status.String(), rec.Moved.String(), rec.ProviderID, message}
	})
	if r.failed == nil {
		r.failed = err
	}
}

// lookText says what came of a look at an attempt.
func lookText(before, after attempt.Attempt, opened []attempt.Duty, answer attempt.LookupAnswer, asked bool) string {
	var parts []string
	if after.IsRefund() {
		parts = append(parts, fmt.Sprintf("refund %s of %s", after.Refund.ID, after.Refund.ChargeID))
	}
	again := ""
	if !after.NextCheckAt.IsZero() {
		again = ", will ask again in " + about(time.Until(after.NextCheckAt))
	}
	switch {
	case before.Status != after.Status && after.Status == attempt.StatusAbandoned && !after.IsRefund() && after.UnwantedAt.IsZero():
		parts = append(parts, "never charged: the order can be paid again")
	case before.Status != after.Status:
		parts = append(parts, "was "+before.Status.String())
	case !before.AskingEndedAt.Equal(after.AskingEndedAt):
		parts = append(parts, "asking has ended: a person has to decide, see attempts resolve")
	case after.Status.Final():
	case after.Status == attempt.StatusPrepared:
		parts = append(parts, "not sent: pay again")
	case len(after.Charges) > 0:
		parts = append(parts, string(after.Tell(after.UpdatedAt).Reason)+again)
	case !asked:
		parts = append(parts, "not asked"+again)
	case answer == attempt.LookupNone:
		parts = append(parts, "no charge yet"+again)
	default:
		parts = append(parts, "no usable answer ("+answer.String()+")"+again)
	}
	for _, d := range opened {
		parts = append(parts, fmt.Sprintf("%s owed: charge %s, %s (%s)", d.Kind, d.ChargeID, d.Amount, d.Why))
	}
	return strings.Join(parts, ", ")
}

// about writes a time to wait in short.
func about(d time.Duration) string {
	switch {
	case d < time.Minute:
		return max(d, time.Second).Round(time.Second).String()
	case d < time.Hour:
		return short(d.Round(time.Minute))
	}
	return short(d.Round(time.Hour))
}

// refunded tells of the refund that pays a duty.
func (r *reconciling) refunded(_ context.Context, owing, refund attempt.Attempt, d attempt.Duty) {
	r.mu.Lock()
	defer r.mu.Unlock()
	told := refund.Tell(refund.UpdatedAt)
	message := fmt.Sprintf("%s of charge %s (%s, attempt %s)", refund.Amount, d.ChargeID, d.Why, owing.ID)
	switch refund.Status {
	case attempt.StatusApproved:
		message += " given back"
	case attempt.StatusDeclined, attempt.StatusRejected:
		message += " not given back, the provider refuses (" + orElse(refund.Refusal.Answer.DeclineCode, string(told.Reason)) + "): a person has to look"
	default:
		message += " not given back yet (" + string(told.Reason) + ")"
	}
	r.write(nil, refund, true, nil, message)
}

func (r *reconciling) notDone(_ context.Context, a attempt.Attempt, err error) {
	name := "reconcile"
	if a.ID != "" {
		name = "attempt " + a.ID
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell("%s: not done, will be tried again: %s", name, batch.HideCards(err.Error()))
}

// passed sums a pass up.
func (r *reconciling) passed(_ context.Context, report reconcile.Report, failure error) {
	last, err := r.stand(r.signals.calls)
	r.mu.Lock()
	defer r.mu.Unlock()
	if failure != nil && r.watch && r.signals.start.Err() == nil { // else the program ends with it
		r.tell("a pass has failed, the next one tries again: %v", withoutCards(failure))
	}
	if err != nil {
		if r.signals.start.Err() == nil {
			r.tell("what is open cannot be told: %v", err)
		}
		return
	}
	r.last = last
	if r.settings.output != outputTable {
		err := r.out.add(passRecord{Type: "pass", Report: report, Standing: last}, nil)
		if r.failed == nil {
			r.failed = err
		}
	}
	text, summary := passText(report), last.text(r.watch)
	// A watch says what is new; that nothing is, once.
	counts := fmt.Sprint(last.Open, last.RefundsOwed, last.ReviewsOwed, last.AskingEnded, last.Elsewhere)
	if counts != r.counts || report.Taken > 0 {
		for _, line := range nonEmpty([]string{text, r.uselessText(report), summary}) {
			r.tell("%s", line)
		}
		for _, line := range last.todo {
			r.tell("%s", line)
		}
	}
	r.counts, r.asked, r.useless = counts, 0, 0
	clear(r.told) // of questions before refunds, which nothing above tells of
}

func (r *reconciling) uselessText(report reconcile.Report) string {
	switch {
	case r.asked > 0 && r.useless == r.asked:
		return "the provider gave no usable answer to any question: see chargeonce doctor --online"
	case report.NotAsked > 0:
		return fmt.Sprintf("%s not asked, the provider fails too often", plural(report.NotAsked+report.Left, "payment"))
	}
	return ""
}

// passText says what a pass has done.
func passText(p reconcile.Report) string {
	if p.Taken == 0 {
		return "nothing is due"
	}
	parts := []string{plural(p.Taken, "payment") + " looked at"}
	count := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	count(p.Approved, "approved")
	count(p.Declined, "declined")
	count(p.Rejected, "rejected")
	count(p.Abandoned, "abandoned")
	count(p.Open, "still open")
	count(p.AskingEnded, "left to a person")
	if p.DutiesOpened > 0 {
		parts = append(parts, pluralOf(p.DutiesOpened, "duty", "duties")+" opened")
	}
	if p.Refunds.Made > 0 {
		parts = append(parts, plural(p.Refunds.Made, "refund")+" made")
	}
	if p.Refunds.Waiting > 0 {
		parts = append(parts, plural(p.Refunds.Waiting, "refund")+" waiting")
	}
	if p.Refunds.Refused > 0 {
		parts = append(parts, plural(p.Refunds.Refused, "refund")+" refused")
	}
	count(p.Kept, "kept")
	count(p.Reviewed, "left for review")
	count(p.Failed, "failed")
	return strings.Join(parts, ", ")
}

// text says what is open and owed.
func (s *standing) text(watched bool) string {
	if s.settled() {
		return "nothing is open, nothing is owed"
	}
	var parts []string
	if s.Open > 0 {
		parts = append(parts, fmt.Sprintf("%d open", s.Open))
	}
	if s.RefundsOwed > 0 {
		parts = append(parts, plural(s.RefundsOwed, "refund")+" owed")
	}
	if s.ReviewsOwed > 0 {
		parts = append(parts, plural(s.ReviewsOwed, "review")+" owed")
	}
	text := strings.Join(parts, ", ")
	if s.notDue > 0 {
		text += fmt.Sprintf("; %d not due, the first in %s", s.notDue, about(time.Until(s.next)))
		if !watched {
			text += ": --all asks now"
		}
	}
	for _, place := range s.sortedPlaces() {
		text += fmt.Sprintf("; %d at another place, %s, where this command does not ask", s.places[place], placeText(place))
	}
	return text
}

// sortedPlaces are the other places at which something is open.
func (s *standing) sortedPlaces() []attempt.Place {
	return slices.SortedFunc(maps.Keys(s.places), func(a, b attempt.Place) int { return strings.Compare(placeText(a), placeText(b)) })
}

// maxTold bounds how many lines tell what is to be done.
const maxTold = 20

// do notes what is to be done.
func (s *standing) do(format string, args ...any) {
	switch {
	case len(s.todo) < maxTold:
		s.todo = append(s.todo, fmt.Sprintf(format, args...))
	case len(s.todo) == maxTold:
		s.todo = append(s.todo, "and more: attempts list --owing, attempts list --open")
	}
}

// stand reads what is open and owed.
func (r *reconciling) stand(ctx context.Context) (standing, error) {
	s := standing{places: make(map[attempt.Place]int)}
	now := time.Now()
	elsewhere := func(a attempt.Attempt) bool {
		at := a.Place()
		if at == r.here {
			return false
		}
		s.Elsewhere++
		s.places[at]++
		return true
	}
	for a, err := range r.store.List(ctx, attempt.Filter{Open: true}) {
		if err != nil {
			return s, err
		}
		if a.Status == attempt.StatusPrepared {
			continue
		}
		s.Open++
		away := elsewhere(a)
		switch {
		case !a.AskingEndedAt.IsZero():
			s.AskingEnded++
			s.do("a person has to decide: order %s, %s, nobody knows: attempts resolve %s", a.Slot, a.Amount, a.ID)
		case !away && a.NextCheckAt.After(now):
			if s.notDue++; s.next.IsZero() || a.NextCheckAt.Before(s.next) {
				s.next = a.NextCheckAt
			}
		}
	}
	for a, err := range r.store.List(ctx, attempt.Filter{Owing: true}) {
		if err != nil {
			return s, err
		}
		if a.Status.Final() {
			elsewhere(a)
		}
		for _, d := range a.Duties {
			switch {
			case !d.MetAt.IsZero():
			case d.Kind == attempt.DutyRefund:
				s.RefundsOwed++
				s.do("a refund is owed: order %s, charge %s, %s (%s), attempt %s", a.Slot, d.ChargeID, d.Amount, reasonText(attempt.Reason(d.Why)), a.ID)
			default:
				s.ReviewsOwed++
				s.do("a person has to look: order %s, charge %s, %s (%s): attempts resolve %s", a.Slot, d.ChargeID, d.Amount, reasonText(attempt.Reason(d.Why)), a.ID)
			}
		}
	}
	for _, place := range s.sortedPlaces() {
		s.do("open or owed at %s. %s", placeText(place), advice(place, r.here))
	}
	return s, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/batch"
)

func (a *app) payCommand() *cobra.Command {
	var format string
	var retryDeclined bool
	cmd := &cobra.Command{
		Use:   "pay FILE",
		Short: "Pay a file of payments",
		Long: `Pay the payments in FILE ("-": standard input), at most once each.

FILE is CSV with a header, or JSON Lines, in UTF-8, with the columns

  order       the order's id; with account and purpose it names what is paid once
  amount      in major units: 548.90, 80, 35.200
  currency    an ISO 4217 code
  source      the payment source, a provider's token
  account     optional: the merchant in whose name is charged
  purpose     optional: what of the order is paid (default "charge")
  description optional: shown to the payer

in any order. A row is known by account, order and purpose, never by its line. A card
number is refused in every column. A row that cannot be read is reported with its line
and the reason, and the others are paid. A file whose columns cannot be known is refused
whole: with --output json that is [], else nothing on standard output, and the reason on
standard error.

A run can be interrupted, killed and repeated: a repetition sends only what is not known.
A declined row is known, and so is one that the provider refused as malformed
(contract_violation, moved no), unless its amount, source or description was changed
since; --retry-declined starts both anew, once per run. What credentials or the address
were refused for is sent again. A payment belongs to the provider, the environment and the
merchant account it was sent to (see chargeonce help): elsewhere it is told as unknown,
reason provider_changed, and not sent.

One result per row goes to standard output, in the file's order. Its outcome is

  approved            paid
  declined            refused by the provider, no money moved
  unknown             money may have moved; with the reason store_unavailable: nothing was
                      sent by this run, and the database could not be read, so that
                      nobody can say whether another run has
  contract_violation  an answer that breaks the API's contract; moved says whether money
                      may have moved: no, maybe, yes
  refused             the row itself: nothing was sent for it
  not_sent            no money moved; run again. (The attempt, if there is one, is told as
                      not_paid by chargeonce attempts)

A run that the database fails begins nothing more, and tells of the rows behind as far as
it can be read: what an earlier run has paid is paid.

What was learnt and could not be stored is stored before the run ends: it waits for the
database, says so, and gives up after timings.give_up_after (10m, or never). Then the
payments concerned are open there, and the next run asks or sends again under the same key.

In JSON, "existing" says that this run neither sent nor asked for the row, and
"known_before" that the database knew the payment when the run began. Both: told from an
earlier run. Only known_before: begun by an earlier run, and sent again or asked about by
this one. A row that is refused because of another payment of its order (conflict,
already_paid), or because its order was cancelled or its money given back
(order_cancelled, refunded), has that payment in "standing", with the fields of chargeonce
attempts list, and its own "id" is empty. A conflict with a payment that is open has its
"moved", and counts as unknown in the exit code; so does a cancelled order with one.

Exit codes, where several apply the first one here:
  5    some unknown, or in conflict with an unknown one: money may have moved; or what was
       learnt could not be stored. Run the same again: it sends again under the same key or
       asks, and pays nothing twice. (For rows with the reason store_unavailable this run has
       sent nothing, and nobody could read whether another has)
  130  interrupted; run the same again to go on
  1    fatal: the database or the output failed, or the file while it was read
  4    the provider's configuration or credentials
  7    some rows refused (malformed, in conflict with another payment, of an order that was
       cancelled or whose money was given back, rejected by the provider as malformed) or
       not sent; or the whole file
  3    some declined
  0    all approved
  2    the command line or the settings are wrong, or FILE cannot be opened; nothing was
       sent`,
		Args:        cobra.ExactArgs(1),
		Annotations: leavesUndone("nothing was sent"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.settings(cmd)
			if err != nil {
				return usage(errors.Join(err, s.check()))
			}
			if err := s.mistakes(); err != nil {
				return err
			}
			p := &paying{app: a, settings: s, file: args[0], retryDeclined: retryDeclined}
			if p.format, err = fileFormat(args[0], format); err != nil {
				return usage(err)
			}
			return p.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&format, "format", "", "csv or jsonl, where the file's name does not say it")
	flags.BoolVar(&retryDeclined, "retry-declined", false, "start payments anew that were declined, or rejected by the provider as malformed")
	flags.Int("concurrency", 0, "calls under way at once (default 8)")
	flags.String("settle", "", "how long the provider is asked about a payment that is unknown (default 10s)")
	timingFlags(cmd)
	return cmd
}

func fileFormat(file, said string) (batch.Format, error) {
	if said != "" {
		return batch.ParseFormat(said)
	}
	if f, ok := batch.FormatOf(file); ok {
		return f, nil
	}
	return "", fmt.Errorf("%s: not .csv or .jsonl; say --format csv or --format jsonl", file)
}

// paying is one run of pay.
type paying struct {
	*app
	settings      settings
	file          string
	format        batch.Format
	retryDeclined bool

	totals   totals
	progress progress
	out      *writer
	place    attempt.Place // where this run pays
	seen     bool          // whoever reads stderr sees the results too
	shown    int           // refused rows told on stderr
}

func (p *paying) run(ctx context.Context) (err error) {
	watched := streams{in: p.in, out: p.app.out, err: p.progress.above(p.err)}
	if isTerminal(p.err) {
		p.progress.to, p.progress.width = p.err, widthOf(p.err)
		if isTerminal(p.app.out) {
			watched.out = p.progress.above(p.app.out)
		}
	}
	p.seen = oneStream(p.app.out, p.err)
	p.app = &app{streams: watched, environ: p.environ, begun: p.begun}

	input, err := p.open()
	if err != nil {
		return usage(err)
	}
	defer func() { _ = input.Close() }() // only read
	rows, err := batch.NewReader(input, p.format)
	var refused *batch.FileError
	switch {
	case errors.As(err, &refused):
		if err := newWriter(p.app.out, p.settings.output).close(); err != nil { // no row has a result
			return fatal(fmt.Errorf("write the results: %w", err))
		}
		return exitWith(exitRefused, fmt.Errorf("%s: %w", p.name(), err))
	case err != nil:
		return fatal(fmt.Errorf("%s: %w", p.name(), err))
	}

	rows.CardLikeOrders = p.settings.cardOrders

	signals := catchInterrupts(ctx, p.interrupted)
	defer signals.release()
	// Whoever read the results may go away: then writing them fails, and the program ends in good order.
	signal.Ignore(syscall.SIGPIPE)

	store, fresh, err := p.settings.db.openToPay(ctx)
	if err != nil {
		return fatal(err)
	}
	defer func() { err = keep(err, store.Close()) }()
	if fresh != "" {
		p.tell("new database %s: it knows of no earlier payment", fresh)
	}
	client, err := p.connect(signals.start, p.settings, store, slog.NewTextHandler(p.err, &slog.HandlerOptions{Level: slog.LevelError}))
	if errors.Is(err, errInterrupted) {
		return exitWith(exitInterrupted, errors.New("interrupted before anything was sent; run the same command again"))
	}
	if err != nil {
		return fatal(err)
	}
	defer func() { err = keep(err, client.close()) }()

	p.out = newWriter(p.app.out, p.settings.output, payColumns...)
	p.out.flush = true
	caps := client.config.Provider.Capabilities()
	digester, err := attempt.NewDigester(p.settings.digestKeys...)
	if err != nil {
		return fatal(err)
	}
	p.place = attempt.Place{Provider: caps.Name, Account: client.config.ProviderAccount, Environment: client.config.Environment}
	work := &batch.Run{
		Client: client, Store: store, Rows: rows, Report: p.report, Concurrency: p.settings.concurrency,
		Claim: client.config.CallTimeout + client.config.RecordTimeout, SettleFor: p.settings.settleFor,
		BreakerWait: client.config.Breaker.OpenFor, CanAsk: caps.Lookup.ByReference, RetryDeclined: p.retryDeclined,
		Place: p.place, Digester: digester, Waits: func(w batch.Wait) { p.tell("%s", waitText(w)) },
	}
	p.begin()
	stop := work.Do(signals.start, signals.calls)
	// Every outcome that was received is stored before the program ends, or the attempts concerned are open in the database, and
	// the next run goes on with them.
	closed := p.closeWhenStored(client, signals, p.settings.timings.giveUpAfter)
	ended := p.end(stop, closed == nil)
	if closed != nil {
		return closed
	}
	return ended
}

// keep returns the error that ends the program: an earlier one goes first.
func keep(err, later error) error {
	if err != nil || later == nil {
		return err
	}
	return fatal(later)
}

func (p *paying) open() (io.ReadCloser, error) {
	if p.file != "-" {
		info, err := os.Stat(p.file)
		if err == nil && info.IsDir() {
			return nil, fmt.Errorf("%s: is a folder", p.file)
		}
		return os.Open(p.file)
	}
	if p.settings.noInput && isTerminal(p.in) {
		return nil, errors.New("standard input is a terminal, and --no-input says not to wait for a person")
	}
	return io.NopCloser(p.in), nil
}

// name is how the file is called in reports.
func (p *paying) name() string {
	if p.file == "-" {
		return "standard input"
	}
	return p.file
}

// refusedShown bounds how many refused rows are also told on stderr, where somebody reads; all are on stdout.
const refusedShown = 100

func (p *paying) report(r batch.Result) error {
	p.totals.add(r)
	if r.Reason == batch.Elsewhere && r.Payment != nil {
		r.Message = elsewhere(r.Payment.AttemptID, r.Payment.Attempt.Place(), p.place)
	}
	if r.Outcome == batch.Refused && !p.seen {
		if p.shown++; p.shown <= refusedShown {
			_, _ = fmt.Fprintf(p.err, "%s:%s: %s\n", cleanField(p.name()), linesOf(r), cleanField(r.Message))
		}
	}
	err := p.out.add(payRecordOf(p.name(), r), func() []string { return payCells(r) })
	if err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	p.progress.show(&p.totals)
	return nil
}

func (p *paying) interrupted(n int) {
	switch n {
	case 1:
		p.tell("interrupted: no further payment is begun, those under way are ended (once more: cut them off; what is known of them is stored all the same)")
	case 2:
		p.tell("interrupted again: calls under way are cut off and their outcomes stored (once more: give up storing what the database does not take)")
	default:
		p.tell("interrupted a third time: what the database does not take is given up, the payments concerned stay open")
	}
}

// end writes the totals and says with which code the program ends.
func (p *paying) end(stop *batch.Stop, stored bool) error {
	p.progress.clear()
	code := p.totals.code(stop)
	if err := p.writeTotals(); err != nil {
		if stop == nil {
			stop = &batch.Stop{Kind: batch.StopOutput, Err: fmt.Errorf("write the results: %w", err)}
		}
		code = p.totals.code(stop)
	}
	if p.shown > refusedShown {
		p.tell("%s more refused, see the results", plural(p.shown-refusedShown, "row"))
	}
	if stop != nil {
		p.tell("%s", stopText(stop, stored))
	}
	p.tell("%s", p.totals.line())
	if text := p.totals.unsent(stop); text != "" {
		p.tell("%s", text)
	}
	p.tellOpen()
	if code == exitOK {
		return nil
	}
	return &exitError{code: code}
}

// tellOpen says what to do about payments that are not settled.
func (p *paying) tellOpen() {
	here := p.totals.open - p.totals.cancelled
	byText := func(a, b attempt.Place) int { return strings.Compare(placeText(a), placeText(b)) }
	for _, place := range slices.SortedFunc(maps.Keys(p.totals.places), byText) {
		if place == p.place {
			continue
		}
		n := p.totals.places[place]
		here -= n
		p.tell("%s not settled at another place, %s: money may have moved. %s", pluralIs(n, "payment"), placeText(place), advice(place, p.place))
	}
	if n := p.totals.cancelled; n > 0 {
		which := "1 payment of a cancelled order is"
		if n > 1 {
			which = fmt.Sprintf("%d payments of cancelled orders are", n)
		}
		p.tell("%s not settled: money may have moved. chargeonce reconcile asks on, and gives back what turns up", which)
	}
	if n := p.totals.unread; n > 0 {
		p.tell("of %s the database could not be read: this run has sent nothing for them, another one may have. Run the same command again when it can: nothing is paid twice", plural(n, "row"))
	}
	if here > 0 {
		p.tell("%s not settled: money may have moved. Run the same command again: it sends again under the same key or asks, and pays nothing twice",
			pluralIs(here, "payment"))
	}
}

// stopText says why a run has ended before its file did. stored: every outcome is.
func stopText(stop *batch.Stop, stored bool) string {
	switch stop.Kind {
	case batch.StopInterrupted:
		return "interrupted; the rows behind were not begun. Run the same command again to go on: nothing is paid twice"
	case batch.StopProvider, batch.StopUnreachable, batch.StopUnreadable:
		return fmt.Sprintf("stopped: %v", stop.Err)
	}
	text := fmt.Sprintf("stopped: %v", stop.Err)
	if stop.Kind == batch.StopStore {
		text = fmt.Sprintf("stopped: the database failed: %v", stop.Err)
	}
	if stored {
		text += ". Every outcome is in the database; run the same command again to go on"
	}
	return text
}

// writeTotals ends the output: the totals are a part of a table, and talk beside JSON.
func (p *paying) writeTotals() error {
	lines := p.totals.byCurrency()
	if p.settings.output != outputTable {
		for _, line := range lines {
			_, _ = fmt.Fprintln(p.err, line)
		}
		return p.out.close()
	}
	if len(lines) > 0 {
		if _, err := p.out.to.WriteString("\n"); err != nil {
			return err
		}
	}
	for _, line := range lines {
		if _, err := p.out.to.WriteString(line + "\n"); err != nil {
			return err
		}
	}
	return p.out.close()
}

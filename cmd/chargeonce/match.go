package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // a profile's zone, also where the machine has none

	"github.com/spf13/cobra"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/batch"
	"github.com/chargeonce/chargeonce/reconcile/settlement"
)

// matching is one comparison of reports with the database.
type matching struct {
	*app
	settings settings
	reports  []string
	profile  string
	from, to string
	options  settlement.Options
	out      *writer
}

func (a *app) matchCommand() *cobra.Command {
	m := &matching{}
	cmd := &cobra.Command{
		Use:   "match REPORT... --profile NAME|FILE.json",
		Short: "Compare a provider's settlement reports with the database",
		Long: `Compare a provider's settlement reports ("-": standard input) with the database: every line
has an attempt, and every approved attempt a line, or it is listed. A line that tells of
money settles an attempt that was unknown. Matching a report again adds nothing.

How a report is written is declared, and never guessed: --profile names a profile of this
program (` + strings.Join(settlement.BuiltinNames(), ", ") + `) or a JSON file. A report that is not whole is refused, with file, line and
reason, and nothing of any report counts then; a line that cannot be read is listed, and
the rest counts. The database's attempts are those of the provider, environment and account
that pay would use; the provider is not asked.

What differs, and each line that has settled something, goes to standard output; --all: all
lines. In JSON, "type" is line ("result", "message", "settled", what the line says, and
"attempt_id" with what the attempt says) or, at the end, summary. The results are

  matched         the line is an approved attempt's, and its amount that of the attempt
  amount_differs  it is an attempt's, with another amount or currency
  ours_only       an approved attempt that no report has
  waiting         the same, but a later report may have it: no difference yet
  theirs_only     no attempt has the line's charge or reference
  duplicate       a second line, or a second charge, of what has one
  chargeback      the payer's bank has taken the money back
  line_error      the line cannot be read

Exit codes: 0 no differences; 6 differences; 7 a report is refused; 130 interrupted; 1 the
database or the output; 2 the command line, the settings, the profile, or a report that
cannot be opened; 4 the provider's configuration.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m.app, m.reports = a, args
			return m.run(cmd)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&m.profile, "profile", "", "how the reports are written: the name of a profile, or a JSON file")
	flags.StringVar(&m.from, "from", "", "what the reports cover: 2026-03-01 (in UTC) or 2026-03-01T00:00:00+01:00 (default: their earliest line)")
	flags.StringVar(&m.to, "to", "", "and until when (default: their latest line)")
	flags.DurationVar(&m.options.Margin, "margin", settlement.DefaultMargin, "how far the provider's days may be shifted against ours")
	flags.BoolVar(&m.options.ReadOnly, "dry-run", false, "compare only, and record nothing")
	flags.BoolVar(&m.options.TellAll, "all", false, "also the lines that match")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("profile", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return settlement.BuiltinNames(), cobra.ShellCompDirectiveDefault
	})
	return cmd
}

func (m *matching) run(cmd *cobra.Command) (err error) {
	s, err := m.app.settings(cmd)
	if err := errors.Join(err, m.read()); err != nil {
		return usage(err)
	}
	if err := s.mistakes(); err != nil {
		return err
	}
	m.settings = s
	if m.options.Place, err = s.place(); err != nil {
		return provider(err)
	}
	m.options.Who = s.whoami()
	signals := catchInterrupts(cmd.Context(), m.interrupted)
	defer signals.release()
	sources, forget, err := m.sources(signals.start)
	if err != nil {
		return usage(err)
	}
	defer forget()
	store, err := s.db.openExisting(signals.start, m.options.ReadOnly)
	if err != nil {
		return fatal(err)
	}
	defer func() { err = keep(err, store.Close()) }()

	m.out = newWriter(m.app.out, s.output, matchColumns...)
	all := m.options.TellAll
	m.options.TellAll, m.options.Tell = true, func(item settlement.Item) error {
		if item.Result == settlement.Matched && !item.Settled && !all {
			return nil
		}
		return m.write(item)
	}
	report, err := settlement.Match(signals.start, store, sources, m.options)
	return m.end(report, err, signals.start.Err() != nil)
}

// place is where the settings say that payments are made.
func (s settings) place() (attempt.Place, error) {
	adapter, err := s.adapter()
	if err != nil {
		return attempt.Place{}, err
	}
	if s, err = s.atBooksFound(); err != nil {
		return attempt.Place{}, err
	}
	cfg := s.clientConfig(adapter, s.url)
	return attempt.Place{Provider: adapter.Capabilities().Name, Account: cfg.ProviderAccount, Environment: cfg.Environment}, nil
}

// read reads what the flags say.
func (m *matching) read() error {
	var errs []error
	var err error
	if m.options.Profile, err = readProfile(m.profile); err != nil {
		errs = append(errs, fmt.Errorf("--profile: %w", err))
	}
	for _, bound := range []struct {
		flag, text string
		to         *time.Time
	}{{"--from", m.from, &m.options.From}, {"--to", m.to, &m.options.To}} {
		if *bound.to, err = parseMoment(bound.text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", bound.flag, err))
		}
	}
	if len(errs) == 0 && !m.options.To.IsZero() && m.options.To.Before(m.options.From) {
		errs = append(errs, fmt.Errorf("--to: %s is before --from (%s)", m.to, m.from))
	}
	if m.options.Margin <= 0 {
		errs = append(errs, fmt.Errorf("--margin: %s, want more than nothing", m.options.Margin))
	}
	return errors.Join(errs...)
}

func readProfile(name string) (settlement.Profile, error) {
	if name == "" {
		return settlement.Profile{}, fmt.Errorf("missing; want %s, or a JSON file", strings.Join(settlement.BuiltinNames(), ", "))
	}
	if p, ok := settlement.Builtin(name); ok {
		return p, nil
	}
	text, err := os.ReadFile(name)
	switch {
	case err != nil && filepath.Ext(name) == "":
		return settlement.Profile{}, fmt.Errorf("%q: no profile of that name, want %s, or a JSON file", cleanField(name), strings.Join(settlement.BuiltinNames(), ", "))
	case err != nil:
		return settlement.Profile{}, err
	}
	p, err := settlement.ParseProfile(text)
	if err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// parseMoment reads a day, which begins at midnight in UTC, or a moment; the zero time where nothing is said.
func parseMoment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q: want a day like 2026-03-01 or a moment like 2026-03-01T00:00:00+01:00", cleanField(text))
}

// sources are the reports. Standard input is kept in a temporary file, because a report is read twice.
func (m *matching) sources(ctx context.Context) (sources []settlement.Source, forget func(), err error) {
	var kept []string
	forget = func() {
		for _, name := range kept {
			_ = os.Remove(name) // the system's own temporary files go anyway
		}
	}
	for _, name := range m.reports {
		if name != "-" {
			sources = append(sources, settlement.File(name))
			continue
		}
		if len(kept) > 0 {
			forget()
			return nil, nil, errors.New("-: standard input is one report, and named twice")
		}
		if m.settings.noInput && isTerminal(m.in) {
			return nil, nil, errors.New("standard input is a terminal, and --no-input says not to wait for a person")
		}
		file, err := spool(ctx, m.in)
		if err != nil {
			return nil, nil, fmt.Errorf("standard input: %w", err)
		}
		kept = append(kept, file)
		one := settlement.File(file)
		one.Name = "standard input"
		sources = append(sources, one)
	}
	return sources, forget, nil
}

// spool writes what can be read once to a file.
func spool(ctx context.Context, from io.Reader) (name string, err error) {
	f, err := os.CreateTemp("", "chargeonce-report-*")
	if err != nil {
		return "", err
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(f, from)
		copied <- err
	}()
	select {
	case err = <-copied:
	case <-ctx.Done(): // the read may never end, and ends with the program
		err = context.Cause(ctx)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// matchRecord is the JSON of a line, or of an attempt without one: a contract. Fields may be added, none is removed or
// changes its meaning.
type matchRecord struct {
	Type    string            `json:"type"` // line
	Result  settlement.Result `json:"result"`
	Message string            `json:"message"`
	Settled bool              `json:"settled"` // the line has settled an attempt that was open

	File     string               `json:"file"` // empty: there is no line
	Line     int                  `json:"line"`
	LineID   string               `json:"line_id"` // the same wherever the line stands and whatever the file is called
	Kind     settlement.Kind      `json:"kind"`
	ID       string               `json:"provider_id"`
	Refer    string               `json:"reference"`
	Gross    string               `json:"gross"` // major units, as text; refunds are negative
	Minor    int64                `json:"gross_minor"`
	Fee      string               `json:"fee"`
	Net      string               `json:"net"`
	Currency string               `json:"currency"` // of gross
	NetMoney string               `json:"net_currency"`
	Created  *time.Time           `json:"created"`
	Problems []settlement.Problem `json:"problems,omitempty"` // of line_error

	AttemptID     string          `json:"attempt_id"` // empty: there is none
	Order         string          `json:"order"`
	Account       string          `json:"account"`
	Purpose       string          `json:"purpose"`
	AttemptKind   string          `json:"attempt_kind"` // charge, refund
	Status        *attempt.Status `json:"status"`
	Amount        string          `json:"amount"` // the attempt's
	AmountMinor   int64           `json:"amount_minor"`
	AttemptMoney  string          `json:"amount_currency"`
	AttemptSentAt *time.Time      `json:"sent_at"` // of ours_only and waiting
}

type matchSummary struct {
	Type        string                       `json:"type"` // summary
	Differences bool                         `json:"differences"`
	Counts      map[settlement.Result]int    `json:"counts"`
	Settled     int                          `json:"settled"`
	Recorded    int                          `json:"recorded"` // lines that became evidence
	Doubtful    int                          `json:"doubtful"` // lines that did not, because most of them contradict what is known
	Again       []string                     `json:"again"`    // reports that were matched before
	Totals      map[string]settlement.Totals `json:"totals"`   // minor units, by currency
	From        *time.Time                   `json:"from"`
	To          *time.Time                   `json:"to"`
	DryRun      bool                         `json:"dry_run"`
}

var matchColumns = []column{
	{name: "LINE", width: 16}, {name: "RESULT", width: 14}, {name: "ORDER", width: 14}, {name: "CHARGE", width: 10},
	{name: "GROSS", width: 14, right: true}, {name: "DETAIL"},
}

func (m *matching) write(item settlement.Item) error {
	l, a := item.Line, item.Attempt
	rec := matchRecord{
		Type: "line", Result: item.Result, Message: batch.HideCards(item.Reason), Settled: item.Settled,
		File: l.File, Line: l.Number, LineID: item.LineID, Kind: l.Kind, ID: l.ID, Refer: l.Reference,
		Gross: l.Gross.Decimal(), Minor: l.Gross.Minor(), Fee: l.Fee.Decimal(), Net: l.Net.Decimal(), Currency: l.Gross.Currency(),
		NetMoney: l.Net.Currency(), Created: timeOf(l.Created),
	}
	if item.Err != nil {
		rec.File, rec.Line, rec.Problems = item.Err.File, item.Err.Line, item.Err.Problems
		rec.Message = strings.TrimPrefix(rec.Message, fmt.Sprintf("%s:%d: ", item.Err.File, item.Err.Line))
	}
	if a.ID != "" {
		rec.AttemptID, rec.Order, rec.Account, rec.Purpose, rec.Status = a.ID, a.Slot.Order, a.Slot.Account, a.Slot.Purpose, &a.Status
		rec.Amount, rec.AmountMinor, rec.AttemptMoney = amountOf(a.Amount)
		rec.AttemptKind, rec.AttemptSentAt = kindCharge, timeOf(item.At)
		if a.Refund.AttemptID != "" {
			rec.AttemptKind = kindRefund
		}
	}
	return m.out.add(rec, func() []string { return matchCells(rec, item) })
}

func matchCells(rec matchRecord, item settlement.Item) []string {
	line, order, gross, detail := "", "", "", rec.Message
	if rec.File != "" {
		line = fmt.Sprintf("%s:%d", filepath.Base(rec.File), rec.Line)
	}
	if rec.AttemptID != "" {
		order = item.Attempt.Slot.String()
	}
	switch {
	case item.Line.Gross.Valid():
		gross = item.Line.Gross.String()
	case item.Attempt.Amount.Valid():
		gross = item.Attempt.Amount.String()
	}
	if item.Settled {
		detail = strings.Join(nonEmpty([]string{"settled: " + item.Attempt.Status.String(), detail}), ", ")
	}
	return []string{line, string(rec.Result), order, orElse(rec.ID, item.Attempt.ChargeID), gross, detail}
}

// end sums up and says with which code the program ends.
func (m *matching) end(report settlement.Report, err error, interrupted bool) error {
	var refused *settlement.FileError
	var opening *os.PathError
	var profile *settlement.ProfileError
	switch {
	case err == nil:
	case interrupted:
		return m.fail(exitInterrupted, errors.New("interrupted; what was recorded until then stays. Run the same command again: no line counts twice"))
	case errors.As(err, &refused) && errors.As(err, &opening):
		return m.fail(exitUsage, err)
	case errors.As(err, &refused):
		return m.fail(exitRefused, fmt.Errorf("%w; the report is refused, nothing of it was imported", err))
	case errors.As(err, &profile):
		return m.fail(exitUsage, err)
	default:
		return m.fail(exitFatal, fmt.Errorf("%w; run the same command again, no line counts twice", err))
	}
	if err := m.sum(report); err != nil {
		return fatal(fmt.Errorf("write the results: %w", err))
	}
	if report.Differences() {
		return &exitError{code: exitDiffers}
	}
	return nil
}

func (m *matching) fail(code int, err error) error {
	if closed := m.out.close(); closed != nil {
		return fatal(fmt.Errorf("write the results: %w", closed))
	}
	return exitWith(code, withoutCards(err))
}

// results is the order in which results are counted.
var results = []settlement.Result{
	settlement.Matched, settlement.AmountDiffers, settlement.TheirsOnly, settlement.OursOnly, settlement.Duplicate, settlement.Chargeback,
	settlement.LineRefused, settlement.Waiting,
}

// sum ends the output: as of pay, the totals are a part of a table, and talk beside JSON.
func (m *matching) sum(report settlement.Report) error {
	var totals []string
	for _, currency := range slices.Sorted(maps.Keys(report.Totals)) {
		t := report.Totals[currency]
		amount := func(minor int64) string { return signedDecimal(minor, currency) }
		totals = append(totals, fmt.Sprintf("%s  %s: gross %s, fee %s, net %s", currency, plural(t.Lines, "line"), amount(t.Gross), amount(t.Fee), amount(t.Net)))
	}
	if m.settings.output == outputTable {
		if m.out.n > 0 && len(totals) > 0 {
			totals = append([]string{""}, totals...)
		}
		for _, line := range totals {
			if _, err := m.out.to.WriteString(line + "\n"); err != nil {
				return err
			}
		}
	} else {
		again := report.Again
		if again == nil {
			again = []string{}
		}
		err := m.out.add(matchSummary{
			Type: "summary", Differences: report.Differences(), Counts: report.Counts, Settled: report.Settled, Recorded: report.Recorded,
			Doubtful: report.Doubtful, Again: again, Totals: report.Totals, From: timeOf(report.From), To: timeOf(report.To), DryRun: m.options.ReadOnly,
		}, nil)
		if err != nil {
			return err
		}
	}
	if err := m.out.close(); err != nil {
		return err
	}
	lines := 0
	for _, f := range report.Files {
		lines += f.Lines
	}
	parts := []string{plural(lines, "line")}
	for _, r := range results {
		if n := report.Counts[r]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, r))
		}
	}
	if report.Settled > 0 {
		parts = append(parts, plural(report.Settled, "payment")+" settled")
	}
	for _, name := range report.Again {
		m.tell("%s was matched before", name)
	}
	if report.Doubtful > 0 {
		m.tell("%s not recorded: most lines contradict what is known, so it is rather the profile that is wrong", plural(report.Doubtful, "line"))
	}
	text := strings.Join(parts, ", ")
	if m.options.ReadOnly {
		text += "; compared only, nothing was recorded"
	}
	m.tell("%s", text)
	return nil
}

// signedDecimal is decimal for a sum that may be negative.
func signedDecimal(minor int64, currency string) string {
	n, sign := big.NewInt(minor), ""
	if n.Sign() < 0 {
		sign, n = "-", n.Abs(n)
	}
	return sign + decimal(n, currency)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/reconcile"
)

func (a *app) doctorCommand() *cobra.Command {
	var online bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check settings, database, provider and timings",
		Long: `Check settings, database, provider and timings, and refuse what contradicts. It changes
nothing, sends no payment, and makes no database. With --online it asks the provider for
a reference that cannot exist, to see whether address and credentials are right.

Exit codes: 0 all is well, 1 the database, 2 the settings, 4 the provider's configuration
or credentials.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.examine(cmd, online)
		},
	}
	cmd.Flags().BoolVar(&online, "online", false, "also ask the provider; sends GET requests only")
	return cmd
}

// finding is the JSON of one thing that doctor found.
type finding struct {
	Result  string `json:"result"` // ok, note, problem
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// diagnosis collects what doctor finds.
type diagnosis struct {
	*app
	out  *writer
	code int
	err  error // of the output
}

// ok tells of one thing that is well; problem of one that is not; note of one that a person should know.
func (d *diagnosis) ok(subject, format string, args ...any) {
	d.found("ok", subject, fmt.Sprintf(format, args...))
}

func (d *diagnosis) note(subject, format string, args ...any) {
	d.found("note", subject, fmt.Sprintf(format, args...))
}

func (d *diagnosis) problem(code int, subject string, err error) {
	for _, line := range strings.Split(err.Error(), "\n") {
		d.found("problem", subject, line)
	}
	if d.code == exitOK {
		d.code = code
	}
}

func (d *diagnosis) found(result, subject, text string) {
	if d.err == nil {
		d.err = d.out.add(finding{result, subject, text}, func() []string { return []string{strings.ToUpper(result), subject, text} })
	}
}

func (a *app) examine(cmd *cobra.Command, online bool) error {
	s, err := a.settings(cmd)
	d := &diagnosis{app: a, out: newWriter(a.out, s.output, column{name: "RESULT", width: 7}, column{name: "SUBJECT", width: 9}, column{name: "FINDING"})}
	d.out.flush = true
	if err != nil {
		d.problem(exitUsage, "settings", err)
	} else {
		from := "flags and environment"
		if s.configFile != "" {
			from += " and " + s.configFile
		}
		d.ok("settings", "from %s", from)
	}
	d.secrets(s)
	store := d.database(cmd.Context(), s)
	if store != nil {
		defer func() { _ = store.Close() }() // nothing was written
	}
	if err := s.mistakes(); err != nil {
		subject := "provider"
		if codeOf(err) == exitUsage {
			subject = "settings"
		}
		d.problem(codeOf(err), subject, err)
	} else if !s.providerUnknown {
		d.provider(s)
		if online {
			d.online(cmd.Context(), s)
		}
	}
	if d.err == nil {
		d.err = d.out.close()
	}
	if d.err != nil {
		return fatal(d.err)
	}
	if d.code == exitOK {
		return nil
	}
	return &exitError{code: d.code, err: errors.New("not fit to pay with, see what is marked as a problem")}
}

// secrets looks at the files that hold some.
func (d *diagnosis) secrets(s settings) {
	for subject, file := range map[string]string{"token": s.standard.tokenFile, "sources": s.digestKeyFile} {
		if file != "" {
			d.private(subject, file)
		}
	}
}

// private looks whether a file can be read by its owner only.
func (d *diagnosis) private(what, file string) {
	info, err := os.Stat(file)
	switch {
	case err != nil: // told where the file is read
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		d.note(what, "%s can be read by others (mode %04o), want 0600", file, info.Mode().Perm())
	default:
		d.ok(what, "%s, readable by its owner only", file)
	}
}

func (d *diagnosis) database(ctx context.Context, s settings) attempt.Store {
	switch {
	case s.db.unknown():
		return nil
	case s.db.isPostgres():
		return d.postgres(ctx, s)
	}
	file := s.db.file
	if holds, err := look(ctx, file); err == nil && holds == holdsNothing {
		d.note("database", "%s: not there yet; pay makes it", file)
		return nil
	}
	store, err := openExistingStore(ctx, file)
	if err != nil {
		d.problem(exitFatal, "database", err)
		return nil
	}
	if err := s.db.validate(ctx); err != nil {
		d.problem(exitFatal, "database", err)
	} else {
		d.ok("database", "%s: schema up to date, write-ahead log, synced at each commit", file)
	}
	d.private("database", file)
	d.payments(ctx, store)
	return store
}

// payments tells of what is in the store.
func (d *diagnosis) payments(ctx context.Context, store attempt.Store) {
	health, err := reconcile.ReadHealth(ctx, store)
	if err != nil {
		d.problem(exitFatal, "database", err)
		return
	}
	d.health(health)
}

// health says what is open and owed, and whether somebody looks after it.
func (d *diagnosis) health(h reconcile.Health) {
	const subject = "payments"
	open := h.Open[attempt.StatusSending] + h.Open[attempt.StatusUnknown]
	since := func(o reconcile.Oldest) string {
		return fmt.Sprintf("since %s (%s), order %s, attempt %s", stamp(o.Since), about(o.Age), o.Slot, o.AttemptID)
	}
	if open == 0 {
		d.ok(subject, "every attempt is settled")
	} else {
		d.note(subject, "%s not settled; see attempts list --open", pluralIs(open, "attempt"))
	}
	if h.OldestOpen.AttemptID != "" {
		d.note(subject, "the oldest of which nobody knows what became: %s", since(h.OldestOpen))
	}
	if h.Pending > 0 {
		d.note(subject, "%d of them the provider holds and has not ended, the oldest: %s", h.Pending, since(h.OldestPending))
	}
	if h.AskingEnded > 0 {
		d.note(subject, "%d of them the provider is not asked about any more: a person has to decide, see attempts resolve", h.AskingEnded)
	}
	if n := h.Open[attempt.StatusPrepared]; n > 0 {
		d.note(subject, "%s prepared and was never sent, the oldest: %s", pluralIs(n, "attempt"), since(h.OldestPrepared))
	}
	for _, kind := range []attempt.DutyKind{attempt.DutyRefund, attempt.DutyReview} {
		if n := h.Duties[kind]; n > 0 {
			d.note(subject, "%s owed, the oldest: %s; see attempts list --owing", pluralIs(n, string(kind)), since(h.OldestDuty[kind]))
		}
	}
	switch {
	case h.Overdue > 0:
		d.note(subject, "%s due and nobody has looked, the oldest: %s. Does chargeonce reconcile --watch run?", pluralIs(h.Overdue, "attempt"), since(h.OldestOverdue))
	case open > 0 || len(h.Duties) > 0:
		d.ok(subject, "nothing is overdue")
	}
}

// provider says what the provider declares, and the timings that follow.
func (d *diagnosis) provider(s settings) {
	adapter, err := s.adapter()
	if err != nil {
		d.problem(exitProvider, "provider", err)
		return
	}
	s, ok := d.books(s)
	if !ok {
		return
	}
	caps := adapter.Capabilities()
	cfg := s.clientConfig(adapter, s.url)
	name := caps.Name
	if s.url != "" {
		name += " at " + s.url
	}
	d.ok("provider", "%s, environment %s, account %s", name, cfg.Environment, orElse(cfg.ProviderAccount, "(none)"))
	if s.provider != providerFake && s.providerAccount == "" {
		d.note("provider", "no merchant account is named (--provider-account), the token stands for it: what is begun with this token is refused with another. Name the account before the token is changed")
	}
	d.ok("provider", "%s", keysText(caps.Key))
	if caps.Lookup.ByReference {
		d.ok("provider", "can be asked by reference; a charge may be missing from its answers for %s", short(caps.Lookup.Lag))
	} else {
		d.note("provider", "cannot be asked by reference: what is unknown is settled by a person")
	}
	if len(s.digestKeys) == 0 {
		d.note("sources", "are digested without a key: only tokens can be paid with")
	} else {
		d.ok("sources", "are digested under key %s", s.digestKeys[0].ID)
	}
	d.ok("timings", "%s", timeline(cfg, caps))
}

func keysText(k payclient.KeyCapability) string {
	switch {
	case k.Header == "":
		return "knows no idempotency keys: nothing is sent again that may have been executed"
	case !k.KeepsEveryAnswer:
		return fmt.Sprintf("takes keys in %s, keeps successes only: nothing is sent again that may have been executed", k.Header)
	}
	return fmt.Sprintf("takes keys in %s and keeps every answer for %s", k.Header, short(k.Retention))
}

// timeline writes all times that must stand in order as one line of time.
func timeline(cfg payclient.Config, caps payclient.Capabilities) string {
	abandon := "abandon never"
	if cfg.AbandonAfter > 0 {
		abandon = "abandon " + short(cfg.AbandonAfter)
	}
	line := fmt.Sprintf("send %s < call %s (claim %s) <= first question %s < %s < left to a person %s; lookup lag %s",
		short(cfg.SendTimeout), short(cfg.CallTimeout), short(cfg.CallTimeout+cfg.RecordTimeout), short(cfg.MinAge), abandon, short(cfg.AskFor), short(caps.Lookup.Lag))
	if caps.Key.Header != "" {
		line += fmt.Sprintf("; keys kept %s less %s", short(caps.Key.Retention), short(cfg.RetentionMargin))
	}
	if cfg.RefundGrace > 0 {
		line += "; surplus money stays " + short(cfg.RefundGrace)
	}
	return line
}

// short writes a duration without the parts that are zero.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// online asks the provider for a reference that nobody has ever sent.
func (d *diagnosis) online(ctx context.Context, s settings) {
	if s.provider == providerFake {
		d.ok("online", "the fake provider is a part of this program")
		return
	}
	client, err := d.connect(ctx, s, new(attempt.Memory), nil)
	if err != nil {
		d.problem(exitProvider, "online", err)
		return
	}
	defer func() { _ = client.Close(ctx) }() // nothing was sent that could have an outcome
	reference := s.referencePrefix + uuid.NewString()
	found, err := client.FindByReference(ctx, reference)
	switch {
	case err != nil:
		d.problem(exitProvider, "online", err)
	case found.Answer == attempt.LookupNone:
		d.ok("online", "the provider answers, and knows no charge with a reference that cannot exist")
	case found.Answer == attempt.LookupFound:
		d.problem(exitProvider, "online", fmt.Errorf("the provider found charges with reference %s, which nobody has sent: its answers cannot be relied on", reference))
	default:
		d.problem(exitProvider, "online", fmt.Errorf("the provider's answer cannot be read (status %d): %s", found.StatusCode, found.Detail))
	}
}

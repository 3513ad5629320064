package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

func (a *app) fakeCommand() *cobra.Command {
	var c fakeprovider.ServerConfig
	var mode, tokenFile, secretFile string
	var report bool
	var from, to string
	cmd := &cobra.Command{
		Use:   "fake",
		Short: "Run a fake payment provider that misbehaves on request",
		Long: `Run a fake payment provider that misbehaves on request. It prints its address when it
listens, and ends on SIGINT or SIGTERM.

  chargeonce fake --listen 127.0.0.1:8089
  CHARGEONCE_STANDARD_TOKEN=any chargeonce pay FILE --provider standard --url http://127.0.0.1:8089

GET /_fake/ledger shows what was really charged. Any token is taken, each as a client of
its own, unless CHARGEONCE_FAKE_TOKENS (with commas) or a file named by --token-file (one
on each line) says which; then others meet a 401. TOKEN=CLIENT gives several tokens to one
client.

With --webhook-url it posts an event there for each change of a charge or a refund, as
Standard Webhooks says, signed with the secret in --webhook-secret-file (whsec_...).

With --report it writes the settlement report of the ledger in --file to standard output
and ends; chargeonce match --profile fake reads it. pay --provider fake keeps its ledger
beside the database: chargeonce.db.fake-ledger; with a PostgreSQL database it is
chargeonce.fake-ledger in the folder where the command is started, and CHARGEONCE_FAKE_LEDGER
names another file. GET /_fake/report gives it too.

A ledger has an id, which GET /_fake/id tells and pay --provider fake takes for the
environment of its payments: what one ledger knows, another is never asked about. A copy of
the file has the same id. At http://127.0.0.1:8089/_fake/books/ID it answers for the ledger
of that id only, and with 410 Gone where it has another one.

Modes:
` + modesText() + `
Payment sources that decide by themselves; any other tok_ is approved:
` + sourcesText(),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.Mode = fakeprovider.Mode(mode)
			var err error
			if c.Provider.Tokens, err = a.fakeTokens(tokenFile); err != nil {
				return usage(err)
			}
			if secretFile != "" {
				secret, err := os.ReadFile(secretFile)
				if err != nil {
					return usage(fmt.Errorf("--webhook-secret-file: %w", err))
				}
				c.WebhookSecret = strings.TrimSpace(string(secret))
			}
			if err := c.Validate(); err != nil {
				return usage(inOwnWords(err))
			}
			if report {
				return a.fakeReport(c.File, from, to)
			}
			if from+to != "" {
				return usage(errors.New("--from, --to: they are for --report"))
			}
			signals := catchInterrupts(cmd.Context(), func(int) {})
			defer signals.release()
			c.Ready = func(address string) {
				_, err := fmt.Fprintf(a.out, "http://%s\n", address)
				if err != nil {
					a.tell("the address %s could not be printed: %v", address, err)
				}
			}
			err = fakeprovider.ListenAndServe(signals.start, c)
			if errors.Is(err, fakeprovider.ErrInUse) {
				return fatal(fmt.Errorf("%w: end it, or use another --file", err))
			}
			return fatal(err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&c.Listen, "listen", "127.0.0.1:8089", "the address, on the loopback; port 0 picks a free one")
	flags.StringVar(&mode, "mode", "normal", "how payments are treated, see above")
	flags.DurationVar(&c.Delay, "delay", 0, "how long answers take (with --mode slow: 5s)")
	flags.Float64Var(&c.FaultRate, "fault-rate", 0, "the share of requests that meet a fault, 0 to 1")
	flags.Uint64Var(&c.Seed, "seed", 0, "makes the faults repeatable")
	flags.StringVar(&c.File, "file", "", "keep the ledger in a file, over restarts")
	flags.StringVar(&tokenFile, "token-file", "", "a file with the tokens that are taken, one on each line (default: any)")
	flags.StringVar(&c.WebhookURL, "webhook-url", "", "where to post events, http://... or https://...")
	flags.StringVar(&secretFile, "webhook-secret-file", "", "a file with the secret that signs them")
	flags.BoolVar(&report, "report", false, "write the settlement report of the ledger in --file, and end")
	flags.StringVar(&from, "from", "", "what the report covers: 2026-03-01 (in UTC) or a moment (default: everything)")
	flags.StringVar(&to, "to", "", "and until when")
	modes := make([]string, len(fakeModes))
	for i, m := range fakeModes {
		modes[i] = string(m.mode)
	}
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions(modes, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// fakeReport writes the settlement report of a ledger file.
func (a *app) fakeReport(file, from, to string) (err error) {
	var o fakeprovider.ReportOptions
	var errs []error
	if o.From, err = parseMoment(from); err != nil {
		errs = append(errs, fmt.Errorf("--from: %w", err))
	}
	if o.To, err = parseMoment(to); err != nil {
		errs = append(errs, fmt.Errorf("--to: %w", err))
	}
	if file == "" {
		errs = append(errs, errors.New("--file: missing; --report is of the ledger in a file"))
	} else if _, err := os.Stat(file); err != nil {
		errs = append(errs, fmt.Errorf("--file: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return usage(err)
	}
	p, err := fakeprovider.Open(file, fakeprovider.Config{})
	if errors.Is(err, fakeprovider.ErrInUse) {
		return fatal(fmt.Errorf("%w: end it, or ask it: GET /_fake/report", err))
	}
	if err != nil {
		return fatal(err)
	}
	defer func() { err = keep(err, p.Close()) }()
	return fatal(p.WriteReport(a.out, o))
}

// books looks at the fake provider's books, and makes none. It returns the settings with the environment that a payment would have.
func (d *diagnosis) books(s settings) (_ settings, ok bool) {
	if s.provider != providerFake {
		return s, true
	}
	const subject = "provider"
	file := s.fakeLedgerFile()
	id, err := fakeprovider.ReadID(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.note(subject, "fake, its books %s: not there yet; the first command that pays or asks makes them, and knows no payment", file)
		s.environment = orElse(s.environment, "named for its books")
		return s, true
	case err == nil:
		s, err = s.atBooks(id)
	}
	if err != nil {
		d.problem(exitProvider, subject, err)
		return s, false
	}
	d.ok(subject, "fake, its books %s", file)
	return s, true
}

// fakeModes are the modes of the fake provider, and what they mean to whoever pays there.
var fakeModes = []struct {
	mode fakeprovider.Mode
	what string
}{
	{fakeprovider.ModeNormal, "charged and answered at once"},
	{fakeprovider.ModeSlow, "charged at once, answered after --delay"},
	{fakeprovider.ModeDrop, "not charged: silence until the client gives up"},
	{fakeprovider.ModeError, "not charged: answered with 500"},
	{fakeprovider.ModeDecline, "declined, whatever the source"},
}

func modesText() string {
	var b strings.Builder
	for _, m := range fakeModes {
		fmt.Fprintf(&b, "  %-8s %s\n", m.mode, m.what)
	}
	return b.String()
}

func sourcesText() string {
	var b strings.Builder
	for _, s := range fakeprovider.Sources() {
		fmt.Fprintf(&b, "  %s\n      %s\n", s.Name, s.What)
	}
	return strings.TrimRight(b.String(), "\n")
}

// fakeTokens reads which tokens the fake provider takes, and whose they are; nil: any.
func (a *app) fakeTokens(file string) (map[string]string, error) {
	source, lines := envFakeTokens, []string(nil)
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--token-file: %w", err)
		}
		source, lines = "--token-file", strings.Split(string(text), "\n")
	} else if text, _ := a.env(envFakeTokens); text != "" {
		lines = strings.Split(text, ",")
	} else {
		return nil, nil
	}
	tokens := make(map[string]string)
	for i, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		token, client, named := strings.Cut(line, "=")
		// The token is not repeated: it may be a real one, given by mistake.
		if token == "" || named && client == "" || strings.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			return nil, fmt.Errorf("%s: token %d: want TOKEN or TOKEN=CLIENT in printable ASCII characters", source, i+1)
		}
		if !named {
			sum := sha256.Sum256([]byte(token)) // the ledger is no place for tokens
			client = "client_" + hex.EncodeToString(sum[:4])
		}
		tokens[token] = client
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("%s: no token in it", source)
	}
	return tokens, nil
}

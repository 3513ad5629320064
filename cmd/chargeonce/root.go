package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// streams are what a command reads and writes. stdout is data, stderr is talk.
type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// app is what all commands share.
type app struct {
	streams
	environ map[string]string
	begun   *atomic.Bool // see begin; nil: nobody wants to know
}

func (a *app) env(name string) (string, bool) {
	value, ok := a.environ[name]
	return value, ok
}

// run runs the program and returns its exit code. environ is as os.Environ gives it.
func run(ctx context.Context, args []string, s streams, environ []string) int {
	a := &app{streams: s, environ: make(map[string]string), begun: new(atomic.Bool)}
	for _, e := range environ {
		if name, value, ok := strings.Cut(e, "="); ok {
			a.environ[name] = value
		}
	}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	cmd, err := root.ExecuteContextC(ctx)
	var exit *exitError
	if err != nil && (!errors.As(err, &exit) || exit.err != nil) {
		_, _ = fmt.Fprintf(s.err, "chargeonce: %s\n", cleanLines(a.withUndone(cmd, err.Error())))
	}
	return codeOf(err)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "chargeonce",
		Short: "Pay files of payments, at most once each",
		Long: `Pay files of payments, at most once each, see what became of every attempt, and settle what
nobody knows.

Try it, with a fake provider that needs nothing:

  chargeonce pay testdata/payments.csv --provider fake
  chargeonce reconcile --all --provider fake

Every setting can be given in the environment as CHARGEONCE_NAME
(timings.send_timeout: CHARGEONCE_TIMINGS_SEND_TIMEOUT), or in a TOML file named by
--config or CHARGEONCE_CONFIG. Some are flags too: those below, and of single commands
--concurrency, --settle, --late-money, --every, --ask-after (timings.min_age) and
--abandon-after. A flag goes before the environment, and that before the file. A name
that is no setting is an error. Secrets are in the environment or a file of their own:
CHARGEONCE_STANDARD_TOKEN or standard.token_file, CHARGEONCE_DIGEST_KEY or
digest_key_file; the password of a PostgreSQL role in PGPASSWORD, in ~/.pgpass, or in a
URL in CHARGEONCE_DB.

Attempts are kept in a SQLite file, or by --db postgres://USER@HOST/DATABASE in the schema
that db_schema names (default chargeonce); chargeonce migrate up makes it. Any number of
processes may pay and reconcile in one PostgreSQL database at once.

A payment belongs to the provider, the environment and the merchant account to which
it was sent, and is never sent or replaced elsewhere. The environment is the address
in --url and the account is the token, as long as --environment and
--provider-account name none; with --provider fake it is fake-ID for the ledger with
that id. The ledger is beside the SQLite file, or with PostgreSQL chargeonce.fake-ledger in
the folder where the command is started; fake_ledger names another file.`,
		Version:       readVersion().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.SetVersionTemplate("chargeonce {{.Version}}\n")
	flags := root.PersistentFlags()
	flags.String("db", "", `the database: sqlite:FILE, FILE, or postgres://USER@HOST/DATABASE (default "sqlite:chargeonce.db")`)
	flags.String("provider", "", "the payment provider: fake, standard")
	flags.String("url", "", "the provider's address, https://...")
	flags.String("environment", "", "the place to which payments belong (default: the address in --url)")
	flags.String("provider-account", "", "the merchant account whose token is used (default: the token stands for it)")
	flags.String("output", "", `the form of results: table, json, jsonl (default "table")`)
	flags.String("config", "", "a TOML file with settings")
	flags.Bool("no-input", false, "never wait for a person")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "output" || f.Name == "provider" {
			values := map[string][]string{"output": {"table", "json", "jsonl"}, "provider": {providerFake, providerStandard}}[f.Name]
			// It fails only for a flag that does not exist.
			_ = root.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	})
	root.AddCommand(a.payCommand(), a.attemptsCommand(), a.reconcileCommand(), a.cancelCommand(), a.refundCommand(), a.matchCommand(), a.fakeCommand(), a.migrateCommand(), a.doctorCommand(), a.versionCommand())
	root.CompletionOptions.HiddenDefaultCmd = false
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		hideIdleFlags(cmd)
		help(cmd, args)
	})
	return root
}

// hideIdleFlags keeps the common flags that do nothing for a command out of its help.
func hideIdleFlags(cmd *cobra.Command) {
	var used []string
	switch path := strings.Fields(cmd.CommandPath()); {
	case len(path) < 2 || slices.Contains([]string{"pay", "reconcile", "cancel", "refund", "match", "doctor"}, path[1]), slices.Contains([]string{"resolve", "orphans"}, path[len(path)-1]):
		return
	case path[1] == "attempts" && path[len(path)-1] != "export":
		used = []string{"db", "output", "config"}
	case path[1] == "attempts":
		used = []string{"db", "config"}
	case path[1] == "migrate" && slices.Contains([]string{"sql", "validate"}, path[len(path)-1]):
		used = []string{"db", "config", "schema"}
	case path[1] == "migrate":
		used = []string{"db", "output", "config", "schema"}
	case path[1] == "version":
		used = []string{"output", "config"}
	}
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Hidden || !slices.Contains(used, f.Name) })
}

// settings resolves what flags, environment and config file say. Its error is a mistake in them.
func (a *app) settings(cmd *cobra.Command) (settings, error) {
	flag := func(name string) (string, bool) {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed {
			return "", false
		}
		return f.Value.String(), true
	}
	s, err := resolve(given{env: a.env, names: slices.Collect(maps.Keys(a.environ)), flag: flag})
	if db, ok := flag("db"); ok && isPostgres(db) && holdsPassword(db) {
		err = errors.Join(err, errors.New("--db: holds a password, which everybody on this machine can read there; "+
			"give it in PGPASSWORD or ~/.pgpass, or the URL in CHARGEONCE_DB"))
	}
	return s, err
}

// tell writes talk.
func (a *app) tell(format string, args ...any) {
	_, _ = fmt.Fprintf(a.err, "chargeonce: %s\n", cleanLines(fmt.Sprintf(format, args...)))
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/chargeonce/chargeonce/attempt/postgres"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
)

// migrationRecord is the JSON of a migration: a contract.
type migrationRecord struct {
	Number    int        `json:"number"`
	Name      string     `json:"name"`
	AppliedAt *time.Time `json:"applied_at"` // null: not yet
	Later     bool       `json:"later"`      // of a later release, unknown to this one
}

var migrationColumns = []column{{name: "NUMBER", width: 6, right: true}, {name: "NAME", width: 32}, {name: "APPLIED"}}

func (a *app) migrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Make the tables, and bring them up to this release",
		Long: `Make the tables in which attempts are kept, and bring them up to what this release needs.
The numbers of the migrations are the same in SQLite and in PostgreSQL.

In PostgreSQL services and this program never do so by themselves, and say so where it is
due: let a role of its own do it, which owns the schema (db_schema, default chargeonce). A
SQLite file needs no command: whoever opens it to pay brings it up.

--db postgres://USER@HOST/DATABASE has no password: that is taken from PGPASSWORD, from
~/.pgpass, or from a URL in CHARGEONCE_DB.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().String("schema", "", `the PostgreSQL schema that has the tables (default "chargeonce")`)
	cmd.AddCommand(a.migrateUpCommand(), a.migrateStatusCommand(), a.migrateSQLCommand(), a.migrateValidateCommand())
	return cmd
}

func (a *app) migrateUpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Apply the migrations that are missing",
		Long: `Apply the migrations that are missing, each as a whole or not at all, and list them. Where
several do so at once, they do it one after another. Services of this release and of the
one before go on meanwhile. The role must be allowed to make tables.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.migrating(cmd, func(ctx context.Context, s settings) error {
				applied, err := s.db.migrate(ctx)
				if listErr := a.listMigrations(s, applied); err == nil {
					err = listErr
				}
				if err == nil && len(applied) == 0 {
					a.tell("nothing to do: the schema is up to date")
				}
				return err
			})
		},
	}
}

func (a *app) migrateStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "List all migrations and when they were applied",
		Long: `List the migrations that this release knows and when each was applied, and those that a
later release has applied, with whether this one works on such tables. Nothing is changed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.migrating(cmd, func(ctx context.Context, s settings) error {
				all, err := s.db.migrations(ctx)
				if err != nil {
					return err
				}
				if err := a.listMigrations(s, all); err != nil {
					return err
				}
				for _, text := range laterText(all) {
					a.tell("%s", text)
				}
				return nil
			})
		},
	}
}

func (a *app) migrateSQLCommand() *cobra.Command {
	after, role := 0, ""
	cmd := &cobra.Command{
		Use:   "sql",
		Short: "Print the migrations as SQL",
		Long: `Print the migrations as SQL, for a DBA to run as a whole, in one transaction, with what notes
them as applied. No database is asked: --db says for which kind it is. With --grant it
prints instead what gives a PostgreSQL role the rights that a service needs, and no more.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.settings(cmd)
			if err != nil {
				return usage(err)
			}
			text, err := s.db.migrationSQL(after, role)
			if err != nil {
				return usage(err)
			}
			_, err = fmt.Fprint(a.out, text)
			return fatal(err)
		},
	}
	cmd.Flags().IntVar(&after, "after", 0, "only those after this number")
	cmd.Flags().StringVar(&role, "grant", "", "the role that services use")
	cmd.MarkFlagsMutuallyExclusive("after", "grant")
	return cmd
}

func (a *app) migrateValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "validate",
		Short: "Look whether the tables are as this release needs them",
		Long: `Look whether every table, column and index is there and as this release needs it, and report
all that is amiss. Nothing is changed. Exit codes: 0 all is well, 1 it is not, or nobody
could look.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.migrating(cmd, func(ctx context.Context, s settings) error {
				if err := s.db.validate(ctx); err != nil {
					return err
				}
				a.tell("database %s: the schema is as this release needs it", s.db)
				return nil
			})
		},
	}
}

// migrating runs f with the settings.
func (a *app) migrating(cmd *cobra.Command, f func(context.Context, settings) error) error {
	s, err := a.settings(cmd)
	if err != nil {
		return usage(err)
	}
	return fatal(f(cmd.Context(), s))
}

func (a *app) listMigrations(s settings, all []postgres.Migration) error {
	w := newWriter(a.out, s.output, migrationColumns...)
	for _, m := range all {
		rec := migrationRecord{Number: m.Number, Name: m.Name, AppliedAt: timeOf(m.AppliedAt), Later: m.Later}
		err := w.add(rec, func() []string {
			applied := "no"
			if rec.AppliedAt != nil {
				applied = rec.AppliedAt.Format(time.RFC3339)
			}
			return []string{fmt.Sprint(m.Number), m.Name, applied}
		})
		if err != nil {
			return err
		}
	}
	return w.close()
}

// laterText says of the migrations that this release does not know whether it works on such tables.
func laterText(all []postgres.Migration) (lines []string) {
	known := 0
	for _, m := range all {
		switch {
		case !m.Later:
			known++
		case m.Needs > known:
			lines = append(lines, fmt.Sprintf("migration %d is of a later release, which has to know %d; this one knows %d and refuses such tables: use a later release", m.Number, m.Needs, known))
		default:
			lines = append(lines, fmt.Sprintf("migration %d is of a later release; this one still works on such tables", m.Number))
		}
	}
	return lines
}

// migrate applies what is missing, and returns it.
func (d database) migrate(ctx context.Context) (applied []postgres.Migration, err error) {
	if d.isPostgres() {
		applied, err = postgres.Migrate(ctx, d.url(), postgres.MigrateOptions{Schema: d.schema})
		return applied, d.of(err)
	}
	before, err := d.migrations(ctx)
	if err != nil {
		return nil, err
	}
	store, _, err := openStore(ctx, d.file)
	if err != nil {
		return nil, err
	}
	if err := store.Close(); err != nil {
		return nil, err
	}
	after, err := d.migrations(ctx)
	if err != nil {
		return nil, err
	}
	for i, m := range before {
		if m.AppliedAt.IsZero() {
			applied = append(applied, after[i])
		}
	}
	return applied, d.validate(ctx)
}

// migrations lists those that are known, and those that a later release has applied.
func (d database) migrations(ctx context.Context) (all []postgres.Migration, err error) {
	if d.isPostgres() {
		all, err = postgres.MigrationStatus(ctx, d.url(), postgres.MigrateOptions{Schema: d.schema})
		return all, d.of(err)
	}
	status, err := sqlite.MigrationStatus(ctx, d.file)
	if err != nil {
		return nil, fmt.Errorf("database %w", err)
	}
	for _, m := range status {
		// SQLite's files have one release at a time: it needs every migration that was applied.
		all = append(all, postgres.Migration{Number: m.Number, Name: m.Name, Needs: m.Number, AppliedAt: m.AppliedAt, Later: m.Later})
	}
	return all, nil
}

func (d database) migrationSQL(after int, role string) (string, error) {
	opts := postgres.MigrateOptions{Schema: d.schema}
	switch {
	case role != "" && !d.isPostgres():
		return "", errors.New("--grant: SQLite has no roles; whoever may write the file may write the attempts")
	case role != "":
		return postgres.Grants(opts, role)
	case d.isPostgres():
		return postgres.MigrationSQL(opts, after)
	}
	return sqlite.MigrationSQL(after)
}

func (d database) validate(ctx context.Context) error {
	if d.isPostgres() {
		return d.of(postgres.Validate(ctx, d.url(), postgres.MigrateOptions{Schema: d.schema}))
	}
	if err := sqlite.Validate(ctx, d.file); err != nil {
		return fmt.Errorf("database %w", err)
	}
	return nil
}

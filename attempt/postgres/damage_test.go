package postgres

import (
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

// A schema that somebody has taken something out of is refused with what is missing and what to do, by everybody who meets it: what its
// tables held is what keeps a payment from being made twice, so that nothing is made anew in silence.
func TestDamagedSchema(t *testing.T) {
	const backup = "Bring it back from a backup"
	for name, c := range map[string]struct {
		damage                  string // with {schema}
		open, migrate, validate []string
	}{
		"a table": {
			"DROP TABLE {schema}.chargeonce_notes",
			[]string{"chargeonce_notes: missing", "migrate validate", backup},
			[]string{"noted as up to date, but", "chargeonce_notes.scope is missing", backup},
			[]string{"chargeonce_notes.scope is missing", "index chargeonce_notes_pkey is missing", backup},
		},
		"two tables": {
			"DROP TABLE {schema}.chargeonce_notes, {schema}.chargeonce_relays",
			[]string{"chargeonce_notes, ", "chargeonce_relays: missing"},
			[]string{backup}, []string{"chargeonce_relays.name is missing", backup},
		},
		"a column": { // met by no statement that only opens
			"ALTER TABLE {schema}.chargeonce_slots DROP COLUMN closed_why",
			nil, []string{"chargeonce_slots.closed_why is missing", backup}, []string{"chargeonce_slots.closed_why is missing", backup},
		},
		"an index": {
			"DROP INDEX {schema}.chargeonce_open",
			nil, []string{"index chargeonce_open is missing", backup}, []string{"index chargeonce_open is missing", backup},
		},
		"the note of the last migration": {
			"DELETE FROM {schema}.chargeonce_migrations WHERE number = 2",
			[]string{"at number 1", "migrate up"},
			[]string{"nothing was changed", "not noted as applied", "INSERT INTO", "(2, '0002_"},
			[]string{"at number 1"},
		},
		"the note of the first": {
			"DELETE FROM {schema}.chargeonce_migrations WHERE number = 1",
			[]string{"at number 0", "migrate up"},
			[]string{"nothing was changed", "not noted as applied", "(1, '0001_"},
			[]string{"at number 0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			schema := testSchema(t)
			admin(t, strings.ReplaceAll(c.damage, "{schema}", schema))
			opts := MigrateOptions{Schema: schema}
			s, err := Open(t.Context(), testURL(t), Options{Schema: schema})
			if err == nil {
				s.Close()
			} else {
				wantError(t, "Open", err, attempt.ErrUnavailable)
			}
			wantSaid(t, "Open", err, c.open)
			applied, err := Migrate(t.Context(), testURL(t), opts)
			if len(applied) != 0 {
				t.Errorf("applied %v", applied)
			}
			wantSaid(t, "Migrate", err, c.migrate)
			wantSaid(t, "Validate", Validate(t.Context(), testURL(t), opts), c.validate)
		})
	}
	t.Run("meanwhile", func(t *testing.T) {
		s := testStore(t, Options{})
		admin(t, "DROP SCHEMA "+s.opts.Schema+" CASCADE", "CREATE SCHEMA "+s.opts.Schema)
		step := starts("1001")
		err := s.Apply(t.Context(), &step.Step)
		wantError(t, "Apply", err, attempt.ErrUnavailable)
		wantSaid(t, "Apply", err, []string{"a table is missing", "migrate validate", backup})
	})
}

// wantSaid wants an error that says all that; nothing: no error.
func wantSaid(t *testing.T, what string, err error, said []string) {
	t.Helper()
	if (err != nil) != (said != nil) {
		t.Errorf("%s: %v, want an error: %t", what, err, said != nil)
		return
	}
	for _, text := range said {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v\nwant it to say %q", what, err, text)
		}
	}
}

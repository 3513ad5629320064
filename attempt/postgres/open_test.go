package postgres

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/jackc/pgx/v5"
)

// asRole is the server's URL for another role.
func asRole(t *testing.T, role string) string {
	t.Helper()
	cfg, err := pgx.ParseConfig(testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("host=%s port=%d dbname=%s user=%s sslmode=disable", cfg.Host, cfg.Port, cfg.Database, role)
}

// What is wrong is said at the start, once, with the remedy, and without the password.
func TestOpenErrors(t *testing.T) {
	schema := testSchema(t)
	early, later, none := schema+"_early", schema+"_later", schema+"_none"
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	admin(t, "CREATE SCHEMA "+early, createMigrations(early), all[0].in(early),
		"INSERT INTO "+early+".chargeonce_migrations (number, name, needs) VALUES (1, 'x', 1)")
	if _, err := Migrate(t.Context(), testURL(t), MigrateOptions{Schema: later}); err != nil {
		t.Fatal(err)
	}
	admin(t, fmt.Sprintf("INSERT INTO %s.chargeonce_migrations (number, name, needs) VALUES (%d, 'from the future', %[2]d)", later, len(all)+1))
	role := schema + "_role"
	admin(t, "CREATE ROLE "+role+" LOGIN")
	t.Cleanup(func() {
		admin(t, "DROP SCHEMA "+early+" CASCADE", "DROP SCHEMA "+later+" CASCADE", "DROP OWNED BY "+role, "DROP ROLE "+role)
	})
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	closed.Close()

	for name, c := range map[string]struct {
		url  string
		opts Options
		want []string
	}{
		"no URL":               {"postgres://host:s3cret@:port:/x", Options{}, []string{"postgres://user@host:port/database"}},
		"another scheme":       {"mysql://u:s3cret@h/x", Options{}, []string{"postgres://user@host:port/database"}},
		"keywords":             {"user=u password='s3cret word' port=x", Options{}, []string{"postgres://user@host:port/database"}},
		"nobody there":         {"postgres://u:s3cret@" + nobody + "/x?sslmode=disable", Options{}, []string{nobody, "nobody listens"}},
		"no such database":     {strings.Replace(asRole(t, "postgres"), "dbname=", "dbname=no_such_", 1), Options{}, []string{"no such database"}},
		"no tables":            {testURL(t), Options{Schema: none}, []string{none, "chargeonce migrate up"}},
		"an earlier schema":    {testURL(t), Options{Schema: early}, []string{"number 1", "chargeonce migrate up"}},
		"a later schema":       {testURL(t), Options{Schema: later}, []string{"use a later release", fmt.Sprint("migration ", len(all)+1, " (from the future)")}},
		"no rights":            {asRole(t, role), Options{Schema: schema}, []string{"lacks", "--grant"}},
		"read-only":            {withOptions(t, "default_transaction_read_only=on"), Options{Schema: schema}, []string{"default_transaction_read_only"}},
		"too few connections":  {testURL(t), Options{MaxConns: 2}, []string{"MaxConns"}},
		"an impossible schema": {testURL(t), Options{Schema: "a\x00b"}, []string{"schema:"}},
	} {
		s, err := Open(t.Context(), c.url, c.opts)
		if err == nil {
			s.Close()
			t.Errorf("%s: opened", name)
			continue
		}
		wantError(t, name, err, attempt.ErrUnavailable)
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want it to say %q", name, err, w)
			}
		}
		if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: tells the password, or is not one line: %v", name, err)
		}
	}

	// A role that was given what the documentation says can do all that a store does.
	grants, err := Grants(MigrateOptions{Schema: schema}, role)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range strings.Split(strings.TrimSpace(grants), "\n") {
		admin(t, g)
	}
	s, err := Open(t.Context(), asRole(t, role), Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.AddRelay(t.Context(), "host"); err != nil {
		t.Error(err)
	}
	known := start(t, s, "1001")
	if err := s.Apply(t.Context(), approves(known).Step(&known), &attempt.Step{ID: known.ID, Once: &attempt.Once{Scope: "w", ID: "1"}},
		(&attempt.Cancel{Slot: slotOf("1002")}).Step()); err != nil {
		t.Error(err)
	}
	if _, err := s.TakeDue(t.Context(), 1, time.Hour); err != nil {
		t.Error(err)
	}
	if events, err := s.TakeUndelivered(t.Context(), "host", 10, time.Hour); err != nil || len(events) != 2 {
		t.Errorf("%d events: %v", len(events), err)
	}
	if err := s.Delivered(t.Context(), "host", known.ID, 2, 0); err != nil {
		t.Error(err)
	}
	if err := s.RemoveRelay(t.Context(), "host"); err != nil {
		t.Error(err)
	}
	if _, err := Migrate(t.Context(), asRole(t, role), MigrateOptions{Schema: none}); err == nil || !strings.Contains(err.Error(), "right") {
		t.Errorf("a role without rights migrates: %v", err)
	}
}

// A store that was opened to look writes nothing.
func TestReadOnly(t *testing.T) {
	s := testStore(t, Options{})
	a := start(t, s, "1001")
	r, err := Open(t.Context(), withOptions(t, "default_transaction_read_only=on"), Options{Schema: s.opts.Schema, ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	wantOne(t, r, "1001", attempt.StatusSending, 1)
	for got, err := range r.List(t.Context(), attempt.Filter{Open: true}) {
		if err != nil || got.ID != a.ID {
			t.Errorf("%s: %v", got.ID, err)
		}
	}
	step := starts("1002")
	wantError(t, "Apply", r.Apply(t.Context(), &step.Step), attempt.ErrUnavailable)
	_, err = r.TakeDue(t.Context(), 1, time.Hour)
	wantError(t, "TakeDue", err, attempt.ErrUnavailable)
	wantError(t, "AddRelay", r.AddRelay(t.Context(), "host"), attempt.ErrUnavailable)
}

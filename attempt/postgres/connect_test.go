//go:build unix

package postgres

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/jackc/pgx/v5"
)

// A connection that cannot be had is told in one line: what has happened where, each thing once, and what to do about it.
func TestConnectErrors(t *testing.T) {
	server := startServer(t)
	role := server.URL("postgres")
	connected, err := pgx.Connect(t.Context(), role)
	if err != nil {
		t.Fatal(err)
	}
	_, err = connected.Exec(t.Context(), "CREATE ROLE scram LOGIN PASSWORD 'right'; CREATE ROLE outside LOGIN")
	if err != nil {
		t.Fatal(err)
	}
	connected.Close(t.Context())
	rules := "local all scram scram-sha-256\nlocal all outside reject\nlocal all all trust\n"
	if err := os.WriteFile(server.Dir+"/data/pg_hba.conf", []byte(rules), 0o644); err != nil { //nolint:gosec // the server reads it as another user
		t.Fatal(err)
	}
	server.Ctl(t, "reload")
	t.Setenv("PGPASSWORD", "")
	t.Setenv("PGPASSFILE", filepath.Join(t.TempDir(), "none"))

	as := func(who string) string { return strings.Replace(role, "//postgres@", "//"+who+"@", 1) }
	nobody, other := nobodyListens(t), nobodyListens(t)
	for name, c := range map[string]struct {
		url  string
		want []string
	}{
		"nobody there":                {"postgres://u:s3cret@" + nobody + "/x", []string{"nobody listens at " + nobody + ": does the server run, and are host and port right?"}},
		"two hosts, nobody at either": {"postgres://u:s3cret@" + nobody + "," + other + "/x", []string{"nobody listens at " + nobody + "; nobody listens at " + other + ": does"}},
		"no such host":                {"postgres://u:s3cret@nowhere.invalid/x", []string{`there is no host "nowhere.invalid": is it spelt right`}},
		"no such socket":              {"postgres://u:s3cret@/x?host=/no/such/folder", []string{"there is no socket /no/such/folder/.s.PGSQL.5432: does the server run"}},
		"no password":                 {as("scram"), []string{`wants a password of role "scram", and none was given: set PGPASSWORD, or a line of ~/.pgpass`}},
		"another password":            {as("scram:s3cret"), []string{`refuses the role or its password: password authentication failed for user "scram": look at`}},
		"no such role":                {as("ghost"), []string{`refuses the role: role "ghost" does not exist: is its name right`}},
		"a role that is not let in":   {as("outside"), []string{`refuses the role: pg_hba.conf rejects connection`, "does pg_hba.conf let it in"}},
		"no such database":            {server.URL("absent"), []string{`there is no such database on the server at`, `database "absent" does not exist`, "createdb"}},
		"no TLS":                      {"postgres://u:s3cret@" + listens(t, "N") + "/x?sslmode=require", []string{"has no TLS, and the URL demands it: set the server up for it"}},
		"somebody else":               {"postgres://u:s3cret@" + listens(t, "") + "/x?sslmode=disable", []string{"hangs up: is that a PostgreSQL server?"}},
		"nobody answers":              {"postgres://u:s3cret@" + mute(t) + "/x?sslmode=disable&connect_timeout=1", []string{"does not answer in time: are host and port right"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), c.url, Options{})
			if err == nil {
				s.Close()
			}
			wantError(t, "Open", err, attempt.ErrUnavailable)
			wantSaid(t, "Open", err, c.want)
			_, migrateErr := Migrate(t.Context(), c.url, MigrateOptions{})
			wantSaid(t, "Migrate", migrateErr, c.want)
			for _, e := range []error{err, migrateErr} {
				if strings.ContainsAny(e.Error(), "\n\t") || strings.Contains(e.Error(), "s3cret") || strings.Count(e.Error(), nobody) > 1 {
					t.Errorf("several lines, twice the same, or a password: %q", e)
				}
			}
		})
	}
	t.Run("the right password", func(t *testing.T) { // or the above would prove nothing
		c, err := pgx.Connect(t.Context(), as("scram:right"))
		if err != nil {
			t.Fatal(err)
		}
		c.Close(t.Context())
	})
}

// listens is the address of somebody who reads what a client says first, answers so, and hangs up.
func listens(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1024))
			_, _ = io.WriteString(c, answer)
			_ = c.Close()
		}
	}()
	return l.Addr().String()
}

// mute is the address of somebody who takes connections and says nothing.
func mute(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

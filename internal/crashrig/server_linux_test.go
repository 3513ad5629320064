//go:build amd64 || arm64

package crashrig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/postgres"
)

// server is a PostgreSQL server, in which every world has a schema.
type server struct {
	url     string
	socket  string // as a program that connects names it to the kernel
	schemas atomic.Int64
}

// openServer finds the server for tests, which scripts/test starts.
func openServer(t *testing.T) *server {
	t.Helper()
	text := os.Getenv("CHARGEONCE_TEST_POSTGRES")
	if text == "" {
		const why = "no PostgreSQL: ./scripts/test brings one, CHARGEONCE_TEST_POSTGRES names one"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		// Said aloud, and a failure in CI.
		t.Skip("NOTHING WAS KILLED: " + why)
	}
	config, err := pgx.ParseConfig(text)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{url: text}
	if filepath.IsAbs(config.Host) {
		s.socket = filepath.Join(config.Host, fmt.Sprintf(".s.PGSQL.%d", config.Port))
	} else {
		address, err := net.ResolveTCPAddr("tcp4", net.JoinHostPort(config.Host, fmt.Sprint(config.Port)))
		if err != nil {
			t.Fatal(err)
		}
		s.socket = address.String()
	}
	if u, err := url.Parse(text); err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		t.Fatal("CHARGEONCE_TEST_POSTGRES: want a URL")
	}
	t.Cleanup(func() {
		for n := range s.schemas.Load() {
			if err := s.drop(context.Background(), n+1); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

func schemaName(n int64) string { return fmt.Sprintf("crashrig_%d_%d", os.Getpid(), n) }

// newSchema names one that is not there yet.
func (s *server) newSchema() string { return schemaName(s.schemas.Add(1)) }

func (s *server) drop(ctx context.Context, n int64) error {
	c, err := pgx.Connect(ctx, s.url)
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, "DROP SCHEMA IF EXISTS "+schemaName(n)+" CASCADE")
	return errors.Join(err, c.Close(ctx))
}

// attempts reads what is stored.
func (s *server) attempts(ctx context.Context, schema string) (list []attempt.Attempt, err error) {
	store, err := postgres.Open(ctx, s.url, postgres.Options{Schema: schema, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return all(ctx, store)
}

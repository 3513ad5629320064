package sqlite_test

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/attempt/storetest"
)

func file(t testing.TB) string { return filepath.Join(t.TempDir(), "attempts.db") }

func open(t testing.TB, path string, opts sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t,
		func(t *testing.T) attempt.Store { return open(t, file(t), sqlite.Options{}) },
		storetest.WithClock(func(t *testing.T, now func() time.Time) attempt.Store {
			return open(t, file(t), sqlite.Options{Now: now})
		}),
		storetest.WithDatabase(func(t *testing.T) func(*testing.T) attempt.Store {
			path := file(t)
			return func(t *testing.T) attempt.Store { return open(t, path, sqlite.Options{}) }
		}),
		storetest.WithTransactions(func(store attempt.Store, f func(context.Context, attempt.Tx) error) error {
			s := store.(*sqlite.Store)
			return s.InTx(context.Background(), func(ctx context.Context, tx *sql.Tx) error { return f(ctx, s.Tx(tx)) })
		}))
}

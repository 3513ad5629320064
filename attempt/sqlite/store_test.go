package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/attempt/storetest"
)

func open(t testing.TB, path string, opts sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	file := func(t *testing.T) string { return filepath.Join(t.TempDir(), "attempts.db") }
	storetest.Run(t,
		func(t *testing.T) attempt.Store { return open(t, file(t), sqlite.Options{}) },
		storetest.WithClock(func(t *testing.T, now func() time.Time) attempt.Store {
			return open(t, file(t), sqlite.Options{Now: now})
		}),
		storetest.WithDatabase(func(t *testing.T) func(*testing.T) attempt.Store {
			path := file(t)
			return func(t *testing.T) attempt.Store { return open(t, path, sqlite.Options{}) }
		}))
}

package postgres

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// testURL is that of the server for tests, which ./scripts/test starts.
func testURL(t testing.TB) string {
	t.Helper()
	url := os.Getenv("CHARGEONCE_TEST_POSTGRES")
	if url == "" {
		t.Skip("SKIPPED: no PostgreSQL: ./scripts/test starts one, or set CHARGEONCE_TEST_POSTGRES to the URL of a server")
	}
	return url
}

var schemas atomic.Int64

// testSchema makes a schema of the test's own.
func testSchema(t testing.TB) string {
	t.Helper()
	schema := fmt.Sprintf("test_%d_%d_%d", os.Getpid(), time.Now().UnixNano(), schemas.Add(1))
	if _, err := Migrate(t.Context(), testURL(t), MigrateOptions{Schema: schema}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin(t, "DROP SCHEMA "+schema+" CASCADE") })
	return schema
}

// admin runs statements on a connection of its own.
func admin(t testing.TB, statements ...string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	for _, s := range statements {
		if _, err := c.Exec(ctx, s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func openTest(t testing.TB, schema string, opts Options) *Store {
	t.Helper()
	opts.Schema = schema
	s, err := Open(t.Context(), testURL(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// testStore is a store in a schema of its own, closed at the end.
func testStore(t testing.TB, opts Options) *Store {
	t.Helper()
	s := openTest(t, testSchema(t), opts)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

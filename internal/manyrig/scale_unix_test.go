//go:build unix

package manyrig

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/postgres"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/internal/pgtest"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// scaleSQL returns the block of SQL in docs/scale.md that begins with a comment.
func scaleSQL(t *testing.T, begins string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(page), "```sql\n-- "+begins)
	block, _, ended := strings.Cut(after, "\n```")
	if !ok || !ended {
		t.Fatalf("docs/scale.md has no block of SQL that begins with %q", begins)
	}
	return "-- " + begins + block
}

// shop pays a few orders, of every end, and asks again later.
type shop struct {
	t      *testing.T
	store  attempt.Store
	bank   *fakeprovider.Provider
	client *payclient.Client
}

func newShop(t *testing.T, store attempt.Store) *shop {
	t.Helper()
	s := &shop{t: t, store: store, bank: fakeprovider.New(fakeprovider.Config{})}
	t.Cleanup(func() { _ = s.bank.Close() }) // no script waits to be used
	adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("scale")})
	if err != nil {
		t.Fatal(err)
	}
	s.client, err = payclient.New(payclient.Config{
		Provider: adapter, Store: store, BaseURL: "https://provider.example", Transport: s.bank.RoundTripper(),
		ProviderAccount: "acct_1", Environment: "live", Who: "checkout-1", Retries: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *shop) pay(order, source string) (payclient.Result, error) {
	return s.client.Pay(s.t.Context(), attempt.Intent{
		Order: order, Amount: money.MustParse("12.00", "EUR"), Source: attempt.Token(source), Description: "for Mrs Miller",
	})
}

func (s *shop) payAll() {
	s.t.Helper()
	for order, source := range map[string]string{"paid": "tok_visa", "declined": "tok_declined", "returned": "tok_visa", "open": "tok_pending"} {
		if _, err := s.pay(order, source); err != nil {
			s.t.Fatal(err)
		}
	}
	r, err := s.client.Status(s.t.Context(), attempt.Slot{Order: "returned"}.WithDefaults())
	if err != nil {
		s.t.Fatal(err)
	}
	if r, err := s.client.Refund(s.t.Context(), attempt.Refund{AttemptID: r.AttemptID, ID: "back"}); err != nil || r.Outcome != payclient.Approved {
		s.t.Fatalf("refund: %+v, %v", r, err)
	}
}

// wantPurged fails the test unless what is old and final has no personal data any more and still cannot be paid again, and what is
// open is as it was.
func (s *shop) wantPurged() {
	t := s.t
	t.Helper()
	n := 0
	for a, err := range s.store.List(t.Context(), attempt.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		events, err := s.store.Events(t.Context(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		open := a.Slot.Order == "open"
		last := events[len(events)-1]
		if kept := a.Description != "" || len(a.Body) > 0 || len(events) > 1 || last.Who != ""; kept != open || last.Version != a.Version {
			t.Errorf("order %s: description %q, body %q, %d events", a.Slot.Order, a.Description, a.Body, len(events))
		}
		if a.Reference == "" || a.Amount.Minor() != 1200 || a.Status == attempt.StatusApproved && a.ChargeID == "" {
			t.Errorf("order %s has lost what must stay: %+v", a.Slot.Order, a)
		}
	}
	if n != 5 {
		t.Errorf("%d attempts, want 5", n)
	}
	requests := s.bank.RequestCount()
	if r, err := s.pay("paid", "tok_visa"); err != nil || r.Outcome != payclient.Approved || !r.Existing {
		t.Errorf("pay again what is paid: %+v, %v", r, err)
	}
	if _, err := s.pay("paid", "tok_mastercard"); !errors.Is(err, attempt.ErrAlreadyPaid) {
		t.Errorf("pay again with another card: %v", err)
	}
	if r, err := s.pay("declined", "tok_declined"); err != nil || r.Outcome != payclient.Declined || !r.Existing {
		t.Errorf("the declined card again: %+v, %v", r, err)
	}
	if _, err := s.pay("returned", "tok_visa"); !errors.Is(err, attempt.ErrRefunded) {
		t.Errorf("pay again what was given back: %v", err)
	}
	if got := s.bank.RequestCount(); got != requests {
		t.Errorf("%d requests left for orders that had ended", got-requests)
	}
	r, err := s.client.Status(t.Context(), attempt.Slot{Order: "paid"}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := s.client.Refund(t.Context(), attempt.Refund{AttemptID: r.AttemptID, ID: "late"}); err != nil || r.Outcome != payclient.Approved {
		t.Errorf("a late refund: %+v, %v", r, err)
	}
}

func TestPurgeOnPostgres(t *testing.T) {
	server := pgtest.Start(t)
	for _, partitioned := range []bool{false, true} {
		t.Run(fmt.Sprintf("partitioned %t", partitioned), func(t *testing.T) {
			name := fmt.Sprintf("purge_%t", partitioned)
			if err := execute(t.Context(), server.URL("postgres"), "CREATE DATABASE "+name); err != nil {
				t.Fatal(err)
			}
			url := server.URL(name)
			if _, err := postgres.Migrate(t.Context(), url, postgres.MigrateOptions{}); err != nil {
				t.Fatal(err)
			}
			if partitioned {
				runSQL(t, url, scaleSQL(t, "partitions of events by month, PostgreSQL"))
				if err := postgres.Validate(t.Context(), url, postgres.MigrateOptions{}); err != nil {
					t.Error(err)
				}
			}
			store, err := postgres.Open(t.Context(), url, postgres.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			s := newShop(t, store)
			s.payAll()
			runSQL(t, url, "UPDATE chargeonce.chargeonce_attempts SET updated_at = updated_at - interval '401 days'")
			runSQL(t, url, scaleSQL(t, "purge, PostgreSQL"))
			s.wantPurged()
			if !partitioned {
				return
			}
			// A month is dropped, and its attempts are still there, without a history.
			runSQL(t, url, "DROP TABLE chargeonce.chargeonce_events_before")
			for a, err := range store.List(t.Context(), attempt.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				if events, err := store.Events(t.Context(), a.ID); err != nil || len(events) > 0 {
					t.Errorf("attempt %s: %d events, %v", a.ID, len(events), err)
				}
			}
			if _, err := s.pay("paid", "tok_visa"); !errors.Is(err, attempt.ErrRefunded) { // by the late refund
				t.Errorf("pay again what was given back, its events dropped: %v", err)
			}
		})
	}
}

func runSQL(t *testing.T, url, statements string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), statements, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
}

func TestPurgeOnSQLite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "purge.db")
	store, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := newShop(t, store)
	s.payAll()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statements := range []string{
		"UPDATE chargeonce_attempts SET updated_at = updated_at - 401 * 86400 * 1000000",
		scaleSQL(t, "purge, SQLite"),
	} {
		if _, err := db.ExecContext(t.Context(), statements); err != nil {
			t.Fatal(err)
		}
	}
	s.wantPurged()
}

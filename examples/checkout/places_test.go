package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

// place is where a shop of a test keeps everything, or whose bank it pays at.
type place struct{ db, books, bank string }

// everywhere runs a test with a SQLite file and with a PostgreSQL database, both empty. Where there is no server it skips that,
// aloud, but never in CI.
func everywhere(t *testing.T, test func(t *testing.T, at place)) {
	t.Run("SQLite", func(t *testing.T) {
		dir := t.TempDir()
		test(t, place{db: filepath.Join(dir, "checkout.db"), books: filepath.Join(dir, "ledger")})
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		test(t, place{db: newDatabase(t), books: filepath.Join(t.TempDir(), "ledger")})
	})
}

// newDatabase makes a database for a test and returns its URL.
func newDatabase(t *testing.T) string {
	t.Helper()
	server := os.Getenv("CHARGEONCE_TEST_POSTGRES")
	if server == "" {
		const why = "no PostgreSQL: ./scripts/test brings one, CHARGEONCE_TEST_POSTGRES names one"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip("SKIPPED: " + why) // a plain go test has no server to start
	}
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal("CHARGEONCE_TEST_POSTGRES is no URL") // the error would tell its password
	}
	name := fmt.Sprintf("checkout_%d_%d", os.Getpid(), time.Now().UnixNano())
	command := func(statement string) {
		c, err := pgx.Connect(context.Background(), server)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(context.Background())
		if _, err := c.Exec(context.Background(), statement); err != nil {
			t.Error(err)
		}
	}
	command("CREATE DATABASE " + name)
	t.Cleanup(func() { command("DROP DATABASE " + name + " WITH (FORCE)") })
	u.Path = "/" + name
	return u.String()
}

// twoShops starts two shops on one database. The second one pays at the bank of the first.
func twoShops(t *testing.T, at place) []*service {
	t.Helper()
	first := serve(t, at)
	return []*service{first, serve(t, place{db: at.db, bank: first.url})}
}

// succeeded counts the charges that a bank holds.
func succeeded(l fakeprovider.Ledger) int {
	return len(slices.DeleteFunc(l.Charges, func(c fakeprovider.Charge) bool { return c.Status != fakeprovider.Succeeded }))
}

// Two shops on one database sell side by side and are paid at one bank: nothing is sold twice, and every order that was taken is
// confirmed and charged once, whichever shop its customer comes back to.
func TestTwoShopsOfOneDatabase(t *testing.T) { everywhere(t, twoShopsOfOneDatabase) }

func twoShopsOfOneDatabase(t *testing.T, at place) {
	shops := twoShops(t, at)
	var mu sync.Mutex
	made := map[int]int{}
	var orders []string
	var customers sync.WaitGroup
	for i := range 24 { // of 20 mugs
		s := shops[i%2]
		customers.Go(func() {
			status, v := s.do(t, "POST", "/orders", `{"items":[`+oneMug+`]}`)
			mu.Lock()
			made[status]++
			mu.Unlock()
			if status != http.StatusCreated {
				return
			}
			for click := range 2 { // at both shops
				customers.Go(func() {
					if status, v := shops[click].do(t, "POST", "/orders/"+v.Order+"/pay", `{"source":"tok_visa"}`); status != http.StatusOK && status != http.StatusAccepted {
						t.Errorf("pay order %s: %d %+v", v.Order, status, v)
					}
				})
			}
			mu.Lock()
			orders = append(orders, v.Order)
			mu.Unlock()
		})
	}
	customers.Wait()
	if made[http.StatusCreated] != 20 || made[http.StatusConflict] != 4 {
		t.Errorf("orders by status: %v, want 20 made and 4 refused", made)
	}
	for i, id := range orders {
		eventually(t, "order "+id+" is confirmed", func() bool {
			_, v := shops[i%2].do(t, "GET", "/orders/"+id, "")
			return v.State == StateConfirmed
		})
	}
	if charges := succeeded(shops[0].ledger(t)); charges != 20 {
		t.Errorf("%d charges for 20 orders", charges)
	}
}

// Package storetest is the conformance suite of attempt stores: a store is correct when it says so.
//
// A backend's test calls [Run] with a function that opens an empty store, and says in options what else it can do:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, openEmpty, storetest.WithDatabase(newDatabase), storetest.WithTransactions(inTx),
//			storetest.Without(storetest.Clock, "the server's clock is everybody's"))
//	}
//
// For every ability a backend either gives what the suite needs or says by [Without] why it cannot; so nothing is left out
// in silence. The suite never sleeps, and takes its times from the store's own clock.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Ability is something that not every backend can do.
type Ability string

// The abilities.
const (
	Clock        Ability = "clock"        // the store's clock can be set
	Database     Ability = "database"     // what is stored outlives Close, and several handles share it
	Transactions Ability = "transactions" // steps take part in a transaction of the host's
)

// Option says what a backend can do, or cannot.
type Option func(*suite)

// WithClock gives the suite stores with a clock of its own. Each call opens an empty store.
func WithClock(open func(t *testing.T, now func() time.Time) attempt.Store) Option {
	return func(s *suite) { s.clock = open }
}

// WithDatabase gives the suite databases. Each call makes an empty one and returns how to open a handle on it, as another
// process would; handles are open side by side, and one after another.
func WithDatabase(create func(t *testing.T) (open func(t *testing.T) attempt.Store)) Option {
	return func(s *suite) { s.database = create }
}

// WithTransactions gives the suite the host's transactions: run runs f in one on a store that the backend has opened. It
// commits if f returns nil, rolls back if not, and returns f's error or that of the commit.
func WithTransactions(run func(store attempt.Store, f func(ctx context.Context, tx attempt.Tx) error) error) Option {
	return func(s *suite) { s.inTx = run }
}

// Without says why a backend has not got an ability. The rules that need it are left out, and the log tells which and why.
func Without(a Ability, why string) Option {
	return func(s *suite) { s.without[a] = why }
}

type suite struct {
	open     func(t *testing.T) attempt.Store
	clock    func(t *testing.T, now func() time.Time) attempt.Store
	database func(t *testing.T) func(t *testing.T) attempt.Store
	inTx     func(store attempt.Store, f func(ctx context.Context, tx attempt.Tx) error) error
	without  map[Ability]string
}

func (s *suite) has(a Ability) bool {
	switch a {
	case Clock:
		return s.clock != nil
	case Database:
		return s.database != nil
	case Transactions:
		return s.inTx != nil
	}
	return true
}

// rule is one thing that a store must do, and why.
type rule struct {
	name    string
	because string
	needs   Ability // empty: nothing special
	check   func(t *testing.T, s *suite)
}

// Run checks a backend. open returns an empty store at each call; the suite closes it.
func Run(t *testing.T, open func(t *testing.T) attempt.Store, options ...Option) {
	s := &suite{open: open, without: make(map[Ability]string)}
	for _, o := range options {
		o(s)
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if !s.has(r.needs) {
				why := s.without[r.needs]
				if why == "" {
					t.Fatalf("the backend neither has the ability %q nor says by Without why not", r.needs)
				}
				t.Logf("LEFT OUT: the backend has no %s: %s\nthe rule: %s", r.needs, why, r.because)
				return
			}
			defer func() {
				if t.Failed() {
					t.Logf("the rule: %s", r.because)
				}
			}()
			r.check(t, s)
		})
	}
}

// empty opens an empty store that is closed at the test's end.
func (s *suite) empty(t *testing.T) attempt.Store {
	t.Helper()
	return closing(t, s.open(t))
}

func closing(t *testing.T, store attempt.Store) attempt.Store {
	t.Helper()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return store
}

package postgres

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/jackc/pgx/v5"
)

// held holds a lane's first batch until release is called, and notes how many items each batch has.
func held(l *lane) (begun chan struct{}, release func(), sizes func() []int) {
	work := l.work
	begun = make(chan struct{})
	gate := make(chan struct{})
	var mu sync.Mutex
	var all []int
	first := sync.OnceFunc(func() { close(begun); <-gate })
	l.work = func(items []*item) {
		mu.Lock()
		all = append(all, len(items))
		mu.Unlock()
		first()
		work(items)
	}
	return begun, func() { close(gate) }, func() []int {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

// queued waits until so many items wait in a lane.
func queued(l *lane, n int) {
	for {
		l.mu.Lock()
		waiting := len(l.pending)
		l.mu.Unlock()
		if waiting >= n {
			return
		}
		runtime.Gosched()
	}
}

// A queue that has formed travels together, outcomes do not wait behind it, and what one step does wrong is its own affair.
func TestQueue(t *testing.T) {
	s := testStore(t, Options{MaxConns: leastConns})
	known := start(t, s, "known")
	begun, release, sizes := held(s.others)
	const n = 40
	steps := make([]*starting, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	apply := func(i int) {
		steps[i] = starts(fmt.Sprint("order ", i))
		if i == 7 { // the database refuses the whole statement: the id is another attempt's
			do := steps[i].Do
			steps[i].Do = func(v attempt.View) ([]attempt.Write, error) {
				w, err := do(v)
				w[0].Attempt.ID, w[0].Event.AttemptID = known.ID, known.ID
				return w, err
			}
		}
		wg.Go(func() { errs[i] = s.Apply(t.Context(), &steps[i].Step) })
	}
	apply(0)
	<-begun
	for i := 1; i < n; i++ {
		apply(i)
	}
	queued(s.others, n-1)
	if err := s.Apply(t.Context(), approves(known).Step(&known)); err != nil {
		t.Error(err)
	}
	wantOne(t, s, "known", attempt.StatusApproved, 2)
	release()
	wg.Wait()
	if got := sizes(); len(got) < 2 || got[0] != 1 || got[1] != n-1 {
		t.Errorf("batches of %v, want one step alone and then the %d that waited", got, n-1)
	}
	for i := range n {
		if i == 7 {
			if code(errs[i]) != "23505" {
				t.Errorf("the same id twice: %v", errs[i])
			}
			continue
		}
		if errs[i] != nil || !steps[i].began {
			t.Errorf("step %d: began %v, %v", i, steps[i].began, errs[i])
		}
		if a := wantOne(t, s, fmt.Sprint("order ", i), attempt.StatusSending, 1); a.ID != steps[i].got.ID {
			t.Errorf("step %d: stored is %s, told was %s", i, a.ID, steps[i].got.ID)
		}
	}
}

// In one batch there is one step of a slot: the others see what it did.
func TestQueueOfOneSlot(t *testing.T) {
	s := testStore(t, Options{MaxConns: leastConns})
	begun, release, _ := held(s.others)
	var wg sync.WaitGroup
	steps := make([]*starting, 20)
	for i := range steps {
		steps[i] = starts("1001")
		wg.Go(func() {
			if err := s.Apply(t.Context(), &steps[i].Step); err != nil {
				t.Error(err)
			}
		})
		if i == 0 {
			<-begun
		}
	}
	queued(s.others, len(steps)-1)
	release()
	wg.Wait()
	began := 0
	for _, step := range steps {
		if step.began {
			began++
		}
	}
	if began != 1 {
		t.Errorf("%d began", began)
	}
	wantOne(t, s, "1001", attempt.StatusSending, 1)
}

// An event that is told to several attempts at once happens once, also where all of them are loaded in one transaction, which
// its own locks do not hold up. Steps of one slot that name it in different ways are two, one after the other.
func TestQueueOfLoadedAlike(t *testing.T) {
	for _, events := range []bool{true, false} {
		s := testStore(t, Options{MaxConns: leastConns})
		var known [2]attempt.Attempt
		for i := range known {
			known[i] = start(t, s, fmt.Sprint(i))
		}
		begun, release, sizes := held(s.others)
		var wg sync.WaitGroup
		var seen atomic.Int64
		apply := func(step *attempt.Step) {
			wg.Go(func() {
				switch err := s.Apply(t.Context(), step); {
				case errors.Is(err, attempt.ErrSeen):
					seen.Add(1)
				case err != nil:
					t.Error(err)
				}
			})
		}
		apply(&starts("other").Step)
		<-begun
		want := 4
		for i := range known {
			step := (&attempt.Record{ID: known[i].ID, Evidence: attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: attempt.LookupNotAsked}}).Step(nil)
			step.Outcome = false
			switch {
			case events:
				step.Once = &attempt.Once{Scope: "w", ID: "1"}
				want = 3 // two starts, one event
			case i == 1:
				// The same attempt once more, by its slot.
				step = (&attempt.Record{ID: known[0].ID, Evidence: attempt.Evidence{Kind: attempt.EvidenceLookup, Lookup: attempt.LookupNotAsked}}).Step(nil)
				step.Outcome, step.ID, step.Slot = false, "", known[0].Slot
			}
			apply(step)
		}
		queued(s.others, 2)
		release()
		wg.Wait()
		if got := sizes(); len(got) < 2 || got[1] != 2 || !events && len(got) != 3 {
			t.Errorf("batches of %v, want both together and one of them once more", got)
		}
		versions := 0
		for i := range known {
			a, err := s.Attempt(t.Context(), known[i].ID)
			if err != nil {
				t.Error(err)
			}
			versions += a.Version
		}
		if versions != want || events != (seen.Load() == 1) {
			t.Errorf("events %v: versions add up to %d, want %d; %d were told that it has happened", events, versions, want, seen.Load())
		}
	}
}

// A step that ends its goroutine takes nobody along.
func TestStepEndsGoroutine(t *testing.T) {
	s := testStore(t, Options{MaxConns: leastConns})
	for _, fresh := range []bool{true, false} {
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			err := s.Apply(t.Context(), &attempt.Step{Slot: slotOf("1001"), Fresh: fresh, Do: func(attempt.View) ([]attempt.Write, error) {
				runtime.Goexit()
				return nil, nil
			}})
			if !errors.Is(err, attempt.ErrUnavailable) {
				t.Errorf("Apply returned %v", err)
			}
		}()
		<-gone
		start(t, s, fmt.Sprint("after ", fresh))
	}
}

// Steps that have to be loaded travel together as well; one that the database refuses, and one whose slot somebody else holds, take
// nobody along; and where the connection is lost, each is looked for.
func TestQueueOfLoaded(t *testing.T) {
	p, url := testProxy(t)
	schema := testSchema(t)
	direct := openTest(t, schema, Options{MaxConns: leastConns})
	defer direct.Close()
	for cut := range int64(5) {
		s, err := Open(t.Context(), url, Options{Schema: schema, MaxConns: leastConns})
		if err != nil {
			t.Fatal(err)
		}
		const n = 20
		known := make([]attempt.Attempt, n)
		for i := range known {
			known[i] = start(t, s, fmt.Sprint(cut, " ", i))
		}
		if err := s.Apply(t.Context(), &attempt.Step{ID: known[0].ID, Outcome: true}); err != nil { // the connection is there
			t.Fatal(err)
		}
		begun, release, sizes := held(s.outcomes)
		errs := make([]error, n)
		var wg sync.WaitGroup
		apply := func(i int, step *attempt.Step) { wg.Go(func() { errs[i] = s.Apply(t.Context(), step) }) }
		apply(0, approves(known[0]).Step(nil))
		<-begun
		refused := fmt.Sprint("refused ", cut)
		for i := 1; i < n; i++ {
			step := approves(known[i]).Step(nil)
			if i == 3 {
				step = &attempt.Step{Slot: slotOf(refused), Outcome: true, Do: func(v attempt.View) ([]attempt.Write, error) {
					w, err := starts(refused).Do(v)
					w[0].Attempt.ID, w[0].Event.AttemptID = known[3].ID, known[3].ID
					return w, err
				}}
			}
			apply(i, step)
		}
		queued(s.outcomes, n-1)
		err = inTx(direct, pgx.TxOptions{}, func(ctx context.Context, tx attempt.Tx) error {
			if err := tx.ApplyTx(ctx, &attempt.Step{ID: known[5].ID}); err != nil {
				t.Error(err)
			}
			if cut > 0 {
				p.answers.Store(cut + 1)
			}
			release()
			for len(sizes()) < 2 { // the held one is met at least once
				runtime.Gosched()
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		wg.Wait()
		if got := sizes(); got[0] != 1 || got[1] != n-1 {
			t.Errorf("batches of %v, want one step alone and then the %d that waited", got, n-1)
		}
		for i := range n {
			if i == 3 {
				if code(errs[i]) != "23505" {
					t.Errorf("the same id twice: %v", errs[i])
				}
				continue
			}
			if errs[i] != nil {
				t.Errorf("step %d: %v", i, errs[i])
			}
			wantOne(t, direct, known[i].Slot.Order, attempt.StatusApproved, 2)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Few go side by side, each at once; many together, so that a commit is shared, and none waits for long.
func TestCrowd(t *testing.T) {
	const commit, rounds = time.Millisecond, 50
	for _, c := range []struct {
		callers int
		least   float64       // steps in a batch
		longest time.Duration // a step's
	}{
		{1, 1, commit},
		{4, 1, commit},
		{64, 8, 3 * commit},
		{200, 16, 5 * commit},
	} {
		t.Run(fmt.Sprint(c.callers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var batches atomic.Int64
				l := newLane(4, newPool(4, nil), func(items []*item) {
					batches.Add(1)
					time.Sleep(commit)
				})
				defer l.close()
				var wg sync.WaitGroup
				for n := range c.callers {
					wg.Go(func() {
						for r := range rounds {
							begun := time.Now()
							l.try(t.Context(), time.Time{}, []*item{{key: fmt.Sprint(n, "-", r)}})
							if took := time.Since(begun); took > c.longest {
								t.Errorf("a step took %s, want at most %s", took, c.longest)
							}
						}
					})
				}
				wg.Wait()
				if got := float64(c.callers*rounds) / float64(batches.Load()); got < c.least || c.least == 1 && got > 1 {
					t.Errorf("%.1f steps in a batch, want %.0f", got, c.least)
				}
			})
		})
	}
}

// A try that hangs holds up nobody but those who are in it, whatever crowd there was before.
func TestCrowdBesideAHang(t *testing.T) {
	for _, c := range []struct{ before, callers int }{{0, 1}, {0, 24}, {64, 1}, {64, 4}, {64, 64}, {200, 24}} {
		t.Run(fmt.Sprint(c.before, " then ", c.callers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const hang = 5 * time.Second
				var hangs atomic.Bool
				var hit atomic.Int64 // how many are in the try that hangs
				l := newLane(4, newPool(4, nil), func(items []*item) {
					if hangs.CompareAndSwap(true, false) {
						hit.Store(int64(len(items)))
						time.Sleep(hang)
						return
					}
					time.Sleep(time.Millisecond)
				})
				defer l.close()
				var n atomic.Int64
				try := func() time.Duration {
					begun := time.Now()
					l.try(t.Context(), time.Time{}, []*item{{key: fmt.Sprint(n.Add(1))}})
					return time.Since(begun)
				}
				var wg sync.WaitGroup
				for range c.before {
					wg.Go(func() {
						for range 20 {
							try()
						}
					})
				}
				wg.Wait()
				hangs.Store(true)
				var waited atomic.Int64
				begun := time.Now()
				for k := range c.callers {
					wg.Go(func() {
						time.Sleep(time.Duration(k) * 100 * time.Microsecond)
						for time.Since(begun) < hang {
							if try() > 3*patience {
								waited.Add(1)
							}
							time.Sleep(5 * time.Millisecond)
						}
					})
				}
				wg.Wait()
				if waited.Load() != hit.Load() {
					t.Errorf("%d waited, want the %d that were in the try which hung", waited.Load(), hit.Load())
				}
			})
		})
	}
}

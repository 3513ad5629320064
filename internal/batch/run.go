package batch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
)

// Client is what a run needs of a payclient.Client.
type Client interface {
	Pay(ctx context.Context, intent attempt.Intent) (payclient.Result, error)
	Check(ctx context.Context, slot attempt.Slot) (payclient.Result, error)
	Status(ctx context.Context, slot attempt.Slot) (payclient.Result, error)
}

// Store is what a run needs of an attempt.Store: it only reads.
type Store interface {
	Slot(ctx context.Context, slot attempt.Slot) (attempt.View, error)
}

// Rows is where the rows come from: a [Reader].
type Rows interface {
	Next() (Row, error)
}

// Run pays the rows of a file, several at once, and reports them in the file's order.
type Run struct {
	Client Client
	Store  Store
	Rows   Rows
	// Report is told of each row, in the file's order, by one goroutine. Its first error stops the run; it is told all the same
	// of what has begun, so that it can count it.
	Report func(Result) error

	// Concurrency is how many calls may be under way at once; at least 1.
	Concurrency int
	// Claim is how long a claim lasts: how long a row may wait for a run that is dead or runs beside this one.
	Claim time.Duration
	// SettleFor is how long the provider is asked about a row that is unknown before the row is reported as that.
	SettleFor time.Duration
	// BreakerWait is how long the client's circuit breaker stays open.
	BreakerWait time.Duration
	// CanAsk: the provider can be asked about a payment.
	CanAsk bool
	// RetryDeclined starts declined and rejected rows anew: those that were that when the run began.
	RetryDeclined bool
	// Place is where the client pays. What was sent to another is never sent here, and never told as paid here.
	Place attempt.Place
	// Digester recognises the rows' sources, as the client does.
	Digester attempt.Digester
	// Waits is told of waits, once of each, by several goroutines. Nil: nobody wants to know.
	Waits func(Wait)

	began time.Time   // by the store's clock
	heard atomic.Bool // the provider has answered
	turns chan struct{}
	stop  atomic.Pointer[Stop]
	pause atomic.Int64 // local Unix nanoseconds: nothing is started before
	told  atomic.Int64 // local Unix nanoseconds: when it was last told that the breaker is open
	tally tally

	unread atomic.Int32 // looks at slots in a row that have failed, where nothing is sent any more
}

// maxWaiting bounds the rows that have begun or ended and are not reported yet, because one before them has not ended.
const maxWaiting = 4096

// StopKind says why a run ended before its file did.
type StopKind uint8

// Why a run ends early.
const (
	StopProvider    StopKind = iota + 1 // credentials or configuration: the provider refuses whatever is sent
	StopUnreachable                     // no connection to the provider, again and again
	StopUnreadable                      // the provider's answers are not those of its API, again and again
	StopStore                           // the store cannot be read or written
	StopInput                           // the file could not be read to its end
	StopOutput                          // the results cannot be reported
	StopInterrupted                     // told to end
)

// Stop is why a run ended early.
type Stop struct {
	Kind StopKind
	Err  error
}

// tells says whether the rest of the file is still read, and told of from the store as far as that can be read.
func (s *Stop) tells() bool { return s.Kind <= StopStore }

// notBegun says why a row was not begun.
func (s *Stop) notBegun() string {
	switch s.Kind {
	case StopStore:
		return fmt.Sprintf("not begun: the database failed: %v", s.Err)
	case StopProvider, StopUnreachable, StopUnreadable:
		return fmt.Sprintf("not tried: %v", s.Err)
	}
	return fmt.Sprintf("stopped before its turn: %v", s.Err)
}

// Do runs. When start is cancelled no further row is begun; calls under way end as they would. When calls is cancelled
// they end too, and their outcomes are stored all the same.
//
// It returns nil when the whole file was read and every row had its turn, else why that was not so.
func (r *Run) Do(start, calls context.Context) *Stop {
	r.turns = make(chan struct{}, r.Concurrency)
	if view, err := r.slot(calls, attempt.Slot{Order: "-"}.WithDefaults()); err != nil {
		r.began = time.Now() // nothing is begun, so that its clock matters to nobody
		r.stopBy(StopStore, err)
	} else {
		r.began = view.Now
	}
	waiting := make(chan *entry, maxWaiting)
	go func() {
		defer close(waiting)
		r.dispatch(start, calls, waiting)
	}()
	var failed error
	for e := range waiting {
		r.await(e)
		// Also those of which nobody hears any more are counted.
		if err := r.Report(e.now()); err != nil && failed == nil {
			failed = err
			r.stopBy(StopOutput, failed)
		}
	}
	return r.stop.Load()
}

// readLimit bounds a read of the store by a row that is to be paid. A store that takes so long is as good as away, and whoever waits
// for the run cannot tell.
const readLimit = 15 * time.Second

func (r *Run) slot(ctx context.Context, slot attempt.Slot) (attempt.View, error) {
	ctx, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	return r.Store.Slot(ctx, slot)
}

func (r *Run) stopBy(kind StopKind, err error) { r.stop.CompareAndSwap(nil, &Stop{kind, err}) }

// entry is a row that waits to be reported.
type entry struct {
	done    chan struct{}
	payment atomic.Pointer[payment] // once it is begun
	result  Result
	ended   time.Time
	look    func() Result // what to tell of a row that was not begun, when it is told; nil: result
}

// stale is how old a row's result may be that says that nothing was sent, without another look at the store.
const stale = 500 * time.Millisecond

// now is what is to be told of the row at this moment.
func (e *entry) now() Result {
	p := e.payment.Load()
	switch {
	case e.look != nil:
		return e.look()
	case p != nil && e.result.Outcome == NotSent && time.Since(e.ended) > stale:
		return p.stillNotSent(e.result)
	}
	return e.result
}

func (e *entry) end(result Result) {
	e.result, e.ended = result, time.Now()
	close(e.done)
}

// tellLater ends a row that was not begun: what is told of it is what is so when it is told.
func (e *entry) tellLater(look func() Result) {
	e.look = look
	close(e.done)
}

// read is what Rows gave.
type read struct {
	row Row
	err error
}

// readRows reads ahead by one row, apart from dispatch: a read from a pipe or a terminal may never return, and must not
// keep a run from ending. Then it ends with that read.
func (r *Run) readRows(reading context.Context) <-chan read {
	rows := make(chan read)
	go func() {
		defer close(rows)
		for {
			row, err := r.Rows.Next()
			select {
			case rows <- read{row, err}:
			case <-reading.Done():
				return
			}
			var refused *RowError
			if err != nil && !errors.As(err, &refused) {
				return
			}
		}
	}()
	return rows
}

// dispatch begins the rows in the file's order, each as soon as there is a turn for it.
func (r *Run) dispatch(start, calls context.Context, waiting chan<- *entry) {
	reading, enough := context.WithCancel(start)
	defer enough()
	rows := r.readRows(reading)
	for {
		var next read
		select {
		case next = <-rows:
		case <-start.Done():
		}
		if start.Err() != nil {
			r.stopBy(StopInterrupted, context.Cause(start))
			return
		}
		var refused *RowError
		switch {
		case errors.Is(next.err, io.EOF):
			return
		case next.err != nil && !errors.As(next.err, &refused):
			r.stopBy(StopInput, next.err)
			return
		}
		e := &entry{done: make(chan struct{})}
		select {
		case waiting <- e:
		case <-start.Done():
			r.stopBy(StopInterrupted, context.Cause(start))
			return
		}
		if refused != nil {
			e.end(refusedRow(refused))
			continue
		}
		if !r.begin(start, calls, e, next.row) {
			return
		}
	}
}

// begin begins a row, or tells of it where the run has stopped; false: no further row is begun.
func (r *Run) begin(start, calls context.Context, e *entry, row Row) bool {
	p := &payment{run: r, start: start, row: row, judged: make(chan struct{})}
	p.calls = context.WithValue(calls, askedKey{}, &p.asked)
	if r.stop.Load() == nil {
		p.takeTurn()
	}
	stop := r.stop.Load()
	switch {
	case stop == nil && start.Err() != nil:
		e.tellLater(func() Result { return p.fromStore(Interrupted, "interrupted before its turn") })
		r.stopBy(StopInterrupted, context.Cause(start))
		return false
	case stop == nil:
		e.payment.Store(p)
		go func() {
			result := p.pay()
			p.judge(result)
			p.endTurn()
			e.end(result)
		}()
		r.probe(start, p)
		return true
	}
	p.endTurn()
	e.tellLater(func() Result { return p.fromStore(Stopped, stop.notBegun()) })
	return stop.tells()
}

// probeTime is how long the rows behind wait for one that may be the first to hear from the provider.
const probeTime = time.Second

// probe lets rows go one by one until the provider has answered: with wrong credentials one row is refused, not as many as
// may be under way at once.
func (r *Run) probe(start context.Context, p *payment) {
	if r.heard.Load() {
		return
	}
	timer := time.NewTimer(probeTime)
	defer timer.Stop()
	select {
	case <-p.judged:
	case <-timer.C:
		r.heard.Store(true) // it is slow: what it will say is not worth more waiting
	case <-start.Done():
	}
}

package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/money"
)

// What a payment costs the store: two durable steps with their events. The store is compared with hand-written SQL that
// writes the same rows with the same durability into the same schema, in one run and turn by turn, so that whatever else
// the machine does meets both alike. The hand-written side has its JSON ready made and decides nothing.

// pay is one payment as the client makes it: start and claim in one step, then the outcome.
func pay(ctx context.Context, store attempt.Store, order string) error {
	slot := attempt.Slot{Order: order}.WithDefaults()
	begin := &attempt.Start{
		Slot:     slot,
		Intent:   attempt.Intent{Order: order, Amount: benchAmount, Source: attempt.Token("tok_visa")},
		Provider: "standard", Environment: "test", Who: "host-1",
		Claim: 15 * time.Second, SendSpan: 10 * time.Second, FirstCheck: 2 * time.Minute, PreparedAfter: 24 * time.Hour,
		New: func(int) (attempt.Attempt, error) { return benchAttempt() },
	}
	if err := store.Apply(ctx, &attempt.Step{Slot: slot, Fresh: true, Do: begin.Decide}); err != nil {
		return err
	}
	if begin.Decision.Kind != attempt.DecidedSend {
		return fmt.Errorf("decided %d for a new order", begin.Decision.Kind)
	}
	known := begin.Decision.Attempt
	outcome := &attempt.Record{ID: known.ID, Who: "host-1", Evidence: attempt.Evidence{
		Kind: attempt.EvidenceSends, Fence: 1, Sends: []attempt.Send{benchSend(known.ID)},
	}}
	if err := store.Apply(ctx, outcome.Step(&known)); err != nil {
		return err
	}
	if outcome.Attempt.Status != attempt.StatusApproved {
		return fmt.Errorf("ended as %s", outcome.Attempt.Status)
	}
	return nil
}

var benchAmount = money.MustParse("548.90", "TRY")

func benchAttempt() (attempt.Attempt, error) {
	identity, err := attempt.NewIdentity("co-")
	return attempt.Attempt{
		ID: identity.ID, Key: identity.Key, Reference: identity.Reference, Amount: benchAmount,
		Source: attempt.Digest{Sum: strings.Repeat("5a", 32)}, Provider: "standard", Environment: "test",
		Body: []byte(`{"amount":54890,"currency":"TRY","source":"` + "\x00" + `","description":"","merchant_reference":"` +
			identity.Reference + `"}`),
		BodyDigest: strings.Repeat("a5", 32),
	}, err
}

func benchSend(id string) attempt.Send {
	return attempt.Send{
		StartedAt: time.Now().UTC(), Took: 312 * time.Millisecond,
		Charge: &attempt.Charge{ID: "ch_" + id, Status: attempt.ChargeSucceeded, Amount: benchAmount},
		Answer: attempt.Answer{Verdict: attempt.Charged, StatusCode: 201, RequestID: "req_" + id},
	}
}

// handWritten writes a payment's rows with plain database/sql and prepared statements.
type handWritten struct {
	db    *sql.DB
	mu    sync.Mutex // one writer; a second BEGIN IMMEDIATE would only be told that the database is locked
	start [3]*sql.Stmt
	end   [2]*sql.Stmt
	jobs  chan job
	done  chan struct{}

	claims, charges, answer, evidence string
}

// job is a part of a payment that waits to be written.
type job struct {
	write func(*sql.Tx) error
	err   chan error
}

func newHandWritten(b *testing.B) *handWritten {
	path := filepath.Join(b.TempDir(), "hand.db")
	open(b, path, sqlite.Options{}).Close() // for the schema
	u := url.URL{Scheme: "file", Path: path, RawQuery: "_txlock=immediate&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	h := &handWritten{db: db, jobs: make(chan job, 256), done: make(chan struct{})}
	prepare := func(text string) *sql.Stmt {
		s, err := db.Prepare(text)
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	marks := func(n int) string { return "(?" + strings.Repeat(",?", n-1) + ")" }
	h.start = [3]*sql.Stmt{
		prepare("INSERT INTO chargeonce_slots (order_id, account, purpose, live) VALUES (?,?,?,?)"),
		prepare(`INSERT INTO chargeonce_attempts (id, slot, ordinal, idempotency_key, reference, amount, currency, decimals,
			source_key, source_digest, description, provider, provider_account, environment, created_at, body, body_digest, status,
			reason, version, updated_at, fence, claims, first_claim_at, next_check_at)
			VALUES ` + marks(25)),
		prepare(`INSERT INTO chargeonce_events (attempt_id, version, what, from_status, to_status, at, who)
			VALUES ` + marks(7)),
	}
	h.end = [2]*sql.Stmt{
		prepare(`UPDATE chargeonce_attempts SET status=?, reason=?, version=2, updated_at=?, claims=NULL, sends=1,
			last_sent_at=?, answer=?, charges=?, charge_id=?, next_check_at=NULL WHERE id=? AND version=1`),
		prepare(`INSERT INTO chargeonce_events (attempt_id, version, what, from_status, to_status, at, who, evidence)
			VALUES ` + marks(8)),
	}
	text := func(v any) string {
		t, err := json.Marshal(v)
		if err != nil {
			b.Fatal(err)
		}
		return string(t)
	}
	send := benchSend("00000000-0000-7000-8000-000000000000")
	h.claims = text([]attempt.Claim{{Fence: 1, Until: time.Now().UTC().Truncate(time.Microsecond)}})
	h.charges, h.answer = text([]attempt.Charge{*send.Charge}), text(send.Answer)
	h.evidence = text(attempt.Evidence{Kind: attempt.EvidenceSends, Fence: 1, Sends: []attempt.Send{send}})
	go h.group()
	b.Cleanup(func() {
		close(h.jobs)
		<-h.done
		db.Close()
	})
	return h
}

// pay writes a payment; part runs each of its two parts in a transaction.
func (h *handWritten) pay(order string, part func(func(*sql.Tx) error) error) error {
	a, err := benchAttempt()
	if err != nil {
		return err
	}
	now := time.Now().UnixMicro()
	err = part(func(tx *sql.Tx) error {
		res, err := tx.Stmt(h.start[0]).Exec(order, "", "charge", a.ID) //nolint:sqlclosecheck // the transaction closes it
		if err != nil {
			return err
		}
		slot, err := res.LastInsertId()
		if err != nil {
			return err
		}
		_, err1 := tx.Stmt(h.start[1]).Exec(a.ID, slot, 1, a.Key, a.Reference, a.Amount.Minor(), "TRY", 2, //nolint:sqlclosecheck // the transaction closes it
			"", a.Source.Sum, "", a.Provider, "", a.Environment, now, a.Body, a.BodyDigest, "sending",
			"in_flight", 1, now, 1, h.claims, now, now+120_000_000)
		_, err2 := tx.Stmt(h.start[2]).Exec(a.ID, 1, "started_claimed", "prepared", "sending", now, "host-1") //nolint:sqlclosecheck // the transaction closes it
		return errors.Join(err1, err2)
	})
	if err != nil {
		return err
	}
	now = time.Now().UnixMicro()
	return part(func(tx *sql.Tx) error {
		_, err1 := tx.Stmt(h.end[0]).Exec("approved", "", now, now, h.answer, h.charges, "ch_"+a.ID, a.ID)     //nolint:sqlclosecheck // the transaction closes it
		_, err2 := tx.Stmt(h.end[1]).Exec(a.ID, 2, "learnt", "sending", "approved", now, "host-1", h.evidence) //nolint:sqlclosecheck // the transaction closes it
		return errors.Join(err1, err2)
	})
}

// each commits a part by itself.
func (h *handWritten) each(f func(*sql.Tx) error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	tx, err := h.db.Begin()
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// grouped commits a part together with whatever else is waiting.
func (h *handWritten) grouped(f func(*sql.Tx) error) error {
	j := job{write: f, err: make(chan error, 1)}
	h.jobs <- j
	return <-j.err
}

func (h *handWritten) group() {
	defer close(h.done)
	for j := range h.jobs {
		batch := []job{j}
		for more := true; more; {
			select {
			case j, ok := <-h.jobs:
				if more = ok; ok {
					batch = append(batch, j)
				}
			default:
				more = false
			}
		}
		tx, err := h.db.Begin()
		for i := 0; i < len(batch) && err == nil; i++ {
			err = batch[i].write(tx)
		}
		if err == nil {
			err = tx.Commit()
		}
		for _, j := range batch {
			j.err <- err
		}
	}
}

// rival is one way to write payments.
type rival struct {
	name string
	pay  func(order string) error
}

// race lets the rivals write payments turn by turn, and reports the first one's speed as a multiple of each other's: the
// median over all turns. One iteration is a whole race.
func race(b *testing.B, callers, payments int, rivals ...rival) {
	took := make([][]time.Duration, len(rivals))
	turn := 0
	for b.Loop() {
		for range 9 {
			turn++
			for i := range rivals {
				i := (i + turn) % len(rivals)
				took[i] = append(took[i], drive(b, callers, payments, func(n int) error {
					return rivals[i].pay(fmt.Sprintf("order-%d-%d", turn, n))
				}))
			}
		}
	}
	for i, r := range rivals {
		var ratios []float64
		for n := range took[i] {
			ratios = append(ratios, float64(took[i][n])/float64(took[0][n]))
		}
		slices.Sort(ratios)
		if i > 0 {
			b.ReportMetric(ratios[len(ratios)/2], "x-"+r.name)
		}
		sorted := slices.Sorted(slices.Values(took[i]))
		b.ReportMetric(float64(payments)/sorted[len(sorted)/2].Seconds(), r.name+"/s")
	}
	b.ReportMetric(0, "ns/op") // of a whole race: says nothing
}

// drive makes payments with a number of callers at once.
func drive(b *testing.B, callers, payments int, pay func(n int) error) time.Duration {
	begun := time.Now()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := c; n < payments; n += callers {
				if err := pay(n); err != nil {
					b.Errorf("payment %d: %v", n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(begun)
}

// BenchmarkBriefs recognises the lines of a settlement report, a thousand at a time, in the order of time as reports have them.
func BenchmarkBriefs(b *testing.B) {
	s := open(b, file(b), sqlite.Options{})
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	const attempts, lines = 20_000, 1000
	drive(b, 256, attempts, func(n int) error { return pay(b.Context(), s, fmt.Sprint(n)) })
	var ids, charges []string
	for a, err := range s.List(b.Context(), attempt.Filter{}) {
		if err != nil {
			b.Fatal(err)
		}
		ids, charges = append(ids, a.ID), append(charges, a.ChargeID)
	}
	for name, ask := range map[string]func(from int) ([]attempt.Brief, error){
		"by=id":     func(from int) ([]attempt.Brief, error) { return s.Briefs(b.Context(), ids[from:from+lines], nil) },
		"by=charge": func(from int) ([]attempt.Brief, error) { return s.Briefs(b.Context(), nil, charges[from:from+lines]) },
	} {
		b.Run(name, func(b *testing.B) {
			from, found := 0, 0
			for b.Loop() {
				got, err := ask(from)
				if err != nil || len(got) != lines {
					b.Fatalf("%d of %d lines: %v", len(got), lines, err)
				}
				from, found = (from+lines)%attempts, found+lines
			}
			b.ReportMetric(float64(found)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

func BenchmarkPayments(b *testing.B) {
	store := func(b *testing.B) rival {
		s := open(b, file(b), sqlite.Options{})
		b.Cleanup(func() {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
		return rival{"store", func(order string) error { return pay(context.Background(), s, order) }}
	}
	b.Run("callers=1", func(b *testing.B) {
		h := newHandWritten(b)
		race(b, 1, 100, store(b), rival{"hand", func(o string) error { return h.pay(o, h.each) }})
	})
	b.Run("callers=64", func(b *testing.B) {
		h, g := newHandWritten(b), newHandWritten(b)
		race(b, 64, 960, store(b),
			rival{"hand", func(o string) error { return h.pay(o, h.each) }},
			rival{"grouped", func(o string) error { return g.pay(o, g.grouped) }})
	})
}
